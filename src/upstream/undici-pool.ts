import type { Socket } from 'node:net';
import { type buildConnector, Client, type Dispatcher, Pool } from 'undici';
import {
  CLOSING_MS,
  PROBE,
  probeDelay,
  Stopped,
  Upstream,
  type UpstreamCall,
  type UpstreamHandler,
  type UpstreamOptions,
  type UpstreamRequest,
  wasRefused,
} from './upstream.ts';

/**
 * The upstream over undici's pool: every request in flight has a connection of its own. undici takes a
 * `100 Continue` that nobody asked for as an error, where RFC 9110 (section 15.2) lets it be skipped.
 */
export class UndiciPool extends Upstream {
  readonly #pool: Pool;
  /** For requests that are sent again: none of its connections is used twice. null: there were none. */
  #fresh: Pool | null = null;
  readonly #open: () => Pool;
  readonly #headers = this.headers.flat();

  constructor(options: UpstreamOptions) {
    super(options);
    const { url, connectMs, idleMs } = options;
    this.#open = () =>
      new Pool(url.origin, {
        connect: { timeout: connectMs, allowHalfOpen: true },
        factory: (origin, options: Client.Options) => new UndiciConnection(origin, options),
        allowH2: false,
        pipelining: 1,
        headersTimeout: 0, // the gateway keeps its own deadlines
        bodyTimeout: 0,
        keepAliveTimeout: idleMs,
        keepAliveMaxTimeout: idleMs,
        keepAliveTimeoutThreshold: CLOSING_MS,
      });
    this.#pool = this.#open();
  }

  post({ path, requestId, body, handler, traceparent, onSent, headers: more }: UpstreamRequest): void {
    const headers = [...this.#headers, 'x-request-id', requestId, ...more];
    if (traceparent !== undefined) headers.push('traceparent', traceparent);
    const whole = Buffer.concat(body);
    onSent?.(); // undici sends this copy
    const request = { method: 'POST', path: this.basePath + path, headers, body: whole } as const;
    const again = (): void => {
      this.#fresh ??= this.#open();
      this.#fresh.dispatch({ ...request, reset: true }, new UndiciCall(handler, null));
    };
    this.#pool.dispatch(request, new UndiciCall(handler, again));
  }

  async destroy(): Promise<void> {
    const stopped = new Stopped('the gateway stops');
    await Promise.all([this.#pool.destroy(stopped), this.#fresh?.destroy(stopped)]);
  }
}

/** The socket of a connection, as undici's connector made it. */
interface Held {
  socket: Socket | null;
  /** The call whose answer it awaits or reads. */
  call: UndiciCall | null;
}

/**
 * Lets undici destroy a connection that the other side closed before a byte of an answer only after it was asked whether
 * the request was refused: undici then gets the error of the probe. As in `FastConnection`.
 */
function probeWhereStale(held: Held, socket: Socket, connectMs: number): void {
  socket.once('end', () => {
    if (!held.call?.isUnheard) return;
    const { destroy } = socket;
    socket.destroy = (reason) => {
      socket.destroy = destroy;
      setTimeout(() => {
        if (!socket.destroyed) socket.write(PROBE, (error) => void (error ?? socket.destroy(reason)));
      }, probeDelay(connectMs));
      return socket;
    };
  });
}

/** A connection of undici's pool that can be closed after an answer, for which undici has no method. */
class UndiciConnection extends Client {
  readonly #held: Held;

  /** @param options with the connector of the pool */
  constructor(origin: URL, options: Client.Options) {
    const held: Held = { socket: null, call: null };
    const connect = options.connect as buildConnector.connector;
    super(origin, {
      ...options,
      connect: (target, done) => {
        const began = performance.now();
        connect(target, (...result) => {
          held.socket = result[1] ?? null; // undefined with an error
          if (held.socket !== null) probeWhereStale(held, held.socket, performance.now() - began);
          done(...result);
        });
      },
    });
    this.#held = held;
  }

  override dispatch(options: Dispatcher.DispatchOptions, call: Dispatcher.DispatchHandler): boolean {
    if (call instanceof UndiciCall) call.held = this.#held;
    return super.dispatch(options, call);
  }
}

/** Translates what undici tells of one request for its `UpstreamHandler`. */
class UndiciCall implements Dispatcher.DispatchHandler, UpstreamCall {
  held: Held | null = null;
  /** Bytes that the connection had read when this request began. */
  #readBefore = 0;
  #hasBody = false;
  /** null: nothing more is told. */
  #handler: UpstreamHandler | null;
  #controller: Dispatcher.DispatchController | null = null;
  #again: (() => void) | null;

  /** @param again sends the request on a fresh connection; null: this is one */
  constructor(handler: UpstreamHandler, again: (() => void) | null) {
    this.#handler = handler;
    this.#again = again;
  }

  /** Whether no byte of an answer has come yet to a request on a connection that is used again. */
  get isUnheard(): boolean {
    return this.#handler !== null && this.#readBefore > 0 && this.held?.socket?.bytesRead === this.#readBefore;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    const { held } = this;
    if (held !== null) held.call = this;
    this.#readBefore = held?.socket?.bytesRead ?? 0;
    if (this.#handler?.onConnected(this)) return;
    this.#handler = null;
    controller.abort(new Error('no longer wanted'));
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    this.#again = null;
    if (status < 200) return;
    const head = {
      status,
      contentType: only(headers['content-type']),
      contentEncoding: only(headers['content-encoding']),
      retryAfter: only(headers['retry-after']),
      responseCost: only(headers['x-litellm-response-cost']),
    };
    this.#tell(this.#handler, (handler) => handler.onHead(head));
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#hasBody = true;
    this.#tell(this.#handler, (handler) => handler.onData(chunk, false));
  }

  onResponseEnd(): void {
    const handler = this.#handler;
    this.#handler = null;
    if (!this.#hasBody) this.held?.socket?.destroy(); // another answer to the same request may follow
    this.#tell(handler, (handler) => handler.onEnd());
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    const handler = this.#handler;
    const again = this.isUnheard && wasRefused(error) ? this.#again : null;
    this.#handler = null;
    this.#tell(handler, (handler) => {
      if (again === null) handler.onError(error);
      else if (handler.onStale()) again();
    });
  }

  #tell(handler: UpstreamHandler | null, tell: (handler: UpstreamHandler) => void): void {
    if (handler === null) return;
    try {
      tell(handler);
    } catch (error) {
      this.abort();
      handler.onThrown(error);
    }
  }

  pause(): void {
    if (this.#handler !== null) this.#controller?.pause();
  }

  resume(): void {
    if (this.#handler !== null) this.#controller?.resume();
  }

  abort(): void {
    if (this.#handler === null) return;
    this.#handler = null;
    this.#controller?.abort(new Error('given up'));
  }
}

/** The value of a header: undefined where it is missing, the last one where it is repeated. */
function only(value: string | string[] | undefined): string | undefined {
  return typeof value === 'object' ? value.at(-1) : value;
}
