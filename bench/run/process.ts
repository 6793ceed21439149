import {
  type ChildProcess,
  execFile,
  type SpawnOptions,
  spawn,
  spawnSync,
} from 'node:child_process';
import { once } from 'node:events';
import { globSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { childrenOf } from '../../test/faults/server.ts';

/** The program under test has core 0 for itself; load, router and database share the others. */
export const TEST_CORES = '0';
export const LOAD_CORES = availableParallelism() > 2 ? `1-${availableParallelism() - 1}` : '1';
const TICK_US = 10_000;
export const ALL_CORES = `0-${availableParallelism() - 1}`;

const started = new Set<ChildProcess>();

/** Starts a program on the given cores; it ends with this process at the latest. */
export function startPinned(
  cores: string,
  command: string,
  args: readonly string[],
  options: SpawnOptions,
): ChildProcess {
  // taskset replaces itself with the program, so the process started is the one to measure
  const child = spawn('taskset', ['-c', cores, command, ...args], options);
  started.add(child);
  child.once('exit', () => started.delete(child));
  return child;
}

process.once('exit', killStarted);

/** Kills what still runs of all that this process started: where a measurement failed nobody stopped it. */
export function killStarted(): void {
  for (const child of started) child.kill('SIGKILL');
}

/** Moves this process, and so what it starts unpinned, to the load cores. @throws where processes cannot be pinned */
export function pinSelf(): void {
  const { status } = spawnSync('taskset', ['-a', '-cp', LOAD_CORES, String(process.pid)]);
  if (status !== 0) throw new Error('the benchmark needs Linux, two cores or more, and taskset');
}

/**
 * With `--idle`, processes and all their threads get what others on their cores leave; with `--other`, their share. One
 * that has ended is passed over, and so is everything where there is no `chrt`.
 */
export function setPolicy(policy: '--idle' | '--other', pids: readonly number[]): void {
  for (const pid of pids) spawnSync('chrt', ['--all-tasks', policy, '--pid', '0', `${pid}`]);
}

/** Runs a program to its end. @returns what it prints @throws when it fails */
export async function printedBy(
  cores: string,
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<string> {
  const options = { env: { PATH: process.env.PATH, ...env } };
  return (await promisify(execFile)('taskset', ['-c', cores, command, ...args], options)).stdout;
}

/**
 * CPU microseconds that processes have used so far in all their threads. Linux counts nanoseconds in schedstat; the
 * clock ticks of /proc/<pid>/stat are too coarse for one round.
 */
export function cpuMicros(pids: readonly number[]): number {
  let nanos = 0;
  for (const path of pids.flatMap((pid) => globSync(`/proc/${pid}/task/*/schedstat`))) {
    try {
      nanos += Number(readFileSync(path, 'latin1').split(' ', 1)[0]);
    } catch {
      // the thread ended in between
    }
  }
  return nanos / 1000;
}

/**
 * The same of a server and its children, those included that have ended, which Linux counts in ticks of 10 ms: a worker
 * of a parallel query ends with it.
 */
export function serverMicros(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1) as string;
  const [user, system] = stat.split(' ').slice(13, 15).map(Number) as [number, number];
  return cpuMicros([pid, ...childrenOf(pid)]) + (user + system) * TICK_US;
}

export function parentOf(pid: number): number {
  return statusOf(pid, 'PPid');
}

/** Resident memory of a target in bytes. */
export function residentBytes({ pids: [pid] }: { readonly pids: readonly number[] }): number {
  return statusOf(pid as number, 'VmRSS') * 1024;
}

function statusOf(pid: number, name: string): number {
  return Number(
    new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1],
  );
}

/** Waits until somebody listens on a port. @throws when nobody does after 20 s or the process has ended */
export async function untilListening(
  name: string,
  port: number,
  child: ChildProcess,
): Promise<void> {
  const end = performance.now() + 20_000;
  for (;;) {
    const socket = connect({ port, host: '127.0.0.1' });
    try {
      await once(socket, 'connect');
      return;
    } catch (error) {
      if (performance.now() > end || hasEnded(child))
        throw new Error(`${name} does not listen`, { cause: error });
      await sleep(1);
    } finally {
      socket.destroy();
    }
  }
}

function hasEnded(child: ChildProcess): boolean {
  return child.exitCode !== null || child.signalCode !== null;
}

/** Asks a process to end, kills it after five seconds, and waits until it has ended. */
export async function stop(child: ChildProcess): Promise<void> {
  if (hasEnded(child)) return;
  const insist = setTimeout(() => child.kill('SIGKILL'), 5000);
  child.kill('SIGTERM');
  await once(child, 'exit');
  clearTimeout(insist);
}

/** Sends a message to a forked process, if there is one. @returns the next one from it @throws when it ends instead */
export function ask<T>(child: ChildProcess, message?: object | string): Promise<T> {
  return new Promise((resolve, reject) => {
    const gone = (): void => reject(new Error('a benchmark process ended'));
    child.once('exit', gone);
    child.once('message', (answer) => {
      child.off('exit', gone);
      resolve(answer as T);
    });
    if (message !== undefined) child.send(message);
  });
}
