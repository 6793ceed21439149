import { skipBlank } from './fields.ts';

const NONE = Buffer.alloc(0);
const LINE_FEED = Buffer.from('\n');
/** A copy's buffer up to this size is kept for the next event. */
const MAX_KEPT_COPY = 4096;

/**
 * The data lines of the event that is being read. They are in the chunk, or in a copy if the event began in an
 * earlier chunk:
 *
 *   copy: data: {"a":1,⏎data: "b":2}⏎dat
 *         '---- line ----''-- line --''unfinished line (the scanner knows where it begins)
 */
export class EventLines {
  /** The buffer that the offsets below refer to: the chunk or the copy. */
  buffer: Buffer = NONE;
  /** Four for each line: where the line starts, where its value starts and ends, where the line end ends. */
  readonly offsets: number[] = [];
  copy: Buffer = NONE;
  copyLength = 0;
  /** Set by `join`: the values joined by LF. [start, end) is their span without blanks at the beginning. */
  payload: Buffer = NONE;
  start = 0;
  end = 0;

  get count(): number {
    return this.offsets.length / 4;
  }

  /** Adds the line [start, next) of a chunk or of the copy; its value is [value, end). */
  add(b: Buffer, start: number, value: number, end: number, next: number): void {
    if (this.offsets.length === 0) this.buffer = b;
    const shift = b === this.buffer ? 0 : this.append(b, start, next) - start;
    this.offsets.push(start + shift, value + shift, end + shift, next + shift);
  }

  /** Adds an LF, the first byte of the chunk, to the last line, which ended with a CR. */
  addLf(chunk: Buffer): void {
    this.append(chunk, 0, 1);
    const last = this.offsets.length - 1;
    this.offsets[last] = (this.offsets[last] as number) + 1;
  }

  /** Copies the lines out of the chunk, whose memory the caller uses again. */
  copyFrom(chunk: Buffer): void {
    const { offsets } = this;
    if (offsets.length === 0 || this.buffer !== chunk) return;
    for (let k = 0; k < offsets.length; k += 4) {
      const start = offsets[k] as number;
      const shift = this.append(chunk, start, offsets[k + 3] as number) - start;
      for (let n = k; n < k + 4; n++) offsets[n] = (offsets[n] as number) + shift;
    }
    this.buffer = this.copy;
  }

  /** Appends bytes to the copy. @returns where they begin in it */
  append(b: Buffer, start: number, end: number): number {
    const at = this.copyLength;
    const length = at + end - start;
    if (length > this.copy.length) {
      const larger = Buffer.allocUnsafe(Math.max(512, length * 2));
      this.copy.copy(larger, 0, 0, at);
      if (this.buffer === this.copy) this.buffer = larger;
      this.copy = larger;
    }
    b.copy(this.copy, at, start, end);
    this.copyLength = length;
    return at;
  }

  join(): void {
    const { offsets, buffer } = this;
    if (offsets.length === 4) {
      this.payload = buffer;
      this.end = offsets[2] as number;
      this.start = skipBlank(buffer, offsets[1] as number, this.end);
      return;
    }
    const values: Buffer[] = [];
    for (let k = 0; k < offsets.length; k += 4) {
      if (k > 0) values.push(LINE_FEED);
      values.push(buffer.subarray(offsets[k + 1], offsets[k + 2]));
    }
    this.payload = Buffer.concat(values);
    this.end = this.payload.length;
    this.start = skipBlank(this.payload, 0, this.end);
  }

  clear(): void {
    this.offsets.length = 0;
    this.copyLength = 0;
    if (this.copy.length > MAX_KEPT_COPY) this.copy = NONE;
    this.buffer = NONE;
    this.payload = NONE;
  }
}
