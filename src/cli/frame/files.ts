import { isUtf8 } from 'node:buffer';
import { randomUUID } from 'node:crypto';
import { createReadStream, existsSync, rmSync } from 'node:fs';
import { link, open, rename, rm } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import type { Write } from '../../store/usage/export.ts';
import { Failure } from './command.ts';
import { beforeSignal } from './signals.ts';

/**
 * The text of a file, or of standard input for "-".
 * @param most bytes; a larger text is refused before it is read whole
 * @throws Failure when it cannot be read, is too large, or has another encoding: names would lose their umlauts
 */
export async function readInput(path: string, stdin: Readable, most: number): Promise<string> {
  const bytes = await readBytes(path, stdin, most);
  if (!isUtf8(bytes))
    throw new Failure(`${inputName(path)} is not in UTF-8: save it with this encoding`);
  return bytes.toString();
}

/** As `readInput`, in any encoding. */
export async function readBytes(path: string, stdin: Readable, most: number): Promise<Buffer> {
  const pieces: Buffer[] = [];
  let left = most;
  try {
    for await (const piece of path === '-' ? stdin : createReadStream(path)) {
      pieces.push(Buffer.from(piece));
      left -= piece.length;
      if (left < 0) break;
    }
  } catch (error) {
    throw new Failure(`cannot read ${inputName(path)}: ${(error as Error).message}`);
  }
  if (left < 0)
    throw new Failure(`${inputName(path)} is larger than ${most / 1_048_576} MiB; split it`);
  return Buffer.concat(pieces);
}

/** The name of a file, or of standard input, in messages. */
export function inputName(path: string): string {
  return path === '-' ? 'standard input' : path;
}

/**
 * Makes a file that nobody but its owner may read. It has another name until it is whole.
 * Nothing is left of one that does not become whole.
 * @throws Failure when it cannot be written, or is there already
 */
export async function intoFile<T>(path: string, fill: (write: Write) => Promise<T>): Promise<T> {
  if (existsSync(path)) throw existsAlready(path);
  const draft = `${path}.${randomUUID()}.part`;
  const takeBack = beforeSignal(() => rmSync(draft, { force: true }));
  try {
    const file = await open(draft, 'wx', 0o600);
    try {
      const result = await fill((bytes) => file.writeFile(bytes).then(() => true));
      await file.sync();
      await nameOnce(draft, path);
      return result;
    } finally {
      await file.close();
    }
  } catch (error) {
    await rm(draft, { force: true });
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw existsAlready(path);
    if (error instanceof Error && 'syscall' in error)
      throw new Failure(`cannot write ${path}: ${error.message}`);
    throw error;
  } finally {
    takeBack();
  }
}

/** Gives a whole file its name. Fails where another one has it, even since just now; a rename would replace that one. */
async function nameOnce(draft: string, path: string): Promise<void> {
  try {
    await link(draft, path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') throw error;
    // a file system without hard links: an empty file takes the name first
    await (await open(path, 'wx')).close();
    return rename(draft, path);
  }
  await rm(draft);
}

function existsAlready(path: string): Failure {
  return new Failure(`${path} exists already; remove it or choose another name`);
}
