-- What everything else leans on: facts of this database, and small functions without tables of their own.
-- Money is numeric and exact. A price has at most 12 decimals, so a cost (tokens * price / 1000) has at most 15, and
-- nothing is ever rounded.

create table settings (
  name  text primary key,
  value text not null
);
comment on table settings is 'facts every replica must agree on, such as billing_timezone';
insert into settings (name, value) values ('billing_timezone', 'UTC');

-- The sessions of the user that migrates, in this database. Another user of yours needs the same lines.
-- jit: statements of pages take milliseconds, and compiling one takes longer: 1.2 s instead of 0.2 s for 10,000 keys.
-- search_path: a schema that somebody names like the user stands for nothing.
do $$
begin
  execute format('alter role %I in database %I set jit = off', current_user, current_database());
  if (select reset_val from pg_settings where name = 'search_path') like '%"$user"%' then
    execute format('alter role %I in database %I set search_path = %I', current_user, current_database(), current_schema());
  end if;
exception when insufficient_privilege then
  raise notice 'jit and search_path stay as they are: % may not be changed', current_user;
end $$;

-- The calendar month of an instant in the billing time zone, as its first day.
create function billing_month(at timestamptz) returns date language sql stable set search_path from current as $$
  select date_trunc('month', at at time zone (select value from settings where name = 'billing_timezone'))::date
$$;

create function utc_text(instant timestamptz) returns text language sql stable as $$
  select to_char(instant at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')
$$;

-- Who makes a change: the setting tollgate.actor of the transaction (an e-mail address, "cli"), else the database user.
create function audit_actor() returns text language sql stable as $$
  select coalesce(nullif(current_setting('tollgate.actor', true), ''), session_user::text)
$$;

-- Whether a transaction is of the operator: it entered no company (tenant.sql), or by a person who is an operator.
create function is_operator() returns boolean language sql stable as $$
  select nullif(current_setting('tollgate.company_id', true), '') is null
    or coalesce(current_setting('tollgate.reader', true), '') = 'operator'
$$;

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% is append-only', tg_table_name using errcode = 'restrict_violation';
end $$;

-- Whether this database is spread over several servers. "tollgate database distribute" replaces it, with spend_horizon
-- and end_reservations.
create function is_distributed() returns boolean language sql immutable as 'select false';

-- Functions that set their search_path set also by what they read and print texts, constants and names: whoever calls them,
-- or changes a row that they watch, may have set a session to something else. A file that makes functions ends with it.
create function pin_settings() returns void language plpgsql set search_path from current as $$
declare
  pinned regprocedure;
begin
  for pinned in
    select oid from pg_proc where pronamespace = current_schema()::regnamespace and pg_has_role(current_user, proowner, 'MEMBER')
      and proconfig @> array['search_path=' || current_setting('search_path')] and not proconfig::text like '%bytea_output%'
  loop
    execute format('alter function %s set standard_conforming_strings = on set transform_null_equals = off set array_nulls = on
      set bytea_output = hex set datestyle = ''ISO'' set intervalstyle = postgres set timezone = ''UTC''
      set extra_float_digits = 1 set quote_all_identifiers = off', pinned);
  end loop;
end $$;
