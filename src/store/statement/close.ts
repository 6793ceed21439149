import {
  makeStatement,
  type SealCheckpoint,
  type Statement,
  statementDigest,
  statementText,
} from '../../domain/documents/statement.ts';
import { Refused, throwConflict } from '../../domain/refusal.ts';
import { lockName } from '../company/idempotent-form.ts';
import { dayBegins, utcMicrosecond } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import {
  correctionsOf,
  type LateMonth,
  openMonths,
  readCharges,
  readStatementLines,
  requireFewLate,
  type StatementBound,
  zoneOf,
} from './statement.ts';

/** A month that is to be closed. */
interface Closing {
  readonly company: string;
  /** The first day of the month. */
  readonly month: string;
  /** From `checkpointSeals`. */
  readonly seals: SealCheckpoint;
  /** None if absent. */
  readonly bound?: StatementBound;
}

/**
 * Refuses a month that is not over in the billing time zone, or to which records are known to be on their way.
 * @param month its first day
 * @param anyway close although records are on their way: they become corrections
 * @throws Refused
 */
export async function requireClosable(sql: Sql, month: string, anyway = false): Promise<void> {
  const [{ over, zone }] = await sql<[{ over: boolean; zone: string }]>`
    select now() >= ${sql.unsafe(dayBegins('after', 'value'))} as over, value as zone
    from settings, (select ${month}::date + interval '1 month' as after) as month where name = 'billing_timezone'`;
  const name = month.slice(0, 7);
  if (!over) throwConflict('statement', `${name} is not over yet in ${zone}.`);
  if (anyway) return;
  const waiting = await sql<{ gateway: string; seen: string; records: number }[]>`
    select gateway, to_char(seen_at at time zone 'UTC', 'YYYY-MM-DD HH24:MI') as seen, records from on_its_way(${month}::date)`;
  if (waiting.length === 0) return;
  const gateways = waiting
    .slice(0, 5)
    .map(
      ({ gateway, seen, records }) => `${gateway} (seen ${seen} UTC, ${records} records waiting)`,
    );
  throwConflict(
    'statement',
    `Records of ${name} may still be on their way from ${gateways.join(', ')}${waiting.length > 5 ? ' and others' : ''}: ` +
      'wait until an hour after the month, and until these gateways have booked or were started again. ' +
      'For one that is lost with its spool, run "tollgate gateway forget NAME".',
  );
}

/** Why one had better wait before a month is closed, in words; null: nothing is on its way. @throws Refused where it is not over */
export async function whyWait(sql: Sql, month: string): Promise<string | null> {
  await requireClosable(sql, month, true);
  try {
    await requireClosable(sql, month);
    return null;
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return error.message;
  }
}

/**
 * Refuses a month out of order, because statements are numbered as months are closed, for good: while an earlier month
 * with calls is open, and a month without open calls before one that is closed. Calls that came for an earlier month
 * only after a later one was closed still get a statement.
 * @param month its first day
 * @throws Refused conflict, which names what to close first
 */
export async function requireInOrder(sql: Sql, company: string, month: string): Promise<void> {
  const open = await openMonths(sql, company);
  const name = month.slice(0, 7);
  const earlier = open.filter((each) => each < name);
  const [first] = earlier;
  if (first !== undefined) {
    const [are, order] =
      earlier.length === 1
        ? ['is', `Close ${first} first`]
        : ['are', `Close these first, beginning with ${first}`];
    throwConflict(
      'statement',
      `${monthsText(earlier)} ${are} still open for this company, and statements are numbered in the order in which months are closed. ${order}; then ${name}.`,
    );
  }
  const [{ latest }] = await sql<[{ latest: string | null }]>`
    select to_char(max(billing_month), 'YYYY-MM') as latest from statements where company_id = ${company}`;
  if (latest === null || latest < name || open.includes(name)) return;
  throwConflict(
    'statement',
    `${latest} of this company is closed already, and ${name} has no calls that wait for a statement: statements are numbered in the order in which months are closed. Late calls of closed months become corrections on the statement of a later month.`,
  );
}

const MOST_MONTHS = 12;

/** "2026-08", "2026-07, 2026-08 and 2026-09", or the first twelve and how many more. */
function monthsText(months: readonly string[]): string {
  const named = months.length > MOST_MONTHS ? months.slice(0, MOST_MONTHS) : months.slice(0, -1);
  const last =
    months.length > MOST_MONTHS ? `${months.length - MOST_MONTHS} more` : (months.at(-1) as string);
  return named.length === 0 ? last : `${named.join(', ')} and ${last}`;
}

/** Takes a checkpoint of the seals, for the statements that are closed next. */
export async function checkpointSeals(sql: Sql): Promise<SealCheckpoint> {
  const [row] = await sql<[SealCheckpoint]>`
    select checkpoint::float8 as checkpoint, encode(checkpoint_digest, 'hex') as digest from checkpoint_seals()`;
  return row;
}

/**
 * The companies that need a statement of a month, removed ones included. They have calls in the month and no statement
 * of it, or late calls of earlier months and no statement of this or a later month.
 */
export async function companiesToClose(sql: Sql, month: string): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select company_id as id from monthly_spend where billing_month = ${month} and requests > 0 and statement is null
    union
    select company_id from late_usage where billing_month < ${month} and company_id <> all (array(
      select company_id from statements where billing_month >= ${month}))
    order by 1`;
  return rows.map(({ id }) => id);
}

/** Whether a month of a company is closed. @param month its first day */
export async function isClosed(sql: Sql, company: string, month: string): Promise<boolean> {
  const found =
    await sql`select from statements where company_id = ${company} and billing_month = ${month}`;
  return found.length > 0;
}

/**
 * Closes a month of a company, in a transaction of its own at "read committed". A month that is closed already stays
 * as it is. Does not ask `requireClosable`. Reads all rows of the month.
 * @returns the number of its statement
 * @throws Refused conflict out of order, beyond the bound, or where the ledger lacks rows
 */
export async function insertStatement(
  sql: Sql,
  { company, month, seals, bound }: Closing,
): Promise<{ readonly number: number; readonly already: boolean }> {
  await lockName(sql, `tollgate statements ${company}`);
  const [closed] = await sql<{ number: number }[]>`
    select number::float8 as number from statements where company_id = ${company} and billing_month = ${month}`;
  if (closed !== undefined) return { number: closed.number, already: true };
  await requireInOrder(sql, company, month);
  const [before] = await sql<{ number: number; digest: string; seals: SealCheckpoint }[]>`
    select number::float8 as number, encode(digest, 'hex') as digest, content::json -> 'closing_seals' as seals
    from statements where company_id = ${company} order by statements.number desc limit 1`;
  const number = (before?.number ?? 0) + 1;

  // waits for batches that are being booked; those behind it find the number, and their rows are late
  const [booked] = await sql<[Booked]>`
    insert into monthly_spend (company_id, billing_month, statement) values (${company}, ${month}, ${number})
    on conflict (company_id, billing_month) do update set statement = excluded.statement
    returning requests::float8 as requests, trim_scale(api_cost_eur)::text as cost_eur`;
  await sql`select keep_statement_rows(${company}, ${number}, ${month}, null)`;
  await requireFewLate(sql, company, month, bound);
  const late = await takeLate(sql, company);
  for (const each of late) {
    await sql`select keep_statement_rows(${company}, ${number}, ${each.month}, ${[...each.request_ids]}::uuid[])`;
  }
  const [{ rows, now }] = await sql<[{ rows: string; now: string }]>`
    select encode(statement_rows_digest(${company}, ${number}), 'hex') as rows,
      ${sql.unsafe(utcMicrosecond('now()'))} as now`;

  const statement = makeStatement({
    company_id: company,
    number,
    month: month.slice(0, 7),
    billing_timezone: await zoneOf(sql),
    closed_at: now,
    opening_seals: before?.seals ?? null,
    closing_seals: seals,
    previous: before?.digest ?? null,
    rows,
    charges: await readCharges(sql, company, month, bound),
    lines: await readStatementLines(sql, company, month, null, bound),
    corrections: await correctionsOf(sql, company, month, late, bound),
  });
  requireWhole(statement, booked);
  const text = statementText(statement);
  const corrections = statement.corrections.reduce((sum, { requests }) => sum + requests, 0);
  await sql`
    insert into statements (company_id, number, billing_month, requests, cost_eur, corrections, total_eur, content, previous, digest)
    values (${company}, ${number}, ${month}, ${statement.requests}, ${statement.cost_eur}, ${corrections}, ${statement.total_eur},
      ${text}, decode(${before?.digest ?? ''}, 'hex'), decode(${statementDigest(text)}, 'hex'))`;
  return { number, already: false };
}

type Booked = Pick<Statement, 'requests' | 'cost_eur'>;

/**
 * Refuses a statement without all calls that were booked, as of a month that was detached: it could not be taken back.
 * @throws Refused conflict
 */
function requireWhole({ month, requests, cost_eur, corrections }: Statement, booked: Booked): void {
  const isWhole = requests === booked.requests && cost_eur === booked.cost_eur;
  const lacking = isWhole
    ? corrections.find((late) => late.requests !== late.request_ids.length)?.month
    : month;
  if (lacking === undefined) return;
  throwConflict(
    'statement',
    `The ledger rows of ${lacking} are not those that were booked, as where the month was detached from api_usage: attach it again. "tollgate ledger verify" tells what differs.`,
  );
}

/** Takes the late rows of a company, which this statement corrects. */
async function takeLate(sql: Sql, company: string): Promise<LateMonth[]> {
  return sql<LateMonth[]>`
    with taken as (delete from late_usage where company_id = ${company} returning billing_month, request_id)
    select to_char(billing_month, 'YYYY-MM-DD') as month, array_agg(request_id::text order by request_id) as request_ids
    from taken group by 1 order by 1`;
}
