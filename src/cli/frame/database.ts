import type { Config } from '../../config.ts';
import { actingAs } from '../../store/connection/acting-person.ts';
import { openDatabase } from '../../store/connection/pool.ts';
import { whenStarted } from '../../store/connection/starting.ts';
import { snapshot, within } from '../../store/connection/tenant-role.ts';
import { type Embedded, startEmbedded } from '../../store/schema/embedded.ts';
import { migrate, pendingMigrations } from '../../store/schema/migrate.ts';
import { type Command, type Context, Failure } from './command.ts';
import { beforeSignal } from './signals.ts';

/** Names this program in the audit log and as the creator of keys. */
export const ACTOR = 'cli';

const TRANSACTION_MS = 60_000;
const FOREVER = Number.POSITIVE_INFINITY;

/**
 * Runs a command on the database of DATABASE_URL, or on the embedded one. An embedded database
 * that a gateway uses keeps running; otherwise it runs for the duration of the command, which a signal may end.
 * @throws Failure when the database is not migrated, or the embedded one cannot start
 */
export async function withDatabase<T>(
  config: Config,
  command: Pick<Command, 'unmigrated' | 'awaitsDatabase'>,
  onProgress: Context['progress'],
  work: (access: Pick<Context, 'transact' | 'read' | 'snapshot' | 'db' | 'migrate'>) => Promise<T>,
): Promise<T> {
  const { databaseUrl, dataDir, billingTimezone } = config;
  const embedded = databaseUrl === null ? await openEmbedded(dataDir) : null;
  if (embedded?.isNew)
    onProgress(
      `warning: DATABASE_URL is not set, and ${dataDir} had no database: an empty one was made there`,
    );
  const takeBack = embedded && beforeSignal(embedded.leave);
  const db = openDatabase({ url: databaseUrl ?? (embedded as Embedded).url });
  const applyPending = () => migrate(db, { billingTimezone, limitMs: FOREVER, onProgress });
  try {
    const waiting = { whileRefused: command.awaitsDatabase === true, onWait: onProgress };
    const pending = await whenStarted(() => pendingMigrations(db), waiting);
    if (pending.length > 0 && !command.unmigrated) {
      if (embedded === null)
        throw new Failure('the database is not at this version; run "tollgate migrate"');
      // not without need: a migration also fixes the billing time zone
      await applyPending();
    }
    return await work({
      transact: (change, deadlineMs = TRANSACTION_MS) => actingAs(db, ACTOR, deadlineMs, change),
      // always in a transaction: it also lifts the server's own limit for statements
      read: (query, company) =>
        company === undefined
          ? db.transaction(FOREVER, query)
          : within(db, company, FOREVER, query, 'operator'),
      snapshot: (company, query) => snapshot(db, company, FOREVER, query),
      db,
      migrate: applyPending,
    });
  } finally {
    await db.close();
    await embedded?.stop();
    takeBack?.();
  }
}

function openEmbedded(dataDir: string): Promise<Embedded> {
  return startEmbedded({ dataDir, log: { info: () => {} } }).catch((error: Error) => {
    const remedy =
      'syscall' in error ? '; set DATABASE_URL, or DATA_DIR to a folder that you may write' : '';
    throw new Failure(`the embedded database cannot be used: ${error.message}${remedy}`);
  });
}
