import { CAPITAL_E, DIGIT_0, DIGIT_9, DOT, LETTER_E, MINUS_SIGN, PLUS_SIGN } from './bytes.ts';

/** States of a parser within a number. A number may end in the four states marked so. */
export const MINUS = 13;
export const ZERO = 14; // may end
export const DIGITS = 15; // may end
const POINT = 16;
export const FRACTION = 17; // may end
const EXPONENT = 18;
const EXPONENT_SIGN = 19;
export const EXPONENT_DIGITS = 20; // may end

/** The byte does not continue the number. */
export const FAULT = 8;

/** The state of a number after one more byte; FAULT if the byte does not continue it. */
export function nextNumberState(state: number, c: number): number {
  if (c >= DIGIT_0 && c <= DIGIT_9) {
    if (state === DIGITS || state === FRACTION || state === EXPONENT_DIGITS) return state;
    if (state === MINUS) return c === DIGIT_0 ? ZERO : DIGITS;
    return state === ZERO ? FAULT : state === POINT ? FRACTION : EXPONENT_DIGITS;
  }
  if (c === DOT) return state === ZERO || state === DIGITS ? POINT : FAULT;
  if (c === LETTER_E || c === CAPITAL_E)
    return state === ZERO || state === DIGITS || state === FRACTION ? EXPONENT : FAULT;
  if (c === PLUS_SIGN || c === MINUS_SIGN) return state === EXPONENT ? EXPONENT_SIGN : FAULT;
  return FAULT;
}
