import { wordsOf } from '../../domain/language/language.ts';
import { asLanguage, ENGLISH, type Language } from '../../domain/languages.ts';

/**
 * What a reader reads and types: the language of the page, and the reader's own language with its region, as the browser
 * names it. Words, dates and numbers of a page agree with each other and with its `lang`; what the reader types may
 * follow the reader's own language (number-text.ts). Both are one text: "de-AT" is an English page for an Austrian
 * reader, "de/en-US" a German page for an American one.
 */

/** English with euros. */
export const FALLBACK = wordsOf(ENGLISH).locale;
const LANGUAGE = /^[A-Za-z]{2,3}(-[A-Za-z]{4})?(-[A-Za-z]{2})?$/; // without extensions, which could select other digits or calendars

/** The languages of an Accept-Language header that Intl supports, in their order. */
function languagesIn(header: string | undefined): string[] {
  const tags = (header ?? '').slice(0, 200).split(',');
  return tags
    .map((entry) => knownTag(entry.split(';', 1)[0]?.trim() ?? ''))
    .filter((tag) => tag !== null);
}

/** The first of them. */
export function languageOf(header: string | undefined): string {
  return languagesIn(header)[0] ?? FALLBACK;
}

/** The language of pages that such a reader prefers; null: there is none of those that are asked for. */
export function preferredLanguage(header: string | undefined): Language | null {
  for (const tag of languagesIn(header)) {
    const language = asLanguage(tag.split('-', 1)[0]);
    if (language !== null) return language;
  }
  return null;
}

/** A reader of pages in a language. @param own as of `languageOf` */
export function readerOf(page: Language, own: string): string {
  return page === ENGLISH ? own : `${page}/${own}`;
}

/** The text of a reader as a form has it; null unless its languages are known. */
export function knownLanguage(text: string): string | null {
  const [own = '', page = ENGLISH] = text.split('/', 2).reverse();
  const [language, tag] = [asLanguage(page), knownTag(own)];
  return language === null || tag === null ? null : readerOf(language, tag);
}

/** The language of the page. */
export function pageLanguage(reader: string): Language {
  return reader.includes('/') ? (asLanguage(reader.split('/', 1)[0]) ?? ENGLISH) : ENGLISH;
}

/** The reader's own language. */
export function ownLanguage(reader: string): string {
  return reader.slice(reader.indexOf('/') + 1);
}

/**
 * The language of the page as it is written in the reader's region, such as "en-DE" for "de". Where the reader's own
 * language is another one, only English has forms for its region; where Intl has none for it, that of the word list is
 * taken.
 */
export function pageLocale(reader: string): string {
  const page = pageLanguage(reader);
  const { locale: usual } = wordsOf(page);
  const { language, region } = new Intl.Locale(ownLanguage(reader)).maximize();
  if (page !== ENGLISH && language !== page) return usual;
  const regional = `${page}-${region}`;
  const { locale } = new Intl.NumberFormat(regional).resolvedOptions();
  return locale === regional ? regional : usual;
}

/** A language tag as Intl writes it; null unless Intl supports it. */
function knownTag(tag: string): string | null {
  return LANGUAGE.test(tag) ? (Intl.NumberFormat.supportedLocalesOf([tag])[0] ?? null) : null;
}
