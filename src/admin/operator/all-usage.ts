import { parseEur } from '../../domain/money.ts';
import { addMonths, type DayRange, daysIn, wholeMonth } from '../../domain/reports/day-range.ts';
import type { RequestDay } from '../../domain/reports/overview.ts';
import {
  type AllChange,
  type AllUsage,
  type CompanyCost,
  readAllChange,
  readAllUsage,
} from '../../store/usage/all-usage.ts';
import { readRequestDays } from '../../store/usage/request-days.ts';
import { ALL_GROUPS, readAllTable } from '../../store/usage/usage-table.ts';
import { chart, chartTiles } from '../page/chart.ts';
import { type PageContext, type Route, read } from '../page/context.ts';
import type { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { companyLink, emptyText, exactSwitch, page, table } from '../page/layout.ts';
import { readPickedCompany } from '../page/picker.ts';
import { reasonCells } from '../page/reason.ts';
import { firstTable, MAX_LINES } from '../usage/first-lines.ts';
import { groupsDrawn, isTyped, toUsage, usageCard } from '../usage/usage.ts';
import { usageBar } from '../usage/usage-bar.ts';
import { sumCards } from '../usage/usage-cards.ts';
import { comparisonOf, modelTable, moversTable } from '../usage/usage-change.ts';
import { type Drawn, drawnByGroups } from '../usage/usage-chart.ts';
import { tableQuery, wholeGrid } from '../usage/usage-grid.ts';
import { queryOf, rangeText, readUsageQuery, timesOf, today, type UsageQuery } from '../usage/usage-query.ts';
import { changeViews, savedViews } from '../usage/usage-views.ts';
import { answeredChart, latencyChart, unansweredChart } from './overview-pictures.ts';

/** Usage of all companies together: the questions that the page of one company answers. */
export const allUsageRoutes: readonly Route[] = [
  { method: 'GET', path: '/usage', action: 'overview.read', handle: usagePage },
  {
    method: 'POST',
    path: '/usage',
    action: 'overview.keep',
    handle: (c, form) => changeViews(c, form, ALL_GROUPS),
    page: usagePage,
  },
  { method: 'GET', path: '/usage/change', action: 'overview.read', handle: toUsage },
  { method: 'GET', path: '/usage/table', action: 'overview.read', handle: toUsage },
  { method: 'GET', path: '/usage/beside', action: 'overview.read', handle: toCompany },
];

/** That can be chosen. */
const MONTHS = 13;
/** Whose requests are drawn: three more pictures of longer times would make the page too large. */
const MOST_DAYS = 31;
/** The filters of the page. */
const FILTERS = ['model'] as const;

/** Where two companies were compared before: to why the first one's usage changed. */
async function toCompany(c: PageContext): Promise<Response> {
  const query = readUsageQuery(c);
  const company = await readPickedCompany(c, query.form);
  return c.redirect(
    `${company === null ? '' : `/companies/${company}`}/usage${queryOf(query, { against: 'before' })}`,
    302,
  );
}

async function usagePage(c: PageContext, form: Form): Promise<Response> {
  const { format } = c.var;
  // no sum has the days of companies by model
  const groups = c.req.query('model') ? ALL_GROUPS.filter((group) => group !== 'company') : ALL_GROUPS;
  const query = readUsageQuery(c, groups);
  if (isTyped(c, query)) return c.redirect(queryOf(query), 302);
  const { range, by, and, as, filters } = query;
  const times = timesOf(c, query);
  const isPlain = times === null && and === null;
  const isShown = (group: string) => isPlain && as !== 'chart' && (by === null || by === group);
  const hasRequests = isPlain && by === null && daysIn(range) <= MOST_DAYS;
  // costs alone are known by day
  const drawn = groupsDrawn(query, query.figure !== 'cost_eur');
  const [usage, days, change, table] = await Promise.all([
    read(c, (sql) => readAllUsage(sql, range, isShown('company') ? MAX_LINES : null, filters.model)),
    hasRequests ? read(c, (sql) => readRequestDays(sql, range)) : [],
    times && read(c, (sql) => readAllChange(sql, times, filters.model)),
    drawn && read(c, (sql) => readAllTable(sql, tableQuery(c, query, drawn), filters.model)),
  ]);
  const when = rangeText(range, format);
  const months = Array.from({ length: MONTHS }, (_, back) => wholeMonth(addMonths(today(c), -back)).from);
  const known = { model: usage.by_model.map(({ model }) => [model, model] as const) };
  const none = emptyText(
    html`No API calls ${when}. Choose other days above; <a href="/requests">Requests</a> shows each call as it ends.`,
  );
  const stacked = table && drawn ? drawnByGroups(table, ...drawn, format) : drawnCosts(usage);
  const isDrawn = (isPlain || and !== null) && as !== 'table' && daysIn(range) > 1;
  const body = html`<div class="title-row"><h1>Usage of all companies ${when}</h1></div>
${usageBar(c, query, groups, known, months)}
${await savedViews(c, query, groups, form)}
${chartTiles()}
${change === null || times === null ? '' : comparisonOf(c, change, times, query, changeTables(c, change, query))}
<div class="figures">${sumCards(usage, usage.cost_eur, 'API calls, without in-app chat', format)}</div>
${
  usage.requests === 0
    ? none
    : html`${isDrawn ? usageCard(c, query, stacked, drawn ?? ['model']) : ''}
${isShown('model') ? modelsTable(c, usage, query) : ''}${companiesTable(c, usage, query)}
${table && and && as !== 'chart' ? wholeGrid(c, query, table, FILTERS) : ''}`
}
${isPlain && by === null ? requestsSection(days, range, hasRequests, format) : ''}
<p class="muted foot">Figures are exact sums of the ledger. Requests are those of the hours that begin on these days; up to ${MOST_DAYS} days at once. ${exactSwitch(c)}</p>`;
  if (query.form.messages.size > 0) c.status(422);
  return page(c, 'Usage of all companies', body);
}

/** The costs by model. */
function drawnCosts({ by_model, by_time }: AllUsage): Drawn {
  const parts = by_time.map(({ at, model, cost_eur }) => ({ at, name: model, value: cost_eur }));
  return { names: by_model.map(({ model }) => model), parts };
}

/** The companies that changed most, and the parts of each model. */
function changeTables(c: PageContext, { by_company, by_model }: AllChange, query: UsageQuery): Html {
  const isShown = (group: string) => query.by === null || query.by === group;
  const link = ({ id, name }: { readonly id: string; readonly name: string | null }) =>
    companyLink({ company_id: id, company_name: name }, `usage${queryOf({ ...query, by: null, and: null })}`);
  return html`${by_company === null || !isShown('company') ? '' : moversTable('Companies that changed most', 'Company', by_company, link, c.var.format)}
${isShown('model') ? modelTable(by_model, (model) => queryOf({ ...query, by: null, and: null }, { model }), c) : ''}`;
}

function modelsTable(c: PageContext, { by_model, cost_eur }: AllUsage, query: UsageQuery): Html {
  const { format } = c.var;
  type Line = AllUsage['by_model'][number];
  const cells = {
    Model: ({ model }: Line) => html`<a href="${queryOf({ ...query, by: null }, { model })}"><code>${model}</code></a>`,
    Cost: (line: Line) => format.amount(line.cost_eur),
    Share: (line: Line) => shareText(line.cost_eur, cost_eur, format),
    Requests: ({ requests }: Line) => format.count(requests),
    'Prompt tokens': ({ prompt_tokens }: Line) => format.count(prompt_tokens),
    'Completion tokens': ({ completion_tokens }: Line) => format.count(completion_tokens),
  };
  return firstTable(c, 'model', 'By model', by_model, cells);
}

function companiesTable(c: PageContext, { by_company, cost_eur }: AllUsage, query: UsageQuery): Html {
  const { format } = c.var;
  const cells = {
    Company: ({ id, name }: CompanyCost) =>
      companyLink({ company_id: id, company_name: name }, `usage${queryOf({ ...query, by: null })}`),
    Cost: (line: CompanyCost) => format.amount(line.cost_eur),
    Share: (line: CompanyCost) => shareText(line.cost_eur, cost_eur, format),
  };
  if (by_company === null) return html``;
  return firstTable(c, 'company', 'By company', by_company.lines, cells, by_company.count);
}

/** A comparison, so a float is exact enough. */
function shareText(part: string, all: string, format: Format): string {
  return parseEur(all) === 0n ? '' : format.percent((Number(part) / Number(all)) * 100);
}

/** What became of the requests of these days. */
function requestsSection(days: readonly RequestDay[], range: DayRange, isDrawn: boolean, format: Format): Html {
  const sum = (of: 'requests' | 'refused' | 'failed') => days.reduce((all, day) => all + day[of], 0);
  const requests = sum('requests');
  const title = 'Requests';
  if (requests === 0) {
    const why = isDrawn ? 'No requests of these days are known.' : `Requests are shown for up to ${MOST_DAYS} days.`;
    return html`<section id="requests"><h2>${title}</h2>${emptyText(why)}</section>`;
  }
  const reasons = new Map<string, number>();
  for (const [code, count] of days.flatMap((day) => Object.entries(day.reasons)))
    reasons.set(code, (reasons.get(code) ?? 0) + count);
  const lines = [...reasons]
    .map(([code, count]) => ({ code, requests: count }))
    .sort((a, b) => b.requests - a.requests);
  const [begins, ends] = [days[0]?.begins as string, days.at(-1)?.ends as string];
  const hrefOf = (code: string) => `/requests?${new URLSearchParams({ code, from: begins, to: ends })}`;
  const drawn =
    daysIn(range) === 1
      ? ''
      : html`<div class="pictures">
<section class="card"><h3>Refused and failed</h3>${chart({ ...unansweredChart(days, format), half: true }, format.words.chart)}</section>
<section class="card"><h3>Answered</h3>${chart({ ...answeredChart(days, format), half: true }, format.words.chart)}</section>
<section class="card"><h3>Latency</h3>${chart({ ...latencyChart(days, format), half: true }, format.words.chart)}</section></div>`;
  const [p50, p95] = [days[0]?.p50 ?? null, days[0]?.p95 ?? null];
  const latency =
    daysIn(range) > 1 || p50 === null || p95 === null
      ? ''
      : ` Half of them took less than ${format.duration(p50)}, 95% less than ${format.duration(p95)}.`;
  return html`<section id="requests"><h2>${title}</h2>
<p>${format.count(sum('refused'))} of <a href="/requests?${new URLSearchParams({ from: begins, to: ends })}">${format.count(requests)} requests</a> were refused, and ${format.count(sum('failed'))} failed.${latency}</p>
${drawn}
${lines.length === 0 ? '' : table('Refused and failed requests', lines, { cells: reasonCells(requests, format, hrefOf), figures: ['Requests', 'Share'] })}</section>`;
}
