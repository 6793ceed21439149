import { formatDecimal, parseDecimal } from '../pricing/money.ts';

/**
 * Exact amounts of files that others write: a bigint of 10^-60 of a unit. A cost has at most 40 decimals and a rate at
 * most 12, so their product is whole and nothing is rounded.
 */
export type Exact = bigint;

const DECIMALS = 60;
const MAX_DECIMALS = 40;
const NUMBER = /^(-?)(\d{1,20})(?:\.(\d*))?(?:[eE]([+-]?\d{1,2}))?$/;

export const ONE: Exact = 10n ** BigInt(DECIMALS);

/** Reads a cost as files have it, "0.00012" or "1.2e-05". @returns plain decimal text; null when it is none */
export function readCost(text: string): string | null {
  const match = NUMBER.exec(text);
  if (match === null) return null;
  const [, sign, whole, fraction = '', exponent = '0'] = match;
  const decimals = fraction.length - Number(exponent);
  if (decimals > MAX_DECIMALS) return null;
  const amount = BigInt((whole as string) + fraction) * 10n ** BigInt(DECIMALS - decimals);
  return formatExact(sign === '-' ? -amount : amount);
}

/** @param text plain decimal text with at most 60 decimals */
export function parseExact(text: string): Exact {
  return parseDecimal(text, DECIMALS);
}

/** Plain decimal text without trailing zeros. */
export function formatExact(amount: Exact): string {
  return formatDecimal(amount, DECIMALS);
}

export function absolute(amount: Exact): Exact {
  return amount < 0n ? -amount : amount;
}
