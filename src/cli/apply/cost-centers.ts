import { readBudgetedCostCenter } from '../../domain/request/cost-center.ts';
import { removeCostCenterBudget, setCostCenterBudget } from '../../operations/cost-center.ts';
import { listCostCenterBudgets } from '../../store/company/cost-center.ts';
import type { Sql } from '../../store/connection/pool.ts';
import type { WantedCostCenter } from './wanted.ts';

/** What is to be done about the budget of one cost centre. */
interface CostCenterStep {
  /** The place of its entry in the list. */
  readonly n: number;
  readonly done: 'create' | 'change' | 'remove';
  /** In the spelling of the ledger. */
  readonly name: string;
  readonly now: object;
  readonly wanted: Pick<WantedCostCenter, 'monthly_budget_eur'>;
  run(): Promise<unknown>;
}

/** A step for each entry, but for budgets to be removed that are not there. Changes may be of nothing. */
export async function costCenterSteps(
  sql: Sql,
  company: string,
  all: readonly WantedCostCenter[],
): Promise<CostCenterStep[]> {
  const rows = await listCostCenterBudgets(sql, [company]);
  return all.flatMap(({ absent, name: given, ...wanted }, n): CostCenterStep[] => {
    const name = readBudgetedCostCenter(given); // schema.ts has let it pass
    const row = rows.find((each) => each.name === name);
    if (absent) {
      const run = () => removeCostCenterBudget(sql, company, name);
      return row === undefined ? [] : [{ n, done: 'remove', name, now: {}, wanted: {}, run }];
    }
    const monthly_budget_eur = wanted.monthly_budget_eur as string; // nothing is run without it
    const run = () => setCostCenterBudget(sql, company, { name, monthly_budget_eur });
    return [{ n, done: row === undefined ? 'create' : 'change', name, now: row ?? {}, wanted, run }];
  });
}
