import { openDatabase, type Sql } from '../../src/store/connection/pool.ts';
import { distribute } from '../../src/store/schema/distribution.ts';
import { migrate } from '../../src/store/schema/migrate.ts';
import { until } from './until.ts';

/**
 * Databases that are spread over servers with Citus: TEST_DATABASE_URL is the coordinator, and TEST_DATABASE_WORKERS
 * has the addresses of the workers, with commas between them. Tests then run on such databases without knowing it.
 */
export const WORKERS: readonly string[] = process.env.TEST_DATABASE_WORKERS?.split(',') ?? [];

const SHARDS = 8;
const ADMINISTER_MS = 60_000;

/** Runs statements on each of some servers, one server after the other. */
export async function onEach(
  urls: readonly string[],
  work: (sql: Sql) => PromiseLike<unknown>,
): Promise<void> {
  for (const url of urls) {
    const db = openDatabase({ url, maxConnections: 1 });
    try {
      await db.run(ADMINISTER_MS, work);
    } finally {
      await db.close();
    }
  }
}

/** Joins a database of each server to one of Citus. @param urls of that database, the coordinator's first */
export async function join(urls: readonly string[]): Promise<void> {
  await onEach(urls, (sql) => sql`create extension if not exists citus`);
  const [coordinator, ...workers] = urls as [string, ...string[]];
  const [own, ...others] = [coordinator, ...workers].map((url) => new URL(url));
  await onEach([coordinator], async (sql) => {
    await sql`select citus_set_coordinator_host(${own?.hostname as string}, ${Number(own?.port)}::integer)`;
    for (const { hostname, port } of others)
      await sql`select citus_add_node(${hostname}, ${Number(port)}::integer)`;
  });
}

/** Makes tables in an empty database of each server, and spreads them. @param urls as for `join` */
export async function spread(urls: readonly string[]): Promise<void> {
  await join(urls);
  const [coordinator] = urls as [string];
  const db = openDatabase({ url: coordinator, maxConnections: 1 });
  try {
    await migrate(db, { billingTimezone: 'UTC' });
    await distribute(db, { shards: SHARDS, dryRun: false });
  } finally {
    await db.close();
  }
}

/** Makes a database ready to be a template: nobody is connected to it, not even Citus. */
export async function freezeTemplate(sql: Sql, name: string): Promise<void> {
  await sql`alter database ${sql(name)} allow_connections false`;
  await until(async () => {
    const rows =
      await sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = ${name}`;
    return rows.length === 0;
  }, 'nobody is connected to the template');
}
