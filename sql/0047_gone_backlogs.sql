-- A gateway that is gone with records is remembered until another one takes them over, or an operator deletes its row:
-- until then no month that they may belong to is closed.

-- As in 0032_gateways.sql, which forgot those rows after a day. "adopted" are the gateways whose spools this one took over.
drop function beat_gateway(uuid, text, text, integer, float8, bigint, boolean, boolean, integer);
create function beat_gateway(beating uuid, of_name text, of_version text, waiting integer, lag_seconds float8,
  lost_records bigint, spool_fails boolean, is_alone boolean, in_flight integer, adopted text[] default '{}')
returns boolean language plpgsql set search_path from current as $$
begin
  insert into gateways as g (id, name, version, backlog, oldest_at, lost, spool_failing, limits_alone, requests_in_flight)
  values (beating, of_name, of_version, waiting, now() - make_interval(secs => nullif(lag_seconds, 0)),
    lost_records, spool_fails, is_alone, in_flight)
  on conflict (id) do update set
    last_seen_at = excluded.last_seen_at, backlog = excluded.backlog, oldest_at = excluded.oldest_at, lost = excluded.lost,
    spool_failing = excluded.spool_failing, limits_alone = excluded.limits_alone, requests_in_flight = excluded.requests_in_flight;
  delete from gateways old using gateways own
  where own.id = beating and old.id <> beating and (old.id::text = any(adopted)
    or old.backlog = 0 and (old.last_seen_at < now() - interval '1 day'
      or (old.name = own.name and old.last_seen_at < least(own.started_at, now() - interval '1 minute'))));
  return not exists (
    select from usage_marks where period = 'month' and begins = billing_month(now()) and at > now() - interval '15 minutes');
end $$;
comment on table gateways is 'a row for each running gateway process, removed at a clean stop, or a day after it was last seen; with a backlog, when another one has taken over its spool';
