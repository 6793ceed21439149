-- Companies and their settings. Names are public: the service's own application shares them.

create table companies (
  id                   uuid primary key default gen_random_uuid(),
  name                 text not null check (name <> ''),
  disabled_model_slugs text[] not null default '{}',
  allow_non_eu_models  boolean not null default false,
  -- null or 0 means unlimited; "< 1e12" also refuses NaN and infinity, which sort above every number
  monthly_budget_eur   numeric check (monthly_budget_eur >= 0 and monthly_budget_eur < 1e12 and min_scale(monthly_budget_eur) <= 15),
  daily_budget_eur     numeric check (daily_budget_eur >= 0 and daily_budget_eur < 1e12 and min_scale(daily_budget_eur) <= 15),
  created_at           timestamptz not null default now(),
  budget_mode          text not null default 'standard' check (budget_mode in ('standard', 'strict')),
  requests_per_minute  integer check (requests_per_minute between 1 and 1000000000),
  tokens_per_minute    bigint check (tokens_per_minute between 1 and 1000000000000),
  max_concurrent       integer check (max_concurrent between 1 and 1000000),
  -- null: no ceiling; there is no zero, which would mean "unlimited" in the budget beside it
  credit_limit_eur     numeric check (credit_limit_eur > 0 and credit_limit_eur < 1e12 and min_scale(credit_limit_eur) <= 15),
  eu_locked            boolean not null default false,
  closed_at            timestamptz,
  paused_at            timestamptz,
  paused_by            text,
  pause_reason         text,
  erased_at            timestamptz,
  language             text constraint companies_language check (language ~ '^[a-z]{2,3}$'),
  member_max_keys      integer not null default 0 check (member_max_keys between 0 and 100),
  member_key_budget_eur numeric check (member_key_budget_eur > 0 and member_key_budget_eur < 1e12 and min_scale(member_key_budget_eur) <= 15),
  member_playground    boolean not null default false,
  billing_name         text,
  billing_address      text,
  vat_id               text,
  customer_number      text,
  -- so that a factor that is far off is refused; above 0, for a model that is free has a price of 0
  price_factor         numeric not null default 1 check (price_factor > 0 and price_factor <= 1000 and min_scale(price_factor) <= 6),
  end_user_alerts      boolean not null default true,
  unusual_times        smallint default 3 check (unusual_times between 1 and 100),
  constraint company_stays_closed check (erased_at is null or closed_at is not null)
);
comment on column companies.budget_mode is 'strict: what a request can cost at most is reserved before it is sent';
comment on column companies.credit_limit_eur is 'ceiling of monthly_budget_eur, also where that is unlimited; null: none';
comment on column companies.eu_locked is 'models outside the EU are refused, whatever allow_non_eu_models says';
comment on column companies.closed_at is 'since when its keys get 401 and it cannot be changed; null: it is open';
comment on column companies.paused_at is 'since when its keys get 403; its people may still sign in and change its settings; null: it is not paused';
comment on column companies.pause_reason is 'why; its owners read it, callers do not';
comment on column companies.erased_at is 'when names and addresses were erased; it is not reopened then';
comment on column companies.language is 'of pages and e-mails for its people who chose none; null: that of each browser, and English in e-mails';
comment on column companies.member_max_keys is 'how many active keys of their own each member may have; those that exist stay when it is lowered';
comment on column companies.member_key_budget_eur is 'the most that the monthly budget of such a key may be when it is made; null: none, the budget of the company holds';
comment on column companies.billing_name is 'the buyer on statements, with billing_address and vat_id; null: name. An owner sets them, and an operator customer_number';
comment on column companies.price_factor is 'multiplies every price of the company, its own models included; for operators only. company_price_factors has its history';
comment on column companies.end_user_alerts is 'whether people are told that end users used up their budgets';
comment on column companies.unusual_times is 'how many times as much as usual is unusual; null: nothing is looked for';
comment on column companies.member_playground is 'whether members may use the playground';

create index companies_price_factor on companies (price_factor) where price_factor <> 1;

-- What holds, whatever an owner, or plain SQL, writes into the company's own settings: every place that compares a
-- budget or asks for the EU gate calls these. Postgres inlines them.
create function company_budget(monthly_budget_eur numeric, credit_limit_eur numeric) returns numeric language sql immutable as $$
  select least(nullif(monthly_budget_eur, 0), credit_limit_eur)
$$;
comment on function company_budget is 'the monthly budget that is enforced; null: unlimited';
create function company_daily_budget(company companies) returns numeric language sql immutable as $$
  select nullif(company.daily_budget_eur, 0)
$$;
create function company_allows_non_eu(company companies) returns boolean language sql immutable as $$
  select company.allow_non_eu_models and not company.eu_locked
$$;

-- A pause stops keys until it is ended. Whoever sets `paused_at`, or sets it again, is who paused; the end of a pause takes
-- reason and person with it.
create function note_pause() returns trigger language plpgsql set search_path from current as $$
begin
  if new.paused_at is not null then new.paused_by := audit_actor();
  else
    new.paused_by := null;
    new.pause_reason := null;
  end if;
  return new;
end $$;
create trigger note_pause before update of paused_at on companies for each row execute function note_pause();
