import { isLimited } from '../../domain/budget.ts';
import { checkCeilings, isAboveLimit } from '../../domain/ceiling.ts';
import { readBudget, readCreditLimit } from '../../domain/field.ts';
import { type CompanyRow, findCompany } from '../../store/company/company.ts';
import { readSpent } from '../../store/usage/company-usage.ts';
import { changeAsOperator, mayNow, type PageContext, param, read } from '../page/context.ts';
import { checkbox, csrfInput, type FormState, field, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { type Labels, lockInput } from '../page/optimistic-lock.ts';
import { askIfUsedUp } from './budget-confirmation.ts';
import { saveCompany } from './company-edit.ts';

/** Budget and EU gate of a company, which its owner sets, and the ceilings above them, which operators set. */

export const NON_EU = {
  name: 'allow_non_eu',
  label: 'Allow models hosted outside the EU',
  hint: 'When off, GET /models leaves them out and calls to them are refused with 403.',
  checked: false,
};

/** The forms, by the columns that each edits. */
const BUDGET = 'Monthly budget in EUR';
const SETTINGS: Labels<CompanyRow> = { monthly_budget_eur: BUDGET, allow_non_eu_models: NON_EU.label };
const CEILINGS: Labels<CompanyRow> = {
  credit_limit_eur: 'Credit limit in EUR a month',
  budget_mode: 'Strict budget',
  eu_locked: 'Lock the EU gate',
};
const STRICT =
  'The budget is strict: a call is refused with 402 where the most it can cost does not fit into the rest.';

const LOCKED = 'The operator of this service has locked the EU gate.';

/** @param ceiling the credit limit in words, if there is one */
export function budgetField(
  state: FormState,
  { value = '', ceiling = '' }: { value?: string; ceiling?: string },
): Html {
  const empty =
    ceiling === '' ? 'empty or 0 for unlimited' : `at most ${ceiling}, which also holds when this is empty or 0`;
  return field(state, {
    name: 'budget',
    label: BUDGET,
    value,
    inputmode: 'decimal',
    hint: `Such as 250 or 99.50; ${empty}. Once API and in-app chat cost together reach it, calls are refused with 402.`,
  });
}

/** A form for those who may change the settings; the others read them. */
export function settingsCard(c: PageContext, company: CompanyRow, form: Form): Html {
  const { format } = c.var;
  const { credit_limit_eur: limit, monthly_budget_eur: budget, effective_budget_eur: effective, eu_locked } = company;
  const path = `/companies/${company.id}/settings`;
  const state = formState(form, path);
  if (!mayNow(c, 'company.set')) {
    return html`<section class="card"><h2>Budget and EU gate</h2>
<p>Monthly budget: ${effective === null ? 'unlimited' : format.amount(effective)}. Models outside the EU: ${company.allow_non_eu_models && !eu_locked ? 'allowed' : 'refused'}.</p>
${c.var.closedAt === null ? html`<p class="hint">Set by the owners of the company.</p>` : ''}</section>`;
  }
  return html`<section class="card"><h2>Budget and EU gate</h2>${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${lockInput(state, company, SETTINGS)}
${isAboveLimit(company) ? html`<p class="notice warn-notice">The budget is above the credit limit, which holds: calls are refused from ${format.amount(limit as string)} on.</p>` : ''}
${budgetField(state, { value: isLimited(budget) ? budget : '', ceiling: limit === null ? '' : format.eurText(limit) })}
${company.budget_mode === 'strict' ? html`<p class="hint">${STRICT}</p>` : ''}
${eu_locked ? html`<p>Models hosted outside the EU are refused. ${LOCKED}</p>` : checkbox(state, { ...NON_EU, checked: company.allow_non_eu_models })}
<div class="actions"><button class="primary">Save settings</button></div></form></section>`;
}

export async function setSettings(c: PageContext, form: Form): Promise<Response> {
  const id = param(c, 'company');
  const budget = form.optional('budget', form.numeric(readBudget));
  const asksNonEu = form.checked('allow_non_eu');
  const company = await read(c, (sql) => findCompany(sql, id));
  const refused = checkCeilings(company, { monthly_budget_eur: budget, allow_non_eu_models: asksNonEu });
  if (refused.budget !== null) form.refuse('budget', `${refused.budget}.`);
  if (refused.nonEu !== null) form.refuse('', LOCKED);
  form.check();
  const gate = company.eu_locked ? {} : { allow_non_eu_models: asksNonEu }; // hidden settings stay as they are
  return saveCompany(c, form, {
    labels: SETTINGS,
    changes: { monthly_budget_eur: budget, ...gate },
    ask: async (sql, { name, monthly_budget_eur: before }) =>
      askIfUsedUp(form, c.var.format, { name, budget, before, spent: await readSpent(sql, id) }),
  });
}

/** The ceilings, for operators. Owners see them in the form above. */
export function ceilingsCard(c: PageContext, company: CompanyRow, form: Form): Html | string {
  if (!mayNow(c, 'company.limit')) return '';
  const path = `/companies/${company.id}/ceilings`;
  const state = formState(form, path);
  return html`<section class="card"><h2>Ceilings</h2>${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${lockInput(state, company, CEILINGS)}
<p class="muted">What the company’s owners cannot pass, whatever the settings above say. They apply within a second.</p>
${field(state, {
  name: 'credit_limit',
  label: CEILINGS.credit_limit_eur as string,
  value: company.credit_limit_eur ?? '',
  inputmode: 'decimal',
  hint: 'Empty for none. A higher budget, or none, counts as this amount.',
})}
${checkbox(state, { name: 'strict', label: CEILINGS.budget_mode as string, hint: 'Each call first reserves the most it can cost, so that the budget is never passed.', checked: company.budget_mode === 'strict' })}
${checkbox(state, { name: 'eu_locked', label: CEILINGS.eu_locked as string, hint: 'Models outside the EU are refused, also where they were allowed.', checked: company.eu_locked })}
<div class="actions"><button class="primary">Save ceilings</button></div></form></section>`;
}

export async function setCeiling(c: PageContext, form: Form): Promise<Response> {
  const credit_limit_eur = form.optional('credit_limit', form.numeric(readCreditLimit));
  form.check();
  const budget_mode = form.checked('strict') ? ('strict' as const) : ('standard' as const);
  const changes = { credit_limit_eur, budget_mode, eu_locked: form.checked('eu_locked') };
  return saveCompany(c, form, { labels: CEILINGS, changes, by: changeAsOperator });
}
