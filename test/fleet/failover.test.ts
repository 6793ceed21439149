import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import { openDatabase } from '../../src/store/database.ts';
import { ledgerStore } from '../../src/store/ledger.ts';
import { migrate } from '../../src/store/migrate.ts';
import { metric } from '../faults/gateway.ts';
import { judge } from '../faults/judge.ts';
import { startLoad } from '../faults/load.ts';
import { note } from '../faults/results.ts';
import { faultWorld, LONG, until } from '../faults/world.ts';
import { tollgate } from '../support/cli.ts';
import { type Cluster, newCluster } from './cluster.ts';

t.setTimeout(LONG ? 600_000 : 90_000);
const ROUNDS = LONG ? 5 : 1;
const HEALTHY_MS = 5_000;
const AWAY_MS = LONG ? 5_000 : 1_500;

/** A migrated primary with a synchronous standby. */
async function pair(t: Test): Promise<{ primary: Cluster; standby: Cluster }> {
  const primary = await newCluster(t);
  await primary.start();
  const db = openDatabase({ url: primary.url });
  await migrate(db, { billingTimezone: 'UTC' });
  await db.close();
  await primary.stop();
  const standby = await primary.copy(); // of a server that was stopped: as good as a base backup
  await primary.start({ synchronous_standby_names: '*' });
  await standby.follow(primary);
  await until(async () => {
    const rows = await primary.sql`select from pg_stat_replication where sync_state = 'sync' and state = 'streaming'`;
    return rows.length === 1;
  });
  return { primary, standby };
}

const DEATHS = [
  { name: 'kill -9', order: 60, begin: (primary: Cluster) => primary.signal('SIGKILL') },
  // its kernel goes on taking connections: only deadlines tell that nobody is there
  {
    name: 'frozen',
    order: 61,
    begin: (primary: Cluster) => primary.signal('SIGSTOP'),
  },
];

for (const { name, order, begin } of DEATHS) {
  t.test(
    `the primary dies under load (${name}), the standby is promoted: nobody notices, nothing is lost`,
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
        await until(() => load.journal.filter(({ status }) => status === 200).length > 100);
        const before = load.journal.length;

        begin(primary);
        await sleep(AWAY_MS);
        for (const gateway of gateways) total.waited += await metric(gateway, 'tollgate_ledger_backlog');
        await standby.sql`select pg_promote()`;
        const promoted = new Date();
        const healthy = await until(async () => {
          const writers = await standby.sql`select distinct writer from ledger_seals where sealed_at > ${promoted}`;
          return writers.length === gateways.length;
        });
        primary.signal('SIGKILL'); // fencing: whatever it is, it never serves again
        worst = Math.max(worst, healthy);
        await sleep(LONG ? 5000 : 1000);

        const clients = await load.stop();
        await until(async () => {
          const left = await Promise.all(gateways.map((gateway) => metric(gateway, 'tollgate_ledger_backlog')));
          return left.every((records) => records === 0);
        });
        const during = clients.slice(before);
        t.ok(during.length > 50, `${during.length} requests meanwhile`);
        t.same(
          during.filter(({ complete, status }) => !complete || status !== 200),
          [],
          'no request of a known key failed',
        );
        t.ok(healthy < HEALTHY_MS, `all write to the new primary ${Math.round(healthy)} ms after the promotion`);
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
        order,
        'A failover is invisible to known keys and loses nothing',
        `primary with a synchronous standby, 2 replicas under load; primary ${name}, standby promoted ${AWAY_MS / 1000} s later, ${ROUNDS} times`,
        `${total.requests} requests meanwhile, 0 failed; ${total.waited} records waited; ${total.complete} complete answers, 0 missing, 0 duplicates; healthy at most ${Math.round(worst)} ms after the promotion`,
      );
    },
  );
}

t.test('a repeated batch is not acknowledged before the standby has what it repeats', async (t) => {
  const { primary, standby } = await pair(t);
  const db = openDatabase({ url: primary.url });
  t.teardown(() => db.close());
  const store = ledgerStore(db);
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
  standby.signal('SIGSTOP');
  await t.rejects(store.insert(writer, records, null), { unavailable: true, code: 'DEADLINE' });
  await until(async () => (await primary.sql`select from api_usage`).length === 1); // the wait was cancelled: it is on the primary
  await t.rejects(store.insert(writer, records, null), { unavailable: true, code: 'DEADLINE' }, 'still only there');
  standby.signal('SIGCONT');
  t.same(await store.insert(writer, records, null), [], 'now it is known to be there already');
  t.equal((await standby.sql`select from api_usage`).length, 1, 'and the standby has it');
});

t.test('nor is a record that is set aside once more', async (t) => {
  const { primary, standby } = await pair(t);
  const db = openDatabase({ url: primary.url });
  t.teardown(() => db.close());
  const store = ledgerStore(db);
  const refused = [{ record: '{"cost_eur":-1}', reason: 'below zero' }];
  standby.signal('SIGSTOP');
  await t.rejects(store.setAside(refused), { unavailable: true, code: 'DEADLINE' });
  await until(async () => (await primary.sql`select from api_usage_set_aside`).length === 1); // the wait was cancelled
  await t.rejects(store.setAside(refused), { unavailable: true, code: 'DEADLINE' }, 'still only there');
  standby.signal('SIGCONT');
  await store.setAside(refused);
  t.equal((await standby.sql`select from api_usage_set_aside`).length, 1, 'the standby has it');
});

t.test('reports can be read from a standby', async (t) => {
  const { primary, standby } = await pair(t);
  const [row] = await primary.sql`insert into companies (name) values ('Reports') returning id`;
  await until(async () => (await standby.sql`select from companies`).length === 1);
  const targets = `127.0.0.1:${primary.port},127.0.0.1:${standby.port}`;
  const env = { DATABASE_URL: `postgres://tollgate@${targets}/postgres?target_session_attrs=standby` };
  for (const argv of [
    ['ledger', 'verify'],
    ['ledger', 'export', '--company', row?.id, '--month', '2026-11'],
    ['usage', 'summary', '--company', row?.id],
    ['company', 'list'],
  ]) {
    t.match(await tollgate(argv, { env }), { code: 0, err: '' }, argv.slice(0, 2).join(' '));
  }
  t.match(await tollgate(['company', 'create', '--name', 'No'], { env }), { code: 1, err: /read-only/ });
});
