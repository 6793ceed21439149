-- People of the administration area and their sessions, groups, invitations, and tokens of programs.

-- What a group of the identity provider gives whoever signs in with it: a role in a company, or that of an operator.
create table oidc_groups (
  id         uuid primary key default gen_random_uuid(),
  name       text not null check (name <> '' and length(name) <= 200),
  company_id uuid references companies on delete cascade,
  role       text not null check (role in ('operator', 'owner', 'administrator', 'member')),
  created_at timestamptz not null default now(),
  unique (name),
  check ((role = 'operator') = (company_id is null))
);
comment on column oidc_groups.name is 'as the claim of the provider has it, compared byte by byte';
create index oidc_groups_company on oidc_groups (company_id);

create table users (
  id                  uuid primary key default gen_random_uuid(),
  email               text not null check (email <> '' and email = lower(email)),
  company_id          uuid references companies on delete cascade,
  role                text not null check (role in ('operator', 'owner', 'administrator', 'member')),
  password_hash       text,
  created_at          timestamptz not null default now(),
  last_sign_in_at     timestamptz,
  oidc_group          text references oidc_groups (name) on update cascade on delete cascade,
  language            text constraint users_language check (language ~ '^[a-z]{2,3}$'),
  second_factor_since timestamptz,
  recovery_codes      integer not null default 0 check (recovery_codes >= 0),
  erasure_asked_at    timestamptz,
  saved_views         jsonb not null default '[]',
  page_language       text check (page_language ~ '^[a-z]{2,3}$'),
  reset_digest        bytea unique check (octet_length(reset_digest) = 32),
  reset_asked_at      timestamptz,
  monthly_summary     boolean,
  unique (email),
  check ((role = 'operator') = (company_id is null)),
  -- a password would outlive the group
  constraint users_by_group check (oidc_group is null or password_hash is null)
);
comment on column users.second_factor_since is 'since when signing in with the password asks for a code too; null: it does not';
comment on column users.recovery_codes is 'how many are left; they are in second_factors, and what changes here is in the audit log';
comment on column users.erasure_asked_at is 'when the person asked to be erased; an owner, or an operator, does it';
comment on column users.language is 'of pages and e-mails, as the person chose; null: that of the company';
comment on column users.saved_views is 'questions of usage that the person keeps: [{"name": "Marketing, 7 days", "address": "/companies/…/usage?range=7d"}]';
comment on column users.page_language is 'of the pages that the person first signed in on; e-mails are in it where neither the person nor the company chose a language; null: of an operator, or nobody signed in';
comment on column users.reset_digest is 'SHA-256 of the random part of the link by which the person chooses a new password, for an hour; null: there is none';
comment on column users.reset_asked_at is 'when the link was asked for, by whoever knows the address; null: not since the password was set';
comment on column users.monthly_summary is 'whether the person gets the summary of each closed month by e-mail; null: owners do';
comment on column users.oidc_group is 'the group of the identity provider that gives the role; null: somebody gave it by hand';
create index users_company on users (company_id);
create index users_oidc_group on users (oidc_group) where oidc_group is not null;

-- What a group gives is changed for the people who have it, at once. Who had a role in another company signs in again.
create function change_people_of_group() returns trigger language plpgsql set search_path from current as $$
begin
  if new.company_id is distinct from old.company_id then
    delete from users where oidc_group in (old.name, new.name);
  else
    update users set role = new.role where oidc_group in (old.name, new.name);
  end if;
  return null;
end $$;
create trigger change_people after update of company_id, role on oidc_groups
  for each row when (old.company_id is distinct from new.company_id or old.role <> new.role)
  execute function change_people_of_group();

-- The browser holds a random token, this table its SHA-256 digest: a copy of the table signs nobody in.
create table sessions (
  digest        bytea primary key check (octet_length(digest) = 32),
  user_id       uuid not null references users on delete cascade,
  created_at    timestamptz not null default now(),
  last_seen_at  timestamptz not null default now(),
  id            uuid not null default gen_random_uuid(),
  browser       text,
  second_factor text check (second_factor in ('code', 'provider')),
  unique (id)
);
comment on column sessions.browser is 'such as "Firefox on Windows", for its user; neither the address nor the whole user-agent is kept';
comment on column sessions.second_factor is 'code: of an app, or for recovery; provider: signed in by OpenID Connect; null: the password alone';
create index sessions_user on sessions (user_id);

-- The second factor of whoever has one, or is setting one up. Secrets are encrypted with a key that no table has.
create table second_factors (
  user_id      uuid primary key references users on delete cascade,
  secret       bytea,
  pending      bytea,
  last_step    bigint not null default 0,
  recovery     bytea[] not null default '{}',
  wrong        integer not null default 0,
  closed_until timestamptz
);
comment on column second_factors.secret is 'that codes are computed from, encrypted; null: not set up yet';
comment on column second_factors.pending is 'the next one, encrypted, until its first code is given; null: none';
comment on column second_factors.last_step is 'the thirty seconds, since 1970, of the last code that was taken: neither it nor an earlier one is taken again';
comment on column second_factors.recovery is 'SHA-256 of each recovery code that was not used';
comment on column second_factors.wrong is 'wrong codes since the last right one';
comment on column second_factors.closed_until is 'until when no code is taken, after too many wrong ones';

-- Open invitations. Accepting or withdrawing one deletes its row. Of its link only the digest is kept.
create table invitations (
  id         uuid primary key default gen_random_uuid(),
  company_id uuid not null references companies on delete cascade,
  email      text not null check (email <> '' and email = lower(email)),
  role       text not null check (role in ('owner', 'administrator', 'member')),
  digest     bytea not null unique check (octet_length(digest) = 32),
  created_at timestamptz not null default now(),
  created_by text,
  expires_at timestamptz not null,
  constraint invitations_once unique (company_id, email)
);
comment on column invitations.digest is 'SHA-256 of the random part of the link; the link itself is stored nowhere';

-- Whether an address has an account, of whatever company: the tenant role does not see those of others, and
-- learns this one fact only. It runs as its owner, whom row-level security does not hold back.
create function has_account(address text) returns boolean language sql stable security definer set search_path from current as $$
  select exists (select from users where email = address)
$$;

-- Tokens by which programs administer over HTTP.
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
