import { addDays, intervalsIn } from '../../domain/reports/day-range.ts';
import { BUYER, LIMIT_SETTINGS, MEMBER_SETTINGS, NAME, STRICT_CEILINGS } from '../../domain/settings/company.ts';
import { limitTexts } from '../../domain/settings/limit-text.ts';
import { may } from '../../operations/permission.ts';
import { type CompanyRow, findCompany } from '../../store/company/company.ts';
import { type CompanySort, type CompanyState, type ListedCompany, pageOfCompanies } from '../../store/lists/page.ts';
import { budgetPicture, budgetTiles, sparkLine } from '../page/chart.ts';
import { changeAsOperator, mayNow, type PageContext, param, type Route, read } from '../page/context.ts';
import type { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { badge, companyHeading, muted, page } from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import { settingFields } from '../page/setting.ts';
import { buyerCard, ceilingsCard, membersCard, saving, setSettings, settingCard, settingsCard } from './ceiling.ts';
import { endCards } from './company-end.ts';
import { companyPauseCard, pauseCompanyForm, resumeCompanyForm } from './pause.ts';
import { priceFactorCard, priceFactorRoutes } from './price-factor.ts';

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
  { method: 'POST', path: `${BASE}/buyer`, action: 'company.set', handle: saving(BUYER), page: settingsPage },
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
  { method: 'POST', path: `${BASE}/pause`, action: 'company.pause', handle: pauseCompanyForm, page: settingsPage },
  { method: 'POST', path: `${BASE}/resume`, action: 'company.pause', handle: resumeCompanyForm },
  {
    method: 'POST',
    path: `${BASE}/name`,
    action: 'company.rename',
    handle: saving(NAME, changeAsOperator),
    page: settingsPage,
  },
  ...priceFactorRoutes(settingsPage),
];

/** Headings of the list by the order that a click on them gives. */
const SORTS = {
  name: 'Company',
  '-spent': 'Spent this month',
  '-share': 'Monthly budget',
  '-refused': 'Refused today',
  '-called': 'Last call',
};
const STATES: readonly (readonly [CompanyState | '', string])[] = [
  ['', 'all'],
  ['near', '80% of the budget used'],
  ['used-up', 'budget used up'],
  ['refused', 'refused today'],
  ['quiet', 'no call in 30 days'],
  ['new', 'new in 30 days'],
  ['non-eu', 'non-EU models allowed'],
  ['paused', 'paused'],
  ['closed', 'closed'],
];

function open(c: PageContext): Response {
  return c.redirect(`/companies/${param(c, 'company')}/usage`, 303);
}

async function listPage(c: PageContext): Promise<Response> {
  const { format, services } = c.var;
  const query = listQuery<CompanySort>(c, SORTS);
  const [state] = STATES.find(([each]) => each === c.req.query('show')) ?? [''];
  const companies = await read(c, (sql) => pageOfCompanies(sql, query, state || null));
  const today = services.calendar.date(services.clock());
  const days = intervalsIn({ from: addDays(today, -29), to: today }, 'day');
  // on a phone no heading stands above it
  const countOf = (refused: number) => html`${format.count(refused)}<span class="unit"> refused</span>`;
  const cells = {
    [SORTS.name]: (row: ListedCompany) => html`<a href="/companies/${row.id}/usage">${row.name}</a>${badges(row)}`,
    [SORTS['-spent']]: ({ spent }: ListedCompany) => format.amount(spent),
    [SORTS['-share']]: (row: ListedCompany) => budgetCell(row, format),
    '30 days': (row: ListedCompany) =>
      sparkLine(
        days.map((day) => row.days[day] ?? 0),
        (most, at) => `most on ${format.day(days[at] as string)}: ${format.eurFixed(String(most))}`,
      ),
    [SORTS['-refused']]: ({ id, refused }: ListedCompany) =>
      refused === 0
        ? muted(countOf(refused))
        : html`<a href="/companies/${id}/requests?status=refused">${countOf(refused)}</a>`,
    [SORTS['-called']]: ({ called_at }: ListedCompany) => (called_at === null ? muted('never') : format.ago(called_at)),
  };
  const figures = [SORTS['-spent'], SORTS['-refused']];
  const empty = html`There are no companies yet. <a href="/companies/new">Create the first one</a>, with its owner and its first key.`;
  const filter = { name: 'show', label: 'Which companies', choices: STATES, value: state };
  const body = html`<div class="title-row"><h1>Companies</h1><a class="button primary" href="/companies/new">New company</a></div>
${budgetTiles()}
${list(c, { path: '/companies', caption: 'All companies', cells, figures, sorts: SORTS, isSortedByHeading: true, filter, empty }, query, companies)}`;
  return page(c, 'Companies', body);
}

/** What makes a company other than most. */
function badges({ closed_at, paused_at, percent, allow_non_eu_models, eu_locked }: ListedCompany): Html[] {
  const found = [
    closed_at !== null && badge('bad', 'closed'),
    paused_at !== null && badge('warn', 'paused'),
    percent !== null && percent >= 100 && badge('bad', 'used up'),
    allow_non_eu_models && !eu_locked && badge('warn', 'non-EU'),
  ];
  return found.flatMap((each) => (each === false ? [] : html` ${each}`));
}

function budgetCell({ effective_budget_eur: eur, percent }: ListedCompany, format: Format): Html {
  if (eur === null || percent === null) return muted('unlimited');
  return html`<span class="budget-cell">${budgetPicture(format.words.usage, null, percent, null)}<span>${format.percent(percent)} <span class="of">of ${format.amount(eur)}</span></span></span>`;
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
${buyerCard(c, company, form)}
${c.var.closedAt === null ? elsewhere : ''}
${ceilingsCard(c, company, form)}
${limitsCard(c, company, form)}
${await priceFactorCard(c, company, form)}
${
  mayNow(c, 'company.rename')
    ? settingCard(c, {
        company,
        form,
        settings: NAME,
        path: 'name',
        title: 'Name and customer number',
        save: 'Save name',
      })
    : ''
}${companyPauseCard(c, company, form)}${endCards(c, company)}`;
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
