import { setTimeout as sleep } from 'node:timers/promises';
import { DatabaseUnavailable } from './errors.ts';
import type { Database } from './pool.ts';

const MOST_MS = 60_000;
const PAUSE_MS = 250;
const ASK_MS = 1000;
/** The errors of Postgres while it starts, recovers or stops. */
const STARTING = '57P03';
/**
 * The errors while Postgres does not listen yet: no listener, no socket, a closed connection of a container's proxy, or
 * no host name.
 */
const REFUSED = [
  'ECONNREFUSED',
  'ENOENT',
  'ECONNRESET',
  'CONNECTION_CLOSED',
  'EAI_AGAIN',
  'ENOTFOUND',
];

interface Waiting {
  /** Whether a database that nobody answers for is waited for too: it is being started beside us. */
  readonly whileRefused: boolean;
  /** Takes a line, once. */
  readonly onWait: (line: string) => void;
}

/**
 * Does something with a database, the first thing of all, and waits up to a minute for one that starts.
 * @param first may be done again
 * @throws DatabaseUnavailable when it has not started by then; whatever `first` throws
 */
export async function whenStarted<T>(
  first: () => Promise<T>,
  { whileRefused, onWait }: Waiting,
): Promise<T> {
  const end = performance.now() + MOST_MS;
  for (let tried = 1; ; tried++) {
    try {
      return await first();
    } catch (error) {
      if (!(error instanceof DatabaseUnavailable)) throw error;
      const starts = error.code === STARTING || (whileRefused && REFUSED.includes(error.code));
      if (!starts || performance.now() > end) throw error;
      if (tried === 1) onWait(`${error.message}; waiting for it, up to ${MOST_MS / 1000} s`);
    }
    await sleep(PAUSE_MS);
  }
}

/** Waits up to a minute for a database that says that it starts. Whatever else is wrong with it, its first use tells. */
export async function awaitStart(db: Database, onWait: Waiting['onWait']): Promise<void> {
  const ask = () => db.run(ASK_MS, (sql) => sql`select 1`);
  await whenStarted(ask, { whileRefused: false, onWait }).catch(() => {});
}
