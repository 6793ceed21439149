import type { Sql } from '../connection/pool.ts';
import { digestOfRow } from './digest.ts';
import { API_SPEND, CALLS, rowsOf, SOURCES, SUMS, type Sums } from './sums.ts';

/** Differences and findings that a check returns. */
export const MOST = 1000;

/** SQL for the period of a table of sums, as differences tell it. */
const SHOWN = {
  day: "to_char(day, 'YYYY-MM-DD')",
  month: "to_char(billing_month, 'YYYY-MM')",
} as const;

/** What is compared with a table: rows with its columns and figures. */
interface Compared extends Pick<Sums, 'table' | 'period' | 'by' | 'untold'> {
  readonly figures: readonly string[];
  readonly rows: string;
}

function comparedOf(sums: Sums): Compared {
  return {
    ...sums,
    figures: Object.keys(sums.figures),
    rows: rowsOf(sums, `${SOURCES[sums.from](CALLS)} as ${sums.from}`),
  };
}

const MONTHLY_SPEND: Compared = {
  table: 'monthly_spend',
  period: 'month',
  by: API_SPEND.by,
  figures: [...Object.keys(API_SPEND.figures), 'chat_cost_eur'],
  rows: `select ${API_SPEND.by}, ${Object.keys(API_SPEND.figures)
    .map((name) => `sum(${name})`)
    .join(', ')}, sum(chat)
    from (
      select api.*, 0 as chat from (${rowsOf(API_SPEND, 'api_usage')}) as api (${API_SPEND.by}, ${Object.keys(API_SPEND.figures)})
      union all
      select company_id, billing_month, requests, prompt_tokens, completion_tokens, cost_eur, 0 from months_away()
      union all
      select company_id, billing_month(occurred_at), 0, 0, 0, 0, sum(cost_eur) from chat_usage group by 1, 2
    ) as sums group by ${API_SPEND.by}`,
};

/** A table of sums. */
export type SumsName = keyof typeof SUMS;
export const SUMS_NAMES = Object.keys(SUMS) as readonly SumsName[];

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
  /** One of these two: "2026-11-21" or "2026-11" in the billing time zone. */
  readonly day?: string;
  readonly month?: string;
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
export async function verifyLedger(
  sql: Sql,
  since: Since = null,
): Promise<{ checked: number; differences: Difference[] }> {
  const { checked, differences } = await compare(sql, MONTHLY_SPEND, null, since);
  return {
    checked,
    differences: differences.map(({ model_slug, ...difference }) => difference as Difference),
  };
}

/**
 * Compares every figure of a table of sums, which pages show, with the rows of `api_usage` or what upstreams told of
 * them. Reads the whole ledger in one snapshot; safe while rows are written.
 * @param most differences returned
 */
export function verifySums(
  sql: Sql,
  name: SumsName,
  most = MOST,
  since: Since = null,
): Promise<SumsCheck> {
  return compare(sql, comparedOf(SUMS[name]), most, since);
}

/** @param most differences returned; null: all */
async function compare(
  sql: Sql,
  compared: Compared,
  most: number | null,
  since: Since,
): Promise<SumsCheck> {
  const { table, period, by, figures, rows, untold = [] } = compared;
  const columns = by.split(', ');
  const or = (column: string) =>
    sql.unsafe(columns.includes(column) ? column : `null as ${column}`);
  const counted = figures.map((name) => `sum(${name}) as ${name}`).join(', ');
  const of = (table: string) =>
    figures.map((name) =>
      untold.includes(name)
        ? `${table}.${name}::numeric`
        : `coalesce(${table}.${name}::numeric, 0)`,
    );
  const pairs = figures.map((name, at) => `('${name}', ${of('c')[at]}, ${of('r')[at]})`).join(', ');
  const [row] = await sql<[SumsCheck]>`
    with every (${sql.unsafe(by)}, ${sql.unsafe(figures.join(', '))}) as not materialized (${sql.unsafe(rows)}),
    rows as materialized (select * from every ${beginning(sql, since)}),
    counted as materialized (select ${sql.unsafe(by)}, ${sql.unsafe(counted)} from ${sql(table)} ${beginning(sql, since)} group by ${sql.unsafe(by)}),
    different as (
      select ${or('company_id')}, ${sql.unsafe(SHOWN[period])} as period, ${or('model_slug')}, ${or('api_key_id')}, counter, counted, rows
      from rows r full join counted c using (${sql.unsafe(by)})
      cross join lateral (values ${sql.unsafe(pairs)}) as pair (counter, counted, rows)
      -- of a row that agrees as a whole, no figure is looked at by itself
      where row (${sql.unsafe(of('c').join(', '))}) is distinct from row (${sql.unsafe(of('r').join(', '))}) and counted is distinct from rows
      order by period, company_id, model_slug, api_key_id, counter, counted, rows
    )
    select (select count(*) from rows full join counted using (${sql.unsafe(by)}))::integer as checked, (select count(*) from different)::integer as total,
      (select coalesce(json_agg(json_build_object('company_id', company_id, ${period}::text, period, 'model_slug', model_slug,
          'counter', counter, 'counted', trim_scale(coalesce(counted, 0))::text, 'rows', trim_scale(coalesce(rows, 0))::text)), '[]')
        from (select * from different limit ${most}) as first) as differences`;
  return row;
}

/** The month of the first difference, "2026-11" or a day of it; null: all months are looked at. */
type Since = string | null;

/** A day of a month may be booked in the next one. */
function beginning(sql: Sql, since: Since) {
  return since === null
    ? sql``
    : sql`where billing_month >= (${`${since.slice(0, 7)}-01`}::date - interval '1 month')::date`;
}

/**
 * Checks, and looks again at what differs while nothing is booked, if the ledger is spread over several servers: a
 * statement sees each of them at an instant of its own. Batches wait for as long as that takes.
 * @param read runs a transaction
 * @param check of the months since the first difference
 */
export async function verifyStill<C extends Looked>(
  read: <T>(work: (sql: Sql) => Promise<T>) => Promise<T>,
  check: (sql: Sql, since: Since) => Promise<C>,
): Promise<C> {
  const first = await read((sql) => check(sql, null));
  const differences = first.differences ?? first.findings ?? [];
  const { total = differences.length } = first;
  if (total === 0 || !(await read(isSpread))) return first;
  const months = differences.map(({ day, month }) => month ?? day ?? null);
  const since =
    differences.length < total || months.includes(null) ? null : (months.sort()[0] as string);
  const again = await read(async (sql) => {
    await sql`lock table api_usage, chat_usage in share mode`;
    return check(sql, since);
  });
  // how much was compared is told by the first look
  return {
    ...first,
    ...Object.fromEntries(Object.entries(again).filter(([name]) => FOUND.includes(name))),
  };
}

const FOUND = ['total', 'differences', 'findings'];
/** What a check found; without a total, all differences. */
interface Looked {
  readonly total?: number;
  readonly differences?: readonly {
    readonly month?: string | null;
    readonly day?: string | null;
  }[];
  readonly findings?: readonly { readonly month?: string | null; readonly day?: string | null }[];
}

async function isSpread(sql: Sql): Promise<boolean> {
  const [{ spread }] = await sql<[{ spread: boolean }]>`select is_distributed() as spread`;
  return spread;
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
  /** Rows covered by none: written by another program. */
  readonly unsealed: number;
}

/**
 * Checks every row against the seal of its batch, and every seal against the one before it
 * (sql/schema/seals.sql). The rows of months that are away are not missing. Reads the whole ledger; safe while rows are
 * written.
 */
export async function verifySeals(sql: Sql, since: Since = null): Promise<SealCheck> {
  const [row] = await sql<[SealCheck]>`
    with away as materialized (select distinct billing_month from months_away()),
    chain as (
      select writer, number, digest <> seal_digest(s) as edited, number > 1 + coalesce(lag(number) over seals, 0) as gap,
        previous <> coalesce(lag(digest) over seals, '') as torn
      from ledger_seals s window seals as (partition by writer order by number)
    ),
    sealed as (
      select s.writer, s.number, s.billing_month, t.request_id, substr(s.row_digests, (t.place * 16 - 15)::integer, 16) as digest
      from (select * from ledger_seals ${beginning(sql, since)}) s, unnest(s.request_ids) with ordinality as t (request_id, place)
    ),
    compared as (
      select s.writer, s.number, coalesce(s.billing_month, u.billing_month) as month,
        coalesce(s.request_id, u.request_id) as request_id,
        case when u.request_id is null then 'row missing' when s.request_id is null then 'row not sealed'
          when ${sql.unsafe(digestOfRow('u'))} <> s.digest then 'row edited' end as what
      from sealed s full join (select * from api_usage ${beginning(sql, since)}) u on u.billing_month = s.billing_month and u.request_id = s.request_id
      where u.request_id is not null or s.billing_month not in (select billing_month from away)
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
