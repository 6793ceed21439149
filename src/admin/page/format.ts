import type { Words } from '../../domain/language/en.ts';
import { wordsOf } from '../../domain/language/language.ts';
import type { Clock } from '../../domain/ports.ts';
import {
  ALL_DIGITS,
  eurIn,
  euro,
  joinedParts,
  roundedCents,
} from '../../domain/wording/eur-text.ts';
import { type Html, html } from './html.ts';
import { pageLanguage, pageLocale } from './locale.ts';

const AGES = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
] as const;

/** The largest share that is shown as a number: digits of a larger one, of a tiny budget, tell nothing. */
const MOST_PERCENT = 1_000_000;

/**
 * Words, numbers and times for one reader: in the language of the page as it is written in the reader's region.
 * @param language the reader, as locale.ts has it, such as "de-AT"
 * @param clock by which ages are told
 * @param brand the name of the service
 * @param isExact amounts are shown with all their digits
 */
export function formatFor(
  language: string,
  timeZone: string,
  clock: Clock = Date.now,
  brand = 'Tollgate',
  isExact = false,
) {
  const locale = pageLocale(language);
  const words = wordsOf(pageLanguage(language));
  return {
    /** The reader's language and region, in which typed numbers may be written. */
    language,
    /** The texts of the page. */
    words,
    brand,
    /** The name of the person or program that made something. */
    person: (actor: string | null): string => personText(actor, words.people),
    isExact,
    ...amounts(locale, isExact),
    ...numbers(locale, words.numbers.over),
    ...moments(locale, timeZone, clock),
    ...dates(locale),
  };
}

export type Format = ReturnType<typeof formatFor>;

// Each of these makes its formatters once: making one takes as long as 50 uses of it.

function amounts(locale: string, isExact: boolean) {
  const { shown, exact, exactParts, exactColumn } = eurIn(locale);
  const prices = euro(locale, 2, 12);
  const digits = new Intl.NumberFormat(locale, { maximumFractionDigits: ALL_DIGITS });
  const cents = new Intl.NumberFormat(locale, {
    minimumFractionDigits: 2,
    maximumFractionDigits: 2,
  });
  /** The text that is shown; an exact text that differs becomes the tooltip, which screen readers say. */
  const rounded = (text: string, exactText: string): Html =>
    isExact || text === exactText
      ? html`<span class="eur">${exactText}</span>`
      : html`<span class="eur" title="${exactText}"><span aria-hidden="true">${text}</span><span class="sr">${exactText}</span></span>`;
  return {
    /** An EUR amount of two decimals; where digits are left out, the exact amount is its tooltip. */
    amount: (amount: string): Html => rounded(shown(amount), exact(amount)),

    /** An EUR amount of two decimals as plain text, for places without a tooltip. */
    eurFixed: (amount: string): string => shown(amount),

    /** The exact cost of a single call, which is often less than a cent. Digits after the cents are smaller. */
    eur(amount: string): Html {
      return html`<span class="eur">${exactParts(amount).map(({ type, value }) => {
        if (type !== 'fraction' || value.length === 2) return value;
        return html`${value.slice(0, 2)}<small>${value.slice(2)}</small>`;
      })}</span>`;
    },

    /** An exact EUR amount as plain text: a setting that somebody typed, and the tooltip of a rounded amount. */
    eurText: exact,

    /** Exact EUR amounts of a column, all with the same number of decimals. */
    eurColumn: exactColumn,

    /** A rounded amount, for axes. */
    eurAxis(amount: number, decimals: number): string {
      return joinedParts(euro(locale, decimals, decimals)(String(amount)));
    },

    /** A price with all its decimals. */
    price(amount: string): string {
      return joinedParts(prices(amount));
    },

    /** An exact amount of another currency, such as "0.0003676 USD". */
    other(amount: string, currency: string): string {
      return `${digits.format(amount as Intl.StringNumericLiteral)} ${currency}`;
    },

    /** A sum in another currency, of two decimals, with the exact amount as its tooltip. */
    otherSum(amount: string, currency: string): Html {
      const { sign, value } = roundedCents(amount);
      const text = `${sign}${cents.format(value as Intl.StringNumericLiteral)} ${currency}`;
      const exactText = `${digits.format(amount as Intl.StringNumericLiteral)} ${currency}`;
      return rounded(text, exactText);
    },
  };
}

function numbers(locale: string, over: (percent: string) => string) {
  const counts = new Intl.NumberFormat(locale);
  const decimals = new Intl.NumberFormat(locale, { maximumFractionDigits: 15 });
  const percents = new Intl.NumberFormat(locale, { style: 'percent', maximumFractionDigits: 1 });
  return {
    count(value: number): string {
      return counts.format(value);
    },

    /** A setting with decimals, such as a temperature. */
    decimal(value: number): string {
      return decimals.format(value);
    },

    percent(value: number): string {
      return value > MOST_PERCENT
        ? over(percents.format(MOST_PERCENT / 100))
        : percents.format(value / 100);
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
  const minutes = new Intl.DateTimeFormat(locale, {
    dateStyle: 'medium',
    timeStyle: 'short',
    timeZone,
  });
  const days = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeZone });
  const seconds = new Intl.DateTimeFormat(locale, {
    dateStyle: 'medium',
    timeStyle: 'medium',
    timeZone,
  });
  const ages = new Intl.RelativeTimeFormat(locale, { numeric: 'auto' });
  /** A text for a moment, whose tooltip says more of it, and on which clock. */
  const time = (at: Date, text: string, more = ''): Html =>
    html`<time datetime="${at.toISOString()}" title="${more}${timeZone}">${text}</time>`;
  const minute = (at: Date) => `${minutes.format(at)}, `;
  return {
    /** A moment to the minute. */
    instant(at: Date): Html {
      return time(at, minutes.format(at));
    },

    /** The day of a moment, which is its tooltip. */
    date(at: Date): Html {
      return time(at, days.format(at), minute(at));
    },

    /** A moment to the second. */
    second(at: Date): Html {
      return time(at, seconds.format(at));
    },

    /** How long ago a moment is, such as "5 minutes ago", with the moment itself as a tooltip. */
    ago(at: Date): Html {
      const age = Math.min(0, Math.round((at.getTime() - clock()) / 1000));
      const [unit, length] = AGES.find(([, each]) => -age >= each) ?? (['second', 1] as const);
      return time(at, ages.format(Math.ceil(age / length), unit), minute(at));
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

function personText(actor: string | null, people: Words['people']): string {
  if (actor === 'cli') return people.commandLine;
  return actor === 'operator' ? people.operator : (actor ?? people.unknown);
}

function midnight(date: string): Date {
  return new Date(`${date}T00:00:00Z`);
}
