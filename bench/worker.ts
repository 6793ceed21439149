import autocannon from 'autocannon';
import { Loop, newTally, parseTarget, requestBytes, type Tally } from './client.ts';
import { summarize } from './load.ts';
import { type BodyShape, benchKey, chatBody } from './payload.ts';

/** The benchmark's load process: takes one order at a time over IPC and answers each. */
export type Order =
  | { readonly do: 'start'; readonly load: Load }
  /** Answers with the counts so far. */
  | { readonly do: 'read' }
  /** Lets exchanges under way end and starts no more. */
  | { readonly do: 'drain' }
  /** Answers with the counts of the run and ends it. */
  | { readonly do: 'stop' }
  /** A whole run with autocannon instead. */
  | { readonly do: 'autocannon'; readonly load: Load; readonly seconds: number };

/** Exchanges kept open at once, each followed by the next. */
export interface Load {
  readonly baseUrl: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly connections: number;
  readonly body: BodyShape;
  /** Requests take the keys of this many companies in turn; 1 when absent. */
  readonly keys?: number;
}

function requests(load: Load): (n: number) => Buffer {
  const target = parseTarget(load.baseUrl);
  const body = chatBody(load.body);
  const make = (key: string): Buffer =>
    requestBytes(target, '/chat/completions', { authorization: `Bearer ${key}`, ...load.headers }, body);
  const keys = load.keys ?? 1;
  if (keys > 1) return (n) => make(benchKey(n % keys));
  const only = make(benchKey(0));
  return () => only;
}

async function runAutocannon(load: Load, seconds: number): Promise<object> {
  const result = await autocannon({
    url: `${load.baseUrl}/chat/completions`,
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${benchKey(0)}`, ...load.headers },
    body: chatBody(load.body),
    connections: load.connections,
    duration: seconds,
  });
  return {
    done: result['2xx'],
    errors: result.errors + result.non2xx > 0 ? { 'not 2xx': result.errors + result.non2xx } : {},
    p50: result.latency.p50,
    p99: result.latency.p99,
  };
}

let tally: Tally = newTally();
let loop: Loop | null = null;
process.on('message', async (order: Order) => {
  switch (order.do) {
    case 'start':
      tally = newTally();
      loop = new Loop(parseTarget(order.load.baseUrl), order.load.connections, requests(order.load), tally);
      process.send?.({});
      break;
    case 'read':
      process.send?.(summarize(tally));
      break;
    case 'drain':
      loop?.drain();
      process.send?.({});
      break;
    case 'stop':
      loop?.stop();
      loop = null;
      process.send?.(summarize(tally));
      break;
    case 'autocannon':
      process.send?.(await runAutocannon(order.load, order.seconds));
  }
});
process.on('disconnect', () => process.exit(0));
