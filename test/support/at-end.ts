import type { Test } from 'tap';

/** Does something when all test files of this process have ended. */
export function atEnd(t: Test, end: () => unknown): void {
  let first = t;
  while (first.parent !== undefined) first = first.parent as Test;
  first.teardown(end);
}
