-- Who is signed in to the administration area. The browser holds a random token, this
-- table its SHA-256 digest: a copy of the table signs nobody in.

create table sessions (
  digest       bytea primary key check (octet_length(digest) = 32),
  user_id      uuid not null references users on delete cascade,
  created_at   timestamptz not null default now(),
  last_seen_at timestamptz not null default now()
);
create index sessions_user on sessions (user_id);
