import type { Socket } from 'node:net';
import type { BufferPool } from '../runtime/buffer-pool.ts';
import type { ClientRequest, ClientResponse, ResponseListener, ResponseStream } from './exchange.ts';
import { FramedStream, type StreamedResponse } from './framed-stream.ts';
import type { RequestHead } from './request-head.ts';
import { answerHead, jsonHead } from './response-head.ts';

const NONE = Buffer.alloc(0);

/** The head that the requests of a connection repeat, as Node's parser read it. */
export interface KnownHead {
  readonly method: string;
  readonly url: string;
  readonly rawHeaders: readonly string[];
  readonly head: RequestHead;
}

/** A request whose head repeats a known one; its whole body is there. */
export class RepeatedRequest implements ClientRequest {
  readonly method: string;
  readonly url: string;
  /** Those of the known head, with its key. */
  readonly rawHeaders: readonly string[];
  readonly head: RequestHead;
  readonly httpVersionMajor = 1;
  readonly httpVersionMinor = 1;
  readonly complete = true;
  readonly socket: Socket;
  #body: Buffer;

  /** @param token the bearer token, where it differs from that of the known head */
  constructor(socket: Socket, known: KnownHead, token: string | null, body: Buffer) {
    this.socket = socket;
    this.method = known.method;
    this.url = known.url;
    this.#body = body;
    this.rawHeaders = known.rawHeaders;
    this.head = token === null ? known.head : known.head.withBearer(token);
  }

  /** Returns the body and lets go of it: a streamed answer lasts longer than its request is needed. */
  takeBody(): Buffer {
    const body = this.#body;
    this.#body = NONE;
    return body;
  }

  readBody(): void {} // `takeBody` never returns null
  readOn(): void {}
}

/** The owner of a connection: called when the answer is out and the connection free again. */
export interface AnswerOwner {
  readonly socket: Socket;
  readonly keepAliveMs: number;
  readonly buffers: BufferPool;
  onAnswered(): void;
}

/**
 * The response to a repeated request, of which Node's server does not know: it is written straight to the socket, as
 * Node would write it, and does afterwards what Node's server does after its own. A small request takes 0.98 of the CPU
 * that it takes with a response of Node's.
 */
export class RepeatedResponse implements ClientResponse, StreamedResponse {
  listener: ResponseListener | null = null;
  headersSent = false;
  destroyed = false;
  readonly #owner: AnswerOwner;
  /** The connection closes after this answer. */
  #isLast = false;
  /** All of it was written; the system has taken all of it; it is out, or the connection closed. */
  #ended = false;
  #finished = false;
  #closed = false;

  constructor(owner: AnswerOwner) {
    this.#owner = owner;
    setAnswer(owner.socket, this);
  }

  get socket(): Socket {
    return this.#owner.socket;
  }

  get writableLength(): number {
    return this.headersSent && !this.#finished ? this.socket.writableLength : 0;
  }

  get writableFinished(): boolean {
    return this.#ended && this.writableLength === 0;
  }

  listen(listener: ResponseListener): void {
    this.listener = listener;
  }

  closeAfter(): void {
    this.#isLast = true;
  }

  sendJson(requestId: string, body: string, cost: string | null): void {
    this.headersSent = true;
    this.socket.write(jsonHead(requestId, body.length, cost, this.#idleMs) + body, 'latin1');
    this.#end();
  }

  send(status: number, headers: readonly string[], body: Buffer | string): void {
    const { socket } = this;
    socket.cork();
    this.#writeHead(status, headers, false);
    socket.write(body, 'latin1');
    socket.uncork();
    this.#end();
  }

  openStream(headers: readonly string[], onDrain: () => void): ResponseStream {
    return new FramedStream(this, headers, this.#owner.buffers, onDrain);
  }

  beginStream(headers: readonly string[]): boolean {
    this.#writeHead(200, headers, true);
    return true;
  }

  endStream(bytes: Buffer): void {
    this.socket.write(bytes);
    this.#end();
  }

  queue(): boolean {
    return true; // it has its socket
  }

  writeContinue(): void {} // a request that waits for it is not repeated

  destroy(): void {
    this.destroyed = true;
    this.socket.destroy(); // `close` follows
  }

  /** Node's server tells the answer of a socket that it was idle for too long. @returns that nobody listens */
  emit(): boolean {
    return false;
  }

  /** The connection closed, or the answer is out. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.destroyed = true;
    this.listener?.onClose();
  }

  get #idleMs(): number | null {
    return this.#isLast ? null : this.#owner.keepAliveMs;
  }

  #writeHead(status: number, headers: readonly string[], isChunked: boolean): void {
    const head = answerHead(status, headers, this.#idleMs, isChunked);
    this.headersSent = true;
    this.socket.write(head, 'latin1');
  }

  /** All was written. */
  #end(): void {
    const { socket } = this;
    this.#ended = true;
    this.listener?.onSent();
    if (socket.writableLength > 0)
      socket.write('', () => this.#finish()); // called once the answer is out
    else this.#finish();
  }

  /** Closes the connection, or frees it for the next request. */
  #finish(): void {
    const { socket } = this;
    this.#finished = true;
    setAnswer(socket, null);
    this.close();
    if (this.#isLast) socket.destroySoon();
    else this.#owner.onAnswered();
  }
}

/** node:http keeps there the answer that a connection is busy with. */
function setAnswer(socket: Socket & { _httpMessage?: unknown }, answer: RepeatedResponse | null): void {
  socket._httpMessage = answer;
}
