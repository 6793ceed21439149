import { parseEur } from '../../domain/money.ts';
import { type DayRange, daysIn, intervalOf, intervalsIn, wholeMonth } from '../../domain/reports/day-range.ts';
import type { RequestDay } from '../../domain/reports/overview.ts';
import { type AllUsage, type CompanyCost, readAllChange, readAllUsage } from '../../store/usage/all-usage.ts';
import { readRequestDays } from '../../store/usage/request-days.ts';
import { ALL_GROUPS, readAllTable } from '../../store/usage/usage-table.ts';
import { amounts, chart, chartTiles, stackedByModel } from '../page/chart.ts';
import { type PageContext, type Route, read } from '../page/context.ts';
import { field, formState } from '../page/field.ts';
import { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html, raw } from '../page/html.ts';
import { companyLink, emptyText, page, table } from '../page/layout.ts';
import { readPickedCompany } from '../page/picker.ts';
import { reasonCells } from '../page/reason.ts';
import { firstLines, withAllLines } from '../usage/first-lines.ts';
import { figureCard } from '../usage/usage-cards.ts';
import {
  explanation,
  isNothing,
  method,
  modelTable,
  moversTable,
  timesBar,
  timesChart,
} from '../usage/usage-change.ts';
import { readGridQuery, showGrid } from '../usage/usage-grid.ts';
import {
  filterChips,
  presets,
  queryOf,
  rangeText,
  readTimes,
  readUsageQuery,
  type UsageQuery,
} from '../usage/usage-query.ts';
import { answeredChart, latencyChart, unansweredChart } from './overview-pictures.ts';

/** Usage of all companies together, and why it changed. */
export const allUsageRoutes: readonly Route[] = [
  { method: 'GET', path: '/usage', action: 'overview.read', handle: usagePage },
  { method: 'GET', path: '/usage/change', action: 'overview.read', handle: changePage },
  { method: 'GET', path: '/usage/table', action: 'overview.read', handle: gridPage },
  { method: 'GET', path: '/usage/beside', action: 'overview.read', handle: toChange },
];

const MOST_LINES = 50;
/** Whose requests are drawn: three more pictures of longer times would make the page too large. */
const MOST_DAYS = 31;

async function usagePage(c: PageContext): Promise<Response> {
  const { format } = c.var;
  const query = readUsageQuery(c);
  const { range } = query;
  const isDrawn = daysIn(range) <= MOST_DAYS;
  const [usage, days] = await Promise.all([
    read(c, (sql) => readAllUsage(sql, range, MOST_LINES)),
    isDrawn ? read(c, (sql) => readRequestDays(sql, range)) : [],
  ]);
  const when = rangeText(range, format);
  const tokens = `${format.count(usage.prompt_tokens)} in · ${format.count(usage.completion_tokens)} out`;
  const body = html`<div class="title-row"><h1>Usage of all companies ${when}</h1>
<p class="actions"><a class="button quiet" href="/usage/change${queryOf(query)}">What changed</a> <a class="button quiet" href="/usage/table${queryOf(query)}">By two groups</a></p></div>
${daysBar(c, query)}
<div class="figures">${figureCard('Spent', format.amount(usage.cost_eur), 'API calls, without in-app chat')}
${figureCard('Requests', format.count(usage.requests), 'calls with usage in the ledger')}
${figureCard('Tokens', format.count(usage.prompt_tokens + usage.completion_tokens), tokens)}</div>
${usage.requests === 0 ? emptyText(html`No API calls ${when}. Choose other days above; <a href="/requests">Requests</a> shows each call as it ends.`) : html`${costCard(usage, query, format)}${modelsTable(c, usage)}${companiesTable(c, usage, query)}`}
${requestsSection(days, range, isDrawn, format)}
<p class="muted foot">Figures are exact sums of the ledger, with the exact amount as a tooltip. Requests are those of the hours that begin on these days; up to ${MOST_DAYS} days at once.</p>`;
  if (query.form.messages.size > 0) c.status(422);
  return page(c, 'Usage of all companies', body);
}

/** Which days are shown, and the ways to others. */
function daysBar(c: PageContext, query: UsageQuery): Html {
  const { services, format } = c.var;
  const { range, form } = query;
  const state = formState(form.messages.size > 0 ? form : new Form(undefined, null, form.language), c.req.path);
  const kept = new URLSearchParams(c.req.query());
  const link = ([text, { from, to }]: ReturnType<typeof presets>[number]) => {
    for (const [name, value] of Object.entries({ from, to })) kept.set(name, value);
    kept.delete('month');
    return html`<a href="?${kept}"${from === range.from && to === range.to ? raw(' aria-current="page"') : ''}>${text}</a>`;
  };
  return html`<div class="usage-bar">
<nav class="presets" aria-label="Days">${presets(format.words.usage.presets, services.calendar.date(services.clock())).map(link)}</nav>
<form method="get" action="${c.req.path}" class="filters">
${field(state, { name: 'from', label: 'First day', type: 'date', value: range.from })}${field(state, { name: 'to', label: 'Last day', type: 'date', value: range.to })}
<button>Show</button></form></div>`;
}

function costCard({ by_time, by_model }: AllUsage, query: UsageQuery, format: Format): Html | string {
  const { range } = query;
  const interval = intervalOf(range) === 'month' ? 'month' : 'day';
  if (daysIn(range) === 1) return '';
  const costs = Map.groupBy(by_time, ({ at }) => at);
  const stack = stackedByModel(
    by_model.map(({ model }) => model),
    format,
  );
  return html`<section class="card"><h2>Cost per ${interval}</h2>${chartTiles()}${chart(
    {
      title: `Cost of all companies per ${interval} ${rangeText(range, format)}`,
      how: format.words.chart.byModel,
      axis: interval === 'month' ? 'Month' : 'Day',
      period: interval === 'month' ? 'Month' : 'Day',
      measure: amounts(format),
      kind: 'stack',
      series: stack.series,
      bars: intervalsIn(range, interval).map((at) => ({
        label: interval === 'month' ? format.shortMonth(at) : format.shortDay(at),
        name: interval === 'month' ? format.month(at) : format.range(at, at),
        href: `/usage${queryOf(query, interval === 'month' ? wholeMonth(at) : { from: at, to: at })}`,
        ...stack.partsOf(costs.get(at) ?? []),
      })),
    },
    format.words.chart,
  )}</section>`;
}

function modelsTable(c: PageContext, { by_model, cost_eur }: AllUsage): Html {
  const { format } = c.var;
  type Line = AllUsage['by_model'][number];
  const cells = {
    Model: ({ model }: Line) => html`<code>${model}</code>`,
    Requests: ({ requests }: Line) => format.count(requests),
    'Prompt tokens': ({ prompt_tokens }: Line) => format.count(prompt_tokens),
    'Completion tokens': ({ completion_tokens }: Line) => format.count(completion_tokens),
    Cost: (line: Line) => format.amount(line.cost_eur),
    Share: (line: Line) => shareText(line.cost_eur, cost_eur, format),
  };
  const most = by_model.slice(0, MOST_LINES);
  const shown = table(
    'By model',
    firstLines(c, 'model', most),
    { cells, figures: Object.keys(cells).slice(1) },
    false,
    'sums',
  );
  return withAllLines(c, 'model', { count: by_model.length, most: most.length }, shown);
}

function companiesTable(c: PageContext, { by_company, cost_eur }: AllUsage, query: UsageQuery): Html {
  const { format } = c.var;
  const cells = {
    Company: ({ id, name }: CompanyCost) =>
      companyLink({ company_id: id, company_name: name }, `usage${queryOf(query)}`),
    Cost: (line: CompanyCost) => format.amount(line.cost_eur),
    Share: (line: CompanyCost) => shareText(line.cost_eur, cost_eur, format),
  };
  const { count, lines } = by_company;
  const shown = table(
    'By company',
    firstLines(c, 'company', lines),
    { cells, figures: ['Cost', 'Share'] },
    false,
    'sums',
  );
  return withAllLines(c, 'company', { count, most: lines.length }, shown);
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
<section class="card"><h3>Without an answer</h3>${chart({ ...unansweredChart(days, format), half: true }, format.words.chart)}</section>
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

async function changePage(c: PageContext): Promise<Response> {
  const { format } = c.var;
  const { query, before } = readTimes(c);
  const times = { before, after: query.range };
  const { model } = query.filters;
  const change = await read(c, (sql) => readAllChange(sql, times, model));
  const beside = `&before_from=${before.from}&before_to=${before.to}`;
  const body = html`<div class="title-row"><h1>${format.words.change.title}: all companies</h1><a class="button quiet" href="/usage${queryOf(query)}">Usage of all companies</a></div>
<p class="lead">${format.words.change.lead}</p>
${timesBar(
  c,
  query,
  before,
  filterChips(query, format.words, (more) => `${queryOf(query, more)}${beside}`),
)}
${explanation(change.total, times, format)}
${
  isNothing(change.total)
    ? ''
    : html`${timesChart(change.by_time, times, format)}
${
  change.by_company === null
    ? ''
    : moversTable(
        'Companies that changed most',
        'Company',
        change.by_company,
        ({ id, name }) => companyLink({ company_id: id, company_name: name }, `usage/change${queryOf(query)}${beside}`),
        format,
      )
}
${modelTable(change.by_model, (slug) => `${queryOf(query, { model: slug })}${beside}`, c)}`
}
${method(format)}`;
  if (query.form.messages.size > 0) c.status(422);
  return page(c, `${format.words.change.title}: all companies`, body);
}

/** Where two companies were compared before: to why the first one's usage changed. */
async function toChange(c: PageContext): Promise<Response> {
  const query = readUsageQuery(c);
  const company = await readPickedCompany(c, query.form);
  return c.redirect(`${company === null ? '' : `/companies/${company}`}/usage/change${queryOf(query)}`, 302);
}

async function gridPage(c: PageContext): Promise<Response> {
  const query = readUsageQuery(c);
  const asked = readGridQuery(c, query, ALL_GROUPS, { rows: 'company', columns: 'model' });
  const table = await read(c, (sql) => readAllTable(sql, asked));
  return showGrid(c, { query, asked, table, groups: ALL_GROUPS, heading: '', of: 'all companies', ofCompany: false });
}
