import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';

const PAGE = new URL('RESULTS.md', import.meta.url);
const RESULTS = new URL('results.json', import.meta.url);

/** What one experiment measured, of one promise. */
export interface Measured {
  readonly promise: string;
  readonly experiment: string;
  readonly measured: string;
  /** Where it ran. */
  readonly machine: string;
}

/** Notes what an experiment measured, in a run with FAULTS: in results.json, from which the page is made. */
export function note(promise: string, experiment: string, measured: string): void {
  if (process.env.FAULTS === undefined) return;
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'CPU'}, Node ${process.versions.node}`;
  const before: Measured[] = JSON.parse(readFileSync(RESULTS, 'utf8'));
  const rows = noted(before, { promise, experiment, measured, machine });
  writeFileSync(RESULTS, `${JSON.stringify(rows, null, 1)}\n`);
  writeFileSync(PAGE, pageOf(readFileSync(PAGE, 'utf8'), rows));
}

/**
 * The rows with a new one: in the place of the same experiment's, which may have run other numbers of times, or else
 * behind those of its promise. All others stay, wherever they were measured.
 */
export function noted(rows: readonly Measured[], row: Measured): Measured[] {
  const same = rows.findIndex((each) => nameOf(each) === nameOf(row));
  if (same >= 0) return rows.with(same, row);
  const last = rows.findLastIndex(({ promise }) => promise === row.promise);
  return last < 0 ? [...rows, row] : rows.toSpliced(last + 1, 0, row);
}

/** The page: its own words, the machines, and the first experiment of each promise. */
export function pageOf(page: string, rows: readonly Measured[]): string {
  const [words = ''] = page.trimEnd().split('\n\n- A: ');
  const firsts = [...Map.groupBy(rows, ({ promise }) => promise).values()].map(
    ([first]) => first as Measured,
  );
  const machines = [...new Set(firsts.map(({ machine }) => machine))];
  const letter = (machine: string) => String.fromCharCode(65 + machines.indexOf(machine));
  return `${[
    words,
    machines.map((machine) => `- ${letter(machine)}: ${machine}`).join('\n'),
    [
      '| promise | an experiment | measured | on |',
      '|---|---|---|---|',
      ...firsts.map(
        ({ promise, experiment, measured, machine }) =>
          `| ${promise} | ${experiment} | ${measured} | ${letter(machine)} |`,
      ),
    ].join('\n'),
  ].join('\n\n')}\n`;
}

/** The experiment of a row without its numbers. */
function nameOf({ promise, experiment }: Measured): string {
  return `${promise}: ${experiment.replace(/\d+/g, '#')}`;
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
