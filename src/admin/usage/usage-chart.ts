import type { Words } from '../../domain/language/en.ts';
import { formatEur, parseEur } from '../../domain/pricing/money.ts';
import {
  type DayRange,
  type Interval,
  intervalOf,
  intervalsIn,
  isMonth,
  wholeMonth,
} from '../../domain/reports/day-range.ts';
import { restOf, type UsageSums } from '../../domain/usage.ts';
import type { TimeCost } from '../../store/usage/change.ts';
import type { CompanyUsage } from '../../store/usage/company-usage.ts';
import type { CostCenterState } from '../../store/usage/cost-center.ts';
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
  type Over,
  type StackPart,
  stackedBy,
} from '../page/chart.ts';
import type { PageContext } from '../page/context.ts';
import type { Format } from '../page/format.ts';
import type { Html } from '../page/html.ts';
import { headingText } from './usage-grid.ts';
import { queryOf, rangeText, requestsOf, today, type UsageQuery } from './usage-query.ts';

/** The picture of the usage page: a figure over time, stacked by a group or two, with lines of another time and of a budget. */

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

/** What else a picture shows. */
export interface Around {
  /** Hours lead to their requests. */
  readonly leads?: boolean;
  /** The time before, and its costs, where it is compared. */
  readonly times?: Times | null;
  readonly costs?: readonly TimeCost[] | undefined;
  /** The present month of those whose costs are drawn; null: it is not known. */
  readonly budget?: CostCenterState | null;
}

/** A figure over time, stacked. @param by what is stacked, in words */
export function usageChart(
  c: PageContext,
  query: UsageQuery,
  { names, parts, hours }: Drawn,
  by: string,
  around: Around,
): Html {
  const { format } = c.var;
  const { range, figure } = query;
  const interval = intervalShown(query);
  const { usage: words, chart: chartWords, grid } = format.words;
  const measure = measureOf(figure, format);
  const byTime = Map.groupBy(parts, ({ at }) => at);
  const before = costsBefore(query, around, format);
  const sums = [...byTime.values()].map((of) =>
    of.reduce((sum, { value }) => sum + Number(value), 0),
  );
  const pace = paceOf(query, around, Math.max(...sums), today(c), format);
  const bars: Place[] =
    interval === 'hour'
      ? hoursOf(hours ?? [], query, around.leads === true, words)
      : intervalsIn(range, interval).map((at) => barOf(at, interval, query, format));
  // the time before may be longer
  for (const name of before?.names?.slice(bars.length) ?? [])
    bars.push({ at: '', label: '', name, href: null });
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
      over: [before, pace].filter((line) => line !== null),
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

function nameOf(at: string, interval: 'day' | 'month', format: Format): string {
  return interval === 'day' ? format.range(at, at) : format.month(at);
}

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
    name: nameOf(at, interval, format),
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

/** The time before as a line; null: it is not compared with costs of the same interval. */
function costsBefore(
  query: UsageQuery,
  { times, costs = [] }: Around,
  format: Format,
): Over | null {
  const interval = intervalShown(query);
  if (!times || query.figure !== 'cost_eur' || interval === 'hour') return null;
  const { before, after } = times;
  // as their sums are read
  if ((interval === 'month') !== [before, after].some((each) => intervalOf(each) === 'month'))
    return null;
  const known = new Map(
    costs.flatMap(({ time, at, cost_eur }) => (time === 'before' ? [[at, cost_eur]] : [])),
  );
  const days = intervalsIn(before, interval);
  return {
    look: 'was',
    name: `${format.words.change.before}: ${format.range(before.from, before.to)}`,
    values: days.map((at) => parseEur(known.get(at) ?? '0')),
    names: days.map((at) => nameOf(at, interval, format)),
  };
}

/** Above so many times the highest bar a budget would flatten all of them: it is told, and not drawn. */
const MOST_ABOVE = 3;

/** Of the present month a day's part of the budget; or, where there is none, of the forecast, for the days to come. */
function paceOf(
  { range, figure }: UsageQuery,
  { budget }: Around,
  highest: number,
  today: string,
  { words: { usage: words }, eurFixed }: Format,
): Over | null {
  if (!budget || figure !== 'cost_eur' || !isMonth(range) || range.from !== budget.month)
    return null;
  const { budget_eur, forecast_eur, spent_eur } = budget;
  const days = intervalsIn(range, 'day');
  const left = days.filter((day) => budget_eur !== null || day > today);
  const whole = budget_eur ?? forecast_eur;
  if (whole === null || left.length === 0) return null;
  const rest = parseEur(whole) - (budget_eur === null ? parseEur(spent_eur) : 0n);
  const each = rest / BigInt(left.length);
  const isAbove = Number(formatEur(each)) > highest * MOST_ABOVE;
  const name = budget_eur === null ? words.forecastOfDay : words.budgetOfDay;
  return {
    look: 'limit',
    name: name({ amount: eurFixed(formatEur(each)), isAbove }),
    values: days.map((day) => (left.includes(day) && !isAbove ? each : null)),
  };
}
