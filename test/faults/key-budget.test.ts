import t from 'tap';
import { digestOf } from '../../src/domain/key.ts';
import { formatEur, parseEur } from '../../src/domain/pricing/money.ts';
import { until } from '../support/until.ts';
import type { GatewayProcess } from './gateway.ts';
import { judge } from './judge.ts';
import { type Journalled, send, startLoad } from './load.ts';
import { note } from './results.ts';
import { faultWorld, LONG, noonZone } from './world.ts';

const ROUNDS = LONG ? 5 : 1;
const WORKERS = LONG ? 24 : 12;
const REPLICAS = Array.from({ length: LONG ? 3 : 2 }, (_, n) => n);
const BUDGET = '6';
/** EUR per 1000 tokens: a call costs some 3 cents. */
const PRICE = '1';
/** The user whom all calls name, and another one. */
const [ANN, BOB] = ['ann', 'bob'] as const;

/** Budgets that a key has. */
const BUDGETS = [
  ['a key', 'monthly_budget_eur'],
  ['the day of a key', 'daily_budget_eur'],
  ['an end user', 'end_user_budget_eur'],
] as const;

interface Row {
  readonly id: string;
  readonly at: number;
  readonly cost: string;
}

for (const [whose, column] of BUDGETS)
  t.test(
    `the budget of ${whose} holds on gateways that are killed meanwhile, and none forgets it`,
    async (t) => {
      const world = await faultWorld(t);
      const start = () => world.gateway({ BILLING_TIMEZONE: noonZone() });
      await world.model('priced', 'internal-priced!slow-first-byte-20!events-20-burst', {
        input: PRICE,
        output: PRICE,
        hours: '00:00-24:00 Asia/Kathmandu',
      });
      const gateways = await Promise.all(REPLICAS.map(start));
      const ask = (key: string, user: string = ANN) =>
        Promise.all(
          gateways.map(({ url }) =>
            send(undefined, url, 'plain', { key, user, chatModel: 'priced' }),
          ),
        );
      const all: Journalled[] = [];
      let most = 0n;
      let latest = 0;
      let liftedMs = 0;

      for (let round = 0; round < ROUNDS; round++) {
        const { company, key } = await world.newCompany();
        const set = (eur: string) =>
          world.sql`update api_keys set ${world.sql({ [column]: eur, end_users: 'header' })} where digest = decode(${digestOf(key)}, 'hex')`;
        await set(BUDGET);
        const load = startLoad({
          urls: () => gateways.map(({ url }) => url),
          key,
          workers: WORKERS,
          kinds: ['plain', 'stream'],
          user: ANN,
          chatModel: 'priced',
          isRated: true,
          restMs: 5,
        });
        let ready = 0;
        for (const victim of REPLICAS) {
          await load.more(
            10 + Math.floor(Math.random() * 30),
            'before the kill',
            ({ status }) => status !== 0,
          );
          await restart(gateways, victim, start);
          ready = Date.now();
        }
        await load.more(WORKERS * 4, 'refused for the budget', ({ status }) => status === 402);
        const journal = await load.stop();
        all.push(...journal);
        await until(
          async () => (await unwritten(journal)).length === 0,
          'all complete answers are in the ledger',
        );

        const rows = await rowsOf(company);
        const budget = parseEur(BUDGET);
        const spent = rows.reduce((sum, { cost }) => sum + parseEur(cost), 0n);
        t.ok(spent >= budget, `${formatEur(spent)} of ${BUDGET} were spent: no 402 before`);
        t.ok(journal.some(({ status }) => status === 402));
        // the call that reached the budget counted everywhere a second after its end, or after its gateway was back
        const ends = new Map(journal.map(({ requestId, endedAt }) => [requestId, endedAt]));
        const reached = Math.max(ready, ends.get(reaching(rows, budget)) ?? 0);
        const late = Math.max(...rows.map(({ at }) => at)) - reached;
        if (LONG)
          t.ok(late <= 1000, `the last call was admitted ${late} ms after the budget was reached`);
        if (spent - budget > most) most = spent - budget;
        if (late > latest) latest = late;

        for (const victim of REPLICAS) await restart(gateways, victim, start);
        const refused = await ask(key);
        all.push(...refused);
        t.same(
          refused.map(({ status }) => status),
          REPLICAS.map(() => 402),
          'after their restart they know what was spent',
        );
        const others = await ask(key, BOB);
        all.push(...others);
        t.same(
          others.map(({ status }) => status),
          REPLICAS.map(() => (column === 'end_user_budget_eur' ? 200 : 402)),
          'another end user is refused only where the budget is of all',
        );
        await set('1000');
        const raised = Date.now();
        await until(async () => {
          const answers = await ask(key);
          all.push(...answers);
          return answers.every(({ status }) => status === 200);
        }, 'the raised budget is in force everywhere');
        liftedMs = Math.max(liftedMs, Date.now() - raised);
      }

      for (const gateway of gateways) {
        gateway.signal('SIGTERM');
        t.equal(await gateway.exited, 0);
      }
      const verdict = await judge(world.sql, all, world.upstreamJournal());
      t.match(verdict, { missing: [], duplicates: 0, wrong: [], unverified: 0 });
      note(
        'The budget holds on all replicas',
        `budget of ${whose}, ${REPLICAS.length} replicas, ${WORKERS} workers, each killed (kill -9) once before it was reached, budget ${BUDGET} EUR, ${ROUNDS} times`,
        `overshoot at most ${formatEur(most)} EUR, the last call admitted ${latest} ms after the budget was reached; after a kill -9 of all of them 402 at once; a raised budget in force after at most ${liftedMs} ms; ${verdict.complete} complete answers, ${verdict.missing.length} missing`,
      );

      async function rowsOf(company: string): Promise<Row[]> {
        return world.sql<Row[]>`
      select request_id::text as id, (extract(epoch from occurred_at) * 1000)::float8 as at, cost_eur::text as cost
      from api_usage where company_id = ${company} order by occurred_at`;
      }

      async function unwritten(journal: readonly Journalled[]): Promise<string[]> {
        const ids = journal
          .filter(({ status, complete }) => status === 200 && complete)
          .map(({ requestId }) => requestId as string);
        const rows = await world.sql<{ id: string }[]>`
      select id from unnest(${ids}::text[]) as t (id) except select request_id::text from api_usage`;
        return rows.map(({ id }) => id);
      }
    },
  );

/** Kills a gateway and starts another in its place, which books what is left of it. */
async function restart(
  gateways: GatewayProcess[],
  victim: number,
  start: () => Promise<GatewayProcess>,
): Promise<void> {
  const gateway = gateways[victim] as GatewayProcess;
  gateway.signal('SIGKILL');
  await gateway.exited;
  gateways[victim] = await start();
}

/** The call with which a budget was reached. */
function reaching(rows: readonly Row[], budget: bigint): string | null {
  let spent = 0n;
  for (const { id, cost } of rows) {
    spent += parseEur(cost);
    if (spent >= budget) return id;
  }
  return null;
}
