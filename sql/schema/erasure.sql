-- How a company ends. It is closed: its keys stop working and nothing of it is changed any more, until it is
-- reopened. Then persons may be erased: names and addresses leave every table, while the ledger, its sums and its
-- seals stay as they are. sql/PRIVACY.md describes both.

-- Whether this transaction erases persons: it has written the entry of audit_log that says so.
create function is_erasing() returns boolean language sql stable security definer set search_path from current as $$
  select exists (
    select from audit_log
    where id = nullif(current_setting('tollgate.erasure', true), '')::bigint and action = 'erase' and at = now())
$$;

-- Nothing of a closed company is changed, by whatever program. A later table of a company gets the same trigger.
create function refuse_closed() returns trigger language plpgsql security definer set search_path from current as $$
declare
  closed timestamptz;
begin
  if tg_table_name = 'companies' then closed := old.closed_at;
  else select c.closed_at into closed from companies c where c.id in (old.company_id, new.company_id) and c.closed_at is not null;
  end if;
  if closed is not null and not is_erasing() then
    raise exception 'The company was closed on % UTC, and nothing of it can be changed.', to_char(closed at time zone 'UTC', 'YYYY-MM-DD HH24:MI')
      using errcode = 'restrict_violation', constraint = 'company_is_open';
  end if;
  return coalesce(new, old);
end $$;
create trigger open_only before update on companies for each row
  when (old.closed_at is not null and new.closed_at is not null) execute function refuse_closed();
create trigger open_only before insert or update or delete on models for each row execute function refuse_closed();
create trigger open_only before insert or delete or update of input, cache_read, cache_write, cache_write_1h, audio_input, image_input, output, reasoning, audio_output, image_output, search_unit, request, rates on model_prices for each row execute function refuse_closed();
create trigger open_only before insert or delete or update of factor on company_price_factors for each row execute function refuse_closed();
create trigger open_only before insert or update or delete on assistants for each row execute function refuse_closed();
create trigger open_only before insert or update or delete on invitations for each row execute function refuse_closed();
create trigger open_only before insert or update or delete on oidc_groups for each row execute function refuse_closed();
-- readers of alerts of a closed company may still say that they want none
create trigger open_only before insert or update on alert_receivers for each row execute function refuse_closed();
create trigger open_only before insert or update or delete on cost_center_budgets for each row execute function refuse_closed();
-- people of a closed company may still sign in and change their passwords
create trigger open_only before insert or delete or update of email, company_id, role, oidc_group on users
  for each row execute function refuse_closed();
-- not last_used_at: calls that were in flight end and are booked
create trigger open_only before insert or delete or update of company_id, name, digest, prefix, scopes, created_by, expires_at,
    revoked_at, paused_at, pause_reason, requests_per_minute, tokens_per_minute, max_concurrent, allowed_model_slugs, monthly_budget_eur, daily_budget_eur, allowed_cidrs, end_users, end_user_budget_eur
  on api_keys for each row execute function refuse_closed();
-- not last_seen, for the same reason
create trigger open_only before insert or delete or update of id, company_id, name, monthly_budget_eur on end_users for each row execute function refuse_closed();
-- its tokens can be revoked
create trigger open_only before insert or delete or update of name, company_id, digest, access, created_by, expires_at
  on admin_tokens for each row execute function refuse_closed();
-- no open_only on events: a company that was closed still has some, such as its last statement

-- Where persons are. A later file that adds such a column adds a row.
create table personal_data (
  table_name  text not null,
  column_name text not null,
  kind        text not null check (kind in ('address', 'name', 'text', 'row')),
  word        text,
  company     text not null default 'company_id = $1',
  primary key (table_name, column_name)
);
comment on table personal_data is 'columns that hold names and addresses, and what an erasure does with them';
comment on column personal_data.kind is 'address: of a person, or how else an actor is named; becomes a pseudonym; name: becomes the word and the first 8 characters of the row''s id; text: becomes null; row (column_name is empty): the row is deleted';
comment on column personal_data.company is 'condition for the rows of company $1';

insert into personal_data (table_name, column_name, kind, word) values
  ('api_keys', 'name', 'name', 'key'),
  ('api_keys', 'created_by', 'address', null),
  ('api_keys', 'paused_by', 'address', null),
  ('api_keys', 'pause_reason', 'text', null),
  ('api_keys', 'allowed_cidrs', 'text', null),
  ('end_users', 'name', 'text', null), -- the row stays, so that the ids in the ledger have something to refer to
  ('assistants', 'name', 'name', 'assistant'),
  ('assistants', 'system_prompt', 'text', null),
  ('assistants', '', 'row', null),
  ('model_prices', 'changed_by', 'address', null),
  ('model_cost_prices', 'changed_by', 'address', null),
  ('company_price_factors', 'changed_by', 'address', null),
  ('users', 'email', 'address', null),
  ('users', 'oidc_group', 'text', null),
  ('users', '', 'row', null),
  ('oidc_groups', 'name', 'name', 'group'),
  ('oidc_groups', '', 'row', null),
  ('invitations', 'email', 'address', null),
  ('invitations', 'created_by', 'address', null),
  ('invitations', '', 'row', null),
  ('alert_receivers', 'email', 'address', null),
  ('alert_receivers', 'created_by', 'address', null),
  ('alert_receivers', '', 'row', null),
  ('cost_center_budgets', '', 'row', null), -- in the ledger the same name stays
  ('admin_tokens', 'name', 'name', 'token'),
  ('admin_tokens', 'created_by', 'address', null),
  ('events', 'actor', 'address', null),
  ('request_trail', 'asked', 'text', null),
  ('request_trail', 'param', 'text', null),
  ('request_trail', 'upstream_reason', 'text', null),
  ('statements', 'opened_by', 'address', null),
  ('audit_log', 'actor', 'address', null);
insert into personal_data (table_name, column_name, kind, word, company) values
  ('companies', 'name', 'name', 'company', 'id = $1'),
  ('companies', 'billing_name', 'text', null, 'id = $1'),
  ('companies', 'billing_address', 'text', null, 'id = $1'),
  ('companies', 'vat_id', 'text', null, 'id = $1'),
  ('companies', 'customer_number', 'text', null, 'id = $1'),
  ('companies', 'paused_by', 'address', null, 'id = $1'),
  ('companies', 'pause_reason', 'text', null, 'id = $1'),
  ('event_deliveries', 'recipient', 'address', null, 'event_id in (select id from events where company_id = $1)'),
  ('event_deliveries', 'last_error', 'text', null, 'event_id in (select id from events where company_id = $1)'),
  -- answers to operators tell of the company too
  ('idempotent_answers', 'answer', 'text', null, 'strpos(answer::text, $1::text) > 0 or token_id in (select id from admin_tokens where company_id = $1)'),
  ('idempotent_answers', '', 'row', null, 'strpos(answer::text, $1::text) > 0 or token_id in (select id from admin_tokens where company_id = $1)');

-- Opens an erasure: from here to the end of the transaction is_erasing() is true. Returns the id of its entry.
create function begin_erasure(subject text, subject_id uuid, company uuid) returns bigint
language plpgsql set search_path from current as $$
declare
  entry bigint;
begin
  insert into audit_log (actor, action, subject, subject_id, company_id)
  values (audit_actor(), 'erase', begin_erasure.subject, begin_erasure.subject_id, begin_erasure.company) returning id into entry;
  perform set_config('tollgate.erasure', entry::text, true);
  return entry;
end $$;

-- Closes it: the entry says how much was erased.
create function end_erasure(entry bigint, erased jsonb) returns void language plpgsql set search_path from current as $$
begin
  update audit_log set after = erased where id = entry;
  perform set_config('tollgate.erasure', '', true);
end $$;

-- One statement of an erasure; returns how many rows it reached, of the audit log those from before the erasure. With dry it
-- only counts them. No assignment: the rows are deleted. In its parts $1 is the company and $2 the pseudonyms by address.
create function erase_rows(relation text, assignment text, condition text, company uuid, persons jsonb, dry boolean)
returns bigint language plpgsql set search_path from current as $$
declare
  reached bigint;
begin
  if dry then
    execute format('select count(*) from %I t where %s', relation, condition) into reached using company, persons;
  elsif relation = 'audit_log' then
    execute format('with erased as (update audit_log t set %s where %s returning t.id)
      select count(*) from erased where id < current_setting(''tollgate.erasure'')::bigint', assignment, condition)
      into reached using company, persons;
  else
    execute case when assignment is null then format('delete from %I t where %s', relation, condition)
      else format('update %I t set %s where %s', relation, assignment, condition) end using company, persons;
    get diagnostics reached = row_count;
  end if;
  return reached;
end $$;

create function new_pseudonym() returns text language sql as $$
  select 'person-' || left(replace(gen_random_uuid()::text, '-', ''), 12)
$$;

-- Erases the names and addresses of a closed company and its people; a second time it finds nothing. Pseudonyms
-- are random: what ties them to addresses ends with the transaction. Operators belong to no company and stay. Who belongs
-- to another company by now is erased too, and keeps the name in the entries of other companies.
-- Returns {"persons": …, "rows": {table: …}}; with dry nothing is changed.
create function erase_company(company uuid, dry boolean) returns jsonb language plpgsql set search_path from current as $$
declare
  item    record;
  entry   bigint;
  fresh   text[];
  known   text[] := '{}';
  persons jsonb;
  reached bigint;
  counts  jsonb := '{}';
begin
  perform from companies c where c.id = erase_company.company and c.closed_at is not null for update;
  if not found then
    raise exception 'only a closed company can be erased' using errcode = 'restrict_violation';
  end if;

  -- everybody there is, by address or by another name, in the tables and in what the audit log tells of their rows
  for item in select * from personal_data p where p.kind = 'address' loop
    execute format('select array_agg(distinct %1$I) from %2$I where %3$s',
      item.column_name, item.table_name, item.company) into fresh using company;
    known := known || fresh;
    execute 'select array_agg(distinct v ->> $2) from audit_log a, lateral (values (before), (after)) as x (v)
      where a.company_id = $1 and a.subject = $3'
      into fresh using company, item.column_name, item.table_name;
    known := known || fresh;
  end loop;
  select coalesce(jsonb_object_agg(k.address, f.pseudonym), '{}') into persons
  from (select distinct unnest(known) as address) k
  join (select folded, new_pseudonym() as pseudonym from (select distinct lower(a) as folded from unnest(known) as a) d) f
    on f.folded = lower(k.address)
  -- not who belongs to the service: the command line, roles of the database, operators, and their tokens
  where k.address not in ('', 'cli', 'make run') and k.address !~ '^person-[0-9a-f]{12}$'
    and not exists (select from pg_roles r where r.rolname = k.address)
    and not exists (select from users u where u.email = f.folded and u.company_id is null)
    and not exists (select from admin_tokens a where 'token ' || a.name = k.address and a.company_id is null);

  if not dry then entry := begin_erasure('companies', company, company); end if;
  for item in
    select p.table_name, p.company, bool_or(p.kind = 'row') as is_row,
      string_agg(format(case p.kind
        when 'address' then '%1$I = coalesce($2 ->> t.%1$I, t.%1$I)'
        when 'name' then '%1$I = %2$L || left(t.id::text, 8)'
        when 'text' then '%1$I = null' end, p.column_name, p.word || '-'), ', ') filter (where p.kind <> 'row') as assignment,
      string_agg(format(case p.kind
        when 'address' then '$2 ? t.%1$I'
        when 'name' then 't.%1$I <> %2$L || left(t.id::text, 8)'
        when 'text' then 't.%1$I is not null' end, p.column_name, p.word || '-'), ' or ') filter (where p.kind <> 'row') as condition
    from personal_data p where p.table_name <> 'audit_log'
    group by p.table_name, p.company
    order by p.table_name = 'companies', p.table_name = 'oidc_groups', p.table_name -- its rows would take users with them, uncounted
  loop
    reached := erase_rows(item.table_name, case when not item.is_row then item.assignment end,
      case when item.is_row then item.company else format('(%s) and (%s)', item.company, item.condition) end, company, persons, dry);
    counts := counts || jsonb_build_object(item.table_name, reached);
  end loop;
  if not dry then update companies c set erased_at = now() where c.id = company and c.erased_at is null; end if;

  -- the log last: the statements above have left entries too
  reached := 0;
  for item in
    select p.table_name, string_agg(format(case p.kind
        when 'address' then '(case when $2 ? (%%1$s ->> %1$L) then jsonb_build_object(%1$L, $2 -> (%%1$s ->> %1$L)) else ''{}'' end)'
        when 'name' then '(case when %%1$s ? %1$L then jsonb_build_object(%1$L, %2$L || left(%%1$s ->> ''id'', 8)) else ''{}'' end)'
        when 'text' then '(case when %%1$s ? %1$L then jsonb_build_object(%1$L, null) else ''{}'' end)'
      end, p.column_name, p.word || '-'), ' || ') as changes
    from personal_data p where p.kind <> 'row' and p.table_name <> 'audit_log' group by p.table_name
  loop
    reached := reached + erase_rows('audit_log',
      format('actor = coalesce($2 ->> actor, actor), before = before || %s, after = after || %s',
        format(item.changes, 'before'), format(item.changes, 'after')),
      format('company_id = $1 and subject = %L and action <> ''erase'' and ($2 ? actor or before <> before || %s or after <> after || %s)',
        item.table_name, format(item.changes, 'before'), format(item.changes, 'after')),
      company, persons, dry);
  end loop;
  -- a dry run counts entries of the subjects above once
  reached := reached + erase_rows('audit_log', 'actor = $2 ->> actor',
    '$2 ? actor and (company_id = $1 or actor like ''%@%''
      and not exists (select from users u where u.email = lower(actor) and u.company_id is distinct from $1))' || case when dry
    then ' and not (company_id is not distinct from $1 and subject in (select table_name from personal_data))' else '' end,
    company, persons, dry);
  counts := jsonb_build_object('persons', (select count(distinct value) from jsonb_each(persons)),
    'rows', counts || jsonb_build_object('audit_log', reached));
  if not dry then perform end_erasure(entry, counts); end if;
  return counts;
end $$;

-- Erases one end user: the name goes, and who comes with it again is somebody new. A second time it does nothing.
create function erase_end_user(end_user uuid) returns void language plpgsql set search_path from current as $$
declare
  company uuid;
  entry   bigint;
begin
  select u.company_id into company from end_users u where u.id = end_user and u.name is not null for update;
  if not found then return; end if;
  entry := begin_erasure('end_users', end_user, company);
  update end_users u set name = null where u.id = end_user;
  perform end_erasure(entry, '{"persons": 1, "rows": {"end_users": 1}}');
end $$;

-- A row in JSON without an address: by one pattern in members that hold addresses, by the other in texts.
create function replaced(entry jsonb, alone text, within text, pseudonym text) returns jsonb
language sql stable set search_path from current as $$
  select case when entry is not null then (
    select coalesce(jsonb_object_agg(key, case when jsonb_typeof(value) = 'string' then to_jsonb(regexp_replace(value #>> '{}',
      case when key in (select column_name from personal_data where kind = 'address') then alone else within end, pseudonym, 'gi'))
      else value end), '{}')
    from jsonb_each(entry)) end
$$;

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
