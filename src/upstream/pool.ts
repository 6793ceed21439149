import { type Dispatcher, Pool } from 'undici';

export interface UpstreamOptions {
  /** Base address up to and including its /v1. */
  readonly url: URL;
  /** Master key, sent as a bearer token; null sends none. */
  readonly apiKey: string | null;
  /** How long the answer may take to begin, and to pause, in milliseconds. */
  readonly firstByteMs: number;
  readonly idleMs: number;
}

export type UpstreamHandler = Dispatcher.DispatchHandler;
export type UpstreamController = Dispatcher.DispatchController;

/**
 * The internal model-routing proxy. One POST each; the answer arrives as undici's
 * callbacks on the handler. Nothing of the client's own headers is ever sent.
 */
export class Upstream {
  readonly #pool: Pool;
  readonly #basePath: string;
  readonly #headers: string[];

  constructor({ url, apiKey, firstByteMs, idleMs }: UpstreamOptions) {
    this.#pool = new Pool(url.origin, {
      connections: null, // one connection per request in flight: a stream holds its own
      pipelining: 1,
      headersTimeout: firstByteMs,
      bodyTimeout: idleMs,
      keepAliveTimeout: 30_000,
      connect: { timeout: Math.min(firstByteMs, 10_000), noDelay: true },
    });
    this.#basePath = url.pathname.replace(/\/+$/, '');
    this.#headers = ['content-type', 'application/json', 'accept', '*/*', 'accept-encoding', 'identity'];
    if (apiKey !== null) this.#headers.push('authorization', `Bearer ${apiKey}`);
  }

  /**
   * @param path below the base address, such as "/chat/completions"
   * @param body in pieces, sent one after the other
   */
  post(path: string, body: readonly Buffer[], handler: UpstreamHandler): void {
    const target = this.#basePath + path;
    const [only] = body;
    if (only !== undefined && body.length === 1) {
      // one buffer takes undici's shortest way
      this.#pool.dispatch({ method: 'POST', path: target, headers: this.#headers, body: only }, handler);
      return;
    }
    const length = body.reduce((sum, piece) => sum + piece.length, 0);
    const headers = [...this.#headers, 'content-length', `${length}`];
    // undici takes any iterable of buffers; its types do not know
    this.#pool.dispatch({ method: 'POST', path: target, headers, body: body as unknown as Buffer }, handler);
  }

  /** Ends idle connections and waits for those in use. */
  close(): Promise<void> {
    return this.#pool.close();
  }

  destroy(): Promise<void> {
    return this.#pool.destroy();
  }
}
