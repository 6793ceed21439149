import { randomUUID } from 'node:crypto';
import t from 'tap';
import { ledgerStore } from '../../../src/store/gateway/ledger.ts';
import { forgetOtherCluster, migrate } from '../../../src/store/schema/migrate.ts';
import { testDatabase } from '../../support/postgres.ts';
import { until } from '../../support/until.ts';
import { addUsage } from '../../support/usage.ts';

const MS = 10_000;
const { db } = await testDatabase(t);
const company = randomUUID();
const other = randomUUID();
const ahead = () =>
  db.run(
    MS,
    (sql) => sql<{ what: string }[]>`
      select 'change' as what from changes where xid >= pg_snapshot_xmax(pg_current_snapshot())
      union all select 'spend' from monthly_spend where changed_xid >= pg_snapshot_xmax(pg_current_snapshot())`,
  );

/** Waits for the end of transactions in other databases of this server: figures as new as they are read again. */
async function calm(): Promise<void> {
  const unsettled = () =>
    db.run(
      MS,
      (sql) => sql`select from monthly_spend
        where changed_xid >= pg_snapshot_xmin(pg_current_snapshot()) and changed_xid < '5000000000'`,
    );
  await until(async () => (await unsettled()).length === 0, 'older transactions of this server have ended');
}

t.test('a database of this server has nothing to forget', async (t) => {
  await db.run(MS, async (sql) => {
    await addUsage(sql, [{ company, prompt: 1000, input: '0.1' }]);
    await addUsage(sql, [{ company: other, prompt: 1000, input: '0.1' }]);
    await sql`insert into companies (id, name) values (${company}, 'Here')`;
  });
  const before = await db.run(MS, (sql) => sql`select changed_xid::text from monthly_spend order by company_id`);
  t.equal(await forgetOtherCluster(db), false);
  t.same(await db.run(MS, (sql) => sql`select changed_xid::text from monthly_spend order by company_id`), before);
});

t.test('ids of another server are forgotten at the start, by many replicas at once', async (t) => {
  await db.run(MS, async (sql) => {
    await sql`update changes set xid = '5000000000'`;
    await sql`update monthly_spend set changed_xid = '5000000000' where company_id = ${company}`;
  });
  t.strictSame(
    (await ahead()).map(({ what }) => what),
    ['change', 'spend'],
  );
  const store = ledgerStore(db);
  await calm();
  const { cursor } = await store.changedSpend(null);
  t.equal((await store.changedSpend(cursor)).sums.length, 1, 'such a figure is read again at every poll');
  await Promise.all([1, 2, 3, 4].map(() => migrate(db, { billingTimezone: 'UTC' })));
  t.same([...(await ahead())], []);
  const rows = await db.run(MS, (sql) => sql`select kind, subject from changes`);
  t.same([...rows], [{ kind: 'all', subject: '' }], 'replicas that run are told to forget what they know');
  await store.changedSpend(cursor);
  await calm();
  const settled = await store.changedSpend((await store.changedSpend(null)).cursor);
  t.same(settled.sums, [], 'and nothing is read twice any more');
});

t.test('a cursor of another server reads all that is current', async (t) => {
  await db.run(MS, (sql) => sql`update monthly_spend set billing_month = date_trunc('month', now())`);
  const store = ledgerStore(db);
  const { cursor } = await store.changedSpend(null);
  const [server] = cursor.split(' ');
  const foreign = `1700000000.5/16384 ${1e12}`;
  const read = await store.changedSpend(foreign);
  t.same(read.sums.map(({ id }) => id).sort(), [company, other].sort());
  t.ok(read.cursor.startsWith(`${server} `), 'and goes on with the ids of this one');
});
