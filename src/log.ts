import { fstatSync, write, writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Logger, type LoggerOptions, pino } from 'pino';

export type { Logger } from 'pino';

/** Lines are written together once they fill this many bytes, or after this many milliseconds. */
const BUFFER_BYTES = 65_536;
const BUFFER_MS = 250;
/** Milliseconds after which a full pipe is tried again. */
const RETRY_MS = 10;
/** A reader that takes nothing for so long is given up at the end of the process. */
const PATIENCE_MS = 5000;
/** Lines are dropped while more bytes than these wait for a reader. */
const MAX_QUEUED = 64 * 1_048_576;
/** UTF-8 needs at most three bytes for a UTF-16 unit. */
const MOST_BYTES = 3;
/** Bytes up to which what several processes write to one pipe stays together (PIPE_BUF of Linux). */
const PIPE_BYTES = 4096;

/** Takes finished lines past pino: 0.3 µs for the line of each request, where pino takes 3. */
export interface LineSink {
  write(line: string): void;
  /** Memory for a line of at most so many bytes, to be written from `at` on; null: it is taken as text alone. */
  reserve?(bytes: number): ReservedLine | null;
}

/** Where a line may be written. Nothing else may be logged until it is taken. */
export interface ReservedLine {
  readonly buffer: Buffer;
  readonly at: number;
  /** @param end the offset behind its line break */
  take(end: number): void;
}

/** Takes the lines of a log, each whole and with its line break. */
interface LogOutput {
  write(line: string): unknown;
  /** How each line begins that does not come from pino, where other than "{". */
  readonly lineStart?: string;
  flush?(patienceMs: number): Promise<void>;
}

/** A logger that knows its output, for lines that do not come from pino. */
export type Log = Logger & { readonly output: LogOutput };

/** @param options of pino */
export function createLog(options: LoggerOptions, output: LogOutput): Log {
  return Object.assign(pino(options, output), { output });
}

/**
 * JSON logs on standard error, one line each. Lines are buffered and written asynchronously,
 * because one write per line costs more than all other logging. The rest is written at exit.
 * @param worker number of this process, in every line, where others write to standard error too; null: it is the only one
 */
export function openLog(level: string, worker: number | null = null): Log {
  const output =
    worker === null
      ? new BufferedOutput('{', BUFFER_BYTES)
      : new BufferedOutput(
          `{"worker":${worker},`,
          fstatSync(2).isFile() ? BUFFER_BYTES : PIPE_BYTES,
        );
  process.on('exit', () => output.flushSync());
  const base = worker === null ? null : { worker };
  return createLog({ level, base, timestamp: pino.stdTimeFunctions.isoTime }, output);
}

/**
 * Resolves once every line was written, however slow the reader is. Call before the process ends.
 * @param patienceMs the lines left are dropped once the reader took nothing for so long
 */
export async function flushLog({ output }: Log, patienceMs = PATIENCE_MS): Promise<void> {
  await output.flush?.(patienceMs);
}

/** @returns null when the level leaves out informational lines */
export function lineSink(log: Log): LineSink | null {
  if (!log.isLevelEnabled('info')) return null;
  const { output } = log;
  const { lineStart = '{' } = output;
  if (lineStart !== '{') return { write: (line) => void output.write(lineStart + line.slice(1)) };
  if (output instanceof BufferedOutput) return output;
  return { write: (line) => void output.write(line) };
}

/**
 * What a log line says of a fault of the gateway's own code: its kind and the places in the code. The message is left out
 * where it may quote what was read: V8 does so of JSON, and Node of arguments.
 */
export function faultFields(error: unknown): object {
  if (!(error instanceof Error)) return { type: typeof error };
  const { name, code, message, stack = '' } = error as NodeJS.ErrnoException;
  const stackLines = stack.split('\n').filter((line) => line.startsWith('    at '));
  const isOwn = code === undefined && !(error instanceof SyntaxError);
  return { type: name, code, ...(isOwn && { reason: message }), stack: stackLines.join('\n') };
}

/** What a log line says of something that was thrown. */
export function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  // a name with several addresses fails without a message
  return error.message || ((error as NodeJS.ErrnoException).code ?? error.name);
}

/**
 * Buffers lines for standard error and writes them as bytes. pino's own destination buffers text,
 * whose conversion to bytes costs 7 µs a line under load, and loses lines where a pipe is full.
 */
class BufferedOutput implements LogOutput, LineSink, ReservedLine {
  readonly lineStart: string;
  readonly buffer: Buffer;
  #length = 0;
  #timer: NodeJS.Timeout | null = null;
  /** Bytes to be written; the first of them are being written. */
  readonly #queue: Buffer[] = [];
  #queued = 0;
  #dropped = 0;
  #onEmpty: (() => void)[] = [];

  /** @param size bytes that are written at once */
  constructor(lineStart: string, size: number) {
    this.lineStart = lineStart;
    this.buffer = Buffer.allocUnsafeSlow(size);
  }

  write(line: string): void {
    const bytes = line.length * MOST_BYTES;
    const { length: size } = this.buffer;
    if (this.#length + bytes > size) this.#send();
    if (bytes > size) return this.#enqueue(Buffer.from(line));
    this.#timer ??= setTimeout(() => this.#send(), BUFFER_MS).unref();
    this.#length += this.buffer.write(line, this.#length);
  }

  get at(): number {
    return this.#length;
  }

  reserve(bytes: number): this | null {
    const { length: size } = this.buffer;
    if (this.#length + bytes > size) this.#send();
    return bytes > size ? null : this;
  }

  take(end: number): void {
    this.#timer ??= setTimeout(() => this.#send(), BUFFER_MS).unref();
    this.#length = end;
  }

  /** Resolves once everything is written, or standard error is closed or takes nothing any more. */
  async flush(patienceMs: number): Promise<void> {
    this.#send();
    const empty = new Promise<true>((resolve) => this.#onEmpty.push(() => resolve(true)));
    while (this.#queue.length > 0) {
      const before = this.#queued;
      if (await Promise.race([empty, sleep(patienceMs, false, { ref: false })])) return;
      if (this.#queued === before) this.#queue.length = 0;
    }
  }

  /** At exit: writes what is not being written yet. */
  flushSync(): void {
    const writing = this.#queue.length > 0 ? 1 : 0;
    if (this.#length > 0) this.#queue.push(this.buffer.subarray(0, this.#length));
    try {
      for (const bytes of this.#queue.slice(writing))
        for (let at = 0; at < bytes.length; ) at += writeSync(2, bytes, at);
    } catch {
      // a pipe that is full or closed: there is nobody left to tell
    }
  }

  #send(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    // a copy: the buffer is filled again while it is written
    if (this.#length > 0) this.#enqueue(Buffer.from(this.buffer.subarray(0, this.#length)));
    this.#length = 0;
  }

  #enqueue(bytes: Buffer): void {
    if (this.#queued > MAX_QUEUED) {
      this.#dropped += bytes.length;
      return;
    }
    if (this.#dropped > 0) {
      const head = `${this.lineStart}"level":40,"time":"${new Date().toISOString()}"`;
      const notice = Buffer.from(`${head},"msg":"${this.#dropped} bytes of log were dropped"}\n`);
      this.#dropped = 0;
      this.#enqueue(notice);
    }
    const idle = this.#queue.length === 0;
    this.#queue.push(bytes);
    this.#queued += bytes.length;
    if (idle) this.#writeNext();
  }

  #writeNext(): void {
    const [bytes] = this.#queue;
    if (bytes === undefined) {
      this.#queued = 0;
      for (const resolve of this.#onEmpty.splice(0)) resolve();
      return;
    }
    write(2, bytes, (error, written) => {
      if (error?.code === 'EAGAIN') return void setTimeout(() => this.#writeNext(), RETRY_MS);
      if (error)
        this.#queue.length = 0; // standard error is closed
      else if (written < bytes.length) this.#queue[0] = bytes.subarray(written);
      else this.#queue.shift();
      this.#queued -= written ?? 0;
      this.#writeNext();
    });
  }
}
