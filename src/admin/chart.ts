import { html } from 'hono/html';
import { formatEur, parseEur } from '../domain/money.ts';
import type { Format } from './format.ts';
import type { Html } from './html.ts';

/** Cost per day and model. */
export interface DailyCost {
  /** Days of the month. */
  readonly days: number;
  readonly cells: readonly { readonly day: number; readonly model: string; readonly cost_eur: string }[];
  /** All models, in the order in which they are stacked from the bottom. */
  readonly models: readonly string[];
}

/** Models with a colour of their own; the rest is stacked as one. */
export const MAX_SERIES = 6;
const OTHER = 'other models';
/** Models that the text at a bar names; the rest is counted. */
export const MAX_NAMED = 8;

/**
 * A chart is drawn in both sizes, so that its text is readable on a phone; the style sheet shows one of them.
 * In units of the viewBox; `step` is in days, from one label of the axis to the next.
 */
const SIZES = [
  { width: 960, height: 280, left: 76, bottom: 40, top: 12, step: 2, className: 'chart wide' },
  { width: 360, height: 230, left: 64, bottom: 40, top: 12, step: 7, className: 'chart slim' },
];

/** A bar chart of the cost per day, stacked by model. @param month its name, for labels */
export function costPerDay(cost: DailyCost, format: Format, month: string): Html {
  const named = cost.models.slice(0, MAX_SERIES);
  const series = cost.models.length > named.length ? [...named, OTHER] : named;
  const stacks = stack(cost, series);
  return html`<figure class="chart-frame"><figcaption class="legend">${series.map((name, at) => legendEntry(`s${at}`, name))}</figcaption>
${SIZES.map((size) => draw(size, stacks, format, month))}</figure>`;
}

/** A colour of a chart and what it stands for. */
export function legendEntry(className: string, text: string): Html {
  return html`<span><svg class="key" viewBox="0 0 10 10" aria-hidden="true"><rect class="${className}" width="10" height="10" rx="2"/></svg>${text}</span>`;
}

type Stack = ReturnType<typeof stack>[number];

/** The bar of each day: `heights` in EUR per series, and their `total`, for pixels; `cells` are exact, for text. */
function stack({ days, cells }: DailyCost, series: readonly string[]) {
  return Array.from({ length: days }, (_, at) => {
    const day = at + 1;
    const ofDay = cells.filter((cell) => cell.day === day);
    const heights = series.map((name) =>
      ofDay
        .filter(({ model }) => (series.includes(model) ? model : OTHER) === name)
        .reduce((sum, { cost_eur }) => sum + Number(cost_eur), 0),
    );
    return { day, heights, total: heights.reduce((sum, each) => sum + each, 0), cells: ofDay };
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

function draw(size: (typeof SIZES)[number], stacks: readonly Stack[], format: Format, month: string): Html {
  const { width, height, left, bottom, top, step, className } = size;
  const highest = Math.max(...stacks.map(({ total }) => total));
  const scale = scaleFor(highest);
  const floor = height - bottom;
  const y = (eur: number) => floor - (eur / scale.top) * (floor - top);
  const slot = (width - left) / stacks.length;
  const label = `Cost per day in ${month}, in EUR, stacked by model. The highest day cost ${format.eurAxis(highest, 2)}. The tables below have the figures.`;
  return html`<svg class="${className}" viewBox="0 0 ${width} ${height}" role="img" aria-label="${label}">
${scale.ticks.map(
  (tick) => html`<line class="grid" x1="${left}" x2="${width}" y1="${px(y(tick))}" y2="${px(y(tick))}"/>
<text class="tick" x="${left - 8}" y="${px(y(tick) + 4)}" text-anchor="end">${format.eurAxis(tick, scale.decimals)}</text>`,
)}
${stacks.map(({ day, heights, cells }) => {
  const x = left + (day - 1) * slot;
  let base = 0;
  const bars = heights.map((each, at) => {
    const from = base;
    base += each;
    if (each === 0) return '';
    const tall = Math.max(0.5, y(from) - y(base));
    return html`<rect class="s${at}" x="${px(x + slot * 0.14)}" y="${px(y(base))}" width="${px(slot * 0.72)}" height="${px(tall)}"/>`;
  });
  return html`<g class="day"><title>${`${day} ${month}: ${costsOf(cells, format)}`}</title><rect class="hit" x="${px(x)}" y="${top}" width="${px(slot)}" height="${floor - top}"/>${bars}</g>${
    (day - 1) % step === 0
      ? html`<text class="tick" x="${px(x + slot / 2)}" y="${floor + 16}" text-anchor="middle">${day}</text>`
      : ''
  }`;
})}
<text class="axis" x="${left + (width - left) / 2}" y="${height - 4}" text-anchor="middle">Day of ${month}</text>
</svg>`;
}

/** The sum of a day, and a line for each of its dearest models. */
function costsOf(cells: DailyCost['cells'], format: Format): string {
  const costs = cells.map(({ model, cost_eur }) => ({ model, eur: parseEur(cost_eur) }));
  const sum = costs.reduce((total, { eur }) => total + eur, 0n);
  const dearest = costs.sort((a, b) => (a.eur < b.eur ? 1 : a.eur > b.eur ? -1 : 0)).slice(0, MAX_NAMED);
  const lines = dearest.map(({ model, eur }) => `${model}: ${format.eurText(formatEur(eur))}`);
  const more = costs.length - dearest.length;
  if (more > 0) lines.push(`and ${format.count(more)} more`);
  return [format.eurText(formatEur(sum)), ...lines].join('\n');
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
