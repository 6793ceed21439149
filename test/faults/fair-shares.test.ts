import { fork } from 'node:child_process';
import { once } from 'node:events';
import { Agent } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import t, { type Test } from 'tap';
import { FAST_HTTP as inUse } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { metric } from './gateway.ts';
import { type Journalled, send } from './load.ts';
import { note } from './results.ts';
import { faultWorld, LONG } from './world.ts';

/** Of what a company or a stranger asks for beyond its share, nobody else feels a thing. Times are noted, not asserted. */

const FLOOD = fileURLToPath(new URL('flood.ts', import.meta.url));
const CONNECTIONS = LONG ? 2000 : 500; // of a flood, each of which asks again as soon as it is answered
const QUIET = 5; // other companies
const EVERY_MS = LONG ? 40 : 100; // each of them asks so often
const AT_ONCE = 4; // and has no more requests open, however busy the machine is
const SECONDS = LONG ? 20 : 1;
const ONSET_SECONDS = LONG ? 2 : 1; // until the gateway has noticed

interface Flood {
  readonly name: string;
  readonly model: string;
  readonly known: boolean;
  readonly env: Readonly<Record<string, string>>;
}

// the gateway itself answers for a model or a key that does not exist, so it is busy and the upstream is not
const FLOODS: readonly Flood[] = [
  {
    name: 'small requests of one company',
    model: 'no-such-model',
    known: true,
    env: { MAX_DELAY_MS: '10' },
  },
  {
    name: 'endless streams of one company',
    model: 'brand-endless',
    known: true,
    env: { MAX_REQUESTS: '400' },
  },
  {
    name: 'keys that do not exist',
    model: 'no-such-model',
    known: false,
    env: { MAX_DELAY_MS: '10' },
  },
];

const world = await faultWorld(t);
await world.model('brand-quick', 'internal-chat!slow-first-byte-50!events-5-burst');
await world.model('brand-endless', 'internal-chat!stall-after-1');
const companies = await Promise.all(Array.from({ length: QUIET }, () => world.newCompany()));

for (const flood of FLOODS) {
  for (const FAST_HTTP of LONG ? ['on', 'off'] : [inUse]) {
    t.test(`${flood.name}, FAST_HTTP=${FAST_HTTP}`, async (t) => {
      const gateway = await world.gateway({ ...flood.env, FAST_HTTP });
      await quietly(gateway.url, 0.3); // keys, companies and code are warm
      const before = await quietly(gateway.url, LONG ? SECONDS : 0.1); // only noted
      const { statuses, stop } = startFlood(t, gateway.url, flood);
      const sum = (counts: readonly number[]) => counts.reduce((all, count) => all + count, 0);
      await until(
        async () => sum(Object.values(await statuses())),
        'the flood',
        (count) => count > 500,
      );
      const onset = await quietly(gateway.url, ONSET_SECONDS);
      const during = await quietly(gateway.url, SECONDS);
      const { 503: refused = 0, ...others } = await statuses();
      const inFlight = await metric(gateway, 'tollgate_requests_in_flight');
      await stop();

      const upstream = world.upstreamJournal();
      const isWhole = ({ status, complete, marker }: Journalled) =>
        status === 200 && complete && upstream.has(marker);
      const all = [...onset, ...during];
      const failed = all.filter((one) => !isWhole(one));
      t.same(failed.slice(0, 5), [], `none of ${all.length} requests of the others failed`);
      if (flood.model === 'brand-endless') {
        t.ok(refused > 0, `${refused} requests of the flood were refused`);
        t.ok(inFlight >= 300, `but it has ${inFlight} of the 400 places`);
      }
      const times = (journal: readonly Journalled[]) =>
        `${percentile(journal, 0.5)}, ${percentile(journal, 0.99)} ms`;
      const figures = `${failed.length} of ${all.length} failed; ${times(before)}; ${times(onset)}; ${times(during)}; of the flood ${sum(Object.values(others))} answered, ${refused} refused`;
      t.comment(figures);
      const experiment = `${flood.name}, ${Object.entries(flood.env).flat().join(' ')}, FAST_HTTP=${FAST_HTTP}`;
      note('Who uses more than a fair share is refused, and nobody else', experiment, figures);
      gateway.signal('SIGKILL');
      await gateway.exited;
    });
  }
}

/** Each quiet company asks at its pace. @returns all requests, once they are answered */
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

function startFlood(t: Test, url: string, { model, known }: Flood) {
  const child = fork(FLOOD, [url, `${CONNECTIONS}`, model, ...(known ? [world.key] : [])]);
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
