import { oneOf } from './field.ts';

/** The languages in which owners and members of companies read pages and e-mails, each by its own name. */
export const LANGUAGE_NAMES = { en: 'English', de: 'Deutsch' } as const;

export type Language = keyof typeof LANGUAGE_NAMES;
export const LANGUAGES = Object.keys(LANGUAGE_NAMES) as readonly Language[];

/** The language of operators, and of all others where nobody chose one and the reader's browser asks for none of these. */
export const ENGLISH: Language = 'en';

/** The language of a text such as "de"; null: there is no word list of it. */
export function asLanguage(text: string | null | undefined): Language | null {
  return LANGUAGES.find((each) => each === text) ?? null;
}

/** Of a setting. @throws FieldError */
export const readLanguage = oneOf(...LANGUAGES);
