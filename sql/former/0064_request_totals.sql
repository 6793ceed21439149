-- Sums of the requests of all companies, and an index by which the months of all keys are found.
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

-- what is there already; from now on gateways do so
select sum_request_hours(interval '190 days');

create index usage_key_months_month on usage_key_months using brin (billing_month) with (pages_per_range = 32);
