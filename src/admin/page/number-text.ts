import { FieldError, type Read } from '../../domain/field.ts';
import { formatEur, parseEur } from '../../domain/pricing/money.ts';
import { type Refusal, refusal } from '../../domain/refusal.ts';
import { ownLanguage, pageLocale } from './locale.ts';

/**
 * Numbers in forms, as exact text: how they are shown, and the meaning of typed text. Nothing here is a binary
 * fraction.
 */

const MOST_LETTERS = 60;

/** How one language writes numbers. */
interface Style {
  readonly decimal: string;
  readonly group: string;
  /** A whole number with its groups, which are not thousands in every language. */
  readonly grouped: (whole: bigint) => string;
}

const PLAIN: Style = { decimal: '.', group: '', grouped: String };

/**
 * The text of a field that shows a number: without groups, with the separator of the page. A zero follows three
 * decimals, which could be taken for a group: 1.5000 has one meaning.
 * @param amount a plain decimal number; any other text is returned as it is
 * @param language of the reader, as locale.ts has it
 */
export function writeNumber(amount: string, language: string): string {
  const [, whole, fraction] = /^(\d+)\.(\d+)$/.exec(amount) ?? [];
  if (whole === undefined || fraction === undefined) return amount;
  return `${whole}${styleOf(pageLocale(language)).decimal}${fraction}${fraction.length === 3 ? '0' : ''}`;
}

/**
 * Reads a number as the page writes it, as a plain decimal number, or as the reader's own language writes it: a
 * German reader of an English page may type 12,50 where the page shows 12.50. A text with two meanings that the
 * field would both accept is refused, with both.
 * @param read gets a plain decimal number
 */
export function numeric<T>(language: string, read: Read<T>): Read<T> {
  return (typed) => {
    const text = asTyped(typed.trim());
    if (/\p{Nd}/u.test(text.replaceAll(/\d/g, ''))) throw new FieldError(refusal('digits'));
    const accepted = new Map<string, T>();
    for (const plain of text.length > MOST_LETTERS ? [] : meanings(text, language)) {
      const value = tryRead(plain, read);
      if (value !== undefined) accepted.set(plain, value);
    }
    if (accepted.size > 1) throw new FieldError(bothMeanings(text, [...accepted.keys()], language));
    for (const value of accepted.values()) return value;
    return read(typed); // says what the field wants
  };
}

function tryRead<T>(plain: string, read: Read<T>): T | undefined {
  try {
    return read(plain);
  } catch (error) {
    if (!(error instanceof FieldError)) throw error;
    return undefined;
  }
}

/** The plain decimal numbers that a text can mean. */
function meanings(text: string, language: string): Set<string> {
  const found = [styleOf(pageLocale(language)), PLAIN, styleOf(ownLanguage(language))].map(
    (style) => meaning(text, style),
  );
  return new Set(found.filter((plain) => plain !== null));
}

/** The value of a text in one style; null when it is no number there. */
function meaning(text: string, { decimal, group, grouped }: Style): string | null {
  const [whole = '', fraction, ...more] = text.split(decimal);
  const digits = whole.replaceAll(/[^\d]/g, '');
  if (digits === '' || more.length > 0 || (fraction !== undefined && !/^\d+$/.test(fraction)))
    return null;
  // spaces and apostrophes never mark decimals, so every reader may group by them
  const isWhole =
    whole === digits ||
    whole === asTyped(grouped(BigInt(digits))) ||
    [group, ' ', "'"].some((separator) => whole === thousands(digits, separator));
  if (!isWhole) return null;
  return fraction === undefined ? digits : `${digits}.${fraction}`;
}

function thousands(digits: string, separator: string): string {
  return digits.startsWith('0') ? digits : digits.replaceAll(/\B(?=(\d{3})+$)/g, separator);
}

function bothMeanings(text: string, plains: readonly string[], language: string): Refusal {
  const options = { minimumFractionDigits: 2, maximumFractionDigits: 15 };
  const format = new Intl.NumberFormat(pageLocale(language), options);
  const shown = plains.map((plain) => format.format(plain as Intl.StringNumericLiteral));
  const clear = plains.map((plain) => {
    const [whole, fraction] = formatEur(parseEur(plain)).split('.');
    return fraction === undefined
      ? (whole as string)
      : writeNumber(`${whole}.${fraction.padEnd(2, '0')}`, language);
  });
  return refusal('unclear', { text, shown, clear });
}

function styleOf(locale: string): Style {
  const format = new Intl.NumberFormat(locale, { useGrouping: 'always', numberingSystem: 'latn' });
  const parts = format.formatToParts(12_345.6);
  const find = (type: string) => asTyped(parts.find((part) => part.type === type)?.value ?? '');
  return {
    decimal: find('decimal'),
    group: find('group'),
    grouped: (whole) => format.format(whole),
  };
}

/** With the space and the apostrophe of a keyboard instead of typographic ones. */
function asTyped(text: string): string {
  return text.replaceAll(/[\u00a0\u202f\u2009]/g, ' ').replaceAll('’', "'");
}
