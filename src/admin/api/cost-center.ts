import { readBudgetedCostCenter } from '../../domain/request/cost-center.ts';
import { COST_CENTER } from '../../domain/settings/cost-center.ts';
import * as schema from '../../domain/settings/schema.ts';
import { schemasOf } from '../../domain/settings/setting.ts';
import {
  createCostCenterBudget,
  removeCostCenterBudget,
  setCostCenterBudget,
} from '../../operations/cost-center.ts';
import { findCostCenterBudget } from '../../store/company/cost-center.ts';
import { listSpentBudgets } from '../../store/usage/cost-center.ts';
import { noun } from './frame/noun.ts';
import { pageOfAll } from './frame/operation.ts';

const budget = {
  id: schema.id,
  company_id: schema.id,
  name: { ...schema.string, description: 'in the spelling of the ledger' },
  ...schemasOf(COST_CENTER),
  created_at: schema.instant,
};

/** What cost centres may cost in a month before somebody is told. No call is refused by it. */
const budgets = noun({
  name: 'CostCenterBudget',
  path: '/companies/{company}/cost-center-budgets',
  param: 'budget',
  table: 'cost_center_budgets',
  answer: schema.object(budget),
  reads: 'usage.read',
  writes: 'cost-center.write',
  find: (sql, company, id) => findCostCenterBudget(sql, id, company),
});

export const costCenterOperations = [
  budgets.list({
    summary:
      'List the budgets of a company’s cost centres, and what was spent of each in the present month. What the others cost is in getUsage',
    row: schema.object({ ...budget, spent_eur: schema.sum }),
    read: async (sql, _call, range, company) =>
      pageOfAll(range, await listSpentBudgets(sql, company)),
  }),
  budgets.create({
    summary:
      'Give a cost centre a monthly budget: alerts tell when a part of it is spent, and no call is refused. There need be no call that names it',
    body: schema.object({ name: schema.costCenter, ...schemasOf(COST_CENTER) }),
    run: (sql, { body }, company) =>
      createCostCenterBudget(sql, company, { ...body, name: readBudgetedCostCenter(body.name) }),
  }),
  budgets.get('Read the budget of a cost centre'),
  budgets.change({
    summary: 'Change the budget of a cost centre',
    body: schema.object(schemasOf(COST_CENTER)),
    async run(sql, { body }, company, id) {
      const { name } = await findCostCenterBudget(sql, id, company);
      return setCostCenterBudget(sql, company, { ...body, name });
    },
  }),
  budgets.remove({
    summary: 'Remove the budget of a cost centre. What it spent stays as it is',
    async run(sql, _call, company, id) {
      const { name } = await findCostCenterBudget(sql, id, company);
      return removeCostCenterBudget(sql, company, name);
    },
  }),
];
