import { oneOf, type Read, readInstant, readPrice, refuse } from './field.ts';

/** How people read and write prices: EUR per 1000 or per 1,000,000 tokens. The database has those per 1000. */
export type PriceUnit = '1k' | '1M';

/** Decimal places between EUR per 1000 tokens and EUR per unit. */
const PLACES: Readonly<Record<PriceUnit, number>> = { '1k': 0, '1M': 3 };
/** How many tokens a unit has, in words. */
export const UNIT_TOKENS: Readonly<Record<PriceUnit, string>> = { '1k': '1000', '1M': '1,000,000' };
const PER_MILLION = /^\d{1,9}(\.\d{1,9})?$/;

export const readPriceUnit: Read<PriceUnit> = oneOf('1k', '1M');

/** A price per 1000 tokens as one per unit, exact. @param price decimal text */
export function priceIn(unit: PriceUnit, price: string): string {
  return movePoint(price, PLACES[unit]);
}

/** Reads a price per unit; the value is EUR per 1000 tokens as exact decimal text. */
export function readPriceIn(unit: PriceUnit): Read<string> {
  if (unit === '1k') return readPrice;
  return (text) => {
    if (!PER_MILLION.test(text)) {
      refuse(
        'must be EUR per 1,000,000 tokens such as 2.50, below 1e9, 9 decimals at most, as a plain decimal number',
        text,
      );
    }
    return movePoint(text, -PLACES[unit]);
  };
}

/** Multiplies by a power of ten, on the digits. @param text a plain decimal number @param places may be negative */
export function movePoint(text: string, places: number): string {
  const [whole = '', fraction = ''] = text.split('.');
  const digits = whole.padStart(1 - places, '0') + fraction.padEnd(places, '0');
  const at = Math.max(whole.length, 1 - places) + places;
  const moved = `${digits.slice(0, at).replace(/^0+(?=\d)/, '')}.${digits.slice(at)}`;
  return moved.replace(/\.?0*$/, '');
}

/** A day of the billing time zone, "2027-01-31", or an instant. */
export type Moment = { readonly day: string } | { readonly at: Date };

/** When something ends: at an instant, or with a last day of the billing time zone. */
export type End = Date | Moment;

/** A date, which is a day of the billing time zone, or a date and time with its offset. */
export function readMoment(text: string): Moment {
  const at = readInstant(text);
  return text.length === 10 ? { day: text } : { at };
}
