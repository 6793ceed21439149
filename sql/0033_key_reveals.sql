-- The text of a new key for one minute, so that a form sent twice, or an answer that is reloaded, shows it again.
-- It is encrypted with a secret that the form carries and no table holds: neither these rows nor a backup of them
-- reveal a key.

create table key_reveals (
  company_id uuid not null references companies on delete cascade,
  key_id     uuid not null, -- no foreign key: others could not truncate api_keys then
  ciphertext bytea not null,
  expires_at timestamptz not null,
  primary key (company_id, key_id)
);
comment on table key_reveals is 'texts of keys created within the last minute, encrypted with a secret that is stored nowhere';

alter table key_reveals enable row level security;
create policy own on key_reveals using (is_visible(company_id));

-- keys are created and shown again behind the wall
insert into tenant_grants (privilege) values ('select, insert, delete on key_reveals');
select raise_tenant_wall();
