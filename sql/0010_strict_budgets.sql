-- Strict budgets. A company in this mode never spends more than its budget on requests that
-- bound their answer (max_tokens): each reserves what it can cost at most before it is sent.
-- A reservation is a row with an owner and a lease, so that it outlives neither.

alter table companies add column budget_mode text not null default 'standard' check (budget_mode in ('standard', 'strict'));
comment on column companies.budget_mode is 'strict: what a request can cost at most is reserved before it is sent';

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
  state   record;
begin
  for request in select distinct (r ->> 'company_id')::uuid as company_id from json_array_elements(requests) as r order by 1 loop
    perform pg_advisory_xact_lock(hashtextextended('tollgate budget ' || request.company_id, 0));
  end loop;
  for request in
    select * from json_to_recordset(requests) as r
      (request_id uuid, company_id uuid, billing_month date, amount_eur numeric, bounded boolean)
  loop
    select nullif(c.monthly_budget_eur, 0) as budget,
      coalesce((select api_cost_eur + chat_cost_eur from monthly_spend m
        where m.company_id = c.id and m.billing_month = request.billing_month), 0) as spent,
      coalesce((select sum(amount_eur) from budget_reservations b
        where b.company_id = c.id and b.billing_month = request.billing_month and b.expires_at > clock_timestamp()), 0) as reserved
    into state from companies c where c.id = request.company_id;
    continue when not found;
    if state.budget is null or (state.spent < state.budget and case when request.bounded
      then state.spent + state.reserved + request.amount_eur <= state.budget
      else state.spent + state.reserved < state.budget end)
    then
      insert into budget_reservations (request_id, company_id, billing_month, owner, amount_eur, expires_at)
      values (request.request_id, request.company_id, request.billing_month, reserving_owner, request.amount_eur,
        clock_timestamp() + make_interval(secs => lease_seconds))
      on conflict do nothing; -- asked again after a lost answer
      return next request.request_id;
    end if;
  end loop;
end $$;
