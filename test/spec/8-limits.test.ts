import t from 'tap';
import { formatEur, parseEur } from '../../src/domain/pricing/money.ts';
import { ask, open } from '../support/client.ts';
import { until } from '../support/until.ts';
import { CHAT, EMBED, startWorld } from '../support/world.ts';

const world = await startWorld(t);
const { customer } = world;
const assistant = await world.assistant(customer.company, { model: CHAT });
const many = (count: number) =>
  Array.from({ length: count }, () => ({ role: 'user', content: 'x' }));

t.test('8 limit: chat messages, at least 1', async (t) => {
  t.equal((await customer.chat({ messages: [] })).status, 400);
  t.equal((await customer.chat({ messages: many(1) })).status, 200);
  t.equal((await customer.chat({ messages: many(500) })).status, 200, 'no upper limit');
});

t.test('8 limit: assistant run messages, 1 to 50', async (t) => {
  t.equal((await customer.run(assistant, { messages: [] })).status, 400);
  t.equal((await customer.run(assistant, { messages: many(50) })).status, 200);
  t.equal((await customer.run(assistant, { messages: many(51) })).status, 400);
});

t.test('8 limit: assistant run temperature, 0 to 2', async (t) => {
  t.equal((await customer.run(assistant, { temperature: 0 })).status, 200);
  t.equal((await customer.run(assistant, { temperature: 2 })).status, 200);
  t.match((await customer.run(assistant, { temperature: 2.000001 })).json.error, {
    param: 'temperature',
  });
  t.match((await customer.run(assistant, { temperature: -1 })).json.error, {
    param: 'temperature',
  });
});

t.test('8 limit: assistant run max tokens, an integer from 1 to 32000', async (t) => {
  t.equal((await customer.run(assistant, { max_tokens: 1 })).status, 200);
  t.equal((await customer.run(assistant, { max_tokens: 32_000 })).status, 200);
  t.match((await customer.run(assistant, { max_tokens: 0 })).json.error, { param: 'max_tokens' });
  t.match((await customer.run(assistant, { max_tokens: 32_001 })).json.error, {
    param: 'max_tokens',
  });
  t.match((await customer.run(assistant, { max_tokens: 10.5 })).json.error, {
    param: 'max_tokens',
  });
});

t.test('8 limit: default embedding vectors have 1024 numbers', async (t) => {
  t.equal((await customer.embed()).json.data[0].embedding.length, 1024);
});

t.test('8 limit: the company monthly budget is in EUR; null or 0 is unlimited', async (t) => {
  const spent = async (budget: string | null) => {
    const other = await world.newCustomer({ budget });
    await world.sql`insert into chat_usage (company_id, cost_eur) values (${other.company}, 10)`;
    return (await other.chat()).status;
  };
  t.equal(await spent('10'), 402);
  t.equal(await spent('10.000001'), 200);
  t.equal(await spent(null), 200);
  t.equal(await spent('0'), 200);
});

t.test('8.1 before each forwarded request the budget is checked', async (t) => {
  const other = await world.newCustomer({ budget: '1' });
  const theirs = await world.assistant(other.company, { model: CHAT });
  await world.sql`insert into chat_usage (company_id, cost_eur) values (${other.company}, 1)`;
  const before = world.upstream.received().length;
  for (const answer of [
    await other.chat(),
    await other.chat({ stream: true }),
    await other.embed(),
    await other.run(theirs),
  ]) {
    t.equal(answer.status, 402);
  }
  t.equal(world.upstream.received().length, before, 'nothing was forwarded');
  t.equal((await other.ask('/models')).status, 200, 'what is not forwarded is not checked');
});

t.test('8.1 spend is API cost plus in-app chat cost', async (t) => {
  // neither part alone reaches the budget: 20 prompt tokens and more at 1 EUR per 1000, and 0.99 of 1
  const other = await world.newCustomer({ budget: '1' });
  await world.model('pricey', {
    upstream: 'internal-pricey',
    company: other.company,
    input: '1',
    output: '0',
  });
  const pricey = { model: 'pricey', messages: [{ role: 'user', content: 'word '.repeat(20) }] };
  t.equal((await other.chat(pricey)).status, 200);
  await world.ledger(other.company, 1);
  t.equal((await other.chat(pricey)).status, 200);
  await world.sql`insert into chat_usage (company_id, cost_eur) values (${other.company}, 0.99)`;
  await until(
    async () => (await other.chat(pricey)).status === 402,
    'the chat cost reaches the budget',
  );
});

t.test('8.1 spend is that of the current calendar month: last month does not count', async (t) => {
  const other = await world.newCustomer({ budget: '1' });
  await world.sql`insert into chat_usage (company_id, cost_eur, occurred_at) values (${other.company}, 5, date_trunc('month', now() at time zone 'UTC') at time zone 'UTC' - interval '1 second')`;
  t.equal((await other.chat()).status, 200);
});

t.test(
  '8.1 the calendar month begins with its first instant and ends before that of the next',
  async (t) => {
    const month = "date_trunc('month', now() at time zone 'UTC')";
    const instants = {
      [`${month} - interval '1 microsecond'`]: 200,
      [month]: 402,
      [`${month} + interval '1 month' - interval '1 microsecond'`]: 402,
      [`${month} + interval '1 month'`]: 200,
    };
    for (const [instant, status] of Object.entries(instants)) {
      const other = await world.newCustomer({ budget: '1' });
      await world.sql`insert into chat_usage (company_id, cost_eur, occurred_at)
      values (${other.company}, 1, (${world.sql.unsafe(instant)}) at time zone 'UTC')`;
      t.equal((await other.chat()).status, status, instant);
    }
  },
);

t.test(
  '8.2 a budget is reached when all of it is spent, and not one femto-EUR before',
  async (t) => {
    const cost = parseEur((await customer.chat()).headers.get('x-cost-eur') as string);
    for (const [budget, statuses] of [
      [cost, [200, 402]],
      [cost + 1n, [200, 200, 402]],
    ] as const) {
      const other = await world.newCustomer({ budget: formatEur(budget) });
      for (const status of statuses)
        t.equal((await other.chat()).status, status, `${budget} femto-EUR`);
    }
  },
);

t.test(
  '8.2 when the budget is reached the response is 402, also when the API alone reached it',
  async (t) => {
    const other = await world.newCustomer({ budget: '0.00001' });
    t.equal((await other.chat()).status, 200);
    t.equal((await other.chat()).status, 402, 'the next request sees what this one spent');
  },
);

t.test('8.2 a raised budget lets requests through again', async (t) => {
  const other = await world.newCustomer({ budget: '0.00001' });
  await other.chat();
  t.equal((await other.chat()).status, 402);
  await world.sql`update companies set monthly_budget_eur = 100 where id = ${other.company}`;
  await until(async () => (await other.chat()).status === 200, 'the raised budget is in force');
});

t.test('8.3 each successful call is recorded once, with its cost', async (t) => {
  const other = await world.newCustomer();
  const theirs = await world.assistant(other.company, { model: CHAT });
  const chat = (await other.chat()).json.usage;
  const embed = (await other.embed()).json.usage;
  const run = (await other.run(theirs)).json.usage;
  const rows = await world.ledger(other.company, 3);
  const cost = (prompt: number, completion: number, input: number, output: number) =>
    String((prompt * input * 1e6 + completion * output * 1e6) / 1e9);
  t.same(
    rows.map(({ endpoint, prompt_tokens, completion_tokens, cost_eur }) => [
      endpoint,
      prompt_tokens,
      completion_tokens,
      cost_eur,
    ]),
    [
      [
        'chat.completions',
        chat.prompt_tokens,
        chat.completion_tokens,
        cost(chat.prompt_tokens, chat.completion_tokens, 0.5, 1.5),
      ],
      ['embeddings', embed.prompt_tokens, 0, cost(embed.prompt_tokens, 0, 0.1, 0)],
      [
        'assistants.run',
        run.prompt_tokens,
        run.completion_tokens,
        cost(run.prompt_tokens, run.completion_tokens, 0.5, 1.5),
      ],
    ],
  );
  const [sum] = await world.sql`
    select requests::integer, api_cost_eur = (select sum(cost_eur) from api_usage u where u.company_id = m.company_id) as exact
    from monthly_spend m where company_id = ${other.company}`;
  t.same(sum, { requests: 3, exact: true }, 'the month is the sum of its rows');
});

t.test('8.3 a price change leaves the recorded cost as it was', async (t) => {
  const other = await world.newCustomer();
  await world.model('moving', {
    upstream: 'internal-x',
    company: other.company,
    input: '1',
    output: '1',
  });
  await other.chat({ model: 'moving' });
  const [before] = await world.ledger(other.company, 1);
  await world.sql`update models set cost_eur_per_1k_input = 9 where company_id = ${other.company}`;
  let calls = 1;
  await until(async () => {
    await other.chat({ model: 'moving' });
    return (await world.ledger(other.company, ++calls)).at(-1)?.price_input === '9';
  }, 'a call is booked at the new price');
  t.same((await world.ledger(other.company, 2))[0], before);
});

t.test('8.4 for streaming, usage is taken from the final usage chunk', async (t) => {
  const usage = (await customer.chat()).json.usage;
  for (const fault of [
    '',
    '!usage-in-finish',
    '!usage-every',
    '!usage-null',
    '!crlf',
    '!cr',
    '!noise',
    '!alphabetical',
  ]) {
    const other = await world.newCustomer();
    await world.part(other, 'any', `internal-x${fault}`);
    await other.chat({ model: 'any', stream: true });
    const [row] = await world.ledger(other.company, 1);
    t.match(
      row,
      {
        prompt_tokens: usage.prompt_tokens,
        completion_tokens: usage.completion_tokens,
        usage_source: 'upstream',
      },
      fault,
    );
  }
});

t.test(
  '8.4 a usage that is missing, or zero beside text, is estimated and marked as estimated',
  async (t) => {
    const other = await world.newCustomer();
    await world.part(other, 'zero', 'internal-x!usage-zero');
    await world.part(other, 'silent', 'internal-x!no-usage');
    for (const stream of [true, false]) {
      await other.chat({ model: 'zero', stream });
      await other.chat({ model: 'silent', stream });
    }
    const usage = (await customer.chat()).json.usage;
    for (const row of await world.ledger(other.company, 4)) {
      t.equal(row.usage_source, 'estimated');
      const share = row.completion_tokens / usage.completion_tokens;
      t.ok(
        share > 0.5 && share < 2,
        `${row.completion_tokens} of ${usage.completion_tokens} tokens estimated`,
      );
    }
  },
);

t.test('8.5 metering is best-effort: a failure to record never aborts a response', async (t) => {
  const other = await world.newCustomer();
  t.equal((await other.chat()).status, 200);
  await world.ledger(other.company, 1);
  await world.sql.begin(async (sql) => {
    await sql`lock table api_usage in access exclusive mode`;
    const answers = [
      await other.chat(),
      await other.chat({ stream: true }),
      await other.embed({ model: EMBED }),
    ];
    for (const { status, text } of answers)
      t.match({ status, text }, { status: 200, text: /usage/ });
    const [rows] =
      await sql`select count(*)::integer as n from api_usage where company_id = ${other.company}`;
    t.equal(rows?.n, 1);
  });
  t.equal((await world.ledger(other.company, 4)).length, 4, 'recorded as soon as it can be');
});

t.test('8.5 a client that leaves is metered nevertheless', async (t) => {
  const other = await world.newCustomer();
  await world.part(other, 'long', 'internal-x!events-100!pace-2');
  const leaving = new AbortController();
  const response = await open(`${world.url}/chat/completions`, {
    key: other.key,
    signal: leaving.signal,
    body: { model: 'long', messages: many(1), stream: true },
  });
  await response.body?.getReader().read();
  leaving.abort();
  const [row] = await world.ledger(other.company, 1);
  t.equal(row?.outcome, 'client_aborted');
  t.ok((row?.completion_tokens ?? 0) > 0);
});

t.test(
  '8.5 a client that leaves a silent upstream is metered by estimate, and the connection to the upstream is closed',
  async (t) => {
    const other = await world.newCustomer();
    await world.part(other, 'stalling', 'internal-x!stall-after-5');
    const leaving = new AbortController();
    const response = await open(`${world.url}/chat/completions`, {
      key: other.key,
      signal: leaving.signal,
      body: { model: 'stalling', messages: many(1), stream: true },
    });
    await response.body?.getReader().read();
    leaving.abort();
    const [row] = await world.ledger(other.company, 1);
    t.match(row, { outcome: 'client_aborted', usage_source: 'estimated' });
    const stalled = () =>
      world.upstream.received().find(({ body }) => body.model === 'internal-x!stall-after-5');
    await until(() => stalled()?.outcome === 'cut', 'the upstream sees its connection cut');
  },
);

t.test('8.6 without a budget, API calls are unlimited', async (t) => {
  const other = await world.newCustomer();
  await world.model('gold', {
    upstream: 'internal-x',
    company: other.company,
    input: '100000',
    output: '100000',
  });
  for (let i = 0; i < 3; i++) t.equal((await other.chat({ model: 'gold' })).status, 200);
  await world.ledger(other.company, 3);
  t.equal((await other.chat({ model: 'gold' })).status, 200);
});

t.test('8 there is a request size limit, told with 413', async (t) => {
  const small = await startWorld(t, { MAX_BODY_BYTES: '2000' });
  const content = (length: number) => ({
    messages: [{ role: 'user', content: 'x'.repeat(length) }],
  });
  t.equal((await small.customer.chat(content(1000))).status, 200);
  const answer = await small.customer.chat(content(2000));
  t.equal(answer.status, 413);
  t.match(answer.json.error, { type: 'invalid_request_error', code: 'request_too_large' });
  t.equal((await ask(`${small.url}/models`, { key: small.customer.key })).status, 200);
});
