import t from 'tap';
import { formatEur } from '../../src/domain/pricing/money.ts';
import { cross, crossingWorld } from './crossing.ts';
import { judge } from './judge.ts';
import type { Journalled } from './load.ts';
import { note } from './results.ts';
import { LONG } from './world.ts';

const ROUNDS = LONG ? 5 : 1;
const REPLICAS = LONG ? 4 : 2;
const WORKERS = LONG ? 64 : 24;

/** In the name of a row: that of the month has none. */
const NAMES = { month: '', day: 'of a day ', 'end user': 'of an end user ' };

t.test('the budget holds on all replicas', async (t) => {
  const world = await crossingWorld(t);
  const gateways = await Promise.all(Array.from({ length: REPLICAS }, () => world.gateway()));
  const urls = gateways.map(({ url }) => url);
  const clients: Journalled[] = [];

  for (const [replicas, mode, of] of [
    [REPLICAS, 'standard', 'month'],
    [1, 'standard', 'month'],
    [REPLICAS, 'strict', 'month'],
    [REPLICAS, 'standard', 'day'],
    [REPLICAS, 'strict', 'day'],
    [REPLICAS, 'standard', 'end user'],
    [REPLICAS, 'strict', 'end user'],
  ] as const) {
    await t.test(`${mode}, by ${of}, replicas: ${replicas}`, async (t) => {
      let worst = 0n;
      let most = 0n;
      let crossing = '';
      for (let round = 0; round < ROUNDS; round++) {
        const { budget, spent, allowed, early, refused, journal } = await cross(
          world,
          urls.slice(0, replicas),
          mode,
          WORKERS,
          replicas,
          of,
        );
        clients.push(...journal);
        const over = spent > budget ? spent - budget : 0n;
        t.ok(refused > 0, `${refused} refused`);
        if (mode === 'strict')
          t.ok(spent <= budget, `spent ${formatEur(spent)} of ${formatEur(budget)}`);
        else {
          t.same(early, [], 'no 402 while less than the budget was spent');
          t.ok(spent >= budget, 'the budget was used up');
          t.ok(over <= allowed, `${formatEur(over)} EUR over, ${formatEur(allowed)} allowed`);
        }
        if (over > worst) worst = over;
        if (allowed > most) most = allowed;
        crossing = formatEur(budget);
      }
      note(
        'The budget holds on all replicas',
        `${replicas} replica${replicas > 1 ? 's' : ''}, ${WORKERS} workers, ${mode}, budget ${NAMES[of]}${crossing} EUR, ${ROUNDS} times`,
        `overshoot at most ${formatEur(worst)} EUR${mode === 'strict' ? '' : ` (bound of that run: ${formatEur(most)}), no early 402`}`,
      );
    });
  }
  for (const gateway of gateways) gateway.signal('SIGTERM');
  await Promise.all(gateways.map(({ exited }) => exited));
  const verdict = await judge(world.sql, clients, world.upstreamJournal());
  t.match(verdict, { missing: [], duplicates: 0, wrong: [], unverified: 0 });
});
