import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

const git = (...args: string[]) =>
  execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();

/** What a branch is compared with: the first of these that is here, and is not the commit itself. */
const BEFORE = [
  ['merge-base', 'HEAD', '@{upstream}'],
  ['merge-base', 'HEAD', 'main'],
  ['rev-parse', 'HEAD~1'],
];

/**
 * The commit that a change is compared with: where it left the upstream branch or else the branch "main"; on that branch
 * itself, the last commit but one. Throws where there is no history.
 */
export function baseOfChange(): string {
  const head = git('rev-parse', 'HEAD');
  for (const command of BEFORE)
    try {
      const base = git(...command);
      if (base !== head) return base;
    } catch {} // there is no such branch
  throw new Error('there is no history');
}

/** Files that the changes are in since `baseOfChange`, new ones included; null: no history. */
export function changedFiles(): string[] | null {
  try {
    const base = baseOfChange();
    const names = `${git('diff', '--name-only', base)}\n${git('ls-files', '--others', '--exclude-standard')}`;
    return names.split('\n').filter((name) => name !== '');
  } catch {
    return null;
  }
}

/** All that runs in the gateway, and the database; not the pages, nor commands that end. */
const IN_GATEWAY =
  /^(?:src\/(?!admin\/(?!process\/)|cli\/(?:apply|nouns)\/|demo\/|domain\/(?:language|wording)\/)|sql\/|test\/(?:faults|fleet|support)\/|package-lock\.json|\.platform\/)(?!.*\.md$)/;
/** All that a page shows or does. */
const IN_PAGES =
  /^(?:src\/(?:admin|domain|events|operations|store)\/|sql\/|package-lock\.json)(?!.*\.md$)/;

/** The dearest tests, half the CPU of all: where nothing they try changed, a run of all has few of them. */
const DEAREST = [
  {
    /** Processes, servers and networks that die. */
    tests: /^test\/(?:faults|fleet)\//,
    always: /\/(?:faults\/(?:kill|results|stop)|fleet\/limits)\.test/,
    tried: IN_GATEWAY,
  },
  {
    /** Pages in a browser, and nothing else. */
    tests: /^test\/admin\/(?:.*(?<!\/known)-browser|accessible|browser|german|narrow|phone)\.test/,
    always: /\/forms-browser\.test/,
    tried: IN_PAGES,
  },
];

/**
 * Whether a run of all tests has this one: the dearest are left to changes of what they try or import, and to ALL=1.
 * @param changed null: nobody knows, and it has all
 */
export function isTried(test: string, changed: readonly string[] | null): boolean {
  const dear = DEAREST.find(({ tests, always }) => tests.test(test) && !always.test(test));
  if (dear === undefined || changed === null) return true;
  return changed.some((name) => dear.tried.test(name)) || isReached(test, changed);
}

/** Whether a change is in a test, or in what it imports by itself or by what tests share. */
export function isReached(test: string, changed: readonly string[]): boolean {
  return changed.includes(test) || importsOf(test).some((name) => changed.includes(name));
}

/** What any change may break: imports, names, tables in documents, the package. */
const WHOLE_TREE = /^test\/(docs|floors|house|package|readme)\.test\.ts$/;

/**
 * The tests that a change reaches: those of the rooms of changed files, those that import a changed file, by themselves
 * or by what tests share, and those of the whole tree.
 * @param tests paths such as "test/store/company/key.test.ts"
 */
export function reachedBy(changed: readonly string[], tests: readonly string[]): string[] {
  const rooms = new Set(
    changed.map((name) =>
      name.startsWith('sql/') ? 'test/store/schema' : dirname(name).replace(/^src\b/, 'test'),
    ),
  );
  return tests.filter(
    (test) => WHOLE_TREE.test(test) || rooms.has(dirname(test)) || isReached(test, changed),
  );
}

/** What a test imports, and what files of tests that it imports do. */
function importsOf(file: string, seen = new Set<string>()): string[] {
  if (seen.has(file) || !existsSync(file)) return [];
  seen.add(file);
  const paths = readFileSync(file, 'utf8').matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+)'/g);
  const imported = [...paths].map(([, path]) => join(dirname(file), path as string));
  return [
    ...imported,
    ...imported.filter((name) => name.startsWith('test/')).flatMap((name) => importsOf(name, seen)),
  ];
}
