import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import t, { type Test } from 'tap';
import { runCli } from '../../../src/cli/cli.ts';
import { parseDatabaseUrl, type Target } from '../../../src/store/connection/address.ts';
import { CHILD_ENV } from '../../support/child.ts';
import { startGateway } from '../../support/gateway.ts';
import { emptyDatabase } from '../../support/postgres.ts';
import { startProxy } from '../../support/proxy.ts';

/** A database that starts while something asks for it. */

/** The server of a database, which says at first that it is starting up. @param left how often */
async function slowStart(t: Test, url: string, left: number) {
  const { targets, user, database } = parseDatabaseUrl(url);
  const state = { left, refused: 0 };
  const server = createServer((client) => {
    client.on('error', () => {});
    if (state.left > 0) {
      state.left--;
      state.refused++;
      client.once('data', () => client.end(STARTING_UP));
      return;
    }
    const target = connect(targets[0] as Extract<Target, { path: string }>).on('error', () =>
      client.destroy(),
    );
    client.pipe(target).pipe(client);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  return { url: `postgres://${user}@127.0.0.1:${port}/${database}`, state };
}

const fields = 'SFATAL\0VFATAL\0C57P03\0Mthe database system is starting up\0\0';
const STARTING_UP = Buffer.concat([Buffer.from('E'), Buffer.alloc(4), Buffer.from(fields)]);
STARTING_UP.writeInt32BE(4 + fields.length, 1);

/** Runs a command. @param onLine called for the first line of standard error */
async function tollgate(argv: string[], url: string, onLine: () => unknown = () => {}) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  let err = '';
  stderr.on('data', (piece) => {
    if (err === '') onLine();
    err += piece;
  });
  const env = { ...CHILD_ENV, DATABASE_URL: url } as Record<string, string>;
  const code = await runCli({
    argv,
    env,
    stdin: Readable.from([Buffer.from('companies: []')]),
    stdout,
    stderr,
  });
  return { code, err };
}

t.test('every command waits for a server that says that it starts', async (t) => {
  const { url } = await emptyDatabase(t);
  for (const argv of [
    ['migrate'],
    ['company', 'list'],
    ['apply', '-'],
    ['database', 'backup', '--to', join(t.testdir(), 'b')],
  ]) {
    const { url: slow, state } = await slowStart(t, url, 3);
    const { code, err } = await tollgate(argv, slow);
    t.equal(code, 0, `${argv[0]}: ${err}`);
    t.equal(state.refused, 3);
    t.match(err, 'the database system is starting up; waiting for it, up to 60 s');
    t.equal(err.split('starting up').length, 2, 'said once');
  }
});

t.test('a gateway waits for it too', async (t) => {
  const { url } = await emptyDatabase(t);
  const { url: slow, state } = await slowStart(t, url, 3);
  const gateway = await startGateway(t, 'http://127.0.0.1:1', { DATABASE_URL: slow });
  t.equal(state.refused, 3);
  t.match(gateway.logged.join(''), 'the database system is starting up; waiting for it');
});

t.test(
  'what prepares a database waits for one that nobody answers for; other commands tell at once',
  async (t) => {
    const { url } = await emptyDatabase(t);
    const proxy = await startProxy(t, url);
    for (const argv of [['migrate'], ['apply', '-']]) {
      await proxy.cut();
      const { code, err } = await tollgate(argv, proxy.url, () => proxy.restore());
      t.equal(code, 0, err);
      t.match(err, /ECONNREFUSED.*; waiting for it, up to 60 s/);
    }
    await proxy.cut();
    t.match(await tollgate(['company', 'list'], proxy.url), {
      code: 1,
      err: /ECONNREFUSED.*check that Postgres runs/,
    });
  },
);
