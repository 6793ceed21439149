import { performance } from 'node:perf_hooks';
import type { buildConnector } from 'undici';
import connectorOf from 'undici/lib/core/connect.js'; // alone: all of undici is 30 ms of every start
import { Lane, type LaneHome, Stopped, sharedReads, type UpstreamHandler } from './connection.ts';
import { Desk } from './request-writer.ts';

export interface UpstreamOptions {
  /** Base address up to and including its /v1. */
  readonly url: URL;
  /** Master key, sent as a bearer token; null sends none. */
  readonly apiKey: string | null;
  /** After this many milliseconds an attempt to connect is given up; deadlines of the answer are not kept here. */
  readonly connectMs: number;
}

/** How often connections that were not used for long are closed. */
const TRIM_MS = 10_000;

/**
 * The internal model-routing proxy. One POST each. Nothing of the client's own headers is
 * ever sent. Our request id is, so that the upstream's bill can name the calls of the ledger.
 *
 * Each request in flight holds a connection of its own, opened by undici's connector. Free
 * ones wait on a stack: taking one costs the same with two streams open or two thousand.
 */
export class Upstream implements LaneHome {
  /** What must not be logged: the master key. */
  readonly keys: readonly string[];
  /** What must not be told to clients: the key, and where the upstream is. */
  readonly secrets: readonly string[];
  readonly desk: Desk;
  readonly #basePath: string;
  /** The head of a request behind its path, up to its id. */
  readonly #head: string;
  readonly #where: buildConnector.Options;
  readonly #connect: buildConnector.connector;
  readonly #all = new Set<Lane>();
  readonly #free: Lane[] = [];
  readonly #trimmer = setInterval(() => this.#trim(), TRIM_MS).unref();

  constructor({ url, apiKey, connectMs }: UpstreamOptions) {
    this.desk = new Desk(url.protocol === 'https:');
    this.#basePath = url.pathname.replace(/\/+$/, '');
    const headers = [`host: ${url.host}`, 'content-type: application/json', 'accept: */*', 'accept-encoding: identity'];
    if (apiKey !== null) headers.push(`authorization: Bearer ${apiKey}`);
    this.#head = ` HTTP/1.1\r\n${headers.join('\r\n')}\r\nx-request-id: `;
    this.keys = apiKey === null ? [] : [apiKey];
    this.secrets = [...this.keys, url.host, url.hostname];
    this.#where = {
      protocol: url.protocol,
      host: url.host,
      hostname: url.hostname.replace(/^\[|\]$/g, ''), // of an IPv6 address
      port: url.port,
    };
    this.#connect = connectorOf({ timeout: connectMs, allowH2: false, noDelay: true, onread: sharedReads() });
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
   * @param onOut told when the body's memory may be used again; never where the request is given up before that
   */
  post(
    path: string,
    requestId: string,
    body: readonly Buffer[],
    handler: UpstreamHandler,
    traceparent?: string,
    onOut: (() => void) | null = null,
  ): void {
    let head = `POST ${this.#basePath}${path}${this.#head}${requestId}\r\n`;
    if (traceparent !== undefined) head += `traceparent: ${traceparent}\r\n`;
    this.#take().send(handler, head, body, onOut);
  }

  /** Closes all connections; whoever waits for an answer is told `Stopped`. */
  destroy(): void {
    clearInterval(this.#trimmer);
    for (const lane of this.#all) lane.close(new Stopped('the gateway stops'));
  }

  onFree(lane: Lane): void {
    this.#free.push(lane);
  }

  onGone(lane: Lane): void {
    this.#all.delete(lane);
    const place = this.#free.indexOf(lane);
    if (place >= 0) this.#free.splice(place, 1);
  }

  #take(): Lane {
    const lane = this.#free.pop();
    if (lane === undefined) return this.#open();
    if (performance.now() < lane.freeUntil) return lane;
    lane.close();
    return this.#take();
  }

  #open(): Lane {
    const lane = new Lane(this, this.#connect, this.#where);
    this.#all.add(lane);
    return lane;
  }

  #trim(): void {
    const now = performance.now();
    for (const lane of this.#free.filter(({ freeUntil }) => freeUntil <= now)) lane.close();
  }
}
