import { randomFillSync } from 'node:crypto';
import type { Sampler } from '../../config-tracing.ts';
import type { ClientRequest } from '../../http/exchange.ts';
import type { SpanExporter } from '../../tracing/exporter.ts';
import { boolean, CLIENT, double, encodeSpan, integer, SERVER, text } from '../../tracing/otlp.ts';
import {
  formatTraceparent,
  parseTraceparent,
  SAMPLED,
  type TraceContext,
} from '../../tracing/traceparent.ts';
import type { RequestSummary, RequestTrace } from './log.ts';

interface TracerOptions {
  readonly exporter: SpanExporter;
  readonly basePath: string;
  /** The name given as provider; the real one is not told. */
  readonly provider: string;
  readonly sampler: Sampler;
}

/**
 * Records two spans a request: one of kind SERVER, and in it one of kind CLIENT for what went upstream, by the
 * semantic conventions 1.41 of OpenTelemetry, which may change: all names are in this file. No prompts, keys or
 * internal names, and no text that a client writes freely.
 */
export class Tracer {
  readonly #options: TracerOptions;
  readonly #ids = new SpanIds();

  constructor(options: TracerOptions) {
    this.#options = options;
  }

  /** Continues the caller's trace, or begins one. */
  begin(req: ClientRequest, requestId: string): RequestTrace {
    const header = traceparentOf(req.rawHeaders);
    const caller = header === null ? null : parseTraceparent(header);
    const { share, followsCaller } = this.#options.sampler;
    if (caller !== null && followsCaller) return new Spans(this.#options, this.#ids, req, caller);
    // the request id is the trace id
    const trace = caller ?? { traceId: requestId.replaceAll('-', ''), parentId: null, flags: 0 };
    const others = trace.flags & ~SAMPLED;
    const flags = others | (isRecorded(trace.traceId, share) ? SAMPLED : 0);
    return new Spans(this.#options, this.#ids, req, { ...trace, flags });
  }
}

/** Whether a share has a trace: by the random end of its id, so that all who ask for the same share decide alike. */
function isRecorded(traceId: string, share: number): boolean {
  return Number.parseInt(traceId.slice(-13), 16) >= (1 - share) * 2 ** 52;
}

/** The trace that a request belongs to. */
interface Trace extends Omit<TraceContext, 'parentId'> {
  /** null: it begins here. */
  readonly parentId: string | null;
}

class Spans implements RequestTrace {
  readonly traceId: string;
  readonly outgoing: string;
  readonly #options: TracerOptions;
  readonly #parentId: string | null;
  readonly #serverId: string;
  readonly #clientId: string;
  readonly #sampled: boolean;
  readonly #method: string;
  readonly #path: string;
  readonly #scheme: string;
  readonly #address: string | undefined;
  readonly #port: number | undefined;

  constructor(
    options: TracerOptions,
    ids: SpanIds,
    req: ClientRequest,
    { traceId, parentId, flags }: Trace,
  ) {
    this.#options = options;
    this.#serverId = ids.next();
    this.#clientId = ids.next();
    this.traceId = traceId;
    this.#parentId = parentId;
    this.#sampled = (flags & SAMPLED) !== 0;
    this.outgoing = formatTraceparent({ traceId, parentId: this.#clientId, flags });
    const { method, url, socket } = req;
    this.#method = METHODS[method] === undefined ? '_OTHER' : method;
    this.#path = url.split('?', 1)[0] as string;
    this.#scheme = socket.encrypted ? HTTPS : HTTP;
    this.#address = socket.localAddress; // undefined on a Unix socket
    this.#port = socket.localPort;
  }

  end(summary: RequestSummary): void {
    if (!this.#sampled) return;
    const now = performance.now();
    const { exporter } = this.#options;
    if (summary.sentAt > 0 && summary.slug !== null)
      exporter.add(this.#client(summary, summary.slug, now));
    exporter.add(this.#server(summary, now));
  }

  #server(summary: RequestSummary, now: number): string {
    const { exporter, basePath } = this.#options;
    const { status, requestId } = summary.reply;
    const route = summary.route === null ? null : basePath + summary.route;
    const attributes = [
      METHODS[this.#method] ?? OTHER_METHOD,
      this.#scheme,
      text('tollgate.request_id', requestId),
      integer('tollgate.added_us', Math.round(summary.added * 1000)),
    ];
    if (route !== null) attributes.push(text('http.route', route));
    // a path that is no route, or contains an identifier, is the caller's own text
    if (route === this.#path) attributes.push(text('url.path', route));
    if (status > 0) attributes.push(integer('http.response.status_code', status));
    if (this.#address !== undefined) attributes.push(text('server.address', this.#address));
    if (this.#port !== undefined) attributes.push(integer('server.port', this.#port));
    if (summary.companyId !== null) attributes.push(text('tollgate.company_id', summary.companyId));
    const error = status >= 500 ? `${status}` : status === 200 ? failureOf(summary) : null;
    if (error !== null) attributes.push(text('error.type', error));
    return encodeSpan({
      traceId: this.traceId,
      spanId: this.#serverId,
      parentId: this.#parentId,
      name: route === null ? this.#method : `${this.#method} ${route}`,
      kind: SERVER,
      start: exporter.offset + summary.began,
      end: exporter.offset + now,
      attributes,
      failed: error !== null,
    });
  }

  #client(summary: RequestSummary, slug: string, now: number): string {
    const { exporter, provider } = this.#options;
    const { endedAt, streamedAt } = summary.reply;
    const operation = OPERATIONS[summary.endpoint ?? ''] ?? 'chat';
    const attributes = [
      OPERATION[operation],
      text('gen_ai.provider.name', provider),
      text('gen_ai.request.model', slug),
      text('gen_ai.response.model', slug),
    ];
    if (streamedAt > 0) {
      attributes.push(STREAM);
      attributes.push(
        double('gen_ai.response.time_to_first_chunk', (streamedAt - summary.sentAt) / 1000),
      );
    }
    const { tokens = null, outcome = null } = summary.meter ?? {};
    if (tokens !== null) {
      attributes.push(integer('gen_ai.usage.input_tokens', tokens.prompt));
      if (operation === 'chat' || operation === 'text_completion')
        attributes.push(integer('gen_ai.usage.output_tokens', tokens.completion));
    }
    attributes.push(text('tollgate.outcome', outcome ?? 'client_aborted')); // none yet: the upstream is still read
    const error = failureOf(summary);
    if (error !== null) attributes.push(text('error.type', error));
    return encodeSpan({
      traceId: this.traceId,
      spanId: this.#clientId,
      parentId: this.#serverId,
      name: `${operation} ${slug}`,
      kind: CLIENT,
      start: exporter.offset + summary.sentAt,
      end: exporter.offset + (endedAt > 0 ? endedAt : now),
      attributes,
      failed: error !== null,
    });
  }
}

/** `error.type` of a failed upstream: the status sent to the client, or upstream_failed where that was 200 already. */
function failureOf({ meter, reply }: RequestSummary): string | null {
  if (meter?.outcome !== 'upstream_failed') return null;
  return reply.status >= 400 ? `${reply.status}` : 'upstream_failed';
}

// attributes that are always the same
const METHODS: Readonly<Record<string, string>> = Object.fromEntries(
  ['CONNECT', 'DELETE', 'GET', 'HEAD', 'OPTIONS', 'PATCH', 'POST', 'PUT', 'TRACE'].map((method) => [
    method,
    text('http.request.method', method),
  ]),
);
const OTHER_METHOD = text('http.request.method', '_OTHER');
const HTTP = text('url.scheme', 'http');
const HTTPS = text('url.scheme', 'https');
const OPERATION = {
  chat: text('gen_ai.operation.name', 'chat'),
  embeddings: text('gen_ai.operation.name', 'embeddings'),
  rerank: text('gen_ai.operation.name', 'rerank'),
  text_completion: text('gen_ai.operation.name', 'text_completion'),
};
/** The operations of endpoints, where they are not chat. */
const OPERATIONS: Readonly<Record<string, keyof typeof OPERATION>> = {
  embeddings: 'embeddings',
  rerank: 'rerank',
  completions: 'text_completion',
};
const STREAM = boolean('gen_ai.request.stream', true);

/** The value of the one `traceparent` header; null where there is none, or several. */
function traceparentOf(raw: readonly string[]): string | null {
  let found: string | null = null;
  for (let i = 0; i < raw.length; i += 2) {
    const name = raw[i] as string;
    if (name.length !== 11 || name.toLowerCase() !== 'traceparent') continue;
    if (found !== null) return null;
    found = raw[i + 1] as string;
  }
  return found;
}

const ID_BYTES = 8;

/** Random ids of 16 hex digits. Many are drawn from the system at once, because each draw takes 1 µs. */
class SpanIds {
  readonly #random = Buffer.alloc(512 * ID_BYTES);
  #at = this.#random.length;

  next(): string {
    if (this.#at === this.#random.length) {
      randomFillSync(this.#random);
      this.#at = 0;
    }
    const from = this.#at;
    this.#at += ID_BYTES;
    return this.#random.toString('hex', from, this.#at);
  }
}
