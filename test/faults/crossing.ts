import { formatEur, parseEur } from '../../src/domain/pricing/money.ts';
import { pricesOf, rightCost } from './judge.ts';
import { type Journalled, startLoad } from './load.ts';
import { type FaultWorld, faultWorld, type Life } from './world.ts';

/** EUR per 1000 tokens. What a prompt may cost at most is little: what is reserved is little more than what is spent. */
const PRICES = { input: '0.01', output: '1', hours: '00:00-24:00 Asia/Kathmandu' };
const TOKENS = 20;

/** What happened when one company reached its budget. Amounts in 10^-15 EUR. */
export interface Crossing {
  readonly budget: bigint;
  readonly spent: bigint;
  /** Cost of the requests in flight when the budget was reached; with several replicas also of those admitted in the second after. */
  readonly allowed: bigint;
  /** Refused although less than the budget was spent, by the upstream's journal. */
  readonly early: readonly Journalled[];
  readonly refused: number;
  readonly journal: readonly Journalled[];
}

/** A world with a model whose price is known. */
export async function crossingWorld(life: Life): Promise<FaultWorld> {
  const world = await faultWorld(life);
  await world.model('priced', `internal-priced!slow-first-byte-20!events-${TOKENS}-burst`, PRICES);
  return world;
}

/**
 * Drives a new company over its budget.
 * @param replicas how many share the budget; a single one knows of all it admits
 * @param of whose budget it is: of the company for the month or the day, or of the one end user whom all calls name
 */
export async function cross(
  world: FaultWorld,
  urls: readonly string[],
  mode: string,
  workers: number,
  replicas: number,
  of: 'month' | 'day' | 'end user' = 'month',
): Promise<Crossing> {
  const budget = parseEur('12');
  const isPersonal = of === 'end user';
  const { company, key } = await world.newCompany({
    budget: isPersonal ? null : formatEur(budget),
    mode,
  });
  if (of === 'day')
    await world.sql`update companies set daily_budget_eur = monthly_budget_eur, monthly_budget_eur = null where id = ${company}`;
  if (isPersonal)
    await world.sql`
      update api_keys set end_users = 'header', end_user_budget_eur = ${formatEur(budget)} where company_id = ${company}`;
  // a part to begin with, by the application's own chat, which is of no end user
  const chat = isPersonal ? 0n : (budget * 99n) / 100n / 4n;
  await world.sql`insert into chat_usage (company_id, cost_eur) values (${company}, ${formatEur(chat)})`;
  const load = startLoad({
    urls: () => urls,
    key,
    workers,
    kinds: ['plain', 'stream'],
    user: 'ann',
    chatModel: 'priced',
    isRated: true,
    more: { max_tokens: TOKENS },
    restMs: 5,
  });
  await load.more(workers * 4, 'refused for the budget', ({ status }) => status === 402);
  const journal = await load.stop();

  const upstream = world.upstreamJournal();
  const prices = (await pricesOf(world.sql)).get('priced');
  const cost = ({ marker, at, tier }: Journalled): bigint => {
    const usage = upstream.get(marker)?.usage;
    if (usage === null || usage === undefined) return 0n;
    return rightCost(prices, usage, at, tier).cost;
  };
  const served = journal
    .filter(({ status }) => status === 200)
    .sort((a, b) => a.endedAt - b.endedAt);
  let spent = chat;
  let crossedAt = Number.POSITIVE_INFINITY;
  for (const one of served) {
    spent += cost(one);
    if (spent >= budget && crossedAt === Number.POSITIVE_INFINITY) crossedAt = one.endedAt;
  }
  // in flight at the crossing; with other replicas also what was admitted within the second after it
  const allowed = served
    .filter(
      ({ at, endedAt }) => endedAt >= crossedAt && at <= crossedAt + (replicas > 1 ? 1000 : 0),
    )
    .reduce((sum, one) => sum + cost(one), 0n);
  const early = journal.filter(({ status, endedAt }) => {
    if (status !== 402) return false;
    // spent for certain and perhaps: what ended at the client before the refusal did, and what was still open
    const perhaps = served
      .filter(({ at }) => at <= endedAt)
      .reduce((sum, one) => sum + cost(one), chat);
    return perhaps < budget;
  });
  return {
    budget,
    spent,
    allowed,
    early,
    refused: journal.filter(({ status }) => status === 402).length,
    journal,
  };
}
