import {
  makeStatement,
  type PricedTokens,
  parseStatement,
  type Statement,
  type StatementLine,
} from '../../domain/documents/statement.ts';
import { COST_PARTS } from '../../domain/pricing/parts.ts';
import { throwConflict } from '../../domain/refusal.ts';
import * as schema from '../../domain/settings/schema.ts';
import { ledgerName } from '../company/company.ts';
import { utcMicrosecond } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { CHARGED, HAS_PARTS, PART_SUMS } from './cost.ts';

/** A statement in a list. */
export const STATEMENT = schema.object({
  company_id: schema.id,
  number: {
    type: 'integer',
    minimum: 1,
    description: 'without a gap for each company',
  } as schema.Schema<number>,
  month: schema.month,
  closed_at: schema.instant,
  requests: schema.count,
  cost_eur: schema.sum,
  corrections: schema.described(schema.count, 'late calls of earlier months'),
  total_eur: schema.described(schema.sum, 'EUR of the month and its corrections'),
  digest: schema.written('^[0-9a-f]{64}$', 'SHA-256 in hex'),
  opened_at: schema.described(
    schema.orNull(schema.instant),
    'when an owner first opened or downloaded it',
  ),
  opened_by: schema.described(schema.textOrNull, 'which owner'),
  later: schema.array(
    schema.object({
      statement: schema.orNull<number>({ type: 'integer' }),
      requests: schema.count,
      cost_eur: schema.sum,
    }),
    'calls of this month that came after it was closed; statement null: they will be on the next one',
  ),
});
export type StatementRow = schema.Value<typeof STATEMENT>;
export type LaterCalls = StatementRow['later'][number];

/** A statement and its document. */
export interface StoredStatement extends StatementRow {
  /** As it was stored: its SHA-256 is the digest. */
  readonly text: string;
}

/** A key as it is named today; null for one that was deleted. */
export interface KeyName {
  readonly name: string;
  readonly prefix: string;
}

/** A month of a company as people read it. */
export interface ShownMonth {
  /** null: the month is open. */
  readonly stored: StoredStatement | null;
  /** The stored statement, or a preview. */
  readonly statement: Statement;
  readonly names: ReadonlyMap<string, KeyName>;
}

/**
 * How large a statement may be for a process that others share: each call may name a cost centre of its own, and so
 * make a line. Commands have no bound.
 */
export const SHARED_BOUND = { lines: 20_000, bytes: 16 << 20 };
export type StatementBound = typeof SHARED_BOUND;
const NO_BOUND: StatementBound = { lines: 2e9, bytes: 2e9 }; // more than Postgres can hold in one value
const ID_BYTES = 39; // of the id of a request in a document

/** @param month its first day @throws Refused missing, or conflict beyond the bound */
export async function readMonthOf(
  sql: Sql,
  company: string,
  month: string,
  bound = NO_BOUND,
): Promise<ShownMonth> {
  const stored = await statementOf(sql, company, month, bound);
  const statement =
    stored === null
      ? await previewStatement(sql, company, month, bound)
      : parseStatement(stored.text);
  return { stored, statement, names: await keyNames(sql, company, statement) };
}

/** The latest statements of a company, and its months that lack one. */
export async function statementsOf(sql: Sql, company: string) {
  return {
    statements: await listStatements(sql, company),
    open_months: await openMonths(sql, company),
  };
}

/** The statements of a company, the latest first. @param before numbers below this one; null: all */
export function listStatements(
  sql: Sql,
  company: string,
  {
    before = null,
    limit = 1000,
  }: { readonly before?: number | null; readonly limit?: number } = {},
): PromiseLike<StatementRow[]> {
  return sql<StatementRow[]>`
    select ${columns(sql)} from statements s
    where company_id = ${company} and (${before}::bigint is null or number < ${before}) order by s.number desc limit ${limit}`;
}

/** Months with calls that no statement covers, "2026-09", the earliest first; not the present month. */
export async function openMonths(sql: Sql, company: string): Promise<string[]> {
  const rows = await sql<{ month: string }[]>`
    select to_char(billing_month, 'YYYY-MM') as month from monthly_spend
    where company_id = ${company} and statement is null and requests > 0 and billing_month < billing_month(now()) order by 1`;
  return rows.map(({ month }) => month);
}

/**
 * The statement of a month, or null while it is open.
 * @param month its first day
 * @throws Refused conflict beyond the bound
 */
export async function statementOf(
  sql: Sql,
  company: string,
  month: string,
  { bytes } = NO_BOUND,
): Promise<StoredStatement | null> {
  const [row] = await sql<(StoredStatement | (StatementRow & { readonly text: null }))[]>`
    select ${columns(sql)}, case when octet_length(content) <= ${bytes} then content end as text
    from statements s where company_id = ${company} and billing_month = ${month}`;
  return row === undefined ? null : row.text === null ? throwTooLong(company, month) : row;
}

function throwTooLong(company: string, month: string): never {
  const which = `--company ${company} --month ${month.slice(0, 7)}`;
  throwConflict(
    'statement',
    `This month has too many lines by model, key and cost centre, or late calls, to be handled here. The usage page has their sums; an operator prints all lines with "tollgate statement ${which}", and closes the month with "tollgate statement close ${which}".`,
  );
}

/**
 * The statement of an open month as it would be now, without number, seals and digest.
 * @throws Refused missing, or conflict beyond the bound
 */
export async function previewStatement(
  sql: Sql,
  company: string,
  month: string,
  bound = NO_BOUND,
): Promise<Statement> {
  await ledgerName(sql, company);
  await requireFewLate(sql, company, month, bound);
  const late = await sql<LateMonth[]>`
    select to_char(billing_month, 'YYYY-MM-DD') as month, array_agg(request_id::text order by request_id) as request_ids
    from late_usage where company_id = ${company} group by 1 order by 1`;
  return makeStatement({
    company_id: company,
    number: null,
    month: month.slice(0, 7),
    billing_timezone: await zoneOf(sql),
    closed_at: null,
    opening_seals: null,
    closing_seals: null,
    previous: null,
    rows: null,
    lines: await readStatementLines(sql, company, month, null, bound),
    corrections: await correctionsOf(sql, company, month, late, bound),
  });
}

/** Present names of a statement's keys by id. They are not in the document: names change, and may be erased. */
async function keyNames(
  sql: Sql,
  company: string,
  { lines, corrections }: Statement,
): Promise<Map<string, KeyName>> {
  const ids = [
    ...new Set([...lines, ...corrections.flatMap((each) => each.lines)].map(({ key }) => key)),
  ];
  const rows = await sql<(KeyName & { id: string })[]>`
    select id, name, prefix from api_keys where company_id = ${company} and id = any(${ids}::uuid[])`;
  return new Map(rows.map(({ id, ...key }) => [id, key]));
}

/** Late rows of one month. */
export interface LateMonth {
  /** "2026-09-01". */
  readonly month: string;
  readonly request_ids: readonly string[];
}

/**
 * Refuses more late rows than a statement of the month may name.
 * @throws Refused conflict beyond the bound
 */
export async function requireFewLate(
  sql: Sql,
  company: string,
  month: string,
  { bytes } = NO_BOUND,
): Promise<void> {
  const [{ late }] = await sql<[{ late: number }]>`
    select count(*)::float8 as late from late_usage where company_id = ${company}`;
  if (late * ID_BYTES > bytes) throwTooLong(company, month);
}

/** The corrections that late rows make in the statement of a month. @throws Refused conflict beyond the bound */
export async function correctionsOf(
  sql: Sql,
  company: string,
  month: string,
  late: readonly LateMonth[],
  bound = NO_BOUND,
) {
  const corrections = [];
  for (const { month: corrected, request_ids } of late) {
    const [closed] = await sql<{ number: number }[]>`
      select number::float8 as number from statements where company_id = ${company} and billing_month = ${corrected}`;
    const lines = await readStatementLines(sql, company, corrected, request_ids, bound, month);
    corrections.push({
      month: corrected.slice(0, 7),
      statement: closed?.number as number,
      lines,
      request_ids,
    });
  }
  return corrections;
}

/**
 * The ledger rows of a month by model, key and cost centre; with the parts of their costs, if one has a price besides those of input and output.
 * @param requests these alone; null: all
 * @param statement month of the statement that they are for
 * @throws Refused conflict beyond the bound
 */
export async function readStatementLines(
  sql: Sql,
  company: string,
  month: string,
  requests: readonly string[] | null,
  { lines: most } = NO_BOUND,
  statement = month,
): Promise<StatementLine[]> {
  const lines = await sql<(StatementLine & { readonly parts: StatementLine['parts'] | null })[]>`
    select model_slug as model, api_key_id as key, cost_center, count(*)::float8 as requests,
      sum(prompt_tokens)::float8 as prompt_tokens, sum(completion_tokens)::float8 as completion_tokens,
      trim_scale(sum(cost_eur))::text as cost_eur,
      case when bool_or(bool_or(${sql.unsafe(HAS_PARTS)})) over () then ${sql.unsafe(PART_SUMS)} end as parts
    from api_usage where billing_month = ${month} and company_id = ${company}
      and (${requests === null} or request_id = any(${requests === null ? [] : [...requests]}::uuid[]))
    group by 1, 2, 3 order by model_slug collate "C", api_key_id, cost_center collate "C" limit ${most + 1}`;
  if (lines.length > most) throwTooLong(company, statement);
  return lines.map(({ parts, ...line }) => (parts == null ? line : { ...line, parts }));
}

/** The tokens of a month by model, part of the cost and unit price. @throws Refused conflict beyond the bound */
export async function readCharges(
  sql: Sql,
  company: string,
  month: string,
  { lines: most } = NO_BOUND,
): Promise<PricedTokens[]> {
  const parts = COST_PARTS.map(
    (part, at) => `(${at}, '${part}', ${CHARGED[part].join(', ')})`,
  ).join(', ');
  const charges = await sql<(PricedTokens & { readonly rate: string | null })[]>`
    select model_slug as model, p.part, rate, trim_scale(p.price)::text as price, sum(p.tokens)::float8 as tokens,
      trim_scale(sum(p.tokens * p.price) * 0.001)::text as cost_eur
    from api_usage, lateral (values ${sql.unsafe(parts)}) as p (place, part, tokens, price)
    where billing_month = ${month} and company_id = ${company} and p.tokens > 0
    group by model_slug, rate, place, p.part, p.price order by model_slug collate "C", rate collate "C" nulls first, place, p.price limit ${most + 1}`;
  if (charges.length > most) throwTooLong(company, month);
  return charges.map(({ rate, ...charge }) =>
    rate === null ? charge : ({ ...charge, rate } as PricedTokens),
  );
}

export async function zoneOf(sql: Sql): Promise<string> {
  const [{ zone }] = await sql<[{ zone: string }]>`
    select value as zone from settings where name = 'billing_timezone'`;
  return zone;
}

function columns(sql: Sql) {
  return sql`company_id, number::float8 as number, to_char(billing_month, 'YYYY-MM') as month,
    ${sql.unsafe(utcMicrosecond('closed_at'))} as closed_at, requests::float8 as requests,
    trim_scale(cost_eur)::text as cost_eur, corrections::float8 as corrections, trim_scale(total_eur)::text as total_eur,
    encode(digest, 'hex') as digest, ${sql.unsafe(utcMicrosecond('opened_at'))} as opened_at, opened_by,
    later_calls(company_id, s.number, billing_month) as later`;
}
