import type { Socket } from 'node:net';
import { type buildConnector, Client, type Dispatcher, Pool } from 'undici';
import {
  CLOSING_MS,
  IDLE_MS,
  Stopped,
  Upstream,
  type UpstreamCall,
  type UpstreamHandler,
  type UpstreamOptions,
  type UpstreamRequest,
} from './upstream.ts';

/**
 * The upstream over undici's pool: every request in flight has a connection of its own. undici takes a
 * `100 Continue` that nobody asked for as an error, where RFC 9110 (section 15.2) lets it be skipped.
 */
export class UndiciPool extends Upstream {
  readonly #pool: Pool;
  readonly #headers = this.headers.flat();

  constructor(options: UpstreamOptions) {
    super(options);
    const { url, connectMs } = options;
    this.#pool = new Pool(url.origin, {
      connect: { timeout: connectMs },
      factory: (origin, options: Client.Options) => new UndiciConnection(origin, options),
      allowH2: false,
      pipelining: 1,
      headersTimeout: 0, // the gateway keeps its own deadlines
      bodyTimeout: 0,
      keepAliveTimeout: IDLE_MS,
      keepAliveTimeoutThreshold: CLOSING_MS,
    });
  }

  post({ path, requestId, body, handler, traceparent, onSent, headers: more }: UpstreamRequest): void {
    const headers = [...this.#headers, 'x-request-id', requestId, ...more];
    if (traceparent !== undefined) headers.push('traceparent', traceparent);
    const whole = Buffer.concat(body);
    onSent?.(); // undici sends this copy
    const request = { method: 'POST', path: this.basePath + path, headers, body: whole } as const;
    this.#pool.dispatch(request, new UndiciCall(handler));
  }

  destroy(): Promise<void> {
    return this.#pool.destroy(new Stopped('the gateway stops'));
  }
}

/** The socket of a connection, as undici's connector made it. */
interface Held {
  socket: Socket | null;
}

/** A connection of undici's pool that can be closed after an answer, for which undici has no method. */
class UndiciConnection extends Client {
  readonly #held: Held;

  /** @param options with the connector of the pool */
  constructor(origin: URL, options: Client.Options) {
    const held: Held = { socket: null };
    const connect = options.connect as buildConnector.connector;
    super(origin, {
      ...options,
      connect: (target, done) =>
        connect(target, (...result) => {
          held.socket = result[1];
          done(...result);
        }),
    });
    this.#held = held;
  }

  override dispatch(options: Dispatcher.DispatchOptions, call: Dispatcher.DispatchHandler): boolean {
    if (call instanceof UndiciCall) call.closeConnection = () => this.#held.socket?.destroy();
    return super.dispatch(options, call);
  }
}

/** Translates what undici tells of one request for its `UpstreamHandler`. */
class UndiciCall implements Dispatcher.DispatchHandler, UpstreamCall {
  closeConnection: (() => void) | null = null;
  #hasBody = false;
  /** null: nothing more is told. */
  #handler: UpstreamHandler | null;
  #controller: Dispatcher.DispatchController | null = null;

  constructor(handler: UpstreamHandler) {
    this.#handler = handler;
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#handler?.onConnected(this)) return;
    this.#handler = null;
    controller.abort(new Error('no longer wanted'));
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
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
    if (!this.#hasBody) this.closeConnection?.(); // another answer to the same request may follow
    this.#tell(handler, (handler) => handler.onEnd());
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    const handler = this.#handler;
    this.#handler = null;
    this.#tell(handler, (handler) => handler.onError(error));
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
