import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { until } from '../support/until.ts';
import { type GatewayProcess, metric } from './gateway.ts';
import { judge } from './judge.ts';
import { type Load, send, startLoad } from './load.ts';
import { startFaultProxy } from './proxy.ts';
import { note } from './results.ts';
import { ownServer } from './server.ts';
import { countAll, type FaultWorld, faultWorld, LONG, noonZone } from './world.ts';

const HEALTHY_MS = 5_000; // asserted in long runs
const REQUESTS = LONG ? 60 : 30; // per outage at least

/** One way for the database to be away. */
interface Outage {
  readonly name: string;
  /** How long it lasts in a long run; a short one ends it once it is `felt`. */
  readonly ms: number;
  begin(): unknown;
  /** Whether the gateway has met the outage. */
  felt(): boolean;
  end(): unknown;
}

t.test('a database outage is invisible to known keys and loses nothing', async (t) => {
  const server = await ownServer(t);
  const world = await faultWorld(t, server);
  await countAll(world);
  const proxy = await startFaultProxy(t, server.url);
  const gateway = await world.gateway({ DATABASE_URL: proxy.url, BILLING_TIMEZONE: noonZone() });
  const load = startLoad({
    urls: () => [gateway.url],
    key: world.key,
    workers: 8,
    restMs: LONG ? 5 : 40,
  });
  await load.more(50, 'before the first outage', ({ status }) => status === 200);

  const capped = await Promise.all([
    spendAll(world, gateway, 'monthly_budget_eur'),
    spendAll(world, gateway, 'daily_budget_eur'),
    spendAll(world, gateway, 'end_user_budget_eur'),
  ]);

  let terminated = 0;
  const terminator = setIntervalLater(async () => {
    const ended = await server.sql`
      select pg_terminate_backend(pid) from pg_stat_activity
      where backend_type = 'client backend' and pid <> pg_backend_pid() and random() < 0.5`.catch(
      () => [],
    );
    terminated += ended.length;
  });
  const readOnly = async (on: boolean): Promise<void> => {
    const [row] = await server.sql<{ name: string }[]>`select current_database() as name`;
    await server.sql.begin('read write', (sql) =>
      sql.unsafe(`alter database ${row?.name} set default_transaction_read_only = ${on}`),
    );
    await server.sql`select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and backend_type = 'client backend'`;
  };
  // by the log: a metric may be well again before anybody looks
  const times = (what: 'away' | 'back'): number =>
    gateway.log.join('').split(`the database is ${what}`).length - 1;
  let before = 0;
  const isAway = (): boolean => times('away') > before;
  const outages: Outage[] = [
    {
      name: 'server stopped',
      ms: 60_000,
      begin: () => server.stop(),
      felt: isAway,
      end: () => server.start(),
    },
    {
      name: 'server frozen',
      ms: 60_000,
      begin: () => server.signal('SIGSTOP'),
      felt: isAway,
      end: () => server.signal('SIGCONT'),
    },
    {
      name: 'network frozen',
      ms: 60_000,
      begin: () => proxy.freeze(),
      felt: isAway,
      end: () => proxy.thaw(),
    },
    {
      name: 'connections half-open',
      ms: 20_000,
      begin: () => proxy.halfOpen(),
      // also those opened since: another task may have met the only broken one, and the ledger opened its own
      felt: () => {
        proxy.halfOpen();
        return isAway();
      },
      end: () => {},
    },
    {
      name: 'backends terminated at random',
      ms: 30_000,
      begin: terminator.begin,
      felt: () => terminated >= 5,
      end: terminator.end,
    },
    {
      name: 'read-only',
      ms: 30_000,
      begin: () => readOnly(true),
      felt: isAway,
      end: () => readOnly(false),
    },
    {
      name: 'acknowledgements lost',
      ms: 30_000,
      begin: () => proxy.loseAnswers(0.5),
      felt: () => proxy.lost >= 2,
      end: () => proxy.loseAnswers(0),
    },
  ];
  for (const [n, outage] of outages.entries()) {
    // a connection of the outage before may fail late, and what fails again meanwhile is not logged again
    await until(() => times('away') === times('back'), 'the ledger writes');
    before = times('away');
    await t.test(outage.name, (t) => endure(t, outage, gateway, load));
    // after a restart of the server everything in memory is in doubt until the change feed has answered twice
    for (const feed of ['once', 'twice']) {
      const slug = `after-${n}-${feed}`;
      await world.model(slug, 'internal-x');
      await world.served(gateway, slug);
    }
  }

  const clients = await load.stop();
  for (const { column, refused } of capped) {
    const { length } = await refused.more(1, 'after the last outage').then(() => refused.stop());
    t.ok(length > outages.length);
    t.same(
      [...new Set(refused.journal.map(({ status }) => status))],
      [402],
      `${column} refuses all the time`,
    );
  }
  await until(
    async () => (await metric(gateway, 'tollgate_ledger_backlog')) === 0,
    'every record is booked',
  );
  const verdict = await judge(server.sql, clients, world.upstreamJournal());
  t.ok(proxy.lost > 0, `${proxy.lost} acknowledgements were lost`);
  t.ok(terminated > 0, `${terminated} backends were terminated`);
  t.same(verdict.missing, [], `none of ${verdict.complete} complete answers is missing`);
  t.equal(verdict.duplicates, 0);
  t.same(verdict.wrong, []);
  t.ok(verdict.prices >= 4, `${verdict.prices} prices: the base price and rates`);
  t.equal(verdict.unverified, 0);
  gateway.signal('SIGTERM');
  t.equal(await gateway.exited, 0);
  t.same(world.spoolFiles(), []);
  note(
    'A database outage is invisible to known keys',
    'all of the above, one gateway',
    `${verdict.complete} complete answers, ${verdict.missing.length} missing, ${verdict.duplicates} duplicates, ${proxy.lost} acknowledgements lost, ${terminated} backends terminated, ${verdict.unverified} differences in counters and seals`,
  );
});

/** Load of a key with a budget that is used up. */
async function spendAll(world: FaultWorld, { url }: GatewayProcess, column: string) {
  const { company, key } = await world.newCompany();
  await world.sql`
    update api_keys set ${world.sql({ [column]: '0.000001', end_users: 'header' })} where company_id = ${company}`;
  await until(
    async () => (await send(undefined, url, 'plain', { key, user: 'ann' })).status === 402,
    column,
  );
  return {
    column,
    refused: startLoad({ urls: () => [url], key, user: 'ann', workers: 1, restMs: 50 }),
  };
}

async function endure(t: Test, outage: Outage, gateway: GatewayProcess, load: Load): Promise<void> {
  const before = load.journal.length;
  await outage.begin();
  const away = ['server stopped', 'server frozen', 'network frozen'].includes(outage.name);
  const stranger = away
    ? await send(undefined, gateway.url, 'plain', { key: 'svc_nobody_knows_this_key' })
    : null;
  await until(outage.felt, `the gateway meets the outage: ${outage.name}`);
  await load.more(REQUESTS, 'during the outage');
  if (LONG) await sleep(outage.ms);
  const backlog = await metric(gateway, 'tollgate_ledger_backlog');
  await outage.end();
  const ended = performance.now();
  await until(
    async () => (await metric(gateway, 'tollgate_database_available')) === 1,
    'the database is available',
  );
  const healthy = performance.now() - ended;
  // under load some records always wait
  await until(
    async () => (await metric(gateway, 'tollgate_ledger_backlog')) < 300,
    'the backlog is booked',
  );
  const drained = performance.now() - ended;

  const during = load.journal.slice(before);
  t.same(
    during.filter(({ complete, status }) => !complete || status !== 200),
    [],
    'no request of a known key failed',
  );
  if (stranger !== null) {
    t.equal(stranger.status, 503, 'an unknown key is told to come back');
    t.ok(stranger.retryAfter, 'and when');
    if (LONG) t.ok(stranger.endedAt - stranger.at < 5000, 'no query waits beyond its deadline');
  }
  if (LONG)
    t.ok(healthy < HEALTHY_MS, `available again after ${Math.round(healthy)} ms, under load`);
  note(
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
