import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { type ActiveMember, ActiveSet } from '../runtime/active-set.ts';
import type { BufferPool } from '../runtime/buffer-pool.ts';
import { IdleInterval } from '../runtime/idle-interval.ts';
import { bounded, connectionThrew } from './boundary.ts';
import { type AnsweringConnection, DirectRequest, DirectResponse } from './direct-request.ts';
import type { RequestHandler } from './exchange.ts';
import { type ReadHead, readHead } from './head-reader.ts';
import type { RequestHead } from './request-head.ts';
import type { Reader } from './shared-read.ts';

/** How often deadlines of what arrives are checked. */
const CHECK_MS = 1000;
/** How many headers a server allows that does not say. */
const MOST_HEADERS = 1000;

/** What all connections of a server share. */
interface ConnectionSetting {
  readonly server: Server;
  readonly handler: RequestHandler;
  readonly buffers: BufferPool;
  readonly arrivals: Arrivals;
  /** Gives a connection to Node's server, which reads it from then on. */
  readonly accept: (socket: Socket) => void;
}

/** The connections on which the first request, or a body, is to arrive, each with a deadline. */
export class Arrivals extends ActiveSet<ClientConnection> {
  readonly #interval = new IdleInterval(CHECK_MS, () => {
    this.each((connection) => bounded(connection.socket, () => connection.checkArrival())());
    return this.size > 0;
  });

  override join(connection: ClientConnection): void {
    super.join(connection);
    this.#interval.wake();
  }
}

/**
 * Reads the requests of one connection. The first that is not of the common form, and all after it, are for Node's
 * server, which gets the connection then, and its bytes as they came.
 *
 *   socket ──> readHead ─┬─ DirectRequest ───────────────────────────────────────────────────> handler
 *                        └─ declined: from then on socket ──> Node's parser ──> FastRequest ──> handler
 *
 * One request is answered at a time; what comes meanwhile is held.
 */
export class ClientConnection implements AnsweringConnection, Reader, ActiveMember {
  index = -1;
  readonly buffers: BufferPool;
  socket!: Socket;
  answering: DirectResponse | null = null;
  readonly #setting: ConnectionSetting;
  readonly #onData = (chunk: Buffer): void =>
    void (this.#read(chunk, chunk.length, true) || this.socket.pause());
  #isNodes = false;
  #isOver = false;
  /** The head before: the next one often has the same key. */
  #before: RequestHead | null = null;
  /** The request whose body is arriving; and when that, or the first request, has to be here; monotonic milliseconds. */
  #arriving: DirectRequest | null = null;
  #until = 0;
  /** Bytes that came while a request was being answered. */
  #held: Buffer | null = null;

  constructor(setting: ConnectionSetting) {
    this.#setting = setting;
    this.buffers = setting.buffers;
  }

  begin(socket: Socket): void {
    const { server, arrivals } = this.#setting;
    this.socket = socket;
    (socket as Socket & { server?: Server }).server = server; // as Node's server does; TLS sockets lack it
    socket.on('data', this.#onData);
    const onEnd = (): void => void (this.#isNodes || this.#end());
    socket.on('end', bounded(socket, onEnd));
    socket.on('error', (error) => this.#isNodes || this.#isOver || this.#fail(error));
    socket.on('timeout', () => this.#isNodes || server.emit('timeout', socket));
    socket.on('close', () => {
      arrivals.leave(this);
      this.answering?.close();
    });
    this.#await(server.headersTimeout);
  }

  get keepAliveMs(): number {
    return this.#setting.server.keepAliveTimeout;
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
    this.#arriving = null;
    this.#setting.arrivals.leave(this);
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
    const { socket } = this;
    if (this.#isNodes) return socket.emit('data', copied(bytes, 0, end)); // what Node's parser left to others
    if (this.#isOver || socket.writableEnded) return true; // its last answer is out
    if (this.#arriving !== null) return this.#arrive(this.#arriving, bytes, end, isOwn);
    if (this.answering !== null) {
      this.#hold(copied(bytes, 0, end));
      return true;
    }
    const { server, arrivals, accept } = this.#setting;
    const { maxHeadersCount, maxHeaderSize = end } = server as Server & { maxHeaderSize?: number };
    const read = readHead(bytes, Math.min(end, maxHeaderSize), maxHeadersCount ?? MOST_HEADERS);
    if (read !== null && read.text.length + Math.max(0, read.head.contentLength) >= end)
      return this.#answer(read, bytes, end);
    this.#isNodes = true;
    arrivals.leave(this);
    socket.off('data', this.#onData);
    if (socket.timeout) socket.setTimeout(0);
    accept(socket);
    return socket.emit('data', copied(bytes, 0, end));
  }

  /** @returns whether the body was asked for: till then no more of it is read */
  #answer(read: ReadHead, bytes: Buffer, end: number): boolean {
    const { server, arrivals, handler } = this.#setting;
    const { head } = read;
    const from = read.text.length;
    if (this.#before !== null) head.keysAsIn(this.#before);
    this.#before = head;
    const isWhole = from + Math.max(0, head.contentLength) === end;
    const body = isWhole ? copied(bytes, from, end) : bytes.subarray(from, end);
    const req = new DirectRequest(this.socket, read, body);
    const res = new DirectResponse(this, req);
    this.answering = res;
    if (isWhole) {
      arrivals.leave(this);
      handler(req, res);
      return true;
    }
    this.#arriving = req;
    this.#await(server.requestTimeout);
    handler(req, res);
    return req.keep();
  }

  /** Takes the next bytes of a body. */
  #arrive(req: DirectRequest, bytes: Buffer, end: number, isOwn: boolean): boolean {
    const taken = Math.min(end, req.left);
    if (taken < end) this.#hold(copied(bytes, taken, end));
    if (taken === req.left) {
      this.#arriving = null;
      this.#setting.arrivals.leave(this);
    }
    return req.take(bytes, taken, isOwn) || this.#arriving === null;
  }

  /** Keeps what arrives before the answer is out, and reads nothing more until then. */
  #hold(chunk: Buffer): void {
    this.#held = this.#held === null ? chunk : Buffer.concat([this.#held, chunk]);
    this.socket.pause();
  }

  onAnswered(last: boolean): void {
    const { socket } = this;
    this.answering = null;
    if (last) {
      this.stopReading();
      return socket.destroySoon();
    }
    const { keepAliveTimeout, keepAliveTimeoutBuffer = 0 } = this.#setting.server;
    const idleMs = keepAliveTimeout + keepAliveTimeoutBuffer;
    if (socket.timeout !== idleMs) socket.setTimeout?.(idleMs); // a stream that is no socket has no timer
    const held = this.#held;
    if (held === null || socket.destroyed) return;
    this.#held = null;
    socket.resume();
    if (!this.#read(held, held.length, false)) socket.pause();
  }

  /** Sets the deadline of the first request, or of a body. @param ms from now on; 0: there is none */
  #await(ms: number): void {
    this.#until = ms > 0 ? performance.now() + ms : Number.POSITIVE_INFINITY;
    if (this.index < 0) this.#setting.arrivals.join(this);
  }

  /** Ends what takes too long to arrive. */
  checkArrival(): void {
    if (performance.now() <= this.#until) return;
    this.#setting.arrivals.leave(this);
    this.#fail(coded('ERR_HTTP_REQUEST_TIMEOUT'));
  }

  /** The client sends no more. */
  #end(): void {
    if (this.#arriving !== null) this.#fail(coded('HPE_INVALID_EOF_STATE'));
    else if (this.answering !== null) this.answering.isLast = true;
    else this.socket.end();
  }

  /** Tells the server of an error, as Node's own connections do. */
  #fail(error: Error): void {
    if (!this.#setting.server.emit('clientError', error, this.socket)) this.socket.destroy();
  }
}

/** An error such as Node's server has. */
function coded(code: string): Error {
  return Object.assign(new Error(code), { code });
}

function copied(bytes: Buffer, from: number, end: number): Buffer {
  const copy = Buffer.allocUnsafe(end - from);
  bytes.copy(copy, 0, from, end);
  return copy;
}
