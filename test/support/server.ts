/**
 * The Postgres server that all test files share: `node server.ts DATA_DIR` starts it, and stops it
 * once no test has been connected for IDLE_MS, however the test run ended.
 */
import { rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { openDatabase, type Sql } from '../../src/store/database.ts';
import { startEmbedded } from '../../src/store/embedded.ts';

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
if (server.owned) {
  const db = openDatabase({ url: `${server.url}&application_name=watch`, maxConnections: 1 });
  await db.run(60_000, dropAbandoned);
  for (let busy = Date.now(); Date.now() - busy < IDLE_MS; await sleep(1000)) {
    if (await db.run(10_000, inUse)) busy = Date.now();
  }
  await db.close();
  await server.stop();
}

async function inUse(sql: Sql): Promise<boolean> {
  const [row] = await sql<[{ used: boolean }]>`select exists (
    select from pg_stat_activity where backend_type = 'client backend' and application_name <> 'watch') as used`;
  return row.used;
}

/** Drops the databases of test processes that were killed. */
async function dropAbandoned(sql: Sql): Promise<void> {
  const databases = await sql<{ name: string }[]>`
    select datname as name from pg_database where datname like 'tollgate\\_test\\_%'`;
  for (const { name } of databases) {
    try {
      process.kill(Number(name.split('_')[2]), 0);
    } catch {
      await sql`drop database if exists ${sql(name)} with (force)`;
    }
  }
}
