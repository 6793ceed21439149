import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { parseAddress } from '../../src/store/address.ts';
import { tollgate } from '../support/cli.ts';
import { ask, eventually } from '../support/client.ts';
import { emptyDatabase } from '../support/postgres.ts';
import { MASTER_KEY } from '../support/upstream.ts';
import { CHAT, startWorld } from '../support/world.ts';

/** PgBouncer in transaction mode: a server connection is ours for one transaction, the next may be on another. */

const PROGRAM = ['/usr/sbin/pgbouncer', '/usr/bin/pgbouncer', '/usr/local/bin/pgbouncer'].find(
  (path) => spawnSync(path, ['--version']).status === 0,
);
const skip = PROGRAM === undefined && 'pgbouncer is not installed';
const MAIN = new URL('../../src/main.ts', import.meta.url).pathname;
const SERVERS = 3; // fewer than its clients want at once

/** A PgBouncer in front of a database. @returns the database's address by way of it */
async function startBouncer(t: Test, url: string): Promise<string> {
  const { targets, user, database } = parseAddress(url);
  const [target] = targets;
  if (target === undefined) throw new Error('no server');
  const [host, port] =
    'path' in target ? [dirname(target.path), target.path.split('.').at(-1)] : [target.host, target.port];
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-bouncer-'));
  chmodSync(folder, 0o755);
  const free = createServer().listen(0, '127.0.0.1');
  await once(free, 'listening');
  const { port: listenPort } = free.address() as { port: number };
  free.close();
  const settings = {
    listen_addr: '127.0.0.1',
    listen_port: listenPort,
    unix_socket_dir: '',
    auth_type: 'any',
    pool_mode: 'transaction',
    default_pool_size: SERVERS,
    max_client_conn: 200,
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`);
  const databases = `${database} = host=${host} port=${port} dbname=${database} user=${user}`;
  writeFileSync(join(folder, 'pgbouncer.ini'), ['[databases]', databases, '[pgbouncer]', ...lines, ''].join('\n'));
  // it refuses to run as root; the owner of the server's private socket may use that
  const owner = process.getuid?.() === 0 && 'path' in target ? statSync(host as string) : null;
  const as = owner === null || owner.uid === 0 ? {} : { uid: owner.uid, gid: owner.gid };
  const child = spawn(PROGRAM as string, ['-q', join(folder, 'pgbouncer.ini')], { ...as, stdio: 'ignore' });
  t.teardown(async () => {
    await end(child, 'SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  await eventually(() => accepts(listenPort), Boolean);
  return `postgres://${user}@127.0.0.1:${listenPort}/${database}`;
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => resolve(true));
    socket.on('error', () => resolve(false)).on('connect', () => socket.destroy());
  });
}

async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode !== null || child.signalCode !== null) return child.exitCode;
  child.kill(signal);
  return (await once(child, 'exit'))[0] as number | null;
}

/** `tollgate serve` as a process of its own. */
async function serve(t: Test, env: Record<string, string>): Promise<{ url: string; child: ChildProcess }> {
  const settings = {
    PORT: '0',
    ADMIN_PORT: 'off',
    SPOOL_DIR: '',
    LOG_LEVEL: 'warn',
    DATABASE_CONNECTIONS: '3',
    ...env,
  };
  const child = spawn(process.execPath, [MAIN, 'serve', '--json'], {
    env: { PATH: process.env.PATH ?? '', ...settings },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => end(child, 'SIGKILL'));
  let printed = '';
  for await (const piece of child.stdout.iterator({ destroyOnReturn: false })) {
    printed += piece;
    if (printed.includes('\n')) break;
  }
  return { url: JSON.parse(printed).base_url, child };
}

t.test('behind PgBouncer replicas serve, meter, hear of a revoked key by polling, and stop', { skip }, async (t) => {
  const world = await startWorld(t);
  const { sql, customer } = world;
  const through = await startBouncer(t, world.databaseUrl);
  const env = { DATABASE_URL: through, UPSTREAM_URL: world.upstream.url, UPSTREAM_API_KEY: MASTER_KEY };
  const replicas = [await serve(t, env), await serve(t, env)];
  const chat = (url: string, key: string) =>
    ask(`${url}/chat/completions`, { key, body: { model: CHAT, messages: [{ role: 'user', content: 'Hello' }] } });

  // every request needs something looked up, while batches are written and both replicas poll
  const statuses = await Promise.all(
    Array.from({ length: 120 }, async (_, i) => {
      const key = await world.key(customer.company);
      return (await chat(replicas[i % 2]?.url as string, key)).status;
    }),
  );
  t.same(new Set(statuses), new Set([200]));
  t.equal((await world.ledger(customer.company, 120)).length, 120);

  const key = await world.key(customer.company);
  for (const { url } of replicas) t.equal((await chat(url, key)).status, 200);
  await sql`update api_keys set revoked_at = now() where digest = sha256(${key}::bytea)`;
  await sleep(2000);
  for (const { url } of replicas) t.equal((await chat(url, key)).status, 401, 'two seconds later it is dead');

  await world.ledger(customer.company, 122);
  t.match(await tollgate(['ledger', 'verify'], { env }), { code: 0, err: '' });
  const month = new Date().toISOString().slice(0, 7);
  const { out } = await tollgate(['ledger', 'export', '--company', customer.company, '--month', month, '--csv'], {
    env,
  });
  t.equal(out.trim().split('\n').length, 1 + 122);
  for (const { child } of replicas) t.equal(await end(child, 'SIGTERM'), 0);
});

t.test('replicas may migrate at once through PgBouncer', { skip }, async (t) => {
  const { url, db } = await emptyDatabase(t);
  const env = { DATABASE_URL: await startBouncer(t, url) };
  const runs = await Promise.all([1, 2, 3, 4].map(() => tollgate(['migrate', '--json'], { env })));
  for (const { code, err } of runs) t.match({ code, err }, { code: 0, err: '' });
  const applied = runs.flatMap(({ json }) => json.applied as string[]).sort();
  const rows = await db.run(5000, (sql) => sql<{ name: string }[]>`select name from schema_migrations order by name`);
  t.same(
    applied,
    rows.map(({ name }) => name),
    'each file once',
  );
});
