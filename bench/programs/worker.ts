import { type BodyShape, requestBody } from '../load/body.ts';
import { parseAddress, requestBytes } from '../load/connection.ts';
import { closedLoop, openLoop, type Running } from '../load/loops.ts';
import { newTally, type Summary, summarize } from '../load/tally.ts';
import { benchKey, SLUG } from './answers.ts';

/**
 * What the load process is to do: put load on; only answer; forget times and statuses, also those of exchanges that
 * began before; start no more exchanges; close all connections.
 */
export type Order = Load | 'read' | 'reset' | 'drain' | 'stop';

export interface Load extends Omit<BodyShape, 'model'> {
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Exchanges kept open at once, each followed by the next. */
  readonly connections: number;
  /** Requests started per second instead, at random instants (Poisson), however long answers take. They wait for one of the connections. */
  readonly rate?: number;
  /** How fast each connection sends; default: as fast as the other side takes it. Without `rate`. */
  readonly bytesPerSecond?: number;
  /** How often each connection reads what has come; default: always. Without `rate`. */
  readonly readEveryMs?: number;
  /** In which the connections begin, one after the other; default: at once. Without `rate`. */
  readonly rampMs?: number;
  /** Requests take the keys of this many companies in turn, and are made one by one; all are the same when absent. */
  readonly keys?: number;
}

/** Answers so far, and requests that wait for one. */
export type Counts = Summary & { readonly open: number };

let tally = newTally();
let running: Running | null = null;

function start(load: Load): void {
  const { rate, connections, keys } = load;
  const address = parseAddress(load.baseUrl);
  const body = requestBody({ ...load, model: SLUG });
  const make = (key: string): Buffer =>
    requestBytes(address, { authorization: `Bearer ${key}`, ...load.headers }, body);
  const only = make(benchKey(0));
  const request = keys === undefined ? () => only : (n: number) => make(benchKey(n % keys));
  tally = newTally();
  running = rate
    ? openLoop(address, { perSecond: rate, random: true }, request, tally, connections)
    : closedLoop(address, connections, request, tally, load.bytesPerSecond, load.readEveryMs, load.rampMs);
}

process.on('message', (order: Order) => {
  if (typeof order === 'object') start(order);
  else if (order === 'reset') {
    const { done, events, errors } = tally;
    Object.assign(tally, newTally(), { done, events, errors });
  } else if (order !== 'read') running?.[order]();
  process.send?.({ ...summarize(tally), open: running?.open() ?? 0 } satisfies Counts);
});
process.on('disconnect', () => process.exit(0));
