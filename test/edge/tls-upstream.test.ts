import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type AddressInfo, connect } from 'node:net';
import { createServer, setDefaultCACertificates, type TLSSocket } from 'node:tls';
import t, { type Test } from 'tap';
import { makeCertificate, NO_OPENSSL } from '../support/certificate.ts';
import { chunksOf, dataOf, open } from '../support/client.ts';
import { until } from '../support/until.ts';
import { demoUpstream, type TestUpstream } from '../support/upstream.ts';
import { CHAT, startWorld } from '../support/world.ts';

/** An upstream over TLS: clients see what they see of a plain one. */

interface TlsWay {
  readonly url: string;
  readonly cert: string;
  /** Connections open now, and all there ever were. */
  readonly open: Set<TLSSocket>;
  readonly versions: string[];
}

/** TLS in front of an upstream, with a certificate that nobody else trusts. */
async function tlsBefore(t: Test, { url }: TestUpstream): Promise<TlsWay> {
  const made = makeCertificate(t.testdir());
  const cert = readFileSync(made.cert, 'utf8');
  const { hostname, port } = new URL(url);
  const open = new Set<TLSSocket>();
  const versions: string[] = [];
  const server = createServer({ key: readFileSync(made.key), cert }, (client) => {
    open.add(client);
    versions.push(client.getProtocol() ?? '');
    const plain = connect(Number(port), hostname);
    client.pipe(plain).pipe(client);
    plain.on('error', () => client.destroy()).on('close', () => client.destroy());
    client.on('error', () => plain.destroy());
    client.on('close', () => {
      open.delete(client);
      plain.destroy();
    });
  });
  server.on('tlsClientError', () => {});
  server.listen(0, 'localhost');
  await once(server, 'listening');
  t.teardown(() => {
    for (const client of open) client.destroy();
    server.close();
  });
  return {
    url: `https://localhost:${(server.address() as AddressInfo).port}/v1`,
    cert,
    open,
    versions,
  };
}

t.test('an upstream over TLS', { skip: NO_OPENSSL }, async (t) => {
  const demo = await demoUpstream(t);
  const way = await tlsBefore(t, demo);
  const stranger = await startWorld(t, {}, { ...demo, url: way.url });
  t.match(await stranger.customer.chat(), {
    status: 503,
    json: { error: { code: 'service_unavailable' } },
  });
  t.equal(
    demo.received().length,
    0,
    'an upstream with an unknown certificate gets nothing, not even the master key',
  );

  setDefaultCACertificates([way.cert]);
  const world = await startWorld(t, {}, { ...demo, url: way.url });
  const { customer } = world;

  await t.test('answers, streams and embeddings are those of the plain one', async (t) => {
    const plain = await startWorld(t, {}, demo);
    const content = async (customer: typeof world.customer) => {
      const { choices, usage } = (await customer.chat()).json;
      const streamed = (await customer.chat({ stream: true })).text;
      const text = chunksOf(streamed).map((chunk) => chunk.choices[0]?.delta.content ?? '');
      const { data } = (await customer.embed()).json;
      return { choices, usage, text: text.join(''), last: dataOf(streamed).at(-1), data };
    };
    t.same(await content(customer), await content(plain.customer));
  });

  await t.test('connections are used again', async (t) => {
    const before = way.versions.length;
    for (let n = 0; n < 20; n++)
      t.equal((await customer.chat({ stream: n % 2 === 0 })).status, 200);
    t.ok(
      way.versions.length - before <= 1,
      `${way.versions.length - before} new connections for 20 calls`,
    );
    t.same(new Set(way.versions), new Set(['TLSv1.3']));
  });

  await t.test('bodies of megabytes and many calls at once', async (t) => {
    const large = { messages: [{ role: 'user', content: 'x'.repeat(3_000_000) }] };
    const calls = Array.from({ length: 40 }, (_, n) =>
      customer.chat(n % 10 === 0 ? large : { stream: n % 2 === 0 }),
    );
    const answers = await Promise.all(calls);
    t.same(new Set(answers.map(({ status }) => status)), new Set([200]));
    const sizes = demo.received().map(({ body }) => JSON.stringify(body).length);
    t.equal(sizes.filter((size) => size > 3_000_000).length, 4, 'large bodies arrive whole');
  });

  await t.test(
    'a client that leaves closes the connection, a connection that breaks is told',
    async (t) => {
      await world.part(customer, 'long', demo.parts.long);
      await world.part(customer, 'broken', demo.parts.broken);
      const gone = new AbortController();
      const body = { model: 'long', stream: true, messages: [{ role: 'user', content: 'Hello' }] };
      const answer = await open(`${world.url}/chat/completions`, {
        key: customer.key,
        body,
        signal: gone.signal,
      });
      t.equal(answer.status, 200);
      gone.abort();
      await until(
        () => demo.received().at(-1)?.outcome !== 'open',
        'the upstream is rid of the call',
      );
      const { text } = await customer.chat({ model: 'broken', stream: true });
      t.equal(chunksOf(text).at(-1).error.code, 'upstream_error');
      // no close_notify: whether the rest is missing, nobody knows
      const cut = await open(`${world.url}/chat/completions`, { key: customer.key, body });
      for (const connection of way.open) connection.destroy();
      t.equal(chunksOf(await cut.text()).at(-1).error.code, 'upstream_error');
      t.equal((await customer.chat({ model: CHAT })).status, 200, 'the next call is answered');
    },
  );
});
