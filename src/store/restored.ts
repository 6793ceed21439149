import type { Database } from './database.ts';

const LOOK_MS = 10_000;
const RESET_MS = 120_000;

/**
 * Repairs a database that was restored from a dump of another server, or replicated logically from
 * one. `changes.xid` and `monthly_spend.changed_xid` may then contain transaction ids that this server
 * has not reached yet, and replicas would take those rows for new at every poll until it has. Safe at
 * any time and by many replicas; costs two index look-ups when there is nothing to repair.
 * @returns whether there was something
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
    // one statement, and the first to write, so that its snapshot contains none of our own ids
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
