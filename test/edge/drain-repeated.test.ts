import { connect } from 'node:net';
import t from 'tap';
import { judge } from '../faults/judge.ts';
import { startLoad } from '../faults/load.ts';
import { faultWorld } from '../faults/world.ts';
import { startCollector } from '../support/collector.ts';
import { until } from '../support/until.ts';

/** A traced gateway is told to stop while connections send the same head again and again. */

t.test('what was begun is answered, booked and traced', async (t) => {
  const collector = await startCollector(t);
  const world = await faultWorld(t);
  const gateway = await world.gateway({ OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
  const load = startLoad({ urls: () => [gateway.url], key: world.key, workers: 16, restMs: 0 });
  await load.more(400, 'before the stop', ({ status }) => status === 200);
  gateway.signal('SIGTERM');
  t.equal(await gateway.exited, 0);
  const journal = await load.stop();

  const answered = journal.filter(({ status }) => status !== 0);
  t.same(
    answered.filter(({ status, complete }) => status !== 200 || !complete),
    [],
    `all of ${answered.length} answers were whole`,
  );
  const verdict = await judge(world.sql, journal, world.upstreamJournal());
  t.match(verdict, { missing: [], duplicates: 0, wrong: [], unverified: 0 });
  t.equal(verdict.rows, verdict.complete, 'a call that no client saw answered did not run');
  const spans = collector.spans();
  const traces = new Map<string, number[]>();
  for (const { traceId, kind } of spans)
    traces.set(traceId, [...(traces.get(traceId) ?? []), kind]);
  const kinds = answered.map(({ requestId }) =>
    (traces.get(String(requestId).replaceAll('-', '')) ?? []).sort(),
  );
  t.same(
    kinds.filter(([server, client, ...more]) => server !== 2 || client !== 3 || more.length > 0),
    [],
    'each has a span of the server and one of the call, those of the last moment too',
  );
});

t.test('requests that wait behind an answer in the same connection', async (t) => {
  const world = await faultWorld(t);
  await world.model('slow', 'internal-slow!events-20!pace-20');
  const gateway = await world.gateway();
  await world.served(gateway, 'slow');
  const { hostname, port } = new URL(gateway.url);
  const body = JSON.stringify({ model: 'slow', messages: [{ role: 'user', content: 'Hello' }] });
  const request = `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${world.key}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  const heard = Array.from({ length: 12 }, () => {
    const socket = connect(Number(port), hostname);
    const heard = { text: '', ended: false };
    socket.setEncoding('latin1').on('data', (text: string) => {
      heard.text += text;
    });
    socket
      .on('error', () => {})
      .on('close', () => {
        heard.ended = true;
      });
    socket.write(request);
    return { heard, socket };
  });
  const answers = (text: string): number => text.match(/HTTP\/1\.1 200/g)?.length ?? 0;
  await until(
    () => heard.every(({ heard }) => answers(heard.text) === 1),
    'each head was seen once',
  );
  for (const { socket } of heard) socket.write(request.repeat(3));
  await until(() => world.demo.journal.length >= 24, 'the second request of each has begun');
  gateway.signal('SIGTERM');
  t.equal(await gateway.exited, 0);
  await until(() => heard.every(({ heard }) => heard.ended), 'connections are closed');
  for (const {
    heard: { text },
  } of heard) {
    const heads = [
      ...text.matchAll(/HTTP\/1\.1 (\d+)[\s\S]*?content-length: (\d+)[\s\S]*?\r\n\r\n/gi),
    ];
    const last = heads.at(-1);
    const rest = text.length - ((last?.index ?? 0) + (last?.[0].length ?? 0));
    t.equal(rest, Number(last?.[2]), 'the last answer is whole');
    t.ok(
      heads.length === 4 && heads.every(([, status]) => status === '200'),
      `${heads.length} answers`,
    );
  }
  const [row] = await world.sql`select count(*)::integer as rows from api_usage`;
  t.equal(
    row?.rows,
    heard.reduce((sum, { heard }) => sum + answers(heard.text), 0),
    'one row for each answer',
  );
  t.equal(world.demo.journal.filter(({ outcome }) => outcome !== 'complete').length, 0);
});
