-- Who belongs to another company by now is erased from a company that ended too: only operators stay in its rows.

-- As in 0036_company_end.sql, but such a person is erased too, and keeps the name in the entries of other companies.
create or replace function erase_company(company uuid, dry boolean) returns jsonb language plpgsql set search_path from current as $$
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
    group by p.table_name, p.company order by p.table_name = 'companies', p.table_name
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
