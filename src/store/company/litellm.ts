import { type LitellmTables, objectIn, type Row } from '../../domain/settings/litellm-rows.ts';
import { type Database, openDatabase, type Sql } from '../connection/pool.ts';
import { type KeyRow, keyColumns } from './key.ts';

/** Reading a LiteLLM database, by its public schema, and what came of it before. */

const READ_MS = 600_000;

/** It is none, or of another version; the message says what is missing. */
export class NoLitellm extends Error {}

const LIMITED = [
  'max_budget',
  'budget_duration',
  'tpm_limit',
  'rpm_limit',
  'max_parallel_requests',
] as const;
const HELD = ['models', ...LIMITED, 'spend'] as const;

/** The tables that are read, and the columns without which something would come wrong. */
const TABLES = {
  keys: [
    'LiteLLM_VerificationToken',
    [
      'token',
      'key_alias',
      'key_name',
      'team_id',
      'user_id',
      ...HELD,
      'budget_id',
      'expires',
      'blocked',
    ],
  ],
  teams: ['LiteLLM_TeamTable', ['team_id', 'team_alias', ...HELD, 'blocked']],
  users: ['LiteLLM_UserTable', ['user_id', 'user_email', ...HELD]],
  budgets: ['LiteLLM_BudgetTable', ['budget_id', ...LIMITED]],
  models: ['LiteLLM_ProxyModelTable', ['model_id', 'model_name', 'litellm_params', 'model_info']],
} as const;

/** Of older versions, which do not have it. */
const OLD_KEYS = 'LiteLLM_DeprecatedVerificationToken';

/** Tables of what happened, and of what the router needs where it stays: nothing of them is missed. */
const OF_ROUTER =
  /_(SpendLogs|ErrorLogs|AuditLog|Daily|Deleted|Config|Credentials|ProxyModel|ModelTable|HealthCheck|CronJob|Invitation|UserNotifications|CacheConfig|SSOConfig|UISettings|ObjectPermission|Managed|SpendLog|Adaptive|Workflow)/;

/** Parameters that Prisma has in an address, and Postgres not. */
const PRISMA =
  /^(connection_limit|pool_timeout|socket_timeout|statement_cache_size|sslidentity|sslpassword|sslaccept)\b/;

/**
 * Reads what is there at one instant, and changes nothing.
 * @param url of Postgres, as LiteLLM has it in DATABASE_URL
 * @throws NoLitellm; DatabaseUnavailable; TypeError when the URL cannot be read, without the URL
 */
export async function readLitellm(url: string): Promise<LitellmTables> {
  const db: Database = openDatabase({ url: withoutPrisma(url) });
  try {
    return await db.transaction(READ_MS, async (sql) => {
      await sql`set transaction isolation level repeatable read, read only`;
      return readTables(sql);
    });
  } finally {
    await db.close();
  }
}

async function readTables(sql: Sql): Promise<LitellmTables> {
  const found = await sql<{ name: string; columns: string[] }[]>`
    select relname as name, array_agg(attname::text) as columns
    from pg_class join pg_attribute on attrelid = pg_class.oid and attnum > 0 and not attisdropped
    where relkind in ('r', 'p') and starts_with(relname, 'LiteLLM_') and pg_table_is_visible(pg_class.oid)
    group by relname order by relname`;
  const columns = new Map(found.map((table) => [table.name, table.columns]));
  const missing = Object.values(TABLES).flatMap(([table, needed]) => {
    const there = columns.get(table);
    if (there === undefined) return [`table ${table}`];
    return needed
      .filter((column) => !there.includes(column))
      .map((column) => `column ${table}.${column}`);
  });
  if (columns.size === 0)
    throw new NoLitellm(
      'there is no LiteLLM database: it has no table whose name begins with LiteLLM_',
    );
  if (missing.length > 0) {
    throw new NoLitellm(
      `it is of a version of LiteLLM that is not known here: there is no ${missing.join(', no ')}; update LiteLLM first`,
    );
  }
  const { keys, teams, users, budgets, models } = TABLES;
  const read = async ([table, [key]]: readonly [string, readonly [string, ...string[]]]): Promise<
    Row[]
  > => {
    if (!columns.has(table)) return [];
    const rows = await sql<
      { row: Row }[]
    >`select to_jsonb(t) as row from ${sql(table)} t order by ${sql(key)}`;
    return rows.map(({ row }) => row);
  };
  const handled = [OLD_KEYS, ...Object.values(TABLES).map(([table]) => table)];
  const others: Record<string, number> = {};
  for (const table of columns.keys()) {
    if (handled.includes(table) || OF_ROUTER.test(table)) continue;
    const [row] = await sql<[{ rows: number }]>`select count(*)::int as rows from ${sql(table)}`;
    if (row.rows > 0) others[table] = row.rows;
  }
  return {
    keys: await read(keys),
    oldKeys: await read([OLD_KEYS, ['token']]),
    teams: await read(teams),
    users: await read(users),
    budgets: await read(budgets),
    models: (
      await sql<{ row: string }[]>`
        select (to_jsonb(t) - 'litellm_params' || jsonb_build_object('litellm_params', (
          select jsonb_object_agg(key, value) from jsonb_each(case jsonb_typeof(litellm_params::jsonb) when 'object' then litellm_params::jsonb end)
          where jsonb_typeof(value) = 'number')))::text as row
        from ${sql(models[0])} t order by model_name, model_id`
    ).map(({ row }) => objectIn(row)), // of text: prices keep their digits
    others,
  };
}

/** The address without what is Prisma's own, and its schema as Postgres calls it. */
function withoutPrisma(url: string): string {
  const [address, query = ''] = url.split('?', 2) as [string, string?];
  const kept = query.split('&').filter((part) => part !== '' && !PRISMA.test(part));
  const parts = kept.map((part) => part.replace(/^schema=/, 'search_path='));
  return parts.length === 0 ? address : `${address}?${parts.join('&')}`;
}

/** The keys with these ids or digests, whatever became of them, each with its digest in hex. */
export async function keysThatCame(
  sql: Sql,
  keys: readonly { readonly id: string; readonly digest: string }[],
) {
  return sql<(KeyRow & { readonly digest: string })[]>`
    select ${keyColumns(sql)}, encode(digest, 'hex') as digest from api_keys
    where id in (select unnest(${keys.map(({ id }) => id)}::uuid[]))
      or digest in (select decode(d, 'hex') from unnest(${keys.map(({ digest }) => digest)}::text[]) as t (d))`;
}
