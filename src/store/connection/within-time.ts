import { DatabaseUnavailable, databaseError } from './errors.ts';
import type { Sql } from './pool.ts';

const CANCELED = '57014';

/**
 * Reads what others must not wait for, in a transaction, whose work goes on without it where it takes too long.
 * @param work ends each step by calling `rest`, which throws when the time is over
 * @returns null: it took longer
 */
export async function withinTime<T>(
  sql: Sql,
  ms: number,
  work: (rest: () => void) => Promise<T>,
): Promise<T | null> {
  const until = Date.now() + ms;
  await sql`savepoint within_time`;
  await sql`select set_config('statement_timeout', ${String(ms)}, true)`;
  try {
    const found = await work(() => {
      if (Date.now() > until) throw new DatabaseUnavailable(CANCELED, 'it took too long');
    });
    await sql`select set_config('statement_timeout', '0', true)`; // as every transaction begins (pool.ts)
    return found;
  } catch (raw) {
    const error = databaseError(raw);
    if (!(error instanceof DatabaseUnavailable && error.code === CANCELED)) throw raw;
    await sql`rollback to savepoint within_time`;
    return null;
  }
}
