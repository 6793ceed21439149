import { writePadded } from '../json/decimal.ts';

const Z = 0x5a;

/** The day of an instant in UTC, "2026-11-21". @param at milliseconds since the epoch */
export function dayOf(at: number): string {
  return new Date(at).toISOString().slice(0, 10);
}

/**
 * Formats ISO 8601 times in UTC, such as 2026-11-21T10:15:30.123Z. Remembers the text of the last
 * second: 40 ns instead of the 400 ns of Date.prototype.toISOString.
 */
export class IsoTime {
  #second = Number.NaN;
  #prefix = '';

  /** @param at milliseconds since the epoch */
  of(at: number): string {
    const ms = this.#msOf(at);
    return `${this.#prefix}${ms < 10 ? '00' : ms < 100 ? '0' : ''}${ms}Z`;
  }

  /** Writes the 24 characters into a buffer. @param time milliseconds since the epoch */
  write(bytes: Buffer, at: number, time: number): void {
    const ms = this.#msOf(time);
    bytes.write(this.#prefix, at, 'latin1');
    bytes[writePadded(bytes, at + 20, ms, 3)] = Z;
  }

  /** The milliseconds of an instant since its second; sets the text of that second. */
  #msOf(at: number): number {
    const second = Math.floor(at / 1000);
    if (second !== this.#second) {
      this.#second = second;
      this.#prefix = new Date(second * 1000).toISOString().slice(0, 20);
    }
    return at - second * 1000;
  }
}
