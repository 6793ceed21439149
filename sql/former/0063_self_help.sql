-- Owners and people help themselves: a second factor, the list of one's sessions, erasure that somebody asks for, and who
-- is told of budgets.

alter table users
  add column second_factor_since timestamptz,
  add column recovery_codes integer not null default 0 check (recovery_codes >= 0),
  add column erasure_asked_at timestamptz;
alter table sessions
  add column id uuid not null default gen_random_uuid() unique,
  add column browser text,
  add column second_factor text check (second_factor in ('code', 'provider'));
comment on column users.second_factor_since is 'since when signing in with the password asks for a code too; null: it does not';
comment on column users.recovery_codes is 'how many are left; they are in second_factors, and what changes here is in the audit log';
comment on column users.erasure_asked_at is 'when the person asked to be erased; an owner, or an operator, does it';
comment on column sessions.browser is 'such as "Firefox on Windows", for its user; neither the address nor the whole user-agent is kept';
comment on column sessions.second_factor is 'code: of an app, or for recovery; provider: signed in by OpenID Connect; null: the password alone';

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

drop trigger audit on users;
create trigger audit after insert or delete or update of id, email, company_id, role, password_hash, created_at, oidc_group,
    second_factor_since, recovery_codes, erasure_asked_at
  on users for each row execute function audit_row();

alter table budget_alerts drop constraint budget_alerts_threshold_check;
alter table budget_alerts add constraint budget_alerts_threshold_check check (threshold ~ '^([1-9][0-9]?|100|forecast)$');

-- Who is told of them by e-mail, as the owners of a company want it. A line without an address is for owners and
-- administrators without a line of their own; where it is missing too, they are told at 50, 80 and 100 percent, and by forecast.
create table alert_receivers (
  id           uuid primary key default gen_random_uuid(),
  company_id   uuid not null references companies on delete cascade,
  email        text check (email <> '' and email = lower(email)),
  percents     smallint[] not null check (1 <= all (percents) and 100 >= all (percents) and cardinality(percents) <= 10),
  forecast     boolean not null,
  created_at   timestamptz not null default now(),
  created_by   text,
  digest       bytea unique check (octet_length(digest) = 32),
  expires_at   timestamptz,
  confirmed_at timestamptz
);
comment on column alert_receivers.email is 'of one of the company''s people, or of anybody who confirmed it; null: owners and administrators without a line of their own';
comment on column alert_receivers.percents is 'parts of the budget at which they are told';
comment on column alert_receivers.forecast is 'whether they are told that the month will pass the budget';
comment on column alert_receivers.digest is 'SHA-256 of the random part of the link by which an address outside the company confirms; null: none waits';
comment on column alert_receivers.confirmed_at is 'when the reader of an address outside the company agreed; null: that did not happen';
create unique index alert_receivers_once on alert_receivers (company_id, coalesce(email, ''));

-- Who of a company is told, and of what. An address outside the company that was not confirmed is told nothing.
create function alert_readers(company uuid) returns table (email text, percents smallint[], forecast boolean, receiver uuid)
language sql stable set search_path from current as $$
  select r.email, r.percents, r.forecast, r.id from alert_receivers r
  where r.company_id = alert_readers.company and r.email is not null
    and (r.confirmed_at is not null or exists (select from users u where u.email = r.email and u.company_id = r.company_id))
  union all
  select u.email, coalesce(g.percents, '{50,80,100}'), coalesce(g.forecast, true), null
  from users u left join alert_receivers g on g.company_id = u.company_id and g.email is null
  where u.company_id = alert_readers.company and u.role in ('owner', 'administrator')
    and not exists (select from alert_receivers r where r.company_id = u.company_id and r.email = u.email)
$$;

create trigger audit after insert or update or delete on alert_receivers for each row execute function audit_row();
create trigger audit_truncate after truncate on alert_receivers for each statement execute function audit_truncate();
create trigger open_only before insert or update on alert_receivers for each row execute function refuse_closed();
alter table alert_receivers enable row level security;
create policy own on alert_receivers using (is_visible(company_id));
insert into personal_data (table_name, column_name, kind, word) values
  ('alert_receivers', 'email', 'address', null),
  ('alert_receivers', 'created_by', 'address', null),
  ('alert_receivers', '', 'row', null);
insert into tenant_grants (privilege) values
  ('select (second_factor_since, recovery_codes, erasure_asked_at) on users'),
  ('select (id, company_id, email, percents, forecast, created_at, created_by, expires_at, confirmed_at), insert, delete on alert_receivers'),
  ('update (percents, forecast, digest, expires_at) on alert_receivers');
select raise_tenant_wall();

drop function erase_person(text, boolean);
-- Erases one person, of whatever company or of none: the address leaves every table and every entry of the audit
-- log, in other texts too, and the person can no longer sign in. An address that goes on to the left or right is another
-- one. Rows are deleted where the whole address is the person's, so an invitation that the person made for somebody else
-- stays. Of a company: only in its rows and entries. Returns what erase_company returns.
create function erase_person(address text, dry boolean, of_company uuid default null) returns jsonb language plpgsql set search_path from current as $$
declare
  folded    constant text := lower(address);
  in_json   constant text := substr(to_jsonb(folded)::text, 2, length(to_jsonb(folded)::text) - 2);
  -- a letter or digit of any alphabet: no control character, space or punctuation
  letter    constant text := '[^\u0001-/:-@[-`{-\u00bf\u2000-\u206f\u3000-\u303f]';
  escaped   constant text := regexp_replace(address, '([^[:alnum:]])', '\\\1', 'g');
  -- 'ann@x.example' and (ann@x.example). are the person, j.ann@x.example, o'ann@x.example and ann@x.example.org are not
  within    constant text := format('(?<![._%%+-])(?<!%1$s[!#$&''*/=?^`{|}~\\]?)%2$s(?!(?:\.|[_-]*)%1$s)', letter, escaped);
  -- in a value that is one address as a whole (readEmail in src/domain/field.ts), nothing but that one
  alone     constant text := format('(?<!^[^[:space:]@<>"]+)%s(?![^[:space:]@<>"]+$)', within);
  -- searched for first, because the patterns are slow
  found     constant text := 'case when strpos(lower(t.%1$I), %2$L) > 0 then t.%1$I ~* %3$L else false end';
  pseudonym constant text := new_pseudonym();
  person    users;
  item      record;
  entry     bigint;
  reached   bigint;
  counts    jsonb := '{}';
begin
  select * into person from users u where u.email = folded for update;
  if not dry then entry := begin_erasure('users', person.id, person.company_id); end if;
  for item in
    select p.table_name, case when of_company is null then '' else format('(%s) and ', min(p.company)) end as within_company,
      -- rows that are of nobody else, and alerts that would still be sent
      coalesce(string_agg(case
        when a.atttypid = 'jsonb'::regtype then format('strpos(lower(t.%1$I::text), %2$L) > 0 and exists (
          select from jsonb_path_query(t.%1$I, ''strict $.** ? (@.type() == "string")'') v where v #>> ''{}'' ~* %3$L)', p.column_name, in_json, within)
        when p.column_name = 'email' then format('lower(t.email) = %L', folded)
        when p.column_name = 'recipient' then format('t.state = ''pending'' and lower(t.recipient) = %L', folded) end, ' or '), 'false') as own,
      string_agg(format('%1$I = regexp_replace(t.%1$I, %2$L, %3$L, ''gi'')', p.column_name, s.pattern, pseudonym), ', ') filter (where s.is_text) as assignment,
      string_agg(format(found, p.column_name, folded, s.pattern), ' or ') filter (where s.is_text) as condition
    from personal_data p
    join pg_attribute a on a.attrelid = to_regclass(quote_ident(p.table_name)) and a.attname = p.column_name
      and a.atttypid in ('text'::regtype, 'jsonb'::regtype)
    cross join lateral (select case p.kind when 'address' then alone else within end as pattern,
      a.atttypid = 'text'::regtype and p.column_name <> 'email' as is_text) s
    where p.table_name <> 'audit_log' group by p.table_name order by p.table_name
  loop
    reached := erase_rows(item.table_name, null, format('%s(%s)', item.within_company, item.own), of_company, null, dry);
    if item.assignment is not null then
      reached := reached + erase_rows(item.table_name, item.assignment,
        format('%s(%s) and (%s) is not true', item.within_company, item.condition, item.own), of_company, null, dry);
    end if;
    counts := counts || jsonb_build_object(item.table_name, reached);
  end loop;
  reached := erase_rows('audit_log',
    format('actor = regexp_replace(actor, %1$L, %3$L, ''gi''), before = replaced(before, %1$L, %2$L, %3$L), after = replaced(after, %1$L, %2$L, %3$L)',
      alone, within, pseudonym),
    case when of_company is null then '(' else 'company_id = $1 and (' end
      || format(found, 'actor', folded, alone) || format(' or (strpos(lower(before::text), %4$L) > 0 and before <> replaced(before, %1$L, %2$L, %3$L))
      or (strpos(lower(after::text), %4$L) > 0 and after <> replaced(after, %1$L, %2$L, %3$L)))', alone, within, pseudonym, in_json),
    of_company, null, dry);
  counts := jsonb_build_object('persons', (person.id is not null)::integer, 'rows', counts || jsonb_build_object('audit_log', reached));
  if not dry then perform end_erasure(entry, counts || jsonb_build_object('pseudonym', pseudonym)); end if;
  return counts;
end $$;
