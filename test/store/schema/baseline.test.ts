import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import type { Database, Sql } from '../../../src/store/connection/pool.ts';
import { BASELINE, readFormer, SQL_DIRECTORY } from '../../../src/store/schema/files.ts';
import { migrate, pendingMigrations } from '../../../src/store/schema/migrate.ts';
import { emptyDatabase, testDatabase } from '../../support/postgres.ts';

const MS = 60_000;
const ROOT = fileURLToPath(new URL('../../..', import.meta.url));

interface File {
  readonly name: string;
  readonly text: string;
}

const LAST = 'sql/0053_spend_polls.sql';

/** The numbered files by which checkouts made the schema before there was a baseline; empty where the history is not here. */
function formerFiles(): File[] {
  const git = (...args: string[]) =>
    execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    const removal = git('log', '-1', '--format=%H', '--diff-filter=D', '--', 'sql/0001_gateway.sql').trim();
    const names = git('ls-tree', '--name-only', `${removal}^`, 'sql/').split('\n');
    const files = names.filter((name) => /^sql\/\d{4}_\w+\.sql$/.test(name) && name <= LAST);
    return files.map((path) => ({ name: path.slice('sql/'.length), text: git('show', `${removal}^:${path}`) }));
  } catch {
    return [];
  }
}

/** Applies files as those checkouts did. */
async function apply(db: Database, files: readonly File[]): Promise<void> {
  await db.transaction(MS, async (sql) => {
    await sql`create table schema_migrations (
      name text primary key, sha256 text not null, applied_at timestamptz not null default now(), needs text)`;
    await sql`select set_config('search_path', quote_ident(current_schema()) || ', pg_temp', true)`;
    for (const { name, text } of files) {
      await sql.unsafe(text);
      const sha256 = createHash('sha256').update(text).digest('hex');
      await sql`insert into schema_migrations (name, sha256) values (${name}, ${sha256})`;
    }
  });
}

/** All that a schema consists of, a line each: whatever says how a table came about, such as the order of columns, is left out. */
async function describeSchema(db: Database): Promise<string[]> {
  const ours = (table: string) =>
    `relnamespace = current_schema()::regnamespace and ${table} !~ '^(api_usage_2|request_trail_2|schema_migrations)'`;
  const relations = `(select * from pg_class where ${ours('relname')} and relkind in ('r', 'p', 'v'))`;
  const queries = [
    `select format('relation %s %s %s rls %s %s %s %s', c.relkind, c.relname, pg_get_partkeydef(c.oid), c.relrowsecurity,
      c.reloptions, c.relpersistence, obj_description(c.oid, 'pg_class')) from ${relations} c`,
    `select format('column %s.%s %s %s default %s %s %s %s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
        pg_get_expr(d.adbin, d.adrelid), a.attstorage, a.attidentity, col_description(c.oid, a.attnum))
      from ${relations} c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
      left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum`,
    // a check that was added to a table with rows is "not valid"; for new rows it is the same
    `select format('constraint %s %s %s', c.relname, x.conname, replace(pg_get_constraintdef(x.oid), ' NOT VALID', ''))
      from ${relations} c join pg_constraint x on x.conrelid = c.oid and x.contype <> 'n'`,
    `select 'index ' || pg_get_indexdef(i.indexrelid) from ${relations} c join pg_index i on i.indrelid = c.oid`,
    `select 'trigger ' || pg_get_triggerdef(x.oid) from pg_class c join pg_trigger x on x.tgrelid = c.oid
      where c.relnamespace = current_schema()::regnamespace and not x.tgisinternal`,
    `select format('function %s %s %s', pg_get_functiondef(oid), proacl, obj_description(oid, 'pg_proc')) from pg_proc
      where pronamespace = current_schema()::regnamespace`,
    `select format('policy %s %s %s', c.relname, polname, pg_get_expr(polqual, polrelid)) from pg_policy join ${relations} c on c.oid = polrelid`,
    `select format('rights %s %s', c.relname, array(select g::text from unnest(c.relacl) g order by 1)) from ${relations} c`,
    `select format('rights %s.%s %s', c.relname, a.attname, a.attacl) from ${relations} c
      join pg_attribute a on a.attrelid = c.oid where a.attacl is not null`,
    ...['settings', 'personal_data', 'alert_lease'].map((name) => `select '${name} ' || x::text from ${name} x`),
  ];
  const rows = await db.run(MS, (sql) =>
    sql.unsafe<{ line: string }[]>(
      `${queries.map((query) => `select * from (${query}) as q (line)`).join(' union all ')} order by 1`,
    ),
  );
  return rows.map(({ line }) => line);
}

t.test(
  'a database of the numbered files has the same schema as one of the baseline, and counts as having it',
  async (t) => {
    const files = formerFiles();
    if (files.length === 0) return t.comment('the history of this checkout does not have the numbered files');
    const [{ db: former }, { db: fresh }] = [await emptyDatabase(t), await testDatabase(t)];
    await apply(former, files);
    const between = readFormer(SQL_DIRECTORY).map(({ name }) => name);
    t.same(await pendingMigrations(former), between);
    t.same(await migrate(former, { billingTimezone: 'UTC' }), between, 'the files between the two follow');
    const [before, now] = [await describeSchema(former), await describeSchema(fresh)];
    t.ok(now.length > 900, 'there is much to compare');
    t.same(
      before.filter((line) => !now.includes(line)),
      [],
      'nothing went',
    );
    t.same(
      now.filter((line) => !before.includes(line)),
      [],
      'nothing came',
    );
    t.same(await pendingMigrations(former), []);
    t.same(await migrate(former, { billingTimezone: 'UTC' }), [], 'there is nothing to do');
    const directory = t.testdir({ migrations: { '0101_later.sql': 'alter table companies add column region text' } });
    cpSync(join(SQL_DIRECTORY, 'former'), join(directory, 'former'), { recursive: true });
    t.same(await migrate(former, { billingTimezone: 'UTC', directory }), ['0101_later.sql'], 'later files follow');
  },
);

t.test('a database with other numbered files is told what to run first', async (t) => {
  const { db } = await emptyDatabase(t);
  await apply(db, [{ name: '0001_gateway.sql', text: 'create table companies (id uuid)' }]);
  await t.rejects(migrate(db, { billingTimezone: 'UTC' }), {
    message:
      'an older checkout made these tables, up to 0001_gateway.sql: run "tollgate migrate" of the last checkout that has sql/0053_spend_polls.sql, then this one',
  });
  const tables = await db.run(MS, (sql: Sql) => sql`select from pg_class where relname = 'api_usage'`);
  t.equal(tables.length, 0, 'nothing was done');
});

t.test('the baseline is one transaction, and is applied once', async (t) => {
  const { db } = await emptyDatabase(t);
  await db.run(MS, (sql) => sql`create table upstream_costs (n integer)`); // the schema has one too
  await t.rejects(migrate(db, { billingTimezone: 'UTC' }), { message: /relation "upstream_costs" already exists/ });
  const tables = await db.run(MS, (sql) => sql`select from pg_class where relname in ('settings', 'companies')`);
  t.equal(tables.length, 0, 'what came before the failure is not there');
  await db.run(MS, (sql) => sql`drop table upstream_costs`);
  t.same(await migrate(db, { billingTimezone: 'UTC' }), [BASELINE]);
});
