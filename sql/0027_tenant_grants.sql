-- What the tenant role may do (0020_tenant_wall.sql) becomes rows of a table, so that a later file adds a row
-- instead of repeating the function: "insert into tenant_grants values (…); select raise_tenant_wall();".

create table tenant_grants (
  privilege text primary key check (privilege <> '')
);
comment on table tenant_grants is 'what tollgate_tenant may do: each row is the middle of "grant … to tollgate_tenant"';

insert into tenant_grants (privilege) values
  ('select on settings, models, chat_usage, api_usage, monthly_spend, usage_daily, audit_log, budget_reservations, budget_alerts'),
  ('select, update on companies'),
  -- all but the digest, and the password's hash
  ('select (id, company_id, name, prefix, scopes, created_at, created_by, expires_at, last_used_at, revoked_at, requests_per_minute, tokens_per_minute, max_concurrent, allowed_model_slugs, monthly_budget_eur, allowed_cidrs) on api_keys'),
  ('insert on api_keys'),
  ('update (name, scopes, expires_at, revoked_at, requests_per_minute, tokens_per_minute, max_concurrent, allowed_model_slugs, monthly_budget_eur, allowed_cidrs) on api_keys'),
  ('select (id, email, company_id, role, created_at) on users'),
  ('insert on changes, audit_log'), -- what every change leaves behind
  ('select, insert, update, delete on assistants');

-- As in 0026_budget_alerts.sql, with the grants from the table. All of them are given or none is.
create or replace function raise_tenant_wall() returns boolean language plpgsql set search_path from current as $$
declare
  each text;
begin
  perform pg_advisory_xact_lock(hashtext('tollgate tenant wall'));
  begin
    -- it belongs to the server: other databases may have made it, even just now
    if to_regrole('tollgate_tenant') is null then create role tollgate_tenant nologin; end if;
  exception when duplicate_object or unique_violation then
  end;
  if not pg_has_role(session_user, 'tollgate_tenant', case when current_setting('server_version_num')::integer >= 160000 then 'SET' else 'MEMBER' end) then
    execute format('grant tollgate_tenant to %I', session_user);
  end if;
  execute format('grant usage on schema %s to tollgate_tenant',
    (select relnamespace::regnamespace from pg_class where oid = 'assistants'::regclass));
  for each in select privilege from tenant_grants loop
    execute format('grant %s to tollgate_tenant', each);
  end loop;
  return tenant_wall_stands();
exception when insufficient_privilege then
  return false;
end $$;
select raise_tenant_wall();
