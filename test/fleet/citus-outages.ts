import type { Test } from 'tap';
import { type GatewayProcess, metric } from '../faults/gateway.ts';
import { judge } from '../faults/judge.ts';
import { type Load, startLoad } from '../faults/load.ts';
import { type FaultProxy, startFaultProxy } from '../faults/proxy.ts';
import { connect, type FaultWorld, faultWorld } from '../faults/world.ts';
import { onEach, spread } from '../support/distributed.ts';
import { inDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';
import type { CitusCluster } from './citus.ts';
import type { Cluster } from './cluster.ts';

const COMPANIES = 12;
const DURING = 10; // requests of each company
const WAITING = 1000; // records of a gateway: some tries to book them fail meanwhile
const LOSSES = 3; // commands or answers

/** Two gateways with requests of twelve companies, on a ledger that is spread. */
export interface SpreadLoad {
  readonly world: FaultWorld;
  readonly gateways: readonly GatewayProcess[];
  /** Waits for more requests of each company that were served. */
  more(count: number, what: string): Promise<unknown>;
  /** Resolves once a gateway has so many records that it cannot book. */
  waits(records?: number): Promise<unknown>;
  /** Ends requests and gateways, and compares clients, upstream and ledger. */
  end(t: Test): Promise<void>;
}

/** Makes a database on each server, and spreads it. @param addresses of the servers for each other, the coordinator's first */
export async function spreadDatabase(
  { coordinator, workers }: CitusCluster,
  name: string,
  addresses = [coordinator, ...workers].map(({ url }) => url),
): Promise<string> {
  await onEach(
    [coordinator, ...workers].map(({ url }) => url),
    (sql) => sql`create database ${sql(name)}`,
  );
  await spread(addresses.map((url) => inDatabase(url, name)));
  return inDatabase(coordinator.url, name);
}

/** @param by the address that gateways use, if not that of the database */
export async function startSpreadLoad(t: Test, url: string, by = url): Promise<SpreadLoad> {
  const sql = connect(url);
  t.teardown(() => sql.end({ timeout: 1 }));
  const world = await faultWorld(t, { url, sql });
  const companies = await Promise.all(Array.from({ length: COMPANIES }, () => world.newCompany()));
  const gateways = await Promise.all([1, 2].map(() => world.gateway({ DATABASE_URL: by })));
  const urls = () => gateways.map(({ url }) => url);
  const loads: Load[] = companies.map(({ key }) =>
    startLoad({ urls, key, workers: 1, restMs: 20 }),
  );
  const backlogs = () =>
    Promise.all(gateways.map((gateway) => metric(gateway, 'tollgate_ledger_backlog')));
  return {
    world,
    gateways,
    more: (count, what) =>
      Promise.all(loads.map((load) => load.more(count, what, ({ status }) => status === 200))),
    waits: (records = 1) =>
      until(async () => (await backlogs()).some((count) => count >= records), 'records wait'),
    async end(t) {
      const clients = (await Promise.all(loads.map((load) => load.stop()))).flat();
      t.same(
        clients.filter(({ complete, status }) => !complete || status !== 200),
        [],
        `none of ${clients.length} requests of known keys failed`,
      );
      await until(
        async () => (await backlogs()).every((records) => records === 0),
        'every record is booked',
      );
      for (const gateway of gateways) gateway.signal('SIGTERM');
      t.same(await Promise.all(gateways.map(({ exited }) => exited)), [0, 0]);
      const verdict = await judge(sql, clients, world.upstreamJournal());
      t.match(verdict, {
        missing: [],
        duplicates: 0,
        wrong: [],
        unverified: 0,
        rows: verdict.complete,
      });
      t.equal((await sql`select from api_usage_set_aside`).length, 0, 'nothing was set aside');
      t.comment(
        `${clients.length} requests, 0 failed; ${verdict.complete} complete answers, ${verdict.missing.length} missing, ${verdict.duplicates} duplicates, ${verdict.unverified} differences between rows, counters and seals`,
      );
    },
  };
}

/** Servers that stop answering, networks that stop moving, and answers that are lost; everything comes back. */
export async function endureOutages(t: Test, cluster: CitusCluster): Promise<void> {
  const { coordinator, workers } = cluster;
  const networks = await Promise.all(workers.map(({ url }) => startFaultProxy(t, url)));
  const url = await spreadDatabase(cluster, 'frozen', [
    coordinator.url,
    ...networks.map(({ url }) => url),
  ]);
  const front = await startFaultProxy(t, url);
  const load = await startSpreadLoad(t, url, front.url);
  const outages: Outage[] = [
    ...workers.map((server, n) => frozen(`worker ${n + 1} frozen`, server, load, true)),
    frozen('the coordinator frozen', coordinator, load, false),
    ...networks.map((network, n) => ({
      name: `the network to worker ${n + 1} frozen`,
      isHeard: true,
      begin: () => network.freeze(),
      felt: () => isAway(load),
      end: () => network.thaw(),
    })),
    loses('acknowledgements to gateways', [front], () => front.loseAnswers(0.5)),
    ...(['PREPARE TRANSACTION', 'COMMIT PREPARED'] as const).flatMap((step) =>
      (['command', 'answer'] as const).map((what) =>
        loses(`${step}: each second ${what}`, networks, () => {
          for (const network of networks) network.loseStep(0.5, step, what);
        }),
      ),
    ),
  ];
  await load.more(5, 'before the first outage');
  for (const { name, isHeard, begin, felt, end } of outages) {
    const customer = await load.world.newCompany();
    await answers(load, customer.key, 200);
    const began = performance.now();
    begin();
    await felt();
    await load.more(DURING, `during the outage: ${name}`);
    if (isHeard) {
      await load.world
        .sql`update api_keys set revoked_at = now() where company_id = ${customer.company}`;
      await answers(load, customer.key, 401);
    }
    end();
    const ended = performance.now();
    await until(() => isBooked(load), `what waited is booked: ${name}`);
    await until(
      () => isSettled(cluster, 'frozen'),
      `no transaction is left half done, and no statement hangs: ${name}`,
    );
    const seconds = (from: number, to: number) => ((to - from) / 1000).toFixed(1);
    t.comment(
      `${name}: ${seconds(began, ended)} s; booked and settled after ${seconds(ended, performance.now())} s`,
    );
  }
  t.ok([front, ...networks].every(({ lost }) => lost >= LOSSES));
  await load.end(t);
}

interface Outage {
  readonly name: string;
  /** The coordinator answers: changes reach the gateways. */
  readonly isHeard: boolean;
  begin(): void;
  felt(): Promise<unknown>;
  end(): void;
}

function frozen(name: string, server: Cluster, load: SpreadLoad, isHeard: boolean): Outage {
  return {
    name,
    isHeard,
    begin: () => server.signal('SIGSTOP'),
    felt: () => isAway(load),
    end: () => server.signal('SIGCONT'),
  };
}

function loses(name: string, proxies: readonly FaultProxy[], begin: () => void): Outage {
  const lost = () => proxies.reduce((sum, proxy) => sum + proxy.lost, 0);
  let before = 0;
  return {
    name: `lost: ${name}`,
    isHeard: true,
    begin() {
      before = lost();
      begin();
    },
    felt: () => until(() => lost() >= before + LOSSES, `${LOSSES} are lost: ${name}`),
    end() {
      for (const proxy of proxies) proxy.loseAnswers(0);
    },
  };
}

/** Each gateway answers requests with a key so. */
async function answers({ gateways }: SpreadLoad, key: string, status: number): Promise<void> {
  for (const { url } of gateways) {
    const answer = async () =>
      (await fetch(`${url}/models`, { headers: { authorization: `Bearer ${key}` } })).status;
    await until(answer, `a key is answered with ${status}`, (seen) => seen === status);
  }
}

/** No gateway can book any more, and has tried to. */
async function isAway({ gateways, waits }: SpreadLoad): Promise<void> {
  const available = () =>
    Promise.all(gateways.map((gateway) => metric(gateway, 'tollgate_database_available')));
  await until(
    async () => (await available()).every((value) => value === 0),
    'the gateways are without the database',
  );
  await waits(WAITING);
}

/** Under load some records always wait. */
async function isBooked({ gateways }: SpreadLoad): Promise<boolean> {
  const backlogs = await Promise.all(
    gateways.map((gateway) => metric(gateway, 'tollgate_ledger_backlog')),
  );
  return backlogs.every((records) => records < 100);
}

/** No transaction of before is prepared on a worker, and no statement of before runs: a frozen server is in nobody's way. */
async function isSettled(
  { coordinator, workers }: CitusCluster,
  database: string,
): Promise<boolean> {
  const left = await Promise.all([
    coordinator.sql`
      select from pg_stat_activity where datname = ${database} and state <> 'idle' and xact_start < now() - interval '6 seconds'`,
    ...workers.map(
      ({ sql }) =>
        sql`select from pg_prepared_xacts where database = ${database} and prepared < now() - interval '1 second'`,
    ),
  ]);
  return left.every(({ length }) => length === 0);
}
