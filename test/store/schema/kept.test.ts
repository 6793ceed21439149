import t from 'tap';
import { KEPT, KEPT_OF_SERVICE } from '../../../src/domain/settings/kept.ts';
import type { Database, Sql } from '../../../src/store/connection/pool.ts';
import { testDatabase } from '../../support/postgres.ts';

/** The list of what is kept, which people are shown, against the tables that there are. */

const MS = 60_000;
/** Types that keep no text. All others may, also those that come later. */
const NO_TEXT = [
  'bool',
  'date',
  'float8',
  'int2',
  'int4',
  'int8',
  'interval',
  'numeric',
  'timestamptz',
  'uuid',
  'xid8',
];

const LISTED = new Map(
  [...Object.values(KEPT), ...KEPT_OF_SERVICE.map(([tables]) => tables)].flatMap((tables) =>
    Object.entries(tables),
  ),
);

/** What is on the list or in the database and not in both, as `table.column` or `table`. */
async function differences(db: Database): Promise<string[]> {
  const rows = await db.run(MS, (sql: Sql) => {
    return sql<{ relation: string; columns: string[] }[]>`
      select c.relname as relation, coalesce(array_agg(a.attname::text) filter (where y.typname <> all (${NO_TEXT}::text[])), '{}') as columns
      from pg_class c join pg_attribute a on a.attrelid = c.oid join pg_type d on d.oid = a.atttypid
        join pg_type y on y.oid = coalesce(nullif(d.typbasetype, 0), d.oid)
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'm', 'f') and not c.relispartition
        and a.attnum > 0 and not a.attisdropped group by 1`;
  });
  const found = new Map(rows.map(({ relation, columns }) => [relation, columns]));
  const columnsOf = (text: string | undefined) =>
    (text ?? '').split(' ').filter((column) => column !== '');
  const differing = [...new Set([...found.keys(), ...LISTED.keys()])].flatMap((table) => {
    if (!LISTED.has(table)) return `${table} is not on the list`;
    const [there, listed] = [found.get(table), columnsOf(LISTED.get(table))];
    if (there === undefined) return `${table} is on the list, and not there`;
    return [
      ...there
        .filter((column) => !listed.includes(column))
        .map((column) => `${table}.${column} is not on the list`),
      ...listed
        .filter((column) => !there.includes(column))
        .map((column) => `${table}.${column} is on the list, and not there`),
    ];
  });
  return differing.sort();
}

t.test('every column that may keep a text is on the list, and nothing else', async (t) => {
  const { db } = await testDatabase(t);
  t.same(await differences(db), []);
});

t.test(
  'a column or a table that somebody adds is found, of whatever type that may keep a text',
  async (t) => {
    const { db } = await testDatabase(t);
    await db.run(MS, (sql: Sql) =>
      sql.unsafe(`
      create type note as (words text);
      create domain short as varchar(10);
      alter table users add column nickname text, add column photo bytea, add column tags text[], add column numbers integer[],
        add column more jsonb, add column other json, add column note note, add column short short, add column fixed char(3),
        add column network inet, add column visits integer, add column born date;
      create table diaries (id uuid);
      alter table invitations drop column created_by`),
    );
    t.same(
      await differences(db),
      [
        'diaries is not on the list',
        'invitations.created_by is on the list, and not there',
        ...[
          'fixed',
          'more',
          'network',
          'nickname',
          'note',
          'numbers',
          'other',
          'photo',
          'short',
          'tags',
        ].map((column) => `users.${column} is not on the list`),
      ].sort(),
    );
  },
);

t.test('what an erasure reaches is on the list, as of the company or its people', async (t) => {
  const { db } = await testDatabase(t);
  const rows = await db.run(
    MS,
    (sql: Sql) =>
      sql<
        { table_name: string; column_name: string }[]
      >`select table_name, column_name from personal_data`,
  );
  for (const { table_name: table, column_name: column } of rows) {
    t.ok(LISTED.get(table)?.split(' ').includes(column) || column === '', `${table}.${column}`);
  }
});
