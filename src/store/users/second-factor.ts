import { throwNotFound } from '../../domain/refusal.ts';
import { namedColumns } from '../connection/columns.ts';
import type { Sql } from '../connection/pool.ts';

/** The second factor of a user. Members are columns of the table. */
export interface FactorRow {
  /** Encrypted; null: none is set up yet. */
  readonly secret: Buffer | null;
  /** The next secret, encrypted, until its first code is given; null: none. */
  readonly pending: Buffer | null;
  /** The thirty seconds, since 1970, of the last code that was taken. */
  readonly last_step: number;
  /** SHA-256 of each recovery code that was not used. */
  readonly recovery: readonly Buffer[];
  /** Wrong codes since the last right one. */
  readonly wrong: number;
  /** Until when no code is taken; null: it was not closed. */
  readonly closed_until: Date | null;
}

/** The row of a user, locked until the transaction ends; null: none. */
export async function lockFactor(sql: Sql, userId: string): Promise<FactorRow | null> {
  const [row] = await sql<FactorRow[]>`
    select secret, pending, last_step, recovery, wrong, closed_until from second_factors
    where user_id = ${userId} for update`;
  return row ?? null;
}

/** The secret that waits for its first code; null: none. */
export async function findPending(sql: Sql, userId: string): Promise<Buffer | null> {
  const [row] = await sql<
    Pick<FactorRow, 'pending'>[]
  >`select pending from second_factors where user_id = ${userId}`;
  return row?.pending ?? null;
}

/** How many recovery codes a user has left. */
export async function countRecoveryCodes(sql: Sql, userId: string): Promise<number> {
  const [row] = await sql<
    { left: number }[]
  >`select recovery_codes as left from users where id = ${userId}`;
  return row?.left ?? 0;
}

/** Stores the secret that waits for its first code; null: takes it away. */
export async function setPending(sql: Sql, userId: string, pending: Buffer | null): Promise<void> {
  await sql`
    insert into second_factors (user_id, pending) values (${userId}, ${pending})
    on conflict (user_id) do update set pending = excluded.pending`;
}

const COLUMNS = ['secret', 'pending', 'last_step', 'wrong', 'closed_until'] as const;

/** Changes columns of a user's row; those that are absent stay as they are. */
export async function setFactor(
  sql: Sql,
  userId: string,
  changes: Partial<FactorRow>,
): Promise<void> {
  const { recovery } = changes;
  // as texts: the driver takes a list of bytes for bytes
  const hex = recovery?.map((digest) => digest.toString('hex'));
  const more = hex && {
    recovery: sql`array(select decode(code, 'hex') from unnest(${hex}::text[]) as code)`,
  };
  await sql`update second_factors set ${namedColumns(sql, changes, COLUMNS, more)} where user_id = ${userId}`;
}

/** Tells the audit log: since when a user has a second factor, and how many recovery codes are left. */
export async function noteFactor(
  sql: Sql,
  userId: string,
  { isNew, left }: { isNew: boolean; left: number },
) {
  await sql`
    update users set recovery_codes = ${left}, second_factor_since = ${isNew ? sql`now()` : sql`second_factor_since`}
    where id = ${userId}`;
}

/** Takes the second factor of a user away. @returns whether there was one @throws Refused missing */
export async function removeFactor(sql: Sql, userId: string): Promise<boolean> {
  const [row] = await sql<[{ had: boolean }?]>`
    with former as (select id, second_factor_since is not null as had from users where id = ${userId} for update)
    update users u set second_factor_since = null, recovery_codes = 0 from former f where u.id = f.id returning f.had`;
  if (row === undefined) throwNotFound('user');
  await sql`delete from second_factors where user_id = ${userId}`;
  await sql`update sessions set second_factor = null where user_id = ${userId} and second_factor = 'code'`;
  return row.had;
}
