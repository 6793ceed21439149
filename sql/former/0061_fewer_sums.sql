-- needs 0061
-- Fewer tables of sums move with each call: what pages read of usage_hourly they read of the ledger and of usage_daily, and
-- usage_key_days had the key of usage_key_months. The tables are data in src/store/statement/sums.ts; a test compares what follows.

-- No row is counted twice or not at all: writers wait until the end.
lock table api_usage in share row exclusive mode;

-- Runs a statement in which {...} stands for what is in the braces once for each column: NAME, with costs of the days
-- that are DAYS of a month.
create function run_for_days(statement text) returns void language plpgsql set search_path from current as $$
declare
  braced text;
begin
  for braced in select distinct part[1] from regexp_matches(statement, '\{[^{}]*\}', 'g') as part loop
    statement := replace(statement, braced, (
      select string_agg(replace(replace(trim(braced, '{}'), 'NAME', name), 'DAYS', days), ', ' order by place)
      from (
        select n as place, 'day_' || to_char(n, 'FM00') as name, '= ' || n as days from generate_series(1, 31) n
        union all
        select 31 + n, format('days_%s_%s', to_char(n, 'FM00'), to_char(l, 'FM00')), format('between %s and %s', n, l)
        from generate_series(1, 26, 5) n, lateral (select case n when 26 then 31 else n + 4 end as l) last) as columns));
  end loop;
  execute statement;
end $$;

-- What a key cost on each day of a month, and in five days of it, is in the row that has its sums of the month.
select run_for_days('alter table usage_key_months {add column NAME numeric}');
select run_for_days('update usage_key_months m set {NAME = d.NAME} from usage_key_days d
  where d.company_id = m.company_id and d.billing_month = m.billing_month and d.api_key_id = m.api_key_id
    and d.endpoint = m.endpoint and d.cost_center = m.cost_center');
comment on column usage_key_months.day_01 is 'cost_eur of this day of the month, as in the columns for the others and for five days; null: no calls. Calls of a day beside their month are in none';
drop table usage_key_days, usage_hourly;
delete from tenant_grants where privilege in ('select on usage_key_days', 'select on usage_hourly, usage_monthly');
insert into tenant_grants (privilege) values ('select on usage_monthly');

-- The days of a key are found by its primary key: its order is that of a key's days now.
drop index usage_daily_key;
alter table usage_daily drop constraint usage_daily_pkey;
alter table usage_daily add primary key (company_id, billing_month, api_key_id, day, model_slug, endpoint, usage_source, outcome, cost_center);
drop index usage_monthly_key;

-- Rows of monthly_spend are taken in the same order by every writer: none waits for another crosswise. Who has them has
-- these months of these companies to itself, so the order of what follows does not matter. Whether a month is closed is
-- a column of that row (0041_statements.sql): closing a month takes it, so a batch is either before it or knows of it.
select run_for_days($run$
create or replace function count_api_usage() returns trigger language plpgsql set search_path from current as $$
declare
  zone text := (select value from settings where name = 'billing_timezone');
  late_companies uuid[];
  late_months    date[];
  own_part smallint := 0;
begin
  with counted as (
    insert into monthly_spend as s (company_id, billing_month, requests, prompt_tokens, completion_tokens, api_cost_eur)
    select company_id, billing_month, count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
    from added group by company_id, billing_month
    order by company_id, billing_month
    on conflict (company_id, billing_month) do update set
      requests          = s.requests + excluded.requests,
      prompt_tokens     = s.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = s.completion_tokens + excluded.completion_tokens,
      api_cost_eur      = s.api_cost_eur + excluded.api_cost_eur,
      changed_xid       = excluded.changed_xid
    returning s.company_id, s.billing_month, s.statement
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
    select company_id, billing_month, (occurred_at at time zone zone)::date as day, (occurred_at at time zone zone)::date - billing_month + 1 as number,
      model_slug, api_key_id, endpoint, usage_source, outcome, cost_center,
      count(*) as requests, sum(prompt_tokens) as prompt_tokens, sum(completion_tokens) as completion_tokens, sum(cost_eur) as cost_eur
    from added group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
  ),
  company_days as (
    insert into usage_company_days as s (company_id, billing_month, day, model_slug, endpoint, usage_source, outcome, cost_center,
      requests, prompt_tokens, completion_tokens, cost_eur)
    select company_id, billing_month, day, model_slug, endpoint, usage_source, outcome, cost_center,
      sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
    from cells group by company_id, billing_month, day, model_slug, endpoint, usage_source, outcome, cost_center
    on conflict (company_id, billing_month, day, model_slug, endpoint, usage_source, outcome, cost_center) do update set
      requests          = s.requests + excluded.requests,
      prompt_tokens     = s.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = s.completion_tokens + excluded.completion_tokens,
      cost_eur          = s.cost_eur + excluded.cost_eur
  ),
  key_months as (
    insert into usage_key_months as s (company_id, billing_month, api_key_id, endpoint, cost_center,
      requests, prompt_tokens, completion_tokens, cost_eur, estimated, unfinished, {NAME})
    select company_id, billing_month, api_key_id, endpoint, cost_center,
      sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur),
      coalesce(sum(requests) filter (where usage_source = 'estimated'), 0), coalesce(sum(requests) filter (where outcome <> 'completed'), 0),
      {sum(cost_eur) filter (where number DAYS)}
    from cells group by company_id, billing_month, api_key_id, endpoint, cost_center
    on conflict (company_id, billing_month, api_key_id, endpoint, cost_center) do update set
      requests          = s.requests + excluded.requests,
      prompt_tokens     = s.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = s.completion_tokens + excluded.completion_tokens,
      cost_eur          = s.cost_eur + excluded.cost_eur,
      estimated         = s.estimated + excluded.estimated,
      unfinished        = s.unfinished + excluded.unfinished,
      {NAME = coalesce(s.NAME + excluded.NAME, s.NAME, excluded.NAME)}
  ),
  model_days as (
    insert into usage_model_days as s (billing_month, day, model_slug, part, requests, prompt_tokens, completion_tokens, cost_eur)
    select billing_month, day, model_slug, own_part, sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
    from cells group by billing_month, day, model_slug
    on conflict (billing_month, day, model_slug, part) do update set
      requests          = s.requests + excluded.requests,
      prompt_tokens     = s.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = s.completion_tokens + excluded.completion_tokens,
      cost_eur          = s.cost_eur + excluded.cost_eur
  ),
  monthly as (
    insert into usage_monthly as s (company_id, billing_month, model_slug, api_key_id, endpoint, usage_source, outcome, cost_center,
      requests, prompt_tokens, completion_tokens, cost_eur)
    select company_id, billing_month, model_slug, api_key_id, endpoint, usage_source, outcome, cost_center,
      sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
    from cells group by company_id, billing_month, model_slug, api_key_id, endpoint, usage_source, outcome, cost_center
    on conflict (company_id, billing_month, model_slug, api_key_id, endpoint, usage_source, outcome, cost_center) do update set
      requests          = s.requests + excluded.requests,
      prompt_tokens     = s.prompt_tokens + excluded.prompt_tokens,
      completion_tokens = s.completion_tokens + excluded.completion_tokens,
      cost_eur          = s.cost_eur + excluded.cost_eur
  )
  insert into usage_daily as s (company_id, billing_month, api_key_id, day, model_slug, endpoint, usage_source, outcome, cost_center,
    requests, prompt_tokens, completion_tokens, cost_eur)
  select company_id, billing_month, api_key_id, day, model_slug, endpoint, usage_source, outcome, cost_center,
    sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
  from cells group by company_id, billing_month, api_key_id, day, model_slug, endpoint, usage_source, outcome, cost_center
  on conflict (company_id, billing_month, api_key_id, day, model_slug, endpoint, usage_source, outcome, cost_center) do update set
    requests          = s.requests + excluded.requests,
    prompt_tokens     = s.prompt_tokens + excluded.prompt_tokens,
    completion_tokens = s.completion_tokens + excluded.completion_tokens,
    cost_eur          = s.cost_eur + excluded.cost_eur;
  return null;
end $$
$run$);
drop function run_for_days(text);

-- By a trigger of its own, so that count_api_usage() reads nothing more. It comes after count_usage by its name: who has
-- the rows of monthly_spend has these too.
create or replace function count_usage_details() returns trigger language plpgsql set search_path from current as $$
declare
  zone text := (select value from settings where name = 'billing_timezone');
begin
  with told as (
    select *, (occurred_at at time zone zone)::date as day from added
    where coalesce(cached_tokens, cache_write_tokens, audio_prompt_tokens, reasoning_tokens, audio_completion_tokens) is not null
  )
  insert into usage_details as s (company_id, billing_month, day, model_slug, endpoint, cost_center, requests, prompt_tokens,
    cached_tokens, cache_write_tokens, audio_prompt_tokens, reasoning_tokens, audio_completion_tokens)
  select company_id, billing_month, day, model_slug, endpoint, cost_center, count(*),
    coalesce(sum(prompt_tokens) filter (where cached_tokens is not null), 0), coalesce(sum(cached_tokens), 0),
    coalesce(sum(cache_write_tokens), 0), coalesce(sum(audio_prompt_tokens), 0), coalesce(sum(reasoning_tokens), 0),
    coalesce(sum(audio_completion_tokens), 0)
  from told group by company_id, billing_month, day, model_slug, endpoint, cost_center
  on conflict (company_id, billing_month, day, model_slug, endpoint, cost_center) do update set
    requests                = s.requests + excluded.requests,
    prompt_tokens           = s.prompt_tokens + excluded.prompt_tokens,
    cached_tokens           = s.cached_tokens + excluded.cached_tokens,
    cache_write_tokens      = s.cache_write_tokens + excluded.cache_write_tokens,
    audio_prompt_tokens     = s.audio_prompt_tokens + excluded.audio_prompt_tokens,
    reasoning_tokens        = s.reasoning_tokens + excluded.reasoning_tokens,
    audio_completion_tokens = s.audio_completion_tokens + excluded.audio_completion_tokens;
  return null;
end $$;

-- Books what the records tell of those calls that a batch inserted: they are here for the first time.
create or replace function book_upstream_costs(records json, month date, booked uuid[]) returns void
language plpgsql set search_path from current as $$
begin
  with costs as materialized (
    select distinct on (r.request_id) r.company_id, r.billing_month, r.request_id, r.model_slug, r.cost_eur,
      r.upstream_cost as cost, r.upstream_currency as currency
    from json_to_recordset(records) as r (billing_month date, request_id uuid, company_id uuid, model_slug text, cost_eur numeric,
      upstream_cost numeric, upstream_currency text) join unnest(booked) as b (id) on b.id = r.request_id
    where r.billing_month = month and r.upstream_cost >= 0 and r.upstream_cost < 1e6 and r.upstream_currency ~ '^[A-Z]{3}$'
    order by r.request_id
  ),
  kept as (
    insert into upstream_costs (company_id, billing_month, request_id, cost, currency)
    select company_id, billing_month, request_id, cost, currency from costs on conflict do nothing
  )
  insert into upstream_cost_monthly as s (company_id, billing_month, model_slug, currency, requests, cost, cost_eur)
  select company_id, billing_month, model_slug, currency, count(*), sum(cost), sum(cost_eur)
  from costs group by company_id, billing_month, model_slug, currency
  order by company_id, billing_month, model_slug, currency
  on conflict (company_id, billing_month, model_slug, currency) do update set
    requests = s.requests + excluded.requests,
    cost     = s.cost + excluded.cost,
    cost_eur = s.cost_eur + excluded.cost_eur;
end $$;

select raise_tenant_wall();
