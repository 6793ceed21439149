import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Sql } from 'postgres';
import { openDatabase } from '../../src/store/connection/pool.ts';
import { type Embedded, startEmbedded } from '../../src/store/schema/embedded.ts';
import { migrate } from '../../src/store/schema/migrate.ts';
import { connect, type Life } from './world.ts';

/** A Postgres server of one's own, migrated, to stop and freeze. */
export interface OwnServer {
  readonly url: string;
  readonly sql: Sql;
  stop(): Promise<void>;
  start(): Promise<void>;
  /** SIGSTOP or SIGCONT to the server and all its processes. */
  signal(name: 'SIGSTOP' | 'SIGCONT'): void;
}

export async function ownServer(life: Life): Promise<OwnServer> {
  const dataDir = mkdtempSync(join(tmpdir(), 'tollgate-faults-'));
  chmodSync(dataDir, 0o755); // root's server runs as "nobody"
  const start = (): Promise<Embedded> =>
    startEmbedded({ dataDir, log: { info: () => {} }, settings: { fsync: 'off' } });
  let server = await start();
  const db = openDatabase({ url: server.url });
  await migrate(db, { billingTimezone: 'UTC' });
  await db.close();
  const sql = connect(server.url);
  life.teardown(async () => {
    await sql.end({ timeout: 1 });
    await server.stop();
    rmSync(dataDir, { recursive: true, force: true });
  });
  return {
    url: server.url,
    sql,
    stop: () => server.stop(),
    async start() {
      server = await start();
    },
    signal(name) {
      for (const pid of [server.pid, ...childrenOf(server.pid)]) process.kill(pid, name);
    },
  };
}

/** Process ids of a process's children. */
export function childrenOf(parent: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
        return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === parent;
      } catch {
        return false; // gone meanwhile
      }
    })
    .map(Number);
}
