import { readAboveZero, readUuid } from '../../domain/field.ts';
import { throwNotFound } from '../../domain/refusal.ts';
import { readBudgetedCostCenter } from '../../domain/request/cost-center.ts';
import { removeCostCenterBudget, setCostCenterBudget } from '../../operations/cost-center.ts';
import { rowsOf } from '../../store/company/company.ts';
import type { CostCenterBudgetRow } from '../../store/company/cost-center.ts';
import { listSpentBudgets, type SpentBudget } from '../../store/usage/cost-center.ts';
import { type Command, command, required } from '../frame/command.ts';
import { card, listing } from '../frame/text.ts';

const company = required('--company ID', readUuid, 'id of the company');
const name = required('--name NAME', readBudgetedCostCenter, 'the cost centre, as calls name it in metadata');

/** What cost centres may cost in a month before somebody is told. */
export const costCenterCommands: readonly Command[] = [
  command({
    name: 'cost-center list',
    summary: 'list the budgets of a company’s cost centres, and what was spent of each this month',
    options: { company },
    notes: '"tollgate usage summary" has what the other cost centres cost.',
    async run({ transact }, { company }) {
      const rows = await transact(async (sql) => rowsOf(sql, company, await listSpentBudgets(sql, company)));
      const cells = {
        'COST CENTRE': ({ name }: SpentBudget) => name,
        'EUR PER MONTH': ({ monthly_budget_eur }: SpentBudget) => monthly_budget_eur,
        'EUR SPENT': ({ spent_eur }: SpentBudget) => spent_eur,
      };
      const empty = 'No cost centre has a budget; "tollgate cost-center set" gives one.';
      return { json: rows, text: listing(rows, cells, empty, ['EUR PER MONTH', 'EUR SPENT']) };
    },
  }),
  command({
    name: 'cost-center set',
    summary: 'give a cost centre a monthly budget, or change it; alerts tell when a part of it is spent',
    options: {
      company,
      name,
      monthly_budget_eur: required('--monthly-budget-eur EUR', readAboveZero, 'monthly budget, above 0'),
    },
    notes: 'No call is refused by it. There need be no call yet that names the cost centre.',
    async run({ transact }, { company, ...asked }) {
      const row = await transact((sql) => setCostCenterBudget(sql, company, asked));
      return { json: row, text: cardOf('Budget set.', row) };
    },
  }),
  command({
    name: 'cost-center remove',
    summary: 'remove the budget of a cost centre; what it spent stays as it is',
    options: { company, name },
    async run({ transact }, { company, name }) {
      const row = await transact((sql) => removeCostCenterBudget(sql, company, name));
      if (row === null) throwNotFound('cost centre budget', `The cost centre ${name} has no budget.`);
      return { json: row, text: cardOf('Budget removed.', row) };
    },
  }),
];

function cardOf(title: string, { company_id, name, monthly_budget_eur }: CostCenterBudgetRow): string {
  return card(title, { company: company_id, 'cost centre': name, 'EUR per month': monthly_budget_eur });
}
