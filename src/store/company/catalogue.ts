import type { Moment } from '../../domain/price.ts';
import type { RateTexts } from '../../domain/pricing/rates.ts';
import { PRICE_NAMES, PRICES, pricesOf, type SomePrices } from '../../domain/settings/model.ts';
import type { ModelSizes } from '../../domain/settings/model-sizes.ts';
import { settingColumns } from '../connection/columns.ts';
import { BILLING_ZONE, TODAY } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { type ModelName, type ModelRow, sharedModels } from './model.ts';
import { instantOf, throwBegun } from './price.ts';

/** A price with its rates, as they are stored. */
export interface RatedTexts {
  readonly prices: SomePrices;
  readonly rates: readonly RateTexts[] | null;
}

/** A shared model, what it costs now, and what the operator pays; null: no cost price is set. */
export interface PricedModel {
  readonly model: ModelRow;
  readonly now: RatedTexts;
  readonly cost: RatedTexts | null;
}

/** The shared models, or those of some slugs that there are. */
export async function pricedModels(
  sql: Sql,
  slugs: readonly string[] | null,
): Promise<PricedModel[]> {
  const models = await sharedModels(sql, slugs);
  const rates = await sql<{ slug: string; rates: RateTexts[] | null }[]>`
    select slug, rates from models where company_id is null`;
  const costs = await sql<({ slug: string; rates: RateTexts[] | null } & SomePrices)[]>`
    select distinct on (slug) slug, ${settingColumns(sql, PRICES)}, rates from model_cost_prices
    where company_id is null and valid_from <= ${sql.unsafe(TODAY)} order by slug, valid_from desc`;
  return models.map((model) => {
    const cost = costs.find(({ slug }) => slug === model.slug);
    return {
      model,
      now: {
        prices: pricesOf<string | null>(model),
        rates: rates.find(({ slug }) => slug === model.slug)?.rates ?? null,
      },
      cost: cost === undefined ? null : { prices: cost, rates: cost.rates },
    };
  });
}

/** Sets what a shared model costs from now on on; a part that is left out has no price. */
export async function setPrice(
  sql: Sql,
  slug: string,
  { prices, rates }: RatedTexts,
): Promise<void> {
  const set = PRICE_NAMES.map(
    (name) => sql`${sql(`cost_eur_per_1k_${name}`)} = ${prices[name] ?? null}::numeric,`,
  );
  await sql`update models set ${set} rates = ${jsonOf(sql, rates)} where slug = ${slug} and company_id is null`;
}

/** Sets the rates of a model from now on, beside the prices that it has. */
export async function setRates(
  sql: Sql,
  { slug, company_id }: ModelName,
  rates: readonly RateTexts[],
): Promise<void> {
  await sql`update models set rates = ${jsonOf(sql, rates)}
    where slug = ${slug} and company_id is not distinct from ${company_id}`;
}

/** Sets what a shared model costs from a moment on. @throws RefusedChange when it cannot begin then */
export async function schedulePriceWithRates(
  sql: Sql,
  slug: string,
  { prices, rates }: RatedTexts,
  from: Moment,
): Promise<void> {
  const each = PRICE_NAMES.map((name) => sql`, ${prices[name] ?? null}::numeric`);
  const again = PRICE_NAMES.map((name) => sql`${sql(name)} = excluded.${sql(name)},`);
  await sql`
    insert into model_prices (slug, valid_from, rates ${PRICE_NAMES.map((name) => sql`, ${sql(name)}`)})
    values (${slug}, ${instantOf(sql, from)}, ${jsonOf(sql, rates)} ${each})
    on conflict (slug, coalesce(company_id, '00000000-0000-0000-0000-000000000000'), valid_from)
    do update set ${again} rates = excluded.rates`.catch((error: { constraint_name?: string }) => {
    throw error.constraint_name === 'model_prices_begun' ? throwBegun('A price') : error;
  });
}

function jsonOf(sql: Sql, rates: readonly RateTexts[] | null) {
  return sql`${rates === null || rates.length === 0 ? null : JSON.stringify(rates)}::text::jsonb`;
}

export async function setSizes(sql: Sql, slug: string, sizes: ModelSizes): Promise<void> {
  await sql`update models set context_length = coalesce(${sizes.context_length ?? null}, context_length),
    max_output_tokens = coalesce(${sizes.max_output_tokens ?? null}, max_output_tokens) where slug = ${slug} and company_id is null`;
}

/** A call that the last month has of a shared model: what its price depends on, and what it cost. */
export interface PastCall {
  readonly slug: string;
  readonly prompt: number;
  readonly completion: number;
  readonly cached: number | null;
  readonly cacheWrite: number | null;
  readonly cacheWriteHour: number | null;
  readonly audioPrompt: number | null;
  readonly imagePrompt: number | null;
  readonly reasoning: number | null;
  readonly audioCompletion: number | null;
  readonly imageCompletion: number | null;
  readonly searchUnits: number | null;
  /** The name of the rate that held. */
  readonly rate: string | null;
  /** Milliseconds since the epoch. */
  readonly at: number;
  /** The factor of its company, and the cost in EUR, as decimal text. */
  readonly factor: string;
  readonly cost: string;
}

/** The calls of the last billing month of some shared models, some at a time. */
export async function* lastMonthCalls(
  sql: Sql,
  slugs: readonly string[],
): AsyncGenerator<readonly PastCall[]> {
  // materialized: rows may be on other servers than prices and factors
  yield* sql<PastCall[]>`
    with u as materialized (
      select model_slug, company_id, prompt_tokens, completion_tokens, cached_tokens, cache_write_tokens, cache_write_1h_tokens, audio_prompt_tokens,
        image_prompt_tokens, reasoning_tokens, audio_completion_tokens, image_completion_tokens, search_units, rate, occurred_at, cost_eur
      from api_usage where model_slug = any(${[...slugs]}::text[])
        and billing_month = (date_trunc('month', now() at time zone ${sql.unsafe(BILLING_ZONE)}) - interval '1 month')::date
    )
    select model_slug as slug, prompt_tokens::float8 as prompt, completion_tokens::float8 as completion, cached_tokens::float8 as cached,
      cache_write_tokens::float8 as "cacheWrite", cache_write_1h_tokens::float8 as "cacheWriteHour", audio_prompt_tokens::float8 as "audioPrompt",
      image_prompt_tokens::float8 as "imagePrompt", reasoning_tokens::float8 as reasoning, audio_completion_tokens::float8 as "audioCompletion",
      image_completion_tokens::float8 as "imageCompletion", search_units::float8 as "searchUnits", rate,
      extract(epoch from occurred_at)::float8 * 1000 as at, trim_scale(f.factor)::text as factor, trim_scale(cost_eur)::text as cost
    from u, price_factor(u.company_id, u.occurred_at) f
    where (select l.company_id from list_price(u.model_slug, u.company_id, u.occurred_at) l) is null`.cursor(
    5000,
  );
}
