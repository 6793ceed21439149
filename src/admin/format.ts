import { html } from 'hono/html';
import type { Html } from './html.ts';

const AGES = [
  ['day', 86_400],
  ['hour', 3600],
  ['minute', 60],
] as const;

/**
 * Numbers and times in the language of one reader. Amounts stay decimal text: Intl formats every
 * digit of it, so nothing is rounded to a binary fraction.
 */
export class Format {
  readonly locale: string;
  readonly timeZone: string;

  /** @param acceptLanguage the header of the request */
  constructor(acceptLanguage: string | undefined, timeZone: string) {
    this.locale = preferred(acceptLanguage);
    this.timeZone = timeZone;
  }

  /** An exact EUR amount. Digits after the cents are smaller. */
  eur(amount: string): Html {
    const parts = this.#euro(15).formatToParts(amount as Intl.StringNumericLiteral);
    return html`<span class="eur">${parts.map(({ type, value }) =>
      type !== 'fraction' || value.length <= 2 ? value : html`${value.slice(0, 2)}<small>${value.slice(2)}</small>`,
    )}</span>`;
  }

  /** An exact EUR amount as plain text. */
  eurText(amount: string): string {
    return this.#euro(15).format(amount as Intl.StringNumericLiteral);
  }

  /** A rounded amount, for axes. */
  eurAxis(amount: number, decimals: number): string {
    const digits = { minimumFractionDigits: decimals, maximumFractionDigits: decimals };
    return new Intl.NumberFormat(this.locale, { style: 'currency', currency: 'EUR', ...digits }).format(amount);
  }

  /** A price with all its decimals. */
  price(amount: string): string {
    return this.#euro(12).format(amount as Intl.StringNumericLiteral);
  }

  count(value: number): string {
    return new Intl.NumberFormat(this.locale).format(value);
  }

  percent(value: number): string {
    return new Intl.NumberFormat(this.locale, { style: 'percent', maximumFractionDigits: 1 }).format(value / 100);
  }

  /** A moment in the billing time zone. */
  instant(at: Date): Html {
    return html`<time datetime="${at.toISOString()}">${this.#moment().format(at)}</time>`;
  }

  /** How long ago a moment is, such as "5 minutes ago", with the moment itself as a tooltip. */
  ago(at: Date, now: number): Html {
    const seconds = Math.min(0, Math.round((at.getTime() - now) / 1000));
    const [unit, length] = AGES.find(([, each]) => -seconds >= each) ?? (['second', 1] as const);
    const relative = new Intl.RelativeTimeFormat(this.locale, { numeric: 'auto' });
    const exact = this.#moment().format(at);
    return html`<time datetime="${at.toISOString()}" title="${exact}">${relative.format(Math.ceil(seconds / length), unit)}</time>`;
  }

  /** "November 2026" of "2026-11-01". */
  month(first: string): string {
    const format = new Intl.DateTimeFormat(this.locale, { month: 'long', year: 'numeric', timeZone: 'UTC' });
    return format.format(new Date(`${first}T00:00:00Z`));
  }

  #moment(): Intl.DateTimeFormat {
    return new Intl.DateTimeFormat(this.locale, { dateStyle: 'medium', timeStyle: 'short', timeZone: this.timeZone });
  }

  #euro(most: number): Intl.NumberFormat {
    return new Intl.NumberFormat(this.locale, {
      style: 'currency',
      currency: 'EUR',
      minimumFractionDigits: 2,
      maximumFractionDigits: most,
    });
  }
}

/** The first language of the header that Intl supports. */
function preferred(header: string | undefined): string {
  const wanted = (header ?? '').slice(0, 200).split(',');
  for (const entry of wanted) {
    const tag = entry.split(';', 1)[0]?.trim() ?? '';
    // without extensions, which could select other digits or calendars
    if (!/^[A-Za-z]{2,3}(-[A-Za-z]{4})?(-[A-Za-z]{2})?$/.test(tag)) continue;
    const [known] = Intl.NumberFormat.supportedLocalesOf([tag]);
    if (known !== undefined) return known;
  }
  return 'en-IE'; // English with euros
}
