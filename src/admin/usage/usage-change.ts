import type { Words } from '../../domain/language/en.ts';
import { parseEur } from '../../domain/money.ts';
import {
  addDays,
  addMonths,
  type DayRange,
  daysIn,
  intervalOf,
  intervalsIn,
  monthSoFar,
  rangeBefore,
  wholeMonth,
} from '../../domain/reports/day-range.ts';
import { type ExplainedChange, PARTS } from '../../domain/reports/usage-change.ts';
import { roundedCents } from '../../domain/wording/eur-text.ts';
import {
  type ModelChange,
  type Mover,
  type Movers,
  readUsageChange,
  type TimeCost,
  type UsageChange,
} from '../../store/usage/change.ts';
import type { Times, UsageFilters } from '../../store/usage/cube.ts';
import { amounts, type Bar, chart, chartTiles, type Step, stepsTable } from '../page/chart.ts';
import { type PageContext, param, type Route, read } from '../page/context.ts';
import { field, formState } from '../page/field.ts';
import { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html, raw } from '../page/html.ts';
import { type Columns, companyHeading, emptyText, exactSwitch, muted, page, table } from '../page/layout.ts';
import { firstLines, withAllLines } from './first-lines.ts';
import {
  FILTERS,
  type FilterName,
  filterChips,
  filterName,
  inQuery,
  queryOf,
  readTimes,
  type UsageQuery,
} from './usage-query.ts';

/** Two times of a company beside each other, and why one cost more than the other. */
export const usageChangeRoutes: readonly Route[] = [
  { method: 'GET', path: '/companies/:company/usage/change', action: 'usage.read', handle: changePage },
];

async function changePage(c: PageContext): Promise<Response> {
  const { format } = c.var;
  const { change: words } = format.words;
  const id = param(c, 'company');
  const { query, before } = readTimes(c);
  const times = { before, after: query.range };
  const change = await read(c, (sql) => readUsageChange(sql, id, times, query.filters));
  const to = (more: Partial<UsageFilters>) => changeQuery(query, before, more);
  const body = html`${companyHeading(c, { id, name: change.company_name })}
<div class="title-row"><h1>${words.title}</h1><a class="button quiet" href="../usage${queryOf(query)}">${words.usage}</a></div>
<p class="lead">${words.lead}</p>
${timesBar(
  c,
  query,
  before,
  filterChips(query, format.words, to, (name, value) => nameOf(change, format, name, value)),
)}
${explanation(change.total, times, format)}
${
  isNothing(change.total)
    ? ''
    : html`${timesChart(change.by_time, times, format)}
${modelTable(change.by_model, (model) => to({ model }), c)}
${moversTable(words.keys, words.key, change.by_key, ({ id: key, name, prefix }) => html`<a href="${to({ key })}">${name ?? muted(format.words.tables.deletedKey)}</a>${prefix === null ? '' : html` <code>${prefix}…</code>`}`, format)}
${isLabelled(change.by_cost_center.lines) ? moversTable(words.costCenters, words.costCenter, change.by_cost_center, ({ cost_center }) => html`<a href="${to({ cost_center })}">${cost_center || muted(format.words.usage.noCostCenter)}</a>`, format) : ''}`
}
${method(format)}
<p class="muted foot">${exactSwitch(c)}</p>`;
  if (query.form.messages.size > 0) c.status(422);
  return page(c, `${words.title}: ${change.company_name}`, body);
}

/** A filter in words. */
function nameOf({ by_key }: UsageChange, { words }: Format, name: FilterName, value: string): string {
  const key = name === 'key' ? by_key.lines.find(({ id }) => id === value) : undefined;
  return key?.name == null ? filterName(words, name, value) : `${key.name} (${key.prefix}…)`;
}

function isLabelled(lines: readonly { readonly cost_center: string }[]): boolean {
  return lines.some(({ cost_center }) => cost_center !== '');
}

export function isNothing({ before, after }: ExplainedChange): boolean {
  return before.requests === 0 && after.requests === 0;
}

/** The address of these times with other filters, relative to the page. */
function changeQuery(query: UsageQuery, before: DayRange, more: Partial<DayRange & UsageFilters> = {}): string {
  return `${queryOf(query, more)}&before_from=${before.from}&before_to=${before.to}`;
}

/** Times that people compare often. */
function presets(words: Words['change']['presets'], today: string): readonly (readonly [string, Times])[] {
  const yesterday = addDays(today, -1);
  const day = { from: yesterday, to: yesterday };
  const week = { from: addDays(today, -7), to: yesterday };
  const last = wholeMonth(addMonths(today, -1));
  return [
    [words.day, { after: day, before: { from: addDays(today, -8), to: addDays(today, -8) } }],
    [words.week, { after: week, before: rangeBefore(week) }],
    [words.month, monthSoFar(today)],
    [words.lastMonth, { after: last, before: rangeBefore(last) }],
  ];
}

/** Above the figures: the two times, and ways to others. @param filters the chips of what is chosen */
export function timesBar(c: PageContext, query: UsageQuery, before: DayRange, filters: Html | string = ''): Html {
  const { services, format } = c.var;
  const { change: words } = format.words;
  const today = services.calendar.date(services.clock());
  const { range, form } = query;
  const state = formState(form.messages.size > 0 ? form : new Form(undefined, null, form.language), c.req.path);
  const day = (name: keyof typeof words.fields, value: string) =>
    field(state, { name, label: words.fields[name], type: 'date', value });
  const isShown = ({ after, before: other }: Times) =>
    after.from === range.from && after.to === range.to && other.from === before.from && other.to === before.to;
  const link = ([text, times]: readonly [string, Times]) =>
    html`<a href="${changeQuery({ ...query, range: times.after }, times.before)}"${isShown(times) ? raw(' aria-current="page"') : ''}>${text}</a>`;
  const kept = FILTERS.filter((name) => query.filters[name] !== null);
  return html`<div class="usage-bar">
<nav class="presets" aria-label="${words.times}">${presets(words.presets, today).map(link)}</nav>
<form method="get" action="${c.req.path}" class="filters">${kept.map((name) => html`<input type="hidden" name="${name}" value="${inQuery(query.filters[name] as string)}">`)}
${day('before_from', before.from)}${day('before_to', before.to)}
${day('from', range.from)}${day('to', range.to)}
<button>${words.compare}</button></form>${filters}</div>`;
}

/** The difference in a sentence, its parts as a picture, and the sums of both. */
export function explanation(total: ExplainedChange, { before, after }: Times, format: Format): Html {
  const { change: words } = format.words;
  if (isNothing(total)) return emptyText(words.none);
  const names = [before, after].map(({ from, to }) => format.range(from, to)) as [string, string];
  const whole = (name: string, value: string): Step => ({ name, note: '', value: null, text: format.amount(value) });
  const steps = [
    whole(names[0], total.before.cost_eur),
    ...PARTS.map((part): Step => {
      const value = parseEur(total[part]);
      const { up, down, none, note } = words.parts[part];
      return {
        name: value > 0n ? up : value < 0n ? down : none,
        note,
        value,
        text: signed(total[part], format),
      };
    }),
    {
      name: words.difference,
      note: '',
      value: parseEur(total.difference_eur),
      text: signed(total.difference_eur, format),
    },
    whole(names[1], total.after.cost_eur),
  ];
  return html`${chartTiles()}<section class="card"><h2>${differenceText(total, format)}</h2>${lengthText({ before, after }, format)}
${stepsTable(`${words.title}: ${names.join(', ')}`, steps, amounts(format))}</section>
${sumsTable(total, names, format)}`;
}

function differenceText({ before, difference_eur }: ExplainedChange, format: Format): unknown {
  const { change: words } = format.words;
  const difference = parseEur(difference_eur);
  if (difference === 0n) return words.same;
  const [was, percent] = [Number(before.cost_eur), (Number(difference_eur) / Number(before.cost_eur)) * 100];
  const share = was > 0 ? ` (${format.percent(Math.abs(percent))})` : '';
  const amount = html`<strong>${format.amount(difference_eur.replace('-', ''))}</strong>`;
  return difference > 0n ? words.more({ amount, share }) : words.less({ amount, share });
}

/** Times of different lengths are compared as they are. */
function lengthText({ before, after }: Times, { words }: Format): Html | string {
  const days = { before: daysIn(before), after: daysIn(after) };
  return days.before === days.after ? '' : html`<p class="muted">${words.change.lengths(days)}</p>`;
}

/** An amount with its sign, where it is more than nothing. */
export function signed(amount: string, format: Format): Html {
  const isMore = parseEur(amount) > 0n && roundedCents(amount).sign === ''; // "< €0.01" has a sign already
  return html`${isMore ? '+' : ''}${format.amount(amount)}`;
}

/** A count with its sign. */
function signedCount(count: number, format: Format): string {
  return `${count > 0 ? '+' : ''}${format.count(count)}`;
}

function sumsTable(
  { before, after, difference_eur }: ExplainedChange,
  names: readonly [string, string],
  format: Format,
): Html {
  const { change: words } = format.words;
  type Line = { readonly name: string; readonly cells: readonly (Html | string)[] };
  const counted = (name: string, of: 'requests' | 'prompt_tokens' | 'completion_tokens'): Line => ({
    name,
    cells: [format.count(before[of]), format.count(after[of]), signedCount(after[of] - before[of], format)],
  });
  const lines: Line[] = [
    {
      name: words.cost,
      cells: [format.amount(before.cost_eur), format.amount(after.cost_eur), signed(difference_eur, format)],
    },
    counted(words.requests, 'requests'),
    counted(words.promptTokens, 'prompt_tokens'),
    counted(words.completionTokens, 'completion_tokens'),
  ];
  // two names that are alike would be one column
  const [first, second] = names[0] === names[1] ? [`${names[0]} (1)`, `${names[1]} (2)`] : names;
  const cells: Columns<Line>['cells'] = {
    [words.sum]: ({ name }) => name,
    [first]: (line) => line.cells[0] as Html,
    [second]: (line) => line.cells[1] as Html,
    [words.difference]: (line) => line.cells[2] as Html,
  };
  return table(words.both, lines, { cells, figures: [first, second, words.difference] });
}

/** Both times beside each other by the day, or by the month; nothing for single days. */
export function timesChart(costs: readonly TimeCost[], { before, after }: Times, format: Format): Html | string {
  const { change: words, usage } = format.words;
  const interval = [before, after].some((range) => intervalOf(range) === 'month') ? 'month' : 'day';
  const [first, second] = [intervalsIn(before, interval), intervalsIn(after, interval)];
  const most = Math.max(first.length, second.length);
  if (most === 1) return '';
  const known = new Map(costs.map(({ time, at, cost_eur }) => [`${time} ${at}`, parseEur(cost_eur)]));
  const costOf = (time: TimeCost['time'], at: string | undefined) =>
    at === undefined ? null : (known.get(`${time} ${at}`) ?? 0n);
  const nameOf = (at: string) => (interval === 'month' ? format.month(at) : format.range(at, at));
  const bars = Array.from({ length: most }, (_, index): Bar => {
    const [was, is] = [first[index], second[index]];
    const days = [...new Set([was, is].filter((at) => at !== undefined))];
    return {
      label: interval === 'month' ? format.shortMonth(is ?? (was as string)) : format.shortDay(is ?? (was as string)),
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
  return html`<section class="card"><h2>${usage.costPer[interval]}</h2>${chart(spec, format.words.chart)}</section>`;
}

/** The parts of each model. @param hrefOf the page of one; null: there is none */
export function modelTable(
  lines: readonly ModelChange[],
  hrefOf: (model: string) => string | null,
  c: PageContext,
): Html {
  const { format } = c.var;
  const { change: words } = format.words;
  const cells: Columns<ModelChange>['cells'] = {
    [words.model]: ({ model }) => {
      const href = hrefOf(model);
      return href === null ? html`<code>${model}</code>` : html`<a href="${href}"><code>${model}</code></a>`;
    },
    [words.before]: ({ before }) => format.amount(before.cost_eur),
    [words.after]: ({ after }) => format.amount(after.cost_eur),
    [words.difference]: ({ difference_eur }) => signed(difference_eur, format),
    ...Object.fromEntries(
      PARTS.map((part) => [words.columns[part], (line: ModelChange) => signed(line[part], format)]),
    ),
  };
  const figures = Object.keys(cells).slice(1);
  const most = lines.slice(0, MOST_MODELS);
  const shown = table(words.byModel, firstLines(c, 'model', most), { cells, figures }, false, 'sums');
  return withAllLines(c, 'model', { count: lines.length, most: most.length }, shown);
}

const MOST_MODELS = 50;

/** Those whose cost changed most; nothing where there are none. */
export function moversTable<T>(
  title: string,
  heading: string,
  { count, lines }: Movers<T>,
  nameOf: (line: T) => Html,
  format: Format,
): Html | string {
  if (lines.length === 0) return '';
  const { change: words } = format.words;
  const cells: Columns<Mover & T>['cells'] = {
    [heading]: nameOf,
    [words.before]: ({ before_eur }) => format.amount(before_eur),
    [words.after]: ({ after_eur }) => format.amount(after_eur),
    [words.difference]: ({ difference_eur }) => signed(difference_eur, format),
  };
  const shown = { shown: format.count(lines.length), all: format.count(count) };
  const rest = count > lines.length ? html`<p class="muted">${words.first(shown)}</p>` : '';
  return html`${table(title, lines, { cells, figures: [words.before, words.after, words.difference] }, false, 'sums')}${rest}`;
}

/** The definition of the parts. */
export function method({ words: { change } }: Format): Html {
  return html`<details class="fold"><summary>${change.method}</summary><ul>${change.rules.map((rule) => html`<li>${rule}</li>`)}</ul></details>`;
}
