import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { type ActiveMember, ActiveSet } from '../runtime/active-set.ts';
import type { BufferPool } from '../runtime/buffer-pool.ts';
import { IdleInterval } from '../runtime/idle-interval.ts';
import { bounded, connectionThrew } from './boundary.ts';
import type { RequestHandler } from './exchange.ts';
import type { FastRequest } from './fast-request.ts';
import type { FastResponse } from './fast-response.ts';
import { HeadPattern, headEnd } from './head-pattern.ts';
import {
  type AnsweringConnection,
  type KnownHead,
  RepeatedRequest,
  RepeatedResponse,
} from './repeated-request.ts';
import type { Reader } from './shared-read.ts';

/** A larger body is read as it comes. */
const MAX_GATHERED = 65_536;
/** How often connections are checked that have sent a part of a request. */
const GATHER_MS = 1000;

/** What all connections of a server share. */
interface ConnectionSetting {
  readonly server: Server;
  readonly handler: RequestHandler;
  /** Whether answers close their connections now: then every request goes to Node's parser. */
  readonly isDraining: () => boolean;
  readonly buffers: BufferPool;
  readonly gathering: Gathering;
  /** Whether Node's parser reads large bodies from the system itself. */
  readonly parserReadsLarge: boolean;
}

type Feed = (this: Socket, chunk: Buffer) => void;
/** The fields that node:http keeps in a socket. */
type HttpSocket = Socket & {
  readonly parser?: { consume(handle: object): void; _consumed: boolean } | null;
  readonly _handle?: object | null;
  readonly _httpMessage?: object | null;
};

/** A repeated request that has arrived in part. */
interface PartialRequest {
  /** Has room for the whole request, its head included. */
  readonly bytes: Buffer;
  /** How many bytes have arrived. */
  received: number;
  readonly bodyFrom: number;
  readonly token: string | null;
  /** The last check found it too. */
  wasChecked: boolean;
}

/** The connections that gather a request. One that takes too long goes to Node's parser, which has deadlines. */
export class Gathering extends ActiveSet<ClientConnection> {
  readonly #interval = new IdleInterval(GATHER_MS, () => {
    this.each((connection) => bounded(connection.socket, () => connection.checkPartial())());
    return this.size > 0;
  });

  override join(connection: ClientConnection): void {
    super.join(connection);
    this.#interval.wake();
  }
}

/**
 * Stands before Node's parser on one connection. A request that repeats the head of an earlier one goes past the
 * parser, which saves 6 µs of 40: some twenty strings, and the objects and timers around them.
 *
 *   socket ─┬─ everything else ───────────────────────────> Node's parser ─> FastRequest ──────┬─> handler
 *           └─ a known head and its whole body, alone, or ─────────────> RepeatedRequest ──┘
 *              the beginning of a large one: the rest is read into memory of the gateway
 *
 * The limits, timers and errors of the connection remain the server's.
 */
export class ClientConnection implements AnsweringConnection, Reader, ActiveMember {
  index = -1;
  socket!: HttpSocket;
  readonly buffers: BufferPool;
  #feed!: Feed;
  readonly #setting: ConnectionSetting;
  readonly #onData = (chunk: Buffer): void =>
    void (this.#read(chunk, chunk.length, true) || this.socket.pause());
  #partial: PartialRequest | null = null;
  #pattern: HeadPattern | null = null;
  #known: KnownHead | null = null;
  /** Requests since the last one that repeated the known head. */
  #misses = 0;
  #answering: RepeatedResponse | null = null;
  /** The repeated request whose large body is arriving, and when it has to be whole; monotonic milliseconds. */
  #arriving: RepeatedRequest | null = null;
  #arrivesUntil = 0;
  /** Bytes that came while a repeated request was being answered. */
  #held: Buffer | null = null;
  #isOver = false;

  // Offsets in the bytes given to Node's parser: their end, where the piece at hand begins, and
  // where the next request will begin; NaN where that cannot be told.
  #fed = 0;
  #from = 0;
  #next = 0;
  #piece: Buffer | null = null;

  constructor(setting: ConnectionSetting) {
    this.#setting = setting;
    this.buffers = setting.buffers;
  }

  /** Takes the place of Node's parser after the server has set up the socket. @returns false where it cannot */
  begin(socket: HttpSocket): boolean {
    const [feed] = socket.listeners('data') as [Feed?];
    if (feed === undefined) return false; // Node reads in a way that is not known here
    this.socket = socket;
    this.#feed = feed;
    socket.off('data', feed);
    socket.on('data', this.#onData); // from now on Node's parser does not read from the system itself
    const onEnd = (): void =>
      this.#arriving === null ? this.#giveUp() : this.#fail('HPE_INVALID_EOF_STATE');
    socket.prependListener('end', bounded(socket, onEnd));
    socket.on('close', () => {
      this.#setting.gathering.leave(this);
      this.#answering?.close();
    });
    return true;
  }

  get keepAliveMs(): number {
    return this.#setting.server.keepAliveTimeout;
  }

  /** Whether it answers a repeated request, or has a part of one. */
  get isBusy(): boolean {
    return this.#answering !== null || this.#partial !== null;
  }

  get room(): Buffer | null {
    return this.#arriving === null ? null : this.#arriving.room;
  }

  onRead(bytes: Buffer, end: number): boolean {
    return this.#read(bytes, end, false);
  }

  /** Takes no more requests: what still comes is discarded. */
  stopReading(): void {
    this.#isOver = true;
    this.#partial = null;
    this.#setting.gathering.leave(this);
  }

  /**
   * Takes the bytes [0, end).
   * @param isOwn whether the buffer is theirs alone; false: the next read overwrites them
   * @returns false to read nothing more until the socket is resumed
   */
  #read(bytes: Buffer, end: number, isOwn: boolean): boolean {
    try {
      return this.#take(bytes, end, isOwn);
    } catch (error) {
      connectionThrew(this.socket, error);
      return true;
    }
  }

  #take(bytes: Buffer, end: number, isOwn: boolean): boolean {
    if (this.#isOver || this.socket.writableEnded) return true; // its last answer is out
    if (this.#arriving !== null) return this.#arrive(this.#arriving, bytes, end, isOwn);
    if (this.#answering !== null) this.#hold(copied(bytes, 0, end));
    else if (this.#partial !== null) return this.#gather(this.#partial, bytes, end);
    else if (!this.#isBetweenRequests()) this.#give(copied(bytes, 0, end));
    else if (this.#pattern !== null && this.#takeRepeated(this.#pattern, bytes, end))
      return this.#readsOn();
    else {
      this.#misses++;
      this.#give(copied(bytes, 0, end));
    }
    return true;
  }

  /** Whether the body that has begun to arrive was asked for: till then no more of it is read. */
  #readsOn(): boolean {
    return this.#arriving === null || this.#arriving.keep();
  }

  /** Gives a piece to Node's parser. */
  #give(piece: Buffer): void {
    if (this.socket.parser == null) return; // upgraded, or closing
    this.#from = this.#fed;
    this.#fed += piece.length;
    this.#piece = piece;
    this.#feed.call(this.socket, piece);
    this.#piece = null;
  }

  /** Node's parser has read the head of a request: later ones may repeat it. */
  onRequest(req: FastRequest, res: FastResponse): void {
    const start = this.#next - this.#from;
    const piece = this.#piece;
    const end = piece === null || !(start >= 0) ? -1 : headEnd(piece, start);
    const { head } = req;
    this.#next = Number.NaN;
    if (end < 0 || head.transferEncoding !== undefined || head.upgrades) return;
    this.#next = this.#from + end + Math.max(0, head.contentLength);
    if (this.#next - this.#fed > MAX_GATHERED && this.#setting.parserReadsLarge)
      this.#leaveReading(res);
    // a head that differs from the last may begin a new series: learned after 1, 2, 4, … misses
    if ((this.#misses & (this.#misses - 1)) !== 0 || !mayRepeat(req, res)) return;
    this.#pattern = HeadPattern.of((piece as Buffer).subarray(start, end));
    const { method, url, rawHeaders } = req as {
      method: string;
      url: string;
      rawHeaders: string[];
    };
    this.#known = { method, url, rawHeaders, head };
  }

  onAnswered(): void {
    this.#answering = null;
    if (this.#setting.isDraining()) this.socket.setTimeout(this.keepAliveMs); // as Node does after its own answers
    const held = this.#held;
    if (held === null || this.socket.destroyed) return;
    this.#held = null;
    this.socket.resume();
    if (!this.#read(held, held.length, false)) this.socket.pause();
  }

  /** Whether Node's parser has seen whole requests only, and the last of them is answered. */
  #isBetweenRequests(): boolean {
    return this.#fed === this.#next && this.socket._httpMessage == null;
  }

  #takeRepeated(pattern: HeadPattern, bytes: Buffer, end: number): boolean {
    const from = pattern.match(bytes, end);
    if (from < 0 || this.#setting.isDraining()) return false;
    const { contentLength } = pattern;
    const token = pattern.sameToken ? null : pattern.token;
    if (from + contentLength === end) this.#answer(token, copied(bytes, from, end), contentLength);
    else if (from + contentLength < end) return false;
    else if (contentLength > MAX_GATHERED) {
      const { requestTimeout } = this.#setting.server;
      this.#arrivesUntil =
        requestTimeout > 0 ? performance.now() + requestTimeout : Number.POSITIVE_INFINITY;
      this.#setting.gathering.join(this);
      this.#answer(token, bytes.subarray(from, end), contentLength);
    } else {
      const whole = Buffer.allocUnsafe(from + contentLength);
      bytes.copy(whole, 0, 0, end);
      this.#partial = { bytes: whole, received: end, bodyFrom: from, token, wasChecked: false };
      this.#setting.gathering.join(this);
    }
    this.#misses = 0;
    return true;
  }

  #gather(partial: PartialRequest, bytes: Buffer, end: number): boolean {
    if (partial.received + end > partial.bytes.length) {
      this.#giveUp();
      return this.#take(bytes, end, false);
    }
    bytes.copy(partial.bytes, partial.received, 0, end);
    partial.received += end;
    if (partial.received < partial.bytes.length) return true;
    this.#partial = null;
    this.#setting.gathering.leave(this);
    const body = partial.bytes.subarray(partial.bodyFrom);
    this.#answer(partial.token, body, body.length);
    return true;
  }

  /** Takes the next bytes of a large body. */
  #arrive(req: RepeatedRequest, bytes: Buffer, end: number, isOwn: boolean): boolean {
    const taken = Math.min(end, req.left);
    if (taken < end) this.#hold(copied(bytes, taken, end));
    if (taken === req.left) {
      this.#arriving = null;
      this.#setting.gathering.leave(this);
    }
    return req.take(bytes, taken, isOwn) || this.#arriving === null;
  }

  /** Ends a request whose body does not arrive, with an error such as Node's parser has. */
  #fail(code: string): void {
    this.#setting.gathering.leave(this);
    this.socket.emit('error', Object.assign(new Error(code), { code }));
  }

  /**
   * Gives a part of a request to Node's parser when a second check finds it, and ends a request whose large body takes
   * too long.
   */
  checkPartial(): void {
    if (this.#arriving !== null && performance.now() > this.#arrivesUntil)
      this.#fail('ERR_HTTP_REQUEST_TIMEOUT');
    const partial = this.#partial;
    if (partial === null) return;
    if (partial.wasChecked) this.#giveUp();
    partial.wasChecked = true;
  }

  /** Gives a part of a request to Node's parser. */
  #giveUp(): void {
    const partial = this.#partial;
    if (partial === null) return;
    this.#partial = null;
    this.#setting.gathering.leave(this);
    this.#give(partial.bytes.subarray(0, partial.received));
  }

  /** @param body what of it has arrived */
  #answer(token: string | null, body: Buffer, length: number): void {
    const req = new RepeatedRequest(this.socket, this.#known as KnownHead, token, body, length);
    const res = new RepeatedResponse(this, req);
    this.#answering = res;
    if (body.length < length) this.#arriving = req;
    this.#setting.handler(req, res);
  }

  /** Lets Node's parser read a large body from the system itself; by way of JavaScript the body would cost half more. */
  #leaveReading(res: FastResponse): void {
    const { socket } = this;
    const { parser, _handle: handle } = socket;
    if (handle == null || parser == null) return;
    const skipped = socket.bytesRead - this.#fed;
    parser.consume(handle);
    parser._consumed = true;
    res.once('close', () => {
      this.#fed = socket.bytesRead - skipped;
      if (this.#fed !== this.#next || socket.parser == null)
        this.#next = Number.NaN; // the parser has read more, and goes on reading
      else socket.off('data', this.#onData).on('data', this.#onData);
    });
  }

  /** Keeps what arrives before the answer is out, and reads nothing more until then. */
  #hold(chunk: Buffer): void {
    this.#held = this.#held === null ? chunk : Buffer.concat([this.#held, chunk]);
    this.socket.pause();
  }
}

function copied(bytes: Buffer, from: number, end: number): Buffer {
  const copy = Buffer.allocUnsafe(end - from);
  bytes.copy(copy, 0, from, end);
  return copy;
}

/** A plain HTTP/1.1 request whose connection stays open. */
function mayRepeat({ method, httpVersion, head }: FastRequest, res: FastResponse): boolean {
  return method === 'POST' && httpVersion === '1.1' && res.shouldKeepAlive && !head.expectsContinue;
}
