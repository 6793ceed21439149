import type { Moment } from '../../domain/price.ts';
import { throwNotFound, unknownCompany } from '../../domain/refusal.ts';
import * as schema from '../../domain/settings/schema.ts';
import { explaining } from '../connection/errors.ts';
import type { Sql } from '../connection/pool.ts';
import { rowsIn } from '../connection/rows.ts';
import { outside } from '../connection/tenant-role.ts';
import { type DatedPrice, instantOf, throwBegun } from './price.ts';

/** A factor on the prices of a company since an instant. The tenant role may not read all of it. */
export const DATED_FACTOR = schema.object({
  id: schema.id,
  company_id: schema.id,
  valid_from: schema.time,
  factor: schema.priceFactor,
  changed_by: schema.string,
  created_at: schema.time,
  begun: schema.described(schema.boolean, 'false: it can be withdrawn'),
});
export type PriceFactorRow = schema.Value<typeof DATED_FACTOR>;

const ROWS = rowsIn<PriceFactorRow>({
  table: 'company_price_factors',
  noun: 'price',
  columns: (
    sql,
  ) => sql`id, company_id, valid_from, trim_scale(factor)::text as factor, changed_by, created_at,
    valid_from <= clock_timestamp() as begun`,
});

/** All factors of a company, the latest first; none: always 1. */
export function factorHistory(sql: Sql, company: string): Promise<PriceFactorRow[]> {
  return ROWS.list(sql, sql`where company_id = ${company} order by valid_from desc`);
}

/** All factors to come of all companies, in the order of their dates. */
export async function comingFactors(sql: Sql) {
  return sql<{ company_id: string; valid_from: string; factor: string }[]>`
    select company_id, utc_text(valid_from) as valid_from, trim_scale(factor)::text as factor
    from company_price_factors f where not applied and valid_from > now() order by f.valid_from`;
}

/** The factor of a company that begins at a moment, and the moment, as `DatedPrice` has it. @param company null: it has none */
export async function datedFactor(sql: Sql, company: string | null, from: Moment) {
  type Dated = Pick<DatedPrice, 'at' | 'passed' | 'late'> & { readonly factor: string | null };
  const [dated] = await sql<Dated[]>`
    select at, at <= now() as passed, at < now() + interval '1 minute' as late, trim_scale(f.factor)::text as factor
    from (select ${instantOf(sql, from)} as at) asked
    left join company_price_factors f on f.company_id = ${company} and date_trunc('milliseconds', f.valid_from) = at`;
  return dated as Dated;
}

/** Lets a factor begin at a date, in place of one that was to begin at the same instant. @throws Refused */
export function insertFactor(
  sql: Sql,
  company: string,
  factor: string,
  from: Moment,
): Promise<PriceFactorRow> {
  return ROWS.insert(
    sql,
    sql`(company_id, valid_from, factor) values (${company}, ${instantOf(sql, from)}, ${factor})
      on conflict (company_id, valid_from) do update set factor = excluded.factor`,
    company,
    { ...BEGUN, price_factor_company: () => unknownCompany(company) },
  );
}

/** @throws Refused missing, or conflict when it has begun */
export async function deleteFactor(
  sql: Sql,
  company: string,
  which: { id: string } | { from: Moment },
): Promise<PriceFactorRow> {
  const named =
    'id' in which
      ? sql`id = ${which.id}`
      : sql`date_trunc('milliseconds', valid_from) = ${instantOf(sql, which.from)}`;
  const [row] = await explaining(
    sql<PriceFactorRow[]>`
      delete from company_price_factors where company_id = ${company} and ${named} returning ${ROWS.columns(sql)}`,
    BEGUN,
  );
  return row ?? throwNotFound('price', 'There is no such price factor to come.');
}

const BEGUN = { price_factor_begun: () => throwBegun('A price factor') };

/** What API calls cost, and the factor that was in their prices. */
export interface FactoredCost {
  readonly cost_eur: string;
  readonly factor: string;
}

/**
 * The billing month before the present one, "2026-10", and what its API calls cost, by the factors that held in it. Where
 * one held all the time that is the sum of the month; else its rows are added up.
 */
export function lastMonthByFactor(
  sql: Sql,
  company: string,
): Promise<{ month: string; costs: FactoredCost[] }> {
  return outside(sql, () => monthByFactor(sql, company));
}

async function monthByFactor(
  sql: Sql,
  company: string,
): Promise<{ month: string; costs: FactoredCost[] }> {
  type Part = Record<'month' | 'factor', string> & Record<'since' | 'until', string | null>;
  const parts = await sql<[Part, ...Part[]]>`
    with asked as (
      select (billing_month(now()) - interval '1 month')::date as month, value as zone from settings where name = 'billing_timezone'),
    span as (
      select month, month::timestamp at time zone zone as first, (month + interval '1 month') at time zone zone as after from asked),
    begins as (
      select first as at from span union
      select valid_from from company_price_factors, span where company_id = ${company} and valid_from > first and valid_from < after)
    select month::text, nullif(at, first)::text as since, lead(at) over (order by at)::text as until, trim_scale(factor)::text as factor
    from begins, span, price_factor(${company}, at) order by at`;
  const costs: FactoredCost[] = [];
  const [{ month }] = parts;
  for (const { since, until, factor } of parts) {
    const [row] =
      parts.length === 1
        ? await sql<FactoredCost[]>`
          select trim_scale(api_cost_eur)::text as cost_eur from monthly_spend where company_id = ${company} and billing_month = ${month}`
        : await sql<FactoredCost[]>`
          select trim_scale(coalesce(sum(cost_eur), 0))::text as cost_eur from api_usage
          where company_id = ${company} and billing_month = ${month}
            and occurred_at >= ${since ?? '-infinity'}::text::timestamptz and occurred_at < ${until ?? 'infinity'}::text::timestamptz`;
    costs.push({ cost_eur: row?.cost_eur ?? '0', factor });
  }
  return { month: month.slice(0, 7), costs };
}
