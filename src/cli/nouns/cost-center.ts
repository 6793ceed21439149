import { readUuid } from '../../domain/field.ts';
import { throwNotFound } from '../../domain/refusal.ts';
import { readBudgetedCostCenter } from '../../domain/request/cost-center.ts';
import { COST_CENTER } from '../../domain/settings/cost-center.ts';
import { removeCostCenterBudget, setCostCenterBudget } from '../../operations/cost-center.ts';
import type { CostCenterBudgetRow } from '../../store/company/cost-center.ts';
import { listSpentBudgets } from '../../store/usage/cost-center.ts';
import { required } from '../frame/command.ts';
import { commandsOf } from '../frame/noun.ts';
import { newOptions } from '../frame/setting.ts';

const company = required('--company ID', readUuid, 'id of the company');
const name = required(
  '--name NAME',
  readBudgetedCostCenter,
  'the cost centre, as calls name it in metadata',
);

const budgets = commandsOf(
  'cost-center',
  COST_CENTER,
  ({ company_id, name }: CostCenterBudgetRow) => ({
    company: company_id,
    'cost centre': name,
  }),
);

/** What cost centres may cost in a month before somebody is told. */
export const costCenterCommands = [
  budgets.list({
    summary: 'list the budgets of a company’s cost centres, and what was spent of each this month',
    options: { company },
    notes: '"tollgate usage summary" has what the other cost centres cost.',
    read: (sql, { company }) => listSpentBudgets(sql, company),
    columns: () => ({
      'COST CENTRE': ({ name }) => name,
      'EUR PER MONTH': (row) => row.monthly_budget_eur,
      'EUR SPENT': ({ spent_eur }) => spent_eur,
    }),
    empty: 'No cost centre has a budget; "tollgate cost-center set" gives one.',
    right: ['EUR PER MONTH', 'EUR SPENT'],
  }),
  budgets.set({
    summary:
      'give a cost centre a monthly budget, or change it; alerts tell when a part of it is spent',
    options: { company, name, ...newOptions(COST_CENTER) },
    notes: 'No call is refused by it. There need be no call yet that names the cost centre.',
    change: (sql, _caller, { company, ...asked }) => setCostCenterBudget(sql, company, asked),
    done: 'Budget set.',
  }),
  budgets.remove({
    summary: 'remove the budget of a cost centre; what it spent stays as it is',
    options: { company, name },
    async change(sql, _caller, { company, name }) {
      const row = await removeCostCenterBudget(sql, company, name);
      return row ?? throwNotFound('cost centre budget', `The cost centre ${name} has no budget.`);
    },
    done: 'Budget removed.',
  }),
];
