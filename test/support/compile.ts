import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Runs tsc. */
export function tsc(args: readonly string[], cwd = ROOT): void {
  execFileSync(join(ROOT, 'node_modules/.bin/tsc'), args, { cwd, stdio: 'inherit' });
}

/** The program as `make run` compiles it, in another folder. Types are checked by `make check`. */
export function compile(outDir: string): void {
  tsc(['-p', ROOT, '--outDir', outDir, '--noCheck']);
}
