import type { Database } from './database.ts';

const LOOK_MS = 10_000;
const RESET_MS = 120_000;

/**
 * Mends a database that was restored from a dump of another server, or replicated from one
 * logically. `changes.xid` and `monthly_spend.changed_xid` then hold transaction ids of that
 * server: where those are ahead of this server's, every replica would take the rows for new at
 * every poll, for as long as this server has not caught up. An id that has not been given out
 * yet proves it, so this is safe at any time, by any number of replicas, and costs two looks
 * into an index where there is nothing to mend.
 * @returns whether there was
 * @throws DatabaseUnavailable
 */
export async function forgetOtherCluster(db: Database): Promise<boolean> {
  const [found] = await db.run(
    LOOK_MS,
    (sql) => sql<[{ foreign: boolean }]>`
      select exists (select from changes where xid >= pg_snapshot_xmax(pg_current_snapshot()))
        or exists (select from monthly_spend where changed_xid >= pg_snapshot_xmax(pg_current_snapshot())) as foreign`,
  );
  if (!found.foreign) return false;
  await db.transaction(RESET_MS, async (sql) => {
    await sql`select pg_advisory_xact_lock(hashtext('tollgate migrations'))`;
    // one statement, and the first that writes: none of our own ids is in its snapshot
    await sql`
      with foreign_ids as (
        select from changes where xid >= pg_snapshot_xmax(pg_current_snapshot())
        union all select from monthly_spend where changed_xid >= pg_snapshot_xmax(pg_current_snapshot()) limit 1
      ),
      gone as (delete from changes where xid >= pg_snapshot_xmax(pg_current_snapshot())),
      moved as (
        update monthly_spend set changed_xid = pg_current_xact_id()
        where changed_xid >= pg_snapshot_xmax(pg_current_snapshot())
      )
      select announce_change('all', '') from foreign_ids`;
  });
  return true;
}
