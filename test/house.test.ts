import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { baseOfChange, changedFiles } from './support/changed.ts';

/**
 * The size of the house. Each figure is printed. Ceilings of tokens and words stand 2 % above the
 * figure, so that a comment or a small mend passes; the others are the figure itself. Raise one for
 * a feature only, and lower it where a change made room.
 */
const CEILINGS = {
  'files that spell a setting, at most': 10,
  'files that spell monthly_budget_eur': 26,
  'writes of the store that pages, commands and HTTP import': 0,
  'names exported by several files': 40,
  'words of Markdown': 54_040,
};

/** Ceilings of tokens by room: the folders of src, and "src" for the files beside them. */
const TOKENS: Readonly<Record<string, number>> = {
  admin: 182_440,
  cli: 72_680,
  demo: 11_570,
  domain: 175_190,
  events: 3_670,
  gateway: 43_470,
  http: 13_770,
  json: 30_750,
  ledger: 20_210,
  limits: 6_660,
  operations: 42_950,
  runtime: 7_930,
  src: 23_280,
  sse: 11_560,
  store: 155_670,
  tracing: 2_540,
  trail: 3_660,
  upstream: 24_150,
  workers: 6_790,
};

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const SRC = join(ROOT, 'src');
const FILES = readdirSync(SRC, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.ts') && !name.endsWith('.generated.ts'))
  .map((name) => ({ name, text: readFileSync(join(SRC, name), 'utf8') }));
/** Words of pages and refusals are told by language, beside the settings; comments are words too. */
const WORDS = /^domain\/(?:language\/|refusal\.ts)/;
const COMMENTS = /^ *\/\*\*[\s\S]*?\*\/|\/\/ .*$/gm;

const git = (...args: string[]) =>
  execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });

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
  const [, body = ''] =
    new RegExp(`^create table ${table} \\(\\n([\\s\\S]*?)^\\)`, 'm').exec(files.join('\n')) ?? [];
  return [...body.matchAll(/^ {2}([a-z_0-9]+) +[a-z]/gm)].map(([, column]) => column as string);
}

const filesWith = (word: string) =>
  FILES.filter(
    ({ name, text }) =>
      !WORDS.test(name) && new RegExp(`\\b${word}\\b`).test(text.replace(COMMENTS, '')),
  ).length;

function bound(t: Test, what: keyof typeof CEILINGS, figure: number): void {
  t.comment(`${what}: ${figure}`);
  t.ok(figure <= CEILINGS[what], `${what}: ${figure}, at most ${CEILINGS[what]}`);
}

/**
 * Words and signs of code, as a reader meets them: comments, imports and the ends of lines are left
 * out, so that neither a comment nor a wider line changes the figure.
 */
function tokensOf(text: string): number {
  const code = text
    .replace(/\/\*[\s\S]*?\*\//g, '')
    .replace(/^\s*\/\/.*$/gm, '')
    .replace(/^import [\s\S]*?;\n/gm, '')
    .replace(/,(?=\s*[)\]}])/g, '');
  return code.match(/[A-Za-z_$][\w$]*|\d[\w.]*|[^\s\w]/g)?.length ?? 0;
}

const roomOf = (name: string) => (name.includes('/') ? (name.split('/')[0] as string) : 'src');

/** The five files of a room that grew most since the branch of others, or else since the last commit. */
function grownMost(room: string): string {
  const changed = changedFiles() ?? [];
  const before = (name: string) => {
    try {
      return tokensOf(git('show', `${baseOfChange()}:src/${name}`));
    } catch {
      return 0; // the file is new
    }
  };
  const grown = FILES.filter(({ name }) => roomOf(name) === room && changed.includes(`src/${name}`))
    .map(({ name, text }) => ({ name, by: tokensOf(text) - before(name) }))
    .filter(({ by }) => by > 0);
  return grown
    .sort((a, b) => b.by - a.by)
    .slice(0, 5)
    .map(({ name, by }) => `src/${name} +${by}`)
    .join(', ');
}

t.test('a room has at most so many tokens', async (t) => {
  const rooms = Map.groupBy(FILES, ({ name }) => roomOf(name));
  let total = 0;
  for (const [room, files] of [...rooms].sort(([a], [b]) => a.localeCompare(b))) {
    const figure = files.reduce((sum, { text }) => sum + tokensOf(text), 0);
    total += figure;
    t.comment(`${room}: ${figure} tokens`);
    const ceiling = TOKENS[room] ?? 0;
    t.ok(
      figure <= ceiling,
      figure <= ceiling
        ? `${room} has ${figure} tokens, at most ${ceiling}`
        : `${room} has ${figure} tokens, ${figure - ceiling} above its ceiling. Grown most: ${grownMost(room) || 'no file'}. Take out what the change made needless, or say it once; raise the ceiling in test/house.test.ts only for a feature, and name it in the commit.`,
    );
  }
  t.comment(`src: ${total} tokens`);
});

t.test('a setting is spelled in at most so many files', async (t) => {
  const names = Object.entries(SETTINGS).flatMap(([table, pattern]) =>
    columnsOf(table).filter((c) => pattern.test(c)),
  );
  const counts = new Map([...new Set(names)].map((name) => [name, filesWith(name)]));
  counts.delete('monthly_budget_eur'); // of several nouns, below
  t.ok(counts.size >= 15, 'the columns are found');
  for (const [name, count] of [...counts].sort(([, a], [, b]) => b - a))
    t.comment(`${name}: ${count} files`);
  bound(t, 'files that spell a setting, at most', Math.max(...counts.values()));
  bound(t, 'files that spell monthly_budget_eur', filesWith('monthly_budget_eur'));
});

t.test('what pages, commands and HTTP write, an operation writes for them', async (t) => {
  const write =
    /^(?!endOf\b)(?:create|update|set|remove|revoke|rotate|close|reopen|erase|end|schedule|import|insert|delete|replay|retry|free|forget|take|give|ask|note|begin|confirm|replace|make|dismiss)[A-Z]/;
  const imports = FILES.filter(({ name }) => /^(?:admin|cli)\//.test(name)).flatMap(
    ({ name, text }) =>
      [...text.matchAll(/^import \{([^}]*)\} from '[^']*\/store\/[^']*'/gm)].flatMap(
        ([, names = '']) =>
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
    [
      ...text.matchAll(
        /^export (?:abstract )?(?:async )?(?:const|function\*?|class|interface|type|let) (\w+)/gm,
      ),
    ].map(([, each]) => ({ each: each as string, name })),
  );
  const several = [...Map.groupBy(exported, ({ each }) => each)]
    .map(([each, all]) => ({ each, files: [...new Set(all.map(({ name }) => name))] }))
    .filter(({ files }) => files.length > 1);
  for (const { each, files } of several) t.comment(`${each}: ${files.join(', ')}`);
  bound(t, 'names exported by several files', several.length);
});

t.test('documents have at most so many words', async (t) => {
  const names = execFileSync('git', ['ls-files', '*.md'], { cwd: ROOT, encoding: 'utf8' })
    .trim()
    .split('\n');
  const words = names.map(
    (name) => readFileSync(join(ROOT, name), 'utf8').split(/\s+/).filter(Boolean).length,
  );
  bound(
    t,
    'words of Markdown',
    words.reduce((sum, each) => sum + each, 0),
  );
});
