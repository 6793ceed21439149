import { readFileSync, writeFileSync } from 'node:fs';
import { cpus } from 'node:os';

const PAGE = new URL('RESULTS.md', import.meta.url);

/** What one experiment measured: the texts of a row of its promise's table. */
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
  writeFileSync(
    PAGE,
    noted(readFileSync(PAGE, 'utf8'), { promise, experiment, measured, machine }),
  );
}

/**
 * The page with a row in the place of the same experiment's, which may have run other numbers of times. A new one ends
 * the table of its promise, and a new promise the page. All other rows stay, wherever they were measured.
 * @param page begins with the list of machines; rows name theirs by its letter
 */
export function noted(page: string, { promise, experiment, measured, machine }: Measured): string {
  const [head = '', ...sections] = page.trimEnd().split(/\n\n(?=## )/);
  const machines = [...head.matchAll(/^- ([A-Z]): (.*)$/gm)];
  const known = machines.find(([, , name]) => name === machine)?.[1];
  const letter = known ?? String.fromCharCode(65 + machines.length);
  const row = `| ${experiment} | ${measured} | ${letter} |`;
  const isOfPromise = (section: string) => section.startsWith(`## ${promise}\n`);
  if (!sections.some(isOfPromise))
    sections.push(`## ${promise}\n\n| experiment | measured | on |\n|---|---|---|`);
  const after = sections.map((section) => {
    if (!isOfPromise(section)) return section;
    const lines = section.split('\n');
    const same = lines.findIndex((line) => nameOf(line) === nameOf(row));
    return (same < 0 ? [...lines, row] : lines.with(same, row)).join('\n');
  });
  return `${[known === undefined ? `${head}\n- ${letter}: ${machine}` : head, ...after].join('\n\n')}\n`;
}

/** The experiment of a row without its numbers. */
function nameOf(row: string): string {
  return (row.split(' | ', 1)[0] as string).replace(/\d+/g, '#');
}

export function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
