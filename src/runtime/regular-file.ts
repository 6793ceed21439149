import { closeSync, constants, fstatSync, openSync, readFileSync, type Stats } from 'node:fs';
import { open } from 'node:fs/promises';

/** The largest file that a setting may name. Certificates, keys and secrets have kilobytes. */
const MOST_BYTES = 16_777_216;
/** Opening a named pipe would otherwise wait for a writer. Windows has no such flag, and no such pipes. */
const FLAGS = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);

/**
 * Reads a file that a setting names. Only a regular file is read: a pipe or a device may have no end, or never begin.
 * @throws Error whose message is the reason alone, without the path: "ENOENT", "it is a named pipe, not a regular file"
 */
export function readRegularFile(path: string): Buffer {
  try {
    const fd = openSync(path, FLAGS);
    try {
      mustBeRegular(fstatSync(fd));
      return readFileSync(fd);
    } finally {
      closeSync(fd);
    }
  } catch (error) {
    throw reasonAlone(error);
  }
}

/** `readRegularFile` outside the event loop, which a slow or dead file system would stop. */
export async function readRegularFileAside(path: string): Promise<Buffer> {
  try {
    const file = await open(path, FLAGS);
    try {
      mustBeRegular(await file.stat());
      return await file.readFile();
    } finally {
      await file.close();
    }
  } catch (error) {
    throw reasonAlone(error);
  }
}

/** The text of a regular file without one newline at its end, as secrets are written into files. @throws Error as `readRegularFile` */
export function readSecretFile(path: string): string {
  return readRegularFile(path)
    .toString()
    .replace(/\r?\n$/, '');
}

function mustBeRegular(stats: Stats): void {
  if (!stats.isFile()) throw new Error(`it is a ${kindOf(stats)}, not a regular file`);
  if (stats.size > MOST_BYTES) throw new Error(`it is larger than ${MOST_BYTES / 1_048_576} MiB`);
}

function kindOf(stats: Stats): string {
  if (stats.isDirectory()) return 'folder';
  if (stats.isFIFO()) return 'named pipe';
  return stats.isSocket() ? 'socket' : 'device';
}

function reasonAlone(error: unknown): Error {
  const { code, message } = error as NodeJS.ErrnoException;
  return new Error(code ?? message);
}
