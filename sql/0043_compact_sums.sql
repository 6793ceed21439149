-- Sums of the ledger with fewer dimensions, so that pages of a company with thousands of keys, and the margin of
-- thousands of companies, read hundreds of rows instead of hundreds of thousands.

-- usage_daily without keys.
create table usage_company_days (
  company_id        uuid not null,
  billing_month     date not null,
  day               date not null,
  model_slug        text not null,
  endpoint          text not null,
  usage_source      text not null,
  outcome           text not null,
  cost_center       text not null,
  requests          bigint not null,
  prompt_tokens     bigint not null,
  completion_tokens bigint not null,
  cost_eur          numeric not null,
  primary key (company_id, billing_month, day, model_slug, endpoint, usage_source, outcome, cost_center)
) with (fillfactor = 60); -- as for usage_daily: the rows of today change with every batch
comment on table usage_company_days is 'always the sum of the usage_daily rows it stands for';
-- a month or day of all companies is read for the margin and the overview: rows of one day lie beside each other
create index usage_company_days_time on usage_company_days using brin (billing_month, day) with (pages_per_range = 32);

-- usage_monthly without models. What a key spent in a month is one row, or a few.
create table usage_key_months (
  company_id        uuid not null,
  billing_month     date not null,
  api_key_id        uuid not null,
  endpoint          text not null,
  cost_center       text not null,
  requests          bigint not null,
  prompt_tokens     bigint not null,
  completion_tokens bigint not null,
  cost_eur          numeric not null,
  estimated         bigint not null,
  unfinished        bigint not null,
  primary key (company_id, billing_month, api_key_id, endpoint, cost_center)
) with (fillfactor = 60);
comment on table usage_key_months is 'always the sum of the usage_monthly rows it stands for';
comment on column usage_key_months.estimated is 'requests with estimated tokens';
comment on column usage_key_months.unfinished is 'requests that did not complete';

-- usage_daily without companies and keys. A row that every batch of every gateway changes would make them wait for each
-- other, so there are up to 16 rows for a model and day: each transaction takes a part that no other one has.
create table usage_model_days (
  billing_month     date not null,
  day               date not null,
  model_slug        text not null,
  part              smallint not null,
  requests          bigint not null,
  prompt_tokens     bigint not null,
  completion_tokens bigint not null,
  cost_eur          numeric not null,
  primary key (billing_month, day, model_slug, part)
) with (fillfactor = 60);
comment on table usage_model_days is 'its parts are together always the sum of the usage_daily rows they stand for';

-- No row is counted twice or not at all: writers wait until the end.
lock table api_usage in share row exclusive mode;

-- As in 0031_cost_centers.sql, with three more tables and late_usage (0041_statements.sql). Whether a month is closed is
-- a column of the row of monthly_spend that is counted anyway: closing a month takes that row, so a batch is either
-- before it or knows of it, whoever writes.
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
      model_slug, api_key_id, endpoint, usage_source, outcome, cost_center,
      count(*) as requests, sum(prompt_tokens) as prompt_tokens, sum(completion_tokens) as completion_tokens, sum(cost_eur) as cost_eur
    from added group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
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
end $$;

-- As in 0032_gateways.sql: the sums of today are a few rows now.
create or replace function mark_usage() returns void language plpgsql set search_path from current as $$
declare
  today constant date := now() at time zone (select value from settings where name = 'billing_timezone');
  month constant date := billing_month(now());
begin
  if not pg_try_advisory_xact_lock(hashtext('tollgate usage marks'))
    or exists (select from usage_marks where period = 'month' and begins = month and at > now() - interval '15 minutes')
  then return; end if;
  insert into usage_marks (period, begins, at, requests, tokens, cost_eur)
  select 'day', today, now(), coalesce(sum(requests), 0), coalesce(sum(prompt_tokens + completion_tokens), 0), coalesce(sum(cost_eur), 0)
  from usage_model_days where day = today
  union all
  select 'month', month, now(), coalesce(sum(requests), 0), coalesce(sum(prompt_tokens + completion_tokens), 0), coalesce(sum(api_cost_eur), 0)
  from monthly_spend where billing_month = month;
  delete from usage_marks where period = 'day' and begins < today - 2 or begins < month - interval '1 month';
end $$;

-- What is there already.
insert into usage_company_days
select company_id, billing_month, day, model_slug, endpoint, usage_source, outcome, cost_center,
  sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
from usage_daily group by 1, 2, 3, 4, 5, 6, 7, 8 order by 2, 3, 1;
insert into usage_key_months
select company_id, billing_month, api_key_id, endpoint, cost_center,
  sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur),
  coalesce(sum(requests) filter (where usage_source = 'estimated'), 0), coalesce(sum(requests) filter (where outcome <> 'completed'), 0)
from usage_monthly group by 1, 2, 3, 4, 5 order by 2, 1;
insert into usage_model_days
select billing_month, day, model_slug, 0, sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
from usage_company_days group by 1, 2, 3;
analyze usage_company_days, usage_key_months, usage_model_days;

-- Nothing reads a month or day of all companies from usage_daily any more.
drop index usage_daily_month, usage_daily_day;

alter table usage_company_days enable row level security;
alter table usage_key_months enable row level security;
create policy own on usage_company_days using (is_visible(company_id));
create policy own on usage_key_months using (is_visible(company_id));
-- What is_visible says, found out once for a statement instead of for each row, which took longer than summing it.
do $$
declare
  of_company text;
begin
  foreach of_company in array array['usage_daily', 'usage_hourly', 'usage_monthly', 'usage_company_days', 'usage_key_months',
    'request_hours', 'api_keys']
  loop
    execute format($policy$alter policy own on %I using ((select current_user) <> 'tollgate_tenant'
      or company_id = (select nullif(current_setting('tollgate.company_id', true), '')::uuid))$policy$, of_company);
  end loop;
end $$;
insert into tenant_grants (privilege) values ('select on usage_company_days, usage_key_months');
select raise_tenant_wall();
