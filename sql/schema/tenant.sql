-- A second wall between companies. A transaction that entered a company (enter_company) reads
-- and writes as the role tollgate_tenant, for which these tables hold that company's rows and
-- no others: a forgotten WHERE finds nothing of anyone else. The role signs in nowhere and may
-- do what the pages and exports of a company need; other columns the program reads outside the wall (`outside` of tenant-role.ts).
-- Whoever has not entered a company, such as
-- the application or the gateway's look-up of keys by digest, sees what the grants say, as before.

-- by its name, not "to tollgate_tenant": the role may come later than this file
create function is_visible(company uuid) returns boolean language sql stable as $$
  select current_user <> 'tollgate_tenant' or company = nullif(current_setting('tollgate.company_id', true), '')::uuid
$$;

do $$
declare
  name text;
begin
  foreach name in array array['companies', 'company_price_factors', 'models', 'model_prices', 'model_cost_prices', 'assistants', 'api_keys', 'key_reveals',
    'users', 'oidc_groups', 'invitations', 'alert_receivers', 'cost_center_budgets', 'admin_tokens', 'chat_usage', 'api_usage', 'upstream_costs', 'monthly_spend', 'usage_daily',
    'usage_company_days', 'usage_key_months', 'usage_details', 'usage_end_user_days', 'end_users', 'upstream_cost_monthly',
    'statements', 'statement_rows', 'late_usage', 'budget_reservations', 'budget_alerts', 'end_user_alerts', 'unusual_days', 'events', 'request_trail',
    'request_hours', 'request_days', 'audit_log']
  loop
    execute format('alter table %I enable row level security', name);
  end loop;
  foreach name in array array['assistants', 'end_users', 'key_reveals', 'users', 'oidc_groups', 'invitations', 'alert_receivers', 'cost_center_budgets', 'admin_tokens', 'chat_usage', 'api_usage',
    'monthly_spend', 'statements', 'statement_rows', 'late_usage', 'budget_reservations', 'budget_alerts', 'end_user_alerts', 'unusual_days', 'events', 'request_trail', 'audit_log']
  loop
    execute format('create policy own on %I using (is_visible(company_id))', name);
  end loop;
  -- What is_visible says, found out once for a statement instead of for each row, which takes longer than summing it.
  foreach name in array array['api_keys', 'usage_daily', 'usage_company_days', 'usage_key_months',
    'usage_details', 'usage_end_user_days', 'request_hours', 'request_days']
  loop
    execute format($policy$create policy own on %I using ((select current_user) <> 'tollgate_tenant'
      or company_id = (select nullif(current_setting('tollgate.company_id', true), '')::uuid))$policy$, name);
  end loop;
  -- for operators alone
  foreach name in array array['model_cost_prices', 'model_prices', 'company_price_factors', 'upstream_costs', 'upstream_cost_monthly'] loop
    execute format('create policy own on %I using (current_user <> ''tollgate_tenant'')', name);
  end loop;
end $$;
create policy own on companies using (is_visible(id));
create policy own on models using (company_id is null or is_visible(company_id));

-- Functions with the rights of the owner can be called by the owner alone, unless a row below says so.
do $$
declare
  each record;
begin
  for each in
    select p.oid::regprocedure as name from pg_proc p where p.pronamespace = current_schema()::regnamespace and p.prosecdef
  loop
    execute format('revoke execute on function %s from public', each.name);
  end loop;
end $$;

-- A later file adds a row instead of repeating the function: "insert into tenant_grants values (…); select raise_tenant_wall();".
create table tenant_grants (
  privilege text primary key check (privilege <> '')
);
comment on table tenant_grants is 'what tollgate_tenant may do: each row is the middle of "grant … to tollgate_tenant"';

insert into tenant_grants (privilege) values
  ('select on settings, chat_usage, monthly_spend, usage_daily, usage_company_days, usage_key_months, usage_details, usage_end_user_days, end_users, budget_reservations, budget_alerts, end_user_alerts, unusual_days, statements, statement_rows, late_usage, request_hours, request_days, oidc_groups'),
  ('select, insert, update, delete on assistants, cost_center_budgets'),
  ('execute on function has_account(text)'),
  ('execute on function people_ever(uuid)'),
  ('execute on function operators_factor(uuid)'),
  ('select (billing_month, request_id, company_id, api_key_id, model_slug, endpoint, prompt_tokens, completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at, cost_center, cached_tokens, cache_write_tokens, audio_prompt_tokens, reasoning_tokens, audio_completion_tokens, price_cache_read, price_cache_write, end_user_id, cache_write_1h_tokens, image_prompt_tokens, image_completion_tokens, search_units, rate, parts) on api_usage'),
  ('select (id, at, actor, subject, subject_id, company_id) on audit_log'),
  -- neither what the upstream calls a model nor what it costs others: the program reads prices outside the wall, and tells what is paid
  ('select (id, slug, company_id, kind, eu_hosted, created_at, token_input, context_length, max_output_tokens) on models'),
  ('update (monthly_budget_eur) on end_users'),
  -- that an owner has seen it
  ('update (opened_at, opened_by) on statements'),
  -- every column but those of operators
  ('select (id, name, disabled_model_slugs, allow_non_eu_models, monthly_budget_eur, daily_budget_eur, created_at, budget_mode, requests_per_minute, tokens_per_minute, max_concurrent, credit_limit_eur, eu_locked, closed_at, paused_at, paused_by, pause_reason, erased_at, language, member_max_keys, member_key_budget_eur, member_playground, billing_name, billing_address, vat_id, customer_number, end_user_alerts, unusual_times), update (name, language, disabled_model_slugs, allow_non_eu_models, monthly_budget_eur, daily_budget_eur, budget_mode, requests_per_minute, tokens_per_minute, max_concurrent, member_max_keys, member_key_budget_eur, member_playground, billing_name, billing_address, vat_id, end_user_alerts, unusual_times) on companies'),
  -- the digest may be written, as where a key is created or replaced, but not read
  ('select (id, company_id, user_id, name, prefix, scopes, purpose, rotated_from, line, created_at, created_by, expires_at, last_used_at, revoked_at, paused_at, paused_by, paused_by_operator, pause_reason, requests_per_minute, tokens_per_minute, max_concurrent, allowed_model_slugs, monthly_budget_eur, daily_budget_eur, allowed_cidrs, end_users, end_user_budget_eur), insert, update (name, digest, prefix, scopes, expires_at, revoked_at, paused_at, pause_reason, requests_per_minute, tokens_per_minute, max_concurrent, allowed_model_slugs, monthly_budget_eur, daily_budget_eur, allowed_cidrs, end_users, end_user_budget_eur) on api_keys'),
  -- keys are created and shown again behind the wall
  ('select, insert, delete on key_reveals'),
  -- not the hash of the password
  ('select (id, email, company_id, role, language, oidc_group, created_at, last_sign_in_at, second_factor_since, recovery_codes, erasure_asked_at, saved_views, page_language, reset_asked_at, monthly_summary), update (role), delete on users'),
  -- not the digests of links and tokens
  ('select (id, company_id, email, role, created_at, created_by, expires_at), insert, update (digest, created_by, created_at, expires_at), delete on invitations'),
  ('select (id, company_id, email, percents, forecast, created_at, created_by, expires_at, confirmed_at, language), insert, update (percents, forecast, digest, expires_at), delete on alert_receivers'),
  ('select (id, name, company_id, access, created_at, created_by, expires_at, last_used_at, revoked_at), insert, update (revoked_at) on admin_tokens'),
  ('select (id, at, company_id, kind, subject, body) on events'),
  -- not what companies had in a month
  ('select (number, billing_month, is_away) on ledger_moves'),
  -- not what the upstream said
  ('select (company_id, occurred_at, request_id, api_key_id, status, duration_ms, added_us, first_event_ms, endpoint, model_slug, asked, code, param, outcome, prompt_tokens, completion_tokens, cost_eur) on request_trail');

-- Whether entering a company changes the role: there is one that row-level security holds
-- back, it may read, and whoever is signed in may take it.
create function tenant_wall_stands() returns boolean language plpgsql stable set search_path from current as $$
declare
  tenant pg_roles;
begin
  select * into tenant from pg_roles where rolname = 'tollgate_tenant';
  return found and not tenant.rolsuper and not tenant.rolbypassrls
    and pg_has_role(session_user, tenant.oid, case when current_setting('server_version_num')::integer >= 160000 then 'SET' else 'MEMBER' end)
    and has_table_privilege(tenant.oid, 'assistants', 'SELECT') -- raise_tenant_wall makes all grants or none
    and has_schema_privilege(tenant.oid, (select relnamespace from pg_class where oid = 'assistants'::regclass), 'USAGE');
end $$;

-- Makes the role where that is permitted, and grants it what a company's pages need, all of it or nothing; returns
-- whether the wall stands. Where it is not permitted, an administrator of the server runs
-- "create role tollgate_tenant nologin; grant tollgate_tenant to <the gateway's user>".
create function raise_tenant_wall() returns boolean language plpgsql set search_path from current as $$
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

-- Until the transaction ends, its statements are about this company alone.
create function enter_company(company uuid) returns void language plpgsql as $$
begin
  perform set_config('tollgate.company_id', company::text, true);
  if tenant_wall_stands() then perform set_config('role', 'tollgate_tenant', true); end if;
end $$;

select raise_tenant_wall();

select pin_settings();
