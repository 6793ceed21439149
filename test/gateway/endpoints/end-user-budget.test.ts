import { createHash } from 'node:crypto';
import t from 'tap';
import { completion, message, response } from '../../support/answers.ts';
import { ask } from '../../support/client.ts';
import { startGateway } from '../../support/gateway.ts';
import { startProxy } from '../../support/proxy.ts';
import { until } from '../../support/until.ts';
import { scriptedUpstream } from '../../support/upstream.ts';

/** What one end user of a key may cost in a month: whoever has reached it is refused, and nobody else. */

const upstream = await scriptedUpstream(t);
/** Each call costs 1 EUR, whatever its format. */
upstream.answer((res, _body, { url: path = '' }) => {
  const usage = { prompt_tokens: 1000, completion_tokens: 0, total_tokens: 1000 };
  const told = { input_tokens: 1000, output_tokens: 0, total_tokens: 1000 };
  const written = {
    id: 'w',
    object: 'text_completion',
    choices: [{ index: 0, text: 'x', finish_reason: 'stop' }],
    usage,
  };
  const ranked = { id: 'r', results: [{ index: 0, relevance_score: 1 }], usage };
  const answer = path.endsWith('/embeddings')
    ? { object: 'list', data: [], model: 'internal', usage }
    : path.endsWith('/responses')
      ? response({ usage: told })
      : path.endsWith('/messages')
        ? message(told)
        : path.endsWith('/v1/completions')
          ? written
          : path.endsWith('/rerank')
            ? ranked
            : completion(usage);
  res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
});

const gateway = await startGateway(t, upstream.url);
const { sql } = gateway;
const passage = await startProxy(t, gateway.databaseUrl);
const other = await startGateway(t, upstream.url, { DATABASE_URL: passage.url });
await gateway.model('fast', { upstream: 'internal', input: '1', output: '0' });
await gateway.model('free', { upstream: 'internal', input: '0', output: '0' });
await gateway.model('ranker', { upstream: 'internal', kind: 'rerank', input: '1', output: '0' });
await gateway.model('vectors', {
  upstream: 'internal',
  kind: 'embedding',
  input: '1',
  output: '0',
});
const HELLO = [{ role: 'user', content: 'x' }];
const OWN =
  'You have reached your own monthly budget. It is yours alone: other users of this key are not affected.';
const now = new Date();
const monthEnd = `${new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1)).toISOString().slice(0, 19)}Z`;

/** A key whose end users have an allowance. */
async function front(allowance: number | null, ofKey: object = {}, ofCompany: object = {}) {
  const company = await gateway.company();
  const key = await gateway.key(company);
  const digest = createHash('sha256').update(key).digest();
  const set: object = { end_users: 'body', end_user_budget_eur: allowance, ...ofKey };
  await sql`update api_keys set ${sql(set as Record<string, string>)} where digest = ${digest}`;
  if (Object.keys(ofCompany).length > 0)
    await sql`update companies set ${sql(ofCompany as Record<string, string>)} where id = ${company}`;
  return {
    company,
    key,
    change: (to: object) =>
      sql`update api_keys set ${sql(to as Record<string, string>)} where digest = ${digest}`,
    async post(
      user: string | null,
      { url = gateway.url, path = '/chat/completions', body = {} } = {},
    ) {
      const headers = user === null ? {} : { 'x-end-user-id': user };
      const asked = { model: 'fast', messages: HELLO, ...body };
      const { status, json, headers: told } = await ask(url + path, { key, headers, body: asked });
      return {
        status,
        text: json.error?.message,
        code: json.error?.code,
        resets: told.get('x-budget-resets-at'),
      };
    },
  };
}

const REFUSED = { status: 402, text: OWN, code: 'insufficient_quota', resets: monthEnd };

t.test(
  'whoever has cost as much as the key allows each is refused until the month ends, and nobody else is',
  async (t) => {
    const { key, change, post } = await front(2);
    t.equal((await post('ann')).status, 200);
    t.equal((await post('ann')).status, 200);
    t.same(await post('ann'), REFUSED);
    t.equal((await post('bob')).status, 200);
    for (let n = 0; n < 4; n++)
      t.equal((await post(null)).status, 200, 'a call that names nobody is not held back');
    t.equal((await post('x'.repeat(300))).status, 200, 'nor one whose name is none');
    const { text } = await ask(`${gateway.url}/usage`, { key });
    t.notMatch(text, /ann|own|end_user/, 'whoever holds the key is not told');

    await change({ end_user_budget_eur: 3 });
    await until(async () => (await post('ann')).status === 200, 'a raised allowance holds');
    t.same(await post('ann'), REFUSED);
    await change({ end_user_budget_eur: 0 });
    await until(async () => (await post('ann')).status === 200, '0 is none');
    await change({ end_user_budget_eur: 2, end_users: 'off' });
    t.equal((await post('ann')).status, 200, 'a key that takes no names knows nobody');
    await change({ end_users: 'body' });
    await until(async () => (await post('ann')).status === 402, 'what was spent meanwhile counts');
  },
);

t.test(
  'calls of all formats count and are refused, by whatever way they name the person',
  async (t) => {
    const { company, post } = await front(8);
    const assistant = await gateway.assistant(company, { model: 'fast' });
    const calls: readonly [path: string, body: object, status?: number][] = [
      ['/chat/completions', { user: 'ann' }],
      ['/chat/completions', { safety_identifier: 'ann' }],
      ['/embeddings', { model: 'vectors', input: 'x', messages: undefined, user: 'ann' }],
      ['/completions', { prompt: 'x', messages: undefined, user: 'ann' }],
      ['/responses', { input: 'x', messages: undefined, user: 'ann' }],
      ['/messages', { max_tokens: 5, metadata: { user_id: 'ann' } }],
    ];
    for (const [path, body] of calls) t.equal((await post(null, { path, body })).status, 200, path);
    const rank = {
      path: '/rerank',
      body: { model: 'ranker', messages: undefined, query: 'x', documents: ['x'] },
    };
    t.equal((await post('ann', rank)).status, 200);
    const run = { path: `/assistants/${assistant}/run`, body: { model: undefined } };
    t.equal((await post('ann', run)).status, 200);
    for (const [path, body] of [
      ...calls,
      ['/chat/completions', { stream: true, user: 'ann' }] as const,
    ]) {
      const { status, text, resets } = await post(null, { path, body });
      t.same({ status, text, resets }, { status: 402, text: OWN, resets: monthEnd }, path);
    }
    t.same(await post('ann', run), REFUSED);
    t.same(await post('ann', rank), REFUSED);
    t.equal((await post('bob', run)).status, 200);
  },
);

t.test('an allowance is one, however many gateways there are', async (t) => {
  const { company, post } = await front(4);
  for (const { url } of [gateway, other, gateway, other])
    t.equal((await post('ann', { url })).status, 200);
  await gateway.ledger(company, 4);
  for (const { url } of [gateway, other])
    await until(
      async () => (await post('ann', { url, body: { model: 'free' } })).status === 402,
      'what the other booked counts: she spends nothing more here',
    );
  t.equal((await post('bob', { url: other.url })).status, 200);

  const second = await front(1);
  t.equal((await second.post('ann')).status, 200, 'of another company she is somebody else');
  t.same(await second.post('ann'), REFUSED);
});

t.test('the months of company and key are asked before the end user, and days after', async (t) => {
  const { company, change, post } = await front(1, { daily_budget_eur: 1 });
  t.equal((await post('ann')).status, 200);
  t.same(await post('ann'), REFUSED, 'of two that refuse the one that lasts longer is told');
  t.match(await post('bob'), { status: 402, text: /daily/ });
  await change({ monthly_budget_eur: 1 });
  await until(
    async () => /This key .* monthly/.test((await post('ann')).text),
    'the key comes first',
  );
  await sql`update companies set monthly_budget_eur = 1 where id = ${company}`;
  await until(
    async () => /your company/.test((await post('ann')).text),
    'and its company before it',
  );
  await change({ monthly_budget_eur: null, daily_budget_eur: null });
  await sql`update companies set monthly_budget_eur = null where id = ${company}`;
  await until(async () => (await post('bob')).status === 200, 'nobody else refuses');
  t.same(await post('ann'), REFUSED);
});

t.test(
  'after an erasure the same name is somebody new, with an allowance of its own',
  async (t) => {
    const { company, post } = await front(1);
    t.equal((await post('ann')).status, 200);
    t.same(await post('ann'), REFUSED);
    await sql`select erase_end_user(id) from end_users where company_id = ${company}`;
    await until(async () => (await post('ann')).status === 200, 'the gateway forgets');
    t.same(await post('ann'), REFUSED);
  },
);

t.test('a strict company reserves of the allowance too, so that it is never passed', async (t) => {
  for (const budget of [null, 1000]) {
    const { company, post } = await front(
      1.5,
      {},
      { budget_mode: 'strict', monthly_budget_eur: budget },
    );
    const urls = [gateway.url, other.url];
    const all = (user: string | null) =>
      Promise.all(
        Array.from({ length: 30 }, (_, n) =>
          post(user, { url: urls[n % 2] as string, body: { max_tokens: 1 } }),
        ),
      );
    const answers = await all('ann');
    const passed = answers.filter(({ status }) => status === 200).length;
    t.ok(passed >= 1 && passed < 30, `${passed} passed`);
    t.same(
      answers.filter(({ status, text }) => status !== 200 && text !== OWN),
      [],
      'the others are told whose it is',
    );
    t.equal((await post('bob', { body: { max_tokens: 1 } })).status, 200);
    t.same(
      (await all(null)).filter(({ status }) => status !== 200),
      [],
      'nobody is held back by it',
    );
    await gateway.ledger(company, passed + 31);
    const [row] = await sql`
      select sum(cost_eur)::float8 as eur from usage_end_user_days d join end_users e on e.id = d.end_user_id
      where d.company_id = ${company} and name = 'ann'`;
    t.ok(row?.eur <= 1.5, `${row?.eur} EUR of 1.5`);
  }
});

t.test(
  'a budget of one person takes the place of the allowance, on every gateway, strict or not',
  async (t) => {
    for (const mode of ['standard', 'strict']) {
      const { company, change, post: send } = await front(2, {}, { budget_mode: mode });
      let passed = 0;
      const post = async (...call: Parameters<typeof send>) => {
        const answer = await send(...call);
        if (answer.status === 200) passed++;
        return answer;
      };
      const body = { max_tokens: 1 };
      const own = (eur: number | null) => sql`
        update end_users set monthly_budget_eur = ${eur} where company_id = ${company} and name = 'ann'`;
      const answers = (status: number, url: string, what: string) =>
        until(async () => (await post('ann', { url, body })).status === status, `${mode}: ${what}`);
      const spent = async () => {
        const [row] = await sql`
          select sum(cost_eur)::float8 as eur from usage_end_user_days d join end_users e on e.id = d.end_user_id
          where d.company_id = ${company} and name = 'ann'`;
        return row?.eur;
      };
      t.equal((await post('ann', { body })).status, 200);
      await own(1);
      for (const { url } of [gateway, other]) await answers(402, url, 'lowered');
      t.match(await post('ann', { body }), { status: 402, text: OWN, resets: monthEnd });
      for (const user of ['bob', 'cy'])
        t.equal((await post(user, { url: other.url, body })).status, 200, 'nobody else');
      const raised = mode === 'strict' ? 2 : 4; // a strict company books no more than a call can cost
      await own(raised);
      for (const { url } of [gateway, other]) await answers(200, url, 'raised');
      const all = await Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          post('ann', { url: [gateway.url, other.url][n % 2] as string, body }),
        ),
      );
      for (const { url } of [gateway, other]) await answers(402, url, 'and reached again');
      if (mode === 'strict') {
        t.ok(all.some(({ text }) => text === OWN));
        await gateway.ledger(company, passed);
        t.ok((await spent()) <= raised, 'never passed');
      }
      const later = await startGateway(t, upstream.url, { DATABASE_URL: gateway.databaseUrl });
      await answers(402, later.url, 'a gateway that starts knows it');
      await own(null);
      for (const { url } of [gateway, other, later]) await answers(402, url, 'the allowance again');
      await own(0.5);
      await change({ end_user_budget_eur: null });
      for (const { url } of [gateway, other]) await answers(200, url, 'a key that bounds nobody');
      await change({ end_user_budget_eur: 1000 });
      for (const { url } of [gateway, other]) await answers(402, url, 'and bounds again');
      await sql`select erase_end_user(id) from end_users where company_id = ${company} and name = 'ann'`;
      await answers(200, gateway.url, 'whoever comes with an erased name has none');
      t.same(
        [
          ...(await sql`select monthly_budget_eur from end_users where company_id = ${company} and name is null`),
        ],
        [{ monthly_budget_eur: null }],
      );
    }
  },
);

t.test(
  'while the database is away those who are known go on, and others are told to come back',
  async (t) => {
    const { post } = await front(2);
    const { url } = other;
    t.equal((await post('ann', { url })).status, 200);
    t.equal((await post('bob', { url })).status, 200);
    t.equal((await post('bob', { url })).status, 200);
    t.equal((await post('bob', { url })).status, 402);
    await passage.cut();
    t.equal((await post('ann', { url })).status, 200);
    t.equal((await post('ann', { url })).status, 402, 'what waits for the database counts');
    t.equal((await post('bob', { url })).status, 402);
    t.equal((await post('new', { url })).status, 503, 'a stranger may have spent it already');
    t.equal((await post(null, { url })).status, 200);
    await passage.restore();
    await until(async () => (await post('new', { url })).status === 200, 'the database is back');
    for (const user of ['ann', 'bob']) t.equal((await post(user, { url })).status, 402, user);
  },
);

/** A key that was made in the place of another one, with its settings. */
async function rotated(company: string, key: string): Promise<string> {
  const text = `${key.slice(0, -4)}${Math.random().toString(36).slice(2, 6).padEnd(4, 'x')}`;
  const [before, after] = [key, text].map((each) => createHash('sha256').update(each).digest());
  await sql`
    insert into api_keys (company_id, name, digest, prefix, scopes, end_users, end_user_budget_eur, monthly_budget_eur, daily_budget_eur, rotated_from)
    select company_id, name, ${after as Buffer}, prefix, scopes, end_users, end_user_budget_eur, monthly_budget_eur, daily_budget_eur, id
    from api_keys where company_id = ${company} and digest = ${before as Buffer}`;
  return text;
}

t.test(
  'a key in the place of another has spent what that one spent, and so have its people',
  async (t) => {
    for (const [setting, mode] of [
      ['monthly_budget_eur', 'standard'],
      ['daily_budget_eur', 'standard'],
      ['end_user_budget_eur', 'standard'],
      ['end_user_budget_eur', 'strict'],
    ] as const) {
      const { company, key, change, post } = await front(
        null,
        { [setting]: mode === 'strict' ? 0.5 : 3 },
        { budget_mode: mode },
      );
      const body = { model: 'fast', messages: HELLO, max_tokens: 1 };
      const headers = { 'x-end-user-id': 'ann' };
      const call = async (key: string, url: string) =>
        (await ask(`${url}/chat/completions`, { key, headers, body })).status;
      let passed = 0;
      while ((await post('ann', { body })).status === 200) passed++;
      const second = await rotated(company, key);
      t.equal(
        await call(second, gateway.url),
        402,
        `${setting}, ${mode}, after ${passed}: at once`,
      );
      const third = await rotated(company, second);
      t.equal(await call(third, gateway.url), 402, 'however often');
      await gateway.ledger(company, passed);
      t.equal(await call(third, other.url), 402, 'on a gateway that has seen none of them');
      await change({ [setting]: 0 });
      await until(async () => (await call(key, gateway.url)) === 200, 'the budgets are their own');
      t.equal(await call(third, gateway.url), 402);
    }
  },
);
