import { type Role, SESSION_LIMITS } from '../../domain/user.ts';
import type { Sql } from '../connection/pool.ts';

/** The user who is signed in, read for every request: a changed role or company applies at once. */
export interface SessionRow {
  readonly user_id: string;
  readonly email: string;
  readonly role: Role;
  readonly company_id: string | null;
  readonly company_name: string | null;
  /** Whether the company lets its members use the playground. */
  readonly member_playground: boolean;
  readonly has_password: boolean;
  /** The language that the person chose, and the company's; null: none. */
  readonly language: string | null;
  readonly company_language: string | null;
  /** Since when the user has a second factor; null: there is none. */
  readonly second_factor_since: Date | null;
  /** How this session got past it: a code, or the identity provider; null: it did not. */
  readonly second_factor: SecondFactor | null;
}

/** code: of an app, or for recovery. provider: OpenID Connect, which asks for a second factor or does not. */
export type SecondFactor = 'code' | 'provider';

export interface NewSession {
  /** SHA-256 of the token the browser holds. */
  readonly digest: Buffer;
  readonly userId: string;
  /** Of the password that was given; absent or null: none was needed. */
  readonly hash?: string | null;
  /** In words. */
  readonly browser?: string | null;
  /** Of the page; absent: it is not kept. */
  readonly language?: string | null;
  readonly secondFactor?: SecondFactor | null;
}

/** Signs a user in, unless the user was removed, or the password replaced, since they were looked at. */
export async function insertSession(sql: Sql, session: NewSession): Promise<void> {
  const {
    digest,
    userId,
    hash = null,
    browser = null,
    language = null,
    secondFactor = null,
  } = session;
  await sql`
    with signed_in as (
      update users set last_sign_in_at = case
          when second_factor_since is null or ${secondFactor}::text is not null then now() else last_sign_in_at end,
        page_language = case when role = 'operator' then null else coalesce(page_language, ${language}) end
      where id = ${userId} and (${hash}::text is null or password_hash = ${hash}) returning id
    )
    insert into sessions (digest, user_id, browser, second_factor)
    select ${digest}, id, ${browser}, ${secondFactor} from signed_in`;
}

/** Changes nothing of a session that has ended meanwhile. @param digest SHA-256 of the new token */
export async function updateSession(sql: Sql, former: Buffer, digest: Buffer): Promise<void> {
  await sql`
    with raised as (
      update sessions set digest = ${digest}, second_factor = 'code', last_seen_at = now() where digest = ${former} returning user_id
    )
    update users set last_sign_in_at = now() where id = (select user_id from raised)`;
}

/** A session as its user sees it. */
export interface ListedSession {
  readonly id: string;
  readonly created_at: Date;
  /** To the minute. */
  readonly last_seen_at: Date;
  /** In words; null: of no browser that is known. */
  readonly browser: string | null;
  readonly second_factor: SecondFactor | null;
  /** The one that asks. */
  readonly is_own: boolean;
}

const IS_LIVE = `last_seen_at > now() - make_interval(secs => ${SESSION_LIMITS.idle})
  and created_at > now() - make_interval(secs => ${SESSION_LIMITS.absolute})`;

/** The live sessions of a user, the newest first, at most a hundred. @param own the digest of the one that asks */
export async function listSessions(
  sql: Sql,
  userId: string,
  own: Buffer,
): Promise<ListedSession[]> {
  return sql<ListedSession[]>`
    select id, created_at, last_seen_at, browser, second_factor, digest = ${own} as is_own from sessions
    where user_id = ${userId} and ${sql.unsafe(IS_LIVE)} order by is_own desc, created_at desc, id limit 100`;
}

/** The live session of a token. Records its use once a minute, so that most pages cost no write. */
export async function findSession(sql: Sql, digest: Buffer): Promise<SessionRow | null> {
  const [row] = await sql<(SessionRow & { stale: boolean })[]>`
    select u.id as user_id, u.email, u.role, u.company_id, c.name as company_name,
      coalesce(c.member_playground, false) as member_playground, u.password_hash is not null as has_password, u.language, c.language as company_language,
      u.second_factor_since, s.second_factor,
      s.last_seen_at < now() - interval '1 minute' as stale
    from (select * from sessions where digest = ${digest} and ${sql.unsafe(IS_LIVE)}) s
    join users u on u.id = s.user_id left join companies c on c.id = u.company_id`;
  if (row === undefined) return null;
  const { stale, ...session } = row;
  if (stale) await sql`update sessions set last_seen_at = now() where digest = ${digest}`;
  return session;
}

export async function deleteSession(sql: Sql, digest: Buffer): Promise<void> {
  await sql`delete from sessions where digest = ${digest}`;
}

/** Which sessions of a user end. @property only the id of one; keep: the digest of the one that goes on */
export interface EndingSessions {
  readonly only?: string;
  readonly keep?: Buffer | null;
}

export async function deleteSessionsOf(
  sql: Sql,
  userId: string,
  { only, keep }: EndingSessions = {},
): Promise<void> {
  const chosen =
    only === undefined
      ? sql`(${keep ?? null}::bytea is null or digest <> ${keep ?? null})`
      : sql`id = ${only}`;
  await sql`delete from sessions where user_id = ${userId} and ${chosen}`;
}
