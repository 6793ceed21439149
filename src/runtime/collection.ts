import { executionAsyncResource } from 'node:async_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { residentBytes } from './memory.ts';

/** How often memory is checked, and how long it has to be quiet: four checks, a minute. */
const CHECK_MS = 15_000;
const QUIET_CHECKS = 4;
/** Share of a core below which the process is quiet; its own polls take 0.003, and 100 requests a second 0.02. */
const QUIET_CPU = 0.01;
/** Growth that is worth a collection. */
const WORTH_BYTES = 32 * 1_048_576;
/** After the start memory is checked sooner: 8 MB that were needed for it are never needed again. */
const START_CHECK_MS = 500;
const START_CHECKS = 10;

/**
 * Gives memory back after the start and after each rush. V8 collects only when it allocates, so a gateway at rest
 * would keep the memory of its busiest second: 250 MB instead of 110. Each collection is a pause of 50 ms, and ends
 * some 300 optimised functions, which costs the next 20,000 requests 40 µs each: so it is for real rest only.
 */
export function reclaimAtRest(everyMs = CHECK_MS): void {
  keepTickShape();
  let kept = 0;
  let quiet = 0;
  let cpu = process.cpuUsage();
  let checkedAt = performance.now();
  let starting = START_CHECKS;
  const check = (enough: number): void => {
    const { user, system } = process.cpuUsage(cpu);
    const passedMs = performance.now() - checkedAt;
    cpu = process.cpuUsage();
    checkedAt += passedMs;
    quiet = user + system > QUIET_CPU * passedMs * 1000 ? 0 : quiet + 1;
    if (quiet < enough || residentBytes() < kept + WORTH_BYTES) return;
    collector()({ type: 'major', execution: 'sync', flavor: 'last-resort' });
    kept = residentBytes();
    starting = 0;
  };
  const start = setInterval(() => {
    check(1);
    if (--starting <= 0) clearInterval(start);
  }, START_CHECK_MS).unref();
  setInterval(() => check(QUIET_CHECKS), everyMs).unref();
}

let collect: NodeJS.GCFunction | null = null;

/** V8's collector, made at its first use: that takes a millisecond. */
function collector(): NodeJS.GCFunction {
  if (collect !== null) return collect;
  setFlagsFromString('--expose-gc');
  collect = runInNewContext('gc') as NodeJS.GCFunction;
  return collect;
}

/** Makes V8 collect its young generation now. */
export function collectYoung(): void {
  collector()({ type: 'minor' });
}

/** One of the objects that Node makes for each `process.nextTick`. */
let _tick: object;

/**
 * Keeps an object of `process.nextTick` alive, and with it the shape V8 has learned for it. A
 * collection while none exists ends that shape, and V8 (14.6) then makes each in its runtime:
 * 0.4 µs, five times a request.
 */
function keepTickShape(): void {
  process.nextTick(() => {
    _tick = executionAsyncResource();
  });
}
