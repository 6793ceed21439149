import { html } from 'hono/html';
import { readBudget, readName } from '../domain/field.ts';
import { createCompany, findCompany, listCompanies, setCompany } from '../store/company.ts';
import { spendOfCompanies } from '../store/daily.ts';
import { badge, checkbox, companyHeading, field, hidden, problemOf, table } from './layout.ts';
import { may } from './permission.ts';
import { change, type Problem, param, type Reply, type Route, read, redirect, type Visit } from './visit.ts';

/** Companies (operators), and the settings of one: EU gate and budget. */
export const companyRoutes: readonly Route[] = [
  { method: 'GET', path: '/companies', action: 'company.list', handle: (visit) => listPage(visit, null) },
  { method: 'POST', path: '/companies', action: 'company.create', handle: create, page: listPage },
  { method: 'GET', path: '/companies/:company', action: 'company.read', handle: open },
  { method: 'GET', path: '/companies/:company/settings', action: 'company.read', handle: (v) => settingsPage(v, null) },
  { method: 'POST', path: '/companies/:company/settings', action: 'company.set', handle: set, page: settingsPage },
  { method: 'POST', path: '/companies/:company/name', action: 'company.rename', handle: rename, page: settingsPage },
];

async function open(visit: Visit): Promise<Reply> {
  return redirect(`/companies/${param(visit, 'company')}/usage`);
}

async function listPage(visit: Visit, problem: Problem | null): Promise<Reply> {
  const { format, csrf } = visit;
  const [companies, spent] = await read(
    visit,
    async (sql) => [await listCompanies(sql), await spendOfCompanies(sql)] as const,
  );
  const state = problemOf(problem, '/companies');
  const rows = companies.map((company) => [
    html`<a href="/companies/${company.id}/usage">${company.name}</a>`,
    format.eur(spent.get(company.id) ?? '0'),
    isLimited(company.monthly_budget_eur) ? format.eur(company.monthly_budget_eur as string) : 'unlimited',
    company.allow_non_eu_models ? badge('warn', 'non-EU allowed') : badge('eu', 'EU only'),
    company.disabled_model_slugs.length === 0 ? 'none' : company.disabled_model_slugs.length,
  ]);
  const columns = [
    { title: 'Company' },
    { title: 'Spent this month', figure: true },
    { title: 'Monthly budget', figure: true },
    { title: 'EU gate' },
    { title: 'Disabled models', figure: true },
  ];
  const body = html`<h1>Companies</h1>
${table('All companies', columns, rows, 'There are no companies yet. Create the first one below.', true)}
<section class="card"><h2>Create a company</h2>${state.summary}
<form method="post" action="/companies" class="stack">${hidden(csrf)}
${field(state, { name: 'name', label: 'Name', required: true })}
${budgetField(state, '')}
${checkbox(state, NON_EU)}
<div class="actions"><button class="primary">Create company</button></div></form></section>`;
  return { kind: 'page', title: 'Companies', body };
}

const NON_EU = {
  name: 'allow_non_eu',
  label: 'Allow models hosted outside the EU',
  hint: 'Off: they are left out of GET /models, and calls to them are refused with 403.',
  checked: false,
};

function budgetField(state: Parameters<typeof field>[0], value: string) {
  return field(state, {
    name: 'budget',
    label: 'Monthly budget in EUR',
    value,
    inputmode: 'decimal',
    hint: 'Such as 250 or 99.50; empty for unlimited. Once API and in-app chat cost together reach it, calls are refused with 402.',
  });
}

async function create(visit: Visit): Promise<Reply> {
  const { form } = visit;
  const name = form.required('name', readName);
  const budget = form.optional('budget', readBudget);
  form.check();
  const company = await change(visit, (sql) =>
    createCompany(sql, {
      name,
      monthly_budget_eur: budget,
      allow_non_eu_models: form.checked('allow_non_eu'),
    }),
  );
  return redirect(`/companies/${company.id}/access?done=created`);
}

async function settingsPage(visit: Visit, problem: Problem | null): Promise<Reply> {
  const id = param(visit, 'company');
  const company = await read(visit, (sql) => findCompany(sql, id));
  const base = `/companies/${id}`;
  const state = problemOf(problem, `${base}/settings`);
  const naming = problemOf(problem, `${base}/name`);
  const { person, csrf } = visit;
  const mayRename = may({ role: person.role, companyId: person.company_id }, 'company.rename', id);
  const budget = isLimited(company.monthly_budget_eur) ? (company.monthly_budget_eur as string) : '';
  const body = html`${companyHeading(visit, company)}<h1>Settings</h1>
<section class="card"><h2>Budget and EU gate</h2>${state.summary}
<form method="post" action="${base}/settings" class="stack">${hidden(csrf)}
${budgetField(state, budget)}
${checkbox(state, { ...NON_EU, checked: company.allow_non_eu_models })}
<div class="actions"><button class="primary">Save settings</button></div></form></section>
<p>Which models the company may use is set on the <a href="${base}/models">Models</a> page.</p>
${
  mayRename
    ? html`<section class="card"><h2>Name</h2>${naming.summary}
<form method="post" action="${base}/name" class="stack">${hidden(csrf)}
${field(naming, { name: 'name', label: 'Company name', value: company.name, required: true })}
<div class="actions"><button>Rename</button></div></form></section>`
    : ''
}`;
  return { kind: 'page', title: `Settings of ${company.name}`, body };
}

async function set(visit: Visit): Promise<Reply> {
  const { form } = visit;
  const id = param(visit, 'company');
  const budget = form.optional('budget', readBudget);
  form.check();
  const allow_non_eu_models = form.checked('allow_non_eu');
  await change(visit, (sql) => setCompany(sql, id, { monthly_budget_eur: budget, allow_non_eu_models }));
  return redirect(`/companies/${id}/settings?done=saved`);
}

async function rename(visit: Visit): Promise<Reply> {
  const id = param(visit, 'company');
  const name = visit.form.required('name', readName);
  visit.form.check();
  await change(visit, (sql) => setCompany(sql, id, { name }));
  return redirect(`/companies/${id}/settings?done=saved`);
}

/** null and 0 mean unlimited (spec section 2.9). */
function isLimited(budget: string | null): boolean {
  return budget !== null && budget !== '0';
}
