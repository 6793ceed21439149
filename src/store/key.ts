import { digestOf, mintKey } from '../domain/key.ts';
import { RefusedChange } from '../domain/refused-change.ts';
import type { Scope } from '../domain/scope.ts';
import { findCompany, unknownCompany } from './company.ts';
import type { Sql } from './database.ts';
import { explaining } from './database-error.ts';

/** What may be shown of a key after its creation (spec section 2.7). Members are columns of the table. */
export interface KeyRow {
  readonly id: string;
  readonly company_id: string;
  readonly name: string;
  /** The first 8 characters. */
  readonly prefix: string;
  readonly scopes: Scope[];
  readonly created_at: Date;
  readonly created_by: string | null;
  readonly expires_at: Date | null;
  readonly last_used_at: Date | null;
  readonly revoked_at: Date | null;
  /** By the clock of the database. */
  readonly state: 'active' | 'expired' | 'revoked';
}

export interface NewKey {
  readonly company_id: string;
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly expires_at?: Date | null | undefined;
  /** Who created it: an e-mail address, or "cli". */
  readonly created_by: string;
  /** Its id, so that a form sent twice makes one key; random unless given. */
  readonly id?: string | undefined;
}

type MintedKey = KeyRow & { readonly key: string };

/**
 * Mints a key. Only the returned value contains it in plaintext; the table gets its digest.
 * @param keyPrefix what the key begins with (KEY_PREFIX)
 * @throws RefusedChange when the company does not exist, the id is taken, or the key would have expired already
 */
export async function createKey(sql: Sql, keyPrefix: string, asked: NewKey): Promise<MintedKey> {
  const key = mintKey(keyPrefix);
  const expires = asked.expires_at ?? null;
  const [row] = await explaining(
    sql<KeyRow[]>`
      insert into api_keys (id, company_id, name, digest, prefix, scopes, created_by, expires_at)
      select coalesce(${asked.id ?? null}::uuid, gen_random_uuid()), ${asked.company_id}::uuid, ${asked.name}, ${Buffer.from(digestOf(key), 'hex')}, ${key.slice(0, 8)},
             ${[...new Set(asked.scopes)]}::text[], ${asked.created_by}, ${expires}::timestamptz
      where coalesce(${expires}::timestamptz > now(), true)
      returning ${columns(sql)}`,
    {
      api_keys_company_id_fkey: () => unknownCompany(asked.company_id),
      api_keys_pkey: () =>
        new RefusedChange('conflict', 'key', 'This key was created before, and it was shown only then.'),
    },
  );
  if (row === undefined) {
    throw new RefusedChange('conflict', 'key', `A key that expired at ${expires?.toISOString()} would never work.`);
  }
  return { ...row, key };
}

/** All keys of a company, including revoked ones, newest first. @throws RefusedChange not_found */
export async function listKeys(sql: Sql, company: string): Promise<KeyRow[]> {
  const rows = await sql<KeyRow[]>`
    select ${columns(sql)} from api_keys where company_id = ${company} order by created_at desc, id`;
  if (rows.length === 0) await findCompany(sql, company);
  return rows;
}

/**
 * Revokes a key for good. A key that was already revoked keeps its time.
 * @param company if given, keys of other companies count as not found
 * @throws RefusedChange not_found
 */
export async function revokeKey(
  sql: Sql,
  id: string,
  company: string | null = null,
): Promise<{ key: KeyRow; already: boolean }> {
  const [revoked] = await sql<KeyRow[]>`
    update api_keys set revoked_at = now()
    where id = ${id} and revoked_at is null and (${company}::uuid is null or company_id = ${company})
    returning ${columns(sql)}`;
  if (revoked !== undefined) return { key: revoked, already: false };
  const [known] = await sql<KeyRow[]>`
    select ${columns(sql)} from api_keys
    where id = ${id} and (${company}::uuid is null or company_id = ${company})`;
  if (known === undefined) throw new RefusedChange('not_found', 'key', `There is no key ${id}.`);
  return { key: known, already: true };
}

/**
 * Mints a key `new_id` with the name, scopes and expiry of another, in a transaction of the caller.
 * The other one ends after `overlap` seconds; 0 revokes it at once.
 * @throws RefusedChange when there is no such key, or it no longer works
 */
export async function rotateKey(
  sql: Sql,
  keyPrefix: string,
  asked: { id: string; company_id: string; overlap: number; created_by: string; new_id: string },
): Promise<MintedKey> {
  const { id, company_id, overlap, created_by, new_id } = asked;
  const [old] = await sql<KeyRow[]>`
    select ${columns(sql)} from api_keys where id = ${id} and company_id = ${company_id} for update`;
  if (old === undefined) throw new RefusedChange('not_found', 'key', `There is no key ${id}.`);
  if (old.state !== 'active')
    throw new RefusedChange('conflict', 'key', `This key is ${old.state}: create a new one instead.`);
  const { name, scopes, expires_at } = old;
  const created = await createKey(sql, keyPrefix, { id: new_id, company_id, name, scopes, expires_at, created_by });
  if (overlap === 0) await sql`update api_keys set revoked_at = now() where id = ${id}`;
  else {
    await sql`update api_keys set expires_at = least(expires_at, now() + make_interval(secs => ${overlap})) where id = ${id}`;
  }
  return created;
}

export function columns(sql: Sql) {
  return sql`id, company_id, name, prefix, scopes, created_at, created_by, expires_at, last_used_at, revoked_at,
    case when revoked_at is not null then 'revoked' when expires_at <= now() then 'expired' else 'active' end as state`;
}
