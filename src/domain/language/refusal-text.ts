import type { FieldError } from '../field.ts';
import { ENGLISH } from '../languages.ts';
import type { Noun, Refusal } from '../refusal.ts';
import type { Words } from './en.ts';
import { wordsOf } from './language.ts';

/** Refusals in the language of a page. What only operators and programs meet has no text but the English one. */

/** A RefusedChange. */
interface Refused {
  readonly refusal: Refusal | null;
  readonly reason: 'not_found' | 'conflict';
  readonly noun: Noun;
  readonly message: string;
}

/** Why a field is refused, as it continues the name of the field. */
export function fieldText(words: Words, { refusal, refused, message }: FieldError): string {
  if (refusal === null) return message;
  return refusal.in(words.refusals) + (refused === null ? '' : words.form.not(refused));
}

/** Why a change is refused: a sentence. */
export function changeText(words: Words, { refusal, reason, noun, message }: Refused): string {
  if (refusal !== null) return refusal.in(words.refusals);
  return reason === 'not_found' && words !== wordsOf(ENGLISH) ? words.noSuch[noun] : message;
}
