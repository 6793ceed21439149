import { writePadded, writeWhole } from '../../json/decimal.ts';

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
