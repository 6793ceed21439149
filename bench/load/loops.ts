import { type Address, Connection } from './connection.ts';
import type { Tally } from './tally.ts';

/** Load that runs until it is stopped. */
export interface Running {
  /** Requests that wait for an answer. */
  open(): number;
  /** Starts no more requests; those under way go on. */
  drain(): void;
  /** Closes all connections. */
  stop(): void;
}

/**
 * Closed loop: keeps `connections` exchanges open at once, each followed by the next, a failed one after 50 ms.
 * @param request the bytes of the n-th request
 */
export function closedLoop(
  address: Address,
  connections: number,
  request: (n: number) => Buffer,
  tally: Tally,
): Running {
  let [sent, stopped] = [0, false];
  const all = Array.from({ length: connections }, () => {
    const connection = new Connection(address, tally);
    const next = (whole: boolean): void => {
      if (stopped) return;
      if (whole) connection.send(request(sent++), next);
      else setTimeout(next, 50, true);
    };
    next(true);
    return connection;
  });
  const drain = (): void => {
    stopped = true;
  };
  return { open: () => connections, drain, stop: () => stop(drain, all) };
}

/** Open loop: starts `perSecond` requests a second, however long their answers take. */
export function openLoop(address: Address, perSecond: number, request: (n: number) => Buffer, tally: Tally): Running {
  const idle: Connection[] = [];
  const all = new Set<Connection>();
  const start = performance.now();
  let sent = 0;
  const timer = setInterval(() => {
    const due = ((performance.now() - start) / 1000) * perSecond;
    for (; sent < due; sent++) {
      const connection = idle.pop() ?? new Connection(address, tally);
      all.add(connection);
      connection.send(request(sent), () => idle.push(connection), start + (sent / perSecond) * 1000);
    }
  }, 1);
  const drain = (): void => clearInterval(timer);
  return { open: () => all.size - idle.length, drain, stop: () => stop(drain, all) };
}

function stop(drain: () => void, all: Iterable<Connection>): void {
  drain();
  for (const connection of all) connection.close();
}
