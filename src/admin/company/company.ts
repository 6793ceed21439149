import { DISABLED_MODELS } from '../../domain/gate.ts';
import { LIMIT_SETTINGS, MEMBER_SETTINGS, NAME, STRICT_CEILINGS } from '../../domain/settings/company.ts';
import { limitTexts } from '../../domain/settings/limit-text.ts';
import { may } from '../../operations/permission.ts';
import { type CompanyRow, findCompany } from '../../store/company/company.ts';
import { type CompanySort, pageOfCompanies } from '../../store/lists/page.ts';
import { changeAsOperator, mayNow, type PageContext, param, type Route, read } from '../page/context.ts';
import type { Form } from '../page/form.ts';
import { type Html, html } from '../page/html.ts';
import { badge, companyHeading, page } from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import { settingFields } from '../page/setting.ts';
import { ceilingsCard, membersCard, saving, setSettings, settingCard, settingsCard } from './ceiling.ts';
import { endCards } from './company-end.ts';

const BASE = '/companies/:company';

/** The list of companies, for operators, and the settings of each: EU gate, budget and name. */
export const companyRoutes: readonly Route[] = [
  { method: 'GET', path: '/companies', action: 'company.list', handle: listPage },
  { method: 'GET', path: BASE, action: 'company.read', handle: open },
  { method: 'GET', path: `${BASE}/settings`, action: 'company.read', handle: settingsPage },
  { method: 'POST', path: `${BASE}/settings`, action: 'company.set', handle: setSettings, page: settingsPage },
  {
    method: 'POST',
    path: `${BASE}/members`,
    action: 'company.set',
    handle: saving(MEMBER_SETTINGS),
    page: settingsPage,
  },
  {
    method: 'POST',
    path: `${BASE}/ceilings`,
    action: 'company.limit',
    handle: saving(STRICT_CEILINGS, changeAsOperator),
    page: settingsPage,
  },
  {
    method: 'POST',
    path: `${BASE}/limits`,
    action: 'company.limit',
    handle: saving(LIMIT_SETTINGS),
    page: settingsPage,
  },
  { method: 'POST', path: `${BASE}/name`, action: 'company.rename', handle: saving(NAME), page: settingsPage },
];

const SORTS = {
  name: 'Name',
  '-spent': 'Highest cost',
  '-budget': 'Highest budget',
  '-created': 'Newest',
};

function open(c: PageContext): Response {
  return c.redirect(`/companies/${param(c, 'company')}/usage`, 303);
}

async function listPage(c: PageContext): Promise<Response> {
  const { format } = c.var;
  const query = listQuery<CompanySort>(c, SORTS);
  const companies = await read(c, (sql) => pageOfCompanies(sql, query));
  const cells = {
    Company: ({ id, name, closed_at }: CompanyRow) =>
      html`<a href="/companies/${id}/usage">${name}</a>${closed_at === null ? '' : html` ${badge('bad', 'closed')}`}`,
    'Spent this month': ({ spent }: { spent: string }) => format.amount(spent),
    'Monthly budget': ({ effective_budget_eur: eur }: CompanyRow) => (eur === null ? 'unlimited' : format.amount(eur)),
    'EU gate': (company: CompanyRow) =>
      company.allow_non_eu_models && !company.eu_locked ? badge('warn', 'non-EU allowed') : badge('eu', 'EU only'),
    'Disabled models': (company: CompanyRow) => company[DISABLED_MODELS].length || 'none',
  };
  const figures = ['Spent this month', 'Monthly budget', 'Disabled models'];
  const body = html`<div class="title-row"><h1>Companies</h1><a class="button primary" href="/companies/new">New company</a></div>
${list(c, { path: '/companies', caption: 'All companies', cells, figures, sorts: SORTS, empty: html`There are no companies yet. <a href="/companies/new">Create the first one</a>, with its owner and its first key.` }, query, companies)}`;
  return page(c, 'Companies', body);
}

async function settingsPage(c: PageContext, form: Form): Promise<Response> {
  const id = param(c, 'company');
  const company = await read(c, (sql) => findCompany(sql, id));
  const base = `/companies/${id}`;
  const words = c.var.format.words.settings;
  const elsewhere = html`<p>${words.models((models) => html`<a href="${base}/models">${models}</a>`)}${
    may(c.var.session.user, 'alert.read', id)
      ? words.alerts((alerts) => html`<a href="${base}/alerts">${alerts}</a>`)
      : ''
  }${
    may(c.var.session.user, 'company-token.read', id)
      ? words.tokens((tokens) => html`<a href="${base}/tokens">${tokens}</a>`)
      : ''
  }</p>`;
  const body = html`${companyHeading(c, company)}<h1>${words.title}</h1>
${settingsCard(c, company, form)}
${membersCard(c, company, form)}
${c.var.closedAt === null ? elsewhere : ''}
${ceilingsCard(c, company, form)}
${limitsCard(c, company, form)}
${
  mayNow(c, 'company.rename')
    ? settingCard(c, { company, form, settings: NAME, path: 'name', title: 'Name', save: 'Rename' })
    : ''
}${endCards(c, company)}`;
  return page(c, words.of(company.name), body);
}

/** Limits of all keys of a company together. Those who are limited see them, operators set them. */
function limitsCard(c: PageContext, company: CompanyRow, form: Form): Html {
  const { format } = c.var;
  if (!mayNow(c, 'company.limit')) {
    const texts = limitTexts(company, format, format.words.limitTexts);
    const words = format.words.settings;
    return html`<section class="card"><h2>${words.limits}</h2>
<p>${texts.length === 0 ? words.noLimits : words.allKeys(texts.join(', '))}</p>
<p class="hint">${words.limitsBy((keys) => html`<a href="/companies/${company.id}/keys">${keys}</a>`)}</p></section>`;
  }
  return settingCard(c, {
    company,
    form,
    settings: LIMIT_SETTINGS,
    path: 'limits',
    title: 'Limits',
    save: 'Save limits',
    above: html`<p class="muted">For all keys of the company together. An empty field limits nothing.</p>`,
    fields: (state) => html`<div class="pair">${settingFields(state, LIMIT_SETTINGS, company)}</div>`,
  });
}
