import { LABELS } from './report.ts';
import { type Results, reading, type Section, type Spread } from './results.ts';

/**
 * The comparison as one SVG: a panel per kind of work, a bar per program, labelled axes from zero.
 * Follows the reader's light or dark setting, needs no script and no font but the reader's own.
 */
export function drawComparison({ sections, machine }: Results): string {
  const panels = [
    panel('CPU per non-streaming chat request', 'µs per request', sections.requests, 'autocannon'),
    panel('CPU per streamed event, 1,000 streams at once', 'µs per event', sections.paced, '1000 streams'),
    panel('CPU per event of a burst', 'µs per event', sections.burst, 'one HTTP chunk per event'),
  ].filter((one) => one !== null);
  let top = 8;
  const parts: string[] = [];
  for (const one of panels) {
    parts.push(draw(one, top));
    top += TITLE + one.bars.length * ROW + AXIS;
  }
  const height = top + 42;
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${escapeXml(summary(panels))}">
<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.title { font-weight: 600; font-size: 15px }
.small { font-size: 11px; fill: #59636e }
.bar { fill: #8c959f }
.ours { fill: #0969da }
.range { stroke: #1f2328; stroke-width: 1 }
.grid { stroke: #d1d9e0; stroke-width: 1 }
@media (prefers-color-scheme: dark) {
  text { fill: #f0f6fc }
  .small { fill: #9198a1 }
  .bar { fill: #656c76 }
  .ours { fill: #4493f8 }
  .range { stroke: #f0f6fc }
  .grid { stroke: #3d444d }
}
</style>
${parts.join('\n')}
<text class="small" x="8" y="${height - 26}">Tollgate authenticates, gates, meters and logs every request; the others only pass bytes on, and Portkey and the naive proxy parse them.</text>
<text class="small" x="8" y="${height - 10}">Median of interleaved rounds, line from lowest to highest; less is better. ${escapeXml(machine)}.</text>
</svg>
`;
}

interface Bar {
  readonly name: string;
  readonly label: string;
  readonly value: Spread;
}

interface Panel {
  readonly title: string;
  readonly unit: string;
  readonly bars: readonly Bar[];
}

const WIDTH = 820;
const LEFT = 200;
const RIGHT = 740; // where the longest bar ends; its figure follows
const TITLE = 30;
const ROW = 26;
const AXIS = 52;

function panel(title: string, unit: string, section: Section | undefined, series: string): Panel | null {
  const bars: Bar[] = [];
  for (const name of Object.keys(LABELS)) {
    const value = name === 'direct' ? null : reading(section, series, name, 'cpu');
    if (value !== null) bars.push({ name, label: (LABELS[name] as string).replaceAll('*', ''), value });
  }
  bars.sort((a, b) => a.value.median - b.value.median);
  return bars.length === 0 ? null : { title, unit, bars };
}

function draw({ title, unit, bars }: Panel, top: number): string {
  const most = Math.max(...bars.map(({ value }) => value.high));
  const step = niceStep(most / 5);
  const end = Math.ceil(most / step) * step;
  const x = (value: number): number => LEFT + (value / end) * (RIGHT - LEFT);
  const bottom = top + TITLE + bars.length * ROW;
  const lines = [`<text class="title" x="8" y="${top + 18}">${escapeXml(title)}</text>`];
  for (let tick = 0; tick <= end + step / 2; tick += step) {
    const at = x(tick).toFixed(1);
    lines.push(
      `<line class="grid" x1="${at}" y1="${top + TITLE}" x2="${at}" y2="${bottom}"/>`,
      `<text class="small" x="${at}" y="${bottom + 15}" text-anchor="middle">${Number(tick.toFixed(6))}</text>`,
    );
  }
  lines.push(`<text class="small" x="${(LEFT + RIGHT) / 2}" y="${bottom + 31}" text-anchor="middle">${unit}</text>`);
  bars.forEach(({ name, label, value }, i) => {
    const y = top + TITLE + i * ROW;
    const middle = y + ROW / 2;
    const style = name === 'gateway' ? 'ours' : 'bar';
    lines.push(
      `<text x="${LEFT - 8}" y="${middle + 4}" text-anchor="end"${name === 'gateway' ? ' font-weight="600"' : ''}>${escapeXml(label)}</text>`,
      `<rect class="${style}" x="${LEFT}" y="${y + 4}" width="${(x(value.median) - LEFT).toFixed(1)}" height="${ROW - 8}"/>`,
      `<line class="range" x1="${x(value.low).toFixed(1)}" y1="${middle}" x2="${x(value.high).toFixed(1)}" y2="${middle}"/>`,
      `<text x="${(x(value.high) + 6).toFixed(1)}" y="${middle + 4}">${figure(value.median)}</text>`,
    );
  });
  return lines.join('\n');
}

/** 1, 2 or 5 times a power of ten, not below the value. */
function niceStep(value: number): number {
  const power = 10 ** Math.floor(Math.log10(value));
  for (const factor of [1, 2, 5]) if (factor * power >= value) return factor * power;
  return 10 * power;
}

function summary(panels: readonly Panel[]): string {
  return panels
    .map(
      ({ title, unit, bars }) =>
        `${title}, ${unit}: ${bars.map(({ label, value }) => `${label} ${figure(value.median)}`).join(', ')}`,
    )
    .join('. ');
}

function figure(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

function escapeXml(text: string): string {
  return text.replace(/[&<>"]/g, (char) => `&#${char.charCodeAt(0)};`);
}
