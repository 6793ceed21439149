import { refusal, throwConflict } from '../domain/refusal.ts';
import {
  type CostCenterBudgetRow,
  costCenterBudgetOf,
  countCostCenterBudgets,
  deleteCostCenterBudget,
  insertCostCenterBudget,
  updateCostCenterBudget,
} from '../store/company/cost-center.ts';
import { lockName } from '../store/company/idempotent-form.ts';
import type { Sql } from '../store/connection/pool.ts';

/** No rule is about these. */
export {
  deleteCostCenterBudget as endCostCenterBudget,
  updateCostCenterBudget as changeCostCenterBudget,
} from '../store/company/cost-center.ts';

export const MOST_COST_CENTER_BUDGETS = 1000;

type Asked = Pick<CostCenterBudgetRow, 'name' | 'monthly_budget_eur'>;

/**
 * Gives a cost centre a budget.
 * @param asked a name of `readBudgetedCostCenter`, and an amount above 0
 * @throws RefusedChange where it has one, or the company has as many as it may have
 */
export async function createCostCenterBudget(sql: Sql, company: string, asked: Asked): Promise<CostCenterBudgetRow> {
  await lockName(sql, `budgets of cost centres of ${company}`); // two at once would each be the last
  if ((await countCostCenterBudgets(sql, company)) >= MOST_COST_CENTER_BUDGETS) {
    throwConflict('cost centre budget', refusal('mostCostCenters', { most: MOST_COST_CENTER_BUDGETS }));
  }
  return insertCostCenterBudget(sql, { ...asked, company_id: company });
}

/** Gives a cost centre this budget, whether it has one or not. As `createCostCenterBudget`. */
export async function setCostCenterBudget(sql: Sql, company: string, asked: Asked): Promise<CostCenterBudgetRow> {
  const present = await costCenterBudgetOf(sql, company, asked.name);
  if (present === null) return createCostCenterBudget(sql, company, asked);
  return updateCostCenterBudget(sql, company, present.id, asked.monthly_budget_eur);
}

/** Removes the budget of a cost centre. @returns what it was; null: there is none */
export async function removeCostCenterBudget(
  sql: Sql,
  company: string,
  name: string,
): Promise<CostCenterBudgetRow | null> {
  const present = await costCenterBudgetOf(sql, company, name);
  return present === null ? null : deleteCostCenterBudget(sql, company, present.id);
}
