import { compared, reading, type SectionResults, type Spread } from './results.ts';

/** What readers see instead of the names of targets, in the order of every table. */
export const LABELS: Readonly<Record<string, string>> = {
  direct: 'direct, nothing between',
  pipe: 'reads and writes alone, Node',
  proxy: 'do-nothing Node proxy',
  gateway: '**Tollgate**',
  plain: 'Tollgate, `FAST_HTTP=off`',
  nginx: 'nginx, passing through',
  haproxy: 'HAProxy, passing through',
  litellm: 'LiteLLM proxy',
};

/** A Markdown table; all columns but the first are aligned to the right. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map((_, i) => (i === 0 ? '---' : '---:'))), ...rows.map(line)].join(
    '\n',
  );
}

/** What a cell says of the readings that a series has of a target. */
export type Column = (results: SectionResults, series: string, target: string) => string;

export const LABEL: Column = (_results, _series, target) => LABELS[target] as string;

/** Median, lowest and highest of a kind. Nothing stands between that could take CPU in the row "direct". */
export const spreads =
  (kind: string): Column =>
  (results, series, target) =>
    target === 'direct' && kind === 'cpu' ? '' : spread(reading(results, series, target, kind));

export const medians =
  (kind: string): Column =>
  (results, series, target) =>
    median(reading(results, series, target, kind));

/** CPU, divided by that of another target within each round. */
export const ratioTo =
  (base: string): Column =>
  (results, series, target) => {
    if (target === 'direct') return '';
    const ratio = spread(compared(results, [series, target], [series, base]));
    return target === base && ratio !== NONE ? '1' : ratio;
  };

/**
 * A table of readings. A column without any is left out.
 * @param title head of the labels
 * @param columns head → cell
 */
export function figures(
  results: SectionResults,
  title: string,
  rows: readonly (readonly [label: string, series: string, target: string])[],
  columns: Readonly<Record<string, Column>>,
): string {
  const lines = rows.map(([, ...place]) =>
    Object.values(columns).map((cell) => cell(results, ...place)),
  );
  const isKept = (_: unknown, i: number): boolean =>
    lines.some((cells) => cells[i] !== '' && cells[i] !== NONE);
  const body = rows.map(([label], n) => [label, ...(lines[n] as string[]).filter(isKept)]);
  return table([title, ...Object.keys(columns).filter(isKept)], body);
}

/** Names of the targets that a series has readings of. */
export function targetsOf(results: SectionResults, series: string): string[] {
  return Object.keys(LABELS).filter((name) => results.series[series]?.[name] !== undefined);
}

/** CPU per unit of work, its ratio to a base, and units a second. */
export const costs = (
  unit: 'request' | 'event' | 'turn',
  name = 'do-nothing proxy',
  base = 'proxy',
) => ({
  [`CPU µs per ${unit}`]: spreads('cpu'),
  [`÷ ${name}`]: ratioTo(base),
  [`${unit}s/s`]: medians('rate'),
});

/** A table for each series, with a row per target: its costs, and more. */
export function targetTables(
  results: SectionResults,
  unit: (series: string) => 'request' | 'event' | 'turn',
  more: Readonly<Record<string, Column>> = {},
  title = '',
): string[] {
  return Object.keys(results.series).map((series) => {
    const rows = targetsOf(results, series).map(
      (name) => [LABELS[name] as string, series, name] as const,
    );
    return figures(results, title + series, rows, { ...costs(unit(series)), ...more });
  });
}

export const MEDIANS = { 'p50 ms': medians('p50'), 'p99 ms': medians('p99') };
export const LATENCIES = {
  'p50 ms': spreads('p50'),
  'p99 ms': spreads('p99'),
  'p99.9 ms': spreads('p999'),
  'highest ms': spreads('max'),
};

/** A table with a row per kind of figure that a section without targets has in a series; kind → label. */
export function figureTable(
  results: SectionResults,
  series: string,
  labels: Readonly<Record<string, string>>,
  units: Readonly<Record<string, string>> = {},
): string {
  const cell = (kind: string): string =>
    spread(reading(results, series, 'gateway', kind), units[kind]);
  const rows = Object.entries(labels).map(([kind, label]) => [label, cell(kind)]);
  return table(['what', 'measured'], rows);
}

const NONE = '–';
const suffix = (unit: string): string => (unit === '' || unit === '/s' ? unit : ` ${unit}`);

/** "12.3 ms (11.9–13.0)", or a dash for nothing. */
export function spread(values: Spread | null, unit = ''): string {
  if (values === null) return NONE;
  return `${number(values.median)}${suffix(unit)} (${number(values.low)}–${number(values.high)})`;
}

export function median(values: Spread | null): string {
  return number(values?.median ?? Number.NaN);
}

/** A figure with three digits or more. */
export function number(value: number): string {
  if (Number.isNaN(value)) return NONE;
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString('en', {
    minimumFractionDigits: digits,
    maximumFractionDigits: digits,
  });
}

/**
 * A row of the table of targets.
 * @param least what must be reached
 * @param most what is aimed for
 * @param more the unit, and whether more is better
 */
export function goal(
  what: string,
  least: number,
  most: number,
  measured: Spread | null,
  { unit = '', rising = false } = {},
): string[] {
  const want = (value: number): string =>
    `${rising ? '≥' : '≤'} ${value.toLocaleString('en')}${suffix(unit)}`;
  const reached = (limit: number, { median }: Spread): boolean =>
    rising ? median >= limit : median <= limit;
  let verdict = 'not measured';
  if (measured !== null)
    verdict = reached(most, measured) ? 'goal' : reached(least, measured) ? 'at least' : 'missed';
  return [what, want(least), want(most), spread(measured, unit), verdict];
}
