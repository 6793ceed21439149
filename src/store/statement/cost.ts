import { COST_PARTS, type CostPart } from '../../domain/money.ts';

/**
 * The parts of a cost as SQL over rows of `api_usage`: `costOf` says the same of a call. The check of the
 * table is the formula, and a test compares it with this one.
 */

type Quantity = readonly [tokens: string, price: string];

/** The quantities of a row with columns of those names. @param priceOf SQL of the price of a part; that of a cache may be null */
function quantities(priceOf: (part: CostPart) => string): Readonly<Record<CostPart, Quantity>> {
  const counted = (part: CostPart, tokens: string) =>
    `case when ${priceOf(part)} is null then 0 else coalesce(${tokens}, 0) end`;
  const [read, written] = [
    counted('cache_read', 'cached_tokens'),
    counted('cache_write', 'cache_write_tokens'),
  ];
  return {
    input: [`(prompt_tokens - ${read} - ${written})`, priceOf('input')],
    cache_read: [read, `coalesce(${priceOf('cache_read')}, 0)`],
    cache_write: [written, `coalesce(${priceOf('cache_write')}, 0)`],
    output: ['completion_tokens', priceOf('output')],
  };
}

/** The cost of a row in EUR. @param priceOf SQL of the price of a part; that of a cache may be null */
export function costFormula(priceOf: (part: CostPart) => string): string {
  const parts = quantities(priceOf);
  return `(${COST_PARTS.map((part) => parts[part].join(' * ')).join(' + ')}) * 0.001`;
}

/** Tokens and price of each part of the cost of a row. */
export const CHARGED = quantities((part) => `price_${part}`);

/** Whether a row has a price of cached input. */
export const HAS_CACHE_PRICE = '(price_cache_read is not null or price_cache_write is not null)';

/** The cost of a part of a row in EUR. */
export function partCost(part: CostPart): string {
  return `${CHARGED[part].join(' * ')} * 0.001`;
}

/** The sums of each part over rows, as a JSON array of PartSums. */
export const PART_SUMS = `jsonb_build_array(${COST_PARTS.map(
  (part) =>
    `jsonb_build_object('part', '${part}', 'tokens', sum(${CHARGED[part][0]}), 'cost_eur', trim_scale(sum(${partCost(part)}))::text)`,
).join(', ')})`;
