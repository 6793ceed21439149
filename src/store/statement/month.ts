import type { CompanyMonth } from '../../domain/documents/month-end.ts';
import { addMonths } from '../../domain/reports/day-range.ts';
import type { Sql } from '../connection/pool.ts';

/** A month of all companies: the statements that there are, and those that are still to be made. EUR is exact decimal text. */

/** Sums over the companies of a month. */
export interface MonthSums
  extends Pick<CompanyMonth, 'requests' | 'cost_eur' | 'corrections' | 'total_eur'> {
  readonly companies: number;
  /** Those that have a statement, and whose owners opened it. */
  readonly closed: number;
  readonly opened: number;
}

/** All that one has to know before a month is closed. */
export interface MonthEnd {
  readonly sums: MonthSums;
  /** The total of the month before; null: it has none. */
  readonly before_eur: string | null;
  /** Earlier months that are open, "2026-09", and for how many companies; the earliest first. */
  readonly earlier: readonly { readonly month: string; readonly open: number }[];
  /** Models whose calls of the month had tokens, and cost nothing. */
  readonly free_models: readonly string[];
}

/** The rows of a month, as a part of a statement, with the columns of its company: texts are for whoever selects. @param month its first day */
export function companyMonths(sql: Sql, month: string) {
  // the ledger is read only for calls that came late, and apart from sums: it may be on other servers
  return sql`
    with waiting as materialized (
      select company_id, count(*) as calls, sum(cost_eur) as eur
      from late_usage join api_usage using (company_id, billing_month, request_id)
      where billing_month < ${month}::date and company_id <> all (array(
        select company_id from statements where billing_month >= ${month}::date))
      group by 1
    )
    select m.*, name as company_name, customer_number, vat_id from (
      select company_id, number, closed_at, digest, opened_at, opened_by, requests, cost_eur, corrections, total_eur
      from statements where billing_month = ${month}::date
      union all
      select company_id, null, null, null, null, null, coalesce(requests, 0), coalesce(api_cost_eur, 0), coalesce(calls, 0),
        coalesce(api_cost_eur, 0) + coalesce(eur, 0)
      from (
        select company_id, requests, api_cost_eur from monthly_spend
        where billing_month = ${month}::date and statement is null and requests > 0) booked
      full join waiting using (company_id)) m
    left join companies c on c.id = company_id`;
}

/** The columns of CompanyMonth, of `companyMonths`. */
export function companyMonthColumns(sql: Sql) {
  return sql`company_id, company_name, customer_number, vat_id, number::float8 as number, closed_at, requests::float8 as requests,
    trim_scale(cost_eur)::text as cost_eur, corrections::float8 as corrections, trim_scale(total_eur)::text as total_eur,
    encode(digest, 'hex') as digest, opened_at, opened_by`;
}

/** All companies of a month by name. @param month its first day */
export function readCompanyMonths(sql: Sql, month: string): PromiseLike<CompanyMonth[]> {
  return sql<CompanyMonth[]>`
    select ${companyMonthColumns(sql)} from (${companyMonths(sql, month)}) m order by company_name nulls last, company_id`;
}

/** @param month its first day */
export async function readMonthEnd(sql: Sql, month: string): Promise<MonthEnd> {
  const sums = await readSums(sql, month);
  const { companies, total_eur } = await readSums(sql, addMonths(month, -1));
  const free = await sql<{ model_slug: string }[]>`
    select model_slug from usage_model_days where billing_month = ${month}::date group by 1
    having sum(cost_eur) = 0 and sum(prompt_tokens + completion_tokens) > 0 order by model_slug collate "C" limit 50`;
  const earlier = await sql<MonthEnd['earlier']>`
    select to_char(billing_month, 'YYYY-MM') as month, count(*)::integer as open from monthly_spend
    where billing_month < ${month}::date and statement is null and requests > 0
    group by billing_month order by billing_month limit 120`;
  return {
    sums,
    before_eur: companies === 0 ? null : total_eur,
    earlier,
    free_models: free.map(({ model_slug }) => model_slug),
  };
}

async function readSums(sql: Sql, month: string): Promise<MonthSums> {
  const [row] = await sql<[MonthSums]>`
    select count(*)::integer as companies, count(number)::integer as closed, count(opened_at)::integer as opened,
      coalesce(sum(requests), 0)::float8 as requests, trim_scale(coalesce(sum(cost_eur), 0))::text as cost_eur,
      coalesce(sum(corrections), 0)::float8 as corrections, trim_scale(coalesce(sum(total_eur), 0))::text as total_eur
    from (${companyMonths(sql, month)}) m`;
  return row;
}

/** Notes that an owner opened a statement, unless one did before. */
export async function updateOpened(
  sql: Sql,
  company: string,
  number: number,
  by: string,
): Promise<void> {
  await sql`
    update statements set opened_at = now(), opened_by = ${by}
    where company_id = ${company} and number = ${number} and opened_at is null`;
}
