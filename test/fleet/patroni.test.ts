import t, { type Test } from 'tap';
import { openDatabase } from '../../src/store/connection/pool.ts';
import { migrate } from '../../src/store/schema/migrate.ts';
import { type GatewayProcess, metric } from '../faults/gateway.ts';
import { judge } from '../faults/judge.ts';
import { type Load, startLoad } from '../faults/load.ts';
import { note } from '../faults/results.ts';
import { connect, type FaultWorld, faultWorld, LONG } from '../faults/world.ts';
import { until } from '../support/until.ts';
import { missingPrograms, type Operated, type PatroniNode, startOperated } from './patroni.ts';

/** Failover as operators run it: Patroni decides, HAProxy follows it, PgBouncer stands before. */

const AFTER = 200; // requests at the new leader
const ABSENT = missingPrograms.length > 0 && `not installed: ${missingPrograms.join(', ')}`;
const skip = LONG ? ABSENT : 'runs with FAULTS=long';

/** One way for a leader to go. */
interface Loss {
  readonly name: string;
  begin(operated: Operated, leader: PatroniNode): unknown;
  /** Makes the old leader able to come back. */
  end(leader: PatroniNode): unknown;
}

const LOSSES: readonly Loss[] = [
  {
    name: 'switched over by patronictl',
    begin: (operated, leader) =>
      operated.patronictl('switchover', '--leader', leader.name, '--force', 'tollgate'),
    end: () => {},
  },
  {
    name: 'killed with its machine (kill -9)',
    begin: (_, leader) => leader.signal('SIGKILL'),
    end: (leader) => leader.start(),
  },
  {
    name: 'frozen with its machine',
    begin: (_, leader) => leader.signal('SIGSTOP'),
    end: (leader) => leader.signal('SIGCONT'),
  },
  {
    name: 'cut off from etcd',
    begin: (_, leader) => leader.etcd.freeze(),
    end: (leader) => leader.etcd.thaw(),
  },
];

t.test(
  'Patroni, etcd, HAProxy and PgBouncer: the leader goes, no client notices',
  { skip },
  async (t) => {
    const operated = await startOperated(t);
    const { urls } = operated;
    const db = openDatabase({ url: urls.servers });
    await migrate(db, { billingTimezone: 'UTC' });
    await db.close();
    const sql = connect(urls.haproxy);
    t.teardown(() => sql.end({ timeout: 1 }));
    const world = await faultWorld(t, { url: urls.pgbouncer, sql });
    const gateways = await Promise.all(
      Object.values(urls).map((url) => world.gateway({ DATABASE_URL: url })),
    );
    const load = startLoad({
      urls: () => gateways.map(({ url }) => url),
      key: world.key,
      workers: 9,
      restMs: 10,
    });
    await load.more(100, 'before the first loss', ({ status }) => status === 200);
    for (const loss of LOSSES)
      await t.test(loss.name, (t) => lose(t, loss, operated, world, gateways, load));

    const clients = await load.stop();
    await until(async () => (await backlogOf(gateways)) === 0, 'every record is booked');
    const verdict = await judge(sql, clients, world.upstreamJournal());
    t.same(verdict.missing, [], `none of ${verdict.complete} complete answers is missing`);
    t.equal(verdict.rows, verdict.complete, 'nor is there a row too many');
    t.equal(verdict.duplicates, 0);
    t.same(verdict.wrong, []);
    t.equal(verdict.unverified, 0);
    t.comment(`PgBouncer ended ${operated.poolerRestarts()} times`);
    for (const gateway of gateways) gateway.signal('SIGTERM');
    t.same(await Promise.all(gateways.map(({ exited }) => exited)), [0, 0, 0]);
    t.same(world.spoolFiles(), []);
    note(
      'A failover by Patroni is invisible to known keys and loses nothing',
      'all of the above, one gateway through PgBouncer, one through HAProxy, one with both servers',
      `${clients.length} requests, 0 failed; ${verdict.complete} complete answers, 0 missing, 0 duplicates, 0 differences between rows, counters and seals`,
    );
  },
);

async function lose(
  t: Test,
  loss: Loss,
  operated: Operated,
  { sql }: FaultWorld,
  gateways: readonly GatewayProcess[],
  load: Load,
): Promise<void> {
  await operated.whole();
  const old = await operated.leader();
  const next = operated.nodes.find((node) => node !== old) as PatroniNode;
  const before = load.journal.length;
  const began = Date.now();
  const waited = watchBacklog(gateways);
  await loss.begin(operated, old);
  await until(() => next.leads(), 'the other node leads');
  const led = new Date();
  const writers = () =>
    sql`select distinct writer from ledger_seals where sealed_at > ${led}`.then(
      ({ length }) => length,
      () => 0, // this connection is interrupted as well
    );
  await until(
    async () => (await writers()) === gateways.length,
    'all gateways write to the new leader',
  );
  const healthy = Date.now() - led.getTime();
  await load.more(AFTER, 'at the new leader');
  await loss.end(old);
  await operated.whole(); // the old leader is a standby now
  await load.more(AFTER, 'while the old leader is a standby');
  const most = await waited();

  const during = load.journal.slice(before);
  const failed = during.filter(({ complete, status }) => !complete || status !== 200);
  t.same(failed, [], `none of ${during.length} requests of known keys failed`);
  note(
    'A failover by Patroni is invisible to known keys and loses nothing',
    `leader ${loss.name}`,
    `${during.length} requests meanwhile, 0 failed; the other node leads ${seconds(led.getTime() - began)} s later, all gateways write to it after ${seconds(healthy)} s more; up to ${most} records waited`,
  );
  t.comment(
    `new leader after ${led.getTime() - began} ms, healthy ${healthy} ms later, ${most} records waited`,
  );
}

const seconds = (ms: number): string => (ms / 1000).toFixed(1);

async function backlogOf(gateways: readonly GatewayProcess[]): Promise<number> {
  const backlogs = await Promise.all(
    gateways.map((gateway) => metric(gateway, 'tollgate_ledger_backlog')),
  );
  return backlogs.reduce((sum, records) => sum + records, 0);
}

/** Looks at the backlog ten times a second. @returns ends this, and tells the most that was seen */
function watchBacklog(gateways: readonly GatewayProcess[]): () => Promise<number> {
  let most = 0;
  let look: Promise<void> = Promise.resolve();
  const timer = setInterval(() => {
    look = backlogOf(gateways).then((records) => {
      most = Math.max(most, records);
    });
  }, 100);
  return async () => {
    clearInterval(timer);
    await look;
    return most;
  };
}
