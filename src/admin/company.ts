import { html } from 'hono/html';
import { isLimited } from '../domain/budget.ts';
import { readBudget, readName } from '../domain/field.ts';
import { limitTexts } from '../domain/limit-text.ts';
import { type CompanyRow, createCompany, findCompany, setCompany } from '../store/company.ts';
import { type CompanySort, pageOfCompanies } from '../store/page.ts';
import { endCards } from './company-end.ts';
import { change, mayNow, type PageContext, param, type Route, read } from './context.ts';
import { checkbox, csrfInput, type FormState, field, formState } from './field.ts';
import type { Form } from './form.ts';
import type { Html } from './html.ts';
import { badge, companyHeading, page } from './layout.ts';
import { list, listQuery } from './list.ts';
import { may } from './permission.ts';
import { limitFields, readLimits } from './restriction.ts';

/** The list of companies, for operators, and the settings of each: EU gate, budget and name. */
export const companyRoutes: readonly Route[] = [
  { method: 'GET', path: '/companies', action: 'company.list', handle: listPage },
  { method: 'POST', path: '/companies', action: 'company.create', handle: create, page: listPage },
  { method: 'GET', path: '/companies/:company', action: 'company.read', handle: open },
  { method: 'GET', path: '/companies/:company/settings', action: 'company.read', handle: settingsPage },
  { method: 'POST', path: '/companies/:company/settings', action: 'company.set', handle: set, page: settingsPage },
  { method: 'POST', path: '/companies/:company/limits', action: 'company.limit', handle: limit, page: settingsPage },
  { method: 'POST', path: '/companies/:company/name', action: 'company.rename', handle: rename, page: settingsPage },
];

const SORTS = {
  name: 'Name',
  '-spent': 'Highest cost',
  '-budget': 'Highest budget',
  '-created': 'Newest',
};

const NON_EU = {
  name: 'allow_non_eu',
  label: 'Allow models hosted outside the EU',
  hint: 'When off, GET /models leaves them out and calls to them are refused with 403.',
  checked: false,
};

function open(c: PageContext): Response {
  return c.redirect(`/companies/${param(c, 'company')}/usage`, 303);
}

async function listPage(c: PageContext, form: Form): Promise<Response> {
  const { format } = c.var;
  const query = listQuery<CompanySort>(c, SORTS);
  const companies = await read(c, (sql) => pageOfCompanies(sql, query));
  const state = formState(form, '/companies');
  const cells = {
    Company: ({ id, name, closed_at }: CompanyRow) =>
      html`<a href="/companies/${id}/usage">${name}</a>${closed_at === null ? '' : html` ${badge('bad', 'closed')}`}`,
    'Spent this month': ({ spent }: { spent: string }) => format.eur(spent),
    'Monthly budget': ({ monthly_budget_eur: eur }: CompanyRow) => (isLimited(eur) ? format.eur(eur) : 'unlimited'),
    'EU gate': (company: CompanyRow) =>
      company.allow_non_eu_models ? badge('warn', 'non-EU allowed') : badge('eu', 'EU only'),
    'Disabled models': (company: CompanyRow) => company.disabled_model_slugs.length || 'none',
  };
  const figures = ['Spent this month', 'Monthly budget', 'Disabled models'];
  const body = html`<h1>Companies</h1>
${list(c, { path: '/companies', caption: 'All companies', cells, figures, sorts: SORTS, empty: 'There are no companies yet. Create the first one below.' }, query, companies)}
<section class="card"><h2>Create a company</h2>${state.summary}
<form method="post" action="/companies" class="stack">${csrfInput(c)}
${field(state, { name: 'name', label: 'Name', required: true })}
${budgetField(state, '')}
${checkbox(state, NON_EU)}
<div class="actions"><button class="primary">Create company</button></div></form></section>`;
  return page(c, 'Companies', body);
}

function budgetField(state: FormState, value: string) {
  return field(state, {
    name: 'budget',
    label: 'Monthly budget in EUR',
    value,
    inputmode: 'decimal',
    hint: 'Such as 250 or 99.50; empty for unlimited. Once API and in-app chat cost together reach it, calls are refused with 402.',
  });
}

async function create(c: PageContext, form: Form): Promise<Response> {
  const name = form.required('name', readName);
  const budget = form.optional('budget', readBudget);
  form.check();
  const company = await change(c, (sql) =>
    createCompany(sql, { name, monthly_budget_eur: budget, allow_non_eu_models: form.checked('allow_non_eu') }),
  );
  return c.redirect(`/companies/${company.id}/access?done=created`, 303);
}

async function settingsPage(c: PageContext, form: Form): Promise<Response> {
  const id = param(c, 'company');
  const company = await read(c, (sql) => findCompany(sql, id));
  const base = `/companies/${id}`;
  const state = formState(form, `${base}/settings`);
  const naming = formState(form, `${base}/name`);
  const budget = isLimited(company.monthly_budget_eur) ? company.monthly_budget_eur : '';
  const body = html`${companyHeading(c, company)}<h1>Settings</h1>
${
  !mayNow(c, 'company.set')
    ? html`<section class="card"><h2>Budget and EU gate</h2>
<p>Monthly budget: ${budget === '' ? 'unlimited' : c.var.format.eur(budget)}.</p>
<p>Models hosted outside the EU: ${company.allow_non_eu_models ? 'allowed' : 'refused'}.</p></section>`
    : html`<section class="card"><h2>Budget and EU gate</h2>${state.summary}
<form method="post" action="${base}/settings" class="stack">${csrfInput(c)}
${budgetField(state, budget)}
${checkbox(state, { ...NON_EU, checked: company.allow_non_eu_models })}
<div class="actions"><button class="primary">Save settings</button></div></form></section>
<p>Which models the company may use is set on the <a href="${base}/models">Models</a> page.${
        may(c.var.session.user, 'company-token.read', id)
          ? html` Programs that manage the company have <a href="${base}/tokens">tokens</a> of their own.`
          : ''
      }</p>`
}
${limitsCard(c, company, form)}
${
  mayNow(c, 'company.rename')
    ? html`<section class="card"><h2>Name</h2>${naming.summary}
<form method="post" action="${base}/name" class="stack">${csrfInput(c)}
${field(naming, { name: 'name', label: 'Company name', value: company.name, required: true })}
<div class="actions"><button>Rename</button></div></form></section>`
    : ''
}${endCards(c, company)}`;
  return page(c, `Settings of ${company.name}`, body);
}

/** Limits of all keys of a company together. Those who are limited see them, operators set them. */
function limitsCard(c: PageContext, company: CompanyRow, form: Form): Html {
  const path = `/companies/${company.id}/limits`;
  const state = formState(form, path);
  const { format } = c.var;
  if (!mayNow(c, 'company.limit')) {
    const texts = limitTexts(company, format);
    return html`<section class="card"><h2>Limits</h2>
<p>${texts.length === 0 ? 'None.' : `All keys together: ${texts.join(', ')}.`}</p>
<p class="hint">Set by the operator of this service. A single key can have limits of its own on the <a href="/companies/${company.id}/access">Access</a> page.</p></section>`;
  }
  return html`<section class="card"><h2>Limits</h2>${state.summary}
<form method="post" action="${path}" class="stack">${csrfInput(c)}
<p class="muted">For all keys of the company together. An empty field limits nothing.</p>
<div class="pair">${limitFields(state, company)}</div>
<div class="actions"><button class="primary">Save limits</button></div></form></section>`;
}

async function limit(c: PageContext, form: Form): Promise<Response> {
  const id = param(c, 'company');
  const limits = readLimits(form);
  form.check();
  await change(c, (sql) => setCompany(sql, id, limits));
  return c.redirect(`/companies/${id}/settings?done=saved`, 303);
}

async function set(c: PageContext, form: Form): Promise<Response> {
  const id = param(c, 'company');
  const budget = form.optional('budget', readBudget);
  form.check();
  const allow_non_eu_models = form.checked('allow_non_eu');
  await change(c, (sql) => setCompany(sql, id, { monthly_budget_eur: budget, allow_non_eu_models }));
  return c.redirect(`/companies/${id}/settings?done=saved`, 303);
}

async function rename(c: PageContext, form: Form): Promise<Response> {
  const id = param(c, 'company');
  const name = form.required('name', readName);
  form.check();
  await change(c, (sql) => setCompany(sql, id, { name }));
  return c.redirect(`/companies/${id}/settings?done=saved`, 303);
}
