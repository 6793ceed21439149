import {
  type BudgetPeriod,
  type Budgets,
  isLimited,
  PERIODS,
  percentSpent,
} from '../../domain/budget.ts';
import { unknownCompany } from '../../domain/refusal.ts';
import {
  type DayRange,
  type Interval,
  intervalOf,
  monthsIn,
  wholeMonth,
} from '../../domain/reports/day-range.ts';
import type { UsageSums } from '../../domain/usage.ts';
import { REMOVED } from '../company/company.ts';
import { dayBegins, TODAY, utcSecond } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { forecast, presentMonth } from '../connection/present-month.ts';
import { conditions, grouped, readCube, SUMMED, sumsOf, type UsageFilters } from './cube.ts';

/** The sums of the shown calls, and the budget. EUR is exact decimal text. */
export interface UsageTotals extends Omit<UsageSums, 'cost_eur'> {
  readonly api_cost_eur: string;
  /** The cost of in-app chat; null where it is not known: for parts of months, and with a filter. */
  readonly chat_cost_eur: string | null;
  /** The cost of both. */
  readonly total_cost_eur: string;
  readonly budget: BudgetState;
}

/**
 * A company's usage in a range of days, as pages, exports and commands show it: exact sums of the ledger, read from
 * its sums by month and day; of a single day, the hours from the ledger. All EUR amounts are exact decimal text; days are those of the billing time zone.
 */
export interface CompanyUsage extends UsageTotals {
  /** In words for a company that was removed. */
  readonly company_name: string;
  readonly by_model: Groups<UsageGroup>;
  /** Name and prefix are null for a key that no longer exists. */
  readonly by_key: Groups<
    Omit<UsageGroup, 'name'> & {
      readonly id: string;
      readonly name: string | null;
      readonly prefix: string | null;
    }
  >;
  readonly by_endpoint: Groups<UsageGroup>;
  /** The name of the cost centre is empty for calls that name none. */
  readonly by_cost_center: Groups<UsageGroup>;
  readonly by_ending: readonly (UsageSums & {
    readonly outcome: string;
    readonly usage_source: string;
  })[];
  /**
   * By hour ("2026-11-21T10:00:00Z", when it begins), day ("2026-11-21") or month ("2026-11-01"), and model; in order.
   * The interval is that of `intervalOf`.
   */
  readonly by_time: readonly (UsageSums & { readonly at: string; readonly model: string })[];
  /** The hours of a single day with their time of day; clocks may skip one or repeat it. Else empty. */
  readonly hours: readonly { readonly at: string; readonly label: string }[];
  /** Months with any usage up to the year 9999, as in-app chat may be of any time, and the present month; newest first. */
  readonly months: readonly string[];
}

/** The company's present month and budget. */
export interface BudgetState {
  /** First day of the present month, "2026-11-01". */
  readonly month: string;
  /** API plus in-app chat: the budget gate compares this sum. */
  readonly spent_eur: string;
  /** null when unlimited. */
  readonly budget_eur: string | null;
  /** The month's cost if it goes on like this, to the cent; null in its first two days. */
  readonly forecast_eur: string | null;
  /** Percent of the budget with one decimal: in-app chat, both, forecast. Null without a budget. */
  readonly chat_percent: number | null;
  readonly total_percent: number | null;
  readonly forecast_percent: number | null;
  /** The present day and its budget; null or absent: it has none. */
  readonly day?: Omit<BudgetSpent, 'period'> | null;
}

/** A budget and what was spent of it. */
export interface BudgetSpent {
  readonly period: BudgetPeriod;
  readonly spent_eur: string;
  readonly budget_eur: string;
  readonly percent: number;
}

/** Lines of a table, the most expensive first. */
export interface Groups<T> {
  /** How many there are; `lines` are the first. */
  readonly count: number;
  readonly lines: readonly T[];
}

export interface UsageGroup extends UsageSums {
  readonly name: string;
  /** Calls with estimated tokens, and calls that did not complete. */
  readonly estimated: number;
  readonly unfinished: number;
}

/** First day of the present month in the billing time zone, "2026-11-01". */
export async function readPresentMonth(sql: Sql): Promise<string> {
  const [row] = await sql<
    [{ month: string }]
  >`select to_char(billing_month(now()), 'YYYY-MM-DD') as month`;
  return row.month;
}

/**
 * Whole months are those of `billing_month`. Reads the sums with the fewest rows: those without keys for everything but
 * the table of keys. For that table all keys are ranked by their cost, and the other columns are read only for the keys
 * that are shown. So a year takes little longer than a month, and an odd range as long as the months it touches.
 * @param most lines of each table; null: all
 * @param withRemoved also of a company that was removed and has a ledger
 * @throws Refused missing
 */
export async function readCompanyUsage(
  sql: Sql,
  companyId: string,
  range: DayRange,
  filters: UsageFilters,
  most: number | null = null,
  withRemoved = false,
): Promise<CompanyUsage> {
  const { whole, parts } = monthsIn(range);
  const isFiltered = Object.values(filters).some((value) => value !== null);
  const of = { company: companyId, filters, range };
  const shown = {
    columns: ['api_key_id'],
    holds: sql`api_key_id = any(array(select api_key_id from shown))`,
  } as const;
  const dimensions = [
    'billing_month',
    'model_slug',
    'endpoint',
    'cost_center',
    'outcome',
    'usage_source',
  ] as const;
  const counts = sql`coalesce(sum(requests) filter (where usage_source = 'estimated'), 0) as estimated,
    coalesce(sum(requests) filter (where outcome <> 'completed'), 0) as unfinished`;
  const ways = [['model_slug'], ['endpoint'], ['cost_center'], ['outcome', 'usage_source']];
  // thousands of keys are grouped in memory then, instead of sorted on disk; until the end of the transaction
  await sql`select set_config('work_mem', '32MB', true)`;
  // one statement is one snapshot, so tables, chart and totals agree
  const [row] = await sql<{ page: CompanyUsage }[]>`
    with ${budgetTables(sql, companyId, withRemoved)},
    cells as materialized (${readCube(sql, { ...of, by: dimensions, measures: SUMMED })}),
    drawn as materialized (${drawnRows(sql, of)}),
    keys as materialized (${readCube(sql, { ...of, range: await upToNow(sql, range), by: ['api_key_id'], measures: ['cost_eur'] })}),
    shown as materialized (select api_key_id from keys order by cost_eur desc, api_key_id limit ${most}),
    groups as (
      ${grouped(sql, ways, sql`${sumsOf(sql)}, ${counts}, null::uuid as api_key_id`, sql`cells`)}
      union all
      select ${OF_KEYS}, null, null, null, null, null, requests, prompt_tokens, completion_tokens, cost_eur, estimated, unfinished, api_key_id
      from (${readCube(sql, { ...of, where: most === null ? undefined : shown, by: ['api_key_id'], measures: [...SUMMED, 'estimated', 'unfinished'] })}) k
    ),
    ranked as materialized (
      select *, count(*) over (partition by of) as count, row_number() over (partition by of
        order by cost_eur desc, model_slug, api_key_id, endpoint, cost_center, outcome) as place
      from groups
    ),
    lines as (
      select of, place, count, model_slug, api_key_id, endpoint, cost_center, outcome, usage_source, jsonb_build_object(
        'requests', requests, 'prompt_tokens', prompt_tokens, 'completion_tokens', completion_tokens,
        'cost_eur', trim_scale(cost_eur)::text, 'estimated', estimated, 'unfinished', unfinished) as sums
      from ranked where place <= coalesce(${most}::bigint, place)
    ),
    total as (
      select coalesce(sum(cost_eur), 0) as api, coalesce(sum(requests), 0) as requests,
        coalesce(sum(prompt_tokens), 0) as prompt_tokens, coalesce(sum(completion_tokens), 0) as completion_tokens,
        case when ${!isFiltered && parts.length === 0} then (
          select coalesce(sum(chat_cost_eur), 0) from months where billing_month = any(${whole}::date[])) end as chat
      from ranked where of = ${OF_ENDINGS}
    )
    select jsonb_build_object(
      'company_name', b.name, 'requests', t.requests, 'prompt_tokens', t.prompt_tokens,
      'completion_tokens', t.completion_tokens, 'api_cost_eur', trim_scale(t.api)::text,
      'chat_cost_eur', trim_scale(t.chat)::text, 'total_cost_eur', trim_scale(t.api + coalesce(t.chat, 0))::text,
      'budget', ${budgetJson(sql)},
      'by_model', ${groupsOf(sql, 0, sql`jsonb_build_object('name', model_slug)`)},
      'by_key', (select jsonb_build_object('count', (select count(*) from keys), 'lines', coalesce(jsonb_agg(
          sums || jsonb_build_object('id', api_key_id, 'name', case when k.company_id = b.id then k.name end,
            'prefix', case when k.company_id = b.id then k.prefix end) order by place), '[]'))
        -- by their ids alone: by the company too, Postgres may look through all its keys for each line
        from lines left join api_keys k on k.id = api_key_id where of = ${OF_KEYS}),
      'by_endpoint', ${groupsOf(sql, 1, sql`jsonb_build_object('name', endpoint)`)},
      'by_cost_center', ${groupsOf(sql, 2, sql`jsonb_build_object('name', cost_center)`)},
      'by_ending', coalesce((select jsonb_agg(sums || jsonb_build_object('outcome', outcome, 'usage_source', usage_source)
        order by outcome <> 'completed', outcome, usage_source desc) from lines where of = ${OF_ENDINGS}), '[]'),
      'by_time', coalesce((select jsonb_agg(jsonb_build_object('at', ${textOf(sql, intervalOf(range))}, 'model', model_slug,
          'requests', requests, 'prompt_tokens', prompt_tokens, 'completion_tokens', completion_tokens,
          'cost_eur', trim_scale(cost_eur)::text) order by at, model_slug) from drawn), '[]'),
      'hours', ${intervalOf(range) === 'hour' ? hoursOf(sql, range.from) : sql`'[]'::jsonb`},
      'months', (select jsonb_agg(to_char(month, 'YYYY-MM-DD') order by month desc) from (
        ${knownMonths(sql, filters)} union select b.month) as known)) as page
    from budget b, total t`;
  return row === undefined ? unknownCompany(companyId) : withDay(sql, companyId, row.page);
}

/** The numbers of groups: those of keys are read by themselves. */
const OF_ENDINGS = 3;
const OF_KEYS = 4;

/** Months with any usage of the company; of some keys those since the first was made, which tell nothing of others. */
function knownMonths(sql: Sql, { keys }: UsageFilters) {
  if (keys === null)
    return sql`select billing_month as month from months where billing_month between '0001-01-01' and '9999-12-01'`;
  return sql`select generate_series(min(billing_month(created_at)), billing_month(now()), interval '1 month')::date as month
    from api_keys where id = any(${[...keys]}::uuid[])`;
}

/**
 * Tables of a WITH clause: `months` has the company's rows of monthly_spend, `budget` its present month with budget and
 * forecast. A table that may be spread over servers is read by itself and not joined.
 */
function budgetTables(sql: Sql, companyId: string, withRemoved = false) {
  return sql`months as materialized (select * from monthly_spend where company_id = ${companyId}),
    asked as materialized (
      select i.id, coalesce(c.name, ${REMOVED}) as name, company_budget(c.monthly_budget_eur, c.credit_limit_eur) as budget, nullif(c.daily_budget_eur, 0) as daily, zone, first as month, elapsed, length
      from (select ${companyId}::uuid as id) i left join companies c on c.id = i.id, (${presentMonth(sql)}) m
      where c.id is not null or ${withRemoved} and exists (select 1 from months)
    ),
    present as (
      select a.*, coalesce(api_cost_eur, 0) as api, coalesce(chat_cost_eur, 0) as chat,
        coalesce(api_cost_eur + chat_cost_eur, 0) as spent, coalesce(requests, 0) as requests,
        coalesce(prompt_tokens, 0) as prompt_tokens, coalesce(completion_tokens, 0) as completion_tokens
      from asked a left join months s on s.billing_month = a.month
    ),
    budget as (select *, ${forecast(sql)} as forecast from present)`;
}

/** The BudgetState of the table `budget`, called `b`. The spend is rounded down: 100 % is a budget that is reached. */
function budgetJson(sql: Sql) {
  return sql`jsonb_build_object('month', to_char(b.month, 'YYYY-MM-DD'), 'spent_eur', trim_scale(b.spent)::text,
        'budget_eur', trim_scale(b.budget)::text, 'forecast_eur', b.forecast::text,
        'chat_percent', trunc(b.chat * 100 / b.budget, 1), 'total_percent', trunc(b.spent * 100 / b.budget, 1),
        'forecast_percent', round(b.forecast * 100 / b.budget, 1),
        'day', case when b.daily is not null then jsonb_build_object('budget_eur', trim_scale(b.daily)::text) end)`;
}

/** Adds what is spent of a budget of the day. It is read by itself: a function that reads spread tables cannot stand in a statement that reads some. */
async function withDay<T extends { budget: BudgetState }>(
  sql: Sql,
  companyId: string,
  usage: T,
): Promise<T> {
  const { day } = usage.budget;
  if (!day) return usage;
  const spent_eur = await readSpent(sql, 'daily', companyId);
  const { budget_eur } = day;
  const told = { spent_eur, budget_eur, percent: percentSpent(spent_eur, budget_eur) };
  return { ...usage, budget: { ...usage.budget, day: told } };
}

/**
 * The sums of the present month, without its groups: one row of `monthly_spend`.
 * @throws Refused missing
 */
export async function readPresentSums(sql: Sql, companyId: string): Promise<UsageTotals> {
  const [row] = await sql<{ sums: UsageTotals }[]>`
    with ${budgetTables(sql, companyId)}
    select jsonb_build_object('requests', requests, 'prompt_tokens', prompt_tokens, 'completion_tokens', completion_tokens,
      'api_cost_eur', trim_scale(api)::text, 'chat_cost_eur', trim_scale(chat)::text, 'total_cost_eur', trim_scale(spent)::text,
      'budget', ${budgetJson(sql)}) as sums from budget b`;
  return row === undefined ? unknownCompany(companyId) : withDay(sql, companyId, row.sums);
}

/**
 * A range that ends today as one that ends with the month: no calls are of days to come, and the sums of a whole month are
 * found sooner than those of its days.
 */
export async function upToNow(sql: Sql, range: DayRange): Promise<DayRange> {
  const [row] = await sql<
    [{ today: string }]
  >`select to_char(${sql.unsafe(TODAY)}, 'YYYY-MM-DD') as today`;
  return range.to === row.today ? { from: range.from, to: wholeMonth(range.to).to } : range;
}

/** The rows of the chart: `at`, `model_slug` and sums. */
function drawnRows(
  sql: Sql,
  { company, filters, range }: { company: string; filters: UsageFilters; range: DayRange },
) {
  const interval = intervalOf(range);
  if (interval === 'month')
    return sql`select billing_month as at, model_slug, ${sumsOf(sql)} from cells group by billing_month, model_slug`;
  if (interval === 'day')
    // a month may have calls of days beside it, which no bar shows
    return sql`select day as at, model_slug, requests, prompt_tokens, completion_tokens, cost_eur
      from (${readCube(sql, { company, filters, range, by: ['day', 'model_slug'], measures: SUMMED })}) d
      where day between ${range.from}::date and ${range.to}::date`;
  // Of a single day the ledger is read: sums by the hour would cost every call more than this does. Hours of a time
  // zone are slow to find, so they are looked up for quarters of hours, in which every hour begins.
  return sql`
    with asked as materialized (
      select value as zone, ${sql.unsafe(dayBegins('day', 'value'))} as begins, ${sql.unsafe(dayBegins('day + 1', 'value'))} as ends
      from settings, (select ${range.from}::date as day) d where name = 'billing_timezone'
    ),
    quarters as materialized (
      select date_bin('15 minutes', occurred_at, 'epoch') as quarter, model_slug, count(*) as requests,
        sum(prompt_tokens) as prompt_tokens, sum(completion_tokens) as completion_tokens, sum(cost_eur) as cost_eur
      from api_usage
      where ${conditions(sql, company, filters)} and billing_month = ${wholeMonth(range.from).from}::date
        and occurred_at >= (select begins from asked) and occurred_at < (select ends from asked)
      group by 1, 2
    )
    select date_trunc('hour', quarter, zone) as at, model_slug, ${sumsOf(sql)} from quarters, asked group by 1, 2`;
}

function textOf(sql: Sql, interval: Interval) {
  return interval === 'hour' ? sql.unsafe(utcSecond('at')) : sql`to_char(at, 'YYYY-MM-DD')`;
}

function groupsOf(sql: Sql, of: number, name: ReturnType<Sql>) {
  return sql`(select jsonb_build_object('count', coalesce(max(count), 0), 'lines', coalesce(jsonb_agg(sums || ${name} order by place), '[]'))
    from lines where of = ${of})`;
}

/** The hours whose beginning is on a day: an hour whose clock was put back is there twice. */
function hoursOf(sql: Sql, day: string) {
  // clocks change by half hours at least, and no day begins more than hours away from its midnight
  return sql`(
    select jsonb_agg(jsonb_build_object('at', ${sql.unsafe(utcSecond('at'))},
      'label', to_char(at at time zone b.zone, 'HH24:MI')) order by at)
    from (
      select distinct date_trunc('hour', near, b.zone) as at
      from generate_series(${day}::timestamp at time zone b.zone - interval '3 hours',
        (${day}::timestamp + interval '1 day') at time zone b.zone + interval '3 hours', interval '30 minutes') as near
      where (near at time zone b.zone)::date = ${day}::date) h)`;
}

/** What a key has spent of its own budgets in the present month and day: of those it has. */
export async function readKeyBudgets(
  sql: Sql,
  key: Budgets & { readonly id: string; readonly company_id: string },
) {
  const spent: BudgetSpent[] = [];
  for (const period of PERIODS) {
    const budget_eur = key[`${period}_budget_eur`];
    if (!isLimited(budget_eur)) continue;
    const spent_eur = await readSpent(sql, period, key.company_id, key.id);
    spent.push({ period, spent_eur, budget_eur, percent: percentSpent(spent_eur, budget_eur) });
  }
  return spent;
}

/**
 * The spend of a company, or of one of its keys and those in whose place it was made, in the present month or day: exact
 * decimal text. The spend of a company includes in-app chat.
 */
export async function readSpent(
  sql: Sql,
  period: BudgetPeriod,
  company: string,
  key: string | null = null,
): Promise<string> {
  const line = sql`(select line from api_keys where id = ${key})`;
  const ofMonth =
    key === null
      ? sql`(select sum(api_cost_eur + chat_cost_eur) from monthly_spend where company_id = ${company} and billing_month = billing_month(now()))`
      : sql`line_spend(${company}, ${line}, billing_month(now()))`;
  const spent =
    period === 'daily' ? sql`day_spend(${company}, ${line}, ${sql.unsafe(TODAY)})` : ofMonth;
  const [row] = await sql<
    [{ spent: string }]
  >`select trim_scale(coalesce(${spent}, 0))::text as spent`;
  return row.spent;
}
