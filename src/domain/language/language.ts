import type { Language } from '../languages.ts';
import { de } from './de.ts';
import { en, type Words } from './en.ts';

/**
 * The words of each language, a file each. The type of all word lists is that of the English one, so that the compiler
 * finds what is missing.
 */
const WORD_LISTS: Readonly<Record<Language, Words>> = { en, de };

export function wordsOf(language: Language): Words {
  return WORD_LISTS[language];
}
