import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { buildConnector } from 'undici';
import type { Lines, Peer } from './address.ts';
import type { RequestWriter, RestOfRequest, Sender } from './request-writer.ts';
import { ResponseReader } from './response-reader.ts';
import {
  CLOSING_MS,
  PROBE,
  probeDelay,
  Stopped,
  type UpstreamCall,
  type UpstreamHandler,
  type UpstreamRequest,
  wasRefused,
} from './upstream.ts';

/**
 * The most bytes of one read. They add to the bytes that wait for a slow client, whose stream may keep 64 KiB in all;
 * one of MOST_LARGE may keep 48 KiB more.
 */
const READ_BYTES = 16_384;
/** The same of a call whose last read was full: the 53 KiB of a burst are then two reads and two writes, not four. */
const LARGE_READ_BYTES = 65_536;
/** At most so many calls are read like that. */
const MOST_LARGE = 256;
const CONNECTION = Symbol('connection');

type UpstreamSocket = Socket & { [CONNECTION]?: FastConnection };

/** The connections to one peer. The free ones are a stack. */
export class FastLines implements Lines {
  readonly where: buildConnector.Options;
  readonly all = new Set<FastConnection>();
  readonly free: FastConnection[] = [];
  isRetired = false;

  constructor(where: buildConnector.Options) {
    this.where = where;
  }

  get busy(): number {
    return this.all.size - this.free.length;
  }

  retire(): void {
    this.isRetired = true;
    for (const connection of [...this.free]) connection.close();
  }
}

/** The parts of the pool that a connection needs. */
export interface ConnectionPool {
  readonly writer: RequestWriter;
  /** How long a free connection may be used again, in milliseconds. */
  readonly idleMs: number;
  /** The calls of which LARGE_READ_BYTES are read at once, or whose clients wait for so much. */
  readonly large: Set<UpstreamHandler>;
  /** Sends a request on a fresh connection. */
  sendAgain(request: UpstreamRequest): void;
  /** The connection is free for another request. */
  onFree(connection: FastConnection): void;
  onGone(connection: FastConnection): void;
  /** What became of a request to this peer: `Addresses.judge`. */
  judge(peer: Peer<FastLines>, status: number, isOptional?: boolean): void;
}

/**
 * One connection to the upstream, and the one request on it. undici's client takes 13 µs more of a request's 74, for
 * features that are not needed here (pipelining, any method and body, timers), and allocates a buffer for every read.
 */
export class FastConnection implements Sender, UpstreamCall {
  /** The instant until which a free connection may be used again; monotonic milliseconds. */
  freeUntil = 0;
  readonly peer: Peer<FastLines>;
  readonly #pool: ConnectionPool;
  readonly #reader = new ResponseReader();
  #socket: Socket | null = null;
  #gone = false;
  /** The request that waits for its turn to be written. */
  #request: UpstreamRequest | null = null;
  /** The head of that request, without content-length and empty line. */
  #head = '';
  /** Gets the answer that is awaited or read. */
  #handler: UpstreamHandler | null = null;
  /** An answer came over this connection before. */
  #reused = false;
  /** No byte of an answer has come yet to a request on a connection that is used again. */
  #unheard = false;
  /** The request was not judged yet. */
  #isUnjudged = false;
  /** That request, unless the memory of its body may be used for another. */
  #sent: UpstreamRequest | null = null;
  readonly #openedAt = performance.now();
  #connectMs = 0;
  /** The rest of a large request, which is still to be sent. */
  #rest: RestOfRequest | null = null;
  #paused = false;
  /** The client of the present answer has fallen behind. */
  #fellBehind = false;

  /** @param onOpened called once: with null when a request may be sent, or with the reason why none can. Not after `close` */
  constructor(
    pool: ConnectionPool,
    peer: Peer<FastLines>,
    connect: buildConnector.connector,
    onOpened: (error: Error | null) => void,
  ) {
    this.#pool = pool;
    this.peer = peer;
    connect(peer.lines.where, (...[error, socket]) => {
      if (this.#gone) return void socket?.destroy();
      if (error !== null) this.close(error);
      else this.#connected(socket);
      onOpened(error);
    });
  }

  /** Sends a request with this head. The connection has to be open and free. */
  send(request: UpstreamRequest, head: string): void {
    this.#request = request;
    this.#head = head;
    this.#pool.writer.enter(this);
  }

  /** Nothing is sent now: the connection is free for another request. */
  release(): void {
    this.#free(this.#pool.idleMs);
  }

  onTurn(): void {
    const request = this.#request;
    this.#request = null;
    if (request === null) return; // the connection was closed meanwhile
    try {
      this.#begin(request);
    } catch (error) {
      this.onThrown(error, request.handler);
    }
  }

  #begin(request: UpstreamRequest): void {
    if (!request.handler.onConnected(this)) return this.release();
    this.#handler = request.handler;
    this.#isUnjudged = true;
    if (this.#reused) {
      this.#unheard = true;
      this.#sent = request.onSent === null ? request : null;
    }
    this.#rest = this.#pool.writer.write(
      this.#socket as Socket,
      this.#head,
      request.body,
      request.onSent,
      this,
    );
  }

  pause(handler: UpstreamHandler): void {
    if (handler !== this.#handler) return;
    this.#paused = true;
    this.#fellBehind = true;
    this.#socket?.pause();
  }

  resume(handler: UpstreamHandler): void {
    this.#pool.large.delete(handler); // its client has all that came; the next reads are small ones
    if (handler !== this.#handler || !this.#paused) return;
    this.#paused = false;
    this.#socket?.resume();
  }

  leave(handler: UpstreamHandler): void {
    this.#pool.large.delete(handler);
    if (handler === this.#handler) this.#fellBehind = true; // what is still read is for nobody
  }

  abort(handler: UpstreamHandler): void {
    if (handler !== this.#handler) return;
    this.#handler = null;
    this.close();
  }

  /** Closes the connection; the handler that waits for an answer gets the reason. */
  close(reason = new Error('closed')): void {
    if (this.#gone) return;
    this.#gone = true;
    const waiting = this.#handler;
    const unsent = this.#request;
    const handler = waiting ?? unsent?.handler;
    const isStale = waiting !== null && this.#unheard && wasRefused(reason);
    this.#handler = null;
    this.#request = null;
    this.#socket?.destroy();
    this.#pool.onGone(this);
    // a connection that was used before may close without a fault, and one that the gateway gave up has no handler
    const isStrike =
      waiting === null ? handler !== undefined && !this.#reused : this.#isUnjudged && !isStale;
    if (isStrike) this.#pool.judge(this.peer, 0);
    try {
      if (isStale) this.#sendAgain(waiting, reason);
      else if (unsent !== null && this.#reused && !(reason instanceof Stopped))
        this.#pool.sendAgain(unsent);
      else handler?.onError(reason);
    } catch (error) {
      handler?.onThrown(error);
    }
  }

  /** The other side closed the connection before it had the request: it did not run, and is sent again. */
  #sendAgain(handler: UpstreamHandler, reason: Error): void {
    const request = this.#sent;
    if (!handler.onStale()) return;
    if (request === null) handler.onError(reason);
    else this.#pool.sendAgain(request);
  }

  /** Takes the bytes [0, end) of the buffer that all connections share. */
  read(buffer: Buffer, end: number): void {
    const handler = this.#handler;
    try {
      this.#read(handler, buffer, end);
    } catch (error) {
      this.onThrown(error, handler);
    }
  }

  /** Whether the next read may be a large one. @param isFull whether the last one filled its buffer */
  readsLarge(isFull: boolean): boolean {
    const handler = this.#handler;
    if (handler === null || this.#fellBehind) return false;
    const { large } = this.#pool;
    if (isFull && large.size < MOST_LARGE) large.add(handler);
    return large.has(handler);
  }

  #read(handler: UpstreamHandler | null, buffer: Buffer, end: number): void {
    if (handler === null) return this.close(new Error('bytes before any request'));
    const reader = this.#reader;
    this.#unheard = false;
    this.#sent = null;
    this.peer.heard = true;
    const hadHead = reader.hasHead;
    reader.read(buffer, 0, end);
    const { state } = reader;
    if (this.#isUnjudged && (state === 'done' || reader.bodyEnd > reader.bodyStart)) {
      this.#isUnjudged = false;
      this.#pool.judge(this.peer, reader.status, handler.isOptional);
    }
    if (!hadHead && reader.hasHead) handler.onHead(reader);
    if (reader.bodyEnd > reader.bodyStart && handler === this.#handler) {
      handler.onData(buffer.subarray(reader.bodyStart, reader.bodyEnd), state === 'done');
    }
    if (state === 'open' || handler !== this.#handler) return;
    if (state === 'broken') return this.close(new Error(`malformed answer: ${reader.reason}`));
    this.#done(handler);
  }

  #connected(socket: Socket): void {
    this.#socket = socket;
    this.#connectMs = performance.now() - this.#openedAt;
    (socket as UpstreamSocket)[CONNECTION] = this;
    socket.on('error', (error) => this.#guarded(() => this.close(error)));
    socket.on('end', () => this.#guarded(() => this.#ended()));
    socket.on('close', () => this.#guarded(() => this.close(new Error('the connection closed'))));
  }

  /** The answer is whole. The connection is freed before the handler is told, which may send another request at once. */
  #done(handler: UpstreamHandler): void {
    const reader = this.#reader;
    const socket = this.#socket as Socket;
    this.#handler = null;
    if (reader.reusable) this.#rest?.hurry();
    // an answer without a body may be followed by another for the same request; and an answer that came before the
    // whole request was sent leaves a rest of the request, which the upstream would take for another request
    if (
      !reader.reusable ||
      !reader.hasBody ||
      socket.writableLength > 0 ||
      this.#rest?.isSent === false
    ) {
      this.close();
      return handler.onEnd();
    }
    if (this.#paused) socket.resume();
    this.#paused = false;
    this.#fellBehind = false;
    this.#reused = true;
    this.#free(Math.min(this.#pool.idleMs, reader.keepAliveSeconds * 1000 - CLOSING_MS));
    reader.reset();
    handler.onEnd();
  }

  #free(ms: number): void {
    this.freeUntil = performance.now() + ms;
    this.#pool.onFree(this);
  }

  /** The upstream closed its side of the connection. */
  #ended(): void {
    const handler = this.#handler;
    const reader = this.#reader;
    if (handler !== null && this.#unheard) return this.#probe();
    reader.close();
    if (handler === null || reader.state !== 'done') return this.close(new Error(reader.reason));
    this.#done(handler);
  }

  /**
   * Asks whether the other side had closed the connection before it read the request. If so, its system has refused
   * the request, and refuses to take more; if it read the request and died, it has refused nothing, and takes more.
   */
  #probe(): void {
    const socket = this.#socket as Socket;
    const probe = (): void => {
      if (this.#gone) return;
      socket.write(PROBE, (error) =>
        this.#guarded(() =>
          this.close(error ?? new Error('the connection closed before an answer')),
        ),
      );
    };
    setTimeout(() => this.#guarded(probe), probeDelay(this.#connectMs));
  }

  /** Does what an event of the socket begins. What it throws ends the connection and its call. */
  #guarded(part: () => void): void {
    const handler = this.#handler ?? this.#request?.handler ?? null;
    try {
      part();
    } catch (error) {
      this.onThrown(error, handler);
    }
  }

  /** A part of its work threw, perhaps when the connection was free again already. @param handler whose call it was for */
  onThrown(error: unknown, handler = this.#handler): void {
    if (this.#handler === handler) this.#handler = null;
    try {
      if (this.#handler === null) this.close();
    } finally {
      handler?.onThrown(error);
    }
  }
}

/**
 * The `onread` option of `net.connect` and `tls.connect`: all connections read into one buffer, or into its beginning.
 * Otherwise Node allocates 64 KiB for each read and shrinks it afterwards.
 */
export function sharedReads() {
  const large = Buffer.allocUnsafeSlow(LARGE_READ_BYTES);
  const small = large.subarray(0, READ_BYTES);
  /** What follows the read that ends; undefined: another like it. */
  let next: Buffer | undefined = small;
  return {
    /** Called first, and after each read. */
    buffer(): Buffer | undefined {
      const buffer = next;
      next = small; // of a new connection
      return buffer;
    },
    callback(this: UpstreamSocket, bytes: number, buffer: Buffer): boolean {
      const connection = this[CONNECTION];
      connection?.read(buffer, bytes);
      const wanted = connection?.readsLarge(bytes === buffer.length) ? large : small;
      next = wanted === buffer ? undefined : wanted;
      return true;
    },
  };
}
