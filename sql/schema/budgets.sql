-- Strict budgets, and what was reached of budgets.

-- The keys of a company that were made in each other's place. The first, whose id the line has, also where its row is gone:
-- the ledger keeps what it spent.
create function keys_of_line(of_company uuid, of_line uuid) returns uuid[] language sql stable set search_path from current as
  'select array_append(array_agg(id), of_line) from api_keys where company_id = of_company and line = of_line';

-- What the keys of a line have spent in a month, or one end user by them.
create function line_spend(company uuid, of_line uuid, of_month date, person uuid default null) returns numeric
language plpgsql stable set search_path from current as $$
declare
  keys constant uuid[] := keys_of_line(company, of_line);
  spent numeric;
begin
  if person is null then
    select sum(cost_eur) into spent from usage_key_months
    where company_id = company and billing_month = of_month and api_key_id = any(keys);
  else
    select sum(cost_eur) into spent from usage_end_user_days
    where company_id = company and billing_month = of_month and end_user_id = person and api_key_id = any(keys);
  end if;
  return coalesce(spent, 0);
end $$;

-- What a company, in-app chat included, or the keys of a line have spent on a day in the billing time zone. Sums that are kept
-- anyway tell it, so a budget of a day costs nobody who has none, and nothing is ever reset.
create function day_spend(company uuid, of_line uuid, of_day date) returns numeric language plpgsql stable set search_path from current as $$
declare
  of_month constant date := date_trunc('month', of_day);
  keys constant uuid[] := keys_of_line(company, of_line);
  spent numeric;
begin
  if of_line is not null then
    select sum(cost_eur) into spent from usage_daily
    where company_id = company and billing_month = of_month and api_key_id = any(keys) and day = of_day;
    return coalesce(spent, 0);
  end if;
  select sum(cost_eur) into spent from usage_company_days where company_id = company and billing_month = of_month and day = of_day;
  -- no zone is further than 15 hours from UTC
  return coalesce(spent, 0) + coalesce((
    select sum(cost_eur) from chat_usage c
    where c.company_id = company and c.occurred_at > (of_day::timestamp - interval '15 hours') at time zone 'UTC'
      and c.occurred_at < (of_day::timestamp + interval '39 hours') at time zone 'UTC'
      and (c.occurred_at at time zone (select value from settings where name = 'billing_timezone'))::date = of_day), 0);
end $$;

-- A company with budget_mode strict never spends more than its budget on requests that bound their answer (max_tokens):
-- each reserves what it can cost at most before it is sent. A reservation is a row with an owner and a lease, so that it
-- outlives neither.
create table budget_reservations (
  request_id    uuid primary key,
  company_id    uuid not null,
  billing_month date not null,
  owner         uuid not null,
  amount_eur    numeric not null check (amount_eur >= 0),
  expires_at    timestamptz not null,
  billing_day   date,
  api_key_id    uuid,
  end_user_id   uuid
);
comment on column budget_reservations.billing_day is 'of the call, for the budget of a day';
comment on column budget_reservations.end_user_id is 'of a call that is to fit the allowance of its end user; null: none, and then no key';
comment on column budget_reservations.owner is 'the gateway process that renews the lease';
create index budget_reservations_company on budget_reservations (company_id, billing_month);

-- Decides requests in their order and returns those that fit, and those that the budget of the month does not refuse, with
-- what does ("end_user": the allowance of the end user; "day"): [{request_id, company_id, billing_month, billing_day,
-- api_key_id, end_user_id, amount_eur, bounded}]. What fits leaves spend and
-- reservations together at or below each budget; a request that cannot say what it costs at most fits while they are
-- below it. Spend and reservations are read in one statement, and booking turns one into the
-- other in one transaction: nothing is seen twice or not at all.
create function reserve_budget(reserving_owner uuid, lease_seconds integer, requests json)
returns table (id uuid, refused_by text) language plpgsql set search_path from current as $$
declare
  request record;
  budgets record;
  state   record;
  person  record;
  allowance numeric;
  keys    uuid[];
begin
  for request in select distinct (r ->> 'company_id')::uuid as company_id from json_array_elements(requests) as r order by 1 loop
    perform pg_advisory_xact_lock(hashtextextended('tollgate budget ' || request.company_id, 0));
  end loop;
  for request in
    select * from json_to_recordset(requests) as r
      (request_id uuid, company_id uuid, billing_month date, billing_day date, api_key_id uuid, end_user_id uuid,
        amount_eur numeric, bounded boolean)
  loop
    select company_budget(c.monthly_budget_eur, c.credit_limit_eur) as month, company_daily_budget(c) as day into budgets from companies c where c.id = request.company_id;
    continue when not found;
    with spends as materialized (
      select api_cost_eur + chat_cost_eur as eur from monthly_spend m
      where m.company_id = request.company_id and m.billing_month = request.billing_month
    ),
    reservations as materialized (
      select sum(amount_eur) as eur, sum(amount_eur) filter (where b.billing_day = request.billing_day) as of_day
      from budget_reservations b
      where b.company_id = request.company_id and b.billing_month = request.billing_month and b.expires_at > clock_timestamp()
    )
    select coalesce((select eur from spends), 0) as spent, coalesce((select eur from reservations), 0) as reserved,
      coalesce((select of_day from reservations), 0) as reserved_of_day,
      case when budgets.day is not null then day_spend(request.company_id, null, request.billing_day) end as spent_of_day
    into state;
    continue when not fits_budget(budgets.month, state.spent, state.reserved, request.amount_eur, request.bounded);
    id := request.request_id;
    refused_by := null;
    if request.end_user_id is not null then
      select case when k.end_user_budget_eur > 0 then coalesce(u.monthly_budget_eur, k.end_user_budget_eur) end,
        keys_of_line(k.company_id, k.line) into allowance, keys
        from api_keys k left join end_users u on u.id = request.end_user_id and u.company_id = k.company_id
        where k.company_id = request.company_id and k.id = request.api_key_id;
      -- likewise in one statement
      select
        (select coalesce(sum(cost_eur), 0) from usage_end_user_days d
         where d.company_id = request.company_id and d.billing_month = request.billing_month
           and d.end_user_id = request.end_user_id and d.api_key_id = any(keys)) as spent,
        (select coalesce(sum(amount_eur), 0) from budget_reservations b
         where b.company_id = request.company_id and b.billing_month = request.billing_month
           and b.end_user_id = request.end_user_id and b.api_key_id = any(keys)
           and b.expires_at > clock_timestamp()) as reserved
      into person;
      if not fits_budget(allowance, person.spent, person.reserved, request.amount_eur, request.bounded) then
        refused_by := 'end_user';
      end if;
    end if;
    if refused_by is null
      and not fits_budget(budgets.day, state.spent_of_day, state.reserved_of_day, request.amount_eur, request.bounded) then
      refused_by := 'day';
    end if;
    if refused_by is null then
      insert into budget_reservations (request_id, company_id, billing_month, billing_day, api_key_id, end_user_id, owner,
        amount_eur, expires_at)
      values (request.request_id, request.company_id, request.billing_month, request.billing_day, request.api_key_id,
        request.end_user_id, reserving_owner, request.amount_eur, clock_timestamp() + make_interval(secs => lease_seconds))
      on conflict do nothing; -- asked again after a lost answer
    end if;
    return next;
  end loop;
end $$;

-- Whether a request fits a budget; null: there is none.
create function fits_budget(budget numeric, spent numeric, reserved numeric, amount numeric, bounded boolean) returns boolean
language sql immutable as $$
  select budget is null or spent < budget and case when bounded then spent + reserved + amount <= budget else spent + reserved < budget end
$$;

-- What calls reserved ends: they are booked.
create function end_reservations(booked uuid[]) returns void language sql set search_path from current as
  'delete from budget_reservations where request_id = any(booked)';

-- What a cost centre may cost in a month. It tells and refuses nothing: no call reads it, and neither does the ledger.
create table cost_center_budgets (
  id                 uuid primary key default gen_random_uuid(),
  company_id         uuid not null references companies on delete cascade,
  name               text not null check (char_length(name) between 1 and 64),
  monthly_budget_eur numeric not null
    check (monthly_budget_eur > 0 and monthly_budget_eur < 1e12 and min_scale(monthly_budget_eur) <= 15),
  created_at         timestamptz not null default now()
);
comment on column cost_center_budgets.name is 'as calls name it in metadata: cost_center of the ledger; there need be no call yet';
create unique index cost_center_budgets_once on cost_center_budgets (company_id, name);

-- Budget alerts: what was reached of the monthly budget of a company, of one of its keys or cost centres, once a month
-- each, and of the budget of a day once on that day. A budget that is raised meanwhile does not alert again at the same threshold.
create table budget_alerts (
  id            uuid primary key default gen_random_uuid(),
  company_id    uuid not null references companies on delete cascade,
  api_key_id    uuid, -- no foreign key: others could not truncate api_keys then
  billing_month date not null,
  threshold     text not null check (threshold ~ '^([1-9][0-9]?|100|forecast)$'),
  budget_eur    numeric not null,
  spent_eur     numeric not null,
  forecast_eur  numeric,
  -- reached together with a higher one, which is told instead
  superseded    boolean not null default false,
  occurred_at   timestamptz not null default now(),
  cost_center   text,
  day           date
);
comment on column budget_alerts.day is 'of a daily budget; null: that of the month';
comment on column budget_alerts.api_key_id is 'null: the budget of the company itself, or of a cost centre';
comment on column budget_alerts.cost_center is 'null: the budget of the company itself, or of a key';
comment on column budget_alerts.threshold is 'percent of the budget; forecast: at its pace the month passes the budget';
-- one null is like another here, which "nulls not distinct" says from Postgres 15 on
create unique index budget_alerts_once on budget_alerts
  (company_id, coalesce(api_key_id, '00000000-0000-0000-0000-000000000000'), billing_month, threshold, coalesce(cost_center, ''), coalesce(day, '-infinity'));

-- Which end users used up a part of their budgets: each once a month, whatever the number of gateways. Those of an hour are
-- told together.
create table end_user_alerts (
  company_id    uuid not null references companies on delete cascade,
  billing_month date not null,
  end_user_id   uuid not null,
  threshold     smallint not null check (threshold in (80, 100)),
  occurred_at   timestamptz not null default now(),
  told_at       timestamptz,
  primary key (company_id, billing_month, end_user_id, threshold)
);
comment on column end_user_alerts.threshold is 'percent of the budget of the person, or of what a key lets each of its end users cost';
comment on column end_user_alerts.told_at is 'when an event told of it; null: it waits';
create index end_user_alerts_untold on end_user_alerts (company_id) where told_at is null;
create index end_user_alerts_reached on end_user_alerts (billing_month, occurred_at) where threshold = 100;

-- What was unusual on a day of a company, a key or a model (src/domain/unusual.ts). A jump is told by its first row.
create table unusual_days (
  id          uuid not null default gen_random_uuid(),
  company_id  uuid not null references companies on delete cascade,
  day         date not null,
  measure     text not null check (measure in ('spend', 'refused', 'failed', 'latency')),
  subject     text not null check (subject in ('company', 'key', 'model')),
  about       text not null,
  api_key_id  uuid,
  model_slug  text,
  value       numeric not null,
  usual       numeric not null,
  superseded  boolean not null,
  occurred_at timestamptz not null default now(),
  seen_at     timestamptz not null default now(),
  primary key (company_id, day, measure, subject, about)
);
comment on column unusual_days.about is 'id of the first key of its line, or slug of the model; empty: the company itself';
comment on column unusual_days.api_key_id is 'the key that it is about, or that is half of it or more; null: there is none';
comment on column unusual_days.value is 'up to seen_at: EUR, requests, or milliseconds of a request; usual: the same of other weeks';
comment on column unusual_days.superseded is 'it belongs to a jump that was told before';
create index unusual_days_day on unusual_days (day);

-- Who is told of them by e-mail, as the owners of a company want it. A line without an address is for owners and
-- administrators without a line of their own; where it is missing too, they are told at 50, 80 and 100 percent, and by forecast.
create table alert_receivers (
  id           uuid primary key default gen_random_uuid(),
  company_id   uuid not null references companies on delete cascade,
  email        text check (email <> '' and email = lower(email)),
  percents     smallint[] not null check (1 <= all (percents) and 100 >= all (percents) and cardinality(percents) <= 10),
  forecast     boolean not null,
  created_at   timestamptz not null default now(),
  created_by   text,
  digest       bytea unique check (octet_length(digest) = 32),
  expires_at   timestamptz,
  confirmed_at timestamptz,
  language     text check (language ~ '^[a-z]{2,3}$')
);
comment on column alert_receivers.email is 'of one of the company''s people, or of anybody who confirmed it; null: owners and administrators without a line of their own';
comment on column alert_receivers.percents is 'parts of the budget at which they are told';
comment on column alert_receivers.forecast is 'whether they are told that the month will pass the budget';
comment on column alert_receivers.digest is 'SHA-256 of the random part of the link by which an address outside the company confirms; null: none waits';
comment on column alert_receivers.language is 'of who added an address outside the company, for its e-mails; null: that of the company';
comment on column alert_receivers.confirmed_at is 'when the reader of an address outside the company agreed; null: that did not happen';
create unique index alert_receivers_once on alert_receivers (company_id, coalesce(email, ''));

-- Who of a company is told, and of what. An address outside the company that was not confirmed is told nothing.
create function alert_readers(company uuid) returns table (email text, percents smallint[], forecast boolean, receiver uuid)
language sql stable set search_path from current as $$
  select r.email, r.percents, r.forecast, r.id from alert_receivers r
  where r.company_id = alert_readers.company and r.email is not null
    and (r.confirmed_at is not null or exists (select from users u where u.email = r.email and u.company_id = r.company_id))
  union all
  select u.email, coalesce(g.percents, '{50,80,100}'), coalesce(g.forecast, true), null
  from users u left join alert_receivers g on g.company_id = u.company_id and g.email is null
  where u.company_id = alert_readers.company and u.role in ('owner', 'administrator')
    and not exists (select from alert_receivers r where r.company_id = u.company_id and r.email = u.email)
$$;
