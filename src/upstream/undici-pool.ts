import type { Socket } from 'node:net';
import { type buildConnector, Client, type Dispatcher, Pool } from 'undici';
import type { Lines, Peer } from './address.ts';
import type { Addresses } from './addresses.ts';
import { Dial } from './dial.ts';
import {
  CLOSING_MS,
  PROBE,
  pathOf,
  probeDelay,
  Stopped,
  tellFailure,
  Upstream,
  type UpstreamCall,
  type UpstreamHandler,
  type UpstreamOptions,
  type UpstreamRequest,
  wasRefused,
} from './upstream.ts';

/** The connections to one peer. */
class UndiciLines implements Lines {
  readonly pool: Pool;
  busy = 0;
  readonly #open: () => Pool;
  #fresh: Pool | null = null;

  constructor(open: () => Pool) {
    this.#open = open;
    this.pool = open();
  }

  /** For requests that are sent again: none of its connections is used twice. */
  get fresh(): Pool {
    this.#fresh ??= this.#open();
    return this.#fresh;
  }

  retire(): void {
    for (const pool of this.#pools) void pool.close();
  }

  async destroy(reason: Error): Promise<void> {
    await Promise.all(this.#pools.map((pool) => pool.destroy(reason)));
  }

  get #pools(): Pool[] {
    return this.#fresh === null ? [this.pool] : [this.pool, this.#fresh];
  }
}

/**
 * The upstream over undici's pools: every request in flight has a connection of its own. undici takes a
 * `100 Continue` that nobody asked for as an error, where RFC 9110 (section 15.2) lets it be skipped.
 */
export class UndiciPool extends Upstream {
  protected readonly addresses: Addresses<UndiciLines>;
  /** The headers of every request to each address, without its id and length. */
  readonly #headers: readonly (readonly string[])[];

  constructor(options: UpstreamOptions) {
    super(options);
    const { urls, connectMs, idleMs } = options;
    this.#headers = urls.map((url) => this.headersOf(url).flat());
    const open = (url: URL, ip: string): Pool =>
      new Pool(url.origin, {
        connect: { timeout: connectMs, allowHalfOpen: true },
        factory: (origin, options: Client.Options) => new UndiciConnection(origin, ip, options),
        allowH2: false,
        pipelining: 1,
        headersTimeout: 0, // the gateway keeps its own deadlines
        bodyTimeout: 0,
        keepAliveTimeout: idleMs,
        keepAliveMaxTimeout: idleMs,
        keepAliveTimeoutThreshold: CLOSING_MS,
      });
    this.addresses = this.addressesOf(options, (url, ip) => new UndiciLines(() => open(url, ip)));
  }

  post({ body, onSent, ...request }: UpstreamRequest): void {
    const whole = Buffer.concat(body);
    onSent?.(); // undici sends this copy
    this.#dial(request, whole, false);
  }

  /** @param again whether the request is sent again, on a fresh connection */
  #dial(request: Omit<UpstreamRequest, 'body' | 'onSent'>, body: Buffer, again: boolean): void {
    const { path, requestId, traceparent, handler, headers: more } = request;
    const trace = traceparent === undefined ? [] : ['traceparent', traceparent];
    const sendAgain = again ? null : () => this.#dial(request, body, true);
    const dial = new Dial(this.addresses, {
      open: (peer) => {
        const { lines, address } = peer;
        const { url } = address;
        const headers = [
          ...(this.#headers[address.index - 1] ?? []),
          'x-request-id',
          requestId,
          ...more,
          ...trace,
        ];
        const sent = {
          method: 'POST',
          path: pathOf(url) + path,
          headers,
          body,
          ...(again && { reset: true }),
        } as const;
        (again ? lines.fresh : lines.pool).dispatch(
          sent,
          new UndiciCall(handler, peer, dial, this.addresses, sendAgain),
        );
      },
      onFailed: (error) => tellFailure(handler, error),
      onThrown: (error) => handler.onThrown(error),
    });
    const first = this.addresses.choose();
    dial.begin(first, again || first === null || first.lines.pool.stats.free === 0);
  }

  async destroy(): Promise<void> {
    const stopped = new Stopped('the gateway stops');
    this.addresses.close(stopped);
    await Promise.all(this.addresses.peers.map(({ lines }) => lines.destroy(stopped)));
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
        if (!socket.destroyed)
          socket.write(PROBE, (error) => void (error ?? socket.destroy(reason)));
      }, probeDelay(connectMs));
      return socket;
    };
  });
}

/** A connection of undici's pool that can be closed after an answer, for which undici has no method. */
class UndiciConnection extends Client {
  readonly #held: Held;

  /** @param ip the IP to connect to. @param options with the connector of the pool */
  constructor(origin: URL, ip: string, options: Client.Options) {
    const held: Held = { socket: null, call: null };
    const connect = options.connect as buildConnector.connector;
    super(origin, {
      ...options,
      connect: (target, done) => {
        const began = performance.now();
        connect({ ...target, hostname: ip }, (...result) => {
          held.socket = result[1] ?? null; // undefined with an error
          if (held.socket !== null) probeWhereStale(held, held.socket, performance.now() - began);
          done(...result);
        });
      },
    });
    this.#held = held;
  }

  override dispatch(
    options: Dispatcher.DispatchOptions,
    call: Dispatcher.DispatchHandler,
  ): boolean {
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
  readonly #peer: Peer<UndiciLines>;
  readonly #dial: Dial<UndiciLines>;
  readonly #addresses: Addresses<UndiciLines>;
  #status = 0;
  /** `Addresses.judge` was not told yet. */
  #isUnjudged = true;
  #again: (() => void) | null;

  /** @param again sends the request on a fresh connection; null: this is one */
  constructor(
    handler: UpstreamHandler,
    peer: Peer<UndiciLines>,
    dial: Dial<UndiciLines>,
    addresses: Addresses<UndiciLines>,
    again: (() => void) | null,
  ) {
    this.#handler = handler;
    this.#addresses = addresses;
    this.#peer = peer;
    this.#dial = dial;
    this.#again = again;
    peer.lines.busy++;
  }

  /** Whether no byte of an answer has come yet to a request on a connection that is used again. */
  get isUnheard(): boolean {
    return (
      this.#handler !== null &&
      this.#readBefore > 0 &&
      this.held?.socket?.bytesRead === this.#readBefore
    );
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    const { held } = this;
    if (held !== null) held.call = this;
    this.#readBefore = held?.socket?.bytesRead ?? 0;
    let isWanted: boolean | undefined;
    this.#dial.guarded(() => {
      isWanted = this.#dial.take(this.#peer) && this.#handler?.onConnected(this);
    });
    if (isWanted) return;
    this.#handler = null;
    controller.abort(new Error('no longer wanted'));
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    this.#again = null;
    this.#peer.heard = true;
    if (status < 200) return;
    this.#status = status;
    const head = {
      status,
      contentType: only(headers['content-type']),
      contentEncoding: only(headers['content-encoding']),
      contentLength: Number(only(headers['content-length']) ?? -1),
      retryAfter: only(headers['retry-after']),
      responseCost: only(headers['x-litellm-response-cost']),
    };
    this.#tell(this.#handler, (handler) => handler?.onHead(head));
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#hasBody = true;
    this.#peer.heard = true;
    this.#tell(this.#handler, (handler) => handler?.onData(chunk, false), this.#status);
  }

  onResponseEnd(): void {
    this.#peer.lines.busy--;
    const handler = this.#handler;
    this.#handler = null;
    if (!this.#hasBody) this.held?.socket?.destroy(); // another answer to the same request may follow
    this.#tell(handler, (handler) => handler?.onEnd(), this.#status);
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    this.#peer.lines.busy--;
    if (this.#controller === null)
      return this.#dial.guarded(() => this.#dial.failed(this.#peer, error));
    const handler = this.#handler;
    const again = this.isUnheard && wasRefused(error) ? this.#again : null;
    this.#handler = null;
    const tell = (handler: UpstreamHandler | null): void => {
      if (again === null) handler?.onError(error);
      else if (handler?.onStale()) again();
    };
    this.#tell(handler, tell, handler !== null && again === null ? 0 : null);
  }

  /** @param status by which the address is judged, unless it was before; null: by none */
  #tell(
    handler: UpstreamHandler | null,
    tell: (handler: UpstreamHandler | null) => void,
    status: number | null = null,
  ): void {
    try {
      const isUnjudged = status !== null && this.#isUnjudged;
      if (isUnjudged) this.#isUnjudged = false;
      if (isUnjudged) this.#addresses.judge(this.#peer, status, handler?.isOptional);
      tell(handler);
    } catch (error) {
      this.abort();
      handler?.onThrown(error);
    }
  }

  pause(): void {
    if (this.#handler !== null) this.#controller?.pause();
  }

  resume(): void {
    if (this.#handler !== null) this.#controller?.resume();
  }

  leave(): void {} // its reads are those of Node's streams

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
