-- As in 0044_distribution.sql, but by the index: without the snapshot's value Postgres expected to find a row at once, and
-- each look of each gateway, four a second, read the whole table (40 ms for 100,000 rows).
create or replace function has_spent_since(before pg_snapshot) returns boolean language sql stable set search_path from current as $$
  select coalesce((select true from monthly_spend
    where changed_xid >= pg_snapshot_xmin(before) and not pg_visible_in_snapshot(changed_xid, before) order by changed_xid limit 1), false)
$$;
