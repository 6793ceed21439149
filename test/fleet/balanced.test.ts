import t from 'tap';
import { digestOf } from '../../src/domain/key.ts';
import { formatEur } from '../../src/domain/pricing/money.ts';
import { cross, crossingWorld } from '../faults/crossing.ts';
import type { GatewayProcess } from '../faults/gateway.ts';
import { judge, unbooked } from '../faults/judge.ts';
import { type Journalled, send, startLoad } from '../faults/load.ts';
import { note } from '../faults/results.ts';
import { faultWorld, LONG } from '../faults/world.ts';
import { until } from '../support/until.ts';
import { haproxy, startBalancer } from './balancer.ts';

const ROUNDS = LONG ? 5 : 1;
const REPLICAS = LONG ? 4 : 3;
const WORKERS = LONG ? 64 : 16;

t.test(
  'replicas behind HAProxy are one gateway',
  { skip: haproxy === null && 'no haproxy here' },
  async (t) => {
    const world = await crossingWorld(t);
    const gateways = await Promise.all(Array.from({ length: REPLICAS }, () => world.gateway()));
    const url = await startBalancer(t, gateways);

    await t.test('a budget holds', async (t) => {
      for (const mode of ['standard', 'strict']) {
        let worst = 0n;
        let bound = 0n;
        for (let round = 0; round < ROUNDS; round++) {
          const { budget, spent, allowed, early } = await cross(
            world,
            [url],
            mode,
            WORKERS,
            REPLICAS,
          );
          const over = spent > budget ? spent - budget : 0n;
          if (mode === 'standard') t.same(early, [], 'no 402 while less than the budget was spent');
          t.ok(
            over <= (mode === 'strict' ? 0n : allowed),
            `${mode}: ${formatEur(over)} EUR over, ${formatEur(allowed)} allowed`,
          );
          if (over > worst) worst = over;
          if (allowed > bound) bound = allowed;
        }
        const bounded =
          mode === 'strict' ? '' : ` (bound of that run: ${formatEur(bound)}), no early 402`;
        note(
          'Four replicas behind HAProxy are one gateway',
          `${mode} budget, ${WORKERS} workers, ${ROUNDS} times`,
          `overshoot at most ${formatEur(worst)} EUR${bounded}`,
        );
      }
    });

    await t.test('a revoked key dies everywhere at once', async (t) => {
      const late: number[] = [];
      for (let round = 0; round < ROUNDS * 4; round++) {
        const { key } = await world.newCompany();
        const load = startLoad({
          urls: () => [url],
          key,
          workers: 16,
          kinds: ['plain'],
          restMs: 8,
        });
        await load.more(50, 'before the revocation', ({ status }) => status === 200);
        await world.sql`update api_keys set revoked_at = now() where digest = decode(${digestOf(key)}, 'hex')`;
        const committed = Date.now();
        let inARow = 0; // refusals since the last answer: with many, every replica has refused
        await load.more(100, 'refused one after the other', ({ status }) => {
          inARow = status === 401 ? inARow + 1 : 0;
          return inARow > 0;
        });
        if (LONG) await load.more(1, 'after the bound', ({ at }) => at > committed + 1000);
        const journal = await load.stop();
        late.push(
          Math.max(
            0,
            ...journal.filter(({ status }) => status === 200).map(({ at }) => at - committed),
          ),
        );
        t.same(
          journal.slice(-50).filter(({ status }) => status !== 401),
          [],
        );
        if (!LONG) break;
      }
      late.sort((a, b) => a - b);
      if (LONG)
        t.ok(
          (late.at(-1) as number) <= 1000,
          `the last 200 came ${late.at(-1)} ms after the commit`,
        );
      note(
        'Four replicas behind HAProxy are one gateway',
        `key revoked by SQL, ${late.length} times`,
        `last 200 after the commit: median ${late[late.length >> 1]} ms, worst ${late.at(-1)} ms`,
      );
    });

    await t.test('one is stopped, one dies, one joins', async (t) => {
      const load = startLoad({ urls: () => [url], key: world.key, workers: 16, restMs: 10 });
      await load.more(100, 'before the stop');
      (gateways[0] as GatewayProcess).signal('SIGTERM');
      t.equal(await (gateways[0] as GatewayProcess).exited, 0);
      await load.more(100, 'after the stop');
      t.same(
        load.journal.filter(({ status, complete }) => status !== 200 || !complete),
        [],
        'no client notices the stop',
      );

      (gateways[1] as GatewayProcess).signal('SIGKILL');
      const died = Date.now();
      await (gateways[1] as GatewayProcess).exited;
      await load.more(50, 'a second after the death', ({ at }) => at > died + 1000);
      const clients: Journalled[] = await load.stop();
      const failed = clients.filter(({ status, complete }) => status !== 200 || !complete);
      t.ok(failed.length <= 16, `of the dead one's requests in flight ${failed.length} failed`);
      t.same(
        failed.filter(({ at }) => at > died + 1000),
        [],
        'and none after',
      );
      // the next gateway that starts in its folder books what it left in the spool
      const next = await world.gateway();
      await until(
        () => unbooked(world.sql, clients),
        'the next gateway has booked what was left',
        (count) => count === 0,
      );
      const left = [...gateways.slice(2), next];
      for (const gateway of left) gateway.signal('SIGTERM');
      await Promise.all(left.map(({ exited }) => exited));
      t.match(await judge(world.sql, clients, world.upstreamJournal()), {
        missing: [],
        duplicates: 0,
        wrong: [],
        unverified: 0,
      });
      t.same(world.spoolFiles(), []);
    });
  },
);

t.test(
  'cells are told apart by the prefix of the key',
  { skip: haproxy === null && 'no haproxy here' },
  async (t) => {
    const worlds = [await faultWorld(t), await faultWorld(t)] as const;
    const cells = await Promise.all(worlds.map((world) => world.gateway()));
    const url = await startBalancer(t, cells.slice(0, 1), cells.slice(1));
    const [a, b] = worlds;
    const key = `svcb_${'k'.repeat(32)}`;
    await b.sql`insert into api_keys (company_id, name, digest, prefix, scopes)
    values (${b.company}, 'b', decode(${digestOf(key)}, 'hex'), 'svcb_kkk', '{chat}')`;
    t.equal((await send(undefined, url, 'plain', { key: a.key })).status, 200);
    t.equal((await send(undefined, url, 'plain', { key })).status, 200);
    t.equal(
      (await send(undefined, url, 'plain', { key: b.key })).status,
      401,
      'a key of the other cell without its prefix',
    );
    for (const [world, count] of [
      [a, 1],
      [b, 1],
    ] as const) {
      await until(
        async () => (await world.sql`select from api_usage`).length === count,
        'the call is booked',
      );
    }
  },
);
