import { type DayRange, type Interval, intervalOf, intervalsIn, wholeMonth } from '../../domain/text/day-range.ts';
import { type CompanyUsage, readCompanyUsage } from '../../store/usage/company-usage.ts';
import { readTokenDetails } from '../../store/usage/details.ts';
import { type Quality, readQuality } from '../../store/usage/quality.ts';
import { amounts, type Bar, chart, chartTiles, stackedByModel } from '../page/chart.ts';
import { type PageContext, param, type Route, read } from '../page/context.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { companyHeading, emptyText, page } from '../page/layout.ts';
import { usageBar } from './usage-bar.ts';
import { usageCards } from './usage-cards.ts';
import { downloadLedger, downloadSums, exportCard } from './usage-export.ts';
import { queryOf, rangeText, readUsageQuery, requestsOf, type UsageQuery } from './usage-query.ts';
import { detailsTable, MAX_LINES, reasonsTable, usageTables } from './usage-tables.ts';

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
  const isFiltered = Object.values(filters).some((filter) => filter !== null);
  const body = html`${companyHeading(c, { id, name: usage.company_name })}
<div class="title-row"><h1>Usage ${when}</h1>
<p class="actions"><a class="button quiet" href="usage/change${queryOf(query)}">What changed</a> <a class="button quiet" href="usage/table${queryOf(query)}">By two groups</a> <a class="button quiet" href="#export">Export</a></p></div>
${usageBar(c, base, query, usage)}
${usageCards(usage, format)}
${refusedText(quality, format)}
<section class="card"><h2>Cost per ${intervalOf(range)}</h2>${
    usage.by_time.length === 0
      ? emptyText(`No API calls ${when}${isFiltered ? ' with these filters' : ''}.`)
      : costs(usage, query, quality.hasTrail, format)
  }</section>
${usageTables(usage, { format, query, quality })}
${reasonsTable({ format, query, quality })}
${detailsTable(details, format)}
${exportCard(c, id, query)}
${quality.isTooMuch ? html`<p class="muted">Latency, refused and failed requests are shown for fewer days, or with a filter: there are too many figures to add up here.</p>` : ''}
<p class="muted foot">Figures are exact sums of the ledger; amounts are rounded to two decimals on this page, with the exact amount as a tooltip, and exact in its exports. Requests that were refused, or failed before any usage was known, cost nothing and are not in the ledger.</p>`;
  if (form.messages.size > 0) c.status(422);
  return page(c, `Usage of ${usage.company_name}`, body);
}

/** How many requests got no answer, which the figures of the ledger do not contain; nothing where all got one. */
function refusedText({ all: { requests, refused, failed } }: Quality, format: Format): Html | string {
  if (refused + failed === 0) return '';
  const share = format.percent((refused / requests) * 100);
  return html`<p>Of all ${format.count(requests)} requests, ${format.count(refused)} (${share}) were refused, and ${format.count(failed)} failed: <a href="#reasons">why</a>.</p>`;
}

/** The title of the axis of time. */
const PERIODS: Readonly<Record<Interval, string>> = { hour: 'Hour', day: 'Day', month: 'Month' };

function costs(usage: CompanyUsage, query: UsageQuery, hasTrail: boolean, format: Format): Html {
  const { range } = query;
  const interval = intervalOf(range);
  const costs = Map.groupBy(usage.by_time, ({ at }) => at);
  const bars =
    interval === 'hour'
      ? hoursOf(usage, query, hasTrail)
      : intervalsIn(range, interval).map((at) => barOf(at, interval, query, format));
  const stack = stackedByModel(
    usage.by_model.lines.map(({ name }) => name),
    format,
  );
  const drawn = chart({
    title: `Cost per ${interval} ${rangeText(range, format)}`,
    how: 'in EUR, stacked by model',
    axis:
      interval === 'day' && wholeMonth(range.from).to >= range.to
        ? `Day of ${format.month(range.from)}`
        : PERIODS[interval],
    period: PERIODS[interval],
    measure: amounts(format),
    kind: 'stack',
    series: stack.series,
    bars: bars.map((bar) => ({ ...bar, ...stack.partsOf(costs.get(bar.at) ?? []) })),
  });
  return html`${chartTiles()}${drawn}`;
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
    href: queryOf(query, { from, to }),
  };
}

/** An hour leads to its requests, where they are kept. An hour that clocks repeat is told apart. */
function hoursOf({ hours }: CompanyUsage, query: UsageQuery, hasTrail: boolean): Place[] {
  return hours.map(({ at, label }, index) => {
    const again = hours[index - 1]?.label === label ? ' again' : '';
    const to = `${new Date(Date.parse(at) + 3_600_000).toISOString().slice(0, 19)}Z`;
    const leads = hasTrail && query.filters.cost_center === null;
    return {
      at,
      label: label.endsWith(':00') ? label.slice(0, 2) : label,
      name: `${label}${again}`,
      href: leads ? requestsOf(query, {}, { from: at, to }) : null,
    };
  });
}
