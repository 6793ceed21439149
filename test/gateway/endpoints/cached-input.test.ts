import t from 'tap';
import { formatEur, parseEur } from '../../../src/domain/pricing/money.ts';
import {
  completion,
  finish,
  message,
  messageEvents,
  response,
  token,
} from '../../support/answers.ts';
import { startGateway } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { scriptedUpstream } from '../../support/upstream.ts';
import { customerWith } from '../../support/world.ts';

/** Prices of cached input: what every dialect tells of the cache, and what the call then costs. */

const upstream = await scriptedUpstream(t);
const gateway = await startGateway(t, upstream.url);

/** EUR per 1000 tokens. */
const INPUT = '0.002';
const OUTPUT = '0.01';

interface Cache {
  readonly read?: string | null;
  readonly write?: string | null;
}

async function customerOf(
  { read = '0.0002', write = '0.0025' }: Cache = {},
  strict: string | null = null,
) {
  const company = await gateway.company({ budget: strict });
  if (strict !== null)
    await gateway.sql`update companies set budget_mode = 'strict' where id = ${company}`;
  const prices = { input: INPUT, output: OUTPUT, cacheRead: read, cacheWrite: write, company };
  await gateway.model('brand', { upstream: 'internal-chat', ...prices });
  await gateway.model('brand-embed', { upstream: 'internal-embed', kind: 'embedding', ...prices });
  const assistant = await gateway.assistant(company, { model: 'brand' });
  return { ...customerWith(gateway.url, company, await gateway.key(company)), assistant };
}

/** What was booked of each call, in the order of the calls. */
async function booked(company: string, rows: number) {
  await gateway.ledger(company, rows);
  const found = await gateway.sql`
    select prompt_tokens::integer as prompt, cached_tokens::integer as cached, cache_write_tokens::integer as written,
      completion_tokens::integer as completion, trim_scale(cost_eur)::text as cost, usage_source as source,
      trim_scale(price_cache_read)::text as read, trim_scale(price_cache_write)::text as write
    from api_usage where company_id = ${company} order by occurred_at, request_id`;
  return found as unknown as Record<
    'prompt' | 'cached' | 'written' | 'completion' | 'cost' | 'source' | 'read' | 'write',
    never
  >[];
}

const STREAMED = { model: 'brand', stream: true, stream_options: { include_usage: true } };
const ASKED = {
  model: 'brand',
  max_tokens: 4000,
  messages: [{ role: 'user', content: 'Hi' }],
  input: 'Hi',
};

type Told = readonly [
  usage: object,
  prompt: number,
  cached: number | null,
  written: number | null,
  cost: string,
];

/** Usages of chat completions. 1000 of 8700 prompt tokens and 100 completion tokens cost 0.0184 without a cache. */
const CHAT: Readonly<Record<string, Told>> = {
  'read from the cache': [
    { prompt_tokens_details: { cached_tokens: 8000 } },
    8700,
    8000,
    null,
    '0.004',
  ],
  'written to it': [
    { prompt_tokens_details: { cache_write_tokens: 600 } },
    8700,
    null,
    600,
    '0.0187',
  ],
  'written, by another name': [
    { prompt_tokens_details: { cache_creation_tokens: 600 } },
    8700,
    null,
    600,
    '0.0187',
  ],
  both: [
    { prompt_tokens_details: { cached_tokens: 8000, cache_write_tokens: 600 } },
    8700,
    8000,
    600,
    '0.0043',
  ],
  DeepSeek: [
    { prompt_cache_hit_tokens: 8000, prompt_cache_miss_tokens: 700 },
    8700,
    8000,
    null,
    '0.004',
  ],
  'a router that tells both forms': [
    {
      prompt_tokens_details: { cached_tokens: 8000, cache_creation_tokens: 600 },
      cache_read_input_tokens: 8000,
      cache_creation_input_tokens: 600,
    },
    8700,
    8000,
    600,
    '0.0043',
  ],
  'told beside the prompt, by the total': [
    {
      prompt_tokens: 100,
      prompt_tokens_details: { cached_tokens: 8000, cache_write_tokens: 600 },
      total_tokens: 8800,
    },
    8700,
    8000,
    600,
    '0.0043',
  ],
  'nothing of it': [{}, 8700, null, null, '0.0184'],
  'null details': [{ prompt_tokens_details: null }, 8700, null, null, '0.0184'],
  'null counts': [
    { prompt_tokens_details: { cached_tokens: null, cache_write_tokens: null } },
    8700,
    null,
    null,
    '0.0184',
  ],
  zeros: [
    { prompt_tokens_details: { cached_tokens: 0, cache_write_tokens: 0 } },
    8700,
    0,
    0,
    '0.0184',
  ],
  'no counts': [
    { prompt_tokens_details: { cached_tokens: -5, cache_write_tokens: 1.5 } },
    8700,
    null,
    null,
    '0.0184',
  ],
  'all of it': [{ prompt_tokens_details: { cached_tokens: 8700 } }, 8700, 8700, null, '0.00274'],
};

/** The same, told larger than the prompt: what is charged is cut, and the row says so. */
const CUT: Readonly<Record<string, Told>> = {
  'more read than the prompt has': [
    { prompt_tokens_details: { cached_tokens: 9000 } },
    8700,
    8700,
    null,
    '0.00274',
  ],
  'more written': [
    { prompt_tokens_details: { cache_write_tokens: 9000 } },
    8700,
    null,
    8700,
    '0.02275',
  ],
  'more together': [
    { prompt_tokens_details: { cached_tokens: 8000, cache_write_tokens: 800 } },
    8700,
    8000,
    700,
    '0.00435',
  ],
};

const chatUsage = (usage: object) => ({ prompt_tokens: 8700, completion_tokens: 100, ...usage });

t.test(
  'chat completions, embeddings and runs: whole, streamed, and in the last chunk alone',
  async (t) => {
    for (const [forms, source] of [
      [CHAT, 'upstream'],
      [CUT, 'estimated'],
    ] as const) {
      for (const [name, [usage, prompt, cached, written, cost]] of Object.entries(forms)) {
        const customer = await customerOf();
        const told = chatUsage(usage);
        upstream.answerJson(completion(told));
        const whole = await customer.chat({ model: 'brand' });
        t.equal(whole.headers.get('x-cost-eur'), cost, name);
        upstream.answerEvents([token, finish, { choices: [], usage: told }, '[DONE]']);
        t.equal((await customer.chat(STREAMED)).status, 200);
        upstream.answerEvents([{ ...token, usage: null }, { ...finish, usage: told }, '[DONE]']);
        t.equal((await customer.chat(STREAMED)).status, 200);
        upstream.answerJson(completion(told));
        t.equal((await customer.run(customer.assistant)).headers.get('x-cost-eur'), cost);
        const rows = await booked(customer.company, 4);
        const row = {
          prompt,
          cached,
          written,
          completion: 100,
          cost,
          source,
          read: '0.0002',
          write: '0.0025',
        };
        t.strictSame(
          rows.map((each) => ({ ...each })),
          [row, row, row, row],
          name,
        );

        const id = whole.headers.get('x-request-id') as string;
        t.match((await customer.ask(`/usage/${id}`)).json, {
          cost_eur: cost,
          cached_tokens: cached,
        });
        const { json } = await customer.ask('/usage');
        t.equal(json.key.cost_eur, formatEur(4n * parseEur(cost)), name);
      }
    }
    const customer = await customerOf();
    const details = { prompt_tokens_details: { cached_tokens: 400 } };
    upstream.answerJson({
      object: 'list',
      data: [],
      usage: { prompt_tokens: 1000, total_tokens: 1000, ...details },
    });
    t.equal((await customer.embed({ model: 'brand-embed' })).headers.get('x-cost-eur'), '0.00128');
  },
);

t.test('responses: within the input, whole and streamed', async (t) => {
  const customer = await customerOf();
  const input_tokens_details = { cached_tokens: 8000, cache_write_tokens: 600 };
  const usage = {
    input_tokens: 8700,
    output_tokens: 100,
    total_tokens: 8800,
    input_tokens_details,
  };
  upstream.answerJson(response({ usage }));
  t.equal((await customer.ask('/responses', { body: ASKED })).headers.get('x-cost-eur'), '0.0043');
  upstream.answerEvents([
    { type: 'response.created', response: response({ status: 'in_progress', usage: null }) },
    { type: 'response.completed', response: response({ usage }) },
  ]);
  t.equal((await customer.ask('/responses', { body: { ...ASKED, stream: true } })).status, 200);
  upstream.answerJson(
    response({ usage: { ...usage, input_tokens_details: { cached_tokens: 9000 } } }),
  );
  t.equal((await customer.ask('/responses', { body: ASKED })).headers.get('x-cost-eur'), '0.00274');
  const row = {
    prompt: 8700,
    cached: 8000,
    written: 600,
    completion: 100,
    cost: '0.0043',
    source: 'upstream',
  };
  const cut = { prompt: 8700, cached: 8700, written: null, cost: '0.00274', source: 'estimated' };
  t.match(await booked(customer.company, 3), [row, row, cut]);
});

t.test(
  'messages: beside the input, by how long it is kept, within it by a router, and in each half of a stream',
  async (t) => {
    const customer = await customerOf();
    const beside = {
      input_tokens: 100,
      cache_read_input_tokens: 8000,
      cache_creation_input_tokens: 600,
    };
    const { cache_creation_input_tokens: _, ...read } = beside;
    const kept = {
      ...read,
      cache_creation: { ephemeral_5m_input_tokens: 500, ephemeral_1h_input_tokens: 100 },
    };
    const within = { ...beside, input_tokens: 8700, output_tokens: 100, total_tokens: 8800 };
    const body = { ...ASKED, stream: true };
    for (const usage of [
      { ...beside, output_tokens: 100 },
      { ...kept, output_tokens: 100 },
      within,
    ]) {
      upstream.answerJson(message(usage));
      const { headers } = await customer.ask('/messages', { body: ASKED });
      t.equal(headers.get('x-cost-eur'), '0.0043', JSON.stringify(usage));
    }
    for (const [start, delta] of [
      [{ ...beside, output_tokens: 1 }, { output_tokens: 100 }],
      [{ ...kept, output_tokens: 1 }, { output_tokens: 100 }],
      [
        { ...beside, output_tokens: 1 },
        { ...beside, output_tokens: 100 },
      ],
      [
        { input_tokens: 0, output_tokens: 0 },
        { ...beside, output_tokens: 100 },
      ],
    ] as const) {
      upstream.answerEvents([...messageEvents(start, delta)]);
      t.equal((await customer.ask('/messages', { body })).status, 200);
    }
    const row = {
      prompt: 8700,
      cached: 8000,
      written: 600,
      completion: 100,
      cost: '0.0043',
      source: 'upstream',
    };
    t.match(await booked(customer.company, 7), Array(7).fill(row));
  },
);

t.test(
  'a broken stream: what was told of the prompt has its price, and an estimate the input price',
  async (t) => {
    const customer = await customerOf();
    const usage = {
      input_tokens: 100,
      cache_read_input_tokens: 8000,
      cache_creation_input_tokens: 600,
      output_tokens: 1,
    };
    upstream.answerEvents([
      ...messageEvents(usage, {}).slice(0, 3),
      {
        type: 'error',
        error: { type: 'overloaded_error', message: 'x' },
      },
    ]);
    await customer.ask('/messages', { body: { ...ASKED, stream: true } });
    upstream.answerEvents([token, finish, '[DONE]']);
    await customer.chat(STREAMED);
    // a prompt that cannot be is estimated, and its parts with it
    upstream.answerJson(
      completion(chatUsage({ prompt_tokens: 1e9, prompt_tokens_details: { cached_tokens: 8000 } })),
    );
    await customer.chat({ model: 'brand' });
    const rows = await booked(customer.company, 3);
    const costOf = ({ prompt, completion }: (typeof rows)[number], cheaper = '0') =>
      formatEur(
        BigInt(prompt) * 2_000_000_000n + BigInt(completion) * 10_000_000_000n - parseEur(cheaper),
      );
    const [first, second, third] = rows as [
      (typeof rows)[number],
      (typeof rows)[number],
      (typeof rows)[number],
    ];
    t.match(first, { prompt: 8700, cached: 8000, written: 600, source: 'estimated' });
    t.equal(first.cost, costOf(first, '0.0141'));
    for (const row of [second, third]) {
      t.match(row, { cached: null, written: null, source: 'estimated' });
      t.equal(row.cost, costOf(row));
    }
  },
);

t.test('one price alone, 0, and none', async (t) => {
  const usage = chatUsage({
    prompt_tokens_details: { cached_tokens: 8000, cache_write_tokens: 600 },
  });
  for (const [cache, cost] of [
    [{ read: '0.0002', write: null }, '0.004'],
    [{ read: null, write: '0.0025' }, '0.0187'],
    [{ read: '0', write: null }, '0.0024'],
    [{ read: '0', write: '0' }, '0.0012'],
    [{ read: '0.000000000001', write: '0.000000000001' }, '0.0012000000086'],
    [{ read: null, write: null }, '0.0184'],
  ] as const) {
    const customer = await customerOf(cache);
    upstream.answerJson(completion(usage));
    t.equal(
      (await customer.chat({ model: 'brand' })).headers.get('x-cost-eur'),
      cost,
      JSON.stringify(cache),
    );
    const { read, write } = cache;
    t.match(await booked(customer.company, 1), [
      { cost, read, write, cached: 8000, written: 600, source: 'upstream' },
    ]);
  }
});

t.test(
  'without a price what is told of the cache is kept as before: beyond the prompt it is left out',
  async (t) => {
    const customer = await customerOf({ read: null, write: null });
    for (const details of [
      { cached_tokens: 9000, cache_write_tokens: 8700 },
      { cached_tokens: 8000, cache_write_tokens: 8000 },
    ]) {
      upstream.answerJson(completion(chatUsage({ prompt_tokens_details: details })));
      t.equal((await customer.chat({ model: 'brand' })).headers.get('x-cost-eur'), '0.0184');
    }
    const row = { cost: '0.0184', source: 'upstream', read: null, write: null };
    t.match(await booked(customer.company, 2), [
      { ...row, cached: null, written: 8700 },
      { ...row, cached: 8000, written: 8000 },
    ]);
  },
);

t.test('a strict budget reserves by the dearest of the three prices', async (t) => {
  const body = {
    model: 'brand',
    max_tokens: 100,
    messages: [{ role: 'user', content: 'x'.repeat(1000) }],
  };
  // at the input price about 0.0021 + 0.001 EUR, at the dearest about 1.05
  for (const [cache, status] of [
    [{ read: null, write: null }, 200],
    [{ read: '0.0001', write: '0.001' }, 200],
    [{ read: '0.0001', write: '1' }, 402],
    [{ read: '1', write: null }, 402],
  ] as const) {
    const customer = await customerOf(cache, '0.01');
    upstream.answerJson(completion({ prompt_tokens: 300, completion_tokens: 100 }));
    t.equal((await customer.chat(body)).status, status, JSON.stringify(cache));
  }
});

t.test('a price that begins at a date brings those of the cache with it', async (t) => {
  const customer = await customerOf({ read: null, write: null });
  const usage = chatUsage({ prompt_tokens_details: { cached_tokens: 8000 } });
  const cost = async () => {
    upstream.answerJson(completion(usage));
    return (await customer.chat({ model: 'brand' })).headers.get('x-cost-eur');
  };
  t.equal(await cost(), '0.0184');
  await gateway.sql`
    update models set cost_eur_per_1k_cache_read = 0.0002 where slug = 'brand' and company_id = ${customer.company}`;
  t.equal(await until(cost, 'the price is another one', (seen) => seen !== '0.0184'), '0.004');
  const history = await gateway.sql`
    select trim_scale(cache_read)::text as read, cache_write as write from model_prices
    where slug = 'brand' and company_id = ${customer.company} order by valid_from`;
  t.strictSame(
    [...history.map((row) => ({ ...row }))],
    [
      { read: null, write: null },
      { read: '0.0002', write: null },
    ],
  );
});
