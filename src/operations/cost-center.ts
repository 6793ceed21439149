import { refusal } from '../domain/input/refusal.ts';
import { readBudgetedCostCenter } from '../domain/request/cost-center.ts';
import { throwConflict } from '../domain/text/refused-change.ts';
import { findCompany } from '../store/company/company.ts';
import {
  type CostCenterBudgetRow,
  costCenterBudgetOf,
  countCostCenterBudgets,
  createCostCenterBudget,
  deleteCostCenterBudget,
  findCostCenterBudget,
  setCostCenterAmount,
} from '../store/company/cost-center.ts';
import { lockName } from '../store/company/idempotent-form.ts';
import type { Sql } from '../store/connection/pool.ts';
import { listSpentBudgets } from '../store/usage/cost-center.ts';
import {
  get,
  getOne,
  type Operation,
  type PageQuery,
  pageOfAll,
  patch,
  post,
  type Resource,
  remove,
} from './operation.ts';
import * as schema from './schemas.ts';

/** What cost centres may cost in a month before somebody is told. No call is refused by it. */

/** The most of one company: a look at its budgets, a page and a file have all of them. */
export const MOST_COST_CENTER_BUDGETS = 1000;

const budget = {
  id: schema.id,
  company_id: schema.id,
  name: { ...schema.string, description: 'in the spelling of the ledger' },
  monthly_budget_eur: schema.aboveZero,
  created_at: schema.instant,
};
const ONE_BUDGET = schema.object(budget);
const LIST = '/companies/{company}/cost-center-budgets';
const ONE = `${LIST}/{budget}`;
const FOUND: Resource = {
  table: 'cost_center_budgets',
  param: 'budget',
  find: (sql, { params }) => findCostCenterBudget(sql, params.company as string, params.budget as string),
};

type Asked = Pick<CostCenterBudgetRow, 'name' | 'monthly_budget_eur'>;

export const costCenterOperations: readonly Operation[] = [
  get<PageQuery>('listCostCenterBudgets', LIST, {
    summary:
      'List the budgets of a company’s cost centres, and what was spent of each in the present month. What the others cost is in getUsage',
    action: 'usage.read',
    query: schema.listQuery(),
    answer: schema.pageOf(schema.object({ ...budget, spent_eur: schema.sum })),
    async run(sql, { params, query }) {
      const { id } = await findCompany(sql, params.company as string);
      return pageOfAll(query, await listSpentBudgets(sql, id));
    },
  }),
  post<Asked>('createCostCenterBudget', LIST, {
    summary:
      'Give a cost centre a monthly budget: alerts tell when a part of it is spent, and no call is refused. There need be no call that names it',
    action: 'cost-center.write',
    body: schema.object({ name: schema.costCenter, monthly_budget_eur: schema.aboveZero }),
    answer: ONE_BUDGET,
    status: 201,
    run(sql, { params, body }) {
      return addCostCenterBudget(sql, params.company as string, { ...body, name: readBudgetedCostCenter(body.name) });
    },
  }),
  getOne('getCostCenterBudget', ONE, FOUND, {
    summary: 'Read the budget of a cost centre',
    action: 'usage.read',
    answer: ONE_BUDGET,
  }),
  patch<Pick<Asked, 'monthly_budget_eur'>>('changeCostCenterBudget', ONE, {
    summary: 'Change the budget of a cost centre',
    action: 'cost-center.write',
    body: schema.object({ monthly_budget_eur: schema.aboveZero }),
    answer: ONE_BUDGET,
    resource: FOUND,
    run: (sql, { params, body }) =>
      setCostCenterAmount(sql, params.company as string, params.budget as string, body.monthly_budget_eur),
  }),
  remove('removeCostCenterBudget', ONE, {
    summary: 'Remove the budget of a cost centre. What it spent stays as it is',
    action: 'cost-center.write',
    resource: FOUND,
    run: (sql, { params }) => deleteCostCenterBudget(sql, params.company as string, params.budget as string),
  }),
];

/**
 * Gives a cost centre a budget.
 * @param asked a name of `readBudgetedCostCenter`, and an amount above 0
 * @throws RefusedChange where it has one, or the company has as many as it may have
 */
export async function addCostCenterBudget(sql: Sql, company: string, asked: Asked): Promise<CostCenterBudgetRow> {
  await lockName(sql, `budgets of cost centres of ${company}`); // two at once would each be the last
  if ((await countCostCenterBudgets(sql, company)) >= MOST_COST_CENTER_BUDGETS) {
    throwConflict('cost centre budget', refusal('mostCostCenters', { most: MOST_COST_CENTER_BUDGETS }));
  }
  return createCostCenterBudget(sql, { ...asked, company_id: company });
}

/** Gives a cost centre this budget, whether it has one or not. As `addCostCenterBudget`. */
export async function setCostCenterBudget(sql: Sql, company: string, asked: Asked): Promise<CostCenterBudgetRow> {
  const present = await costCenterBudgetOf(sql, company, asked.name);
  if (present === null) return addCostCenterBudget(sql, company, asked);
  return setCostCenterAmount(sql, company, present.id, asked.monthly_budget_eur);
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
