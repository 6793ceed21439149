import type { Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { HeadPattern, headEnd } from '../bytes/head-pattern.ts';
import type { BareRequest } from './bare-request.ts';
import { type AnswerOwner, type KnownHead, RepeatedRequest, RepeatedResponse } from './repeated.ts';

type Handler = (req: RepeatedRequest, res: ServerResponse) => void;

/**
 * Stands before Node's parser on each connection of a server, and takes requests that repeat
 * the head of one before them past it: what a request costs in node:http is its head, read into
 * some twenty strings, and the objects and timers around it, 5 µs of 40.
 *
 *   socket ─┬─ all else ───────────────────────────────> Node's parser ─> IncomingMessage ──┬─> handler
 *           └─ a known head and its whole body, alone ──────────────────> RepeatedRequest ──┘
 *
 * Everything about a connection remains the server's: its limits, its timers, its errors.
 * @param leaving whether answers should close their connections: then all goes Node's way
 */
export function watchConnections(server: Server, handler: Handler, leaving: () => boolean): void {
  server.on('connection', (socket: Socket) => {
    const [feed] = socket.listeners('data');
    if (feed === undefined) return;
    const connection = new Connection(socket, feed as Feed, server, handler, leaving);
    socket.off('data', feed as Feed);
    socket.on('data', (chunk: Buffer) => connection.onData(chunk));
    socket.on('close', () => connection.onClose());
    (socket as Watched)[CONNECTION] = connection;
  });
  // its timer is the one that Node starts behind an answer, and does not know of repeated requests
  server.on('timeout', (socket: Watched) => {
    if (!socket[CONNECTION]?.isAnswering) socket.destroy();
  });
}

/** For the server's handler: a request that Node's parser read; those behind it may repeat its head. */
export function noteRequest(req: BareRequest, res: ServerResponse): void {
  (req.socket as Watched)[CONNECTION]?.onRequest(req, res);
}

type Feed = (this: Socket, chunk: Buffer) => void;
type Watched = Socket & { [CONNECTION]?: Connection; parser?: object | null; _httpMessage?: object | null };
const CONNECTION = Symbol('connection');

class Connection implements AnswerOwner {
  readonly socket: Watched;
  readonly #feed: Feed;
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

  constructor(socket: Socket, feed: Feed, server: Server, handler: Handler, leaving: () => boolean) {
    this.socket = socket;
    this.#feed = feed;
    this.#server = server;
    this.#handler = handler;
    this.#leaving = leaving;
  }

  get keepAliveMs(): number {
    return this.#server.keepAliveTimeout;
  }

  get isAnswering(): boolean {
    return this.#answering !== null;
  }

  onData(chunk: Buffer): void {
    if (this.#answering !== null) return this.#hold(chunk);
    if (this.#parserRests()) {
      if (this.#pattern !== null && this.#repeats(this.#pattern, chunk)) return;
      this.#strangers++;
    }
    this.#from = this.#fed;
    this.#fed += chunk.length;
    this.#piece = chunk;
    if (this.socket.parser != null) this.#feed.call(this.socket, chunk); // none: it left HTTP behind, or is closing
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
    this.onData(held);
  }

  onClose(): void {
    this.#answering?.close();
  }

  /** Between two requests, the one before being answered. */
  #parserRests(): boolean {
    return this.#fed === this.#next && this.socket._httpMessage == null;
  }

  #repeats(pattern: HeadPattern, chunk: Buffer): boolean {
    const from = pattern.match(chunk);
    if (from < 0 || from + pattern.contentLength !== chunk.length || this.#leaving()) return false;
    this.#strangers = 0;
    const token = pattern.sameToken ? null : pattern.token;
    const req = new RepeatedRequest(this.socket, this.#known as KnownHead, token, chunk.subarray(from));
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

/** A plain HTTP/1.1 request whose connection stays open. */
function mayRepeat({ method, httpVersion, head }: BareRequest, res: ServerResponse): boolean {
  return method === 'POST' && httpVersion === '1.1' && res.shouldKeepAlive && !head.expectsContinue;
}
