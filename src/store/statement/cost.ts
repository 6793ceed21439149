import {
  COST_PARTS,
  type ColumnPart,
  type CostPart,
  isListed,
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

/**
 * The cost in EUR of rows at prices and rates that are not their own, `base`, a row of prices as JSON: joins that end with
 * `cost`, which is null without prices. Counts that overlap are cut as `partsWithin` cuts them. The tier is that of the
 * row's own rate.
 */
export function costAtRates(): string {
  const part = (name: CostPart) => `(p ->> '${name}')::numeric`;
  const cut = (name: CostPart | 'cached', count: string, room: string) =>
    `case when ${name} is null then 0 else least(coalesce(${count}, 0), ${room}) end`;
  return `cross join lateral (select coalesce(rate_of(nullif(base -> 'rates', 'null'), prompt_tokens,
      substring(rate from '^(?!over )[a-z][a-z0-9_.-]*'), occurred_at), base) as p) r
    cross join lateral (select ${COST_PARTS.map((name) => `${part(name)} as ${name}`).join(', ')}) p
    cross join lateral (select coalesce(cache_read, cache_write, cache_write_1h) as cached) m
    cross join lateral (select ${cut('cached', 'cached_tokens', 'prompt_tokens')} as read,
      ${cut('reasoning', 'reasoning_tokens', 'completion_tokens')} as reasoned) n1
    cross join lateral (select ${cut('cached', 'cache_write_tokens', 'prompt_tokens - read')} as written,
      ${cut('audio_output', 'audio_completion_tokens', 'completion_tokens - reasoned')} as spoken) n2
    cross join lateral (select ${cut('cache_write_1h', 'cache_write_1h_tokens', 'written')} as kept,
      ${cut('audio_input', 'audio_prompt_tokens', 'prompt_tokens - read - written')} as heard,
      ${cut('image_output', 'image_completion_tokens', 'completion_tokens - reasoned - spoken')} as drawn) n3
    cross join lateral (select ${cut('image_input', 'image_prompt_tokens', 'prompt_tokens - read - written - heard')} as seen) n4
    cross join lateral (select ((prompt_tokens - read - written - heard - seen) * input + read * coalesce(cache_read, input)
      + (written - kept) * coalesce(cache_write, input) + kept * coalesce(cache_write_1h, 0)
      + heard * coalesce(audio_input, 0) + seen * coalesce(image_input, 0)
      + (completion_tokens - reasoned - spoken - drawn) * output + reasoned * coalesce(reasoning, 0)
      + spoken * coalesce(audio_output, 0) + drawn * coalesce(image_output, 0)
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
