import { TOKEN_DETAILS } from '../../domain/usage.ts';
import { NIL_ID } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { digestOfRow } from './digest.ts';
import { KEY_DAYS } from './key-days.ts';

/** Differences and findings that a check returns. */
export const MOST = 1000;

/** A table of sums, and what they are the sums of. */
interface Sums {
  readonly table: string;
  readonly period: 'day' | 'hour' | 'month';
  /** SQL for the period, as differences tell it. */
  readonly shown: string;
  /** The columns that tell its rows apart, and its figures. */
  readonly by: string;
  readonly figures: readonly string[];
  /** SQL for the same rows, from what they are sums of. */
  readonly rows: string;
  /** Whether a figure that is missing differs from 0. */
  readonly tellsNone?: boolean;
}

const DAY = { period: 'day', shown: "to_char(day, 'YYYY-MM-DD')" } as const;
const HOUR = { period: 'hour', shown: `to_char(hour at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI"Z"')` } as const;
const MONTH = { period: 'month', shown: "to_char(billing_month, 'YYYY-MM')" } as const;

/** Figures, and what they are of the rows of the ledger. */
type Figures = Readonly<Record<string, string>>;
const DAILY: Figures = {
  requests: 'count(*)',
  prompt_tokens: 'sum(prompt_tokens)',
  completion_tokens: 'sum(completion_tokens)',
  cost_eur: 'sum(cost_eur)',
};
const KEY_MONTH: Figures = {
  ...DAILY,
  estimated: "count(*) filter (where usage_source = 'estimated')",
  unfinished: "count(*) filter (where outcome <> 'completed')",
};
const KEY_DAY: Figures = Object.fromEntries(
  KEY_DAYS.map(({ name, first, last }) => [
    name,
    `sum(cost_eur) filter (where day - billing_month + 1 between ${first} and ${last})`,
  ]),
);
const DETAILS: Figures = {
  requests: 'count(*)',
  prompt_tokens: 'sum(prompt_tokens) filter (where cached_tokens is not null)',
  ...Object.fromEntries(TOKEN_DETAILS.map((name) => [name, `sum(${name})`])),
};

function ofLedger(table: string, period: Pick<Sums, 'period' | 'shown'>, by: string, figures = DAILY, only = 'true') {
  const sums = Object.entries(figures).map(([name, expression]) => `${expression} as ${name}`);
  const rows = `select ${by}, ${sums.join(', ')} from (
      select u.*, (occurred_at at time zone z.value)::date as day, date_trunc('hour', occurred_at, z.value) as hour
      from api_usage u, settings z where z.name = 'billing_timezone') u
    where ${only} group by ${by}`;
  return { table, ...period, by, figures: Object.keys(figures), rows };
}

/** The nil id stands for all keys together. */
function withAllKeys(sums: Sums): Sums {
  const by = sums.by.replace('api_key_id', `coalesce(api_key_id, '${NIL_ID}') as api_key_id`);
  const rows = `with cells as materialized (${sums.rows})
    select ${by}, ${sums.figures.map((name) => `sum(${name}) as ${name}`).join(', ')}
    from cells group by ${sums.by.replace(' api_key_id,', '')}, grouping sets ((api_key_id), ())`;
  return { ...sums, rows };
}

const MONTHLY_SPEND: Sums = {
  table: 'monthly_spend',
  ...MONTH,
  by: 'company_id, billing_month',
  figures: ['requests', 'prompt_tokens', 'completion_tokens', 'api_cost_eur', 'chat_cost_eur'],
  rows: `select company_id, billing_month, sum(requests) as requests, sum(prompt_tokens) as prompt_tokens,
      sum(completion_tokens) as completion_tokens, sum(api) as api_cost_eur, sum(chat) as chat_cost_eur
    from (
      select company_id, billing_month, count(*) as requests, sum(prompt_tokens) as prompt_tokens,
        sum(completion_tokens) as completion_tokens, sum(cost_eur) as api, 0 as chat
      from api_usage group by 1, 2
      union all
      select company_id, billing_month(occurred_at), 0, 0, 0, 0, sum(cost_eur) from chat_usage group by 1, 2
    ) as sums group by 1, 2`,
};

const ENDING = 'endpoint, usage_source, outcome, cost_center';
const BY_KEY = 'company_id, billing_month, api_key_id, endpoint, cost_center';

/** The tables of sums that pages show. */
const SUMS = {
  daily: ofLedger('usage_daily', DAY, `company_id, billing_month, day, model_slug, api_key_id, ${ENDING}`),
  hourly: withAllKeys(
    ofLedger(
      'usage_hourly',
      HOUR,
      'company_id, billing_month, day, hour, model_slug, api_key_id, endpoint, cost_center',
    ),
  ),
  monthly: ofLedger('usage_monthly', MONTH, `company_id, billing_month, model_slug, api_key_id, ${ENDING}`),
  company_days: ofLedger('usage_company_days', DAY, `company_id, billing_month, day, model_slug, ${ENDING}`),
  key_months: ofLedger('usage_key_months', MONTH, BY_KEY, KEY_MONTH),
  // of a day, nothing is not 0: a key without calls is not shown
  key_days: { ...ofLedger('usage_key_days', MONTH, BY_KEY, KEY_DAY), tellsNone: true },
  model_days: ofLedger('usage_model_days', DAY, 'billing_month, day, model_slug'),
  details: ofLedger(
    'usage_details',
    DAY,
    'company_id, billing_month, day, model_slug, endpoint, cost_center',
    DETAILS,
    `coalesce(${TOKEN_DETAILS.join(', ')}) is not null`,
  ),
  upstream: {
    table: 'upstream_cost_monthly',
    ...MONTH,
    by: 'company_id, billing_month, model_slug, currency',
    figures: ['requests', 'cost', 'cost_eur'],
    rows: `select company_id, billing_month, model_slug, currency, count(*) as requests, sum(c.cost) as cost, sum(cost_eur) as cost_eur
      from upstream_costs c join api_usage using (company_id, billing_month, request_id) group by 1, 2, 3, 4`,
  },
} satisfies Record<string, Sums>;

/** A table of sums. */
export type SumsName = keyof typeof SUMS;
export const SUMS_NAMES = Object.keys(SUMS) as readonly SumsName[];
/** The table behind each name, and what period a row of it is about. */
export const SUMS_TABLES: Readonly<Record<SumsName, Pick<Sums, 'table' | 'period'>>> = SUMS;

/** A counter of `monthly_spend` that is not the sum of its rows. */
export interface Difference {
  readonly company_id: string;
  /** "2026-11". */
  readonly month: string;
  /** The column. */
  readonly counter: string;
  /** The counter and the sum of the rows, as exact decimal text. */
  readonly counted: string;
  readonly rows: string;
}

/** A figure of a table of sums that is not the sum of its rows. */
interface SumsDifference extends Omit<Difference, 'company_id' | 'month'> {
  /** null: of all companies. */
  readonly company_id: string | null;
  /** One of these three: "2026-11-21" or "2026-11" in the billing time zone; "2026-11-21T10:00Z", when an hour begins. */
  readonly day?: string;
  readonly month?: string;
  readonly hour?: string;
  /** null: of all models. */
  readonly model_slug: string | null;
}

export interface SumsCheck {
  /** Rows of the table compared. */
  readonly checked: number;
  /** How many figures differ, and the first of those. */
  readonly total: number;
  readonly differences: readonly SumsDifference[];
}

/**
 * Compares every counter with the rows of `api_usage` and `chat_usage`, per company and month. Reads the whole ledger
 * in one snapshot; safe while rows are written.
 * @returns how many months of companies were compared, and the differences
 */
export async function verifyLedger(sql: Sql): Promise<{ checked: number; differences: Difference[] }> {
  const { checked, differences } = await compare(sql, MONTHLY_SPEND, null);
  return { checked, differences: differences.map(({ model_slug, ...difference }) => difference as Difference) };
}

/**
 * Compares every figure of a table of sums, which pages show, with the rows of `api_usage` or what upstreams told of
 * them. Reads the whole ledger in one snapshot; safe while rows are written.
 * @param most differences returned
 */
export function verifySums(sql: Sql, name: SumsName, most = MOST): Promise<SumsCheck> {
  return compare(sql, SUMS[name], most);
}

/** @param most differences returned; null: all */
async function compare(sql: Sql, sums: Sums, most: number | null): Promise<SumsCheck> {
  const { table, period, shown, by, figures, rows, tellsNone = false } = sums;
  const columns = by.split(', ');
  const or = (column: string) => sql.unsafe(columns.includes(column) ? column : `null as ${column}`);
  const counted = figures.map((name) => `sum(${name}) as ${name}`).join(', ');
  const pairs = figures.map((name) => `('${name}', c.${name}::numeric, r.${name}::numeric)`).join(', ');
  const [row] = await sql<[SumsCheck]>`
    with rows as materialized (${sql.unsafe(rows)}),
    counted as materialized (select ${sql.unsafe(by)}, ${sql.unsafe(counted)} from ${sql(table)} group by ${sql.unsafe(by)}),
    compared as (
      select ${or('company_id')}, ${sql.unsafe(shown)} as period, ${or('model_slug')}, ${or('api_key_id')}, counter, counted, rows
      from rows r full join counted c using (${sql.unsafe(by)})
      cross join lateral (values ${sql.unsafe(pairs)}) as pair (counter, counted, rows)
    ),
    different as (
      select * from compared
      where ${tellsNone ? sql`counted is distinct from rows` : sql`coalesce(counted, 0) <> coalesce(rows, 0)`}
      order by period, company_id, model_slug, api_key_id, counter
    )
    select (select count(*) / ${figures.length} from compared)::integer as checked, (select count(*) from different)::integer as total,
      (select coalesce(json_agg(json_build_object('company_id', company_id, ${period}::text, period, 'model_slug', model_slug,
          'counter', counter, 'counted', trim_scale(coalesce(counted, 0))::text, 'rows', trim_scale(coalesce(rows, 0))::text)), '[]')
        from (select * from different limit ${most}) as first) as differences`;
  return row;
}

/** A row or a seal that was tampered with. */
interface Finding {
  readonly what: 'row edited' | 'row missing' | 'seal edited' | 'seal missing';
  /** The writer and the number of the seal. */
  readonly writer: string;
  readonly number: number;
  /** "2026-11"; null for seals. */
  readonly month: string | null;
  readonly request_id: string | null;
}

export interface Found<F> {
  /** How many findings there are, and the first of them. */
  readonly total: number;
  readonly findings: readonly F[];
}

export interface SealCheck extends Found<Finding> {
  readonly seals: number;
  /** Rows covered by a seal. */
  readonly rows: number;
  /** Rows covered by none: written by another program, or before there were seals. */
  readonly unsealed: number;
}

/**
 * Checks every row against the seal of its batch, and every seal against the one before it
 * (sql/0011_seals.sql). Reads the whole ledger; safe while rows are written.
 */
export async function verifySeals(sql: Sql): Promise<SealCheck> {
  const [row] = await sql<[SealCheck]>`
    with chain as (
      select writer, number, digest <> seal_digest(s) as edited, number > 1 + coalesce(lag(number) over seals, 0) as gap,
        previous <> coalesce(lag(digest) over seals, '') as torn
      from ledger_seals s window seals as (partition by writer order by number)
    ),
    sealed as (
      select s.writer, s.number, s.billing_month, t.request_id, substr(s.row_digests, (t.place * 16 - 15)::integer, 16) as digest
      from ledger_seals s, unnest(s.request_ids) with ordinality as t (request_id, place)
    ),
    compared as (
      select s.writer, s.number, coalesce(s.billing_month, u.billing_month) as month,
        coalesce(s.request_id, u.request_id) as request_id,
        case when u.request_id is null then 'row missing' when s.request_id is null then 'row not sealed'
          when ${sql.unsafe(digestOfRow('u'))} <> s.digest then 'row edited' end as what
      from sealed s full join api_usage u on u.billing_month = s.billing_month and u.request_id = s.request_id
    ),
    findings as (
      select what, writer, number, to_char(month, 'YYYY-MM') as month, request_id from compared where what <> 'row not sealed'
      union all
      select 'seal edited', writer, number, null, null from chain where edited or (torn and not gap)
      union all
      select 'seal missing', writer, number - 1, null, null from chain where gap
    )
    select (select count(*) from chain)::integer as seals,
      (select count(*) from compared where what is distinct from 'row not sealed')::integer as rows,
      (select count(*) from compared where what = 'row not sealed')::integer as unsealed,
      (select count(*) from findings)::integer as total,
      (select coalesce(json_agg(first), '[]') from (select * from findings order by what, writer, number, request_id limit ${MOST}) as first) as findings`;
  return row;
}
