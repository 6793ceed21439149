import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus } from 'node:os';
import { dirname } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { baseOfChange, changedFiles, isReached, isTried, reachedBy } from './support/changed.ts';
import { spentBelow } from './support/cpu.ts';

/**
 * Runs test files, some of a folder in one process: those named in the arguments, those below test/ROOM for --room=ROOM,
 * those that a change reaches for --changed, otherwise all; six processes at once and more while cores are idle, or as many as --jobs=N says. With --all, and where
 * a change touches the fast path, tests of what clients see run twice, with it and without it; FAST_HTTP in the
 * environment chooses one way. Where a change touches the pages, axe-core judges them; with --all they are looked at in
 * every width and language. The dearest tests (changed.ts) are left out where nothing they try changed, and the run says
 * so. A file that failed beside others runs once more when all have ended, alone and with the seed it printed: a failure
 * that comes again counts, and one that does not is told by name in the last lines.
 * Prints a line per file, what failed in it, CPU seconds by folder, and at the end the line `N passed, N failed`.
 *
 * They are run by plain node. The command `tap` would load its own module loader into
 * each of them and into every Node process they start, which costs 0.3 to 0.9 s of CPU a file.
 */
const { EDGE_HEAVY, FAULTS, FUZZ_RUNS, IMAGE, TAP_GREP } = process.env;
/** After which a file is taken for hung: far more than any takes on a busy machine, and than a long run of one. */
const IS_LONG =
  (EDGE_HEAVY ?? FAULTS ?? FUZZ_RUNS ?? IMAGE) !== undefined || process.argv.includes('--all');
const TIMEOUT_S = IS_LONG ? 7200 : 900;
const DEAREST = 10;
const GRACE_MS = 15_000; // a file that reaches its timeout reports it and ends within this time
const BOTH_WAYS = /\btest\/(spec|edge|sdk)\//;
/** Where a change may behave in one of the two ways alone. */
const FAST_PATH = /^(src\/(http|upstream|runtime|gateway|sse|workers)\/|package-lock\.json)/;
/** Where a change may be what axe-core judges, or change how it does. */
const PAGES = /^(src\/admin\/|test\/admin\/(browser|accessible)|package-lock\.json)/;
/** What V8 compiled is kept for the next file and process: without it each spends 0.3 to 0.5 s of CPU on that. */
const COMPILE_CACHE = fileURLToPath(new URL('../.tap/compile-cache', import.meta.url));
const BEFORE = new URL('support/before.ts', import.meta.url).href;
const JOBS = 6; // at once; on two cores: a process computes for a third of its time and waits for the rest
/** Most that run beside these while cores are idle: the six may all be waiting for a timeout or for a database. */
const MORE_JOBS = 6;
const LOOK_MS = 250; // at how much of the cores is idle
const IDLE_SHARE = 0.25; // of all cores, from which on one more process is started
/** Seconds that each run took when all were run last: the longest go first, so that none runs on alone at the end. */
const TIMES = fileURLToPath(new URL('../.tap/times.json', import.meta.url));
const UNKNOWN_S = 8; // the first time
/** Seconds of files that share a process, one after the other: the start of one, and loading what is tried, costs 0.2 to 0.7 s of CPU, with a browser and an office 2 s. */
const GROUP_S = 80;
const TOGETHER = fileURLToPath(new URL('support/together.ts', import.meta.url));
/** Files that have a process each: they are the longest, start processes themselves or look at their own. */
const ALONE = /^test\/(?:faults|fleet)\/|^test\/[^/]+$|\/pages-process\.test/;

/** Most files that run once more: where more failed, the change did it. */
const MOST_AGAIN = 8;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    jobs: { type: 'string' },
    room: { type: 'string' },
    all: { type: 'boolean' },
    changed: { type: 'boolean' },
  },
});
interface Run {
  readonly file: string;
  readonly fastHttp: string | undefined;
  /** Whether nothing it tries changed in the fast path, nor the test itself. */
  readonly isOneWay: boolean;
  /** The file, and the value of FAST_HTTP. */
  readonly name: string;
  /** What it printed as FUZZ_SEED when it failed. */
  readonly seed?: string;
}
/** Runs of one process that failed, and how many of their assertions. */
interface Failed {
  readonly runs: Run[];
  readonly count: number;
}
const { room } = values;
const changed = changedFiles();
const all = positionals.length === 0 && room === undefined && !values.changed;
const times: Record<string, number> = existsSync(TIMES)
  ? JSON.parse(readFileSync(TIMES, 'utf8'))
  : {};
const found = globSync(`test/${room === undefined ? '' : `${room}/`}**/*.test.ts`);
if (found.length === 0) throw new Error(`there are no tests below test/${room}`);
const reached = values.changed && changed !== null ? reachedBy(changed, found) : found;
const leftOut =
  all && values.all !== true && FAULTS === undefined
    ? reached.filter((file) => !isTried(file, changed))
    : [];
const files =
  positionals.length > 0 ? positionals : reached.filter((file) => !leftOut.includes(file));
const bothWays = values.all === true || FAULTS !== undefined || touches(FAST_PATH);
const pagesUnchanged = values.all !== true && positionals.length === 0 && !touches(PAGES);
/** CPU seconds of each run, with those of the processes that it started; empty where the system does not tell. */
const cpu: Record<string, number> = {};
const groups = together(files.flatMap(ways));
const totals = { pass: 0, fail: 0, skip: 0, todo: 0 };
type Count = keyof typeof totals;
const failed: Failed[] = [];
const jobs = Array.from({ length: Number(values.jobs ?? JOBS) }, runGroups);
const ownsCores = availableParallelism() === cpus().length; // a container may have the time of some of them alone
await Promise.all(values.jobs === undefined && ownsCores ? [...jobs, useIdleCores()] : jobs);
const passedAlone = files.length > 1 ? await runFailedAlone() : [];
for (const { count } of failed) totals.fail += count;
if (all) {
  mkdirSync(dirname(TIMES), { recursive: true });
  writeFileSync(TIMES, JSON.stringify(times));
}
if (files.length > 1) showCpu();
if (leftOut.length > 0)
  console.log(
    `${leftOut.length} files of experiments and of browsers were left out, since nothing they try changed after ${baseOfChange().slice(0, 8)}: ALL=1 runs them`,
  );
for (const { name } of passedAlone)
  console.log(`${name} failed beside others, as told above, and passed alone`);
const skipped = totals.skip + totals.todo;
console.log(
  `${totals.pass} passed, ${totals.fail} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`,
);
process.exitCode = totals.fail > 0 || totals.pass === 0 ? 1 : 0;

/** The runs of a file, one for each value of FAST_HTTP. */
function ways(file: string): Run[] {
  const { FAST_HTTP } = process.env;
  const isOneWay = !(bothWays || isReached(file, changed ?? []));
  const values =
    FAST_HTTP === undefined && !isOneWay && BOTH_WAYS.test(file) ? [undefined, 'off'] : [FAST_HTTP];
  return values.map((fastHttp) => ({
    file,
    fastHttp,
    isOneWay,
    name: fastHttp === undefined ? file : `${file}, FAST_HTTP=${fastHttp}`,
  }));
}

/** Whether changes are in files of this kind; without history nobody knows. */
function touches(kind: RegExp): boolean {
  return changed?.some((name) => kind.test(name)) ?? true;
}

/** Files of one folder, some in each group; the longest group is first. Those of admin share an office and a browser. */
function together(runs: readonly Run[]): Run[][] {
  const groups: Run[][] = [];
  const roomOf = (run: Run) =>
    ALONE.test(run.file)
      ? run.name
      : `${/^test\/admin/.exec(run.file) ?? dirname(run.file)} ${run.fastHttp} ${run.isOneWay}`;
  for (const room of Map.groupBy(runs, roomOf).values()) {
    let group: Run[] | undefined;
    for (const run of room.toSorted((a, b) => secondsOf([b]) - secondsOf([a]))) {
      if (group === undefined || secondsOf([...group, run]) > GROUP_S) {
        group = [];
        groups.push(group);
      }
      group.push(run);
    }
  }
  return groups.sort((a, b) => secondsOf(b) - secondsOf(a));
}

function secondsOf(group: readonly Run[]): number {
  return group.reduce((sum, { name }) => sum + (times[name] ?? UNKNOWN_S), 0);
}

async function runGroups(): Promise<void> {
  for (let group = groups.shift(); group !== undefined; group = groups.shift())
    await runGroup(group);
}

/** Starts one more process at each look that finds cores idle, so a machine that is busy otherwise gets no more than JOBS. */
async function useIdleCores(): Promise<void> {
  const more = new Set<Promise<void>>();
  for (let before = coreTimes(); groups.length > 0; ) {
    await sleep(LOOK_MS);
    const now = coreTimes();
    const share = (now.idle - before.idle) / (now.all - before.all);
    before = now;
    const group = share > IDLE_SHARE && more.size < MORE_JOBS ? groups.shift() : undefined;
    if (group === undefined) continue;
    const running = runGroup(group).finally(() => more.delete(running));
    more.add(running);
  }
  await Promise.all(more);
}

/** Milliseconds that all cores together have been idle, and have been there. */
function coreTimes(): { idle: number; all: number } {
  const times = cpus().map((core) => core.times);
  const idle = times.reduce((sum, each) => sum + each.idle, 0);
  return {
    idle,
    all: times.reduce((sum, each) => sum + each.user + each.nice + each.sys + each.irq, idle),
  };
}

/** Takes those that pass now out of `failed`. @returns them */
async function runFailedAlone(): Promise<Run[]> {
  const first = failed.splice(0);
  const passed: Run[] = [];
  if (first.flatMap(({ runs }) => runs).length > MOST_AGAIN) {
    failed.push(...first);
    return passed;
  }
  for (const { runs } of first) {
    for (const run of runs) {
      console.log(`again, alone: ${run.name}`);
      const before = failed.length;
      await runGroup([run]);
      if (failed.length === before) passed.push(run);
    }
  }
  return passed;
}

async function runGroup(group: readonly Run[]): Promise<void> {
  const { fastHttp, isOneWay } = group[0] as Run;
  let began = performance.now();
  let spent = 0;
  const child = spawn(process.execPath, ['--import', BEFORE, TOGETHER], {
    env: {
      ...{
        NODE_COMPILE_CACHE: COMPILE_CACHE,
        ...process.env,
        TAP_TIMEOUT: `${TIMEOUT_S}`,
        FAST_HTTP: fastHttp,
      },
      ...(values.all && { ALL: '1' }),
      ...(isOneWay && { ONE_WAY: '1' }),
      ...(pagesUnchanged && { PAGES_UNCHANGED: '1' }),
      ...(group[0]?.seed && { FUZZ_SEED: group[0].seed }),
      TEST_FILES: group.map(({ file }) => file).join(' '),
      ...(TAP_GREP && { TAP_GREP: `.\n${TAP_GREP}` }), // of the tests in each file
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  }) as ChildProcessByStdio<null, Readable, null>;
  const exit = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
  const timer = setTimeout(() => child.kill('SIGKILL'), TIMEOUT_S * 1000 + GRACE_MS);

  let lines: string[] = []; // of the file that runs
  const waiting = [...group];
  const wrong: Run[] = [];
  let counted: string | undefined;
  const output = createInterface({ input: child.stdout });
  child.once('exit', async () => {
    await sleep(1000, undefined, { ref: false }); // a process that a file left behind may hold the output open
    output.close();
    child.stdout.destroy();
  });
  for await (const line of output) {
    if (line.startsWith('# Subtest: ')) lines = [];
    lines.push(line);
    counted = /^# \{ (total: .*) \}$/.exec(line)?.[1] ?? counted;
    const [run] = waiting;
    if (run === undefined || !/^(not )?ok \d/.test(line) || !line.includes(` - ${run.file}`))
      continue;
    waiting.shift();
    timer.refresh();
    const { name } = run;
    const seconds = (performance.now() - began) / 1000;
    began = performance.now();
    times[name] = seconds;
    const total = spentBelow(child.pid as number);
    if (total > spent) cpu[name] = total - spent;
    spent = total;
    const good = line.startsWith('ok');
    const ofCpu = name in cpu ? `, ${cpu[name]?.toFixed(1)} s of CPU` : '';
    console.log(`${good ? 'ok    ' : 'FAILED'} ${name} (${seconds.toFixed(1)} s${ofCpu})`);
    if (good) continue;
    console.log(failures(lines).join('\n'));
    wrong.push(withSeed(run, lines));
  }
  const [code, signal] = await exit;
  clearTimeout(timer);

  let count = 0;
  for (const [, kind, of] of counted?.matchAll(/(pass|fail|skip|todo): (\d+)/g) ?? []) {
    if (kind === 'fail') count += Number(of);
    else totals[kind as Count] += Number(of);
  }
  const isWhole = code === 0 && counted !== undefined;
  const [culprit] = isWhole || waiting.length < group.length ? [] : waiting.splice(0, 1);
  if (!isWhole && (culprit !== undefined || (waiting.length === 0 && count === 0))) {
    const run = culprit ?? (group.at(-1) as Run);
    wrong.push(withSeed(run, lines));
    console.log(`FAILED ${run.name}`);
    console.log([...failures(lines), `ended with ${signal ?? `exit code ${code}`}`].join('\n'));
  }
  if (count > 0 || wrong.length > 0) {
    const runs = wrong.length > 0 ? wrong : [...group];
    failed.push({ runs, count: Math.max(count, 1) });
  }
  if (isWhole) return;
  if (waiting.length > 0) await runGroup(waiting); // what ended the process was none of theirs
}

function withSeed(run: Run, lines: readonly string[]): Run {
  const seed = lines.map((line) => /\bFUZZ_SEED=(\d+)/.exec(line)?.[1]).find(Boolean);
  return seed === undefined ? run : { ...run, seed };
}

/** Without the Postgres that all share. */
function showCpu(): void {
  const runs = Object.entries(cpu).sort(([, a], [, b]) => b - a);
  if (runs.length === 0) return;
  const folders = new Map<string, number>();
  for (const [name, seconds] of runs) {
    const folder = name.split('/').slice(1, -1)[0] ?? '.';
    folders.set(folder, (folders.get(folder) ?? 0) + seconds);
  }
  const line = ([name, seconds]: readonly [string, number]) =>
    `${seconds.toFixed(1).padStart(8)} ${name}`;
  const total = runs.reduce((sum, [, seconds]) => sum + seconds, 0);
  console.log(`\nCPU seconds, ${total.toFixed(0)} in all, by folder:`);
  console.log(
    [...folders]
      .sort(([, a], [, b]) => b - a)
      .map(line)
      .join('\n'),
  );
  console.log(`\nthe ${Math.min(DEAREST, runs.length)} dearest files:`);
  console.log(`${runs.slice(0, DEAREST).map(line).join('\n')}\n`);
}

/** The failed assertions of a file with their diagnostics, and all it printed that is not TAP. */
function failures(lines: readonly string[]): string[] {
  const shown: string[] = [];
  let failed = false; // the current assertion
  for (const line of lines) {
    if (/^\s*(not )?ok \d/.test(line)) failed = line.trimStart().startsWith('not ok');
    const structure = /^\s*(ok \d|# |\d+\.\.\d+|TAP version|$)/.test(line);
    if (failed || !structure) shown.push(line);
    if (/^\s*\.\.\.$/.test(line)) failed = false;
  }
  return shown;
}
