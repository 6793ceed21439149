-- The ledger, and beside it what the upstream told a call cost, and in-app chat. No foreign keys: history outlives what it
-- speaks of. A trigger of each partition moves the sums (sums.sql); book_usage (seals.sql) inserts a batch and seals it.

-- The cost that a list of parts adds up to, such as [{"part":"input","units":1000,"price":"0.002"}]; null where it is no such list,
-- or its units are not all tokens of the prompt and of the completion. No SQL function: Postgres would try to inline it in the
-- check of the cost with each batch.
create function parts_cost(parts jsonb, prompt bigint, completion bigint) returns numeric language plpgsql immutable as $$
begin
  return case when jsonb_typeof(parts) = 'array' then (
    select case when count(distinct p.part) = count(*) and min(p.units) > 0 and bool_and(p.price >= 0 and p.price < 1e6)
        and coalesce(sum(p.units) filter (where p.part in ('input', 'cache_read', 'cache_write', 'cache_write_1h', 'audio_input', 'image_input')), 0) = prompt
        and coalesce(sum(p.units) filter (where p.part in ('output', 'reasoning', 'audio_output', 'image_output')), 0) = completion
        and count(*) filter (where p.part in ('search_unit', 'request')) = count(*) filter (where p.part not in (
          'input', 'cache_read', 'cache_write', 'cache_write_1h', 'audio_input', 'image_input', 'output', 'reasoning', 'audio_output', 'image_output'))
      then sum(p.units * p.price) * 0.001 end
    from jsonb_to_recordset(parts) as p (part text, units bigint, price numeric)) end;
end $$;

-- Units and price of one part of a list.
create function part_units(parts jsonb, part text) returns bigint language sql immutable strict as $$
  select (p ->> 'units')::bigint from jsonb_array_elements(parts) as p where p ->> 'part' = $2
$$;
create function part_price(parts jsonb, part text) returns numeric language sql immutable strict as $$
  select (p ->> 'price')::numeric from jsonb_array_elements(parts) as p where p ->> 'part' = $2
$$;

create table api_usage (
  billing_month           date not null check (extract(day from billing_month) = 1),
  request_id              uuid not null,
  company_id              uuid not null,
  api_key_id              uuid not null,
  model_slug              text not null,
  upstream_model          text not null,
  endpoint                text not null check (endpoint in ('chat.completions', 'embeddings', 'assistants.run', 'responses', 'messages', 'completions', 'rerank')),
  -- bounded, so that one absurd row can never make the counters overflow for all that follow
  prompt_tokens           bigint not null check (prompt_tokens between 0 and 1000000000000),
  completion_tokens       bigint not null check (completion_tokens between 0 and 1000000000000),
  cost_eur                numeric not null,
  price_input             numeric not null check (price_input >= 0 and price_input < 1e6),
  price_output            numeric not null check (price_output >= 0 and price_output < 1e6),
  usage_source            text not null check (usage_source in ('upstream', 'estimated')),
  outcome                 text not null check (outcome in ('completed', 'client_aborted', 'upstream_failed')),
  occurred_at             timestamptz not null,
  cost_center             text not null default '' check (cost_center = '' or (length(cost_center) <= 64 and cost_center !~ '[\x01-\x1f\x7f]')),
  cached_tokens           bigint,
  cache_write_tokens      bigint,
  audio_prompt_tokens     bigint,
  reasoning_tokens        bigint,
  audio_completion_tokens bigint,
  price_cache_read        numeric check (price_cache_read >= 0 and price_cache_read < 1e6),
  price_cache_write       numeric check (price_cache_write >= 0 and price_cache_write < 1e6),
  end_user_id             uuid,
  cache_write_1h_tokens   bigint,
  image_prompt_tokens     bigint,
  image_completion_tokens bigint,
  search_units            bigint,
  rate                    text check (rate <> '' and length(rate) <= 400),
  parts                   jsonb,
  primary key (billing_month, request_id),
  -- the parts of a cost, each a quantity of units and its price: COST_PARTS of src/domain/pricing/parts.ts, which a test compares.
  -- Where one was charged that has no price of its own here, `parts` has them all
  constraint cost_is_exact check (case when parts is not null then coalesce(cost_eur = parts_cost(parts, prompt_tokens, completion_tokens), false)
    when price_cache_read is null and price_cache_write is null then -- as below, for what most calls are
      cost_eur = (prompt_tokens * price_input + completion_tokens * price_output) * 0.001
    else cost_eur = (
    (prompt_tokens - case when price_cache_read is null then 0 else coalesce(cached_tokens, 0) end
      - case when price_cache_write is null then 0 else coalesce(cache_write_tokens, 0) end) * price_input
    + case when price_cache_read is null then 0 else coalesce(cached_tokens, 0) end * coalesce(price_cache_read, 0)
    + case when price_cache_write is null then 0 else coalesce(cache_write_tokens, 0) end * coalesce(price_cache_write, 0)
    + completion_tokens * price_output) * 0.001 end),
  constraint cached_within_prompt check (
    (price_cache_read is null and price_cache_write is null) or coalesce(cached_tokens, 0) + coalesce(cache_write_tokens, 0) <= prompt_tokens),
  -- gateways leave wrong numbers out, so this keeps no call from being booked. Without "between", which reads otherwise after a
  -- dump: a month that was restored would not fit. `least` and `greatest` leave out what is null
  constraint api_usage_details_check check (
    least(cached_tokens, cache_write_tokens, audio_prompt_tokens, reasoning_tokens, audio_completion_tokens,
      cache_write_1h_tokens, image_prompt_tokens, image_completion_tokens, search_units) >= 0
    and greatest(cached_tokens, cache_write_tokens, audio_prompt_tokens, cache_write_1h_tokens, image_prompt_tokens) <= prompt_tokens
    and greatest(reasoning_tokens, audio_completion_tokens, image_completion_tokens) <= completion_tokens
    and search_units <= 1000000000000)
) partition by range (billing_month);
comment on column api_usage.cost_center is 'what the caller named in metadata; empty: nothing';
comment on column api_usage.cached_tokens is 'of the prompt tokens: read from the upstream''s cache. Null, here and below: not told';
comment on column api_usage.cache_write_tokens is 'of the prompt tokens: written to it';
comment on column api_usage.audio_prompt_tokens is 'of the prompt tokens: audio';
comment on column api_usage.reasoning_tokens is 'of the completion tokens: reasoning';
comment on column api_usage.audio_completion_tokens is 'of the completion tokens: audio';
comment on column api_usage.price_cache_read is 'of cached_tokens. Null, like price_cache_write of cache_write_tokens: they cost price_input';
comment on column api_usage.cache_write_1h_tokens is 'of cache_write_tokens: kept for an hour';
comment on column api_usage.image_prompt_tokens is 'of the prompt tokens: images';
comment on column api_usage.image_completion_tokens is 'of the completion tokens: images';
comment on column api_usage.search_units is 'of a rerank: what its provider counts';
comment on column api_usage.rate is 'which rate of the price held, such as "priority over 272000"; null: the base price';
comment on column api_usage.parts is 'where a part was charged that has no price here: all parts, of which cost_eur is the sum';
comment on column api_usage.end_user_id is 'the person behind the key, of end_users; null: none was named, or the key does not take names';
create index api_usage_company on api_usage (company_id, occurred_at);

-- Usage records the ledger refused: kept whole, with the reason, for the operator to mend. One that comes a second time,
-- as a replay does, is set aside once.
create table api_usage_set_aside (
  id         bigint generated always as identity primary key,
  record     text not null,
  reason     text not null,
  created_at timestamptz not null default now()
);
create unique index api_usage_set_aside_once on api_usage_set_aside (md5(record));

-- What identifies a row to the last digit; 16 bytes. An instant as seconds: its text would depend on the session's time
-- zone. Rows without a cost centre, prices of cached input, an end user, a rate or parts keep the digests that they had before there were any.
-- From columns, because servers that hold the rows compute it too, where the type of the table is another.
create function usage_digest(billing_month date, request_id uuid, company_id uuid, api_key_id uuid, model_slug text,
  upstream_model text, endpoint text, prompt_tokens bigint, completion_tokens bigint, cost_eur numeric, price_input numeric,
  price_output numeric, usage_source text, outcome text, occurred_at timestamptz, cost_center text, price_cache_read numeric,
  price_cache_write numeric, cached_tokens bigint, cache_write_tokens bigint, end_user_id uuid, rate text, parts jsonb)
returns bytea language sql stable as $$
  select substr(sha256(convert_to(case
  when rate is not null or parts is not null then json_build_array(
    billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens, completion_tokens,
    cost_eur, price_input, price_output, usage_source, outcome, extract(epoch from occurred_at), cost_center,
    price_cache_read, price_cache_write, cached_tokens, cache_write_tokens, end_user_id, rate, parts)
  when end_user_id is not null then json_build_array(
    billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens, completion_tokens,
    cost_eur, price_input, price_output, usage_source, outcome, extract(epoch from occurred_at), cost_center,
    price_cache_read, price_cache_write, cached_tokens, cache_write_tokens, end_user_id)
  when price_cache_read is not null or price_cache_write is not null then json_build_array(
    billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens, completion_tokens,
    cost_eur, price_input, price_output, usage_source, outcome, extract(epoch from occurred_at), cost_center,
    price_cache_read, price_cache_write, cached_tokens, cache_write_tokens)
  when cost_center = '' then json_build_array(
    billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens, completion_tokens,
    cost_eur, price_input, price_output, usage_source, outcome, extract(epoch from occurred_at))
  else json_build_array(
    billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens, completion_tokens,
    cost_eur, price_input, price_output, usage_source, outcome, extract(epoch from occurred_at), cost_center)
  end::text, 'UTF8')), 1, 16)
$$;

-- Creates the partitions of the months [from_month, from_month + months). Safe to run by many at once; a month whose rows
-- already wait in the default partition is left there. Statement triggers are not inherited, so each partition gets its
-- own: rows written straight into a partition are counted too. A look at rows of another server returns a column at least.
create function ensure_api_usage_partitions(from_month date, months integer) returns void language plpgsql set search_path from current as $$
declare
  month  date;
  parent text;
  part   text;
  waits  boolean;
begin
  perform pg_advisory_xact_lock(hashtext('tollgate api_usage partitions'));
  for i in 0 .. months - 1 loop
    month := (date_trunc('month', from_month) + make_interval(months => i))::date;
    foreach parent in array array['api_usage', 'upstream_costs'] loop
      part := parent || to_char(month, '_YYYY_MM');
      continue when to_regclass(part) is not null;
      execute format('select exists (select 1 from %I where billing_month = $1)', parent || '_default') into waits using month;
      continue when waits;
      execute format('create table %I partition of %I for values from (%L) to (%L)', part, parent, month, (month + interval '1 month')::date);
      execute format('create trigger append_only before update or delete or truncate on %I for each statement execute function refuse_change()', part);
      continue when parent <> 'api_usage';
      execute format('create trigger count_usage after insert on %I referencing new table as added for each statement execute function count_api_usage()', part);
    end loop;
  end loop;
end $$;

-- The upstream's own cost of a call is for operators alone, so it has a table of its own: the tenant role reads api_usage.
-- Its months go and come with those of the ledger.
create table upstream_costs (
  company_id    uuid not null,
  billing_month date not null,
  request_id    uuid not null,
  cost          numeric not null check (cost >= 0 and cost < 1e6),
  currency      text not null check (currency ~ '^[A-Z]{3}$'),
  primary key (company_id, billing_month, request_id)
) partition by range (billing_month);
create table upstream_costs_default partition of upstream_costs default;
comment on table upstream_costs is 'what the upstream told that a call of api_usage cost it; for operators only';
comment on column upstream_costs.cost is 'as told: nothing is converted or rounded';
comment on column upstream_costs.currency is 'UPSTREAM_CURRENCY of the gateway that booked the call';

create trigger append_only before update or delete or truncate on upstream_costs
  for each statement execute function refuse_change();
create trigger append_only before update or delete or truncate on upstream_costs_default
  for each statement execute function refuse_change();

create table chat_usage (
  id          uuid primary key default gen_random_uuid(),
  company_id  uuid not null,
  occurred_at timestamptz not null default now(),
  cost_eur    numeric not null check (cost_eur > -1e12 and cost_eur < 1e12)
);
comment on table chat_usage is 'the application inserts its in-app chat cost here; it counts toward the same budget';
create index chat_usage_company on chat_usage (company_id, occurred_at);
