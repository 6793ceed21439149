import t from 'tap';
import { formatEur, parseEur } from '../../src/domain/money.ts';
import { type Journalled, startLoad } from './load.ts';
import { note } from './results.ts';
import { type FaultWorld, faultWorld, LONG, until } from './world.ts';

t.setTimeout(LONG ? 300_000 : 60_000);
const ROUNDS = LONG ? 5 : 1;
const PRICE = '1'; // EUR per 1000 tokens, in and out
const TOKENS = 20;

/** One company driven over its budget. EUR in femto. */
interface Crossing {
  readonly budget: bigint;
  readonly spent: bigint;
  /** Cost of what was in flight when the budget was reached, and of what was admitted in the second after. */
  readonly allowed: bigint;
  /** 402 although less than the budget was spent, by the upstream's journal. */
  readonly early: readonly Journalled[];
  readonly refused: number;
}

t.test('the budget holds on all replicas', async (t) => {
  const world = await faultWorld(t);
  await world.model('priced', `internal-priced!events-${TOKENS}!pace-1`, { input: PRICE, output: PRICE });
  const gateways = await Promise.all([1, 2, 3, 4].map(() => world.gateway()));
  const urls = gateways.map(({ url }) => url);

  for (const [order, replicas, mode, workers] of [
    [40, 4, 'standard', 64],
    [41, 1, 'standard', 64],
    [42, 4, 'strict', 64],
  ] as const) {
    await t.test(`${mode}, replicas: ${replicas}`, async (t) => {
      let worst = 0n;
      let most = 0n;
      let crossing = '';
      for (let round = 0; round < ROUNDS; round++) {
        const { budget, spent, allowed, early, refused } = await cross(world, urls.slice(0, replicas), mode, workers);
        const over = spent > budget ? spent - budget : 0n;
        t.ok(refused > 0, `${refused} refused`);
        if (mode === 'strict') t.ok(spent <= budget, `spent ${formatEur(spent)} of ${formatEur(budget)}`);
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
        order,
        'The budget holds on all replicas',
        `${replicas} replica${replicas > 1 ? 's' : ''}, ${workers} workers, ${mode}, budget ${crossing} EUR, ${ROUNDS} times`,
        `overshoot at most ${formatEur(worst)} EUR${mode === 'strict' ? '' : ` (bound of that run: ${formatEur(most)}), no early 402`}`,
      );
    });
  }
});

async function cross(world: FaultWorld, urls: readonly string[], mode: string, workers: number): Promise<Crossing> {
  const budget = parseEur('12');
  const { company, key } = await world.newCompany({ budget: formatEur(budget), mode });
  // at 99 % to begin with, by the application's own chat
  await world.sql`insert into chat_usage (company_id, cost_eur) values (${company}, ${formatEur((budget * 99n) / 100n / 4n)})`;
  const load = startLoad({
    urls: () => urls,
    key,
    workers,
    kinds: ['plain', 'stream'],
    chatModel: 'priced',
    more: { max_tokens: TOKENS },
    restMs: 5,
  });
  await until(() => load.journal.filter(({ status }) => status === 402).length > workers * 4, 30_000);
  const journal = await load.stop();

  const upstream = world.upstreamJournal();
  const chat = (budget * 99n) / 100n / 4n;
  const cost = ({ marker }: Journalled): bigint => {
    const usage = upstream.get(marker)?.usage;
    return usage === null || usage === undefined ? 0n : BigInt(usage.total_tokens) * (parseEur(PRICE) / 1000n);
  };
  const served = journal.filter(({ status }) => status === 200).sort((a, b) => a.endedAt - b.endedAt);
  let spent = chat;
  let crossedAt = Number.POSITIVE_INFINITY;
  for (const one of served) {
    spent += cost(one);
    if (spent >= budget && crossedAt === Number.POSITIVE_INFINITY) crossedAt = one.endedAt;
  }
  // in flight at the crossing; with other replicas also what was admitted within the second after it
  const allowed = served
    .filter(({ at, endedAt }) => endedAt >= crossedAt && at <= crossedAt + (urls.length > 1 ? 1000 : 0))
    .reduce((sum, one) => sum + cost(one), 0n);
  const early = journal.filter(({ status, endedAt }) => {
    if (status !== 402) return false;
    // spent for certain and perhaps: what ended at the client before the refusal did, and what was still open
    const perhaps = served.filter(({ at }) => at <= endedAt).reduce((sum, one) => sum + cost(one), chat);
    return perhaps < budget;
  });
  return { budget, spent, allowed, early, refused: journal.filter(({ status }) => status === 402).length };
}
