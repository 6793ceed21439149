import { addDays, intervalsIn } from '../../domain/reports/day-range.ts';
import {
  type CompanySort,
  type CompanyState,
  type ListedCompany,
  pageOfCompanies,
} from '../../store/lists/page.ts';
import { budgetPicture, budgetTiles, sparkLine } from '../page/chart.ts';
import { type PageContext, pageAt, param, type Route, read } from '../page/context.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { badge, type Cells, clipped, muted, page } from '../page/layout.ts';
import { list, listQuery } from '../page/list.ts';
import { unusualMarks } from '../usage/unusual.ts';

/** The list of companies, for operators. */
export const companyRoutes: readonly Route[] = [
  pageAt('/companies', 'company.list', listPage),
  pageAt('/companies/:company', 'company.read', open),
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
  ['', 'All companies'],
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
  const marks = await unusualMarks(c, null);
  const today = services.calendar.date(services.clock());
  const days = intervalsIn({ from: addDays(today, -29), to: today }, 'day');
  // on a phone no heading stands above it
  const countOf = (refused: number) =>
    html`${format.count(refused)}<span class="unit"> refused</span>`;
  const cells: Cells<ListedCompany> = {
    [SORTS.name]: (row) =>
      html`${clipped(row.name, html`<a href="/companies/${row.id}/usage">${row.name}</a>`)}${marks.company(row.id)}${badges(row)}`,
    [SORTS['-spent']]: ({ spent }) => format.amount(spent),
    [SORTS['-share']]: (row) => budgetCell(row, format),
    '30 days': (row) =>
      sparkLine(
        days.map((day) => row.days[day] ?? 0),
        (most, at) => `most on ${format.day(days[at] as string)}: ${format.eurFixed(String(most))}`,
      ),
    [SORTS['-refused']]: ({ id, refused }) =>
      refused === 0
        ? muted(countOf(refused))
        : html`<a href="/companies/${id}/requests?status=refused">${countOf(refused)}</a>`,
    [SORTS['-called']]: ({ called_at }) =>
      called_at === null ? muted('never') : format.ago(called_at),
  };
  const figures = [SORTS['-spent'], SORTS['-refused']];
  const empty = html`There are no companies yet. <a href="/companies/new">Create the first one</a>, with its owner and its first key.`;
  const filter = { name: 'show', label: 'Which companies', choices: STATES, value: state };
  const beside = html`<h1>Companies</h1><a class="button primary" href="/companies/new">New company</a>`;
  const body = html`${budgetTiles()}
${list(c, { beside, path: '/companies', caption: 'All companies', cells, figures, sorts: SORTS, look: 'rows', finds: 'Name, address or key', filter, empty }, query, companies)}`;
  return page(c, 'Companies', body);
}

/** What makes a company other than most. */
function badges({
  closed_at,
  paused_at,
  percent,
  allow_non_eu_models,
  eu_locked,
}: ListedCompany): Html[] {
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
