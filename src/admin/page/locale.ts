/**
 * Pages are in English throughout, as it is written in the reader's region: words, dates and numbers agree with
 * each other and with `lang="en"`. What the reader types may follow the reader's own language (number-text.ts).
 */

/** English with euros. */
export const FALLBACK = 'en-IE';
const LANGUAGE = /^[A-Za-z]{2,3}(-[A-Za-z]{4})?(-[A-Za-z]{2})?$/; // without extensions, which could select other digits or calendars

/** The first language of an Accept-Language header that Intl supports. */
export function languageOf(header: string | undefined): string {
  for (const entry of (header ?? '').slice(0, 200).split(',')) {
    const known = knownLanguage(entry.split(';', 1)[0]?.trim() ?? '');
    if (known !== null) return known;
  }
  return FALLBACK;
}

/** A language tag as Intl writes it; null unless Intl supports it. */
export function knownLanguage(tag: string): string | null {
  return LANGUAGE.test(tag) ? (Intl.NumberFormat.supportedLocalesOf([tag])[0] ?? null) : null;
}

/** The English of a reader's region, such as "en-DE" for "de"; that of Ireland where Intl has none for the region. */
export function pageLocale(language: string): string {
  const { region } = new Intl.Locale(language).maximize();
  const english = `en-${region}`;
  const { locale } = new Intl.NumberFormat(english).resolvedOptions();
  return locale === english ? english : FALLBACK;
}
