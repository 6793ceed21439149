import { performance } from 'node:perf_hooks';
import type { buildConnector } from 'undici';
import type { Peer } from './address.ts';
import type { Addresses } from './addresses.ts';
import { Dial } from './dial.ts';
import { type ConnectionPool, FastConnection, FastLines, sharedReads } from './fast-connection.ts';
import { RequestWriter } from './request-writer.ts';
import {
  pathOf,
  Stopped,
  tellFailure,
  Upstream,
  type UpstreamHandler,
  type UpstreamOptions,
  type UpstreamRequest,
} from './upstream.ts';

/** How often connections that were unused for too long are closed. */
const TRIM_MS = 10_000;

/** Makes undici's connector: opens TCP and TLS connections. */
export type ConnectorOf = (
  options: buildConnector.BuildOptions & { readonly onread: object },
) => buildConnector.connector;

/**
 * The upstream over connections of this gateway's own code. Each request in flight has a connection for itself. Free
 * connections are a stack, so that taking one costs the same with two streams open or two thousand.
 */
export class FastPool extends Upstream implements ConnectionPool {
  readonly writer: RequestWriter;
  readonly idleMs: number;
  readonly large = new Set<UpstreamHandler>();
  protected readonly addresses: Addresses<FastLines>;
  /** Of each address: a request's head up to its path, and the part between its path and its id. */
  readonly #heads: readonly (readonly [string, string])[];
  readonly #connect: buildConnector.connector;
  readonly #trimmer = setInterval(() => this.#trim(), TRIM_MS).unref();

  constructor(options: UpstreamOptions, connectorOf: ConnectorOf) {
    super(options);
    const { urls, connectMs, idleMs } = options;
    this.idleMs = idleMs;
    this.writer = new RequestWriter(urls[0].protocol === 'https:');
    this.addresses = this.addressesOf(options, ({ protocol, host, port }, ip) => {
      return new FastLines({ protocol, host, hostname: ip, port });
    });
    this.#heads = urls.map((url) => {
      const headers = this.headersOf(url).map(([name, value]) => `${name}: ${value}`);
      return [`POST ${pathOf(url)}`, ` HTTP/1.1\r\n${headers.join('\r\n')}\r\nx-request-id: `];
    });
    this.#connect = connectorOf({
      timeout: connectMs,
      allowH2: false,
      noDelay: true,
      allowHalfOpen: true,
      onread: sharedReads(),
    });
  }

  /** The number of connections that are open or opening. */
  get connections(): number {
    return this.#lines.reduce((sum, { all }) => sum + all.size, 0);
  }

  get freeConnections(): number {
    return this.#lines.reduce((sum, { free }) => sum + free.length, 0);
  }

  get #lines(): FastLines[] {
    return this.addresses.peers.map(({ lines }) => lines);
  }

  post(request: UpstreamRequest): void {
    const peer = this.addresses.choose();
    const free = peer === null ? null : takeFree(peer.lines);
    if (free === null) this.#dial(request, peer);
    else free.send(request, this.#headOf(request, free.peer));
  }

  async destroy(): Promise<void> {
    clearInterval(this.#trimmer);
    const stopped = new Stopped('the gateway stops');
    this.addresses.close(stopped);
    for (const { all } of this.#lines) for (const connection of all) connection.close(stopped);
  }

  sendAgain(request: UpstreamRequest): void {
    this.#dial(request, this.addresses.choose());
  }

  onFree(connection: FastConnection): void {
    const { lines } = connection.peer;
    if (lines.isRetired) connection.close();
    else lines.free.push(connection);
  }

  onGone(connection: FastConnection): void {
    const { all, free } = connection.peer.lines;
    all.delete(connection);
    const index = free.indexOf(connection);
    if (index >= 0) free.splice(index, 1);
  }

  judge(peer: Peer<FastLines>, status: number, isOptional?: boolean): void {
    this.addresses.judge(peer, status, isOptional);
  }

  #headOf(
    { path, requestId, traceparent, headers }: UpstreamRequest,
    { address }: Peer<FastLines>,
  ): string {
    const [start, fixed] = this.#heads[address.index - 1] as readonly [string, string];
    let head = `${start}${path}${fixed}${requestId}\r\n`;
    if (traceparent !== undefined) head += `traceparent: ${traceparent}\r\n`;
    for (let k = 0; k < headers.length; k += 2) head += `${headers[k]}: ${headers[k + 1]}\r\n`;
    return head;
  }

  /** Sends a request on a connection that is yet to be made. @param first the peer to try first; null: any */
  #dial(request: UpstreamRequest, first: Peer<FastLines> | null): void {
    const dial = new Dial(this.addresses, {
      open: (peer) => this.#open(peer, dial, request),
      onFailed: (error) => tellFailure(request.handler, error),
      onThrown: (error) => request.handler.onThrown(error),
    });
    dial.begin(first);
  }

  #open(peer: Peer<FastLines>, dial: Dial<FastLines>, request: UpstreamRequest): void {
    const onOpened = (error: Error | null): void => {
      if (error !== null) return dial.failed(peer, error);
      if (dial.take(peer)) opened.send(request, this.#headOf(request, peer));
      else opened.release();
    };
    const opened = new FastConnection(this, peer, this.#connect, (error) =>
      dial.guarded(() => onOpened(error)),
    );
    peer.lines.all.add(opened);
  }

  #trim(): void {
    const now = performance.now();
    for (const { free } of this.#lines) {
      for (const connection of free.filter(({ freeUntil }) => freeUntil <= now)) connection.close();
    }
  }
}

/** A free connection that may be used again; null: there is none. */
function takeFree({ free }: FastLines): FastConnection | null {
  for (let found = free.pop(); found !== undefined; found = free.pop()) {
    if (performance.now() < found.freeUntil) return found;
    found.close();
  }
  return null;
}
