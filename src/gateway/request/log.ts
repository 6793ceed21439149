import { performance } from 'node:perf_hooks';
import { type GatewayError, isUpstreamsFailure } from '../../domain/errors.ts';
import { IsoTime } from '../../domain/iso.ts';
import type { Clock, EndedRequest, Trail } from '../../domain/ports.ts';
import { asciiJson } from '../../domain/record.ts';
import { nameOrNot } from '../../domain/request/redact.ts';
import { CLOSE_BRACE, DIGIT_0, DOT, LF } from '../../json/bytes.ts';
import { writeWhole } from '../../json/decimal.ts';
import type { LineSink } from '../../log.ts';
import type { Metrics } from '../../metrics.ts';
import type { Reply } from './reply.ts';

/** The trace of one request. */
export interface RequestTrace {
  readonly traceId: string;
  /** The `traceparent` that goes upstream. */
  readonly outgoing: string;
  end(summary: RequestSummary): void;
}

/**
 * What the log, the metrics and the trace say of one request: filled in while it is handled, read when its
 * answer has left. Instants are monotonic milliseconds, NaN before they are known; each costs 45 ns.
 *
 *   began      askedAt  wholeAt     sentAt                       endedAt     leftAt
 *     |  head     |  ░░░░  |  checks   |  ░░░ upstream ░░░░░░░░░░░  |  booking  |
 */
export class RequestSummary implements EndedRequest {
  readonly reply: Reply;
  readonly at: number;
  /** The request's head was read. */
  readonly began = performance.now();
  /** The body was waited for; it was whole. NaN where it came with the head. */
  askedAt = Number.NaN;
  wholeAt = Number.NaN;
  /** The request was handed to the upstream's client. */
  sentAt = Number.NaN;
  endpoint = 'unknown';
  /** The path of the endpoint below the base path, such as "/models/{model}"; null: none was found. */
  route: string | null = null;
  keyId: string | null = null;
  companyId: string | null = null;
  /** The model asked for, in the caller's words: any text. */
  asked: string | null = null;
  /** The slug of the model that was found. */
  slug: string | null = null;
  /** How the call ended, once a model was admitted. */
  meter: EndedRequest['meter'] = null;
  /** null: tracing is off. */
  trace: RequestTrace | null = null;

  /** @param at the time in the request id, milliseconds since the epoch */
  constructor(reply: Reply, at: number) {
    this.reply = reply;
    this.at = at;
  }

  /**
   * Milliseconds of the request that were the gateway's own: from its head until it is handed on,
   * and from the upstream's end to the last write. Waiting for the client's body is left out; so are
   * the events of a stream on their way, and what happens before the head is read or after the last write.
   */
  get added(): number {
    const { endedAt, leftAt } = this.reply;
    let ms: number;
    if (this.sentAt > 0) ms = this.sentAt - this.began;
    else if (this.askedAt > 0 && !(this.wholeAt > 0))
      return this.askedAt - this.began; // refused or abandoned before its body was whole
    else ms = leftAt - this.began;
    if (this.wholeAt > 0) ms -= this.wholeAt - this.askedAt;
    if (endedAt > 0 && leftAt > endedAt) ms += leftAt - endedAt;
    return ms > 0 ? ms : 0; // NaN where nothing was answered
  }
}

/** Writes one line per request, and hands it to the trail: never a key, a prompt or an internal name. */
export class RequestLog {
  readonly #sink: LineSink | null;
  readonly #metrics: Metrics;
  readonly #clock: Clock;
  readonly #trail: Trail | null;
  readonly #iso = new IsoTime();
  readonly #shapes = new Map<string, Shape>();
  #lastShape: Shape | null = null;

  /** @param trail null: it is off */
  constructor(sink: LineSink | null, metrics: Metrics, clock: Clock, trail: Trail | null) {
    this.#sink = sink;
    this.#metrics = metrics;
    this.#clock = clock;
    this.#trail = trail;
  }

  /** Whether the request trail is on. */
  get hasTrail(): boolean {
    return this.#trail !== null;
  }

  /** A request that was refused before it was handled. It has no line: there are many in an overload. */
  shed(summary: RequestSummary): void {
    summary.endpoint = 'shed'; // as in the metrics
    this.#trail?.add(summary, performance.now() - summary.began, summary.added, Number.NaN);
  }

  /** A connection was refused before there was a request. */
  broken(requestId: string, at: number, failure: GatewayError): void {
    const none = { companyId: null, keyId: null, asked: null, slug: null, meter: null };
    this.#trail?.add(
      { at, reply: { requestId, status: failure.status, failure }, endpoint: 'unknown', ...none },
      0,
      0,
      Number.NaN,
    );
  }

  /** A request is over: its metrics, its line, its row of the trail and its trace. */
  ended(summary: RequestSummary): void {
    const ms = performance.now() - summary.began;
    const { status, requestId, streamedAt } = summary.reply;
    const { added, endpoint, companyId, slug, meter, trace } = summary;
    this.#metrics.answered(endpoint, status);
    if (
      meter !== null &&
      meter.failure !== null &&
      isUpstreamsFailure(status, meter.failure.status)
    ) {
      this.#metrics.upstreamFailed();
    }
    this.#metrics.took(ms, added, streamedAt - summary.began);
    this.#trail?.add(summary, ms, added, streamedAt - summary.began);
    trace?.end(summary);
    const sink = this.#sink;
    if (sink === null || (isWhole(summary) && this.#writeWhole(sink, summary, ms, added))) return;
    // every value but the slug is made here and needs no escapes
    let text = `{"level":30,"time":"${this.#iso.of(this.#clock())}","request_id":"${requestId}","endpoint":"${endpoint}","status":${status},"ms":${ms.toFixed(1)},"added_us":${Math.round(added * 1000)}`;
    if (trace !== null) text += `,"trace_id":"${trace.traceId}"`;
    if (companyId !== null) text += `,"company":"${companyId}"`;
    if (slug !== null) text += `,"slug":${asciiJson(slug)}`;
    if (meter !== null && meter.outcome !== null) {
      text += `,"outcome":"${meter.outcome}"`;
      if (meter.tokens !== null) {
        text += `,"prompt_tokens":${meter.tokens.prompt},"completion_tokens":${meter.tokens.completion}`;
      }
    }
    const { failure } = summary.reply;
    if (failure !== null) text += describeFailure(summary, failure);
    sink.write(`${text}}\n`);
  }

  /** The line of a call that was answered whole, in bytes: as text it took three times as long. @returns false where the sink takes text alone */
  #writeWhole(sink: LineSink, summary: WholeSummary, ms: number, added: number): boolean {
    const { reply, companyId, meter } = summary;
    const shape = this.#shapeOf(summary);
    const line = sink.reserve?.(shape.start.length + shape.end.length + NUMBERS_ROOM);
    if (line == null) return false;
    const { buffer, at } = line;
    buffer.set(shape.start, at);
    this.#iso.write(buffer, at + TIME_AT, this.#clock());
    buffer.write(reply.requestId, at + REQUEST_AT, ID_LENGTH, 'latin1');
    const tenths = Math.round(ms * 10);
    let next = writeWhole(buffer, at + shape.start.length, Math.floor(tenths / 10));
    buffer[next] = DOT;
    buffer[next + 1] = DIGIT_0 + (tenths % 10);
    next = writeNumber(buffer, next + 2, ADDED, Math.round(added * 1000));
    buffer.set(shape.end, next);
    buffer.write(companyId, next + COMPANY_AT, ID_LENGTH, 'latin1');
    next = writeWhole(buffer, next + shape.end.length, meter.tokens.prompt);
    next = writeNumber(buffer, next, COMPLETION, meter.tokens.completion);
    buffer[next++] = CLOSE_BRACE;
    buffer[next++] = LF;
    line.take(next);
    return true;
  }

  /** What the lines of whole answers of a model at an endpoint have in common. */
  #shapeOf({ endpoint, slug }: WholeSummary): Shape {
    const last = this.#lastShape;
    if (last !== null && last.endpoint === endpoint && last.slug === slug) return last;
    const name = `${endpoint} ${slug}`;
    let shape = this.#shapes.get(name);
    if (shape === undefined) {
      shape = newShape(endpoint, slug);
      if (this.#shapes.size >= MAX_SHAPES) this.#shapes.clear();
      this.#shapes.set(name, shape);
    }
    this.#lastShape = shape;
    return shape;
  }
}

/** A call that was answered whole and booked. */
interface WholeSummary extends RequestSummary {
  companyId: string;
  slug: string;
  meter: NonNullable<RequestSummary['meter']> & {
    readonly tokens: { prompt: number; completion: number };
  };
}

function isWhole(summary: RequestSummary): summary is WholeSummary {
  const { reply, companyId, slug, meter, trace } = summary;
  if (
    trace !== null ||
    companyId === null ||
    slug === null ||
    reply.status !== 200 ||
    reply.failure !== null
  )
    return false;
  return meter !== null && meter.outcome === 'completed' && meter.tokens !== null;
}

/** The parts around the numbers of a line, with gaps for times and ids. */
interface Shape {
  readonly endpoint: string;
  readonly slug: string;
  readonly start: Buffer;
  readonly end: Buffer;
}

function newShape(endpoint: string, slug: string): Shape {
  const start = `{"level":30,"time":"${' '.repeat(TIME_LENGTH)}","request_id":"${NO_ID}","endpoint":"${endpoint}","status":200,"ms":`;
  const end = `,"company":"${NO_ID}","slug":${asciiJson(slug)},"outcome":"completed","prompt_tokens":`;
  return { endpoint, slug, start: Buffer.from(start), end: Buffer.from(end) };
}

function writeNumber(buffer: Buffer, at: number, name: Buffer, value: number): number {
  buffer.set(name, at);
  return writeWhole(buffer, at + name.length, value);
}

const ID_LENGTH = 36;
const TIME_LENGTH = 24;
const NO_ID = ' '.repeat(ID_LENGTH);
const TIME_AT = '{"level":30,"time":"'.length;
const REQUEST_AT = TIME_AT + TIME_LENGTH + '","request_id":"'.length;
const COMPANY_AT = ',"company":"'.length;
const ADDED = Buffer.from(',"added_us":');
const COMPLETION = Buffer.from(',"completion_tokens":');
/** The most bytes of a line's numbers and of their names. */
const NUMBERS_ROOM = 160;
/** Shapes that are kept, one for each endpoint and model; more than any gateway has. */
const MAX_SHAPES = 4096;

/** What an operator needs to find the cause of a refusal: its code and member, the key, and the model asked for. */
function describeFailure(
  { keyId, asked, slug }: RequestSummary,
  { code, name, param, setting }: GatewayError,
): string {
  let text = `,"code":"${code ?? name}"`;
  const about = setting ?? param;
  if (about !== null) text += `,"param":${asciiJson(nameOrNot(about))}`;
  if (keyId !== null) text += `,"key":"${keyId}"`;
  if (asked !== null && slug === null) text += `,"asked":${asciiJson(nameOrNot(asked))}`;
  return text;
}
