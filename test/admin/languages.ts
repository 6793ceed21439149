import { pageLocale } from '../../src/admin/page/locale.ts';

const LETTERS = [...'abcdefghijklmnopqrstuvwxyz'];
const PAIRS = LETTERS.flatMap((one) => LETTERS.map((other) => one + other));
const TRIPLES = PAIRS.flatMap((two) => LETTERS.map((third) => two + third));
const REGIONS = PAIRS.map((region) => region.toUpperCase());

const known = Intl.NumberFormat.supportedLocalesOf([...PAIRS, ...TRIPLES]);
const regional = ['en', 'de', 'es', 'fr', 'pt', 'it'].flatMap((language) =>
  Intl.NumberFormat.supportedLocalesOf(REGIONS.map((region) => `${language}-${region}`)),
);

/** Of all languages of Intl, one for each way in which a reader's page and the reader's own language write numbers. */
export const LANGUAGES: readonly string[] = [
  ...new Map([...known, ...regional].map((language) => [styles(language), language])).values(),
];

function styles(language: string): string {
  const page = pageLocale(language);
  const format = (locale: string) =>
    [-1_234_567.5, 1234.5].map((number) =>
      new Intl.NumberFormat(locale, { numberingSystem: 'latn' }).format(number),
    );
  return `${format(page)} ${format(language)}`;
}
