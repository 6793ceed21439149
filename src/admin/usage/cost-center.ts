import { mayHaveBudget, OTHERS, readBudgetedCostCenter } from '../../domain/request/cost-center.ts';
import {
  COST_CENTER,
  COST_CENTER_OR_NONE,
  type CostCenterColumns,
} from '../../domain/settings/cost-center.ts';
import { costCenterPage } from '../../domain/wording/alert.ts';
import { removeCostCenterBudget, setCostCenterBudget } from '../../operations/cost-center.ts';
import { may } from '../../operations/frame/permission.ts';
import { type CostCenterBudgetRow, costCenterBudgetOf } from '../../store/company/cost-center.ts';
import { NIL_ID } from '../../store/connection/expressions.ts';
import type { CompanyUsage } from '../../store/usage/company-usage.ts';
import type { CostCenterState } from '../../store/usage/cost-center.ts';
import { change, mayNow, type PageContext, param } from '../page/context.ts';
import { formState, saveForm } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { titledCard } from '../page/layout.ts';
import { lockEdited, lockInput } from '../page/optimistic-lock.ts';
import { readSettings, settingFields } from '../page/setting.ts';
import { budgetCard, sumCards } from './usage-cards.ts';

/** What one cost centre may cost: part of the page of its usage. */

/** The title of its page. @param when the days that are shown */
export function costCenterTitle(
  name: string,
  when: string,
  { words: { costCenters: words } }: Format,
): string {
  if (name === '') return `${words.noneTitle} ${when}`;
  return `${name === OTHERS ? words.othersTitle : `${words.one} ${name}`} ${when}`;
}

/** The sums of the shown days, the budget of the present month, and the form that sets it. */
export function costCenterCards(
  c: PageContext,
  form: Form,
  name: string,
  usage: CompanyUsage,
  {
    state,
    budget,
  }: { readonly state: CostCenterState; readonly budget: CostCenterBudgetRow | null },
): Html {
  const { format } = c.var;
  const { costCenters } = format.words;
  return html`${name === OTHERS ? html`<p class="lead">${costCenters.othersText}</p>` : ''}
<div class="figures">${sumCards(usage, usage.api_cost_eur, costCenters.apiOnly, format)}
${budgetCard(state, { none: costCenters.noBudget, noneText: costCenters.noBudgetText, reached: costCenters.reached }, format)}</div>
${mayHaveBudget(name) ? budgetForm(c, form, name, budget) : ''}`;
}

function budgetForm(
  c: PageContext,
  form: Form,
  name: string,
  budget: CostCenterBudgetRow | null,
): Html {
  const { costCenters: words, settings } = c.var.format.words;
  const company = param(c, 'company');
  const path = `/companies/${company}/cost-center`;
  if (!mayNow(c, 'cost-center.write'))
    return html`<p class="muted">${words.eur}: ${settings.byOwners}</p>`;
  const state = formState(form, path);
  return titledCard(
    words.budget,
    html`${state.summary}
${saveForm(
  c,
  path,
  html`${lockInput(state, budget ?? {}, COST_CENTER)}<input type="hidden" name="name" value="${name}">
${settingFields(state, COST_CENTER_OR_NONE, budget)}
${may(c.var.session.user, 'alert.read', company) ? html`<p class="hint">${words.who((link) => html`<a href="/companies/${company}/alerts">${link}</a>`)}</p>` : ''}`,
  words.save,
)}`,
  );
}

export async function saveCostCenter(c: PageContext, form: Form): Promise<Response> {
  const company = param(c, 'company');
  const name = form.required('name', readBudgetedCostCenter);
  const settings = readSettings(form, COST_CENTER_OR_NONE);
  form.check();
  const back = costCenterPage(company, name);
  const isNone = Object.values(settings).includes(null);
  await change(c, async (sql) => {
    const present = await costCenterBudgetOf(sql, company, name);
    await lockEdited(c, sql, form, {
      table: 'cost_center_budgets',
      id: present?.id ?? NIL_ID,
      company,
      settings: COST_CENTER,
      changes: settings,
      find: async () => (await costCenterBudgetOf(sql, company, name)) ?? { name },
      page: back,
    });
    if (isNone) await removeCostCenterBudget(sql, company, name);
    else await setCostCenterBudget(sql, company, { name, ...(settings as CostCenterColumns) });
  });
  return c.redirect(`${back}&done=${isNone ? 'budget-removed' : 'budget-saved'}`, 303);
}
