import { randomInt } from 'node:crypto';
import t from 'tap';
import { boundChat, boundPrompt } from '../../../src/domain/budget.ts';
import { costOf, parsePrices, pricesToBound } from '../../../src/domain/pricing/prices.ts';
import { parseRates } from '../../../src/domain/pricing/rates.ts';
import { type CallBounds, chargeOf } from '../../../src/domain/tokens/charged-tokens.ts';
import { keepPrompt } from '../../../src/domain/tokens/prompt.ts';
import type { ToldUsage } from '../../../src/json/usage.ts';
import { NO_DETAILS } from '../../../src/json/usage-counts.ts';
import { fuzzRuns } from '../../support/fuzz.ts';

const PRICES = parsePrices('1', '10');
const textBody = (content: unknown) => [
  Buffer.from(JSON.stringify({ messages: [{ role: 'user', content }] })),
];
const BODY = textBody('Hello');
const BYTES = (BODY[0] as Buffer).length;

function boundsOf(more: Partial<CallBounds> = {}): CallBounds {
  return {
    limit: 300,
    prompt: keepPrompt(BODY),
    isTextAlone: null,
    reserved: null,
    prices: PRICES,
    facts: { at: 0, tier: null },
    askedTier: null,
    ...more,
  };
}

const told = (prompt: number | null, completion: number | null): ToldUsage => ({
  prompt,
  completion,
  details: null,
});
const guess = { prompt: 9, completion: 20, seen: 18 };

t.test(
  'a told usage within the bounds is charged as it is, and nothing is estimated',
  async (t) => {
    const estimate = () => {
      throw new Error('estimated');
    };
    const charge = chargeOf(boundsOf(), told(12, 300), estimate);
    t.match(charge, {
      tokens: { prompt: 12, completion: 300 },
      isPromptTold: true,
      isCompletionTold: true,
      isBeyond: false,
    });
  },
);

t.test('what was not told is estimated', async (t) => {
  t.match(
    chargeOf(boundsOf(), null, () => guess),
    { tokens: { prompt: 9, completion: 20 }, isBeyond: false },
  );
  const half = chargeOf(boundsOf(), told(12, null), () => guess);
  t.match(half, {
    tokens: { prompt: 12, completion: 20 },
    isPromptTold: true,
    isCompletionTold: false,
  });
});

t.test(
  'a completion above the limit is charged up to the limit, or to the text that was seen',
  async (t) => {
    for (const completion of [301, 4000, 1e12]) {
      const charge = chargeOf(boundsOf(), told(12, completion), () => guess);
      t.match(charge, {
        tokens: { prompt: 12, completion: 300 },
        isPromptTold: true,
        isCompletionTold: false,
        isBeyond: true,
      });
    }
    const overrun = { ...guess, seen: 900 };
    t.equal(chargeOf(boundsOf(), told(12, 1e12), () => overrun).tokens.completion, 900);
    t.equal(chargeOf(boundsOf(), told(12, 700), () => overrun).tokens.completion, 700);
  },
);

t.test(
  'a prompt has few more tokens than its text has bytes; one with images or searches may have many',
  async (t) => {
    t.match(
      chargeOf(boundsOf(), told(BYTES + 9000, 1), () => guess).tokens,
      { prompt: BYTES + 9000 },
      'a template',
    );
    t.match(
      chargeOf(boundsOf(), told(1e6, 1), () => guess),
      { tokens: { prompt: 9, completion: 1 }, isBeyond: true },
    );
    const image = keepPrompt(
      textBody([{ type: 'image_url', image_url: { url: 'https://a/b.png' } }]),
    );
    t.match(chargeOf(boundsOf({ prompt: image }), told(1e6, 1), () => guess).tokens, {
      prompt: 1e6,
    });
    t.match(chargeOf(boundsOf({ prompt: image }), told(1e12, 1), () => guess).tokens, {
      prompt: 9,
    });
    const large = keepPrompt(textBody('x'.repeat(100_000)));
    t.match(
      chargeOf(boundsOf({ prompt: large, isTextAlone: true }), told(1e6, 1), () => guess).tokens,
      { prompt: 9 },
    );
    t.match(
      chargeOf(boundsOf({ prompt: large, isTextAlone: false }), told(1e6, 1), () => guess).tokens,
      { prompt: 1e6 },
    );
  },
);

t.test('without a limit there is that of what any model can', async (t) => {
  t.equal(
    chargeOf(boundsOf({ limit: null }), told(12, 128_000), () => guess).tokens.completion,
    128_000,
  );
  const charge = chargeOf(boundsOf({ limit: null }), told(12, 1e12), () => guess);
  t.match(charge, { tokens: { completion: 20 }, isCompletionTold: false, isBeyond: true });
});

t.test(
  'a strict budget is charged no more than was reserved, whatever was told or seen',
  async (t) => {
    const request = { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 300 };
    for (const prices of [
      PRICES,
      parsePrices('0', '10'),
      parsePrices('0.37', '0'),
      parsePrices('0.000000000001', '7'),
    ]) {
      const reserved = boundChat(request, BYTES, prices);
      for (const usage of [
        null,
        told(1e12, 1e12),
        told(BYTES + 9000, 300),
        told(12, 300),
        told(null, 900),
        told(12, 0),
      ]) {
        for (const seen of [18, 5000]) {
          const estimate = { prompt: 20_000, completion: seen, seen };
          const { tokens } = chargeOf(boundsOf({ reserved, prices }), usage, () => estimate);
          t.ok(
            costOf(prices, tokens.prompt, tokens.completion) <= reserved.amount,
            JSON.stringify(tokens),
          );
        }
      }
    }
    const reserved = boundChat(request, BYTES, PRICES);
    const charge = chargeOf(boundsOf({ reserved }), told(BYTES + 50, 20), () => guess);
    t.match(
      charge,
      { tokens: { prompt: BYTES + 50, completion: 20 }, isPromptTold: true },
      'what was reserved is enough',
    );
  },
);

t.test('details of a count that was cut are left out', async (t) => {
  const details = {
    ...NO_DETAILS,
    cached: 3,
    cacheWrite: 2,
    audioPrompt: 1,
    reasoning: 4,
    audioCompletion: 1,
    cost: '0.1',
  };
  const charged = (prompt: number, completion: number) =>
    chargeOf(boundsOf(), { prompt, completion, details }, () => guess).details;
  t.same(charged(12, 301), { ...details, reasoning: null, audioCompletion: null });
  t.same(charged(1e9, 20), { ...details, cached: null, cacheWrite: null, audioPrompt: null });
  t.equal(charged(12, 20), details);
});

t.test(
  'tokens of the cache beyond the prompt are left out, and cut where they have a price',
  async (t) => {
    const none = NO_DETAILS;
    const charged = (
      cached: number | null,
      cacheWrite: number | null,
      prices = parsePrices('1', '10', { cache_read: '0.1', cache_write: '1.25' }),
    ) => {
      const usage = { prompt: 12, completion: 20, details: { ...none, cached, cacheWrite } };
      const { tokens, details, isPromptTold, isBeyond } = chargeOf(
        boundsOf({ prices }),
        usage,
        () => guess,
      );
      t.strictSame([tokens, isPromptTold], [{ prompt: 12, completion: 20 }, true]);
      return [details?.cached, details?.cacheWrite, isBeyond];
    };
    t.strictSame(charged(10, 2), [10, 2, false]);
    t.strictSame(charged(13, null), [12, null, true]);
    t.strictSame(charged(null, 13), [null, 12, true]);
    t.strictSame(charged(10, 3), [10, 2, true], 'those that were read first');
    t.strictSame(charged(13, 5), [12, 0, true]);
    for (const prices of [
      parsePrices('1', '10', { cache_read: '0.1' }),
      parsePrices('1', '10', { cache_write: '0' }),
    ]) {
      t.strictSame(charged(10, 3, prices), [10, 2, true], 'one price is enough');
    }
    t.strictSame(
      charged(13, 5, PRICES),
      [null, 5, false],
      'without a price they are told for information',
    );
    t.strictSame(charged(10, 5, PRICES), [10, 5, false]);
  },
);

t.test('a strict budget holds whatever is told of the cache', async (t) => {
  const request = { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 300 };
  const none = NO_DETAILS;
  for (const [input, read, write] of [
    ['1', '0.1', '1.25'],
    ['0', '0.1', '2'],
    ['1', '3', null],
    ['0', null, '7'],
    ['1', '0', '0'],
  ] as const) {
    const prices = parsePrices(input, '10', { cache_read: read, cache_write: write });
    const reserved = boundChat(request, BYTES, prices);
    for (const prompt of [12, BYTES, BYTES + 50, BYTES + 9000]) {
      for (const cached of [null, 0, 5, prompt, prompt + 1]) {
        for (const cacheWrite of [null, 0, 7, prompt]) {
          const usage = { prompt, completion: 300, details: { ...none, cached, cacheWrite } };
          const { tokens, details } = chargeOf(boundsOf({ reserved, prices }), usage, () => guess);
          const cost = costOf(prices, tokens.prompt, tokens.completion, details);
          t.ok(
            cost >= 0n && cost <= reserved.amount,
            JSON.stringify([input, read, write, usage, tokens]),
          );
          if (prompt <= BYTES) t.equal(tokens.prompt, prompt, 'what was reserved is enough');
        }
      }
    }
  }
});

t.test('a strict budget holds with rates and parts, whatever is told', async (t) => {
  const request = { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 300 };
  const price = () => String(randomInt(4) / 2);
  const some = (names: readonly string[]) =>
    Object.fromEntries(names.filter(() => randomInt(2) > 0).map((name) => [name, price()]));
  const parts = [
    'cache_read',
    'cache_write_1h',
    'audio_input',
    'reasoning',
    'search_unit',
    'request',
  ];
  const told = (most: number) => (randomInt(3) === 0 ? null : randomInt(most));
  let cut = 0;
  for (let n = 0; n < fuzzRuns(20_000); n++) {
    const of = () => ({ input: price(), output: price(), ...some(parts) });
    const over = BYTES + randomInt(200) - 100;
    const rates = parseRates(
      [
        { tier: 'priority', ...of() },
        { over, ...of() },
        { over, tier: 'priority', ...of() },
        { hours: '00:00-24:00 UTC', ...of() },
      ].filter(() => randomInt(2) > 0),
    );
    const { input, output, ...others } = of();
    const prices = parsePrices(input, output, others, rates);
    const [asked, tier] = [0, 0].map(() => (randomInt(2) > 0 ? 'priority' : null)) as [null, null];
    const bounding = pricesToBound(prices, { at: 0, tier: asked });
    const reserved =
      randomInt(2) > 0
        ? boundChat(request, BYTES, bounding)
        : boundPrompt(BYTES, bounding, true, 1 + randomInt(3));
    const usage = {
      prompt: told(BYTES + 300),
      completion: told(400),
      details: {
        ...NO_DETAILS,
        cached: told(BYTES),
        cacheWrite: told(BYTES),
        cacheWriteHour: told(BYTES),
        audioPrompt: told(BYTES),
        reasoning: told(400),
        searchUnits: told(6),
      },
    };
    const bounds = { reserved, prices, facts: { at: 0, tier }, askedTier: asked };
    const charge = chargeOf(boundsOf(bounds), usage, () => ({
      ...guess,
      prompt: BYTES + randomInt(99),
    }));
    const { tokens, details, isBeyond } = charge;
    if (isBeyond) cut++;
    const cost = costOf(charge.prices, tokens.prompt, tokens.completion, details);
    const facts = () =>
      JSON.stringify([of, rates, asked, tier, usage, charge], (_, value) =>
        typeof value === 'bigint' ? `${value}` : value,
      );
    if (cost < 0n || cost > reserved.amount) t.fail(facts());
    const { rate } = charge.prices;
    if (
      rate?.includes('over') &&
      tokens.prompt <= over &&
      isBeyond &&
      tokens.prompt === reserved.prompt
    )
      t.fail(facts());
  }
  t.ok(cut > 0);
});

t.test('parts told for a dearer tier fit what a strict budget is charged instead', async (t) => {
  const request = { messages: [{ role: 'user', content: 'Hello' }], max_tokens: 300 };
  const rates = parseRates([{ tier: 'priority', input: '1.5', output: '1', audio_input: '0' }]);
  const prices = parsePrices('0.5', '0', { cache_write_1h: '0', audio_input: '0' }, rates);
  const bounding = pricesToBound(prices, { at: 0, tier: null });
  const reserved = boundChat(request, BYTES, bounding);
  const facts = { at: 0, tier: 'priority' };
  const details = { ...NO_DETAILS, audioPrompt: 18, cacheWriteHour: 39 };
  const charge = chargeOf(
    boundsOf({ reserved, prices, facts, askedTier: null }),
    { prompt: 48, completion: 84, details },
    () => guess,
  );
  t.match(charge, { tokens: { prompt: 48 }, isBeyond: true, prices: { rate: null } });
  t.match(charge.details, { cacheWriteHour: 39, audioPrompt: 9 }, 'the later parts are cut first');
});
