import { SESSION_LIMITS } from '../../domain/user.ts';
import type { Sql } from '../connection/pool.ts';

/**
 * Rows that pages and operations keep for a while. They delete expired rows as they work; otherwise a gateway's
 * heartbeat does.
 */

/** How long an answer is repeated, and how long its secret. */
const ANSWER_KEPT = '1 day';
const SECRET_KEPT = '1 minute';

/** All of them, each in a transaction of its own. */
export const EXPIRING = [pruneAnswers, pruneReveals, pruneSessions, pruneEndUsers];

/**
 * Deletes answers that are repeated no longer, of all tokens. Runs outside the transaction of a request: that may be
 * long, and the requests of others would wait for it. Rows that somebody is changing are left for the next time.
 */
export async function pruneAnswers(sql: Sql): Promise<void> {
  await sql`
    with old as (
      delete from idempotent_answers where ctid = any(array(
        select ctid from idempotent_answers where created_at < now() - ${ANSWER_KEPT}::interval for update skip locked)))
    update idempotent_answers set secret = null where ctid = any(array(
      select ctid from idempotent_answers
      where secret is not null and created_at between now() - ${ANSWER_KEPT}::interval and now() - ${SECRET_KEPT}::interval
      for update skip locked))`;
}

/** Deletes texts of keys that can no longer be shown: under the tenant role those of one company, otherwise all. */
export async function pruneReveals(sql: Sql): Promise<void> {
  await sql`delete from key_reveals where expires_at <= now()`;
}

async function pruneSessions(sql: Sql): Promise<void> {
  await sql`delete from sessions where last_seen_at <= now() - make_interval(secs => ${SESSION_LIMITS.idle})
    or created_at <= now() - make_interval(secs => ${SESSION_LIMITS.absolute})`;
}

/** Forgets people whom no call that was booked has named (sql/schema/keys.sql). */
async function pruneEndUsers(sql: Sql): Promise<void> {
  await sql`select forget_unbooked()`;
}
