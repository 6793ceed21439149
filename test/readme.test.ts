import { readFileSync, writeFileSync } from 'node:fs';
import t from 'tap';
import { SECRETS_NOTE, VARIABLES } from '../src/config.ts';
import { STEERING } from '../src/domain/steering.ts';

const README = new URL('../README.md', import.meta.url);

/** The configuration table as Markdown, from the code that reads the environment. */
function table(): string {
  const rows = VARIABLES.map(
    ({ name, fallback, shown, meaning }) => `| \`${name}\` | ${shown ?? `\`${fallback}\``} | ${meaning} |`,
  );
  const note = SECRETS_NOTE.replace(/[A-Z_]{2,}/g, '`$&`');
  return ['| variable | default | meaning |', '|---|---|---|', ...rows, '', note].join('\n');
}

/** The text with everything between `<!-- name: … -->` and `<!-- /name -->` replaced. */
function filled(text: string, name: string, content: string): string {
  const block = new RegExp(`(<!-- ${name}:[^>]*-->\\n)[\\s\\S]*?(<!-- /${name} -->)`);
  return text.replace(block, (_all, begin, end) => `${begin}\n${content}\n\n${end}`);
}

t.test('the README tells every variable and every refused member as the code has them', async (t) => {
  const text = readFileSync(README, 'utf8');
  const refused = STEERING.map((name) => `\`${name}\``).join(', ');
  const expected = filled(filled(text, 'configuration', table()), 'refused', refused);
  if (process.env.UPDATE_README === '1') writeFileSync(README, expected);
  t.equal(text, expected, 'run UPDATE_README=1 node test/readme.test.ts');
});

t.test('every runtime dependency has a line that says why', async (t) => {
  const { dependencies } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  const text = readFileSync(README, 'utf8');
  for (const name of Object.keys(dependencies)) t.match(text, `\n| ${name} |`, name);
});
