import type { Words } from '../../domain/language/en.ts';
import { formatEur, parseEur } from '../../domain/pricing/money.ts';
import {
  type DayRange,
  type Interval,
  intervalOf,
  intervalsIn,
  wholeMonth,
} from '../../domain/reports/day-range.ts';
import { restOf, type UsageSums } from '../../domain/usage.ts';
import type { TimeCost } from '../../store/usage/change.ts';
import type { CompanyUsage } from '../../store/usage/company-usage.ts';
import type { Times } from '../../store/usage/cube.ts';
import {
  type Group,
  isTime,
  type Metric,
  type OverTime,
  type UsageTable,
} from '../../store/usage/usage-table.ts';
import {
  amounts,
  type Bar,
  bySize,
  chart,
  type Measure,
  type StackPart,
  stackedBy,
} from '../page/chart.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { headingText } from './usage-grid.ts';
import { queryOf, rangeText, requestsOf, type UsageQuery } from './usage-query.ts';

/** The pictures of the usage page: a figure over time, stacked by a group or two, and two times beside each other. */

/** What is stacked, in this order, and its parts by hour, day or month. */
export interface Drawn {
  readonly names: readonly string[];
  readonly parts: readonly (StackPart & { readonly at: string })[];
  /** Of a single day. */
  readonly hours?: CompanyUsage['hours'];
}

/** By model, of sums that have the figure. @param names of the models, the dearest first */
export function drawnByModel(
  sums: readonly ({ readonly at: string; readonly model: string } & Partial<UsageSums>)[],
  names: readonly string[],
  figure: Metric,
): Drawn {
  return {
    names,
    parts: sums.map((sum) => ({ at: sum.at, name: sum.model, value: String(sum[figure]) })),
  };
}

/** Of a table whose rows or columns are days or months, or which has its largest fields over time. */
export function drawnByGroups(
  table: UsageTable,
  rows: Group,
  columns: Group,
  format: Format,
): Drawn {
  const { others } = format.words.chart;
  const texts = (group: Group, headings: UsageTable['rows']) =>
    headings.map((each) => headingText(group, each, format));
  const [names, heads] = [texts(rows, table.rows), texts(columns, table.columns)];
  if (table.over !== undefined) {
    const name = ({ r, c }: OverTime) =>
      `${names[table.rows.findIndex(({ value }) => value === r)]} · ${heads[table.columns.findIndex(({ value }) => value === c)]}`;
    const parts = table.over
      .filter(({ r }) => r !== null)
      .map((field) => ({ at: field.at, name: name(field), value: field.n }));
    return drawn(
      bySize(parts),
      parts,
      table.over.filter(({ r }) => r === null).map(({ at, n }) => [at, n]),
      others,
    );
  }
  const isByRow = isTime(rows);
  const [times, lines] = isByRow ? [table.rows, heads] : [table.columns, names];
  const parts = times.flatMap(({ value: at }, time) =>
    lines.map((name, line) => ({
      at,
      name,
      value: (isByRow ? table.cells[time]?.[line] : table.cells[line]?.[time]) as string,
    })),
  );
  return drawn(
    lines,
    parts,
    times.map(({ value, total }) => [value, total]),
    others,
  );
}

/** The parts, and what is left of each time's total. */
function drawn(
  names: readonly string[],
  parts: Drawn['parts'],
  totals: readonly (readonly [at: string, total: string])[],
  others: string,
): Drawn {
  const known = Map.groupBy(parts, ({ at }) => at);
  const rest = totals.flatMap(([at, total]) => {
    const shown = (known.get(at) ?? []).map(({ value }) => value);
    const value = restOf(total, shown);
    return value === '0' ? [] : [{ at, name: others, value }];
  });
  return { names: rest.length === 0 ? names : [...names, others], parts: [...parts, ...rest] };
}

/** What a bar of the picture is: that of a group by time, or that of the range. */
export function intervalShown({ by, and, range }: UsageQuery): Interval {
  return isTime(by) ? by : isTime(and) ? and : intervalOf(range);
}

/** A figure over time, stacked. @param by what is stacked, in words @param leads whether hours lead to their requests */
export function usageChart(
  query: UsageQuery,
  { names, parts, hours }: Drawn,
  by: string,
  leads: boolean,
  format: Format,
): Html {
  const { range, figure } = query;
  const interval = intervalShown(query);
  const { usage: words, chart: chartWords, grid } = format.words;
  const measure = measureOf(figure, format);
  const byTime = Map.groupBy(parts, ({ at }) => at);
  const bars =
    interval === 'hour'
      ? hoursOf(hours ?? [], query, leads, words)
      : intervalsIn(range, interval).map((at) => barOf(at, interval, query, format));
  const stack = stackedBy(
    names,
    format,
    measure,
    by === grid.groups.model ? chartWords.otherModels : chartWords.others,
  );
  return chart(
    {
      title: `${words.per[interval](grid.metrics[figure])} ${rangeText(range, format)}`,
      how: figure === 'cost_eur' ? chartWords.inEurBy(by) : chartWords.by(by),
      axis:
        interval === 'day' && wholeMonth(range.from).to >= range.to
          ? words.dayOf(format.month(range.from))
          : words.periods[interval],
      period: words.periods[interval],
      measure,
      kind: 'stack',
      series: stack.series,
      bars: bars.map((bar) => ({ ...bar, ...stack.partsOf(byTime.get(bar.at) ?? []) })),
    },
    chartWords,
  );
}

/** Values are whole numbers of femto-EUR, or as small parts of counts. */
function measureOf(figure: Metric, format: Format): Measure {
  if (figure === 'cost_eur') return amounts(format);
  const number = (value: bigint) => Number(formatEur(value));
  const text = (value: bigint) => format.count(number(value));
  return { number, exact: text, short: text, axis: (value) => format.count(value) };
}

type Place = Omit<Bar, 'values' | 'lines'> & { readonly at: string };

/** A day leads to its hours, a month to its days. */
function barOf(at: string, interval: 'day' | 'month', query: UsageQuery, format: Format): Place {
  const { from, to }: DayRange = interval === 'day' ? { from: at, to: at } : wholeMonth(at);
  const { range } = query;
  const isOneMonth = wholeMonth(range.from).to >= range.to;
  const label =
    interval === 'month'
      ? format.shortMonth(at)
      : isOneMonth
        ? String(Number(at.slice(8)))
        : format.shortDay(at);
  return {
    at,
    label,
    name: interval === 'day' ? format.range(at, at) : format.month(at),
    href: queryOf(query, {
      from: from < range.from ? range.from : from,
      to: to > range.to ? range.to : to,
    }),
  };
}

/** An hour leads to its requests, where they are kept. An hour that clocks repeat is told apart. */
function hoursOf(
  hours: CompanyUsage['hours'],
  query: UsageQuery,
  leads: boolean,
  words: Words['usage'],
): Place[] {
  return hours.map(({ at, label }, index) => {
    const isAgain = hours[index - 1]?.label === label;
    const to = `${new Date(Date.parse(at) + 3_600_000).toISOString().slice(0, 19)}Z`;
    return {
      at,
      label: label.endsWith(':00') ? label.slice(0, 2) : label,
      name: isAgain ? words.again(label) : label,
      href:
        leads && query.filters.cost_center === null
          ? requestsOf(query, {}, { from: at, to })
          : null,
    };
  });
}

/** Both times beside each other by the day, or by the month; nothing for single days. */
export function timesChart(
  costs: readonly TimeCost[],
  { before, after }: Times,
  format: Format,
): Html | string {
  const { change: words, usage, grid } = format.words;
  const interval = [before, after].some((range) => intervalOf(range) === 'month') ? 'month' : 'day';
  const [first, second] = [intervalsIn(before, interval), intervalsIn(after, interval)];
  const most = Math.max(first.length, second.length);
  if (most === 1) return '';
  const known = new Map(
    costs.map(({ time, at, cost_eur }) => [`${time} ${at}`, parseEur(cost_eur)]),
  );
  const costOf = (time: TimeCost['time'], at: string | undefined) =>
    at === undefined ? null : (known.get(`${time} ${at}`) ?? 0n);
  const nameOf = (at: string) => (interval === 'month' ? format.month(at) : format.range(at, at));
  const bars = Array.from({ length: most }, (_, index): Bar => {
    const [was, is] = [first[index], second[index]];
    const days = [...new Set([was, is].filter((at) => at !== undefined))];
    return {
      label:
        interval === 'month'
          ? format.shortMonth(is ?? (was as string))
          : format.shortDay(is ?? (was as string)),
      name: days.map(nameOf).join(' · '),
      href: null,
      values: [costOf('before', was), costOf('after', is)],
    };
  });
  const spec = {
    title: words.chart,
    how: words.chartHow,
    axis: usage.periods[interval],
    period: usage.periods[interval],
    measure: amounts(format),
    kind: 'pair' as const,
    series: [words.before, words.after],
    looks: [1, 0],
    bars,
  };
  return html`<section class="card"><h2>${usage.per[interval](grid.metrics.cost_eur)}</h2>${chart(spec, format.words.chart)}</section>`;
}
