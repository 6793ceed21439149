import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import type { Database } from '../src/store/connection/pool.ts';
import { tollgate } from './support/cli.ts';
import { testDatabase } from './support/postgres.ts';

/** What comments and documents say of the repository, tried. */

const ROOT = fileURLToPath(new URL('..', import.meta.url));
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const FILES = execFileSync('git', ['ls-files'], { cwd: ROOT, encoding: 'utf8' }).trim().split('\n');

/** Names that stand for files elsewhere, or that a reader makes. */
const ELSEWHERE = /^(node_modules|dist|build|lib)\/|^\d{4}_\w+\.sql$/;
/** The kinds of file of which comments speak, and how a comment begins. */
const NAMED =
  /(?<![\w@./-])((?:\.{0,2}[\w-]+\/)*[\w-]+(?:\.[\w-]+)*\.(?:ts|sql|md))(?![\w-]|\.\w)/g;
const COMMENT = /^\s*(?:\/\/|\/?\*+|--|#)\s.*|\s(?:\/\/|--) .*$/gm;

/** What a file says to people: its comments; of a document all but its code. */
function saidIn(path: string): string {
  const text = read(path);
  if (path.endsWith('.md')) return text.replace(/^```[\s\S]*?^```/gm, '');
  return (text.match(COMMENT) ?? []).join('\n');
}

t.test('every file of the repository that a comment or a document names is there', async (t) => {
  for (const path of FILES) {
    if (
      !/\.(ts|js|sql|md|ya?ml|go)$|^(Makefile|Dockerfile)$/.test(path) ||
      /\.generated\./.test(path)
    )
      continue;
    if (path === '.github/CHANGELOG.md') continue; // tells of files that were there
    if (!existsSync(join(ROOT, path))) continue; // removed, and not yet committed
    for (const [, name = ''] of saidIn(path).matchAll(NAMED)) {
      if (ELSEWHERE.test(name)) continue;
      const isThere = [dirname(path), '.', 'src', 'test', 'bench'].some((place) =>
        existsSync(join(ROOT, place, name)),
      );
      t.ok(isThere || FILES.some((file) => file.endsWith(`/${name}`)), `${path} names ${name}`);
    }
  }
});

/** Documents whose commands work on a new database with one company, as a reader pastes them; without those that a date ends. */
const PASTED = [
  'src/cli/README.md',
  'src/cli/keys.md',
  'src/admin/README.md',
  'src/admin/groups.md',
  'src/admin/usage.md',
];

for (const path of PASTED) {
  t.test(`the commands of ${path} work when they are pasted`, async (t) => {
    const { url, db } = await testDatabase(t);
    const env = { DATABASE_URL: url, UPSTREAM_URL: 'http://127.0.0.1:1' };
    const run = (line: string) => tollgate(wordsOf(line), { env, stdin: 'no key' });
    if (path !== 'src/cli/README.md') {
      await run('company create --name First');
      for (const slug of ['fast', 'tiny'])
        await run(
          `model create --slug ${slug} --upstream a --kind chat --eu-hosted true --input-price 1 --output-price 1`,
        );
    }
    const newest = async (table: string): Promise<string> => {
      const rows = await db.run(
        10_000,
        (sql) =>
          sql<{ id: string }[]>`select id from ${sql(table)} order by created_at desc limit 1`,
      );
      return rows[0]?.id as string;
    };
    const blocks = [...read(path).matchAll(/^```sh\n([\s\S]*?)^```/gm)].map(
      ([, block]) => block as string,
    );
    const lines = blocks.flatMap((block) =>
      [...block.matchAll(/^npx tollgate (.*?) *(?:#.*|< \S+.*)?$/gm)].map(
        ([, line]) => line as string,
      ),
    );
    t.ok(lines.length > 0);
    for (const line of lines) {
      let filled = line;
      if (line.includes('<COMPANY_ID>'))
        filled = filled.replaceAll('<COMPANY_ID>', await newest('companies'));
      if (line.includes('<KEY_ID>'))
        filled = filled.replaceAll('<KEY_ID>', await newest('api_keys'));
      if (line.includes('<REQUEST_ID>'))
        filled = filled.replaceAll('<REQUEST_ID>', await refusedRequest(db));
      const { code, err } = await run(filled);
      t.equal(code, 0, `${line}: ${err}`);
    }
  });
}

/** The words of a command line, as a shell splits them. */
function wordsOf(line: string): string[] {
  return [...line.matchAll(/'([^']*)'|(\S+)/g)].map(
    ([, quoted, plain]) => (quoted ?? plain) as string,
  );
}

/** A request that was refused just now: its id tells when. */
async function refusedRequest(db: Database): Promise<string> {
  const at = Date.now();
  const id = at
    .toString(16)
    .padStart(12, '0')
    .replace(/^(.{8})(.{4})$/, '$1-$2-7000-8000-000000000001');
  await db.run(
    10_000,
    (sql) => sql`select ensure_request_trail_day((now() at time zone 'UTC')::date)`,
  );
  await db.run(
    10_000,
    (sql) => sql`
      insert into request_trail (company_id, occurred_at, request_id, api_key_id, endpoint, status, duration_ms, added_us)
      select company_id, ${new Date(at)}, ${id}, id, 'chat.completions', 429, 1, 1 from api_keys limit 1`,
  );
  return id;
}
