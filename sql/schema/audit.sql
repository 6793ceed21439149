-- The audit log: every change to companies, models, prices, keys, assistants, users, groups, invitations, receivers of alerts,
-- budgets of cost centres and end users, and tokens, whoever makes it and by whatever tool. Written by triggers in the
-- transaction of the change itself, so there is no change without its row and no row without its change.

create table audit_log (
  id         bigint generated always as identity primary key,
  at         timestamptz not null default now(),
  actor      text not null,
  db_role    text not null default session_user,
  action     text not null check (action in ('insert', 'update', 'delete', 'truncate', 'erase')),
  subject    text not null,
  subject_id uuid,
  company_id uuid,
  before     jsonb,
  after      jsonb
);
comment on table audit_log is 'append-only; secrets (digests, password hashes) are never in it; an update leaves out values of more than 200 characters that it did not change';
comment on column audit_log.actor is 'who asked: the setting tollgate.actor of the transaction (an e-mail address, "cli"), else the database role';
comment on column audit_log.subject is 'the table';
comment on column audit_log.company_id is 'whose record changed; no foreign key: history outlives what it speaks of';
create index audit_log_company on audit_log (company_id, id);
-- people and tokens of a company, present and former
create index audit_log_people on audit_log (company_id) where subject in ('users', 'admin_tokens');

-- An update leaves out long values that it did not change, other than those that say which row it is. The setting
-- tollgate.audited has the bytes of all entries of the transaction, for the limit of a company's changes.
create function audit_row() returns trigger language plpgsql security definer set search_path from current as $$
declare
  before jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
  after  jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
  row    jsonb := coalesce(after, before);
  secret text;
  same   text[];
begin
  -- that a secret changed is told, what it was never
  foreach secret in array array['digest', 'password_hash'] loop
    if tg_op = 'UPDATE' and before ->> secret is distinct from after ->> secret then
      after := after || jsonb_build_object(secret, 'changed');
    else
      after := after - secret;
    end if;
    before := before - secret;
  end loop;
  -- who paused it is the entry's actor, whom people of a company may not know
  before := before - array['last_used_at', 'paused_by', 'paused_by_operator', 'saved_views', 'reset_digest'];
  after  := after - array['last_used_at', 'paused_by', 'paused_by_operator', 'saved_views', 'reset_digest'];
  -- one table alone has the names of people behind keys
  if tg_table_name = 'end_users' then
    before := before - 'name';
    after := after - 'name';
  end if;
  if tg_op = 'UPDATE' then
    if before = after then return null; end if;
    select array_agg(key) into same from jsonb_each(before)
    where value = after -> key and length(value::text) > 200
      and key <> all (array['id', 'company_id', 'name', 'slug', 'email', 'created_by']);
    before := before - coalesce(same, '{}');
    after  := after - coalesce(same, '{}');
  end if;
  insert into audit_log (actor, action, subject, subject_id, company_id, before, after)
  values (audit_actor(), lower(tg_op), tg_table_name, (row ->> 'id')::uuid,
          (row ->> case tg_table_name when 'companies' then 'id' else 'company_id' end)::uuid, before, after);
  perform set_config('tollgate.audited', (coalesce(nullif(current_setting('tollgate.audited', true), '')::bigint, 0)
    + coalesce(pg_column_size(before), 0) + coalesce(pg_column_size(after), 0))::text, true);
  return null;
end $$;

create function audit_truncate() returns trigger language plpgsql security definer set search_path from current as $$
begin
  insert into audit_log (actor, action, subject) values (audit_actor(), 'truncate', tg_table_name);
  return null;
end $$;

-- Who changed a price is the entry's actor, and not said again: companies see their entries without operators' names.
-- 'hidden': the entry belongs to no company.
create function audit_price() returns trigger language plpgsql security definer set search_path from current as $$
declare
  hidden boolean := tg_argv[0] = 'hidden';
  left_out text[] := array['changed_by', 'created_at', 'applied'];
  before jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) - left_out end;
  after  jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) - left_out end;
  price  jsonb := coalesce(after, before);
begin
  if before = after then return null; end if;
  if hidden then
    before := before - 'company_id' || jsonb_build_object('of_company', before -> 'company_id');
    after := after - 'company_id' || jsonb_build_object('of_company', after -> 'company_id');
  end if;
  insert into audit_log (actor, action, subject, subject_id, company_id, before, after)
  values (audit_actor(), lower(tg_op), tg_table_name, (price ->> 'id')::uuid,
    case when not hidden then (price ->> 'company_id')::uuid end, before, after);
  return null;
end $$;

create trigger audit after insert or update or delete on companies for each row execute function audit_row();
create trigger audit after insert or update or delete on models for each row execute function audit_row();
-- not last_used_at: it moves with every batch
create trigger audit after insert or delete or update of id, company_id, name, digest, prefix, scopes, created_at, created_by,
    expires_at, revoked_at, paused_at, pause_reason, requests_per_minute, tokens_per_minute, max_concurrent, allowed_model_slugs, monthly_budget_eur, daily_budget_eur, allowed_cidrs, end_users, end_user_budget_eur
  on api_keys for each row execute function audit_row();
create trigger audit after insert or update or delete on assistants for each row execute function audit_row();
-- not last_sign_in_at: signing in changes nothing that the audit log is about
create trigger audit after insert or delete or update of id, email, company_id, role, password_hash, created_at, oidc_group,
    second_factor_since, recovery_codes, erasure_asked_at, reset_asked_at
  on users for each row execute function audit_row();
create trigger audit after insert or update or delete on oidc_groups for each row execute function audit_row();
create trigger audit after insert or update or delete on alert_receivers for each row execute function audit_row();
create trigger audit after insert or update or delete on cost_center_budgets for each row execute function audit_row();
create trigger audit after update of monthly_budget_eur on end_users for each row
  when (old.monthly_budget_eur is distinct from new.monthly_budget_eur) execute function audit_row();
create trigger audit after insert or update or delete on invitations for each row execute function audit_row();
create trigger audit after insert or delete or update of name, company_id, digest, access, created_by, expires_at, revoked_at
  on admin_tokens for each row execute function audit_row();
-- what begins at once is audited as a change of `models`
create trigger audit_coming after insert on model_prices
  for each row when (not new.applied) execute function audit_price('shown');
create trigger audit_changed after update of input, cache_read, cache_write, cache_write_1h, audio_input, image_input, output, reasoning, audio_output, image_output, search_unit, request, rates on model_prices
  for each row when (not old.applied) execute function audit_price('shown');
create trigger audit_withdrawn after delete on model_prices
  for each row when (not old.applied) execute function audit_price('shown');
create trigger audit_coming after insert on company_price_factors
  for each row when (not new.applied) execute function audit_price('hidden');
create trigger audit_changed after update of factor on company_price_factors
  for each row when (not old.applied) execute function audit_price('hidden');
create trigger audit_withdrawn after delete on company_price_factors
  for each row when (not old.applied) execute function audit_price('hidden');
create trigger audit after insert or delete or update of slug, company_id, valid_from, input, cache_read, cache_write, cache_write_1h, audio_input, image_input, output, reasoning, audio_output, image_output, search_unit, request, rates
  on model_cost_prices for each row execute function audit_price('hidden');

create trigger audit_truncate after truncate on companies for each statement execute function audit_truncate();
create trigger audit_truncate after truncate on models for each statement execute function audit_truncate();
create trigger audit_truncate after truncate on api_keys for each statement execute function audit_truncate();
create trigger audit_truncate after truncate on assistants for each statement execute function audit_truncate();
create trigger audit_truncate after truncate on users for each statement execute function audit_truncate();
create trigger audit_truncate after truncate on alert_receivers for each statement execute function audit_truncate();
create trigger audit_truncate after truncate on cost_center_budgets for each statement execute function audit_truncate();
create trigger audit_truncate after truncate on oidc_groups for each statement execute function audit_truncate();
create trigger audit_truncate after truncate on invitations for each statement execute function audit_truncate();
create trigger audit_truncate after truncate on admin_tokens for each statement execute function audit_truncate();
create trigger audit_truncate after truncate on model_cost_prices for each statement execute function audit_truncate();

-- The log is append-only. There is one way through: an erasure of persons (erasure.sql), which leaves an entry of its own,
-- and reaches only who changed something and what the row held.
create function refuse_audit_update() returns trigger language plpgsql security definer set search_path from current as $$
begin
  if not is_erasing() then raise exception 'audit_log is append-only' using errcode = 'restrict_violation'; end if;
  return null;
end $$;
create trigger append_only before delete or truncate on audit_log
  for each statement execute function refuse_change();
create trigger append_only_update before update on audit_log
  for each statement execute function refuse_audit_update();
create trigger append_only_facts before update on audit_log for each row
  when ((old.id, old.at, old.db_role, old.action, old.subject, old.subject_id, old.company_id)
    is distinct from (new.id, new.at, new.db_role, new.action, new.subject, new.subject_id, new.company_id))
  execute function refuse_change();

-- Addresses of all who are or were people of the company that was entered, and its tokens, as the audit log names them.
-- Of no other company: it has the rights of the owner.
create function people_ever(company uuid) returns setof text language sql stable security definer set search_path from current as $$
  select email from users where company_id = company and company = nullif(current_setting('tollgate.company_id', true), '')::uuid
  union
  select case subject when 'users' then coalesce(after, before) ->> 'email' else 'token ' || (coalesce(after, before) ->> 'name') end
  from audit_log where company_id = company and subject in ('users', 'admin_tokens')
    and company = nullif(current_setting('tollgate.company_id', true), '')::uuid
$$;
