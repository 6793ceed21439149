import type { Socket } from 'node:net';
import type { buildConnector, Dispatcher } from 'undici';
import connectorOf from 'undici/lib/core/connect.js';
import Client from 'undici/lib/dispatcher/client.js'; // alone: fetch, WebSocket and the rest are 30 ms of every start

export interface UpstreamOptions {
  /** Base address up to and including its /v1. */
  readonly url: URL;
  /** Master key, sent as a bearer token; null sends none. */
  readonly apiKey: string | null;
  /** After this many milliseconds an attempt to connect is given up; deadlines of the answer are not kept here. */
  readonly connectMs: number;
}

export interface UpstreamHandler extends Dispatcher.DispatchHandler {
  /** Told before anything else which connection answers; it serves others once the answer has ended. */
  onLane?(lane: Lane): void;
}
export type UpstreamController = Dispatcher.DispatchController;

/** How often connections that were not needed since the last look are let go. */
const TRIM_MS = 30_000;

/**
 * The internal model-routing proxy. One POST each; the answer arrives as undici's
 * callbacks on the handler. Nothing of the client's own headers is ever sent. Our request
 * id is, so that the upstream's bill can name the calls of the ledger (0.2 µs).
 *
 * Each request in flight holds a connection of its own. Free ones wait on a stack: taking
 * one costs the same with two streams open or two thousand, where undici's Pool looks
 * through all of them for a free one.
 */
export class Upstream {
  /** What must not be logged: the master key. */
  readonly keys: readonly string[];
  /** What must not be told to clients: the key, and where the upstream is. */
  readonly secrets: readonly string[];
  readonly #origin: string;
  readonly #basePath: string;
  /** The second is the request's id: undici takes what it needs before `dispatch` returns. */
  readonly #headers: string[];
  readonly #clientOptions: Client.Options;
  readonly #connect: buildConnector.connector;
  readonly #all = new Set<Lane>();
  readonly #free: Lane[] = [];
  /** The fewest that were free since the last trim: so many too many. */
  #surplus = 0;
  readonly #trimmer = setInterval(() => this.#trim(), TRIM_MS).unref();

  constructor({ url, apiKey, connectMs }: UpstreamOptions) {
    this.#origin = url.origin;
    this.#basePath = url.pathname.replace(/\/+$/, '');
    this.#headers = ['x-request-id', '', 'content-type', 'application/json', 'accept', '*/*'];
    this.#headers.push('accept-encoding', 'identity');
    if (apiKey !== null) this.#headers.push('authorization', `Bearer ${apiKey}`);
    this.keys = apiKey === null ? [] : [apiKey];
    this.secrets = [...this.keys, url.host, url.hostname];
    this.#clientOptions = {
      pipelining: 1,
      // the gateway's own: these are up to a second late and stand still while a client holds the upstream back
      headersTimeout: 0,
      bodyTimeout: 0,
      allowH2: false,
      keepAliveTimeout: 30_000,
    };
    this.#connect = connectorOf({
      timeout: connectMs,
      allowH2: false,
      noDelay: true,
      highWaterMark: READ_BYTES,
      ...(url.protocol === 'http:' && { onread: sharedReads() }),
    });
  }

  /** Connections open or opening, and of these free ones. */
  get connections(): number {
    return this.#all.size;
  }

  get freeConnections(): number {
    return this.#free.length;
  }

  /**
   * @param path below the base address, such as "/chat/completions"
   * @param body in pieces, sent one after the other
   * @param traceparent the gateway's own, where there is a trace
   */
  post(path: string, requestId: string, body: readonly Buffer[], handler: UpstreamHandler, traceparent?: string): void {
    const lane = this.#take();
    lane.resume(); // whoever had it before may have gone while it was held back
    handler.onLane?.(lane);
    const target = this.#basePath + path;
    const [only] = body;
    let headers = this.#headers;
    headers[1] = requestId;
    if (only === undefined || body.length > 1) {
      const length = body.reduce((sum, piece) => sum + piece.length, 0);
      headers = [...headers, 'content-length', `${length}`];
    }
    if (traceparent !== undefined) headers = [...headers, 'traceparent', traceparent];
    // one buffer takes undici's shortest way; it takes any iterable of buffers too, which its types do not know
    const payload = body.length === 1 ? (only as Buffer) : (body as unknown as Buffer);
    const free = lane.client.dispatch({ method: 'POST', path: target, headers, body: payload }, handler);
    if (free) this.#release(lane); // else it says so by 'drain'
  }

  /** Ends idle connections and waits for those in use. */
  async close(): Promise<void> {
    clearInterval(this.#trimmer);
    await Promise.all([...this.#all].map(({ client }) => client.close()));
  }

  async destroy(): Promise<void> {
    clearInterval(this.#trimmer);
    await Promise.all([...this.#all].map(({ client }) => client.destroy()));
  }

  #take(): Lane {
    const lane = this.#free.pop() ?? this.#open();
    if (this.#free.length < this.#surplus) this.#surplus = this.#free.length;
    lane.free = false;
    return lane;
  }

  #release(lane: Lane): void {
    if (lane.free) return;
    lane.free = true;
    this.#free.push(lane);
  }

  #open(): Lane {
    const lane = new Lane(this.#origin, this.#clientOptions, this.#connect);
    lane.client.on('drain', () => this.#release(lane));
    this.#all.add(lane);
    return lane;
  }

  #trim(): void {
    for (const lane of this.#free.splice(0, this.#surplus)) {
      this.#all.delete(lane);
      void lane.client.close();
    }
    this.#surplus = this.#free.length;
  }
}

/** One connection, or the place for one. */
export class Lane {
  readonly client: Client;
  /** On the stack. */
  free = false;
  #socket: Socket | null = null;
  #held = false;

  constructor(origin: string, options: Client.Options, connect: buildConnector.connector) {
    this.client = new Client(origin, {
      ...options,
      connect: (where, callback) =>
        connect(where, (...outcome) => {
          this.#socket = outcome[1];
          callback(...outcome);
        }),
    });
  }

  /**
   * Reads nothing more, from this very moment. Pausing undici's controller does not do that: it
   * takes two more reads, which a slow client's stream would hold.
   */
  pause(): void {
    this.#held = true;
    this.#socket?.pause();
  }

  resume(): void {
    if (!this.#held) return;
    this.#held = false;
    this.#socket?.resume();
  }
}

/** What is read at once: most of what a stream with a slow client holds. */
const READ_BYTES = 16_384;

/**
 * All connections read into one buffer, and what was read is copied out of it. By itself Node
 * allocates 64 KiB for each read and shrinks it afterwards.
 */
function sharedReads() {
  return {
    buffer: Buffer.allocUnsafeSlow(READ_BYTES),
    callback(this: Socket, bytes: number, buffer: Buffer): boolean {
      const chunk = Buffer.allocUnsafeSlow(bytes); // in Node's pool reads would pin it between small things that last
      buffer.copy(chunk, 0, 0, bytes);
      return this.push(chunk);
    },
  };
}
