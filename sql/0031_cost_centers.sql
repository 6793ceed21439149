-- Cost centres: a label that the caller gives a call, for those who share its cost. And sums of the ledger by the
-- hour, for days, and by the month, for years.

alter table api_usage add column cost_center text not null default '';
-- not valid: the rows of before have none, so there is nothing to look for in a large ledger
alter table api_usage add constraint api_usage_cost_center_check
  check (cost_center = '' or (length(cost_center) <= 64 and cost_center !~ '[\x01-\x1f\x7f]')) not valid;
comment on column api_usage.cost_center is 'what the caller named in metadata; empty: nothing';

-- Rows without a cost centre keep the digest that they have in older seals.
create or replace function usage_digest(usage api_usage) returns bytea language sql stable as $$
  select substr(sha256(convert_to(case when usage.cost_center = '' then json_build_array(
    usage.billing_month, usage.request_id, usage.company_id, usage.api_key_id, usage.model_slug, usage.upstream_model,
    usage.endpoint, usage.prompt_tokens, usage.completion_tokens, usage.cost_eur, usage.price_input, usage.price_output,
    usage.usage_source, usage.outcome, extract(epoch from usage.occurred_at))
  else json_build_array(
    usage.billing_month, usage.request_id, usage.company_id, usage.api_key_id, usage.model_slug, usage.upstream_model,
    usage.endpoint, usage.prompt_tokens, usage.completion_tokens, usage.cost_eur, usage.price_input, usage.price_output,
    usage.usage_source, usage.outcome, extract(epoch from usage.occurred_at), usage.cost_center)
  end::text, 'UTF8')), 1, 16)
$$;

-- As in 0012_repeated_batches.sql, with the cost centre.
create or replace function book_usage(batch_writer uuid, records json)
returns table (company_id uuid, billing_month date, cost_eur numeric)
language plpgsql set search_path from current as $$
#variable_conflict use_column
declare
  seal   ledger_seals;
  batch  record;
  booked boolean := false;
begin
  perform pg_advisory_xact_lock(hashtextextended('tollgate ledger ' || batch_writer, 0));
  select * into seal from ledger_seals s where s.writer = batch_writer order by s.number desc limit 1;
  if seal.number is null then
    seal.number := 0;
    seal.digest := '';
  end if;
  seal.writer := batch_writer;
  seal.sealed_at := now();
  for batch in
    with inserted as (
      insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint,
        prompt_tokens, completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at, cost_center)
      select r.billing_month, r.request_id, r.company_id, r.api_key_id, r.model_slug, r.upstream_model, r.endpoint,
        r.prompt_tokens, r.completion_tokens, r.cost_eur, r.price_input, r.price_output, r.usage_source, r.outcome, r.occurred_at,
        coalesce(r.cost_center, '') -- gateways of before and most calls name none
      from json_to_recordset(records) as r (billing_month date, request_id uuid, company_id uuid,
        api_key_id uuid, model_slug text, upstream_model text, endpoint text, prompt_tokens bigint,
        completion_tokens bigint, cost_eur numeric, price_input numeric, price_output numeric, usage_source text,
        outcome text, occurred_at timestamptz, cost_center text)
      order by r.billing_month, r.request_id -- the same for all writers: none waits for another crosswise
      on conflict do nothing
      returning billing_month as month, api_usage as usage
    ),
    companies as (
      select month, (usage).company_id as company, sum((usage).cost_eur) as cost
      from inserted group by 1, 2
    )
    select month, count(*)::integer as row_count,
      sum((usage).prompt_tokens) as prompt_tokens, sum((usage).completion_tokens) as completion_tokens,
      sum((usage).cost_eur) as cost, array_agg((usage).request_id order by (usage).request_id) as request_ids,
      string_agg(usage_digest(usage), ''::bytea order by (usage).request_id) as row_digests,
      (select array_agg(company order by company) from companies c where c.month = inserted.month) as companies,
      (select array_agg(cost order by company) from companies c where c.month = inserted.month) as costs
    from inserted group by month order by month
  loop
    booked := true;
    seal.number := seal.number + 1;
    seal.billing_month := batch.month;
    seal.row_count := batch.row_count;
    seal.prompt_tokens := batch.prompt_tokens;
    seal.completion_tokens := batch.completion_tokens;
    seal.cost_eur := batch.cost;
    seal.request_ids := batch.request_ids;
    seal.row_digests := batch.row_digests;
    seal.previous := seal.digest;
    seal.digest := seal_digest(seal);
    insert into ledger_seals select (seal).*;
    -- what a call reserved of a strict budget ends with the transaction that counts its cost
    delete from budget_reservations where request_id = any(batch.request_ids);
    return query select t.company, batch.month, t.cost from unnest(batch.companies, batch.costs) as t (company, cost);
  end loop;
  if not booked then perform pg_logical_emit_message(true, 'tollgate', 'repeated'); end if;
end $$;

alter table usage_daily add column cost_center text not null default '';
alter table usage_daily drop constraint usage_daily_pkey;
alter table usage_daily add primary key (company_id, billing_month, day, model_slug, api_key_id, endpoint, usage_source, outcome, cost_center);

-- By the hour, without how calls ended: the tables of a day come from usage_daily. For each key, and for all keys
-- together under the nil id: charts of a company with thousands of keys read a few rows for each hour.
create table usage_hourly (
  company_id        uuid not null,
  api_key_id        uuid not null,
  billing_month     date not null,
  day               date not null,
  hour              timestamptz not null,
  model_slug        text not null,
  endpoint          text not null,
  cost_center       text not null,
  requests          bigint not null,
  prompt_tokens     bigint not null,
  completion_tokens bigint not null,
  cost_eur          numeric not null,
  primary key (company_id, api_key_id, billing_month, day, hour, model_slug, endpoint, cost_center)
) with (fillfactor = 60); -- as for usage_daily: the rows of this hour change with every batch
comment on table usage_hourly is 'always the sum of the api_usage rows it stands for';
comment on column usage_hourly.api_key_id is 'the nil id stands for all keys together';
comment on column usage_hourly.day is 'calendar day of occurred_at in the billing time zone';
comment on column usage_hourly.hour is 'beginning of the hour in the billing time zone: one that the clocks repeat is there twice';

-- By the month: a year of a company with many keys is a few thousand of these rows instead of hundreds of thousands.
create table usage_monthly (
  company_id        uuid not null,
  billing_month     date not null,
  model_slug        text not null,
  api_key_id        uuid not null,
  endpoint          text not null,
  usage_source      text not null,
  outcome           text not null,
  cost_center       text not null,
  requests          bigint not null,
  prompt_tokens     bigint not null,
  completion_tokens bigint not null,
  cost_eur          numeric not null,
  primary key (company_id, billing_month, model_slug, api_key_id, endpoint, usage_source, outcome, cost_center)
) with (fillfactor = 60);
-- what a key spent in a month is a sum over these rows
create index usage_monthly_key on usage_monthly (api_key_id, billing_month);
comment on table usage_monthly is 'always the sum of the usage_daily rows it stands for';

-- One trigger does all, so partitions made later have it too. Rows of monthly_spend are taken in the same order by
-- every writer: none waits for another crosswise. Who has them has these months of these companies to itself, so the
-- order of what follows does not matter, and the rows are read and grouped once for all three tables.
create or replace function count_api_usage() returns trigger language plpgsql set search_path from current as $$
declare
  zone text := (select value from settings where name = 'billing_timezone');
begin
  insert into monthly_spend as m (company_id, billing_month, requests, prompt_tokens, completion_tokens, api_cost_eur)
  select company_id, billing_month, count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
  from added group by company_id, billing_month order by company_id, billing_month
  on conflict (company_id, billing_month) do update set
    requests          = m.requests + excluded.requests,
    prompt_tokens     = m.prompt_tokens + excluded.prompt_tokens,
    completion_tokens = m.completion_tokens + excluded.completion_tokens,
    api_cost_eur      = m.api_cost_eur + excluded.api_cost_eur,
    changed_xid       = excluded.changed_xid;

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

-- What is there already. Altering api_usage above keeps writers out, so no row is counted twice or not at all.
insert into usage_monthly
select company_id, billing_month, model_slug, api_key_id, endpoint, usage_source, outcome, cost_center,
  sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
from usage_daily group by 1, 2, 3, 4, 5, 6, 7, 8;
insert into usage_hourly
select company_id, coalesce(api_key_id, '00000000-0000-0000-0000-000000000000'), billing_month, day, hour, model_slug, endpoint, cost_center,
  count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
from (
  select u.*, (occurred_at at time zone z.value)::date as day, date_trunc('hour', occurred_at, z.value) as hour
  from api_usage u, settings z where z.name = 'billing_timezone') u
group by company_id, billing_month, day, hour, model_slug, endpoint, cost_center, grouping sets ((api_key_id), ());

alter table usage_hourly enable row level security;
alter table usage_monthly enable row level security;
create policy own on usage_hourly using (is_visible(company_id));
create policy own on usage_monthly using (is_visible(company_id));
insert into tenant_grants (privilege) values ('select on usage_hourly, usage_monthly');
select raise_tenant_wall();
