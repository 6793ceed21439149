import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { cheapHash, PASSWORD, Person } from '../admin/people.ts';
import type { JournalCall } from '../support/demo/server.ts';
import { until } from '../support/until.ts';
import { type GatewayProcess, metric } from './gateway.ts';
import { judge } from './judge.ts';
import { type Journalled, type Load, type LoadOptions, startLoad } from './load.ts';
import { startFaultProxy } from './proxy.ts';
import { note } from './results.ts';
import { ownServer } from './server.ts';
import { type FaultWorld, faultWorld } from './world.ts';

/** One gateway for an hour under everything at once: nothing is lost, and nothing grows. */

const SOAK = process.env.FAULTS === 'soak';
const MINUTES = Number(process.env.FAULTS_MINUTES ?? 60); // 5 at least: memory grows in the first minute
const LENGTH_MS = MINUTES * 60_000;
const WARM_UP_MS = LENGTH_MS / 4; // V8 sizes its heap, code is compiled, pools fill
const OUTAGE_AT_MS = LENGTH_MS / 2;
const OUTAGE_MS = Math.min(60_000, LENGTH_MS / 10);
const SAMPLE_MS = 1000;
const LARGE_BYTES = 1 << 20;
const ADMIN_EMAIL = 'soak@tollgate.example';
const PAGES = [
  '/companies',
  '/models',
  '/users',
  '/audit',
  '/account',
  '/companies/COMPANY/usage',
  '/companies/COMPANY/keys',
];

/** What may grow by the straight line through all samples after the warm-up, from its first to its last. */
const RSS_SHARE = 0.1; // of the mean; noise of the collector is about half of it
const DESCRIPTORS = 5;

const NOTHING = Buffer.alloc(0);

interface Sample {
  readonly atMs: number;
  readonly rssMb: number;
  readonly descriptors: number;
}

t.test(`a soak of ${MINUTES} minutes`, { skip: !SOAK && 'runs with FAULTS=soak' }, async (t) => {
  const server = await ownServer(t);
  const world = await faultWorld(t, server);
  const proxy = await startFaultProxy(t, server.url);
  await world.sql`insert into users (email, role, password_hash) values (${ADMIN_EMAIL}, 'operator', ${cheapHash(PASSWORD)})`;
  const gateway = await world.gateway({ DATABASE_URL: proxy.url });
  const loads = startLoads(world, gateway);
  const pages = visitPages(gateway, world.company);
  const samples: Sample[] = [];
  const upstream = new Map<string, JournalCall>();
  let mostWaited = 0;
  let frozen = 0; // when the outage began
  let thawed = 0;
  const began = performance.now();
  for (let atMs = 0; atMs < LENGTH_MS; atMs = performance.now() - began) {
    samples.push({ atMs, ...resourcesOf(gateway.pid) });
    takeJournal(world, upstream);
    mostWaited = Math.max(mostWaited, await metric(gateway, 'tollgate_ledger_backlog'));
    if (frozen === 0 && atMs >= OUTAGE_AT_MS) {
      frozen = Date.now();
      proxy.freeze();
    }
    if (thawed === 0 && atMs >= OUTAGE_AT_MS + OUTAGE_MS) {
      proxy.thaw();
      thawed = Date.now();
    }
    await sleep(SAMPLE_MS); // paced sampling
  }

  const journals = Object.fromEntries(
    await Promise.all(
      Object.entries(loads).map(async ([name, load]) => [name, await load.stop()] as const),
    ),
  ) as Record<keyof typeof loads, Journalled[]>;
  const visits = await pages.stop();
  await until(
    async () => (await metric(gateway, 'tollgate_ledger_backlog')) === 0,
    'every record is booked',
  );
  takeJournal(world, upstream);

  const served = [...journals.usual, ...journals.large];
  t.same(
    served.filter(({ complete, status }) => !complete || status !== 200).slice(0, 5),
    [],
    `none of ${served.length} requests of known keys failed`,
  );
  t.ok(
    journals.leaving.length > 0 &&
      journals.leaving.every(({ status }) => status === 200 || status === 0),
  );
  // 503 where the database was away, or took longer than two seconds on a busy machine
  const slow = [...journals.strangers, ...visits].filter(({ status }) => status === 503);
  const isRefused = ({ status }: { status: number }) => status === 401 || status === 503;
  t.ok(
    journals.strangers.every(isRefused),
    `each of ${journals.strangers.length} bad keys is refused`,
  );
  const isShown = ({ status }: { status: number }) => status === 200 || status === 503;
  t.ok(visits.every(isShown), `${visits.length} pages were shown, but in the outage`);
  const asked = journals.strangers.length + visits.length;
  t.ok(slow.length < asked / 10, `${slow.length} of ${asked} had to be asked again`);
  const clients = [...served, ...journals.leaving];
  const verdict = await judge(server.sql, clients, upstream);
  t.same(verdict.missing, [], `none of ${verdict.complete} complete answers is missing`);
  t.equal(verdict.duplicates, 0);
  t.ok(
    verdict.rows <= clients.filter(({ status }) => status === 200 || status === 0).length,
    'no call has two rows',
  );
  t.same(verdict.wrong, []);
  t.equal(verdict.unverified, 0);

  const steady = samples.filter(({ atMs }) => atMs >= WARM_UP_MS);
  const rss = growth(steady.map(({ atMs, rssMb }) => [atMs, rssMb]));
  const descriptors = growth(steady.map(({ atMs, descriptors }) => [atMs, descriptors]));
  t.ok(
    rss.rise <= RSS_SHARE * rss.mean,
    `memory: mean ${rss.mean.toFixed(1)} MB, rise ${rss.rise.toFixed(1)} MB`,
  );
  t.ok(
    descriptors.rise <= DESCRIPTORS,
    `descriptors: mean ${descriptors.mean.toFixed(1)}, rise ${descriptors.rise.toFixed(1)}`,
  );
  gateway.signal('SIGTERM');
  t.equal(await gateway.exited, 0);
  t.same(world.spoolFiles(), []);
  const figures = `${clients.length} calls, ${journals.strangers.length} bad keys, ${visits.length} pages, ${slow.length} of both answered 503; ${verdict.complete} complete answers, 0 missing, 0 duplicates, 0 differences between rows, counters and seals; up to ${mostWaited} records waited; after the warm-up memory ${rss.mean.toFixed(0)} MB (trend ${rss.rise.toFixed(1)} MB), descriptors ${descriptors.mean.toFixed(0)} (trend ${descriptors.rise.toFixed(1)})`;
  t.comment(figures);
  note(
    'Nothing grows',
    `${MINUTES} minutes of chat, streams, aborts, bodies of 1 MB, bad keys and pages; database frozen for ${OUTAGE_MS / 1000} s`,
    figures,
  );
});

function startLoads(world: FaultWorld, gateway: GatewayProcess) {
  const start = (options: Omit<LoadOptions, 'urls'>): Load =>
    startLoad({ urls: () => [gateway.url], ...options });
  const description = 'x'.repeat(LARGE_BYTES);
  return {
    usual: start({ key: world.key, workers: 6, restMs: 40 }),
    large: start({
      key: world.key,
      workers: 1,
      kinds: ['plain', 'stream'],
      more: { tools: [{ type: 'function', function: { name: 'large', description } }] },
      restMs: 400,
    }),
    leaving: start({
      key: world.key,
      workers: 2,
      kinds: ['stream'],
      leaveAfter: () => 200 + Math.random() * 3000,
      restMs: 50,
    }),
    strangers: start({
      key: () => `svc_${Math.random().toString(36).slice(2).padEnd(32, 'x')}`,
      workers: 1,
      restMs: 200,
    }),
  };
}

/** Moves the upstream's journal to another one, without the bodies: an hour of them would fill the memory. */
function takeJournal(world: FaultWorld, into: Map<string, JournalCall>): void {
  for (const [marker, call] of world.upstreamJournal())
    into.set(marker, Object.assign(call, { body: NOTHING }));
  world.demo.journal.length = 0;
}

interface Visit {
  readonly path: string;
  readonly at: number;
  readonly status: number;
}

/** An operator who opens page after page, and signs in again whenever the session is gone. */
function visitPages(gateway: GatewayProcess, company: string): { stop(): Promise<Visit[]> } {
  const visits: Visit[] = [];
  let stopping = false;
  const visit = async (): Promise<void> => {
    const person = new Person(gateway.adminUrl);
    await person.signIn(ADMIN_EMAIL);
    for (let turn = 0; !stopping; turn++) {
      const path = (PAGES[turn % PAGES.length] as string).replace('COMPANY', company);
      const at = Date.now();
      const { status } = await person.get(path);
      visits.push({ path, at, status });
      await sleep(300); // paced visits
    }
  };
  const visiting = visit();
  return {
    async stop() {
      stopping = true;
      await visiting;
      return visits;
    },
  };
}

/** Resident memory in MB and open descriptors of a process. */
function resourcesOf(pid: number): { rssMb: number; descriptors: number } {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  return {
    rssMb: Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1]) / 1024,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
  };
}

/** The mean, and by how much the line of least squares rises from the first sample to the last. */
function growth(points: readonly (readonly [x: number, y: number])[]): {
  mean: number;
  rise: number;
} {
  const meanOf = (values: readonly number[]): number =>
    values.reduce((sum, value) => sum + value, 0) / values.length;
  const [meanX, mean] = [meanOf(points.map(([x]) => x)), meanOf(points.map(([, y]) => y))];
  const covariance = meanOf(points.map(([x, y]) => (x - meanX) * (y - mean)));
  const variance = meanOf(points.map(([x]) => (x - meanX) ** 2));
  const span = (points.at(-1)?.[0] ?? 0) - (points[0]?.[0] ?? 0);
  return { mean, rise: (covariance / variance) * span };
}
