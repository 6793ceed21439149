import type { Sql } from '../../store/connection/pool.ts';
import type { Context } from './command.ts';

/** A file of thousands of companies or keys takes minutes on a busy server, and each password a third of a second. */
const DEADLINE_MS = 3_600_000;

/**
 * Does work in a transaction, and undoes all of it in a dry run: what would be refused is refused there, too.
 * @returns what the work resolved with
 */
export async function orDryRun<T>(
  { transact }: Pick<Context, 'transact'>,
  isDry: boolean,
  work: (sql: Sql) => Promise<T>,
): Promise<T> {
  const undone = new Error('dry run');
  let result: T | undefined;
  const done = transact(async (sql) => {
    result = await work(sql);
    if (isDry) throw undone;
    return result;
  }, DEADLINE_MS);
  return done.catch((error: unknown) => {
    if (error === undone) return result as T;
    throw error;
  });
}
