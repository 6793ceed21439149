import { randomUUID } from 'node:crypto';
import t from 'tap';
import { openDatabase, type Sql } from '../../../src/store/connection/pool.ts';
import { within } from '../../../src/store/connection/tenant-role.ts';
import { listAlerts, readNotices } from '../../../src/store/events/alert.ts';
import { eventStore } from '../../../src/store/events/event.ts';
import { readPresentSums } from '../../../src/store/usage/company-usage.ts';
import { readOverview } from '../../../src/store/usage/overview.ts';
import { WORKERS } from '../../support/distributed.ts';
import { testDatabase } from '../../support/postgres.ts';
import { until } from '../../support/until.ts';

const MS = 60_000;
const NOBODY = { webhook: false, email: false, operators: [] };
const EVERYBODY = {
  webhook: true,
  email: true,
  operators: ['ops@tollgate.example', 'own@acme.example'],
};

// a database whose clock the tests set: this now() is found before the server's own
const { url, db: plain } = await testDatabase(t);
await plain.run(MS, (sql) =>
  sql.unsafe(`update settings set value = 'Europe/Berlin';
    create table test_clock (at timestamptz not null);
    create function public.now() returns timestamptz language sql stable as 'select at from test_clock';
    grant select on test_clock to public`),
);
const db = openDatabase({
  url: `${url}${url.includes('?') ? '&' : '?'}search_path=public,pg_catalog`,
});
t.teardown(() => db.close());
const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(MS, work);
const store = eventStore(db, db);

const clock = (at: string) =>
  run((sql) => sql`with gone as (delete from test_clock) insert into test_clock values (${at})`);
await clock('2026-11-01T12:00:00Z');

async function company(budget: string | null): Promise<string> {
  const [row] = await run(
    (sql) =>
      sql`insert into companies (name, monthly_budget_eur) values ('ACME', ${budget}) returning id`,
  );
  return row?.id;
}

async function key(
  company: string,
  budget: string,
  more: { revoked_at?: string } = {},
): Promise<string> {
  const [row] = await run(
    (sql) => sql`
      insert into api_keys (company_id, name, digest, prefix, scopes, monthly_budget_eur, revoked_at)
      values (${company}, 'CMS', sha256(${randomUUID()}::text::bytea), 'svc_abcd', '{chat}', ${budget}, ${more.revoked_at ?? null})
      returning id`,
  );
  return row?.id;
}

/** Books one call, by the ledger's own triggers. */
async function spend(
  company: string,
  eur: number,
  by: string = randomUUID(),
  month = '2026-11-01',
  center = '',
  at = month,
): Promise<void> {
  await run(
    (sql) => sql`
      insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint,
        prompt_tokens, completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at, cost_center)
      values (${month}, gen_random_uuid(), ${company}, ${by}, 'm', 'u', 'embeddings', ${eur * 1000}, 0, ${eur}, 1, 0,
        'upstream', 'completed', ${at}, ${center})`,
  );
}

/** What was written for a company: thresholds, of its keys with a "k", of cost centres with their name, in brackets where a higher one was told. */
async function written(company: string): Promise<string> {
  const rows = await run((sql) => listAlerts(sql, { undelivered: false, company, limit: 100 }));
  const names = rows.map(({ alert, state }) => {
    const name = `${alert.key === null ? '' : 'k'}${alert.cost_center ?? ''}${alert.threshold}`;
    return state === 'superseded' ? `(${name})` : name;
  });
  return [...new Set(names)].sort().join(' ');
}

t.test(
  'a closed company is told nothing, neither of its budget nor of what was waiting',
  async (t) => {
    const id = await company('100');
    await spend(id, 60, await key(id, '1'));
    await store.look(null, EVERYBODY);
    const waiting = async () => {
      await run((sql) => sql`update event_deliveries set next_attempt_at = '2026-10-01'`); // the server's clock is not the test's
      return (await store.due('webhook', 100, [])).filter(
        ({ event }) => event.company.id === id && event.type.startsWith('budget.'),
      ).length;
    };
    t.equal(await waiting(), 2);
    await spend(id, 60);
    await run((sql) => sql`update companies set closed_at = now() where id = ${id}`);
    await store.look(null, EVERYBODY);
    t.equal(await waiting(), 0);
    t.same(await run((sql) => readNotices(sql, id, 10)), []);
    await run((sql) => sql`update companies set closed_at = null where id = ${id}`);
    t.equal(await waiting(), 2);
    await store.look(null, EVERYBODY);
    t.equal(await waiting(), 3, 'and what it reached meanwhile');
  },
);

t.test(
  'each threshold once a month, also when the budget is raised and reached again',
  async (t) => {
    const id = await company('100');
    const free = await company('0');
    const after = async (eur: number) => {
      await spend(id, eur);
      await spend(free, eur);
      await store.look(null, NOBODY);
      return written(id);
    };
    t.equal(await after(49), '');
    t.equal(await after(1), '50');
    t.equal(await after(29), '50');
    t.equal(await after(1), '50 80');
    t.equal(await after(20), '100 50 80');
    await run((sql) => sql`update companies set monthly_budget_eur = 1000 where id = ${id}`);
    t.equal(await after(900), '100 50 80');
    t.equal(await written(free), '', 'without a budget there is nothing to reach');

    await clock('2026-12-01T12:00:00Z');
    await spend(id, 900, undefined, '2026-12-01');
    await store.look(null, NOBODY);
    t.equal(
      await written(id),
      '(50) 100 50 80',
      'the next month begins anew: 50 % of it told by 80 %',
    );
    const months = await run(
      (sql) => sql`select billing_month::text as month, threshold from budget_alerts
    where company_id = ${id} and billing_month = '2026-12-01' order by 2`,
    );
    t.same(
      months.map(({ threshold }) => threshold),
      ['50', '80'],
    );
    await clock('2026-11-01T12:00:00Z');
  },
);

t.test(
  'the credit limit is what thresholds are of, where it is below the budget or there is none',
  async (t) => {
    for (const budget of ['1000', null, '0']) {
      const id = await company(budget);
      await run((sql) => sql`update companies set credit_limit_eur = 100 where id = ${id}`);
      await spend(id, 81);
      await store.look(null, NOBODY);
      t.equal(await written(id), '(50) 80', `a budget of ${budget}`);
      const [alert] = await run((sql) =>
        listAlerts(sql, { undelivered: false, company: id, limit: 1 }),
      );
      t.equal(alert?.alert.budget_eur, '100');
      t.match(await run((sql) => readNotices(sql, id, 5)), [{ key: null, used: 80 }]);
    }
  },
);

t.test('of several at once the highest is told', async (t) => {
  const id = await company('100');
  await spend(id, 250);
  await store.look(null, NOBODY);
  t.equal(await written(id), '(50) (80) 100');
});

t.test('a key has alerts of its own, one that no longer works has none', async (t) => {
  const id = await company(null);
  const own = await key(id, '10');
  const gone = await key(id, '10', { revoked_at: '2026-11-01T00:00:00Z' });
  await spend(id, 5, own);
  await spend(id, 50, gone);
  await spend(id, 50);
  const { reached } = await store.look(null, NOBODY);
  t.equal(reached, 1);
  t.equal(await written(id), 'k50');
  await spend(id, 5, own);
  await store.look(null, NOBODY);
  t.equal(await written(id), '(k80) k100 k50');
  await run((sql) => sql`delete from api_keys where id = ${own}`);
  const [last] = await run((sql) => listAlerts(sql, { undelivered: false, company: id, limit: 1 }));
  t.match(last?.alert.key, { id: own, name: 'removed key', prefix: '' });
});

t.test(
  'the forecast counts from the third day on, and only while the budget is not used up',
  async (t) => {
    const id = await company('100');
    const expectShown = async (forecast: unknown[], text: string) => {
      if (WORKERS.length > 0) return; // the overview asks other servers, which have another clock
      const { budget } = await within(db, id, MS, (sql) => readPresentSums(sql, id));
      const { nearest } = (await readOverview(run)).budgets;
      t.same(
        [budget.forecast_eur, nearest.find((near) => near.company.id === id)?.forecast_percent],
        forecast,
        text,
      );
    };
    const over = await company('100');
    await spend(id, 20);
    await spend(over, 120);
    await clock('2026-11-02T22:59:00Z'); // the month began an hour before midnight UTC
    await store.look(null, NOBODY);
    t.equal(await written(id), '');
    await expectShown([null, undefined], 'nor is it shown');
    await clock('2026-11-02T23:00:00Z');
    await store.look(null, NOBODY);
    t.equal(await written(id), 'forecast');
    await expectShown(
      ['300.00', 300],
      'the usage page and the overview begin with it at the same time',
    );
    t.equal(await written(over), '(50) (80) 100');
    const [row] = await run((sql) =>
      listAlerts(sql, { undelivered: false, company: id, limit: 1 }),
    );
    t.match(row?.alert, {
      month: '2026-11',
      budget_eur: '100',
      spent_eur: '20',
      forecast_eur: '300',
      company: { name: 'ACME' },
    });
    await clock('2026-11-15T23:00:00Z');
    const tiny = await company('0.003');
    await spend(tiny, 0.002);
    const slow = await company('100');
    await spend(slow, 50);
    await store.look(null, NOBODY);
    t.equal(await written(tiny), '(50) forecast', 'no forecast is rounded to nothing');
    t.equal(await written(slow), '50', 'a forecast that only reaches the budget does not pass it');
    await spend(slow, 0.01);
    await store.look(null, NOBODY);
    t.equal(await written(slow), '50 forecast');
    await clock('2026-11-01T12:00:00Z');
  },
);

t.test(
  'a look with a cursor sees what was spent since, whoever was still writing then',
  async (t) => {
    const [early, late] = [await company('100'), await company('100')];
    const cursor = await db.transaction(MS, async (sql) => {
      await sql`insert into chat_usage (company_id, cost_eur, occurred_at) values (${early}, 60, '2026-11-01T10:00:00Z')`;
      return (await store.look(null, NOBODY)).cursor; // by another connection
    });
    t.equal(await written(early), '', 'it was not committed then');
    await spend(late, 60);
    const { reached } = await store.look(cursor, NOBODY);
    t.equal(reached, 2);
    t.equal(await written(early), '50');
    t.equal(await written(late), '50');
    await run((sql) => sql`update companies set monthly_budget_eur = 60 where id = ${late}`);
    t.equal(
      (await store.look(`${2n ** 62n}`, NOBODY)).reached,
      0,
      'where nothing was spent, nothing is looked at',
    );
    t.equal((await store.look(null, NOBODY)).reached, 2, 'a lower budget is seen by a full look');
  },
);

t.test('two looks at once write each alert and each delivery once', async (t) => {
  const ids = await Promise.all(Array.from({ length: 20 }, () => company('100')));
  for (const id of ids) await spend(id, 85);
  const looks = await Promise.all(
    Array.from({ length: 4 }, () => eventStore(db, db).look(null, EVERYBODY)),
  );
  t.equal(
    looks.reduce((sum, { reached }) => sum + reached, 0),
    40,
  );
  for (const id of ids) t.equal(await written(id), '(50) 80');
  const [{ count }] = await run(
    (sql) => sql<[{ count: number }]>`
    select count(*)::integer as count from event_deliveries d join budget_alerts a on a.id = event_id
    where company_id = any(${ids}::uuid[])`,
  );
  t.equal(count, 20 * 3, 'the webhook and two addresses, for the higher threshold of each');
});

t.test(
  'it is told to the webhook, to owners and administrators, and to operators, each once',
  async (t) => {
    const id = await company('100');
    for (const [email, role] of [
      ['own@acme.example', 'owner'],
      ['adm@acme.example', 'administrator'],
      ['mem@acme.example', 'member'],
    ] as const)
      await run(
        (sql) => sql`insert into users (email, company_id, role) values (${email}, ${id}, ${role})`,
      );
    await spend(id, 100);
    await store.look(null, EVERYBODY);
    const rows = await run((sql) =>
      listAlerts(sql, { undelivered: false, company: id, limit: 100 }),
    );
    const told = rows
      .filter(({ state }) => state !== 'superseded')
      .map(({ channel, recipient }) => `${channel} ${recipient}`);
    t.same(told.sort(), [
      'email adm@acme.example',
      'email ops@tollgate.example',
      'email own@acme.example',
      'webhook ',
    ]);

    const due = async () => {
      await run((sql) => sql`update event_deliveries set next_attempt_at = '2026-10-01'`); // the server's clock is not the test's
      const found = await store.due('email', 100, ['ops@tollgate.example']);
      return found.filter(({ event }) => event.company.id === id).map(({ recipient }) => recipient);
    };
    t.same((await due()).sort(), ['adm@acme.example', 'ops@tollgate.example', 'own@acme.example']);
    await run((sql) => sql`delete from users where email = 'own@acme.example'`);
    await run((sql) => sql`update users set role = 'member' where email = 'adm@acme.example'`);
    t.same(
      await due(),
      ['ops@tollgate.example'],
      'nothing is sent to whoever is no receiver any more',
    );
  },
);

t.test('the lease has one holder until it ends', async (t) => {
  const [one, two] = [randomUUID(), randomUUID()];
  t.equal(await store.lease(one, 60), true);
  t.equal(await store.lease(two, 60), false);
  t.equal(await store.lease(one, 60), true, 'renewed');
  await store.release(two);
  t.equal(await store.lease(two, 60), false, 'nobody ends the lease of another');
  await store.release(one);
  t.equal(await store.lease(two, 0.001), true);
  await until(() => store.lease(one, 60), 'it is over');
});

t.test('pages tell what is still true, to the company alone', async (t) => {
  const id = await company('100');
  const own = await key(id, '50');
  const notices = () => within(db, id, MS, (sql) => readNotices(sql, id, 5));
  await clock('2026-11-11T12:00:00Z');
  await spend(id, 45, own);
  await spend(id, 40);
  t.same(await notices(), [], 'nothing before the alert');
  await store.look(null, NOBODY);
  const ofKey = {
    key: { name: 'CMS', prefix: 'svc_abcd' },
    month: '2026-11-01',
    used: 80,
    reached_on: null,
  };
  const all = await notices();
  t.match(all, [
    { key: null, month: '2026-11-01', used: 80 },
    { ...ofKey, reached_on: String },
  ]);
  // a forecast told together with a higher threshold is none of its own: 45 of 50 in a third of the month
  await run((sql) => sql`update companies set monthly_budget_eur = 150 where id = ${id}`);
  t.match(
    await notices(),
    [{ key: null, used: 50, reached_on: '2026-11-19' }, {}],
    '85 of 150 in 10.5 days',
  );
  await run((sql) => sql`update companies set monthly_budget_eur = 1000 where id = ${id}`);
  t.match(await notices(), [{ key: { name: 'CMS' } }], 'the company is far from it again');
  const other = await company('1');
  await spend(other, 1);
  await store.look(null, NOBODY);
  t.same(
    await within(db, id, MS, (sql) => readNotices(sql, other, 5)),
    [],
    'nothing of another company',
  );
  t.match(await within(db, other, MS, (sql) => readNotices(sql, other, 5)), [
    { used: 100, reached_on: null },
  ]);
  await clock('2026-11-01T12:00:00Z');
});

t.test(
  'a company whose refunds of in-app chat are more than it spent keeps nobody from an alert',
  async (t) => {
    await clock('2026-11-20T12:00:00Z');
    const [refunded, other] = [await company('10'), await company('10')];
    await run(
      (sql) =>
        sql`insert into chat_usage (company_id, occurred_at, cost_eur) values (${refunded}, '2026-11-10T12:00Z', -5)`,
    );
    await spend(other, 6);
    await store.look(null, NOBODY);
    const alerts = await run((sql) =>
      listAlerts(sql, { undelivered: false, company: other, limit: 9 }),
    );
    t.ok(alerts.some(({ alert }) => alert.threshold === '50'));
    t.same(
      await run((sql) => listAlerts(sql, { undelivered: false, company: refunded, limit: 9 })),
      [],
    );
    // workers of a spread ledger would look for the table of the clock, which is on the coordinator
    if (WORKERS.length === 0) t.ok(await readOverview(run), 'the overview is shown');
  },
);

/** A cost centre with a budget. */
const center = (company: string, name: string, budget: number) =>
  run(
    (sql) => sql`
    insert into cost_center_budgets (company_id, name, monthly_budget_eur) values (${company}, ${name}, ${budget})`,
  );

t.test('where no cost centre has a budget, no sum is read', async (t) => {
  t.equal(await store.lookAtCostCenters(null), null);
  t.equal(await store.lookAtCostCenters('0 1:1:'), null);
});

t.test(
  'a cost centre: each threshold once a month, apart from those of its company and of others',
  async (t) => {
    await clock('2026-11-01T12:00:00Z');
    const id = await company('1000');
    await center(id, 'Marketing', 100);
    await center(id, 'Sales', 10);
    const after = async (eur: number, name: string) => {
      await spend(id, eur, undefined, undefined, name);
      await store.lookAtCostCenters(null);
      return written(id);
    };
    t.equal(await after(49, 'Marketing'), '', 'of two keys');
    t.equal(await after(1, 'Marketing'), 'Marketing50');
    t.equal(await after(500, ''), 'Marketing50', 'calls that name none are of no budget');
    t.equal(
      await after(500, 'IT'),
      'Marketing50',
      'and neither are those of a cost centre without one',
    );
    t.equal(await after(10, 'Sales'), '(Sales50) (Sales80) Marketing50 Sales100');
    t.equal(await after(30, 'Marketing'), '(Sales50) (Sales80) Marketing50 Marketing80 Sales100');
    await run(
      (sql) =>
        sql`update cost_center_budgets set monthly_budget_eur = 1000 where company_id = ${id}`,
    );
    t.equal(
      await after(920, 'Marketing'),
      '(Sales50) (Sales80) Marketing100 Marketing50 Marketing80 Sales100',
      'raised',
    );
    await store.look(null, NOBODY);
    t.match(await written(id), /(^| )100( |$)/, 'the company has thresholds of its own');
    t.same(
      (await run((sql) => readNotices(sql, id, 10))).map(({ key, used }) => [key, used]),
      [[null, 100]],
      'of which alone its pages tell',
    );
    await clock('2026-12-01T12:00:00Z');
    await spend(id, 600, undefined, '2026-12-01', 'Marketing');
    await store.lookAtCostCenters(null);
    const months = await run(
      (sql) =>
        sql`select threshold from budget_alerts where cost_center = 'Marketing' and billing_month = '2026-12-01'`,
    );
    t.same([...months], [{ threshold: '50' }], 'the next month begins anew');
    await clock('2026-11-01T12:00:00Z');
  },
);

t.test(
  'a cost centre is told at the percentages of its company, by forecast, and not while that is closed',
  async (t) => {
    const id = await company(null);
    await run(
      (sql) =>
        sql`insert into alert_receivers (company_id, percents, forecast) values (${id}, '{25}', true)`,
    );
    await run(
      (sql) =>
        sql`insert into users (email, company_id, role) values ('own@center.example', ${id}, 'owner')`,
    );
    await center(id, 'R&D', 100);
    await spend(id, 30, undefined, undefined, 'R&D');
    await clock('2026-11-03T23:00:00Z');
    await store.lookAtCostCenters(null);
    t.equal(
      await written(id),
      '(R&D25) R&Dforecast',
      'together with the forecast of 300 EUR, which is told',
    );
    const { told } = await store.look(null, EVERYBODY);
    t.ok(told > 0);
    const rows = await run((sql) =>
      listAlerts(sql, { undelivered: false, company: id, limit: 100 }),
    );
    t.same(
      rows
        .filter(({ channel }) => channel !== null)
        .map(({ channel, recipient }) => `${channel} ${recipient}`),
      ['email own@center.example', 'webhook '],
      'operators are told by webhook alone',
    );
    await run((sql) => sql`update companies set closed_at = now() where id = ${id}`);
    await spend(id, 60, undefined, undefined, 'R&D');
    await store.lookAtCostCenters(null);
    t.equal(await written(id), '(R&D25) R&Dforecast');
    const waiting = async () => {
      await run((sql) => sql`update event_deliveries set next_attempt_at = '2026-10-01'`); // the server's clock is not the test's
      return (await store.due('webhook', 100, [])).filter(({ event }) => event.company.id === id)
        .length;
    };
    t.equal(await waiting(), 0, 'and what was not sent waits');
    await clock('2026-11-01T12:00:00Z');
  },
);

t.test('a look with a cursor sees cost centres of companies that spent since', async (t) => {
  const [early, late] = [await company(null), await company(null)];
  for (const id of [early, late]) await center(id, 'IT', 100);
  await spend(early, 60, undefined, undefined, 'IT');
  const cursor = await store.lookAtCostCenters(null);
  t.equal(await written(early), 'IT50');
  await spend(late, 60, undefined, undefined, 'IT');
  const next = await store.lookAtCostCenters(cursor);
  t.equal(await written(late), 'IT50');
  await run(
    (sql) =>
      sql`update cost_center_budgets set monthly_budget_eur = 70 where company_id = ${early}`,
  );
  await store.lookAtCostCenters(next);
  t.equal(await written(early), 'IT50', 'a lower budget without new spend is seen by a full look');
  await Promise.all(Array.from({ length: 4 }, () => eventStore(db, db).lookAtCostCenters(null)));
  t.equal(await written(early), 'IT50 IT80', 'once, by however many at once');
});

t.test(
  'a budget of a day is told once each day, of a company and of a key, at the percents of the company',
  async (t) => {
    await clock('2026-11-10T22:30:00Z');
    const id = await company('1000');
    const capped = await key(id, '0');
    await run(async (sql) => {
      await sql`update companies set daily_budget_eur = 10 where id = ${id}`;
      await sql`update api_keys set daily_budget_eur = 4 where id = ${capped}`;
      await sql`insert into alert_receivers (company_id, percents, forecast) values (${id}, '{30}', true)`;
    });
    const told = async () => {
      await store.look(null, NOBODY);
      const rows = await run((sql) =>
        listAlerts(sql, { undelivered: false, company: id, limit: 100 }),
      );
      return rows
        .map(
          ({ alert, state }) =>
            `${alert.day} ${alert.key === null ? '' : 'k'}${alert.threshold} ${alert.spent_eur} ${state}`,
        )
        .sort();
    };
    const call = (eur: number, at: string, by?: string) => spend(id, eur, by, '2026-11-01', '', at);
    await call(100, '2026-11-09T22:59:59Z');
    t.same(await told(), [], 'the day before is another one');
    await call(3, '2026-11-09T23:00:00Z', capped);
    const first = [
      '2026-11-10 30 3 unsent',
      '2026-11-10 k30 3 superseded',
      '2026-11-10 k50 3 unsent',
    ];
    t.same(await told(), first);
    await run(
      (sql) =>
        sql`insert into chat_usage (company_id, occurred_at, cost_eur) values (${id}, '2026-11-10T12:00:00Z', 8)`,
    );
    const used = [
      '2026-11-10 100 11 unsent',
      ...first.slice(0, 1),
      '2026-11-10 50 11 superseded',
      '2026-11-10 80 11 superseded',
      ...first.slice(1),
    ];
    t.same(await told(), used.toSorted(), 'with in-app chat');
    t.same(await run((sql) => readNotices(sql, id, 10)), [], 'notices are of months');
    await clock('2026-11-10T23:01:00Z');
    await call(1, '2026-11-10T22:59:00Z', capped);
    const late = ['2026-11-10 k100 4 unsent', '2026-11-10 k80 4 superseded'];
    t.same(await told(), [...used, ...late].toSorted(), 'what came in the last minutes of a day');
    await call(8, '2026-11-10T23:00:30Z');
    const next = [
      '2026-11-11 30 8 superseded',
      '2026-11-11 50 8 superseded',
      '2026-11-11 80 8 unsent',
    ];
    t.same(await told(), [...used, ...late, ...next].toSorted(), 'the next day begins anew');
    const events = await run(
      (sql) =>
        sql<
          { body: object }[]
        >`select body from events where company_id = ${id} and kind = 'budget.threshold' and body ->> 'day' = '2026-11-11'`,
    );
    t.match(events, [
      {
        body: {
          day: '2026-11-11',
          month: '2026-11',
          threshold: '80',
          budget_eur: '10',
          spent_eur: '8',
          forecast_eur: null,
        },
      },
    ]);
    const { budget } = await within(db, id, MS, (sql) => readPresentSums(sql, id));
    t.same(
      budget.day,
      { spent_eur: '8', budget_eur: '10', percent: 80 },
      'pages show it beside the month',
    );
    await clock('2026-11-01T12:00:00Z');
  },
);
