import assert from 'node:assert/strict';
import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import t, { type Test } from 'tap';
import { insertCompany } from '../../../src/store/company/company.ts';
import { parseDatabaseUrl } from '../../../src/store/connection/address.ts';
import { type Database, openDatabase, type Sql } from '../../../src/store/connection/pool.ts';
import { ensureTenantRole, within } from '../../../src/store/connection/tenant-role.ts';
import { CHILD_ENV } from '../../support/child.ts';
import { tollgate } from '../../support/cli.ts';
import { ask } from '../../support/client.ts';
import { emptyDatabase, testDatabase } from '../../support/postgres.ts';
import { until } from '../../support/until.ts';
import { MASTER_KEY } from '../../support/upstream.ts';
import { CHAT, startWorld } from '../../support/world.ts';

/** PgBouncer in transaction mode: each transaction may run on another server connection. */

const PROGRAM = [
  'pgbouncer',
  '/usr/sbin/pgbouncer',
  '/usr/bin/pgbouncer',
  '/usr/local/bin/pgbouncer',
].find((path) => spawnSync(path, ['--version']).status === 0);
const skip = PROGRAM === undefined && 'pgbouncer is not installed';
const MAIN = new URL('../../../src/main.ts', import.meta.url).pathname;
const CALLS = 40;
const SERVERS = 3; // fewer than its clients want at once

/** A PgBouncer in front of a database. @returns the database's address by way of it */
async function startBouncer(t: Test, url: string, mode = 'transaction'): Promise<string> {
  const { targets, user, database } = parseDatabaseUrl(url);
  const [target] = targets;
  if (target === undefined) throw new Error('no server');
  const [host, port] =
    'path' in target
      ? [dirname(target.path), target.path.split('.').at(-1)]
      : [target.host, target.port];
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
    pool_mode: mode,
    default_pool_size: SERVERS,
    max_client_conn: 200,
  };
  const lines = Object.entries(settings).map(([name, value]) => `${name} = ${value}`);
  const databases = `${database} = host=${host} port=${port} dbname=${database} user=${user}`;
  writeFileSync(
    join(folder, 'pgbouncer.ini'),
    ['[databases]', databases, '[pgbouncer]', ...lines, ''].join('\n'),
  );
  // it refuses to run as root; the owner of the server's private socket may use that
  const owner = process.getuid?.() === 0 && 'path' in target ? statSync(host as string) : null;
  const as = owner === null || owner.uid === 0 ? {} : { uid: owner.uid, gid: owner.gid };
  const child = spawn(PROGRAM as string, ['-q', join(folder, 'pgbouncer.ini')], {
    ...as,
    stdio: 'ignore',
  });
  t.teardown(async () => {
    await end(child, 'SIGKILL');
    rmSync(folder, { recursive: true, force: true });
  });
  await until(() => accepts(listenPort), 'PgBouncer listens');
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
async function serve(
  t: Test,
  env: Record<string, string>,
): Promise<{ url: string; child: ChildProcess }> {
  const settings = {
    PORT: '0',
    ADMIN_PORT: 'off',
    SPOOL_DIR: '',
    LOG_LEVEL: 'warn',
    DATABASE_CONNECTIONS: '3',
    ...env,
  };
  const child = spawn(process.execPath, [MAIN, 'serve', '--json'], {
    env: { ...CHILD_ENV, ...settings },
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

t.test(
  'behind PgBouncer replicas serve, meter, hear of a revoked key by polling, and stop',
  { skip },
  async (t) => {
    const world = await startWorld(t);
    const { sql, customer } = world;
    const through = await startBouncer(t, world.databaseUrl);
    const env = {
      DATABASE_URL: through,
      UPSTREAM_URL: world.upstream.url,
      UPSTREAM_API_KEY: MASTER_KEY,
    };
    const replicas = [await serve(t, env), await serve(t, env)];
    const chat = (url: string, key: string) =>
      ask(`${url}/chat/completions`, {
        key,
        body: { model: CHAT, messages: [{ role: 'user', content: 'Hello' }] },
      });

    // every request needs something looked up, while batches are written and both replicas poll
    const statuses = await Promise.all(
      Array.from({ length: CALLS }, async (_, i) => {
        const key = await world.key(customer.company);
        return (await chat(replicas[i % 2]?.url as string, key)).status;
      }),
    );
    t.same(new Set(statuses), new Set([200]));
    t.equal((await world.ledger(customer.company, CALLS)).length, CALLS);

    const key = await world.key(customer.company);
    for (const { url } of replicas) t.equal((await chat(url, key)).status, 200);
    await sql`update api_keys set revoked_at = now() where digest = sha256(${key}::bytea)`;
    let served = CALLS + 2; // and what was answered before the revocation arrived
    for (const { url } of replicas) {
      const refused = async () => {
        const { status } = await chat(url, key);
        if (status === 200) served += 1;
        return status === 401;
      };
      await until(refused, 'a replica refuses the revoked key');
    }
    await world.ledger(customer.company, served);
    t.match(await tollgate(['ledger', 'verify'], { env }), { code: 0, err: '' });
    const month = new Date().toISOString().slice(0, 7);
    const { out } = await tollgate(
      ['ledger', 'export', '--company', customer.company, '--month', month, '--csv'],
      {
        env,
      },
    );
    t.equal(out.trim().split('\n').length, 1 + served);
    for (const { child } of replicas) t.equal(await end(child, 'SIGTERM'), 0);
  },
);

t.test(
  'the tenant role works through PgBouncer, and ends with its transaction',
  { skip },
  async (t) => {
    const direct = await testDatabase(t);
    const companies = await direct.db.transaction(MS, async (sql) => {
      const made = [];
      for (let n = 0; n < 4; n++) {
        const { id } = await insertCompany(sql, { name: `company ${n}` });
        await sql`insert into chat_usage (company_id, cost_eur) values (${id}, ${n + 1})`;
        made.push(id);
      }
      return made;
    });
    const url = await startBouncer(t, direct.url);
    // more clients than servers: a server connection goes from company to company, and to whoever has entered none
    const clients = Array.from({ length: 3 * SERVERS }, () =>
      openDatabase({ url, maxConnections: 1 }),
    );
    t.teardown(() => Promise.all(clients.map((client) => client.close())));
    t.equal(await ensureTenantRole(clients[0] as Database), null);
    const owners = async (sql: Sql) =>
      (
        await sql<{ company_id: string; role: string; server: number }[]>`
      select company_id, current_user::text as role, pg_backend_pid() as server from chat_usage`
      ).map((row) => {
        servers.add(row.server);
        return { company: row.company_id, tenant: row.role === 'tollgate_tenant' };
      });
    const servers = new Set<number>();
    const all = companies.map((company) => ({ company, tenant: false })).sort(byCompany);
    const changedMind = new Error('changed my mind');

    await Promise.all(
      clients.map(async (client, c) => {
        for (let n = 0; n < 12; n++) {
          const company = companies[(c + n) % companies.length] as string;
          const seen = await within(client, company, MS, async (sql) => {
            const first = await owners(sql);
            await sql`select pg_sleep(0.002)`; // others take turns meanwhile
            return [...first, ...(await owners(sql))];
          });
          assert.deepEqual(seen, Array(2).fill({ company, tenant: true }));
          if (n % 4 === 0) assert.deepEqual((await client.run(MS, owners)).sort(byCompany), all);
          if (n % 4 === 1) {
            const failing = within(client, company, MS, (sql) => sql`select 1 / 0`);
            await assert.rejects(failing, { code: '22012' });
          }
          if (n % 4 === 2) {
            const failing = within(client, company, MS, async () => Promise.reject(changedMind));
            await assert.rejects(failing, changedMind);
          }
        }
      }),
    );
    t.ok(
      servers.size > 1 && servers.size <= SERVERS,
      `${servers.size} server connections for ${clients.length} clients`,
    );
    const other = companies[1] as string;
    await t.rejects(
      within(
        clients[0] as Database,
        companies[0] as string,
        MS,
        (sql) => sql`insert into chat_usage (company_id, cost_eur) values (${other}, 1)`,
      ),
      { code: '42501' },
      'nothing is put among the rows of another',
    );

    // clients that vanish in the middle leave their server connection to nobody
    const lost = Array.from({ length: SERVERS }, () =>
      spawn(process.execPath, ['--input-type=module', '-e', VANISH, url, other], {
        stdio: ['ignore', 'pipe', 'inherit'],
      }),
    );
    for (const child of lost) {
      await once(child.stdout, 'data');
      await end(child, 'SIGKILL');
    }
    for (const client of clients) t.same((await client.run(MS, owners)).sort(byCompany), all);
  },
);

const MS = 60_000;
const byCompany = (a: { company: string }, b: { company: string }) =>
  a.company < b.company ? -1 : 1;
const module = (path: string) => new URL(`../../../src/store/${path}`, import.meta.url).href;
/** Enters a company, prints that it has, and stays in the transaction. */
const VANISH = `
  import { openDatabase } from '${module('connection/pool.ts')}';
  import { within } from '${module('connection/tenant-role.ts')}';
  const [url, company] = process.argv.slice(1);
  await within(openDatabase({ url }), company, 60_000, async (sql) => {
    await sql\`select 1\`;
    console.log('entered');
    await sql\`select pg_sleep(60)\`;
  });`;

t.test('replicas may migrate at once through PgBouncer', { skip }, async (t) => {
  const { url, db } = await emptyDatabase(t);
  const env = { DATABASE_URL: await startBouncer(t, url) };
  const runs = await Promise.all([1, 2, 3, 4].map(() => tollgate(['migrate', '--json'], { env })));
  for (const { code, err } of runs) t.match({ code, err }, { code: 0, err: '' });
  const applied = runs.flatMap(({ json }) => json.applied as string[]).sort();
  const rows = await db.run(
    5000,
    (sql) => sql<{ name: string }[]>`select name from schema_migrations order by name`,
  );
  t.same(
    applied,
    rows.map(({ name }) => name),
    'each file once',
  );
});

t.test(
  'a listener is ready where notifications arrive, and never behind a pooler of transactions',
  { skip },
  async (t) => {
    const { url, db } = await emptyDatabase(t);
    const events: string[] = [];
    const note = (event: string) => void events.push(event);
    const listen = async (mode: string) => {
      const through = openDatabase({ url: await startBouncer(t, url, mode) });
      t.teardown(() => through.close());
      const handlers = { onReady: () => note('ready'), onLost: () => note('lost'), onNotice: note };
      return { through, listening: through.listen('news', handlers) };
    };
    const isListening = (at: Database) =>
      at.run(MS, (sql) => sql`select from pg_listening_channels()`);
    const sent = (payload: string) =>
      db.run(MS, (sql) => sql`select pg_notify('news', ${payload})`);

    const session = await listen('session');
    await until(() => events.includes('ready'), 'a listener of its own server connection');
    await sent('arrives');
    await until(() => events.includes('arrives'), 'the notification');
    session.listening.close();

    events.length = 0;
    const { through } = await listen('transaction');
    await until(async () => (await isListening(through)).count > 0, 'the pooler has taken both');
    for (let n = 0; n < 10; n++) {
      await sent(`lost ${n}`);
      await isListening(through); // a turn of the pooler's server connections
    }
    t.same(events, []);
  },
);
