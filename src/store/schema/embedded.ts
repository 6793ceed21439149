import { execFileSync } from 'node:child_process';
import { createHash, randomUUID } from 'node:crypto';
import {
  chownSync,
  closeSync,
  existsSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
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
import { systemProcesses } from '../../runtime/processes.ts';
import { answers } from '../../runtime/unix-socket.ts';
import { type Binaries, findBinaries, type Identity, identityFor, launch } from './launch.ts';

interface EmbeddedOptions {
  /** Holds the cluster in the folder `postgres`, and the server's log in `postgres.log`. */
  readonly dataDir: string;
  readonly log: { info(fields: object, text: string): void };
  /** Server settings that override our own. */
  readonly settings?: Readonly<Record<string, string>>;
}

export type Embedded = Awaited<ReturnType<typeof startEmbedded>>;

type Paths = ReturnType<typeof pathsOf>;

/** A running server, as its file `postmaster.pid` describes it. */
type Server = NonNullable<ReturnType<typeof readServer>>;

const USER_FILE = 'postgres.user-'; // one for each process that uses the server
const DRAFT = /^postgres\.[0-9a-f]{8}$/; // a cluster that is being created
const PORT = 5432; // part of the socket's name; the server does not listen on TCP
const SOCKET_PATH_BYTES = 103; // the lowest limit of the supported platforms
const START_MS = 120_000; // after a crash the server first replays its write-ahead log
const FAST_STOP_MS = 20_000;
const POLL_MS = 5;
const LOG_BYTES = 1 << 20; // a longer log is truncated at the next start

/** Little memory, no network, and commits that survive a crash. */
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
  log_error_verbosity: 'terse', // without the values of a row that a constraint refuses, such as addresses
  client_connection_check_interval: '1s', // queries of disconnected clients end soon
};

/**
 * Finds or starts the Postgres server of a data folder: for a quick start, development and tests (launch.ts has
 * the programs). Several processes may call this at once and use the server that won; the last of them stops it.
 * @throws Error of one line that says what to do
 */
export async function startEmbedded(options: EmbeddedOptions) {
  const began = performance.now();
  const paths = pathsOf(await folderOf(options.dataDir));
  checkOwner(paths);
  const isNew = !existsSync(paths.cluster);
  const { userFile } = paths;
  addUser(paths);
  try {
    const { server, found } = await readyServer(
      paths,
      { ...SETTINGS, ...options.settings },
      began + START_MS,
    );
    const ms = Math.round(performance.now() - began);
    options.log.info({ ms, pid: server.pid, found }, 'embedded database is ready');
    return {
      url: urlOf(server),
      pid: server.pid,
      /** There was no cluster. */
      isNew,
      /** Stops the server unless another process uses it. */
      async stop(): Promise<void> {
        rmSync(userFile, { force: true });
        if (!isUsed(paths)) await stopServer(paths);
        else options.log.info({}, 'the embedded database goes on: another process uses it');
      },
      /** As `stop`, without waiting for the server's end: this process ends first. */
      leave(): void {
        rmSync(userFile, { force: true });
        const server = isUsed(paths) ? null : readServer(paths);
        if (server !== null) signal(server.pid, 'SIGINT');
      },
    };
  } catch (error) {
    rmSync(userFile, { force: true });
    throw error;
  }
}

/** The server, started unless it was found. @param end when to give up, by performance.now() */
async function readyServer(paths: Paths, settings: Readonly<Record<string, string>>, end: number) {
  let found = true;
  let failures = 0;
  for (;;) {
    const server = readServer(paths);
    if (server?.status === 'ready') return { server, found };
    if (performance.now() > end)
      throw new Error(`the embedded database is not ready, see ${paths.logFile}`);
    if (server === null) {
      const failure = await startServer(paths, settings);
      found = failure !== null;
      // Sessions of a killed server keep its shared memory for a moment: wait for them. Another
      // failure probably means that another process was first; only the second one counts.
      if (failure?.includes('shared memory block')) await sleep(50);
      else if (failure !== null && ++failures > 1 && readServer(paths) === null)
        throw new Error(failure);
    } else {
      await sleep(POLL_MS); // it is starting or stopping
    }
  }
}

/** @returns the URL of the server that runs in a data folder; null when none is ready */
export function findEmbedded(dataDir: string): string | null {
  if (!existsSync(dataDir)) return null;
  const server = readServer(pathsOf(realpathSync(dataDir)));
  return server?.status === 'ready' ? urlOf(server) : null;
}

function urlOf({ socketDir }: Server): string {
  return `postgres://tollgate@/postgres?host=${encodeURIComponent(socketDir)}`;
}

function pathsOf(dataDir: string) {
  const cluster = join(dataDir, 'postgres');
  // in a URL a comma separates two hosts
  const fits =
    Buffer.byteLength(`${cluster}/.s.PGSQL.${PORT}`) <= SOCKET_PATH_BYTES && !cluster.includes(',');
  const hash = createHash('sha256').update(cluster).digest('hex').slice(0, 16);
  return {
    dataDir,
    cluster,
    socketDir: fits ? cluster : join(tmpdir(), `tollgate-${hash}`),
    logFile: join(dataDir, 'postgres.log'),
    /** Says that one of this process uses the server. */
    userFile: join(dataDir, `${USER_FILE}${randomUUID()}`),
  };
}

/** Refuses another user's cluster. Root may use any. */
function checkOwner({ cluster }: Paths): void {
  const uid = process.getuid?.();
  if (uid && existsSync(cluster) && statSync(cluster).uid !== uid) {
    throw new Error(
      `${cluster} belongs to another user: run as that user, or choose another DATA_DIR`,
    );
  }
}

/** @returns the server of the cluster in any state; null when none runs */
function readServer({ cluster }: Paths) {
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

/** Whether a process is the server of the cluster. After a crash another program may have its id. */
function isServer(pid: number, cluster: string): boolean {
  try {
    const command =
      process.platform === 'linux'
        ? readFileSync(`/proc/${pid}/cmdline`, 'utf8')
        : execFileSync('ps', ['-ww', '-o', 'command=', '-p', `${pid}`], {
            encoding: 'utf8',
            stdio: 'pipe',
          });
    return command.includes(cluster);
  } catch {
    return false; // there is no such process
  }
}

/** Starts a server and waits until it is ready. @returns null, or the reason why it did not start */
async function startServer(
  paths: Paths,
  settings: Readonly<Record<string, string>>,
): Promise<string | null> {
  const binaries = await findBinaries(paths.dataDir);
  const identity = identityFor(paths.cluster, binaries);
  // a server in another container: Postgres too would look for its process and memory in vain, and two would write
  if (await answers(join(paths.socketDir, `.s.PGSQL.${PORT}`)))
    return `${paths.cluster} is in use by a server in another container: run the command there, or stop it first`;
  removeDrafts(paths);
  if (!existsSync(join(paths.cluster, 'PG_VERSION')))
    await createCluster(paths, binaries, identity);
  checkVersion(paths);
  removeStalePidFile(paths);
  if (paths.socketDir !== paths.cluster) makePrivate(paths.socketDir, identity);

  const quoted = `"${paths.socketDir.replaceAll('"', '""')}"`;
  const flags = Object.entries({ ...settings, unix_socket_directories: quoted });
  const arguments_ = [
    '-D',
    paths.cluster,
    ...flags.flatMap(([name, value]) => ['-c', `${name}=${value}`]),
  ];
  const run = startProgram(paths, identity, binaries.postgres, arguments_);
  const { pid } = run.child;
  for (;;) {
    const failure = await Promise.race([run.ended, sleep(POLL_MS)]);
    if (failure !== undefined) return failure ?? 'the embedded database ended as soon as it began';
    const server = readServer(paths);
    if (server?.pid === pid && server?.status === 'ready') break;
  }
  run.child.unref();
  return null;
}

/** Creates the cluster in a temporary folder and renames it: the cluster is complete or absent. */
async function createCluster(paths: Paths, binaries: Binaries, identity: Identity): Promise<void> {
  const draft = `${paths.cluster}.${randomUUID().slice(0, 8)}`;
  makePrivate(draft, identity);
  const options = [
    '--username=tollgate',
    '--auth-local=trust',
    '--auth-host=reject',
    '--encoding=UTF8',
    '--locale=C',
  ];
  const locale = ['--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--no-instructions'];
  const run = startProgram(paths, identity, binaries.initdb, ['-D', draft, ...options, ...locale]);
  const failure = await run.ended;
  try {
    if (failure !== null) throw new Error(failure);
    renameSync(draft, paths.cluster);
  } catch (error) {
    rmSync(draft, { recursive: true, force: true });
    if (failure !== null || !existsSync(paths.cluster)) throw error; // otherwise another process was first
  }
}

/** Removes clusters that were never whole, because the process that created one was ended. */
function removeDrafts(paths: Paths): void {
  const drafts = readdirSync(paths.dataDir).filter((name) => DRAFT.test(name));
  if (drafts.length === 0 || isUsed(paths)) return; // another process may be creating one
  for (const draft of drafts)
    rmSync(join(paths.dataDir, draft), { recursive: true, force: true, maxRetries: 3 });
}

/** Creates a folder that only the given user can enter, or checks that it is one. */
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
    throw new Error(
      `${folder} is not ours alone: remove it, or choose a DATA_DIR with a shorter path`,
    );
  }
}

/**
 * The folder of the data, made where it is not there; not where there is no Postgres to fill it, as in the image.
 * @throws Error of one line that says what to do
 */
async function folderOf(dataDir: string): Promise<string> {
  if (!existsSync(join(dataDir, 'postgres'))) await findBinaries(dataDir);
  try {
    mkdirSync(dataDir, { recursive: true });
    return realpathSync(dataDir);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new Error(
      `DATABASE_URL is not set, and ${dataDir} cannot be made for an embedded database (${code}); set DATABASE_URL, or DATA_DIR to a folder that you may write`,
    );
  }
}

/** Starts a program that writes to the log file. `ended` resolves with null after success, or with the reason. */
function startProgram(
  { logFile }: Paths,
  identity: Identity,
  program: string,
  args: readonly string[],
) {
  const size = existsSync(logFile) ? statSync(logFile).size : 0;
  const begin = size > LOG_BYTES ? 0 : size;
  const output = openSync(logFile, begin < size ? 'w' : 'a', 0o600);
  const child = launch(identity, program, args, output);
  closeSync(output);
  const { promise: ended, resolve } = Promise.withResolvers<string | null>();
  const cannot = (reason: string) => {
    const remedy =
      identity.wrapper.length > 0 ? 'run as an ordinary user with a folder of its own, or ' : '';
    return `the embedded database cannot run here (${reason}): ${remedy}set DATABASE_URL`;
  };
  child.once('error', (error) => resolve(cannot(error.message)));
  child.once('exit', (code) => {
    const reason = code === 0 ? null : lastError(logFile, begin);
    if (reason?.startsWith('unshare:')) resolve(cannot(reason));
    else resolve(reason && `the embedded database did not start: ${reason} (see ${logFile})`);
  });
  return { child, ended };
}

/** The last error that a program wrote after `begin` bytes of the log, otherwise its last line. */
function lastError(logFile: string, begin: number): string {
  const lines = existsSync(logFile)
    ? readFileSync(logFile).subarray(begin).toString().trim().split('\n')
    : [];
  return (
    lines.findLast((line) => /FATAL|PANIC|error/.test(line)) ??
    (lines.at(-1) || 'it ended without a word')
  );
}

function checkVersion({ cluster }: Paths): void {
  const version = readFileSync(join(cluster, 'PG_VERSION'), 'utf8').trim();
  if (version !== '18') {
    throw new Error(
      `${cluster} was made by Postgres ${version}, the embedded one is 18: dump and restore it`,
    );
  }
}

/**
 * Removes the pid file of a dead server whose id another process has now, as after a container restart: Postgres
 * would refuse to start. A server that starts meanwhile is safe: its shared memory keeps a second one out.
 */
function removeStalePidFile(paths: Paths): void {
  const file = join(paths.cluster, 'postmaster.pid');
  if (!existsSync(file) || readServer(paths) !== null) return;
  const pid = Number.parseInt(readFileSync(file, 'utf8'), 10);
  if (signal(pid, 0) && readServer(paths) === null) rmSync(file, { force: true });
}

async function stopServer(paths: Paths): Promise<void> {
  const server = readServer(paths); // not the one we found if a command has restarted it since
  if (server !== null) {
    const began = performance.now();
    signal(server.pid, 'SIGINT'); // "fast" shutdown: ends sessions, then writes a checkpoint
    while (isServer(server.pid, paths.cluster)) {
      await sleep(POLL_MS);
      if (performance.now() - began > FAST_STOP_MS) signal(server.pid, 'SIGQUIT');
    }
  }
  if (paths.socketDir !== paths.cluster) rmSync(paths.socketDir, { recursive: true, force: true });
}

/** Sends a signal; 0 sends none. @returns whether the process exists */
function signal(pid: number, name: NodeJS.Signals | 0): boolean {
  try {
    return process.kill(pid, name);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (name === 0) return code === 'EPERM'; // another user's process
    if (code !== 'ESRCH') throw error;
    return false;
  }
}

/** Writes down that this process uses the server. */
function addUser({ userFile }: Paths): void {
  try {
    writeFileSync(`${userFile}.new`, JSON.stringify(systemProcesses().self));
    renameSync(`${userFile}.new`, userFile);
  } catch {
    rmSync(`${userFile}.new`, { force: true }); // the disk is full: the server may stop before this process does
  }
}

/** Whether another one uses the server. Removes files of killed processes, whose ids may be other programs' by now. */
function isUsed({ dataDir, userFile }: Paths): boolean {
  const { isAlive } = systemProcesses();
  const names = readdirSync(dataDir).filter(
    (name) => name.startsWith(USER_FILE) && !name.endsWith('.new'),
  );
  let used = false;
  for (const file of names.map((name) => join(dataDir, name))) {
    if (file === userFile) continue;
    try {
      if (isAlive(JSON.parse(readFileSync(file, 'utf8')))) used = true;
      else rmSync(file);
    } catch {
      // its process has just removed it
    }
  }
  return used;
}
