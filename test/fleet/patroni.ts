import { type ChildProcess, execFile, spawn } from 'node:child_process';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { configFile, installed, startService } from '../faults/pooler.ts';
import { type FaultProxy, startFaultProxy } from '../faults/proxy.ts';
import { childrenOf } from '../faults/server.ts';
import { connect, type Life } from '../faults/world.ts';
import { freePort } from '../support/port.ts';
import { until } from '../support/until.ts';

/** Two Postgres servers under Patroni, with etcd, HAProxy and PgBouncer, as sql/fleet.md configures them. */

const NOBODY = process.getuid?.() === 0 ? 65_534 : null; // Postgres refuses to run as root
const POSTGRES = '/usr/lib/postgresql/15/bin'; // as the documentation has it
const PROGRAMS = ['patroni', 'patronictl', 'etcd', 'haproxy', 'pgbouncer'];
/** Ends what a killed test leaves behind: Patroni, and the server whose folder it has. */
const GUARD =
  'while kill -0 $0; do sleep 1; done; kill -9 $1; kill -9 $(head -1 $2/postmaster.pid)';

/** Programs that are not installed; empty: the experiment can run. */
export const missingPrograms: readonly string[] = [
  ...PROGRAMS.filter((name) => installed(name) === null),
  ...(existsSync(join(POSTGRES, 'pg_rewind')) ? [] : ['postgresql-15']),
];

/** One machine: Patroni and its Postgres. */
export interface PatroniNode {
  readonly name: string;
  readonly port: number;
  /** Its only way to etcd. */
  readonly etcd: FaultProxy;
  /** Whether it is the leader, as HAProxy asks. false when it does not answer. */
  leads(): Promise<boolean>;
  /** Whether it is a standby that Patroni may promote. false when it does not answer. */
  isSynchronous(): Promise<boolean>;
  /** Sends a signal to Patroni and to all processes of Postgres at once. */
  signal(name: NodeJS.Signals): void;
  /** Starts Patroni, and with it Postgres. */
  start(): void;
}

export interface Operated {
  readonly nodes: readonly [PatroniNode, PatroniNode];
  /** DATABASE_URL of each row of the documentation's table. */
  readonly urls: { readonly pgbouncer: string; readonly haproxy: string; readonly servers: string };
  /** The node that leads; waits for one. */
  leader(): Promise<PatroniNode>;
  /** Resolves once one node leads and the other may be promoted. */
  whole(): Promise<void>;
  /** How often PgBouncer ended by itself and was started again. */
  poolerRestarts(): number;
  /** Runs patronictl. @throws with its output when it fails */
  patronictl(...args: string[]): Promise<void>;
}

const PAGE = readFileSync(new URL('../../sql/fleet.md', import.meta.url), 'utf8');

/** A file of the documentation, by the comment in its first line. */
function documented(name: string): string {
  const text = new RegExp(`\`\`\`\\w*\\n[#;] ${name}\\n([\\s\\S]*?)\`\`\``).exec(PAGE)?.[1];
  if (text === undefined) throw new Error(`sql/fleet.md has no ${name}`);
  return text;
}

/** Replaces each text, which must be there. */
function replaceAll(text: string, pairs: readonly (readonly [from: string, to: string])[]): string {
  return pairs.reduce((all, [from, to]) => {
    if (!all.includes(from)) throw new Error(`no ${from} in ${text}`);
    return all.replaceAll(from, to);
  }, text);
}

/** Starts everything; an empty database `tollgate` is ready when it resolves. */
export async function startOperated(life: Life): Promise<Operated> {
  const root = mkdtempSync(join(tmpdir(), 'tollgate-patroni-'));
  chmodSync(root, 0o777);
  life.teardown(() => rmSync(root, { recursive: true, force: true, maxRetries: 5 }));
  const etcdUrl = await startEtcd(life, root);
  const db1 = await newNode(life, root, 'db1', etcdUrl);
  const db2 = await newNode(life, root, 'db2', etcdUrl);
  const nodes = [db1.node, db2.node] as const;
  for (const node of nodes) node.start();
  const leader = () =>
    until(
      async () => {
        const leads = await Promise.all(nodes.map((node) => node.leads()));
        return nodes.find((_, n) => leads[n]);
      },
      'a node leads',
      (node) => node !== undefined,
    ) as Promise<PatroniNode>;
  const whole = async () => {
    // Patroni promotes nobody that it has not recorded as synchronous, which is later than Postgres has it so
    const synchronous = async () =>
      (await Promise.all(nodes.map((node) => node.isSynchronous()))).some(Boolean);
    await until(synchronous, 'a node is a synchronous standby');
    await leader();
  };
  await whole();
  const { port } = await leader();
  const sql = connect(`postgres://postgres:change-me-1@127.0.0.1:${port}/postgres`);
  for (const statement of documentedSql()) await sql.unsafe(statement);
  await sql.end({ timeout: 1 });

  const balanced = await freePort();
  const pairs = nodes.map(
    ({ port }, n) =>
      [
        `10.0.0.${n + 1}:5432 check port 8008`,
        `127.0.0.1:${port} check port ${[db1, db2][n]?.restPort}`,
      ] as const,
  );
  const haproxy = replaceAll(documented('haproxy.cfg'), [
    ['10.0.0.5:5000', `127.0.0.1:${balanced}`],
    ...pairs,
  ]);
  startService(life, installed('haproxy') as string, [
    '-db',
    '-q',
    '-f',
    configFile(life, 'haproxy.cfg', haproxy),
  ]);
  const pooled = await freePort();
  const users = configFile(life, 'userlist.txt', '"tollgate" "change-me-3"\n');
  const pgbouncer = replaceAll(documented('pgbouncer.ini'), [
    ['host=10.0.0.5 port=5000', `host=127.0.0.1 port=${balanced}`],
    ['listen_addr = 10.0.0.5', 'listen_addr = 127.0.0.1'],
    ['listen_port = 6432', `listen_port = ${pooled}`],
    ['/etc/pgbouncer/userlist.txt', users],
  ]);
  const restarts = supervise(life, installed('pgbouncer') as string, [
    '-q',
    configFile(life, 'pgbouncer.ini', pgbouncer),
  ]);

  return {
    nodes,
    urls: {
      pgbouncer: documentedUrl('10.0.0.5:6432', `127.0.0.1:${pooled}`),
      haproxy: documentedUrl('10.0.0.5:5000', `127.0.0.1:${balanced}`),
      servers: documentedUrl(
        '10.0.0.1:5432,10.0.0.2:5432',
        nodes.map(({ port }) => `127.0.0.1:${port}`).join(','),
      ),
    },
    leader,
    whole,
    poolerRestarts: restarts,
    async patronictl(...args) {
      await promisify(execFile)(installed('patronictl') as string, ['-c', db1.config, ...args]);
    },
  };
}

/** Starts a program again whenever it ends by itself, as systemd does. @returns tells how often that was */
function supervise(life: Life, program: string, args: readonly string[]): () => number {
  let starts = 0;
  const start = (): void => {
    starts++;
    startService(life, program, args).once('exit', (_code, signal) => {
      if (signal === null) start(); // a signal is the end of the test
    });
  };
  start();
  return () => starts - 1;
}

function documentedSql(): string[] {
  const block = /```sql\n(create role tollgate [\s\S]*?)```/.exec(PAGE)?.[1] ?? '';
  return block.split('\n').filter((line) => line !== '');
}

/** DATABASE_URL of the row with these addresses, with others in their place. */
function documentedUrl(addresses: string, own: string): string {
  const url = PAGE.match(/postgres:\/\/tollgate:[^`]*/g)?.find((each) =>
    each.includes(`@${addresses}/`),
  );
  return replaceAll(url ?? '', [[addresses, own]]);
}

/** @returns a URL of etcd, in the form that a fault proxy takes */
async function startEtcd(life: Life, root: string): Promise<string> {
  const [client, peer] = [await freePort(), await freePort()];
  const own = `http://127.0.0.1:${client}`;
  const peers = `http://127.0.0.1:${peer}`;
  // biome-ignore format: a table
  startService(life, installed('etcd') as string, [
    '--enable-v2', '--data-dir', join(root, 'etcd'), '--listen-client-urls', own, '--advertise-client-urls', own,
    '--listen-peer-urls', peers, '--initial-advertise-peer-urls', peers, '--initial-cluster', `default=${peers}`,
  ]);
  const healthy = () =>
    fetch(`${own}/health`).then(
      ({ ok }) => ok,
      () => false,
    );
  await until(healthy, 'etcd is healthy');
  return `postgres://127.0.0.1:${client}`;
}

async function newNode(
  life: Life,
  root: string,
  name: string,
  etcdUrl: string,
): Promise<{ node: PatroniNode; restPort: number; config: string }> {
  const etcd = await startFaultProxy(life, etcdUrl);
  const [port, restPort] = [await freePort(), await freePort()];
  const folder = join(root, name);
  mkdirSync(folder);
  if (NOBODY !== null) chownSync(folder, NOBODY, NOBODY);
  const data = join(folder, 'data');
  const text = replaceAll(documented('patroni.yml'), [
    ['name: db1', `name: ${name}`],
    ['10.0.0.1:8008', `127.0.0.1:${restPort}`],
    ['10.0.0.1:5432', `127.0.0.1:${port}`],
    // the proxy is not what etcd says of itself, so it must not be asked for its members
    [
      'hosts: 10.0.0.11:2379,10.0.0.12:2379,10.0.0.13:2379',
      `hosts: 127.0.0.1:${new URL(etcd.url).port}\n  use_proxies: true`,
    ],
    ['/var/lib/postgresql/15/tollgate', data],
    ['/var/lib/postgresql/patroni.pgpass', join(folder, 'pgpass')],
    ['/var/run/postgresql', folder],
    ['10.0.0.0/24', '127.0.0.1/32'],
  ]);
  const config = configFile(life, 'patroni.yml', text);
  let patroni: ChildProcess | null = null;
  const pids = (): number[] => {
    const server = existsSync(join(data, 'postmaster.pid'))
      ? Number(readFileSync(join(data, 'postmaster.pid'), 'latin1').split('\n')[0])
      : 0;
    return [patroni?.pid ?? 0, server, ...(server > 0 ? childrenOf(server) : [])].filter(
      (pid) => pid > 0,
    );
  };
  const signal = (name: NodeJS.Signals): void => {
    for (const pid of pids()) {
      try {
        process.kill(pid, name);
      } catch {
        // it has ended
      }
    }
  };
  life.teardown(() => signal('SIGKILL'));
  const is = (role: string): Promise<boolean> =>
    fetch(`http://127.0.0.1:${restPort}/${role}`, {
      method: 'HEAD',
      signal: AbortSignal.timeout(1000),
    }).then(
      ({ status }) => status === 200,
      () => false,
    );
  const node: PatroniNode = {
    name,
    port,
    etcd,
    signal,
    leads: () => is('primary'),
    isSynchronous: () => is('synchronous'),
    start() {
      const user = NOBODY === null ? {} : { uid: NOBODY, gid: NOBODY };
      const env = { PATH: process.env.PATH ?? '', HOME: folder, LC_ALL: 'C' };
      patroni = spawn(installed('patroni') as string, [config], {
        ...user,
        env,
        cwd: folder,
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      const lines: string[] = [];
      patroni.stderr?.setEncoding('utf8').on('data', (line: string) => {
        lines.push(line);
        writeFileSync(join(root, `${name}.log`), lines.join(''));
      });
      spawn('sh', ['-c', GUARD, `${process.pid}`, `${patroni.pid}`, data], {
        detached: true,
        stdio: 'ignore',
      }).unref();
    },
  };
  return { node, restPort, config };
}
