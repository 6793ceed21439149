import t, { type Test } from 'tap';
import { formatEur, parseEur } from '../../../src/domain/pricing/money.ts';
import {
  completion,
  finish,
  message,
  messageEvents,
  response,
  token,
} from '../../support/answers.ts';
import { startGateway, type TestGateway, WAYS } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { scriptedUpstream } from '../../support/upstream.ts';
import { type Customer, customerWith } from '../../support/world.ts';

/** Rates and parts of a price: what every dialect tells of them, and what the call then costs. */

const upstream = await scriptedUpstream(t);

interface Offer {
  readonly kind?: string;
  readonly rates?: readonly object[] | null;
  /** Prices of parts besides input and output, by the part. */
  readonly parts?: Readonly<Record<string, string>>;
  /** A strict budget in EUR. */
  readonly strict?: string | null;
}

/** A customer with a model of its own: 1 and 2 EUR for 1000 tokens. */
async function customerOf(
  gateway: TestGateway,
  { kind = 'chat', rates = null, parts = {}, strict = null }: Offer = {},
): Promise<Customer> {
  const company = await gateway.company({ budget: strict });
  const { sql } = gateway;
  if (strict !== null) await sql`update companies set budget_mode = 'strict' where id = ${company}`;
  const prices = Object.entries({ input: '1', output: '2', ...parts });
  const columns = prices.map(([part]) => `cost_eur_per_1k_${part}`).join(', ');
  await sql.unsafe(
    `insert into models (slug, company_id, upstream_model, kind, eu_hosted, rates, ${columns})
     values ('brand', $1, 'internal-chat', $2, true, $3::text::jsonb, ${prices.map(([, price]) => price)})`,
    [company, kind, rates && JSON.stringify(rates)],
  );
  return customerWith(gateway.url, company, await gateway.key(company));
}

/** What was booked, in the order of the calls. */
const booked = async ({ sql, ledger }: TestGateway, company: string, rows: number) => {
  await ledger(company, rows);
  return sql`select prompt_tokens::integer as prompt, completion_tokens::integer as completion, rate, parts,
      trim_scale(cost_eur)::text as cost, usage_source as source, cache_write_1h_tokens::integer as hour,
      audio_prompt_tokens::integer as sound, image_prompt_tokens::integer as images, reasoning_tokens::integer as thoughts,
      search_units::integer as units
    from api_usage where company_id = ${company} order by occurred_at, request_id`;
};

const TIERS = [
  { tier: 'priority', input: '2', output: '4' },
  { tier: 'flex', input: '0.5', output: '1' },
];
const ASKED = { model: 'brand', max_tokens: 400, messages: [{ role: 'user', content: 'Hi' }] };
const text = (more: object) => ({ index: 0, text: 'Hi', finish_reason: null, ...more });

/** How each dialect asks, and answers with a usage of 100 and 10 tokens and a tier: whole, and as events. */
interface Dialect {
  readonly path: string;
  readonly body: object;
  whole(tier: object): object;
  events(tier: object, first?: object): (object | string)[];
}
const USAGE = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 };
const TYPED = { input_tokens: 100, output_tokens: 10 };
const DIALECTS: readonly Dialect[] = [
  {
    path: '/chat/completions',
    body: ASKED,
    whole: (tier) => ({ ...completion(USAGE), ...tier }),
    events: (tier, first = tier) => [
      ...Array.from({ length: 4 }, () => ({ ...token, ...first })),
      ...Array.from({ length: 4 }, () => ({ ...token, ...tier })),
      { ...finish, ...tier },
      { choices: [], usage: USAGE, ...tier },
      '[DONE]',
    ],
  },
  {
    path: '/completions',
    body: { model: 'brand', prompt: 'Hi', max_tokens: 400 },
    whole: (tier) => ({
      object: 'text_completion',
      choices: [text({ finish_reason: 'stop' })],
      usage: USAGE,
      ...tier,
    }),
    events: (tier, first = tier) => [
      { choices: [text({})], ...first },
      { choices: [text({ finish_reason: 'stop' })], usage: USAGE, ...tier },
      '[DONE]',
    ],
  },
  {
    path: '/responses',
    body: { model: 'brand', input: 'Hi', max_output_tokens: 400 },
    whole: (tier) => response({ usage: TYPED, ...tier }),
    events: (tier, first = tier) => [
      { type: 'response.created', response: response({ usage: null, ...first }) },
      { type: 'response.output_text.delta', delta: 'Hi' },
      { type: 'response.completed', response: response({ usage: TYPED, ...tier }) },
    ],
  },
  {
    path: '/messages',
    body: ASKED,
    whole: (tier) => message({ ...TYPED, ...tier }),
    events: (tier, first = tier) => messageEvents({ ...TYPED, ...first }, { output_tokens: 10 }),
  },
];

/** Asks for one, and the answer says one: what the call costs, and its rate. */
const SAID: readonly (readonly [asked: object, said: object, cost: string, rate: string | null])[] =
  [
    [{}, {}, '0.12', null],
    [{}, { service_tier: 'priority' }, '0.24', 'priority'],
    [{ service_tier: 'priority' }, { service_tier: 'priority' }, '0.24', 'priority'],
    [{ service_tier: 'priority' }, { service_tier: 'default' }, '0.12', null],
    [{ service_tier: 'priority' }, { service_tier: 'standard' }, '0.12', null],
    [{ service_tier: 'priority' }, { service_tier: 'flex' }, '0.06', 'flex'],
    [{ service_tier: 'auto' }, { service_tier: 'flex' }, '0.06', 'flex'],
    [{ service_tier: 'flex' }, { service_tier: 'unheard' }, '0.12', null],
  ];
/** The answer says none. */
const UNSAID = [{}, { service_tier: null }, { service_tier: '' }, { service_tier: 5 }];

for (const FAST_HTTP of WAYS) {
  t.test(`rates, FAST_HTTP=${FAST_HTTP}`, async (t) => {
    const gateway = await startGateway(t, upstream.url, { FAST_HTTP });
    for (const dialect of DIALECTS)
      t.test(`${dialect.path}: the tier is what the answer says`, (t) =>
        tellTiers(t, gateway, dialect),
      );
    t.test('parts of the price', (t) => tellParts(t, gateway));
    t.test('search units', (t) => tellUnits(t, gateway));
    t.test('a strict budget', (t) => holdBudget(t, gateway));
    t.test('windows', (t) => keepWindows(t, gateway));
    t.test('a tier without a rate', (t) => nameTiers(t, gateway));
    t.test('a rate that a program wrote and nobody can read', (t) => logUnread(t, gateway));
  });
}

async function tellTiers(
  t: Test,
  gateway: TestGateway,
  { path, body, whole, events }: Dialect,
): Promise<void> {
  const customer = await customerOf(gateway, { rates: TIERS });
  const calls = [
    ...SAID,
    ...UNSAID.map((said) => [{ service_tier: 'flex' }, said, '0.06', 'flex'] as const),
  ];
  const expected: object[] = [];
  for (const [asked, said, cost, rate] of calls) {
    const name = JSON.stringify([asked, said]);
    upstream.answerJson(whole(said));
    const answer = await customer.ask(path, { body: { ...body, ...asked } });
    t.equal(answer.headers.get('x-cost-eur'), cost, name);
    const id = answer.headers.get('x-request-id');
    upstream.answerEvents(events(said));
    t.equal((await customer.ask(path, { body: { ...body, ...asked, stream: true } })).status, 200);
    expected.push({ cost, rate }, { cost, rate });
    await gateway.ledger(customer.company, expected.length);
    t.equal((await customer.ask(`/usage/${id}`)).json.cost_eur, cost, name);
  }
  if (path !== '/messages') {
    // the events tell one tier, and then another one
    upstream.answerEvents(events({ service_tier: 'priority' }, { service_tier: 'auto' }));
    await customer.ask(path, { body: { ...body, stream: true } });
    expected.push({ cost: '0.24', rate: 'priority' });
  }
  const rows = await booked(gateway, customer.company, expected.length);
  t.match(rows, expected);
  const all = rows.reduce((sum, { cost }) => sum + parseEur(cost), 0n);
  t.equal((await customer.ask('/usage')).json.key.cost_eur, formatEur(all));
}

t.test('an answer that is too large is charged by the tier that it tells', async (t) => {
  const gateway = await startGateway(t, upstream.url, { MAX_ANSWER_BYTES: '40000' });
  const padding = 'x'.repeat(100_000);
  const labels = { metadata: { service_tier: 'priority' }, tools: [{ service_tier: 'priority' }] };
  for (const { path, body, whole } of DIALECTS) {
    const customer = await customerOf(gateway, { rates: TIERS });
    const expected: object[] = [];
    for (const [asked, said, cost, rate] of SAID) {
      const answers = [
        { ...whole(said), padding, ...labels },
        { padding, ...whole(said), ...labels },
        { labels, padding, ...whole(said) },
      ];
      for (const answer of answers) {
        upstream.answerJson(answer);
        t.equal((await customer.ask(path, { body: { ...body, ...asked } })).status, 502);
        expected.push({ source: 'upstream', cost, rate });
      }
    }
    t.match(await booked(gateway, customer.company, expected.length), expected, path);
  }
});

const PARTS = {
  cache_read: '0.1',
  cache_write: '1.25',
  cache_write_1h: '2',
  audio_input: '10',
  image_input: '5',
  reasoning: '3',
  audio_output: '20',
  image_output: '40',
  request: '7',
};
/** A usage, and what it costs in thousandths of a EUR besides the call's own 7, and what is booked. */
type Told = readonly [usage: object, cost: number, row: object];
const details = (ofPrompt: object, ofCompletion: object = {}) => ({
  ...USAGE,
  prompt_tokens_details: ofPrompt,
  completion_tokens_details: ofCompletion,
});
const CHAT: readonly Told[] = [
  [USAGE, 120, { source: 'upstream' }],
  [details({ audio_tokens: 40, image_tokens: 20 }), 40 + 400 + 100 + 20, { sound: 40, images: 20 }],
  [
    details({}, { reasoning_tokens: 4, audio_tokens: 3, image_tokens: 2 }),
    100 + 2 + 12 + 60 + 80,
    { thoughts: 4 },
  ],
  [
    details({ cached_tokens: 50, cache_creation_token_details: { ephemeral_1h_input_tokens: 30 } }),
    20 + 5 + 60 + 20,
    { hour: 30, source: 'upstream' },
  ],
  // beside the prompt, and in the total alone
  [
    { ...details({ audio_tokens: 375 }), prompt_tokens: 9, total_tokens: 394 },
    9 + 3750 + 20,
    { prompt: 384, sound: 375, source: 'upstream' },
  ],
  [
    { ...USAGE, prompt_tokens: 9, total_tokens: 394, prompt_audio_seconds: 25 },
    9 + 3750 + 20,
    { prompt: 384, sound: 375, source: 'upstream' },
  ],
  [{ ...USAGE, total_tokens: 172 }, 100 + 144, { completion: 72 }],
  // overlap, and excess: the later ones are cut
  [
    details({ cached_tokens: 80, audio_tokens: 40 }),
    8 + 200 + 20,
    { sound: 20, source: 'estimated' },
  ],
  [
    details({ audio_tokens: 60, image_tokens: 60 }),
    600 + 200 + 20,
    { images: 40, source: 'estimated' },
  ],
  [details({}, { reasoning_tokens: 11 }), 100 + 30, { thoughts: 10, source: 'estimated' }],
];

async function tellParts(t: Test, gateway: TestGateway): Promise<void> {
  const customer = await customerOf(gateway, { parts: PARTS });
  const plain = await customerOf(gateway);
  const rows: object[] = [];
  const plainRows: object[] = [];
  for (const [usage, thousandths, row] of CHAT) {
    const cost = formatEur(BigInt(thousandths + 7) * 10n ** 12n);
    for (const { ask } of [customer, plain]) {
      upstream.answerJson(completion(usage));
      const { headers } = await ask('/chat/completions', { body: ASKED });
      if (ask === customer.ask)
        t.equal(headers.get('x-cost-eur'), cost, JSON.stringify([usage, row]));
      upstream.answerEvents([token, finish, { choices: [], usage }, '[DONE]']);
      await ask('/chat/completions', { body: { ...ASKED, stream: true } });
    }
    rows.push({ ...row, cost }, { ...row, cost });
    plainRows.push({ source: 'upstream', rate: null, parts: null });
    plainRows.push({ source: 'upstream', rate: null, parts: null });
  }
  t.match(await booked(gateway, customer.company, rows.length), rows);
  // without prices of parts nothing is cut, and no row says that it was
  t.match(await booked(gateway, plain.company, plainRows.length), plainRows);

  const written = {
    cache_creation: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 20 },
  };
  const others = await customerOf(gateway, { parts: PARTS });
  upstream.answerJson(message({ ...TYPED, ...written }));
  await others.ask('/messages', { body: ASKED });
  upstream.answerEvents(messageEvents({ ...TYPED, ...written }, { output_tokens: 10 }));
  await others.ask('/messages', { body: { ...ASKED, stream: true } });
  const run = { input_tokens: 50, output_tokens: 5, ...written };
  upstream.answerJson(message({ ...TYPED, iterations: [run, run] }));
  await others.ask('/messages', { body: ASKED });
  const typed = {
    ...TYPED,
    input_tokens_details: { audio_tokens: 10 },
    output_tokens_details: { reasoning_tokens: 4 },
  };
  const body = { model: 'brand', input: 'Hi' };
  upstream.answerJson(response({ usage: typed }));
  await others.ask('/responses', { body });
  upstream.answerEvents([{ type: 'response.completed', response: response({ usage: typed }) }]);
  await others.ask('/responses', { body: { ...body, stream: true } });
  const ofMessages = { prompt: 130, hour: 20, cost: '0.1795', source: 'upstream' };
  const ofResponses = { sound: 10, thoughts: 4, cost: '0.221', source: 'upstream' };
  t.match(await booked(gateway, others.company, 5), [
    ofMessages,
    ofMessages,
    { prompt: 160, hour: 40, cost: '0.232' },
    ofResponses,
    ofResponses,
  ]);
}

const RANKED = { model: 'brand', query: 'Hi', documents: ['One', 'Two'] };
const ranking = (more: object) => ({ results: [{ index: 0, relevance_score: 0.5 }], ...more });

async function tellUnits(t: Test, gateway: TestGateway): Promise<void> {
  const parts = { input: '0', output: '0', search_unit: '2' };
  const customer = await customerOf(gateway, { kind: 'rerank', parts });
  const expected: object[] = [];
  for (const [told, units, source] of [
    [{ meta: { billed_units: { search_units: 3 } } }, 3, 'estimated'],
    [{ meta: { billed_units: { search_units: 1, input_tokens: 40 } } }, 1, 'upstream'],
    [{ meta: { billed_units: { search_units: 2 } }, usage: { total_tokens: 40 } }, 2, 'upstream'],
    [{ usage: { total_tokens: 40, search_units: 2 } }, 2, 'upstream'],
    [{ usage: { total_tokens: 40 } }, null, 'upstream'],
    [{}, null, 'estimated'],
  ] as const) {
    upstream.answerJson(ranking(told));
    const { headers } = await customer.ask('/rerank', { body: RANKED });
    const cost = formatEur(BigInt(units ?? 0) * 2n * 10n ** 12n);
    t.equal(headers.get('x-cost-eur'), cost, JSON.stringify(told));
    expected.push({ units, source, cost });
  }
  t.match(await booked(gateway, customer.company, expected.length), expected);

  const strict = await customerOf(gateway, { kind: 'rerank', parts, strict: '0.0021' });
  upstream.answerJson(
    ranking({ meta: { billed_units: { search_units: 500 } }, usage: { total_tokens: 40 } }),
  );
  t.equal((await strict.ask('/rerank', { body: RANKED })).status, 200);
  const [row] = await booked(gateway, strict.company, 1);
  t.match(row, { units: 1, cost: '0.002', source: 'estimated' }, 'no more than was reserved');
}

/** The most that a call with this body costs, in EUR, with prices times a factor. */
const most = (body: object, factor = 1): string =>
  formatEur(
    (BigInt(Math.round(factor * 2)) *
      (BigInt(Buffer.byteLength(JSON.stringify(body))) * 10n ** 12n + 100n * 2n * 10n ** 12n)) /
      2n,
  );

async function holdBudget(t: Test, gateway: TestGateway): Promise<void> {
  const body = { ...ASKED, model: 'brand', max_tokens: 100 };
  const bytes = Buffer.byteLength(JSON.stringify(body));
  const hours = '00:00-24:00 UTC';
  const expensive = { input: '2', output: '4' };
  for (const [name, rates, asked, factor] of [
    ['a tier that is not asked for', TIERS, {}, 1],
    ['one that is', TIERS, { service_tier: 'priority' }, 2],
    ['a cheaper one, which may be served as standard', TIERS, { service_tier: 'flex' }, 1],
    ['a length out of reach', [{ over: bytes + 5000, ...expensive }], {}, 1],
    ['one that the body reaches', [{ over: bytes - 1, ...expensive }], {}, 2],
    ['a window that is open', [{ hours, ...expensive }], {}, 2],
  ] as const) {
    const more = { ...body, ...asked };
    const least = most(more, factor);
    for (const [strict, status] of [
      [least, 200],
      [formatEur(parseEur(least) - 10n ** 9n), 402],
      [formatEur(parseEur(least) + 10n ** 9n), 200],
    ] as const) {
      const customer = await customerOf(gateway, { rates, strict });
      upstream.answerJson({ ...completion(USAGE), service_tier: 'default' });
      const { status: got } = await customer.ask('/chat/completions', { body: more });
      t.equal(got, status, `${name}: ${strict}`);
    }
  }
  // more than was reserved, whatever makes it so: never over
  const far = { prompt_tokens: bytes + 9000, completion_tokens: 100 };
  const request = { ...expensive, request: '5000' };
  for (const [name, rates, usage, tier] of [
    ['another tier', TIERS, far, 'priority'],
    ['a tier with a price of the call', [{ tier: 'priority', ...request }], USAGE, 'priority'],
    ['a longer prompt', [{ over: bytes + 50, ...request }], far, 'default'],
    ['more of an answer', TIERS, { ...far, completion_tokens: 5000 }, 'priority'],
  ] as const) {
    const strict = most(body);
    const customer = await customerOf(gateway, { rates, strict });
    upstream.answerJson({ ...completion(usage), service_tier: tier });
    t.equal((await customer.ask('/chat/completions', { body })).status, 200, name);
    const [row] = await booked(gateway, customer.company, 1);
    t.ok(parseEur(row?.cost) <= parseEur(strict), `${name}: ${row?.cost} of ${strict}`);
    upstream.answerEvents([
      { ...token, service_tier: tier },
      finish,
      { choices: [], usage },
      '[DONE]',
    ]);
    await customer.ask('/chat/completions', { body: { ...body, stream: true } });
  }
}

/** The rate of an instant, and of an estimate. */
async function keepWindows(t: Test, gateway: TestGateway): Promise<void> {
  const dear = { input: '2', output: '4' };
  const customer = await customerOf(gateway, {
    rates: [
      { hours: '00:00-24:00 UTC', ...dear },
      { over: 1000, input: '3', output: '6' },
      { over: 1000, hours: '00:00-24:00 UTC', input: '4', output: '8' },
    ],
  });
  upstream.answerJson(completion(USAGE));
  const { headers } = await customer.ask('/chat/completions', { body: ASKED });
  t.equal(headers.get('x-cost-eur'), '0.24');
  upstream.answerJson(completion(undefined));
  const content = 'word '.repeat(4000);
  await customer.ask('/chat/completions', {
    body: { ...ASKED, messages: [{ role: 'user', content }] },
  });
  const [, estimated] = await booked(gateway, customer.company, 2);
  const { prompt, completion: generated, cost } = estimated as never;
  t.match(estimated, { rate: '00:00-24:00 UTC over 1000', source: 'estimated' });
  t.equal(cost, formatEur((BigInt(prompt) * 4n + BigInt(generated) * 8n) * 10n ** 12n));
}

async function nameTiers(t: Test, gateway: TestGateway): Promise<void> {
  const customer = await customerOf(gateway);
  for (const service_tier of ['default', 'scale', 'scale', 'on demand']) {
    upstream.answerJson({ ...completion(USAGE), service_tier });
    const { headers } = await customer.ask('/chat/completions', { body: ASKED });
    t.equal(headers.get('x-cost-eur'), '0.12');
  }
  upstream.answerEvents([
    { ...token, service_tier: 'batch' },
    { ...finish, usage: USAGE },
    '[DONE]',
  ]);
  await customer.ask('/chat/completions', { body: { ...ASKED, stream: true } });
  const found = await until(
    () => gateway.sql`select m as member from gateways, jsonb_array_elements(unread_usage) u,
      jsonb_array_elements_text(u -> 'members') m where u ->> 'slug' = 'brand' order by 1`,
    'the heartbeat tells the tiers',
    (rows) => rows.some(({ member }) => member === 'service_tier=batch'),
  );
  const members = found.map(({ member }) => member);
  for (const name of ['service_tier', 'service_tier=batch', 'service_tier=scale'])
    t.ok(members.includes(name), name);
  t.notOk(members.includes('service_tier=default'));
  const lines = gateway.logged.filter((line) => line.includes('"service_tier=scale"'));
  t.equal(lines.length, 1, 'logged once a model');
}

async function logUnread(t: Test, gateway: TestGateway): Promise<void> {
  const rates = [{ hours: '10:00-11:00 Mars/Olympus', input: '9', output: '9' }];
  const customer = await customerOf(gateway, { rates });
  upstream.answerJson(completion(USAGE));
  const { headers } = await customer.ask('/chat/completions', { body: ASKED });
  t.equal(headers.get('x-cost-eur'), '0.12');
  const lines = gateway.logged.filter((line) => line.includes('Mars/Olympus'));
  t.equal(lines.length, 1);
  t.match(JSON.parse(lines[0] as string), { model: 'brand', rate: '10:00-11:00 Mars/Olympus' });

  const free = await customerOf(gateway, {
    parts: { input: '0', output: '0' },
    rates: [{ over: 5, input: '1', output: '1' }],
  });
  upstream.answerJson(completion(USAGE));
  await free.ask('/chat/completions', { body: ASKED });
  t.notOk(gateway.logged.some((line) => line.includes(free.company) && line.includes('are free')));
}
