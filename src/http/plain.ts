import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { AnswerBytes } from '../json/splice.ts';
import { closeWithConnection } from '../runtime/node-http.ts';
import { bounded, handTo } from './boundary.ts';
import type {
  BodySink,
  ClientRequest,
  ClientResponse,
  Connections,
  RequestHandler,
  ResponseListener,
  ResponseStream,
} from './exchange.ts';
import { watchHalfClosed } from './half-closed.ts';
import { closeIdle, discard, lingerAfterAnswer } from './linger.ts';
import { RequestHead } from './request-head.ts';
import { endWith, NO_STORE } from './response-head.ts';

const BODY_READ =
  'the body of the request was read before the gateway got it: mount the handler before any body parser';

/**
 * Answers the requests of a server by the public interface of node:http alone.
 * @param secure the server speaks TLS
 * @param onOpen told of each new connection
 */
export function attachPlain(
  server: Server,
  handler: RequestHandler,
  secure: boolean,
  onOpen: (socket: Socket) => void,
): Connections {
  const open = new Set<Socket>();
  /** The answers of a connection that are not out, in the order of their requests. */
  const answers = new WeakMap<Duplex, Set<ServerResponse>>();
  const answering = (socket: Duplex): ServerResponse | null =>
    answers.get(socket)?.values().next().value ?? null;
  const onRequest = (req: IncomingMessage, res: ServerResponse): void => {
    closeWithConnection(res);
    const waiting = answers.get(req.socket);
    waiting?.add(res);
    res.on('close', () => waiting?.delete(res));
    handler(new PlainRequest(req), new PlainResponse(res));
  };
  server.on('request', onRequest);
  server.on('checkContinue', onRequest); // the gateway asks for the body when it wants it
  server.on('checkExpectation', onRequest); // Node alone would answer 417 without a body
  const onConnection = (socket: Socket): void => {
    open.add(socket);
    answers.set(socket, new Set());
    socket.on('close', () => open.delete(socket));
    watchHalfClosed(socket, answering);
    onOpen(socket);
  };
  server.on(secure ? 'secureConnection' : 'connection', (socket: Socket) =>
    bounded(socket, () => onConnection(socket))(),
  );
  server.on('timeout', (socket: Socket) => {
    const isBusy = (): boolean => answering(socket) !== null;
    if (!isBusy()) closeIdle(socket, isBusy);
  });
  return { open, answering, stopReading: discard };
}

export class PlainRequest implements ClientRequest {
  readonly head: RequestHead;
  readonly url: string;
  readonly #req: IncomingMessage;

  constructor(req: IncomingMessage, url = req.url as string) {
    this.#req = req;
    this.url = url;
    this.head = new RequestHead(req.rawHeaders);
  }

  get method(): string {
    return this.#req.method as string;
  }
  get httpVersionMinor(): number {
    return this.#req.httpVersionMinor;
  }
  get rawHeaders(): readonly string[] {
    return this.#req.rawHeaders;
  }
  get complete(): boolean {
    return this.#req.complete;
  }
  get socket(): Socket {
    return this.#req.socket;
  }

  takeBody(): null {
    return null;
  }

  readBody(sink: BodySink): void {
    if (this.#req.readableDidRead) throw new Error(BODY_READ);
    this.#req.on('data', (piece: Buffer) => {
      // other code may listen too
      if (!handTo(sink, piece, false)) this.#req.pause();
    });
    this.#req.on('end', () => handTo(sink, null, false));
  }

  readOn(): void {
    this.#req.resume();
  }
}

export class PlainResponse implements ClientResponse {
  readonly #res: ServerResponse;
  #listener: ResponseListener | null = null;
  #closes = false;

  constructor(res: ServerResponse) {
    this.#res = res;
  }

  get headersSent(): boolean {
    return this.#res.headersSent;
  }
  get destroyed(): boolean {
    return this.#res.destroyed;
  }
  get writableFinished(): boolean {
    return this.#res.writableFinished;
  }
  get writableLength(): number {
    return this.#res.writableLength;
  }
  get socket(): Socket | null {
    return this.#res.socket;
  }

  listen(listener: ResponseListener): void {
    this.#listener = listener;
    this.#res.on('close', () => listener.onClose());
  }

  closeAfter(): void {
    this.#closes = true;
    lingerAfterAnswer(this.#res.req);
  }

  writeContinue(): void {
    this.#res.writeContinue();
  }

  send(status: number, headers: readonly string[], body: AnswerBytes | string): void {
    this.#res.writeHead(status, this.#complete(headers));
    endWith(this.#res, body);
    this.#listener?.onSent();
  }

  openStream(headers: readonly string[], onDrain: () => void): ResponseStream {
    const begin = (): void => {
      this.#listener?.onStream();
      this.#res.writeHead(200, this.#complete(headers));
    };
    return new PlainStream(this.#res, begin, onDrain, () => this.#listener?.onSent());
  }

  destroy(): void {
    this.#res.destroy();
  }

  #complete(headers: readonly string[]): string[] {
    const all = [...NO_STORE.split(': '), ...headers];
    return this.#closes ? [...all, 'connection', 'close'] : all;
  }
}

class PlainStream implements ResponseStream {
  readonly #res: ServerResponse;
  readonly #begin: () => void;
  readonly #onSent: () => void;
  readonly #onDrain: () => void;
  #gathers = false;
  /** What `onDrain` waits for. */
  #full: ServerResponse | Socket | null = null;

  constructor(res: ServerResponse, begin: () => void, onDrain: () => void, onSent: () => void) {
    this.#res = res;
    this.#begin = begin;
    this.#onSent = onSent;
    this.#onDrain = () => {
      this.#full = null;
      onDrain();
    };
  }

  get isEmpty(): boolean {
    return !this.#gathers;
  }

  add(buffer: Buffer, start: number, end: number): boolean {
    const res = this.#res;
    if (!res.headersSent) this.#begin();
    if (!this.#gathers) res.cork();
    this.#gathers = true;
    res.write(Buffer.from(buffer.subarray(start, end)));
    return res.writableNeedDrain ? this.flush() : this.#flows();
  }

  flush(): boolean {
    if (this.#gathers) this.#res.uncork();
    this.#gathers = false;
    return this.#flows();
  }

  end(): void {
    if (!this.#res.headersSent) this.#begin();
    this.flush(); // Node 22 and 24 send the end of the body before corked bytes
    this.#full?.off('drain', this.#onDrain);
    this.#res.end();
    this.#onSent();
  }

  drop(): void {
    this.#gathers = false;
  }

  /** By the connection, once the response has it: on Node 22 and 24 a response that was corked does not tell. */
  #flows(): boolean {
    if (this.#full !== null) return false;
    const way = this.#res.socket ?? this.#res;
    if (!way.writableNeedDrain) return true;
    this.#full = way;
    way.once('drain', this.#onDrain);
    return false;
  }
}
