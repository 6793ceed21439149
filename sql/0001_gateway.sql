-- The gateway's tables. Names are public: the service's own application shares them.
-- Money is numeric and exact. A price has at most 12 decimals, so a cost
-- (tokens * price / 1000) has at most 15 and nothing is ever rounded.

create table settings (
  name  text primary key,
  value text not null
);
comment on table settings is 'facts every replica must agree on, such as billing_timezone';
insert into settings (name, value) values ('billing_timezone', 'UTC');

create table companies (
  id                   uuid primary key default gen_random_uuid(),
  name                 text not null check (name <> ''),
  disabled_model_slugs text[] not null default '{}',
  allow_non_eu_models  boolean not null default false,
  -- null or 0 means unlimited; "< 1e12" also refuses NaN and infinity, which sort above every number
  monthly_budget_eur   numeric check (monthly_budget_eur >= 0 and monthly_budget_eur < 1e12 and min_scale(monthly_budget_eur) <= 15),
  created_at           timestamptz not null default now()
);

create table models (
  id                     uuid primary key default gen_random_uuid(),
  slug                   text not null check (slug ~ '^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}$'),
  company_id             uuid references companies on delete cascade,
  upstream_model         text not null check (upstream_model <> ''),
  kind                   text not null check (kind in ('chat', 'embedding')),
  eu_hosted              boolean not null,
  cost_eur_per_1k_input  numeric not null check (cost_eur_per_1k_input >= 0 and cost_eur_per_1k_input < 1e6 and min_scale(cost_eur_per_1k_input) <= 12),
  cost_eur_per_1k_output numeric not null check (cost_eur_per_1k_output >= 0 and cost_eur_per_1k_output < 1e6 and min_scale(cost_eur_per_1k_output) <= 12),
  created_at             timestamptz not null default now()
);
comment on table models is 'a row with company_id belongs to that company alone and wins over a shared row of the same slug';
create unique index models_shared_slug on models (slug) where company_id is null;
create unique index models_company_slug on models (company_id, slug) where company_id is not null;

create table api_keys (
  id           uuid primary key default gen_random_uuid(),
  company_id   uuid not null references companies on delete cascade,
  name         text not null check (name <> ''),
  digest       bytea not null unique check (octet_length(digest) = 32),
  prefix       text not null check (length(prefix) <= 8),
  scopes       text[] not null check (scopes <@ array['chat', 'embeddings', 'assistants']),
  created_at   timestamptz not null default now(),
  created_by   text,
  expires_at   timestamptz,
  last_used_at timestamptz,
  revoked_at   timestamptz
);
comment on column api_keys.digest is 'SHA-256 of the whole key; the key itself is stored nowhere';
create index api_keys_company on api_keys (company_id);

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

create table users (
  id            uuid primary key default gen_random_uuid(),
  email         text not null check (email <> '' and email = lower(email)),
  company_id    uuid references companies on delete cascade,
  role          text not null check (role in ('operator', 'owner', 'administrator', 'member')),
  password_hash text,
  created_at    timestamptz not null default now(),
  unique (email),
  check ((role = 'operator') = (company_id is null))
);

create table chat_usage (
  id          uuid primary key default gen_random_uuid(),
  company_id  uuid not null,
  occurred_at timestamptz not null default now(),
  cost_eur    numeric not null check (cost_eur > -1e12 and cost_eur < 1e12)
);
comment on table chat_usage is 'the application inserts its in-app chat cost here; it counts toward the same budget';
create index chat_usage_company on chat_usage (company_id, occurred_at);

-- The ledger. No foreign keys: history outlives what it speaks of.
create table api_usage (
  billing_month     date not null check (extract(day from billing_month) = 1),
  request_id        uuid not null,
  company_id        uuid not null,
  api_key_id        uuid not null,
  model_slug        text not null,
  upstream_model    text not null,
  endpoint          text not null check (endpoint in ('chat.completions', 'embeddings', 'assistants.run')),
  -- bounded, so that one absurd row can never make the counters overflow for all that follow
  prompt_tokens     bigint not null check (prompt_tokens between 0 and 1000000000000),
  completion_tokens bigint not null check (completion_tokens between 0 and 1000000000000),
  cost_eur          numeric not null,
  price_input       numeric not null check (price_input >= 0 and price_input < 1e6),
  price_output      numeric not null check (price_output >= 0 and price_output < 1e6),
  usage_source      text not null check (usage_source in ('upstream', 'estimated')),
  outcome           text not null check (outcome in ('completed', 'client_aborted', 'upstream_failed')),
  occurred_at       timestamptz not null,
  primary key (billing_month, request_id),
  constraint cost_is_exact check (cost_eur = (prompt_tokens * price_input + completion_tokens * price_output) * 0.001)
) partition by range (billing_month);
create index api_usage_company on api_usage (company_id, occurred_at);

create table monthly_spend (
  company_id        uuid not null,
  billing_month     date not null,
  requests          bigint not null default 0,
  prompt_tokens     bigint not null default 0,
  completion_tokens bigint not null default 0,
  api_cost_eur      numeric not null default 0,
  chat_cost_eur     numeric not null default 0,
  changed_xid       xid8 not null default pg_current_xact_id(),
  primary key (company_id, billing_month)
);
comment on table monthly_spend is 'what the budget check reads: always the sum of the api_usage and chat_usage rows it stands for';
comment on column monthly_spend.changed_xid is 'transaction of the last change: replicas ask for what changed since the oldest transaction they had not seen finished';
create index monthly_spend_changed on monthly_spend (changed_xid);

-- Counters move with the rows, whoever inserts them and by whatever tool. Groups
-- are taken in key order, so two writers never wait for each other crosswise.
-- Functions that triggers run find our tables whatever search_path their caller has.

create function count_api_usage() returns trigger language plpgsql set search_path from current as $$
begin
  insert into monthly_spend as m (company_id, billing_month, requests, prompt_tokens, completion_tokens, api_cost_eur)
  select company_id, billing_month, count(*), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
  from added group by company_id, billing_month order by company_id, billing_month
  on conflict (company_id, billing_month) do update set
    requests          = m.requests + excluded.requests,
    prompt_tokens     = m.prompt_tokens + excluded.prompt_tokens,
    completion_tokens = m.completion_tokens + excluded.completion_tokens,
    api_cost_eur      = m.api_cost_eur + excluded.api_cost_eur,
    changed_xid       = excluded.changed_xid;
  return null;
end $$;

create function refuse_ledger_change() returns trigger language plpgsql as $$
begin
  raise exception 'api_usage is append-only' using errcode = 'restrict_violation';
end $$;

create trigger count_usage after insert on api_usage
  referencing new table as added for each statement execute function count_api_usage();
create trigger append_only before update or delete or truncate on api_usage
  for each statement execute function refuse_ledger_change();

-- Creates the partitions of the months [from_month, from_month + months). Safe to
-- run by many at once; a month whose rows already wait in the default partition is
-- left there. Statement triggers are not inherited, so each partition gets its own:
-- rows written straight into a partition are counted too.
create function ensure_api_usage_partitions(from_month date, months integer) returns void language plpgsql set search_path from current as $$
declare
  month date;
  part  text;
begin
  perform pg_advisory_xact_lock(hashtext('tollgate api_usage partitions'));
  for i in 0 .. months - 1 loop
    month := (date_trunc('month', from_month) + make_interval(months => i))::date;
    part := 'api_usage_' || to_char(month, 'YYYY_MM');
    continue when to_regclass(part) is not null;
    continue when exists (select from api_usage_default d where d.billing_month = month);
    execute format('create table %I partition of api_usage for values from (%L) to (%L)', part, month, (month + interval '1 month')::date);
    execute format('create trigger count_usage after insert on %I referencing new table as added for each statement execute function count_api_usage()', part);
    execute format('create trigger append_only before update or delete or truncate on %I for each statement execute function refuse_ledger_change()', part);
  end loop;
end $$;

create table api_usage_default partition of api_usage default;
create trigger count_usage after insert on api_usage_default
  referencing new table as added for each statement execute function count_api_usage();
create trigger append_only before update or delete or truncate on api_usage_default
  for each statement execute function refuse_ledger_change();
select ensure_api_usage_partitions(date_trunc('month', now() - interval '1 month')::date, 15);

-- The calendar month of an instant in the billing time zone, as its first day.
create function billing_month(at timestamptz) returns date language sql stable set search_path from current as $$
  select date_trunc('month', at at time zone (select value from settings where name = 'billing_timezone'))::date
$$;

create function move_chat_cost() returns trigger language plpgsql set search_path from current as $$
declare
  moved text := case tg_op
    when 'INSERT' then 'select company_id, occurred_at, cost_eur from added'
    when 'DELETE' then 'select company_id, occurred_at, -cost_eur as cost_eur from removed'
    else 'select company_id, occurred_at, cost_eur from added
          union all select company_id, occurred_at, -cost_eur from removed' end;
begin
  execute format(
    'insert into monthly_spend as m (company_id, billing_month, chat_cost_eur)
     select company_id, billing_month(occurred_at), sum(cost_eur) from (%s) as moved group by 1, 2 order by 1, 2
     on conflict (company_id, billing_month) do update set
       chat_cost_eur = m.chat_cost_eur + excluded.chat_cost_eur, changed_xid = excluded.changed_xid', moved);
  return null;
end $$;

create trigger move_chat_cost_insert after insert on chat_usage
  referencing new table as added for each statement execute function move_chat_cost();
create trigger move_chat_cost_update after update on chat_usage
  referencing old table as removed new table as added for each statement execute function move_chat_cost();
create trigger move_chat_cost_delete after delete on chat_usage
  referencing old table as removed for each statement execute function move_chat_cost();

create function zero_chat_cost() returns trigger language plpgsql set search_path from current as $$
begin
  update monthly_spend set chat_cost_eur = 0, changed_xid = pg_current_xact_id() where chat_cost_eur <> 0;
  return null;
end $$;
create trigger zero_chat_cost after truncate on chat_usage for each statement execute function zero_chat_cost();

-- The change feed. Every change to what replicas cache leaves a row here and a
-- notification: the notification is fast, the row is certain. The subject is the
-- cache key: the digest in hex, the company, the owner of a model ('' = shared),
-- the assistant; kind 'all' drops everything.

create table changes (
  id         bigint generated always as identity primary key,
  xid        xid8 not null default pg_current_xact_id(),
  kind       text not null check (kind in ('key', 'company', 'model', 'assistant', 'all')),
  subject    text not null,
  created_at timestamptz not null default now()
);
create index changes_xid on changes (xid);

create function announce_change(kind text, subject text) returns void language plpgsql set search_path from current as $$
begin
  insert into changes (kind, subject) values (kind, subject);
  perform pg_notify('tollgate', kind || ':' || subject);
end $$;

create function announce_row() returns trigger language plpgsql set search_path from current as $$
declare
  kind     text := tg_argv[0];
  member   text := tg_argv[1];
  before   text := case when tg_op <> 'INSERT' then to_jsonb(old) ->> member end;
  after    text := case when tg_op <> 'DELETE' then to_jsonb(new) ->> member end;
begin
  -- bytea reads as \x… in JSON; the cache key is the bare hex
  before := regexp_replace(coalesce(before, ''), '^\\x', '');
  after  := regexp_replace(coalesce(after, ''), '^\\x', '');
  if tg_op <> 'INSERT' then perform announce_change(kind, before); end if;
  if tg_op <> 'DELETE' and (tg_op = 'INSERT' or after <> before) then perform announce_change(kind, after); end if;
  return null;
end $$;

create function announce_all() returns trigger language plpgsql set search_path from current as $$
begin
  perform announce_change('all', '');
  return null;
end $$;

create trigger announce after insert or update or delete on companies
  for each row execute function announce_row('company', 'id');
create trigger announce after insert or update or delete on models
  for each row execute function announce_row('model', 'company_id');
create trigger announce after insert or delete or update of company_id, digest, scopes, expires_at, revoked_at on api_keys
  for each row execute function announce_row('key', 'digest'); -- not last_used_at: it moves with every batch
create trigger announce after insert or update or delete on assistants
  for each row execute function announce_row('assistant', 'id');
create trigger announce_all after truncate on companies for each statement execute function announce_all();
create trigger announce_all after truncate on models for each statement execute function announce_all();
create trigger announce_all after truncate on api_keys for each statement execute function announce_all();
create trigger announce_all after truncate on assistants for each statement execute function announce_all();
