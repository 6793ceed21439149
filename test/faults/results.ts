import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';

const TABLE = new URL('RESULTS.md', import.meta.url);

/** What one experiment measured: the texts of a row of the table. */
interface Measured {
  readonly promise: string;
  readonly experiment: string;
  readonly measured: string;
  /** Where it ran. */
  readonly machine: string;
}

/** Notes what an experiment measured, in a run with FAULTS. */
export function note(promise: string, experiment: string, measured: string): void {
  if (process.env.FAULTS === undefined) return;
  const machine = `${cpus().length} × ${cpus()[0]?.model ?? 'CPU'}, Node ${process.versions.node}`;
  writeFileSync(TABLE, noted(readFileSync(TABLE, 'utf8'), { promise, experiment, measured, machine }));
}

/**
 * The table with a row in the place of the same experiment's, which may have run other numbers of times. A new one comes
 * behind those of its promise, or at the end. All other rows stay, wherever they were measured.
 * @param page with the table first; what stands below it stays
 */
export function noted(page: string, { promise, experiment, measured, machine }: Measured): string {
  const lines = page.split('\n');
  const first = lines.findIndex((line) => line.startsWith('|---')) + 1;
  const end = lines.findIndex((line, at) => at >= first && !line.startsWith('|'));
  const rows = lines.slice(first, end);
  const row = `| ${promise} | ${experiment} | ${measured} | ${machine} |`;
  const same = rows.findIndex((other) => nameOf(other) === nameOf(row));
  if (same >= 0) rows[same] = row;
  else {
    const behind = rows.findLastIndex((other) => other.startsWith(`| ${promise} |`));
    rows.splice(behind < 0 ? rows.length : behind + 1, 0, row);
  }
  return [...lines.slice(0, first), ...rows, ...lines.slice(end)].join('\n');
}

/** Promise and experiment of a row without its numbers. */
function nameOf(row: string): string {
  return row.split(' | ', 2).join(' | ').replace(/\d+/g, '#');
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
