import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { ActiveSet, type Member } from '../runtime/active-set.ts';
import { IdleInterval } from '../runtime/idle-interval.ts';
import type { BareRequest } from './fast-request.ts';
import { HeadPattern, headEnd } from './head-pattern.ts';
import { type AnswerOwner, type KnownHead, RepeatedRequest, RepeatedResponse } from './repeated-request.ts';
import { type Reader, readShared } from './shared-read.ts';

type Handler = (req: RepeatedRequest, res: ServerResponse) => void;

/**
 * Stands before Node's parser on each connection of a server, and takes requests that repeat
 * the head of one before them past it: what a request costs in node:http is its head, read into
 * some twenty strings, and the objects and timers around it, 6 µs of 40.
 *
 *   socket ─┬─ all else ───────────────────────────────> Node's parser ─> IncomingMessage ──┬─> handler
 *           └─ a known head and its whole body, alone ──────────────────> RepeatedRequest ──┘
 *
 * Everything about a connection remains the server's: its limits, its timers, its errors.
 * @param leaving whether answers should close their connections: then all goes Node's way
 * @returns the open connections
 */
export function watchConnections(server: Server, handler: Handler, leaving: () => boolean): ReadonlySet<Socket> {
  const sockets = new Set<Socket>();
  const gathering = new Gathering();
  const [accept] = server.listeners('connection') as [(this: Server, socket: Socket) => void];
  server.off('connection', accept);
  server.on('connection', (accepted: Socket) => {
    const connection = new Connection(server, handler, leaving, gathering);
    const socket = readShared(accepted, server, connection) ?? accepted;
    accept.call(server, socket);
    connection.begin(socket);
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  // its timer is the one that Node starts behind an answer, and does not know of repeated requests
  server.on('timeout', (socket: Watched) => {
    if (!socket[CONNECTION]?.isBusy) socket.destroy();
  });
  return sockets;
}

/** For the server's handler: a request that Node's parser read; those behind it may repeat its head. */
export function noteRequest(req: BareRequest, res: ServerResponse): void {
  (req.socket as Watched)[CONNECTION]?.onRequest(req, res);
}

type Feed = (this: Socket, chunk: Buffer) => void;
/** What node:http keeps with a socket. */
type Watched = Socket & {
  [CONNECTION]?: Connection;
  readonly parser?: { consume(handle: object): void; _consumed: boolean } | null;
  readonly _handle?: object | null;
  readonly _httpMessage?: object | null;
};
const CONNECTION = Symbol('connection');

/** A larger body is Node's parser's: its pieces are looked at as they come. */
const MOST_GATHERED = 65_536;
/** How often connections are looked at that have sent a part of a request. */
const GATHER_MS = 1000;

/** A repeated request that came in part. */
interface Part {
  /** With room for the whole, its head included. */
  readonly bytes: Buffer;
  have: number;
  readonly bodyFrom: number;
  readonly token: string | null;
  /** It was looked at before. */
  late: boolean;
}

/** The connections that gather a request: one that takes too long goes to Node's parser, which has deadlines. */
class Gathering extends ActiveSet<Connection> {
  readonly #interval = new IdleInterval(GATHER_MS, () => {
    this.each((connection) => connection.hurry());
    return this.size > 0;
  });

  override join(connection: Connection): void {
    super.join(connection);
    this.#interval.wake();
  }
}

class Connection implements AnswerOwner, Reader, Member {
  place = -1;
  socket!: Watched;
  #feed!: Feed;
  readonly #server: Server;
  readonly #handler: Handler;
  readonly #leaving: () => boolean;
  readonly #gathering: Gathering;
  readonly #onData = (chunk: Buffer): void => this.onRead(chunk, chunk.length);
  #part: Part | null = null;
  #pattern: HeadPattern | null = null;
  #known: KnownHead | null = null;
  /** Requests since the last one that repeated the known head. */
  #strangers = 0;
  #answering: RepeatedResponse | null = null;
  /** What came while a repeated request was being answered. */
  #held: Buffer | null = null;

  // Offsets in what Node's parser was given: its end, where the piece at hand begins, and where
  // the next request will; NaN once that cannot be told.
  #fed = 0;
  #from = 0;
  #next = 0;
  #piece: Buffer | null = null;

  constructor(server: Server, handler: Handler, leaving: () => boolean, gathering: Gathering) {
    this.#server = server;
    this.#handler = handler;
    this.#leaving = leaving;
    this.#gathering = gathering;
  }

  /** Node's server has made the socket its own. */
  begin(socket: Watched): void {
    const [feed] = socket.listeners('data') as [Feed?];
    if (feed === undefined) return; // then Node reads in a way that is unknown here, and may
    this.socket = socket;
    this.#feed = feed;
    socket[CONNECTION] = this;
    socket.off('data', feed);
    socket.on('data', this.#onData); // and Node's parser reads no more by itself
    socket.prependListener('end', () => this.#giveUp());
    socket.on('close', () => {
      this.#gathering.leave(this);
      this.#answering?.close();
    });
  }

  get keepAliveMs(): number {
    return this.#server.keepAliveTimeout;
  }

  /** With a repeated request, or a part of one. */
  get isBusy(): boolean {
    return this.#answering !== null || this.#part !== null;
  }

  /** Bytes came, [0, end), in a buffer that is used again. */
  onRead(bytes: Buffer, end: number): void {
    if (this.#answering !== null) return this.#hold(copied(bytes, 0, end));
    if (this.#part !== null) return this.#gather(this.#part, bytes, end);
    if (this.#parserRests()) {
      if (this.#pattern !== null && this.#repeats(this.#pattern, bytes, end)) return;
      this.#strangers++;
    }
    this.#give(copied(bytes, 0, end));
  }

  /** To Node's parser. */
  #give(piece: Buffer): void {
    if (this.socket.parser == null) return; // it left HTTP behind, or is closing
    this.#from = this.#fed;
    this.#fed += piece.length;
    this.#piece = piece;
    this.#feed.call(this.socket, piece);
    this.#piece = null;
  }

  /** Node's parser read the head of a request. */
  onRequest(req: BareRequest, res: ServerResponse): void {
    const start = this.#next - this.#from;
    const piece = this.#piece;
    const end = piece === null || !(start >= 0) ? -1 : headEnd(piece, start);
    const { head } = req;
    this.#next = Number.NaN;
    if (end < 0 || head.transferEncoding !== undefined || head.upgrades) return;
    this.#next = this.#from + end + Math.max(0, head.contentLength);
    if (this.#next - this.#fed > MOST_GATHERED) this.#leaveReading(res);
    // one that differs from the last may begin a new series; looked for ever more seldom
    if ((this.#strangers & (this.#strangers - 1)) !== 0 || !mayRepeat(req, res)) return;
    this.#pattern = HeadPattern.of((piece as Buffer).subarray(start, end));
    const { method, url, rawHeaders } = req as { method: string; url: string; rawHeaders: string[] };
    this.#known = { method, url, rawHeaders, head };
  }

  onAnswered(): void {
    this.#answering = null;
    if (this.#leaving()) this.socket.setTimeout(this.#server.keepAliveTimeout); // as Node does behind its own
    const held = this.#held;
    if (held === null || this.socket.destroyed) return;
    this.#held = null;
    this.socket.resume();
    this.onRead(held, held.length);
  }

  /** Between two requests, the one before being answered. */
  #parserRests(): boolean {
    return this.#fed === this.#next && this.socket._httpMessage == null;
  }

  #repeats(pattern: HeadPattern, bytes: Buffer, end: number): boolean {
    const from = pattern.match(bytes, end);
    if (from < 0 || this.#leaving()) return false;
    const { contentLength } = pattern;
    const token = pattern.sameToken ? null : pattern.token;
    if (from + contentLength === end) this.#answer(token, copied(bytes, from, end));
    else if (from + contentLength < end || contentLength > MOST_GATHERED) return false;
    else {
      const whole = Buffer.allocUnsafe(from + contentLength);
      bytes.copy(whole, 0, 0, end);
      this.#part = { bytes: whole, have: end, bodyFrom: from, token, late: false };
      this.#gathering.join(this);
    }
    this.#strangers = 0;
    return true;
  }

  #gather(part: Part, bytes: Buffer, end: number): void {
    if (part.have + end > part.bytes.length) {
      this.#giveUp();
      return this.onRead(bytes, end);
    }
    bytes.copy(part.bytes, part.have, 0, end);
    part.have += end;
    if (part.have < part.bytes.length) return;
    this.#part = null;
    this.#gathering.leave(this);
    this.#answer(part.token, part.bytes.subarray(part.bodyFrom));
  }

  /** Looked at once in a while: the second time a part of a request has waited long enough. */
  hurry(): void {
    const part = this.#part;
    if (part === null) return;
    if (part.late) this.#giveUp();
    part.late = true;
  }

  /** A part of a request goes to Node's parser after all. */
  #giveUp(): void {
    const part = this.#part;
    if (part === null) return;
    this.#part = null;
    this.#gathering.leave(this);
    this.#give(part.bytes.subarray(0, part.have));
  }

  #answer(token: string | null, body: Buffer): void {
    const req = new RepeatedRequest(this.socket, this.#known as KnownHead, token, body);
    const res = new RepeatedResponse(req, this);
    this.#answering = res;
    this.#handler(req, res);
  }

  /**
   * A large body is for Node's parser alone to read, until it is answered: by way of JavaScript
   * it takes half as long again.
   */
  #leaveReading(res: ServerResponse): void {
    const { socket } = this;
    const { parser, _handle: handle } = socket;
    if (handle == null || parser == null) return;
    const skipped = socket.bytesRead - this.#fed;
    parser.consume(handle);
    parser._consumed = true;
    res.once('close', () => {
      this.#fed = socket.bytesRead - skipped;
      if (this.#fed !== this.#next || socket.parser == null)
        this.#next = Number.NaN; // it has read on, and reads on
      else socket.off('data', this.#onData).on('data', this.#onData);
    });
  }

  /** A request sent before the answer to the one before it: no more is read until then. */
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
function mayRepeat({ method, httpVersion, head }: BareRequest, res: ServerResponse): boolean {
  return method === 'POST' && httpVersion === '1.1' && res.shouldKeepAlive && !head.expectsContinue;
}
