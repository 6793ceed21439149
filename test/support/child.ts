import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Test } from 'tap';

const { PATH = '', NODE_COMPILE_CACHE } = process.env;

/** Environment of a program that a test starts: nothing of the test runner's, and what V8 compiled before. */
export const CHILD_ENV: Readonly<Record<string, string>> = {
  PATH,
  ...(NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }),
};

/** Whether this machine has a program that tells its version. */
export function has(program: string, version = '--version'): boolean {
  return spawnSync(program, [version], { stdio: 'ignore' }).status === 0;
}

/** Whether a process runs. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

/** An empty folder for the length of a test. Not `t.testdir`: a file may run twice at once. */
export function newFolder(t: Test): string {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-folder-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
