import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { connect, createServer as createHttp2Server } from 'node:http2';
import { type AddressInfo, connect as connectTcp } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { json } from 'node:stream/consumers';
import express from 'express';
import Fastify from 'fastify';
import OpenAI from 'openai';
import t, { type Test } from 'tap';
import {
  ConfigError,
  createGateway,
  DatabaseUnavailable,
  type GatewayLogger,
  type GatewayOptions,
} from '../src/index.ts';
import { ask, open, thrownBy } from './support/client.ts';
import { until } from './support/until.ts';
import { MASTER_KEY } from './support/upstream.ts';
import { CHAT, startWorld } from './support/world.ts';

const MESSAGES = [{ role: 'user' as const, content: 'Hello there' }];

/** Process-wide things an embedded gateway has no business with. */
const processWide = () =>
  ['SIGTERM', 'SIGINT', 'exit', 'uncaughtException'].map((name) => process.listenerCount(name));

/** A gateway beside an application's own routes in one server, on the database of a world. */
async function host(t: Test, options: Partial<GatewayOptions> = {}) {
  const world = await startWorld(t);
  const lines: [level: string, fields: object, text: string][] = [];
  const take = (level: string) => (fields: object, text: string) =>
    void lines.push([level, fields, text]);
  const logger: GatewayLogger = {
    error: take('error'),
    warn: take('warn'),
    info: take('info'),
    debug: take('debug'),
  };
  const gateway = await createGateway({
    database: `${world.databaseUrl}&application_name=embedded`,
    upstream: world.upstream.url,
    upstreamApiKey: MASTER_KEY,
    spool: null,
    logger,
    ...options,
  });
  const server = createServer(gateway.serverOptions, (req, res) => {
    if (req.url === '/hello') res.end('the application itself');
    else gateway.handler(req, res);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(async () => {
    await gateway.close();
    server.closeAllConnections();
    server.close();
  });
  const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return { world, gateway, server, base, lines };
}

t.test(
  'a gateway stands beside an application’s own routes; an SDK does not know the difference',
  async (t) => {
    const before = processWide();
    const spool = mkdtempSync(join(tmpdir(), 'tollgate-embedded-'));
    t.teardown(() => rmSync(spool, { recursive: true, force: true }));
    const { world, gateway, base, lines } = await host(t, { spool });
    const { company, key } = world.customer;
    const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: key, maxRetries: 0 });

    const answer = await client.chat.completions.create({ model: CHAT, messages: MESSAGES });
    t.equal(answer.model, CHAT);
    const stream = await client.chat.completions.create({
      model: CHAT,
      messages: MESSAGES,
      stream: true,
      stream_options: { include_usage: true },
    });
    let told = 0;
    for await (const { usage } of stream) told = usage?.completion_tokens ?? told;
    t.equal((await ask(`${base}/hello`)).text, 'the application itself');
    t.match(await ask(`${base}/elsewhere`), {
      status: 404,
      json: { error: { type: 'not_found_error' } },
    });

    const rows = await world.ledger(company, 2);
    t.same(
      rows.map((row) => row.completion_tokens),
      [answer.usage?.completion_tokens, told],
    );
    t.match(
      await gateway.metrics(),
      /^tollgate_requests_total\{endpoint="chat\.completions",status="200"\} 2$/m,
    );
    const requests = lines
      .filter(([, , text]) => text === 'request')
      .map(([level, fields]) => ({ level, ...fields }));
    t.match(requests, [
      { level: 'info', slug: CHAT, status: 200, company },
      { status: 200 },
      { status: 404 },
    ]);
    t.notMatch(JSON.stringify(lines), key);

    t.equal(await gateway.drain(5), 0);
    t.equal(await gateway.close(), 0);
    t.same(readdirSync(spool), [], 'the spool is empty');
    t.match(await ask(`${base}/v1/models`, { key }), {
      status: 503,
      json: { error: { code: 'service_unavailable' } },
    });
    t.equal((await ask(`${base}/hello`)).status, 200, 'the application serves on');
    t.same(processWide(), before, 'signals and exits are the application’s');
  },
);

/** A server of somebody else's with the gateway in it. @returns its base address */
async function listen(t: Test, server: Server): Promise<string> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

t.test('it works in an Express application, mounted at its path or before all', async (t) => {
  const { world, gateway } = await host(t);
  const { key } = world.customer;
  for (const mount of ['/v1', '/']) {
    const app = express();
    app.use(mount, gateway.handler);
    const base = await listen(t, createServer(app));
    const body = { model: CHAT, messages: MESSAGES };
    t.equal((await ask(`${base}/v1/chat/completions`, { key, body })).status, 200, mount);
    t.equal((await ask(`${base}/v1/models`, { key })).status, 200, mount);
  }
});

t.test(
  'behind a body parser it answers 500 at once, and the log says where to mount it',
  async (t) => {
    const { world, gateway, lines } = await host(t);
    const { key } = world.customer;
    const app = express();
    app.use(express.json());
    app.use('/v1', gateway.handler);
    const fastify = Fastify();
    fastify.all('/v1/*', (request, reply) => {
      reply.hijack();
      gateway.handler(request.raw, reply.raw);
    });
    await fastify.ready();
    for (const server of [createServer(app), fastify.server]) {
      const base = await listen(t, server);
      lines.length = 0;
      for (const stream of [false, true]) {
        const answer = await ask(`${base}/v1/chat/completions`, {
          key,
          body: { model: CHAT, messages: MESSAGES, stream },
        });
        t.match(answer, { status: 500, json: { error: { code: 'internal_error' } } });
      }
      const [fields] = lines.filter(([level]) => level === 'error').map(([, fields]) => fields);
      t.match(JSON.stringify(fields), /read before.*mount.*before.*body parser/i);
      t.equal(
        (await ask(`${base}/v1/models`, { key })).status,
        200,
        'what has no body is answered',
      );
    }
  },
);

t.test('a request of HTTP/2 is answered 500 at once, and the log says why', async (t) => {
  const { world, gateway, lines } = await host(t);
  const server = createHttp2Server(gateway.handler as never).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
  t.teardown(() => {
    session.destroy();
    server.close();
  });
  const request = session.request({
    ':path': '/v1/models',
    authorization: `Bearer ${world.customer.key}`,
  });
  const [headers] = await once(request, 'response');
  t.match(headers, { ':status': 500, 'x-should-retry': 'false' });
  t.match(await json(request), { error: { code: 'internal_error', message: /HTTP\/1\.1/ } });
  t.match(
    lines.filter(([level]) => level === 'error'),
    [['error', { request_id: headers['x-request-id'] }, /HTTP\/2.*HTTP\/1\.1/]],
  );
});

t.test('draining waits for open answers, closing cuts them and tells their clients', async (t) => {
  const { world, gateway, base } = await host(t);
  const { customer } = world;
  await world.part(customer, 'slow', 'internal-slow!events-3000!pace-20');
  const body = { model: 'slow', messages: MESSAGES, stream: true };
  const answer = await open(`${base}/v1/chat/completions`, { key: customer.key, body });
  const reader = (answer.body as ReadableStream<Uint8Array>).getReader();
  await reader.read();
  t.equal(await gateway.drain(0.05), 1, 'one is still open');
  const rest = (async () => {
    let text = '';
    for (let read = await reader.read(); !read.done; read = await reader.read())
      text += Buffer.from(read.value);
    return text;
  })();
  const listening = () => world.sql`
    select from pg_stat_activity
    where datname = current_database() and application_name = 'embedded' and query like 'listen %'`;
  t.equal((await listening()).length, 1);
  let closing = Promise.resolve(-1);
  await world.sql.begin(async (sql) => {
    await sql`lock table api_usage in share mode`; // the record waits
    closing = gateway.close();
    await until(
      async () => (await listening()).length === 0,
      'everything else is closed meanwhile',
    );
  });
  t.equal(await closing, 0);
  t.match(await rest, '"code":"service_unavailable"', 'its client is told');
  t.same(await world.sql`select outcome from api_usage`, [], 'what it saw fail is free');
});

t.test('it takes three database connections at most, however busy', async (t) => {
  const { world, base } = await host(t);
  const { sql, customer } = world;
  let most = 0;
  let done = false;
  const watch = (async () => {
    while (!done) {
      const [row] = await sql`
          select count(*)::integer as open from pg_stat_activity
          where datname = current_database() and application_name = 'embedded'`;
      most = Math.max(most, row?.open);
    }
  })();
  const worker = async () => {
    for (let i = 0; i < 20; i++) {
      const key = await world.key(customer.company); // each one is looked up
      const body = { model: CHAT, messages: MESSAGES };
      t.equal((await ask(`${base}/v1/chat/completions`, { key, body })).status, 200);
    }
  };
  await Promise.all(Array.from({ length: 8 }, worker));
  done = true;
  await watch;
  t.equal(most, 3);
});

t.test(
  'a request whose client left before the application passed it on is not taken for an open one',
  async (t) => {
    const { world, gateway } = await host(t);
    const passedOn = Promise.withResolvers<void>();
    const server = createServer(gateway.serverOptions, async (req, res) => {
      const closed = once(req.socket, 'close'); // such as while the application looks up who asks
      client.destroy();
      await closed;
      gateway.handler(req, res);
      passedOn.resolve();
    });
    const { hostname, port } = new URL(await listen(t, server));
    const client = connectTcp(Number(port), hostname);
    client.write(
      `GET /v1/models HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${world.customer.key}\r\n\r\n`,
    );
    await passedOn.promise;
    t.match(await gateway.metrics(), /^tollgate_requests_in_flight 0$/m);
    t.equal(await gateway.drain(0), 0);
  },
);

t.test(
  'the member of a cost centre is a setting; one that is undefined has its default',
  async (t) => {
    const settings = { COST_CENTER_MEMBER: 'team', OWNED_BY: undefined };
    const { world, base } = await host(t, { settings });
    const { key, company } = world.customer;
    const body = { model: CHAT, messages: MESSAGES, metadata: { team: 'Marketing' } };
    t.equal((await ask(`${base}/v1/chat/completions`, { key, body })).status, 200);
    await world.ledger(company, 1);
    t.match(await world.sql`select cost_center from api_usage`, [{ cost_center: 'Marketing' }]);
    t.match((await ask(`${base}/v1/models`, { key })).json.data, [{ owned_by: 'tollgate' }]);
  },
);

t.test('what is wrong with the options is told before anything is opened', async (t) => {
  const good = {
    database: 'postgres://127.0.0.1:1/x',
    upstream: 'http://127.0.0.1:1/v1',
    spool: null,
  };
  const mistakes = async (options: object) => {
    const error = await thrownBy(createGateway({ ...good, ...options } as GatewayOptions));
    return error instanceof ConfigError ? error.mistakes : error;
  };
  t.match(await mistakes({ settings: { MAX_BODY_BYTES: 1, BASE_PATH: 'v1' } }), [
    /^BASE_PATH: /,
    /^MAX_BODY_BYTES: /,
  ]);
  t.ok(
    (await mistakes({ settings: { LOG_LEVEL: undefined } })) instanceof DatabaseUnavailable,
    'undefined is unset',
  );
  t.match(await mistakes({ settings: { PORT: 80 } }), ['PORT: is no setting of createGateway']);
  for (const logger of [{}, null, { ...console, debug: undefined }])
    t.match(await mistakes({ logger }), [
      'logger: must have the functions error, warn, info and debug',
    ]);
  t.match(await mistakes({ spol: null }), ['spol: is no option of createGateway']);
  t.match(await mistakes({ database: '', upstream: '' }), [
    'database: is needed',
    'upstream: is needed',
  ]);
  t.match(await mistakes({ database: 'postgres://host:0/x' }), [/port/]);
  t.ok(
    (await mistakes({})) instanceof DatabaseUnavailable,
    'a database that is away is no mistake in the options',
  );
});
