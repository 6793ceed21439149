import t from 'tap';
import { formatEur, parseEur } from '../../../src/domain/pricing/money.ts';
import {
  costOf as exactCost,
  type Prices,
  parsePrices,
} from '../../../src/domain/pricing/prices.ts';
import { parseRates } from '../../../src/domain/pricing/rates.ts';
import {
  type ChangeParts,
  type ComparedModel,
  explainChange,
  PARTS,
  partsAmong,
} from '../../../src/domain/reports/usage-change.ts';
import { sumUsage, type UsageSums } from '../../../src/domain/usage.ts';
import { fuzzRuns } from '../../support/fuzz.ts';

/** Why two costs differ: the parts add up to the last digit, and each is what it is called. */

const RUNS = fuzzRuns(2000);
const SEED = Number(process.env.FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 31));
t.comment(`FUZZ_RUNS=${RUNS} FUZZ_SEED=${SEED}`);

/** Numbers from a seed: a linear congruential generator. */
function numbersFrom(seed: number): (most: number) => number {
  let state = BigInt(seed);
  return (most) => {
    state = (state * 6364136223846793005n + 1442695040888963407n) % 2n ** 64n;
    return Number(((state >> 33n) * BigInt(most + 1)) >> 31n);
  };
}

const NO_USAGE = sumUsage([]);

const costOf = ({ input, output }: Prices, prompt: number, completion: number): string =>
  formatEur((BigInt(prompt) * input + BigInt(completion) * output) / 1000n);

const usage = (
  requests: number,
  prompt: number,
  completion: number,
  prices: Prices,
): UsageSums => ({
  requests,
  prompt_tokens: prompt,
  completion_tokens: completion,
  cost_eur: costOf(prices, prompt, completion),
});

const sumOf = (parts: ChangeParts) =>
  formatEur(PARTS.reduce((sum, part) => sum + parseEur(parts[part]), 0n));

/** A price with up to 12 decimals. */
const priceFrom = (pick: (most: number) => number): string =>
  `${pick(3)}.${String(pick(999_999)).padStart(6, '0')}${String(pick(999_999)).padStart(6, '0')}`;
const pricesFrom = (pick: (most: number) => number): Prices => {
  const cache = () => (pick(2) === 0 ? priceFrom(pick) : null);
  return parsePrices(priceFrom(pick), priceFrom(pick), {
    cache_read: cache(),
    cache_write: cache(),
  });
};
const cacheFrom = (pick: (most: number) => number, { prompt_tokens: prompt }: UsageSums) => {
  const cached = pick(3) === 0 ? null : Math.min(prompt, pick(1_000_000_000));
  return {
    cached,
    cacheWrite: pick(3) === 0 ? null : Math.min(prompt - (cached ?? 0), pick(100_000_000)),
  };
};

function sumsFrom(pick: (most: number) => number, prices: Prices): UsageSums {
  const requests = pick(4) === 0 ? 0 : pick(10_000);
  return requests === 0
    ? NO_USAGE
    : usage(requests, pick(1_000_000_000), pick(100_000_000), prices);
}

function modelFrom(pick: (most: number) => number): ComparedModel {
  const reference = pick(5) === 0 ? null : pricesFrom(pick);
  const of = () =>
    sumsFrom(pick, pick(2) === 0 && reference !== null ? reference : pricesFrom(pick));
  const [before, after] = [of(), of()];
  if (pick(2) === 0) return { before, after, reference };
  return {
    before,
    after,
    reference,
    counts: { before: cacheFrom(pick, before), after: cacheFrom(pick, after) },
  };
}

/** The model with rates of all conditions, and calls at some of them. */
function withRates(pick: (most: number) => number, model: ComparedModel): ComparedModel {
  if (model.reference === null || pick(2) === 0) return model;
  const { input, output, ...others } = model.reference.texts;
  const conditions = [
    { over: 100 },
    { tier: 'priority' },
    { over: 100, tier: 'priority' },
    { hours: '00:00-06:00 UTC', over: 100 },
    { hours: '00:00-06:00 UTC', tier: 'priority' },
    { hours: '00:00-06:00 UTC', tier: 'priority', over: 100 },
  ].filter(() => pick(3) > 0);
  const rates = parseRates(
    conditions.map((each) => ({ ...each, input: priceFrom(pick), output: priceFrom(pick) })),
  );
  const rated = rates.map((rate) => ({
    rate,
    time: pick(1) === 0 ? ('before' as const) : ('after' as const),
    requests: 1 + pick(1000),
    prompt_tokens: pick(1_000_000),
    completion_tokens: pick(100_000),
    counts: {},
  }));
  return { ...model, reference: parsePrices(input, output, others, rates), rated };
}

t.test(
  'whatever is compared, the parts of each model and of all add up to the difference, to the last digit',
  async (t) => {
    const pick = numbersFrom(SEED);
    for (let run = 0; run < RUNS; run++) {
      const models = Array.from({ length: 1 + pick(6) }, () => withRates(pick, modelFrom(pick)));
      const { total, lines } = explainChange(models);
      const wrong = [...lines, total].filter(
        (each) =>
          sumOf(each) !== each.difference_eur ||
          parseEur(each.after.cost_eur) - parseEur(each.before.cost_eur) !==
            parseEur(each.difference_eur),
      );
      for (const part of [...PARTS, 'difference_eur'] as const) {
        const sum = lines.reduce((all, line) => all + parseEur(line[part]), 0n);
        if (sum !== parseEur(total[part])) wrong.push(total);
      }
      if (wrong.length > 0) t.fail('a part is missing', { models, wrong });
    }
  },
);

/** The definition in fractions: each part of all models, as numerator and denominator of femto-EUR. */
function defined(models: readonly ComparedModel[]): Record<(typeof PARTS)[number], number> {
  const worth = (model: ComparedModel, time: 'before' | 'after', cache = model.counts?.[time]) => {
    const { prompt_tokens: prompt, completion_tokens: completion } = model[time];
    const { input, output, texts } = model.reference as Prices;
    const more = (text: string | null) =>
      text === null ? 0 : Number(parseEur(text)) - Number(input);
    const [read, written] = [Number(cache?.cached ?? 0), Number(cache?.cacheWrite ?? 0)];
    const cheaper = read * more(texts.cache_read) + written * more(texts.cache_write);
    const whole = (prompt * Number(input) + completion * Number(output) + cheaper) / 1000;
    return [whole, cheaper / 1000] as const;
  };
  const count = (time: 'before' | 'after') =>
    models.reduce((sum, model) => sum + model[time].requests, 0);
  const [n, m] = [count('before'), count('after')];
  const parts = Object.fromEntries(PARTS.map((part) => [part, 0])) as Record<
    (typeof PARTS)[number],
    number
  >;
  for (const model of models) {
    const { before, after } = model;
    const [[v, d], [w, e]] = [worth(model, 'before'), worth(model, 'after')];
    const cached =
      before.prompt_tokens === 0 ? 0 : e - (after.prompt_tokens * d) / before.prompt_tokens;
    parts.more_cached_eur += cached;
    parts.more_calls_eur += (v * m) / n - v;
    const asLong = before.requests === 0 ? w : (v / before.requests) * after.requests;
    parts.dearer_models_eur += asLong - (v * m) / n;
    parts.longer_calls_eur += w - asLong - cached;
    parts.changed_prices_eur +=
      Number(parseEur(after.cost_eur)) - w - (Number(parseEur(before.cost_eur)) - v);
  }
  return parts;
}

t.test('each part is what its definition says, computed in another way', async (t) => {
  const pick = numbersFrom(SEED + 1);
  for (let run = 0; run < RUNS; run++) {
    const models = Array.from({ length: 1 + pick(4) }, () => ({
      ...modelFrom(pick),
      reference: pricesFrom(pick),
    }));
    if (models.every(({ before }) => before.requests === 0)) continue;
    const expected = defined(models);
    const { total } = explainChange(models);
    const scale = Math.max(
      1,
      Number(parseEur(total.before.cost_eur)),
      Number(parseEur(total.after.cost_eur)),
      ...Object.values(expected).map(Math.abs),
    );
    for (const part of PARTS) {
      if (Math.abs(Number(parseEur(total[part])) - expected[part]) > scale * 1e-9)
        t.fail(part, { models, expected: expected[part], found: total[part] });
    }
  }
});

t.test('what does not change has no part in it', async (t) => {
  const pick = numbersFrom(SEED + 2);
  for (let run = 0; run < RUNS; run++) {
    const factor = 1 + pick(8);
    const count = 1 + pick(4);
    const models = Array.from({ length: count }, () => {
      const prices = pricesFrom(pick);
      const [requests, prompt, completion] = [1 + pick(5000), pick(1_000_000), pick(100_000)];
      const before = usage(requests, prompt, completion, prices);
      return { before, prices, requests, prompt, completion };
    });
    // the same calls, so many times
    const grown = explainChange(
      models.map(({ before, prices, requests, prompt, completion }) => ({
        before,
        after: usage(requests * factor, prompt * factor, completion * factor, prices),
        reference: prices,
      })),
    ).total;
    t.same(
      PARTS.slice(1).map((part) => grown[part]),
      PARTS.slice(1).map(() => '0'),
      'only more calls',
    );
    // as many calls of each, with other tokens
    const longer = explainChange(
      models.map(({ before, prices, requests }) => ({
        before,
        after: usage(requests, pick(1_000_000), pick(100_000), prices),
        reference: prices,
      })),
    ).total;
    t.same(
      [longer.more_calls_eur, longer.dearer_models_eur, longer.changed_prices_eur],
      ['0', '0', '0'],
      'only length',
    );
    // the same calls at other prices
    const dearer = explainChange(
      models.map(({ before, prices, requests, prompt, completion }) => ({
        before,
        after: usage(requests, prompt, completion, pricesFrom(pick)),
        reference: prices,
      })),
    ).total;
    t.same(
      PARTS.slice(0, -2).map((part) => dearer[part]),
      PARTS.slice(0, -2).map(() => '0'),
      'only prices',
    );
    if (run > 50) break; // three assertions a run
  }
});

t.test('a call that goes to a dearer model is one of dearer models, and as long', async (t) => {
  const [cheap, dear] = [parsePrices('0.001', '0.001'), parsePrices('0.01', '0.01')];
  const of = (calls: number, prices: Prices) => usage(calls, calls * 1000, 0, prices);
  const { total, lines } = explainChange([
    { before: of(10, cheap), after: of(0, cheap), reference: cheap },
    { before: of(10, dear), after: of(20, dear), reference: dear },
  ]);
  t.same(total.difference_eur, '0.09');
  t.match(total, {
    more_calls_eur: '0',
    longer_calls_eur: '0',
    dearer_models_eur: '0.09',
    changed_prices_eur: '0',
  });
  t.same(
    lines.map(({ dearer_models_eur }) => dearer_models_eur),
    ['-0.01', '0.1'],
  );
});

t.test(
  'a model that is new is one of dearer models; where all is new, it is more calls',
  async (t) => {
    const prices = parsePrices('0.003', '0');
    const used = usage(3, 1000, 0, prices);
    const kept = { before: used, after: used, reference: prices };
    const fresh = { before: NO_USAGE, after: used, reference: prices };
    t.match(explainChange([kept, fresh]).lines[1], {
      more_calls_eur: '0',
      dearer_models_eur: '0.003',
      longer_calls_eur: '0',
    });
    t.match(explainChange([fresh]).total, {
      more_calls_eur: '0.003',
      dearer_models_eur: '0',
      longer_calls_eur: '0',
    });
    const gone = { before: used, after: NO_USAGE, reference: prices };
    t.match(explainChange([gone]).total, {
      more_calls_eur: '-0.003',
      dearer_models_eur: '0',
      difference_eur: '-0.003',
    });
    t.match(explainChange([]).total, { before: NO_USAGE, difference_eur: '0' });
  },
);

t.test(
  'a price that changed within the time before counts as far as it was another than at its end',
  async (t) => {
    const [old, now] = [parsePrices('0.002', '0'), parsePrices('0.001', '0')];
    const half = costOf(old, 500, 0);
    const before = {
      ...usage(10, 1000, 0, now),
      cost_eur: formatEur(parseEur(half) + parseEur(costOf(now, 500, 0))),
    };
    const { total } = explainChange([{ before, after: usage(10, 1000, 0, now), reference: now }]);
    t.match(total, {
      more_calls_eur: '0',
      longer_calls_eur: '0',
      dearer_models_eur: '0',
      changed_prices_eur: '-0.0005',
    });
  },
);

t.test(
  'more of it cached is a part of its own, and nothing of longer calls or changed prices',
  async (t) => {
    const prices = parsePrices('0.002', '0.01', { cache_read: '0.0002' });
    const cost = (cached: number) =>
      formatEur(exactCost(prices, 87_000, 1000, { cached, cacheWrite: null }));
    const turn = (cached: number): UsageSums => ({
      ...usage(1, 87_000, 1000, prices),
      cost_eur: cost(cached),
    });
    const counts = {
      before: { cached: 10_000, cacheWrite: null },
      after: { cached: 80_000, cacheWrite: null },
    };
    const model = { before: turn(10_000), after: turn(80_000), reference: prices, counts };
    const none = {
      more_calls_eur: '0',
      longer_calls_eur: '0',
      dearer_models_eur: '0',
      changed_prices_eur: '0',
    };
    t.match(explainChange([model]).total, {
      ...none,
      more_cached_eur: '-0.126',
      difference_eur: '-0.126',
    });
    const same = { ...model, after: turn(10_000), counts: { ...counts, after: counts.before } };
    t.match(explainChange([same]).total, { ...none, more_cached_eur: '0' });
    t.same(
      partsAmong([explainChange([same]).total]).length,
      PARTS.length - 4,
      'nothing of it is shown',
    );
    const plain = explainChange([
      { before: model.before, after: model.after, reference: parsePrices('0.002', '0.01') },
    ]);
    t.match(plain.total, { changed_prices_eur: '-0.126', more_cached_eur: '0' });
  },
);

t.test(
  'other rates are a part of their own, and nothing of longer calls or changed prices',
  async (t) => {
    const rates = parseRates([{ over: 100, input: '0.004', output: '0.02', request: '1' }]);
    const prices = parsePrices('0.002', '0.01', { request: '0.5' }, rates);
    const rate = rates[0] as (typeof rates)[number];
    const sums = (requests: number, prompt_tokens: number) => ({
      requests,
      prompt_tokens,
      completion_tokens: 10 * requests,
    });
    const costs = (
      of: typeof prices,
      { requests, prompt_tokens, completion_tokens }: ReturnType<typeof sums>,
    ) =>
      exactCost(of, prompt_tokens, completion_tokens) + (BigInt(requests - 1) * of.request) / 1000n;
    // ten calls of 1000 tokens in all; before two of them are long, after five
    const time = (long_calls: number) => {
      const [rated, base] = [sums(long_calls, 500), sums(10 - long_calls, 500)];
      const cost_eur = formatEur(costs(rate.prices, rated) + costs(prices, base));
      return { usage: { ...sums(10, 1000), cost_eur }, rated };
    };
    const [before, after] = [time(2), time(5)];
    const { total } = explainChange([
      {
        before: before.usage,
        after: after.usage,
        reference: prices,
        rated: [
          { ...before.rated, time: 'before' as const, rate, counts: {} },
          { ...after.rated, time: 'after' as const, rate, counts: {} },
        ],
      },
    ]);
    t.match(total, {
      more_calls_eur: '0',
      longer_calls_eur: '0',
      more_cached_eur: '0',
      dearer_models_eur: '0',
      changed_prices_eur: '0',
      difference_eur: total.other_lengths_eur,
    });
    t.equal(
      total.other_lengths_eur,
      '0.0018',
      'three more calls: 30 tokens, and three times what a call costs',
    );
  },
);

t.test('each condition of a rate is a part, in what it adds to those before', async (t) => {
  const hours = '00:00-06:00 UTC';
  const rates = parseRates([
    { over: 100, input: '2', output: '0' },
    { tier: 'priority', input: '3', output: '0' },
    { tier: 'priority', hours, input: '5', output: '0' },
    { over: 100, tier: 'priority', hours, input: '11', output: '0' },
    { hours, over: 200, input: '20', output: '0' },
  ]);
  const reference = parsePrices('1', '0', {}, rates);
  /** 1000 tokens of one rate after, none before. */
  const partsOf = (rate: (typeof rates)[number]) => {
    const calls = { requests: 1, prompt_tokens: 1000, completion_tokens: 0 };
    const { total } = explainChange([
      {
        before: { ...calls, cost_eur: '1' },
        after: { ...calls, cost_eur: rate.prices.texts.input },
        reference,
        rated: [{ ...calls, time: 'after', rate, counts: {} }],
      },
    ]);
    t.equal(sumOf(total), total.difference_eur);
    t.match(total, { more_calls_eur: '0', longer_calls_eur: '0', changed_prices_eur: '0' });
    return [total.other_tiers_eur, total.other_hours_eur, total.other_lengths_eur];
  };
  t.strictSame(rates.map(partsOf), [
    ['0', '0', '1'],
    ['2', '0', '0'],
    ['2', '2', '0'],
    ['2', '2', '6'],
    ['0', '0', '19'],
  ]);
});
