-- Prices with dates. `models` keeps the present price, which any program may write; a trigger then writes a row
-- of history. A price that begins at a date is a row with a later valid_from. Gateways know it beforehand and
-- switch by their own clocks; apply_due_prices() then brings the columns of `models` up to date.

create table model_prices (
  id         uuid primary key default gen_random_uuid(),
  slug       text not null check (slug ~ '^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$'),
  -- no foreign key: history outlives the company
  company_id uuid,
  valid_from timestamptz not null check (isfinite(valid_from)),
  input      numeric check (input >= 0 and input < 1e6 and min_scale(input) <= 12),
  output     numeric check (output >= 0 and output < 1e6 and min_scale(output) <= 12),
  applied    boolean not null default false,
  changed_by text not null default audit_actor(),
  created_at timestamptz not null default now(),
  check ((input is null) = (output is null))
) with (fillfactor = 90);
comment on table model_prices is 'EUR per 1000 tokens of each model since when; what has begun is never changed or removed';
comment on column model_prices.company_id is 'the company whose own model it is; null: the shared model';
comment on column model_prices.input is 'null, like output: from then on there was no such model';
comment on column model_prices.applied is 'false: it has not reached the columns of models yet';
-- one null is like another here, which "nulls not distinct" says from Postgres 15 on
create unique index model_prices_once on model_prices
  (slug, coalesce(company_id, '00000000-0000-0000-0000-000000000000'), valid_from);
create index model_prices_coming on model_prices (valid_from) where not applied;

-- what the audit log knows of the time before
insert into model_prices (slug, company_id, valid_from, input, output, applied, changed_by, created_at)
select distinct on (slug, company_id, at) slug, company_id, at, input, output, true, actor, at
from (
  select id, at, actor, after ->> 'slug' as slug, (after ->> 'company_id')::uuid as company_id,
    (after ->> 'cost_eur_per_1k_input')::numeric as input, (after ->> 'cost_eur_per_1k_output')::numeric as output
  from audit_log where subject = 'models' and action in ('insert', 'update')
    and (before ->> 'slug', before ->> 'company_id', before ->> 'cost_eur_per_1k_input', before ->> 'cost_eur_per_1k_output')
      is distinct from (after ->> 'slug', after ->> 'company_id', after ->> 'cost_eur_per_1k_input', after ->> 'cost_eur_per_1k_output')
  union all
  select id, at, actor, before ->> 'slug', (before ->> 'company_id')::uuid, null, null
  from audit_log where subject = 'models' and action in ('delete', 'update')
    and (before ->> 'slug', before ->> 'company_id') is distinct from (after ->> 'slug', after ->> 'company_id')
) as changed
order by slug, company_id, at, id desc;

-- the present models, as far as the audit log does not tell their price
insert into model_prices (slug, company_id, valid_from, input, output, applied, changed_by)
select m.slug, m.company_id, case when p.id is null then m.created_at else greatest(now(), p.valid_from + interval '1 microsecond') end,
  m.cost_eur_per_1k_input, m.cost_eur_per_1k_output, true, 'migration'
from models m left join lateral (
  select * from model_prices p where p.slug = m.slug and p.company_id is not distinct from m.company_id
  order by valid_from desc limit 1) p on true
where (p.input, p.output) is distinct from (m.cost_eur_per_1k_input, m.cost_eur_per_1k_output);

-- A price that holds from now on; null: the model is gone, and what was to begin with it.
create function begin_model_price(model_slug text, owner uuid, new_input numeric, new_output numeric) returns void
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
  if (latest.input, latest.output) is not distinct from (new_input, new_output) then return; end if;
  -- later than the row before it, even where the clock of the server went back
  insert into model_prices (slug, company_id, valid_from, input, output, applied)
  values (model_slug, owner, greatest(clock_timestamp(), latest.valid_from + interval '1 microsecond'), new_input, new_output, true);
end $$;

revoke execute on function begin_model_price from public;

-- With the rights of the owner, because programs that may write `models` need no rights to its history.
create function record_model_price() returns trigger language plpgsql security definer set search_path from current as $$
begin
  if tg_op = 'DELETE' or (tg_op = 'UPDATE' and (old.slug, old.company_id) is distinct from (new.slug, new.company_id)) then
    perform begin_model_price(old.slug, old.company_id, null, null);
  end if;
  if tg_op = 'INSERT' or (tg_op = 'UPDATE' and (old.slug, old.company_id, old.cost_eur_per_1k_input, old.cost_eur_per_1k_output)
    is distinct from (new.slug, new.company_id, new.cost_eur_per_1k_input, new.cost_eur_per_1k_output)) then
    perform begin_model_price(new.slug, new.company_id, new.cost_eur_per_1k_input, new.cost_eur_per_1k_output);
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
  -- an erasure of persons (0036_company_end.sql) takes a name and nothing else
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

-- Who changed a price is the entry's actor, and not said again: companies see their entries without operators' names.
-- 'hidden': the entry belongs to no company.
create function audit_price() returns trigger language plpgsql set search_path from current as $$
declare
  hidden boolean := tg_argv[0] = 'hidden';
  left_out text[] := array['changed_by', 'created_at', 'applied'];
  before jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) - left_out end;
  after  jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) - left_out end;
  price  jsonb := coalesce(after, before);
begin
  if before = after then return null; end if;
  if hidden then
    before := before - 'company_id' || jsonb_build_object('of_company', before -> 'company_id');
    after := after - 'company_id' || jsonb_build_object('of_company', after -> 'company_id');
  end if;
  insert into audit_log (actor, action, subject, subject_id, company_id, before, after)
  values (audit_actor(), lower(tg_op), tg_table_name, (price ->> 'id')::uuid,
    case when not hidden then (price ->> 'company_id')::uuid end, before, after);
  return null;
end $$;

-- what begins at once is announced and audited as a change of `models`
create trigger announce_coming after insert on model_prices
  for each row when (not new.applied) execute function announce_row('model', 'company_id');
create trigger announce_changed after update of input, output on model_prices
  for each row when (not old.applied) execute function announce_row('model', 'company_id');
create trigger announce_withdrawn after delete on model_prices
  for each row when (not old.applied) execute function announce_row('model', 'company_id');
create trigger audit_coming after insert on model_prices
  for each row when (not new.applied) execute function audit_price('shown');
create trigger audit_changed after update of input, output on model_prices
  for each row when (not old.applied) execute function audit_price('shown');
create trigger audit_withdrawn after delete on model_prices
  for each row when (not old.applied) execute function audit_price('shown');

-- Nothing is changed of a closed company; what has come meanwhile holds when it is opened again. The column
-- closed_at comes with a later file.
create function is_of_closed(company uuid) returns boolean language sql stable set search_path from current as $$
  select exists (select from companies c where c.id = company and to_jsonb(c) ->> 'closed_at' is not null)
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
    update models set cost_eur_per_1k_input = due.input, cost_eur_per_1k_output = due.output
    where id = model and (cost_eur_per_1k_input, cost_eur_per_1k_output) is distinct from (due.input, due.output);
    update model_prices p set applied = true
    where p.slug = owner.slug and p.company_id is not distinct from owner.company_id and not p.applied and p.valid_from <= due.valid_from;
  end loop;
  return (select extract(epoch from min(valid_from) - clock_timestamp()) + 2 from model_prices p
    where not applied and not is_of_closed(p.company_id));
end $$;

-- The price of a model for a company at an instant: that of its own model, or of the shared one. No row: there
-- was no such model.
create function model_price(model_slug text, company uuid, at timestamptz)
returns table (company_id uuid, valid_from timestamptz, input numeric, output numeric)
language sql stable set search_path from current as $$
  select p.company_id, p.valid_from, p.input, p.output from (
    (select o.company_id, o.valid_from, o.input, o.output from model_prices o where o.slug = model_slug and o.company_id = company and o.valid_from <= at
     order by o.valid_from desc limit 1)
    union all
    (select s.company_id, s.valid_from, s.input, s.output from model_prices s where s.slug = model_slug and s.company_id is null and s.valid_from <= at
     order by s.valid_from desc limit 1)) as p
  where p.input is not null order by p.company_id nulls last limit 1
$$;

-- What the operator pays. No tenant may read it: neither by a grant nor in the audit log, whose entries about it
-- belong to no company. It begins with a day of the billing time zone, as usage_daily is summed by days.
create table model_cost_prices (
  id         uuid primary key default gen_random_uuid(),
  slug       text not null check (slug ~ '^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$'),
  company_id uuid,
  valid_from date not null check (isfinite(valid_from)),
  input      numeric not null check (input >= 0 and input < 1e6 and min_scale(input) <= 12),
  output     numeric not null check (output >= 0 and output < 1e6 and min_scale(output) <= 12),
  changed_by text not null default audit_actor(),
  created_at timestamptz not null default now()
);
comment on table model_cost_prices is 'EUR per 1000 tokens that the operator pays for each model, since which day; for operators only';
comment on column model_cost_prices.company_id is 'the company whose own model it is; null: the shared model';
create unique index model_cost_prices_once on model_cost_prices
  (slug, coalesce(company_id, '00000000-0000-0000-0000-000000000000'), valid_from);

create trigger audit after insert or delete or update of slug, company_id, valid_from, input, output on model_cost_prices for each row execute function audit_price('hidden');
create trigger audit_truncate after truncate on model_cost_prices for each statement execute function audit_truncate();

-- a month of all companies is read for the margin; a few pages, and updates of the sums stay on their page
create index usage_daily_month on usage_daily using brin (billing_month);

alter table model_prices enable row level security;
create policy own on model_prices using (company_id is null or is_visible(company_id));
alter table model_cost_prices enable row level security;
create policy own on model_cost_prices using (current_user <> 'tollgate_tenant');
-- not who changed a price
insert into tenant_grants (privilege) values
  ('select (id, slug, company_id, valid_from, input, output, applied) on model_prices');
select raise_tenant_wall();
