import { addMonths, wholeMonth } from '../../domain/reports/day-range.ts';
import { budgetColumns, type CostCenterBudgetRow } from '../company/cost-center.ts';
import { matching } from '../connection/columns.ts';
import type { Sql } from '../connection/pool.ts';
import { forecast, presentMonth } from '../connection/present-month.ts';
import { type Finding, type Found, foundOf, MOST_OF_KIND } from '../lists/search.ts';
import { searchPattern } from '../lists/search-pattern.ts';
import { type BudgetState, readPresentMonth } from './company-usage.ts';
import { NO_FILTERS, readCube } from './cube.ts';

/** What cost centres spent of their budgets. API calls alone: in-app chat names no cost centre. */

/** A budget, and what was spent of it in the present month: exact decimal text. */
export type SpentBudget = CostCenterBudgetRow & { readonly spent_eur: string };

/** The budgets of a company's cost centres, by name. */
export async function listSpentBudgets(sql: Sql, company: string): Promise<SpentBudget[]> {
  const range = wholeMonth(await readPresentMonth(sql));
  // read by itself: the sums may be on another server than the budgets
  return sql<SpentBudget[]>`
    with sums as materialized (${readCube(sql, { company, range, by: ['cost_center'], measures: ['cost_eur'] })})
    select ${budgetColumns(sql)}, trim_scale(coalesce(cost_eur, 0))::text as spent_eur
    from cost_center_budgets b left join sums s on s.cost_center = b.name where company_id = ${company} order by b.name`;
}

/** What a cost centre spent in the present month, of its budget where it has one, and the forecast. */
export type CostCenterState = Omit<BudgetState, 'chat_percent'>;

/** @param name empty: of calls that name none */
export async function readCostCenterState(
  sql: Sql,
  company: string,
  name: string,
): Promise<CostCenterState> {
  const range = wholeMonth(await readPresentMonth(sql));
  const filters = { ...NO_FILTERS, cost_center: name };
  const [row] = await sql<[CostCenterState]>`
    with month as materialized (${presentMonth(sql)}),
    sums as materialized (
      select coalesce(sum(cost_eur), 0) as spent
      from (${readCube(sql, { company, filters, range, by: ['cost_center'], measures: ['cost_eur'] })}) s
    ),
    state as (
      select first, spent, ${forecast(sql)} as forecast, (
        select monthly_budget_eur from cost_center_budgets where company_id = ${company} and name = ${name}) as budget
      from sums, month
    )
    select to_char(first, 'YYYY-MM-DD') as month, trim_scale(spent)::text as spent_eur, trim_scale(budget)::text as budget_eur,
      forecast::text as forecast_eur, trunc(spent * 100 / budget, 1)::float8 as total_percent,
      round(forecast * 100 / budget, 1)::float8 as forecast_percent
    from state`;
  return row;
}

/** First days of the months in which a company used anything, and of the present one; newest first. */
export async function readUsedMonths(sql: Sql, company: string): Promise<string[]> {
  const rows = await sql<{ month: string }[]>`
    select to_char(month, 'YYYY-MM-DD') as month from (
      select billing_month as month from monthly_spend
      where company_id = ${company} and billing_month between '0001-01-01' and '9999-12-01'
      union select billing_month(now())) known
    order by known.month desc`;
  return rows.map(({ month }) => month);
}

/**
 * Cost centres by name, whatever case and accents: those with a budget, and those of calls of this month or the last.
 * @param company looks among its own alone; null: among all
 */
export async function findCostCenters(
  sql: Sql,
  text: string,
  company: string | null,
): Promise<Found[]> {
  const pattern = searchPattern(text);
  const { from, to } = wholeMonth(await readPresentMonth(sql));
  const called = readCube(sql, {
    company,
    range: { from: addMonths(from, -1), to },
    where: { columns: ['cost_center'], holds: sql`cost_center <> '' and cost_center ~ ${pattern}` },
    by: ['company_id', 'cost_center'],
    measures: ['requests'],
  });
  // read by itself: the sums may be on another server than the budgets
  const rows = await sql<Omit<Finding, 'kind'>[]>`
    with called as materialized (${called}),
    named as (
      select company_id, cost_center as name from called
      union select company_id, name from cost_center_budgets where name ~ ${pattern} ${matching(sql, { company_id: company })}
    )
    select n.name as id, n.name, '' as detail, company_id, c.name as company_name
    from named n join companies c on c.id = company_id
    order by lower(n.name) = ${text.toLowerCase()} desc, n.name, c.name, company_id limit ${MOST_OF_KIND + 1}`;
  return foundOf('cost_center', rows);
}
