import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { until } from '../support/until.ts';
import { type Journalled, send } from './load.ts';
import { note } from './results.ts';
import { faultWorld, LONG } from './world.ts';

/** What one company or a stranger asks for beyond its share is refused to it alone. Times are noted, not asserted. */

const FLOOD = fileURLToPath(new URL('flood.ts', import.meta.url));
const QUIET = 5; // companies
const EVERY_MS = 40; // each of them asks so often
const AT_ONCE = 8; // and has no more requests open, however long the answers take on a busy machine
const SECONDS = LONG ? 30 : 3;
const PROMISE = 'Who uses more than a fair share is refused, and nobody else';

interface Flood {
  readonly name: string;
  /** What the flood asks for; the gateway itself answers for a model that does not exist. */
  readonly model: string;
  readonly connections: number;
  readonly known: boolean;
  readonly env: Readonly<Record<string, string>>;
}

const FLOODS: readonly Flood[] = [
  {
    name: 'small requests of one company, 1000 connections that ask again at once',
    ...{ model: 'no-such-model', connections: 1000, known: true },
    env: { MAX_DELAY_MS: process.env.XD ?? '10' },
  },
  {
    name: 'streams of one company that never end, 2000 connections, five times MAX_REQUESTS',
    ...{ model: 'brand-endless', connections: 2000, known: true },
    env: { MAX_REQUESTS: '400' },
  },
  {
    name: 'keys that do not exist, 1000 connections that ask again at once',
    ...{ model: 'no-such-model', connections: 1000, known: false },
    env: { MAX_DELAY_MS: process.env.XD ?? '10' },
  },
];

t.setTimeout(LONG ? 900_000 : 180_000);
const world = await faultWorld(t);
await world.model('brand-quick', 'internal-chat!slow-first-byte-50!events-5-burst');
await world.model('brand-endless', 'internal-chat!stall-after-1');
const companies = await Promise.all(Array.from({ length: QUIET }, () => world.newCompany()));
let order = 96;

for (const flood of FLOODS) {
  for (const FAST_HTTP of ['on', 'off']) {
    t.test(`${flood.name}, FAST_HTTP=${FAST_HTTP}`, async (t) => {
      const gateway = await world.gateway({ ...flood.env, FAST_HTTP });
      await quietly(gateway.url, 1); // keys, companies and code are warm
      const before = await quietly(gateway.url, SECONDS);
      const { statuses, stop } = startFlood(t, gateway.url, flood);
      await until(async () => ((await statuses())[503] ?? 0) > 0, 'the flood is refused');
      const during = await quietly(gateway.url, SECONDS);
      const { 503: refused = 0, ...others } = await statuses();
      await stop();

      const upstream = world.upstreamJournal();
      const failed = during.filter(
        ({ status, complete, marker }) => status !== 200 || !complete || !upstream.has(marker),
      );
      t.same(failed.slice(0, 5), [], `none of ${during.length} requests of the others failed`);
      const answered = Object.values(others).reduce((sum, count) => sum + count, 0);
      const figures = `${during.length} requests of the others, ${failed.length} refused; p50 ${percentile(during, 0.5)} and p99 ${percentile(during, 0.99)} ms, ${percentile(before, 0.5)} and ${percentile(before, 0.99)} ms without the flood; ${answered} requests of the flood answered, ${refused} refused`;
      t.comment(figures);
      t.comment(
        (await (await fetch(`${gateway.adminUrl}/metrics`)).text())
          .split('\n')
          .filter((l) => /^tollgate_(requests_shed|event_loop|requests_in_fl|cache_(miss|reads))/.test(l))
          .join('; '),
      );
      note(
        order++,
        PROMISE,
        `${flood.name}; five companies that ask 25 times a second each; FAST_HTTP=${FAST_HTTP}`,
        figures,
      );
      gateway.signal('SIGTERM');
      await gateway.exited;
    });
  }
}

/** Each quiet company asks at its pace, whatever the answers do. @returns all requests, once they are answered */
async function quietly(url: string, seconds: number): Promise<Journalled[]> {
  const agents = companies.map(() => new Agent({ keepAlive: true, maxSockets: AT_ONCE }));
  const sent: Promise<Journalled>[] = [];
  const began = performance.now();
  for (let due = 0; due < seconds * 1000; due += EVERY_MS / QUIET) {
    const n = sent.length % QUIET;
    const { key } = companies[n] as { key: string };
    sent.push(send(agents[n], url, 'plain', { key, chatModel: 'brand-quick' }));
    await sleep(Math.max(0, began + due - performance.now())); // paced traffic
  }
  const journal = await Promise.all(sent);
  for (const agent of agents) agent.destroy();
  return journal;
}

function startFlood(t: Test, url: string, { connections, model, known }: Flood) {
  const child: ChildProcess = fork(FLOOD, [url, `${connections}`, model, ...(known ? [world.key] : [])]);
  const exited = once(child, 'exit');
  const stop = async (): Promise<void> => {
    if (child.connected) child.disconnect();
    await exited;
  };
  t.teardown(stop);
  return {
    stop,
    /** How often the flood got each status. */
    async statuses(): Promise<Readonly<Record<number, number>>> {
      child.send('statuses');
      const [statuses] = await once(child, 'message');
      return statuses;
    },
  };
}

function percentile(journal: readonly Journalled[], share: number): number {
  const times = journal.map(({ at, endedAt }) => endedAt - at).sort((a, b) => a - b);
  return times[Math.floor(times.length * share)] as number;
}
