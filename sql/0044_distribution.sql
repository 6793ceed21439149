-- What lets the ledger be spread over several servers (store/distribution.ts): statements below hold on one server and
-- on many. One server keeps its tables and keys as they are.

-- Whether this database is spread over several servers. "tollgate database distribute" replaces it, and the next two.
create function is_distributed() returns boolean language sql immutable as 'select false';

-- Rows of monthly_spend that change from now on have a changed_xid from here on: a transaction may commit long after
-- it took its id.
create function spend_horizon() returns xid8 language sql stable as 'select pg_snapshot_xmin(pg_current_snapshot())';

-- Whether any company's spend changed since a snapshot.
create function has_spent_since(before pg_snapshot) returns boolean language sql stable set search_path from current as $$
  select exists (select 1 from monthly_spend
    where changed_xid >= pg_snapshot_xmin(before) and not pg_visible_in_snapshot(changed_xid, before))
$$;

-- What calls reserved of strict budgets ends: they are booked.
create function end_reservations(booked uuid[]) returns void language sql set search_path from current as
  'delete from budget_reservations where request_id = any(booked)';

-- As in 0034_people.sql. Spend and reservations are read in one statement still, each by itself.
create or replace function reserve_budget(reserving_owner uuid, lease_seconds integer, requests json)
returns setof uuid language plpgsql set search_path from current as $$
declare
  request record;
  budget  numeric;
  state   record;
begin
  for request in select distinct (r ->> 'company_id')::uuid as company_id from json_array_elements(requests) as r order by 1 loop
    perform pg_advisory_xact_lock(hashtextextended('tollgate budget ' || request.company_id, 0));
  end loop;
  for request in
    select * from json_to_recordset(requests) as r
      (request_id uuid, company_id uuid, billing_month date, amount_eur numeric, bounded boolean)
  loop
    select company_budget(c) into budget from companies c where c.id = request.company_id;
    continue when not found;
    with spends as materialized (
      select api_cost_eur + chat_cost_eur as eur from monthly_spend m
      where m.company_id = request.company_id and m.billing_month = request.billing_month
    ),
    reservations as materialized (
      select sum(amount_eur) as eur from budget_reservations b
      where b.company_id = request.company_id and b.billing_month = request.billing_month and b.expires_at > clock_timestamp()
    )
    select coalesce((select eur from spends), 0) as spent, coalesce((select eur from reservations), 0) as reserved into state;
    if budget is null or (state.spent < budget and case when request.bounded
      then state.spent + state.reserved + request.amount_eur <= budget
      else state.spent + state.reserved < budget end)
    then
      insert into budget_reservations (request_id, company_id, billing_month, owner, amount_eur, expires_at)
      values (request.request_id, request.company_id, request.billing_month, reserving_owner, request.amount_eur,
        clock_timestamp() + make_interval(secs => lease_seconds))
      on conflict do nothing; -- asked again after a lost answer
      return next request.request_id;
    end if;
  end loop;
end $$;

-- The digest of a row from its columns (0031_cost_centers.sql): servers that hold the rows compute it too, where
-- the type of the table is another.
create function usage_digest(billing_month date, request_id uuid, company_id uuid, api_key_id uuid, model_slug text,
  upstream_model text, endpoint text, prompt_tokens bigint, completion_tokens bigint, cost_eur numeric, price_input numeric,
  price_output numeric, usage_source text, outcome text, occurred_at timestamptz, cost_center text)
returns bytea language sql stable as $$
  select substr(sha256(convert_to(case when cost_center = '' then json_build_array(
    billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens, completion_tokens,
    cost_eur, price_input, price_output, usage_source, outcome, extract(epoch from occurred_at))
  else json_build_array(
    billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens, completion_tokens,
    cost_eur, price_input, price_output, usage_source, outcome, extract(epoch from occurred_at), cost_center)
  end::text, 'UTF8')), 1, 16)
$$;
create or replace function usage_digest(usage api_usage) returns bytea language sql stable as $$
  select usage_digest(usage.billing_month, usage.request_id, usage.company_id, usage.api_key_id, usage.model_slug,
    usage.upstream_model, usage.endpoint, usage.prompt_tokens, usage.completion_tokens, usage.cost_eur, usage.price_input,
    usage.price_output, usage.usage_source, usage.outcome, usage.occurred_at, usage.cost_center)
$$;

-- As in 0031_cost_centers.sql, with token details and costs (0042_token_details.sql), which gateways of the version before
-- and most calls do not name. What is inserted comes back with its digest instead of as whole rows.
create or replace function book_usage(batch_writer uuid, records json)
returns table (company_id uuid, billing_month date, cost_eur numeric)
language plpgsql set search_path from current as $$
#variable_conflict use_column
declare
  seal   ledger_seals;
  batch  record;
  booked boolean := false;
  costed boolean := strpos(records::text, '"upstream_cost":') > 0;
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
        prompt_tokens, completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at, cost_center,
        cached_tokens, cache_write_tokens, audio_prompt_tokens, reasoning_tokens, audio_completion_tokens)
      select r.billing_month, r.request_id, r.company_id, r.api_key_id, r.model_slug, r.upstream_model, r.endpoint,
        r.prompt_tokens, r.completion_tokens, r.cost_eur, r.price_input, r.price_output, r.usage_source, r.outcome, r.occurred_at,
        coalesce(r.cost_center, ''), -- gateways of before and most calls name none
        r.cached_tokens, r.cache_write_tokens, r.audio_prompt_tokens, r.reasoning_tokens, r.audio_completion_tokens
      from json_to_recordset(records) as r (billing_month date, request_id uuid, company_id uuid,
        api_key_id uuid, model_slug text, upstream_model text, endpoint text, prompt_tokens bigint,
        completion_tokens bigint, cost_eur numeric, price_input numeric, price_output numeric, usage_source text,
        outcome text, occurred_at timestamptz, cost_center text, cached_tokens bigint, cache_write_tokens bigint,
        audio_prompt_tokens bigint, reasoning_tokens bigint, audio_completion_tokens bigint)
      order by r.billing_month, r.request_id -- the same for all writers: none waits for another crosswise
      on conflict do nothing
      returning billing_month as month, request_id, company_id as company, prompt_tokens, completion_tokens, cost_eur as cost,
        usage_digest(billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens,
          completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at, cost_center) as digest
    ),
    companies as (
      select month, company, sum(cost) as cost from inserted group by 1, 2
    )
    select month, count(*)::integer as row_count,
      sum(prompt_tokens) as prompt_tokens, sum(completion_tokens) as completion_tokens,
      sum(cost) as cost, array_agg(request_id order by request_id) as request_ids,
      string_agg(digest, ''::bytea order by request_id) as row_digests,
      (select array_agg(company order by company) from companies c where c.month = inserted.month) as companies,
      (select array_agg(c.cost order by company) from companies c where c.month = inserted.month) as costs
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
    perform end_reservations(batch.request_ids);
    if costed then perform book_upstream_costs(records, batch.month, batch.request_ids); end if;
    return query select t.company, batch.month, t.cost from unnest(batch.companies, batch.costs) as t (company, cost);
  end loop;
  if not booked then perform pg_logical_emit_message(true, 'tollgate', 'repeated'); end if;
end $$;

-- As in 0001_gateway.sql, a company and month at a time: a statement on the rows of a trigger cannot write to another
-- server. The application inserts a row or a few.
create or replace function move_chat_cost() returns trigger language plpgsql set search_path from current as $$
declare
  rows text := case tg_op
    when 'INSERT' then 'select company_id, occurred_at, cost_eur from added'
    when 'DELETE' then 'select company_id, occurred_at, -cost_eur as cost_eur from removed'
    else 'select company_id, occurred_at, cost_eur from added
          union all select company_id, occurred_at, -cost_eur from removed' end;
  moved record;
  zone text := (select value from settings where name = 'billing_timezone');
begin
  for moved in execute format('select company_id, date_trunc(''month'', occurred_at at time zone $1)::date as billing_month,
      sum(cost_eur) as cost from (%s) as moved group by 1, 2 order by 1, 2', rows) using zone
  loop
    insert into monthly_spend as m (company_id, billing_month, chat_cost_eur)
    values (moved.company_id, moved.billing_month, moved.cost)
    on conflict (company_id, billing_month) do update set
      chat_cost_eur = m.chat_cost_eur + excluded.chat_cost_eur, changed_xid = excluded.changed_xid;
  end loop;
  return null;
end $$;

-- Writes down which rows a statement covers (0041_statements.sql), in parts of 10,000. Returns nothing: their digest is
-- statement_rows_digest.
create function keep_statement_rows(company uuid, statement bigint, month date, requests uuid[]) returns void
language plpgsql set search_path from current as $$
begin
  insert into statement_rows (company_id, number, billing_month, part, request_ids, row_digests)
  select company, statement, month, part, array_agg(request_id order by request_id), string_agg(digest, ''::bytea order by request_id)
  from (
    select u.request_id, usage_digest(u.billing_month, u.request_id, u.company_id, u.api_key_id, u.model_slug, u.upstream_model,
      u.endpoint, u.prompt_tokens, u.completion_tokens, u.cost_eur, u.price_input, u.price_output, u.usage_source, u.outcome,
      u.occurred_at, u.cost_center) as digest, (row_number() over (order by u.request_id) - 1)::integer / 10000 as part
    from api_usage u where u.billing_month = month and u.company_id = company and (requests is null or u.request_id = any(requests))
  ) as numbered group by part;
end $$;

-- Which calls of a month came after its statement: how many each later one corrects; null: none yet. Of a statement with
-- few late calls this is one look at an index.
create function later_calls(company uuid, statement bigint, month date) returns json language plpgsql stable set search_path from current as $$
begin
  return (
    with moved as materialized (
      select r.number as statement, unnest(r.request_ids) as request_id from statement_rows r
      where r.company_id = company and r.billing_month = month and r.number <> later_calls.statement
    ),
    waiting as materialized (select request_id from late_usage l where l.company_id = company and l.billing_month = month),
    calls as materialized (
      select request_id, cost_eur from api_usage u where u.company_id = company and u.billing_month = month
        and request_id = any(array(select request_id from moved union all select request_id from waiting))
    )
    select coalesce(json_agg(json_build_object('statement', l.statement, 'requests', requests, 'cost_eur', eur) order by l.statement nulls last), '[]')
    from (
      select l.statement, count(*) as requests, trim_scale(sum(c.cost_eur))::text as eur
      from (select m.statement, m.request_id from moved m union all select null, w.request_id from waiting w) as l join calls c using (request_id)
      group by 1) as l);
end $$;

-- The months with usage: a few steps along the index instead of all its rows.
create function usage_months() returns setof date language plpgsql stable set search_path from current as $$
declare
  month date := (select min(billing_month) from usage_model_days);
begin
  while month is not null loop
    return next month;
    month := (select min(billing_month) from usage_model_days where billing_month > month);
  end loop;
end $$;
