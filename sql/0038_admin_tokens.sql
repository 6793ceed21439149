-- Administration over HTTP (contract section 5): tokens of programs, and what they created under an idempotency key.

create table admin_tokens (
  id           uuid primary key default gen_random_uuid(),
  name         text not null check (name <> ''),
  company_id   uuid references companies on delete cascade,
  digest       bytea not null unique check (octet_length(digest) = 32),
  access       text not null check (access in ('read', 'write')),
  created_at   timestamptz not null default now(),
  created_by   text,
  expires_at   timestamptz,
  last_used_at timestamptz,
  revoked_at   timestamptz
);
comment on column admin_tokens.company_id is 'whose administrators it acts like; null: like an operator';
comment on column admin_tokens.digest is 'SHA-256 of the whole token; the token itself is stored nowhere';
create index admin_tokens_company on admin_tokens (company_id);

create trigger audit after insert or delete or update of name, company_id, digest, access, created_by, expires_at, revoked_at
  on admin_tokens for each row execute function audit_row();
create trigger audit_truncate after truncate on admin_tokens for each statement execute function audit_truncate();

-- What was answered to a request with an Idempotency-Key, so that its repetition gets the same.
create table idempotent_answers (
  token_id   uuid not null references admin_tokens on delete cascade,
  key_digest bytea not null,
  request    bytea not null,
  answer     jsonb not null,
  secret     bytea,
  created_at timestamptz not null default now(),
  primary key (token_id, key_digest)
);
comment on column idempotent_answers.request is 'SHA-256 of method, path and body: another request may not use the same key';
comment on column idempotent_answers.secret is 'what is shown once, encrypted with a key derived from the idempotency key, which is stored nowhere; removed after a minute';
create index idempotent_answers_age on idempotent_answers (created_at);

alter table admin_tokens enable row level security;
create policy own on admin_tokens using (is_visible(company_id));
insert into tenant_grants (privilege) values
  ('select (id, name, company_id, access, created_at, created_by, expires_at, last_used_at, revoked_at) on admin_tokens'),
  ('insert on admin_tokens'),
  ('update (revoked_at) on admin_tokens');
select raise_tenant_wall();

-- As the other tables of a company (0036_company_end.sql): nothing is changed of one that is closed, save that its
-- tokens can be revoked; and where names and addresses are.
create trigger open_only before insert or delete or update of name, company_id, digest, access, created_by, expires_at
  on admin_tokens for each row execute function refuse_closed();
insert into personal_data (table_name, column_name, kind, word, company) values
  ('admin_tokens', 'name', 'name', 'token', 'company_id = $1'),
  ('admin_tokens', 'created_by', 'address', null, 'company_id = $1'),
  -- answers to operators tell of the company too
  ('idempotent_answers', 'answer', 'text', null, 'strpos(answer::text, $1::text) > 0 or token_id in (select id from admin_tokens where company_id = $1)'),
  ('idempotent_answers', '', 'row', null, 'strpos(answer::text, $1::text) > 0 or token_id in (select id from admin_tokens where company_id = $1)');
