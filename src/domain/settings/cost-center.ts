import { readAboveZero } from '../field.ts';
import * as schema from './schema.ts';
import { eachSetting, type Needed, type Setting, type Values } from './setting.ts';

/** Every column of `cost_center_budgets` that people set. */
export const COST_CENTER = {
  monthly_budget_eur: {
    kind: 'amount',
    schema: schema.aboveZero,
    option: '--monthly-budget-eur EUR',
    meaning: 'monthly budget, above 0',
    read: readAboveZero,
    isNeeded: true,
    field: {
      name: 'budget',
      label: ({ costCenters }) => costCenters.eur,
      hint: ({ costCenters }) => costCenters.addHint,
    },
  } as Needed<string>,
};
export type CostCenterColumns = Values<typeof COST_CENTER>;
/** What a cost centre is to get; its name as of `readBudgetedCostCenter`. */
export type CostCenterBudget = CostCenterColumns & { readonly name: string };

/** The same of a form that may take the budget away: null. */
export const COST_CENTER_OR_NONE = eachSetting(
  COST_CENTER,
  (setting): Setting<string | null> => ({
    ...(setting as Setting<string | null>),
    isNullable: true,
    field: { ...setting.field, hint: ({ costCenters }) => costCenters.editHint },
  }),
);
