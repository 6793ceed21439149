import { readFileSync } from 'node:fs';

/** How many files this process may have open, sockets among them; Infinity where the system does not tell. */
export function openFilesLimit(): number {
  try {
    return Number(
      /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1] ?? Number.POSITIVE_INFINITY,
    );
  } catch {
    return Number.POSITIVE_INFINITY; // no Linux
  }
}
