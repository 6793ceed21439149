-- How gateways learn of changes, and which of them run.

-- The change feed. Every change to what replicas cache leaves a row here and a
-- notification: the notification is fast, the row is certain. The subject is the
-- cache key: the digest in hex, the company, the owner of a model ('' = shared),
-- the assistant, the id of an end user; kind 'all' drops everything. One statement that
-- changes thousands of keys, assistants or end users leaves a row for each hundred, with
-- commas between them.
create table changes (
  id         bigint generated always as identity primary key,
  xid        xid8 not null default pg_current_xact_id(),
  kind       text not null check (kind in ('key', 'company', 'model', 'assistant', 'end_user', 'all')),
  subject    text not null,
  created_at timestamptz not null default now()
);
create index changes_xid on changes (xid);

-- A notification tells the id of its row too, `kind:subject:id`: a gateway then knows a change it was notified of when it
-- reads the row, and does not forget twice what it has read again since. With the rights of the owner, like the triggers
-- below, because neither the tenant role nor programs that may write a company may write this table.
create function announce_change(kind text, subject text) returns void
language plpgsql security definer set search_path from current as $$
declare
  change bigint;
begin
  insert into changes (kind, subject) values (announce_change.kind, announce_change.subject) returning id into change;
  perform pg_notify('tollgate', concat_ws(':', kind, subject, change));
end $$;

-- The same of many, a hundred to a notification: 8,000 bytes is the most that one may have.
create function announce_changes(kind text, subjects text[]) returns void
language sql security definer set search_path from current as $$
  select announce_change(announce_changes.kind, string_agg(subject, ',' order by n))
  from unnest(subjects) with ordinality as s (subject, n) group by (n - 1) / 100
$$;

create function announce_row() returns trigger language plpgsql security definer set search_path from current as $$
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

-- Of all rows of a statement. The third argument names columns that gateways do not read: a change of these alone is none.
create function announce_rows() returns trigger language plpgsql security definer set search_path from current as $$
declare
  member   constant text := tg_argv[1];
  subjects text[];
begin
  if tg_op = 'DELETE' then
    select array_agg(to_jsonb(b) ->> member) into subjects from before b;
  elsif tg_op = 'INSERT' then
    select array_agg(to_jsonb(a) ->> member) into subjects from after a;
  else
    select array_agg(distinct subject) into subjects
    from before b join after a using (id), unnest(array[to_jsonb(b) ->> member, to_jsonb(a) ->> member]) as subject
    where to_jsonb(b) - tg_argv[2]::text[] <> to_jsonb(a) - tg_argv[2]::text[];
  end if;
  -- bytea reads as \x… in JSON; the cache key is the bare hex
  if subjects is not null then
    perform announce_changes(tg_argv[0], array(select regexp_replace(s, '^\\x', '') from unnest(subjects) as s));
  end if;
  return null;
end $$;

create function announce_all() returns trigger language plpgsql security definer set search_path from current as $$
begin
  perform announce_change('all', '');
  return null;
end $$;

-- Gateways know keys by their digest: closing, reopening, pausing and resuming a company is a change of each of its keys.
create function announce_keys() returns trigger language plpgsql security definer set search_path from current as $$
begin
  perform announce_changes('key', array(select encode(k.digest, 'hex') from api_keys k where k.company_id = new.id));
  return null;
end $$;

create trigger announce after insert or update or delete on companies
  for each row execute function announce_row('company', 'id');
create trigger announce_keys after update on companies for each row
  when ((old.closed_at is null) <> (new.closed_at is null) or (old.paused_at is null) <> (new.paused_at is null))
  execute function announce_keys();
create trigger announce after insert or update or delete on models
  for each row execute function announce_row('model', 'company_id');
-- what begins at once is announced as a change of `models`
create trigger announce_coming after insert on model_prices
  for each row when (not new.applied) execute function announce_row('model', 'company_id');
create trigger announce_changed after update of input, cache_read, cache_write, cache_write_1h, audio_input, image_input, output, reasoning, audio_output, image_output, search_unit, request, rates on model_prices
  for each row when (not old.applied) execute function announce_row('model', 'company_id');
create trigger announce_withdrawn after delete on model_prices
  for each row when (not old.applied) execute function announce_row('model', 'company_id');
-- likewise of `companies`
create trigger announce_coming after insert on company_price_factors
  for each row when (not new.applied) execute function announce_row('company', 'company_id');
create trigger announce_changed after update of factor on company_price_factors
  for each row when (not old.applied) execute function announce_row('company', 'company_id');
create trigger announce_withdrawn after delete on company_price_factors
  for each row when (not old.applied) execute function announce_row('company', 'company_id');
-- One company may have thousands of these, and one statement may change them all. last_used_at and last_seen move with
-- batches of the ledger. A new end user is looked up by its name; the name itself is told to nobody.
create trigger announce_created after insert on api_keys
  referencing new table as after for each statement execute function announce_rows('key', 'digest');
create trigger announce after update on api_keys
  referencing old table as before new table as after for each statement execute function announce_rows('key', 'digest', '{name,prefix,created_by,last_used_at,paused_by,paused_by_operator,pause_reason}');
create trigger announce_deleted after delete on api_keys
  referencing old table as before for each statement execute function announce_rows('key', 'digest');
create trigger announce_created after insert on assistants
  referencing new table as after for each statement execute function announce_rows('assistant', 'id');
create trigger announce after update on assistants
  referencing old table as before new table as after for each statement execute function announce_rows('assistant', 'id', '{}');
create trigger announce_deleted after delete on assistants
  referencing old table as before for each statement execute function announce_rows('assistant', 'id');
create trigger announce after update on end_users
  referencing old table as before new table as after for each statement execute function announce_rows('end_user', 'id', '{last_seen,booked}');
create trigger announce_deleted after delete on end_users
  referencing old table as before for each statement execute function announce_rows('end_user', 'id');
create trigger announce_all after truncate on companies for each statement execute function announce_all();
create trigger announce_all after truncate on models for each statement execute function announce_all();
create trigger announce_all after truncate on api_keys for each statement execute function announce_all();
create trigger announce_all after truncate on end_users for each statement execute function announce_all();
create trigger announce_all after truncate on assistants for each statement execute function announce_all();

-- Which gateways run. One that is gone with records is remembered until another one takes them over, or an operator deletes
-- its row: until then no month that they may belong to is closed.
create table gateways (
  id                 uuid primary key,
  name               text not null check (name <> ''),
  version            text not null,
  started_at         timestamptz not null default now(),
  last_seen_at       timestamptz not null default now(),
  backlog            integer not null default 0,
  oldest_at          timestamptz,
  lost               bigint not null default 0,
  spool_failing      boolean not null default false,
  limits_alone       boolean not null default false,
  requests_in_flight integer not null default 0,
  unread_usage       jsonb not null default '[]'
) with (fillfactor = 50); -- every row changes every 15 seconds
comment on table gateways is 'a row for each running gateway process, removed at a clean stop, or a day after it was last seen; with a backlog, when another one has taken over its spool';
comment on column gateways.id is 'the writer of seals and reservations: one start of one process';
comment on column gateways.name is 'of its machine or pod';
comment on column gateways.backlog is 'usage records that are not yet in the database; the oldest came at oldest_at';
comment on column gateways.lost is 'usage records that neither disk nor database took, since the start';
comment on column gateways.limits_alone is 'it could not reach the other gateways about limits, and goes on with its part';
comment on column gateways.unread_usage is 'members with tokens, of usages that upstreams told since the start, that nobody reads: [{"slug","members"}]';

-- A gateway shows that it lives. Forgets gateways without records that were last seen a day ago or that this one
-- replaces, which had its name and were gone when it started, and those whose spools it adopted. Returns whether a mark
-- is due.
create function beat_gateway(beating uuid, of_name text, of_version text, waiting integer, lag_seconds float8,
  lost_records bigint, spool_fails boolean, is_alone boolean, in_flight integer, adopted text[] default '{}',
  unread jsonb default '[]')
returns boolean language plpgsql set search_path from current as $$
begin
  insert into gateways as g (id, name, version, backlog, oldest_at, lost, spool_failing, limits_alone, requests_in_flight, unread_usage)
  values (beating, of_name, of_version, waiting, now() - make_interval(secs => nullif(lag_seconds, 0)),
    lost_records, spool_fails, is_alone, in_flight, unread)
  on conflict (id) do update set
    last_seen_at = excluded.last_seen_at, backlog = excluded.backlog, oldest_at = excluded.oldest_at, lost = excluded.lost,
    spool_failing = excluded.spool_failing, limits_alone = excluded.limits_alone, requests_in_flight = excluded.requests_in_flight,
    unread_usage = excluded.unread_usage;
  delete from gateways old using gateways own
  where own.id = beating and old.id <> beating and (old.id::text = any(adopted)
    or old.backlog = 0 and (old.last_seen_at < now() - interval '1 day'
      or (old.name = own.name and old.last_seen_at < least(own.started_at, now() - interval '1 minute'))));
  return not exists (
    select from usage_marks where period = 'month' and begins = billing_month(now()) and at > now() - interval '15 minutes');
end $$;

-- What may still be on its way to a month, as far as the heartbeats of gateways tell: records that wait since the
-- month, calls that were admitted in it and may run for another hour, and gateways that ended without a word then.
create function on_its_way(month date) returns table (gateway text, seen_at timestamptz, records integer)
language sql stable set search_path from current as $$
  with closing as (
    select (month + interval '1 month') at time zone value + interval '1 hour' as until from settings where name = 'billing_timezone')
  select g.name, g.last_seen_at, g.backlog from gateways g, closing
  where (g.backlog > 0 and coalesce(g.oldest_at, g.last_seen_at) < until) or g.last_seen_at < until
  order by g.name, g.last_seen_at
$$;

-- What was used up to some instants of a day and of a month, so that today can be compared with yesterday at the same time.
create table usage_marks (
  period   text not null check (period in ('day', 'month')),
  begins   date not null,
  at       timestamptz not null,
  requests numeric not null,
  tokens   numeric not null,
  cost_eur numeric not null,
  primary key (period, begins, at)
);
comment on table usage_marks is 'what API calls of all companies came to, from the beginning of a day or month up to an instant';

-- Takes a mark of the present day and month unless another gateway has just done so. Reads the rows of today in
-- usage_model_days and those of the month in monthly_spend.
create function mark_usage() returns void language plpgsql set search_path from current as $$
declare
  today constant date := now() at time zone (select value from settings where name = 'billing_timezone');
  month constant date := billing_month(now());
begin
  if not pg_try_advisory_xact_lock(hashtext('tollgate usage marks'))
    or exists (select from usage_marks where period = 'month' and begins = month and at > now() - interval '15 minutes')
  then return; end if;
  insert into usage_marks (period, begins, at, requests, tokens, cost_eur)
  select 'day', today, now(), coalesce(sum(requests), 0), coalesce(sum(prompt_tokens + completion_tokens), 0), coalesce(sum(cost_eur), 0)
  from usage_model_days where day = today
  union all
  select 'month', month, now(), coalesce(sum(requests), 0), coalesce(sum(prompt_tokens + completion_tokens), 0), coalesce(sum(api_cost_eur), 0)
  from monthly_spend where billing_month = month;
  delete from usage_marks where period = 'day' and begins < today - 2 or begins < month - interval '1 month';
end $$;
