import type { ScryptOptions } from 'node:crypto';
import { once } from 'node:events';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { hashPassword, verifyPassword } from '../domain/password.ts';
import { Semaphore } from './semaphore.ts';

const QUEUE = 4;

/**
 * Hashes one password at a time in a thread of low priority. A flood of sign-ins costs at most what
 * the API leaves of one core, and 128 MiB. The thread is started at the first hash.
 */
export class Hasher {
  readonly #semaphore = new Semaphore({ permits: 1, queue: QUEUE });
  #thread: Worker | null = null;

  /** @throws Busy */
  hash(password: string): Promise<string> {
    return this.#semaphore.run(() => hashPassword(password, this.#derive));
  }

  /** @param findHash called when the attempt has its permit; null: there is nothing to compare with @throws Busy */
  verify(password: string, findHash: () => Promise<string | null>): Promise<boolean> {
    return this.#semaphore.run(async () => verifyPassword(password, await findHash(), this.#derive));
  }

  /** Called by one task at a time, so the next message is its answer. */
  readonly #derive = async (
    password: string,
    salt: Buffer,
    length: number,
    options: ScryptOptions,
  ): Promise<Buffer> => {
    this.#thread ??= this.#start();
    const answer = once(this.#thread, 'message'); // rejects when the thread fails
    this.#thread.postMessage({ password, salt, length, options });
    const [key] = (await answer) as [Uint8Array];
    return Buffer.from(key);
  };

  #start(): Worker {
    // beside this file, as source and compiled
    const thread = new Worker(new URL(`./hasher-thread${extname(import.meta.filename)}`, import.meta.url));
    thread.on('error', () => {
      this.#thread = null;
    });
    thread.unref();
    return thread;
  }
}
