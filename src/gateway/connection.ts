import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { HeadPattern, headEnd } from '../bytes/head-pattern.ts';
import type { BareRequest } from './bare-request.ts';
import { type AnswerOwner, type KnownHead, RepeatedRequest, RepeatedResponse } from './repeated.ts';
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
  const [accept] = server.listeners('connection') as [(this: Server, socket: Socket) => void];
  server.off('connection', accept);
  server.on('connection', (accepted: Socket) => {
    const connection = new Connection(server, handler, leaving);
    const socket = readShared(accepted, server, connection) ?? accepted;
    accept.call(server, socket);
    connection.begin(socket);
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  // its timer is the one that Node starts behind an answer, and does not know of repeated requests
  server.on('timeout', (socket: Watched) => {
    if (!socket[CONNECTION]?.isAnswering) socket.destroy();
  });
  return sockets;
}

/** For the server's handler: a request that Node's parser read; those behind it may repeat its head. */
export function noteRequest(req: BareRequest, res: ServerResponse): void {
  (req.socket as Watched)[CONNECTION]?.onRequest(req, res);
}

type Feed = (this: Socket, chunk: Buffer) => void;
type Watched = Socket & { [CONNECTION]?: Connection; parser?: object | null; _httpMessage?: object | null };
const CONNECTION = Symbol('connection');

class Connection implements AnswerOwner, Reader {
  socket!: Watched;
  #feed!: Feed;
  readonly #server: Server;
  readonly #handler: Handler;
  readonly #leaving: () => boolean;
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

  constructor(server: Server, handler: Handler, leaving: () => boolean) {
    this.#server = server;
    this.#handler = handler;
    this.#leaving = leaving;
  }

  /** Node's server has made the socket its own. */
  begin(socket: Watched): void {
    const [feed] = socket.listeners('data') as [Feed];
    this.socket = socket;
    this.#feed = feed;
    socket[CONNECTION] = this;
    socket.off('data', feed);
    socket.on('data', (chunk: Buffer) => this.onRead(chunk, chunk.length)); // and Node's parser reads no more by itself
    socket.on('close', () => this.#answering?.close());
  }

  get keepAliveMs(): number {
    return this.#server.keepAliveTimeout;
  }

  get isAnswering(): boolean {
    return this.#answering !== null;
  }

  /** Bytes came, [0, end), in a buffer that is used again. */
  onRead(bytes: Buffer, end: number): void {
    if (this.#answering !== null) return this.#hold(copied(bytes, 0, end));
    if (this.#parserRests()) {
      if (this.#pattern !== null && this.#repeats(this.#pattern, bytes, end)) return;
      this.#strangers++;
    }
    if (this.socket.parser == null) return; // it left HTTP behind, or is closing
    const piece = copied(bytes, 0, end);
    this.#from = this.#fed;
    this.#fed += end;
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
    if (held === null) return;
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
    if (from < 0 || from + pattern.contentLength !== end || this.#leaving()) return false;
    this.#strangers = 0;
    const token = pattern.sameToken ? null : pattern.token;
    const req = new RepeatedRequest(this.socket, this.#known as KnownHead, token, copied(bytes, from, end));
    const res = new RepeatedResponse(req, this);
    this.#answering = res;
    this.#handler(req, res);
    return true;
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
