-- An erasure reaches what callers and upstreams wrote into the request trail. A gateway that keeps no trail drops what
-- was kept before.

insert into personal_data (table_name, column_name, kind) values
  ('request_trail', 'asked', 'text'),
  ('request_trail', 'param', 'text'),
  ('request_trail', 'upstream_reason', 'text');

-- As in 0030_requests.sql, but no rows are to come where no days are kept.
create or replace function keep_request_trail(days integer, first_day date, last_day date) returns void
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
