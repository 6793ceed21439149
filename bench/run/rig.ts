import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type { StreamMode } from '../programs/router.ts';
import type { Load, LoadAnswer, Order } from '../programs/worker.ts';
import { answerOf, ask, cpuMicros, LOAD_CORES, startPinned, stop } from './process.ts';
import type { Target } from './targets.ts';

const START_MS = 300; // for a load to reach its pace
const PATIENCE_MS = 10_000; // for the first answer
const AFTER_MS = 200; // for what a program does behind its answers

/** The model router and the load generators, on the load cores. */
export interface Rig {
  readonly routerPort: number;
  mode(mode: StreamMode): Promise<void>;
  load(order: Order): Promise<LoadAnswer>;
  /** The same by a second process, which holds streams open meanwhile. */
  hold(order: Order): Promise<LoadAnswer>;
  stop(): Promise<void>;
}

export async function startRig(): Promise<Rig> {
  const [router, worker, holder] = [fork('router.ts'), fork('worker.ts'), fork('worker.ts')];
  const { port } = await answerOf<{ port: number }>(router);
  return {
    routerPort: port,
    mode: (mode) => ask(router, mode),
    load: (order) => ask(worker, order),
    hold: (order) => ask(holder, order),
    stop: async () => {
      await Promise.all([router, worker, holder].map(stop));
    },
  };
}

function fork(file: string): ChildProcess {
  const path = fileURLToPath(new URL(`../programs/${file}`, import.meta.url));
  return startPinned(LOAD_CORES, process.execPath, [path], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });
}

/** 1 KiB requests to a target, `connections` at a time. */
export function loadOf({ baseUrl, headers }: Pick<Target, 'baseUrl' | 'headers'>, connections: number): Load {
  return { baseUrl, headers, connections, body: { bytes: 1024 } };
}

/** What was done within a time, and what it took. */
export interface Window {
  /** Microseconds of CPU, of each process or group that was asked for. */
  readonly cpus: readonly number[];
  readonly done: number;
  readonly events: number;
  readonly seconds: number;
}

/** Measures while a load already runs, until something was done. @param cpus reads CPU microseconds */
export async function measureWindow(rig: Rig, seconds: number, cpus: () => readonly number[]): Promise<Window> {
  const first = await rig.load({ do: 'read' });
  const before = cpus();
  const began = performance.now();
  let last = first;
  do {
    await sleep(seconds * 1000);
    last = await rig.load({ do: 'read' });
  } while (last.done + last.events === first.done + first.events && performance.now() - began < PATIENCE_MS);
  const used = cpus().map((micros, i) => micros - (before[i] as number));
  return {
    cpus: used,
    done: last.done - first.done,
    events: last.events - first.events,
    seconds: (performance.now() - began) / 1000,
  };
}

/** A window, and milliseconds of the whole run. */
export type LoadWindow = Window & Pick<LoadAnswer, 'p50' | 'p99'>;

/** Starts a load, measures, and ends the load. @throws when a request failed or none was answered */
export async function underLoad(
  rig: Rig,
  load: Load,
  seconds: number,
  cpus: () => readonly number[],
): Promise<LoadWindow> {
  await rig.load({ do: 'start', load });
  await sleep(START_MS);
  const window = await measureWindow(rig, seconds, cpus);
  const { errors, p50, p99 } = await rig.load({ do: 'stop' });
  refuseErrors(errors);
  if (window.done === 0) throw new Error(`no answer from ${load.baseUrl}`);
  await sleep(AFTER_MS);
  return { ...window, p50, p99 };
}

/** CPU microseconds and rate per unit of work. */
export function perUnit({ cpus, seconds }: Window, units: number): { cpu: number; rate: number } {
  return { cpu: (cpus[0] as number) / units, rate: units / seconds };
}

/** CPU per request and requests per second of a target under load. */
export async function measureRequests(rig: Rig, target: Target, load: Load, seconds: number) {
  const window = await underLoad(rig, load, seconds, () => [cpuMicros(target.pid)]);
  return { ...perUnit(window, window.done), window };
}

/** Lets the router end all open streams as whole ones. @throws when one did not arrive whole */
export async function endStreams(rig: Rig, load: Rig['load']): Promise<LoadAnswer> {
  await load({ do: 'drain' });
  await rig.mode({ mode: 'burst' });
  await sleep(500);
  const answer = await load({ do: 'stop' });
  refuseErrors(answer.errors);
  return answer;
}

export function refuseErrors(errors: LoadAnswer['errors']): void {
  const texts = Object.entries(errors).map(([error, count]) => `${count} × ${error}`);
  if (texts.length > 0) throw new Error(`the load saw ${texts.join(', ')}`);
}
