import {
  closeSync,
  fdatasyncSync,
  fsyncSync,
  ftruncateSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { dirname } from 'node:path';

/** What the spool needs of a disk; tests have one that refuses. */
export type Disk = ReturnType<typeof fileDisk>;

/** A file that is open for appending. */
export type SpoolFile = ReturnType<Disk['open']>;

/**
 * The file system. All of it is synchronous: an append goes to the page cache in a few microseconds, and an answer
 * waits for it anyway. Failures throw. A process that dies loses nothing; a power failure loses some seconds of records.
 * @param sync waits for the disk at each append, so that a power failure loses nothing either; everything else waits too
 */
export function fileDisk(sync: boolean) {
  return {
    /** Creates a folder and those above it. */
    makeFolder: (path: string): void => makeFolder(path, sync),
    /** Names in a folder; none when there is no such folder. */
    list: (path: string): string[] => ifGone(() => readdirSync(path).sort(), []),
    /** Opens a file to append to; creates it where it is missing. */
    open(path: string) {
      const fd = openSync(path, 'a', 0o600);
      let named = !sync; // whether its name is on the disk, or need not be
      return {
        /** Appends the first `length` bytes; may throw having written some of them. */
        append(bytes: Buffer, length: number): void {
          for (let at = 0; at < length; ) at += writeSync(fd, bytes, at, length - at);
          if (sync) fdatasyncSync(fd);
          if (named) return;
          syncFolder(dirname(path));
          named = true;
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
    time: (path: string): number | null =>
      ifGone<number | null>(() => statSync(path).mtimeMs, null),
  };
}

/** Replaces mkdir's `recursive`, which loops for ever where creating a folder always fails with ENOENT (Node 26.10). */
function makeFolder(path: string, sync: boolean): void {
  try {
    mkdirSync(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'EEXIST') return;
    if (code !== 'ENOENT' || dirname(path) === path) throw error;
    makeFolder(dirname(path), sync);
    mkdirSync(path);
  }
  if (sync) syncFolder(dirname(path));
}

/** Waits until the names in a folder are on the disk: a power failure could lose a new file with all that is in it. */
function syncFolder(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EINVAL') throw error; // some file systems cannot sync a folder
  } finally {
    closeSync(fd);
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
