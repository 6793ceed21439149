import type { Socket } from 'node:net';
import { CR, LF } from '../json/bytes.ts';
import { BufferPool } from '../runtime/buffer-pool.ts';
import type { ResponseListener, ResponseStream } from './exchange.ts';

/** Nearly always holds what one read of the upstream's socket yields, 16 KiB, with the frame around it. */
export const STREAM_BUFFER = 20_480;
/** The same where a read yields more, up to 64 KiB, or one event does. */
const LARGE_STREAM_BUFFER = 69_632;
/** Room for a chunk's head (seven hex digits, CR LF), and for CR LF and the last chunk behind its data. */
const HEAD = 9;
const TAIL = 7;
const NOTHING = Buffer.alloc(0);
const HEX = '0123456789abcdef';
const LAST_CHUNK = Buffer.from('0\r\n\r\n');

/** The response whose body a stream writes. */
export interface StreamedResponse {
  readonly listener: ResponseListener | null;
  readonly headersSent: boolean;
  /** null: the answer before this one is still being sent on the same connection. */
  readonly socket: Socket | null;
  /** Bytes of this answer that wait for the client. */
  readonly writableLength: number;
  /** Writes the head. @returns whether the body is to be sent in chunks: not for HTTP/1.0 */
  beginStream(headers: readonly string[]): boolean;
  /** Sends bytes while there is no socket. @returns false when bytes wait; then calls `onDrain`, if given */
  queue(bytes: Buffer, onDrain: (() => void) | null): boolean;
  /** Sends the last bytes. */
  endStream(bytes: Buffer): void;
}

/**
 * The body of a streamed answer. Bytes gather in a buffer, are framed there as an HTTP chunk and go straight to the
 * socket: one buffer and one write, where Node makes four buffers and a writev.
 *
 *   buffer: 000012c CR LF | data: {…}⏎⏎ … | CR LF [0 CR LF CR LF] | free…
 *                          ^ HEAD          ^ #to
 */
export class FramedStream implements ResponseStream {
  readonly #res: StreamedResponse;
  readonly #headers: readonly string[];
  readonly #pool: BufferPool;
  readonly #onDrain: () => void;
  #buffer: Buffer | null = null;
  #to = HEAD;
  /** Whether the body is sent in chunks: the client reads HTTP/1.1. */
  #framed = true;
  /** Whether bytes wait for the client, and `onDrain` will be called. */
  #waits = false;

  constructor(
    res: StreamedResponse,
    headers: readonly string[],
    pool: BufferPool,
    onDrain: () => void,
  ) {
    this.#res = res;
    this.#headers = headers;
    this.#pool = pool;
    this.#onDrain = () => {
      this.#waits = false;
      onDrain();
    };
  }

  get isEmpty(): boolean {
    return this.#to === HEAD;
  }

  add(bytes: Buffer, start: number, end: number): boolean {
    let flows = true;
    for (;;) {
      this.#buffer ??= this.#pool.take();
      const to = this.#to;
      const length = Math.min(end - start, this.#buffer.length - TAIL - to);
      this.#to = to + length;
      bytes.copy(this.#buffer, to, start, start + length);
      start += length;
      if (start === end) return flows;
      // what a small read brought stays in small buffers: they are what slow clients may keep
      const isMore = bytes.length > STREAM_BUFFER && this.#grow(this.#buffer);
      if (!isMore) flows = this.flush() && flows;
    }
  }

  /** Goes on in a large buffer. @returns false if this is one */
  #grow(full: Buffer): boolean {
    if (full.length > STREAM_BUFFER) return false;
    this.#buffer = this.#pool.take(true);
    full.copy(this.#buffer, HEAD, HEAD, this.#to);
    this.#pool.give(full);
    return true;
  }

  flush(): boolean {
    if (this.isEmpty) return true;
    const res = this.#res;
    const { socket } = res;
    const begins = this.#begin(socket);
    const bytes = this.#gathered(false);
    let flows: boolean;
    if (socket === null) flows = res.queue(bytes, this.#waits ? null : this.#onDrain);
    else {
      const drains = !socket.write(bytes); // 'drain' follows
      if (begins) socket.uncork();
      // stricter than the stream's own limit: any bytes that the system did not take keep a pooled buffer
      flows = socket.writableLength === 0;
      if (!flows && !this.#waits) {
        if (drains) socket.once('drain', this.#onDrain);
        else socket.write(NOTHING, this.#onDrain); // called when the bytes before it are out
      }
    }
    if (!flows) this.#waits = true; // one listener, however much is added before it is called
    this.#release();
    return flows;
  }

  end(): void {
    const res = this.#res;
    const { socket } = res;
    const begins = this.#begin(socket);
    res.endStream(this.#framed && this.isEmpty ? LAST_CHUNK : this.#gathered(true));
    if (begins) socket?.uncork();
    this.#release();
  }

  drop(): void {
    if (this.#buffer !== null) this.#pool.give(this.#buffer);
    this.#buffer = null;
    this.#to = HEAD;
  }

  /** Writes the head before the first bytes. @returns whether it did: the socket is corked then */
  #begin(socket: Socket | null): boolean {
    if (this.#res.headersSent) return false;
    socket?.cork();
    this.#res.listener?.onStream();
    this.#framed = this.#res.beginStream(this.#headers);
    return true;
  }

  /** Gives the buffer back if the system has taken all of it; otherwise the waiting bytes keep it. */
  #release(): void {
    if (this.#res.writableLength > 0) this.#buffer = null;
    this.drop();
  }

  #gathered(last: boolean): Buffer {
    const buffer = this.#buffer;
    const to = this.#to;
    if (buffer === null) return NOTHING;
    if (!this.#framed) return buffer.subarray(HEAD, to);
    for (let digit = HEAD - 3, rest = to - HEAD; digit >= 0; digit--, rest >>>= 4) {
      buffer[digit] = HEX.charCodeAt(rest & 15);
    }
    buffer[HEAD - 2] = buffer[to] = CR;
    buffer[HEAD - 1] = buffer[to + 1] = LF;
    let end = to + 2;
    if (last) end += LAST_CHUNK.copy(buffer, end);
    return buffer.subarray(0, end);
  }
}

/** The buffers that the streams of one server gather in, and in which small answers are put together. */
export function streamBuffers(): BufferPool {
  return new BufferPool(STREAM_BUFFER, LARGE_STREAM_BUFFER);
}
