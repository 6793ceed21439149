import fc from 'fast-check';
import t from 'tap';
import {
  likelyKind,
  type Model,
  modelAt,
  type PriceFactors,
  withFactors,
} from '../../src/domain/model.ts';
import { formatDecimal } from '../../src/domain/pricing/money.ts';
import { parsePrices, timesFactor } from '../../src/domain/pricing/prices.ts';

t.test('the kind is guessed from the name', async (t) => {
  for (const name of [
    'text-embedding-3-small',
    'nomic-embed-text',
    'BAAI/bge-m3',
    'intfloat/e5-large',
    'all-MiniLM-L6',
  ])
    t.equal(likelyKind(name), 'embedding', name);
  for (const name of ['BAAI/bge-reranker-v2-m3', 'rerank-v3.5', 'Qwen3-Reranker-0.6B'])
    t.equal(likelyKind(name), 'rerank', name);
  for (const name of ['gpt-4o', 'llama-3.1-8b', 'phi-e52', 'command-r'])
    t.equal(likelyKind(name), 'chat', name);
});

t.test(
  'prices and factors that begin at dates: at each instant the price of then times the factor of then',
  async () => {
    const price = fc.bigInt(0n, 10n ** 15n).map((nano) => formatDecimal(nano, 9));
    const prices = fc.tuple(
      price,
      price,
      fc.record({ cache_read: fc.option(price), cache_write: fc.option(price) }),
    );
    const factor = fc
      .integer({ min: 1, max: 1_000_000 })
      .map((thousandths) => formatDecimal(BigInt(thousandths), 3));
    const at = fc.integer({ min: 1, max: 12 });
    const timeline = <T>(values: fc.Arbitrary<T>) =>
      fc
        .tuple(
          values,
          fc.uniqueArray(fc.tuple(at, values), { selector: ([from]) => from, maxLength: 6 }),
        )
        .map(([first, coming]) => [
          [0, first] as const,
          ...coming.toSorted(([one], [other]) => one - other),
        ]);
    fc.assert(
      fc.property(timeline(prices), timeline(factor), (listed, factors) => {
        const of = ([from, texts]: (typeof listed)[number], next: Model['next']) =>
          ({ slug: 'm', prices: parsePrices(...texts), next, from }) as unknown as Model;
        let model: Model | undefined;
        for (let n = listed.length - 1; n >= 0; n--) {
          const next =
            model === undefined
              ? null
              : { from: (listed[n + 1] as (typeof listed)[number])[0], model };
          model = of(listed[n] as (typeof listed)[number], next);
        }
        const known: PriceFactors = factors.map(([from, factor]) => ({ from, factor }));
        const factored = withFactors(model as Model, known);
        for (let now = 0; now < 14; now++) {
          const list = modelAt(model as Model, now).prices;
          const holding = known.findLast(({ from }) => from <= now)?.factor as string;
          const { texts } = modelAt(factored, now).prices;
          if (JSON.stringify(texts) !== JSON.stringify(timesFactor(list, holding).texts))
            return false;
          const product = (text: string | null) =>
            text && (BigInt(digits(text)) * BigInt(digits(holding, 3))).toString();
          for (const part of ['input', 'output', 'cache_read', 'cache_write'] as const)
            if ((texts[part] && digits(texts[part], 12)) !== product(list.texts[part]))
              return false;
        }
        return true;
      }),
    );
  },
);

/** A decimal number as a whole number of 10^-decimals. */
function digits(text: string, decimals = 9): string {
  const [whole = '', fraction = ''] = text.split('.');
  return BigInt(whole + fraction.padEnd(decimals, '0')).toString();
}
