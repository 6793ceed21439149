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

/**
 * Runs test files, each in a process of its own: those named in the arguments, otherwise all;
 * six at once and more while cores are idle, or as many as --jobs=N says. Without FAST_HTTP in the
 * environment, tests of what clients see run twice: with the fast path and without it.
 * Prints a line per file, what failed in it, and at the end the line `N passed, N failed`.
 *
 * Every file is run by plain node. The command `tap` would load its own module loader into
 * each of them and into every Node process they start, which costs 0.3 to 0.9 s of CPU a file.
 */
const TIMEOUT_S = 120; // of a file that sets none with t.setTimeout
const GRACE_MS = 15_000; // a file that reaches its timeout reports it and ends within this time
const BOTH_WAYS = /\btest\/(spec|edge|sdk)\//;
/** What V8 compiled is kept for the next file and process: without it each spends 0.3 to 0.5 s of CPU on that. */
const COMPILE_CACHE = fileURLToPath(new URL('../.tap/compile-cache', import.meta.url));
const BEFORE = new URL('support/no-async-hooks.ts', import.meta.url).href;
const JOBS = 6; // at once; on two cores: a file computes for a third of its time and waits for the rest
/** Most that run beside these while cores are idle: the six may all be waiting for a timeout or for a database. */
const MORE_JOBS = 6;
const LOOK_MS = 250; // at how much of the cores is idle
const IDLE_SHARE = 0.25; // of all cores, from which on one more file is started
/** Seconds that each run took when all were run last: the longest go first, so that none runs on alone at the end. */
const TIMES = fileURLToPath(new URL('../.tap/times.json', import.meta.url));
/** Where the longest files are, for the first time. */
const LONGEST = ['test/admin/browser', 'test/fleet/', 'test/faults/', 'test/admin/', 'test/store/'];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: { jobs: { type: 'string' } },
});
interface Run {
  readonly file: string;
  readonly fastHttp: string | undefined;
  /** The file, and the value of FAST_HTTP. */
  readonly name: string;
}
const all = positionals.length === 0;
const times: Record<string, number> = existsSync(TIMES) ? JSON.parse(readFileSync(TIMES, 'utf8')) : {};
const files = all ? globSync('test/**/*.test.ts') : positionals;
const runs = files.flatMap(ways);
if (all) runs.sort(longestFirst);
const totals = { pass: 0, fail: 0, skip: 0, todo: 0 };
type Count = keyof typeof totals;
const jobs = Array.from({ length: Number(values.jobs ?? JOBS) }, runFiles);
const ownsCores = availableParallelism() === cpus().length; // a container may have the time of some of them alone
await Promise.all(values.jobs === undefined && ownsCores ? [...jobs, useIdleCores()] : jobs);
if (all) {
  mkdirSync(dirname(TIMES), { recursive: true });
  writeFileSync(TIMES, JSON.stringify(times));
}
const skipped = totals.skip + totals.todo;
console.log(`${totals.pass} passed, ${totals.fail} failed${skipped > 0 ? `, ${skipped} skipped` : ''}`);
process.exitCode = totals.fail > 0 || totals.pass === 0 ? 1 : 0;

/** The runs of a file, one for each value of FAST_HTTP. */
function ways(file: string): Run[] {
  const { FAST_HTTP } = process.env;
  const values = FAST_HTTP === undefined && BOTH_WAYS.test(file) ? [undefined, 'off'] : [FAST_HTTP];
  return values.map((fastHttp) => ({
    file,
    fastHttp,
    name: fastHttp === undefined ? file : `${file}, FAST_HTTP=${fastHttp}`,
  }));
}

function longestFirst(a: Run, b: Run): number {
  const place = ({ file }: Run): number => {
    const found = LONGEST.findIndex((start) => file.startsWith(start));
    return found < 0 ? LONGEST.length : found;
  };
  return (times[b.name] ?? 0) - (times[a.name] ?? 0) || place(a) - place(b) || a.name.localeCompare(b.name);
}

async function runFiles(): Promise<void> {
  for (let run = runs.shift(); run !== undefined; run = runs.shift()) await runFile(run);
}

/** Starts one more file at each look that finds cores idle, so a machine that is busy otherwise gets no more than JOBS. */
async function useIdleCores(): Promise<void> {
  const more = new Set<Promise<void>>();
  for (let before = coreTimes(); runs.length > 0; ) {
    await sleep(LOOK_MS);
    const now = coreTimes();
    const share = (now.idle - before.idle) / (now.all - before.all);
    before = now;
    const run = share > IDLE_SHARE && more.size < MORE_JOBS ? runs.shift() : undefined;
    if (run === undefined) continue;
    const running = runFile(run).finally(() => more.delete(running));
    more.add(running);
  }
  await Promise.all(more);
}

/** Milliseconds that all cores together have been idle, and have been there. */
function coreTimes(): { idle: number; all: number } {
  const times = cpus().map((core) => core.times);
  const idle = times.reduce((sum, each) => sum + each.idle, 0);
  return { idle, all: times.reduce((sum, each) => sum + each.user + each.nice + each.sys + each.irq, idle) };
}

async function runFile({ file, fastHttp, name }: Run): Promise<void> {
  const began = performance.now();
  const child = spawn(process.execPath, ['--import', BEFORE, file], {
    env: { NODE_COMPILE_CACHE: COMPILE_CACHE, ...process.env, TAP_TIMEOUT: `${TIMEOUT_S}`, FAST_HTTP: fastHttp },
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  }) as ChildProcessByStdio<null, Readable, null>;
  const exit = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>;
  let timer = setTimeout(() => child.kill('SIGKILL'), TIMEOUT_S * 1000 + GRACE_MS);
  child.on('message', ({ setTimeout: ms }: { setTimeout?: number }) => {
    if (ms === undefined) return; // tap sends its timeout, others may send what they like
    clearTimeout(timer);
    timer = setTimeout(() => child.kill('SIGKILL'), ms + GRACE_MS);
  });

  const lines: string[] = [];
  let counted: string | undefined;
  const output = createInterface({ input: child.stdout });
  child.once('exit', async () => {
    await sleep(1000, undefined, { ref: false }); // a process that the file left behind may hold the output open
    output.close();
    child.stdout.destroy();
  });
  for await (const line of output) {
    lines.push(line);
    counted = /^# \{ (total: .*) \}$/.exec(line)?.[1] ?? counted;
  }
  const [code, signal] = await exit;
  clearTimeout(timer);

  const good = code === 0 && counted !== undefined;
  for (const [, kind, count] of counted?.matchAll(/(pass|fail|skip|todo): (\d+)/g) ?? [])
    totals[kind as Count] += Number(count);
  if (!good && !counted?.includes('fail:')) totals.fail += 1; // a crash before the first test, say
  const seconds = (performance.now() - began) / 1000;
  times[name] = seconds;
  console.log(`${good ? 'ok    ' : 'FAILED'} ${name} (${seconds.toFixed(1)} s)`);
  if (!good) console.log([...failures(lines), `ended with ${signal ?? `exit code ${code}`}`].join('\n'));
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
