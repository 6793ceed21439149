import { isAboveLimit } from '../../domain/ceiling.ts';
import {
  BUYER,
  DAY_BUDGET,
  EU_GATE,
  MEMBER_SETTINGS,
  MONTH_BUDGET,
  OWNERS_SETTINGS,
  PROFILE,
  STRICT_CEILINGS,
} from '../../domain/settings/company.ts';
import { labelsOf, type Settings } from '../../domain/settings/setting.ts';
import { type CompanyRow, findCompany } from '../../store/company/company.ts';
import { type changeAsOperator, mayNow, type PageContext, param, read } from '../page/context.ts';
import { csrfInput, formState } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { lockInput } from '../page/optimistic-lock.ts';
import { readSettings, settingFields } from '../page/setting.ts';
import { saveCompany } from './company-edit.ts';

/** Budget, EU gate and what members may do, which the owner of a company sets, and the ceilings, which operators set. */

/** The card of a form that saves some settings of a company. */
export function settingCard(
  c: PageContext,
  {
    company,
    form,
    settings,
    path,
    title,
    save,
    above = '',
    fields,
  }: {
    company: CompanyRow;
    form: Form;
    settings: Settings;
    /** Behind the address of the company. */
    path: string;
    title: string;
    save: string;
    above?: Html | string;
    /** In place of the controls of the settings. */
    fields?: (state: ReturnType<typeof formState>) => Html;
  },
): Html {
  const action = `/companies/${company.id}/${path}`;
  const state = formState(form, action);
  return html`<section class="card"><h2>${title}</h2>${state.summary}
<form method="post" action="${action}" class="stack">${csrfInput(c)}${lockInput(state, company, labelsOf(settings, form.words))}
${above}${fields?.(state) ?? settingFields(state, settings, company)}
<div class="actions"><button class="primary">${save}</button></div></form></section>`;
}

/** A form for those who may change the settings; the others read them. */
export function settingsCard(c: PageContext, company: CompanyRow, form: Form): Html {
  const { format } = c.var;
  const words = format.words.settings;
  const { credit_limit_eur: limit, effective_budget_eur: effective, eu_locked } = company;
  if (!mayNow(c, 'company.set')) {
    return html`<section class="card"><h2>${words.budgetAndGate}</h2>
<p>${words.read({ budget: effective === null ? format.words.numbers.unlimited : format.amount(effective), isAllowed: company.allow_non_eu_models && !eu_locked })}</p>
${c.var.closedAt === null ? html`<p class="hint">${words.byOwners}</p>` : ''}</section>`;
  }
  const budgetHint = words.budgetHint(limit === null ? '' : format.eurText(limit));
  return settingCard(c, {
    company,
    form,
    settings: OWNERS_SETTINGS,
    path: 'settings',
    title: words.budgetAndGate,
    save: words.save,
    above: isAboveLimit(company)
      ? html`<p class="notice warn-notice">${words.aboveLimit(format.amount(limit as string))}</p>`
      : '',
    fields: (state) => html`${settingFields(state, MONTH_BUDGET, company, { hint: budgetHint })}
${settingFields(state, DAY_BUDGET, company)}
${company.budget_mode === 'strict' ? html`<p class="hint">${words.strict}</p>` : ''}
${eu_locked ? html`<p>${words.lockedText}</p>` : settingFields(state, EU_GATE, company)}
${settingFields(state, PROFILE, company)}`,
  });
}

export async function setSettings(c: PageContext, form: Form): Promise<Response> {
  const { allow_non_eu_models: gate, ...changes } = readSettings(form, OWNERS_SETTINGS);
  const { eu_locked } = await read(c, (sql) => findCompany(sql, param(c, 'company')));
  const isHidden = eu_locked && !gate; // hidden settings stay as they are
  return saveCompany(c, form, OWNERS_SETTINGS, isHidden ? changes : { ...changes, allow_non_eu_models: gate });
}

/** How far members may use the API themselves: a form for those who may change it; the others read it. */
export function membersCard(c: PageContext, company: CompanyRow, form: Form): Html {
  const { format } = c.var;
  const { members: words } = format.words.settings;
  const { member_max_keys: most, member_key_budget_eur: budget, member_playground: hasPlayground } = company;
  if (!mayNow(c, 'company.set')) {
    const amount = budget === null ? '' : format.eurText(budget);
    return html`<section class="card"><h2>${words.title}</h2><p>${words.read({ most, budget: amount, hasPlayground })}</p></section>`;
  }
  const above = html`<p class="muted">${words.lead}</p>`;
  return settingCard(c, {
    company,
    form,
    settings: MEMBER_SETTINGS,
    path: 'members',
    title: words.title,
    save: words.save,
    above,
  });
}

/** Who buys, as statements show it: for those who may change it. */
export function buyerCard(c: PageContext, company: CompanyRow, form: Form): Html | string {
  if (!mayNow(c, 'company.set')) return '';
  const { buyer } = c.var.format.words.settings;
  const above = html`<p class="muted">${buyer.lead}</p>`;
  return settingCard(c, { company, form, settings: BUYER, path: 'buyer', title: buyer.title, save: buyer.save, above });
}

/** The ceilings, for operators. Owners see them in the form above. */
export function ceilingsCard(c: PageContext, company: CompanyRow, form: Form): Html | string {
  if (!mayNow(c, 'company.limit')) return '';
  return settingCard(c, {
    company,
    form,
    settings: STRICT_CEILINGS,
    path: 'ceilings',
    title: 'Limits set by the operator',
    save: 'Save these limits',
    above: html`<p class="muted">The company’s owners cannot exceed them. They apply within a second.</p>`,
  });
}

/** Saves the form of some settings. */
export const saving =
  (settings: Settings, by?: typeof changeAsOperator) =>
  (c: PageContext, form: Form): Promise<Response> =>
    saveCompany(c, form, settings, readSettings(form, settings), by);
