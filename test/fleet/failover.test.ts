import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import { openDatabase } from '../../src/store/connection/pool.ts';
import { ledgerStore } from '../../src/store/gateway/ledger.ts';
import { migrate } from '../../src/store/schema/migrate.ts';
import { metric } from '../faults/gateway.ts';
import { judge } from '../faults/judge.ts';
import { startLoad } from '../faults/load.ts';
import { note } from '../faults/results.ts';
import { faultWorld, LONG } from '../faults/world.ts';
import { tollgate } from '../support/cli.ts';
import { until } from '../support/until.ts';
import { type Cluster, newCluster } from './cluster.ts';

const ROUNDS = LONG ? 5 : 1;
const HEALTHY_MS = 5_000; // asserted in long runs
const AWAY = LONG ? 2000 : 30; // requests while there is no primary, and as many after the promotion

// a stopped server's files are as good as a base backup: every pair is made of two copies
const origin = await newCluster(t);
await origin.start();
const db = openDatabase({ url: origin.url });
await migrate(db, { billingTimezone: 'UTC' });
await db.close();
await origin.stop();

/** A migrated primary with a synchronous standby. */
async function pair(t: Test): Promise<{ primary: Cluster; standby: Cluster }> {
  const [primary, standby] = [await origin.copy(t), await origin.copy(t)];
  await primary.start({ synchronous_standby_names: '*' });
  await standby.follow(primary);
  await until(async () => {
    const rows =
      await primary.sql`select from pg_stat_replication where sync_state = 'sync' and state = 'streaming'`;
    return rows.length === 1;
  }, 'the standby follows');
  return { primary, standby };
}

const DEATHS = [
  { name: 'kill -9', begin: (primary: Cluster) => primary.signal('SIGKILL') },
  // its kernel accepts connections as before: only deadlines tell that the server is gone
  {
    name: 'frozen',
    begin: (primary: Cluster) => primary.signal('SIGSTOP'),
  },
];

for (const { name, begin } of DEATHS) {
  t.test(
    `the primary dies under load (${name}), the standby is promoted: no client notices, no record is lost`,
    async (t) => {
      let worst = 0;
      const total = { requests: 0, complete: 0, waited: 0 };
      for (let round = 0; round < ROUNDS; round++) {
        const { primary, standby } = await pair(t);
        const both = `postgres://tollgate@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/postgres`;
        const world = await faultWorld(t, { url: primary.url, sql: primary.sql });
        const gateways = await Promise.all([1, 2].map(() => world.gateway({ DATABASE_URL: both })));
        const load = startLoad({
          urls: () => gateways.map(({ url }) => url),
          key: world.key,
          workers: 8,
          restMs: LONG ? 5 : 20,
        });
        await load.more(40, 'before the death', ({ status }) => status === 200);
        const before = load.journal.length;

        begin(primary);
        for (const gateway of gateways) {
          const isAway = async () => (await metric(gateway, 'tollgate_database_available')) === 0;
          await until(isAway, 'a gateway knows that the primary is away');
        }
        await load.more(AWAY, 'without a primary');
        for (const gateway of gateways)
          total.waited += await metric(gateway, 'tollgate_ledger_backlog');
        await standby.sql`select pg_promote()`;
        const promoted = new Date();
        await until(async () => {
          const writers =
            await standby.sql`select distinct writer from ledger_seals where sealed_at > ${promoted}`;
          return writers.length === gateways.length;
        }, 'all gateways write to the new primary');
        const healthy = Date.now() - promoted.getTime();
        primary.signal('SIGKILL'); // fencing: whatever it is, it never serves again
        worst = Math.max(worst, healthy);
        await load.more(AWAY, 'at the new primary');

        const clients = await load.stop();
        await until(async () => {
          const left = await Promise.all(
            gateways.map((gateway) => metric(gateway, 'tollgate_ledger_backlog')),
          );
          return left.every((records) => records === 0);
        }, 'every record is booked');
        const during = clients.slice(before);
        t.ok(during.length > 50, `${during.length} requests meanwhile`);
        t.same(
          during.filter(({ complete, status }) => !complete || status !== 200),
          [],
          'no request of a known key failed',
        );
        if (LONG)
          t.ok(
            healthy < HEALTHY_MS,
            `all write to the new primary ${Math.round(healthy)} ms after the promotion`,
          );
        const verdict = await judge(standby.sql, clients, world.upstreamJournal());
        t.same(verdict.missing, [], `none of ${verdict.complete} complete answers is missing`);
        t.equal(verdict.duplicates, 0);
        t.same(verdict.wrong, []);
        t.equal(verdict.unverified, 0);
        for (const gateway of gateways) gateway.signal('SIGTERM');
        t.same(await Promise.all(gateways.map(({ exited }) => exited)), [0, 0]);
        t.same(world.spoolFiles(), []);
        total.requests += during.length;
        total.complete += verdict.complete;
        await standby.stop();
      }
      note(
        'A failover is invisible to known keys and loses nothing',
        `primary ${name}, standby promoted ${AWAY} requests later, ${ROUNDS} times`,
        `${total.requests} requests meanwhile, 0 failed; ${total.waited} records waited; ${total.complete} complete answers, 0 missing, 0 duplicates; healthy at most ${Math.round(worst)} ms after the promotion`,
      );
    },
  );
}

t.test('what is repeated is not acknowledged before the standby has it', async (t) => {
  const { primary, standby } = await pair(t);
  const db = openDatabase({ url: primary.url });
  t.teardown(() => db.close());
  const store = ledgerStore(db);
  const waits = { unavailable: true, code: 'DEADLINE' };
  const company = randomUUID();
  const records = Buffer.from(
    JSON.stringify([
      {
        billing_month: '2026-11-01',
        request_id: randomUUID(),
        company_id: company,
        api_key_id: randomUUID(),
        model_slug: 'm',
        upstream_model: 'u',
        endpoint: 'embeddings',
        prompt_tokens: 1000,
        completion_tokens: 0,
        cost_eur: '1',
        price_input: '1',
        price_output: '0',
        usage_source: 'upstream',
        outcome: 'completed',
        occurred_at: new Date().toISOString(),
      },
    ]),
  );
  const writer = randomUUID();
  const refused = [{ record: '{"cost_eur":-1}', reason: 'below zero' }];
  const bothWait = (why: string) =>
    Promise.all([
      t.rejects(store.insert(writer, records, null), waits, why),
      t.rejects(store.setAside(refused), waits, why),
    ]);
  standby.signal('SIGSTOP');
  await bothWait('the standby has neither');
  const count = async ({ sql }: Cluster): Promise<number> => {
    const [row] = await sql`
      select (select count(*) from api_usage)::integer + (select count(*) from api_usage_set_aside)::integer as rows`;
    return row?.rows;
  };
  await until(
    async () => (await count(primary)) === 2,
    'the waits are cancelled: both are on the primary',
  );
  await bothWait('they are still only there');
  standby.signal('SIGCONT');
  t.same(await store.insert(writer, records, null), [], 'the batch is known to be there already');
  await store.setAside(refused);
  t.equal(await count(standby), 2, 'and the standby has both, once');

  await t.test('reports can be read from the standby', (t) => reports(t, primary, standby));
});

async function reports(t: Test, primary: Cluster, standby: Cluster): Promise<void> {
  const [row] = await primary.sql`insert into companies (name) values ('Reports') returning id`;
  await until(
    async () => (await standby.sql`select from companies`).length === 1,
    'the standby has the company',
  );
  const targets = `127.0.0.1:${primary.port},127.0.0.1:${standby.port}`;
  const env = {
    DATABASE_URL: `postgres://tollgate@${targets}/postgres?target_session_attrs=standby`,
  };
  for (const argv of [
    ['ledger', 'verify'],
    ['ledger', 'export', '--company', row?.id, '--month', '2026-11'],
    ['usage', 'summary', '--company', row?.id],
    ['company', 'list'],
  ]) {
    t.match(await tollgate(argv, { env }), { code: 0, err: '' }, argv.slice(0, 2).join(' '));
  }
  t.match(await tollgate(['company', 'create', '--name', 'No'], { env }), {
    code: 1,
    err: /read-only/,
  });
}
