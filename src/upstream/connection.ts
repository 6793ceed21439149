import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import type { buildConnector } from 'undici';
import type { Desk, Remainder, Sender } from './request-writer.ts';
import { ResponseReader } from './response-reader.ts';

/** Whoever handles an answer. One of `onEnd` and `onError` is told last, unless it gave up by itself. */
export interface UpstreamHandler {
  /**
   * The connection stands, and the request is about to go out: until now nothing ran.
   * @param lane for `pause`, `resume` and `abort`
   * @returns false when nobody waits for the answer any more: then nothing is sent, and nothing told
   */
  onConnected(lane: Lane): boolean;
  /** The head of the answer; interim ones (1xx) are not told. */
  onHead(head: AnswerHead): void;
  /**
   * What one read brought of the body. The bytes are valid during the call only.
   * @param last they are the end of it: `onEnd` follows at once, and they are valid until it returns
   */
  onData(bytes: Buffer, last: boolean): void;
  onEnd(): void;
  /** The connection could not be opened, or broke, or what came was no answer; or `Stopped`. */
  onError(error: Error): void;
}

/** Valid during the call only. */
export type AnswerHead = Readonly<Pick<ResponseReader, 'status' | 'contentType' | 'contentEncoding' | 'retryAfter'>>;

/** The gateway itself stops. */
export class Stopped extends Error {}

/** What a lane asks of the pool it belongs to. */
export interface LaneHome {
  readonly desk: Desk;
  /** The lane is free for another request. */
  onFree(lane: Lane): void;
  /** The lane is gone. */
  onGone(lane: Lane): void;
}

/** A request on its way out. */
interface Request {
  readonly handler: UpstreamHandler;
  readonly head: string;
  readonly body: readonly Buffer[];
  readonly onOut: (() => void) | null;
}

/** No connection is kept unused for longer. */
const IDLE_MS = 30_000;
/** A request that goes out when the other side is about to close is lost: so much earlier we do. */
const CLOSING_MS = 1000;

/**
 * One connection to the upstream, and the one request on it. Written by hand: undici's client
 * took 13 µs more of a whole request's 74, for what is not needed here (pipelining, any
 * method, any body, timers), and made a buffer of every chunk it read.
 */
export class Lane implements Sender {
  /** Until when it may be used again, if it is free; monotonic milliseconds. */
  freeUntil = 0;
  readonly #home: LaneHome;
  readonly #reader = new ResponseReader();
  #socket: Socket | null = null;
  #gone = false;
  /** Waits for the connection, or for its turn. */
  #request: Request | null = null;
  /** Whose answer is awaited, or being read. */
  #handler: UpstreamHandler | null = null;
  /** What is left of a large request. */
  #remainder: Remainder | null = null;
  #held = false;

  constructor(home: LaneHome, connect: buildConnector.connector, where: buildConnector.Options) {
    this.#home = home;
    connect(where, (...[error, socket]) => {
      if (error !== null) this.close(error);
      else this.#connected(socket);
    });
  }

  /**
   * Sends a request. The lane has to be free, or new.
   * @param onOut told when the system has taken all of it, if ever
   */
  send(handler: UpstreamHandler, head: string, body: readonly Buffer[], onOut: (() => void) | null): void {
    if (this.#socket !== null) {
      if (!handler.onConnected(this)) return this.#free(IDLE_MS);
      this.#handler = handler;
    }
    this.#request = { handler, head, body, onOut };
    if (this.#socket !== null) this.#home.desk.enter(this);
  }

  onTurn(): void {
    const request = this.#request;
    this.#request = null;
    // none when the connection was closed meanwhile
    if (request === null) return;
    const { head, body, onOut } = request;
    this.#remainder = this.#home.desk.write(this.#socket as Socket, head, body, onOut);
  }

  /** Reads nothing more, from this very moment. */
  pause(handler: UpstreamHandler): void {
    if (handler !== this.#handler) return;
    this.#held = true;
    this.#socket?.pause();
  }

  resume(handler: UpstreamHandler): void {
    if (handler !== this.#handler || !this.#held) return;
    this.#held = false;
    this.#socket?.resume();
  }

  /** Closes the connection if it is still this handler's; it is told nothing more. */
  abort(handler: UpstreamHandler): void {
    if (handler !== this.#handler) return;
    this.#handler = null;
    this.#request = null;
    this.close();
  }

  /** Closes the connection; whoever waits for an answer is told why. */
  close(reason = new Error('closed')): void {
    if (this.#gone) return;
    this.#gone = true;
    const handler = this.#handler ?? this.#request?.handler;
    this.#handler = null;
    this.#request = null;
    this.#socket?.destroy();
    this.#home.onGone(this);
    handler?.onError(reason);
  }

  /** Takes what was read, [0, end) of the buffer that all connections share. */
  read(buffer: Buffer, end: number): void {
    const handler = this.#handler;
    if (handler === null || this.#request !== null) return this.close(new Error('bytes before any request')); // whatever they are, nobody asked
    const reader = this.#reader;
    const headed = reader.hasHead;
    reader.read(buffer, 0, end);
    const { state } = reader;
    if (!headed && reader.hasHead) handler.onHead(reader);
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
    (socket as LaneSocket)[LANE] = this;
    socket.on('error', (error) => this.close(error));
    socket.on('end', () => this.#ended());
    socket.on('close', () => this.close(new Error('the connection closed')));
    const request = this.#request;
    this.#request = null;
    if (request !== null) this.send(request.handler, request.head, request.body, request.onOut);
  }

  /** The answer is whole. The lane is free before its handler knows, which may have another request at hand. */
  #done(handler: UpstreamHandler): void {
    const reader = this.#reader;
    const socket = this.#socket as Socket;
    this.#handler = null;
    // an answer that came before the request was out: what is left of it would not be understood
    if (!reader.reusable || socket.writableLength > 0 || this.#remainder?.isOut === false) {
      this.close();
      return handler.onEnd();
    }
    if (this.#held) socket.resume();
    this.#held = false;
    this.#free(Math.min(IDLE_MS, reader.keepAliveSeconds * 1000 - CLOSING_MS));
    reader.reset();
    handler.onEnd();
  }

  #free(ms: number): void {
    this.freeUntil = performance.now() + ms;
    this.#home.onFree(this);
  }

  /** The other side closed its half. */
  #ended(): void {
    const handler = this.#handler;
    const reader = this.#reader;
    reader.close();
    if (handler === null || reader.state !== 'done') return this.close(new Error(reader.reason));
    this.#done(handler);
  }
}

const LANE = Symbol('lane');
type LaneSocket = Socket & { [LANE]?: Lane };

/** What is read at once. As much may wait for a slow client, who has to get along with 64 KiB in all. */
const READ_BYTES = 16_384;

/**
 * Makes all connections read into one buffer, where Node would allocate 64 KiB for each read
 * and shrink it afterwards. An option of `net.connect` and `tls.connect`.
 */
export function sharedReads() {
  return {
    buffer: Buffer.allocUnsafeSlow(READ_BYTES),
    callback(this: LaneSocket, bytes: number, buffer: Buffer): boolean {
      this[LANE]?.read(buffer, bytes);
      return true;
    },
  };
}
