import type { BilledCall, CostFacts } from '../../domain/documents/reconcile.ts';
import { expectedCost } from '../../domain/documents/reconcile-reasons.ts';
import { COUNTED_PARTS } from '../../domain/pricing/parts.ts';
import { type Prices, parsePrices, type SomeCounts } from '../../domain/pricing/prices.ts';
import { conditionsOf, parseRates } from '../../domain/pricing/rates.ts';
import { PRICED, type PriceTexts } from '../../domain/settings/model.ts';
import { TOKEN_DETAILS } from '../../domain/usage.ts';
import { settingColumns } from '../connection/columns.ts';
import { BILLING_ZONE, PART_COUNTS } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';

interface Row extends Omit<BilledCall, 'name' | 'cost' | 'facts'>, SomeCounts {
  readonly requestId: string;
  readonly slug: string;
  readonly rate: string | null;
  /** The company whose own model it was; null: the shared one, or costs are not asked for. */
  readonly owner: string | null;
  /** In the billing time zone. */
  readonly day: string;
}

/**
 * Ledger rows of all companies admitted between two instants, milliseconds since the epoch.
 * @param isCosted whether to compute what each call should cost by `model_cost_prices`; about 20 µs a call
 */
export async function readCalls(
  sql: Sql,
  from: number,
  to: number,
  isCosted: boolean,
): Promise<BilledCall[]> {
  const calls: BilledCall[] = [];
  const [since, until] = [new Date(from).toISOString(), new Date(to).toISOString()];
  const costs = isCosted ? await readCosts(sql) : new Map<string, readonly Cost[]>();
  // materialized: rows may be on other servers than the prices
  const rows = sql<Row[]>`
    with u as materialized (
      select request_id, upstream_model, model_slug, company_id, prompt_tokens, completion_tokens, ${sql.unsafe(TOKEN_DETAILS.join(', '))}, rate, cost_eur,
        occurred_at
      from api_usage where occurred_at between ${since}::timestamptz and ${until}::timestamptz
        and billing_month between (${since}::timestamptz - interval '2 days' - interval '1 month')::date and (${until}::timestamptz + interval '2 days')::date
    )
    select request_id::text as "requestId", upstream_model as model, model_slug as slug, prompt_tokens::float8 as "promptTokens",
      completion_tokens::float8 as "completionTokens", ${sql.unsafe(PART_COUNTS)}, rate, extract(epoch from occurred_at)::float8 * 1000 as at,
      (occurred_at at time zone ${sql.unsafe(BILLING_ZONE)})::date::text as day, trim_scale(cost_eur)::text as charged, company_id as "companyId",
      ${isCosted ? sql`(select l.company_id from list_price(u.model_slug, u.company_id, u.occurred_at) l)` : sql`null`} as owner
    from u`;
  for await (const batch of rows.cursor(5000)) {
    for (const row of batch) {
      const { requestId, model, promptTokens, completionTokens, at, charged, companyId } = row;
      const facts = factsOf(row, costs);
      const call = { requestId, model, promptTokens, completionTokens, at, charged, companyId };
      const cost = facts && expectedCost(call, facts);
      calls.push({ ...call, name: requestId, cost, facts });
    }
  }
  return calls;
}

interface Cost {
  readonly from: string;
  readonly prices: Prices;
}

/** The cost prices of each model, the latest first. */
async function readCosts(sql: Sql): Promise<ReadonlyMap<string, readonly Cost[]>> {
  const rows = await sql<(PriceTexts & { slug: string; owner: string | null; from: string })[]>`
    select slug, company_id as owner, valid_from::text as from, ${settingColumns(sql, PRICED)}
    from model_cost_prices p order by valid_from desc`;
  const costs = rows.map(({ slug, owner, from, rates, input, output, ...others }) => {
    const prices = parsePrices(input, output, others, parseRates(rates));
    return { name: `${owner} ${slug}`, cost: { from, prices } };
  });
  const named = Map.groupBy(costs, ({ name }) => name);
  return new Map([...named].map(([name, all]) => [name, all.map(({ cost }) => cost)]));
}

/** The price of the day: that of the company's own model where the call was of one, else the shared one; null: none. */
function factsOf(row: Row, costs: ReadonlyMap<string, readonly Cost[]>): CostFacts | null {
  const known = costs.get(`${row.owner} ${row.slug}`) ?? [];
  const held = known.findIndex(({ from }) => from <= row.day);
  if (held < 0) return null;
  return {
    prices: known.map(({ prices }) => prices),
    held,
    tier: row.rate === null ? null : (conditionsOf(row.rate).tier ?? null),
    counts: Object.fromEntries(COUNTED_PARTS.map(({ count }) => [count, row[count] ?? null])),
  };
}
