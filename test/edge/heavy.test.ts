import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createInterface, type Interface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { Connection, parseAddress, requestBytes } from '../../bench/load/connection.ts';
import { newTally } from '../../bench/load/tally.ts';
import { ask } from '../support/client.ts';
import { FAST_HTTP, startGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { MASTER_KEY } from '../support/upstream.ts';
import { type Customer, customerWith } from '../support/world.ts';

/**
 * Thousands of hostile clients. Takes minutes, so it runs only with EDGE_HEAVY=1; EDGE_CLIENTS sets how many.
 * What sleeps here is a time span that is measured.
 */
const skip = process.env.EDGE_HEAVY ? false : 'takes minutes: set EDGE_HEAVY=1';
const file = (name: string) => fileURLToPath(new URL(name, import.meta.url));

interface Child {
  readonly process: ChildProcess;
  readonly lines: Interface;
  line(): Promise<Record<string, unknown>>;
}

function start(t: Test, args: readonly string[], env: NodeJS.ProcessEnv = process.env): Child {
  // with as many descriptors as the system permits
  const child = spawn(
    'sh',
    ['-c', 'ulimit -n "$(ulimit -Hn)"; exec "$0" "$@"', process.execPath, ...args],
    {
      env,
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  );
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  t.teardown(async () => {
    if (child.exitCode !== null) return;
    const gone = once(child, 'exit');
    child.kill('SIGKILL');
    await gone;
  });
  return { process: child, lines, line: async () => JSON.parse((await once(lines, 'line'))[0]) };
}

/** A gateway of its own process in front of an upstream of its own process. */
async function serve(t: Test, streamBytes: number, env: Record<string, string> = {}) {
  const upstream = start(t, [file('heavy.ts'), 'upstream', `${streamBytes}`]);
  const { url: upstreamUrl } = (await upstream.line()) as { url: string };
  const other = await startGateway(t, upstreamUrl); // has a database to share
  const company = await other.company();
  await other.model('slow', { upstream: 'internal-slow', company });
  await other.model('quick', { upstream: 'quick', company });
  const key = await other.key(company);
  const gateway = start(t, [file('../../src/main.ts'), 'serve', '--json'], {
    PATH: process.env.PATH,
    PORT: '0',
    ADMIN_PORT: '0',
    DATABASE_URL: other.databaseUrl,
    UPSTREAM_URL: upstreamUrl,
    UPSTREAM_API_KEY: MASTER_KEY,
    SPOOL_DIR: '',
    LOG_LEVEL: 'warn',
    STALL_SECONDS: '600',
    FAST_HTTP,
    ...env,
  });
  const { base_url: url, admin_url: adminUrl } = (await gateway.line()) as {
    base_url: string;
    admin_url: string;
  };
  const customer = customerWith(url, company, key);
  await customer.chat({ model: 'quick' });
  const pid = gateway.process.pid as number;
  const cpu = () => ({
    gateway: cpuTicks(pid),
    upstream: cpuTicks(upstream.process.pid as number),
  });
  return { customer, url, adminUrl, key, rss: () => residentKiB(pid), cpu };
}

/** CPU time of a process so far, in hundredths of a second. */
function cpuTicks(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return Number(fields[11]) + Number(fields[12]);
}

function residentKiB(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]);
}

/** Latencies of `count` healthy requests, one after the other, in milliseconds, sorted. */
async function healthy(t: Test, customer: Customer, count: number): Promise<number[]> {
  const times: number[] = [];
  for (let n = 0; n < count; n++) {
    const began = performance.now();
    const { status } = await customer.chat({ model: 'quick' });
    if (status !== 200) t.fail(`a healthy client got ${status}`);
    times.push(performance.now() - began);
  }
  return times.sort((a, b) => a - b);
}

const at = (sorted: readonly number[], share: number) =>
  (sorted[Math.floor(sorted.length * share)] as number).toFixed(1);

t.test(
  'slow readers, each with a megabyte waiting, cost at most 64 KiB each',
  { skip, timeout: 300_000 },
  async (t) => {
    const count = Number(process.env.EDGE_CLIENTS ?? 9000);
    const { customer, url, adminUrl, key, rss } = await serve(t, 1_000_000);
    const before = await healthy(t, customer, 200);
    const idle = rss();
    const clients = start(t, [file('heavy.ts'), 'clients', url, key, `${count}`, 'slow']);
    const { connected } = await clients.line();
    t.equal(connected, count);
    await sleep(10_000);
    const first = rss();
    const during = await healthy(t, customer, 500);
    await sleep(15_000);
    const later = rss();
    const each = (later - idle) / count;
    t.comment(
      `${count} slow readers: ${idle} KiB idle, ${first} KiB, 15 s later ${later} KiB: ${each.toFixed(1)} KiB each`,
    );
    t.comment(
      `healthy p50/p99 ms: ${at(before, 0.5)}/${at(before, 0.99)} before, ${at(during, 0.5)}/${at(during, 0.99)} during`,
    );
    const { text } = await ask(`${adminUrl}/metrics`);
    const mebibytes = [...text.matchAll(/^nodejs_(heap_size_\w+|external_memory)_bytes (\d+)$/gm)];
    t.comment(
      mebibytes
        .map(([, name, bytes]) => `${name} ${(Number(bytes) / 1048576).toFixed(0)} MiB`)
        .join(', '),
    );
    t.ok(each <= 64, `${each.toFixed(1)} KiB per stream`);
    t.ok(later < first * 1.1, 'flat');
  },
);

t.test(
  'with five times MAX_REQUESTS connections, at least 85 % of the work still goes into answers',
  { skip, timeout: 300_000 },
  async (t) => {
    const taken = 200;
    const { customer, url, key, cpu } = await serve(t, 1000, { MAX_REQUESTS: `${taken}` });
    const target = parseAddress(url);
    const body = Buffer.from('{"model":"quick","messages":[{"role":"user","content":"x"}]}');
    const bytes = requestBytes(target, { authorization: `Bearer ${key}` }, body);
    /**
     * Answers and refusals per second; each connection asks again at once. `work` is the gateway's CPU time
     * divided by the upstream's, which sees answered requests only: it tells what refusals cost.
     */
    const load = async (
      connections: number,
    ): Promise<{ good: number; refused: number; work: number }> => {
      const tally = newTally();
      const all = Array.from({ length: connections }, () => new Connection(target, tally));
      for (const connection of all) {
        const next = (): void => connection.send(bytes, next);
        next();
      }
      const count = () => [tally.done, tally.statuses.get(503) ?? 0] as const;
      await sleep(2000);
      const [done, refused] = count();
      const began = cpu();
      await sleep(4000);
      const [doneLater, refusedLater] = count();
      const ended = cpu();
      const work = (ended.gateway - began.gateway) / (ended.upstream - began.upstream);
      for (const connection of all) connection.close();
      return { good: (doneLater - done) / 4, refused: (refusedLater - refused) / 4, work };
    };
    await load(taken); // warm
    const ratios: number[] = [];
    for (let round = 0; round < 5; round++) {
      const [before, during, after] = [await load(taken), await load(5 * taken), await load(taken)];
      ratios.push((before.work + after.work) / 2 / during.work);
      const [one, five, again] = [before, during, after].map(
        ({ good }) => `${good.toFixed(0)} answers/s`,
      );
      t.comment(
        `${one}; with five times the connections ${five}, ${during.refused.toFixed(0)} refusals/s; then ${again}`,
      );
    }
    const median = ratios.sort((a, b) => a - b)[2] as number;
    t.ok(
      median >= 0.85,
      `${(median * 100).toFixed(1)} % of the gateway's work still goes into answers`,
    );
    t.equal((await customer.chat({ model: 'quick' })).status, 200);
  },
);

t.test(
  'clients that send their head a byte at a time are disconnected after HEADER_SECONDS',
  { skip, timeout: 300_000 },
  async (t) => {
    const { customer, url, key, rss } = await serve(t, 1000);
    const before = await healthy(t, customer, 200);
    const idle = rss();
    const clients = start(t, [file('heavy.ts'), 'clients', url, key, '8000', 'slowloris']);
    const { connected, closed } = await clients.line();
    const during = await healthy(t, customer, 500);
    t.comment(
      `slowloris: ${connected} connected, ${closed} cut by then; ${((rss() - idle) / 8000).toFixed(1)} KiB each`,
    );
    const count = async (): Promise<unknown> => {
      clients.process.stdin?.write('\n');
      return (await clients.line()).closed;
    };
    await until(count, 'all are disconnected', (closed) => closed === 8000);
    t.comment(
      `healthy p50/p99 ms: ${at(before, 0.5)}/${at(before, 0.99)} before, ${at(during, 0.5)}/${at(during, 0.99)} during`,
    );
    t.pass('all are disconnected');
  },
);
