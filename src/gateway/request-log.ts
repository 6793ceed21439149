import { performance } from 'node:perf_hooks';
import { IsoTime } from '../domain/iso.ts';
import type { Clock } from '../domain/ports.ts';
import { asciiJson } from '../domain/record.ts';
import type { Outcome, Tokens } from '../domain/usage.ts';
import type { LineSink } from '../log.ts';
import type { Metrics } from '../metrics.ts';
import type { Reply } from './reply.ts';

/** What tracing keeps of a request. */
export interface RequestTrace {
  readonly traceId: string;
  /** The `traceparent` that goes upstream. */
  readonly outgoing: string;
  end(line: RequestLine): void;
}

/**
 * What the log and the metrics tell of one request; gathered on its way, told when its answer
 * has left. Instants are monotonic milliseconds, NaN until they come; each costs 45 ns.
 *
 *   began      askedAt  wholeAt     sentAt                       endedAt     leftAt
 *     |  head     |  ░░░░  |  checks   |  ░░░ upstream ░░░░░░░░░░░  |  booking  |
 */
export class RequestLine {
  readonly reply: Reply;
  /** The request's head was there. */
  readonly began = performance.now();
  /** The body was asked for, then it was whole. */
  askedAt = Number.NaN;
  wholeAt = Number.NaN;
  /** The upstream's client had taken the request. */
  sentAt = Number.NaN;
  endpoint = 'unknown';
  companyId: string | null = null;
  /** Set once the model was found: before, it is the caller's text, and could be anything. */
  slug: string | null = null;
  /** How the call ended, once a model was admitted. */
  meter: { readonly outcome: Outcome | null; readonly tokens: Tokens | null } | null = null;
  /** null: tracing is off. */
  trace: RequestTrace | null = null;

  constructor(reply: Reply) {
    this.reply = reply;
  }

  /**
   * Milliseconds the gateway itself took of the request: all of its time but waiting for the
   * client's body and for the upstream. From the head to the request being handed on, and
   * from the upstream's end to the last write, booking included; looking up and reserving in
   * the database too. Not in it: the events of a stream on their way through, what Node and
   * the system do before the head is read and after the last write, and waiting for the other
   * requests of a turn of the event loop, before and after.
   */
  get added(): number {
    const { endedAt, leftAt } = this.reply;
    let ms: number;
    if (this.sentAt > 0) ms = this.sentAt - this.began;
    else if (this.askedAt > 0 && !(this.wholeAt > 0))
      return this.askedAt - this.began; // refused halfway, or given up
    else ms = leftAt - this.began;
    if (this.wholeAt > 0) ms -= this.wholeAt - this.askedAt;
    if (endedAt > 0 && leftAt > endedAt) ms += leftAt - endedAt;
    return ms > 0 ? ms : 0; // NaN where nothing was answered
  }
}

/** One line per request: never a key, a prompt or an internal name. */
export class RequestLog {
  readonly #sink: LineSink | null;
  readonly #metrics: Metrics;
  readonly #clock: Clock;
  readonly #iso = new IsoTime();

  constructor(sink: LineSink | null, metrics: Metrics, clock: Clock) {
    this.#sink = sink;
    this.#metrics = metrics;
    this.#clock = clock;
  }

  tell(line: RequestLine): void {
    const ms = performance.now() - line.began;
    const { status, requestId, streamedAt } = line.reply;
    const { added } = line;
    this.#metrics.answered(line.endpoint, status);
    this.#metrics.took(ms, added, streamedAt - line.began);
    line.trace?.end(line);
    if (this.#sink === null) return;
    const { meter } = line;
    // every value is ours and plain, but for the slug
    let text = `{"level":30,"time":"${this.#iso.of(this.#clock())}","request_id":"${requestId}","endpoint":"${line.endpoint}","status":${status},"ms":${ms.toFixed(1)},"added_us":${Math.round(added * 1000)}`;
    if (line.trace !== null) text += `,"trace_id":"${line.trace.traceId}"`;
    if (line.companyId !== null) text += `,"company":"${line.companyId}"`;
    if (line.slug !== null) text += `,"slug":${asciiJson(line.slug)}`;
    if (meter !== null && meter.outcome !== null) {
      text += `,"outcome":"${meter.outcome}"`;
      if (meter.tokens !== null) {
        text += `,"prompt_tokens":${meter.tokens.prompt},"completion_tokens":${meter.tokens.completion}`;
      }
    }
    this.#sink(`${text}}\n`);
  }
}
