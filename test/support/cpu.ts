import { readdirSync, readFileSync } from 'node:fs';

const TICKS = 100; // of a second, as Linux counts CPU

interface Spent {
  readonly pid: number;
  readonly parent: number;
  readonly command: string;
  /** CPU of the process, and of those that it started and waited for. */
  readonly seconds: number;
}

/** What a process spent; null: it is gone, or the system does not tell. */
export function spentBy(pid: number | string | undefined): Spent | null {
  try {
    return spentIn(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return null;
  }
}

/** The same, from what the system tells of a process. */
export function spentIn(stat: string): Spent {
  const [, pid, command = '', rest = ''] = /(\d+) \((.*)\) (.*)$/s.exec(stat) ?? [];
  const fields = rest.split(' ').map(Number);
  const ticks = fields.slice(11, 15).reduce((sum, each) => sum + each, 0);
  return { pid: Number(pid), parent: fields[1] as number, command, seconds: ticks / TICKS };
}

/**
 * What the grandchildren of a process spent under this name, and whatever they started. A browser does not wait for those
 * of its own, so nobody would count them.
 */
export function spentByGrandchildren(pid: number, command: string): number {
  const all = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(spentBy)
    .filter((each) => each !== null);
  const below = (of: number): Spent[] =>
    all.filter(({ parent }) => parent === of).flatMap((each) => [each, ...below(each.pid)]);
  const browsers = below(pid).filter((each) => each.command === command);
  const first = browsers.filter(({ parent }) => !browsers.some((other) => other.pid === parent));
  return browsers.filter((each) => !first.includes(each)).reduce((sum, { seconds }) => sum + seconds, 0);
}
