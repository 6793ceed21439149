import {
  COST_PARTS,
  COUNTED_PARTS,
  type ColumnPart,
  type CostPart,
  isListed,
  PARTS,
} from '../../domain/pricing/parts.ts';

/**
 * The parts of a cost as SQL over rows of `api_usage`: `chargedParts` says the same of a call. The check of the
 * table is the formula, and a test compares it with this one. A row has its parts in columns, or all in `parts`.
 */

type Quantity = readonly [units: string, price: string];

/** The quantities of a row whose parts are columns. @param priceOf SQL of the price of a part; that of a cache may be null */
function quantities(priceOf: (part: ColumnPart) => string): Readonly<Record<ColumnPart, Quantity>> {
  const counted = (part: ColumnPart, tokens: string) =>
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

/** The cost in EUR of a row at prices of which each is a column. @param priceOf SQL of the price of a part; that of a cache may be null */
export function costFormula(priceOf: (part: ColumnPart) => string): string {
  const parts = Object.values(quantities(priceOf));
  return `(${parts.map((part) => part.join(' * ')).join(' + ')}) * 0.001`;
}

/** The parts of a whole that are not of the cache, each with the column of its count. */
const besideCache = (whole: 'prompt' | 'completion') =>
  COUNTED_PARTS.filter(({ part }) => PARTS[part].within === whole && !OF_CACHE.includes(part));
const OF_CACHE: readonly CostPart[] = ['cache_read', 'cache_write', 'cache_write_1h'];

/**
 * The cost in EUR of rows at prices and rates that are not their own, `base`, a row of prices as JSON: joins that end with
 * `cost`, which is null without prices. Counts that overlap are cut as `partsWithin` cuts them. The tier is that of the
 * row's own rate.
 */
export function costAtRates(): string {
  const part = (name: CostPart) => `(p ->> '${name}')::numeric`;
  const cut = (name: CostPart | 'cached', count: string, room: string) =>
    `case when ${name} is null then 0 else least(coalesce(${count}, 0), ${room}) end`;
  /** What is left of a whole when each of its parts is cut to what those before it left, and what these parts cost. */
  const cutAll = (whole: 'prompt' | 'completion', first: string) => {
    let left = first;
    const joins = besideCache(whole).map(({ part, column }) => {
      const join = `cross join lateral (select ${cut(part, column, left)} as n_${part}) c_${part}`;
      left += ` - n_${part}`;
      return join;
    });
    const costs = besideCache(whole).map(({ part }) => `n_${part} * coalesce(${part}, 0)`);
    return { joins: joins.join('\n    '), left, costs: costs.join(' + ') };
  };
  const prompt = cutAll('prompt', 'prompt_tokens - read - written');
  const completion = cutAll('completion', 'completion_tokens');
  return `cross join lateral (select coalesce(rate_of(nullif(base -> 'rates', 'null'), prompt_tokens,
      substring(rate from '^(?!over )[a-z][a-z0-9_.-]*'), occurred_at), base) as p) r
    cross join lateral (select ${COST_PARTS.map((name) => `${part(name)} as ${name}`).join(', ')}) p
    cross join lateral (select coalesce(cache_read, cache_write, cache_write_1h) as cached) m
    cross join lateral (select ${cut('cached', 'cached_tokens', 'prompt_tokens')} as read) n1
    cross join lateral (select ${cut('cached', 'cache_write_tokens', 'prompt_tokens - read')} as written) n2
    cross join lateral (select ${cut('cache_write_1h', 'cache_write_1h_tokens', 'written')} as kept) n3
    ${prompt.joins}
    ${completion.joins}
    cross join lateral (select ((${prompt.left}) * input + read * coalesce(cache_read, input)
      + (written - kept) * coalesce(cache_write, input) + kept * coalesce(cache_write_1h, 0) + ${prompt.costs}
      + (${completion.left}) * output + ${completion.costs}
      + coalesce(search_units, 0) * coalesce(search_unit, 0) + coalesce(request, 0)) * 0.001 as cost) c`;
}

/** Units and price of each part of a row that has no list of its parts. */
export const IN_COLUMNS = quantities((part) => `price_${part}`);

/** Units and price of each part of the cost of a row; 0 units and no price where a part was not charged. */
export const CHARGED = Object.fromEntries(
  COST_PARTS.map((part): [CostPart, Quantity] => {
    const listed = `coalesce(part_units(parts, '${part}'), 0)`;
    if (isListed(part)) return [part, [listed, `part_price(parts, '${part}')`]];
    const [units, price] = IN_COLUMNS[part as ColumnPart];
    return [part, [`case when parts is null then ${units} else ${listed} end`, price]];
  }),
) as Readonly<Record<CostPart, Quantity>>;

/** Whether a row tells more parts than its two prices: what is charged apart is then told apart. */
export const HAS_PARTS =
  '(price_cache_read is not null or price_cache_write is not null or parts is not null)';

/** The cost of a part of a row in EUR. */
export function partCost(part: CostPart): string {
  const [units, price] = CHARGED[part];
  return `${units} * coalesce(${price}, 0) * 0.001`;
}

/** The sums of each part over rows, as a JSON array of PartSums: of all with a column, and of others that were charged. */
export const PART_SUMS = `(select jsonb_agg(jsonb_build_object('part', part, 'tokens', units, 'cost_eur', trim_scale(cost)::text) order by place)
  from (values ${COST_PARTS.map(
    (part, place) =>
      `(${place}, '${part}', ${isListed(part)}, sum(${CHARGED[part][0]}), sum(${partCost(part)}))`,
  ).join(', ')}) as sums (place, part, listed, units, cost) where units > 0 or not listed)`;
