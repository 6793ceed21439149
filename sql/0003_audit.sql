-- The audit log: every change to companies, models, keys, assistants and users, whoever
-- makes it and by whatever tool. Written by triggers in the transaction of the change
-- itself, so there is no change without its row and no row without its change.

create table audit_log (
  id         bigint generated always as identity primary key,
  at         timestamptz not null default now(),
  actor      text not null,
  db_role    text not null default session_user,
  action     text not null check (action in ('insert', 'update', 'delete', 'truncate')),
  subject    text not null,
  subject_id uuid,
  company_id uuid,
  before     jsonb,
  after      jsonb
);
comment on table audit_log is 'append-only; secrets (digests, password hashes) are never in it';
comment on column audit_log.actor is 'who asked: the setting tollgate.actor of the transaction (an e-mail address, "cli"), else the database role';
comment on column audit_log.subject is 'the table';
comment on column audit_log.company_id is 'whose record changed; no foreign key: history outlives what it speaks of';
create index audit_log_company on audit_log (company_id, id);

create function audit_actor() returns text language sql stable as $$
  select coalesce(nullif(current_setting('tollgate.actor', true), ''), session_user::text)
$$;

create function audit_row() returns trigger language plpgsql set search_path from current as $$
declare
  before jsonb := case when tg_op <> 'INSERT' then to_jsonb(old) end;
  after  jsonb := case when tg_op <> 'DELETE' then to_jsonb(new) end;
  row    jsonb := coalesce(after, before);
  secret text;
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
  before := before - 'last_used_at';
  after  := after - 'last_used_at';
  if tg_op = 'UPDATE' and before = after then return null; end if;
  insert into audit_log (actor, action, subject, subject_id, company_id, before, after)
  values (audit_actor(), lower(tg_op), tg_table_name, (row ->> 'id')::uuid,
          (row ->> case tg_table_name when 'companies' then 'id' else 'company_id' end)::uuid, before, after);
  return null;
end $$;

create function audit_truncate() returns trigger language plpgsql set search_path from current as $$
begin
  insert into audit_log (actor, action, subject) values (audit_actor(), 'truncate', tg_table_name);
  return null;
end $$;

create trigger audit after insert or update or delete on companies for each row execute function audit_row();
create trigger audit after insert or update or delete on models for each row execute function audit_row();
create trigger audit after insert or delete or update of id, company_id, name, digest, prefix, scopes, created_at, created_by, expires_at, revoked_at
  on api_keys for each row execute function audit_row(); -- not last_used_at: it moves with every batch
create trigger audit after insert or update or delete on assistants for each row execute function audit_row();
create trigger audit after insert or update or delete on users for each row execute function audit_row();
create trigger audit_truncate after truncate on companies for each statement execute function audit_truncate();
create trigger audit_truncate after truncate on models for each statement execute function audit_truncate();
create trigger audit_truncate after truncate on api_keys for each statement execute function audit_truncate();
create trigger audit_truncate after truncate on assistants for each statement execute function audit_truncate();
create trigger audit_truncate after truncate on users for each statement execute function audit_truncate();

create function refuse_audit_change() returns trigger language plpgsql set search_path from current as $$
begin
  raise exception 'audit_log is append-only' using errcode = 'restrict_violation';
end $$;
create trigger append_only before update or delete or truncate on audit_log
  for each statement execute function refuse_audit_change();
