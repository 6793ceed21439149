import { matching } from '../connection/columns.ts';
import { HAS_ALLOWANCE, SPEND_CURSOR } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { withinTime } from '../connection/within-time.ts';
import { onlyLater } from './alert.ts';

/** End users who used up their budgets (sql/schema/budgets.sql). People are told of them together. */

/** The thresholds of end users, in percent. */
const PERCENTS = '{80, 100}';
/** How many of the people who reached their budgets last are looked at, to find those who are still there. */
const MOST_LOOKED_AT = 200;

/** How long a look takes at most, and of it each company. */
const ALL_MS = 10_000;
const COMPANY_MS = 3000;

const PRESENT = '(select billing_month(now()))';

/**
 * Writes a row for whoever newly used so much of a budget, and an event for each company and threshold that was told none
 * within an hour: the others wait. Where no key has such budgets it reads an empty index. Companies come in a random order, each
 * with a time of its own, so none keeps others from it. To be run in a transaction.
 * @param cursor as of `EventStore.lookAtCostCenters`
 * @returns the next cursor; null: no key has such budgets
 */
export async function lookAtEndUsers(sql: Sql, cursor: string | null): Promise<string | null> {
  const [{ any, next }] = await sql<[{ any: boolean; next: string }]>`
    select exists (select 1 from api_keys where ${sql.unsafe(HAS_ALLOWANCE)}) as any, ${sql.unsafe(SPEND_CURSOR)} as next`;
  if (!any) return null;
  const companies = await sql<{ id: string }[]>`
    with spent as materialized (
      select company_id from monthly_spend s where billing_month = ${sql.unsafe(PRESENT)} and ${onlyLater(sql, cursor)}
    ),
    keys as materialized (select company_id from api_keys where ${sql.unsafe(HAS_ALLOWANCE)})
    select id from companies where closed_at is null and end_user_alerts
      and id = any(array(select company_id from spent)) and id = any(array(select company_id from keys)) order by random()`;
  await sql`set local enable_nestloop = off`; // as in pageOfKeys
  const ends = performance.now() + ALL_MS;
  for (const { id } of companies) {
    if (performance.now() > ends) break;
    await withinTime(sql, COMPANY_MS, () => noteReached(sql, id));
  }
  await tellReached(sql);
  return next;
}

async function noteReached(sql: Sql, company: string): Promise<void> {
  await sql`
    with keys as materialized (
      select id, line, case when ${sql.unsafe(HAS_ALLOWANCE)} then end_user_budget_eur end as budget from api_keys where company_id = ${company}
    ),
    allowances as (select line, min(budget) as budget from keys group by 1),
    sums as materialized (
      select end_user_id, api_key_id, sum(cost_eur) as spent from usage_end_user_days
      where company_id = ${company} and billing_month = ${sql.unsafe(PRESENT)} group by 1, 2
    ),
    lines as (select end_user_id as id, line, sum(spent) as spent from sums s join keys k on k.id = s.api_key_id group by 1, 2)
    insert into end_user_alerts (company_id, billing_month, end_user_id, threshold)
    select distinct ${company}::uuid, ${sql.unsafe(PRESENT)}, u.id, percent
    from lines l join allowances a using (line) join end_users u on u.id = l.id, unnest(${PERCENTS}::integer[]) as percent
    where u.name is not null and l.spent * 100 >= coalesce(u.monthly_budget_eur, a.budget) * percent and a.budget is not null
    on conflict do nothing`;
}

async function tellReached(sql: Sql): Promise<void> {
  await sql`
    with due as materialized (
      select distinct company_id, billing_month from end_user_alerts w where told_at is null and not exists (
        select 1 from end_user_alerts t where t.company_id = w.company_id and t.billing_month = w.billing_month and t.told_at > now() - interval '1 hour')
    ),
    told as (
      update end_user_alerts a set told_at = now() from due d
      where a.company_id = d.company_id and a.billing_month = d.billing_month and a.told_at is null
      returning a.company_id, a.billing_month, end_user_id, threshold
    ),
    highest as (select company_id, billing_month, end_user_id as id, max(threshold) as threshold from told group by 1, 2, 3)
    insert into events (company_id, kind, subject, body)
    select company_id, 'end_user.threshold', company_id::text, jsonb_build_object('month', to_char(billing_month, 'YYYY-MM'),
      'threshold', threshold::text, 'count', count(*), 'end_user', case when count(*) = 1 then jsonb_build_object('id', min(id::text)) end)
    from highest group by company_id, billing_month, threshold`;
}

/** Forgets what was told in months that are over. */
export async function deleteOldEndUserAlerts(sql: Sql): Promise<void> {
  await sql`delete from end_user_alerts where told_at is not null and billing_month < ${sql.unsafe(PRESENT)}`;
}

/** Somebody whose calls are refused now, since a budget of the present month is used up. */
export interface RefusedEndUser {
  readonly id: string;
  readonly name: string;
  readonly company: { readonly id: string; readonly name: string };
}

/**
 * Those who reached their budgets last and are still there, as gateways found them a minute ago.
 * @param company null: of all
 */
export function readRefusedEndUsers(
  sql: Sql,
  company: string | null,
  limit: number,
): PromiseLike<RefusedEndUser[]> {
  return sql<RefusedEndUser[]>`
    with reached as materialized (
      select company_id, end_user_id as id, occurred_at from end_user_alerts
      where billing_month = ${sql.unsafe(PRESENT)} and threshold = 100 ${matching(sql, { company_id: company })}
      order by occurred_at desc, end_user_id limit ${MOST_LOOKED_AT}
    ),
    sums as materialized (
      select end_user_id as id, api_key_id, sum(cost_eur) as spent from usage_end_user_days
      where company_id = any(array(select company_id from reached)) and billing_month = ${sql.unsafe(PRESENT)}
        and end_user_id = any(array(select id from reached)) group by 1, 2
    ),
    keys as materialized (
      select id, line, case when ${sql.unsafe(HAS_ALLOWANCE)} then end_user_budget_eur end as budget
      from api_keys where company_id = any(array(select company_id from reached))
    ),
    lines as (select s.id, line, sum(spent) as spent from sums s join keys k on k.id = s.api_key_id group by 1, 2),
    allowances as (select line, min(budget) as budget from keys group by 1)
    select u.id, u.name, json_build_object('id', c.id, 'name', c.name) as company
    from reached r join end_users u on u.id = r.id join companies c on c.id = r.company_id
    where u.name is not null and c.closed_at is null and exists (
      select 1 from lines l join allowances a using (line) where l.id = u.id and a.budget is not null and l.spent >= coalesce(u.monthly_budget_eur, a.budget))
    order by r.occurred_at desc, u.id limit ${limit}`;
}
