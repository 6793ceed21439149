import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { allCommands } from '../../../src/cli/commands.ts';
import { tollgate } from '../../support/cli.ts';

/** Words behind the program's name, the last of which is completed; "_" is an empty one. */
const CASES: readonly (readonly [words: string, found: RegExp])[] = [
  ['comp', /^completion company$/],
  ['company _', /^create onboard /],
  ['company cr', /^create$/],
  ['company create --bud', /^--budget --budget-mode$/],
  ['company create --budget-mode _', /^standard strict$/],
  ['company create --budget-mode = st', /^standard strict$/],
  ['company create --name _', /^$/],
  ['company create --name x --js', /^--json$/],
  ['statement --company x --mon', /^--month$/],
  ['completion z', /^zsh$/],
];

const has = (shell: string) => spawnSync(shell, ['-c', 'exit 0']).status === 0;

t.test('bash completes commands, options and values', { skip: !has('bash') }, async (t) => {
  const { code, out } = await tollgate(['completion', 'bash']);
  t.equal(code, 0);
  const file = join(t.testdir(), 'completion.bash');
  writeFileSync(file, out);
  const commands = await allCommands();
  const lines = [...CASES.map(([words]) => words), ...commands.map(({ name }) => `${name} --`)];
  const script = `source "$0"; while IFS=' ' read -r -a words; do
    COMP_WORDS=(tollgate "\${words[@]}"); COMP_WORDS=("\${COMP_WORDS[@]/#_/}")
    COMP_CWORD=\${#words[@]}; _tollgate; echo "\${COMPREPLY[*]}"; done`;
  const input = lines.join('\n');
  const { stdout, stderr } = spawnSync('bash', ['-c', script, file], { input: `${input}\n` });
  t.equal(String(stderr), '');
  const answers = new Map(
    String(stdout)
      .split('\n')
      .map((line, at) => [lines[at], line]),
  );
  for (const [words, found] of CASES) t.match(answers.get(words), found, words);
  for (const { name, options } of commands) {
    const found = answers.get(`${name} --`)?.split(' ') ?? [];
    for (const { shown } of Object.values(options))
      t.ok(found.includes(shown.split(' ')[0] as string), `${name} ${shown}`);
  }
});

t.test('zsh takes the script, and gets each word with its meaning', async (t) => {
  const { out } = await tollgate(['completion', 'zsh']);
  t.match(out, /^#compdef tollgate\n/);
  t.match(out, / {4}'company create'\) next=\(.*'--budget:/);
  if (!has('zsh')) return;
  const file = join(t.testdir(), '_tollgate');
  writeFileSync(file, out);
  const described = `compdef() { :; }; compset() { :; }; _describe() { print -l -- \${(P)2}; }
    source "$0"; words=(tollgate "$@"); CURRENT=\${#words}; _tollgate`;
  const { stdout, stderr } = spawnSync('zsh', ['-f', '-c', described, file, 'company', 'onb']);
  t.equal(String(stderr), '');
  t.match(String(stdout), /^onboard:add a company with its limits/m);
});

t.test('another shell is refused', async (t) => {
  t.match(await tollgate(['completion', 'fish']), { code: 64, err: /bash or zsh, not "fish"/ });
});
