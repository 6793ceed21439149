import t from 'tap';
import { checkCeilings, isAboveLimit, isUsedUp } from '../../src/domain/ceiling.ts';

const company = {
  monthly_budget_eur: '100',
  allow_non_eu_models: false,
  credit_limit_eur: '500',
  eu_locked: false,
};
const budgetOf = (budget: string | null | undefined, more = {}) =>
  checkCeilings({ ...company, ...more }, { monthly_budget_eur: budget }).budget?.text ?? null;

t.test('a budget is at most the credit limit, to the last digit', async (t) => {
  for (const budget of ['500', '500.00', '499.999999999999999', '0', null, undefined])
    t.equal(budgetOf(budget), null);
  for (const budget of ['500.000000000000001', '501', '999999999999']) {
    t.equal(budgetOf(budget), 'must be at most 500, the credit limit of the company', budget);
    t.equal(budgetOf(budget, { credit_limit_eur: null }), null);
  }
});

t.test(
  'one that was above a new credit limit already may stay, and no other one above it',
  async (t) => {
    const former = { monthly_budget_eur: '800' };
    t.equal(isAboveLimit({ ...company, ...former }), true);
    t.equal(isAboveLimit(company), false);
    t.equal(isAboveLimit({ ...company, monthly_budget_eur: null }), false);
    t.equal(budgetOf('800.0', former), null);
    t.type(budgetOf('799', former), 'string');
  },
);

t.test('a locked EU gate is not opened, and may be closed', async (t) => {
  const gate = (allow: boolean | undefined, eu_locked: boolean) =>
    checkCeilings({ ...company, eu_locked }, { allow_non_eu_models: allow }).nonEu?.text ?? null;
  t.same([gate(true, false), gate(false, true), gate(undefined, true)], [null, null, null]);
  t.equal(gate(true, true), 'is locked by the operator of this service');
});

t.test('a new budget is used up when as much is spent already', async (t) => {
  const used = (budget: string | null, before: string | null, spent = '3') =>
    isUsedUp({ budget, before, spent });
  for (const budget of ['3', '2.999', '0.000000000000001'])
    t.equal(used(budget, null), true, budget);
  for (const budget of ['3.000000000000001', '0', '0.0', null])
    t.equal(used(budget, '1'), false, String(budget));
  t.equal(used('2', '2.00'), false, 'it is no new one');
  t.equal(used('2', '1'), true);
});
