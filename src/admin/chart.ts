import { formatEur, parseEur } from '../domain/money.ts';
import type { Format } from './format.ts';
import { type Html, html } from './html.ts';

/** Costs by the hour, day or month, and model. */
interface CostChart {
  /** What the chart shows, such as "Cost per day in November 2026". */
  readonly title: string;
  /** Names the axis of time. */
  readonly axis: string;
  /** Heading of the periods in the table. */
  readonly period: string;
  readonly bars: readonly Bar[];
  /** All models, in the order in which they are stacked from the bottom. */
  readonly models: readonly string[];
}

export interface Bar {
  /** Below the bar: "21". */
  readonly label: string;
  /** In sentences: "21 November 2026". */
  readonly name: string;
  /** Where a bar leads to; null: nowhere. */
  readonly href: string | null;
  readonly costs: readonly { readonly model: string; readonly cost_eur: string }[];
}

/** Models with a colour of their own; the rest is stacked as one. */
export const MAX_SERIES = 6;
const OTHER = 'other models';
/** Models that the text at a bar names; the rest is counted. */
export const MAX_NAMED = 8;

/**
 * A chart is drawn in both sizes, so that its text is readable on a phone; the style sheet shows one of them.
 * In units of the viewBox; `labels` is how many the axis of time has room for; a phone
 * shows no tips.
 */
const SIZES = [
  { width: 960, height: 280, left: 76, bottom: 40, top: 12, labels: 16, className: 'chart wide', hasTips: true },
  { width: 360, height: 230, left: 64, bottom: 40, top: 12, labels: 5, className: 'chart slim', hasTips: false },
];

/** Room for the half of the last label that is beyond its bar. */
const RIGHT = 14;

/** A bar chart of costs, stacked by model. Each bar is a link with a name; a table has the same figures. */
export function costChart(chart: CostChart, format: Format): Html {
  const named = chart.models.slice(0, MAX_SERIES);
  const series = chart.models.length > named.length ? [...named, OTHER] : named;
  const stacks = stack(chart, series);
  return html`<figure class="chart-frame"><figcaption class="legend">${series.map((name, at) => legendEntry(`s${at}`, name))}</figcaption>
${SIZES.map((size) => draw(size, stacks, format, chart))}</figure>
${figures(stacks, series, format, chart)}`;
}

/** A colour of a chart and what it stands for. */
export function legendEntry(className: string, text: string): Html {
  return html`<span><svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class="${className}" width="10" height="10" rx="2"/></svg>${text}</span>`;
}

type Stack = ReturnType<typeof stack>[number];

/** Each bar: `sums` per series and their `total` are exact, in femto-EUR; `heights` in EUR are for pixels. */
function stack({ bars }: CostChart, series: readonly string[]) {
  return bars.map((bar) => {
    const sums = series.map(() => 0n);
    for (const { model, cost_eur } of bar.costs) {
      const at = series.indexOf(model);
      const place = at < 0 ? series.length - 1 : at;
      sums[place] = (sums[place] as bigint) + parseEur(cost_eur);
    }
    const total = sums.reduce((sum, each) => sum + each, 0n);
    return { ...bar, sums, total, heights: sums.map((each) => Number(formatEur(each))) };
  });
}

/** The axis of amounts: at most seven round ticks from 0 to above the highest amount, and the decimals of their labels. */
function scaleFor(highest: number): { top: number; ticks: number[]; decimals: number } {
  if (!(highest > 0)) return { top: 1, ticks: [0, 1], decimals: 0 };
  const power = 10 ** Math.floor(Math.log10(highest / 6));
  const mantissa = [1, 2, 2.5, 5, 10].find((each) => each * power * 6 >= highest) as number;
  const unit = mantissa * power;
  const count = Math.ceil(highest / unit - 1e-9);
  const decimals = Math.max(0, (mantissa === 2.5 ? 1 : 0) - Math.floor(Math.log10(unit) + 1e-9));
  return {
    top: unit * count,
    ticks: Array.from({ length: count + 1 }, (_, at) => unit * at),
    decimals: decimals === 1 ? 2 : Math.min(decimals, 12), // cents rather than tenths of a euro
  };
}

function draw(size: (typeof SIZES)[number], stacks: readonly Stack[], format: Format, chart: CostChart): Html {
  const { width, height, left, bottom, top, labels, className, hasTips } = size;
  const most = stacks.reduce((highest, { total }) => (total > highest ? total : highest), 0n);
  const highest = Number(formatEur(most));
  const scale = scaleFor(highest);
  const floor = height - bottom;
  const y = (eur: number) => floor - (eur / scale.top) * (floor - top);
  const slot = (width - left - RIGHT) / stacks.length;
  const step = Math.ceil(stacks.length / labels);
  const label = `${chart.title}, in EUR, stacked by model. The highest bar is ${format.eurText(formatEur(most))}. The table below has the figures.`;
  return html`<svg class="${className}" viewBox="0 0 ${width} ${height}" role="group" aria-label="${label}">
<g aria-hidden="true">${scale.ticks.map(
    (tick) => html`<line class="grid" x1="${left}" x2="${width}" y1="${px(y(tick))}" y2="${px(y(tick))}"/>
<text class="tick" x="${left - 8}" y="${px(y(tick) + 4)}" text-anchor="end">${format.eurAxis(tick, scale.decimals)}</text>`,
  )}${stacks.map(({ label }, at) =>
    at % step === 0
      ? html`<text class="tick" x="${px(left + (at + 0.5) * slot)}" y="${floor + 16}" text-anchor="middle">${label}</text>`
      : '',
  )}<text class="axis" x="${left + (width - left) / 2}" y="${height - 4}" text-anchor="middle">${chart.axis}</text></g>
${stacks.map((bar, at) => {
  const x = left + at * slot;
  let base = 0;
  const parts = bar.heights.map((each, series) => {
    const from = base;
    base += each;
    if (each === 0) return '';
    const tall = Math.max(0.5, y(from) - y(base));
    return html`<rect class="s${series}" x="${px(x + slot * 0.14)}" y="${px(y(base))}" width="${px(slot * 0.72)}" height="${px(tall)}"/>`;
  });
  const inside = html`${hasTips ? html`<title>${costsOf(bar, format)}</title>` : ''}<rect class="hit" x="${px(x)}" y="${top}" width="${px(slot)}" height="${floor - top}"/>${parts}`;
  // without calls there is nothing to open, and one stop less for the keyboard
  if (bar.href === null || bar.costs.length === 0) return html`<g class="bar">${inside}</g>`;
  return html`<a class="bar" href="${bar.href}" aria-label="${`${bar.name}: ${format.eurText(formatEur(bar.total))}`}">${inside}</a>`;
})}
</svg>`;
}

/** What is at a bar: the sum, and a line for each of its dearest models. */
function costsOf({ name, costs, total }: Stack, format: Format): string {
  const exact = costs.map(({ model, cost_eur }) => ({ model, eur: parseEur(cost_eur) }));
  const dearest = exact.sort((a, b) => (a.eur < b.eur ? 1 : a.eur > b.eur ? -1 : 0)).slice(0, MAX_NAMED);
  const lines = dearest.map(({ model, eur }) => `${model}: ${format.eurText(formatEur(eur))}`);
  const more = costs.length - dearest.length;
  if (more > 0) lines.push(`and ${format.count(more)} more`);
  return [`${name}: ${format.eurText(formatEur(total))}`, ...lines].join('\n');
}

/** The figures of the chart as a table. */
function figures(stacks: readonly Stack[], series: readonly string[], format: Format, chart: CostChart): Html {
  const cell = (amount: bigint) => {
    const exact = formatEur(amount);
    return amount === 0n
      ? html`<td class="figure">–</td>`
      : html`<td class="figure" title="${format.eurText(exact)}">${format.eurFixed(exact)}</td>`;
  };
  const heading = (text: string) => html`<th scope="col" class="figure">${text}</th>`;
  return html`<details class="fold"><summary>Figures of the chart</summary><div class="scroll" role="region" aria-label="${chart.title}" tabindex="0">
<table class="plain"><caption class="sr">${chart.title}, in EUR</caption><thead><tr><th scope="col">${chart.period}</th>${heading('All')}${series.map(heading)}</tr></thead>
<tbody>${stacks.map(
    ({ name, href, costs, total, sums }) =>
      html`<tr><th scope="row">${href === null || costs.length === 0 ? name : html`<a href="${href}">${name}</a>`}</th>${[total, ...sums].map(cell)}</tr>`,
  )}</tbody></table></div></details>`;
}

function px(value: number): string {
  return value.toFixed(1);
}

/**
 * A bar of a budget: spent by in-app chat, then by API calls, and the forecast. All in percent.
 * @param total spent by both
 */
export function budgetBar(chat: number, total: number, forecast: number | null): Html {
  const most = Math.max(100, total, forecast ?? 0);
  const at = (percent: number) => `${((percent / most) * 100).toFixed(2)}%`;
  const state = total >= 100 ? ' over' : total >= 80 ? ' near' : '';
  return html`<svg class="budget${state}" role="img" aria-label="${`${total} percent of the budget is spent, ${chat} percent by in-app chat`}" width="100%" height="22">
<rect class="track" width="100%" height="14" y="4" rx="3"/>
${forecast === null ? '' : html`<rect class="forecast" width="${at(forecast)}" height="14" y="4" rx="3"/>`}
<rect class="spent" width="${at(total)}" height="14" y="4" rx="3"/>
<rect class="chat" width="${at(Math.min(chat, total))}" height="14" y="4" rx="3"/>
<line class="limit" x1="${at(100)}" x2="${at(100)}" y1="0" y2="22"/>
</svg>`;
}
