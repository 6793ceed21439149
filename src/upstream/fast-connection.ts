import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { buildConnector } from 'undici';
import type { RequestWriter, RestOfRequest, Sender } from './request-writer.ts';
import { ResponseReader } from './response-reader.ts';
import { CLOSING_MS, IDLE_MS, type UpstreamCall, type UpstreamHandler, type UpstreamRequest } from './upstream.ts';

/** The most that one read yields. It adds to what waits for a slow client, whose stream may keep 64 KiB in all. */
const READ_BYTES = 16_384;
const CONNECTION = Symbol('connection');

type UpstreamSocket = Socket & { [CONNECTION]?: FastConnection };

/** What a connection needs of its pool. */
export interface ConnectionPool {
  readonly writer: RequestWriter;
  /** The connection is free for another request. */
  onFree(connection: FastConnection): void;
  onGone(connection: FastConnection): void;
}

/**
 * One connection to the upstream, and the one request on it. undici's client takes 13 µs more of a request's 74, for
 * features that are not needed here (pipelining, any method and body, timers), and allocates a buffer for every read.
 */
export class FastConnection implements Sender, UpstreamCall {
  /** The instant until which a free connection may be used again; monotonic milliseconds. */
  freeUntil = 0;
  readonly #pool: ConnectionPool;
  readonly #reader = new ResponseReader();
  #socket: Socket | null = null;
  #gone = false;
  /** The request that waits for the connection, or for its turn to be written. */
  #request: UpstreamRequest | null = null;
  /** The head of that request, without content-length and empty line. */
  #head = '';
  /** Gets the answer that is awaited or read. */
  #handler: UpstreamHandler | null = null;
  /** What is left to be sent of a large request. */
  #rest: RestOfRequest | null = null;
  #paused = false;

  constructor(pool: ConnectionPool, connect: buildConnector.connector, where: buildConnector.Options) {
    this.#pool = pool;
    connect(where, (...[error, socket]) => {
      if (error !== null) this.close(error);
      else this.#connected(socket);
    });
  }

  /** Sends a request with this head. The connection has to be free, or new. */
  send(request: UpstreamRequest, head: string): void {
    this.#request = request;
    this.#head = head;
    if (this.#socket !== null) this.#pool.writer.enter(this);
  }

  onTurn(): void {
    const request = this.#request;
    this.#request = null;
    if (request === null) return; // the connection was closed meanwhile
    if (!request.handler.onConnected(this)) return this.#free(IDLE_MS);
    this.#handler = request.handler;
    this.#rest = this.#pool.writer.write(this.#socket as Socket, this.#head, request.body, request.onSent);
  }

  pause(handler: UpstreamHandler): void {
    if (handler !== this.#handler) return;
    this.#paused = true;
    this.#socket?.pause();
  }

  resume(handler: UpstreamHandler): void {
    if (handler !== this.#handler || !this.#paused) return;
    this.#paused = false;
    this.#socket?.resume();
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
    const handler = this.#handler ?? this.#request?.handler;
    this.#handler = null;
    this.#request = null;
    this.#socket?.destroy();
    this.#pool.onGone(this);
    try {
      handler?.onError(reason);
    } catch (error) {
      handler?.onThrown(error);
    }
  }

  /** Takes the bytes [0, end) of the buffer that all connections share. */
  read(buffer: Buffer, end: number): void {
    const handler = this.#handler;
    try {
      this.#read(handler, buffer, end);
    } catch (error) {
      this.#threw(handler, error);
    }
  }

  #read(handler: UpstreamHandler | null, buffer: Buffer, end: number): void {
    if (handler === null) return this.close(new Error('bytes before any request'));
    const reader = this.#reader;
    const hadHead = reader.hasHead;
    reader.read(buffer, 0, end);
    const { state } = reader;
    if (!hadHead && reader.hasHead) handler.onHead(reader);
    if (reader.bodyEnd > reader.bodyStart && handler === this.#handler) {
      handler.onData(buffer.subarray(reader.bodyStart, reader.bodyEnd), state === 'done');
    }
    if (state === 'open' || handler !== this.#handler) return;
    if (state === 'broken') return this.close(new Error(`malformed answer: ${reader.reason}`));
    this.#done(handler);
  }

  #connected(socket: Socket): void {
    if (this.#gone) {
      socket.destroy();
      return;
    }
    this.#socket = socket;
    (socket as UpstreamSocket)[CONNECTION] = this;
    socket.on('error', (error) => this.close(error));
    socket.on('end', () => this.#ended());
    socket.on('close', () => this.close(new Error('the connection closed')));
    if (this.#request !== null) this.#pool.writer.enter(this);
  }

  /** The answer is whole. The connection is freed before the handler is told, which may send another request at once. */
  #done(handler: UpstreamHandler): void {
    const reader = this.#reader;
    const socket = this.#socket as Socket;
    this.#handler = null;
    // an answer without a body may be followed by another for the same request; and an answer that came before the
    // whole request was sent leaves a rest of the request, which the upstream would take for another request
    if (!reader.reusable || !reader.hasBody || socket.writableLength > 0 || this.#rest?.isSent === false) {
      this.close();
      return handler.onEnd();
    }
    if (this.#paused) socket.resume();
    this.#paused = false;
    this.#free(Math.min(IDLE_MS, reader.keepAliveSeconds * 1000 - CLOSING_MS));
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
    reader.close();
    if (handler === null || reader.state !== 'done') return this.close(new Error(reader.reason));
    try {
      this.#done(handler);
    } catch (error) {
      this.#threw(handler, error);
    }
  }

  /** The handler of an answer threw, perhaps when the connection was free again already. */
  #threw(handler: UpstreamHandler | null, error: unknown): void {
    if (this.#handler === handler) this.#handler = null;
    if (this.#handler === null) this.close();
    handler?.onThrown(error);
  }
}

/**
 * The `onread` option of `net.connect` and `tls.connect`: all connections read into one buffer. Otherwise Node
 * allocates 64 KiB for each read and shrinks it afterwards.
 */
export function sharedReads() {
  return {
    buffer: Buffer.allocUnsafeSlow(READ_BYTES),
    callback(this: UpstreamSocket, bytes: number, buffer: Buffer): boolean {
      this[CONNECTION]?.read(buffer, bytes);
      return true;
    },
  };
}
