import type { Moment } from '../../domain/price.ts';
import { COST_PARTS, isListed } from '../../domain/pricing/parts.ts';
import { throwConflict, throwNotFound } from '../../domain/refusal.ts';
import {
  eachPrice,
  PRICE_NAMES,
  PRICED,
  type PriceTexts,
  RATES,
  type SomePrices,
} from '../../domain/settings/model.ts';
import * as schema from '../../domain/settings/schema.ts';
import { settingColumns } from '../connection/columns.ts';
import type { Range } from '../connection/cursor.ts';
import { explaining } from '../connection/errors.ts';
import { dayBegins, nilId } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { rowsIn } from '../connection/rows.ts';
import { outside } from '../connection/tenant-role.ts';
import { type ModelName, unknownModel } from './model.ts';

/** Prices; null, all of them: there was no such model; null, those of the cache: the input price. */
const orNone = eachPrice(
  (_, each): schema.Schema<string | null> =>
    each.isNullable ? each.schema : schema.orNull(each.schema),
);

/** A price of a model since an instant. The name is null for the shared model, and for a company that is gone. */
export const PRICE_ROW = schema.object({
  id: schema.id,
  slug: schema.slug,
  company_id: schema.orNull(schema.id),
  company_name: schema.textOrNull,
  valid_from: schema.time,
  ...orNone,
  rates: RATES.rates.schema,
  input: schema.described(
    orNone.input,
    'EUR per 1000 tokens; null: from then on there was no such model',
  ),
  changed_by: schema.string,
  created_at: schema.time,
  begun: schema.described(schema.boolean, 'false: it can be withdrawn'),
});
export type PriceRow = schema.Value<typeof PRICE_ROW>;

/** A price during a part of a day. */
export const PRICE_ANSWER = schema.object({
  from: schema.described(
    schema.time,
    'since when within the day, or the instant that was asked for',
  ),
  valid_from: schema.described(
    schema.orNull(schema.time),
    'when this price began; null: there was no such model',
  ),
  company_id: schema.described(
    schema.orNull(schema.id),
    'the company whose own model it was; null: the shared model',
  ),
  ...orNone,
  rates: RATES.rates.schema,
  factor: schema.described(
    schema.orNull(schema.priceFactor),
    'the factor of the company, which is in these prices; null: there was no such model',
  ),
});
export type PriceAnswer = schema.Value<typeof PRICE_ANSWER>;

/** A price that begins at a date. One that is absent is as before. */
export type NewPrice = ModelName & { readonly from: Moment } & SomePrices;

const ROWS = rowsIn<PriceRow>({
  table: 'model_prices',
  noun: 'price',
  columns: (
    sql,
  ) => sql`id, slug, company_id, (select name from companies c where c.id = model_prices.company_id) as company_name,
    valid_from, ${settingColumns(sql, PRICED)}, changed_by, created_at, valid_from <= clock_timestamp() as begun`,
  missing: noComingPrice,
});

/**
 * All prices of a slug, the latest first: those of the shared model, and of companies' own.
 * @param company only the shared model and that company's own; null: all
 */
export function priceHistory(
  sql: Sql,
  slug: string,
  company: string | null = null,
): Promise<PriceRow[]> {
  return ROWS.list(
    sql,
    sql`where slug = ${slug} and (${company}::uuid is null or company_id is null or company_id = ${company})
      order by valid_from desc, company_id nulls first`,
  );
}

/**
 * Prices of one model, the latest first, at most so many.
 * @param after the last price that was read; null: from the latest
 * @throws Refused missing when it is gone
 */
export async function pricesOfModel(
  sql: Sql,
  { slug, company_id: company }: ModelName,
  { after, limit }: Range,
): Promise<PriceRow[]> {
  const before = after === null ? null : await findPrice(sql, { slug, company_id: company }, after);
  return ROWS.list(
    sql,
    sql`where slug = ${slug} and company_id is not distinct from ${company}
      and (${before?.id ?? null}::uuid is null or valid_from < (select valid_from from model_prices where id = ${before?.id ?? null}))
      order by valid_from desc limit ${limit}`,
  );
}

/** A price of a model. @throws Refused missing */
export async function findPrice(
  sql: Sql,
  { slug, company_id: company }: ModelName,
  id: string,
): Promise<PriceRow> {
  const of = sql`where id = ${id} and slug = ${slug} and company_id is not distinct from ${company}`;
  const [row] = await ROWS.list(sql, of);
  return row ?? throwNotFound('price');
}

/** The price of a model from a moment on, and whether it can be changed. */
export interface DatedPrice {
  /** The price that begins then; null: none does. */
  readonly price: (PriceTexts & Readonly<Record<'id' | 'changed_by', string>>) | null;
  /** The moment as an instant. */
  readonly at: Date;
  /** The moment is over. */
  readonly passed: boolean;
  /**
   * Whether the moment is too near to add or change a price: it has passed, or comes within a minute. So a change that
   * a page offers can still be made.
   */
  readonly late: boolean;
}

/** The price of a model that begins at a moment. Programs that write SQL may name a part of a millisecond, which is left out. */
export async function datedPrice(sql: Sql, model: ModelName, from: Moment): Promise<DatedPrice> {
  const [dated] = await datedPrices(sql, [{ ...model, from }]);
  return dated as DatedPrice;
}

/** As `datedPrice`, of many models in one statement, in their order. */
export async function datedPrices(
  sql: Sql,
  asked: readonly (ModelName & { from: Moment })[],
): Promise<DatedPrice[]> {
  const days = asked.map(({ from }) => ('day' in from ? from.day : null));
  const instants = asked.map(({ from }) => ('at' in from ? from.at.toISOString() : null));
  return sql<DatedPrice[]>`
    select case when p.input is not null then json_build_object('id', p.id, 'changed_by', p.changed_by
        ${PRICE_NAMES.map((name) => sql`, ${name}::text, trim_scale(p.${sql(name)})::text`)}, 'rates', p.rates) end as price,
      start as at, start <= now() as passed, start < now() + interval '1 minute' as late
    from (
      select slug, company_id, n, coalesce(at, ${sql.unsafe(dayBegins('day'))}) as start
      from unnest(${asked.map(({ slug }) => slug)}::text[], ${asked.map(({ company_id }) => company_id)}::uuid[],
        ${days}::date[], ${instants}::timestamptz[]) with ordinality as t (slug, company_id, day, at, n)) as asked
    left join model_prices p on p.slug = asked.slug and p.company_id is not distinct from asked.company_id
      and date_trunc('milliseconds', p.valid_from) = start
    order by n`;
}

/** Prices to come and cost prices of all models, in the order of their dates. */
export async function listDatedPrices(
  sql: Sql,
): Promise<Record<'prices' | 'costs', readonly ListedPrice[]>> {
  const columns = sql`slug, company_id, ${settingColumns(sql, PRICED)}`;
  const prices = await sql<ListedPrice[]>`
    select ${columns}, utc_text(valid_from) as valid_from
    from model_prices p where valid_from > now() and not applied order by p.valid_from`;
  const costs = await sql<ListedPrice[]>`
    select ${columns}, valid_from::text as valid_from from model_cost_prices p order by p.valid_from`;
  return { prices, costs };
}

/** A price since an instant, or a cost price since a day. */
export type ListedPrice = ModelName & PriceTexts & { readonly valid_from: string };

/**
 * The prices of a company on a day, or at an instant: one answer for each part of the day.
 * @param company null: one without a model of its own
 */
export async function pricesOn(
  sql: Sql,
  slug: string,
  company: string | null,
  moment: Moment,
): Promise<PriceAnswer[]> {
  const rows = await sql<PriceAnswer[]>`
    with span as materialized (select ${instantOf(sql, moment)} as first, ${instantOf(sql, moment, 1)} as after),
    instants as (
      select first as at from span
      union select valid_from from model_prices, span
      where slug = ${slug} and (company_id is null or company_id = ${company}) and valid_from > first and valid_from < after
      union select valid_from from company_price_factors, span
      where company_id = ${company} and valid_from > first and valid_from < after
    )
    select at as from, valid_from, company_id, ${settingColumns(sql, PRICED)}, trim_scale(factor)::text as factor
    from instants left join lateral model_price(${slug}, ${company}, at) on true order by at`;
  return rows.filter((row, i) => i === 0 || !isSame(row, rows[i - 1] as PriceAnswer));
}

function isSame(one: PriceAnswer, other: PriceAnswer): boolean {
  return (
    one.company_id === other.company_id && one.valid_from?.getTime() === other.valid_from?.getTime()
  );
}

/** What prices of any time ask for: reports tell it only then. */
interface AskedOfPrices {
  /** Tokens of the cache. */
  readonly cached: boolean;
  /** Another part than those with columns in a ledger row, or a rate. */
  readonly listed: boolean;
}

export async function askedOfPrices(sql: Sql): Promise<AskedOfPrices> {
  const [asked] = await outside(
    sql,
    () => sql<[AskedOfPrices]>`
    select exists (select from model_prices where coalesce(cache_read, cache_write) is not null
        or jsonb_path_exists(rates, '$[*] ? (@.cache_read != null || @.cache_write != null)')) as cached,
      exists (select from model_prices where coalesce(${sql.unsafe(COST_PARTS.filter(isListed).join(', '))}) is not null or rates is not null) as listed`,
  );
  return asked;
}

export async function asksForCached(sql: Sql): Promise<boolean> {
  return (await askedOfPrices(sql)).cached;
}

const COLUMNS = schema.namesOf(PRICED);

/** A price, or the rates, for `insert`. */
export function priceValue(sql: Sql, price: SomePrices, name: keyof typeof PRICED) {
  return name === 'rates'
    ? sql`${(price.rates ?? null) as never}::jsonb`
    : sql`${price[name] ?? null}::numeric`;
}

/** The price of a model that holds until a moment; null: there is none. */
export async function priceBefore(
  sql: Sql,
  { slug, company_id: company }: ModelName,
  from: Moment,
): Promise<PriceRow | null> {
  const [row] = await ROWS.list(
    sql,
    sql`where slug = ${slug} and company_id is not distinct from ${company}
      and valid_from < ${instantOf(sql, from)} order by valid_from desc limit 1`,
  );
  return row ?? null;
}

/** Lets a price begin at a date, in place of one that was to begin at the same instant. @throws Refused */
export async function insertPrice(sql: Sql, price: NewPrice): Promise<PriceRow> {
  const { slug, company_id: company } = price;
  const each = (of: (name: keyof typeof PRICED) => ReturnType<typeof instantOf>) =>
    COLUMNS.map((name) => sql`, ${of(name)}`);
  const row: PriceRow | undefined = await ROWS.insert(
    sql,
    sql`(slug, company_id, valid_from ${each((name) => sql`${sql(name)}`)})
      select slug, company_id, start ${each((name) => (price[name] === undefined ? sql`before.${sql(name)}` : priceValue(sql, price, name)))}
      from (select m.slug, m.company_id, ${instantOf(sql, price.from)} as start from models m
        where m.slug = ${slug} and m.company_id is not distinct from ${company}) as model
      left join lateral (select ${sql(COLUMNS)} from model_prices p
        where p.slug = model.slug and p.company_id is not distinct from model.company_id and p.valid_from < start
        order by valid_from desc limit 1) as before on true
      on conflict (slug, coalesce(company_id, ${nilId(sql)}), valid_from)
      do update set valid_from = excluded.valid_from ${each((name) => sql`${sql(name)} = excluded.${sql(name)}`)}`,
    company,
    BEGUN,
  );
  return row ?? unknownModel(price);
}

/** @throws Refused missing, or conflict when it has begun */
export function deletePrice(sql: Sql, id: string): Promise<PriceRow> {
  return explaining(ROWS.remove(sql, id), BEGUN);
}

export function noComingPrice(): never {
  throwNotFound('price', 'There is no such price to come.');
}

const BEGUN = { model_prices_begun: () => throwBegun('A price') };

/** @param what begins at a date */
export function throwBegun(what: string): never {
  throwConflict(
    'price',
    `${what} begins five seconds from now or later, and one that has begun cannot be changed or withdrawn.`,
  );
}

/** The instant of a moment; of a day its beginning in the billing time zone. @param days later, for a day */
export function instantOf(sql: Sql, moment: Moment, days = 0) {
  if ('at' in moment) return sql`${moment.at}::timestamptz`;
  return sql`(select ${sql.unsafe(dayBegins('day'))} from (select ${moment.day}::date + ${days}::integer as day) as asked)`;
}
