import { writePadded, writeWhole } from '../json/decimal.ts';

/**
 * Exact EUR amounts (spec section 8): a bigint of femto-EUR (10^-15 EUR). A price has at most 12
 * decimals and a cost is tokens × price / 1000, so every cost is whole and nothing is rounded.
 */
export type Femto = bigint;

const DECIMALS = 15;
const ZERO = 0x30;
const POINT = 0x2e;
const MAX_EXACT = BigInt(Number.MAX_SAFE_INTEGER);
const SMALL = Buffer.alloc(DECIMALS + 2); // the longest text of an amount that isExact
const NUMERIC = /^(-?)(\d+)(?:\.(\d+))?$/;

/**
 * Parses a decimal number as Postgres prints `numeric` ("12", "-0.5"). Cuts off digits beyond the 15th
 * decimal, which only in-app chat costs can have.
 * @throws RangeError when the text is not a plain decimal number
 */
export function parseEur(text: string): Femto {
  return parseDecimal(text, DECIMALS);
}

/** The amount as an exact decimal number without exponent or trailing zeros. */
export function formatEur(amount: Femto): string {
  return isExact(amount)
    ? SMALL.toString('latin1', 0, writeEur(SMALL, 0, amount))
    : formatDecimal(amount, DECIMALS);
}

/** Parses a decimal number as a multiple of 10^-decimals. Cuts off further digits. @throws RangeError */
export function parseDecimal(text: string, decimals: number): bigint {
  const match = NUMERIC.exec(text);
  if (match === null) throw new RangeError(`not a decimal amount: ${text}`);
  const [, sign, whole, fraction = ''] = match;
  const amount = BigInt((whole as string) + fraction.padEnd(decimals, '0').slice(0, decimals));
  return sign === '-' ? -amount : amount;
}

/** The inverse of parseDecimal, without trailing zeros. */
export function formatDecimal(amount: bigint, decimals: number): string {
  if (amount < 0n) return `-${formatDecimal(-amount, decimals)}`;
  const digits = amount.toString().padStart(decimals + 1, '0');
  return `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}`.replace(/\.?0+$/, '');
}

/** Writes the text of formatEur into a buffer with room for it. @returns the offset behind it */
export function writeEur(bytes: Buffer, at: number, amount: Femto): number {
  if (!isExact(amount)) return at + bytes.write(formatDecimal(amount, DECIMALS), at, 'latin1');
  const femto = Number(amount);
  const micro = Math.floor(femto / 1e9);
  const eur = Math.floor(micro / 1e6);
  const point = writeWhole(bytes, at, eur);
  bytes[point] = POINT;
  let end = writePadded(bytes, point + 1, micro - eur * 1e6, 6);
  end = writePadded(bytes, end, femto - micro * 1e9, 9);
  while (bytes[end - 1] === ZERO) end--;
  return end === point + 1 ? point : end;
}

/** Up to nine euros a number is exact, and takes a quarter of the time of a bigint's text. */
function isExact(amount: Femto): boolean {
  return amount >= 0n && amount <= MAX_EXACT;
}

/** The parts of a cost in the order of statements. Each is a quantity of tokens × a price. */
export const COST_PARTS = ['input', 'cache_read', 'cache_write', 'output'] as const;
export type CostPart = (typeof COST_PARTS)[number];

/** Prompt tokens that were read from the upstream's cache, and written to it; null: not told, which counts as 0. */
export interface CacheTokens {
  readonly cached: number | null;
  readonly cacheWrite: number | null;
}

/** Parts within the input: which count they are of. */
const WITHIN_INPUT = [
  ['cache_read', 'cached'],
  ['cache_write', 'cacheWrite'],
] as const satisfies readonly (readonly [CostPart, keyof CacheTokens])[];

/** Prices of one model in femto-EUR per 1000 tokens, with the decimals they were written with. */
export interface Prices {
  readonly input: Femto;
  readonly output: Femto;
  /** The most that a prompt token may cost. */
  readonly dearestInput: Femto;
  /** What tokens of the cache cost more than the input price, below 0 for less; none without prices of their own. */
  readonly cache: readonly { readonly count: keyof CacheTokens; readonly more: Femto }[];
  /** As they were written, for the price snapshot of the ledger row; those that are null are the input price. */
  readonly texts: { readonly [part in CostPart]: string | null } & {
    readonly input: string;
    readonly output: string;
  };
}

/** @throws RangeError when a price is not a plain decimal number */
export function parsePrices(
  inputText: string,
  output: string,
  cache_read: string | null = null,
  cache_write: string | null = null,
): Prices {
  const texts = { input: inputText, cache_read, cache_write, output };
  const input = parseEur(inputText);
  const cache = WITHIN_INPUT.flatMap(([part, count]) => {
    const text = texts[part];
    return text === null ? [] : [{ count, more: parseEur(text) - input }];
  });
  const dearest = cache.reduce((most, { more }) => (more > most ? more : most), 0n);
  return {
    input,
    output: parseEur(output),
    dearestInput: input + dearest,
    cache,
    texts,
  };
}

/** Prices times a factor, exact: a product has at most 12 decimals (check_factor in sql/schema/models.sql). @param factor decimal text */
export function timesFactor({ texts }: Prices, factor: string): Prices {
  const times = (price: string) =>
    formatDecimal(parseDecimal(price, 12) * parseDecimal(factor, 6), 18);
  const { input, output, cache_read, cache_write } = texts;
  return parsePrices(
    times(input),
    times(output),
    cache_read && times(cache_read),
    cache_write && times(cache_write),
  );
}

/** What a cost would be with another factor on the prices, to the nearest femto-EUR: exact where the prices fit it. */
export function costAtFactor(cost: Femto, was: string, factor: string): Femto {
  const [before, after] = [parseDecimal(was, 6), parseDecimal(factor, 6)];
  return (2n * cost * after + before) / (2n * before);
}

/**
 * Cost of one call in femto-EUR (spec section 8, rule 3): (prompt_tokens / 1000) × input price + (completion_tokens / 1000)
 * × output price; of prompt tokens with a price of their own that price. In parts: store/statement/cost.ts.
 */
export function costOf(
  prices: Prices,
  promptTokens: number,
  completionTokens: number,
  told: CacheTokens | null = null,
): Femto {
  let sum = BigInt(promptTokens) * prices.input + BigInt(completionTokens) * prices.output;
  for (const { count, more } of prices.cache) sum += BigInt(told?.[count] ?? 0) * more;
  return sum / 1000n; // exact: a price has at most 12 decimals, so its femto amount divides by 1000
}

/** The most that so many tokens can cost, whatever of the prompt is cached. */
export function mostCost(prices: Prices, promptTokens: number, completionTokens: number): Femto {
  return (
    (BigInt(promptTokens) * prices.dearestInput + BigInt(completionTokens) * prices.output) / 1000n
  );
}
