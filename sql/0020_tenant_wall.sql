-- A second wall between companies. A transaction that entered a company (enter_company) reads
-- and writes as the role tollgate_tenant, for which these tables hold that company's rows and
-- no others: a forgotten WHERE finds nothing of anyone else. The role signs in nowhere and may
-- do what the pages and exports of a company need. Whoever has not entered a company, such as
-- the application or the gateway's look-up of keys by digest, sees what the grants say, as before.

-- by its name, not "to tollgate_tenant": the role may come later than this file
create function is_visible(company uuid) returns boolean language sql stable as $$
  select current_user <> 'tollgate_tenant' or company = nullif(current_setting('tollgate.company_id', true), '')::uuid
$$;

alter table companies enable row level security;
alter table models enable row level security;
alter table api_keys enable row level security;
alter table assistants enable row level security;
alter table users enable row level security;
alter table chat_usage enable row level security;
alter table api_usage enable row level security;
alter table monthly_spend enable row level security;
alter table usage_daily enable row level security;
alter table audit_log enable row level security;
alter table budget_reservations enable row level security;

create policy own on companies using (is_visible(id));
create policy own on models using (company_id is null or is_visible(company_id));
create policy own on api_keys using (is_visible(company_id));
create policy own on assistants using (is_visible(company_id));
create policy own on users using (is_visible(company_id));
create policy own on chat_usage using (is_visible(company_id));
create policy own on api_usage using (is_visible(company_id));
create policy own on monthly_spend using (is_visible(company_id));
create policy own on usage_daily using (is_visible(company_id));
create policy own on audit_log using (is_visible(company_id));
create policy own on budget_reservations using (is_visible(company_id));

-- Whether entering a company changes the role: there is one that row-level security holds
-- back, it may read, and whoever is signed in may take it.
create function tenant_wall_stands() returns boolean language plpgsql stable set search_path from current as $$
declare
  tenant pg_roles;
begin
  select * into tenant from pg_roles where rolname = 'tollgate_tenant';
  return found and not tenant.rolsuper and not tenant.rolbypassrls
    and pg_has_role(session_user, tenant.oid, case when current_setting('server_version_num')::integer >= 160000 then 'SET' else 'MEMBER' end)
    and has_table_privilege(tenant.oid, 'assistants', 'SELECT') -- the last grant of raise_tenant_wall
    and has_schema_privilege(tenant.oid, (select relnamespace from pg_class where oid = 'assistants'::regclass), 'USAGE');
end $$;

-- Makes the role where that is permitted, and grants it what a company's pages need; returns
-- whether the wall stands. Where it is not permitted, an administrator of the server runs
-- "create role tollgate_tenant nologin; grant tollgate_tenant to <the gateway's user>".
create function raise_tenant_wall() returns boolean language plpgsql set search_path from current as $$
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
  grant select on settings, models, chat_usage, api_usage, monthly_spend, usage_daily, audit_log, budget_reservations to tollgate_tenant;
  grant select, update on companies to tollgate_tenant;
  -- all but the digest, and the password's hash
  grant select (id, company_id, name, prefix, scopes, created_at, created_by, expires_at, last_used_at, revoked_at),
    insert, update (expires_at, revoked_at) on api_keys to tollgate_tenant;
  grant select (id, email, company_id, role, created_at) on users to tollgate_tenant;
  grant insert on changes, audit_log to tollgate_tenant; -- what every change leaves behind
  grant select, insert, update, delete on assistants to tollgate_tenant;
  return tenant_wall_stands();
exception when insufficient_privilege then
  return false;
end $$;

-- Until the transaction ends, its statements are about this company alone.
create function enter_company(company uuid) returns void language plpgsql as $$
begin
  perform set_config('tollgate.company_id', company::text, true);
  if tenant_wall_stands() then perform set_config('role', 'tollgate_tenant', true); end if;
end $$;

select raise_tenant_wall();
