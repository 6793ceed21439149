-- The feed of booked calls: one order for programs that read all calls of all companies once. Transactions commit in another
-- order than they begin, so who reads gives the positions: what is there and has none comes next, whatever commits later
-- comes after it. Booking takes no part in it: the seals tell which rows a batch wrote, and those of a writer have no gap.

create table ledger_feed (
  id            bigint generated always as identity primary key,
  position      bigint unique,
  writer        uuid,
  first_number  bigint,
  last_number   bigint,
  billing_month date,
  request_ids   uuid[],
  seen          text,
  check ((writer is null) = (request_ids is not null))
);
comment on table ledger_feed is 'the order of the feed: seals of a writer from first_number to last_number, or rows without a seal (request_ids)';
comment on column ledger_feed.position is 'null: rows without a seal that nobody read yet';
comment on column ledger_feed.seen is 'the server, and below which of its transactions all seals had a position when this one was given';
create unique index ledger_feed_seals on ledger_feed (writer, last_number) where writer is not null;
create index ledger_feed_new on ledger_feed (id) where position is null;
alter table ledger_feed alter column request_ids set storage external; -- random bytes do not compress

-- Gives positions to what is booked and has none. One at a time, and committed before the next one looks. Seals of
-- transactions that had ended when somebody looked last have one, so later ones are enough; after a failover, a restore or
-- a restart of the server each writer's newest seal is looked at, as ids of transactions may be used again.
create function extend_ledger_feed() returns void language plpgsql set search_path from current as $$
declare
  server  constant text := concat(extract(epoch from pg_postmaster_start_time()), '/', (select oid from pg_database where datname = current_database()));
  latest  ledger_feed;
  horizon xid8;
  now_seen text;
begin
  if pg_is_in_recovery() then return; end if;
  perform pg_advisory_xact_lock(hashtext('tollgate ledger feed'));
  select * into latest from ledger_feed f where f.position is not null order by f.position desc limit 1;
  if split_part(latest.seen, ' ', 1) = server then horizon := split_part(latest.seen, ' ', 2)::xid8; end if;
  latest.position := coalesce(latest.position, 0);
  now_seen := server || ' ' || pg_snapshot_xmin(pg_current_snapshot()); -- before the seals are looked at
  with newest as (
    select s.writer, max(s.number) as number from ledger_seals s
    where s.xid >= horizon and s.xid < pg_snapshot_xmax(pg_current_snapshot()) group by s.writer
    union all
    select n.writer, n.number from newest_seals() n where horizon is null
  ),
  fresh as (
    select n.writer, n.number, coalesce(f.last_number, 0) + 1 as first_number
    from newest n left join lateral (
      select f.last_number from ledger_feed f where f.writer = n.writer order by f.last_number desc limit 1) f on true
    where n.number > coalesce(f.last_number, 0)
  )
  insert into ledger_feed (position, writer, first_number, last_number, seen)
  select latest.position + row_number() over (order by s.sealed_at, s.writer), s.writer, f.first_number, f.number, now_seen
  from fresh f join ledger_seals s on s.writer = f.writer and s.number = f.first_number;
  latest.position := coalesce((select max(f.position) from ledger_feed f), 0);
  update ledger_feed f set position = latest.position + waiting.place, seen = now_seen
  from (select id, row_number() over (order by id) as place from ledger_feed where position is null) waiting where f.id = waiting.id;
end $$;

-- The next calls of the feed, `most` at most: where each stands, its month and id. The place before the first one is 0, 0, 0.
create function feed_calls(after_position bigint, after_number bigint, after_place bigint, most integer)
returns table (feed_position bigint, number bigint, place bigint, billing_month date, request_id uuid)
language plpgsql set search_path from current as $$
#variable_conflict use_column
declare
  part   ledger_feed;
  batch  record;
  begins bigint := after_position;
  room   integer := most;
  told   integer;
begin
  for turn in 1 .. 2 loop
    for part in select f.* from ledger_feed f where f.position >= begins order by f.position loop
      for batch in
        (select s.number, s.billing_month, s.request_ids from ledger_seals s where s.writer = part.writer and s.number <= part.last_number
          and s.number >= case when part.position = after_position then after_number else part.first_number end order by s.number)
        union all
        select 0, part.billing_month, part.request_ids where part.writer is null
      loop
        return query select part.position, batch.number, t.place, batch.billing_month, t.request_id
          from unnest(batch.request_ids) with ordinality as t (request_id, place)
          where (part.position, batch.number, t.place) > (after_position, after_number, after_place) order by t.place limit room;
        get diagnostics told = row_count;
        room := room - told;
        if room = 0 then return; end if;
      end loop;
      begins := part.position + 1;
    end loop;
    if turn = 1 then perform extend_ledger_feed(); end if;
  end loop;
end $$;
