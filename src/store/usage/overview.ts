import type { ModelHealth, Overview } from '../../domain/reports/overview.ts';
import { describeChange } from '../../domain/wording/change-text.ts';
import { dayBegins, IS_ACTIVE, utcSecond } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { forecast, presentMonth } from '../connection/present-month.ts';
import { tenantRoleAdvice } from '../connection/tenant-role.ts';
import { IN_STATE } from '../events/alert.ts';
import { pageOfAudit } from '../lists/audit.ts';
import { hasOperator, ownersOf } from '../users/user.ts';
import {
  isLive,
  isOfLastDay,
  PICTURE_DAYS,
  type RecentRequests,
  readRecentRequests,
} from './request-days.ts';

const MOST_CHANGES = 10;
const MOST_MODELS = 30;
const MOST_SPENDERS = 5;
/** Of budgets that end soon, that are used up, and of others. */
const MOST_BUDGETS = 10;
const NEAR_PERCENT = 80;
/** The most budgets of keys that are checked: of the keys alerted this month, the newest first. */
const MOST_KEYS = 50;

/** Runs a query on a connection of its own. */
type Read = <T>(query: (sql: Sql) => PromiseLike<T>) => Promise<T>;

/**
 * The overview for operators: usage of all companies, gateways, problems, and the last changes.
 * @param read called for several queries at once
 * @param spenders of the day and of the month; with 0 the rows of today's companies, which are many, are not read
 */
export async function readOverview(read: Read, spenders = MOST_SPENDERS): Promise<Overview> {
  const [facts, requests, models, { rows }, tenant_role_advice, has_operator] = await Promise.all([
    read((sql) => readFacts(sql, spenders)),
    read(readRecentRequests),
    read(readModels),
    read((sql) =>
      pageOfAudit(sql, {
        search: '',
        newestFirst: true,
        from: null,
        company: null,
        limit: MOST_CHANGES,
      }),
    ),
    read(tenantRoleAdvice),
    read(hasOperator),
  ]);
  return {
    ...facts,
    ...requests,
    models,
    tenant_role_advice,
    has_operator,
    changes: rows.map(describeChange),
  };
}

type Facts = Omit<
  Overview,
  keyof RecentRequests | 'models' | 'tenant_role_advice' | 'changes' | 'has_operator'
>;

/** Of the last hours as they are now, of those before from `request_totals`: no histogram is read. */
function readModels(sql: Sql): Promise<ModelHealth[]> {
  return sql<ModelHealth[]>`
    with hours as (
      select model_slug as slug, requests, refused, failed, upstream_failed, duration_ms,
        case when hour > now() - interval '2 hours' then requests else 0 end as recent_requests,
        case when hour > now() - interval '2 hours' then upstream_failed else 0 end as recent_upstream_failed
      from request_hours where ${isLive(sql)}
      union all
      select slug, m.requests, m.refused, m.failed, m.upstream_failed, m.duration_ms, 0, 0
      from request_totals, jsonb_each(models) as each (slug, sums),
        jsonb_to_record(sums) as m (requests bigint, refused bigint, failed bigint, upstream_failed bigint, duration_ms bigint)
      where ${isOfLastDay(sql)} and not (${isLive(sql)})
    )
    select slug, sum(requests)::bigint as requests, sum(refused)::bigint as refused, sum(failed)::bigint as failed,
      sum(upstream_failed)::bigint as upstream_failed, sum(recent_requests)::bigint as recent_requests,
      sum(recent_upstream_failed)::bigint as recent_upstream_failed,
      round(sum(duration_ms) / nullif(sum(requests - refused), 0), 1)::float8 as mean_ms
    from hours group by 1 order by sum(requests) desc, 1 limit ${MOST_MODELS}`;
}

/** One statement, so that all figures are of one instant. */
async function readFacts(sql: Sql, most: number): Promise<Facts> {
  const [row] = await sql<{ overview: Facts }[]>`
    with clock as materialized (
      select zone, (now() at time zone zone)::date as today, first as month, begins as month_begins, elapsed, length
      from (${presentMonth(sql)}) m
    ),
    models as materialized (
      select requests, prompt_tokens + completion_tokens as tokens, cost_eur as cost from usage_model_days
      where day = (select today from clock)
    ),
    untold as materialized (
      select model_slug, sum(completed) as requests, sum(untold) as estimated from usage_model_days
      where day >= (select today - 1 from clock) and billing_month >= (select month - interval '1 month' from clock)
      group by 1 having sum(untold) > 0 order by estimated desc, 1 limit ${MOST_MODELS}
    ),
    spend as materialized (
      select day, model_slug, sum(cost_eur) as cost from usage_model_days
      where day > (select today from clock) - ${PICTURE_DAYS}::integer and day <= (select today from clock)
        and billing_month >= (select today - interval '2 months' from clock) group by 1, 2
    ),
    today as materialized (
      select company_id, sum(cost_eur) as cost from usage_company_days
      where day = (select today from clock) and billing_month >= (select month - interval '1 month' from clock) group by 1
    ),
    month as materialized (
      select company_id, requests, prompt_tokens + completion_tokens as tokens, api_cost_eur as cost,
        api_cost_eur + chat_cost_eur as spent, chat_cost_eur as chat
      from monthly_spend where billing_month = (select month from clock)
    ),
    ${before(sql)},
    alerted as materialized (
      select api_key_id, company_id from budget_alerts
      where billing_month = (select month from clock) and api_key_id is not null and threshold <> '50' and day is null
      group by 1, 2 order by max(occurred_at) desc limit ${MOST_KEYS}
    ),
    key_spends as materialized (
      select api_key_id, sum(cost_eur) as spent from usage_key_months
      where company_id = any(array(select company_id from alerted)) and billing_month = (select month from clock)
        and api_key_id = any(array(select id from api_keys
          where line = any(array(select line from api_keys where id = any(array(select api_key_id from alerted)))))) group by 1
    ),
    line_spends as materialized (
      select a.line, sum(d.spent) as spent from key_spends d join api_keys a on a.id = d.api_key_id group by 1
    ),
    budgets as (
      select company_id, null::uuid as key_id, c.name as key_name, '' as prefix, company_budget(c.monthly_budget_eur, c.credit_limit_eur) as budget, spent, c.name
      from month join companies c on c.id = company_id where company_budget(c.monthly_budget_eur, c.credit_limit_eur) > 0
      union all
      select k.company_id, k.id, k.name, k.prefix, k.monthly_budget_eur, coalesce(d.spent, 0), c.name
      from alerted a join api_keys k on k.id = a.api_key_id join companies c on c.id = k.company_id
      left join line_spends d on d.line = k.line
      where k.monthly_budget_eur > 0 and ${sql.unsafe(IS_ACTIVE)}
    ),
    -- a forecast takes long to round: only where it, or what is spent, may be near
    near as materialized (
      select * from (
        select b.*, ${forecast(sql)} as forecast from budgets b, clock
        where spent * length >= budget * elapsed * ${NEAR_PERCENT}::numeric / 100) f
      where spent >= budget * ${NEAR_PERCENT}::numeric / 100 or forecast > budget
    ),
    ends as (
      select n.*, case when spent >= budget then 2 when forecast > budget then 1 else 3 end as kind,
        case when spent < budget and forecast > budget then month_begins + make_interval(secs => (elapsed * budget / spent)::float8) end as ends_at
      from near n, clock
    ),
    nearest as materialized (
      select *, row_number() over (order by kind, ends_at, spent / budget desc, name, key_id nulls first) as place
      from (select *, row_number() over (partition by kind order by ends_at, spent / budget desc, name, key_id nulls first) as nth from ends) e
      where nth <= ${MOST_BUDGETS} order by place limit ${2 * MOST_BUDGETS}
    ),
    owners as materialized (${ownersOf(sql, sql`select company_id from nearest`)})
    select jsonb_build_object(
      'at', ${sql.unsafe(utcSecond('now()'))},
      'today', (select ${sums(sql)} || jsonb_build_object('begins', (select today from clock),
          'before', (select sums from before where period = 'day'), 'spenders', ${spenders(sql, sql`today`, sql`cost`, most)})
        from models),
      'month', (select ${sums(sql)} || jsonb_build_object('begins', (select month from clock),
        'before', (select sums from before where period = 'month'), 'spenders', ${spenders(sql, sql`month`, sql`spent`, most)},
        'chat_eur', trim_scale(coalesce(sum(chat), 0))::text) from month),
      'budgets', jsonb_build_object('total', (select count(*) from near), 'used_up', (select count(*) from near where spent >= budget),
        'nearest', coalesce((select jsonb_agg(jsonb_build_object('company', jsonb_build_object('id', company_id, 'name', name),
            'key', case when key_id is not null then jsonb_build_object('id', key_id, 'name', key_name, 'prefix', prefix) end,
            'budget_eur', trim_scale(budget)::text, 'spent_eur', trim_scale(spent)::text,
            'percent', trunc(spent * 100 / budget, 1), 'forecast_percent', round(forecast * 100 / budget, 1),
            'reached_on', to_char(ends_at at time zone zone, 'YYYY-MM-DD'), 'owners', coalesce(emails, '[]')) order by place)
          from clock, nearest left join owners using (company_id)), '[]')),
      'spend', coalesce((select jsonb_agg(jsonb_build_object('day', day, 'model', model_slug, 'cost_eur', trim_scale(cost)::text)
        order by day, model_slug) from spend), '[]'),
      'untold_usage', coalesce((select jsonb_agg(jsonb_build_object('slug', model_slug, 'requests', requests, 'estimated', estimated)
        order by estimated desc, model_slug) from untold), '[]'),
      'unread_usage', coalesce((select jsonb_agg(jsonb_build_object('slug', slug, 'members', members) order by slug)
        from (select u ->> 'slug' as slug, jsonb_agg(distinct member order by member) as members
          from gateways, jsonb_array_elements(unread_usage) u, jsonb_array_elements_text(u -> 'members') member
          where last_seen_at > now() - interval '1 day' group by 1 order by 1 limit ${MOST_MODELS}) unread), '[]'),
      'set_aside', (select count(*) from api_usage_set_aside),
      'dead_deliveries', (select count(*) from event_deliveries d where ${sql.unsafe(IN_STATE.dead)}),
      'failing_deliveries', (select count(*) from event_deliveries d where ${sql.unsafe(IN_STATE.failing)}),
      'gateways', ${gateways(sql)}) as overview`;
  return (row as { overview: Facts }).overview;
}

type Fragment = ReturnType<typeof sums>;

/** The members of Totals, over a table with `requests`, `tokens` and `cost`. */
function sums(sql: Sql) {
  return sql`jsonb_build_object('requests', coalesce(sum(requests), 0), 'tokens', coalesce(sum(tokens), 0),
    'cost_eur', trim_scale(coalesce(sum(cost), 0))::text)`;
}

/** Companies with the highest amounts of a table. */
function spenders(sql: Sql, table: Fragment, amount: Fragment, most: number): Fragment {
  if (most === 0) return sql`'[]'::jsonb`;
  return sql`coalesce((
    select jsonb_agg(jsonb_build_object('id', company_id, 'name', c.name, 'cost_eur', trim_scale(amount)::text,
        'share', round(amount * 100 / total, 1)) order by amount desc, company_id)
    from (
      select company_id, ${amount} as amount from ${table} order by ${amount} desc, company_id limit ${most}) top
    left join companies c on c.id = company_id, (select nullif(sum(${amount}), 0) as total from ${table}) t
    where amount > 0), '[]')`;
}

/**
 * Tables of a WITH clause: `before` has the Totals of yesterday and of the month before, up to the same time.
 * That time lies between two marks; where there is none, between the beginning and the end of that day or month.
 */
function before(sql: Sql): Fragment {
  const mark = (when: Fragment) => sql`
    select at, requests, tokens, cost_eur as cost from usage_marks m
    where m.period = s.period and m.begins = s.begins and ${when} limit 1`;
  return sql`
    spans as (
      select 'day' as period, today - 1 as begins, ((now() at time zone zone) - interval '1 day') at time zone zone as until,
        ${sql.unsafe(dayBegins('today - 1', 'zone'))} as starts, ${sql.unsafe(dayBegins('today', 'zone'))} as ends from clock
      union all
      select 'month', (month - interval '1 month')::date, ((now() at time zone zone) - interval '1 month') at time zone zone,
        ${sql.unsafe(dayBegins("month - interval '1 month'", 'zone'))}, month_begins from clock
    ),
    -- read only where there is no later mark
    yesterday as materialized (
      select coalesce(sum(requests), 0) as requests, coalesce(sum(prompt_tokens + completion_tokens), 0) as tokens,
        coalesce(sum(cost_eur), 0) as cost
      from usage_model_days where day = (select today - 1 from clock)
    ),
    last_month as materialized (
      select coalesce(sum(requests), 0) as requests, coalesce(sum(prompt_tokens + completion_tokens), 0) as tokens,
        coalesce(sum(api_cost_eur), 0) as cost
      from monthly_spend where billing_month = (select (month - interval '1 month')::date from clock)
    ),
    before as (
      select period, (
        select jsonb_build_object('requests', round(u.requests + (o.requests - u.requests) * part),
          'tokens', round(u.tokens + (o.tokens - u.tokens) * part),
          'cost_eur', trim_scale(round(u.cost + (o.cost - u.cost) * part, 2))::text)
        from (select coalesce(extract(epoch from s.until - u.at) / nullif(extract(epoch from o.at - u.at), 0), 0) as part) p) as sums
      from spans s
      cross join lateral (
        select * from (${mark(sql`at <= s.until order by at desc`)}) m
        union all select s.starts, 0, 0, 0 limit 1) u
      cross join lateral (
        select * from (${mark(sql`at > s.until order by at`)}) m
        union all (
          select s.ends, requests, tokens, cost from yesterday where s.period = 'day'
          union all select s.ends, requests, tokens, cost from last_month where s.period = 'month')
        limit 1) o
    )`;
}

/** All GatewayRows, in the order of their names. */
function gateways(sql: Sql): Fragment {
  return sql`coalesce((
    select jsonb_agg(jsonb_build_object('id', id, 'name', name, 'version', version,
        'started_at', ${sql.unsafe(utcSecond('started_at'))}, 'last_seen_at', ${sql.unsafe(utcSecond('last_seen_at'))},
        'gone', last_seen_at < now() - interval '1 minute', 'backlog', backlog,
        'oldest_seconds', coalesce(round(extract(epoch from now() - oldest_at)), 0), 'lost', lost, 'spool_failing', spool_failing,
        'limits_alone', limits_alone, 'requests_in_flight', requests_in_flight)
      order by name, started_at, id)
    from gateways where last_seen_at > now() - interval '1 day' or backlog > 0), '[]')`;
}
