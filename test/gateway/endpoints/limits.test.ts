import t from 'tap';
import { open } from '../../support/client.ts';
import { until } from '../../support/until.ts';
import { CHAT, type Customer, OVERSEAS, startWorld } from '../../support/world.ts';

/** Limits of requests, tokens and calls at once, of companies and of keys (contract section 5). */

const world = await startWorld(t);
const messages = [{ role: 'user', content: 'Hello there' }];

/** A customer whose company, or key, has these limits. */
async function limited(limits: { company?: string; key?: string }): Promise<Customer> {
  const customer = await world.newCustomer();
  const { company, key } = limits;
  if (company !== undefined)
    await world.sql.unsafe(`update companies set ${company} where id = '${customer.company}'`);
  if (key !== undefined)
    await world.sql.unsafe(`update api_keys set ${key} where company_id = '${customer.company}'`);
  return customer;
}

async function statuses(count: number, ask: () => Promise<{ status: number }>): Promise<number[]> {
  const answers = await Promise.all(Array.from({ length: count }, ask));
  return answers.map(({ status }) => status).sort();
}

/** Lets time pass for the limits of a company, and of its keys. */
function age({ company }: Customer, seconds: number) {
  return world.sql`
    update limit_windows set second = second - ${seconds}::integer
    where subject = ${company} or subject in (select id from api_keys where company_id = ${company})`;
}

/** Units leased in the last minute, by kind, once no lease of this gateway is left over. */
async function leased({ company }: Customer, kind: string): Promise<number> {
  const [row] = await world.sql`
    select sum(u)::integer as units from limit_windows, unnest(units) as u where subject = ${company} and kind = ${kind}`;
  return row?.units ?? 0;
}

for (const whose of ['company', 'key'] as const) {
  t.test(
    `requests per minute of a ${whose}: so many, then 429 with the headers of the reference format`,
    async (t) => {
      const customer = await limited({ [whose]: 'requests_per_minute = 5' });
      t.same(await statuses(5, () => customer.chat()), [200, 200, 200, 200, 200], 'all at once');
      const refused = await customer.chat();
      t.equal(refused.status, 429);
      const { error } = refused.json;
      t.match(error, { type: 'rate_limit_error', code: 'rate_limit_exceeded', param: null });
      t.match(
        error.message,
        new RegExp(`^This ${whose} is limited to 5 requests per minute. Try again in `),
      );
      const headers = Object.fromEntries(refused.headers);
      t.match(headers, {
        'retry-after': /^[1-9]\d?$/,
        'x-ratelimit-limit-requests': '5',
        'x-ratelimit-remaining-requests': '0',
        'x-ratelimit-reset-requests': /^(\d+s|1m\ds)$/,
      });
      t.notOk('x-ratelimit-limit-tokens' in headers, 'nothing of what is not limited');
      t.equal((await customer.ask('/models')).status, 200, 'what runs no model is not limited');
      await age(customer, 62);
      await until(async () => (await customer.chat()).status === 200, 'free again');
    },
  );
}

t.test('a request fits the limits of its key and of its company', async (t) => {
  const customer = await limited({
    company: 'requests_per_minute = 4',
    key: 'requests_per_minute = 3',
  });
  t.same(await statuses(4, () => customer.chat()), [200, 200, 200, 429]);
  const second = await world.key(customer.company);
  const body = { model: CHAT, messages };
  t.same(
    await statuses(2, () => open(`${world.url}/chat/completions`, { key: second, body })),
    [200, 429],
    'what the key was refused did not count for the company',
  );
});

t.test(
  'requests are counted behind key, scope and content type, and before the body is read',
  async (t) => {
    const customer = await limited({ company: 'requests_per_minute = 3' });
    const narrow = await world.key(customer.company, []);
    const status = async (body: unknown, more: object = {}) =>
      (await customer.ask('/chat/completions', { body, ...more })).status;
    t.equal(await status('{', { key: 'svc_x' }), 401);
    t.equal(await status('{', { key: narrow }), 403);
    t.equal(await status('{', { headers: { 'content-type': 'text/plain' } }), 415);
    t.equal(await status('{'), 400, 'the first that counts');
    t.equal(await status({ model: 'none', messages }), 404);
    t.equal(await status({ model: OVERSEAS, messages }), 403);
    t.equal(await status('{'), 429, 'before its body is looked at');
  },
);

t.test(
  'a limit holds on every endpoint that runs a model, in the words of its dialect',
  async (t) => {
    const customer = await limited({ company: 'requests_per_minute = 1' });
    t.equal((await customer.embed()).status, 200);
    const refused = await customer.ask('/messages', {
      body: { model: CHAT, max_tokens: 5, messages },
    });
    t.match(refused, { status: 429, json: { type: 'error', error: { type: 'rate_limit_error' } } });
    for (const path of [
      '/chat/completions',
      '/responses',
      '/messages/count_tokens',
      '/embeddings',
    ]) {
      t.equal(
        (await customer.ask(path, { body: { model: CHAT, input: 'x', messages } })).status,
        429,
        path,
      );
    }
  },
);

t.test('tokens per minute: reserved before the call, settled by its usage', async (t) => {
  const customer = await limited({ company: 'tokens_per_minute = 1000' });
  const { json } = await customer.chat({ max_tokens: 900 });
  const { total_tokens } = json.usage;
  await until(
    async () => (await leased(customer, 'tokens')) === total_tokens,
    'the rest is free again',
  );
  t.equal((await customer.chat({ max_tokens: 900 })).status, 200);
  const refused = await customer.chat({ max_tokens: 970 });
  t.match(Object.fromEntries(refused.headers), {
    'x-ratelimit-limit-tokens': '1000',
    'x-ratelimit-remaining-tokens': /^\d+$/,
    'x-ratelimit-reset-tokens': /s$/,
  });
  await age(customer, 62);
  await until(
    async () => (await customer.chat({ max_tokens: 970 })).status === 200,
    'a whole minute for one request',
  );
});

for (const whose of ['company', 'key'] as const) {
  t.test(
    `a request larger than the tokens a minute of a ${whose} is told that it never passes, and what would`,
    async (t) => {
      const customer = await limited({ [whose]: 'tokens_per_minute = 1000' });
      const never = new RegExp(
        `^This request can never pass: it counts with 5\\d\\d\\d tokens .* this ${whose} is limited to 1000 `,
      );
      for (const path of ['/chat/completions', '/responses', '/messages']) {
        const limits = { max_tokens: 5000, max_output_tokens: 5000 };
        const body = { model: CHAT, input: 'Hello there', messages, ...limits };
        const refused = await customer.ask(path, { body });
        t.equal(refused.status, 429, path);
        t.match(refused.json.error.message, never);
        const { 'retry-after': after, 'x-should-retry': again } = Object.fromEntries(
          refused.headers,
        );
        t.same([after, again], [undefined, 'false'], 'no client tries it again');
      }
      const { json } = await customer.chat({ max_tokens: 5000 });
      const [, most] = /generate (\d+) tokens at most/.exec(json.error.message) ?? [];
      t.equal(
        (await customer.chat({ max_tokens: Number(most) })).status,
        200,
        'what it says passes',
      );
      const long = await customer.chat({
        messages: [{ role: 'user', content: 'many words '.repeat(3000) }],
      });
      t.match(long, {
        status: 429,
        json: {
          error: { message: /never pass.* send a shorter prompt, or have the limit raised/ },
        },
      });
    },
  );
}

t.test('calls that are refused, or of which nothing ran, cost no tokens', async (t) => {
  const customer = await limited({ company: 'tokens_per_minute = 1000' });
  const failing = await world.part(customer, 'failing', world.upstream.parts.failing);
  t.equal((await customer.chat({ max_tokens: 900, model: failing })).status, 502);
  t.equal((await customer.chat({ max_tokens: 900, model: 'no-such-model' })).status, 404);
  t.equal((await customer.chat({ max_tokens: -1 })).status, 400);
  await until(async () => (await leased(customer, 'tokens')) === 0, 'nothing counts');
  t.equal(
    (await customer.ask('/messages/count_tokens', { body: { model: CHAT, messages } })).status,
    200,
  );
  t.equal(await leased(customer, 'tokens'), 0, 'counting is free');
});

t.test(
  'calls at once: a slot is free when its call is over, whatever the client does',
  async (t) => {
    const customer = await limited({ key: 'max_concurrent = 2' });
    const slow = await world.part(customer, 'slow', 'internal-slow!events-100000!pace-20');
    const stream = async () => {
      const gone = new AbortController();
      const body = { model: slow, messages, stream: true };
      const answer = await open(`${world.url}/chat/completions`, {
        key: customer.key,
        body,
        signal: gone.signal,
      });
      return { answer, gone };
    };
    const [first, second] = [await stream(), await stream()];
    t.same([first.answer.status, second.answer.status], [200, 200]);
    const refused = await customer.chat();
    t.equal(refused.status, 429);
    t.match(refused.json.error.message, 'limited to 2 requests at once');
    t.equal(refused.headers.get('retry-after'), '1');
    t.equal(
      (await customer.chat({ model: 'no-such-model' })).status,
      429,
      'before anything is looked up',
    );
    first.gone.abort();
    await until(
      async () => (await customer.chat()).status === 200,
      'the slot of the client that left',
    );
    second.gone.abort();
    await until(
      async () => (await statuses(2, () => customer.chat())).every((status) => status === 200),
      'both',
    );
  },
);

t.test('a changed limit holds within a second', async (t) => {
  const customer = await limited({ company: 'requests_per_minute = 1' });
  t.same(await statuses(2, () => customer.chat()), [200, 429]);
  await world.sql`update companies set requests_per_minute = 1000 where id = ${customer.company}`;
  await until(async () => (await customer.chat()).status === 200, 'raised');
  await world.sql`update companies set requests_per_minute = 2 where id = ${customer.company}`;
  await until(async () => (await customer.chat()).status === 429, 'lowered below what was used');
  await world.sql`update companies set requests_per_minute = null where id = ${customer.company}`;
  await until(async () => (await customer.chat()).status === 200, 'removed');
});

t.test('without limits nothing is leased', async (t) => {
  const customer = await world.newCustomer();
  t.equal((await customer.chat()).status, 200);
  t.equal(
    (await world.sql`select from limit_windows where subject = ${customer.company}`).length,
    0,
  );
});
