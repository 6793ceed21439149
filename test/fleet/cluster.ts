import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { Sql } from 'postgres';
import {
  type Binaries,
  findBinaries,
  type Identity,
  identityFor,
  launch,
} from '../../src/store/schema/launch.ts';
import { childrenOf } from '../faults/server.ts';
import { connect, type Life } from '../faults/world.ts';
import { freePort } from '../support/port.ts';
import { until } from '../support/until.ts';

/** A Postgres server with a folder and a TCP port of its own, to kill, copy and promote. */
export interface Cluster {
  readonly port: number;
  readonly url: string;
  /** Path of the server's log. */
  readonly log: string;
  /** A connection, made anew at every start. */
  readonly sql: Sql;
  start(settings?: Record<string, string>): Promise<void>;
  /** Shuts it down in order, with everything on disk. */
  stop(): Promise<void>;
  /** Sends a signal to all processes of the server at once: SIGKILL is as if the machine were gone. */
  signal(name: NodeJS.Signals): void;
  /** Makes another cluster with the same files; this one must be stopped. */
  copy(life: Life): Promise<Cluster>;
  /** Starts as a standby of another one. */
  follow(primary: Cluster): Promise<void>;
}

/** Programs of the Postgres that the operating system installed. */
export interface SystemPrograms extends Binaries {
  readonly dump: string;
  readonly restore: string;
}

const GUARD = 'while kill -0 $0; do sleep 1; done; kill -CONT $1; kill -QUIT $1';

/** The newest installed Postgres with its tools; null: there is none. */
export function systemPrograms(): SystemPrograms | null {
  const root = '/usr/lib/postgresql';
  const versions = existsSync(root) ? readdirSync(root).sort((a, b) => Number(b) - Number(a)) : [];
  for (const version of versions) {
    const of = (name: string) => join(root, version, 'bin', name);
    const programs = {
      initdb: of('initdb'),
      postgres: of('postgres'),
      dump: of('pg_dump'),
      restore: of('pg_restore'),
    };
    if (Object.values(programs).every((path) => existsSync(path))) return programs;
  }
  return null;
}

/** Makes an empty cluster that does not run yet. @param given programs; default: those of the embedded package */
export async function newCluster(life: Life, given?: Binaries): Promise<Cluster> {
  const binaries = given ?? (await findBinaries(''));
  const root = mkdtempSync(join(tmpdir(), 'tollgate-cluster-'));
  chmodSync(root, 0o777); // root's server runs as "nobody"
  life.teardown(() => rmSync(root, { recursive: true, force: true, maxRetries: 5 }));
  const folder = join(root, 'data');
  const log = openSync(join(root, 'initdb.log'), 'a');
  const options = [
    '--username=tollgate',
    '--auth=trust',
    '--encoding=UTF8',
    '--locale=C',
    '--no-sync',
    '--wal-segsize=1',
  ];
  const child = launch(userFor(folder, binaries), binaries.initdb, ['-D', folder, ...options], log);
  closeSync(log);
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(readFileSync(join(root, 'initdb.log'), 'utf8'));
  return openCluster(life, binaries, folder);
}

/** Every user can run the programs of the operating system, and copies of them, whose files are elsewhere than beside them. */
function userFor(folder: string, binaries: Binaries): Identity {
  if (existsSync(join(dirname(dirname(binaries.postgres)), 'share')))
    return identityFor(folder, binaries);
  return process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534, wrapper: [] } : { wrapper: [] };
}

async function openCluster(life: Life, binaries: Binaries, folder: string): Promise<Cluster> {
  const port = await freePort();
  const url = `postgres://tollgate@127.0.0.1:${port}/postgres`;
  let pid = 0;
  let sql: Sql | null = null;
  let exited: Promise<unknown> = Promise.resolve();

  const signal = (name: NodeJS.Signals): void => {
    for (const each of pid === 0 ? [] : [pid, ...childrenOf(pid)]) {
      try {
        process.kill(each, name);
      } catch {
        // it has just ended
      }
    }
  };
  const end = async (name: NodeJS.Signals): Promise<void> => {
    await sql?.end({ timeout: 0 });
    if (pid === 0) return;
    signal('SIGCONT');
    if (name === 'SIGKILL') signal(name);
    else process.kill(pid, name);
    await exited;
    pid = 0;
  };
  life.teardown(() => end('SIGKILL'));

  const cluster: Cluster = {
    port,
    url,
    log: `${folder}.log`,
    get sql() {
      return sql as Sql;
    },
    async start(settings = {}) {
      const flags = Object.entries({
        listen_addresses: '127.0.0.1',
        port: `${port}`,
        unix_socket_directories: '',
        fsync: 'off', // the processes die here, not the machine
        shared_buffers: '16MB',
        jit: 'off', // that of the operating system would compile what runs once
        max_connections: '60',
        ...settings,
      });
      const log = openSync(`${folder}.log`, 'a');
      const args = ['-D', folder, ...flags.flatMap(([name, value]) => ['-c', `${name}=${value}`])];
      const child = launch(userFor(folder, binaries), binaries.postgres, args, log);
      closeSync(log);
      pid = child.pid as number;
      exited = once(child, 'exit');
      spawn('sh', ['-c', GUARD, `${process.pid}`, `${pid}`], {
        detached: true,
        stdio: 'ignore',
      }).unref();
      sql = connect(url);
      const own = sql;
      const ready = () =>
        own`select 1`.then(
          () => true,
          () => false,
        );
      await until(ready, `a server starts, see ${folder}.log`);
    },
    stop: () => end('SIGINT'),
    signal,
    async copy(life) {
      const root = mkdtempSync(join(tmpdir(), 'tollgate-cluster-'));
      chmodSync(root, 0o777);
      life.teardown(() => rmSync(root, { recursive: true, force: true, maxRetries: 5 }));
      execFileSync('cp', ['-a', folder, join(root, 'data')]);
      return openCluster(life, binaries, join(root, 'data'));
    },
    async follow(primary) {
      writeFileSync(join(folder, 'standby.signal'), '');
      const conninfo = `host=127.0.0.1 port=${primary.port} user=tollgate application_name=standby`;
      await cluster.start({ primary_conninfo: conninfo, wal_receiver_status_interval: '1s' });
    },
  };
  return cluster;
}
