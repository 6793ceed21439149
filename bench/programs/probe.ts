import { subscribe } from 'node:diagnostics_channel';
import type { Session } from 'node:inspector';
import type { Socket } from 'node:net';
import { monitorEventLoopDelay, PerformanceObserver } from 'node:perf_hooks';
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { piecesOf } from './pieces.ts';

/**
 * Loaded into a gateway by `--import`; costs nothing until it is asked over IPC. `pause-start` and `pause-stop`
 * bound a time whose longest event-loop pause is wanted, `profile-start` and `profile-stop` one whose work is wanted
 * by its cause, `turns-start` and `turns-stop` one of which the longest turn of the event loop is wanted, in CPU, to a
 * millisecond. `cpu` tells the CPU of the main thread so far, `work` what requests counted for their companies since it was
 * first asked. `gc` collects garbage, so that resident memory shows what is in use. `counts` tells the bytes that were
 * allocated in V8's heap since the start, and those sent to Postgres; and since it was first asked, the bytes written into
 * buffers of the program's own and the collections of garbage.
 */
export type ProbeOrder =
  | 'pause-start'
  | 'pause-stop'
  | 'profile-start'
  | 'profile-stop'
  | 'turns-start'
  | 'turns-stop'
  | 'cpu'
  | 'work'
  | 'gc'
  | 'counts';

const RESOLUTION_MS = 1; // part of each reading
const INTERVAL_US = 100; // between two samples of a profile
const delay = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
let session: Session | null = null;
const turns = { timer: undefined as NodeJS.Timeout | undefined, at: 0, longest: 0 };
const own = { counts: false, copied: 0, collections: 0, work: Number.NaN };
/** The connections that the gateway opened: to the model router, and to Postgres. */
const opened = new Set<Socket>();
subscribe('net.client.socket', (message) => {
  const { socket } = message as { socket: Socket };
  opened.add(socket);
  socket.once('close', () => opened.delete(socket));
});

process.on('message', async (order: ProbeOrder) => {
  if (order === 'counts') {
    if (!own.counts) countOwn();
    process.send?.({
      allocated: allocatedBytes(),
      sent: sentToDatabase(),
      copied: own.copied,
      collections: own.collections,
    });
    return;
  }
  if (order === 'cpu') return void process.send?.({ value: ownCpu() });
  if (order === 'work') {
    if (Number.isNaN(own.work)) await countWork();
    return void process.send?.({ value: own.work });
  }
  if (order === 'gc') {
    setFlagsFromString('--expose-gc');
    runInNewContext('gc')({ type: 'major', execution: 'sync', flavor: 'last-resort' }); // as the gateway does at rest
  } else if (order === 'pause-start') {
    delay.reset();
    delay.enable();
  } else if (order === 'pause-stop') delay.disable();
  else if (order === 'turns-start') {
    turns.timer = setInterval(noteTurn, RESOLUTION_MS);
    turns.longest = 0;
    turns.at = ownCpu();
  } else if (order === 'turns-stop') {
    noteTurn();
    clearInterval(turns.timer);
    process.send?.({ value: turns.longest });
    return;
  } else if (order === 'profile-start') await startProfile();
  else return stopProfile();
  process.send?.({ pauseMs: Math.max(0, delay.max / 1e6 - RESOLUTION_MS) });
});
if (process.argv.includes('serve')) process.channel?.unref(); // not in the pages' process, which would end

/** CPU milliseconds of this thread; of the whole process where Node does not tell them: before 24. */
function ownCpu(): number {
  const { threadCpuUsage = process.cpuUsage } = process as Partial<NodeJS.Process>;
  const { user, system } = threadCpuUsage.call(process);
  return (user + system) / 1000;
}

function noteTurn(): void {
  const now = ownCpu();
  turns.longest = Math.max(turns.longest, now - turns.at);
  turns.at = now;
}

/** NaN where Node does not tell: before 26. */
function allocatedBytes(): number {
  return (
    (getHeapStatistics() as { total_allocated_bytes?: number }).total_allocated_bytes ?? Number.NaN
  );
}

type Method = (this: unknown, a: unknown, b?: unknown, c?: unknown, d?: unknown) => unknown;

/** Counts from now on what copies bytes: between buffers, of lists of buffers, and of strings into buffers. */
function countOwn(): void {
  own.counts = true;
  new PerformanceObserver((list) => {
    own.collections += list.getEntries().length;
  }).observe({ entryTypes: ['gc'] });
  let depth = 0; // one of these may call another
  const count = (
    holder: object,
    name: string,
    bytesOf: (result: unknown, first: unknown) => number,
  ): void => {
    const methods = holder as Record<string, Method>;
    const original = methods[name] as Method;
    // without a list of arguments, which would be allocated
    methods[name] = function (a, b, c, d) {
      depth++;
      const result = original.call(this, a, b, c, d);
      if (--depth === 0) own.copied += bytesOf(result, a);
      return result;
    };
  };
  const told = (result: unknown): number => result as number;
  for (const name of ['copy', 'write', 'latin1Write', 'utf8Write', 'asciiWrite'])
    count(Buffer.prototype, name, told);
  count(Buffer, 'concat', (whole) => (whole as Buffer).length);
  count(
    Object.getPrototypeOf(Uint8Array.prototype),
    'set',
    (_, from) => (from as Buffer).byteLength ?? 0,
  );
}

/** Counts from now on what requests count for their companies, as they do in an overload. */
async function countWork(): Promise<void> {
  const { Overload } = await import('../../src/gateway/request/overload.ts');
  own.work = 0;
  const loads = new WeakSet<object>();
  const { enter } = Overload.prototype;
  Overload.prototype.enter = function (_, bytes) {
    const load = enter.call(this, 'all', bytes);
    if (load === null || loads.has(load)) return load;
    loads.add(load);
    let { work } = load;
    own.work += work;
    return Object.defineProperty(load, 'work', {
      get: () => work,
      set(next: number) {
        own.work += Math.max(0, next - work); // it ages, too
        work = next;
      },
    });
  };
}

function sentToDatabase(): number {
  const router = Number(new URL(process.env.UPSTREAM_URL as string).port);
  let bytes = 0;
  for (const socket of opened) if (socket.remotePort !== router) bytes += socket.bytesWritten;
  return bytes;
}

async function startProfile(): Promise<void> {
  const inspector = await import('node:inspector');
  session = new inspector.Session();
  session.connect();
  session.post('Profiler.enable');
  session.post('Profiler.setSamplingInterval', { interval: INTERVAL_US });
  session.post('Profiler.start');
}

function stopProfile(): void {
  session?.post('Profiler.stop', (_error, { profile }) => process.send?.(piecesOf(profile)));
  session?.disconnect();
  session = null;
}
