import { type Role, SESSION_LIMITS } from '../../domain/user.ts';
import type { Sql } from '../connection/pool.ts';

/** The user who is signed in, read for every request: a changed role or company applies at once. */
export interface SessionRow {
  readonly user_id: string;
  readonly email: string;
  readonly role: Role;
  readonly company_id: string | null;
  readonly company_name: string | null;
  readonly has_password: boolean;
  /** That the person chose, and that of the company; null: none. */
  readonly language: string | null;
  readonly company_language: string | null;
}

/**
 * Signs a user in, unless the user was removed, or the password replaced, since they were looked at.
 * @param digest SHA-256 of the token the browser holds
 * @param hash of the password that was given; null: none was needed
 */
export async function createSession(sql: Sql, digest: Buffer, userId: string, hash: string | null): Promise<void> {
  await sql`
    with signed_in as (
      update users set last_sign_in_at = now()
      where id = ${userId} and (${hash}::text is null or password_hash = ${hash}) returning id
    )
    insert into sessions (digest, user_id) select ${digest}, id from signed_in`;
}

/** The live session of a token. Records its use once a minute, so that most pages cost no write. */
export async function findSession(sql: Sql, digest: Buffer): Promise<SessionRow | null> {
  const [row] = await sql<(SessionRow & { stale: boolean })[]>`
    select u.id as user_id, u.email, u.role, u.company_id, c.name as company_name,
      u.password_hash is not null as has_password, u.language, c.language as company_language, s.last_seen_at < now() - interval '1 minute' as stale
    from sessions s join users u on u.id = s.user_id left join companies c on c.id = u.company_id
    where s.digest = ${digest} and s.last_seen_at > now() - make_interval(secs => ${SESSION_LIMITS.idle})
      and s.created_at > now() - make_interval(secs => ${SESSION_LIMITS.absolute})`;
  if (row === undefined) return null;
  const { stale, ...session } = row;
  if (stale) await sql`update sessions set last_seen_at = now() where digest = ${digest}`;
  return session;
}

export async function deleteSession(sql: Sql, digest: Buffer): Promise<void> {
  await sql`delete from sessions where digest = ${digest}`;
}

/** Ends a user's sessions. @param keep the one that goes on */
export async function deleteSessionsOf(sql: Sql, userId: string, keep: Buffer | null = null): Promise<void> {
  await sql`delete from sessions where user_id = ${userId} and (${keep}::bytea is null or digest <> ${keep})`;
}
