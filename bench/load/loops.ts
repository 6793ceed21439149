import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { type Address, Connection } from './connection.ts';
import type { Pace } from './pacer.ts';
import type { Tally } from './tally.ts';

/** Load that runs until it is stopped. */
export interface Running {
  /** Settles when the first requests can be due: a thread takes its time to start. */
  readonly begun: Promise<unknown>;
  /** Requests that wait for an answer. */
  open(): number;
  /** Starts no more requests; those under way go on. */
  drain(): void;
  /** Closes all connections. */
  stop(): void;
}

/**
 * How the connections of a closed loop behave: how fast each sends (default: as fast as the other side takes it), how often
 * each reads what has come (default: always), in which time they begin, one after the other (default: at once), and how long
 * every second one rests between two exchanges (default: not at all).
 */
export type Manner = Readonly<
  Partial<Record<'bytesPerSecond' | 'readEveryMs' | 'rampMs' | 'restMs', number>>
>;

/**
 * Closed loop: keeps `connections` exchanges open at once, each followed by the next, a failed one after 50 ms.
 * @param request the bytes of the n-th request, which is the k-th of its connection
 */
export function closedLoop(
  address: Address,
  connections: number,
  request: (n: number, k: number) => Buffer,
  tally: Tally,
  { bytesPerSecond, readEveryMs, rampMs = 0, restMs = 0 }: Manner = {},
): Running {
  let [sent, ended, stopped] = [0, 0, false];
  const all = Array.from({ length: connections }, (_, k) => {
    const connection = new Connection(address, tally, bytesPerSecond, readEveryMs);
    const rest = k % 2 === 0 ? 0 : restMs;
    let own = 0;
    const next = (): void => {
      if (stopped) return;
      connection.send(request(sent++, own++), (whole) => {
        ended++;
        if (!whole) setTimeout(next, 50);
        else if (rest === 0) next();
        else setTimeout(next, rest).unref();
      });
    };
    // those that send at a pace begin one after the other, so that their requests do not end together
    const ms =
      bytesPerSecond === undefined ? rampMs : (request(0, 0).length / bytesPerSecond) * 1000;
    if (ms === 0) next();
    else setTimeout(next, (k / connections) * ms);
    return connection;
  });
  const drain = (): void => {
    stopped = true;
  };
  return {
    begun: Promise.resolve(),
    open: () => sent - ended,
    drain,
    stop: () => stop(drain, all),
  };
}

/**
 * Open loop: starts requests at a pace, however long their answers take. Latency counts from when a request was due,
 * so one that this process sends late is not a faster one (coordinated omission).
 * @param most connections; a request for which there is none waits
 */
export function openLoop(
  address: Address,
  pace: Pace,
  request: (n: number) => Buffer,
  tally: Tally,
  most: number,
): Running {
  const idle: Connection[] = [];
  const all = new Set<Connection>();
  const waiting: number[] = [];
  const clock = performance.now() - Number(process.hrtime.bigint()) / 1e6;
  let sent = 0;
  const pacer = new Worker(new URL('./pacer.ts', import.meta.url), { workerData: pace });
  const send = (connection: Connection, due: number): void => {
    all.add(connection);
    connection.send(
      request(sent++),
      () => {
        const next = waiting.shift();
        if (next === undefined) idle.push(connection);
        else send(connection, next);
      },
      due,
    );
  };
  pacer.on('message', (dues: readonly number[]) => {
    for (const due of dues) {
      const connection = idle.pop() ?? (all.size < most ? new Connection(address, tally) : null);
      if (connection === null) waiting.push(due + clock);
      else send(connection, due + clock);
    }
  });
  const drain = (): void => {
    pacer.removeAllListeners('message');
    void pacer.terminate();
  };
  const open = (): number => all.size - idle.length + waiting.length;
  return { begun: once(pacer, 'online'), open, drain, stop: () => stop(drain, all) };
}

function stop(drain: () => void, all: Iterable<Connection>): void {
  drain();
  for (const connection of all) connection.close();
}
