import type { Test } from 'tap';

/** The test that all test files of this process are part of. */
export function rootOf(t: Test): Test {
  let first = t;
  while (first.parent !== undefined) first = first.parent as Test;
  return first;
}

/** Does something when all test files of this process have ended. */
export function atEnd(t: Test, end: () => unknown): void {
  rootOf(t).teardown(end);
}
