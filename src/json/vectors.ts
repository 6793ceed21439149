import { CLOSE_BRACKET, COLON, OPEN_BRACKET, QUOTE, skipSpace } from './bytes.ts';

const NAME = Buffer.from('"embedding"');
const NONE = Buffer.alloc(0);

// what comes next
const OUTSIDE = 0;
const COLON_NEXT = 1;
const VALUE_NEXT = 2;
const WITHIN = 3;

/**
 * Writes the vectors of an answer of embeddings as base64 while its bytes arrive: an upstream that does not obey
 * `encoding_format` sends them as digits, which take four times as much, and are never held all at once. All other
 * bytes stay as they are. The name with its quotes stands in no string, whose quotes are escaped. Pure.
 */
export class VectorEncoder {
  #next = OUTSIDE;
  /** Bytes of the name that the last piece ended with. */
  #named = 0;
  /** The digits of a vector that has arrived in part, with their brackets. */
  #digits = '';
  #converted = 0;
  #texts = 0;
  #others = 0;
  #broken = false;

  /** Bytes of a vector that is not whole yet. */
  get pending(): number {
    return this.#digits.length;
  }

  /** Whether any vector came. */
  get hasVectors(): boolean {
    return this.#converted + this.#texts > 0;
  }

  /** Whether a vector was none: it held something other than numbers, or stood beside one and is neither text nor array. */
  get isBroken(): boolean {
    return this.#broken || (this.#converted > 0 && this.#others > 0);
  }

  /** @returns the same bytes where there was nothing to write anew, else others */
  push(bytes: Buffer): Buffer {
    const out: Buffer[] = [];
    let kept = 0;
    for (let at = 0; at < bytes.length; ) {
      if (this.#next === WITHIN) {
        const close = bytes.indexOf(CLOSE_BRACKET, at);
        const end = close < 0 ? bytes.length : close + 1;
        this.#digits += bytes.toString('latin1', at, end);
        at = kept = end;
        if (close >= 0) out.push(this.#end());
      } else if (this.#next === OUTSIDE) at = this.#findName(bytes, at);
      else {
        at = skipSpace(bytes, at, bytes.length);
        if (at === bytes.length) break;
        const byte = bytes[at] as number;
        if (this.#next === COLON_NEXT) {
          this.#next = byte === COLON ? VALUE_NEXT : OUTSIDE;
          if (byte === COLON) at++;
        } else if (byte === OPEN_BRACKET) {
          out.push(bytes.subarray(kept, at));
          this.#next = WITHIN;
        } else {
          if (byte === QUOTE) this.#texts++;
          else this.#others++;
          this.#next = OUTSIDE;
        }
      }
    }
    if (out.length === 0 && kept === 0) return bytes;
    out.push(bytes.subarray(kept));
    return out.length === 1 ? (out[0] as Buffer) : Buffer.concat(out);
  }

  /** @returns where to go on: behind the name, or at the end where a part of it may stand */
  #findName(bytes: Buffer, from: number): number {
    const rest = NAME.length - this.#named;
    if (this.#named > 0) {
      const length = Math.min(rest, bytes.length - from);
      const goesOn =
        NAME.compare(bytes, from, from + length, this.#named, this.#named + length) === 0;
      this.#named = goesOn && length < rest ? this.#named + length : 0;
      if (goesOn) {
        if (length === rest) this.#next = COLON_NEXT;
        return from + length;
      }
    }
    const found = bytes.indexOf(NAME, from);
    if (found >= 0) {
      this.#next = COLON_NEXT;
      return found + NAME.length;
    }
    // the only quotes of the name are its first and its last byte
    const quote = bytes.lastIndexOf(QUOTE);
    const length = bytes.length - quote;
    const isPart =
      quote >= from &&
      length < NAME.length &&
      NAME.compare(bytes, quote, bytes.length, 0, length) === 0;
    if (isPart) this.#named = length;
    return bytes.length;
  }

  /** The vector that is whole now, as a string with its quotes. */
  #end(): Buffer {
    const text = encoded(this.#digits);
    this.#digits = '';
    this.#next = OUTSIDE;
    this.#converted++;
    if (text !== null) return Buffer.from(`"${text}"`, 'latin1');
    this.#broken = true;
    return NONE;
  }
}

/** Floats in JSON as base64 of little-endian 32-bit floats; null where the array holds anything else. */
function encoded(digits: string): string | null {
  let values: unknown[];
  try {
    values = JSON.parse(digits);
  } catch {
    return null;
  }
  const bytes = Buffer.allocUnsafe(values.length * 4);
  for (let k = 0; k < values.length; k++) {
    const value = values[k];
    if (typeof value !== 'number') return null; // null, as some write NaN, would be 0
    bytes.writeFloatLE(value, k * 4);
  }
  return bytes.toString('base64');
}
