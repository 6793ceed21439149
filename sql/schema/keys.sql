-- Keys by which programs call the API, and what a key may do less than its company. A limit that is null is none.

create table api_keys (
  id                  uuid primary key default gen_random_uuid(),
  company_id          uuid not null references companies on delete cascade,
  name                text not null check (name <> ''),
  digest              bytea not null unique check (octet_length(digest) = 32),
  prefix              text not null check (length(prefix) <= 8),
  scopes              text[] not null check (scopes <@ array['chat', 'embeddings', 'assistants', 'rerank']),
  created_at          timestamptz not null default now(),
  created_by          text,
  expires_at          timestamptz,
  last_used_at        timestamptz,
  revoked_at          timestamptz,
  paused_at           timestamptz,
  paused_by           text,
  paused_by_operator  boolean not null default false,
  pause_reason        text,
  requests_per_minute integer check (requests_per_minute between 1 and 1000000000),
  tokens_per_minute   bigint check (tokens_per_minute between 1 and 1000000000000),
  max_concurrent      integer check (max_concurrent between 1 and 1000000),
  allowed_model_slugs text[] check (cardinality(allowed_model_slugs) > 0 and array_position(allowed_model_slugs, null) is null),
  -- null or 0 means unlimited, as for a company
  monthly_budget_eur  numeric check (monthly_budget_eur >= 0 and monthly_budget_eur < 1e12 and min_scale(monthly_budget_eur) <= 15),
  daily_budget_eur    numeric check (daily_budget_eur >= 0 and daily_budget_eur < 1e12 and min_scale(daily_budget_eur) <= 15),
  allowed_cidrs       cidr[] check (cardinality(allowed_cidrs) > 0 and array_position(allowed_cidrs, null) is null),
  purpose             text check (purpose = 'playground'),
  rotated_from        uuid,
  line                uuid not null,
  end_users           text not null default 'off' check (end_users in ('off', 'header', 'body')),
  end_user_budget_eur numeric check (end_user_budget_eur >= 0 and end_user_budget_eur < 1e12 and min_scale(end_user_budget_eur) <= 15),
  user_id             uuid -- no foreign key: the trigger below has to find the key of somebody who is removed
);
comment on column api_keys.digest is 'SHA-256 of the whole key; the key itself is stored nowhere';
comment on column api_keys.allowed_model_slugs is 'the only models of the company that the key lists and calls; null: all of them';
comment on column api_keys.allowed_cidrs is 'networks the key may be used from; null: any';
comment on column api_keys.end_users is 'where a call names the person behind the key: nowhere, in a header, or also in its body';
comment on column api_keys.end_user_budget_eur is 'the most that each end user may cost by this key in a billing month; null or 0: no limit';
comment on column api_keys.paused_at is 'since when its calls get 403; null: it is not paused';
comment on column api_keys.paused_by_operator is 'who paused it did so as an operator: operators alone end such a pause';
comment on column api_keys.purpose is 'null: for programs; playground: of the person in created_by, for trials on the pages';
comment on column api_keys.rotated_from is 'the key in whose place this one was made; null: none';
comment on column api_keys.line is 'the first of the keys that were made in each other''s place: what all of them cost counts for the budgets of each';
comment on column api_keys.user_id is 'the person whose key it is: it ends with them; null: of the company, or of a playground';
create index api_keys_company on api_keys (company_id);
create index api_keys_user on api_keys (user_id) where user_id is not null;
create index api_keys_line on api_keys (line);
-- few keys have a budget of their own
create index api_keys_allowance on api_keys (company_id) where end_user_budget_eur > 0;
create index api_keys_budget on api_keys (company_id) where monthly_budget_eur > 0;
-- A person tries models with a key of their own in that company, whose text is minted anew for some minutes and kept
-- in the memory of the pages alone: so the ledger says who spent it. One for each person, besides revoked ones.
create unique index api_keys_playground on api_keys (company_id, created_by)
  where purpose = 'playground' and revoked_at is null;

-- By whatever program a key takes the place of another one. A backup may bring it before the other one.
create function note_line() returns trigger language plpgsql set search_path from current as $$
begin
  new.line := coalesce((select k.line from api_keys k where k.id = new.rotated_from and k.company_id = new.company_id), new.line, new.id);
  return new;
end $$;
create trigger note_line before insert on api_keys for each row execute function note_line();

create trigger note_pause before update of paused_at on api_keys for each row execute function note_pause();

-- A fact of the row: the person may have been one of the company's own people before, or be that later.
create function note_pauser() returns trigger language plpgsql set search_path from current as $$
begin
  if old.paused_by_operator and not is_operator() then
    raise exception 'operators alone end their pause' using errcode = 'insufficient_privilege';
  end if;
  new.paused_by_operator := new.paused_at is not null and is_operator();
  return new;
end $$;
create trigger note_pauser before update of paused_at on api_keys for each row execute function note_pauser();

-- The text of a new key for one minute, so that a form sent twice, or an answer that is reloaded, shows it again.
-- It is encrypted with a secret that the form carries and no table holds: neither these rows nor a backup of them
-- reveal a key.
create table key_reveals (
  company_id uuid not null references companies on delete cascade,
  key_id     uuid not null, -- no foreign key: others could not truncate api_keys then
  ciphertext bytea not null,
  expires_at timestamptz not null,
  primary key (company_id, key_id)
);
comment on table key_reveals is 'texts of keys created within the last minute, encrypted with a secret that is stored nowhere';

-- A key that is a person's ends when the person is removed or goes to another company; that of a playground also when the
-- person gets another address, and whoever comes back allows it anew. With the rights of the owner: who removes somebody
-- may see no keys, and those of an operator are in all companies.
create function end_keys_of_person() returns trigger language plpgsql security definer set search_path from current as $$
begin
  update api_keys k set revoked_at = now() from companies c
  where c.id = k.company_id and c.closed_at is null
    and k.purpose = 'playground' and k.revoked_at is null and k.created_by = old.email
    and not exists (select from users u where u.email = k.created_by and coalesce(u.company_id, k.company_id) = k.company_id);
  -- of a closed company people are removed by an erasure alone; it may be reopened
  update api_keys k set revoked_at = now() from companies c
  where c.id = k.company_id and (c.closed_at is null or is_erasing())
    and k.user_id = old.id and k.revoked_at is null
    and not exists (select from users u where u.id = k.user_id and u.company_id = k.company_id);
  return null;
end $$;
create trigger end_keys_of_person after delete or update of email, company_id on users
  for each row execute function end_keys_of_person();

-- The people behind keys that a front end holds for many (sql/PRIVACY.md). The ledger has ids, and this table alone the
-- names: an erasure takes the name away, and nothing else leads from it to the id, which is random. Gateways look an id up
-- by the name and keep it in memory; whoever is named for the first time gets one. Of these rows budgets alone are audited: the
-- log would keep names.
create table end_users (
  id         uuid primary key default gen_random_uuid(),
  company_id uuid not null references companies on delete cascade,
  name       text check (octet_length(name) between 1 and 256),
  first_seen timestamptz not null default now(),
  last_seen  timestamptz not null default now(),
  booked     boolean not null default false,
  erased_at  timestamptz,
  monthly_budget_eur numeric check (monthly_budget_eur > 0 and monthly_budget_eur < 1e12 and min_scale(monthly_budget_eur) <= 15),
  constraint end_users_erased check ((name is null) = (erased_at is not null) and (name is not null or monthly_budget_eur is null))
);
comment on table end_users is 'people whom calls of a key named; their ids are in the ledger, their names only here';
comment on column end_users.name is 'as calls give it; null: erased';
comment on column end_users.last_seen is 'of a call that was booked, to the hour';
comment on column end_users.monthly_budget_eur is 'what the person may cost in a month in place of what a key lets each of its end users cost; null: that';
comment on column end_users.booked is 'whether a call that names the person was booked: else the row goes after a week';
-- the same name again is somebody new once it was erased
create unique index end_users_name on end_users (company_id, name);
-- few have a budget of their own
create index end_users_budget on end_users (company_id) where monthly_budget_eur is not null;
-- a search by the beginning of a name
create index end_users_search on end_users (company_id, (lower(name) collate "C"));
create index end_users_first_seen on end_users (company_id, first_seen);
create index end_users_unbooked on end_users (first_seen) where not booked;

create function note_end_user_erasure() returns trigger language plpgsql as $$
begin
  if new.name is null then
    new.erased_at := now();
    new.monthly_budget_eur := null;
  end if;
  return new;
end $$;
create trigger note_erasure before update of name on end_users for each row execute function note_end_user_erasure();

-- The ids of people by company and name; who is named for the first time gets one. In a month a company gets this many
-- new ones: whoever comes then is '(others)', and so are all further names. Nobody is added to a company that is closed
-- or gone.
create function end_user_ids(companies uuid[], names text[], most integer default 100000)
returns table (company_id uuid, name text, id uuid, is_other boolean, monthly_budget_eur numeric)
language plpgsql set search_path from current as $$
#variable_conflict use_column
declare
  month constant timestamptz := date_trunc('month', now());
begin
  with fresh as materialized (
    select a.company_id, a.name, row_number() over (partition by a.company_id order by a.name) as nth
    from (select distinct * from unnest(end_user_ids.companies, end_user_ids.names) as n (company_id, name)) a
    join companies c on c.id = a.company_id and c.closed_at is null
    where not exists (select from end_users u where u.company_id = a.company_id and u.name = a.name)
  ),
  present as materialized (
    select f.company_id, (select count(*) from (
      select from end_users u where u.company_id = f.company_id and u.first_seen >= month limit most) as u) as count
    from (select distinct company_id from fresh) f
  )
  insert into end_users (company_id, name)
  select distinct f.company_id, case when f.nth + p.count <= most then f.name else '(others)' end
  from fresh f join present p using (company_id) order by 1, 2
  on conflict do nothing;
  -- a statement of its own: it sees what others added meanwhile
  return query select a.company_id, a.name, coalesce(u.id, o.id), u.id is null,
      case when u.id is null then o.monthly_budget_eur else u.monthly_budget_eur end
    from unnest(end_user_ids.companies, end_user_ids.names) as a (company_id, name)
    left join end_users u on u.company_id = a.company_id and u.name = a.name
    left join end_users o on o.company_id = a.company_id and o.name = '(others)'
    where coalesce(u.id, o.id) is not null;
end $$;

-- Forgets whom only calls named that were refused, failed or free of a row in the ledger, a week later: longer than a call
-- or an outage. Some thousand at a time.
create function forget_unbooked() returns void language sql set search_path from current as $$
  delete from end_users where id = any(array(
    select u.id from end_users u join companies c on c.id = u.company_id and c.closed_at is null
    where not u.booked and u.monthly_budget_eur is null and u.first_seen < now() - interval '1 week' limit 5000 for update of u skip locked))
$$;

-- Notes when the end users of a batch were last seen. Never waits for an erasure.
create function note_end_users(records json) returns void language plpgsql set search_path from current as $$
begin
  with seen as (
    select r.end_user_id as id, max(r.occurred_at) as at
    from json_to_recordset(records) as r (end_user_id uuid, occurred_at timestamptz) where r.end_user_id is not null group by 1
  ),
  free as (
    select u.id, s.at from end_users u join seen s using (id)
    where not u.booked or u.last_seen < s.at - interval '1 hour' order by u.id for no key update of u skip locked
  )
  update end_users u set last_seen = greatest(u.last_seen, f.at), booked = true from free f where u.id = f.id;
end $$;
