import { type BodyShape, requestBody, traceparent, turnBodies } from '../load/body.ts';
import { parseAddress, requestBytes } from '../load/connection.ts';
import { closedLoop, type Manner, openLoop, type Running } from '../load/loops.ts';
import { newTally, type Summary, summarize } from '../load/tally.ts';
import { benchKey, SLUG } from './answers.ts';

/**
 * What the load process is to do: put load on; only answer; forget times and statuses, also those of exchanges that
 * began before; start no more exchanges; close all connections.
 */
export type Order = Load | 'read' | 'reset' | 'drain' | 'stop';

/** The manner is without `rate`. */
export interface Load extends Omit<BodyShape, 'model'>, Manner {
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Exchanges kept open at once, each followed by the next. */
  readonly connections: number;
  /** Requests started per second instead, at random instants (Poisson), however long answers take. They wait for one of the connections. */
  readonly rate?: number;
  /** No two heads in a row are alike: another trace id, and bodies of other lengths, from `bytes` down. */
  readonly differ?: boolean;
  /** Requests take the keys of this many companies in turn, and are made one by one; all are the same when absent. */
  readonly keys?: number;
  /** Bodies are those of a conversation with so many turns, of up to `bytes`, instead; each connection has its own. Without `rate`. */
  readonly turns?: number;
}

/** Answers so far, and requests that wait for one. */
export type Counts = Summary & { readonly open: number };

let tally = newTally();
let running: Running | null = null;

/** Requests that differ, fewer of large ones, which are kept in memory. */
const VARIANTS = 50;
const VARIANTS_BYTES = 64 * 1_048_576;

function start(load: Load): void {
  const { rate, connections, keys } = load;
  const address = parseAddress(load.baseUrl);
  const body = requestBody({ ...load, model: SLUG });
  const make = (key: string, bytes = body, more = {}): Buffer =>
    requestBytes(address, { authorization: `Bearer ${key}`, ...load.headers, ...more }, bytes);
  const different = (n: number): Buffer => {
    const bytes = load.bytes - n;
    return make(benchKey(0), requestBody({ ...load, bytes, model: SLUG }), traceparent());
  };
  const variants = Math.max(2, Math.min(VARIANTS, Math.floor(VARIANTS_BYTES / load.bytes)));
  const all = load.differ
    ? Array.from({ length: variants }, (_, n) => different(n))
    : [make(benchKey(0))];
  const request =
    keys === undefined
      ? (n: number) => all[n % all.length] as Buffer
      : (n: number) => make(benchKey(n % keys));
  const talk =
    load.turns === undefined
      ? null
      : turnBodies(SLUG, load.turns, load.bytes).map((turn) =>
          make(benchKey(0), turn, load.differ ? traceparent() : {}),
        );
  tally = newTally();
  running = rate
    ? openLoop(address, { perSecond: rate, random: true }, request, tally, connections)
    : closedLoop(
        address,
        connections,
        talk === null ? request : (_, k) => talk[k % talk.length] as Buffer,
        tally,
        load,
      );
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
