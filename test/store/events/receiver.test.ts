import t from 'tap';
import { openDatabase, type Sql } from '../../../src/store/connection/pool.ts';
import { eventStore } from '../../../src/store/events/event.ts';
import { testDatabase } from '../../support/postgres.ts';

/** Who of a company is told of its budgets by e-mail, and at which percentages. */

const MS = 60_000;
// on the first day of a month, on which there are no forecasts: this now() is found before the server's own
const { url, db: plain } = await testDatabase(t);
await plain.run(MS, (sql) =>
  sql.unsafe(
    `create function public.now() returns timestamptz language sql stable as 'select timestamptz ''2026-11-01T12:00:00Z''';`,
  ),
);
const db = openDatabase({
  url: `${url}${url.includes('?') ? '&' : '?'}search_path=public,pg_catalog`,
});
t.teardown(() => db.close());
const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(MS, work);
const store = eventStore(db, db);
const OPS = 'ops@tollgate.example';

let companies = 0;

/** A company with a budget of 100 EUR, people of each role, and some lines. */
async function company(
  lines: readonly {
    email: string | null;
    percents: number[];
    forecast?: boolean;
    agreed?: boolean;
  }[],
) {
  const domain = `c${++companies}.example`;
  const [row] = await run(
    (sql) =>
      sql<
        [{ id: string }]
      >`insert into companies (name, monthly_budget_eur) values (${domain}, 100) returning id`,
  );
  const { id } = row as { id: string };
  const at = (name: string) => `${name}@${domain}`;
  await run(
    (sql) => sql`insert into users (email, company_id, role) values
      (${at('owner')}, ${id}, 'owner'), (${at('admin')}, ${id}, 'administrator'), (${at('member')}, ${id}, 'member')`,
  );
  for (const { email, percents, forecast = false, agreed = false } of lines) {
    await run(
      (sql) => sql`insert into alert_receivers (company_id, email, percents, forecast, confirmed_at)
        values (${id}, ${email === null ? null : at(email)}, ${percents}::smallint[], ${forecast}, ${agreed ? sql`now()` : null})`,
    );
  }
  return {
    id,
    /** Spends so much of the budget, and returns who was told at which threshold, in words. */
    async spend(eur: number): Promise<string[]> {
      await run(
        (sql) =>
          sql`insert into chat_usage (company_id, occurred_at, cost_eur) values (${id}, '2026-11-01', ${eur})`,
      );
      const before = await deliveries();
      await store.look(null, { webhook: true, email: true, operators: [OPS] });
      return (await deliveries()).filter((each) => !before.includes(each));
    },
  };

  async function deliveries(): Promise<string[]> {
    const rows = await run(
      (sql) => sql<{ told: string }[]>`
        select concat(e.body ->> 'threshold', ' ', case d.channel when 'webhook' then 'webhook' else split_part(d.recipient, '@', 1) end) as told
        from event_deliveries d join events e on e.id = d.event_id
        where e.company_id = ${id} and e.kind = 'budget.threshold' order by 1`,
    );
    return rows.map(({ told }) => told);
  }
}

t.test('without a line, owners and administrators are told at 50, 80 and 100', async (t) => {
  const { spend } = await company([]);
  t.same(await spend(10), []);
  t.same(await spend(40), ['50 admin', '50 ops', '50 owner', '50 webhook']);
});

t.test(
  'a line of its own says what a person is told, members too; the others stay as they are',
  async (t) => {
    const { spend } = await company([
      { email: 'owner', percents: [10, 90] },
      { email: 'admin', percents: [] },
      { email: 'member', percents: [20] },
    ]);
    t.same(
      await spend(10),
      ['10 owner', '10 webhook'],
      'the operator is told at the usual ones only',
    );
    t.same(await spend(15), ['20 member', '20 webhook']);
    t.same(await spend(30), ['50 ops', '50 webhook']);
    t.same(
      await spend(40),
      ['90 ops', '90 owner', '90 webhook'],
      'by one message, where 80 was reached with it',
    );
  },
);

t.test('the line without an address is for owners and administrators who have none', async (t) => {
  const { spend } = await company([
    { email: null, percents: [75] },
    { email: 'owner', percents: [100] },
  ]);
  t.same(await spend(60), ['50 ops', '50 webhook']);
  t.same(await spend(17), ['75 admin', '75 webhook']);
  t.same(await spend(30), ['100 ops', '100 owner', '100 webhook']);
});

t.test('an address outside the company is told nothing until its reader agreed', async (t) => {
  const books = { email: 'books', percents: [30] };
  const { id, spend } = await company([books, { email: 'agreed', percents: [30], agreed: true }]);
  t.same(await spend(31), ['30 agreed', '30 webhook']);
  await run(
    (sql) =>
      sql`update alert_receivers set percents = '{40}', confirmed_at = now() where company_id = ${id}`,
  );
  t.same(await spend(10), ['40 agreed', '40 books', '40 webhook']);
});

t.test('somebody who reached a threshold that a higher one tells for is told, too', async (t) => {
  const { spend } = await company([
    { email: 'owner', percents: [60] },
    { email: 'admin', percents: [95] },
  ]);
  t.same(
    await spend(85),
    ['80 ops', '80 owner', '80 webhook'],
    'at 60 as well, by the message of 80',
  );
});

t.test('who left, or took it back, gets no message that still waits', async (t) => {
  const { id, spend } = await company([{ email: 'agreed', percents: [50], agreed: true }]);
  await spend(50);
  await run((sql) => sql`update event_deliveries set next_attempt_at = '2026-10-01'`); // the server's clock is not the test's
  const due = async () =>
    (await store.due('email', 1000, [OPS]))
      .filter(({ event }) => event.company.id === id)
      .map(({ recipient, outsider }) => `${recipient.split('@')[0]} ${outsider !== null}`)
      .sort();
  t.same(await due(), ['admin false', 'agreed true', 'ops false', 'owner false']);
  await run((sql) => sql`delete from alert_receivers where company_id = ${id}`);
  await run((sql) => sql`delete from users where company_id = ${id} and role = 'administrator'`);
  t.same(await due(), ['ops false', 'owner false']);
});

t.test('the forecast is for whoever chose it', async (t) => {
  const { id } = await company([
    { email: 'owner', percents: [], forecast: true },
    { email: 'admin', percents: [50] },
  ]);
  await run(
    (
      sql,
    ) => sql`insert into budget_alerts (company_id, billing_month, threshold, budget_eur, spent_eur)
      values (${id}, billing_month(now()), 'forecast', 100, 10)`,
  );
  await store.look(null, { webhook: false, email: true, operators: [OPS] });
  const told = await run(
    (sql) => sql<
      { recipient: string }[]
    >`select recipient from event_deliveries d join events e on e.id = d.event_id
      where e.company_id = ${id} order by 1`,
  );
  t.same(
    told.map(({ recipient }) => recipient.split('@')[0]),
    ['ops', 'owner'].sort(),
  );
});

t.test('the table takes no other percentages, and an address once', async (t) => {
  const { id } = await company([{ email: 'books', percents: [1, 100] }]);
  const add = (email: string | null, percents: number[]) =>
    run(
      (sql) => sql`insert into alert_receivers (company_id, email, percents, forecast)
        values (${id}, ${email}, ${percents}::smallint[], true)`,
    );
  await t.rejects(add('a@b.example', [0]));
  await t.rejects(add('a@b.example', [101]));
  await t.rejects(
    add(
      'a@b.example',
      Array.from({ length: 11 }, (_, i) => i + 1),
    ),
  );
  await t.rejects(add(`books@c${companies}.example`, [50]), { message: /alert_receivers_once/ });
  await add(null, [50]);
  await t.rejects(add(null, [60]), { message: /alert_receivers_once/ });
});
