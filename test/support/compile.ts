import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Runs tsc. */
export function tsc(args: readonly string[], cwd = ROOT): void {
  execFileSync(join(ROOT, 'node_modules/.bin/tsc'), args, { cwd, stdio: 'inherit' });
}

/**
 * The program as `make run` compiles it, in another folder. Types are checked by `make check`. One thread costs 7 s of CPU,
 * many 9 s; without declarations it is 4 s.
 */
export function compile(outDir: string, declaration = true): void {
  const cheaper = ['--noCheck', '--singleThreaded', '--declaration', `${declaration}`];
  tsc(['-p', ROOT, '--outDir', outDir, ...cheaper]);
}
