/** What the word lists of languages are written with. */

/** A text with values that are more than text, such as marked names on a page: its parts in their order. */
export type Parts = readonly unknown[];

/** Puts markup around some words of a text. */
export type Mark = (words: string) => unknown;

/** A template whose values stay what they are: a page escapes the texts among them and takes over its own markup. */
export function parts(texts: TemplateStringsArray, ...values: readonly unknown[]): Parts {
  return texts.flatMap((text, at) => (at < values.length ? [text, values[at]] : [text]));
}

/** The forms of a word by what Intl calls the plural category of a number. */
interface Forms {
  readonly one: string;
  readonly other: string;
  readonly few?: string;
  readonly many?: string;
}

/** Chooses the form of a word that goes with a number. */
export function pluralIn(language: string): (count: number, forms: Forms) => string {
  const rules = new Intl.PluralRules(language);
  return (count, forms) => (forms as unknown as Record<string, string>)[rules.select(count)] ?? forms.other;
}
