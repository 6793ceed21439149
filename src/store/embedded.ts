import { execFileSync } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import {
  chownSync,
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Binaries, findBinaries, type Identity, identityFor, launch } from './launch.ts';

export interface EmbeddedOptions {
  /** The cluster is the folder `postgres` below it; the server logs to `postgres.log` beside. */
  readonly dataDir: string;
  readonly log: { info(fields: object, text: string): void };
  /** For a command that is over soon: it leaves a server that a gateway uses to the gateway. */
  readonly visiting?: boolean;
  /** Server settings on top of our own. */
  readonly settings?: Readonly<Record<string, string>>;
}

export interface Embedded {
  readonly url: string;
  /** Process id of the server. */
  readonly pid: number;
  /** Whether it is ours to stop. */
  readonly owned: boolean;
  /** Stops the server, if it is still ours to stop. */
  stop(): Promise<void>;
}

/** Where the parts of an embedded database lie. */
interface Place {
  readonly cluster: string;
  readonly socketDir: string;
  readonly logFile: string;
  readonly ownerFile: string;
}

/** What `postmaster.pid` says of a running server. */
interface Server {
  readonly pid: number;
  readonly socketDir: string;
  readonly status: string;
}

const PORT = 5432; // names the socket; nothing listens on TCP
const SOCKET_PATH_BYTES = 103; // the shortest limit of all platforms
const START_MS = 120_000; // after a crash a server replays its log before it is ready
const FAST_STOP_MS = 20_000;
const POLL_MS = 5;
const LOG_BYTES = 1 << 20; // a longer log is begun anew

/** Small, private, and safe: what was acknowledged survives a crash. */
const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '',
  unix_socket_permissions: '0700',
  max_connections: '40',
  shared_buffers: '16MB',
  wal_level: 'minimal',
  max_wal_senders: '0',
  max_wal_size: '256MB',
  io_method: 'sync',
  jit: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_min_messages: 'warning',
  log_checkpoints: 'off',
  client_connection_check_interval: '1s', // work for a client that is gone ends soon
};

/**
 * A real Postgres server in a folder, from the binaries of an npm package: for a quick
 * start, development and tests. Started where none runs, found where one does: by the
 * command line while the gateway runs, and by the next gateway after one was killed.
 *
 * Starters cannot harm each other: a cluster is made aside and renamed into place, and
 * Postgres lets one server into a cluster; who comes second finds the first one's.
 *
 * A server belongs to the gateway that started it or found it orphaned, and stops with it.
 * A visitor's server is a gateway's as soon as one comes. One gateway per folder.
 * @throws Error of one line that says what to do
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<Embedded> {
  const began = performance.now();
  mkdirSync(options.dataDir, { recursive: true });
  const place = placeOf(realpathSync(options.dataDir));
  checkOwner(place);
  let server = readServer(place);
  let started = false;
  for (let failures = 0; server?.status !== 'ready'; server = readServer(place)) {
    if (performance.now() - began > START_MS)
      throw new Error(`the embedded database is not ready, see ${place.logFile}`);
    if (server === null) {
      const failure = await startServer(place, { ...SETTINGS, ...options.settings });
      started = failure === null;
      // beaten by another starter, most likely, and a second failure is one; sessions of a
      // killed server hold its shared memory until they notice
      if (failure?.includes('shared memory block')) await sleep(50);
      else if (failure !== null && ++failures > 1 && readServer(place) === null) throw new Error(failure);
    } else {
      await sleep(POLL_MS); // it is on its way up or down
    }
  }
  const owner = claim(place, started, options.visiting === true);
  const ms = Math.round(performance.now() - began);
  options.log.info({ ms, pid: server.pid, found: !started }, 'embedded database is ready');

  const { pid } = server;
  return {
    url: urlOf(server),
    pid,
    owned: owner !== null,
    async stop() {
      if (owner !== null && readOwner(place) === owner) await stopServer(place);
    },
  };
}

/** The URL of the server that runs in a folder now; null when none is ready. */
export function findEmbedded(dataDir: string): string | null {
  if (!existsSync(dataDir)) return null;
  const server = readServer(placeOf(realpathSync(dataDir)));
  return server?.status === 'ready' ? urlOf(server) : null;
}

function urlOf({ socketDir }: Server): string {
  return `postgres://tollgate@/postgres?host=${encodeURIComponent(socketDir)}`;
}

function placeOf(dataDir: string): Place {
  const cluster = join(dataDir, 'postgres');
  // a comma would part it into two hosts
  const fits = Buffer.byteLength(`${cluster}/.s.PGSQL.${PORT}`) <= SOCKET_PATH_BYTES && !cluster.includes(',');
  const hash = createHash('sha256').update(cluster).digest('hex').slice(0, 16);
  return {
    cluster,
    socketDir: fits ? cluster : join(tmpdir(), `tollgate-${hash}`),
    logFile: join(dataDir, 'postgres.log'),
    ownerFile: join(dataDir, 'postgres.owner'),
  };
}

function checkOwner({ cluster }: Place): void {
  const uid = process.getuid?.();
  if (uid === undefined || uid === 0 || !existsSync(cluster)) return;
  if (statSync(cluster).uid !== uid) {
    throw new Error(`${cluster} belongs to another user: run as that user, or choose another DATA_DIR`);
  }
}

/** The server that holds the cluster, in whatever state; null when there is none. */
function readServer({ cluster }: Place): Server | null {
  let lines: string[];
  try {
    lines = readFileSync(join(cluster, 'postmaster.pid'), 'utf8').split('\n');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  const pid = Number(lines[0]);
  if (!isServer(pid, cluster)) return null;
  return { pid, socketDir: lines[4] ?? '', status: (lines[7] ?? 'starting').trim() };
}

/** Whether a process is the server of the cluster: after a crash its id may be another program's. */
function isServer(pid: number, cluster: string): boolean {
  try {
    const command =
      process.platform === 'linux'
        ? readFileSync(`/proc/${pid}/cmdline`, 'utf8')
        : execFileSync('ps', ['-ww', '-o', 'command=', '-p', `${pid}`], { encoding: 'utf8', stdio: 'pipe' });
    return command.includes(cluster);
  } catch {
    return false; // there is no such process
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Starts a server and waits until it is ready. @returns null, or why it did not start */
async function startServer(place: Place, settings: Readonly<Record<string, string>>): Promise<string | null> {
  const binaries = await findBinaries();
  const identity = identityFor(place.cluster, binaries);
  if (!existsSync(join(place.cluster, 'PG_VERSION'))) await createCluster(place, binaries, identity);
  checkVersion(place);
  removeStalePidFile(place);
  if (place.socketDir !== place.cluster) makePrivate(place.socketDir, identity);

  const flags = Object.entries({ ...settings, unix_socket_directories: quote(place.socketDir) });
  const arguments_ = ['-D', place.cluster, ...flags.flatMap(([name, value]) => ['-c', `${name}=${value}`])];
  const run = startProgram(place, identity, binaries.postgres, arguments_);
  const { pid } = run.child;
  for (;;) {
    const failure = await Promise.race([run.ended, sleep(POLL_MS, undefined)]);
    if (failure !== undefined) return failure ?? 'the embedded database ended as soon as it began';
    const server = readServer(place);
    if (server?.pid === pid && server?.status === 'ready') break;
  }
  run.child.unref();
  return null;
}

/** Makes the cluster: aside first, so that it is whole or not there. */
async function createCluster({ cluster, ...place }: Place, binaries: Binaries, identity: Identity): Promise<void> {
  const draft = `${cluster}.${randomUUID().slice(0, 8)}`;
  makePrivate(draft, identity);
  const options = ['--username=tollgate', '--auth-local=trust', '--auth-host=reject', '--encoding=UTF8', '--locale=C'];
  const locale = ['--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--no-instructions'];
  const run = startProgram({ cluster, ...place }, identity, binaries.initdb, ['-D', draft, ...options, ...locale]);
  const failure = await run.ended;
  try {
    if (failure !== null) throw new Error(failure);
    renameSync(draft, cluster);
  } catch (error) {
    rmSync(draft, { recursive: true, force: true });
    if (failure !== null || !existsSync(cluster)) throw error;
  }
}

function makePrivate(folder: string, { uid, gid }: Identity): void {
  try {
    mkdirSync(folder, { mode: 0o700 });
    if (uid !== undefined && gid !== undefined) chownSync(folder, uid, gid);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
  const found = lstatSync(folder);
  const owner = uid ?? process.getuid?.() ?? found.uid;
  if (!found.isDirectory() || found.uid !== owner || (found.mode & 0o077) !== 0) {
    throw new Error(`${folder} is not ours alone: remove it, or choose a DATA_DIR with a shorter path`);
  }
}

/** Runs a program that logs to the log file. `ended` is null after success, otherwise the reason. */
function startProgram({ logFile }: Place, identity: Identity, program: string, args: readonly string[]) {
  const size = existsSync(logFile) ? statSync(logFile).size : 0;
  const begin = size > LOG_BYTES ? 0 : size;
  const output = openSync(logFile, begin < size ? 'w' : 'a');
  const child = launch(identity, program, args, output);
  closeSync(output);
  const { promise: ended, resolve } = Promise.withResolvers<string | null>();
  const cannot = (reason: string) => {
    const remedy = identity.wrapper.length > 0 ? 'run as an ordinary user with a folder of its own, or ' : '';
    return `the embedded database cannot run here (${reason}): ${remedy}set DATABASE_URL`;
  };
  child.once('error', (error) => resolve(cannot(error.message)));
  child.once('exit', (code) => {
    const reason = code === 0 ? null : lastWords(logFile, begin);
    if (reason?.startsWith('unshare:')) resolve(cannot(reason));
    else resolve(reason && `the embedded database did not start: ${reason} (see ${logFile})`);
  });
  return { child, ended };
}

function lastWords(logFile: string, begin: number): string {
  const lines = existsSync(logFile) ? readFileSync(logFile).subarray(begin).toString().trim().split('\n') : [];
  return lines.findLast((line) => /FATAL|PANIC|error/.test(line)) ?? (lines.at(-1) || 'it ended without a word');
}

function checkVersion({ cluster }: Place): void {
  const version = readFileSync(join(cluster, 'PG_VERSION'), 'utf8').trim();
  if (version !== '18') {
    throw new Error(`${cluster} was made by Postgres ${version}, the embedded one is 18: dump and restore it`);
  }
}

/**
 * Postgres takes the id in a stale file for a server when any process of the same user
 * has it now; after a container restart that is common. Only a file that still says what
 * was judged is removed, and should a server have begun meanwhile, its claim on the
 * cluster's shared memory keeps a second one out.
 */
function removeStalePidFile(place: Place): void {
  const file = join(place.cluster, 'postmaster.pid');
  if (!existsSync(file) || readServer(place) !== null) return;
  const pid = Number.parseInt(readFileSync(file, 'utf8'), 10);
  if (isAlive(pid) && readServer(place) === null) rmSync(file, { force: true });
}

/** A list of one folder, in the syntax of unix_socket_directories. */
function quote(folder: string): string {
  return `"${folder.replaceAll('"', '""')}"`;
}

async function stopServer(place: Place): Promise<void> {
  const server = readServer(place); // another than the one we found, if that was killed and a visitor started it again
  const began = performance.now();
  if (server !== null) signal(server.pid, 'SIGINT'); // fast: ends sessions, then a checkpoint
  while (server !== null && isServer(server.pid, place.cluster)) {
    await sleep(POLL_MS);
    if (performance.now() - began > FAST_STOP_MS) signal(server.pid, 'SIGQUIT');
  }
  rmSync(place.ownerFile, { force: true });
  if (place.socketDir !== place.cluster) rmSync(place.socketDir, { recursive: true, force: true });
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error; // it has just ended
  }
}

/** @returns the mark of our ownership, or null when the server is someone else's to stop */
function claim(place: Place, started: boolean, visiting: boolean): string | null {
  const [pid, kind] = readOwner(place)?.split(' ') ?? [];
  const owned = pid !== undefined && isAlive(Number(pid));
  if (owned && (visiting || (kind === 'gateway' && !started))) return null;
  const mark = `${process.pid} ${visiting ? 'visitor' : 'gateway'} ${randomUUID()}`;
  writeFileSync(`${place.ownerFile}.${process.pid}`, mark);
  renameSync(`${place.ownerFile}.${process.pid}`, place.ownerFile);
  return mark;
}

function readOwner({ ownerFile }: Place): string | null {
  try {
    return readFileSync(ownerFile, 'utf8');
  } catch {
    return null;
  }
}
