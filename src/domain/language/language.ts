import { oneOf } from '../field.ts';
import { de } from './de.ts';
import { en, type Words } from './en.ts';

/**
 * The languages in which owners and members of companies read pages and e-mails. Each is one file, and a line here. The
 * type of all word lists is that of the English one, so that the compiler finds what is missing.
 */
const WORD_LISTS = { en, de } as const satisfies Readonly<Record<string, Words>>;

export type Language = keyof typeof WORD_LISTS;
export const LANGUAGES = Object.keys(WORD_LISTS) as readonly Language[];

/** The language of operators, and of all others where nobody chose one and the reader's browser asks for none of these. */
export const ENGLISH: Language = 'en';

export function wordsOf(language: Language): Words {
  return WORD_LISTS[language];
}

/** The language of a text such as "de"; null: there is no word list of it. */
export function asLanguage(text: string | null | undefined): Language | null {
  return LANGUAGES.find((each) => each === text) ?? null;
}

/** Of a setting. @throws FieldError */
export const readLanguage = oneOf(...LANGUAGES);
