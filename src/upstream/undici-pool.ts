import { type Dispatcher, Pool } from 'undici';
import symbols, { type Connected, type Parser } from 'undici/lib/core/symbols.js';
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

const CONTINUE = 100;
const PROCESSING = 102;

/** The upstream over undici's pool: every request in flight has a connection of its own. */
export class UndiciPool extends Upstream {
  readonly #pool: Pool;
  readonly #headers = this.headers.flat();

  constructor(options: UpstreamOptions) {
    super(options);
    const { url, connectMs } = options;
    this.#pool = new Pool(url.origin, {
      connect: { timeout: connectMs },
      allowH2: false,
      pipelining: 1,
      headersTimeout: 0, // the gateway keeps its own deadlines
      bodyTimeout: 0,
      keepAliveTimeout: IDLE_MS,
      keepAliveTimeoutThreshold: CLOSING_MS,
    });
    this.#pool.on('connect', (_origin, targets) => {
      const client = targets.at(-1) as unknown as Connected;
      correct(client[symbols.kSocket][symbols.kParser]);
    });
  }

  post({ path, requestId, body, handler, traceparent, onSent }: UpstreamRequest): void {
    const headers = [...this.#headers, 'x-request-id', requestId];
    if (traceparent !== undefined) headers.push('traceparent', traceparent);
    const whole = Buffer.concat(body);
    onSent?.(); // undici sends the copy
    const request = { method: 'POST', path: this.basePath + path, headers, body: whole } as const;
    this.#pool.dispatch(request, new UndiciCall(handler));
  }

  destroy(): void {
    void this.#pool.destroy(new Stopped('the gateway stops'));
  }
}

/**
 * Changes what undici's reader of answers makes of two kinds. It takes `100 Continue` for an error: it is told
 * of another interim answer, which it skips (RFC 9110, section 15.2). And it uses a connection again after an
 * answer without a body, although another answer may be on its way.
 */
function correct(parser: Parser): void {
  const { onHeadersComplete, onMessageComplete } = parser;
  parser.onHeadersComplete = (status, ...rest) =>
    onHeadersComplete.call(parser, status === CONTINUE ? PROCESSING : status, ...rest);
  parser.onMessageComplete = () => {
    if (parser.statusCode >= 200 && parser.bytesRead === 0) parser.shouldKeepAlive = false;
    return onMessageComplete.call(parser);
  };
}

/** One request of undici's, told to a handler of ours. */
class UndiciCall implements Dispatcher.DispatchHandler, UpstreamCall {
  /** null once nothing more is to be called. */
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
    this.#handler?.onHead({
      status,
      contentType: only(headers['content-type']),
      contentEncoding: only(headers['content-encoding']),
      retryAfter: only(headers['retry-after']),
    });
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#handler?.onData(chunk, false);
  }

  onResponseEnd(): void {
    const handler = this.#handler;
    this.#handler = null;
    handler?.onEnd();
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    const handler = this.#handler;
    this.#handler = null;
    handler?.onError(error);
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

/** The value of a header; undefined where it is missing, the last where it is repeated. */
function only(value: string | string[] | undefined): string | undefined {
  return typeof value === 'object' ? value.at(-1) : value;
}
