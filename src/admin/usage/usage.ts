import type { Words } from '../../domain/language/en.ts';
import { type DayRange, intervalOf, intervalsIn, isMonth, wholeMonth } from '../../domain/reports/day-range.ts';
import { costCenterPage } from '../../domain/wording/alert.ts';
import { type CompanyUsage, readCompanyUsage } from '../../store/usage/company-usage.ts';
import { readTokenDetails } from '../../store/usage/details.ts';
import { type Quality, readQuality } from '../../store/usage/quality.ts';
import { amounts, type Bar, chart, chartTiles, stackedByModel } from '../page/chart.ts';
import { type PageContext, param, type Route, read } from '../page/context.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { companyHeading, emptyText, exactSwitch, page } from '../page/layout.ts';
import { ownerSteps } from './first-steps.ts';
import { usageBar } from './usage-bar.ts';
import { usageCards } from './usage-cards.ts';
import { downloadLedger, downloadSums, exportCard } from './usage-export.ts';
import { FILTERS, linkOf, queryOf, rangeText, readUsageQuery, requestsOf, type UsageQuery } from './usage-query.ts';
import { detailsTable, MAX_LINES, reasonsTable, usageTables } from './usage-tables.ts';

const NO_FILTERS = { model: null, key: null, endpoint: null, cost_center: null };

/** A company's usage in a range of days (spec section 5, rule 6), its sums as CSV, and its ledger as CSV. */
export const usageRoutes: readonly Route[] = [
  { method: 'GET', path: '/companies/:company/usage', action: 'usage.read', handle: usagePage },
  { method: 'GET', path: '/companies/:company/usage.csv', action: 'usage.read', handle: downloadSums },
  { method: 'GET', path: '/companies/:company/ledger.csv', action: 'usage.read', handle: downloadLedger },
];

async function usagePage(c: PageContext): Promise<Response> {
  const { format } = c.var;
  const id = param(c, 'company');
  const query = readUsageQuery(c);
  const { range, filters, form } = query;
  const { usage, quality, details } = await read(c, async (sql) => ({
    usage: await readCompanyUsage(sql, id, range, filters, MAX_LINES),
    quality: await readQuality(sql, id, range, filters),
    details: await readTokenDetails(sql, id, range, filters),
  }));
  const base = `/companies/${id}/usage`;
  const when = rangeText(range, format);
  const { usage: words } = format.words;
  const body = html`${companyHeading(c, { id, name: usage.company_name })}
<div class="title-row"><h1>${words.title(when)}</h1>
<p class="actions"><a class="button quiet" href="usage/change${queryOf(query)}">${format.words.change.link}</a> <a class="button quiet" href="usage/table${queryOf(query)}">${format.words.grid.link}</a> <a class="button quiet" href="cost-centers${isMonth(range) ? `?month=${range.from.slice(0, 7)}` : ''}">${format.words.costCenters.link}</a> <a class="button quiet" href="#export">${words.export}</a></p></div>
${await ownerSteps(c, id)}
${usageBar(c, base, query, usage)}
${usageCards(usage, format)}
${refusedText(quality, format)}
${costsCard(c, usage, query, quality)}
${usageTables(usage, { c, format, query, quality }, (name) => costCenterPage(id, name, range.to.slice(0, 7)))}
${reasonsTable({ c, format, query, quality })}
${detailsTable(c, details)}
${exportCard(c, id, query)}
${quality.isTooMuch ? html`<p class="muted">${words.isTooMuch}</p>` : ''}
<p class="muted foot">${words.foot} ${exactSwitch(c)}</p>`;
  if (form.messages.size > 0) c.status(422);
  return page(c, words.of(usage.company_name), body);
}

/** That there were none, and where to look for them. */
function noCalls(c: PageContext, query: UsageQuery, isFiltered: boolean): Html {
  const { usage: words } = c.var.format.words;
  const when = rangeText(query.range, c.var.format);
  const link = (href: string) => (text: string) => html`<a href="${href}">${text}</a>`;
  const next = isFiltered ? words.allFilters(link(queryOf(query, NO_FILTERS))) : words.noCallsNext(link('keys'));
  return emptyText(html`${words.noCalls({ when, isFiltered })} ${next}`);
}

/** How many requests got no answer, which the figures of the ledger do not contain; nothing where all got one. */
export function refusedText({ all: { requests, refused, failed } }: Quality, format: Format): Html | string {
  if (refused + failed === 0) return '';
  const counts = {
    requests: format.count(requests),
    refused: format.count(refused),
    share: format.percent((refused / requests) * 100),
    failed: format.count(failed),
  };
  return html`<p>${format.words.usage.refusedText(counts, (why) => html`<a href="#reasons">${why}</a>`)}</p>`;
}

/** The cost by hour, day or month. */
export function costsCard(c: PageContext, usage: CompanyUsage, query: UsageQuery, quality: Quality): Html {
  const { range, filters } = query;
  const { format } = c.var;
  const isFiltered = FILTERS.some((name) => filters[name] !== null);
  return html`<section class="card"><h2>${format.words.usage.costPer[intervalOf(range)]}</h2>${
    usage.by_time.length === 0 ? noCalls(c, query, isFiltered) : costChart(usage, query, quality.hasTrail, format)
  }</section>`;
}

/** What the calls cost by time, stacked by model. */
export function costChart(usage: CompanyUsage, query: UsageQuery, hasTrail: boolean, format: Format): Html {
  const { range } = query;
  const interval = intervalOf(range);
  const { usage: words, chart: chartWords } = format.words;
  const costs = Map.groupBy(usage.by_time, ({ at }) => at);
  const bars =
    interval === 'hour'
      ? hoursOf(usage, query, hasTrail, words)
      : intervalsIn(range, interval).map((at) => barOf(at, interval, query, format));
  const stack = stackedByModel(
    usage.by_model.lines.map(({ name }) => name),
    format,
  );
  const spec = {
    title: `${words.costPer[interval]} ${rangeText(range, format)}`,
    how: chartWords.byModel,
    axis:
      interval === 'day' && wholeMonth(range.from).to >= range.to
        ? words.dayOf(format.month(range.from))
        : words.periods[interval],
    period: words.periods[interval],
    measure: amounts(format),
    kind: 'stack' as const,
    series: stack.series,
    bars: bars.map((bar) => ({ ...bar, ...stack.partsOf(costs.get(bar.at) ?? []) })),
  };
  return html`${chartTiles()}${chart(spec, format.words.chart)}`;
}

type Place = Omit<Bar, 'values' | 'lines'> & { readonly at: string };

/** A day leads to its hours, a month to its days. */
function barOf(at: string, interval: 'day' | 'month', query: UsageQuery, format: Format): Place {
  const { from, to }: DayRange = interval === 'day' ? { from: at, to: at } : wholeMonth(at);
  const isOneMonth = wholeMonth(query.range.from).to >= query.range.to;
  const label =
    interval === 'month' ? format.shortMonth(at) : isOneMonth ? String(Number(at.slice(8))) : format.shortDay(at);
  return {
    at,
    label,
    name: interval === 'day' ? format.range(at, at) : format.month(at),
    href: linkOf(query, { from, to }),
  };
}

/** An hour leads to its requests, where they are kept. An hour that clocks repeat is told apart. */
function hoursOf({ hours }: CompanyUsage, query: UsageQuery, hasTrail: boolean, words: Words['usage']): Place[] {
  return hours.map(({ at, label }, index) => {
    const isAgain = hours[index - 1]?.label === label;
    const to = `${new Date(Date.parse(at) + 3_600_000).toISOString().slice(0, 19)}Z`;
    const leads = hasTrail && query.filters.cost_center === null;
    return {
      at,
      label: label.endsWith(':00') ? label.slice(0, 2) : label,
      name: isAgain ? words.again(label) : label,
      href: leads ? requestsOf(query, {}, { from: at, to }) : null,
    };
  });
}
