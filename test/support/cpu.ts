import { readdirSync, readFileSync } from 'node:fs';

const TICKS = 100; // of a second, as Linux counts CPU

/**
 * CPU seconds of a process and of all that it started, directly or not: those that run, and those that were waited for.
 * @returns 0 where the system does not tell, and once the process is gone
 */
export function spentBelow(pid: number): number {
  const processes = allProcesses();
  const below = (of: number): number =>
    processes
      .filter(({ parent }) => parent === of)
      .reduce((sum, each) => sum + each.seconds + below(each.pid), 0);
  return below(pid) + (processes.find((each) => each.pid === pid)?.seconds ?? 0);
}

function allProcesses(): { pid: number; parent: number; seconds: number }[] {
  try {
    return readdirSync('/proc').flatMap((name) => (/^\d+$/.test(name) ? processOf(name) : []));
  } catch {
    return []; // not on this system
  }
}

function processOf(pid: string): ReturnType<typeof allProcesses> {
  try {
    const [, rest = ''] = /\d+ \(.*\) (.*)$/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
    const fields = rest.split(' ').map(Number);
    const ticks = fields.slice(11, 15).reduce((sum, each) => sum + each, 0);
    return [{ pid: Number(pid), parent: fields[1] as number, seconds: ticks / TICKS }];
  } catch {
    return []; // it has just ended
  }
}
