import { randomUUID } from 'node:crypto';
import t from 'tap';
import type { Database, Sql } from '../../../src/store/connection/pool.ts';
import { eventStore } from '../../../src/store/events/event.ts';
import { trailStore } from '../../../src/store/gateway/request-trail.ts';
import { readOverview } from '../../../src/store/usage/overview.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addRequests } from '../../support/requests.ts';

const MS = 60_000;
const NONE = { requests: 0, tokens: 0, cost_eur: '0' };

/** The overview after a gateway has summed up the hours, as one does four times an hour. */
async function overviewOf(db: Database) {
  await db.run(MS, (sql) => sql`select sum_request_hours()`);
  return readOverview((query) => db.run(MS, query));
}

/** Adds calls at an instant, as SQL, of 1000 tokens in and none out. @param price EUR each */
async function calls(
  sql: Sql,
  company: string,
  count: number,
  price: string,
  at = 'now()',
  key = randomUUID(),
) {
  await sql`
    insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens,
      completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at)
    select billing_month(${sql.unsafe(at)}), gen_random_uuid(), ${company}, ${key}, 'm', 'u', 'embeddings', 1000, 0,
      ${price}::numeric, ${price}::numeric, 0, 'upstream', 'completed', ${sql.unsafe(at)}
    from generate_series(1, ${count}::integer)`;
}

async function addCompany(sql: Sql, name: string, budget: string | null = null): Promise<string> {
  const [row] =
    await sql`insert into companies (name, monthly_budget_eur) values (${name}, ${budget}) returning id`;
  return row?.id;
}

t.test('of a new installation everything is nothing', async (t) => {
  const { db } = await testDatabase(t);
  const { today, month, ...rest } = await overviewOf(db);
  t.match(today, { ...NONE, before: NONE, spenders: [] });
  t.match(month, { ...NONE, before: NONE, spenders: [], chat_eur: '0' });
  t.match(month.begins, /^\d{4}-\d\d-01$/);
  t.match(rest, {
    budgets: { total: 0, used_up: 0, nearest: [] },
    last_day: { requests: 0, refused: 0, failed: 0, reasons: [] },
    models: [],
    untold_usage: [],
    unread_usage: [],
    gateways: [],
    set_aside: 0,
    dead_deliveries: 0,
    failing_deliveries: 0,
    tenant_role_advice: null,
    changes: [],
  });
});

t.test('models whose upstream told no usage of whole answers, yesterday and today', async (t) => {
  const { db } = await testDatabase(t);
  await db.run(MS, async (sql) => {
    const book = (
      model: string,
      source: string,
      count: number,
      outcome = 'completed',
      days = 0,
    ) => sql`
      insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens,
        completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at)
      select billing_month(at), gen_random_uuid(), gen_random_uuid(), gen_random_uuid(), ${model}, 'u', 'messages', 1, 1, 0, 0, 0,
        ${source}, ${outcome}, at
      from generate_series(1, ${count}::integer), (select now() - make_interval(days => ${days}) as at) a`;
    await book('silent', 'estimated', 3);
    await book('streams', 'estimated', 2);
    await book('streams', 'upstream', 5);
    await book('streams', 'estimated', 2, 'completed', 1);
    await book('told', 'upstream', 4);
    await book('left', 'estimated', 9, 'client_aborted');
    await book('once', 'estimated', 9, 'completed', 2);
  });
  t.same((await overviewOf(db)).untold_usage, [
    { slug: 'streams', requests: 9, estimated: 4 },
    { slug: 'silent', requests: 3, estimated: 3 },
  ]);
});

t.test('members of usages that some gateways could not read, by model', async (t) => {
  const { db } = await testDatabase(t);
  await db.run(MS, async (sql) => {
    for (const [seen, unread] of [
      ['1 minute', [{ slug: 'b', members: ['y', 'x'] }]],
      [
        '1 hour',
        [
          { slug: 'b', members: ['z', 'x'] },
          { slug: 'a', members: ['x'] },
        ],
      ],
      ['25 hours', [{ slug: 'gone', members: ['x'] }]],
    ] as const)
      await sql`insert into gateways (id, name, version, last_seen_at, unread_usage)
        values (gen_random_uuid(), 'g', '1', now() - ${seen}::interval, ${JSON.stringify(unread)}::text::jsonb)`;
  });
  t.same((await overviewOf(db)).unread_usage, [
    { slug: 'a', members: ['x'] },
    { slug: 'b', members: ['x', 'y', 'z'] },
  ]);
});

t.test('today and this month beside the same time before, and who spends most', async (t) => {
  const { db } = await testDatabase(t);
  const yesterday = "now() - interval '1 day'";
  const [a, b] = await db.run(MS, async (sql) => {
    const [a, b] = [await addCompany(sql, 'A & Co'), await addCompany(sql, 'B')];
    await calls(sql, a, 3, '0.1');
    await calls(sql, b, 1, '0.100000000001');
    await calls(sql, randomUUID(), 1, '0.6');
    await calls(sql, a, 86_4, '1', yesterday);
    await sql`insert into chat_usage (company_id, cost_eur) values (${b}, 2000)`;
    return [a, b] as const;
  });
  const first = await overviewOf(db);
  t.match(first.today, { requests: 5, tokens: 5000, cost_eur: '1.000000000001' });
  t.same(
    first.today.spenders.map(({ name, cost_eur, share }) => [name, cost_eur, share]),
    [
      [null, '0.6', 60],
      ['A & Co', '0.3', 30],
      ['B', '0.100000000001', 10],
    ],
  );
  t.equal(first.month.chat_eur, '2000');
  t.match(
    first.month.spenders[0],
    { id: b, cost_eur: '2000.100000000001' },
    'in-app chat counts in the month',
  );
  t.ok(first.month.spenders.some(({ id }) => id === a));

  await t.test('without a mark the day before is taken to be even', async (t) => {
    const now = new Date(first.at);
    const part = (now.getTime() % 86_400_000) / 86_400_000;
    t.ok(
      Math.abs(first.today.before.requests - 864 * part) <= 1,
      `${first.today.before.requests} of 864 at ${first.at}`,
    );
    t.ok(Math.abs(Number(first.today.before.cost_eur) - 864 * part) <= 1);
  });
  await t.test('between two marks it is interpolated', async (t) => {
    await db.run(
      MS,
      (sql) => sql`
        insert into usage_marks (period, begins, at, requests, tokens, cost_eur)
        select period, begins, at, sums, sums * 10, sums / 4.0 from (values
          ('day', (now() - interval '1 day')::date, now() - interval '1 day 10 minutes', 10),
          ('day', (now() - interval '1 day')::date, now() - interval '1 day' + interval '10 minutes', 30),
          ('day', (now() - interval '1 day')::date, now() - interval '1 day' + interval '11 minutes', 900),
          ('month', (billing_month(now()) - interval '1 month')::date, now() - interval '1 month 10 minutes', 100),
          ('month', (billing_month(now()) - interval '1 month')::date, now() - interval '1 month' + interval '10 minutes', 300)
        ) as marks (period, begins, at, sums)`,
    );
    const { today, month } = await overviewOf(db);
    t.match(today.before, { requests: 20, tokens: 200, cost_eur: /^(5|5\.0\d|4\.9\d)$/ });
    t.ok(Math.abs(month.before.requests - 200) <= 1, `${month.before.requests}`);
  });
});

t.test(
  'budgets that are used to 80 %, of companies and keys: those that end soon first, then those used up',
  async (t) => {
    const { db } = await testDatabase(t);
    const key = randomUUID();
    await db.run(MS, async (sql) => {
      const company = await addCompany(sql, 'Full', '10');
      await calls(sql, company, 10, '1');
      await calls(sql, await addCompany(sql, 'Far', '1000000'), 1, '1');
      await sql`insert into chat_usage (company_id, cost_eur) values (${await addCompany(sql, 'Chat', '100')}, 85.55)`;
      const owner = await addCompany(sql, 'Owner');
      await sql`insert into users (email, company_id, role, created_at) values
      ('second@owner.example', ${owner}, 'owner', now()), ('first@owner.example', ${owner}, 'owner', now() - interval '1 day'),
      ('member@owner.example', ${owner}, 'member', now() - interval '2 days')`;
      await sql`insert into api_keys (id, company_id, name, digest, prefix, scopes, monthly_budget_eur)
      values (${key}, ${owner}, 'CI', sha256('ci'), 'svc_cicd', '{chat}', 10), (gen_random_uuid(), ${owner}, 'x', sha256('x'), 'svc_xxxx', '{chat}', 10)`;
      await calls(sql, owner, 9, '1', 'now()', key);
    });
    await eventStore(db, db).look(null, { webhook: true, email: false, operators: [] });
    await db.run(
      MS,
      (sql) =>
        sql`update event_deliveries set state = 'dead' where event_id in (select id from budget_alerts)`,
    );
    const { budgets, dead_deliveries } = await overviewOf(db);
    t.match(budgets, { total: 3, used_up: 1 });
    const nearest = budgets.nearest.toSorted((one, other) => other.percent - one.percent);
    t.match(
      nearest.map(({ company, key: of, percent, spent_eur, budget_eur }) => [
        company.name,
        of,
        percent,
        spent_eur,
        budget_eur,
      ]),
      [
        ['Full', null, 100, '10', '10'],
        ['Owner', { id: key, name: 'CI', prefix: 'svc_cicd' }, 90, '9', '10'],
        ['Chat', null, 85.5, '85.55', '100'],
      ],
      'a share is rounded down: 100 % is reached and not nearly so',
    );
    t.equal(nearest[0]?.reached_on, null);
    t.same(
      nearest.map(({ owners }) => owners),
      [[], ['first@owner.example', 'second@owner.example'], []],
      'with the owners, the first one first',
    );
    // in the first two days of a month nothing is forecast
    const kindOf = ({ reached_on, percent }: (typeof nearest)[number]) =>
      reached_on !== null ? 1 : percent >= 100 ? 2 : 3;
    const kinds = budgets.nearest.map(kindOf);
    t.same(kinds, kinds.toSorted());
    const soon = budgets.nearest.flatMap(({ reached_on }) => reached_on ?? []);
    t.same(soon, soon.toSorted(), 'the next first');
    t.equal(dead_deliveries, 3);
    await db.run(
      MS,
      (sql) =>
        sql`update event_deliveries set state = 'pending', attempts = 5 where state = 'dead'`,
    );
    t.match(await overviewOf(db), { dead_deliveries: 0, failing_deliveries: 3 });
    await db.run(MS, (sql) => sql`update api_keys set revoked_at = now()`);
    await db.run(MS, (sql) => sql`update companies set monthly_budget_eur = 0`);
    t.match(
      (await overviewOf(db)).budgets,
      { total: 0, nearest: [] },
      'revoked keys and lifted budgets are no matter',
    );
  },
);

t.test('models of the last day, gateways, records set aside and changes', async (t) => {
  const { db } = await testDatabase(t);
  const hour = 3_600_000;
  const [one, two] = [randomUUID(), randomUUID()];
  await addRequests(trailStore(db), [
    { model: 'slow', company: one, ms: 100 },
    { model: 'slow', company: two, ms: 300, status: 502, upstreamStatus: 500 },
    { model: 'slow', company: two, ms: 1, status: 400 },
    { model: 'fast', company: two, ms: 20, at: Date.now() - 20 * hour },
    { model: 'past', company: two, ms: 20, at: Date.now() - 25 * hour },
  ]);
  await db.run(MS, async (sql) => {
    await sql`insert into api_usage_set_aside (record, reason) values ('{}', 'wrong')`;
    await sql`insert into gateways (id, name, version, backlog, oldest_at, last_seen_at) values
      (gen_random_uuid(), 'b', '1', 5, now() - interval '90 seconds', now()),
      (gen_random_uuid(), 'a', '2', 0, null, now() - interval '61 seconds'),
      (gen_random_uuid(), 'c', '2', 0, null, now() - interval '25 hours')`;
    for (let i = 0; i < 12; i++) await addCompany(sql, `Company ${i}`);
  });
  const { models, gateways, set_aside, changes } = await overviewOf(db);
  t.same(models, [
    {
      slug: 'slow',
      requests: 3,
      refused: 1,
      failed: 1,
      upstream_failed: 1,
      recent_requests: 3,
      recent_upstream_failed: 1,
      mean_ms: 200,
    },
    {
      slug: 'fast',
      requests: 1,
      refused: 0,
      failed: 0,
      upstream_failed: 0,
      recent_requests: 0,
      recent_upstream_failed: 0,
      mean_ms: 20,
    },
  ]);
  t.match(gateways, [
    { name: 'a', gone: true, oldest_seconds: 0 },
    { name: 'b', gone: false, backlog: 5, oldest_seconds: 90 },
  ]);
  t.equal(gateways.length, 2);
  t.equal(set_aside, 1);
  t.same(
    changes.map(({ what }) => what),
    [11, 10, 9, 8, 7, 6, 5, 4, 3, 2].map((i) => `created company Company ${i}`),
  );
});

t.test('why requests of the last day were refused or failed, and whose they were', async (t) => {
  const { db } = await testDatabase(t);
  const [one, two] = await db.run(MS, async (sql) => [
    await addCompany(sql, 'One'),
    await addCompany(sql, 'Two'),
  ]);
  const many = (count: number, row: object) => Array.from({ length: count }, () => row);
  const hour = 3_600_000;
  const store = trailStore(db);
  await addRequests(store, [
    ...many(3, { company: one, status: 402, code: 'insufficient_quota', model: 'a' }),
    ...many(2, {
      company: two,
      status: 402,
      code: 'insufficient_quota',
      at: Date.now() - 20 * hour,
    }),
    ...many(4, { status: 401, code: 'invalid_api_key' }),
    { company: two, status: 502, code: 'upstream_error', upstreamStatus: 500 },
    { company: two, status: 400, code: 'context_length_exceeded', upstreamStatus: 400 },
    { company: two },
    ...many(9, {
      company: two,
      status: 402,
      code: 'insufficient_quota',
      at: Date.now() - 25 * hour,
    }),
  ]);
  await addRequests(
    store,
    many(2, { company: one, status: 402, code: 'insufficient_quota', model: 'a' }),
  );
  const { last_day } = await overviewOf(db);
  t.same(last_day, {
    requests: 14,
    refused: 12,
    failed: 1,
    reasons: [
      {
        code: 'insufficient_quota',
        requests: 7,
        companies: 2,
        most: { id: one, name: 'One', requests: 5 },
      },
      { code: 'invalid_api_key', requests: 4, companies: 0, most: null },
      {
        code: 'context_length_exceeded',
        requests: 1,
        companies: 1,
        most: { id: two, name: 'Two', requests: 1 },
      },
      {
        code: 'upstream_error',
        requests: 1,
        companies: 1,
        most: { id: two, name: 'Two', requests: 1 },
      },
    ],
  });
});
