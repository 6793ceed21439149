import { refusal, throwConflict, throwNotFound } from '../domain/refusal.ts';
import { readBudgetedCostCenter } from '../domain/request/cost-center.ts';
import { COST_CENTER, type CostCenterBudget } from '../domain/settings/cost-center.ts';
import * as schema from '../domain/settings/schema.ts';
import { schemasOf } from '../domain/settings/setting.ts';
import {
  type CostCenterBudgetRow,
  costCenterBudgetOf,
  countCostCenterBudgets,
  findCostCenterBudget,
  insertCostCenterBudget,
  deleteCostCenterBudget as removeCostCenterBudget,
  updateCostCenterBudget,
} from '../store/company/cost-center.ts';
import { lockName } from '../store/company/idempotent-form.ts';
import type { Sql } from '../store/connection/pool.ts';
import { listSpentBudgets } from '../store/usage/cost-center.ts';
import { noun } from './frame/noun.ts';
import { type Call, pageOfAll } from './frame/row.ts';

export const MOST_COST_CENTER_BUDGETS = 1000;

/** Gives a cost centre a budget. @throws Refused where it has one, or the company has as many as it may have */
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
export { removeCostCenterBudget };

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
  find: (sql, { company, id }) => findCostCenterBudget(sql, id, company),
  command: { noun: 'cost-center', settings: COST_CENTER, hidden: ['id', 'created_at'] },
});

export const costCenterOperations = [
  budgets.list({
    summary:
      'List the budgets of a company’s cost centres, and what was spent of each in the present month. What the others cost is in getUsage',
    row: schema.object({ ...budget, spent_eur: schema.sum }),
    read: async (sql, { company }, range) => pageOfAll(range, await listSpentBudgets(sql, company)),
    command: {
      summary:
        'list the budgets of a company’s cost centres, and what was spent of each this month',
      notes: '"tollgate usage summary" has what the other cost centres cost.',
      all: (sql, { company = '' }) => listSpentBudgets(sql, company),
      columns: ['name', 'monthly_budget_eur', 'spent_eur'],
      empty: 'No cost centre has a budget; "tollgate cost-center set" gives one.',
    },
  }),
  budgets.create({
    summary:
      'Give a cost centre a monthly budget: alerts tell when a part of it is spent, and no call is refused. There need be no call that names it',
    body: schema.object({ name: schema.costCenter, ...schemasOf(COST_CENTER) }),
    command: {
      verb: 'set',
      done: 'Budget set.',
      differs: {
        because: 'a command names a cost centre, and gives it a budget whether it has one or not',
        run: (sql, { body, company }: Call<CostCenterBudget>) =>
          setCostCenterBudget(sql, company, body),
      },
    },
    run: (sql, { body, company }) =>
      createCostCenterBudget(sql, company, { ...body, name: readBudgetedCostCenter(body.name) }),
  }),
  budgets.get('Read the budget of a cost centre'),
  budgets.change({
    summary: 'Change the budget of a cost centre',
    body: schema.object(schemasOf(COST_CENTER)),
    async run(sql, { body, company, id }) {
      const { name } = await findCostCenterBudget(sql, id, company);
      return setCostCenterBudget(sql, company, { ...body, name });
    },
  }),
  budgets.remove({
    summary: 'Remove the budget of a cost centre. What it spent stays as it is',
    command: {
      named: {
        members: { company: schema.id, name: schema.costCenter },
        async find(sql, { company = '', name = '' }) {
          const budget = await costCenterBudgetOf(sql, company, name);
          const text = `The cost centre ${name} has no budget.`;
          return budget?.id ?? throwNotFound('cost centre budget', text);
        },
      },
      done: 'Budget removed.',
    },
    async run(sql, { company, id }) {
      const { name } = await findCostCenterBudget(sql, id, company);
      return removeCostCenterBudget(sql, company, name);
    },
  }),
];
