import { execFileSync, spawn } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { Test } from 'tap';
import { DatabaseUnavailable } from '../../src/store/connection/errors.ts';
import { type Database, openDatabase, type Sql } from '../../src/store/connection/pool.ts';
import { type Embedded, findEmbedded, startEmbedded } from '../../src/store/schema/embedded.ts';
import { SQL_DIRECTORY } from '../../src/store/schema/files.ts';
import { migrate } from '../../src/store/schema/migrate.ts';
import { atEnd } from './at-end.ts';
import { freezeTemplate, onEach, spread, WORKERS } from './distributed.ts';
import { until } from './until.ts';

export interface TestDatabase {
  readonly url: string;
  readonly db: Database;
}

const START_MS = 60_000;
/** One each half second, for longer than Citus takes to look for transactions to end. */
const ATTEMPTS = 20;
const GUARD = `while kill -0 $0; do sleep 1; done
pid=$(head -n 1 "$1/postgres/postmaster.pid") && kill -CONT $pid && kill -QUIT $pid
rm -rf "$1"`;
const MEMORY_DIR = '/dev/shm';
const MEMORY_BYTES = 2 ** 31;
/** A file system in memory. That of a container often has 64 MiB, too little for the databases of six tests at once. */
export const HAS_MEMORY_DIR = hasRoom(MEMORY_DIR);
const SHARED_DIR = sharedDir();

/**
 * Makes a migrated database, billing in UTC, and drops it at teardown. It is a copy of a template (20 ms of CPU)
 * on a server that all test processes share: that of TEST_DATABASE_URL, or an embedded one, which the first process
 * starts and which ends 20 s after the last one (server.ts).
 */
export async function testDatabase(t: Test): Promise<TestDatabase> {
  return newDatabase(t, ensureTemplate);
}

/** Makes a database without tables, likewise. */
export async function emptyDatabase(t: Test): Promise<TestDatabase> {
  return newDatabase(t, async () => 'template1');
}

async function newDatabase(
  t: Test,
  source: (sql: Sql, server: string) => Promise<string>,
): Promise<TestDatabase> {
  const name = `tollgate_test_${process.pid}_${randomUUID().slice(0, 8)}`;
  const server = await retrying(async () => {
    const url = await sharedServer();
    await administratorOf(t, url).run(START_MS, async (sql) => {
      try {
        await sql`select pg_advisory_lock_shared(hashtext('tollgate test server'))`; // else it may just be stopping
        const template = await source(sql, url);
        await sql`create database ${sql(name)} template ${sql(template)} ${(await copiesFiles(sql)) ? sql`strategy file_copy` : sql``}`;
        if (template !== 'template1' && WORKERS.length > 0) {
          await onEach(
            WORKERS,
            (sql) => sql`create database ${sql(name)} template ${sql(template)}`,
          );
          await onEach([url, ...WORKERS], (sql) => sql`alter database ${sql(name)} set jit = off`); // is not copied
        }
      } finally {
        await sql`select pg_advisory_unlock_all()`;
      }
    });
    return url;
  });
  const url = inDatabase(server, name);
  const db = openDatabase({ url });
  t.teardown(async () => {
    await db.close();
    const drop = (sql: Sql) => sql`drop database if exists ${sql(name)} with (force)`;
    // while there is the coordinator's, Citus ends what was prepared on the workers
    if (WORKERS.length > 0) await retrying(() => onEach(WORKERS, drop));
    await retrying(() => administratorOf(t, server).run(START_MS, drop)); // Citus may just look into it
  });
  return { url, db };
}

/** Whether a database can be copied as files: through the log, as is usual from Postgres 15 on, takes ten times the CPU. */
async function copiesFiles(sql: Sql): Promise<boolean> {
  const [{ able }] = await sql<[{ able: boolean }]>`
    select current_setting('server_version_num')::integer >= 150000 as able`;
  return able;
}

let administrator: { readonly url: string; readonly db: Database } | undefined;

/** The connection by which this process makes databases and drops them: to open one each time is as much work as to make one. */
function administratorOf(t: Test, url: string): Database {
  if (administrator?.url !== url) {
    const db = openDatabase({ url, maxConnections: 1 });
    atEnd(t, () => db.close());
    administrator = { url, db };
  }
  return administrator.db;
}

/** Starts a server with an empty database, to stop, freeze or kill; it is removed at teardown. */
export async function privateServer(
  t: Test,
  settings: Record<string, string> = {},
): Promise<Embedded> {
  const dataDir = mkdtempSync(join(tmpdir(), 'tollgate-server-'));
  chmodSync(dataDir, 0o755); // as a data folder is: root's server runs as "nobody"
  const server = await startEmbedded({ dataDir, log: { info: () => {} }, settings });
  // ends the server soon after this process, should it be killed
  const guard = spawn('sh', ['-c', GUARD, `${process.pid}`, dataDir], {
    detached: true,
    stdio: 'ignore',
  });
  guard.unref();
  t.teardown(async () => {
    guard.kill();
    await server.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });
  return server;
}

/** Suspends a server with all its processes. @returns a function that resumes them */
export function freeze(server: Embedded): () => void {
  const processes = execFileSync('ps', ['-A', '-o', 'pid=,ppid='], { encoding: 'utf8' })
    .trim()
    .split('\n');
  const pids = processes.map((line) => line.trim().split(/\s+/).map(Number) as [number, number]);
  const all = [
    server.pid,
    ...pids.filter(([, parent]) => parent === server.pid).map(([pid]) => pid),
  ];
  for (const pid of all) process.kill(pid, 'SIGSTOP');
  return () => {
    for (const pid of all) process.kill(pid, 'SIGCONT');
  };
}

/** Whether a condition in SQL is true. */
export async function holds(db: Pick<Database, 'run'>, condition: string): Promise<boolean> {
  const [row] = await db.run(START_MS, (sql) =>
    sql.unsafe<{ holds: boolean }[]>(`select ${condition} as holds`),
  );
  return row?.holds === true;
}

/** The same address with another database. */
export function inDatabase(url: string, name: string): string {
  return url.replace(/^(postgres(?:ql)?:\/\/[^/?#]*)(?:\/[^?#]*)?/, `$1/${name}`);
}

/**
 * The folder of the shared server, one for each user and temporary folder: in memory where there is room, since
 * a database is some 600 files, and to make and drop them on a disk takes twice the CPU.
 */
function sharedDir(): string {
  const user = process.getuid?.() ?? 'shared';
  if (!HAS_MEMORY_DIR) return join(tmpdir(), `tollgate-test-${user}`);
  const hash = createHash('sha256').update(tmpdir()).digest('hex').slice(0, 8);
  return join(MEMORY_DIR, `tollgate-test-${user}-${hash}`);
}

/** By its size and not by what is free: the answer must be the same while tests run. */
function hasRoom(folder: string): boolean {
  try {
    const { bsize, blocks } = statfsSync(folder);
    return bsize * blocks >= MEMORY_BYTES;
  } catch {
    return false; // there is none, as on macOS
  }
}

async function sharedServer(): Promise<string> {
  const given = process.env.TEST_DATABASE_URL;
  if (given) return given;
  let url = findEmbedded(SHARED_DIR);
  if (url === null || !isWatched()) {
    const program = fileURLToPath(new URL('server.ts', import.meta.url));
    const { PATH = '', TMPDIR } = process.env; // nothing of the test runner's
    const env = TMPDIR === undefined ? { PATH } : { PATH, TMPDIR };
    spawn(process.execPath, [program, SHARED_DIR], {
      detached: true,
      stdio: 'ignore',
      env,
    }).unref();
  }
  url ??= await until(
    () => findEmbedded(SHARED_DIR),
    `the test database server starts, see ${SHARED_DIR}/postgres.log`,
  );
  return url as string;
}

/** Whether the process that is to stop the shared server is alive. */
function isWatched(): boolean {
  try {
    const users = readdirSync(SHARED_DIR).filter((name) => /^postgres\.user-[^.]+$/.test(name));
    return users.some((name) =>
      process.kill(JSON.parse(readFileSync(join(SHARED_DIR, name), 'utf8')).pid, 0),
    );
  } catch {
    return false;
  }
}

/** Tries again while the shared server is just stopping, or while Citus has yet to end a transaction of the database. */
async function retrying<T>(attempt: () => Promise<T>): Promise<T> {
  for (let tried = 1; ; tried++) {
    try {
      return await attempt();
    } catch (error) {
      if (!(error instanceof DatabaseUnavailable) || tried === ATTEMPTS) throw error;
      await sleep(500);
    }
  }
}

/** Makes the migrated template of the present `sql/`, unless another process has. */
async function ensureTemplate(sql: Sql, server: string): Promise<string> {
  const hash = createHash('sha256');
  for (const file of readdirSync(SQL_DIRECTORY, { recursive: true, encoding: 'utf8' }).sort())
    if (file.endsWith('.sql')) hash.update(file).update(readFileSync(join(SQL_DIRECTORY, file)));
  const name = `tollgate_template_${hash.digest('hex').slice(0, 12)}`;
  if (await exists(sql, name)) return name;

  await sql`select pg_advisory_lock(hashtext('tollgate test template'))`;
  if (await exists(sql, name)) return name;
  const draft = WORKERS.length > 0 ? name : 'tollgate_template_draft';
  const servers = [server, ...WORKERS];
  await onEach(servers, async (sql) => {
    await sql`drop database if exists ${sql(draft)} with (force)`;
    await sql`create database ${sql(draft)}`;
  });
  if (WORKERS.length > 0) {
    await spread(servers.map((url) => inDatabase(url, draft)));
    await onEach(servers.reverse(), (sql) => freezeTemplate(sql, draft));
    return name;
  }
  const db = openDatabase({ url: inDatabase(server, draft), maxConnections: 1 });
  try {
    await migrate(db, { billingTimezone: 'UTC' });
  } finally {
    await db.close();
  }
  await sql`alter database ${sql(draft)} rename to ${sql(name)}`;
  return name;
}

async function exists(sql: Sql, name: string): Promise<boolean> {
  const rows =
    await sql`select from pg_database where datname = ${name} and datallowconn = ${WORKERS.length === 0}`;
  return rows.length > 0;
}
