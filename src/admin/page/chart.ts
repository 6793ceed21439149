import type { Words } from '../../domain/language/en.ts';
import { formatEur, parseEur } from '../../domain/pricing/money.ts';
import type { Format } from './format.ts';
import { type Html, html } from './html.ts';

/**
 * The pictures of all pages: SVG without a script. Each bar or point is a link with a name, by keyboard too, and a table
 * has the same figures. Parts are told apart by pattern as well as by colour.
 */

/** How values are written. They are whole numbers of a small unit, so that sums are exact. */
export interface Measure {
  /** For pixels. */
  number(value: bigint): number;
  /** With all digits, for texts. */
  exact(value: bigint): string;
  /** As people read it, for tables. */
  short(value: bigint): string;
  /** At an axis. @param decimals that its labels need */
  axis(value: number, decimals: number): string;
}

export interface Chart {
  /** The title of the chart, such as "Cost per day in November 2026". */
  readonly title: string;
  /** How it is to be read, such as "in EUR, stacked by model". */
  readonly how: string;
  /** Names the axis of time. */
  readonly axis: string;
  /** Heading of the periods in the table. */
  readonly period: string;
  readonly measure: Measure;
  /**
   * `stack`: parts of a bar on each other, the first one at the bottom. `line`: points that are joined. `half`: of half the
   * width of a page, so that two are beside each other; without it, of the whole width.
   */
  readonly kind: 'stack' | 'line';
  readonly half?: true;
  /** Names of the values of a bar, in their order. */
  readonly series: readonly string[];
  /** The looks of the series, where they are not those of the first tiles. */
  readonly looks?: readonly number[];
  readonly bars: readonly Bar[];
  /** Lines over the bars. */
  readonly over?: readonly Over[];
}

/** With what bars are compared: another time, or a limit. */
export interface Over {
  readonly look: 'was' | 'limit';
  readonly name: string;
  /** By bar; null: the line has a gap. */
  readonly values: readonly (bigint | null)[];
  /** What the values are of, for texts at bars and a column of the table; without them it has neither. */
  readonly names?: readonly string[];
}

export interface Bar {
  /** Below the bar: "21". */
  readonly label: string;
  /** In sentences: "21 November 2026". */
  readonly name: string;
  /** Where a bar leads to; null: nowhere. */
  readonly href: string | null;
  /** By series; null: not known. */
  readonly values: readonly (bigint | null)[];
  /** Lines of the text at the bar, in place of its values by series. */
  readonly lines?: readonly string[];
}

/** Amounts in femto-EUR. */
export function amounts(format: Format): Measure {
  return {
    number: (value) => Number(formatEur(value)),
    exact: (value) => format.eurText(formatEur(value)),
    short: (value) => format.eurFixed(formatEur(value)),
    axis: format.eurAxis,
  };
}

/** Counts, such as requests. */
export function counts(format: Format): Measure {
  const text = (value: bigint) => format.count(Number(value));
  return { number: Number, exact: text, short: text, axis: (value) => format.count(value) };
}

/** Milliseconds. */
export function durations(format: Format): Measure {
  const text = (value: bigint) => format.duration(Number(value));
  // ticks are round, and exact: not "1.3 s" for 1,250 ms
  const axis = (value: number) =>
    value < 1000 ? `${format.count(value)} ms` : `${format.count(value / 1000)} s`;
  return { number: Number, exact: text, short: text, axis };
}

/** Series with a look of their own; the rest is stacked as one. */
export const MAX_SERIES = 4;
/** Lines of the text at a bar; the rest is counted. */
export const MAX_NAMED = 8;

/** A part of a bar: exact decimal text. */
export interface StackPart {
  readonly name: string;
  readonly value: string;
}

/** The names of parts, the largest first. */
export function bySize(parts: readonly StackPart[]): string[] {
  const sums = new Map<string, bigint>();
  for (const { name, value } of parts) sums.set(name, (sums.get(name) ?? 0n) + parseEur(value));
  return [...sums]
    .sort(([a, x], [b, y]) => (x === y ? (a < b ? -1 : 1) : x < y ? 1 : -1))
    .map(([name]) => name);
}

/** Figures stacked by a group. @param names in the order in which they are stacked from the bottom */
export function stackedBy(
  names: readonly string[],
  format: Format,
  measure = amounts(format),
  others = format.words.chart.otherModels,
) {
  const named = names.slice(0, MAX_SERIES);
  const series = names.length > named.length ? [...named, others] : named;
  const partsOf = (parts: readonly StackPart[]): Pick<Bar, 'values' | 'lines'> => {
    const values = series.map(() => 0n);
    for (const { name, value } of parts) {
      const at = series.indexOf(name);
      const place = at < 0 ? series.length - 1 : at;
      values[place] = (values[place] as bigint) + parseEur(value);
    }
    return { values, lines: largest(parts, measure, format) };
  };
  return { series, partsOf };
}

/** A line for each of the largest parts, and how many more there are. */
function largest(parts: readonly StackPart[], measure: Measure, format: Format): string[] {
  const exact = parts
    .map(({ name, value }) => ({ name, value: parseEur(value) }))
    .filter(({ value }) => value !== 0n);
  const shown = exact
    .sort((a, b) => (a.value < b.value ? 1 : a.value > b.value ? -1 : 0))
    .slice(0, MAX_NAMED);
  const lines = shown.map(({ name, value }) => `${name}: ${measure.exact(value)}`);
  const more = exact.length - shown.length;
  return more > 0 ? [...lines, format.words.chart.more(format.count(more))] : lines;
}

/**
 * A wide chart is drawn in both sizes, so that its text is readable on a phone; the style sheet shows one of them. A chart
 * of half the width is drawn once, and has larger text on a phone. In units of the viewBox; `labels` is how many the axis
 * of time has room for, `left` the least room of the axis of values, and `letter` the width of one of its digits; a phone
 * shows no tips.
 */
const WIDE = [
  {
    width: 960,
    height: 280,
    left: 76,
    letter: 7.5,
    bottom: 40,
    top: 12,
    labels: 16,
    className: 'chart wide',
    hasTips: true,
  },
  {
    width: 360,
    height: 230,
    left: 64,
    letter: 7.5,
    bottom: 40,
    top: 12,
    labels: 5,
    className: 'chart slim',
    hasTips: false,
  },
];
const HALF = [
  {
    width: 480,
    height: 200,
    left: 66,
    letter: 9,
    bottom: 24,
    top: 12,
    labels: 7,
    className: 'chart half',
    hasTips: true,
  },
];
type Size = (typeof WIDE)[number];

/** Between the labels of values and the bars. */
const AXIS_GAP = 8;
/** Room for the half of the last label that is beyond its bar. */
const RIGHT = 14;

/** The texts of charts in the language of their page. */
type ChartWords = Words['chart'];

/** A chart, its legend, and the table of its figures. */
export function chart(spec: Chart, words: ChartWords): Html {
  const sizes = spec.half ? HALF : WIDE;
  const entry = (name: string, at: number) =>
    spec.kind === 'line'
      ? lineEntry(`l${lookOf(spec, at)}`, name)
      : legendEntry(paintOf(lookOf(spec, at)), name);
  return html`<figure class="chart-frame"><figcaption class="legend">${spec.series.map(entry)}${spec.over?.map(({ look, name }) => lineEntry(look, name))}</figcaption>
${sizes.map((size) => draw(size, spec, words))}</figure>
${figures(spec, words)}`;
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

/** The tiles that charts refer to: once in a page, before its first chart. */
export function chartTiles(): Html {
  return definitions(SERIES_TILES);
}

function definitions(tiles: Readonly<Record<string, Html>>): Html {
  return html`<svg class="patterns" width="0" height="0" aria-hidden="true" focusable="false"><defs>${Object.entries(
    tiles,
  ).map(
    ([id, tile]) =>
      html`<pattern id="${id}" width="8" height="8" patternUnits="userSpaceOnUse">${tile}</pattern>`,
  )}</defs></svg>`;
}

/** How a part is painted: by its class, or by the tile with this id. */
function paint(className: string, tile: string | null = null): Html {
  return tile === null
    ? html`class="${className}"`
    : html`class="${className}" fill="url(#${tile})"`;
}

/** @param look the number of a tile; 0: a colour alone */
function paintOf(look: number): Html {
  return paint(`s${look}`, look === 0 ? null : `p${look}`);
}

function lookOf({ looks }: Chart, series: number): number {
  return looks?.[series] ?? series;
}

/** The look of a part of a chart, and its meaning. @param over the fill that is drawn over it */
function legendEntry(painted: Html, text: string, over: Html | null = null): Html {
  const rects = [painted, over].map(
    (each) => each && html`<rect ${each} width="14" height="14" rx="2"/>`,
  );
  return html`<span><svg class="key" viewBox="0 0 14 14" aria-hidden="true">${rects}</svg>${text}</span>`;
}

/** The line of a series, and its meaning. */
function lineEntry(look: string, text: string): Html {
  const line = html`<path class="line ${look}" d="M0 7L22 7"/>`;
  return html`<span><svg class="key long" viewBox="0 0 22 14" aria-hidden="true">${line}</svg>${text}</span>`;
}

function totalOf({ values }: Bar): bigint {
  return values.reduce<bigint>((sum, value) => sum + (value ?? 0n), 0n);
}

/** Whether there is anything at a bar: without it there is nothing to open, and one stop less for the keyboard. */
function isEmpty({ values }: Bar): boolean {
  return values.every((value) => value === null || value === 0n);
}

/** The highest point of a bar. */
function heightOf(bar: Bar, kind: Chart['kind']): bigint {
  if (kind === 'stack') return totalOf(bar);
  return bar.values.reduce<bigint>(
    (most, value) => (value !== null && value > most ? value : most),
    0n,
  );
}

/** Of the days of a line: above three times the height that nine in ten do not pass, it is cut at twice that. */
const USUAL_SHARE = 0.9;

/** How high a chart has to be. A line is cut where a few of its values would flatten all others. */
function topOf({ bars, kind, over = [] }: Chart): bigint {
  const lines = over.flatMap(({ values }) => values.map((value) => value ?? 0n));
  const heights = [...bars.map((bar) => heightOf(bar, kind)), ...lines]
    .filter((height) => height > 0n)
    .sort((a, b) => (a < b ? -1 : 1));
  const most = heights.at(-1) ?? 0n;
  const usual = heights[Math.floor((heights.length - 1) * USUAL_SHARE)] ?? 0n;
  return kind === 'line' && most > usual * 3n ? usual * 2n : most;
}

/** The axis of values: at most seven round ticks from 0 to above the highest, and the decimals of their labels. */
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

/** Where things are in one drawing. */
interface Plot {
  readonly size: Size;
  readonly floor: number;
  readonly slot: number;
  y(value: number): number;
  /** The left edge of the slot of a bar. */
  x(at: number): number;
}

function draw(size: Size, spec: Chart, words: ChartWords): Html {
  const { width, height, bottom, top, labels, className } = size;
  const { bars, measure, kind, axis, title, how } = spec;
  const most = bars.map((bar) => heightOf(bar, kind)).reduce((a, b) => (b > a ? b : a), 0n);
  const scale = scaleFor(measure.number(topOf(spec)));
  const texts = scale.ticks.map((tick) => measure.axis(tick, scale.decimals));
  const left = Math.max(
    size.left,
    AXIS_GAP + size.letter * Math.max(...texts.map(({ length }) => length)),
  );
  const floor = height - bottom;
  const y = (value: number) => floor - Math.min(1, value / scale.top) * (floor - top);
  const slot = (width - left - RIGHT) / bars.length;
  const plot: Plot = { size, floor, slot, y, x: (at) => left + at * slot };
  const step = Math.ceil(bars.length / labels);
  const label = words.label({ title, how, highest: measure.exact(most) });
  const ticks = scale.ticks.map(
    (
      tick,
      at,
    ) => html`<line class="grid" x1="${left}" x2="${width}" y1="${px(y(tick))}" y2="${px(y(tick))}"/>
<text class="tick" x="${left - AXIS_GAP}" y="${px(y(tick) + 4)}" text-anchor="end">${texts[at] as string}</text>`,
  );
  const times = bars.map(({ label }, at) =>
    at % step === 0
      ? html`<text class="tick" x="${px(left + (at + 0.5) * slot)}" y="${floor + 16}" text-anchor="middle">${label}</text>`
      : '',
  );
  const name = html`<text class="axis" x="${left + (width - left) / 2}" y="${height - 4}" text-anchor="middle">${axis}</text>`;
  return html`<svg class="${className}" viewBox="0 0 ${width} ${height}" role="group" aria-label="${label}">
<g aria-hidden="true">${ticks}${times}${spec.half ? '' : name}${
    kind === 'line'
      ? html`${spec.series.map((_, series) =>
          line(
            plot,
            measure,
            `l${lookOf(spec, series)}`,
            bars.map(({ values }) => values[series] ?? null),
          ),
        )}${beyond(plot, spec, scale.top)}`
      : ''
  }</g>
${bars.map((bar, at) => drawBar(plot, spec, bar, at, words))}
${spec.over === undefined ? '' : html`<g class="over" aria-hidden="true">${spec.over.map(({ look, values }) => ['halo', look].map((each) => line(plot, measure, each, values)))}</g>`}</svg>`;
}

function drawBar(plot: Plot, spec: Chart, bar: Bar, at: number, words: ChartWords): Html {
  const { size, floor, slot } = plot;
  const parts = spec.kind === 'line' ? '' : stacked(plot, spec, bar, at);
  const inside = html`${size.hasTips ? html`<title>${textAt(bar, spec, words, at)}</title>` : ''}<rect class="hit" x="${px(plot.x(at))}" y="${size.top}" width="${px(slot)}" height="${floor - size.top}"/>${parts}`;
  if (bar.href === null || isEmpty(bar)) return html`<g class="bar">${inside}</g>`;
  return html`<a class="bar" href="${bar.href}" aria-label="${nameOf(bar, spec, words)}">${inside}</a>`;
}

/** "21 November 2026: €7.10"; of values that are not added up, each by its name. */
function nameOf(bar: Bar, { kind, measure, series }: Chart, words: ChartWords): string {
  if (kind === 'stack') return `${bar.name}: ${measure.exact(totalOf(bar))}`;
  return `${bar.name}: ${bar.values.map((value, at) => `${series[at]} ${value === null ? words.unknown : measure.exact(value)}`).join(', ')}`;
}

function stacked({ y, slot, x }: Plot, spec: Chart, { values }: Bar, at: number): Html[] {
  let base = 0n;
  return values.map((value, series) => {
    if (value === null || value <= 0n) return html``;
    const [from, to] = [base, base + value].map((each) => y(spec.measure.number(each))) as [
      number,
      number,
    ];
    base += value;
    return html`<rect ${paintOf(lookOf(spec, series))} x="${px(x(at) + slot * 0.14)}" y="${px(to)}" width="${px(slot * 0.72)}" height="${px(Math.max(0.5, from - to))}"/>`;
  });
}

/** What is beyond the cut of a line, in words at its top. */
function beyond({ slot, x, size }: Plot, { bars, measure }: Chart, top: number): Html[] {
  return bars.map((bar, at) => {
    const value = heightOf(bar, 'line');
    return measure.number(value) <= top
      ? html``
      : html`<text class="tick" x="${px(x(at) + slot / 2)}" y="${size.top - 2}" text-anchor="middle">↑ ${measure.short(value)}</text>`;
  });
}

/** Joins points, where one follows the other; one that stands alone is a dot. */
function line(
  { y, slot, x }: Plot,
  measure: Measure,
  look: string,
  values: readonly (bigint | null)[],
): Html {
  let pen = 'M';
  const path = values.map((value, at) => {
    const move =
      value === null ? '' : `${pen}${px(x(at) + slot / 2)} ${px(y(measure.number(value)))}`;
    const dot = pen === 'M' && value !== null ? 'h.01' : '';
    pen = value === null ? 'M' : 'L';
    return move + dot;
  });
  return html`<path class="line ${look}" d="${path.join('')}"/>`;
}

/** The text at a bar: the sum, and a line for each of its highest values. */
function textAt(bar: Bar, spec: Chart, words: ChartWords, at: number): string {
  const { measure, series, kind } = spec;
  const named = bar.values
    .map((value, at) => ({ name: series[at] as string, value }))
    .filter(({ value }) => value !== null && (kind !== 'stack' || value !== 0n)) as {
    name: string;
    value: bigint;
  }[];
  if (kind === 'stack') named.sort((a, b) => (a.value < b.value ? 1 : a.value > b.value ? -1 : 0));
  const lines = bar.lines ?? named.map(({ name, value }) => `${name}: ${measure.exact(value)}`);
  const head = kind === 'stack' ? nameOf(bar, spec, words) : bar.name;
  const others = (spec.over ?? []).flatMap(({ names = [], values }) =>
    at < names.length ? [`${names[at]}: ${measure.exact(values[at] ?? 0n)}`] : [],
  );
  return [head, ...lines, ...others].join('\n');
}

/** The figures of the chart as a table. */
function figures(spec: Chart, words: ChartWords): Html {
  const { bars, series, measure, title, period, kind } = spec;
  const compared = (spec.over ?? []).filter(({ names }) => names !== undefined);
  const cell = (value: bigint | null) =>
    value === null || value === 0n
      ? html`<td class="figure">–</td>`
      : html`<td class="figure" title="${measure.exact(value)}">${measure.short(value)}</td>`;
  const heading = (text: string) => html`<th scope="col" class="figure">${text}</th>`;
  const sum = kind === 'stack' && series.length > 1;
  return html`<details class="fold"><summary>${words.figures}<span class="sr"> ${title}</span></summary><div class="scroll" role="region" aria-label="${title}" tabindex="0">
<table class="plain"><caption class="sr">${title}</caption><thead><tr><th scope="col">${period}</th>${sum ? heading(words.all) : ''}${series.map(heading)}${compared.map(({ name }) => heading(name))}</tr></thead>
<tbody>${bars.map(
    (bar, at) =>
      html`<tr><th scope="row">${bar.href === null || isEmpty(bar) ? bar.name : html`<a href="${bar.href}">${bar.name}</a>`}</th>${[...(sum ? [totalOf(bar)] : []), ...bar.values, ...compared.map(({ values }) => values[at] ?? null)].map(cell)}</tr>`,
  )}</tbody></table></div></details>`;
}

/** One line of an explanation: a part, or what it leads from and to. */
export interface Step {
  readonly name: string;
  /** What it means; empty: nothing is to be said. */
  readonly note: string;
  /** Above or below 0; null: not a part, and without a bar. */
  readonly value: bigint | null;
  readonly text: Html | string;
}

/** The looks of parts that raise a figure, and of parts that lower it. */
const STEP_LOOKS = { more: 2, less: 1 } as const;

/** A table of parts, with a bar in each row that goes from the middle to the right for more, to the left for less. */
export function stepsTable(caption: string, steps: readonly Step[], measure: Measure): Html {
  const sizes = steps.map(({ value }) => Math.abs(measure.number(value ?? 0n)));
  const most = Math.max(...sizes) || 1;
  const bar = (value: bigint, size: number) => {
    const width = (size / most) * 50;
    const look = value > 0n ? STEP_LOOKS.more : STEP_LOOKS.less;
    const x = value > 0n ? 50 : 50 - width;
    return html`<svg class="step" width="100%" height="18" aria-hidden="true">${
      value === 0n
        ? ''
        : html`<rect ${paintOf(look)} x="${x.toFixed(2)}%" width="${width.toFixed(2)}%" height="14" y="2"/>`
    }<line class="mark" x1="50%" x2="50%" y1="0" y2="18"/></svg>`;
  };
  return html`<table role="table" class="steps"><caption class="sr">${caption}</caption><tbody role="rowgroup">${steps.map(
    ({ name, note, value, text }, at) =>
      html`<tr role="row"${value === null ? html` class="whole"` : ''}><th role="rowheader" scope="row">${name}${
        note === '' ? '' : html`<br><span class="muted">${note}</span>`
      }</th><td role="cell" class="bar">${value === null ? '' : bar(value, sizes[at] as number)}</td><td role="cell" class="figure"><span>${text}</span></td></tr>`,
  )}</tbody></table>`;
}

function px(value: number): string {
  return value.toFixed(1);
}

/**
 * A bar of a budget, with its legend: the spend of in-app chat, the spend of API calls, the part beyond the budget, and
 * the forecast. All in percent.
 * @param chat null: of a part of the company, which in-app chat does not name
 * @param total spent by both
 */
export function budgetBar(
  words: Words['usage'],
  chat: number | null,
  total: number,
  forecast: number | null,
): Html {
  const [byChat, byCalls, ahead] = [
    paint('chat', 'chat'),
    paint('spent'),
    paint('forecast', 'ahead'),
  ];
  return html`${budgetTiles()}${budgetPicture(words, chat, total, forecast)}
<p class="legend small">${chat === null ? '' : legendEntry(byChat, words.chat)}${legendEntry(byCalls, words.api)}${
    total > 100 ? legendEntry(byCalls, words.beyond, html`fill="url(#beyond)"`) : ''
  }${forecast !== null && forecast > total ? legendEntry(ahead, words.ahead) : ''}<span><svg class="key" viewBox="0 0 14 14" aria-hidden="true"><line class="limit" x1="7" x2="7" y2="14"/></svg>${words.budget}</span></p>`;
}

/** The tiles that bars of budgets refer to: once in a page, before the first of several. */
export function budgetTiles(): Html {
  return definitions(BUDGET_TILES);
}

/** A bar of a budget without its legend, as a row of a table has it; see `budgetBar`. */
export function budgetPicture(
  words: Words['usage'],
  chat: number | null,
  total: number,
  forecast: number | null,
): Html {
  const most = Math.max(100, total, forecast ?? 0);
  const at = (percent: number) => `${((percent / most) * 100).toFixed(2)}%`;
  const part = (from: number, to: number, painted: Html) =>
    to <= from
      ? ''
      : html`<rect ${painted} x="${at(from)}" width="${at(to - from)}" height="14" y="4" rx="3"/>`;
  return html`<svg class="budget" role="img" aria-label="${words.bar({ total, chat, forecast })}" width="100%" height="22">
<rect class="track" width="100%" height="14" y="4" rx="3"/>
${part(0, forecast ?? 0, paint('forecast', 'ahead'))}
${part(0, total, paint('spent'))}
${part(0, Math.min(chat ?? 0, total), paint('chat', 'chat'))}
${part(100, total, html`fill="url(#beyond)"`)}
<line class="limit" x1="${at(100)}" x2="${at(100)}" y1="0" y2="22"/>
</svg>`;
}

/**
 * A line of some values in a row of a table, as high as a line of text; nothing where all are 0.
 * @param nameOf what it says to who does not see it, by the highest value and its place
 */
export function sparkLine(
  values: readonly number[],
  nameOf: (most: number, at: number) => string,
): Html {
  const most = Math.max(...values);
  if (!(most > 0)) return html``;
  const points = values.map(
    (value, at) => `${px((at / (values.length - 1)) * 96 + 2)} ${px(18 - (value / most) * 16)}`,
  );
  return html`<svg class="spark" viewBox="0 0 100 20" preserveAspectRatio="none" role="img" aria-label="${nameOf(most, values.indexOf(most))}"><path class="line l0" d="M${points.join('L')}"/></svg>`;
}
