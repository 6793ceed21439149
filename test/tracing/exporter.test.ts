import t, { type Test } from 'tap';
import { type ExporterOptions, SpanExporter } from '../../src/tracing/exporter.ts';
import {
  boolean,
  CLIENT,
  double,
  encodeSpan,
  integer,
  SERVER,
  text,
} from '../../src/tracing/otlp.ts';
import { startCollector } from '../support/collector.ts';
import { until } from '../support/until.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const END = Date.now();

function exporterTo(t: Test, url: string, more: Partial<ExporterOptions> = {}) {
  const logged: string[] = [];
  const log = {
    warn: (fields: object, text: string) => void logged.push(`${text}: ${JSON.stringify(fields)}`),
    info: (_fields: object, text: string) => void logged.push(text),
  };
  const exporter = new SpanExporter({
    url: new URL(`${url}/v1/traces`),
    headers: {},
    service: 'test',
    instance: 'one',
    log,
    gatherMs: 20,
    pauseMs: 20,
    ...more,
  });
  t.teardown(() => exporter.close());
  return { exporter, logged };
}

function span(number: number): string {
  return encodeSpan({
    traceId: TRACE,
    spanId: (number + 1).toString(16).padStart(16, '0'),
    parentId: number % 2 === 0 ? null : '00f067aa0ba902b7',
    name: `chat "märchen" ${number}`,
    kind: number % 2 === 0 ? SERVER : CLIENT,
    start: END - 0.25,
    end: END,
    attributes: [text('a', 'quote " and ü'), integer('b', 42), double('c', 1), boolean('d', true)],
    failed: number === 1,
  });
}

t.test('spans arrive as the protocol has them, many in one post', async (t) => {
  const collector = await startCollector(t);
  const { exporter } = exporterTo(t, collector.url, { headers: { 'x-key': 'secret' } });
  for (let i = 0; i < 3; i++) exporter.add(span(i));
  const [first, second] = await collector.arrived(3);
  t.equal(collector.posts.length, 1);
  t.equal(collector.posts[0]?.headers['x-key'], 'secret');
  t.match(first, {
    traceId: TRACE,
    spanId: '0000000000000001',
    name: 'chat "märchen" 0',
    kind: 2,
    attributes: { a: 'quote " and ü', b: 42, c: 1, d: true },
    resource: { 'service.name': 'test', 'service.instance.id': 'one' },
  });
  t.equal(first?.parentSpanId, undefined);
  t.equal(first?.status, undefined);
  t.match(second, { parentSpanId: '00f067aa0ba902b7', kind: 3, status: { code: 2 } });
  t.match(first, { startTimeUnixNano: `${END - 1}750000`, endTimeUnixNano: `${END}000000` });
  await until(() => exporter.exported === 3, '3 spans are exported');
});

t.test('a collector in trouble is asked again, then told of as well again', async (t) => {
  const collector = await startCollector(t);
  const { exporter, logged } = exporterTo(t, collector.url);
  collector.answer((res) => void res.writeHead(503).end());
  exporter.add(span(0));
  await until(() => collector.posts.length === 2, '2 posts');
  collector.answer((res) => void res.writeHead(200).end());
  await until(() => exporter.exported === 1, 'one span is exported');
  t.equal(exporter.dropped, 0);
  t.same(logged, [
    'traces cannot be exported: {"reason":"status 503"}',
    'traces are exported again',
  ]);
});

t.test('what it refuses, or does not take in four tries, is dropped and counted', async (t) => {
  const collector = await startCollector(t);
  const { exporter } = exporterTo(t, collector.url);
  collector.answer((res) => void res.writeHead(400).end());
  exporter.add(span(0));
  await until(() => exporter.dropped === 1, 'one span is dropped');
  t.equal(collector.posts.length, 1, 'not tried again');
  collector.answer((res) => void res.destroy());
  exporter.add(span(1));
  await until(() => exporter.dropped === 2, '2 spans are dropped');
  t.equal(collector.posts.length, 5);
  collector.answer(
    (res) => void res.writeHead(200).end('{"partialSuccess":{"rejectedSpans":"2"}}'),
  );
  for (let i = 0; i < 3; i++) exporter.add(span(i));
  await until(() => exporter.exported === 1, 'one span is exported');
  t.equal(exporter.dropped, 4);
});

t.test('why a collector refuses some spans of a batch is told', async (t) => {
  const collector = await startCollector(t);
  const { exporter, logged } = exporterTo(t, collector.url);
  const partial = { rejectedSpans: '2', errorMessage: `too old${'!'.repeat(999)}` };
  collector.answer(
    (res) => void res.writeHead(200).end(JSON.stringify({ partialSuccess: partial })),
  );
  for (let i = 0; i < 3; i++) exporter.add(span(i));
  await until(() => exporter.exported === 1, 'one span is exported');
  t.equal(collector.posts.length, 1, 'not tried again');
  t.match(logged, [
    /^traces cannot be exported: \{"reason":"2 spans refused: too old!{50,300}"\}$/,
  ]);
  collector.answer((res) => void res.writeHead(200).end('{}'));
  exporter.add(span(0));
  await until(() => exporter.exported === 2, 'the next is exported');
  t.equal(logged.at(-1), 'traces are exported again');
});

t.test('one that says nothing is given up', async (t) => {
  const collector = await startCollector(t);
  const { exporter, logged } = exporterTo(t, collector.url, { timeoutMs: 30 });
  collector.answer(() => {});
  exporter.add(span(0));
  await until(() => exporter.dropped === 1, 'one span is dropped');
  t.match(logged[0], /aborted/);
});

t.test(
  'an answer without end is left once enough of it was read: its status says that the spans were taken',
  async (t) => {
    const collector = await startCollector(t);
    const { exporter } = exporterTo(t, collector.url);
    const left = Promise.withResolvers<void>();
    collector.answer((res) => {
      const piece = Buffer.alloc(16_384, ' ');
      const more = () => {
        while (!res.destroyed && res.write(piece));
      };
      res.on('drain', more).on('close', left.resolve);
      res.writeHead(200);
      more();
    });
    exporter.add(span(0));
    await left.promise;
    await until(() => exporter.exported === 1, 'the span is taken');
  },
);

t.test('the queue is bounded', async (t) => {
  const { exporter, logged } = exporterTo(t, 'http://127.0.0.1:1', { pauseMs: 60_000 });
  for (let i = 0; i < 10_000; i++) exporter.add(span(i));
  t.equal(exporter.dropped, 10_000 - 4096 - 512, 'but for those waiting, and those on their way');
  await until(() => logged.length === 1, 'one line is logged');
  await exporter.close();
  t.equal(exporter.dropped, 10_000);
  t.match(logged[0], /ECONNREFUSED/);
});

t.test('closing sends what waits', async (t) => {
  const collector = await startCollector(t);
  const { exporter } = exporterTo(t, collector.url, { gatherMs: 60_000 });
  for (let i = 0; i < 600; i++) exporter.add(span(i));
  await exporter.close();
  t.equal(collector.spans().length, 600);
  t.equal(exporter.exported, 600);
  exporter.add(span(0));
  t.equal(exporter.dropped, 1, 'too late');
});
