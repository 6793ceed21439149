import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import t from 'tap';
import { programVersion } from '../../../src/runtime/version.ts';
import { gatewayStore } from '../../../src/store/gateway/gateways.ts';
import { Heartbeat } from '../../../src/store/gateway/heartbeat.ts';
import { faultWorld } from '../../faults/world.ts';
import { testDatabase } from '../../support/postgres.ts';
import { until } from '../../support/until.ts';

const STATE = {
  backlog: 3,
  lag: 2500,
  lost: 1,
  spoolFailing: true,
  limitsAlone: true,
  inFlight: 7,
  unreadUsage: [{ slug: 'm', members: ['tool_tokens'] }],
  adopted: new Set<string>(),
};
const MS = 60_000;

t.test(
  'of two gateways one is stopped and one is killed: the row of the killed one stays until its successor beats',
  async (t) => {
    const world = await faultWorld(t);
    const seen = () =>
      world.sql`select id, name, version, backlog, oldest_at from gateways order by started_at`;
    const [stopped, killed] = [await world.gateway(), await world.gateway()];
    const both = await until(seen, 'both gateways beat', ({ length }) => length === 2);
    const own = { name: hostname(), version: programVersion(), backlog: 0, oldest_at: null };
    t.match([...both], [own, own]);
    const [{ marks }] = await world.sql<
      [{ marks: number }]
    >`select count(*)::integer as marks from usage_marks`;
    t.equal(marks, 2, 'one mark of the day and one of the month, by whichever came first');

    stopped.signal('SIGTERM');
    t.equal(await stopped.exited, 0);
    killed.signal('SIGKILL');
    await killed.exited;
    const [left, ...others] = await seen();
    t.same(others, [], 'a clean stop removes the row');
    t.ok(left);

    await world.sql`update gateways set last_seen_at = now() - interval '61 seconds'`;
    await world.gateway();
    const rows = await until(seen, 'the successor beats', (found) =>
      found.every(({ id }) => id !== left?.id),
    );
    t.equal(rows.length, 1, 'a gateway of the same name takes the place of the one that is gone');
  },
);

t.test('a beat tells the state of the gateway', async (t) => {
  const { db } = await testDatabase(t);
  const id = randomUUID();
  const store = gatewayStore(db, id, 'pod-1', '1.2.3');
  t.match(await store.beat({ ...STATE, backlog: 0, lag: 0 }), { due: true }, 'a mark is due');
  await store.mark();
  t.match(await store.beat(STATE), { due: false }, 'none is due any more');
  const [row] = await db.run(
    MS,
    (sql) =>
      sql`select *, extract(epoch from last_seen_at - oldest_at)::float8 as lag from gateways`,
  );
  t.match(row, {
    id,
    name: 'pod-1',
    version: '1.2.3',
    unread_usage: STATE.unreadUsage,
    backlog: 3,
    lag: 2.5,
    lost: 1,
    spool_failing: true,
    limits_alone: true,
    requests_in_flight: 7,
  });
  await store.remove();
  t.same(await db.run(MS, (sql) => sql`select from gateways`), []);
});

t.test('gateways that are long gone are forgotten, others are not', async (t) => {
  const { db } = await testDatabase(t);
  await db.run(MS, async (sql) => {
    const add = (name: string, seen: string) => sql`
      insert into gateways (id, name, version, started_at, last_seen_at)
      values (gen_random_uuid(), ${name}, '1', now() - interval '3 days', now() - ${seen}::interval)`;
    await add('old', '25 hours');
    await add('gone', '23 hours');
    await add('pod-1', '2 minutes');
    await add('pod-1', '30 seconds');
  });
  await gatewayStore(db, randomUUID(), 'pod-1', '2').beat(STATE);
  const rows = await db.run(
    MS,
    (sql) =>
      sql<{ name: string; version: string }[]>`select name, version from gateways order by 1, 2`,
  );
  t.same(
    rows.map(({ name, version }) => `${name} ${version}`),
    ['gone 1', 'pod-1 1', 'pod-1 2'],
  );
});

t.test(
  'gateways that are gone with records are remembered until another one takes over their spool',
  async (t) => {
    const { db } = await testDatabase(t);
    const [adopted, evicted, lost] = [randomUUID(), randomUUID(), randomUUID()];
    await db.run(MS, async (sql) => {
      for (const id of [adopted, evicted, lost]) {
        await sql`insert into gateways (id, name, version, started_at, last_seen_at, backlog)
        values (${id}, 'pod-1', '1', now() - interval '40 days', now() - interval '30 days', 3)`;
      }
    });
    const left = async () => {
      const rows = await db.run(
        MS,
        (sql) => sql<{ id: string }[]>`select id from gateways where name = 'pod-1'`,
      );
      return rows.map(({ id }) => id).sort();
    };
    const folders = new Set<string>();
    const store = gatewayStore(db, randomUUID(), 'pod-2', '2');
    await store.beat({ ...STATE, adopted: folders });
    await gatewayStore(db, lost, 'pod-1', '1').remove();
    t.same(
      await left(),
      [adopted, evicted].sort(),
      'an operator, or the gateway itself, removes a row',
    );
    for (const folder of [adopted, `${evicted}-1`, 'lost+found']) folders.add(folder);
    await store.beat({ ...STATE, adopted: folders });
    t.same(await left(), []);
    t.equal(folders.size, 0, 'told once: one that was taken for dead and lives beats again');
  },
);

t.test(
  'the heart goes on beating when a beat fails, and takes a mark when one is due',
  async (t) => {
    const calls: string[] = [];
    let backlog = 0;
    const heartbeat = new Heartbeat(
      {
        async beat() {
          calls.push('beat');
          if (calls.length === 1) throw new Error('away');
          return { due: calls.length === 2, at: Date.now() };
        },
        mark: async () => void calls.push('mark'),
        forget: async () => void calls.push('forget'),
        remove: async () => void calls.push('remove'),
      },
      () => ({ ...STATE, backlog }),
      { clock: Date.now, log: { warn: () => {} }, everyMs: 1 },
    );
    await until(() => calls.filter((call) => call === 'forget').length > 1, 'some beats');
    const booked = Promise.withResolvers<void>();
    const closed = heartbeat.close(booked.promise);
    booked.resolve();
    await closed;
    t.same(calls.slice(0, 5), ['beat', 'beat', 'mark', 'forget', 'beat']);
    const between = calls.slice(calls.indexOf('forget') + 1, calls.indexOf('forget', 4));
    t.same(between, Array(20).fill('beat'), 'and forgets again twenty beats later');
    t.equal(calls.at(-1), 'remove');
    const { length } = calls;
    await heartbeat.close(booked.promise);
    t.same(calls.slice(length), ['remove'], 'no beat after it was closed');
    backlog = 2;
    await heartbeat.close(booked.promise);
    t.same(calls.slice(length + 1), ['beat'], 'what stays in the spool is told instead');
  },
);

t.test('a clock that is not that of the database is told, once', async (t) => {
  const { db } = await testDatabase(t);
  const store = gatewayStore(db, randomUUID(), 'pod-1', '1');
  const aheads = [3_600_000, 3_600_000, 0, -86_400_000];
  const told: object[] = [];
  const log = { warn: (fields: object) => void told.push(fields) };
  let asked = 0; // twice in each beat
  const clock = () => Date.now() + (aheads[asked++ >> 1] ?? 0);
  const heartbeat = new Heartbeat(store, () => STATE, { clock, log, everyMs: 1 });
  await until(() => asked > 9, 'all beats');
  t.same(told, [{ seconds_ahead: 3600 }, { seconds_ahead: -86_400 }]);
  await heartbeat.close(Promise.resolve());
});
