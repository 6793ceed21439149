import { executionAsyncResource } from 'node:async_hooks';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

const EVERY_MS = 15_000;
const QUIET = 0.05; // of a core; polls alone take 0.003
const QUIET_LOOKS = 4; // a minute: optimised code goes too
const WORTH_BYTES = 32 * 1_048_576;
/** A start is over sooner, and of what it needed, 8 MB are never needed again. */
const START_MS = 500;
const START_LOOKS = 10;

/**
 * Gives back what the start and each rush left behind, once they are over. V8 collects garbage
 * when it allocates, so a gateway at rest would keep the memory of its busiest second: 250 MB
 * where 110 do. Costs a pause of some 50 ms each, at rest, and of the first 20,000 requests
 * after it some 40 µs each. For a process of one's own: it sets a flag of V8.
 */
export function reclaimAtRest(everyMs = EVERY_MS): void {
  keepTickShape();
  let kept = 0;
  let quiet = 0;
  let cpu = process.cpuUsage();
  let looked = performance.now();
  let starting = START_LOOKS;
  const look = (enough: number): void => {
    const { user, system } = process.cpuUsage(cpu);
    const passedMs = performance.now() - looked;
    cpu = process.cpuUsage();
    looked += passedMs;
    quiet = user + system > QUIET * passedMs * 1000 ? 0 : quiet + 1;
    if (quiet < enough || process.memoryUsage.rss() < kept + WORTH_BYTES) return;
    collector()({ type: 'major', execution: 'sync', flavor: 'last-resort' });
    kept = process.memoryUsage.rss();
    starting = 0;
  };
  const start = setInterval(() => {
    look(1);
    if (--starting <= 0) clearInterval(start);
  }, START_MS).unref();
  setInterval(() => look(QUIET_LOOKS), everyMs).unref();
}

let collect: NodeJS.GCFunction | null = null;

/** V8's collector: made when it is first asked for, which takes a millisecond. */
function collector(): NodeJS.GCFunction {
  if (collect !== null) return collect;
  setFlagsFromString('--expose-gc');
  collect = runInNewContext('gc') as NodeJS.GCFunction;
  return collect;
}

/** Has V8 collect its young generation, now. */
export function collectYoung(): void {
  collector()({ type: 'minor' });
}

/** One of the objects that Node makes for each `process.nextTick`. */
let _tick: object;

/**
 * Keeps what V8 has learned of `process.nextTick`. Its object has computed names, and the
 * shapes on the way to it live only as long as one of the objects does: a collection while
 * none is queued ends them, and from then on V8 (14.6) makes each such object in its runtime,
 * 0.4 µs apiece, five times a request.
 */
function keepTickShape(): void {
  process.nextTick(() => {
    _tick = executionAsyncResource();
  });
}
