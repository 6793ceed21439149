-- What a key cost on each day: a page that shows parts of months ranks thousands of keys by one row of a key and month,
-- or a few, instead of those of each day, model and outcome.

-- Runs a statement in which {...} stands for what is in the braces once for each column: NAME, with costs of the days
-- from FIRST to LAST of a month.
create function run_for_days(statement text) returns void language plpgsql set search_path from current as $$
declare
  part text;
begin
  for part in select distinct braced[1] from regexp_matches(statement, '\{[^{}]*\}', 'g') as braced loop
    statement := replace(statement, part, (
      select string_agg(replace(replace(replace(trim(part, '{}'), 'NAME', name), 'FIRST', first::text), 'LAST', last::text), ', '
        order by first = last desc, first)
      from (
        select 'day_' || to_char(n, 'FM00') as name, n as first, n as last from generate_series(1, 31) n
        union all
        select format('days_%s_%s', to_char(n, 'FM00'), to_char(l, 'FM00')), n, l
        from generate_series(1, 26, 5) n, lateral (select case n when 26 then 31 else n + 4 end as l) last) as columns));
  end loop;
  execute statement;
end $$;

-- Also the sums of five days, or of the six at the end: a part of a month is then at most some ten columns to add.
create table usage_key_days (
  company_id    uuid not null,
  billing_month date not null,
  api_key_id    uuid not null,
  endpoint      text not null,
  cost_center   text not null,
  primary key (company_id, billing_month, api_key_id, endpoint, cost_center)
) with (fillfactor = 60); -- as for usage_daily: the rows of this month change with every batch
select run_for_days('alter table usage_key_days {add column NAME numeric}');
comment on table usage_key_days is 'cost_eur of usage_daily by day and by five days of a month; null: no calls. Calls of a day beside their month are in none';

-- No row is counted twice or not at all: writers wait until the end.
lock table api_usage in share row exclusive mode;

-- As in 0043_compact_sums.sql, with one more table.
select run_for_days($run$
create or replace function count_api_usage() returns trigger language plpgsql set search_path from current as $$
declare
  zone text := (select value from settings where name = 'billing_timezone');
  late_companies uuid[];
  late_months    date[];
  own_part smallint := 0;
begin
  with counted as (
    insert into monthly_spend as m (company_id, billing_month, requests, prompt_tokens, completion_tokens, api_cost_eur)
    select company_id, billing_month, count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
    from added group by company_id, billing_month order by company_id, billing_month
    on conflict (company_id, billing_month) do update set
      requests          = m.requests + excluded.requests,
      prompt_tokens     = m.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = m.completion_tokens + excluded.completion_tokens,
      api_cost_eur      = m.api_cost_eur + excluded.api_cost_eur,
      changed_xid       = excluded.changed_xid
    returning m.company_id, m.billing_month, m.statement
  )
  select array_agg(company_id), array_agg(billing_month) into late_companies, late_months from counted where statement is not null;
  if late_companies is not null then
    insert into late_usage (company_id, billing_month, request_id)
    select company_id, billing_month, request_id
    from added join unnest(late_companies, late_months) as late (company_id, billing_month) using (company_id, billing_month);
  end if;

  -- the first part of usage_model_days that no transaction in progress has
  while own_part < 15 and not pg_try_advisory_xact_lock(hashtext('tollgate usage_model_days'), own_part) loop
    own_part := own_part + 1;
  end loop;

  with cells as materialized (
    select company_id, billing_month, (occurred_at at time zone zone)::date as day, date_trunc('hour', occurred_at, zone) as hour,
      (occurred_at at time zone zone)::date - billing_month + 1 as number, model_slug, api_key_id, endpoint, usage_source, outcome, cost_center,
      count(*) as requests, sum(prompt_tokens) as prompt_tokens, sum(completion_tokens) as completion_tokens, sum(cost_eur) as cost_eur
    from added group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11
  ),
  daily as (
    insert into usage_daily as d (company_id, billing_month, day, model_slug, api_key_id, endpoint, usage_source, outcome, cost_center,
      requests, prompt_tokens, completion_tokens, cost_eur)
    select company_id, billing_month, day, model_slug, api_key_id, endpoint, usage_source, outcome, cost_center,
      sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
    from cells group by 1, 2, 3, 4, 5, 6, 7, 8, 9
    on conflict (company_id, billing_month, day, model_slug, api_key_id, endpoint, usage_source, outcome, cost_center) do update set
      requests          = d.requests + excluded.requests,
      prompt_tokens     = d.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = d.completion_tokens + excluded.completion_tokens,
      cost_eur          = d.cost_eur + excluded.cost_eur
  ),
  company_days as (
    insert into usage_company_days as a (company_id, billing_month, day, model_slug, endpoint, usage_source, outcome, cost_center,
      requests, prompt_tokens, completion_tokens, cost_eur)
    select company_id, billing_month, day, model_slug, endpoint, usage_source, outcome, cost_center,
      sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
    from cells group by 1, 2, 3, 4, 5, 6, 7, 8
    on conflict (company_id, billing_month, day, model_slug, endpoint, usage_source, outcome, cost_center) do update set
      requests          = a.requests + excluded.requests,
      prompt_tokens     = a.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = a.completion_tokens + excluded.completion_tokens,
      cost_eur          = a.cost_eur + excluded.cost_eur
  ),
  key_months as (
    insert into usage_key_months as k (company_id, billing_month, api_key_id, endpoint, cost_center,
      requests, prompt_tokens, completion_tokens, cost_eur, estimated, unfinished)
    select company_id, billing_month, api_key_id, endpoint, cost_center,
      sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur),
      coalesce(sum(requests) filter (where usage_source = 'estimated'), 0), coalesce(sum(requests) filter (where outcome <> 'completed'), 0)
    from cells group by 1, 2, 3, 4, 5
    on conflict (company_id, billing_month, api_key_id, endpoint, cost_center) do update set
      requests          = k.requests + excluded.requests,
      prompt_tokens     = k.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = k.completion_tokens + excluded.completion_tokens,
      cost_eur          = k.cost_eur + excluded.cost_eur,
      estimated         = k.estimated + excluded.estimated,
      unfinished        = k.unfinished + excluded.unfinished
  ),
  key_days as (
    insert into usage_key_days as e (company_id, billing_month, api_key_id, endpoint, cost_center, {NAME})
    select company_id, billing_month, api_key_id, endpoint, cost_center, {sum(cost_eur) filter (where number between FIRST and LAST)}
    from cells group by 1, 2, 3, 4, 5
    on conflict (company_id, billing_month, api_key_id, endpoint, cost_center) do update set
      {NAME = coalesce(e.NAME + excluded.NAME, e.NAME, excluded.NAME)}
  ),
  model_days as (
    insert into usage_model_days as m (billing_month, day, model_slug, part, requests, prompt_tokens, completion_tokens, cost_eur)
    select billing_month, day, model_slug, own_part, sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
    from cells group by 1, 2, 3
    on conflict (billing_month, day, model_slug, part) do update set
      requests          = m.requests + excluded.requests,
      prompt_tokens     = m.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = m.completion_tokens + excluded.completion_tokens,
      cost_eur          = m.cost_eur + excluded.cost_eur
  ),
  hourly as (
    insert into usage_hourly as h (company_id, api_key_id, billing_month, day, hour, model_slug, endpoint, cost_center,
      requests, prompt_tokens, completion_tokens, cost_eur)
    select company_id, coalesce(api_key_id, '00000000-0000-0000-0000-000000000000'), billing_month, day, hour, model_slug, endpoint, cost_center,
      sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
    from cells group by company_id, billing_month, day, hour, model_slug, endpoint, cost_center, grouping sets ((api_key_id), ())
    on conflict (company_id, api_key_id, billing_month, day, hour, model_slug, endpoint, cost_center) do update set
      requests          = h.requests + excluded.requests,
      prompt_tokens     = h.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = h.completion_tokens + excluded.completion_tokens,
      cost_eur          = h.cost_eur + excluded.cost_eur
  )
  insert into usage_monthly as y (company_id, billing_month, model_slug, api_key_id, endpoint, usage_source, outcome, cost_center,
    requests, prompt_tokens, completion_tokens, cost_eur)
  select company_id, billing_month, model_slug, api_key_id, endpoint, usage_source, outcome, cost_center,
    sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
  from cells group by 1, 2, 3, 4, 5, 6, 7, 8
  on conflict (company_id, billing_month, model_slug, api_key_id, endpoint, usage_source, outcome, cost_center) do update set
    requests          = y.requests + excluded.requests,
    prompt_tokens     = y.prompt_tokens + excluded.prompt_tokens,
    completion_tokens = y.completion_tokens + excluded.completion_tokens,
    cost_eur          = y.cost_eur + excluded.cost_eur;
  return null;
end $$
$run$);

-- What is there already.
select run_for_days($run$
  insert into usage_key_days
  select company_id, billing_month, api_key_id, endpoint, cost_center, {sum(cost_eur) filter (where day - billing_month + 1 between FIRST and LAST)}
  from usage_daily group by 1, 2, 3, 4, 5 order by 2, 1
$run$);
analyze usage_key_days;
drop function run_for_days(text);

alter table usage_key_days enable row level security;
-- as for the others since 0043_compact_sums.sql: found out once for a statement
create policy own on usage_key_days using ((select current_user) <> 'tollgate_tenant'
  or company_id = (select nullif(current_setting('tollgate.company_id', true), '')::uuid));
insert into tenant_grants (privilege) values ('select on usage_key_days');
select raise_tenant_wall();
