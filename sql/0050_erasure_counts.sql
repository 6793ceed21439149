-- What an erasure tells afterwards is what it counted before: entries that it leaves in the audit log itself are erased
-- too, but do not count.

-- As in 0036_company_end.sql, but of the audit log only entries from before the erasure count.
create or replace function erase_rows(relation text, assignment text, condition text, company uuid, persons jsonb, dry boolean)
returns bigint language plpgsql set search_path from current as $$
declare
  reached bigint;
begin
  if dry then
    execute format('select count(*) from %I t where %s', relation, condition) into reached using company, persons;
  elsif relation = 'audit_log' then
    execute format('with erased as (update audit_log t set %s where %s returning t.id)
      select count(*) from erased where id < current_setting(''tollgate.erasure'')::bigint', assignment, condition)
      into reached using company, persons;
  else
    execute case when assignment is null then format('delete from %I t where %s', relation, condition)
      else format('update %I t set %s where %s', relation, assignment, condition) end using company, persons;
    get diagnostics reached = row_count;
  end if;
  return reached;
end $$;
