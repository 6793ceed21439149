-- Which gateways run, for the overview of operators, and what was used up to some instants of a day and of a
-- month, so that today can be compared with yesterday at the same time.

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
  requests_in_flight integer not null default 0
) with (fillfactor = 50); -- every row changes every 15 seconds
comment on table gateways is 'a row for each running gateway process, removed at a clean stop, or a day after it was last seen';
comment on column gateways.id is 'the writer of seals and reservations: one start of one process';
comment on column gateways.name is 'of its machine or pod';
comment on column gateways.backlog is 'usage records that are not yet in the database; the oldest came at oldest_at';
comment on column gateways.lost is 'usage records that neither disk nor database took, since the start';
comment on column gateways.limits_alone is 'it could not reach the other gateways about limits, and goes on with its part';

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

-- what all companies used today; rows keep their day, so an update does not touch this index
create index usage_daily_day on usage_daily (day);

-- A gateway shows that it lives. Forgets gateways that were last seen a day ago, and those that this one
-- replaces: they had its name, and were gone when it started. Returns whether a mark is due.
create function beat_gateway(beating uuid, of_name text, of_version text, waiting integer, lag_seconds float8,
  lost_records bigint, spool_fails boolean, is_alone boolean, in_flight integer)
returns boolean language plpgsql set search_path from current as $$
begin
  insert into gateways as g (id, name, version, backlog, oldest_at, lost, spool_failing, limits_alone, requests_in_flight)
  values (beating, of_name, of_version, waiting, now() - make_interval(secs => nullif(lag_seconds, 0)),
    lost_records, spool_fails, is_alone, in_flight)
  on conflict (id) do update set
    last_seen_at = excluded.last_seen_at, backlog = excluded.backlog, oldest_at = excluded.oldest_at, lost = excluded.lost,
    spool_failing = excluded.spool_failing, limits_alone = excluded.limits_alone, requests_in_flight = excluded.requests_in_flight;
  delete from gateways old using gateways own
  where own.id = beating and old.id <> beating and (old.last_seen_at < now() - interval '1 day'
    or (old.name = own.name and old.last_seen_at < least(own.started_at, now() - interval '1 minute')));
  return not exists (
    select from usage_marks where period = 'month' and begins = billing_month(now()) and at > now() - interval '15 minutes');
end $$;

-- Takes a mark of the present day and month unless another gateway has just done so. Reads the rows of today in
-- usage_daily and those of the month in monthly_spend: some 50 ms for 20,000 companies.
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
  from usage_daily where day = today
  union all
  select 'month', month, now(), coalesce(sum(requests), 0), coalesce(sum(prompt_tokens + completion_tokens), 0), coalesce(sum(api_cost_eur), 0)
  from monthly_spend where billing_month = month;
  delete from usage_marks where period = 'day' and begins < today - 2 or begins < month - interval '1 month';
end $$;
