import { type BodyShape, requestBody } from '../load/body.ts';
import { parseAddress, requestBytes } from '../load/connection.ts';
import { closedLoop, openLoop, type Running } from '../load/loops.ts';
import { newTally, type Summary, summarize } from '../load/tally.ts';
import { benchKey, SLUG } from './answers.ts';

/** The benchmark's load process: takes one order at a time over IPC and answers each with the counts so far. */
export type Order =
  | { readonly do: 'start'; readonly load: Load }
  | { readonly do: 'read' }
  /** Forgets times and statuses, also those of exchanges that began before. */
  | { readonly do: 'reset' }
  /** Lets exchanges under way end and starts no more. */
  | { readonly do: 'drain' }
  | { readonly do: 'stop' };

export interface Load {
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Exchanges kept open at once, each followed by the next. */
  readonly connections: number;
  /** Requests started per second instead, at random instants (Poisson), however long answers take. They wait for one of the connections. */
  readonly rate?: number;
  /** How fast each connection sends; default: as fast as the other side takes it. Without `rate`. */
  readonly bytesPerSecond?: number;
  readonly body: Omit<BodyShape, 'model'>;
  /** Requests take the keys of this many companies in turn, and are made one by one; all are the same when absent. */
  readonly keys?: number;
}

/** Answers so far, and requests that wait for one. */
export type Counts = Summary & { readonly open: number };

let tally = newTally();
let running: Running | null = null;

function start(load: Load): void {
  const address = parseAddress(load.baseUrl);
  const body = requestBody({ ...load.body, model: SLUG });
  const make = (key: string): Buffer =>
    requestBytes(address, { authorization: `Bearer ${key}`, ...load.headers }, body);
  const [only, { keys }] = [make(benchKey(0)), load];
  const request = keys === undefined ? () => only : (n: number) => make(benchKey(n % keys));
  tally = newTally();
  running = load.rate
    ? openLoop(address, { perSecond: load.rate, random: true }, request, tally, load.connections)
    : closedLoop(address, load.connections, request, tally, load.bytesPerSecond);
}

process.on('message', (order: Order) => {
  if (order.do === 'start') start(order.load);
  else if (order.do === 'reset') {
    const { done, events, errors } = tally;
    Object.assign(tally, newTally(), { done, events, errors });
  } else if (order.do === 'drain') running?.drain();
  else if (order.do === 'stop') running?.stop();
  process.send?.({ ...summarize(tally), open: running?.open() ?? 0 } satisfies Counts);
});
process.on('disconnect', () => process.exit(0));
