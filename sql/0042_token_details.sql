-- What tokens consist of, and what a call cost the upstream, as far as the upstream tells. Informative: cost, counters
-- and seals stay as they are, and usage_digest does not cover what is added here.

alter table api_usage
  add column cached_tokens           bigint,
  add column cache_write_tokens      bigint,
  add column audio_prompt_tokens     bigint,
  add column reasoning_tokens        bigint,
  add column audio_completion_tokens bigint;
-- Gateways leave wrong numbers out, so this keeps no call from being booked. Not valid: the rows of before tell none,
-- and there is nothing to look for in a large ledger.
alter table api_usage add constraint api_usage_details_check check (
  cached_tokens between 0 and prompt_tokens and cache_write_tokens between 0 and prompt_tokens
  and audio_prompt_tokens between 0 and prompt_tokens and reasoning_tokens between 0 and completion_tokens
  and audio_completion_tokens between 0 and completion_tokens) not valid;
comment on column api_usage.cached_tokens is 'of the prompt tokens: read from the upstream''s cache. Null, here and below: not told';
comment on column api_usage.cache_write_tokens is 'of the prompt tokens: written to it';
comment on column api_usage.audio_prompt_tokens is 'of the prompt tokens: audio';
comment on column api_usage.reasoning_tokens is 'of the completion tokens: reasoning';
comment on column api_usage.audio_completion_tokens is 'of the completion tokens: audio';

-- Sums of the rows that tell any of it, for all keys together: a few rows a day, and none where nothing is told.
create table usage_details (
  company_id              uuid not null,
  billing_month           date not null,
  day                     date not null,
  model_slug              text not null,
  endpoint                text not null,
  cost_center             text not null,
  requests                bigint not null,
  prompt_tokens           bigint not null,
  cached_tokens           bigint not null,
  cache_write_tokens      bigint not null,
  audio_prompt_tokens     bigint not null,
  reasoning_tokens        bigint not null,
  audio_completion_tokens bigint not null,
  primary key (company_id, billing_month, day, model_slug, endpoint, cost_center)
) with (fillfactor = 60); -- as for usage_daily: the rows of this day change with every batch
comment on table usage_details is 'always the sum of the api_usage rows with token details';
comment on column usage_details.day is 'calendar day of occurred_at in the billing time zone';
comment on column usage_details.prompt_tokens is 'of the calls that tell cached tokens';
-- a month of all companies is read for the margin
create index usage_details_month on usage_details using brin (billing_month);

-- By a trigger of its own, so that count_api_usage() reads nothing more. It comes after count_usage by its name:
-- who has the rows of monthly_spend has these too.
create function count_usage_details() returns trigger language plpgsql set search_path from current as $$
begin
  insert into usage_details as d (company_id, billing_month, day, model_slug, endpoint, cost_center, requests, prompt_tokens,
    cached_tokens, cache_write_tokens, audio_prompt_tokens, reasoning_tokens, audio_completion_tokens)
  select company_id, billing_month, (occurred_at at time zone z.value)::date, model_slug, endpoint, cost_center, count(*),
    coalesce(sum(prompt_tokens) filter (where cached_tokens is not null), 0), coalesce(sum(cached_tokens), 0),
    coalesce(sum(cache_write_tokens), 0), coalesce(sum(audio_prompt_tokens), 0), coalesce(sum(reasoning_tokens), 0),
    coalesce(sum(audio_completion_tokens), 0)
  from added, settings z
  where z.name = 'billing_timezone'
    and coalesce(cached_tokens, cache_write_tokens, audio_prompt_tokens, reasoning_tokens, audio_completion_tokens) is not null
  group by 1, 2, 3, 4, 5, 6
  on conflict (company_id, billing_month, day, model_slug, endpoint, cost_center) do update set
    requests                = d.requests + excluded.requests,
    prompt_tokens           = d.prompt_tokens + excluded.prompt_tokens,
    cached_tokens           = d.cached_tokens + excluded.cached_tokens,
    cache_write_tokens      = d.cache_write_tokens + excluded.cache_write_tokens,
    audio_prompt_tokens     = d.audio_prompt_tokens + excluded.audio_prompt_tokens,
    reasoning_tokens        = d.reasoning_tokens + excluded.reasoning_tokens,
    audio_completion_tokens = d.audio_completion_tokens + excluded.audio_completion_tokens;
  return null;
end $$;

create trigger count_usage_details after insert on api_usage
  referencing new table as added for each statement execute function count_usage_details();
do $$
declare
  part text;
begin
  for part in select inhrelid::regclass::text from pg_inherits where inhparent = 'api_usage'::regclass loop
    execute format('create trigger count_usage_details after insert on %s referencing new table as added for each statement execute function count_usage_details()', part);
  end loop;
end $$;

-- As in 0001_gateway.sql, with the trigger above. A look at rows of another server (0044_distribution.sql) returns a
-- column at least.
create or replace function ensure_api_usage_partitions(from_month date, months integer) returns void language plpgsql set search_path from current as $$
declare
  month date;
  part  text;
begin
  perform pg_advisory_xact_lock(hashtext('tollgate api_usage partitions'));
  for i in 0 .. months - 1 loop
    month := (date_trunc('month', from_month) + make_interval(months => i))::date;
    part := 'api_usage_' || to_char(month, 'YYYY_MM');
    continue when to_regclass(part) is not null;
    continue when exists (select 1 from api_usage_default d where d.billing_month = month);
    execute format('create table %I partition of api_usage for values from (%L) to (%L)', part, month, (month + interval '1 month')::date);
    execute format('create trigger count_usage after insert on %I referencing new table as added for each statement execute function count_api_usage()', part);
    execute format('create trigger count_usage_details after insert on %I referencing new table as added for each statement execute function count_usage_details()', part);
    execute format('create trigger append_only before update or delete or truncate on %I for each statement execute function refuse_ledger_change()', part);
  end loop;
end $$;

-- The upstream's own cost of a call is for operators alone. It has a table of its own, and not a column of api_usage:
-- gateways of the version before read all columns of api_usage as the tenant role.
create table upstream_costs (
  company_id    uuid not null,
  billing_month date not null,
  request_id    uuid not null,
  cost          numeric not null check (cost >= 0 and cost < 1e6),
  currency      text not null check (currency ~ '^[A-Z]{3}$'),
  primary key (company_id, billing_month, request_id)
);
comment on table upstream_costs is 'what the upstream told that a call of api_usage cost it; for operators only';
comment on column upstream_costs.cost is 'as told: nothing is converted or rounded';
comment on column upstream_costs.currency is 'UPSTREAM_CURRENCY of the gateway that booked the call';

create function refuse_upstream_cost_change() returns trigger language plpgsql as $$
begin
  raise exception 'upstream_costs is append-only' using errcode = 'restrict_violation';
end $$;
create trigger append_only before update or delete or truncate on upstream_costs
  for each statement execute function refuse_upstream_cost_change();

-- Sums of them, with what the same calls cost the companies.
create table upstream_cost_monthly (
  company_id    uuid not null,
  billing_month date not null,
  model_slug    text not null,
  currency      text not null,
  requests      bigint not null,
  cost          numeric not null,
  cost_eur      numeric not null,
  primary key (company_id, billing_month, model_slug, currency)
) with (fillfactor = 60);
comment on table upstream_cost_monthly is 'always the sum of the upstream_costs rows; for operators only';
comment on column upstream_cost_monthly.cost_eur is 'of the ledger rows of these calls: the revenue';
create index upstream_cost_monthly_month on upstream_cost_monthly using brin (billing_month);

-- Books what the records tell of those calls that a batch inserted: they are here for the first time.
create function book_upstream_costs(records json, month date, booked uuid[]) returns void
language plpgsql set search_path from current as $$
begin
  with told as materialized (
    select distinct on (r.request_id) r.*
    from json_to_recordset(records) as r (billing_month date, request_id uuid, company_id uuid, model_slug text, cost_eur numeric,
      upstream_cost numeric, upstream_currency text) join unnest(booked) as b (id) on b.id = r.request_id
    where r.billing_month = month and r.upstream_cost >= 0 and r.upstream_cost < 1e6 and r.upstream_currency ~ '^[A-Z]{3}$'
    order by r.request_id
  ),
  kept as (
    insert into upstream_costs (company_id, billing_month, request_id, cost, currency)
    select company_id, billing_month, request_id, upstream_cost, upstream_currency from told on conflict do nothing
  )
  insert into upstream_cost_monthly as m (company_id, billing_month, model_slug, currency, requests, cost, cost_eur)
  select company_id, billing_month, model_slug, upstream_currency, count(*), sum(upstream_cost), sum(cost_eur)
  from told group by 1, 2, 3, 4 order by 1, 2, 3, 4
  on conflict (company_id, billing_month, model_slug, currency) do update set
    requests = m.requests + excluded.requests,
    cost     = m.cost + excluded.cost,
    cost_eur = m.cost_eur + excluded.cost_eur;
end $$;

alter table usage_details enable row level security;
alter table upstream_costs enable row level security;
alter table upstream_cost_monthly enable row level security;
-- what is_visible says, found out once for a statement instead of for each row
create policy own on usage_details using ((select current_user) <> 'tollgate_tenant'
  or company_id = (select nullif(current_setting('tollgate.company_id', true), '')::uuid));
create policy own on upstream_costs using (current_user <> 'tollgate_tenant');
create policy own on upstream_cost_monthly using (current_user <> 'tollgate_tenant');
insert into tenant_grants (privilege) values ('select on usage_details');
select raise_tenant_wall();
