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
  // made once: making one takes as long as 50 uses of it
  readonly #eur: Intl.NumberFormat;
  readonly #price: Intl.NumberFormat;
  readonly #count: Intl.NumberFormat;
  readonly #percent: Intl.NumberFormat;
  readonly #moment: Intl.DateTimeFormat;
  readonly #month: Intl.DateTimeFormat;
  readonly #ago: Intl.RelativeTimeFormat;

  /** @param acceptLanguage the header of the request */
  constructor(acceptLanguage: string | undefined, timeZone: string) {
    const locale = preferred(acceptLanguage);
    this.locale = locale;
    this.#eur = euro(locale, 2, 15);
    this.#price = euro(locale, 2, 12);
    this.#count = new Intl.NumberFormat(locale);
    this.#percent = new Intl.NumberFormat(locale, { style: 'percent', maximumFractionDigits: 1 });
    this.#moment = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'short', timeZone });
    this.#month = new Intl.DateTimeFormat(locale, { month: 'long', year: 'numeric', timeZone: 'UTC' });
    this.#ago = new Intl.RelativeTimeFormat(locale, { numeric: 'auto' });
  }

  /** An exact EUR amount. Digits after the cents are smaller. */
  eur(amount: string): Html {
    const parts = this.#eur.formatToParts(amount as Intl.StringNumericLiteral);
    return html`<span class="eur">${parts.map(({ type, value }) =>
      type !== 'fraction' || value.length <= 2 ? value : html`${value.slice(0, 2)}<small>${value.slice(2)}</small>`,
    )}</span>`;
  }

  /** An exact EUR amount as plain text. */
  eurText(amount: string): string {
    return this.#eur.format(amount as Intl.StringNumericLiteral);
  }

  /** A rounded amount, for axes. */
  eurAxis(amount: number, decimals: number): string {
    return euro(this.locale, decimals, decimals).format(amount);
  }

  /** A price with all its decimals. */
  price(amount: string): string {
    return this.#price.format(amount as Intl.StringNumericLiteral);
  }

  count(value: number): string {
    return this.#count.format(value);
  }

  percent(value: number): string {
    return this.#percent.format(value / 100);
  }

  /** A moment in the billing time zone. */
  instant(at: Date): Html {
    return html`<time datetime="${at.toISOString()}">${this.#moment.format(at)}</time>`;
  }

  /** How long ago a moment is, such as "5 minutes ago", with the moment itself as a tooltip. */
  ago(at: Date, now: number): Html {
    const seconds = Math.min(0, Math.round((at.getTime() - now) / 1000));
    const [unit, length] = AGES.find(([, each]) => -seconds >= each) ?? (['second', 1] as const);
    const exact = this.#moment.format(at);
    return html`<time datetime="${at.toISOString()}" title="${exact}">${this.#ago.format(Math.ceil(seconds / length), unit)}</time>`;
  }

  /** "November 2026" of "2026-11-01". */
  month(first: string): string {
    return this.#month.format(new Date(`${first}T00:00:00Z`));
  }
}

function euro(locale: string, least: number, most: number): Intl.NumberFormat {
  const digits = { minimumFractionDigits: least, maximumFractionDigits: most };
  return new Intl.NumberFormat(locale, { style: 'currency', currency: 'EUR', ...digits });
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
