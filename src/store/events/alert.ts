import { type Channel, type EventState, STANDARD_PERCENTS } from '../../domain/event.ts';
import type { EventLook } from '../../domain/ports.ts';
import type { BudgetAlert } from '../../domain/wording/alert.ts';
import { matching } from '../connection/columns.ts';
import { IS_ACTIVE, nilId, SPEND_CURSOR, spentSince } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { forecast, presentMonth } from '../connection/present-month.ts';

/** Budget alerts (sql/schema/budgets.sql). A trigger makes each that is told an event. */

type Fragment = ReturnType<typeof alertColumn>;

/** Percents of a budget at which an alert is written, whatever the people of a company want to be told. */
const STANDARD = `array[${STANDARD_PERCENTS.join(', ')}]`;

/**
 * Tables of a WITH clause: `month`, and `states`, the budgets of the present month with the amount spent of each. A revoked
 * or expired key has none, and neither has a closed company.
 * Each table of sums is read by itself: where it is spread over servers, no row of it is joined to others there.
 * @param only condition on `s`, the company's row of monthly_spend
 */
function states(sql: Sql, only: Fragment) {
  return sql`
    month as materialized (${presentMonth(sql)}),
    spends as materialized (
      select company_id, api_cost_eur + chat_cost_eur as spent from monthly_spend s
      where billing_month = (select first from month) and ${only}
    ),
    keys as materialized (
      select k.id, k.line, k.company_id, k.monthly_budget_eur
      from spends s join companies c on c.id = s.company_id join api_keys k on k.company_id = s.company_id
      where c.closed_at is null and k.monthly_budget_eur > 0
        and ${sql.unsafe(IS_ACTIVE)}
    ),
    key_spends as materialized (
      select api_key_id, sum(cost_eur) as spent from usage_key_months
      where company_id = any(array(select company_id from keys)) and billing_month = (select first from month)
        and api_key_id = any(array(select id from api_keys
          where company_id = any(array(select company_id from keys)) and line = any(array(select line from keys)))) group by 1
    ),
    line_spends as materialized (
      select a.line, sum(d.spent) as spent from key_spends d join api_keys a on a.id = d.api_key_id group by 1
    ),
    budgets as (
      select c.id as company_id, null::uuid as api_key_id, null as cost_center, company_budget(c.monthly_budget_eur, c.credit_limit_eur) as budget, s.spent, null::date as day
      from spends s join companies c on c.id = s.company_id
      where company_budget(c.monthly_budget_eur, c.credit_limit_eur) > 0 and c.closed_at is null
      union all
      select k.company_id, k.id, null, k.monthly_budget_eur, coalesce(d.spent, 0), null
      from keys k left join line_spends d using (line)
    ),
    states as (
      select b.*, ${forecast(sql)} as forecast from budgets b cross join month
    )`;
}

/** The same of budgets of days. A day that ended the last minutes is looked at for another five. */
function dayStates(sql: Sql, companies: readonly string[]) {
  const ofThese = [...companies];
  return sql`
    month as materialized (${presentMonth(sql)}),
    days as materialized (
      select distinct ((now() - ago) at time zone zone)::date as day from month, unnest('{0, 5 minutes}'::interval[]) as ago
    ),
    daily as materialized (
      select c.id as company_id, null::uuid as api_key_id, null::uuid as line, company_daily_budget(c) as budget
      from companies c where c.id = any(${ofThese}::uuid[]) and company_daily_budget(c) > 0 and c.closed_at is null
      union all
      select k.company_id, k.id, k.line, k.daily_budget_eur from api_keys k join companies c on c.id = k.company_id
      where k.company_id = any(${ofThese}::uuid[]) and c.closed_at is null and k.daily_budget_eur > 0 and ${sql.unsafe(IS_ACTIVE)}
    ),
    states as (
      select company_id, api_key_id, null as cost_center, budget, day_spend(company_id, line, day) as spent, day,
        null::numeric as forecast
      from daily cross join days
    )`;
}

/** Writes alerts for thresholds that were newly reached. @param cursor as of `EventStore.look` */
export async function lookAtBudgets(
  sql: Sql,
  cursor: string | null,
): Promise<Pick<EventLook, 'cursor' | 'reached'>> {
  const [{ daily, ...found }] = await sql<
    [Pick<EventLook, 'cursor' | 'reached'> & { readonly daily: string[] }]
  >`
    with ${states(sql, onlyLater(sql, cursor))}, ${writtenAlerts(sql)},
    daily as (
      select s.company_id from spends s join companies c on c.id = s.company_id where company_daily_budget(c) > 0
      union select s.company_id from spends s join api_keys k on k.company_id = s.company_id where k.daily_budget_eur > 0
    )
    select ${sql.unsafe(SPEND_CURSOR)} as cursor, (select count(*)::integer from written) as reached,
      array(select company_id from daily) as daily`;
  if (daily.length === 0) return found;
  // by itself: a function that reads spread tables cannot stand in a statement that reads some
  const [ofDays] = await sql<[{ readonly reached: number }]>`
    with ${dayStates(sql, daily)}, ${writtenAlerts(sql)} select count(*)::integer as reached from written`;
  return { ...found, reached: found.reached + ofDays.reached };
}

/**
 * The same for budgets of cost centres. Where no company has one, it reads an empty table. Otherwise the sums of the present
 * month of those companies that have one, and spent something since the cursor: a row for each key, endpoint and cost centre.
 * @param cursor as of `EventStore.lookAtCostCenters`
 */
export async function lookAtCostCenters(sql: Sql, cursor: string | null): Promise<string | null> {
  const [{ any }] = await sql<
    [{ any: boolean }]
  >`select exists (select 1 from cost_center_budgets) as any`;
  if (!any) return null;
  const [found] = await sql<[{ cursor: string }]>`
    with ${costCenterStates(sql, onlyLater(sql, cursor))}, ${writtenAlerts(sql)}
    select ${sql.unsafe(SPEND_CURSOR)} as cursor`;
  return found.cursor;
}

/** A condition on `s`, a row of monthly_spend. */
export function onlyLater(sql: Sql, cursor: string | null): Fragment {
  return cursor === null
    ? sql`true`
    : sql`company_id = any(array(with changed as materialized (${sql.unsafe(spentSince(cursor))}) select distinct company_id from changed))`;
}

/**
 * Tables of a WITH clause as `states` has them, of cost centres that have a budget and some spend. Each table is read by
 * itself: the budgets may be on another server than the sums.
 */
function costCenterStates(sql: Sql, only: Fragment) {
  return sql`
    month as materialized (${presentMonth(sql)}),
    centres as materialized (
      select b.company_id, b.name, b.monthly_budget_eur from cost_center_budgets b join companies c on c.id = b.company_id
      where c.closed_at is null
    ),
    spends as materialized (
      select company_id from monthly_spend s
      where company_id = any(array(select distinct company_id from centres)) and billing_month = (select first from month) and ${only}
    ),
    sums as materialized (
      select company_id, cost_center, sum(cost_eur) as spent from usage_key_months
      where company_id = any(array(select company_id from spends)) and billing_month = (select first from month)
      group by 1, 2
    ),
    budgets as (
      select b.company_id, null::uuid as api_key_id, b.name as cost_center, b.monthly_budget_eur as budget, s.spent, null::date as day
      from centres b join sums s on s.company_id = b.company_id and s.cost_center = b.name
    ),
    states as (
      select b.*, ${forecast(sql)} as forecast from budgets b cross join month
    )`;
}

/** Tables of a WITH clause behind `month` and `states`, of which `written` has the alerts that are new. */
function writtenAlerts(sql: Sql) {
  return sql`
    chosen as materialized (
      select company_id, array_agg(distinct percent::integer) as percents
      from alert_receivers r cross join unnest(r.percents) as percent group by 1
    ),
    reached as (
      select s.*, coalesce(date_trunc('month', s.day)::date, m.first) as month, t.threshold, t.rank
      from states s cross join month m left join chosen o on o.company_id = s.company_id cross join lateral (
        select percent::text, percent, s.spent * 100 >= s.budget * percent
        from (select unnest(${sql.unsafe(STANDARD)}) union select unnest(o.percents)) p (percent)
        union all select 'forecast', 99.5, s.spent < s.budget and s.forecast > s.budget) as t (threshold, rank, holds)
      where t.holds
    ),
    fresh as (
      select r.*, r.rank < max(r.rank) over (partition by r.company_id, r.api_key_id, r.cost_center, r.day) as superseded from reached r
      where not exists (
        select 1 from budget_alerts a where a.company_id = r.company_id and a.billing_month = r.month
          and a.threshold = r.threshold and coalesce(a.api_key_id, ${nilId(sql)}) = coalesce(r.api_key_id, ${nilId(sql)})
          and coalesce(a.cost_center, '') = coalesce(r.cost_center, '') and a.day is not distinct from r.day)
    ),
    written as (
      insert into budget_alerts (company_id, api_key_id, cost_center, billing_month, threshold, budget_eur, spent_eur, forecast_eur, superseded, day)
      select company_id, api_key_id, cost_center, month, threshold, budget, spent, forecast, superseded, day from fresh
      on conflict do nothing
      returning id
    )`;
}

/** A BudgetAlert as JSON, of the alert `a`, its company `c` and its key `k`. */
function alertColumn(sql: Sql) {
  return sql`json_build_object('id', a.id, 'company', json_build_object('id', c.id, 'name', c.name),
    'key', case when a.api_key_id is not null then json_build_object('id', a.api_key_id,
      'name', coalesce(k.name, 'removed key'), 'prefix', coalesce(k.prefix, '')) end, 'cost_center', a.cost_center,
    'month', to_char(a.billing_month, 'YYYY-MM'), 'day', to_char(a.day, 'YYYY-MM-DD'), 'threshold', a.threshold,
    'budget_eur', trim_scale(a.budget_eur)::text, 'spent_eur', trim_scale(a.spent_eur)::text,
    'forecast_eur', trim_scale(a.forecast_eur)::text,
    'occurred_at', utc_text(a.occurred_at))`;
}

/** A budget of the present month, as pages show it. */
export interface BudgetNotice {
  /** null: the company's own budget. */
  readonly key: Pick<NonNullable<BudgetAlert['key']>, 'id' | 'name' | 'prefix'> | null;
  /** First day, "2026-11-01". */
  readonly month: string;
  /** The highest threshold that is reached, in percent; null: none. */
  readonly used: 50 | 80 | 100 | null;
  /** What is used, in percent with one decimal, cut. */
  readonly percent: number;
  /** The day on which the budget is reached at this pace; null: not in this month. */
  readonly reached_on: string | null;
}

/** The alerts of a company's present month that are still true, the company's own first. */
export async function readNotices(
  sql: Sql,
  company: string,
  limit: number,
): Promise<BudgetNotice[]> {
  return sql<BudgetNotice[]>`
    with ${states(sql, sql`s.company_id = ${company}`)},
    alerted as (
      select api_key_id, max(threshold::integer) filter (where threshold <> 'forecast') as percent,
        bool_or(threshold = 'forecast') as forecast
      from budget_alerts
      where company_id = ${company} and billing_month = (select first from month) and cost_center is null and day is null group by 1
    ),
    notices as (
      select s.api_key_id, to_char(m.first, 'YYYY-MM-DD') as month,
        trunc(s.spent * 100 / s.budget, 1)::float8 as percent,
        (select max(t) from unnest(${sql.unsafe(STANDARD)}) as t where t <= a.percent and s.spent * 100 >= s.budget * t) as used,
        case when a.forecast and s.spent < s.budget and s.forecast > s.budget then
          to_char((m.begins + make_interval(secs => (m.elapsed * s.budget / s.spent)::float8)) at time zone m.zone, 'YYYY-MM-DD')
        end as reached_on
      from states s cross join month m join alerted a on a.api_key_id is not distinct from s.api_key_id
    )
    select case when k.id is not null then json_build_object('id', k.id, 'name', k.name, 'prefix', k.prefix) end as key,
      month, used, percent, reached_on
    from notices n left join api_keys k on k.id = n.api_key_id
    where used is not null or reached_on is not null
    order by n.api_key_id is not null, used desc nulls last, k.name, k.id limit ${limit}`;
}

/** An alert, and its delivery to one receiver. The members of the delivery are null where nobody receives alerts. */
export interface AlertRow {
  readonly alert: BudgetAlert;
  /** superseded: a higher one was told; unsent: there was no receiver; forgotten: its event is not kept any more. */
  readonly state: 'pending' | 'delivered' | 'dead' | 'superseded' | 'unsent' | 'forgotten';
  readonly channel: Channel | null;
  readonly recipient: string | null;
  readonly attempts: number | null;
  readonly next_attempt_at: Date | null;
  readonly last_error: string | null;
  readonly delivered_at: Date | null;
}

/** Whether a delivery `d` is in a state. */
export const IN_STATE: Readonly<Record<EventState, string>> = {
  undelivered: "(d.state = 'dead' or d.state = 'pending' and d.attempts > 0)",
  failing: "(d.state = 'pending' and d.attempts >= 5)", // the fifth attempt is 7 minutes after the first
  dead: "d.state = 'dead'",
};

/** Alerts, newest first. @param undelivered only what failed so far, or was given up */
export async function listAlerts(
  sql: Sql,
  { undelivered, company, limit }: { undelivered: boolean; company: string | null; limit: number },
): Promise<AlertRow[]> {
  return sql<AlertRow[]>`
    select ${alertColumn(sql)} as alert,
      coalesce(d.state, case when a.superseded then 'superseded' when e.id is null then 'forgotten' when e.told then 'unsent' else 'pending' end) as state,
      d.channel, d.recipient, d.attempts, d.next_attempt_at, d.last_error, d.delivered_at
    from budget_alerts a join companies c on c.id = a.company_id left join api_keys k on k.id = a.api_key_id
    left join events e on e.id = a.id left join event_deliveries d on d.event_id = a.id
    where true ${matching(sql, { 'a.company_id': company })}
      and ${undelivered ? sql.unsafe(IN_STATE.undelivered) : sql`true`}
    order by a.occurred_at desc, a.id, d.channel, d.recipient limit ${limit}`;
}

/** Makes undelivered alerts due again. @param id of an alert; null: all @returns how many deliveries */
export async function updateUndelivered(sql: Sql, id: string | null): Promise<number> {
  const { count } = await sql`
    update event_deliveries set state = 'pending', attempts = 0, next_attempt_at = now()
    where state <> 'delivered' and event_id in (select id from budget_alerts where ${id === null ? sql`true` : sql`id = ${id}`})`;
  return count;
}

export async function hasAlert(sql: Sql, id: string): Promise<boolean> {
  return (await sql`select from budget_alerts where id = ${id}`).length > 0;
}
