import type { Agent } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { Agent as HttpAgent, request as httpRequest } from '../runtime/node-http.ts';
import { encodeRequest, text } from './otlp.ts';

export interface ExporterOptions {
  /** Where spans are posted to, path included. */
  readonly url: URL;
  /** Sent along, such as a collector's key. */
  readonly headers: Readonly<Record<string, string>>;
  readonly service: string;
  /** Names this process among its replicas. */
  readonly instance: string;
  readonly log: { warn(fields: object, text: string): void; info(fields: object, text: string): void };
  /** How long spans wait for company, how long a post may take, and the first pause after one failed; milliseconds. */
  readonly gatherMs?: number;
  readonly timeoutMs?: number;
  readonly pauseMs?: number;
}

/** Spans that wait at most, some 4 MB; more are dropped. */
const MOST_WAITING = 4096;
/** Spans in one post: few enough not to hold the event loop up. */
const BATCH = 512;
const TRIES = 4;
const MOST_PAUSE_MS = 30_000;
const CLOSE_MS = 2000;
const MOST_ANSWER_BYTES = 65_536;

/**
 * Sends spans to a collector: OTLP over HTTP in its JSON encoding. Nobody ever waits for it;
 * what a slow or missing collector does not take is dropped and counted. One post at a time.
 */
export class SpanExporter {
  /** Counters for metrics; plain fields, read only outside. */
  exported = 0;
  dropped = 0;
  /** What makes milliseconds since the epoch of monotonic ones. */
  offset = Date.now() - performance.now();

  readonly #options: ExporterOptions;
  readonly #resource: readonly string[];
  readonly #agent: Agent;
  readonly #timeoutMs: number;
  #waiting: string[] = [];
  #timer: NodeJS.Timeout | null = null;
  #sending: Promise<void> | null = null;
  /** Ends a pause; set while there is one. */
  #wake: (() => void) | null = null;
  #closing = false;
  #failing = false;

  constructor(options: ExporterOptions) {
    const { url, service, instance, timeoutMs = 10_000 } = options;
    this.#options = options;
    this.#timeoutMs = timeoutMs;
    this.#resource = [text('service.name', service), text('service.instance.id', instance)];
    const AgentFor = url.protocol === 'https:' ? HttpsAgent : HttpAgent;
    this.#agent = new AgentFor({ keepAlive: true, maxSockets: 1 });
  }

  /** Takes a span as `encodeSpan` makes it. */
  add(span: string): void {
    if (this.#waiting.length >= MOST_WAITING || this.#closing) {
      this.dropped++;
      return;
    }
    this.#waiting.push(span);
    if (this.#sending === null) this.#sendSoon();
  }

  #sendSoon(): void {
    if (this.#waiting.length >= BATCH) this.#send();
    else this.#timer ??= setTimeout(() => this.#send(), this.#options.gatherMs ?? 1000).unref();
  }

  /** Sends what waits, once and for a bounded while, and lets go of the connection. */
  async close(): Promise<void> {
    this.#closing = true;
    const deadline = Promise.withResolvers<void>();
    const timer = setTimeout(deadline.resolve, CLOSE_MS);
    if (this.#waiting.length > 0) this.#send();
    this.#wake?.();
    await Promise.race([this.#sending, deadline.promise]);
    clearTimeout(timer);
    this.dropped += this.#waiting.length;
    this.#waiting = [];
    this.#agent.destroy();
  }

  #send(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#sending ??= this.#sendWaiting().finally(() => {
      this.#sending = null;
      if (this.#waiting.length > 0 && !this.#closing) this.#sendSoon();
    });
  }

  /** Whole batches, after a first one of any size; when closing all that waits. */
  async #sendWaiting(): Promise<void> {
    do {
      this.offset = Date.now() - performance.now(); // the clock may have been set
      const batch = this.#waiting.splice(0, BATCH);
      const dropped = await this.#deliver(Buffer.from(encodeRequest(this.#resource, 'tollgate', batch)), batch.length);
      this.dropped += dropped;
      this.exported += batch.length - dropped;
    } while (this.#waiting.length >= BATCH || (this.#closing && this.#waiting.length > 0));
  }

  /** @returns how many spans of the batch were not taken */
  async #deliver(body: Buffer, count: number): Promise<number> {
    let pause = this.#options.pauseMs ?? 1000;
    for (let tries = 1; ; tries++) {
      const { rejected, reason, again, after } = await this.#post(body);
      this.#tell(reason);
      if (reason === null) return Math.min(rejected, count);
      if (!again || tries === TRIES || this.#closing) return count;
      // with jitter: replicas do not come back all at once
      await this.#rest(after === null ? pause * (0.5 + Math.random()) : Math.min(after, MOST_PAUSE_MS));
      pause = Math.min(pause * 2, MOST_PAUSE_MS);
    }
  }

  #rest(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms).unref();
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Once when it begins to fail, and once when that is over. */
  #tell(reason: string | null): void {
    if (reason !== null && !this.#failing) this.#options.log.warn({ reason }, 'traces cannot be exported');
    if (reason === null && this.#failing) this.#options.log.info({}, 'traces are exported again');
    this.#failing = reason !== null;
  }

  #post(body: Buffer): Promise<Posted> {
    const { url, headers } = this.#options;
    const { promise, resolve } = Promise.withResolvers<Posted>();
    const fail = (error: Error): void => resolve({ rejected: 0, reason: error.message, again: true, after: null });
    const post = (url.protocol === 'https:' ? httpsRequest : httpRequest)(
      url,
      {
        method: 'POST',
        agent: this.#agent,
        headers: { ...headers, 'content-type': 'application/json', 'content-length': body.length },
        signal: AbortSignal.timeout(this.#timeoutMs),
      },
      (answer) => {
        let told = '';
        answer.setEncoding('utf8');
        answer.on('data', (chunk: string) => {
          if (told.length < MOST_ANSWER_BYTES) told += chunk;
        });
        answer.on('end', () => resolve(readAnswer(answer.statusCode as number, answer.headers['retry-after'], told)));
        answer.on('error', fail);
      },
    );
    post.on('error', fail);
    post.end(body);
    return promise;
  }
}

/** What came of a post. */
interface Posted {
  /** Spans refused of a batch that was taken. */
  readonly rejected: number;
  /** Why it was not; null when it was. */
  readonly reason: string | null;
  /** Whether it may be tried again, and after how many milliseconds. */
  readonly again: boolean;
  readonly after: number | null;
}

function readAnswer(status: number, retryAfter: string | undefined, body: string): Posted {
  if (status >= 200 && status < 300) return { rejected: rejectedIn(body), reason: null, again: false, after: null };
  const after = /^\d{1,5}$/.test(retryAfter ?? '') ? Number(retryAfter) * 1000 : null;
  return { rejected: 0, reason: `status ${status}`, again: AGAIN.includes(status), after };
}

const AGAIN = [429, 502, 503, 504];

function rejectedIn(body: string): number {
  try {
    return Number(JSON.parse(body).partialSuccess?.rejectedSpans ?? 0) || 0;
  } catch {
    return 0; // some collectors answer with nothing
  }
}
