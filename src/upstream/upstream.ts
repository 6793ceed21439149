import type { Lines } from './address.ts';
import { type AddressChange, Addresses } from './addresses.ts';
import { askForAnswer } from './ask.ts';

/** An unused connection is closed so much before the other side closes it: a request sent at that moment would be lost. */
export const CLOSING_MS = 1000;

/** The probe that shows whether the other side still took the last bytes; servers skip it before a request. */
export const PROBE = '\r\n';
const MOST_PROBE_MS = 1000;
const LEAST_PROBE_MS = 20;

/**
 * How long, in ms, the gateway waits after the upstream ended a connection, so that a reset which refuses our last bytes
 * has arrived: a round trip and some more.
 * @param connectMs how long connecting took, which is a round trip at least
 */
export function probeDelay(connectMs: number): number {
  return Math.min(MOST_PROBE_MS, LEAST_PROBE_MS + 2 * connectMs);
}

/**
 * Whether an error shows that the other side cannot have read all of a request: the system could not send its end, or a
 * probe behind it, because earlier bytes were refused. An error of reading shows nothing: a server that read the
 * request and died leaves the same error.
 */
export function wasRefused(error: Error & { syscall?: string }): boolean {
  return error.syscall === 'write';
}

type Headers = readonly (readonly [name: string, value: string])[];

/** The path of an address, without a slash at its end. */
export function pathOf({ pathname }: URL): string {
  return pathname.replace(/\/+$/, '');
}

/** The internal model-routing proxy: one POST per call, over fast connections of our own or over undici. */
export abstract class Upstream {
  /** Texts that no log may contain: the master key, and values of headers that the operator added. */
  readonly keys: readonly string[];
  /** Texts that no client may see: the keys, and the upstream's hosts. */
  readonly secrets: readonly string[];
  protected abstract readonly addresses: Addresses<Lines>;
  /** The headers of every request, without its host, id and length. */
  readonly #headers: Headers;

  constructor({ urls, apiKey, headers = {} }: UpstreamOptions) {
    const master = apiKey === null ? [] : [apiKey];
    const added = Object.values(headers).flatMap(secretsIn);
    this.keys = [...master.filter((key) => !WORD.test(key)), ...added];
    this.secrets = [...urls.flatMap(({ host, hostname }) => [host, hostname]), ...this.keys];
    this.#headers = [
      ['content-type', 'application/json'],
      ['accept', '*/*'],
      ['accept-encoding', 'identity'],
      ...master.map((key) => ['authorization', `Bearer ${key}`] as const),
      ...Object.entries(headers),
    ];
  }

  /** The share of each address' IPs that can be used now, 0 to 1, in the order of UPSTREAM_URL. */
  get shares(): number[] {
    return this.addresses.shares;
  }

  /** The headers of every request to this address, without its id and length. */
  protected headersOf({ host }: URL): Headers {
    return [['host', host], ...this.#headers];
  }

  /** @param open makes the place for the connections to an IP */
  protected addressesOf<L extends Lines>(
    { urls, onChange = () => {} }: UpstreamOptions,
    open: (url: URL, ip: string) => L,
  ): Addresses<L> {
    const ask = (url: URL, ip: string, signal: AbortSignal) =>
      askForAnswer(url, ip, this.headersOf(url), signal);
    return new Addresses({ urls, open, ask, onChange });
  }

  abstract post(request: UpstreamRequest): void;
  /** Closes all connections. When it resolves, handlers that waited for an answer have got `Stopped`. */
  abstract destroy(): Promise<void>;
}

/** A shorter value is an ordinary word, such as "true" or "openai", which answers may hold. */
const SHORTEST_SECRET = 8;
/**
 * Placeholders for a master key where the router asks for none, such as "none" or "EMPTY". So `"effort":"none"` stays.
 */
const WORD = /^[a-z]{1,7}$/i;

/** The secrets in the value of a header: the whole value, and the credential behind a scheme, as in "Basic eDp5". */
function secretsIn(value: string): string[] {
  const credential = /^[\w-]+ +(\S+)$/.exec(value)?.[1] ?? '';
  return [value, credential].filter((secret) => secret.length >= SHORTEST_SECRET);
}

/**
 * One request. No header of the client goes upstream. The gateway's request id does, so that the upstream's bill can
 * name the calls of the ledger.
 */
export interface UpstreamRequest {
  /** The path below the base address, such as "/chat/completions". */
  readonly path: string;
  readonly requestId: string;
  /** The pieces of the body, sent one after the other. */
  readonly body: readonly Buffer[];
  readonly handler: UpstreamHandler;
  /** The gateway's own `traceparent`, where tracing is on. */
  readonly traceparent?: string | undefined;
  /** Called when the body's memory may be used again; not called if the request is given up before that. */
  readonly onSent: (() => void) | null;
  /** More headers: names and values alternate. */
  readonly headers: readonly string[];
}

export interface UpstreamOptions {
  /** Addresses of one router, each up to and including its /v1, all with the same scheme and path. */
  readonly urls: readonly [URL, ...URL[]];
  /** Master key, sent as a bearer token; null sends none. */
  readonly apiKey: string | null;
  /** More headers of every call: by lowercase name, values in printable ASCII. */
  readonly headers?: Readonly<Record<string, string>>;
  /** How long an unused connection is used again, in milliseconds. */
  readonly idleMs: number;
  /** How long an attempt to connect may take. The deadlines of the answer are kept by the gateway. */
  readonly connectMs: number;
  /** Called when an address can no longer be used, and when it can again. */
  readonly onChange?: (change: AddressChange) => void;
}

/** Handles one answer. `onEnd`, `onError` or `onThrown` is called last, unless the handler gave up by itself. */
export interface UpstreamHandler {
  /** Whether routers may lack the endpoint. Then its absence is no failure of the router. */
  readonly isOptional?: boolean;
  /**
   * There is a connection, and the request is about to be sent: until now nothing ran.
   * @returns false when the answer is no longer wanted: then nothing is sent, and nothing more is called
   */
  onConnected(call: UpstreamCall): boolean;
  /**
   * The connection, which had served before, was closed before the other side had the whole request: nothing ran, and
   * there is no connection any more. Called once at most; `onConnected` of a fresh connection follows, or `onError`.
   * @returns false when the answer is no longer wanted: then nothing is sent, and nothing more is called
   */
  onStale(): boolean;
  /** The head of the final answer; interim answers (1xx) are skipped. */
  onHead(head: AnswerHead): void;
  /**
   * The bytes of the body that one read yielded. They are valid during the call only.
   * @param last whether they end the body: `onEnd` follows at once, and they stay valid until it returns
   */
  onData(bytes: Buffer, last: boolean): void;
  onEnd(): void;
  /** No connection could be opened, or it broke, or the answer is malformed, or the gateway stops (`Stopped`). */
  onError(error: Error): void;
  /** One of the methods from `onHead` on threw: a fault of the gateway, which ends this call and no other. */
  onThrown(error: unknown): void;
}

/** Calls `onError`: there is no connection. If it throws, the handler's `onThrown` is called. */
export function tellFailure(handler: UpstreamHandler, error: Error): void {
  try {
    handler.onError(error);
  } catch (thrown) {
    handler.onThrown(thrown);
  }
}

/** Controls one call. Has no effect after the answer has ended: `handler` says which call is meant. */
export interface UpstreamCall {
  /** Stops reading at once. */
  pause(handler: UpstreamHandler): void;
  resume(handler: UpstreamHandler): void;
  /** The client has all of the answer, or is gone. */
  leave(handler: UpstreamHandler): void;
  /** Closes the connection; nothing more is called. */
  abort(handler: UpstreamHandler): void;
}

/** The head of an answer. Valid only during the call of `onHead`. */
export interface AnswerHead {
  readonly status: number;
  readonly contentType: string | undefined;
  readonly contentEncoding: string | undefined;
  /** Bytes of the body; negative: not told. */
  readonly contentLength: number;
  readonly retryAfter: string | undefined;
  /** The cost of the call to the router, by its own account and in its own currency (`x-litellm-response-cost`). */
  readonly responseCost: string | undefined;
}

/** The reason of a failure that the gateway caused itself, by stopping. */
export class Stopped extends Error {}
