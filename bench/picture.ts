import { type Results, reading, type SectionResults, type Spread } from './results.ts';
import { LABELS, number } from './tables.ts';

const WIDTH = 820;
const LEFT = 200;
const RIGHT = 740; // where the longest bar ends; its figure follows
const TITLE = 30;
const ROW = 26;
const GAP = 20;

const STYLE = `text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 15px }
.small { font-size: 11px; fill: #59636e }
.bar { fill: #8c959f }
.ours { fill: #0969da }
.range { stroke: #1f2328; stroke-width: 1 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc }
  .small { fill: #9198a1 }
  .bar { fill: #656c76 }
  .ours { fill: #4493f8 }
  .range { stroke: #f0f6fc }
}`;

interface Panel {
  readonly title: string;
  readonly bars: readonly { readonly name: string; readonly label: string; readonly value: Spread }[];
}

/**
 * The comparison as one SVG: a panel per kind of work, a bar per program with its figure. Follows the reader's light
 * or dark setting, needs no script and no font but the reader's own.
 */
export function drawComparison({ sections, machine }: Results): string {
  const panels = [
    panel('CPU per non-streaming chat request, µs', sections.requests, 'autocannon'),
    panel('CPU per streamed event, 1,000 streams at once, µs', sections.paced, '1000 streams'),
    panel('CPU per event of a burst, µs', sections.burst, 'one HTTP chunk per event'),
  ].filter(({ bars }) => bars.length > 0);
  const summary = panels.map(
    ({ title, bars }) => `${title}: ${bars.map(({ label, value }) => `${label} ${number(value.median)}`).join(', ')}`,
  );
  let top = 8;
  const drawn = panels.map((one) => {
    const lines = draw(one, top);
    top += TITLE + one.bars.length * ROW + GAP;
    return lines;
  });
  const height = top + 42;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${escapeXml(summary.join('. '))}">
<style>
${STYLE}
</style>
${drawn.join('\n')}
<text class="small" x="8" y="${height - 26}">Tollgate authenticates, gates, meters and logs every request; the others pass bytes on, and Portkey parses them.</text>
<text class="small" x="8" y="${height - 10}">Median of interleaved rounds, line from lowest to highest; less is better. ${escapeXml(machine)}.</text>
</svg>
`;
}

function panel(title: string, section: SectionResults | undefined, series: string): Panel {
  const bars = Object.entries(LABELS).flatMap(([name, label]) => {
    const value = name === 'direct' ? null : reading(section, series, name, 'cpu');
    return value === null ? [] : [{ name, label: label.replaceAll(/[*`]/g, ''), value }];
  });
  return { title, bars: bars.sort((a, b) => a.value.median - b.value.median) };
}

function draw({ title, bars }: Panel, top: number): string {
  const most = Math.max(...bars.map(({ value }) => value.high));
  const x = (value: number): string => (LEFT + (value / most) * (RIGHT - LEFT)).toFixed(1);
  const rows = bars.map(({ name, label, value }, i) => {
    const y = top + TITLE + i * ROW;
    const middle = y + ROW / 2;
    const ours = name === 'gateway';
    return `<text x="${LEFT - 8}" y="${middle + 4}" text-anchor="end"${ours ? ' font-weight="600"' : ''}>${escapeXml(label)}</text>
<rect class="${ours ? 'ours' : 'bar'}" x="${LEFT}" y="${y + 4}" width="${(Number(x(value.median)) - LEFT).toFixed(1)}" height="${ROW - 8}"/>
<line class="range" x1="${x(value.low)}" y1="${middle}" x2="${x(value.high)}" y2="${middle}"/>
<text x="${(Number(x(value.high)) + 6).toFixed(1)}" y="${middle + 4}">${number(value.median)}</text>`;
  });
  return [`<text class="title" x="8" y="${top + 18}">${escapeXml(title)}</text>`, ...rows].join('\n');
}

function escapeXml(text: string): string {
  return text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);
}
