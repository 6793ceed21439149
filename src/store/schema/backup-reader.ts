import { END_OF_ROWS } from './backup.ts';

const MAX_LINE_BYTES = 1 << 20;
/** The end of rows stands on a line of its own; COPY writes a backslash of a value twice. */
const END = Buffer.from(`\n${END_OF_ROWS}`);

/** A backup that ends too early, or is none; the message is for the operator. */
export class BackupDamaged extends Error {}

/** Reads the lines and rows of a backup, a piece at a time. */
export class BackupReader {
  readonly #pieces: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(pieces: AsyncIterable<Buffer>) {
    this.#pieces = pieces[Symbol.asyncIterator]();
  }

  /** The next line, as the JSON object that it is. @throws BackupDamaged */
  async line(): Promise<unknown> {
    let end = this.#rest.indexOf(10);
    while (end < 0) {
      if (this.#rest.length > MAX_LINE_BYTES)
        throw new BackupDamaged('this file is not a backup of Tollgate');
      this.#rest = Buffer.concat([this.#rest, await this.#next()]);
      end = this.#rest.indexOf(10);
    }
    const text = this.#rest.toString('utf8', 0, end);
    this.#rest = this.#rest.subarray(end + 1);
    try {
      return JSON.parse(text);
    } catch {
      throw new BackupDamaged('this file is not a backup of Tollgate');
    }
  }

  /** The rows up to their end, in pieces that end anywhere. @throws BackupDamaged */
  async *rows(): AsyncGenerator<Buffer> {
    // a line break before the first row, so that the end of no rows looks like any other
    let held = Buffer.concat([Buffer.from('\n'), this.#rest]);
    let skip = 1;
    for (;;) {
      const end = held.indexOf(END);
      if (end >= 0) {
        this.#rest = held.subarray(end + END.length);
        if (end + 1 > skip) yield held.subarray(skip, end + 1);
        return;
      }
      // bytes that may begin the end mark wait for the next piece
      const sure = Math.max(skip, held.length - END.length + 1);
      if (sure > skip) yield held.subarray(skip, sure);
      const from = Math.max(0, sure - 1);
      held = Buffer.concat([held.subarray(from), await this.#next()]);
      skip = sure - from;
    }
  }

  /** Whether nothing is left. */
  async isAtEnd(): Promise<boolean> {
    let left = this.#rest.length;
    while (left === 0) {
      const { done, value } = await this.#pieces.next();
      if (done) return true;
      left = value.length;
    }
    return false;
  }

  async #next(): Promise<Buffer> {
    const { done, value } = await this.#pieces.next();
    if (done) throw new BackupDamaged('the backup is not whole: its end is missing');
    return value;
  }
}
