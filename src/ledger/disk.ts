import {
  closeSync,
  fdatasyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { dirname } from 'node:path';

/** What the spool needs of a disk; tests have one that refuses. */
export type Disk = ReturnType<typeof fileDisk>;

/** A file that is open for appending. */
export type SpoolFile = ReturnType<Disk['open']>;

/** The processes that share a spool folder. */
export type Processes = ReturnType<typeof systemProcesses>;

export interface ProcessIdentity {
  /** The boot of a machine and the namespace in which the process id is valid. */
  readonly place: string;
  readonly pid: number;
  /** When it started, which distinguishes it from a later process of the same id. */
  readonly started: string;
}

/**
 * The file system. All of it is synchronous: an append goes to the page cache in a few microseconds, and an answer
 * waits for it anyway. Failures throw. A process that dies loses nothing; a power failure loses some seconds of records.
 * @param sync waits for the disk at each append, so that a power failure loses nothing either; everything else waits too
 */
export function fileDisk(sync: boolean) {
  return {
    /** Creates a folder and those above it. */
    makeFolder,
    /** Names in a folder; none when there is no such folder. */
    list: (path: string): string[] => ifGone(() => readdirSync(path).sort(), []),
    /** Opens a file to append to; creates it where it is missing. */
    open(path: string) {
      const fd = openSync(path, 'a', 0o600);
      return {
        /** Appends the first `length` bytes; may throw having written some of them. */
        append(bytes: Buffer, length: number): void {
          for (let at = 0; at < length; ) at += writeSync(fd, bytes, at, length - at);
          if (sync) fdatasyncSync(fd);
        },
        truncate: (size: number): void => ftruncateSync(fd, size),
        close: (): void => closeSync(fd),
      };
    },
    read: (path: string): Buffer => readFileSync(path),
    write: (path: string, text: string): void => writeFileSync(path, text, { mode: 0o600 }),
    /** All or nothing on one file system. */
    rename: (from: string, to: string): void => renameSync(from, to),
    remove: (path: string): void => rmSync(path, { force: true }),
    /** Removes an empty folder. */
    removeFolder: (path: string): void => ifGone(() => rmdirSync(path), undefined),
    /** Sets a file's time to now; false when the file is gone. */
    touch(path: string): boolean {
      const now = Date.now() / 1000;
      return ifGone(() => utimesSync(path, now, now) === undefined, false);
    },
    /** When a file was last touched, milliseconds since the epoch; null when it is gone. */
    time: (path: string): number | null => ifGone<number | null>(() => statSync(path).mtimeMs, null),
  };
}

/** The operating system's processes. */
export function systemProcesses() {
  const place = placeHere();
  const self: ProcessIdentity = { place, pid: process.pid, started: startOf(process.pid) ?? '' };
  return {
    /** This process, as others can look it up. */
    self,
    /** Whether a process is alive; null when that cannot be known from here. */
    isAlive(other: ProcessIdentity): boolean | null {
      if (other.place !== place) return null;
      if (other.pid === self.pid) return other.started === self.started;
      try {
        process.kill(other.pid, 0);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
      }
      const started = startOf(other.pid);
      return started === null || started === other.started;
    },
  };
}

function placeHere(): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return hostname(); // without /proc there are no containers that share a host name
  }
}

/** When a process started, in ticks since the boot; null where there is no /proc or no such process. */
function startOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? null; // behind the name, which may contain anything
  } catch {
    return null;
  }
}

/** Replaces mkdir's `recursive`, which loops for ever where creating a folder always fails with ENOENT (Node 26.10). */
function makeFolder(path: string): void {
  try {
    mkdirSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return;
    if (code !== 'ENOENT' || dirname(path) === path) throw error;
    makeFolder(dirname(path));
    mkdirSync(path);
  }
}

function ifGone<T>(work: () => T, gone: T): T {
  try {
    return work();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return gone;
    throw error;
  }
}
