import { refusal, throwConflict, throwNotFound, unknownCompany } from '../../domain/refusal.ts';
import { COST_CENTER, type CostCenterBudget, type CostCenterColumns } from '../../domain/settings/cost-center.ts';
import { namesOf } from '../../domain/settings/schema.ts';
import { given, settingColumns } from '../connection/columns.ts';
import { explaining } from '../connection/errors.ts';
import type { Sql } from '../connection/pool.ts';

/** What a cost centre may cost in a month before somebody is told. Members are columns of cost_center_budgets. */
export interface CostCenterBudgetRow extends CostCenterColumns {
  readonly id: string;
  readonly company_id: string;
  /** As calls name it, in the spelling of the ledger. */
  readonly name: string;
  readonly created_at: Date;
}

const SETTINGS = namesOf(COST_CENTER);

/** @throws RefusedChange where the cost centre has a budget, or the company does not exist */
export async function insertCostCenterBudget(sql: Sql, company_id: string, asked: CostCenterBudget) {
  const { name, ...settings } = asked;
  const [row] = await explaining(
    sql<CostCenterBudgetRow[]>`
      insert into cost_center_budgets ${given(sql, settings, SETTINGS, { company_id, name })}
      returning ${budgetColumns(sql)}`,
    {
      cost_center_budgets_once: () => throwConflict('cost centre budget', refusal('costCenterTwice', { name })),
      cost_center_budgets_company_id_fkey: () => unknownCompany(company_id),
    },
  );
  return row as CostCenterBudgetRow;
}

/** @throws RefusedChange not_found */
export async function updateCostCenterBudget(sql: Sql, company: string, { name, ...settings }: CostCenterBudget) {
  const [row] = await sql<CostCenterBudgetRow[]>`
    update cost_center_budgets set ${given(sql, settings, SETTINGS)}
    where company_id = ${company} and name = ${name} returning ${budgetColumns(sql)}`;
  return row ?? throwNotFound('cost centre budget');
}

/** @returns what it was; null: there is none */
export async function deleteCostCenterBudget(sql: Sql, company: string, name: string) {
  const [row] = await sql<CostCenterBudgetRow[]>`
    delete from cost_center_budgets where company_id = ${company} and name = ${name} returning ${budgetColumns(sql)}`;
  return row ?? null;
}

/** @throws RefusedChange not_found */
export async function findCostCenterBudget(sql: Sql, company: string, id: string): Promise<CostCenterBudgetRow> {
  const [row] = await sql<CostCenterBudgetRow[]>`
    select ${budgetColumns(sql)} from cost_center_budgets where company_id = ${company} and id = ${id}`;
  return row ?? throwNotFound('cost centre budget');
}

/** The budget of a cost centre by its name; null: it has none. */
export async function costCenterBudgetOf(sql: Sql, company: string, name: string): Promise<CostCenterBudgetRow | null> {
  const [row] = await sql<CostCenterBudgetRow[]>`
    select ${budgetColumns(sql)} from cost_center_budgets where company_id = ${company} and name = ${name}`;
  return row ?? null;
}

/** All of some companies, or of all, by name. A company has a bounded number. @param companies null: all */
export async function listCostCenterBudgets(
  sql: Sql,
  companies: readonly string[] | null,
): Promise<CostCenterBudgetRow[]> {
  return sql<CostCenterBudgetRow[]>`
    select ${budgetColumns(sql)} from cost_center_budgets
    where ${companies === null ? sql`true` : sql`company_id = any(${[...companies]}::uuid[])`} order by company_id, name`;
}

export async function countCostCenterBudgets(sql: Sql, company: string): Promise<number> {
  const [row] = await sql<[{ count: number }]>`
    select count(*)::integer as count from cost_center_budgets where company_id = ${company}`;
  return row.count;
}

/** The columns of a CostCenterBudgetRow. */
export function budgetColumns(sql: Sql) {
  return sql`id, company_id, name, ${settingColumns(sql, COST_CENTER)}, created_at`;
}
