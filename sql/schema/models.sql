-- Models with the history of their prices, and assistants. `models` keeps the present price, which any program may write;
-- a trigger then writes a row of history. A price that begins at a date is a row with a later valid_from. Gateways know it
-- beforehand and switch by their own clocks; apply_due_prices() then brings the columns of `models` up to date.

create table models (
  id                          uuid primary key default gen_random_uuid(),
  slug                        text not null check (slug ~ '^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$'),
  company_id                  uuid references companies on delete cascade,
  upstream_model              text not null check (upstream_model <> ''),
  kind                        text not null check (kind in ('chat', 'embedding', 'rerank')),
  eu_hosted                   boolean not null,
  cost_eur_per_1k_input       numeric not null check (cost_eur_per_1k_input >= 0 and cost_eur_per_1k_input < 1e6 and min_scale(cost_eur_per_1k_input) <= 12),
  cost_eur_per_1k_output      numeric not null check (cost_eur_per_1k_output >= 0 and cost_eur_per_1k_output < 1e6 and min_scale(cost_eur_per_1k_output) <= 12),
  cost_eur_per_1k_cache_read  numeric check (cost_eur_per_1k_cache_read >= 0 and cost_eur_per_1k_cache_read < 1e6 and min_scale(cost_eur_per_1k_cache_read) <= 12),
  cost_eur_per_1k_cache_write numeric check (cost_eur_per_1k_cache_write >= 0 and cost_eur_per_1k_cache_write < 1e6 and min_scale(cost_eur_per_1k_cache_write) <= 12),
  created_at                  timestamptz not null default now(),
  token_input                 text not null default 'refuse' check (token_input in ('accept', 'refuse'))
);
comment on table models is 'a row with company_id belongs to that company alone and wins over a shared row of the same slug';
comment on column models.cost_eur_per_1k_cache_read is 'of prompt tokens that are read from a cache. Null, here and below: the input price';
comment on column models.cost_eur_per_1k_cache_write is 'of prompt tokens that are written to it';
comment on column models.token_input is 'accept: input of POST /embeddings may be token ids, of the vocabulary of the model behind the slug';
create unique index models_shared_slug on models (slug) where company_id is null;
create unique index models_company_slug on models (company_id, slug) where company_id is not null;

create table model_prices (
  id          uuid primary key default gen_random_uuid(),
  slug        text not null check (slug ~ '^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$'),
  -- no foreign key: history outlives the company
  company_id  uuid,
  valid_from  timestamptz not null check (isfinite(valid_from)),
  input       numeric check (input >= 0 and input < 1e6 and min_scale(input) <= 12),
  output      numeric check (output >= 0 and output < 1e6 and min_scale(output) <= 12),
  cache_read  numeric check (cache_read >= 0 and cache_read < 1e6 and min_scale(cache_read) <= 12),
  cache_write numeric check (cache_write >= 0 and cache_write < 1e6 and min_scale(cache_write) <= 12),
  applied     boolean not null default false,
  changed_by  text not null default audit_actor(),
  created_at  timestamptz not null default now(),
  check (case when input is null then coalesce(output, cache_read, cache_write) is null else output is not null end)
) with (fillfactor = 90);
comment on table model_prices is 'EUR per 1000 tokens of each model since when; what has begun is never changed or removed';
comment on column model_prices.company_id is 'the company whose own model it is; null: the shared model';
comment on column model_prices.input is 'null, like output: from then on there was no such model';
comment on column model_prices.cache_read is 'of prompt tokens that are read from a cache. Null, like cache_write: the input price';
comment on column model_prices.applied is 'false: it has not reached the columns of models yet';
-- one null is like another here, which "nulls not distinct" says from Postgres 15 on
create unique index model_prices_once on model_prices
  (slug, coalesce(company_id, '00000000-0000-0000-0000-000000000000'), valid_from);
create index model_prices_coming on model_prices (valid_from) where not applied;

-- A price that holds from now on; without an input price: the model is gone, and what was to begin with it.
create function begin_model_price(model_slug text, owner uuid, new_input numeric, new_output numeric,
  new_cache_read numeric default null, new_cache_write numeric default null) returns void
language plpgsql set search_path from current as $$
declare
  latest model_prices;
begin
  select * into latest from model_prices p
  where p.slug = model_slug and p.company_id is not distinct from owner and (p.applied or p.valid_from <= clock_timestamp())
  order by valid_from desc limit 1;
  if new_input is null then
    delete from model_prices p where p.slug = model_slug and p.company_id is not distinct from owner
      and not p.applied and p.valid_from > clock_timestamp();
  end if;
  update model_prices p set applied = true where p.slug = model_slug and p.company_id is not distinct from owner
    and not p.applied and p.valid_from <= clock_timestamp();
  if (latest.input, latest.output, latest.cache_read, latest.cache_write)
    is not distinct from (new_input, new_output, new_cache_read, new_cache_write) then return; end if;
  -- later than the row before it, even where the clock of the server went back
  insert into model_prices (slug, company_id, valid_from, input, output, cache_read, cache_write, applied)
  values (model_slug, owner, greatest(clock_timestamp(), latest.valid_from + interval '1 microsecond'),
    new_input, new_output, new_cache_read, new_cache_write, true);
end $$;
revoke execute on function begin_model_price from public;

-- With the rights of the owner, because programs that may write `models` need no rights to its history.
create function record_model_price() returns trigger language plpgsql security definer set search_path from current as $$
begin
  if tg_op = 'DELETE' or (tg_op = 'UPDATE' and (old.slug, old.company_id) is distinct from (new.slug, new.company_id)) then
    perform begin_model_price(old.slug, old.company_id, null, null);
  end if;
  if tg_op = 'INSERT' or (tg_op = 'UPDATE' and (old.slug, old.company_id, old.cost_eur_per_1k_input, old.cost_eur_per_1k_output,
      old.cost_eur_per_1k_cache_read, old.cost_eur_per_1k_cache_write)
    is distinct from (new.slug, new.company_id, new.cost_eur_per_1k_input, new.cost_eur_per_1k_output,
      new.cost_eur_per_1k_cache_read, new.cost_eur_per_1k_cache_write)) then
    perform begin_model_price(new.slug, new.company_id, new.cost_eur_per_1k_input, new.cost_eur_per_1k_output,
      new.cost_eur_per_1k_cache_read, new.cost_eur_per_1k_cache_write);
  end if;
  return null;
end $$;
create trigger record_price after insert or update or delete on models
  for each row execute function record_model_price();

create function end_model_prices() returns trigger language plpgsql security definer set search_path from current as $$
begin
  perform begin_model_price(slug, company_id, null, null) from (select distinct slug, company_id from model_prices) as known;
  return null;
end $$;
create trigger record_prices after truncate on models for each statement execute function end_model_prices();

-- What others may do here: add, change and withdraw prices that begin five seconds from now or later. All
-- gateways know by then. The triggers above are not held back, and apply_due_prices() may mark a row as applied.
create function guard_model_prices() returns trigger language plpgsql security definer set search_path from current as $$
declare
  soonest timestamptz := clock_timestamp() + interval '5 seconds';
begin
  if tg_op = 'TRUNCATE' then
    raise exception 'model_prices is append-only' using errcode = 'restrict_violation';
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
    raise exception 'a price that has begun, or begins within 5 seconds, cannot be changed or withdrawn'
      using errcode = 'restrict_violation', constraint = 'model_prices_begun';
  end if;
  if tg_op = 'DELETE' then return old; end if;
  if new.valid_from < soonest then
    raise exception 'a price begins at least 5 seconds from now: what has begun cannot be changed'
      using errcode = 'restrict_violation', constraint = 'model_prices_begun';
  end if;
  if new.input is null then
    raise exception 'a price has an input and an output' using errcode = 'not_null_violation';
  end if;
  -- locked, so that it is not removed meanwhile
  perform from models m where m.slug = new.slug and m.company_id is not distinct from new.company_id for key share;
  if not found then
    raise exception 'there is no such model' using errcode = 'foreign_key_violation', constraint = 'model_prices_model';
  end if;
  new.applied := false;
  new.changed_by := audit_actor();
  return new;
end $$;
create trigger guard before insert or update or delete on model_prices for each row execute function guard_model_prices();
create trigger append_only before truncate on model_prices for each statement execute function guard_model_prices();

-- Nothing is changed of a closed company; what has come meanwhile holds when it is opened again.
create function is_of_closed(company uuid) returns boolean language sql stable set search_path from current as $$
  select exists (select from companies c where c.id = company and c.closed_at is not null)
$$;

-- Brings the columns of `models` up to date: two seconds after the date, so that a gateway whose clock is behind
-- by less than that still switches at the date. Any number of gateways may call it. Returns in how many seconds
-- it is to be called again; null while nothing is to come.
create function apply_due_prices() returns float8 language plpgsql set search_path from current as $$
declare
  owner record;
  model uuid;
  due   model_prices;
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
    update models set cost_eur_per_1k_input = due.input, cost_eur_per_1k_output = due.output,
      cost_eur_per_1k_cache_read = due.cache_read, cost_eur_per_1k_cache_write = due.cache_write
    where id = model and (cost_eur_per_1k_input, cost_eur_per_1k_output, cost_eur_per_1k_cache_read, cost_eur_per_1k_cache_write)
      is distinct from (due.input, due.output, due.cache_read, due.cache_write);
    update model_prices p set applied = true
    where p.slug = owner.slug and p.company_id is not distinct from owner.company_id and not p.applied and p.valid_from <= due.valid_from;
  end loop;
  return (select extract(epoch from min(valid_from) - clock_timestamp()) + 2 from model_prices p
    where not applied and not is_of_closed(p.company_id));
end $$;

-- The price of a model for a company at an instant: that of its own model, or of the shared one. No row: there
-- was no such model.
create function model_price(model_slug text, company uuid, at timestamptz)
returns table (company_id uuid, valid_from timestamptz, input numeric, output numeric, cache_read numeric, cache_write numeric)
language sql stable set search_path from current as $$
  select p.company_id, p.valid_from, p.input, p.output, p.cache_read, p.cache_write from (
    (select o.company_id, o.valid_from, o.input, o.output, o.cache_read, o.cache_write
     from model_prices o where o.slug = model_slug and o.company_id = company and o.valid_from <= at
     order by o.valid_from desc limit 1)
    union all
    (select s.company_id, s.valid_from, s.input, s.output, s.cache_read, s.cache_write
     from model_prices s where s.slug = model_slug and s.company_id is null and s.valid_from <= at
     order by s.valid_from desc limit 1)) as p
  where p.input is not null order by p.company_id nulls last limit 1
$$;

-- What the operator pays. No tenant may read it: neither by a grant nor in the audit log, whose entries about it
-- belong to no company. It begins with a day of the billing time zone, as usage_daily is summed by days.
create table model_cost_prices (
  id          uuid primary key default gen_random_uuid(),
  slug        text not null check (slug ~ '^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$'),
  company_id  uuid,
  valid_from  date not null check (isfinite(valid_from)),
  input       numeric not null check (input >= 0 and input < 1e6 and min_scale(input) <= 12),
  output      numeric not null check (output >= 0 and output < 1e6 and min_scale(output) <= 12),
  cache_read  numeric check (cache_read >= 0 and cache_read < 1e6 and min_scale(cache_read) <= 12),
  cache_write numeric check (cache_write >= 0 and cache_write < 1e6 and min_scale(cache_write) <= 12),
  changed_by  text not null default audit_actor(),
  created_at  timestamptz not null default now()
);
comment on table model_cost_prices is 'EUR per 1000 tokens that the operator pays for each model, since which day; for operators only';
comment on column model_cost_prices.cache_read is 'of prompt tokens that are read from a cache. Null, like cache_write: the input price';
comment on column model_cost_prices.company_id is 'the company whose own model it is; null: the shared model';
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
