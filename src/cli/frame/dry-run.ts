import type { Sql } from '../../store/connection/pool.ts';
import type { Context } from './command.ts';

/** Thrown to undo what a dry run did. */
class DryRun<T> extends Error {
  readonly result: T;
  constructor(result: T) {
    super('dry run');
    this.result = result;
  }
}

/**
 * Does work in a transaction, and undoes all of it in a dry run: what would be refused is refused there, too.
 * @returns what the work resolved with
 */
export async function orDryRun<T>(
  { transact }: Pick<Context, 'transact'>,
  isDry: boolean,
  deadlineMs: number,
  work: (sql: Sql) => Promise<T>,
): Promise<T> {
  const done = transact(async (sql) => {
    const result = await work(sql);
    if (isDry) throw new DryRun(result);
    return result;
  }, deadlineMs);
  return done.catch((error: unknown) => {
    if (error instanceof DryRun) return error.result as T;
    throw error;
  });
}
