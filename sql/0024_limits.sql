-- Limits of companies and keys, and what a key may do less than its company (contract section 5).
-- null: no limit. A key only narrows: what its company may not do, no key of it may.

alter table companies
  add column requests_per_minute integer check (requests_per_minute between 1 and 1000000000),
  add column tokens_per_minute   bigint  check (tokens_per_minute between 1 and 1000000000000),
  add column max_concurrent      integer check (max_concurrent between 1 and 1000000);

alter table api_keys
  add column requests_per_minute integer check (requests_per_minute between 1 and 1000000000),
  add column tokens_per_minute   bigint  check (tokens_per_minute between 1 and 1000000000000),
  add column max_concurrent      integer check (max_concurrent between 1 and 1000000),
  add column allowed_model_slugs text[] check (cardinality(allowed_model_slugs) > 0 and array_position(allowed_model_slugs, null) is null),
  -- null or 0 means unlimited, as for a company
  add column monthly_budget_eur  numeric check (monthly_budget_eur >= 0 and monthly_budget_eur < 1e12 and min_scale(monthly_budget_eur) <= 15),
  add column allowed_cidrs       cidr[] check (cardinality(allowed_cidrs) > 0 and array_position(allowed_cidrs, null) is null);
comment on column api_keys.allowed_model_slugs is 'the only models of the company that the key lists and calls; null: all of them';
comment on column api_keys.allowed_cidrs is 'networks the key may be used from; null: any';

-- what a key spent in a month is a sum over these rows
create index usage_daily_key on usage_daily (api_key_id, billing_month);

-- neither fires for last_used_at, which moves with every batch
drop trigger announce on api_keys;
create trigger announce after insert or delete or update of company_id, digest, scopes, expires_at, revoked_at,
    requests_per_minute, tokens_per_minute, max_concurrent, allowed_model_slugs, monthly_budget_eur, allowed_cidrs
  on api_keys for each row execute function announce_row('key', 'digest');
drop trigger audit on api_keys;
create trigger audit after insert or delete or update of id, company_id, name, digest, prefix, scopes, created_at, created_by,
    expires_at, revoked_at, requests_per_minute, tokens_per_minute, max_concurrent, allowed_model_slugs, monthly_budget_eur, allowed_cidrs
  on api_keys for each row execute function audit_row();

-- As in 0020_tenant_wall.sql, with the columns above.
create or replace function raise_tenant_wall() returns boolean language plpgsql set search_path from current as $$
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
  grant select (id, company_id, name, prefix, scopes, created_at, created_by, expires_at, last_used_at, revoked_at,
      requests_per_minute, tokens_per_minute, max_concurrent, allowed_model_slugs, monthly_budget_eur, allowed_cidrs),
    insert,
    update (name, scopes, expires_at, revoked_at,
      requests_per_minute, tokens_per_minute, max_concurrent, allowed_model_slugs, monthly_budget_eur, allowed_cidrs)
    on api_keys to tollgate_tenant;
  grant select (id, email, company_id, role, created_at) on users to tollgate_tenant;
  grant insert on changes, audit_log to tollgate_tenant; -- what every change leaves behind
  grant select, insert, update, delete on assistants to tollgate_tenant;
  return tenant_wall_stands();
exception when insufficient_privilege then
  return false;
end $$;
select raise_tenant_wall();
