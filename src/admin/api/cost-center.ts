import { readBudgetedCostCenter } from '../../domain/request/cost-center.ts';
import * as schema from '../../domain/settings/schema.ts';
import { changeCostCenterBudget, createCostCenterBudget, endCostCenterBudget } from '../../operations/cost-center.ts';
import { findCompany } from '../../store/company/company.ts';
import { findCostCenterBudget } from '../../store/company/cost-center.ts';
import { listSpentBudgets } from '../../store/usage/cost-center.ts';
import { type ApiOperation, get, getOne, pageOfAll, patch, post, type Resource, remove } from './frame/operation.ts';
import * as resource from './frame/resources.ts';

const budget = {
  id: schema.id,
  company_id: schema.id,
  name: { ...schema.string, description: 'in the spelling of the ledger' },
  monthly_budget_eur: schema.aboveZero,
  created_at: schema.instant,
};

/** What cost centres may cost in a month before somebody is told. No call is refused by it. */

const ONE_BUDGET = schema.object(budget);

const LIST = '/companies/{company}/cost-center-budgets';

const ONE = `${LIST}/{budget}`;

const FOUND: Resource = {
  table: 'cost_center_budgets',
  param: 'budget',
  find: (sql, { params }) => findCostCenterBudget(sql, params.company as string, params.budget as string),
};

export const costCenterOperations: readonly ApiOperation[] = [
  get('listCostCenterBudgets', LIST, {
    summary:
      'List the budgets of a company’s cost centres, and what was spent of each in the present month. What the others cost is in getUsage',
    action: 'usage.read',
    query: resource.listQuery(),
    answer: resource.pageOf(schema.object({ ...budget, spent_eur: schema.sum })),
    async run(sql, { params, query }) {
      const { id } = await findCompany(sql, params.company as string);
      return pageOfAll(query, await listSpentBudgets(sql, id));
    },
  }),
  post('createCostCenterBudget', LIST, {
    summary:
      'Give a cost centre a monthly budget: alerts tell when a part of it is spent, and no call is refused. There need be no call that names it',
    action: 'cost-center.write',
    body: schema.object({ name: schema.costCenter, monthly_budget_eur: schema.aboveZero }),
    answer: ONE_BUDGET,
    status: 201,
    run(sql, { params, body }) {
      return createCostCenterBudget(sql, params.company as string, {
        ...body,
        name: readBudgetedCostCenter(body.name),
      });
    },
  }),
  getOne('getCostCenterBudget', ONE, FOUND, {
    summary: 'Read the budget of a cost centre',
    action: 'usage.read',
    answer: ONE_BUDGET,
  }),
  patch('changeCostCenterBudget', ONE, {
    summary: 'Change the budget of a cost centre',
    action: 'cost-center.write',
    body: schema.object({ monthly_budget_eur: schema.aboveZero }),
    answer: ONE_BUDGET,
    resource: FOUND,
    run: (sql, { params, body }) =>
      changeCostCenterBudget(sql, params.company as string, params.budget as string, body.monthly_budget_eur),
  }),
  remove('removeCostCenterBudget', ONE, {
    summary: 'Remove the budget of a cost centre. What it spent stays as it is',
    action: 'cost-center.write',
    resource: FOUND,
    run: (sql, { params }) => endCostCenterBudget(sql, params.company as string, params.budget as string),
  }),
];
