import type { FieldError } from '../field.ts';
import { ENGLISH } from '../languages.ts';
import type { Refused } from '../refusal.ts';
import type { Words } from './en.ts';
import { wordsOf } from './language.ts';

/** Refusals in the language of a page. What only operators and programs meet has no text but the English one. */

/** Why a field is refused, as it continues the name of the field. */
export function fieldText(words: Words, { refusal, refused, message }: FieldError): string {
  if (refusal === null) return message;
  return refusal.in(words.refusals) + (refused === null ? '' : words.form.not(refused));
}

/** Why a change is refused: a sentence. */
export function changeText(words: Words, { refusal, kind, noun, message }: Refused): string {
  if (refusal !== null) return refusal.in(words.refusals);
  const isTold = kind === 'missing' && noun !== null && words !== wordsOf(ENGLISH);
  return isTold ? words.noSuch[noun] : message;
}
