import { execFile } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { installed } from '../faults/pooler.ts';
import type { Life } from '../faults/world.ts';
import { type Cluster, newCluster } from './cluster.ts';

/**
 * A Citus cluster, built from source beside the Postgres that Debian installed, which stays as it is. CITUS_SOURCE is a
 * source tree of the release; without it, it is cloned from the project's public address. PG_CONFIG is the pg_config of
 * Debian's Postgres. CITUS_PREFIX is where the result is kept for the next run.
 */
const RELEASE = 'v13.2.2';
const PUBLIC_SOURCE = 'https://github.com/citusdata/citus.git';
const VERSION = '15';
const { CITUS_SOURCE, PG_CONFIG = `/usr/lib/postgresql/${VERSION}/bin/pg_config` } = process.env;
const PREFIX = process.env.CITUS_PREFIX ?? join(tmpdir(), `tollgate-citus-${RELEASE}`);
/** What the headers of Postgres include or its library needs; unpacked beside, not installed. */
const HEADERS = [
  `postgresql-server-dev-${VERSION}`,
  'libpq-dev',
  'liblz4-dev',
  'libzstd-dev',
  'libkrb5-dev',
  'krb5-multidev',
];
const BUILD_MS = 900_000;

const run = promisify(execFile);

/** What the build lacks here; empty: it can be tried. */
export const missing: readonly string[] = [
  ...['gcc', 'make', 'git', 'apt-get', 'dpkg-deb'].filter((name) => installed(name) === null),
  ...(existsSync(PG_CONFIG) ? [] : [`postgresql-${VERSION}`]),
];

/** The source or a package is not to be had here; the message tells which. */
export class CitusUnobtainable extends Error {}

/** A coordinator and its workers, with Citus loaded and no database of ours yet. */
export interface CitusCluster {
  readonly coordinator: Cluster;
  readonly workers: readonly Cluster[];
  /** Starts a server again with its settings. */
  start(cluster: Cluster): Promise<void>;
}

/** @throws CitusUnobtainable; Error when Citus cannot be built, with the last lines of the failing step */
export async function startCitus(life: Life, workers: number): Promise<CitusCluster> {
  const bin = await build();
  const programs = { initdb: join(bin, 'initdb'), postgres: join(bin, 'postgres') };
  const start = (cluster: Cluster): Promise<void> =>
    cluster.start({
      shared_preload_libraries: 'citus',
      max_connections: '300',
      max_prepared_transactions: '600',
      wal_level: 'logical', // shards move to another worker while they are written
      max_worker_processes: '64',
      max_locks_per_transaction: '512',
      shared_buffers: '64MB',
      // as sql/growth.md says: without these the loss of a machine is noticed after a quarter of an hour
      'citus.node_conninfo':
        'sslmode=disable keepalives_idle=10 keepalives_interval=5 keepalives_count=3 tcp_user_timeout=20000',
      'citus.recover_2pc_interval': '5s', // a minute, if absent
    });
  const all: Cluster[] = [];
  for (let n = 0; n <= workers; n++) {
    const cluster = await newCluster(life, programs);
    await start(cluster);
    all.push(cluster);
  }
  const [coordinator, ...others] = all as [Cluster, ...Cluster[]];
  return { coordinator, workers: others, start };
}

/** Builds once; takes some minutes of CPU. @returns folder of the programs */
async function build(): Promise<string> {
  const bin = join(PREFIX, `lib/postgresql/${VERSION}/bin`);
  if (existsSync(join(PREFIX, 'built'))) return bin;
  rmSync(PREFIX, { recursive: true, force: true });
  mkdirSync(PREFIX, { recursive: true });
  chmodSync(PREFIX, 0o755);
  await copyPostgres();
  await obtain('its packages', unpackHeaders());
  const source = join(PREFIX, 'source');
  if (CITUS_SOURCE === undefined)
    await obtain(
      'its source',
      step('git', ['clone', '--depth=1', `--branch=${RELEASE}`, PUBLIC_SOURCE, source]),
    );
  else cpSync(CITUS_SOURCE, source, { recursive: true });
  // as if made after what it is made from: its tools may be absent
  utimesSync(join(source, 'configure'), new Date(), new Date());
  renameFunction(source);
  const include = join(PREFIX, 'usr/include');
  const flags = [
    `COPT=-Wno-error -I${include} -I${include}/mit-krb5`,
    `LDFLAGS=-L${join(PREFIX, 'links')}`,
  ];
  const options = ['--without-libcurl', '--without-lz4', '--without-zstd'];
  await step(join(source, 'configure'), options, source, { PG_CONFIG: join(bin, 'pg_config') });
  await step('make', ['-j2', 'with_llvm=no', ...flags, 'install'], source);
  writeFileSync(join(PREFIX, 'built'), '');
  return bin;
}

/** @throws CitusUnobtainable when a step that fetches something fails */
async function obtain(what: string, steps: Promise<unknown>): Promise<void> {
  await steps.catch((error: Error) => {
    throw new CitusUnobtainable(`${what} cannot be fetched: ${error.message}`);
  });
}

/** Postgres finds its files beside its programs, wherever those are: a copy takes an extension without touching the original. */
async function copyPostgres(): Promise<void> {
  const config = async (name: string): Promise<string> =>
    (await run(PG_CONFIG, [`--${name}`])).stdout.trim();
  const copies = [
    [join(await config('bindir'), '..'), `lib/postgresql/${VERSION}`],
    [await config('sharedir'), `share/postgresql/${VERSION}`],
  ] as const;
  for (const [from, to] of copies)
    cpSync(from, join(PREFIX, to), { recursive: true, verbatimSymlinks: true });
}

async function unpackHeaders(): Promise<void> {
  const packages = join(PREFIX, 'packages');
  mkdirSync(packages);
  // of the version that is installed, where the packages still have it
  const { stdout } = await run('dpkg-query', ['--show', `postgresql-${VERSION}`]); // name, tab, version
  for (const name of HEADERS) {
    const exact = /^(postgresql|libpq)/.test(name)
      ? [`${name}=${stdout.trim().split('\t')[1]}`]
      : [];
    await step(
      'apt-get',
      ['download', ...exact, ...(exact.length === 0 ? [name] : [])],
      packages,
    ).catch((error) => {
      if (exact.length === 0) throw error;
      return step('apt-get', ['download', name], packages);
    });
  }
  for (const file of readdirSync(packages))
    await step('dpkg-deb', ['-x', join(packages, file), PREFIX]);
  cpSync(join(PREFIX, 'usr/include/postgresql'), join(PREFIX, 'include/postgresql'), {
    recursive: true,
  });
  cpSync(join(PREFIX, `usr/lib/postgresql/${VERSION}`), join(PREFIX, `lib/postgresql/${VERSION}`), {
    recursive: true,
  });
  const links = join(PREFIX, 'links');
  mkdirSync(links);
  for (const name of ['zstd', 'lz4']) {
    const { stdout: path } = await run('sh', [
      '-c',
      `ldconfig -p | sed -n 's/.*lib${name}.so.1 .* => //p' | head -n 1`,
    ]);
    symlinkSync(path.trim(), join(links, `lib${name}.so`));
  }
}

/** Later releases of Postgres 15 have a function of this name too. */
function renameFunction(source: string): void {
  for (const file of [
    'src/include/pg_version_compat.h',
    'src/backend/distributed/commands/serialize_distributed_ddls.c',
  ]) {
    const text = readFileSync(join(source, file), 'utf8');
    writeFileSync(
      join(source, file),
      text.replace(/\bhave_createdb_privilege\b/g, 'citus_have_createdb_privilege'),
    );
  }
}

async function step(
  program: string,
  args: readonly string[],
  cwd = PREFIX,
  env: Record<string, string> = {},
) {
  try {
    await run(program, [...args], {
      cwd,
      env: { ...process.env, ...env },
      timeout: BUILD_MS,
      maxBuffer: 2 ** 28,
    });
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(
      `${program} failed:\n${`${stdout}\n${stderr}`.split('\n').slice(-15).join('\n')}`,
    );
  }
}
