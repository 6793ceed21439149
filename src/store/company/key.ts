import { digestBytes, digestOf, KEY_STATES, mintKey } from '../../domain/key.ts';
import { refusal, throwConflict } from '../../domain/refusal.ts';
import { KEY } from '../../domain/settings/key.ts';
import * as schema from '../../domain/settings/schema.ts';
import { type Given, type New, schemasOf } from '../../domain/settings/setting.ts';
import { nameSpelling } from '../../domain/visible-text.ts';
import { CREATED_BY, createdBy, pausedBy } from '../connection/actor.ts';
import {
  matching,
  namedColumns,
  PAGE_BYTES,
  settingColumns,
  unpackedBytes,
} from '../connection/columns.ts';
import type { Range } from '../connection/cursor.ts';
import { explaining } from '../connection/errors.ts';
import { endOf, IS_ACTIVE, KEY_STATE } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { rowsIn } from '../connection/rows.ts';
import { type Changes, paused, pauseOf, rowsOf, type Stored } from './company.ts';

/** The part of a key that may be shown after its creation (spec section 2.7), as it is told. Members are columns of the table. */
export const KEY_ROW = schema.object({
  id: schema.id,
  company_id: schema.id,
  ...schemasOf(KEY),
  expires_at: schema.orNull(
    schema.described(schema.instant, `${schema.instant.description}; null: never`),
  ),
  prefix: schema.described(schema.string, 'the first 8 characters'),
  created_at: schema.time,
  created_by: createdBy,
  last_used_at: schema.orNull(schema.time),
  revoked_at: schema.orNull(schema.time),
  ...pauseOf('key'),
  user_id: schema.orNull(
    schema.described(
      schema.id,
      'the user whose key it is; null: of the company, or of a playground',
    ),
  ),
  person: schema.described(
    schema.textOrNull,
    'the e-mail address of that user; null: nobody, or somebody who is not there any more',
  ),
  purpose: schema.orNull(
    schema.oneOf(
      ['playground'],
      'null: for programs; playground: of a user who tries models on the pages',
    ),
  ),
  // by the clock of the database
  state: schema.oneOf(KEY_STATES),
});
export type KeyRow = Stored<typeof KEY_ROW, typeof KEY>;

export type KeyChanges = Changes<Given<typeof KEY>>;

export interface NewKey extends New<typeof KEY> {
  readonly company_id: string;
  /** Who created it: an e-mail address, or "cli". */
  readonly created_by: string;
  /** The key's id, so that a form sent twice makes one key; random unless given. */
  readonly id?: string | undefined;
  /** The key's text, where somebody else made it; minted unless given. */
  readonly key?: string | undefined;
  /** Id of the key in whose place it is made. */
  readonly rotated_from?: string | undefined;
  /** Id of the person whose key it is; the company's unless given. */
  readonly user_id?: string | null | undefined;
}

/** A key's row with the key in plaintext. */
export type MintedKey = KeyRow & { readonly key: string };

const SETTINGS = schema.namesOf(KEY);

const ROWS = rowsIn<KeyRow>({
  table: 'api_keys',
  noun: 'key',
  columns: (
    sql,
  ) => sql`id, company_id, prefix, created_at, ${sql.unsafe(CREATED_BY)} as created_by, last_used_at, revoked_at,
    paused_at, ${sql.unsafe(pausedBy('paused_by_operator'))} as paused_by, pause_reason,
    ${settingColumns(sql, KEY)}, purpose, user_id, (select email from users where users.id = api_keys.user_id) as person,
    ${sql.unsafe(KEY_STATE)} as state`,
  missing: (id) => `There is no key ${id}.`,
});

export const { find: findKey, read: readKey, columns: keyColumns } = ROWS;

/**
 * Mints a key. Only the returned value contains it in plaintext; the table gets its digest.
 * @param keyPrefix what the key begins with (KEY_PREFIX)
 * @throws Refused when the company does not exist, the id is taken, or the key would have expired already
 */
export async function insertKey(sql: Sql, keyPrefix: string, asked: NewKey): Promise<MintedKey> {
  const key = asked.key ?? mintKey(keyPrefix);
  return {
    ...(await insertKeyOf(sql, { digest: digestBytes(key), prefix: key.slice(0, 8) }, asked)),
    key,
  };
}

/** What is kept of a key's text. */
export interface KeptText {
  /** SHA-256 of the whole key. */
  readonly digest: Buffer;
  /** At most 8 characters, by which people know it. */
  readonly prefix: string;
}

/** Creates a key whose text is known to its holders alone. @throws Refused as `insertKey` */
export async function insertKeyOf(sql: Sql, text: KeptText, asked: NewKey): Promise<KeyRow> {
  const special = await specialColumns(sql, asked);
  if (special.expires_at != null && !(await isToCome(sql, special.expires_at)))
    throwExpired(special.expires_at);
  const columns = [
    'id',
    'company_id',
    'created_by',
    'rotated_from',
    'user_id',
    'digest',
    'prefix',
    ...SETTINGS,
  ] as const;
  return ROWS.insert(
    sql,
    namedColumns(sql, { ...asked, ...text }, columns, special),
    asked.company_id,
    {
      ...TEXT_TAKEN,
      api_keys_pkey: () => throwConflict('key', 'A key with this id exists already.'),
    },
  );
}

/**
 * Changes a key that is not revoked. One statement, as of a company. Of a playground's key name, scopes and end are its
 * person's and the pages' own: such a key may get other limits, and else be revoked.
 * @param company if given, keys of other companies count as not found
 * @throws Refused when there is no such key, it is revoked or not for that, or it would have expired already
 */
export async function updateKey(
  sql: Sql,
  id: string,
  changes: KeyChanges,
  company: string | null = null,
): Promise<KeyRow> {
  const { scopes } = changes;
  const special = await specialColumns(sql, changes);
  const { expires_at } = special;
  const isOwn = sql`(purpose is null
    or name = ${nameSpelling(changes.name) ?? null}::text is not false
      and (scopes @> ${[...(scopes ?? [])]}::text[] and scopes <@ ${[...(scopes ?? [])]}::text[] or ${scopes === undefined})
      and (date_trunc('milliseconds', expires_at) is not distinct from ${expires_at ?? null}::timestamptz or ${expires_at === undefined}))`;
  const [row] = await sql<KeyRow[]>`
    update api_keys set ${namedColumns(sql, changes, SETTINGS, { expires_at: sql`expires_at`, ...special })}
    where id = ${id} ${matching(sql, { company_id: company })} and revoked_at is null
      and coalesce(${expires_at ?? null}::timestamptz > now() or purpose is not null, true) and ${isOwn}
    returning ${keyColumns(sql)}`;
  if (row !== undefined) return row;
  const { state, purpose } = await findKey(sql, id, company);
  if (state === 'revoked') throwConflict('key', refusal('keyRevoked'));
  if (purpose !== null) throwConflict('key', refusal('playgroundFixed'));
  throwExpired(expires_at ?? null);
}

const TEXT_TAKEN = {
  api_keys_digest_key: () => throwConflict('key', 'There is a key with this text already.'),
};

/** @returns whether it is another text @throws Refused conflict for the text of another key */
export async function updateKeyText(sql: Sql, id: string, key: string): Promise<boolean> {
  const changed = sql`
    update api_keys set digest = ${digestBytes(key)}, prefix = ${key.slice(0, 8)}
    where id = ${id} and digest <> ${digestBytes(key)} returning id`;
  return (await explaining(changed, TEXT_TAKEN)).length > 0;
}

/** Takes a text away that another one of these keys is to get. @param wanted id null: not created yet */
export async function freeKeyTexts(
  sql: Sql,
  wanted: readonly { readonly id: string | null; readonly key: string }[],
): Promise<void> {
  const [ids, digests] = [wanted.map(({ id }) => id), wanted.map(({ key }) => digestOf(key))];
  await sql`
    with wanted as (select id, decode(digest, 'hex') as digest from unnest(${ids}::uuid[], ${digests}::text[]) as w (id, digest))
    update api_keys set digest = sha256(gen_random_uuid()::text::bytea) from wanted
    where api_keys.id = wanted.id and api_keys.digest <> wanted.digest and api_keys.digest in (select digest from wanted)`;
}

/** Keys of all companies that work, but those of persons. */
export function listActiveKeys(sql: Sql): Promise<KeyRow[]> {
  return ROWS.list(
    sql,
    sql`where purpose is null and user_id is null and ${sql.unsafe(IS_ACTIVE)} order by name, id`,
  );
}

/** Keys of these companies that work, and those of these ids, but none of persons. */
export function keysOf(
  sql: Sql,
  companies: readonly string[],
  ids: readonly string[],
): Promise<KeyRow[]> {
  return ROWS.list(
    sql,
    sql`where company_id in (select unnest(${[...companies]}::uuid[])) and purpose is null and user_id is null
      and (${sql.unsafe(IS_ACTIVE)} or id in (select unnest(${[...ids]}::uuid[])))`,
  );
}

/** All keys of a company, including revoked ones, newest first. @throws Refused missing */
export async function listKeys(sql: Sql, company: string): Promise<KeyRow[]> {
  return rowsOf(
    sql,
    company,
    await ROWS.list(sql, sql`where company_id = ${company} order by created_at desc, id`),
  );
}

/** The keys to list; default: all, dead ones included. */
interface KeyFilter {
  readonly name?: string;
  readonly state?: KeyRow['state'];
}

/** Keys of a company, ordered by id. */
export function keysAfter(sql: Sql, company: string, { name, state }: KeyFilter, range: Range) {
  const only = sql`true ${matching(sql, { name: nameSpelling(name) ?? null })}
    ${state === undefined ? sql`` : sql`and ${sql.unsafe(KEY_STATE)} = ${state}`}`;
  return ROWS.page(sql, company, range, listBytes(sql), only);
}

/** Keys of a company by name, for a choice: of these ids, or of all; none where there are too many to choose from. */
export async function keyNames(sql: Sql, company: string, ids: readonly string[] | null) {
  const rows = await sql<Pick<KeyRow, 'id' | 'name' | 'prefix'>[]>`
    select id, name, prefix from api_keys where company_id = ${company} and purpose is null
      and (${ids === null} or id = any(${[...(ids ?? [])]}::uuid[])) order by name, id limit 201`;
  return rows.length > 200 ? [] : rows;
}

/** The ids of keys that begin so, as far as lists show it, in whatever case; those of one company, or of all. At most 51. */
export async function idsOfPrefix(
  sql: Sql,
  prefix: string,
  company: string | null,
): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id from api_keys where purpose is null and starts_with(lower(prefix), ${prefix.toLowerCase()})
      ${matching(sql, { company_id: company })} order by id limit 51`;
  return rows.map(({ id }) => id);
}

/**
 * Ids of the keys with these digests, of any company: the tenant role may not read digests.
 * @param digests in hex, as of `digestOf`
 */
export async function idsOfDigests(sql: Sql, digests: readonly string[]): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select id from api_keys
    where digest = any(select decode(d, 'hex') from unnest(${[...digests]}::text[]) as t (d))`;
  return rows.map(({ id }) => id);
}

/**
 * Keys with the name of their company, those that work first, the last used of them first.
 * @param company if given, keys of other companies are left out
 * @param isBound whether to refuse more than a page may have
 * @throws Refused conflict
 */
export async function keysWithCompany(
  sql: Sql,
  ids: readonly string[],
  company: string | null,
  isBound = false,
): Promise<(KeyRow & { readonly company_name: string })[]> {
  const chosen = sql`id = any(${[...ids]}::uuid[]) ${matching(sql, { company_id: company })}`;
  if (isBound) {
    const [{ bytes }] = await sql<[{ bytes: number }]>`
      select coalesce(sum(${listBytes(sql)}), 0)::float8 as bytes from api_keys where ${chosen}`;
    if (bytes > PAGE_BYTES) {
      throwConflict(
        'key',
        'The models and networks of the keys found have more than 2 MiB: look for fewer at once.',
      );
    }
  }
  return sql<(KeyRow & { readonly company_name: string })[]>`
    select k.*, c.name as company_name
    from (select ${keyColumns(sql)} from api_keys where ${chosen}) k join companies c on c.id = k.company_id
    order by k.state = 'active' desc, k.last_used_at desc nulls last, k.id`;
}

/**
 * Revokes a key for good. A key that was already revoked keeps its time.
 * @param company if given, keys of other companies count as not found
 * @throws Refused missing
 */
export async function endKey(
  sql: Sql,
  id: string,
  company: string | null = null,
): Promise<{ key: KeyRow; already: boolean }> {
  const [revoked] = await sql<KeyRow[]>`
    update api_keys set revoked_at = now()
    where id = ${id} ${matching(sql, { company_id: company })} and revoked_at is null
    returning ${keyColumns(sql)}`;
  if (revoked !== undefined) return { key: revoked, already: false };
  return { key: await findKey(sql, id, company), already: true };
}

/**
 * Pauses a key that is not revoked, or ends its pause. A key that is paused keeps its time, and gets the reason.
 * @param reason null: the pause ends
 * @throws Refused missing; conflict for a revoked key
 */
export async function updateKeyPause(
  sql: Sql,
  id: string,
  company: string,
  reason: string | null,
): Promise<KeyRow> {
  const [row] = await sql<KeyRow[]>`
    update api_keys set ${paused(sql, reason)} where id = ${id} and company_id = ${company} and revoked_at is null
    returning ${keyColumns(sql)}`;
  return row ?? throwConflict('key', refusal('keyRevoked'));
}

export interface Rotation {
  readonly id: string;
  /** If given, keys of other companies count as not found. */
  readonly company_id: string | null;
  /** Seconds that the old key works beside the new one; 0 revokes it at once. */
  readonly overlap: number;
  readonly created_by: string;
  /** Id of the new key; random unless given. */
  readonly new_id?: string | undefined;
}

/**
 * Mints a key with all settings of another, which ends after the overlap. To be run in a transaction.
 * @throws Refused when there is no such key, or it no longer works
 */
export async function replaceKey(sql: Sql, keyPrefix: string, asked: Rotation): Promise<MintedKey> {
  const { id, company_id, overlap, created_by, new_id } = asked;
  await sql`select from api_keys where id = ${id} ${matching(sql, { company_id })} for update`;
  const old = await findKey(sql, id, company_id);
  if (old.state !== 'active') throwConflict('key', refusal('keyEnded', { state: old.state }));
  if (old.purpose !== null) throwConflict('key', refusal('keyOfPlayground'));
  const expires_at = await intendedEnd(sql, old);
  // first, so that the event of the new key tells when the old one ends
  if (overlap === 0) await sql`update api_keys set revoked_at = now() where id = ${id}`;
  else {
    await sql`update api_keys set expires_at = least(expires_at, now() + make_interval(secs => ${overlap})) where id = ${id}`;
  }
  return insertKey(sql, keyPrefix, {
    ...old,
    id: new_id,
    created_by,
    expires_at,
    rotated_from: id,
  });
}

/** When a key was to end before a rotation shortened it: the latest end among it and the keys made in its place. */
async function intendedEnd(sql: Sql, { id, company_id, expires_at }: KeyRow): Promise<Date | null> {
  const [row] = await sql<Pick<KeyRow, 'expires_at'>[]>`
    with recursive line as (
      select ${id}::uuid as id, coalesce(${expires_at}::timestamptz, 'infinity') as expires_at
      union
      select k.id, coalesce(k.expires_at, 'infinity') from line join api_keys k on k.rotated_from = line.id
      where k.company_id = ${company_id}
    )
    select nullif(max(expires_at), 'infinity') as expires_at from line`;
  return (row as Pick<KeyRow, 'expires_at'>).expires_at;
}

function throwExpired(expires: Date | null): never {
  throwConflict('key', refusal('keyTooLate', { at: String(expires?.toISOString()) }));
}

/** Columns whose values are more than a parameter: the end, and lists, which are sets. */
async function specialColumns(
  sql: Sql,
  { scopes, expires_at: end, allowed_model_slugs: slugs, allowed_cidrs: cidrs }: KeyChanges,
) {
  return {
    ...(end !== undefined && { expires_at: end && (await endOf(sql, end)) }),
    ...(scopes !== undefined && { scopes: sql`${[...new Set(scopes)]}::text[]` }),
    ...(slugs !== undefined && { allowed_model_slugs: sql`${sorted(slugs)}::text[]` }),
    ...(cidrs !== undefined && { allowed_cidrs: sql`${sorted(cidrs)}::text[]::cidr[]` }),
  };
}

async function isToCome(sql: Sql, at: Date): Promise<boolean> {
  const [{ is }] = await sql<[{ is: boolean }]>`select ${at}::timestamptz > now() as is`;
  return is;
}

/** The list in order and without repetitions; null for none. */
function sorted(list: readonly string[] | null | undefined): string[] | null {
  return list == null ? null : [...new Set(list)].sort();
}

/** The length of a key's lists, which may have 1000 values each; all else of it is short. A network is twice as long in JSON. */
function listBytes(sql: Sql) {
  return sql`${unpackedBytes(sql, 'allowed_model_slugs')} + 2 * ${unpackedBytes(sql, 'allowed_cidrs')}`;
}
