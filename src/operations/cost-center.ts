import { refusal, throwConflict } from '../domain/refusal.ts';
import type { CostCenterBudget } from '../domain/settings/cost-center.ts';
import {
  type CostCenterBudgetRow,
  costCenterBudgetOf,
  countCostCenterBudgets,
  insertCostCenterBudget,
  updateCostCenterBudget,
} from '../store/company/cost-center.ts';
import { lockName } from '../store/company/idempotent-form.ts';
import type { Sql } from '../store/connection/pool.ts';

export const MOST_COST_CENTER_BUDGETS = 1000;

/** Gives a cost centre a budget. @throws RefusedChange where it has one, or the company has as many as it may have */
export async function createCostCenterBudget(
  sql: Sql,
  company: string,
  asked: CostCenterBudget,
): Promise<CostCenterBudgetRow> {
  await lockName(sql, `budgets of cost centres of ${company}`); // two at once would each be the last
  if ((await countCostCenterBudgets(sql, company)) >= MOST_COST_CENTER_BUDGETS) {
    throwConflict(
      'cost centre budget',
      refusal('mostCostCenters', { most: MOST_COST_CENTER_BUDGETS }),
    );
  }
  return insertCostCenterBudget(sql, company, asked);
}

/** Gives a cost centre this budget, whether it has one or not. As `createCostCenterBudget`. */
export async function setCostCenterBudget(
  sql: Sql,
  company: string,
  asked: CostCenterBudget,
): Promise<CostCenterBudgetRow> {
  const present = await costCenterBudgetOf(sql, company, asked.name);
  return present === null
    ? createCostCenterBudget(sql, company, asked)
    : updateCostCenterBudget(sql, present.id, asked);
}

/** Removes the budget of a cost centre; what it spent stays. */
export { deleteCostCenterBudget as removeCostCenterBudget } from '../store/company/cost-center.ts';
