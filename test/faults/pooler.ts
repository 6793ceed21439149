import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { parseDatabaseUrl } from '../../src/store/connection/address.ts';
import { freePort } from '../support/port.ts';
import { until } from '../support/until.ts';
import { startFaultProxy } from './proxy.ts';
import { connect, type Life } from './world.ts';

const NOBODY = 65_534;

/** The path of an installed program, also of those in the folders of system services; null when it is not. */
export function installed(name: string): string | null {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin'];
  return folders.map((folder) => join(folder, name)).find((path) => existsSync(path)) ?? null;
}

/** Starts a program that refuses to run as root; it is killed at teardown. */
export function startService(life: Life, program: string, args: readonly string[]): ChildProcess {
  const user = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {};
  const child = spawn(program, args, { ...user, stdio: ['ignore', 'ignore', 'pipe'] });
  child.stderr?.resume();
  life.teardown(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  });
  return child;
}

/** Writes a configuration file that a service of another user can read; it is removed at teardown. */
export function configFile(life: Life, name: string, text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-config-'));
  chmodSync(folder, 0o755);
  life.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

/**
 * PgBouncer in transaction mode before the database of a URL. @returns its address of that database
 * @param program path of pgbouncer
 */
export async function startPooler(life: Life, program: string, url: string): Promise<string> {
  const { url: server } = await startFaultProxy(life, url); // by TCP: the server's socket may be another user's
  const { targets, user = '', database = '' } = parseDatabaseUrl(server);
  const { port: serverPort } = targets[0] as { port: number };
  const port = await freePort();
  const file = configFile(
    life,
    'pgbouncer.ini',
    `[databases]
* = host=127.0.0.1 port=${serverPort} user=${user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
max_client_conn = 1000
default_pool_size = 20
`,
  );
  startService(life, program, ['-q', file]);
  const pooled = `postgres://${user}@127.0.0.1:${port}/${database}`;
  await until(async () => {
    const sql = connect(pooled);
    try {
      return (await sql`select 1`).length === 1;
    } catch {
      return false;
    } finally {
      await sql.end({ timeout: 0 });
    }
  }, 'PgBouncer answers');
  return pooled;
}
