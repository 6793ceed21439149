import { randomUUID } from 'node:crypto';
import t from 'tap';
import { ledgerStore } from '../../../src/store/gateway/ledger.ts';
import { forgetOtherCluster, migrate } from '../../../src/store/schema/migrate.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addUsage } from '../../support/usage.ts';

const MS = 60_000;
const { db } = await testDatabase(t);
const company = randomUUID();
const other = randomUUID();
const ahead = () =>
  db.run(
    MS,
    (sql) => sql<{ what: string }[]>`
      select 'change' as what from changes where xid >= pg_snapshot_xmax(pg_current_snapshot())
      union all select 'spend' from spend_changes where xid >= pg_snapshot_xmax(pg_current_snapshot())`,
  );

t.test('a database of this server has nothing to forget', async (t) => {
  await db.run(MS, async (sql) => {
    await addUsage(sql, [{ company, prompt: 1000, input: '0.1' }]);
    await addUsage(sql, [{ company: other, prompt: 1000, input: '0.1' }]);
    await sql`insert into companies (id, name) values (${company}, 'Here')`;
  });
  const rows = () =>
    db.run(MS, (sql) => sql`select company_id, xid::text from spend_changes order by xid`);
  const before = await rows();
  t.equal(before.length, 2);
  t.equal(await forgetOtherCluster(db), false);
  t.same(await rows(), before);
});

t.test('ids of another server are forgotten at the start, by many replicas at once', async (t) => {
  await db.run(MS, async (sql) => {
    await sql`update changes set xid = '5000000000'`;
    await sql`update spend_changes set xid = '5000000000' where company_id = ${company}`;
  });
  t.strictSame(
    (await ahead()).map(({ what }) => what),
    ['change', 'spend'],
  );
  const store = ledgerStore(db);
  const { cursor } = await store.changedSpend(null);
  t.equal(
    (await store.changedSpend(cursor)).sums.length,
    1,
    'such a figure is read again at every poll',
  );
  await Promise.all([1, 2, 3, 4].map(() => migrate(db, { billingTimezone: 'UTC' })));
  t.same([...(await ahead())], []);
  const rows = await db.run(MS, (sql) => sql`select kind, subject from changes`);
  t.same(
    [...rows],
    [{ kind: 'all', subject: '' }],
    'replicas that run are told to forget what they know',
  );
  t.same((await store.changedSpend(cursor)).sums, [], 'and nothing is read twice any more');
});

t.test('a cursor of another server reads all that is current', async (t) => {
  await db.run(
    MS,
    (sql) => sql`update monthly_spend set billing_month = date_trunc('month', now())`,
  );
  const store = ledgerStore(db);
  const { cursor } = await store.changedSpend(null);
  const [server, seconds, ...since] = cursor.split(' ');
  const all = [company, other].sort();
  const foreign = `1700000000.5/16384 ${seconds} ${1e12} ${1e12}:${1e12}:`;
  const read = await store.changedSpend(foreign);
  t.same(read.sums.map(({ id }) => id).sort(), all);
  t.ok(read.cursor.startsWith(`${server} `), 'and goes on with the ids of this one');
  t.same((await store.changedSpend(cursor)).sums, []);
  const old = [server, Number(seconds) - 3601, ...since].join(' ');
  t.same(
    (await store.changedSpend(old)).sums.map(({ id }) => id).sort(),
    all,
    'and so does one of an hour ago',
  );
});
