import { spawn } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { cpSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { openDatabase, type Sql } from '../../src/store/connection/pool.ts';
import { distribute } from '../../src/store/schema/distribution.ts';
import { SQL_DIRECTORY } from '../../src/store/schema/files.ts';
import { migrate } from '../../src/store/schema/migrate.ts';
import { onEach } from '../support/distributed.ts';
import { holds, inDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import { addUsage } from '../support/usage.ts';
import { type CitusCluster, CitusUnobtainable, missing, startCitus } from './citus.ts';
import { endureOutages, spreadDatabase, startSpreadLoad } from './citus-outages.ts';
import type { Cluster } from './cluster.ts';

/** The ledger spread over a coordinator and two workers: what holds on one server holds there. */

const skip =
  process.env.FAULTS === 'citus'
    ? missing.length > 0 && `not installed: ${missing.join(', ')}`
    : 'runs with FAULTS=citus';

/** Experiments and tests of the store that run there as they are, one after the other. */
const SAME = [
  'test/faults/kill.test.ts',
  'test/faults/replay.test.ts',
  'test/faults/budget.test.ts',
  'test/faults/key-budget.test.ts',
  'test/faults/revocation.test.ts',
  'test/faults/usage.test.ts',
  'test/ledger/money.test.ts',
  'test/store/gateway/ledger.test.ts',
  'test/store/statement/verify.test.ts',
  'test/store/events/alert.test.ts',
  'test/store/usage/archive.test.ts',
  'test/store/usage/overview.test.ts',
  'test/store/usage/margin.test.ts',
  'test/store/usage/request.test.ts',
  'test/store/connection/tenant-role.test.ts',
  'test/store/usage/summary.test.ts',
  'test/store/usage/export.test.ts',
  'test/store/usage/request-hours.test.ts',
  'test/faults/statement.test.ts',
  'test/admin/operator/overview.test.ts',
  'test/admin/usage/usage.test.ts',
  'test/admin/usage/token-details.test.ts',
  'test/admin/usage/statement.test.ts',
  'test/admin/usage/request.test.ts',
  'test/cli/nouns/usage.test.ts',
  'test/cli/nouns/request.test.ts',
  'test/cli/nouns/statement.test.ts',
  'test/cli/nouns/reconcile.test.ts',
];

t.test('a coordinator and two workers', { skip }, async (t) => {
  const cluster = await startCitus(t, 2).catch((error: unknown) => {
    if (error instanceof CitusUnobtainable) return error.message;
    throw error;
  });
  if (typeof cluster === 'string') {
    t.pass('Citus is there', { skip: cluster });
    return;
  }
  await t.test('each server is killed and comes back: nobody notices, and nothing is lost', (t) =>
    loseServers(t, cluster),
  );

  await t.test(
    'servers and networks freeze and answers are lost: nobody notices, and nothing is lost',
    (t) => endureOutages(t, cluster),
  );

  await t.test('a third worker comes and goes while calls are booked', (t) =>
    moveShards(t, cluster),
  );

  await t.test('a later migration, and another time zone before anything is booked', (t) =>
    migrateSpread(t, cluster),
  );

  const urls = [cluster.coordinator, ...cluster.workers].map(({ url }) => url);
  // their figures are not those of RESULTS.md
  const { FAULTS, ...rest } = process.env;
  const env = {
    ...rest,
    TEST_DATABASE_URL: urls[0],
    TEST_DATABASE_WORKERS: urls.slice(1).join(','),
  };
  const runner = fileURLToPath(new URL('../run.ts', import.meta.url));
  for (const file of SAME) {
    await t.test(file, async (t) => {
      const child = spawn(process.execPath, [runner, file], {
        env,
        stdio: ['ignore', 'pipe', 'inherit'],
      });
      let output = '';
      child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
      const [code] = await once(child, 'exit');
      t.equal(code, 0, output.slice(-4000));
    });
  }
});

async function loseServers(t: Test, cluster: CitusCluster): Promise<void> {
  const load = await startSpreadLoad(t, await spreadDatabase(cluster, 'spread'));
  await load.more(5, 'before the loss');
  for (const server of [...cluster.workers, cluster.coordinator]) {
    server.signal('SIGKILL');
    await load.more(10, 'while a server is away');
    await load.waits();
    await cluster.start(server);
    await load.more(10, 'when it is back');
  }
  await load.end(t);
}

/** The second worker is left out, comes, and goes again: its shards come back to where they were. */
async function moveShards(t: Test, { coordinator, workers, start }: CitusCluster): Promise<void> {
  const [first, other] = workers as [Cluster, Cluster];
  const url = await spreadDatabase({ coordinator, workers: [first], start }, 'grown');
  await onEach([other.url], (sql) => sql`create database grown`);
  await onEach([inDatabase(other.url, 'grown')], (sql) => sql`create extension citus`);
  const { hostname, port } = new URL(other.url);
  const load = await startSpreadLoad(t, url);
  await load.more(5, 'before');
  const db = openDatabase({ url, maxConnections: 1 });
  t.teardown(() => db.close());
  const steps = [
    (sql: Sql) => sql`select citus_add_node(${hostname}, ${Number(port)}::integer)`,
    (sql: Sql) => sql`select rebalance_table_shards()`,
    (sql: Sql) => sql`select citus_drain_node(${hostname}, ${Number(port)}::integer)`,
  ];
  for (const step of steps) {
    await db.run(600_000, step);
    await load.more(5, 'after a step');
  }
  await load.end(t);
}

const MIGRATING = `select from pg_locks where relation = 'usage_daily'::regclass and mode = 'AccessExclusiveLock' and granted`;

/** A dump on a worker reads a part of a table. @returns ends it */
async function lockOnWorker(
  t: Test,
  { workers }: CitusCluster,
  table: string,
): Promise<() => Promise<void>> {
  const db = openDatabase({ url: inDatabase((workers[0] as Cluster).url, 'migrated') });
  t.teardown(() => db.close());
  const [locked, over] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const dump = db.transaction(600_000, async (sql) => {
    await sql`set local citus.override_table_visibility = off`; // else parts are not listed
    const [shard] = await sql<{ name: string }[]>`
      select relname as name from pg_class where relname ~ ${`^${table}_\\d+$`} and relkind = 'r' limit 1`;
    await sql`select from ${sql(shard?.name as string)}`;
    locked.resolve();
    await over.promise;
  });
  await Promise.race([locked.promise, dump]);
  return async () => {
    over.resolve();
    await dump;
  };
}

async function migrateSpread(t: Test, cluster: CitusCluster): Promise<void> {
  const url = await spreadDatabase(cluster, 'migrated');
  const directory = t.testdir();
  cpSync(SQL_DIRECTORY, directory, { recursive: true });
  const later = `
    alter table usage_daily add column later text;
    create or replace function billing_month(at timestamptz) returns date language sql stable set search_path from current as
    $$ select date_trunc('month', at at time zone (select value from settings where name = 'billing_timezone'))::date $$;`;
  writeFileSync(join(directory, 'migrations/9999_later.sql'), later);
  const db = openDatabase({ url });
  t.teardown(() => db.close());
  const release = await lockOnWorker(t, cluster, 'usage_daily');
  const told: string[] = [];
  const onProgress = (text: string) => told.push(text);
  const migrated = migrate(db, { billingTimezone: 'Europe/Berlin', directory, onProgress });
  await until(() => holds(db, `exists (${MIGRATING})`), 'the migration began');
  const reads = (sql: Sql) => sql`select from usage_daily`;
  await db.run(60_000, reads);
  await db.run(60_000, reads);
  await until(
    () => told.some((text) => /9999_later.sql is waiting for others/.test(text)),
    'it says so',
  );
  await release();
  t.same(await migrated, ['9999_later.sql']);
  t.same(
    (await distribute(db, { shards: 1, dryRun: true })).statements,
    [],
    'nothing is left to do',
  );
  await db.run(60_000, (sql) =>
    addUsage(sql, [{ company: randomUUID(), at: '2026-10-31T23:30:00Z', month: '2026-11-01' }]),
  );
  const [row] = await db.run(
    10_000,
    (sql) =>
      sql`select day::text, requests::integer, later from usage_daily where billing_month = billing_month('2026-10-31T23:30:00Z')`,
  );
  t.same(row, { day: '2026-11-01', requests: 1, later: null });
}
