import { refusal, throwConflict } from '../../domain/refusal.ts';
import {
  COST_CENTER,
  type CostCenterBudget,
  type CostCenterColumns,
} from '../../domain/settings/cost-center.ts';
import { namesOf } from '../../domain/settings/schema.ts';
import { namedColumns, settingColumns } from '../connection/columns.ts';
import type { Sql } from '../connection/pool.ts';
import { rowsIn } from '../connection/rows.ts';

/** What a cost centre may cost in a month before somebody is told. Members are columns of cost_center_budgets. */
export interface CostCenterBudgetRow extends CostCenterColumns {
  readonly id: string;
  readonly company_id: string;
  /** As calls name it, in the spelling of the ledger. */
  readonly name: string;
  readonly created_at: Date;
}

const SETTINGS = namesOf(COST_CENTER);

const ROWS = rowsIn<CostCenterBudgetRow>({
  table: 'cost_center_budgets',
  noun: 'cost centre budget',
  columns: (sql) => sql`id, company_id, name, ${settingColumns(sql, COST_CENTER)}, created_at`,
});

export const { find: findCostCenterBudget, columns: budgetColumns } = ROWS;

/** @throws Refused where the cost centre has a budget, or the company does not exist */
export function insertCostCenterBudget(
  sql: Sql,
  company_id: string,
  { name, ...settings }: CostCenterBudget,
) {
  return ROWS.insert(sql, namedColumns(sql, settings, SETTINGS, { company_id, name }), company_id, {
    cost_center_budgets_once: () =>
      throwConflict('cost centre budget', refusal('costCenterTwice', { name })),
  });
}

/** @throws Refused missing */
export function updateCostCenterBudget(sql: Sql, id: string, settings: CostCenterColumns) {
  return ROWS.update(sql, namedColumns(sql, settings, SETTINGS), id);
}

/** @returns what it was; null: there is none */
export async function deleteCostCenterBudget(sql: Sql, company: string, name: string) {
  const [row] = await sql<CostCenterBudgetRow[]>`
    delete from cost_center_budgets where company_id = ${company} and name = ${name} returning ${budgetColumns(sql)}`;
  return row ?? null;
}

/** The budget of a cost centre by its name; null: it has none. */
export async function costCenterBudgetOf(
  sql: Sql,
  company: string,
  name: string,
): Promise<CostCenterBudgetRow | null> {
  const [row] = await ROWS.list(sql, sql`where company_id = ${company} and name = ${name}`);
  return row ?? null;
}

/** All of some companies, or of all, by name. A company has a bounded number. @param companies null: all */
export function listCostCenterBudgets(
  sql: Sql,
  companies: readonly string[] | null,
): Promise<CostCenterBudgetRow[]> {
  const chosen = companies === null ? sql`true` : sql`company_id = any(${[...companies]}::uuid[])`;
  return ROWS.list(sql, sql`where ${chosen} order by company_id, name`);
}

export async function countCostCenterBudgets(sql: Sql, company: string): Promise<number> {
  const [row] = await sql<[{ count: number }]>`
    select count(*)::integer as count from cost_center_budgets where company_id = ${company}`;
  return row.count;
}
