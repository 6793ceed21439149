import type { ScryptOptions } from 'node:crypto';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { hashPassword, verifyPassword } from '../domain/password.ts';
import { Turnstile } from './turnstile.ts';

const WAITING = 4;

/**
 * Hashes passwords one at a time in a thread of low priority, so that a flood of sign-ins
 * takes what the API leaves of one core and 128 MiB, never more: a few attempts wait, the
 * rest is refused. The thread is started when first needed.
 */
export class Hasher {
  readonly #turns = new Turnstile({ atOnce: 1, places: WAITING });
  #thread: Worker | null = null;

  /** @throws Busy */
  hash(password: string): Promise<string> {
    return this.#turns.run(() => hashPassword(password, this.#derive));
  }

  /** @param stored finds the hash to compare with, when it is this attempt's turn @throws Busy */
  verify(password: string, stored: () => Promise<string | null>): Promise<boolean> {
    return this.#turns.run(async () => verifyPassword(password, await stored(), this.#derive));
  }

  /** One at a time, as the turnstile has it: whatever the thread says is the answer. */
  readonly #derive = (password: string, salt: Buffer, length: number, options: ScryptOptions): Promise<Buffer> => {
    this.#thread ??= this.#start();
    const thread = this.#thread;
    return new Promise((resolve, reject) => {
      const settle = (end: () => void) => {
        thread.off('message', answered).off('error', failed);
        end();
      };
      const answered = (key: Uint8Array) => settle(() => resolve(Buffer.from(key)));
      const failed = (error: Error) => {
        this.#thread = null;
        settle(() => reject(error));
      };
      thread.on('message', answered).on('error', failed);
      thread.postMessage({ password, salt, length, options });
    });
  };

  #start(): Worker {
    // beside this file, as source and compiled
    const thread = new Worker(new URL(`./hasher-thread${extname(import.meta.filename)}`, import.meta.url));
    thread.unref();
    return thread;
  }
}
