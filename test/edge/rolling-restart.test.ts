import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { Agent, setGlobalDispatcher } from 'undici';
import { type App, openApp } from '../../src/app.ts';
import { readConfig } from '../../src/config.ts';
import { createLog } from '../../src/log.ts';
import { dataOf } from '../support/client.ts';
import { FAST_HTTP, startGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { demoUpstream, MASTER_KEY } from '../support/upstream.ts';
import { customerWith } from '../support/world.ts';

/** Two replicas behind a balancer are restarted one after the other under load: nothing breaks, nothing is refused. */

// a gateway that drains closes connections that rest for three seconds: these clients use none that long
setGlobalDispatcher(new Agent({ keepAliveTimeout: 1000, keepAliveMaxTimeout: 1000 }));
const upstream = await demoUpstream(t);
const first = await startGateway(t, upstream.url); // has the database and the company
const company = await first.company();
await first.model('stream', { upstream: 'internal-x!events-12!pace-50', company });
await first.model('quick', { upstream: 'internal-x', company });
const key = await first.key(company);

async function replica(): Promise<App> {
  const env = {
    PORT: '0',
    ADMIN_PORT: '0',
    DATABASE_URL: first.databaseUrl,
    UPSTREAM_URL: upstream.url,
    UPSTREAM_API_KEY: MASTER_KEY,
    SPOOL_DIR: '',
    FAST_HTTP,
  };
  const silent = new Writable({ write: (_line, _encoding, done) => done() });
  const app = await openApp(readConfig(env), createLog({ level: 'error' }, silent));
  await app.listen();
  return app;
}

/** A balancer of TCP connections: hands each new one to the next replica that accepts it. */
async function balancer(t: Test, ports: number[]): Promise<string> {
  let turn = 0;
  const server = createServer((client: Socket) => {
    const attempt = (tries: number) => {
      const port = ports[turn++ % ports.length] as number;
      const socket = connect(port, '127.0.0.1');
      socket.once('connect', () => {
        client.pipe(socket).pipe(client);
        client.on('close', () => socket.destroy());
        socket.on('close', () => client.destroy());
      });
      socket.once('error', () =>
        socket.connecting && tries < 4 ? attempt(tries + 1) : client.destroy(),
      );
      socket.on('error', () => {});
    };
    client.on('error', () => {});
    attempt(0);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}

t.test('replicas restart in turn: no stream breaks, no request is refused', async (t) => {
  const replicas = [await replica(), await replica()];
  const ports = replicas.map(({ apiUrl }) => Number(new URL(apiUrl).port));
  const url = await balancer(t, ports);
  const customer = customerWith(url, company, key);

  let running = true;
  const outcomes: Record<string, number> = {};
  const count = (what: string) => {
    outcomes[what] = (outcomes[what] ?? 0) + 1;
  };
  const streaming = async () => {
    while (running) {
      const answer = await customer
        .chat({ model: 'stream', stream: true })
        .catch((error) => error as Error);
      if (answer instanceof Error)
        count(`stream: ${answer.message} ${(answer.cause as Error)?.message}`);
      else
        count(
          answer.status === 200 && dataOf(answer.text).at(-1) === '[DONE]'
            ? 'whole stream'
            : 'broken stream',
        );
    }
  };
  const asking = async () => {
    while (running) {
      const answer = await customer.chat({ model: 'quick' }).catch((error) => error as Error);
      count(
        answer instanceof Error
          ? `plain: ${answer.message} ${(answer.cause as Error)?.message}`
          : `plain ${answer.status}`,
      );
      await sleep(20); // paced traffic
    }
  };
  const clients = [...Array.from({ length: 6 }, streaming), ...Array.from({ length: 2 }, asking)];
  const busy = () => (outcomes['plain 200'] ?? 0) > 10 && (outcomes['whole stream'] ?? 0) >= 6;
  await until(busy, 'both kinds of requests are answered');
  for (const i of [0, 1]) {
    const leaving = replicas[i] as App;
    const successor = await replica();
    ports[i] = Number(new URL(successor.apiUrl).port);
    t.equal(await leaving.drain(60), 0, 'nothing was cut');
    await leaving.close();
    replicas[i] = successor;
  }
  running = false;
  await Promise.all(clients);
  for (const app of replicas) {
    await app.drain(60);
    await app.close();
  }
  t.comment(JSON.stringify(outcomes));
  t.same(Object.keys(outcomes).sort(), ['plain 200', 'whole stream']);
  const rows = await first.ledger(
    company,
    (outcomes['plain 200'] ?? 0) + (outcomes['whole stream'] ?? 0),
  );
  t.equal(
    rows.length,
    (outcomes['plain 200'] ?? 0) + (outcomes['whole stream'] ?? 0),
    'each booked once',
  );
  t.ok(rows.every(({ outcome }) => outcome === 'completed'));
});
