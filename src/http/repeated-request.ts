import type { Socket } from 'node:net';
import type { BufferPool } from '../runtime/buffer-pool.ts';
import type { ClientRequest } from './exchange.ts';
import type { FastRequest } from './fast-request.ts';
import { FastResponse } from './fast-response.ts';
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

/** The fields of node:http that a response it does not know of has to keep. */
interface Internals {
  _keepAliveTimeout: number;
  _closed: boolean;
  _last: boolean;
}

/**
 * The response to a repeated request, of which Node's server does not know. A whole JSON answer is
 * written straight to the socket. For any other answer the response attaches to the socket as
 * Node's own do, and afterwards does what Node's server does after its own.
 */
export class RepeatedResponse extends FastResponse {
  readonly #owner: AnswerOwner;
  #attached = false;

  constructor(req: RepeatedRequest, owner: AnswerOwner) {
    super(req as unknown as FastRequest); // of which Node reads the method and the version
    (this as unknown as Internals)._keepAliveTimeout = owner.keepAliveMs;
    this.buffers = owner.buffers;
    this.#owner = owner;
    setAnswer(owner.socket, this);
  }

  override sendJson(requestId: string, body: string, cost: string | null): void {
    const { socket } = this.#owner;
    const head = this.makeHead(requestId, body.length, cost);
    this.finished = true;
    socket.write(head + body, 'latin1');
    const waits = socket.writableLength > 0;
    if (waits) this.#holdSocket(socket);
    this.listener?.onSent();
    if (waits)
      socket.write('', () => this.#finish()); // called once the answer is out
    else this.#finish();
  }

  override writeHead(...args: unknown[]): this {
    this.#attach();
    return (super.writeHead as (...args: unknown[]) => this)(...args);
  }

  override destroy(error?: Error): this {
    this.#attach();
    return super.destroy(error);
  }

  /** The connection closed, or the answer is out. */
  close(): void {
    const internals = this as unknown as Internals;
    if (internals._closed) return;
    internals._closed = true;
    this.destroyed = true;
    this.emit('close');
  }

  #finish(): void {
    setAnswer(this.#owner.socket, null);
    this.close();
    this.#release();
  }

  /** Closes the connection, or frees it for the next request. */
  #release(): void {
    if ((this as unknown as Internals)._last) this.#owner.socket.destroySoon();
    else this.#owner.onAnswered();
  }

  #attach(): void {
    if (this.#attached) return;
    this.#attached = true;
    const { socket } = this.#owner;
    setAnswer(socket, null);
    this.assignSocket(socket);
    this.on('finish', () => {
      this.detachSocket(socket);
      process.nextTick(() => this.close());
      this.#release();
    });
  }

  /** `writableLength` counts the bytes that wait in this socket. */
  #holdSocket(socket: Socket): void {
    (this as { socket: Socket | null }).socket = socket;
  }
}

/** node:http keeps there the answer that a connection is busy with. */
function setAnswer(socket: Socket & { _httpMessage?: unknown }, answer: RepeatedResponse | null): void {
  socket._httpMessage = answer;
}
