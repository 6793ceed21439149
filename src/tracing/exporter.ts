import type { Agent } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import { Agent as HttpAgent, request as httpRequest } from '../runtime/node-http.ts';
import { encodeRequest, text } from './otlp.ts';

export interface ExporterOptions {
  /** Where spans are posted to, path included. */
  readonly url: URL;
  /** Headers of each request, such as a collector's key. */
  readonly headers: Readonly<Record<string, string>>;
  readonly service: string;
  /** The name of this process among its replicas. */
  readonly instance: string;
  readonly log: { warn(fields: object, text: string): void; info(fields: object, text: string): void };
  /** How long spans wait for others, how long a request may take, and the first pause after a failed one; milliseconds. */
  readonly gatherMs?: number;
  readonly timeoutMs?: number;
  readonly pauseMs?: number;
}

const MAX_WAITING = 4096; // spans, some 4 MB; more are dropped
const MAX_BATCH = 512; // spans in one request: few enough not to block the event loop
const TRIES = 4;
const MAX_PAUSE_MS = 30_000;
const CLOSE_MS = 2000;
const MAX_ANSWER_CHARACTERS = 65_536;
/** Statuses after which a request may be repeated. */
const RETRYABLE = [429, 502, 503, 504];

/**
 * Sends spans to a collector: OTLP over HTTP in its JSON encoding, one request at a time. Nothing waits
 * for it; spans that a slow or missing collector does not take are dropped and counted.
 */
export class SpanExporter {
  /** Counters for metrics. */
  exported = 0;
  dropped = 0;
  /** Add to monotonic milliseconds to get milliseconds since the epoch. */
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

  /** Queues a span that `encodeSpan` made. */
  add(span: string): void {
    if (this.#waiting.length >= MAX_WAITING || this.#closing) {
      this.dropped++;
      return;
    }
    this.#waiting.push(span);
    if (this.#sending === null) this.#sendSoon();
  }

  #sendSoon(): void {
    if (this.#waiting.length >= MAX_BATCH) this.#send();
    else this.#timer ??= setTimeout(() => this.#send(), this.#options.gatherMs ?? 1000).unref();
  }

  /** Sends what waits, trying once and for CLOSE_MS at most, and closes the connection. */
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

  /** Sends one batch, then further full ones; when closing, all that waits. */
  async #sendWaiting(): Promise<void> {
    do {
      this.offset = Date.now() - performance.now(); // the clock may have been set
      const batch = this.#waiting.splice(0, MAX_BATCH);
      const dropped = await this.#deliver(Buffer.from(encodeRequest(this.#resource, 'tollgate', batch)), batch.length);
      this.dropped += dropped;
      this.exported += batch.length - dropped;
    } while (this.#waiting.length >= MAX_BATCH || (this.#closing && this.#waiting.length > 0));
  }

  /** @returns how many spans of the batch the collector did not take */
  async #deliver(body: Buffer, count: number): Promise<number> {
    let pause = this.#options.pauseMs ?? 1000;
    for (let tries = 1; ; tries++) {
      const { rejected, reason, retryable, after } = await this.#post(body);
      this.#logChange(reason);
      if (reason === null) return Math.min(rejected, count);
      if (!retryable || tries === TRIES || this.#closing) return count;
      // with jitter, so that replicas do not all return at once
      await this.#sleep(after === null ? pause * (0.5 + Math.random()) : Math.min(after, MAX_PAUSE_MS));
      pause = Math.min(pause * 2, MAX_PAUSE_MS);
    }
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms).unref();
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** Logs when exporting begins to fail, and when it works again. */
  #logChange(reason: string | null): void {
    if (reason !== null && !this.#failing) this.#options.log.warn({ reason }, 'traces cannot be exported');
    if (reason === null && this.#failing) this.#options.log.info({}, 'traces are exported again');
    this.#failing = reason !== null;
  }

  #post(body: Buffer): Promise<ExportResult> {
    const { url, headers } = this.#options;
    const { promise, resolve } = Promise.withResolvers<ExportResult>();
    const fail = (error: Error): void => resolve({ rejected: 0, reason: error.message, retryable: true, after: null });
    const post = (url.protocol === 'https:' ? httpsRequest : httpRequest)(
      url,
      {
        method: 'POST',
        agent: this.#agent,
        headers: { ...headers, 'content-type': 'application/json', 'content-length': body.length },
        signal: AbortSignal.timeout(this.#timeoutMs),
      },
      (answer) => {
        let text = '';
        answer.setEncoding('utf8');
        answer.on('data', (chunk: string) => {
          if (text.length < MAX_ANSWER_CHARACTERS) text += chunk;
        });
        answer.on('end', () => resolve(readAnswer(answer.statusCode as number, answer.headers['retry-after'], text)));
        answer.on('error', fail);
      },
    );
    post.on('error', fail);
    post.end(body);
    return promise;
  }
}

interface ExportResult {
  /** Spans that were refused in a batch that was taken. */
  readonly rejected: number;
  /** Why the batch was not taken; null when it was. */
  readonly reason: string | null;
  /** Whether to try again, and after how many milliseconds if the collector said so. */
  readonly retryable: boolean;
  readonly after: number | null;
}

function readAnswer(status: number, retryAfter: string | undefined, body: string): ExportResult {
  if (status >= 200 && status < 300) return { rejected: rejectedIn(body), reason: null, retryable: false, after: null };
  const after = /^\d{1,5}$/.test(retryAfter ?? '') ? Number(retryAfter) * 1000 : null;
  return { rejected: 0, reason: `status ${status}`, retryable: RETRYABLE.includes(status), after };
}

function rejectedIn(body: string): number {
  try {
    return Number(JSON.parse(body).partialSuccess?.rejectedSpans ?? 0) || 0;
  } catch {
    return 0; // some collectors send an empty answer
  }
}
