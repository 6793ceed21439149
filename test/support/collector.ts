import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Test } from 'tap';
import { until } from './until.ts';

/**
 * A collector for OTLP over HTTP in its JSON encoding. It fails the test for whatever the protocol's
 * schema does not have: names in lowerCamelCase, ids in hex, enums as numbers, 64-bit integers as text.
 */
export interface Collector {
  /** Base address, without /v1/traces. */
  readonly url: string;
  readonly posts: {
    readonly headers: IncomingHttpHeaders;
    readonly spans: Span[];
    readonly text: string;
  }[];
  readonly spans: () => Span[];
  /** Sets what it answers from now on; by default success. */
  answer(script: (res: ServerResponse) => void): void;
  /** Resolves with all spans once there are at least `count`. */
  arrived(count: number): Promise<Span[]>;
}

export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  readonly status?: { readonly code: number };
  readonly resource: Readonly<Record<string, string | number | boolean>>;
}

export async function startCollector(t: Test): Promise<Collector> {
  const posts: Collector['posts'] = [];
  const success = (res: ServerResponse): void => {
    res.writeHead(200, { 'content-type': 'application/json' }).end('{}');
  };
  let script = success;
  const server = createServer(async (req, res) => {
    const text = Buffer.concat(await req.toArray()).toString();
    try {
      if (req.method !== 'POST' || req.url !== '/v1/traces')
        throw new Error(`${req.method} ${req.url}`);
      if (req.headers['content-type'] !== 'application/json') throw new Error('content type');
      posts.push({ headers: req.headers, text, spans: decode(JSON.parse(text)) });
    } catch (error) {
      t.fail(`the collector refuses the request: ${(error as Error).message}`, { text });
      res.writeHead(400).end();
      return;
    }
    script(res);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.close();
    server.closeAllConnections();
  });
  const spans = () => posts.flatMap((post) => post.spans);
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    posts,
    spans,
    answer: (next) => {
      script = next;
    },
    arrived: (count) =>
      until(spans, `${count} spans at the collector`, ({ length }) => length >= count),
  };
}

// biome-ignore lint/suspicious/noExplicitAny: anything may arrive
type Json = any;

function decode(request: Json): Span[] {
  only(request, ['resourceSpans']);
  return request.resourceSpans.flatMap((group: Json) => {
    only(group, ['resource', 'scopeSpans']);
    only(group.resource, ['attributes']);
    const resource = decodeAttributes(group.resource.attributes);
    return group.scopeSpans.flatMap((scoped: Json) => {
      only(scoped, ['scope', 'spans']);
      only(scoped.scope, ['name']);
      return scoped.spans.map((span: Json) => decodeSpan(span, resource));
    });
  });
}

function decodeSpan(span: Json, resource: Span['resource']): Span {
  const {
    traceId,
    spanId,
    parentSpanId = '0'.repeat(15).concat('1'),
    kind,
    status = { code: 0 },
  } = span;
  const fields = [
    'traceId',
    'spanId',
    'name',
    'kind',
    'startTimeUnixNano',
    'endTimeUnixNano',
    'attributes',
  ];
  only(span, fields, ['parentSpanId', 'status']);
  only(status, ['code']);
  must(/^(?!0+$)[\da-f]{32}$/.test(traceId), 'traceId');
  for (const id of [spanId, parentSpanId]) must(/^(?!0+$)[\da-f]{16}$/.test(id), 'span id');
  must(typeof span.name === 'string' && span.name !== '', 'name');
  must([2, 3].includes(kind) && [0, 2].includes(status.code), 'enum');
  const [start, end] = [span.startTimeUnixNano, span.endTimeUnixNano];
  for (const time of [start, end]) must(/^\d{19}$/.test(time) && typeof time === 'string', 'time');
  must(BigInt(start) <= BigInt(end), 'it ends before it begins');
  must(Math.abs(Number(BigInt(end) / 1_000_000n) - Date.now()) < 60_000, 'it is not of our time');
  return { ...span, attributes: decodeAttributes(span.attributes), resource };
}

function decodeAttributes(list: Json): Record<string, string | number | boolean> {
  const entries = list.map(({ key, value, ...more }: Json) => {
    const [type] = Object.keys(value);
    only(more, []);
    only(value, [type as string]);
    if (type === 'stringValue') must(typeof value.stringValue === 'string', key);
    else if (type === 'intValue')
      must(typeof value.intValue === 'string' && /^-?\d+$/.test(value.intValue), key);
    else if (type === 'doubleValue') must(typeof value.doubleValue === 'number', key);
    else must(type === 'boolValue' && typeof value.boolValue === 'boolean', key);
    return [key, type === 'intValue' ? Number(value.intValue) : value[type as string]];
  });
  must(new Set(entries.map(([key]: Json) => key)).size === entries.length, 'an attribute twice');
  return Object.fromEntries(entries);
}

function only(value: Json, names: readonly string[], optional: readonly string[] = []): void {
  const found = Object.keys(value);
  const missing = names.filter((name) => !found.includes(name));
  const unknown = found.filter((name) => !names.includes(name) && !optional.includes(name));
  must(missing.length + unknown.length === 0, `missing ${missing}, unknown ${unknown}`);
}

function must(holds: boolean, what: string): void {
  if (!holds) throw new Error(what);
}
