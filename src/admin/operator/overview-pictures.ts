import { addDays, type DayRange, daysIn, intervalsIn } from '../../domain/reports/day-range.ts';
import {
  type DaySpend,
  FATES,
  type Fate,
  fatesOf,
  type NearBudget,
  type Overview,
  type RefusedNow,
  type RequestDay,
} from '../../domain/reports/overview.ts';
import { reasonOfCode } from '../../domain/reports/request-explanation.ts';
import {
  amounts,
  type Bar,
  bySize,
  type Chart,
  chart,
  chartTiles,
  counts,
  durations,
  stackedBy,
} from '../page/chart.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { badge, type Cells, companyLink, muted, table } from '../page/layout.ts';

/** The pictures of the first page, and what an operator can do about them at once. */

/** The labels of outcomes in the pictures. "Other" has the mistakes of callers. */
const FATE_TEXTS: Readonly<Record<Fate, string>> = {
  answered: 'Answered',
  402: '402 budget',
  429: '429 limit',
  refused: 'Other 4xx',
  failed: 'Failed',
};
const UNANSWERED = FATES.filter((fate) => fate !== 'answered');
/** Rows of a table of the first page; the rest is a link away. */
const MOST_ROWS = 5;

/** Four pictures of the last thirty days, each with the figures of today: spend, answered requests, the others by reason, and latency. */
export function pictures(
  { today, month, spend, request_days: days }: Overview,
  format: Format,
): Html {
  const range = { from: addDays(today.begins, -29), to: today.begins };
  const words = format.words.chart;
  const card = (title: string, now: Html | string, note: Html | string, picture: Chart) =>
    html`<section class="card"><div class="title-row"><h2>${title} ${now}</h2><p class="muted">${note}</p></div>${chart({ ...picture, half: true }, words)}</section>`;
  const { before } = today;
  const spent = html`yesterday at this time ${format.amount(before.cost_eur)} · ${format.month(month.begins)} ${format.amount(month.cost_eur)}`;
  const last = days.at(-1);
  const time = (ms: number | null) => (ms === null ? '–' : format.duration(ms));
  const ofRequests = ({ requests, refused, failed, p50, p95 }: RequestDay) => [
    html`${card('Refused and failed today', format.count(refused + failed), `${format.count(refused)} refused, ${format.count(failed)} failed of ${format.count(requests)}`, unansweredChart(days, format))}`,
    html`${card('Answered today', format.count(requests - refused - failed), `of ${format.count(requests)} requests`, answeredChart(days, format))}`,
    html`${card('Response time today', time(p50), p50 === null ? '' : `half take less; 95 % take less than ${time(p95)}`, latencyChart(days, format))}`,
  ];
  return html`${chartTiles()}<div class="pictures">
${card('Spent today', format.amount(today.cost_eur), spent, spendChart(spend, range, format))}
${last === undefined ? '' : ofRequests(last)}
</div>`;
}

/** The day of a bar, which leads to all that is known of it. */
function dayBar(day: string, format: Format, place = ''): Pick<Bar, 'label' | 'name' | 'href'> {
  return {
    label: format.shortDay(day),
    name: format.range(day, day),
    href: `/usage?from=${day}&to=${day}${place}`,
  };
}

/** What all companies spent on each day, by model. */
function spendChart(spend: readonly DaySpend[], range: DayRange, format: Format): Chart {
  const parts = spend.map(({ day, model: name, cost_eur: value }) => ({ day, name, value }));
  const stack = stackedBy(bySize(parts), format);
  const byDay = Map.groupBy(parts, ({ day }) => day);
  return {
    title: `Spend of all companies on each of ${daysIn(range)} days`,
    how: format.words.chart.inEurBy(format.words.grid.groups.model),
    axis: 'Day',
    period: 'Day',
    measure: amounts(format),
    kind: 'stack',
    series: stack.series,
    bars: intervalsIn(range, 'day').map((day) => ({
      ...dayBar(day, format),
      ...stack.partsOf(byDay.get(day) ?? []),
    })),
  };
}

/** The requests of each day that were refused, by reason, or failed. */
function unansweredChart(days: readonly RequestDay[], format: Format): Chart {
  return {
    ...ofDays(days, format, (day) => UNANSWERED.map((fate) => fatesOf(day)[fate])),
    title: `Refused and failed requests on each of ${days.length} days`,
    how: 'stacked by reason',
    measure: counts(format),
    kind: 'stack',
    series: UNANSWERED.map((fate) => FATE_TEXTS[fate]),
    looks: [1, 3, 4, 2],
  };
}

function answeredChart(days: readonly RequestDay[], format: Format): Chart {
  return {
    ...ofDays(days, format, (day) => [fatesOf(day).answered]),
    title: `Answered requests on each of ${days.length} days`,
    how: 'with those whose client left',
    measure: counts(format),
    kind: 'stack',
    series: [FATE_TEXTS.answered],
  };
}

function latencyChart(days: readonly RequestDay[], format: Format): Chart {
  return {
    ...ofDays(days, format, ({ p50, p95 }) => [p50, p95]),
    title: `Time of requests that were not refused on each of ${days.length} days`,
    how: 'half take less than p50, 95 % less than p95',
    measure: durations(format),
    kind: 'line',
    series: ['p50', 'p95'],
  };
}

function ofDays(
  days: readonly RequestDay[],
  format: Format,
  valuesOf: (day: RequestDay) => readonly (number | null)[],
): Pick<Chart, 'axis' | 'period' | 'bars'> {
  const bars = days.map((day) => ({
    ...dayBar(day.day, format, '#reasons'),
    values: valuesOf(day).map((value) => (value === null ? null : BigInt(Math.round(value)))),
  }));
  return { axis: 'Day', period: 'Day', bars };
}

/** Who gets errors now, and why; nothing where nobody does. @param since where the requests begin that the figures lead to */
export function refusedNow(
  rows: readonly RefusedNow[],
  since: string,
  format: Format,
): Html | string {
  if (rows.length === 0) return '';
  const requestsOf = ({ code, company }: RefusedNow) =>
    `${company === null ? '' : `/companies/${company.id}`}/requests?${new URLSearchParams({ code, from: since })}`;
  const cells: Cells<RefusedNow> = {
    Company: ({ company }) =>
      company === null
        ? muted('without a valid key')
        : companyLink({ company_id: company.id, company_name: company.name }, 'requests'),
    Why: ({ code }) => html`${reasonOfCode(code).text} <code>${code}</code>`,
    Requests: (row) =>
      html`<a href="${requestsOf(row)}">${format.count(row.requests)}<span class="sr"> requests: ${reasonOfCode(row.code).text}</span></a> ${muted(`of ${format.count(row.of)}`)}`,
    Owner: ({ owners, code }) =>
      mailLink(owners, `Requests are refused: ${reasonOfCode(code).text}`),
  };
  const title = 'Refused or failing in this hour and the one before';
  return html`<section><div class="title-row"><h2>${title}</h2><a href="/companies?show=refused&amp;sort=-refused">All refused today</a></div>
${table(title, rows.slice(0, MOST_ROWS), { cells, figures: ['Requests'] }, true)}</section>`;
}

/** Budgets that end soon or have ended, as calls to make; nothing where there are none. @param month its first day */
export function budgetCalls(
  { total, used_up, nearest }: Overview['budgets'],
  today: string,
  month: string,
  format: Format,
): Html | string {
  if (total === 0) return '';
  const cells: Cells<NearBudget> = {
    Budget: ({ company, key }) =>
      html`<a href="/companies/${company.id}/usage${key === null ? '' : `?key=${key.id}`}">${company.name}</a>${
        key === null ? '' : html`, key ${key.name} <code>${key.prefix}…</code>`
      }`,
    Ends: ({ reached_on, percent }) =>
      reached_on !== null
        ? html`${format.day(reached_on)} ${muted(daysText(today, reached_on, format))}`
        : percent >= 100
          ? badge('bad', 'used up')
          : muted('not this month'),
    Used: ({ percent }) => format.percent(percent),
    Spent: ({ spent_eur, budget_eur }) =>
      html`${format.amount(spent_eur)} ${muted(html`of ${format.amount(budget_eur)}`)}`,
    Owner: ({ owners, company, reached_on }) =>
      mailLink(owners, subjectOf(company.name, reached_on, month, format)),
    Actions: ({ company, key }) =>
      html`<a href="/companies/${company.id}/${key === null ? 'settings' : `keys/${key.id}`}">Change<span class="sr"> the budget of ${company.name}</span></a>`,
  };
  const title = 'Budgets near their end';
  const counts = `${format.count(total)} ${total === 1 ? 'budget has' : 'budgets have'} reached ${format.percent(80)} or will be passed at this pace. Used up: ${format.count(used_up)}.`;
  return html`<section><div class="title-row"><h2>${title}</h2>${muted(counts)} <a href="/companies?show=near&amp;sort=-share">All of them</a></div>
${table(title, nearest.slice(0, MOST_ROWS), { cells, figures: ['Used', 'Spent'] }, true)}</section>`;
}

function daysText(today: string, day: string, format: Format): string {
  const days = daysIn({ from: today, to: day }) - 1;
  return days === 0 ? 'today' : days === 1 ? 'tomorrow' : `in ${format.count(days)} days`;
}

function subjectOf(
  company: string,
  reachedOn: string | null,
  month: string,
  format: Format,
): string {
  const budget = `Budget of ${company} for ${format.month(month)}`;
  return reachedOn === null
    ? budget
    : `${budget}: used up about ${format.day(reachedOn)} at this pace`;
}

/** The addresses of owners, as a mail to all of them. */
function mailLink(owners: readonly string[], subject: string): Html {
  if (owners.length === 0) return muted('no owner');
  const to = owners.map((address) => encodeURIComponent(address).replaceAll('%40', '@')).join(',');
  const href = `mailto:${to}?subject=${encodeURIComponent(subject)}`;
  return html`<a href="${href}">${owners[0] as string}</a>${owners.length === 1 ? '' : html` ${muted(`and ${owners.length - 1} more`)}`}`;
}
