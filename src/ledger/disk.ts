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

/**
 * What the spool needs of a disk. All of it is synchronous: an append goes to the page cache in
 * a few microseconds, and an answer waits for it anyway. Failures throw.
 */
export interface Disk {
  /** Creates a folder and those above it. */
  makeFolder(path: string): void;
  /** Names in a folder; none when there is no such folder. */
  list(path: string): string[];
  /** Opens a file to append to; creates it where it is missing. */
  open(path: string): SpoolFile;
  read(path: string): Buffer;
  write(path: string, text: string): void;
  /** All or nothing on one file system. */
  rename(from: string, to: string): void;
  remove(path: string): void;
  /** Removes an empty folder. */
  removeFolder(path: string): void;
  /** Sets a file's time to now; false when the file is gone. */
  touch(path: string): boolean;
  /** When a file was last touched, milliseconds since the epoch; null when it is gone. */
  time(path: string): number | null;
}

export interface SpoolFile {
  /** Appends the first `length` bytes; may throw having written some of them. */
  append(bytes: Buffer, length: number): void;
  truncate(size: number): void;
  close(): void;
}

/** Identifies this process, and tells whether another one is alive. */
export interface Processes {
  /** This process, as others can look it up. */
  readonly self: ProcessIdentity;
  /** Whether a process is alive; null when that cannot be known from here. */
  isAlive(other: ProcessIdentity): boolean | null;
}

export interface ProcessIdentity {
  /** The boot of a machine and the namespace in which the process id is valid. */
  readonly place: string;
  readonly pid: number;
  /** When it started, which distinguishes it from a later process of the same id. */
  readonly started: string;
}

/**
 * The file system. A process that dies loses nothing it appended; a power failure loses some seconds of records.
 * @param sync waits for the disk at each append, so that a power failure loses nothing either; everything else waits too
 */
export function fileDisk(sync: boolean): Disk {
  return {
    makeFolder,
    list: (path) => ifGone(() => readdirSync(path).sort(), []),
    open(path) {
      const fd = openSync(path, 'a', 0o600);
      return {
        append(bytes, length) {
          for (let at = 0; at < length; ) at += writeSync(fd, bytes, at, length - at);
          if (sync) fdatasyncSync(fd);
        },
        truncate: (size) => ftruncateSync(fd, size),
        close: () => closeSync(fd),
      };
    },
    read: (path) => readFileSync(path),
    write: (path, text) => writeFileSync(path, text, { mode: 0o600 }),
    rename: renameSync,
    remove: (path) => rmSync(path, { force: true }),
    removeFolder: (path) => ifGone(() => rmdirSync(path), undefined),
    touch(path) {
      const now = Date.now() / 1000;
      return ifGone(() => utimesSync(path, now, now) === undefined, false);
    },
    time: (path) => ifGone(() => statSync(path).mtimeMs, null),
  };
}

/** The operating system's processes. */
export function systemProcesses(): Processes {
  const place = placeHere();
  const self = { place, pid: process.pid, started: startOf(process.pid) ?? '' };
  return {
    self,
    isAlive(other) {
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
