import { parseEur } from '../../domain/pricing/money.ts';
import { addMonths, daysIn, wholeMonth } from '../../domain/reports/day-range.ts';
import type { RequestDay } from '../../domain/reports/overview.ts';
import {
  type AllChange,
  type AllUsage,
  type CompanyCost,
  readAllChange,
  readAllUsage,
} from '../../store/usage/all-usage.ts';
import type { Quality } from '../../store/usage/quality.ts';
import { readRequestDays } from '../../store/usage/request-days.ts';
import { ALL_GROUPS, readAllTable } from '../../store/usage/usage-table.ts';
import { chartTiles } from '../page/chart.ts';
import { formAt, type PageContext, pageAt, type Route, read } from '../page/context.ts';
import type { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { type Cells, companyLink, emptyText, exactSwitch, page } from '../page/layout.ts';
import { readPickedCompany } from '../page/picker.ts';
import { firstTable, MAX_LINES } from '../usage/first-lines.ts';
import { groupsDrawn, isTyped, toUsage, usageCard } from '../usage/usage.ts';
import { usageBar } from '../usage/usage-bar.ts';
import { answerCards, sumCards } from '../usage/usage-cards.ts';
import { explanation, modelTable, moversTable } from '../usage/usage-change.ts';
import { drawnByGroups, drawnByModel } from '../usage/usage-chart.ts';
import { tableQuery, wholeGrid } from '../usage/usage-grid.ts';
import {
  queryOf,
  rangeText,
  readUsageQuery,
  timesOf,
  today,
  type UsageQuery,
} from '../usage/usage-query.ts';
import { reasonsTable, sumCells } from '../usage/usage-tables.ts';
import { changeViews } from '../usage/usage-views.ts';

/** Usage of all companies together: the questions that the page of one company answers. */
export const allUsageRoutes: readonly Route[] = [
  pageAt('/usage', 'overview.read', usagePage),
  formAt('/usage', 'overview.keep', (c, form) => changeViews(c, form, ALL_GROUPS), {
    page: usagePage,
  }),
  pageAt('/usage/change', 'overview.read', toUsage),
  pageAt('/usage/table', 'overview.read', toUsage),
  pageAt('/usage/beside', 'overview.read', toCompany),
];

/** How many months the menu offers. */
const MONTHS = 13;
/** The longest range, in days, of which requests are added up. */
const MOST_DAYS = 31;
/** The filters of the page. */
const FILTERS = ['model'] as const;

/** Redirects an old address, which compared two companies: to the table that has both, or to the change of the only one's usage. */
async function toCompany(c: PageContext): Promise<Response> {
  const query = readUsageQuery(c);
  if (c.req.query('with')) return c.redirect(`/usage${queryOf(query, { by: 'company' })}`, 302);
  const company = await readPickedCompany(c, query.form);
  return c.redirect(
    `${company === null ? '' : `/companies/${company}`}/usage${queryOf(query, { against: 'before' })}`,
    302,
  );
}

async function usagePage(c: PageContext, form: Form): Promise<Response> {
  const { format } = c.var;
  // no table of sums has a company's days by model
  const groups = c.req.query('model')
    ? ALL_GROUPS.filter((group) => group !== 'company')
    : ALL_GROUPS;
  const query = readUsageQuery(c, groups);
  if (isTyped(c, query)) return c.redirect(queryOf(query), 302);
  const { range, by, and, as, filters } = query;
  const times = timesOf(c, query);
  const isPlain = times === null && and === null;
  const isShown = (group: string) => isPlain && as !== 'chart' && (by === null || by === group);
  const hasRequests =
    isPlain && by === null && filters.model === null && daysIn(range) <= MOST_DAYS;
  // by day only costs are known
  const drawn = groupsDrawn(query, query.figure !== 'cost_eur');
  const [usage, days, change, table] = await Promise.all([
    read(c, (sql) =>
      readAllUsage(sql, range, isShown('company') ? MAX_LINES : null, filters.model),
    ),
    hasRequests ? read(c, (sql) => readRequestDays(sql, range)) : [],
    times && read(c, (sql) => readAllChange(sql, times, filters.model)),
    drawn && read(c, (sql) => readAllTable(sql, tableQuery(c, query, drawn), filters.model)),
  ]);
  const when = rangeText(range, format);
  const months = Array.from(
    { length: MONTHS },
    (_, back) => wholeMonth(addMonths(today(c), -back)).from,
  );
  const none = emptyText(
    html`No API calls ${when}. Choose other days above; <a href="/requests">Requests</a> shows each call as it ends.`,
  );
  const models = usage.by_model.map(({ model }) => model);
  const stacked =
    table && drawn
      ? drawnByGroups(table, ...drawn, format)
      : drawnByModel(usage.by_time, models, query.figure);
  const quality = qualityOf(days);
  const isDrawn = as !== 'table' && daysIn(range) > 1;
  const body = html`<h1>Usage of all companies ${when}</h1>
${await usageBar(c, query, groups, { model: models.map((model) => [model, model] as const) }, months, form)}
${chartTiles()}
<div class="figures">${sumCards(usage, usage.cost_eur, 'API calls, without in-app chat', format)}${answerCards(quality, format)}</div>
${change && times && explanation(c, change.total, times)}
${
  usage.requests === 0
    ? none
    : html`${isDrawn ? usageCard(c, query, stacked, drawn ?? ['model'], { times, costs: change?.by_time }) : ''}
${isShown('model') ? modelsTable(c, usage, query) : ''}${companiesTable(c, usage, query)}
${table && and && as !== 'chart' ? wholeGrid(c, query, table, FILTERS) : ''}`
}
${change === null || and !== null || as === 'chart' ? '' : changeTables(c, change, query)}
${reasonsTable({ c, format, query, quality })}
<p class="muted foot">Figures are exact sums of the ledger. Requests are those of the hours that begin on these days; up to ${MOST_DAYS} days at once; pictures of them are on the <a href="/">first page</a>. ${exactSwitch(c)}</p>`;
  if (query.form.messages.size > 0) c.status(422);
  return page(c, 'Usage of all companies', body);
}

/** The companies that changed most, and the parts of each model. */
function changeTables(
  c: PageContext,
  { by_company, by_model }: AllChange,
  query: UsageQuery,
): Html {
  const isShown = (group: string) => query.by === null || query.by === group;
  const link = ({ id, name }: { readonly id: string; readonly name: string | null }) =>
    companyLink(
      { company_id: id, company_name: name },
      `usage${queryOf({ ...query, by: null, and: null })}`,
    );
  return html`${by_company === null || !isShown('company') ? '' : moversTable('Companies that changed most', 'Company', by_company, link, c.var.format)}
${isShown('model') ? modelTable(by_model, (model) => queryOf({ ...query, by: null, and: null }, { model }), c) : ''}`;
}

function modelsTable(c: PageContext, { by_model, cost_eur }: AllUsage, query: UsageQuery): Html {
  const { format } = c.var;
  type Line = AllUsage['by_model'][number];
  const cells: Cells<Line> = {
    Model: ({ model }) =>
      html`<a href="${queryOf({ ...query, by: null }, { model })}"><code>${model}</code></a>`,
    Cost: (line) => format.amount(line.cost_eur),
    Share: (line) => shareText(line.cost_eur, cost_eur, format),
    ...sumCells(format),
  };
  return firstTable(c, 'model', 'By model', by_model, cells);
}

function companiesTable(
  c: PageContext,
  { by_company, cost_eur }: AllUsage,
  query: UsageQuery,
): Html {
  const { format } = c.var;
  const cells: Cells<CompanyCost> = {
    Company: ({ id, name }) =>
      companyLink(
        { company_id: id, company_name: name },
        `usage${queryOf({ ...query, by: null })}`,
      ),
    Cost: (line) => format.amount(line.cost_eur),
    Share: (line) => shareText(line.cost_eur, cost_eur, format),
  };
  if (by_company === null) return html``;
  return firstTable(c, 'company', 'By company', by_company.lines, cells, by_company.count);
}

/** Floats are exact enough for a comparison. */
function shareText(part: string, all: string, format: Format): string {
  return parseEur(all) === 0n ? '' : format.percent((Number(part) / Number(all)) * 100);
}

/** What became of the requests of these days. */
function qualityOf(days: readonly RequestDay[]): Quality {
  const sum = (of: 'requests' | 'refused' | 'failed') =>
    days.reduce((all, day) => all + day[of], 0);
  const [requests, refused, failed] = [sum('requests'), sum('refused'), sum('failed')];
  const counts = new Map<string, number>();
  for (const [code, count] of days.flatMap((day) => Object.entries(day.reasons)))
    counts.set(code, (counts.get(code) ?? 0) + count);
  const reasons = [...counts]
    .map(([code, requests]) => ({ code, requests }))
    .sort((a, b) => b.requests - a.requests);
  const { p50, p95 } = days.length === 1 ? (days[0] as RequestDay) : { p50: null, p95: null };
  const all =
    requests === 0 ? null : { requests, refused, failed, error_rate: failed / requests, p50, p95 };
  const none = new Map();
  return {
    all,
    reasons,
    hasTrail: true,
    isTooMuch: false,
    by_model: none,
    by_key: none,
    by_endpoint: none,
  };
}
