import { hashPassword, verifyPassword } from '../domain/password.ts';
import { Semaphore } from './semaphore.ts';

const QUEUE = 4;

/**
 * Hashes one password at a time on a pool thread of the pages' process. A flood of sign-ins costs at
 * most what the API leaves of one core, and 128 MiB.
 */
export class Hasher {
  readonly #semaphore = new Semaphore({ permits: 1, queue: QUEUE });

  /** @throws Busy */
  hash(password: string): Promise<string> {
    return this.#semaphore.run(() => hashPassword(password));
  }

  /** @param findHash called when the attempt has its permit; null: there is nothing to compare with @throws Busy */
  verify(password: string, findHash: () => Promise<string | null>): Promise<boolean> {
    return this.#semaphore.run(async () => verifyPassword(password, await findHash()));
  }
}
