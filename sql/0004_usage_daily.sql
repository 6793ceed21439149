-- The ledger by day, for pages: a month of ten million rows is a few thousand of these.
-- Exact sums, moved by the statement that inserts the rows, like monthly_spend.

create table usage_daily (
  company_id        uuid not null,
  billing_month     date not null,
  day               date not null,
  model_slug        text not null,
  api_key_id        uuid not null,
  endpoint          text not null,
  usage_source      text not null,
  outcome           text not null,
  requests          bigint not null,
  prompt_tokens     bigint not null,
  completion_tokens bigint not null,
  cost_eur          numeric not null,
  primary key (company_id, billing_month, day, model_slug, api_key_id, endpoint, usage_source, outcome)
) with (fillfactor = 60); -- room for the next version of a row on its own page: today's rows change with every batch
comment on table usage_daily is 'always the sum of the api_usage rows it stands for';
comment on column usage_daily.day is 'calendar day of occurred_at in the billing time zone';

-- one trigger does both, so partitions made later have it too. The order of tables and
-- of rows within them is the same for every writer: none waits for another crosswise.
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

  insert into usage_daily as d (company_id, billing_month, day, model_slug, api_key_id, endpoint, usage_source, outcome,
    requests, prompt_tokens, completion_tokens, cost_eur)
  select company_id, billing_month, (occurred_at at time zone zone)::date, model_slug, api_key_id, endpoint, usage_source, outcome,
    count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
  from added group by 1, 2, 3, 4, 5, 6, 7, 8 order by 1, 2, 3, 4, 5, 6, 7, 8
  on conflict (company_id, billing_month, day, model_slug, api_key_id, endpoint, usage_source, outcome) do update set
    requests          = d.requests + excluded.requests,
    prompt_tokens     = d.prompt_tokens + excluded.prompt_tokens,
    completion_tokens = d.completion_tokens + excluded.completion_tokens,
    cost_eur          = d.cost_eur + excluded.cost_eur;
  return null;
end $$;

-- what is there already; writers wait, so that no row is counted twice or not at all
lock table api_usage in share row exclusive mode;
insert into usage_daily (company_id, billing_month, day, model_slug, api_key_id, endpoint, usage_source, outcome,
  requests, prompt_tokens, completion_tokens, cost_eur)
select company_id, billing_month, (occurred_at at time zone (select value from settings where name = 'billing_timezone'))::date,
  model_slug, api_key_id, endpoint, usage_source, outcome,
  count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
from api_usage group by 1, 2, 3, 4, 5, 6, 7, 8;
