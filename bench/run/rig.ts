import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { until } from '../../test/support/until.ts';
import type { Summary } from '../load/tally.ts';
import type { StreamMode } from '../programs/router.ts';
import type { Counts, Load, Order } from '../programs/worker.ts';
import { ask, cpuMicros, LOAD_CORES, setPolicy, startPinned, stop } from './process.ts';
import type { Target } from './targets.ts';

export const START_MS = 300; // for a load to reach its pace
const PATIENCE_MS = 10_000; // for the first answer
const MOST_CONNECTIONS = 1000; // of an open loop: the streams open at once, and some room
const AFTER_MS = 200; // for what a program does behind its answers

/** The model router and the load generators, on the load cores. */
export type Rig = Awaited<ReturnType<typeof startRig>>;

export async function startRig() {
  const [router, worker, holder] = [fork('router.ts'), fork('worker.ts'), fork('worker.ts')];
  const { port: routerPort } = await ask<{ port: number }>(router);
  setPolicy('--idle', [holder.pid as number]);
  return {
    routerPort,
    mode: (mode: StreamMode) => ask<unknown>(router, mode),
    load: (order: Order) => ask<Counts>(worker, order),
    /** The same by a second process, which holds streams open or uploads meanwhile, and never delays the first one. */
    hold: (order: Order) => ask<Counts>(holder, order),
    stop: () => Promise.all([router, worker, holder].map(stop)),
  };
}

function fork(file: string): ChildProcess {
  const path = fileURLToPath(new URL(`../programs/${file}`, import.meta.url));
  return startPinned(LOAD_CORES, process.execPath, [path], {
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  });
}

/** 1 KiB requests to a target, `connections` at a time unless there is more to it. */
export function loadOf(
  { baseUrl, headers }: Target,
  connections: number,
  more: Partial<Load> = {},
): Load {
  return { baseUrl, headers, connections, bytes: 1024, ...more };
}

/** The load of requests at random instants, `rate` a second. */
export function openLoad(target: Target, rate: number, more: Partial<Load> = {}): Load {
  return loadOf(target, MOST_CONNECTIONS, { rate, ...more });
}

/**
 * Measures while a load already runs, until something was done.
 * @returns CPU microseconds that the target took for each request and each event, and how many of them a second
 */
export async function measureWindow(rig: Rig, { pids }: Target, seconds: number) {
  const first = await rig.load('read');
  const before = cpuMicros(pids);
  const began = performance.now();
  let last = first;
  do {
    await sleep(seconds * 1000);
    last = await rig.load('read');
  } while (
    last.done + last.events === first.done + first.events &&
    performance.now() - began < PATIENCE_MS
  );
  const cpu = cpuMicros(pids) - before;
  const took = (performance.now() - began) / 1000;
  const per = (count: number) => ({ cpu: cpu / count, rate: count / took });
  const [done, events] = [last.done - first.done, last.events - first.events];
  return { done, events, perRequest: per(done), perEvent: per(events) };
}

/**
 * Starts a load, measures it, and ends it.
 * @param settle milliseconds before it counts
 * @returns the window, and a summary of the whole load: its times are those of requests that were due after settling
 * @throws when a request failed, none was answered, or one of an open loop never was
 */
export async function underLoad(
  rig: Rig,
  target: Target,
  load: Load,
  seconds: number,
  settle = START_MS,
) {
  await rig.load(load);
  await sleep(settle);
  await rig.load('reset');
  const window = await measureWindow(rig, target, seconds);
  const { gap } = await rig.load('drain'); // gaps under a load that ends are not of this load
  const whole = await (load.rate ? untilAnswered(rig.load) : rig.load('stop'));
  refuseErrors(whole);
  if (window.done + window.events === 0) throw new Error(`no answer from ${load.baseUrl}`);
  await sleep(AFTER_MS);
  const { p50, p99, p999, max } = whole;
  return { ...window, whole: { ...whole, gap }, latency: { p50, p99, p999, max } };
}

/** Waits for the answers that a drained load still lacks: the slowest count above all. @throws when one never comes */
async function untilAnswered(load: Rig['load']): Promise<Counts> {
  await until(
    () => load('read'),
    'an answer to every request',
    ({ open }) => open === 0,
  );
  return load('stop');
}

/** Lets the router end all open streams as whole ones. @throws when one did not arrive whole */
export async function endStreams(rig: Rig, load: Rig['load']): Promise<Counts> {
  await load('drain');
  await rig.mode({ mode: 'burst' });
  const answer = await untilAnswered(load);
  refuseErrors(answer);
  return answer;
}

/** @throws when a request failed */
export function refuseErrors({ errors }: Summary): void {
  const texts = Object.entries(errors).map(([error, count]) => `${count} × ${error}`);
  if (texts.length > 0) throw new Error(`the load saw ${texts.join(', ')}`);
}
