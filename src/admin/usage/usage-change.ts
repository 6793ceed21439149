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
} from '../../domain/text/day-range.ts';
import { roundedCents } from '../../domain/text/eur-text.ts';
import { type ExplainedChange, PARTS } from '../../domain/text/usage-change.ts';
import {
  type ModelChange,
  type Mover,
  type Movers,
  readUsageChange,
  type TimeCost,
  type Times,
  type UsageChange,
} from '../../store/usage/change.ts';
import type { UsageFilters } from '../../store/usage/company-usage.ts';
import { amounts, type Bar, chart, chartTiles, type Step, stepsTable } from '../page/chart.ts';
import { type PageContext, param, type Route, read } from '../page/context.ts';
import { field, formState } from '../page/field.ts';
import { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html, raw } from '../page/html.ts';
import { type Columns, companyHeading, emptyText, muted, page, table } from '../page/layout.ts';
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

/** All sentences of this page, and of those of operators that show the same. */
export const CHANGE_WORDS = {
  title: 'What changed, and why',
  lead: 'Two times beside each other. The difference is split to the last digit.',
  none: 'There were no API calls in either.',
  same: 'Both cost the same.',
  more: (amount: Html, than: string, share: string) => html`<strong>${amount} more</strong> ${than}${share}.`,
  less: (amount: Html, than: string, share: string) => html`<strong>${amount} less</strong> ${than}${share}.`,
  lengths: (before: number, after: number) => `The time before has ${before} days, the time after ${after}.`,
  than: (name: string | null) => (name === null ? 'than before' : `than ${name}`),
  both: 'Both',
  difference: 'Difference',
  before: 'Before',
  after: 'After',
  parts: {
    more_calls_eur: {
      up: 'More calls',
      down: 'Fewer calls',
      none: 'Number of calls',
      note: 'how many calls, of the same models and lengths',
    },
    longer_calls_eur: {
      up: 'Longer calls',
      down: 'Shorter calls',
      none: 'Length of calls',
      note: 'tokens per call of the same model',
    },
    dearer_models_eur: {
      up: 'Dearer models',
      down: 'Cheaper models',
      none: 'Choice of models',
      note: 'which models get the calls',
    },
    changed_prices_eur: {
      up: 'Higher prices',
      down: 'Lower prices',
      none: 'Prices',
      note: 'what the same tokens cost',
    },
  },
  method: [
    'More calls: what the calls of before would cost if there were as many as now, each model with the same share of them.',
    'Dearer models: what it adds that the calls go to other models than before, each call as long as before. A model without calls before is here as a whole.',
    'Longer calls: what it adds that calls of the same model have more tokens, or more of the dearer kind.',
    'These three are counted at one price for each model: the one that held when the time before ended, or the first one after it. Changed prices: what was paid beside that, now less before; nothing where no price changed.',
    'Amounts are exact. Each step is rounded to 15 decimals, and a part is the difference of two steps: so the parts add up to the difference to the last digit. In-app chat is not in it.',
  ],
  methodTitle: 'How this is counted',
  byModel: 'By model',
  movers: { key: 'Keys that changed most', cost_center: 'Cost centres that changed most' },
  others: (shown: string, all: string) => `The first ${shown} of ${all}.`,
  deletedKey: 'a deleted key',
  noCenter: 'none',
  chart: 'Cost of both times',
  chartHow: 'in EUR, beside each other',
};

async function changePage(c: PageContext): Promise<Response> {
  const { format } = c.var;
  const id = param(c, 'company');
  const { query, before } = readTimes(c);
  const times = { before, after: query.range };
  const change = await read(c, (sql) => readUsageChange(sql, id, times, query.filters));
  const to = (more: Partial<UsageFilters>) => changeQuery(query, before, more);
  const body = html`${companyHeading(c, { id, name: change.company_name })}
<div class="title-row"><h1>${CHANGE_WORDS.title}</h1><a class="button quiet" href="../usage${queryOf(query)}">Usage</a></div>
<p class="lead">${CHANGE_WORDS.lead}</p>
${timesBar(
  c,
  query,
  before,
  filterChips(query, to, (name, value) => nameOf(change, name, value)),
)}
${explanation(change.total, times, format)}
${
  isNothing(change.total)
    ? ''
    : html`${timesChart(change.by_time, times, format)}
${modelTable(change.by_model, (model) => to({ model }), format)}
${moversTable(CHANGE_WORDS.movers.key, 'Key', change.by_key, ({ id: key, name, prefix }) => html`<a href="${to({ key })}">${name ?? muted(CHANGE_WORDS.deletedKey)}</a>${prefix === null ? '' : html` <code>${prefix}…</code>`}`, format)}
${isLabelled(change.by_cost_center.lines) ? moversTable(CHANGE_WORDS.movers.cost_center, 'Cost centre', change.by_cost_center, ({ cost_center }) => html`<a href="${to({ cost_center })}">${cost_center || muted(CHANGE_WORDS.noCenter)}</a>`, format) : ''}`
}
${method()}`;
  if (query.form.messages.size > 0) c.status(422);
  return page(c, `${CHANGE_WORDS.title}: ${change.company_name}`, body);
}

/** A filter in words. */
function nameOf({ by_key }: UsageChange, name: FilterName, value: string): string {
  const key = name === 'key' ? by_key.lines.find(({ id }) => id === value) : undefined;
  return key?.name == null ? filterName(name, value) : `${key.name} (${key.prefix}…)`;
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
function presets(today: string): readonly (readonly [string, Times])[] {
  const yesterday = addDays(today, -1);
  const day = { from: yesterday, to: yesterday };
  const week = { from: addDays(today, -7), to: yesterday };
  const last = wholeMonth(addMonths(today, -1));
  return [
    ['Day: yesterday and a week before', { after: day, before: { from: addDays(today, -8), to: addDays(today, -8) } }],
    ['Week: last 7 days', { after: week, before: rangeBefore(week) }],
    ['This month so far', monthSoFar(today)],
    ['Last month', { after: last, before: rangeBefore(last) }],
  ];
}

/** Above the figures: the two times, and ways to others. @param filters the chips of what is chosen */
export function timesBar(c: PageContext, query: UsageQuery, before: DayRange, filters: Html | string = ''): Html {
  const { services } = c.var;
  const today = services.calendar.date(services.clock());
  const { range, form } = query;
  const state = formState(form.messages.size > 0 ? form : new Form(), c.req.path);
  const isShown = ({ after, before: other }: Times) =>
    after.from === range.from && after.to === range.to && other.from === before.from && other.to === before.to;
  const link = ([text, times]: readonly [string, Times]) =>
    html`<a href="${changeQuery({ ...query, range: times.after }, times.before)}"${isShown(times) ? raw(' aria-current="page"') : ''}>${text}</a>`;
  const kept = (Object.keys(FILTERS) as FilterName[]).filter((name) => query.filters[name] !== null);
  return html`<div class="usage-bar">
<nav class="presets" aria-label="Times">${presets(today).map(link)}</nav>
<form method="get" action="${c.req.path}" class="filters">${kept.map((name) => html`<input type="hidden" name="${name}" value="${inQuery(query.filters[name] as string)}">`)}
${field(state, { name: 'before_from', label: 'Before: first day', type: 'date', value: before.from })}${field(state, { name: 'before_to', label: 'Before: last day', type: 'date', value: before.to })}
${field(state, { name: 'from', label: 'After: first day', type: 'date', value: range.from })}${field(state, { name: 'to', label: 'After: last day', type: 'date', value: range.to })}
<button>Compare</button></form>${filters}</div>`;
}

/** The difference in a sentence, its parts as a picture, and the sums of both. @param companies their names, where two are compared in the same days */
export function explanation(
  total: ExplainedChange,
  { before, after }: Times,
  format: Format,
  companies: readonly [string, string] | null = null,
): Html {
  if (isNothing(total)) return emptyText(CHANGE_WORDS.none);
  const days = [before, after].map(({ from, to }) => format.range(from, to)) as [string, string];
  const names = companies ?? days;
  const than = CHANGE_WORDS.than(companies?.[0] ?? null);
  const whole = (name: string, value: string): Step => ({ name, note: '', value: null, text: format.amount(value) });
  const steps = [
    whole(names[0], total.before.cost_eur),
    ...PARTS.map((part): Step => {
      const value = parseEur(total[part]);
      const { up, down, none, note } = CHANGE_WORDS.parts[part];
      return {
        name: value > 0n ? up : value < 0n ? down : none,
        note,
        value,
        text: signed(total[part], format),
      };
    }),
    {
      name: CHANGE_WORDS.difference,
      note: '',
      value: parseEur(total.difference_eur),
      text: signed(total.difference_eur, format),
    },
    whole(names[1], total.after.cost_eur),
  ];
  return html`${chartTiles()}<section class="card"><h2>${differenceText(total, than, format)}</h2>${lengthText({ before, after })}
${stepsTable(`${CHANGE_WORDS.title}: ${names.join(', ')}`, steps, amounts(format))}</section>
${sumsTable(total, names, format)}`;
}

function differenceText({ before, difference_eur }: ExplainedChange, than: string, format: Format): Html | string {
  const difference = parseEur(difference_eur);
  if (difference === 0n) return CHANGE_WORDS.same;
  const [was, percent] = [Number(before.cost_eur), (Number(difference_eur) / Number(before.cost_eur)) * 100];
  const share = was > 0 ? ` (${format.percent(Math.abs(percent))})` : '';
  const amount = format.amount(difference_eur.replace('-', ''));
  return difference > 0n ? CHANGE_WORDS.more(amount, than, share) : CHANGE_WORDS.less(amount, than, share);
}

/** Times of different lengths are compared as they are. */
function lengthText({ before, after }: Times): Html | string {
  const [was, is] = [daysIn(before), daysIn(after)];
  return was === is ? '' : html`<p class="muted">${CHANGE_WORDS.lengths(was, is)}</p>`;
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
  type Line = { readonly name: string; readonly cells: readonly (Html | string)[] };
  const counted = (name: string, of: 'requests' | 'prompt_tokens' | 'completion_tokens'): Line => ({
    name,
    cells: [format.count(before[of]), format.count(after[of]), signedCount(after[of] - before[of], format)],
  });
  const lines: Line[] = [
    {
      name: 'Cost',
      cells: [format.amount(before.cost_eur), format.amount(after.cost_eur), signed(difference_eur, format)],
    },
    counted('Requests', 'requests'),
    counted('Prompt tokens', 'prompt_tokens'),
    counted('Completion tokens', 'completion_tokens'),
  ];
  // two names that are alike would be one column
  const [first, second] = names[0] === names[1] ? [`${names[0]} (1)`, `${names[1]} (2)`] : names;
  const cells: Columns<Line>['cells'] = {
    Sum: ({ name }) => name,
    [first]: (line) => line.cells[0] as Html,
    [second]: (line) => line.cells[1] as Html,
    Difference: (line) => line.cells[2] as Html,
  };
  return table(CHANGE_WORDS.both, lines, { cells, figures: [first, second, 'Difference'] });
}

/** Both times beside each other by the day, or by the month; nothing for single days. */
export function timesChart(
  costs: readonly TimeCost[],
  { before, after }: Times,
  format: Format,
  names: readonly [string, string] = [CHANGE_WORDS.before, CHANGE_WORDS.after],
): Html | string {
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
  return html`<section class="card"><h2>Cost per ${interval}</h2>${chart({
    title: CHANGE_WORDS.chart,
    how: CHANGE_WORDS.chartHow,
    axis: interval === 'month' ? 'Month' : 'Day',
    period: interval === 'month' ? 'Month' : 'Day',
    measure: amounts(format),
    kind: 'pair',
    series: names,
    looks: [1, 0],
    bars,
  })}</section>`;
}

/** The parts of each model. @param hrefOf the page of one; null: there is none */
export function modelTable(
  lines: readonly ModelChange[],
  hrefOf: (model: string) => string | null,
  format: Format,
): Html {
  const amount = (of: (line: ModelChange) => string) => (line: ModelChange) => signed(of(line), format);
  const cells: Columns<ModelChange>['cells'] = {
    Model: ({ model }) => {
      const href = hrefOf(model);
      return href === null ? html`<code>${model}</code>` : html`<a href="${href}"><code>${model}</code></a>`;
    },
    Before: ({ before }) => format.amount(before.cost_eur),
    After: ({ after }) => format.amount(after.cost_eur),
    Difference: amount(({ difference_eur }) => difference_eur),
    Calls: amount(({ more_calls_eur }) => more_calls_eur),
    Length: amount(({ longer_calls_eur }) => longer_calls_eur),
    Choice: amount(({ dearer_models_eur }) => dearer_models_eur),
    Prices: amount(({ changed_prices_eur }) => changed_prices_eur),
  };
  const figures = Object.keys(cells).slice(1);
  return table(CHANGE_WORDS.byModel, lines.slice(0, MOST_MODELS), { cells, figures });
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
  const cells: Columns<Mover & T>['cells'] = {
    [heading]: nameOf,
    Before: ({ before_eur }) => format.amount(before_eur),
    After: ({ after_eur }) => format.amount(after_eur),
    Difference: ({ difference_eur }) => signed(difference_eur, format),
  };
  const rest =
    count > lines.length
      ? html`<p class="muted">${CHANGE_WORDS.others(format.count(lines.length), format.count(count))}</p>`
      : '';
  return html`${table(title, lines, { cells, figures: ['Before', 'After', 'Difference'] })}${rest}`;
}

/** The definition of the parts. */
export function method(): Html {
  return html`<details class="fold"><summary>${CHANGE_WORDS.methodTitle}</summary><ul>${CHANGE_WORDS.method.map((sentence) => html`<li>${sentence}</li>`)}</ul></details>`;
}
