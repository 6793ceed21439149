import { isLimited } from '../../domain/budget.ts';
import { checkCeilings, isAboveLimit } from '../../domain/ceiling.ts';
import { readBudget, readCreditLimit, wholeOrZero } from '../../domain/field.ts';
import type { Words } from '../../domain/language/en.ts';
import { LANGUAGE_NAMES, LANGUAGES, readLanguage } from '../../domain/languages.ts';
import { MOST_MEMBER_KEYS } from '../../domain/limits.ts';
import { type CompanyRow, findCompany } from '../../store/company/company.ts';
import { readSpent } from '../../store/usage/company-usage.ts';
import { changeAsOperator, mayNow, type PageContext, param, read } from '../page/context.ts';
import { checkbox, csrfInput, type FormState, field, formState, select } from '../page/field.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { type Labels, lockInput } from '../page/optimistic-lock.ts';
import { askIfUsedUp } from './budget-confirmation.ts';
import { saveCompany } from './company-edit.ts';

/** Budget, EU gate and what members may do, which the owner of a company sets, and the ceilings, which operators set. */

export function nonEuBox({ words }: FormState, checked = false): Parameters<typeof checkbox>[1] {
  return { name: 'allow_non_eu', label: words.settings.nonEu, hint: words.settings.nonEuHint, checked };
}

/** The forms, by the columns that each edits. */
function settingLabels({ settings }: Words): Labels<CompanyRow> {
  return { monthly_budget_eur: settings.budget, allow_non_eu_models: settings.nonEu, language: settings.language };
}
const CEILINGS: Labels<CompanyRow> = {
  credit_limit_eur: 'Credit limit in EUR a month',
  budget_mode: 'Strict budget',
  eu_locked: 'Lock the EU gate',
};

/** @param ceiling the credit limit in words, if there is one */
export function budgetField(
  state: FormState,
  { value = '', ceiling = '' }: { value?: string; ceiling?: string },
): Html {
  const { settings } = state.words;
  return field(state, {
    name: 'budget',
    label: settings.budget,
    value,
    inputmode: 'decimal',
    hint: settings.budgetHint(ceiling),
  });
}

/** @param value the language that is set; empty: none */
export function languageField(state: FormState, value: string): Html {
  const words = state.words.settings;
  return select(state, {
    name: 'company_language',
    label: words.language,
    choices: [['', words.ofReader], ...LANGUAGES.map((each) => [each, LANGUAGE_NAMES[each]] as const)],
    value,
    hint: words.languageHint,
  });
}

/** A form for those who may change the settings; the others read them. */
export function settingsCard(c: PageContext, company: CompanyRow, form: Form): Html {
  const { format } = c.var;
  const words = format.words.settings;
  const { credit_limit_eur: limit, monthly_budget_eur: budget, effective_budget_eur: effective, eu_locked } = company;
  const path = `/companies/${company.id}/settings`;
  const state = formState(form, path);
  if (!mayNow(c, 'company.set')) {
    return html`<section class="card"><h2>${words.budgetAndGate}</h2>
<p>${words.read({ budget: effective === null ? format.words.numbers.unlimited : format.amount(effective), isAllowed: company.allow_non_eu_models && !eu_locked })}</p>
${c.var.closedAt === null ? html`<p class="hint">${words.byOwners}</p>` : ''}</section>`;
  }
  return html`<section class="card"><h2>${words.budgetAndGate}</h2>${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${lockInput(state, company, settingLabels(format.words))}
${isAboveLimit(company) ? html`<p class="notice warn-notice">${words.aboveLimit(format.amount(limit as string))}</p>` : ''}
${budgetField(state, { value: isLimited(budget) ? budget : '', ceiling: limit === null ? '' : format.eurText(limit) })}
${company.budget_mode === 'strict' ? html`<p class="hint">${words.strict}</p>` : ''}
${eu_locked ? html`<p>${words.lockedText}</p>` : checkbox(state, nonEuBox(state, company.allow_non_eu_models))}
${languageField(state, company.language ?? '')}
<div class="actions"><button class="primary">${words.save}</button></div></form></section>`;
}

export async function setSettings(c: PageContext, form: Form): Promise<Response> {
  const id = param(c, 'company');
  const budget = form.optional('budget', form.numeric(readBudget));
  const asksNonEu = form.checked('allow_non_eu');
  const language = form.values.has('company_language') ? form.optional('company_language', readLanguage) : undefined;
  const company = await read(c, (sql) => findCompany(sql, id));
  const refused = checkCeilings(company, { monthly_budget_eur: budget, allow_non_eu_models: asksNonEu });
  if (refused.budget !== null) form.refuse('budget', `${refused.budget.in(form.words.refusals)}.`);
  if (refused.nonEu !== null) form.refuse('', form.words.settings.locked);
  form.check();
  const gate = company.eu_locked ? {} : { allow_non_eu_models: asksNonEu }; // hidden settings stay as they are
  return saveCompany(c, form, {
    labels: settingLabels(form.words),
    changes: { monthly_budget_eur: budget, language, ...gate },
    ask: async (sql, { name, monthly_budget_eur: before }) =>
      askIfUsedUp(form, c.var.format, { name, budget, before, spent: await readSpent(sql, id) }),
  });
}

function memberLabels({ settings: { members } }: Words): Labels<CompanyRow> {
  return {
    member_max_keys: members.keys,
    member_key_budget_eur: members.budget,
    member_playground: members.playground,
  };
}

/** How far members may use the API themselves: a form for those who may change it; the others read it. */
export function membersCard(c: PageContext, company: CompanyRow, form: Form): Html {
  const { format } = c.var;
  const { members: words } = format.words.settings;
  const { member_max_keys: most, member_key_budget_eur: budget, member_playground: hasPlayground } = company;
  const path = `/companies/${company.id}/members`;
  const state = formState(form, path);
  if (!mayNow(c, 'company.set')) {
    const amount = budget === null ? '' : format.eurText(budget);
    return html`<section class="card"><h2>${words.title}</h2><p>${words.read({ most, budget: amount, hasPlayground })}</p></section>`;
  }
  return html`<section class="card"><h2>${words.title}</h2>${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${lockInput(state, company, memberLabels(format.words))}
<p class="muted">${words.lead}</p>
${field(state, { name: 'member_keys', label: words.keys, value: String(most), inputmode: 'numeric', required: true, hint: words.keysHint })}
${field(state, { name: 'member_budget', label: words.budget, value: budget ?? '', inputmode: 'decimal', hint: words.budgetHint })}
${checkbox(state, { name: 'member_playground', label: words.playground, hint: words.playgroundHint, checked: hasPlayground })}
<div class="actions"><button class="primary">${words.save}</button></div></form></section>`;
}

export async function setMembers(c: PageContext, form: Form): Promise<Response> {
  const member_max_keys = form.required('member_keys', form.numeric(wholeOrZero(MOST_MEMBER_KEYS)));
  const member_key_budget_eur = form.optional('member_budget', form.numeric(readCreditLimit));
  form.check();
  const member_playground = form.checked('member_playground');
  const changes = { member_max_keys, member_key_budget_eur, member_playground };
  return saveCompany(c, form, { labels: memberLabels(form.words), changes });
}

/** The ceilings, for operators. Owners see them in the form above. */
export function ceilingsCard(c: PageContext, company: CompanyRow, form: Form): Html | string {
  if (!mayNow(c, 'company.limit')) return '';
  const path = `/companies/${company.id}/ceilings`;
  const state = formState(form, path);
  return html`<section class="card"><h2>Ceilings</h2>${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}${lockInput(state, company, CEILINGS)}
<p class="muted">What the company’s owners cannot pass, whatever the settings above say. They apply within a second.</p>
${ceilingFields(state, company)}
<div class="actions"><button class="primary">Save ceilings</button></div></form></section>`;
}

/** @param company null: a new one */
export function ceilingFields(state: FormState, company: CompanyRow | null): Html {
  return html`${field(state, {
    name: 'credit_limit',
    label: CEILINGS.credit_limit_eur as string,
    value: company?.credit_limit_eur ?? '',
    inputmode: 'decimal',
    hint: 'Empty for none. A higher budget, or none, counts as this amount.',
  })}
${checkbox(state, { name: 'strict', label: CEILINGS.budget_mode as string, hint: 'Each call first reserves the most it can cost, so that the budget is never passed.', checked: company?.budget_mode === 'strict' })}
${checkbox(state, { name: 'eu_locked', label: CEILINGS.eu_locked as string, hint: 'Models outside the EU are refused, also where they were allowed.', checked: company?.eu_locked === true })}`;
}

export function readCeilings(form: Form): Pick<CompanyRow, 'credit_limit_eur' | 'budget_mode' | 'eu_locked'> {
  return {
    credit_limit_eur: form.optional('credit_limit', form.numeric(readCreditLimit)),
    budget_mode: form.checked('strict') ? 'strict' : 'standard',
    eu_locked: form.checked('eu_locked'),
  };
}

export async function setCeiling(c: PageContext, form: Form): Promise<Response> {
  const changes = readCeilings(form);
  form.check();
  return saveCompany(c, form, { labels: CEILINGS, changes, by: changeAsOperator });
}
