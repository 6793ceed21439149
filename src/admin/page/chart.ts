import type { Words } from '../../domain/language/en.ts';
import { formatEur, parseEur } from '../../domain/money.ts';
import type { Format } from './format.ts';
import { type Html, html } from './html.ts';

/** Costs by the hour, day or month, and model. */
interface CostChart {
  /** The title of the chart, such as "Cost per day in November 2026". */
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
  const series = chart.models.length > named.length ? [...named, format.words.chart.otherModels] : named;
  const stacks = stack(chart, series);
  return html`${definitions(SERIES_TILES)}<figure class="chart-frame"><figcaption class="legend">${series.map((name, at) => legendEntry(paintOf(at), name))}</figcaption>
${SIZES.map((size) => draw(size, stacks, format, chart))}</figure>
${figures(stacks, series, format, chart)}`;
}

/**
 * How parts of a chart are painted besides the first: a colour, and over it a pattern in that of the background, so
 * that they are told apart without colours. Tiles of 8 units, by the ids that `fill` refers to.
 */
const SERIES_TILES: Readonly<Record<string, Html>> = {
  p1: tile('s1', 'M-2 2l4-4M0 8l8-8M6 10l4-4'),
  p2: tile('s2', 'M1 2h2M5 6h2'),
  p3: tile('s3', 'M0 2h8M0 6h8'),
  p4: tile('s4', 'M-2 6l4 4M0 0l8 8M6-2l4 4'),
  p5: tile('s5', 'M0 4h8M4 0v8'),
  p6: tile('s6', 'M2 0v8M6 0v8'),
};

/** Those of a bar of a budget; the last is drawn over others. */
const BUDGET_TILES: Readonly<Record<string, Html>> = {
  chat: tile('chat', 'M-2 2l4-4M0 8l8-8M6 10l4-4'),
  ahead: tile('ahead', 'M-2 6l4 4M0 0l8 8M6-2l4 4'),
  beyond: tile('none', 'M0 4h8M4 0v8'),
};

function tile(className: string, pattern: string): Html {
  return html`<rect class="${className}" width="8" height="8"/><path class="hatch" d="${pattern}"/>`;
}

/** The definitions that the parts of a chart refer to; each once in a page. */
function definitions(tiles: Readonly<Record<string, Html>>): Html {
  return html`<svg class="patterns" width="0" height="0" aria-hidden="true" focusable="false"><defs>${Object.entries(
    tiles,
  ).map(
    ([id, tile]) => html`<pattern id="${id}" width="8" height="8" patternUnits="userSpaceOnUse">${tile}</pattern>`,
  )}</defs></svg>`;
}

/** How a part is painted: by its class, or by the tile with this id. */
function paint(className: string, tile: string | null = null): Html {
  return tile === null ? html`class="${className}"` : html`class="${className}" fill="url(#${tile})"`;
}

/** @param at the number of a series */
function paintOf(at: number): Html {
  return paint(`s${at}`, at === 0 ? null : `p${at}`);
}

/** The look of a part of a chart, and its meaning. @param over the fill that is drawn over it */
function legendEntry(painted: Html, text: string, over: Html | null = null): Html {
  const rects = [painted, over].map((each) => each && html`<rect ${each} width="14" height="14" rx="2"/>`);
  return html`<span><svg class="key" viewBox="0 0 14 14" aria-hidden="true">${rects}</svg>${text}</span>`;
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
  const label = format.words.chart.label({ title: chart.title, highest: format.eurText(formatEur(most)) });
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
    return html`<rect ${paintOf(series)} x="${px(x + slot * 0.14)}" y="${px(y(base))}" width="${px(slot * 0.72)}" height="${px(tall)}"/>`;
  });
  const inside = html`${hasTips ? html`<title>${costsOf(bar, format)}</title>` : ''}<rect class="hit" x="${px(x)}" y="${top}" width="${px(slot)}" height="${floor - top}"/>${parts}`;
  // without calls there is nothing to open, and one stop less for the keyboard
  if (bar.href === null || bar.costs.length === 0) return html`<g class="bar">${inside}</g>`;
  return html`<a class="bar" href="${bar.href}" aria-label="${`${bar.name}: ${format.eurText(formatEur(bar.total))}`}">${inside}</a>`;
})}
</svg>`;
}

/** The text at a bar: the sum, and a line for each of its dearest models. */
function costsOf({ name, costs, total }: Stack, format: Format): string {
  const exact = costs.map(({ model, cost_eur }) => ({ model, eur: parseEur(cost_eur) }));
  const dearest = exact.sort((a, b) => (a.eur < b.eur ? 1 : a.eur > b.eur ? -1 : 0)).slice(0, MAX_NAMED);
  const lines = dearest.map(({ model, eur }) => `${model}: ${format.eurText(formatEur(eur))}`);
  const more = costs.length - dearest.length;
  if (more > 0) lines.push(format.words.chart.more(format.count(more)));
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
  const words = format.words.chart;
  const heading = (text: string) => html`<th scope="col" class="figure">${text}</th>`;
  return html`<details class="fold"><summary>${words.figures}</summary><div class="scroll" role="region" aria-label="${chart.title}" tabindex="0">
<table class="plain"><caption class="sr">${words.inEur(chart.title)}</caption><thead><tr><th scope="col">${chart.period}</th>${heading(words.all)}${series.map(heading)}</tr></thead>
<tbody>${stacks.map(
    ({ name, href, costs, total, sums }) =>
      html`<tr><th scope="row">${href === null || costs.length === 0 ? name : html`<a href="${href}">${name}</a>`}</th>${[total, ...sums].map(cell)}</tr>`,
  )}</tbody></table></div></details>`;
}

function px(value: number): string {
  return value.toFixed(1);
}

/**
 * A bar of a budget, with its legend: the spend of in-app chat, the spend of API calls, the part beyond the budget, and
 * the forecast. All in percent.
 * @param total spent by both
 */
export function budgetBar(words: Words['usage'], chat: number, total: number, forecast: number | null): Html {
  const most = Math.max(100, total, forecast ?? 0);
  const at = (percent: number) => `${((percent / most) * 100).toFixed(2)}%`;
  const part = (from: number, to: number, painted: Html) =>
    to <= from ? '' : html`<rect ${painted} x="${at(from)}" width="${at(to - from)}" height="14" y="4" rx="3"/>`;
  const label = words.bar({ total, chat, forecast });
  const [byChat, byCalls, ahead] = [paint('chat', 'chat'), paint('spent'), paint('forecast', 'ahead')];
  const beyond = html`fill="url(#beyond)"`;
  return html`${definitions(BUDGET_TILES)}<svg class="budget" role="img" aria-label="${label}" width="100%" height="22">
<rect class="track" width="100%" height="14" y="4" rx="3"/>
${part(0, forecast ?? 0, ahead)}
${part(0, total, byCalls)}
${part(0, Math.min(chat, total), byChat)}
${part(100, total, beyond)}
<line class="limit" x1="${at(100)}" x2="${at(100)}" y1="0" y2="22"/>
</svg>
<p class="legend small">${legendEntry(byChat, words.chat)}${legendEntry(byCalls, words.api)}${
    total > 100 ? legendEntry(byCalls, words.beyond, beyond) : ''
  }${forecast !== null && forecast > total ? legendEntry(ahead, words.ahead) : ''}<span><svg class="key" viewBox="0 0 14 14" aria-hidden="true"><line class="limit" x1="7" x2="7" y2="14"/></svg>${words.budget}</span></p>`;
}
