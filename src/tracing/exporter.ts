import { once } from 'node:events';
import type { Agent, IncomingMessage } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { reasonOf } from '../log.ts';
import { clientFor } from '../runtime/node-http.ts';
import { encodeRequest, text } from './otlp.ts';

export interface ExporterOptions {
  /** Where spans are posted to, path included. */
  readonly url: URL;
  /** Headers of each request, such as a collector's key. */
  readonly headers: Readonly<Record<string, string>>;
  readonly service: string;
  /** The name of this process among all gateways. */
  readonly instance: string;
  readonly log: {
    warn(fields: object, text: string): void;
    info(fields: object, text: string): void;
  };
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
const MAX_REASON_CHARACTERS = 300;
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
  #waiting: string[] = [];
  #timer: NodeJS.Timeout | null = null;
  #sending: Promise<void> | null = null;
  /** Aborted by `close`, which ends a pause. */
  readonly #closing = new AbortController();
  #failing = false;

  constructor(options: ExporterOptions) {
    const { url, service, instance } = options;
    this.#options = options;
    this.#resource = [text('service.name', service), text('service.instance.id', instance)];
    const { Agent } = clientFor(url);
    this.#agent = new Agent({ keepAlive: true, maxSockets: 1 });
  }

  /** Queues a span that `encodeSpan` made. */
  add(span: string): void {
    if (this.#waiting.length >= MAX_WAITING || this.#closing.signal.aborted) {
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
    this.#closing.abort();
    if (this.#waiting.length > 0) this.#send();
    await Promise.race([this.#sending, sleep(CLOSE_MS, undefined, { ref: false })]);
    this.dropped += this.#waiting.length;
    this.#waiting = [];
    this.#agent.destroy();
  }

  #send(): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#sending ??= this.#sendWaiting().finally(() => {
      this.#sending = null;
      if (this.#waiting.length > 0 && !this.#closing.signal.aborted) this.#sendSoon();
    });
  }

  /** Sends one batch, then further full ones; when closing, all that waits. */
  async #sendWaiting(): Promise<void> {
    do {
      this.offset = Date.now() - performance.now(); // the clock may have been set
      const batch = this.#waiting.splice(0, MAX_BATCH);
      const dropped = await this.#deliver(
        Buffer.from(encodeRequest(this.#resource, 'tollgate', batch)),
        batch.length,
      );
      this.dropped += dropped;
      this.exported += batch.length - dropped;
    } while (
      this.#waiting.length >= MAX_BATCH ||
      (this.#closing.signal.aborted && this.#waiting.length > 0)
    );
  }

  /** @returns how many spans of the batch the collector did not take */
  async #deliver(body: Buffer, count: number): Promise<number> {
    let pause = this.#options.pauseMs ?? 1000;
    for (let tries = 1; ; tries++) {
      const { rejected, reason, retryable, after } = await this.#post(body);
      this.#logChange(reason);
      if (rejected !== null) return Math.min(rejected, count);
      const { signal } = this.#closing;
      if (!retryable || tries === TRIES || signal.aborted) return count;
      // with jitter, so that gateways do not all return at once
      const wait = after === null ? pause * (0.5 + Math.random()) : Math.min(after, MAX_PAUSE_MS);
      await sleep(wait, undefined, { ref: false, signal }).catch(() => {});
      pause = Math.min(pause * 2, MAX_PAUSE_MS);
    }
  }

  /** Logs when exporting begins to fail, and when it works again. */
  #logChange(reason: string | null): void {
    if (reason !== null && !this.#failing)
      this.#options.log.warn({ reason }, 'traces cannot be exported');
    if (reason === null && this.#failing) this.#options.log.info({}, 'traces are exported again');
    this.#failing = reason !== null;
  }

  async #post(body: Buffer): Promise<ExportResult> {
    const { url, headers, timeoutMs = 10_000 } = this.#options;
    const post = clientFor(url).request(url, {
      method: 'POST',
      agent: this.#agent,
      headers: { ...headers, 'content-type': 'application/json', 'content-length': body.length },
      signal: AbortSignal.timeout(timeoutMs),
    });
    post.on('error', () => {}); // after the head of the answer its body has the error
    try {
      const [answer] = (await once(post.end(body), 'response')) as [IncomingMessage];
      let text = '';
      for await (const chunk of answer.setEncoding('utf8')) {
        text += chunk;
        if (text.length > MAX_ANSWER_CHARACTERS) break; // closes the connection: it may never end
      }
      return readAnswer(answer.statusCode as number, answer.headers['retry-after'], text);
    } catch (error) {
      return { rejected: null, reason: reasonOf(error), retryable: true, after: null };
    }
  }
}

interface ExportResult {
  /** Spans that were refused in a batch that was taken; null: it was not taken. */
  readonly rejected: number | null;
  /** Why the batch, or some spans of it, were not taken; null when all were. */
  readonly reason: string | null;
  /** Whether to try again, and after how many milliseconds if the collector said so. */
  readonly retryable: boolean;
  readonly after: number | null;
}

function readAnswer(status: number, retryAfter: string | undefined, body: string): ExportResult {
  if (status >= 200 && status < 300) return { ...readPartial(body), retryable: false, after: null };
  const after = /^\d{1,5}$/.test(retryAfter ?? '') ? Number(retryAfter) * 1000 : null;
  return {
    rejected: null,
    reason: `status ${status}`,
    retryable: RETRYABLE.includes(status),
    after,
  };
}

function readPartial(body: string): Pick<ExportResult, 'rejected' | 'reason'> {
  try {
    const { rejectedSpans, errorMessage } = JSON.parse(body).partialSuccess ?? {};
    const rejected = Number(rejectedSpans ?? 0) || 0;
    const why = `${errorMessage ?? 'no reason given'}`.slice(0, MAX_REASON_CHARACTERS);
    return { rejected, reason: rejected > 0 ? `${rejected} spans refused: ${why}` : null };
  } catch {
    return { rejected: 0, reason: null }; // some collectors send an empty answer
  }
}
