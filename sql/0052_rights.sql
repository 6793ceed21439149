-- A database user of another program needs rights to the tables that it writes, and to no others: what triggers write
-- besides, the audit log and the spend of in-app chat, they write with the rights of the owner. Not so the sums of the
-- ledger: whoever inserts into api_usage needs rights to all of them.
do $$
declare
  each record;
begin
  for each in
    select oid::regprocedure as name from pg_proc where pronamespace = current_schema()::regnamespace
      and proname in ('audit_price', 'audit_row', 'audit_truncate', 'move_chat_cost', 'zero_chat_cost')
  loop
    execute format('alter function %s security definer', each.name);
  end loop;

  -- Functions with the rights of the owner, and those that they call, look for a table among the temporary ones last.
  -- Postgres looks there first where search_path does not name pg_temp: a program that may do nothing but sign in made a
  -- temporary table "changes" with a trigger, called announce_change, and the trigger ran as the owner of all tables.
  -- Functions of later files are made so (store/migrate.ts).
  for each in
    select p.oid::regprocedure as name, substr(setting, length('search_path=') + 1) as path
    from pg_proc p, unnest(p.proconfig) as setting
    where p.pronamespace = current_schema()::regnamespace and setting like 'search\_path=%' and setting not like '%pg\_temp%'
      and p.proname in ('alert_body', 'announce_change', 'announce_keys', 'announce_row', 'announce_statement', 'audit_price',
        'audit_row', 'audit_truncate', 'begin_model_price', 'end_model_prices', 'guard_model_prices', 'has_account', 'is_erasing',
        'move_chat_cost', 'record_alert_event', 'record_company_event', 'record_event', 'record_key_event', 'record_model_price',
        'refuse_audit_update', 'refuse_closed', 'zero_chat_cost')
  loop
    execute format('alter function %s set search_path = %s, pg_temp', each.name, each.path);
  end loop;
end $$;
