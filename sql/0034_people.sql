-- People of a company and their invitations, and ceilings that only operators set.

-- Ceilings: whatever an owner, or plain SQL, writes into the company's own settings, these hold.
alter table companies
  -- null: no ceiling; there is no zero, which would mean "unlimited" in the budget beside it
  add column credit_limit_eur numeric check (credit_limit_eur > 0 and credit_limit_eur < 1e12 and min_scale(credit_limit_eur) <= 15),
  add column eu_locked        boolean not null default false;
comment on column companies.credit_limit_eur is 'ceiling of monthly_budget_eur, also where that is unlimited; null: none';
comment on column companies.eu_locked is 'models outside the EU are refused, whatever allow_non_eu_models says';

-- What holds: every place that compares a budget or asks for the EU gate calls these. Postgres inlines them.
create function company_budget(company companies) returns numeric language sql immutable as $$
  select least(nullif(company.monthly_budget_eur, 0), company.credit_limit_eur)
$$;
comment on function company_budget is 'the monthly budget that is enforced; null: unlimited';
create function company_allows_non_eu(company companies) returns boolean language sql immutable as $$
  select company.allow_non_eu_models and not company.eu_locked
$$;

-- As in 0010_strict_budgets.sql, with the budget that holds.
create or replace function reserve_budget(reserving_owner uuid, lease_seconds integer, requests json)
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
    select company_budget(c) as budget,
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

alter table users add column last_sign_in_at timestamptz;
-- not last_sign_in_at: signing in changes nothing that the audit log is about
drop trigger audit on users;
create trigger audit after insert or delete or update of id, email, company_id, role, password_hash, created_at
  on users for each row execute function audit_row();

-- Open invitations. Accepting or withdrawing one deletes its row. Of its link only the digest is kept.
create table invitations (
  id         uuid primary key default gen_random_uuid(),
  company_id uuid not null references companies on delete cascade,
  email      text not null check (email <> '' and email = lower(email)),
  role       text not null check (role in ('owner', 'administrator', 'member')),
  digest     bytea not null unique check (octet_length(digest) = 32),
  created_at timestamptz not null default now(),
  created_by text,
  expires_at timestamptz not null,
  constraint invitations_once unique (company_id, email)
);
comment on column invitations.digest is 'SHA-256 of the random part of the link; the link itself is stored nowhere';
create trigger audit after insert or update or delete on invitations for each row execute function audit_row();
create trigger audit_truncate after truncate on invitations for each statement execute function audit_truncate();

alter table invitations enable row level security;
create policy own on invitations using (is_visible(company_id));

-- Whether an address has an account, of whatever company: the tenant role does not see those of others, and
-- learns this one fact only. It runs as its owner, whom row-level security does not hold back.
create function has_account(address text) returns boolean language sql stable security definer set search_path from current as $$
  select exists (select from users where email = address)
$$;

-- The tenant role may change every column of a company but those of operators. Revoked first where it had the
-- right to the whole table. The columns come from the table: files before this one may have added some.
do $$
begin
  if to_regrole('tollgate_tenant') is not null then revoke update on companies from tollgate_tenant; end if;
end $$;
delete from tenant_grants where privilege = 'select, update on companies';
insert into tenant_grants (privilege)
select format('select, update (%s) on companies', string_agg(quote_ident(attname), ', ' order by attnum))
from pg_attribute
where attrelid = 'companies'::regclass and attnum > 0 and not attisdropped
  and attname not in ('id', 'created_at', 'credit_limit_eur', 'eu_locked', 'closed_at', 'erased_at');
insert into tenant_grants (privilege) values
  ('select (last_sign_in_at), update (role), delete on users'),
  ('select (id, company_id, email, role, created_at, created_by, expires_at), insert, delete on invitations'),
  ('update (digest, created_by, created_at, expires_at) on invitations');
select raise_tenant_wall();
