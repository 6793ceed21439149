/**
 * Amounts of EUR for people: two decimals, on pages and in mails alike. Less than half a cent, which is not nothing, is
 * "< €0.01". The exact amount stands behind it where a page can show it, and in files.
 */

/** Decimals of an exact amount. Calls have 15 at most; in-app chat and costs that upstreams tell may have more. */
export const ALL_DIGITS = 40;
const CENTS = 2;
const CENT = '0.01';

/** The amount to show: itself, or a cent with "<" before it; below zero a cent less, because "> -€0.01" cannot be read. */
export function roundedCents(amount: string): { readonly sign: '' | '< '; readonly value: string } {
  if (!/^-?0\.00[0-4]\d*$/.test(amount) || !/[1-9]/.test(amount))
    return { sign: '', value: amount };
  return { sign: amount.startsWith('-') ? '' : '< ', value: amount.replace(/\d.*/, CENT) };
}

/** Amounts stay decimal text: Intl formats every digit of it, so nothing is rounded to a binary fraction. */
export function eurIn(locale: string) {
  const cents = euro(locale, CENTS, CENTS);
  const exact = euro(locale, CENTS, ALL_DIGITS);
  return {
    /** An amount as people read it. */
    shown(amount: string): string {
      const { sign, value } = roundedCents(amount);
      return sign + joinedParts(cents(value));
    },

    /** An amount with all its digits, as parts and as text. */
    exactParts: exact,
    exact: (amount: string): string => joinedParts(exact(amount)),

    /** Writes the exact amounts of a column with as many decimals each, so that their decimal marks stand below each other. */
    exactColumn(amounts: readonly string[]): (amount: string) => string {
      const decimals = amounts.map((amount) => amount.split('.')[1]?.length ?? 0);
      const aligned = euro(locale, Math.max(CENTS, ...decimals), ALL_DIGITS);
      return (amount) => joinedParts(aligned(amount));
    },
  };
}

/**
 * Writes an amount with the separators of all other numbers of the page. A currency format would not: English of
 * Germany has 1.234,5 and €1,234.50.
 */
export function euro(
  locale: string,
  least: number,
  most: number,
): (amount: string) => Intl.NumberFormatPart[] {
  const numbers = new Intl.NumberFormat(locale, {
    minimumFractionDigits: least,
    maximumFractionDigits: most,
  });
  const currency = new Intl.NumberFormat(locale, {
    style: 'currency',
    currency: 'EUR',
    maximumFractionDigits: 0,
  });
  const [positive, negative] = [currency.formatToParts(1), currency.formatToParts(-1)];
  return (amount) => {
    const parts = numbers.formatToParts(amount.replace(/^-/, '') as Intl.StringNumericLiteral);
    const frame = amount.startsWith('-') ? negative : positive;
    return frame.flatMap((part) => (part.type === 'integer' ? parts : part));
  };
}

export function joinedParts(parts: readonly Intl.NumberFormatPart[]): string {
  return parts.map(({ value }) => value).join('');
}
