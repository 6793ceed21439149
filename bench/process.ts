import { type ChildProcess, type SpawnOptions, spawn, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { availableParallelism } from 'node:os';
import { delimiter, join } from 'node:path';

/**
 * Processes pinned to cores, and what the operating system says they used. The process under test
 * has core 0 for itself; load, upstream and database share the others.
 */
export const TEST_CORES = '0';
export const LOAD_CORES = availableParallelism() > 2 ? `1-${availableParallelism() - 1}` : '1';

/** Whether processes can be pinned here; figures taken unpinned are marked so. */
export const canPin = process.platform === 'linux' && availableParallelism() > 1 && which('taskset') !== null;

/** Starts a program on the given cores. */
export function startPinned(
  cores: string,
  command: string,
  args: readonly string[],
  options: SpawnOptions,
): ChildProcess {
  const child = canPin ? spawn('taskset', ['-c', cores, command, ...args], options) : spawn(command, args, options);
  // nothing started outlives the benchmark, however it ends
  const kill = (): void => {
    child.kill('SIGKILL');
  };
  process.once('exit', kill);
  child.once('exit', () => process.off('exit', kill));
  return child;
}

/** Moves this process, and so what it starts unpinned, to the load cores. */
export function pinSelf(): void {
  if (canPin) spawnSync('taskset', ['-a', '-cp', LOAD_CORES, String(process.pid)]);
}

/** The path of an installed program, or null. Looks in the system folders too: nginx lives there. */
export function which(name: string): string | null {
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/usr/local/sbin', '/sbin'];
  for (const folder of folders) {
    const path = join(folder, name);
    if (spawnSync('test', ['-x', path]).status === 0) return path;
  }
  return null;
}

/**
 * CPU time a process used so far, all its threads, in microseconds. Linux counts it in nanoseconds
 * in schedstat; the clock ticks of /proc/<pid>/stat would be too coarse for one round.
 */
export function cpuMicros(pid: number): number {
  let nanos = 0;
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    try {
      nanos += Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'latin1').split(' ', 1)[0]);
    } catch {
      // the thread ended in between
    }
  }
  return nanos / 1000;
}

/** Resident memory of a process in bytes. */
export function residentBytes(pid: number): number {
  const line = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'latin1'));
  return Number(line?.[1]) * 1024;
}

/** A port nobody listens on at the moment. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.on('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0));
    });
  });
}

/** Asks a process to end, insists after five seconds, and waits until it has. */
export function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    const insist = setTimeout(() => child.kill('SIGKILL'), 5000);
    child.once('exit', () => {
      clearTimeout(insist);
      resolve();
    });
    child.kill('SIGTERM');
  });
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Tries something until it works. @throws the last error once the time is up or `hopeless` says so */
export async function eventually<T>(
  what: string,
  seconds: number,
  attempt: () => Promise<T>,
  hopeless: () => boolean = () => false,
): Promise<T> {
  const end = performance.now() + seconds * 1000;
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (performance.now() > end || hopeless())
        throw new Error(`${what}: ${(error as Error).message}`, { cause: error });
      await sleep(5);
    }
  }
}
