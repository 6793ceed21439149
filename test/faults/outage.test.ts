import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { type GatewayProcess, metric } from './gateway.ts';
import { judge } from './judge.ts';
import { type Journalled, send, startLoad } from './load.ts';
import { startFaultProxy } from './proxy.ts';
import { note } from './results.ts';
import { ownServer } from './server.ts';
import { faultWorld, LONG, until } from './world.ts';

const OUTAGE_MS = LONG ? 60_000 : 3_000;
t.setTimeout(LONG ? 900_000 : 60_000);
const HEALTHY_MS = 5_000;

/** One way for the database to be away; the gateway's journal and times while it is. */
interface Outage {
  readonly name: string;
  readonly ms: number;
  begin(): unknown;
  end(): unknown;
}

t.test('a database outage is invisible to known keys and loses nothing', async (t) => {
  const server = await ownServer(t);
  const world = await faultWorld(t, server);
  const proxy = await startFaultProxy(t, server.url);
  const gateway = await world.gateway({ DATABASE_URL: proxy.url });
  const load = startLoad({ urls: () => [gateway.url], key: world.key, workers: 8, restMs: 5 });
  await until(() => load.journal.filter(({ status }) => status === 200).length > 50);

  let terminated = 0;
  const terminator = setIntervalLater(async () => {
    const ended = await server.sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where backend_type = 'client backend' and pid <> pg_backend_pid() and random() < 0.5`.catch(() => []);
    terminated += ended.length;
  });
  const readOnly = async (on: boolean): Promise<void> => {
    const [row] = await server.sql<{ name: string }[]>`select current_database() as name`;
    await server.sql.begin('read write', (sql) =>
      sql.unsafe(`alter database ${row?.name} set default_transaction_read_only = ${on}`),
    );
    await server.sql`select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'`;
  };
  const outages: Outage[] = [
    { name: 'server stopped', ms: OUTAGE_MS, begin: () => server.stop(), end: () => server.start() },
    {
      name: 'server frozen',
      ms: OUTAGE_MS,
      begin: () => server.signal('SIGSTOP'),
      end: () => server.signal('SIGCONT'),
    },
    { name: 'network frozen', ms: OUTAGE_MS, begin: () => proxy.freeze(), end: () => proxy.thaw() },
    { name: 'connections half-open', ms: LONG ? 20_000 : 1000, begin: () => proxy.halfOpen(), end: () => {} },
    { name: 'backends terminated at random', ms: LONG ? 30_000 : 1500, begin: terminator.begin, end: terminator.end },
    { name: 'read-only', ms: LONG ? 30_000 : 1500, begin: () => readOnly(true), end: () => readOnly(false) },
    {
      name: 'acknowledgements lost',
      ms: LONG ? 30_000 : 1500,
      begin: () => proxy.loseAnswers(0.5),
      end: () => proxy.loseAnswers(0),
    },
  ];
  for (const [n, outage] of outages.entries()) {
    await t.test(outage.name, (t) => endure(t, outage, gateway, load.journal, 10 + n));
    await sleep(1000); // a server that was restarted is doubted until the change feed has looked twice
  }

  const clients = await load.stop();
  await until(async () => (await metric(gateway, 'tollgate_ledger_backlog')) === 0);
  const verdict = await judge(server.sql, clients, world.upstreamJournal());
  t.ok(proxy.lost > 0, `${proxy.lost} acknowledgements were lost`);
  t.ok(terminated > 0, `${terminated} backends were terminated`);
  t.same(verdict.missing, [], `none of ${verdict.complete} complete answers is missing`);
  t.equal(verdict.duplicates, 0);
  t.same(verdict.wrong, []);
  t.equal(verdict.unverified, 0);
  gateway.signal('SIGTERM');
  t.equal(await gateway.exited, 0);
  t.same(world.spoolFiles(), []);
  note(
    19,
    'A database outage is invisible to known keys',
    'all of the above, one gateway',
    `${verdict.complete} complete answers, ${verdict.missing.length} missing, ${verdict.duplicates} duplicates, ${proxy.lost} acknowledgements lost, ${terminated} backends terminated, ${verdict.unverified} differences in counters and seals`,
  );
});

async function endure(
  t: Test,
  outage: Outage,
  gateway: GatewayProcess,
  journal: readonly Journalled[],
  order: number,
): Promise<void> {
  const before = journal.length;
  await outage.begin();
  const began = performance.now();
  const away = ['server stopped', 'server frozen', 'network frozen'].includes(outage.name);
  const stranger = away ? await send(undefined, gateway.url, 'plain', { key: 'svc_nobody_knows_this_key' }) : null;
  await sleep(Math.max(0, outage.ms - (performance.now() - began)));
  const backlog = await metric(gateway, 'tollgate_ledger_backlog');
  await outage.end();
  const healthy = await until(async () => (await metric(gateway, 'tollgate_database_available')) === 1, 30_000);
  // a handful always waits while there is load
  const drained = healthy + (await until(async () => (await metric(gateway, 'tollgate_ledger_backlog')) < 300, 30_000));

  const during = journal.slice(before);
  t.ok(during.length > 10, `${during.length} requests meanwhile`);
  t.same(
    during.filter(({ complete, status }) => !complete || status !== 200),
    [],
    'no request of a known key failed',
  );
  if (stranger !== null) {
    t.equal(stranger.status, 503, 'an unknown key is told to come back');
    t.ok(stranger.retryAfter, 'and when');
    t.ok(stranger.endedAt - stranger.at < 5000, 'no query waits beyond its deadline');
  }
  t.ok(
    healthy < HEALTHY_MS,
    `healthy after ${Math.round(healthy)} ms, drained after ${Math.round(drained)} ms, under load`,
  );
  note(
    order,
    'A database outage is invisible to known keys',
    `${outage.name}, ${outage.ms / 1000} s under load`,
    `${during.length} requests, 0 failed${stranger === null ? '' : `; unknown key ${stranger.status} after ${stranger.endedAt - stranger.at} ms`}; ${backlog} records waited; healthy ${Math.round(healthy)} ms after the end, drained under load after ${Math.round(drained)} ms`,
  );
}

function setIntervalLater(work: () => unknown): { begin(): void; end(): void } {
  let timer: NodeJS.Timeout | undefined;
  return {
    begin() {
      timer = setInterval(work, 150);
    },
    end: () => clearInterval(timer),
  };
}
