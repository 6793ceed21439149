-- Functions look for their tables in the schema that holds them, then among temporary ones, and nowhere else. Their path
-- was that of whoever migrated, whose first entry is usually "$user": a database user who may make schemas made one named
-- like the owner, with a table "audit_log" and a trigger, which then ran with the owner's rights.
do $$
declare
  each record;
begin
  for each in
    select p.oid::regprocedure as name from pg_proc p, unnest(p.proconfig) as setting
    where p.pronamespace = current_schema()::regnamespace and setting like 'search\_path=%'
  loop
    execute format('alter function %s set search_path = %I, pg_temp', each.name, current_schema());
  end loop;

  -- Whoever may sign in could call those that run with the owner's rights: one asked for accounts, and had an event signed
  -- and sent. Triggers call them for whoever writes, so these have the owner's rights too.
  alter function announce_row() security definer;
  alter function announce_all() security definer;
  for each in
    select p.oid::regprocedure as name from pg_proc p where p.pronamespace = current_schema()::regnamespace and p.prosecdef
  loop
    execute format('revoke execute on function %s from public', each.name);
  end loop;
end $$;
-- So do the sessions of the user that migrates, in this database: a schema that is named like the user and made later
-- stands for nothing. Another user of yours needs the same line, as for jit (0039_no_compilation.sql).
do $$
begin
  if (select reset_val from pg_settings where name = 'search_path') like '%"$user"%' then
    execute format('alter role %I in database %I set search_path = %I', current_user, current_database(), current_schema());
  end if;
exception when insufficient_privilege then
  raise notice 'search_path stays as it is: % may not be changed', current_user;
end $$;

insert into tenant_grants (privilege) values ('execute on function has_account(text)');
select raise_tenant_wall();

-- Nothing reads deliveries by the names that they had before 0040_events.sql.
drop view budget_alert_deliveries;
