-- A notification of the change feed also tells the id of its row: `kind:subject:id`. A gateway then knows
-- a change it was notified of when it reads the row, and does not forget twice what it has read again since.
-- A gateway of an earlier version does not understand the longer text; it finds the change in the table.
-- With the rights of the owner, because the tenant role may not read the table.
create or replace function announce_change(kind text, subject text) returns void
language plpgsql security definer set search_path from current as $$
declare
  change bigint;
begin
  insert into changes (kind, subject) values (announce_change.kind, announce_change.subject) returning id into change;
  perform pg_notify('tollgate', concat_ws(':', kind, subject, change));
end $$;
