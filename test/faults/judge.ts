import type { Sql } from 'postgres';
import type { Sql as StoreSql } from '../../src/store/connection/pool.ts';
import { verifyLedger, verifySeals, verifySums } from '../../src/store/statement/verify.ts';
import { decimal } from '../ledger/oracle.ts';
import { type Price, priceOf, type Rated, type Texts } from '../ledger/rate-oracle.ts';
import type { JournalCall } from '../support/demo/server.ts';
import type { Journalled } from './load.ts';

/** What the ledger holds, against the journals of clients and upstream. */
export interface Verdict {
  /** Answers complete at the client. */
  readonly complete: number;
  readonly rows: number;
  /** Complete answers without a row; rows of one request beyond the first; rows that differ from the upstream's journal. */
  readonly missing: string[];
  readonly duplicates: number;
  readonly wrong: string[];
  /** How many different prices the calls had: the base price, and rates. */
  readonly prices: number;
  /** Differences between rows, counters and seals. */
  readonly unverified: number;
}

interface Row {
  request_id: string;
  month: string;
  prompt_tokens: number;
  completion_tokens: number;
  cost: string;
  model: string;
  at: number;
  rate: string | null;
  units: number | null;
  usage_source: string;
  outcome: string;
  cached: number | null;
  written: number | null;
  /** What the upstream says that it cost itself. */
  told: string | null;
  /** Whether its key takes the names of end users, and that of this call. */
  named: boolean | null;
  person: string | null;
}

/** What the demo upstream tells at the end of its streams, beside the counts. */
interface Told {
  readonly cost?: number;
  readonly prompt_tokens_details?: { readonly cached_tokens: number };
  readonly search_units?: number;
}

/** Since when a model has a price. */
type Dated = Price & { readonly from: number };

/** The prices of each shared model, the newest first. */
export async function pricesOf(sql: Sql): Promise<Map<string, Dated[]>> {
  const rows = await sql<({ slug: string; from: number; rates: Rated[] | null } & Texts)[]>`
    select p.*, (extract(epoch from valid_from) * 1000)::float8 as from, to_jsonb(p) -> 'rates' as rates
    from model_prices p where company_id is null and input is not null order by valid_from desc`;
  const prices = rows.map(({ slug, from, rates, ...texts }) => ({
    slug,
    from,
    texts,
    rates: rates ?? [],
  }));
  return Map.groupBy(prices, ({ slug }) => slug);
}

/** What a call costs that the upstream told, and by which rate, by an oracle. Amount in 10^-15 EUR. */
export function rightCost(
  prices: readonly Dated[] | undefined,
  usage: NonNullable<JournalCall['usage']>,
  at: number,
  tier: string | null,
): { readonly cost: bigint; readonly rate: string | null } {
  const price = prices?.find(({ from }) => from <= at) ?? prices?.at(-1);
  if (price === undefined) throw new Error('a model without a price');
  const { prompt_tokens: prompt, completion_tokens: completion = 0 } = usage;
  const { prompt_tokens_details: details, search_units = null } = usage as Told;
  const units = { cache_read: details?.cached_tokens ?? null, search_unit: search_units };
  return priceOf(price, 100n, { prompt, completion, units }, at, tier);
}

/** How many complete answers are not booked: less to ask again and again than `judge`. */
export async function unbooked(sql: Sql, clients: readonly Journalled[]): Promise<number> {
  const rows = await sql<{ id: string }[]>`select request_id::text as id from api_usage`;
  const booked = new Set<string | null>(rows.map(({ id }) => id));
  return clients.filter(
    ({ complete, status, requestId }) => complete && status === 200 && !booked.has(requestId),
  ).length;
}

export async function judge(
  sql: Sql,
  clients: readonly Journalled[],
  upstream: ReadonlyMap<string, JournalCall>,
): Promise<Verdict> {
  const rows = await sql<Row[]>`
    select request_id::text, billing_month::text as month, prompt_tokens::integer, completion_tokens::integer,
      trim_scale(cost_eur)::text as cost, model_slug as model, (extract(epoch from occurred_at) * 1000)::float8 as at, rate,
      search_units::integer as units, usage_source, outcome,
      cached_tokens::integer as cached, cache_write_tokens::integer as written, trim_scale(c.cost)::text as told,
      k.end_users <> 'off' as named, e.name as person
    from api_usage u left join upstream_costs c using (company_id, billing_month, request_id)
    left join api_keys k on k.id = u.api_key_id left join end_users e on e.id = u.end_user_id`;
  const prices = await pricesOf(sql);
  const byRequest = new Map(rows.map((row) => [row.request_id, row]));
  const complete = clients.filter((one) => one.complete && one.status === 200);
  const wrong: string[] = [];
  for (const one of clients) {
    const row = one.requestId === null ? undefined : byRequest.get(one.requestId);
    if (row === undefined) continue;
    const usage = upstream.get(one.marker)?.usage;
    if (row.usage_source === 'upstream') {
      const same =
        row.prompt_tokens === usage?.prompt_tokens &&
        row.completion_tokens === (usage.completion_tokens ?? 0);
      if (!same)
        wrong.push(
          `${row.request_id}: ${row.prompt_tokens}+${row.completion_tokens}, told ${JSON.stringify(usage)}`,
        );
      const told = (usage ?? {}) as Told;
      if (told.cost !== undefined) {
        if (
          Number(row.told) !== told.cost ||
          row.cached !== told.prompt_tokens_details?.cached_tokens
        )
          wrong.push(
            `${row.request_id}: ${row.cached} cached, at ${row.told}; told ${JSON.stringify(usage)}`,
          );
      }
    } else if (one.complete) wrong.push(`${row.request_id}: estimated although the upstream told`);
    if (row.named && row.person !== one.user)
      wrong.push(`${row.request_id}: is of ${row.person}, not of ${one.user}`);
    const estimated = {
      prompt_tokens: row.prompt_tokens,
      completion_tokens: row.completion_tokens,
      total_tokens: row.prompt_tokens + row.completion_tokens,
      prompt_tokens_details: { cached_tokens: row.cached },
      search_units: row.units,
    };
    const counts = row.usage_source === 'upstream' && usage ? usage : estimated;
    const { cost, rate } = rightCost(prices.get(row.model), counts, row.at, one.tier);
    if (row.cost !== decimal(cost) || row.rate !== rate)
      wrong.push(
        `${row.request_id}: costs ${row.cost} at ${row.rate}, not ${decimal(cost)} at ${rate}`,
      );
  }
  const { differences } = await verifyLedger(sql as unknown as StoreSql);
  const daily = await verifySums(sql as unknown as StoreSql, 'daily');
  const details = await verifySums(sql as unknown as StoreSql, 'details');
  const people = await verifySums(sql as unknown as StoreSql, 'end_user_days');
  const told = await verifySums(sql as unknown as StoreSql, 'upstream');
  const seals = await verifySeals(sql as unknown as StoreSql);
  return {
    complete: complete.length,
    rows: rows.length,
    missing: complete
      .filter(({ requestId }) => !byRequest.has(requestId as string))
      .map(({ marker }) => marker),
    duplicates: rows.length - byRequest.size,
    wrong,
    prices: new Set(rows.map(({ rate }) => rate)).size,
    unverified:
      differences.length +
      daily.total +
      details.total +
      people.total +
      told.total +
      seals.total +
      seals.unsealed,
  };
}
