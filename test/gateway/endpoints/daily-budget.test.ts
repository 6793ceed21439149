import { createHash, randomUUID } from 'node:crypto';
import { Writable } from 'node:stream';
import t, { type Test } from 'tap';
import { openApp } from '../../../src/app.ts';
import { readConfig } from '../../../src/config.ts';
import { createLog } from '../../../src/log.ts';
import { ask } from '../../support/client.ts';
import { FAST_HTTP, startGateway } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { MASTER_KEY, scriptedUpstream } from '../../support/upstream.ts';

/** Budgets of a day: a day is one of the calendar of BILLING_TIMEZONE, and nothing is ever reset. */

const ZONE = 'Europe/Berlin';
const upstream = await scriptedUpstream(t);
/** Called when the upstream has a call; its answer waits for what it returns. */
let meanwhile = async (): Promise<void> => {};
upstream.answer(async (res) => {
  await meanwhile();
  const usage = { prompt_tokens: 1000, completion_tokens: 0, total_tokens: 1000 };
  const choices = [
    { index: 0, message: { role: 'assistant', content: 'x' }, finish_reason: 'stop' },
  ];
  const answer = { id: 'c', object: 'chat.completion', model: 'internal', choices, usage };
  res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
});

// the first gateway has the real clock, and its database; a call costs 1 EUR
const base = await startGateway(t, upstream.url, { BILLING_TIMEZONE: ZONE });
await base.model('fast', { upstream: 'internal', input: '1', output: '0' });

/** A gateway beside it whose clock the test sets. */
async function replica(t: Test, instant: string) {
  let ahead = Date.parse(instant) - Date.now();
  const env = {
    PORT: '0',
    ADMIN_PORT: '0',
    BILLING_TIMEZONE: ZONE,
    DATABASE_URL: base.databaseUrl,
    SPOOL_DIR: '',
  };
  const more = {
    UPSTREAM_URL: upstream.url,
    UPSTREAM_API_KEY: MASTER_KEY,
    MAX_DELAY_MS: '60000',
    FAST_HTTP,
  };
  const log = createLog(
    { level: 'silent' },
    new Writable({ write: (_line, _encoding, done) => done() }),
  );
  const app = await openApp(readConfig({ ...env, ...more }), log, {
    clock: () => Date.now() + ahead,
  });
  await app.listen();
  t.teardown(async () => {
    await app.drain(1);
    await app.close();
  });
  return {
    url: app.apiUrl,
    set(at: string): void {
      ahead = Date.parse(at) - Date.now();
    },
    async post(key: string, more: object = {}) {
      const body = { model: 'fast', messages: [{ role: 'user', content: 'x' }], ...more };
      const { status, json, headers } = await ask(`${app.apiUrl}/chat/completions`, { key, body });
      return { status, text: json.error?.message, resets: headers.get('x-budget-resets-at') };
    },
  };
}

const digest = (key: string): Buffer => createHash('sha256').update(key).digest();

/** A company with budgets, and a key of it. */
async function customer(settings: object, ofKey: object = {}) {
  const company = await base.company();
  await base.sql`update companies set ${base.sql(settings as Record<string, string>)} where id = ${company}`;
  const key = await base.key(company);
  if (Object.keys(ofKey).length > 0)
    await base.sql`update api_keys set ${base.sql(ofKey as Record<string, string>)} where digest = ${digest(key)}`;
  return { company, key };
}

const OF_COMPANY = 'The daily budget of your company has been reached.';
const OF_KEY = 'This key has reached its daily budget.';

t.test(
  'a budget of a day refuses until midnight of the billing time zone, and begins anew by itself',
  async (t) => {
    const gateway = await replica(t, '2026-11-27T15:00:00Z');
    const { company, key } = await customer({ daily_budget_eur: 2, monthly_budget_eur: 4 });
    t.equal((await gateway.post(key)).status, 200);
    t.equal((await gateway.post(key)).status, 200);
    t.same(await gateway.post(key), {
      status: 402,
      text: OF_COMPANY,
      resets: '2026-11-27T23:00:00Z',
    });
    gateway.set('2026-11-27T22:59:58Z');
    t.equal((await gateway.post(key)).status, 402, 'to its last second');
    gateway.set('2026-11-27T23:00:00Z');
    t.equal((await gateway.post(key)).status, 200, 'from its first instant');
    t.equal((await gateway.post(key)).status, 200);
    const month = await gateway.post(key);
    t.match(
      month,
      { status: 402, resets: '2026-11-30T23:00:00Z' },
      'both refuse: the later of the two is told',
    );
    t.match(month.text, /monthly/);
    await base.sql`update companies set monthly_budget_eur = null where id = ${company}`;
    await until(
      async () => (await gateway.post(key)).resets === '2026-11-28T23:00:00Z',
      'the day alone refuses',
    );
    await base.sql`update companies set daily_budget_eur = 0 where id = ${company}`;
    await until(async () => (await gateway.post(key)).status === 200, '0 is no budget');
  },
);

t.test('a key has a budget of the day of its own, which GET /usage tells', async (t) => {
  const gateway = await replica(t, '2026-11-27T15:00:00Z');
  const { company, key } = await customer(
    { daily_budget_eur: 3 },
    { daily_budget_eur: 1, monthly_budget_eur: 5 },
  );
  const other = await base.key(company);
  t.equal((await gateway.post(key)).status, 200);
  t.same(await gateway.post(key), { status: 402, text: OF_KEY, resets: '2026-11-27T23:00:00Z' });
  const usage = async (key: string) => (await ask(`${gateway.url}/usage`, { key })).json;
  const day = {
    date: '2026-11-27',
    resets_at: '2026-11-27T23:00:00Z',
    cost_eur: '1',
    budget_eur: '1',
    remaining_eur: '0',
  };
  t.same((await usage(key)).day, day);
  t.equal('day' in (await usage(other)), false, 'a key without one is told nothing new');
  t.equal((await gateway.post(other)).status, 200);
  t.equal((await gateway.post(other)).status, 200);
  t.match(
    await gateway.post(other),
    { status: 402, text: OF_COMPANY },
    'it counts toward the company',
  );
  t.match(await gateway.post(key), { status: 402, text: OF_COMPANY }, 'which is asked first');
  gateway.set('2026-11-27T23:00:00Z');
  t.same((await usage(key)).day, {
    ...day,
    date: '2026-11-28',
    resets_at: '2026-11-28T23:00:00Z',
    cost_eur: '0',
    remaining_eur: '1',
  });
  t.equal((await gateway.post(key)).status, 200);
});

for (const [hours, begins, within, ends] of [
  [25, '2026-10-24T22:00:00Z', '2026-10-25T22:59:57Z', '2026-10-25T23:00:00Z'],
  [23, '2027-03-27T23:00:00Z', '2027-03-28T21:59:57Z', '2027-03-28T22:00:00Z'],
] as const) {
  t.test(`a day of ${hours} hours is one day`, async (t) => {
    const gateway = await replica(t, begins);
    const { key } = await customer({ daily_budget_eur: 1 });
    t.equal((await gateway.post(key)).status, 200);
    gateway.set(within);
    t.same(await gateway.post(key), { status: 402, text: OF_COMPANY, resets: ends });
    gateway.set(ends);
    t.equal((await gateway.post(key)).status, 200);
  });
}

t.test('a call belongs to the day on which it was admitted, however late it ends', async (t) => {
  const gateway = await replica(t, '2026-12-31T22:59:50Z');
  const { company, key } = await customer({ daily_budget_eur: 1 });
  meanwhile = async () => gateway.set('2026-12-31T23:00:10Z');
  t.equal((await gateway.post(key)).status, 200, 'it ends in the next day, month and year');
  meanwhile = async () => {};
  t.equal((await gateway.post(key)).status, 200, 'so the new day has its whole budget');
  t.equal((await gateway.post(key)).status, 402);
  await base.ledger(company, 2);
  const days = await base.sql`
    select day::text, cost_eur::float8 as eur from usage_company_days where company_id = ${company} order by 1`;
  t.same(
    [...days],
    [
      { day: '2026-12-31', eur: 1 },
      { day: '2027-01-01', eur: 1 },
    ],
  );
});

t.test('gateways whose clocks differ by a second count each call in its own day', async (t) => {
  const ahead = await replica(t, '2026-11-27T23:00:00.500Z');
  const behind = await replica(t, '2026-11-27T22:59:30Z');
  const { company, key } = await customer({ daily_budget_eur: 2 });
  for (const gateway of [behind, ahead, behind, ahead])
    t.equal((await gateway.post(key)).status, 200);
  await base.ledger(company, 4);
  for (const gateway of [behind, ahead])
    t.equal((await gateway.post(key)).status, 402, 'both days are used up');
  behind.set('2026-11-27T23:00:00Z');
  await until(
    async () => (await behind.post(key)).status === 402,
    'the day that the other one filled',
  );
  const days =
    await base.sql`select sum(cost_eur)::float8 as eur from usage_company_days where company_id = ${company} group by day`;
  t.same(
    days.map(({ eur }) => eur),
    [2, 2],
    'neither day has more than its budget',
  );
});

t.test('in-app chat counts on its day, and a row that comes late on its own', async (t) => {
  const gateway = await replica(t, '2026-11-28T10:00:00Z');
  const { company, key } = await customer({ daily_budget_eur: 5 });
  t.equal((await gateway.post(key)).status, 200);
  const chat = (at: string, eur: number) =>
    base.sql`insert into chat_usage (company_id, occurred_at, cost_eur) values (${company}, ${at}, ${eur})`;
  await chat('2026-11-27T22:59:59Z', 100);
  await chat('2026-11-28T23:00:00Z', 100);
  const late = {
    billing_month: '2026-11-01',
    request_id: randomUUID(),
    company_id: company,
    api_key_id: randomUUID(),
    model_slug: 'fast',
    upstream_model: 'internal',
    endpoint: 'chat.completions',
    prompt_tokens: 1000,
    completion_tokens: 0,
    cost_eur: 100,
    price_input: 100,
    price_output: 0,
    usage_source: 'upstream',
    outcome: 'completed',
    occurred_at: '2026-11-27T10:00:00Z',
  };
  await base.sql`select from book_usage(${randomUUID()}::uuid, ${JSON.stringify([late])}::text::json)`;
  await base.ledger(company, 2);
  t.equal((await gateway.post(key)).status, 200, 'other days are other days');
  await chat('2026-11-27T23:00:00Z', 2);
  await chat('2026-11-28T22:59:59Z', 1);
  await until(async () => (await gateway.post(key)).status === 402, 'the chat of the day counts');
});

t.test('a strict budget of a day is never passed, by however many gateways', async (t) => {
  const first = await replica(t, '2026-11-28T10:00:00Z');
  const second = await replica(t, '2026-11-28T10:00:01Z');
  const { company, key } = await customer({ daily_budget_eur: 1, budget_mode: 'strict' });
  const all = async (): Promise<Awaited<ReturnType<typeof first.post>>[]> =>
    Promise.all(
      Array.from({ length: 40 }, (_, n) => (n % 2 ? first : second).post(key, { max_tokens: 1 })),
    );
  const answers = await all();
  const passed = answers.filter(({ status }) => status === 200).length;
  t.ok(passed > 1 && passed < 40, `${passed} passed`);
  const resets = (of: typeof answers) =>
    [...new Set(of.map((answer) => `${answer.status} ${answer.resets}`))].sort();
  t.same(resets(answers), ['200 null', '402 2026-11-28T23:00:00Z']);
  await base.ledger(company, passed);
  const spent = async () => {
    const days = await base.sql`
      select sum(cost_eur)::float8 as eur from usage_company_days where company_id = ${company} group by day order by day`;
    return days.map(({ eur }) => eur);
  };
  const [of28] = await spent();
  t.ok(of28 > 0.5 && of28 <= 1, `${of28} EUR of 1`);
  first.set('2026-11-28T23:00:00Z');
  second.set('2026-11-28T23:00:01Z');
  const next = (await all()).filter(({ status }) => status === 200).length;
  t.ok(next > 1 && next < 40, `${next} passed on the next day`);
  await base.ledger(company, passed + next);
  const [before, of29] = await spent();
  t.equal(before, of28);
  t.ok(of29 <= 1, `${of29} EUR of 1`);

  const month = await customer({
    daily_budget_eur: 5,
    monthly_budget_eur: 0.01,
    budget_mode: 'strict',
  });
  const refused = await first.post(month.key, { max_tokens: 1 });
  t.match(
    refused,
    { status: 402, resets: '2026-11-30T23:00:00Z' },
    'that of the month holds as well',
  );
});
