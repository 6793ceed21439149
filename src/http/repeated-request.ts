import type { Socket } from 'node:net';
import type { BufferPool } from '../runtime/buffer-pool.ts';
import type { ClientRequest, ClientResponse, ResponseListener, ResponseStream } from './exchange.ts';
import type { FastRequest } from './fast-request.ts';
import { FastResponse, jsonHead } from './fast-response.ts';
import type { RequestHead } from './request-head.ts';

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

/** The fields of node:http that are set here. */
interface Internals {
  _keepAliveTimeout: number;
  _closed: boolean;
  _last: boolean;
}

/**
 * The response to a repeated request, of which Node's server does not know. A whole JSON answer is written straight to
 * the socket: making a response of Node's takes a microsecond. Any other answer gets one, which is attached to the
 * socket as Node's server does, and afterwards done what that server does after its own.
 */
export class RepeatedResponse implements ClientResponse {
  destroyed = false;
  /** The connection closes after this answer; Node sets it when the client has ended its side. */
  _last = false;
  readonly #req: RepeatedRequest;
  readonly #owner: AnswerOwner;
  #listener: ResponseListener | null = null;
  /** A whole JSON answer was written. */
  #written = false;
  #closed = false;
  #response: FastResponse | null = null;

  constructor(req: RepeatedRequest, owner: AnswerOwner) {
    this.#req = req;
    this.#owner = owner;
    setAnswer(owner.socket, this);
  }

  get headersSent(): boolean {
    return this.#response?.headersSent ?? this.#written;
  }

  get writableFinished(): boolean {
    return this.#response?.writableFinished ?? (this.#written && this.writableLength === 0);
  }

  get writableLength(): number {
    return this.#response?.writableLength ?? (this.#written ? this.#owner.socket.writableLength : 0);
  }

  listen(listener: ResponseListener): void {
    this.#listener = listener;
  }

  closeAfter(): void {
    this._last = true;
    this.#response?.closeAfter();
  }

  sendJson(requestId: string, body: string, cost: string | null): void {
    const { socket, keepAliveMs } = this.#owner;
    this.#written = true;
    socket.write(jsonHead(requestId, body.length, cost, this._last ? null : keepAliveMs) + body, 'latin1');
    this.#listener?.onSent();
    if (socket.writableLength > 0)
      socket.write('', () => this.#finish()); // called once the answer is out
    else this.#finish();
  }

  send(status: number, headers: readonly string[], body: Buffer | string): void {
    this.#attached().send(status, headers, body);
  }

  openStream(headers: readonly string[], onDrain: () => void): ResponseStream {
    return this.#attached().openStream(headers, onDrain);
  }

  writeContinue(): void {
    this.#attached().writeContinue();
  }

  destroy(): void {
    this.destroyed = true;
    this.#owner.socket.destroy(); // `close` follows
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
    this.#listener?.onClose();
  }

  #finish(): void {
    setAnswer(this.#owner.socket, null);
    this.close();
    this.#release();
  }

  /** Closes the connection, or frees it for the next request. */
  #release(): void {
    if (this._last) this.#owner.socket.destroySoon();
    else this.#owner.onAnswered();
  }

  /** A response of Node's on the same socket. */
  #attached(): FastResponse {
    if (this.#response !== null) return this.#response;
    const { socket, keepAliveMs, buffers } = this.#owner;
    const response = new FastResponse(this.#req as unknown as FastRequest); // of which Node reads the method and the version
    const internals = response as unknown as Internals;
    this.#response = response;
    internals._keepAliveTimeout = keepAliveMs;
    response.shouldKeepAlive = !this._last;
    response.buffers = buffers;
    response.listener = this.#listener;
    setAnswer(socket, null);
    response.assignSocket(socket);
    response.on('close', () => this.close());
    response.on('finish', () => {
      response.detachSocket(socket);
      this._last = internals._last;
      process.nextTick(() => this.close());
      this.#release();
    });
    return response;
  }
}

/** node:http keeps there the answer that a connection is busy with. */
function setAnswer(socket: Socket & { _httpMessage?: unknown }, answer: RepeatedResponse | null): void {
  socket._httpMessage = answer;
}
