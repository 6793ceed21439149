-- Models with the history of their prices, the factors of companies on them, and assistants. `models` keeps the present price, which any program may write;
-- a trigger then writes a row of history. A price that begins at a date is a row with a later valid_from. Gateways know it
-- beforehand and switch by their own clocks; apply_due_prices() then brings the columns of `models` up to date.

-- A price in EUR per 1000 units: exact, of at most 12 decimals.
create domain price as numeric check (value >= 0 and value < 1e6 and min_scale(value) <= 12);

-- The parts of a price, as columns of prices are named, in the order of statements: COST_PARTS of
-- src/domain/pricing/parts.ts, which a test compares.
create function price_parts() returns text[] language sql immutable parallel safe as $$
  select array['input', 'cache_read', 'cache_write', 'cache_write_1h', 'audio_input', 'image_input', 'output', 'reasoning', 'audio_output', 'image_output', 'search_unit', 'request']
$$;

-- Whether a list of rates has the form that gateways read: each has a condition, prices as decimal text for input and
-- output, and each part of the base price. What two rates mean together is checked where they are set.
create function are_rates(rates jsonb, base jsonb) returns boolean language sql immutable set search_path from current as $$
  select rates is null or coalesce(jsonb_typeof(rates) = 'array' and jsonb_array_length(rates) between 1 and 64 and (
    select bool_and(jsonb_typeof(rate) = 'object' and rate ?| array['over', 'tier', 'hours'] and rate ?& array['input', 'output']
      and coalesce((select bool_and(case
        when key = 'over' then jsonb_typeof(value) = 'number' and value #>> '{}' ~ '^[0-9]{1,10}$'
        when key = 'tier' then jsonb_typeof(value) = 'string' and value #>> '{}' ~ '^[a-z][a-z0-9_.-]{0,63}$' and value #>> '{}' <> 'over'
        when key = 'hours' then jsonb_typeof(value) = 'string' and length(value #>> '{}') <= 300
          and value #>> '{}' ~ '^([A-Z][a-z]{2}[A-Za-z,-]* )?([0-2][0-9]:[0-5][0-9]-[0-2][0-9]:[0-5][0-9],?)+ [A-Za-z][A-Za-z0-9_+/-]{0,63}$'
        when key in ('input', 'output') then jsonb_typeof(value) = 'string' and value #>> '{}' ~ '^[0-9]{1,6}(\.[0-9]{1,12})?$'
        else key = any(price_parts()) and (value = 'null' or jsonb_typeof(value) = 'string' and value #>> '{}' ~ '^[0-9]{1,6}(\.[0-9]{1,12})?$') end)
        from jsonb_each(rate)), false)
      and not exists (select from jsonb_each(base) as b (key, value) where b.value <> 'null' and b.key = any(price_parts()) and not rate ? b.key))
    from jsonb_array_elements(rates) as r (rate)), false)
$$;

create table models (
  id                          uuid primary key default gen_random_uuid(),
  slug                        text not null check (slug ~ '^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$'),
  company_id                  uuid references companies on delete cascade,
  upstream_model              text not null check (upstream_model <> ''),
  kind                        text not null check (kind in ('chat', 'embedding', 'rerank')),
  eu_hosted                   boolean not null,
  cost_eur_per_1k_input          price not null,
  cost_eur_per_1k_output         price not null,
  cost_eur_per_1k_cache_read     price,
  cost_eur_per_1k_cache_write    price,
  cost_eur_per_1k_cache_write_1h price,
  cost_eur_per_1k_audio_input    price,
  cost_eur_per_1k_image_input    price,
  cost_eur_per_1k_reasoning      price,
  cost_eur_per_1k_audio_output   price,
  cost_eur_per_1k_image_output   price,
  cost_eur_per_1k_search_unit    price,
  cost_eur_per_1k_request        price,
  rates                          jsonb,
  created_at                  timestamptz not null default now(),
  token_input                 text not null default 'refuse' check (token_input in ('accept', 'refuse')),
  context_length              integer check (context_length between 1 and 1000000000),
  max_output_tokens           integer check (max_output_tokens between 1 and 1000000000)
);
comment on table models is 'a row with company_id belongs to that company alone and wins over a shared row of the same slug';
comment on column models.cost_eur_per_1k_cache_read is 'of prompt tokens that are read from a cache. Null, here and below: what the part is among (contract section 4)';
comment on column models.cost_eur_per_1k_search_unit is 'of 1000 search units of a rerank; null: nothing';
comment on column models.cost_eur_per_1k_request is 'of 1000 calls; null: nothing';
comment on column models.rates is 'prices that hold in place of these under conditions: [{"over":272000,"input":"0.005","output":"0.0225"}]; null: none';
comment on column models.token_input is 'accept: input of POST /embeddings and prompt of POST /completions may be token ids, of the vocabulary of the model behind the slug';
comment on column models.context_length is 'tokens that prompt and answer have room for together; null: not told';
comment on column models.max_output_tokens is 'the most tokens that the model generates in one answer; null: not told';
create unique index models_shared_slug on models (slug) where company_id is null;
create unique index models_company_slug on models (company_id, slug) where company_id is not null;

create table model_prices (
  id          uuid primary key default gen_random_uuid(),
  slug        text not null check (slug ~ '^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$'),
  -- no foreign key: history outlives the company
  company_id  uuid,
  valid_from  timestamptz not null check (isfinite(valid_from)),
  input          price,
  cache_read     price,
  cache_write    price,
  cache_write_1h price,
  audio_input    price,
  image_input    price,
  output         price,
  reasoning      price,
  audio_output   price,
  image_output   price,
  search_unit    price,
  request        price,
  rates          jsonb,
  applied     boolean not null default false,
  changed_by  text not null default audit_actor(),
  created_at  timestamptz not null default now(),
  check ((input is null) = (output is null))
) with (fillfactor = 90);
comment on table model_prices is 'EUR per 1000 units of each model since when; what has begun is never changed or removed';
comment on column model_prices.company_id is 'the company whose own model it is; null: the shared model';
comment on column model_prices.input is 'null, like output: from then on there was no such model';
comment on column model_prices.cache_read is 'of prompt tokens that are read from a cache. Null, as of all parts but input and output: what the part is among';
comment on column model_prices.rates is 'as models.rates';
comment on column model_prices.applied is 'false: it has not reached the columns of models yet';
-- one null is like another here, which "nulls not distinct" says from Postgres 15 on
create unique index model_prices_once on model_prices
  (slug, coalesce(company_id, '00000000-0000-0000-0000-000000000000'), valid_from);
create index model_prices_coming on model_prices (valid_from) where not applied;

-- The prices and rates of a row, by the parts; null: it has none. A change of any other column is none of these.
create function present_prices(models) returns jsonb language sql immutable set search_path from current as $$
  select jsonb_object_agg(replace(c.key, 'cost_eur_per_1k_', ''), c.value) from jsonb_each(to_jsonb($1)) c
  where c.value <> 'null' and (c.key like 'cost\_eur\_per\_1k\_%' or c.key = 'rates')
$$;
create function prices_of(model_prices) returns jsonb language sql immutable set search_path from current as $$
  select jsonb_object_agg(c.key, c.value) from jsonb_each(to_jsonb($1)) c
  where c.value <> 'null' and (c.key = any(price_parts()) or c.key = 'rates')
$$;

-- A price that holds from now on; null: the model is gone, and what was to begin with it.
create function begin_model_price(model_slug text, owner uuid, prices jsonb) returns void
language plpgsql set search_path from current as $$
declare
  latest model_prices;
begin
  select * into latest from model_prices p
  where p.slug = model_slug and p.company_id is not distinct from owner and (p.applied or p.valid_from <= clock_timestamp())
  order by valid_from desc limit 1;
  if prices is null then
    delete from model_prices p where p.slug = model_slug and p.company_id is not distinct from owner
      and not p.applied and p.valid_from > clock_timestamp();
  end if;
  update model_prices p set applied = true where p.slug = model_slug and p.company_id is not distinct from owner
    and not p.applied and p.valid_from <= clock_timestamp();
  if prices_of(latest) is not distinct from prices then return; end if;
  -- later than the row before it, even where the clock of the server went back
  insert into model_prices select p.* from jsonb_populate_record(null::model_prices, coalesce(prices, '{}') || jsonb_build_object(
    'id', gen_random_uuid(), 'slug', model_slug, 'company_id', owner,
    'valid_from', greatest(clock_timestamp(), latest.valid_from + interval '1 microsecond'),
    'applied', true, 'changed_by', audit_actor(), 'created_at', now())) as p;
end $$;
revoke execute on function begin_model_price from public;

-- With the rights of the owner, because programs that may write `models` need no rights to its history.
create function record_model_price() returns trigger language plpgsql security definer set search_path from current as $$
begin
  if tg_op = 'DELETE' or (tg_op = 'UPDATE' and (old.slug, old.company_id) is distinct from (new.slug, new.company_id)) then
    perform begin_model_price(old.slug, old.company_id, null);
  end if;
  if tg_op = 'INSERT' or (tg_op = 'UPDATE' and (old.slug, old.company_id, present_prices(old)) is distinct from (new.slug, new.company_id, present_prices(new))) then
    perform begin_model_price(new.slug, new.company_id, present_prices(new));
  end if;
  return null;
end $$;
create trigger record_price after insert or update or delete on models
  for each row execute function record_model_price();

create function end_model_prices() returns trigger language plpgsql security definer set search_path from current as $$
begin
  perform begin_model_price(slug, company_id, null) from (select distinct slug, company_id from model_prices) as known;
  return null;
end $$;
create trigger record_prices after truncate on models for each statement execute function end_model_prices();

-- What others may do with rows that begin at a date: add, change and withdraw those that begin five seconds from now or
-- later. All gateways know by then. The triggers above are not held back, and apply_due_prices() may mark a row as applied.
-- Arguments: what a row is called, and the constraint that a refusal names.
create function guard_dated() returns trigger language plpgsql security definer set search_path from current as $$
declare
  soonest timestamptz := clock_timestamp() + interval '5 seconds';
begin
  if tg_op = 'TRUNCATE' then
    raise exception '% is append-only', tg_table_name using errcode = 'restrict_violation';
  end if;
  if pg_trigger_depth() > 1 then return coalesce(new, old); end if;
  if tg_op = 'UPDATE' and to_jsonb(new) - 'applied' = to_jsonb(old) - 'applied' and new.applied and old.valid_from <= clock_timestamp() then
    return new;
  end if;
  -- an erasure of persons takes a name and nothing else
  if tg_op = 'UPDATE' and to_jsonb(new) - 'changed_by' = to_jsonb(old) - 'changed_by' then
    if is_erasing() then return new; end if;
  end if;
  if tg_op <> 'INSERT' and (old.applied or old.valid_from < soonest) then
    raise exception '% that has begun, or begins within 5 seconds, cannot be changed or withdrawn', tg_argv[0]
      using errcode = 'restrict_violation', constraint = tg_argv[1];
  end if;
  if tg_op = 'DELETE' then return old; end if;
  if new.valid_from < soonest then
    raise exception '% begins at least 5 seconds from now: what has begun cannot be changed', tg_argv[0]
      using errcode = 'restrict_violation', constraint = tg_argv[1];
  end if;
  new.applied := false;
  new.changed_by := audit_actor();
  return new;
end $$;
create trigger guard before insert or update or delete on model_prices
  for each row execute function guard_dated('a price', 'model_prices_begun');
create trigger append_only before truncate on model_prices for each statement execute function guard_dated();

create function require_model_of_price() returns trigger language plpgsql security definer set search_path from current as $$
begin
  if new.input is null then
    raise exception 'a price has an input and an output' using errcode = 'not_null_violation';
  end if;
  -- locked, so that it is not removed meanwhile
  perform from models m where m.slug = new.slug and m.company_id is not distinct from new.company_id for key share;
  if not found then
    raise exception 'there is no such model' using errcode = 'foreign_key_violation', constraint = 'model_prices_model';
  end if;
  return new;
end $$;
-- after `guard`: triggers run in the order of their names. The end of a model is written by the triggers above
create trigger guard_model before insert or update of slug, company_id, valid_from, input, cache_read, cache_write, cache_write_1h, audio_input, image_input, output, reasoning, audio_output, image_output, search_unit, request, rates on model_prices
  for each row when (pg_trigger_depth() = 0) execute function require_model_of_price();

-- Nothing is changed of a closed company; what has come meanwhile holds when it is opened again.
create function is_of_closed(company uuid) returns boolean language sql stable set search_path from current as $$
  select exists (select from companies c where c.id = company and c.closed_at is not null)
$$;

-- The factor of a company on its prices: as prices are, it is a column that any program may write, with a history, and a
-- row with a later valid_from is a factor that begins at a date. Companies without a row have the factor 1.
create table company_price_factors (
  id          uuid primary key default gen_random_uuid(),
  -- no foreign key: history outlives the company
  company_id  uuid not null,
  valid_from  timestamptz not null check (isfinite(valid_from)),
  factor      numeric not null check (factor > 0 and factor <= 1000 and min_scale(factor) <= 6),
  applied     boolean not null default false,
  changed_by  text not null default audit_actor(),
  created_at  timestamptz not null default now()
) with (fillfactor = 90);
comment on table company_price_factors is 'the factor on the prices of each company since when; what has begun is never changed or removed; for operators only';
comment on column company_price_factors.applied is 'false: it has not reached companies.price_factor yet';
create unique index company_price_factors_once on company_price_factors (company_id, valid_from);
create index company_price_factors_coming on company_price_factors (valid_from) where not applied;

-- A factor that holds from now on; null: the company is gone, and what was to begin with it.
create function begin_price_factor(company uuid, new_factor numeric) returns void
language plpgsql set search_path from current as $$
declare
  latest company_price_factors;
begin
  select * into latest from company_price_factors f
  where f.company_id = company and (f.applied or f.valid_from <= clock_timestamp())
  order by valid_from desc limit 1;
  if new_factor is null then
    delete from company_price_factors f where f.company_id = company and not f.applied and f.valid_from > clock_timestamp();
  end if;
  update company_price_factors f set applied = true
  where f.company_id = company and not f.applied and f.valid_from <= clock_timestamp();
  if coalesce(latest.factor, 1) = coalesce(new_factor, 1) then return; end if;
  insert into company_price_factors (company_id, valid_from, factor, applied)
  values (company, greatest(clock_timestamp(), latest.valid_from + interval '1 microsecond'), coalesce(new_factor, 1), true);
end $$;
revoke execute on function begin_price_factor from public;

-- With the rights of the owner, as record_model_price.
create function record_price_factor() returns trigger language plpgsql security definer set search_path from current as $$
begin
  if tg_op = 'DELETE' or (tg_op = 'UPDATE' and old.id <> new.id) then perform begin_price_factor(old.id, null); end if;
  if tg_op = 'INSERT' or (tg_op = 'UPDATE' and (old.id, old.price_factor) is distinct from (new.id, new.price_factor)) then
    perform begin_price_factor(new.id, new.price_factor);
  end if;
  return null;
end $$;
create trigger record_factor after delete or update of id, price_factor on companies
  for each row execute function record_price_factor();
-- a company that was removed ended with the factor 1
create trigger record_first_factor after insert on companies
  for each row when (new.price_factor <> 1) execute function record_price_factor();

create function end_price_factors() returns trigger language plpgsql security definer set search_path from current as $$
begin
  perform begin_price_factor(company_id, null) from (select distinct company_id from company_price_factors) as known;
  return null;
end $$;
create trigger record_factors after truncate on companies for each statement execute function end_price_factors();

create trigger guard before insert or update or delete on company_price_factors
  for each row execute function guard_dated('a price factor', 'price_factor_begun');
create trigger append_only before truncate on company_price_factors for each statement execute function guard_dated();

create function require_company_of_factor() returns trigger language plpgsql security definer set search_path from current as $$
begin
  -- locked, so that it is not removed meanwhile
  perform from companies c where c.id = new.company_id for key share;
  if not found then
    raise exception 'there is no such company' using errcode = 'foreign_key_violation', constraint = 'price_factor_company';
  end if;
  return new;
end $$;
create trigger guard_company before insert or update of company_id, valid_from, factor on company_price_factors
  for each row when (pg_trigger_depth() = 0) execute function require_company_of_factor();

-- A price times a factor is a price again, of at most 12 decimals, so that no digit is lost. Whoever sets a price is
-- refused if it does not fit the factors that hold or are to come, and whoever sets a factor if a price does not fit it.
create function fits_factor(price numeric, factor numeric) returns boolean language sql immutable set search_path from current as $$
  select coalesce(price * factor < 1e6 and min_scale(price * factor) <= 12, true)
$$;

create function check_factor(model_prices, numeric) returns void language plpgsql set search_path from current as $$
begin
  if exists (
    select from (select prices_of($1) - 'rates' union all select each from jsonb_array_elements($1.rates) as each) as list (prices),
      jsonb_each_text(list.prices) as price
    where price.key = any(price_parts()) and not fits_factor(price.value::numeric, $2))
  then
    raise exception 'A price of % would have more than 12 decimals, or be 1000000 or more, times the price factor %.', $1.slug, trim_scale($2)
      using errcode = 'check_violation', constraint = 'price_fits_factor';
  end if;
end $$;

-- Each rate has the form that gateways read, and a price, or none, for each part of the base price.
create function check_rates() returns trigger language plpgsql set search_path from current as $$
begin
  if not are_rates(new.rates, to_jsonb(new)) then
    raise exception 'The rates of % are not a list of conditions and prices, or leave out a part that the base price has.', new.slug
      using errcode = 'check_violation', constraint = 'rates_are_whole';
  end if;
  return null;
end $$;
create trigger rates after insert or update of input, cache_read, cache_write, cache_write_1h, audio_input, image_input, output, reasoning, audio_output, image_output, search_unit, request, rates on model_prices
  for each row when (new.rates is not null) execute function check_rates();

create function check_factor_of_prices() returns trigger language plpgsql security definer set search_path from current as $$
begin
  -- prices do not wait for each other; a factor waits for all, and they for it
  perform pg_advisory_xact_lock_shared(hashtext('tollgate price factors'));
  perform check_factor(new, f.factor) from (
    select c.price_factor as factor from companies c
    where c.price_factor <> 1 and (new.company_id is null or c.id = new.company_id)
    union
    select p.factor from company_price_factors p where not p.applied and (new.company_id is null or p.company_id = new.company_id)) f;
  return null;
end $$;
create trigger fits after insert or update of input, cache_read, cache_write, cache_write_1h, audio_input, image_input, output, reasoning, audio_output, image_output, search_unit, request, rates on model_prices
  for each row when (new.input is not null) execute function check_factor_of_prices();

create function check_prices_of_factor() returns trigger language plpgsql security definer set search_path from current as $$
begin
  perform pg_advisory_xact_lock(hashtext('tollgate price factors'));
  perform check_factor(p, new.factor) from model_prices p
  where (p.company_id is null or p.company_id = new.company_id) and (not p.applied
    or exists (select from models m where m.slug = p.slug and m.company_id is not distinct from p.company_id
      and p.valid_from = (select max(o.valid_from) from model_prices o
        where o.slug = p.slug and o.company_id is not distinct from p.company_id and o.applied)));
  return null;
end $$;
create trigger fits after insert or update of factor on company_price_factors
  for each row when (new.factor <> 1) execute function check_prices_of_factor();

-- Brings the columns of `models` and `companies` up to date: two seconds after the date, so that a gateway whose clock is behind
-- by less than that still switches at the date. Any number of gateways may call it. Returns in how many seconds
-- it is to be called again; null while nothing is to come.
create function apply_due_prices() returns float8 language plpgsql set search_path from current as $$
declare
  owner record;
  model uuid;
  due   model_prices;
  factor company_price_factors;
  next_price timestamptz;
  next_factor timestamptz;
begin
  for owner in
    select distinct slug, company_id from model_prices p
    where not applied and valid_from <= clock_timestamp() - interval '2 seconds' and not is_of_closed(p.company_id)
  loop
    -- locked before its prices, as a change of the model does
    select id into model from models m
    where m.slug = owner.slug and m.company_id is not distinct from owner.company_id for update skip locked;
    continue when not found; -- somebody is changing it: the next call finds out
    select * into due from model_prices p
    where p.slug = owner.slug and p.company_id is not distinct from owner.company_id
      and not p.applied and p.valid_from <= clock_timestamp()
    order by valid_from desc limit 1;
    continue when not found; -- another gateway was first
    perform set_config('tollgate.actor', due.changed_by, true); -- for the audit log
    execute (select format('update models m set %s, rates = ($1).rates where m.id = $2 and present_prices(m) is distinct from $3',
      string_agg(format('cost_eur_per_1k_%1$s = ($1).%1$s', part), ', ')) from unnest(price_parts()) as part)
    using due, model, prices_of(due);
    update model_prices p set applied = true
    where p.slug = owner.slug and p.company_id is not distinct from owner.company_id and not p.applied and p.valid_from <= due.valid_from;
  end loop;
  for owner in
    select distinct company_id from company_price_factors f
    where not applied and valid_from <= clock_timestamp() - interval '2 seconds' and not is_of_closed(f.company_id)
  loop
    perform from companies c where c.id = owner.company_id for update skip locked;
    continue when not found;
    select * into factor from company_price_factors f
    where f.company_id = owner.company_id and not f.applied and f.valid_from <= clock_timestamp()
    order by valid_from desc limit 1;
    continue when not found;
    perform set_config('tollgate.actor', factor.changed_by, true);
    update companies c set price_factor = factor.factor where c.id = owner.company_id and c.price_factor <> factor.factor;
    update company_price_factors f set applied = true
    where f.company_id = owner.company_id and not f.applied and f.valid_from <= factor.valid_from;
  end loop;
  select min(valid_from) into next_price from model_prices p where not applied and not is_of_closed(p.company_id);
  select min(valid_from) into next_factor from company_price_factors f where not applied and not is_of_closed(f.company_id);
  return extract(epoch from least(next_price, next_factor) - clock_timestamp()) + 2;
end $$;

-- The factor on the prices of a company at an instant, and since when; null: always. One row.
create function price_factor(company uuid, at timestamptz) returns table (factor numeric, valid_from timestamptz)
language sql stable set search_path from current as $$
  select coalesce(max(f.factor), 1), max(f.valid_from) from (
    select h.factor, h.valid_from from company_price_factors h where h.company_id = company and h.valid_from <= at
    order by h.valid_from desc limit 1) f
$$;

-- Rates times a factor.
create function times_factor(rates jsonb, factor numeric) returns jsonb language sql immutable set search_path from current as $$
  select jsonb_agg((select jsonb_object_agg(key, case when key = any(price_parts()) and value <> 'null'
    then to_jsonb(trim_scale((value #>> '{}')::numeric * factor)::text) else value end) from jsonb_each(rate)) order by n)
  from jsonb_array_elements(rates) with ordinality as r (rate, n)
$$;

-- The present factor of a company, for operators; null for its people, whom nothing tells it: the role of the tenant wall reads
-- neither factors nor list prices, of which one and a price that is paid tell the other. Volatile: "returning" tells the new one.
create function operators_factor(company uuid) returns text language sql security definer set search_path from current as $$
  select trim_scale(price_factor)::text from companies where id = company and is_operator()
$$;

-- A row of `models` or `model_prices` as JSON, or members of one, with the prices that its company pays: times the factor at an instant.
create function paid_row(priced jsonb, company uuid, at timestamptz) returns jsonb
language sql stable set search_path from current as $$
  select priced || coalesce((
    select jsonb_object_agg(key, case when key = 'rates' then times_factor(value, f.factor) else to_jsonb(trim_scale(value::text::numeric * f.factor)) end)
    from jsonb_each(priced), price_factor(company, at) f
    where (jsonb_typeof(value) = 'number' and key not in ('context_length', 'max_output_tokens')) or (key = 'rates' and jsonb_typeof(value) = 'array')), '{}')
$$;

-- The price of a model for a company at an instant before the factor of the company: that of its own model, or of the
-- shared one. No row: there was no such model.
create function list_price(model_slug text, company uuid, at timestamptz)
returns table (company_id uuid, valid_from timestamptz, input numeric, cache_read numeric, cache_write numeric, cache_write_1h numeric, audio_input numeric, image_input numeric, output numeric, reasoning numeric, audio_output numeric, image_output numeric, search_unit numeric, request numeric, rates jsonb)
language sql stable set search_path from current as $$
  select p.company_id, p.valid_from, p.input, p.cache_read, p.cache_write, p.cache_write_1h, p.audio_input, p.image_input, p.output, p.reasoning, p.audio_output, p.image_output, p.search_unit, p.request, p.rates from (
    (select o.company_id, o.valid_from, o.input, o.cache_read, o.cache_write, o.cache_write_1h, o.audio_input, o.image_input, o.output, o.reasoning, o.audio_output, o.image_output, o.search_unit, o.request, o.rates
     from model_prices o where o.slug = model_slug and o.company_id = company and o.valid_from <= at
     order by o.valid_from desc limit 1)
    union all
    (select s.company_id, s.valid_from, s.input, s.cache_read, s.cache_write, s.cache_write_1h, s.audio_input, s.image_input, s.output, s.reasoning, s.audio_output, s.image_output, s.search_unit, s.request, s.rates
     from model_prices s where s.slug = model_slug and s.company_id is null and s.valid_from <= at
     order by s.valid_from desc limit 1)) as p
  where p.input is not null order by p.company_id nulls last limit 1
$$;

-- Whether an instant is within hours of the week, such as "Mon-Fri 22:00-02:00,06:00-10:00 UTC" (src/domain/pricing/hours.ts).
create function hours_hold(hours text, at timestamptz) returns boolean language sql stable set search_path from current as $$
  with form as (select regexp_match(hours, '^(?:([A-Za-z,-]+) )?([0-9:,-]+) (\S+)$') as m),
  clock as (
    select m[1] as days, m[2] as windows,
      (extract(dow from at at time zone m[3]) * 1440 + extract(hour from at at time zone m[3]) * 60 + extract(minute from at at time zone m[3]))::integer as minute
    from form
  ),
  windows as (
    select minute, days, left(w, 2)::integer * 60 + substr(w, 4, 2)::integer as begins, substr(w, 7, 2)::integer * 60 + substr(w, 10, 2)::integer as ends
    from clock, regexp_split_to_table(windows, ',') as w
  )
  select exists (
    select from windows, generate_series(0, 6) as day
    where (days is null or exists (
        select from regexp_split_to_table(days, ',') as r,
          lateral (select (position(left(r, 3) in 'SunMonTueWedThuFriSat') - 1) / 3 as first, (position(right(r, 3) in 'SunMonTueWedThuFriSat') - 1) / 3 as last) d
        where (day - first + 7) % 7 <= (last - first + 7) % 7))
      and (minute - day * 1440 - begins + 20160) % 10080 < case when ends > begins then ends - begins else ends + 1440 - begins end)
$$;

-- The rate that holds for a call, as rateOf of src/domain/pricing/prices.ts finds it, and a test compares; null: the base price.
create function rate_of(rates jsonb, prompt bigint, call_tier text, at timestamptz) returns jsonb
language sql stable set search_path from current as $$
  select rate from jsonb_array_elements(rates) with ordinality as r (rate, n)
  where (not rate ? 'over' or prompt > (rate ->> 'over')::bigint) and (not rate ? 'tier' or rate ->> 'tier' = call_tier)
    and (not rate ? 'hours' or hours_hold(rate ->> 'hours', at))
  order by (rate ? 'over')::integer + (rate ? 'tier')::integer + (rate ? 'hours')::integer desc, (rate ->> 'over')::bigint desc nulls last, n
  limit 1
$$;

-- What a company pays for a model at an instant: the list price times the factor, since the later of both began.
create function model_price(model_slug text, company uuid, at timestamptz)
returns table (company_id uuid, valid_from timestamptz, input numeric, cache_read numeric, cache_write numeric, cache_write_1h numeric, audio_input numeric, image_input numeric, output numeric, reasoning numeric, audio_output numeric, image_output numeric, search_unit numeric, request numeric, rates jsonb, factor numeric)
language sql stable set search_path from current as $$
  select p.company_id, greatest(p.valid_from, f.valid_from), p.input * f.factor, p.cache_read * f.factor, p.cache_write * f.factor, p.cache_write_1h * f.factor, p.audio_input * f.factor, p.image_input * f.factor, p.output * f.factor, p.reasoning * f.factor, p.audio_output * f.factor, p.image_output * f.factor, p.search_unit * f.factor, p.request * f.factor,
    times_factor(p.rates, f.factor), f.factor
  from list_price(model_slug, company, at) p, price_factor(company, at) f
$$;

-- What the operator pays. No tenant may read it: neither by a grant nor in the audit log, whose entries about it
-- belong to no company. It begins with a day of the billing time zone, as usage_daily is summed by days.
create table model_cost_prices (
  id          uuid primary key default gen_random_uuid(),
  slug        text not null check (slug ~ '^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$'),
  company_id  uuid,
  valid_from  date not null check (isfinite(valid_from)),
  input          price not null,
  cache_read     price,
  cache_write    price,
  cache_write_1h price,
  audio_input    price,
  image_input    price,
  output         price not null,
  reasoning      price,
  audio_output   price,
  image_output   price,
  search_unit    price,
  request        price,
  rates          jsonb,
  changed_by  text not null default audit_actor(),
  created_at  timestamptz not null default now()
);
comment on table model_cost_prices is 'EUR per 1000 units that the operator pays for each model, since which day; for operators only';
comment on column model_cost_prices.rates is 'as models.rates';
comment on column model_cost_prices.company_id is 'the company whose own model it is; null: the shared model';
create trigger rates after insert or update on model_cost_prices
  for each row when (new.rates is not null) execute function check_rates();
create unique index model_cost_prices_once on model_cost_prices
  (slug, coalesce(company_id, '00000000-0000-0000-0000-000000000000'), valid_from);

create table assistants (
  id            uuid primary key default gen_random_uuid(),
  company_id    uuid not null references companies on delete cascade,
  name          text not null check (name <> ''),
  system_prompt text not null,
  model_slug    text,
  temperature   numeric check (temperature between 0 and 2),
  max_tokens    integer check (max_tokens between 1 and 32000),
  visibility    text not null default 'company' check (visibility in ('company', 'private', 'persons', 'teams', 'projects')),
  project_id    uuid,
  created_at    timestamptz not null default now()
);
create index assistants_company on assistants (company_id);
