/**
 * The Postgres server that all test files share: `node server.ts DATA_DIR` starts it, and stops it
 * once no test has been connected for IDLE_MS, however the test run ended.
 */
import { rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { openDatabase, type Sql } from '../../src/store/connection/pool.ts';
import { startEmbedded } from '../../src/store/schema/embedded.ts';
import { isAlive } from './child.ts';

const IDLE_MS = 20_000;
const dataDir = process.argv[2] as string;
const options = {
  dataDir,
  log: { info: () => {} },
  settings: {
    max_connections: '200',
    // nothing in it must survive a crash of the machine
    fsync: 'off',
    synchronous_commit: 'off',
    full_page_writes: 'off',
    // databases live for seconds, and its folder stays in memory
    autovacuum: 'off',
    min_wal_size: '32MB',
    max_wal_size: '64MB',
  },
};

const server = await startEmbedded(options).catch(() => {
  // an interrupted run may have left files that cannot be repaired, and none is worth keeping
  rmSync(dataDir, { recursive: true, force: true });
  return startEmbedded(options);
});
const db = openDatabase({ url: `${server.url}&application_name=watch`, maxConnections: 1 });
if (await db.run(60_000, isFirst)) {
  for (let busy = Date.now(); ; await sleep(1000)) {
    const closes = Date.now() - busy > IDLE_MS;
    if (await db.run(60_000, (sql) => isUsed(sql, closes))) busy = Date.now();
    else if (closes) break;
  }
}
await server.stop();
await db.close();

/** Whether no other process does this. */
async function isFirst(sql: Sql): Promise<boolean> {
  const [{ first }] = await sql<[{ first: boolean }]>`
    select pg_try_advisory_lock(hashtext('tollgate test watch')) as first`;
  return first;
}

/**
 * Whether tests use the server. Drops the databases of test processes that were killed.
 * @param closes no test can make a database any more (postgres.ts) if none uses the server
 */
async function isUsed(sql: Sql, closes: boolean): Promise<boolean> {
  if (closes) await sql`select pg_advisory_lock(hashtext('tollgate test server'))`; // waits for those that make one
  let used = false;
  for (const { name } of await sql<{ name: string }[]>`
    select datname as name from pg_database where datname like 'tollgate\\_test\\_%'`) {
    if (isAlive(Number(name.split('_')[2]))) used = true;
    else await sql`drop database if exists ${sql(name)} with (force)`;
  }
  const [row] = await sql<[{ connected: boolean }]>`select exists (
    select from pg_stat_activity where backend_type = 'client backend' and application_name <> 'watch') as connected`;
  used ||= row.connected;
  if (closes && used) await sql`select pg_advisory_unlock(hashtext('tollgate test server'))`;
  return used;
}
