import { COUNTED_PARTS } from '../../domain/pricing/parts.ts';
import {
  type Prices,
  type PriceTexts,
  parsePrices,
  type SomeCounts,
} from '../../domain/pricing/prices.ts';
import { parseRates, type RateTexts } from '../../domain/pricing/rates.ts';
import { unknownCompany } from '../../domain/refusal.ts';
import { intervalOf } from '../../domain/reports/day-range.ts';
import {
  addChanges,
  CHANGE,
  type ChangeParts,
  type ComparedModel,
  DIFFERENCE,
  type ExplainedChange,
  explainChange,
  type RatedCalls,
} from '../../domain/reports/usage-change.ts';
import { PRICE_NAMES } from '../../domain/settings/model.ts';
import * as schema from '../../domain/settings/schema.ts';
import { type BookedDetails, sumUsage, TOKEN_DETAILS, type UsageSums } from '../../domain/usage.ts';
import { askedOfPrices } from '../company/price.ts';
import { dayBegins } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { outside } from '../connection/tenant-role.ts';
import {
  type Cube,
  type Fragment,
  readCube,
  readMoves,
  SUMMED,
  type Times,
  type UsageFilters,
  usageSums,
} from './cube.ts';

/** The cost of a day; of a month, named by its first day, where one of the ranges is longer than 62 days. */
const timeCost = schema.object({
  time: schema.oneOf(['before', 'after']),
  at: schema.day,
  cost_eur: schema.sum,
});

/** Why usage changed, of API calls without in-app chat. */
export const EXPLAINED = {
  total: CHANGE,
  by_model: schema.array(
    schema.object({ ...CHANGE.properties, model: schema.string }),
    'those that changed most first',
  ),
  by_time: schema.array(
    timeCost,
    'by day, or by month where one of the times is longer than 62 days',
  ),
};

const mover = { before_eur: schema.sum, after_eur: schema.sum, difference_eur: DIFFERENCE };

/** The lines of a report whose cost changed most, and the count of all lines whose cost changed. */
export function movers<P extends schema.Properties>(members: P) {
  return schema.object({
    count: schema.count,
    lines: schema.array(schema.object({ ...mover, ...members })),
  });
}

/** Name and prefix are null for a key that no longer exists. */
export const USAGE_CHANGE = schema.object({
  company_name: schema.string,
  ...EXPLAINED,
  by_key: movers({ id: schema.id, name: schema.textOrNull, prefix: schema.textOrNull }),
  by_cost_center: movers({ cost_center: schema.string }),
});

export type UsageChange = schema.Value<typeof USAGE_CHANGE>;
export type ModelChange = UsageChange['by_model'][number];
export type TimeCost = schema.Value<typeof timeCost>;
export type Mover = schema.Members<typeof mover, keyof typeof mover>;
export interface Movers<T> {
  readonly count: number;
  readonly lines: readonly (Mover & T)[];
}

/**
 * Sums of one model in the time before (0) or after (1). `company_id`: the company whose own price is the reference; null:
 * the shared price. Token details are absent where no price needs them, and null where the upstream told none.
 */
interface ModelSums extends UsageSums, Partial<BookedDetails> {
  readonly time: 0 | 1;
  readonly model: string;
  readonly company_id: string | null;
  /** The price factor of the companies in this row, on the shared price; absent: 1. */
  readonly factor?: string;
}
/** Sums of the calls that had a rate. */
export type RatedSums = ModelSums & { readonly rate: string };

const MOST_MOVERS = 10;

/**
 * Explains why a company spent more or less, from the sums that the usage page reads for both ranges.
 * @throws Refused missing
 */
export async function readUsageChange(
  sql: Sql,
  companyId: string,
  { before, after }: Times,
  filters: UsageFilters,
  most = MOST_MOVERS,
): Promise<UsageChange> {
  const at = atOf({ before, after });
  const of = { company: companyId, filters, range: { before, after } };
  const { cached: asks, listed } = await askedOfPrices(sql);
  const cached = readCached(sql, asks || listed, { ...of, by: ['model_slug'] });
  type Row = Omit<UsageChange, 'total' | 'by_model'> & { models: readonly ModelSums[] };
  await sql`select set_config('work_mem', '32MB', true)`;
  const [row] = await sql<Row[]>`
    with cells as materialized (${readCube(sql, { ...of, by: ['model_slug', 'cost_center', at], measures: SUMMED })}),
    cached as materialized (${cached}),
    keys as materialized (${readMoves(sql, { ...of, by: ['api_key_id'] })}),
    costs as (
      select cost_center, coalesce(sum(cost_eur) filter (where time = 0), 0) as before, coalesce(sum(cost_eur) filter (where time = 1), 0) as after
      from cells group by 1
    ),
    centers as materialized (select * from costs where before <> after)
    select name as company_name,
      (select coalesce(jsonb_agg(m), '[]') from (
        select time, model_slug as model, ${companyId}::uuid as company_id, ${usageSums(sql)}, ${cachedSums(sql)}
        from cells left join cached using (time, model_slug) group by 1, 2) m) as models,
      ${timesJson(sql, sql.unsafe(at), sql`cells`)} as by_time,
      ${moversJson(
        sql,
        sql`keys`,
        sql`api_key_id`,
        sql`left join api_keys k on k.id = x.api_key_id`,
        sql`'id', x.api_key_id, 'name', case when k.company_id = c.id then k.name end,
        'prefix', case when k.company_id = c.id then k.prefix end`,
        most,
      )} as by_key,
      ${moversJson(sql, sql`centers`, sql`cost_center`, sql``, sql`'cost_center', x.cost_center`, most)} as by_cost_center
    from companies c where id = ${companyId}`;
  if (row === undefined) unknownCompany(companyId);
  const { models, ...change } = row;
  const rated = !listed
    ? []
    : await sql<RatedSums[]>`
        select time, model_slug as model, ${companyId}::uuid as company_id, rate, ${usageSums(sql)}, ${cachedSums(sql)}
        from (${readRated(sql, { ...of, by: ['model_slug'] })}) r group by 1, 2, 4`;
  const lines = await compared(sql, models, rated, before.to);
  return { ...change, ...explained(lines) };
}

/** The calls of both times that had a rate. They are read from rows of the ledger, as no sums have rates. */
export function readRated(sql: Sql, asked: Omit<Cube, 'measures'>): Fragment {
  return readCube(sql, {
    ...asked,
    by: [...asked.by, 'rate'],
    measures: [...SUMMED, ...TOKEN_DETAILS],
  });
}

/** The token details at both times. @param asks from `askedOfPrices`; without it nothing is read */
export function readCached(sql: Sql, asks: boolean, asked: Omit<Cube, 'measures'>): Fragment {
  if (asks) return readCube(sql, { ...asked, measures: TOKEN_DETAILS });
  const columns = asked.by.map(
    (name) => `null::${name === 'company_id' ? 'uuid' : 'text'} as ${name}`,
  );
  return sql.unsafe(
    `select 0 as time, ${columns.join(', ')}, ${TOKEN_DETAILS.map((name) => `0 as ${name}`).join(', ')} where false`,
  );
}

/** The columns of the token details, in a group that was joined with `readCached`. */
export function cachedSums(sql: Sql) {
  return sql.unsafe(TOKEN_DETAILS.map((name) => `max(${name})::float8 as ${name}`).join(', '));
}

/** The column by which a chart of both times groups costs. */
export function atOf({ before, after }: Times): 'billing_month' | 'day' {
  return [before, after].some((range) => intervalOf(range) === 'month') ? 'billing_month' : 'day';
}

/** The TimeCosts of rows of `time`, `at` and `cost_eur`. */
export function timesJson(sql: Sql, at: Fragment, rows: Fragment) {
  return sql`(
    select coalesce(jsonb_agg(jsonb_build_object('time', case time when 0 then 'before' else 'after' end,
      'at', to_char(at, 'YYYY-MM-DD'), 'cost_eur', trim_scale(cost)::text) order by time, at), '[]')
    from (select time, ${at} as at, sum(cost_eur) as cost from ${rows} group by 1, 2) t)`;
}

/**
 * The SQL of Movers as JSON, from a table that `readMoves` made; `x` is a row of it.
 * @param group the column whose values are the lines
 * @param joined the join that adds the names of the lines
 * @param members the members of the JSON object of a line
 */
export function moversJson(
  sql: Sql,
  table: ReturnType<Sql>,
  group: ReturnType<Sql>,
  joined: ReturnType<Sql>,
  members: ReturnType<Sql>,
  most: number,
) {
  return sql`(
    select jsonb_build_object('count', (select count(*) from ${table}), 'lines', coalesce(jsonb_agg(
      jsonb_build_object(${members}, 'before_eur', trim_scale(before)::text, 'after_eur', trim_scale(after)::text,
        'difference_eur', trim_scale(after - before)::text) order by abs(after - before) desc, x.${group}), '[]'))
    from (select * from ${table} order by abs(after - before) desc, ${group} limit ${most}) x ${joined})`;
}

export type Compared = ComparedModel & { readonly model: string };

/** Puts the sums of both times beside each other, with the reference price. @param until as for `referencePrices` */
export async function compared(
  sql: Sql,
  models: readonly ModelSums[],
  rated: readonly RatedSums[],
  until: string,
): Promise<Compared[]> {
  const keyOf = ({ model, company_id, factor }: ModelSums) => `${model} ${company_id} ${factor}`;
  const ratedOf = Map.groupBy(rated, keyOf);
  const groups = [...Map.groupBy(models, keyOf).values()] as [ModelSums, ModelSums?][];
  const prices = await referencePrices(
    sql,
    groups.map(([first]) => first),
    until,
  );
  return groups.map((group, at) => {
    const of = (time: 0 | 1) => group.flatMap((each) => (each?.time === time ? each : []));
    return {
      model: group[0].model,
      before: sumUsage(of(0)),
      after: sumUsage(of(1)),
      reference: prices[at] as Prices | null,
      counts: { before: countsOf(of(0)[0]), after: countsOf(of(1)[0]) },
      rated: atReference(prices[at] as Prices | null, ratedOf.get(keyOf(group[0])) ?? []),
    };
  });
}

/** The calls whose rate the reference price has too; a call with another rate has no price to compare with. */
function atReference(reference: Prices | null, rated: readonly RatedSums[]): RatedCalls[] {
  return rated.flatMap(
    ({ time, rate: name, requests, prompt_tokens, completion_tokens, ...sums }) => {
      const rate = reference?.rates.find(({ prices }) => prices.rate === name);
      const calls = { requests, prompt_tokens, completion_tokens, counts: countsOf(sums) };
      return rate === undefined ? [] : [{ ...calls, rate, time: time === 0 ? 'before' : 'after' }];
    },
  );
}

function countsOf(sums: Partial<BookedDetails> = {}): SomeCounts {
  return Object.fromEntries(
    COUNTED_PARTS.map(({ count, column }) => [count, sums[column] ?? null]),
  );
}

/** The price of each model at the end of a day, or the first one after it; null where none is known. */
async function referencePrices(
  sql: Sql,
  models: readonly ModelSums[],
  until: string,
): Promise<(Prices | null)[]> {
  type Row = Partial<PriceTexts> & { readonly rates: readonly RateTexts[] | null };
  const rows = await outside(
    sql,
    () => sql<Row[]>`
    select ${PRICE_NAMES.map((name, at) => sql`${at === 0 ? sql`` : sql`, `}trim_scale(a.factor * case when p.input is null then n.${sql(name)} * f.factor else p.${sql(name)} end)::text as ${sql(name)}`)},
      times_factor(case when p.input is null then times_factor(n.rates, f.factor) else p.rates end, a.factor) as rates
    from (
      select *, ${sql.unsafe(lastInstantOf('until'))} as at
      from (select ${until}::date as until) as asked, unnest(${models.map(({ model }) => model)}::text[],
        ${models.map(({ company_id }) => company_id)}::uuid[], ${models.map(({ factor = '1' }) => factor)}::numeric[])
        with ordinality as m (model, company, factor, place)) a
    left join lateral model_price(a.model, a.company, a.at) p on true
    left join lateral (
      select m.valid_from, ${sql(PRICE_NAMES)}, rates from model_prices m
      where m.slug = a.model and (m.company_id is null or m.company_id = a.company) and m.valid_from > a.at and m.input is not null
      order by m.valid_from, m.company_id nulls last limit 1) n on p.input is null
    left join lateral price_factor(a.company, n.valid_from) f on p.input is null
    order by place`,
  );
  return rows.map(({ rates, input, output, ...others }) =>
    input == null || output == null ? null : parsePrices(input, output, others, parseRates(rates)),
  );
}

/** The last instant of a day whose price can be known. @param day an expression */
export function lastInstantOf(day: string): string {
  return `least(${dayBegins(`${day} + 1`)} - interval '1 microsecond', now())`;
}

/** The change of all models, and of each; a model with several prices is one line. */
export function explained(models: readonly Compared[]): {
  readonly total: ExplainedChange;
  readonly by_model: readonly ModelChange[];
} {
  const { total, lines } = explainChange(models);
  const by_model = [...Map.groupBy(lines, ({ model }) => model)].map(([model, group]) => ({
    ...addChanges(group),
    model,
  }));
  const size = ({ difference_eur }: ChangeParts) => Math.abs(Number(difference_eur));
  return {
    total,
    by_model: by_model.sort((a, b) => size(b) - size(a) || (a.model < b.model ? -1 : 1)),
  };
}
