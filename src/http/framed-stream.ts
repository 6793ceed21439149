import type { ServerResponse } from 'node:http';
import { BufferPool } from '../runtime/buffer-pool.ts';
import type { ResponseListener, ResponseStream } from './exchange.ts';

/** One read of the upstream's socket yields 16 KiB; with the frame around them they nearly always fit. */
const BUFFER_BYTES = 20_480;
/** Room for a chunk's head (seven hex digits, CR LF), and for CR LF and the last chunk behind its data. */
const HEAD = 9;
const TAIL = 7;
const NOTHING = Buffer.alloc(0);
const HEX = '0123456789abcdef';
const CR = 0x0d;
const LF = 0x0a;
const LAST_CHUNK = Buffer.from('0\r\n\r\n');

/** A response of Node's and its listener. */
export interface StreamedResponse extends ServerResponse {
  readonly listener: ResponseListener | null;
}

/**
 * The body of a streamed answer, framed as an HTTP chunk in the buffer it gathers in and written
 * straight to the socket: one buffer and one write, where Node makes four and a writev.
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
  /** The client reads HTTP/1.1: the body is sent in chunks. */
  #framed = true;
  /** Bytes wait for the client, and `onDrain` is going to be called. */
  #waits = false;

  constructor(res: StreamedResponse, headers: readonly string[], pool: BufferPool, onDrain: () => void) {
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
      const length = Math.min(end - start, BUFFER_BYTES - TAIL - to);
      this.#to = to + length;
      bytes.copy(this.#buffer, to, start, start + length);
      start += length;
      if (start === end) return flows;
      flows = this.flush() && flows;
    }
  }

  flush(): boolean {
    if (this.isEmpty) return true;
    const res = this.#res;
    const begins = !res.headersSent;
    if (begins) this.#begin();
    const { socket } = res;
    const bytes = this.#gathered(false);
    let flows: boolean;
    if (socket === null) {
      flows = res.write(bytes); // the answer before this one is still being sent on the same connection
      if (!flows && !this.#waits) res.once('drain', this.#onDrain);
    } else {
      if (begins) {
        socket.cork();
        res.flushHeaders();
      }
      const drains = !socket.write(bytes); // 'drain' follows
      if (begins) socket.uncork();
      // not the stream's own limit: any bytes the system did not take hold on to a pooled buffer
      flows = socket.writableLength === 0;
      if (!flows && !this.#waits) {
        if (drains) socket.once('drain', this.#onDrain);
        else socket.write(NOTHING, this.#onDrain); // called once what waits before it is out
      }
    }
    if (!flows) this.#waits = true; // one listener, however much is added before it is called
    this.#release();
    return flows;
  }

  end(): void {
    if (!this.#res.headersSent) this.#begin();
    this.#res.end(this.#framed && this.isEmpty ? LAST_CHUNK : this.#gathered(true));
    this.#res.listener?.onSent();
    this.#release();
  }

  drop(): void {
    if (this.#buffer !== null) this.#pool.give(this.#buffer);
    this.#buffer = null;
    this.#to = HEAD;
  }

  /** Sends the head, and takes over the framing of the body from Node. */
  #begin(): void {
    const res = this.#res;
    res.listener?.onStream();
    res.writeHead(200, this.#headers as string[]);
    this.#framed = res.chunkedEncoding; // not for HTTP/1.0
    res.chunkedEncoding = false;
  }

  /** Reuses the buffer if the system has taken all of it; else it goes with the bytes that wait. */
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

/** The buffers that the streams of one server gather in. */
export function streamBuffers(): BufferPool {
  return new BufferPool(BUFFER_BYTES);
}
