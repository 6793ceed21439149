-- What became of each request, for a few days, and sums of it by the hour, for a few months. Never a prompt or
-- an answer. Gateways write both beside the ledger, about once a second (REQUEST_TRAIL_DAYS).
-- A request without a known company or key has the nil id 00000000-0000-0000-0000-000000000000 there.

create table request_trail (
  company_id        uuid not null,
  occurred_at       timestamptz not null, -- when the request came: the time in its id, to the millisecond
  request_id        uuid not null,
  api_key_id        uuid not null,
  status            smallint not null,
  upstream_status   smallint,
  duration_ms       integer not null,
  added_us          integer not null,
  first_event_ms    integer,
  endpoint          text not null,
  model_slug        text,
  asked             text,
  code              text,
  param             text,
  outcome           text,
  prompt_tokens     bigint,
  completion_tokens bigint,
  cost_eur          numeric,
  upstream_reason   text,
  -- with the company in it: one index for both, and one that a distributed database takes
  primary key (company_id, occurred_at, request_id)
) partition by range (occurred_at);
create index request_trail_time on request_trail (occurred_at, request_id);
create index request_trail_key on request_trail (api_key_id, occurred_at, request_id);
-- what people look for is rare
create index request_trail_wrong on request_trail (occurred_at, request_id) where status >= 400 or code is not null;
-- and of one company: without it, everybody's were read. Those without a company are not in it
create index request_trail_company_wrong on request_trail (company_id, occurred_at, request_id)
  where (status >= 400 or code is not null) and company_id <> '00000000-0000-0000-0000-000000000000';
comment on table request_trail is 'one row for each request, a partition for each day in UTC; old days are dropped';
comment on column request_trail.status is 'the status sent; 0: the client left before an answer';
comment on column request_trail.duration_ms is 'from the head of the request to the end of the answer, rounded';
comment on column request_trail.added_us is 'the part of it that the gateway took itself';
comment on column request_trail.first_event_ms is 'from the head of the request to the first byte of a stream; null for other answers';
comment on column request_trail.model_slug is 'the model that was found';
comment on column request_trail.asked is 'the name that was asked for where no model was found, if it looks like a name';
comment on column request_trail.code is 'error code; with status 200: what broke a stream that had begun';
comment on column request_trail.outcome is 'as in the ledger; null: no model was asked. Tokens and cost of a client that left are in the ledger alone';
comment on column request_trail.upstream_status is 'what the upstream answered when it failed; null: no answer, or it did not fail';
comment on column request_trail.upstream_reason is 'its own words, without keys and prompts; for operators';

-- Served requests are those that were not refused with 4xx. Durations are of them alone, because refusals take
-- no time. The last bucket holds what is beyond the last bound; src/domain/reports/histogram.ts has the bounds.
create table request_hours (
  company_id       uuid not null,
  hour             timestamptz not null,
  model_slug       text not null, -- empty: none was found
  api_key_id       uuid not null,
  endpoint         text not null,
  requests         bigint not null,
  refused          bigint not null,
  failed           bigint not null,
  upstream_failed  bigint not null,
  duration_ms      bigint not null,
  added_us         bigint not null,
  duration_buckets bigint[] not null,
  added_buckets    bigint[] not null,
  reasons          jsonb not null default '{}',
  primary key (company_id, hour, model_slug, api_key_id, endpoint)
) with (fillfactor = 60); -- room for the next version of a row on its own page: the rows of this hour change each second
create index request_hours_hour on request_hours (hour);
comment on table request_hours is 'request_trail summed by hour in UTC; kept longer than its rows';
comment on column request_hours.refused is 'answered with 4xx';
comment on column request_hours.failed is 'answered with 5xx, or with a stream that broke';
comment on column request_hours.upstream_failed is 'requests that the upstream failed: not those that it refused because of what the caller sent';
comment on column request_hours.reasons is 'how many requests got each error code: {"insufficient_quota": 345}';
comment on column request_hours.duration_buckets is 'served requests by duration, up to 5, 10, 20, 50, 100, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 7500, 10000, 15000, 20000, 30000, 60000, 120000, 300000 ms, and longer';
comment on column request_hours.added_buckets is 'the same by the time the gateway added, up to 50, 100, 150, 200, 300, 500, 1000, 2000, 5000, 10000, 25000, 100000, 500000, 2000000 µs, and longer';

-- By the day, without keys: a month of a company is some hundred rows, however many keys it has, and what was refused
-- today is found without the hours. Written with the hours, in the same statement.
create table request_days (
  company_id       uuid not null,
  day              date not null,
  model_slug       text not null,
  endpoint         text not null,
  requests         bigint not null,
  refused          bigint not null,
  failed           bigint not null,
  duration_buckets bigint[] not null,
  reasons          jsonb not null,
  primary key (company_id, day, model_slug, endpoint)
) with (fillfactor = 60);
-- days that are too old: rows of one day lie beside each other
create index request_days_day on request_days using brin (day) with (pages_per_range = 32);
-- whose requests are refused today: few, and a row whose refused stays may keep its page
create index request_days_refused on request_days (day) where refused > 0;
comment on table request_days is 'request_trail summed by day, without keys; columns as in request_hours';
comment on column request_days.day is 'calendar day of occurred_at in the billing time zone';

-- All companies together: thirty days of pictures are 720 of these rows instead of millions. It costs no request anything,
-- because a gateway sums up each hour afterwards.
create table request_totals (
  hour             timestamptz primary key,
  requests         bigint not null,
  refused          bigint not null,
  failed           bigint not null,
  duration_buckets bigint[] not null,
  reasons          jsonb not null,
  models           jsonb not null
);
comment on column request_totals.models is 'what became of the requests for each model; "" is those without one: {"slug": {"requests": 12, "refused": 1, "failed": 0, "upstream_failed": 0, "duration_ms": 3456}}';
comment on table request_totals is 'request_hours of all companies together, a quarter of an hour later; what comes two days later still is not in it';

-- Sums up the hours of the last two days that have changed since. One gateway at a time does it for all, whenever it takes a
-- mark, four times an hour.
create function sum_request_hours(since interval default interval '2 days') returns void language plpgsql set search_path from current as $$
declare
  changed timestamptz[];
begin
  if not pg_try_advisory_xact_lock(hashtext('tollgate request_totals')) then return; end if;
  with present as materialized (
    select hour, sum(requests) as requests from request_hours where hour > now() - since group by hour
  )
  select array_agg(p.hour) into changed from present p left join request_totals t on t.hour = p.hour
  where t.requests is distinct from p.requests;
  if changed is null then return; end if;
  with buckets as materialized (
    select hour, array_agg(requests order by bucket) as duration_buckets from (
      select hour, bucket, sum(count)::bigint as requests
      from request_hours, unnest(duration_buckets) with ordinality as b (count, bucket) where hour = any(changed) group by 1, 2) each
    group by 1
  ),
  reasoned as materialized (
    select hour, jsonb_object_agg(code, requests) as reasons from (
      select hour, key as code, sum(value::bigint) as requests from request_hours, jsonb_each_text(reasons)
      where hour = any(changed) and reasons <> '{}' group by 1, 2) each
    group by 1
  ),
  counted as materialized (
    select hour, sum(requests)::bigint as requests, sum(refused)::bigint as refused, sum(failed)::bigint as failed,
      jsonb_object_agg(model_slug, jsonb_build_object('requests', requests, 'refused', refused, 'failed', failed,
        'upstream_failed', upstream_failed, 'duration_ms', duration_ms)) as models
    from (
      select hour, model_slug, sum(requests) as requests, sum(refused) as refused, sum(failed) as failed,
        sum(upstream_failed) as upstream_failed, sum(duration_ms) as duration_ms
      from request_hours where hour = any(changed) group by 1, 2) each
    group by 1
  )
  insert into request_totals as t (hour, requests, refused, failed, duration_buckets, reasons, models)
  select hour, requests, refused, failed, duration_buckets, coalesce(reasons, '{}'), models
  from counted join buckets using (hour) left join reasoned using (hour)
  on conflict (hour) do update set requests = excluded.requests, refused = excluded.refused, failed = excluded.failed,
    duration_buckets = excluded.duration_buckets, reasons = excluded.reasons, models = excluded.models;
  delete from request_totals where hour < now() - interval '190 days';
end $$;

-- Makes the partition of one day, unless it is there.
create function ensure_request_trail_day(day date) returns void language plpgsql set search_path from current as $$
declare
  part constant text := 'request_trail_' || to_char(day, 'YYYYMMDD');
begin
  if to_regclass(part) is null then
    execute format('create table %I partition of request_trail for values from (%L) to (%L)', part,
      day || ' 00:00:00+00', (day + 1) || ' 00:00:00+00');
  end if;
end $$;

-- Makes room for the days that rows are about to come for, and drops those that are older than so many days by the
-- clock of both sides. Fails rather than wait long for a lock. The day after, and days to be dropped, are left to the
-- next call where somebody, such as pg_dump, reads the table. Where no days are kept, no rows are to come.
create function keep_request_trail(days integer, first_day date, last_day date) returns void
language plpgsql set search_path from current as $$
declare
  part text;
  oldest constant text := 'request_trail_' || to_char(least(last_day, (now() at time zone 'UTC')::date) - days, 'YYYYMMDD');
begin
  perform set_config('lock_timeout', '300ms', true);
  perform pg_advisory_xact_lock(hashtext('tollgate request_trail'));
  -- not thousands of days when a clock was far off
  perform ensure_request_trail_day(day::date)
  from generate_series(greatest(first_day, last_day - 30), last_day, interval '1 day') as day where days > 0;
  begin
    if days > 0 then perform ensure_request_trail_day(last_day + 1); end if;
    for part in
      select relname from pg_inherits join pg_class on pg_class.oid = inhrelid
      where inhparent = 'request_trail'::regclass and relname < oldest order by 1
    loop
      execute format('drop table %I', part);
    end loop;
  exception when lock_not_available then
  end;
end $$;
