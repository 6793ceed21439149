import { randomInt } from 'node:crypto';

/** The arithmetic of oracles, which shares no code with the gateway: whole numbers of 10^-15 EUR. */

const SCALE = 15;

/** A price with 12 decimals. @param below EUR for 1000 tokens */
export const randomPrice = (below = 3): string =>
  `${randomInt(below)}.${String(randomInt(10 ** 12)).padStart(12, '0')}`;

/** The price of one token: for 1000 tokens with 12 decimals is for one with 15. */
export const rate = (price: string): bigint => BigInt(price.replace('.', ''));

/** An amount as exact decimal text, without zeros at its end. */
export function decimal(amount: bigint): string {
  if (amount < 0n) return `-${decimal(-amount)}`;
  const digits = amount.toString().padStart(SCALE + 1, '0');
  return `${digits.slice(0, -SCALE)}.${digits.slice(-SCALE)}`.replace(/\.?0+$/, '');
}

/** The amount that a decimal text is. */
export function whole(text: string): bigint {
  if (text.startsWith('-')) return -whole(text.slice(1));
  const [integer, fraction = ''] = text.split('.') as [string, string?];
  return BigInt(integer + fraction.padEnd(SCALE, '0'));
}
