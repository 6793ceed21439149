import type { Socket } from 'node:net';
import type { BareRequest } from './fast-request.ts';
import { BareResponse } from './fast-response.ts';
import type { RequestHead } from './request-head.ts';

/** The head that a connection's requests repeat, as Node's parser read it. */
export interface KnownHead {
  readonly method: string;
  readonly url: string;
  readonly rawHeaders: readonly string[];
  readonly head: RequestHead;
}

/** A request whose head repeats a known one and whose body came with it, both in one piece. */
export class RepeatedRequest {
  readonly method: string;
  readonly url: string;
  /** As the known head has them, its key included. */
  readonly rawHeaders: readonly string[];
  readonly head: RequestHead;
  readonly httpVersionMajor = 1;
  readonly httpVersionMinor = 1;
  readonly complete = true;
  readonly socket: Socket;
  #body: Buffer;

  /** @param token of the Authorization field, where it is another one than in the known head */
  constructor(socket: Socket, known: KnownHead, token: string | null, body: Buffer) {
    this.socket = socket;
    this.method = known.method;
    this.url = known.url;
    this.#body = body;
    this.rawHeaders = known.rawHeaders;
    this.head = token === null ? known.head : known.head.withBearer(token);
  }

  /** Its body, and lets go of it: a stream lasts longer than it is needed. */
  takeBody(): Buffer {
    const body = this.#body;
    this.#body = NONE;
    return body;
  }
}

const NONE = Buffer.alloc(0);

/** Whose connection it is: told when the answer is out, and the connection free again. */
export interface AnswerOwner {
  readonly socket: Socket;
  readonly keepAliveMs: number;
  onAnswered(): void;
}

/**
 * The response to a repeated request, of which node:http knows nothing. The commonest answer
 * goes straight to the socket; with any other one it becomes a response as Node's own are, and
 * does behind it what Node's server does for its own.
 */
export class RepeatedResponse extends BareResponse {
  readonly #owner: AnswerOwner;
  #attached = false;

  constructor(req: RepeatedRequest, owner: AnswerOwner) {
    super(req as unknown as BareRequest); // of which it reads the method and the version
    (this as unknown as Internals)._keepAliveTimeout = owner.keepAliveMs;
    this.#owner = owner;
    claim(owner.socket, this);
  }

  override sendJson(requestId: string, body: string): void {
    const { socket } = this.#owner;
    const head = this.ownHead(requestId, body.length);
    this.finished = true;
    socket.write(head + body, 'latin1');
    this.#holdsSocket(socket.writableLength > 0 ? socket : null);
  }

  /** Behind `sendJson`, when whoever sent it has noted so. */
  override sent(): void {
    const { socket } = this;
    if (socket === null) this.#over();
    else socket.write('', () => this.#over()); // comes behind
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

  #over(): void {
    claim(this.#owner.socket, null);
    this.close();
    this.#free();
  }

  /** The connection closes behind it, or is free. */
  #free(): void {
    if ((this as unknown as Internals)._last) this.#owner.socket.destroySoon();
    else this.#owner.onAnswered();
  }

  #attach(): void {
    if (this.#attached) return;
    this.#attached = true;
    const { socket } = this.#owner;
    claim(socket, null);
    this.assignSocket(socket);
    this.on('finish', () => {
      this.detachSocket(socket);
      process.nextTick(() => this.close());
      this.#free();
    });
  }

  /** While bytes wait there, as `writableLength` tells. */
  #holdsSocket(socket: Socket | null): void {
    (this as { socket: Socket | null }).socket = socket;
  }
}

interface Internals {
  _keepAliveTimeout: number;
  _closed: boolean;
  _last: boolean;
}

/** node:http looks there for the answer a connection is busy with. */
function claim(socket: Socket & { _httpMessage?: unknown }, answer: RepeatedResponse | null): void {
  socket._httpMessage = answer;
}
