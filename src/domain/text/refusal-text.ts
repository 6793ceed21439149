import type { FieldError } from '../field.ts';
import type { Words } from '../language/en.ts';
import { ENGLISH, wordsOf } from '../language/language.ts';
import type { RefusedChange } from './refused-change.ts';

/** Refusals in the language of a page. What only operators and programs meet has no text but the English one. */

/** Why a field is refused, as it continues the name of the field. */
export function fieldText(words: Words, { refusal, refused, message }: FieldError): string {
  if (refusal === null) return message;
  return refusal.in(words.refusals) + (refused === null ? '' : words.form.not(refused));
}

/** Why a change is refused: a sentence. */
export function changeText(words: Words, { refusal, reason, noun, message }: RefusedChange): string {
  if (refusal !== null) return refusal.in(words.refusals);
  return reason === 'not_found' && words !== wordsOf(ENGLISH) ? words.noSuch[noun] : message;
}
