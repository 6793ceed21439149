import { randomUUID } from 'node:crypto';
import t from 'tap';
import { openDatabase, type Sql } from '../../src/store/connection/pool.ts';
import { migrate } from '../../src/store/schema/migrate.ts';
import { verifyLedger, verifySeals } from '../../src/store/statement/verify.ts';
import { addUsage } from '../support/usage.ts';
import { newCluster } from './cluster.ts';

t.test('a past month moves to cheaper storage and stays part of the ledger', async (t) => {
  const server = await newCluster(t);
  await server.start({ allow_in_place_tablespaces: 'on' });
  const db = openDatabase({ url: server.url });
  t.teardown(() => db.close());
  await migrate(db, { billingTimezone: 'UTC' });
  const company = randomUUID();
  const [{ month, partition } = { month: '', partition: '' }] = await server.sql<
    { month: string; partition: string }[]
  >`
    select to_char(now() - interval '1 month', 'YYYY-MM-01') as month,
      to_char(now() - interval '1 month', '"api_usage_"YYYY_MM') as partition`;
  const rows = (count: number) =>
    Array.from({ length: count }, () => ({ company, month, prompt: 10, input: '0.1' }));
  await db.run(60_000, (sql) => addUsage(sql, rows(100)));

  await server.sql`create tablespace cheap location ''`; // a folder on the disk of that name, in production
  await server.sql.unsafe(`do $$ declare index regclass; begin
    alter table ${partition} set tablespace cheap;
    for index in select indexrelid::regclass from pg_index where indrelid = '${partition}'::regclass
    loop execute format('alter index %s set tablespace cheap', index); end loop; end $$`);
  const moved = await server.sql`
    select from pg_class c join pg_tablespace s on s.oid = c.reltablespace where spcname = 'cheap' and relname like 'api_usage%'`;
  t.equal(moved.length, 3, 'the table and both of its indexes');

  await db.run(60_000, (sql) => addUsage(sql, rows(1))); // a record that comes late
  t.match(await db.run(60_000, verifyLedger), { differences: [] });
  t.match(await db.run(60_000, (sql: Sql) => verifySeals(sql)), { total: 0, unsealed: 101 });
});
