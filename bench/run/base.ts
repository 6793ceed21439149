import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { CHECKOUT } from './targets.ts';

/**
 * What the gate compares with until there is a release: the commit at which the costs of a request and of an event were
 * last accepted. Whoever accepts higher ones names another commit here, in a change of its own that has the figures of both
 * side by side and says what for.
 */
const ACCEPTED = 'b026c43306398d58d0721babbe957d28f9eddc71';

/** The last release, or ACCEPTED. */
export function acceptedCommit(): string {
  return (
    git('tag', '--list', 'v*', '--merged', 'HEAD', '--sort=-version:refname').split('\n')[0] ||
    ACCEPTED
  );
}

/**
 * A built checkout of another commit.
 * @param base a folder with one, or a commit, of which one is made that goes with this process
 * @throws Error when it is neither
 */
export function checkoutOf(base: string): string {
  const folder = resolve(base);
  if (existsSync(join(folder, 'dist/main.js'))) return folder;
  if (existsSync(folder)) throw new TypeError(`${folder} has no dist/main.js: build it first`);
  const commit = git('rev-parse', '--verify', `${base}^{commit}`);
  const made = join(mkdtempSync(join(tmpdir(), 'tollgate-base-')), 'checkout');
  git('worktree', 'add', '--detach', made, commit);
  process.once('exit', () => {
    rmSync(join(made, '..'), { recursive: true, force: true });
    git('worktree', 'prune');
  });
  const lock = (checkout: string): string =>
    readFileSync(join(checkout, 'package-lock.json'), 'latin1');
  if (lock(made) === lock(CHECKOUT))
    symlinkSync(join(CHECKOUT, 'node_modules'), join(made, 'node_modules'));
  else
    execFileSync('npm', ['ci', '--ignore-scripts'], {
      cwd: made,
      stdio: ['ignore', 'ignore', 'inherit'],
    });
  execFileSync(join(made, 'node_modules/.bin/tsc'), {
    cwd: made,
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  return made;
}

function git(...args: readonly string[]): string {
  return execFileSync('git', args, {
    cwd: CHECKOUT,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'ignore'],
  }).trim();
}
