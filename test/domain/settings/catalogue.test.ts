import { readFileSync } from 'node:fs';
import t from 'tap';
import { mistakesOf } from '../../../src/domain/pricing/rates.ts';
import { catalogue, convertBy, KINDS } from '../../../src/domain/settings/catalogue.ts';
import {
  entriesOf,
  entryOf,
  membersOf,
  priceOf,
} from '../../../src/domain/settings/catalogue-entry.ts';
import { type Row, readJson } from '../../../src/domain/settings/litellm-rows.ts';

const FIXTURE = readFileSync(new URL('catalogue.json', import.meta.url), 'utf8');
const entries = readJson(FIXTURE) as Readonly<Record<string, Row>>;
const read = (name: string, rate = '1') => {
  const entry = entries[name] as Row;
  return catalogue(entry, KINDS[entry.mode as string] ?? 'chat', name, convertBy(rate));
};
const names = (all: readonly { readonly name: string }[] | undefined) =>
  all?.map(({ name }) => name);

t.test('each part of a price is read, exactly and in EUR per 1000', async (t) => {
  t.strictSame(read('house/parts', '0.9')?.prices, {
    input: '0.000225',
    cache_read: '0.0000225',
    cache_write: '0.00028125',
    cache_write_1h: '0.00045',
    audio_input: '0.0009',
    image_input: '0.00045',
    output: '0.0018',
    reasoning: '0.0027',
    audio_output: '0.0036',
    image_output: '0.0054',
  });
  t.strictSame(read('house/rerank')?.prices, { input: '0', output: '0', search_unit: '2' });
  t.strictSame(read('house/embedding')?.prices, { input: '0.00002', output: '0' });
  t.strictSame(read('perplexity/asks')?.prices, { input: '0.001', output: '0.001', request: '5' });
  t.strictSame(read('house/by-call')?.prices, { input: '0.0002', output: '0.0002', request: '4' });
  t.strictSame(read('house/cache-hit')?.prices.cache_read, '0.000028');
});

t.test('suffixes and ranges are rates; what a rate leaves out costs as without it', async (t) => {
  t.strictSame(read('house/rates')?.rates, [
    { over: 272_000, input: '0.004', cache_read: '0.0004', output: '0.015' },
    { tier: 'flex', input: '0.001', cache_read: '0.0001', output: '0.005' },
    { tier: 'priority', input: '0.004', cache_read: '0.0002', output: '0.02' },
    { tier: 'priority', over: 272_000, input: '0.008', cache_read: '0.0002', output: '0.03' },
  ]);
  t.strictSame(names(read('house/rates')?.aside), [
    'input_cost_per_token_batches',
    'cache_read of priority',
    'cache_read of priority over 272000',
  ]);
  t.strictSame(read('house/hour')?.rates, [
    {
      over: 200_000,
      input: '0.006',
      cache_write: '0.0075',
      cache_write_1h: '0.012',
      output: '0.0225',
    },
  ]);
  t.strictSame(read('house/ranges'), {
    prices: { input: '0.0003', cache_read: '0.00008', output: '0.0015' },
    rates: [
      { over: 32_000, input: '0.0005', cache_read: '0.00012', output: '0.0025' },
      { over: 128_000, input: '0.0008', cache_read: '0.0002', output: '0.004' },
    ],
    inexact: [],
    aside: [],
  });
  t.match(read('xai/grok-next')?.rates, [{ over: 127_999 }], 'a list that says "128,000 and more"');
  t.strictSame(
    read('house/thoughts')?.rates,
    [{ tier: 'priority', input: '0.002', output: '0.018' }],
    'thoughts at the price of output follow it into a rate',
  );
});

t.test('what is not exact, and what no call here pays, is listed by name', async (t) => {
  t.strictSame(
    read('house/unsaid')?.inexact.map(({ name, why }) => `${name}: ${why}`),
    [
      'input_cost_per_image: a price by the image: calls tell tokens of images, and no images',
      'input_cost_per_video_per_second: a price by the second: calls tell no seconds',
      'output_cost_per_video_token: a price of video: calls tell no tokens of video',
      'citation_cost_per_token: a price of citations: calls tell no tokens of them',
      'input_cost_per_moonbeam: has no counterpart',
      'input_cost_per_token_above_200k_moonbeams: has no counterpart',
    ],
  );
  t.strictSame(names(read('house/unsaid')?.aside), [
    'output_cost_per_token_batches',
    'search_context_cost_per_query',
    'code_interpreter_cost_per_session',
    'input_dbu_cost_per_token',
    'regional_processing_uplift_multiplier_eu',
    'provider_specific_entry',
  ]);
  t.strictSame(names(read('house/embedding')?.aside), [
    'input_cost_per_image',
    'input_cost_per_video_per_second',
  ]);
  t.match(read('house/fine', '0.8637'), {
    prices: { input: '0.000472335938' },
    inexact: [{ name: 'input', why: /0\.0004723359375 is rounded to 0\.000472335938/ }],
  });
  t.strictSame(read('house/fine')?.inexact, []);
  t.match(read('house/residue'), {
    prices: { input: '0.01500002' },
    inexact: [],
    aside: [{ name: 'input', why: /0\.000015000020000000002 USD.* 0\.00001500002$/ }],
  });
  t.equal(read('house/by-second'), null, 'no price of a call');
  t.equal(read('house/nothing'), null);
  t.match(
    read('house/free'),
    { prices: { input: '0', output: '0' } },
    'a list that says 0 means it',
  );
});

t.test(
  'entries are found by name; of a router, deployments by the name that callers use',
  async (t) => {
    const file = entriesOf(readJson(FIXTURE));
    t.match(file?.get('house/parts'), {
      kind: 'chat',
      sizes: { context_length: 400_000, max_output_tokens: 64_000 },
    });
    t.equal(file && entryOf(file, 'house/parts')?.name, 'house/parts');
    t.equal(file && entryOf(file, 'perplexity/plain')?.name, 'plain');
    t.equal(file && entryOf(file, 'house/plain'), undefined, 'of another provider');
    const router = entriesOf({
      data: [
        deployment('two', { input_cost_per_token: '1e-06', output_cost_per_token: '4e-06' }),
        deployment('two', { input_cost_per_token: '2e-06', output_cost_per_token: '3e-06' }),
        deployment('none', { input_cost_per_token: 0, output_cost_per_token: 0 }),
        { model_name: 'of-team', model_info: { team_id: 't' } },
      ],
    });
    t.strictSame([...(router?.keys() ?? [])], ['two', 'none']);
    const priced = (name: string) => priceOf(router?.get(name) as never, 'chat', convertBy('1'));
    t.match(priced('two'), {
      prices: { input: '0.002', output: '0.004' },
      notes: [
        'input price: the highest of its 2 deployments',
        'output price: the highest of its 2 deployments',
      ],
    });
    t.equal(priced('none'), null, 'a 0 that a router tells is no price');
    t.equal(entriesOf([]), null);
    t.equal(entriesOf('text'), null);

    function deployment(model_name: string, info: Row): Row {
      return { model_name, model_info: { mode: 'chat', ...info } };
    }
  },
);

t.test('rates of a list are not left behind where people set another price', async (t) => {
  const told = { input_cost_per_token: '1e-06', input_cost_per_token_above_200k_tokens: '2e-06' };
  t.strictSame(membersOf([{}, { input_cost_per_token: '5e-06' }], told), {
    input_cost_per_token: '5e-06',
  });
  t.strictSame(membersOf([{}], told), told);
});

t.test(
  'nearly all entries of a whole public catalogue are exact',
  process.env.CATALOGUE === undefined ? { skip: 'CATALOGUE=FILE names one' } : {},
  async (t) => {
    const all = readJson(readFileSync(process.env.CATALOGUE as string, 'utf8')) as typeof entries;
    const [exact, unpriced, others]: [string[], string[], string[]] = [[], [], []];
    for (const [name, entry] of Object.entries(all)) {
      const kind = KINDS[entry.mode as string];
      if (kind === undefined) continue;
      const price = catalogue(entry, kind, name, convertBy('1'));
      if (price === null) unpriced.push(name);
      else {
        t.strictSame(mistakesOf(price.rates, price.prices, Date.now()), [], name);
        if (price.inexact.length === 0) exact.push(name);
        else
          others.push(
            `${name}: ${price.inexact.map(({ name, why }) => `${name} ${why}`).join('; ')}`,
          );
      }
    }
    const priced = exact.length + others.length;
    const share = ((100 * exact.length) / priced).toFixed(2);
    t.comment(
      [
        `${exact.length} of ${priced} exact, ${share} %; ${unpriced.length} without a price of a call`,
        ...others,
      ].join('\n'),
    );
    t.ok(exact.length >= 0.99 * priced);
  },
);
