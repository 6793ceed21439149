-- Strict budgets, and what was reached of budgets.

-- A company with budget_mode strict never spends more than its budget on requests that bound their answer (max_tokens):
-- each reserves what it can cost at most before it is sent. A reservation is a row with an owner and a lease, so that it
-- outlives neither.
create table budget_reservations (
  request_id    uuid primary key,
  company_id    uuid not null,
  billing_month date not null,
  owner         uuid not null,
  amount_eur    numeric not null check (amount_eur >= 0),
  expires_at    timestamptz not null
);
comment on column budget_reservations.owner is 'the gateway process that renews the lease';
create index budget_reservations_company on budget_reservations (company_id, billing_month);

-- Decides requests in their order and returns those that fit: [{request_id, company_id,
-- billing_month, amount_eur, bounded}]. What fits leaves spend and reservations together at
-- or below the budget; a request that cannot say what it costs at most fits while they are
-- below it. Spend and reservations are read in one statement, and booking turns one into the
-- other in one transaction: nothing is seen twice or not at all.
create function reserve_budget(reserving_owner uuid, lease_seconds integer, requests json)
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
-- each. A budget that is raised meanwhile does not alert again at the same threshold.
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
  cost_center   text
);
comment on column budget_alerts.api_key_id is 'null: the budget of the company itself, or of a cost centre';
comment on column budget_alerts.cost_center is 'null: the budget of the company itself, or of a key';
comment on column budget_alerts.threshold is 'percent of the budget; forecast: at its pace the month passes the budget';
-- one null is like another here, which "nulls not distinct" says from Postgres 15 on
create unique index budget_alerts_once on budget_alerts
  (company_id, coalesce(api_key_id, '00000000-0000-0000-0000-000000000000'), billing_month, threshold, coalesce(cost_center, ''));

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
