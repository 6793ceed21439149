import { compared, reading, type SectionResults, type Spread } from './results.ts';

/** What readers see instead of the names of targets, in the order of every table. */
export const LABELS: Readonly<Record<string, string>> = {
  direct: 'direct, nothing between',
  proxy: 'do-nothing Node proxy',
  gateway: '**Tollgate**',
  plain: 'Tollgate, `FAST_HTTP=off`',
  nginx: 'nginx, passing through',
  haproxy: 'HAProxy, passing through',
  portkey: 'Portkey gateway',
  litellm: 'LiteLLM proxy',
};

/** A Markdown table; all columns but the first are aligned to the right. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]): string => `| ${cells.join(' | ')} |`;
  return [line(head), line(head.map((_, i) => (i === 0 ? '---' : '---:'))), ...rows.map(line)].join('\n');
}

/** Names of the targets that a series has readings of. */
export function targetsOf(results: SectionResults, series: string): string[] {
  return Object.keys(LABELS).filter((name) => results.series[series]?.[name] !== undefined);
}

/**
 * A table per series with a row per target: CPU per unit of work, its ratio to the do-nothing proxy, the rate.
 * @param more kind → head of further columns; left out where a series has no such readings
 */
export function targetTables(
  results: SectionResults,
  unit: 'request' | 'event',
  title = '',
  more: Readonly<Record<string, string>> = {},
): string {
  const tables = Object.keys(results.series).map((series) => {
    const names = targetsOf(results, series);
    const kinds = Object.keys(more).filter((kind) => reading(results, series, names[0] ?? '', kind) !== null);
    const head = [`${title}${series}`, `CPU µs per ${unit}`, '÷ do-nothing proxy', `${unit}s/s`];
    const rows = names.map((name) => [LABELS[name] as string, ...costCells(results, series, name, ['rate', ...kinds])]);
    return table([...head, ...kinds.map((kind) => more[kind] as string)], rows);
  });
  return tables.join('\n\n');
}

/** A table with a row per target: CPU per unit of work, if one is given, and latencies in milliseconds. */
export function timesTable(results: SectionResults, series: string, unit?: 'request' | 'event'): string {
  const times = { p50: 'p50 ms', p99: 'p99 ms', p999: 'p99.9 ms', max: 'highest ms', uploads: 'uploads/s' };
  const measured = Object.values(results.series[series] ?? {}).flatMap(Object.keys);
  const kinds = Object.entries(times).filter(([kind]) => measured.includes(kind));
  const rows = targetsOf(results, series).map((name) => [
    LABELS[name] as string,
    ...(unit === undefined ? [] : costCells(results, series, name, [])),
    ...kinds.map(([kind]) => spread(reading(results, series, name, kind))),
  ]);
  const cost = unit === undefined ? [] : [`CPU µs per ${unit}`, '÷ do-nothing proxy'];
  return table([series, ...cost, ...kinds.map(([, head]) => head)], rows);
}

/** CPU per unit of work, its ratio to another target, and the medians of further kinds. */
export function costCells(
  results: SectionResults,
  series: string,
  name: string,
  kinds: readonly string[] = ['rate'],
  base = 'proxy',
): string[] {
  const ratio = name === base ? '1' : spread(compared(results, [series, name], [series, base]));
  const cpu = spread(reading(results, series, name, 'cpu'));
  const more = kinds.map((kind) => median(reading(results, series, name, kind)));
  return [...(name === 'direct' ? ['', ''] : [cpu, ratio]), ...more];
}

/** A table with a row per kind of figure that a section without targets has in a series. */
export function figureTable(results: SectionResults, series: string, labels: Readonly<Record<string, string>>): string {
  const cell = (kind: string): string => spread(reading(results, series, 'gateway', kind));
  const rows = Object.entries(labels).map(([kind, label]) => [label, cell(kind)]);
  return table(['what', 'measured'], rows);
}

/** "12.3 ms (11.9–13.0)", or a dash for nothing. */
export function spread(values: Spread | null, unit = ''): string {
  if (values === null) return '–';
  return `${number(values.median)}${suffix(unit)} (${number(values.low)}–${number(values.high)})`;
}

const suffix = (unit: string): string => (unit === '' || unit === '/s' ? unit : ` ${unit}`);

export function median(values: Spread | null): string {
  return values === null ? '–' : number(values.median);
}

/** A figure with three digits or more. */
export function number(value: number): string {
  if (Number.isNaN(value)) return '–';
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return value.toLocaleString('en', { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

export type Goal = ReturnType<typeof goal>;

/**
 * A row of the table of goals.
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
) {
  return { what, least, goal: most, measured, unit, rising };
}

export function goalTable(goals: readonly Goal[]): string {
  const rows = goals.map(({ what, least, goal, unit, rising, measured }) => {
    const want = (value: number): string => `${rising ? '≥' : '≤'} ${value.toLocaleString('en')}${suffix(unit)}`;
    const reached = (limit: number): boolean =>
      measured !== null && (rising ? measured.median >= limit : measured.median <= limit);
    const verdict =
      measured === null ? 'not measured' : reached(goal) ? 'goal' : reached(least) ? 'at least' : 'missed';
    return [what, want(least), want(goal), spread(measured, unit), verdict];
  });
  return table(['what', 'at least', 'goal', 'measured', ''], rows);
}
