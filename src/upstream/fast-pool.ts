import { performance } from 'node:perf_hooks';
import type { buildConnector } from 'undici';
import { type ConnectionPool, FastConnection, sharedReads } from './fast-connection.ts';
import { RequestWriter } from './request-writer.ts';
import { Stopped, Upstream, type UpstreamOptions, type UpstreamRequest } from './upstream.ts';

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
  /** The part of a request's head between its path and its id. */
  readonly #head: string;
  readonly #where: buildConnector.Options;
  readonly #connect: buildConnector.connector;
  readonly #all = new Set<FastConnection>();
  readonly #free: FastConnection[] = [];
  readonly #trimmer = setInterval(() => this.#trim(), TRIM_MS).unref();

  constructor(options: UpstreamOptions, connectorOf: ConnectorOf) {
    super(options);
    const { url, connectMs } = options;
    this.idleMs = options.idleMs;
    this.writer = new RequestWriter(url.protocol === 'https:');
    const headers = this.headers.map(([name, value]) => `${name}: ${value}`);
    this.#head = ` HTTP/1.1\r\n${headers.join('\r\n')}\r\nx-request-id: `;
    this.#where = {
      protocol: url.protocol,
      host: url.host,
      hostname: url.hostname.replace(/^\[|\]$/g, ''), // of an IPv6 address
      port: url.port,
    };
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
    return this.#all.size;
  }

  get freeConnections(): number {
    return this.#free.length;
  }

  post(request: UpstreamRequest): void {
    const { path, requestId, traceparent, headers } = request;
    let head = `POST ${this.basePath}${path}${this.#head}${requestId}\r\n`;
    if (traceparent !== undefined) head += `traceparent: ${traceparent}\r\n`;
    for (let k = 0; k < headers.length; k += 2) head += `${headers[k]}: ${headers[k + 1]}\r\n`;
    this.#take().send(request, head);
  }

  async destroy(): Promise<void> {
    clearInterval(this.#trimmer);
    for (const connection of this.#all) connection.close(new Stopped('the gateway stops'));
  }

  sendAgain(request: UpstreamRequest, head: string): void {
    this.#open().send(request, head);
  }

  onFree(connection: FastConnection): void {
    this.#free.push(connection);
  }

  onGone(connection: FastConnection): void {
    this.#all.delete(connection);
    const index = this.#free.indexOf(connection);
    if (index >= 0) this.#free.splice(index, 1);
  }

  #take(): FastConnection {
    for (let free = this.#free.pop(); free !== undefined; free = this.#free.pop()) {
      if (performance.now() < free.freeUntil) return free;
      free.close();
    }
    return this.#open();
  }

  #open(): FastConnection {
    const opened = new FastConnection(this, this.#connect, this.#where);
    this.#all.add(opened);
    return opened;
  }

  #trim(): void {
    const now = performance.now();
    for (const connection of this.#free.filter(({ freeUntil }) => freeUntil <= now)) connection.close();
  }
}
