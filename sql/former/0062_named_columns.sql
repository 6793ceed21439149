-- Names the columns into which it writes, so that no statement depends on their order.
create or replace function lease_limits(leaser uuid, lease_seconds integer, asked json)
returns table (owners integer, leased json) language plpgsql set search_path from current as $$
declare
  window_seconds constant integer := 62;
  now_second     constant bigint := floor(extract(epoch from clock_timestamp()));
  expiry         constant timestamptz := clock_timestamp() + make_interval(secs => lease_seconds);
  item    record;
  span    limit_windows;
  gap     integer;
  back    record;
  given   bigint;
  other   bigint;
  answers json[] := '{}';
begin
  insert into limit_owners (owner, expires_at) values (leaser, expiry) on conflict (owner) do update set expires_at = excluded.expires_at;
  -- the same order for all gateways: none waits for another crosswise
  for item in
    select * from json_to_recordset(asked) as a (subject uuid, kind text, "limit" bigint, want bigint, owed bigint, back json, held integer)
    order by subject, kind
  loop
    insert into limit_windows (subject, kind, second, units)
    values (item.subject, item.kind, now_second, array_fill(0::bigint, array[window_seconds]))
    on conflict do nothing;
    select * into span from limit_windows w where w.subject = item.subject and w.kind = item.kind for update;
    other := 0;
    if item.kind = 'calls' then
      select coalesce(sum(s.slots), 0) into other from limit_slots s
      where s.subject = item.subject and s.owner <> leaser and s.expires_at > clock_timestamp();
      given := greatest(item.held, least(item.held + item.want, item."limit" - other));
      if given > 0 then
        insert into limit_slots (subject, owner, slots, expires_at) values (item.subject, leaser, given, expiry)
        on conflict (subject, owner) do update set slots = excluded.slots, expires_at = excluded.expires_at;
      else
        delete from limit_slots s where s.subject = item.subject and s.owner = leaser;
      end if;
    else
      gap := least(greatest(now_second - span.second, 0), window_seconds); -- a clock that was set back loses nothing
      span.units := span.units[gap + 1 : window_seconds] || array_fill(0::bigint, array[gap]);
      for back in select (b ->> 0)::integer as age, (b ->> 1)::bigint as rest from json_array_elements(item.back) as b loop
        -- one second newer, because two clocks round an age differently
        for i in reverse least(window_seconds - back.age + 1, window_seconds) .. 1 loop
          exit when back.rest = 0;
          given := least(back.rest, span.units[i]);
          span.units[i] := span.units[i] - given;
          back.rest := back.rest - given;
        end loop;
      end loop;
      span.units[window_seconds] := span.units[window_seconds] + item.owed;
      given := greatest(0, least(item.want, item."limit" - (select sum(u) from unnest(span.units) as u)));
      span.units[window_seconds] := span.units[window_seconds] + given;
      update limit_windows w set second = now_second, units = span.units where w.subject = item.subject and w.kind = item.kind;
    end if;
    answers := answers || json_build_object('subject', item.subject, 'kind', item.kind, 'granted', given, 'others', other,
      'units', span.units);
  end loop;
  return query select (select count(*)::integer from limit_owners o where o.expires_at > clock_timestamp()), array_to_json(answers);
end $$;
