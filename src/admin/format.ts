import type { Clock } from '../domain/ports.ts';
import { type Html, html } from './html.ts';
import { pageLocale } from './locale.ts';

const AGES = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
] as const;

/** Decimals of an exact amount: calls have 15 at most, but in-app chat, and what upstreams tell, may have more. */
const ALL_DIGITS = 40;
/** Decimals of an amount in a column. */
const MOST_DIGITS = 4;
/** Stands for smaller amounts, which are not zero: "< €0.0001", and "> -€0.0001" below zero. */
const LEAST = '0.0001';
/** A share of a tiny budget may be larger, and then its digits tell nothing. */
const MOST_PERCENT = 1_000_000;

/**
 * Numbers and times in the English of one reader's region.
 * @param language of the reader, such as "de-AT"
 * @param clock by which ages are told
 */
export function formatFor(language: string, timeZone: string, clock: Clock = Date.now) {
  const locale = pageLocale(language);
  return {
    /** The reader's own: what the reader types into forms may follow it. */
    language,
    ...amounts(locale),
    ...numbers(locale),
    ...moments(locale, timeZone, clock),
    ...dates(locale),
  };
}

export type Format = ReturnType<typeof formatFor>;

// Each of these makes its formatters once: making one takes as long as 50 uses of it.

/** Amounts stay decimal text: Intl formats every digit of it, so nothing is rounded to a binary fraction. */
function amounts(locale: string) {
  const euros = euro(locale, 2, ALL_DIGITS);
  const rounded = euro(locale, 2, MOST_DIGITS);
  const prices = euro(locale, 2, 12);
  const fixed = euro(locale, MOST_DIGITS, MOST_DIGITS);
  const exact = new Intl.NumberFormat(locale, { maximumFractionDigits: ALL_DIGITS });
  return {
    /** An exact EUR amount. Digits after the cents are smaller. @param decimals the least, see `mostDecimals` */
    eur(amount: string, decimals = 2): Html {
      return html`<span class="eur">${euros(amount).map(({ type, value }) => {
        if (type !== 'fraction') return value;
        const small = value.padEnd(decimals, '0').slice(2);
        return html`${value.slice(0, 2)}${small === '' ? '' : html`<small>${small}</small>`}`;
      })}</span>`;
    },

    /** An exact EUR amount as plain text. */
    eurText(amount: string): string {
      return textOf(euros(amount));
    },

    /**
     * An EUR amount of two to four decimals, for columns: points stand below each other. Where digits are left out,
     * the exact amount is its tooltip, and what screen readers say.
     */
    amount(amount: string): Html {
      const tiny = tinyOf(amount);
      const parts = rounded(tiny?.least ?? amount);
      const digits = parts.find(({ type }) => type === 'fraction')?.value.length ?? 0;
      const room = html`<span class="room${MOST_DIGITS - digits}"></span>`;
      const shown = parts.map(({ type, value }) =>
        type === 'fraction' ? html`${value}${digits < MOST_DIGITS ? room : ''}` : value,
      );
      const exact = textOf(euros(amount));
      if (exact === textOf(parts)) return html`<span class="eur">${shown}</span>`;
      return html`<span class="eur" title="${exact}"><span aria-hidden="true">${tiny?.sign ?? ''}${shown}</span><span class="sr">${exact}</span></span>`;
    },

    /** An EUR amount of four decimals as plain text. */
    eurFixed(amount: string): string {
      const tiny = tinyOf(amount);
      return `${tiny?.sign ?? ''}${textOf(fixed(tiny?.least ?? amount))}`;
    },

    /** A rounded amount, for axes. */
    eurAxis(amount: number, decimals: number): string {
      return textOf(euro(locale, decimals, decimals)(String(amount)));
    },

    /** A price with all its decimals. */
    price(amount: string): string {
      return textOf(prices(amount));
    },

    /** An exact amount of another currency, such as "0.0003676 USD". */
    other(amount: string, currency: string): string {
      return `${exact.format(amount as Intl.StringNumericLiteral)} ${currency}`;
    },
  };
}

function numbers(locale: string) {
  const counts = new Intl.NumberFormat(locale);
  const percents = new Intl.NumberFormat(locale, { style: 'percent', maximumFractionDigits: 1 });
  return {
    count(value: number): string {
      return counts.format(value);
    },

    percent(value: number): string {
      return value > MOST_PERCENT ? `over ${percents.format(MOST_PERCENT / 100)}` : percents.format(value / 100);
    },

    /** "320 ms", "1.4 s" or "75 s". */
    duration(milliseconds: number): string {
      if (milliseconds < 1000) return `${counts.format(Math.round(milliseconds))} ms`;
      return `${counts.format(Number((milliseconds / 1000).toPrecision(2)))} s`;
    },
  };
}

/** @param timeZone the billing time zone */
function moments(locale: string, timeZone: string, clock: Clock) {
  const minutes = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short', timeZone });
  const seconds = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'medium', timeZone });
  const ages = new Intl.RelativeTimeFormat(locale, { numeric: 'auto' });
  return {
    /** A moment to the minute. */
    instant(at: Date): Html {
      return html`<time datetime="${at.toISOString()}">${minutes.format(at)}</time>`;
    },

    /** A moment to the second. */
    second(at: Date): Html {
      return html`<time datetime="${at.toISOString()}">${seconds.format(at)}</time>`;
    },

    /** How long ago a moment is, such as "5 minutes ago", with the moment itself as a tooltip. */
    ago(at: Date): Html {
      const age = Math.min(0, Math.round((at.getTime() - clock()) / 1000));
      const [unit, length] = AGES.find(([, each]) => -age >= each) ?? (['second', 1] as const);
      const exact = minutes.format(at);
      return html`<time datetime="${at.toISOString()}" title="${exact}">${ages.format(Math.ceil(age / length), unit)}</time>`;
    },
  };
}

/** Dates are text such as "2026-11-24", and a month is its first day. */
function dates(locale: string) {
  const writer = (options: Intl.DateTimeFormatOptions) => {
    const format = new Intl.DateTimeFormat(locale, { ...options, timeZone: 'UTC' });
    return (date: string): string => format.format(midnight(date));
  };
  const ranges = new Intl.DateTimeFormat(locale, { dateStyle: 'long', timeZone: 'UTC' });
  return {
    /** "24 November" */
    day: writer({ day: 'numeric', month: 'long' }),
    /** "24 Nov" */
    shortDay: writer({ day: 'numeric', month: 'short' }),
    /** "Nov" */
    shortMonth: writer({ month: 'short' }),
    /** "November 2026" */
    month: writer({ month: 'long', year: 'numeric' }),
    /** "24 – 30 November 2026", or the single day */
    range: (from: string, to: string): string => ranges.formatRange(midnight(from), midnight(to)),
  };
}

function midnight(date: string): Date {
  return new Date(`${date}T00:00:00Z`);
}

/** The decimals of the amount that has most. With as many in each, the points of a column stand below each other. */
export function mostDecimals(amounts: readonly string[]): number {
  return amounts.reduce((most, amount) => Math.max(most, amount.split('.')[1]?.length ?? 0), 0);
}

/**
 * Writes an amount with the separators of all other numbers of the page. A currency format would not: English of
 * Germany has 1.234,5 and €1,234.50.
 */
function euro(locale: string, least: number, most: number): (amount: string) => Intl.NumberFormatPart[] {
  const numbers = new Intl.NumberFormat(locale, { minimumFractionDigits: least, maximumFractionDigits: most });
  const currency = new Intl.NumberFormat(locale, { style: 'currency', currency: 'EUR', maximumFractionDigits: 0 });
  const [positive, negative] = [currency.formatToParts(1), currency.formatToParts(-1)];
  return (amount) => {
    const parts = numbers.formatToParts(amount.replace(/^-/, '') as Intl.StringNumericLiteral);
    const frame = amount.startsWith('-') ? negative : positive;
    return frame.flatMap((part) => (part.type === 'integer' ? parts : part));
  };
}

/** What stands for an amount that is not zero and would be shown as zero; null: another amount. */
function tinyOf(amount: string) {
  if (!/[1-9]/.test(amount) || !/^-?0\.0000[0-4]\d*$/.test(amount)) return null;
  return amount.startsWith('-') ? { sign: '> ', least: `-${LEAST}` } : { sign: '< ', least: LEAST };
}

function textOf(parts: readonly Intl.NumberFormatPart[]): string {
  return parts.map(({ value }) => value).join('');
}
