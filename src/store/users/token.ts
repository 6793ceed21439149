import { digestBytes, mintKey } from '../../domain/key.ts';
import type { End } from '../../domain/price.ts';
import { throwConflict } from '../../domain/refusal.ts';
import * as schema from '../../domain/settings/schema.ts';
import { nameSpelling } from '../../domain/visible-text.ts';
import { CREATED_BY, createdBy } from '../connection/actor.ts';
import { matching } from '../connection/columns.ts';
import type { Range } from '../connection/cursor.ts';
import { endOf, IS_ACTIVE, STATE } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { rowsIn } from '../connection/rows.ts';

/** Every token for administration over HTTP begins so. Scanners for leaked secrets find it by that. */
const TOKEN_PREFIX = 'tga-';
const FORM = /^tga-[a-z2-7]{32}$/;

/** The part of a token that may be shown after its creation. Members are columns of `admin_tokens`. */
export const TOKEN = schema.object({
  id: schema.id,
  name: schema.string,
  company_id: schema.described(
    schema.orNull(schema.id),
    'whose owner it acts like; null: like an operator',
  ),
  // to read, or also to change things
  access: schema.oneOf(['read', 'write']),
  created_at: schema.time,
  created_by: createdBy,
  expires_at: schema.orNull(schema.time),
  last_used_at: schema.orNull(schema.time),
  revoked_at: schema.orNull(schema.time),
  // by the clock of the database
  state: schema.oneOf(['active', 'expired', 'revoked']),
});
export type TokenRow = schema.Value<typeof TOKEN>;
export type Access = TokenRow['access'];

export type ListedToken = TokenRow & { readonly company_name: string | null };

export type NewToken = Pick<TokenRow, 'name' | 'company_id' | 'access' | 'created_by'> & {
  readonly expires_at: End | null;
  /** Random unless given. */
  readonly id?: string;
};

const ROWS = rowsIn<TokenRow>({
  table: 'admin_tokens',
  noun: 'token',
  columns: (
    sql,
  ) => sql`id, name, company_id, access, created_at, ${sql.unsafe(CREATED_BY)} as created_by, expires_at,
    last_used_at, revoked_at, ${sql.unsafe(STATE)} as state`,
  missing: (id) => `There is no token ${id}.`,
});

export const { find: findTokenById, page: tokensAfter } = ROWS;

/**
 * Mints a token. Only the returned value contains it in plaintext; the table gets its digest.
 * @throws Refused when the company does not exist, or the token would have expired already
 */
export async function insertToken(
  sql: Sql,
  asked: NewToken,
): Promise<TokenRow & { readonly token: string }> {
  const token = mintKey(TOKEN_PREFIX);
  const { id = null, name, company_id: company, access, created_by, expires_at: end } = asked;
  const expires = end === null ? null : await endOf(sql, end);
  const row: TokenRow | undefined = await ROWS.insert(
    sql,
    sql`(id, name, company_id, digest, access, created_by, expires_at)
      select coalesce(${id}::uuid, gen_random_uuid()), ${nameSpelling(name)}, ${company}::uuid, ${digestBytes(token)}, ${access}, ${created_by}, ${expires}::timestamptz
      where coalesce(${expires}::timestamptz > now(), true)`,
    company,
  );
  if (row === undefined) {
    throwConflict('token', 'A token that has expired already would never work: give a later time.');
  }
  return { ...row, token };
}

/** The active token of a text. Records its use once a minute. @returns null when there is none */
export async function findToken(sql: Sql, text: string): Promise<TokenRow | null> {
  if (!FORM.test(text)) return null;
  const [row] = await sql<(TokenRow & { stale: boolean })[]>`
    select ${ROWS.columns(sql)}, coalesce(last_used_at < now() - interval '1 minute', true) as stale from admin_tokens
    where digest = ${digestBytes(text)} and ${sql.unsafe(IS_ACTIVE)}`;
  if (row === undefined) return null;
  const { stale, ...token } = row;
  if (stale) await sql`update admin_tokens set last_used_at = now() where id = ${token.id}`;
  return token;
}

/**
 * Tokens, newest first.
 * @param company tokens of this company alone; null: of all companies, and of operators
 * @param page at most so many, older than a token; default: all
 */
export async function listTokens(
  sql: Sql,
  company: string | null,
  { after, limit }: Partial<Range> = {},
): Promise<ListedToken[]> {
  return sql<ListedToken[]>`
    select ${ROWS.columns(sql)}, (select c.name from companies c where c.id = company_id) as company_name from admin_tokens
    where true ${matching(sql, { company_id: company })}
      and (${after ?? null}::uuid is null or (created_at, id) < (select created_at, id from admin_tokens where id = ${after ?? null}))
    order by created_at desc, id desc limit ${limit ?? null}::bigint`;
}

/** @param company if given, tokens of others count as not found @throws Refused missing */
export function endToken(sql: Sql, id: string, company: string | null = null): Promise<TokenRow> {
  return ROWS.update(sql, sql`revoked_at = coalesce(revoked_at, now())`, id, company);
}
