import type { ServerResponse } from 'node:http';
import { performance } from 'node:perf_hooks';
import type { Reply } from './reply.ts';

/** Holds nearly everything one read of the upstream's socket yields (16 KiB), framed. */
const SLAB_BYTES = 20_480;
/** Unused slabs kept: a stream that ends keeps its own until it is booked, as may others of the same turn. */
const MOST_FREE = 32;

/**
 * The buffers that streams gather in, lent to one stream at a time. A buffer per write would
 * be garbage outside V8's heap, which it collects by marking the whole heap: at full
 * throughput ten times a second, for a third of the CPU.
 */
export class Slabs {
  readonly #free: Buffer[] = [];

  take(): Buffer {
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(SLAB_BYTES);
  }

  /** Nothing uses the slab any more. */
  give(slab: Buffer): void {
    if (this.#free.length < MOST_FREE) this.#free.push(slab);
  }
}

/**
 * The client's side of one stream. What is added gathers in a slab, and leaves in one write
 * with the next flush. The HTTP chunk is framed in the slab itself and written straight to
 * the socket, with Node's own framing switched off: one buffer and one write instead of four
 * and a writev.
 *
 *   slab: 000012c CR LF | data: {…}⏎⏎ … | CR LF [0 CR LF CR LF] | free…
 *                         ^ HEAD          ^ to
 */
export class Outflow {
  readonly #reply: Reply;
  readonly #res: ServerResponse;
  readonly #slabs: Slabs;
  #slab: Buffer | null = null;
  #to = HEAD;
  /** The client reads HTTP/1.1: chunks are framed. */
  #framed = true;
  readonly #onDrain: () => void;
  /** Bytes wait for the client, and `onDrain` is going to be told. */
  #waits = false;

  /** @param onDrain told when the client has caught up after `flush` or `add` returned false */
  constructor(reply: Reply, slabs: Slabs, onDrain: () => void) {
    this.#reply = reply;
    this.#res = reply.res;
    this.#slabs = slabs;
    this.#onDrain = () => {
      this.#waits = false;
      onDrain();
    };
  }

  get isEmpty(): boolean {
    return this.#to === HEAD;
  }

  /**
   * Takes a copy of [start, end). What does not fit any more makes room for itself.
   * @returns false when the client has to catch up
   */
  add(buffer: Buffer, start: number, end: number): boolean {
    let flowing = true;
    for (;;) {
      this.#slab ??= this.#slabs.take();
      const to = this.#to;
      const length = Math.min(end - start, SLAB_BYTES - TAIL - to);
      this.#to = to + length;
      buffer.copy(this.#slab, to, start, start + length);
      start += length;
      if (start === end) return flowing;
      flowing = this.flush() && flowing;
    }
  }

  /**
   * Sends what gathered.
   * @returns false when the client has to catch up
   */
  flush(): boolean {
    if (this.isEmpty) return true;
    const res = this.#res;
    const begins = !res.headersSent;
    if (begins) this.#framed = this.#reply.stream();
    const { socket } = res;
    const bytes = this.#gathered(false);
    let flowing: boolean;
    if (socket === null) {
      flowing = res.write(bytes); // it waits for the answer before it on the same connection
      if (!flowing && !this.#waits) res.once('drain', this.#onDrain);
    } else {
      if (begins) {
        socket.cork();
        res.flushHeaders();
      }
      const told = !socket.write(bytes); // by 'drain'
      if (begins) socket.uncork();
      // the stream's own limit is no matter: whatever the system did not take pins a slab
      flowing = socket.writableLength === 0;
      if (!flowing && !this.#waits) {
        if (told) socket.once('drain', this.#onDrain);
        else socket.write(NOTHING, this.#onDrain); // comes behind
      }
    }
    if (!flowing) this.#waits = true; // one listener, however much is added before it is told
    this.#letGo();
    return flowing;
  }

  /** Sends what gathered, and the end of the answer. */
  end(): void {
    if (!this.#res.headersSent) this.#framed = this.#reply.stream();
    this.#res.end(this.#framed && this.isEmpty ? LAST_CHUNK : this.#gathered(true));
    this.#reply.leftAt = performance.now();
    this.#letGo();
  }

  /** Forgets what gathered. */
  drop(): void {
    if (this.#slab !== null) this.#slabs.give(this.#slab);
    this.#slab = null;
    this.#to = HEAD;
  }

  /** The slab serves again if the system has taken everything; else it goes with the bytes that wait. */
  #letGo(): void {
    if (this.#res.writableLength > 0) this.#slab = null;
    this.drop();
  }

  #gathered(last: boolean): Buffer {
    const slab = this.#slab;
    const to = this.#to;
    if (slab === null) return NOTHING;
    if (!this.#framed) return slab.subarray(HEAD, to);
    for (let digit = HEAD - 3, rest = to - HEAD; digit >= 0; digit--, rest >>>= 4) {
      slab[digit] = HEX.charCodeAt(rest & 15);
    }
    slab[HEAD - 2] = slab[to] = CR;
    slab[HEAD - 1] = slab[to + 1] = LF;
    let end = to + 2;
    if (last) end += LAST_CHUNK.copy(slab, end);
    return slab.subarray(0, end);
  }
}

/** Room for a chunk's head (seven hex digits, CR LF) and for all that may follow its data. */
const HEAD = 9;
const TAIL = 7;
const NOTHING = Buffer.alloc(0);
const HEX = '0123456789abcdef';
const CR = 0x0d;
const LF = 0x0a;
const LAST_CHUNK = Buffer.from('0\r\n\r\n');
