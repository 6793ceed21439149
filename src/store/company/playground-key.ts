import { digestBytes, mintKey, type Scope } from '../../domain/key.ts';
import type { Role } from '../../domain/user.ts';
import type { Sql } from '../connection/pool.ts';

/** Seconds that a minted text works. */
const LIFE = 600;
const SCOPES: readonly Scope[] = ['chat', 'assistants'];

/** The owner of the key, and the company. */
export interface Player {
  readonly company_id: string;
  /** An e-mail address. */
  readonly email: string;
  readonly role: Role;
}

/** The name of the key for everybody who sees the company's keys. It never has the address of an operator. */
export function playgroundName({ role, email }: Omit<Player, 'company_id'>): string {
  return `Playground of ${role === 'operator' ? 'operator' : email}`;
}

/** Waits for whoever revokes a person's playground key now, and lets nobody revoke it until the transaction ends. */
export async function lockPlaygroundKey(sql: Sql, player: Omit<Player, 'role'>): Promise<void> {
  await sql`select from api_keys where ${isOf(sql, player)} for update`;
}

/** Whether a person's playground key was revoked, and no other made since. */
export async function isPlaygroundRevoked(
  sql: Sql,
  player: Omit<Player, 'role'>,
): Promise<boolean> {
  const [row] = await sql<[{ revoked: boolean }]>`
    select coalesce(bool_and(revoked_at is not null), false) as revoked from api_keys where ${isOf(sql, player)}`;
  return row.revoked;
}

/** The person's playground keys: one that works, and those that were revoked. */
function isOf(sql: Sql, { company_id, email }: Omit<Player, 'role'>) {
  return sql`company_id = ${company_id} and purpose = 'playground' and created_by = ${email}`;
}

/** Gives a person's playground key a new text, which works for ten minutes; makes the key where none works. */
export async function insertPlaygroundKey(
  sql: Sql,
  keyPrefix: string,
  player: Player,
): Promise<string> {
  const { company_id, email } = player;
  const key = mintKey(keyPrefix);
  const [digest, prefix] = [digestBytes(key), key.slice(0, 8)];
  const end = sql`now() + make_interval(secs => ${LIFE})`;
  // not "excluded.digest": under the tenant role no digest can be read, not even one just given
  await sql`
    insert into api_keys (company_id, name, purpose, created_by, scopes, digest, prefix, expires_at)
    values (${company_id}, ${playgroundName(player)}, 'playground', ${email}, ${[...SCOPES]}::text[],
      ${digest}, ${prefix}, ${end})
    on conflict (company_id, created_by) where purpose = 'playground' and revoked_at is null
    do update set digest = ${digest}, prefix = ${prefix}, expires_at = ${end}`;
  return key;
}
