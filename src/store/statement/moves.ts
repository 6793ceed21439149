import { setTimeout as sleep } from 'node:timers/promises';
import { throwConflict } from '../../domain/refusal.ts';
import { DatabaseUnavailable, databaseError, SchemaRefused } from '../connection/errors.ts';
import type { Database, Sql } from '../connection/pool.ts';
import { boundLocks, LOCK_MS, LOCKED } from '../schema/migrate.ts';
import { requireClosable } from './close.ts';
import { digestOfRow } from './digest.ts';
import { rowsOf, SOURCES, SUMS, type Sums, upsertOf, withZone } from './sums.ts';

/**
 * Months of the ledger go and come back (sql/retention.md), with the upstream's costs of its calls. The rows stay in tables
 * of their own, which nothing reads; the sums of the month are removed with them, and made again from the rows.
 */

/** What a company had in a month, and a digest of its rows in hex. EUR is exact decimal text. */
interface CompanyFigures {
  readonly company_id: string;
  readonly requests: string;
  readonly prompt_tokens: string;
  readonly completion_tokens: string;
  readonly cost_eur: string;
  readonly row_digest: string;
}

/** A month that is away: how much is in it. */
export interface AwayMonth {
  /** "2026-01". */
  readonly month: string;
  readonly companies: number;
  readonly requests: number;
  readonly cost_eur: string;
  /** ISO 8601. */
  readonly since: string;
}

interface MoveOptions {
  /** Its first day. */
  readonly month: string;
  /** Takes a month away that is not closed for all companies, or for which records may still come. */
  readonly anyway: boolean;
  readonly onProgress: (text: string) => void;
}

const FOREVER = Number.POSITIVE_INFINITY;
const AGAIN_MS = 1000;
const MOST_AGAIN_MS = 30_000;
/** How often calls may come for the month while its rows are read. */
const ATTEMPTS = 3;

/** A call came for the month after its rows were read. */
class CameMeanwhile extends Error {}

/**
 * Takes a past month out of the ledger: its rows are then in two tables that the ledger does not read, `api_usage_2026_01`
 * and `upstream_costs_2026_01`. The lock on the ledger is waited for at most 1.5 seconds at a time, so nobody queues behind
 * it for longer.
 * @returns the names of the tables
 * @throws Refused, SchemaRefused, DatabaseUnavailable, DatabaseRefused
 */
export async function detachMonth(
  db: Database,
  { month, anyway, onProgress }: MoveOptions,
): Promise<readonly string[]> {
  for (let attempt = 1; ; attempt++) {
    const figures = await db.transaction(FOREVER, async (sql) => {
      await requireDetachable(sql, month, anyway);
      onProgress(`reading ${month.slice(0, 7)}`);
      return figuresOf(sql, month);
    });
    try {
      await db.transaction(FOREVER, (sql) => takeAway(sql, month, figures, onProgress));
      return tablesOf(month);
    } catch (error) {
      if (!(error instanceof CameMeanwhile)) throw error;
      if (attempt === ATTEMPTS)
        throw new SchemaRefused(
          `the counters of ${month.slice(0, 7)} are not the sums of its rows, or calls keep coming for it: run "tollgate ledger verify", then try again`,
        );
    }
  }
}

async function takeAway(
  sql: Sql,
  month: string,
  figures: readonly CompanyFigures[],
  onProgress: (text: string) => void,
): Promise<void> {
  await lockMoves(sql);
  await requireAttached(sql, month);
  await atOnce(sql, onProgress, async () => {
    onProgress('removing the sums of the month');
    for (const { table } of Object.values(SUMS))
      await sql`delete from ${sql(table)} where billing_month = ${month}::date`;
    for (const table of tablesOf(month))
      await sql.unsafe(`alter table ${parentOf(table)} detach partition ${table}`);
  });
  // from here on nobody writes the month, so its counters are those of the rows that go
  const [{ same }] = await sql<[{ same: boolean }]>`
    with counted as (
      select company_id, requests, prompt_tokens, completion_tokens, api_cost_eur from monthly_spend
      where billing_month = ${month}::date and requests > 0),
    gone as (select f.company_id, f.requests, f.prompt_tokens, f.completion_tokens, f.cost_eur
      from json_to_recordset(${JSON.stringify(figures)}::text::json)
        as f (company_id uuid, requests bigint, prompt_tokens numeric, completion_tokens numeric, cost_eur numeric))
    select not exists (select from counted c full join gone g using (company_id)
      where (c.requests, c.prompt_tokens, c.completion_tokens, c.api_cost_eur)
        is distinct from (g.requests, g.prompt_tokens, g.completion_tokens, g.cost_eur)) as same`;
  if (!same) throw new CameMeanwhile();
  await note(sql, month, true, figures);
}

/**
 * Brings a month back whose tables are there again. Calls that came for it meanwhile join its rows.
 * @returns the names of the tables
 * @throws Refused, SchemaRefused, DatabaseUnavailable, DatabaseRefused
 */
export async function attachMonth(
  db: Database,
  { month, onProgress }: Omit<MoveOptions, 'anyway'>,
): Promise<readonly string[]> {
  const tables = tablesOf(month);
  const [table, costs] = tables;
  await db.transaction(FOREVER, async (sql) => {
    await lockMoves(sql);
    await requireAttachable(sql, month);
    // nobody but this transaction has to do with the tables: they are in no ledger
    await sql.unsafe(`lock table ${tables.join(', ')} in access exclusive mode`);
    onProgress(`reading ${month.slice(0, 7)}`);
    const figures = await figuresOf(sql, month);
    await requireSame(sql, month, figures);
    await sql.unsafe(`alter table ${table} disable trigger user`);
    await atOnce(sql, onProgress, async () => {
      onProgress('making the sums of the month');
      for (const sums of Object.values(SUMS) as readonly Sums[]) {
        const rows = SOURCES[sums.from](withZone(table), costs);
        await sql.unsafe(upsertOf(sums, rowsOf(sums, `${rows} as ${sums.from}`)));
      }
      for (const each of tables) await attach(sql, month, each);
    });
    await sql.unsafe(`alter table ${table} enable trigger user`);
    await note(sql, month, false, figures);
  });
  return tables;
}

/** Rows that came for the month are in the default partition, which must have none of a month that has a partition. */
async function attach(sql: Sql, month: string, table: string): Promise<void> {
  const parent = parentOf(table);
  const late = sql(`${parent}_default`);
  await sql`alter table ${late} disable trigger user`;
  await sql`insert into ${sql(table)} select * from ${late} where billing_month = ${month}::date`;
  await sql`delete from ${late} where billing_month = ${month}::date`;
  await sql`alter table ${late} enable trigger user`;
  await sql.unsafe(
    `alter table ${parent} attach partition ${table} for values from ('${month}') to (('${month}'::date + interval '1 month')::date)`,
  );
}

/** The months that are away. */
export function monthsAway(sql: Sql): Promise<AwayMonth[]> {
  return sql<AwayMonth[]>`
    select to_char(billing_month, 'YYYY-MM') as month, count(*)::integer as companies, sum(requests)::float8 as requests,
      trim_scale(sum(cost_eur))::text as cost_eur, (select to_char(max(m.moved_at) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
        from ledger_moves m where m.billing_month = a.billing_month) as since
    from months_away() a group by billing_month order by billing_month`;
}

/**
 * Refuses months whose rows are away: what would be told of them is not all.
 * @param months their first days
 * @throws Refused
 */
export async function requireRows(sql: Sql, months: readonly string[]): Promise<void> {
  const [away] = await sql<{ month: string }[]>`
    select to_char(billing_month, 'YYYY-MM') as month from (
      select distinct on (billing_month) billing_month, is_away from ledger_moves
      where billing_month = any(${[...months]}::date[]) order by billing_month, number desc) as last
    where is_away order by 1 limit 1`;
  if (away !== undefined)
    throwConflict(
      'statement',
      `The calls of ${away.month} were taken away: an operator brings them back with "tollgate ledger attach ${away.month}".`,
    );
}

/** @throws Refused, SchemaRefused */
async function requireDetachable(sql: Sql, month: string, anyway: boolean): Promise<void> {
  const [{ spread }] = await sql<[{ spread: boolean }]>`select is_distributed() as spread`;
  if (spread)
    throw new SchemaRefused('months stay in a ledger that is spread over several servers');
  const name = month.slice(0, 7);
  await requireClosable(sql, month, anyway);
  await requireAttached(sql, month);
  if (anyway) return;
  const [{ open, late }] = await sql<[{ open: number; late: number }]>`
    select (select count(*)::integer from monthly_spend
        where billing_month = ${month}::date and statement is null and requests > 0) as open,
      (select count(*)::integer from late_usage where billing_month = ${month}::date) as late`;
  if (open > 0)
    throwConflict(
      'statement',
      `${name} is not closed for ${open === 1 ? 'a company' : `${open} companies`} with calls, and cannot be closed without its rows: run "tollgate statement close --all-companies --month ${name}" first.`,
    );
  if (late > 0)
    throwConflict(
      'statement',
      `${late === 1 ? 'A call' : `${late} calls`} of ${name} came late and ${late === 1 ? 'waits' : 'wait'} for the next statement: close the months after it first.`,
    );
}

/** @throws SchemaRefused */
async function requireAttachable(sql: Sql, month: string): Promise<void> {
  const tables = tablesOf(month);
  const [{ exist, away }] = await sql<[{ exist: boolean; away: boolean }]>`
    select (select count(to_regclass(name)) = 2 from unnest(${[...tables]}::text[]) as name) as exist,
      coalesce((select is_away from ledger_moves where billing_month = ${month}::date order by number desc limit 1), false) as away`;
  if (!away) throw new SchemaRefused(`${month.slice(0, 7)} is not away`);
  if (!exist)
    throw new SchemaRefused(
      `there is no table ${tables.join(' or ')}: restore both, with the names that they had`,
    );
}

/** @throws SchemaRefused where the table is not the one that was taken away */
async function requireSame(
  sql: Sql,
  month: string,
  figures: readonly CompanyFigures[],
): Promise<void> {
  const [{ other }] = await sql<[{ other: string | null }]>`
    with gone as (select * from months_away() where billing_month = ${month}::date),
    back as (select * from json_to_recordset(${JSON.stringify(figures)}::text::json)
      as f (company_id uuid, requests bigint, cost_eur numeric, row_digest text))
    select min(coalesce(gone.company_id, back.company_id)::text) as other from gone full join back using (company_id)
    where (gone.requests, gone.cost_eur, encode(gone.row_digest, 'hex')) is distinct from (back.requests, back.cost_eur, back.row_digest)`;
  if (other !== null)
    throw new SchemaRefused(
      `the tables of ${month.slice(0, 7)} are not those that were taken away: rows of company ${other} differ`,
    );
}

/** What each company has in a month, and a digest of its rows: of pieces of them, as one text would be too long. */
function figuresOf(sql: Sql, month: string): Promise<CompanyFigures[]> {
  const [calls, costs] = tablesOf(month);
  return sql.unsafe<CompanyFigures[]>(`
    select company_id::text, sum(requests)::text as requests, sum(prompt_tokens)::text as prompt_tokens,
      sum(completion_tokens)::text as completion_tokens, sum(cost_eur)::text as cost_eur,
      encode(sha256(string_agg(digest, ''::bytea order by piece)), 'hex') as row_digest
    from (select company_id, get_byte(uuid_send(request_id), 0) as piece, count(*) as requests, sum(prompt_tokens) as prompt_tokens,
        sum(completion_tokens) as completion_tokens, sum(cost_eur) as cost_eur,
        sha256(string_agg(${digestOfRow('u')} || convert_to(concat(c.cost, c.currency), 'UTF8'), ''::bytea order by request_id)) as digest
      from ${calls} u left join ${costs} c using (company_id, billing_month, request_id)
      group by 1, 2) as pieces
    group by company_id order by company_id`);
}

/** @throws SchemaRefused */
async function requireAttached(sql: Sql, month: string): Promise<void> {
  const [{ attached }] = await sql<[{ attached: boolean }]>`
    select count(*) = 2 as attached from pg_inherits
    where inhrelid::regclass::text = any(${[...tablesOf(month)]}::text[])`;
  if (!attached)
    throw new SchemaRefused(
      `the ledger has no table of its own for ${month.slice(0, 7)}: it is away, or it never had one`,
    );
}

/** One month at a time goes or comes. */
async function lockMoves(sql: Sql): Promise<void> {
  const [{ spread }] = await sql<[{ spread: boolean }]>`select is_distributed() as spread`;
  if (spread)
    throw new SchemaRefused('months stay in a ledger that is spread over several servers');
  await sql`select pg_advisory_xact_lock(hashtext('tollgate ledger moves'))`;
}

async function note(
  sql: Sql,
  month: string,
  away: boolean,
  figures: readonly CompanyFigures[],
): Promise<void> {
  await sql`select note_ledger_move(${month}::date, ${away}, ${JSON.stringify(figures)}::text::json)`;
}

/**
 * Does what needs the ledger alone for a moment, again and again until the locks are to be had: everybody who needs the
 * ledger queues behind the one that waits. Between attempts it holds no rows of sums, for which a batch with a late call of
 * the month would wait.
 */
async function atOnce(
  sql: Sql,
  onProgress: (text: string) => void,
  work: () => Promise<void>,
): Promise<void> {
  for (let rest = AGAIN_MS; ; rest = Math.min(2 * rest, MOST_AGAIN_MS)) {
    await sql`savepoint before_locks`;
    await boundLocks(sql, LOCK_MS);
    try {
      await work();
      await boundLocks(sql, 0);
      return;
    } catch (raw) {
      const error = databaseError(raw);
      if (!(error instanceof DatabaseUnavailable && LOCKED.includes(error.code))) throw raw;
      await sql`rollback to savepoint before_locks`;
      onProgress('waiting for others to be done with the ledger');
      await sleep(rest);
    }
  }
}

/**
 * The partitions of a month: calls, and their costs. Everybody locks them in this order, so that nobody waits crosswise.
 * @param month its first day
 */
function tablesOf(month: string) {
  const name = month.slice(0, 7).replace('-', '_');
  return [`api_usage_${name}`, `upstream_costs_${name}`] as const;
}

function parentOf(table: string): string {
  return table.slice(0, -'_2026_01'.length);
}
