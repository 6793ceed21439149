import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';

/**
 * The size of the house. Each figure is printed, and has a ceiling, which falls with the figure and rises only for a
 * feature: lower it where a change made room.
 */
const CEILINGS = {
  'lines of src': 78_718,
  'files that spell a setting, at most': 7,
  'files that spell monthly_budget_eur': 19,
  'writes of the store that pages, commands and HTTP import': 0,
  'names exported by several files': 32,
  'words of Markdown': 67_219,
};

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SRC = join(ROOT, 'src');
const FILES = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && !name.endsWith('.generated.ts'))
  .map((name) => ({ name, text: readFileSync(join(SRC, name), 'utf8') }));
/** Words of pages and refusals are told by language, beside the settings; comments are words too. */
const WORDS = /^domain\/(?:language\/|refusal\.ts)/;
const COMMENTS = /^ *\/\*\*[\s\S]*?\*\/|\/\/ .*$/gm;

/** The columns by which people set up companies, keys and models, as sql/schema has them, but for those whose name other nouns have too. */
const SETTINGS = {
  companies: /_slugs|allow_|budget|per_minute|max_concurrent|credit_limit|eu_locked|member_/,
  api_keys: /scopes|per_minute|max_concurrent|_slugs|budget|cidrs/,
  models: /eu_hosted|cost_eur|token_input/,
};

function columnsOf(table: string): string[] {
  const files = ['companies', 'keys', 'models', 'limits', 'budgets'].map((file) =>
    readFileSync(join(ROOT, 'sql', 'schema', `${file}.sql`), 'utf8'),
  );
  const [, body = ''] = new RegExp(`^create table ${table} \\(\\n([\\s\\S]*?)^\\)`, 'm').exec(files.join('\n')) ?? [];
  return [...body.matchAll(/^ {2}([a-z_0-9]+) +[a-z]/gm)].map(([, column]) => column as string);
}

const filesWith = (word: string) =>
  FILES.filter(({ name, text }) => !WORDS.test(name) && new RegExp(`\\b${word}\\b`).test(text.replace(COMMENTS, '')))
    .length;

function bound(t: Test, what: keyof typeof CEILINGS, figure: number): void {
  t.comment(`${what}: ${figure}`);
  t.ok(figure <= CEILINGS[what], `${what}: ${figure}, at most ${CEILINGS[what]}`);
}

t.test('src has at most so many lines', async (t) => {
  bound(
    t,
    'lines of src',
    FILES.reduce((sum, { text }) => sum + text.split('\n').length - 1, 0),
  );
});

t.test('a setting is spelled in at most so many files', async (t) => {
  const names = Object.entries(SETTINGS).flatMap(([table, pattern]) => columnsOf(table).filter((c) => pattern.test(c)));
  const counts = new Map([...new Set(names)].map((name) => [name, filesWith(name)]));
  counts.delete('monthly_budget_eur'); // of several nouns, below
  t.ok(counts.size >= 15, 'the columns are found');
  for (const [name, count] of [...counts].sort(([, a], [, b]) => b - a)) t.comment(`${name}: ${count} files`);
  bound(t, 'files that spell a setting, at most', Math.max(...counts.values()));
  bound(t, 'files that spell monthly_budget_eur', filesWith('monthly_budget_eur'));
});

t.test('what pages, commands and HTTP write, an operation writes for them', async (t) => {
  const write =
    /^(?:create|update|set|remove|revoke|rotate|close|reopen|erase|end|schedule|import|insert|delete|replay|retry|free|forget|take|give|ask|note|begin|confirm|replace|make|dismiss)[A-Z]/;
  const imports = FILES.filter(({ name }) => /^(?:admin|cli)\//.test(name)).flatMap(({ name, text }) =>
    [
      ...text.matchAll(/^import \{([^}]*)\} from '[^']*\/store\/(?:company|users|statement|events|gateway)\//gm),
    ].flatMap(([, names = '']) =>
      names
        .split(',')
        .map((each) => each.trim().split(' as ')[0] as string)
        .filter((each) => write.test(each))
        .map((each) => `${name}: ${each}`),
    ),
  );
  for (const each of imports) t.comment(each);
  bound(t, 'writes of the store that pages, commands and HTTP import', imports.length);
});

t.test('a name is exported by one file', async (t) => {
  const exported = FILES.flatMap(({ name, text }) =>
    [...text.matchAll(/^export (?:abstract )?(?:async )?(?:const|function\*?|class|interface|type|let) (\w+)/gm)].map(
      ([, each]) => ({ each: each as string, name }),
    ),
  );
  const several = [...Map.groupBy(exported, ({ each }) => each)]
    .map(([each, all]) => ({ each, files: [...new Set(all.map(({ name }) => name))] }))
    .filter(({ files }) => files.length > 1);
  for (const { each, files } of several) t.comment(`${each}: ${files.join(', ')}`);
  bound(t, 'names exported by several files', several.length);
});

t.test('documents have at most so many words', async (t) => {
  const names = execFileSync('git', ['ls-files', '*.md'], { cwd: ROOT, encoding: 'utf8' }).trim().split('\n');
  const words = names.map((name) => readFileSync(join(ROOT, name), 'utf8').split(/\s+/).filter(Boolean).length);
  bound(
    t,
    'words of Markdown',
    words.reduce((sum, each) => sum + each, 0),
  );
});
