import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';

/** The processes that share a spool folder. */
export type Processes = ReturnType<typeof systemProcesses>;

export interface ProcessIdentity {
  /** The boot of a machine and the namespace in which the process id is valid. */
  readonly place: string;
  readonly pid: number;
  /** When it started, which distinguishes it from a later process of the same id. */
  readonly started: string;
}

/** The operating system's processes. */
export function systemProcesses() {
  const place = placeHere();
  const self: ProcessIdentity = { place, pid: process.pid, started: startOf(process.pid) ?? '' };
  return {
    /** This process, as others can look it up. */
    self,
    /** Whether a process is alive; null when that cannot be known from here. */
    isAlive(other: ProcessIdentity): boolean | null {
      if (other.place !== place) return null;
      if (other.pid === self.pid) return other.started === self.started;
      try {
        process.kill(other.pid, 0);
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
      }
      const started = startOf(other.pid);
      return started === null || started === other.started;
    },
  };
}

function placeHere(): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot} ${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return hostname(); // without /proc there are no containers that share a host name
  }
}

/** When a process started, in ticks since the boot; null where there is no /proc or no such process. */
function startOf(pid: number): string | null {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? null; // behind the name, which may contain anything
  } catch {
    return null;
  }
}
