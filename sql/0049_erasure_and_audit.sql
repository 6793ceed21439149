-- An erasure of a person reaches that address, and no longer one that ends or begins with it. The audit log keeps what
-- an update changed, and no longer each time what is long and stayed as it was.

-- As in 0003_audit.sql, but an update leaves out long values that it did not change, other than those that say which row
-- it is. The setting tollgate.audited has the bytes of all entries of the transaction, for the limit of a company's changes.
create or replace function audit_row() returns trigger language plpgsql set search_path from current as $$
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
  before := before - 'last_used_at';
  after  := after - 'last_used_at';
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
comment on table audit_log is 'append-only; secrets (digests, password hashes) are never in it; an update leaves out values of more than 200 characters that it did not change';

-- A row in JSON without an address: by one pattern in members that hold addresses, by the other in texts.
drop function replaced(jsonb, text, text);
create function replaced(entry jsonb, alone text, within text, pseudonym text) returns jsonb
language sql stable set search_path from current as $$
  select case when entry is not null then (
    select coalesce(jsonb_object_agg(key, case when jsonb_typeof(value) = 'string' then to_jsonb(regexp_replace(value #>> '{}',
      case when key in (select column_name from personal_data where kind = 'address') then alone else within end, pseudonym, 'gi'))
      else value end), '{}')
    from jsonb_each(entry)) end
$$;

-- As in 0036_company_end.sql, but an address that goes on to the left or right is another one. Rows are deleted where
-- the whole address is the person's, so an invitation that the person made for somebody else stays.
create or replace function erase_person(address text, dry boolean) returns jsonb language plpgsql set search_path from current as $$
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
    select p.table_name,
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
    reached := erase_rows(item.table_name, null, item.own, null, null, dry);
    if item.assignment is not null then
      reached := reached + erase_rows(item.table_name, item.assignment, format('(%s) and (%s) is not true', item.condition, item.own), null, null, dry);
    end if;
    counts := counts || jsonb_build_object(item.table_name, reached);
  end loop;
  reached := erase_rows('audit_log',
    format('actor = regexp_replace(actor, %1$L, %3$L, ''gi''), before = replaced(before, %1$L, %2$L, %3$L), after = replaced(after, %1$L, %2$L, %3$L)',
      alone, within, pseudonym),
    format(found, 'actor', folded, alone) || format(' or (strpos(lower(before::text), %4$L) > 0 and before <> replaced(before, %1$L, %2$L, %3$L))
      or (strpos(lower(after::text), %4$L) > 0 and after <> replaced(after, %1$L, %2$L, %3$L))', alone, within, pseudonym, in_json),
    null, null, dry);
  counts := jsonb_build_object('persons', (person.id is not null)::integer, 'rows', counts || jsonb_build_object('audit_log', reached));
  if not dry then perform end_erasure(entry, counts || jsonb_build_object('pseudonym', pseudonym)); end if;
  return counts;
end $$;
