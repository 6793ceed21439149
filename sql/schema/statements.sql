-- Statements: a month of a company is closed into a numbered document. Its digest covers its content, the digest of
-- the statement before it, and a checkpoint of the ledger's seals. Rows that come later are corrections on the next one.

-- No foreign keys: a statement outlives what it speaks of. No open_only either: the last months of a closed company
-- are closed after it. No names: a statement has ids, so an erasure of persons leaves it as it is.
create table statements (
  company_id    uuid not null,
  number        bigint not null check (number > 0),
  billing_month date not null check (extract(day from billing_month) = 1),
  closed_at     timestamptz not null default now(),
  requests      bigint not null,
  cost_eur      numeric not null,
  corrections   bigint not null,
  total_eur     numeric not null,
  content       text not null,
  previous      bytea not null,
  digest        bytea not null,
  opened_at     timestamptz,
  opened_by     text,
  primary key (company_id, number),
  unique (company_id, billing_month)
);
create index statements_months on statements (billing_month);
comment on table statements is 'closed months; numbers of a company have no gap';
comment on column statements.requests is 'of the month, like cost_eur; corrections counts late calls of earlier months; total_eur is of both';
comment on column statements.content is 'the document as JSON; digest is the SHA-256 of these bytes';
comment on column statements.opened_at is 'when one of its owners first opened or downloaded it, and who: opened_by; null: nobody did';
comment on column statements.previous is 'digest of the company''s statement before; empty for its first';

create table statement_rows (
  company_id    uuid not null,
  number        bigint not null,
  billing_month date not null,
  part          integer not null,
  request_ids   uuid[] not null,
  row_digests   bytea not null,
  primary key (company_id, number, billing_month, part)
);
comment on table statement_rows is 'which ledger rows a statement covers: those of its month, and late ones of earlier months';
comment on column statement_rows.row_digests is '16 bytes each, in the order of request_ids, as in ledger_seals';
alter table statement_rows alter column request_ids set storage external; -- random bytes do not compress
alter table statement_rows alter column row_digests set storage external;

create table late_usage (
  company_id    uuid not null,
  billing_month date not null,
  request_id    uuid not null,
  arrived_at    timestamptz not null default now(),
  primary key (company_id, billing_month, request_id)
);
comment on table late_usage is 'ledger rows that came after their month was closed, until the next statement of the company takes them';

-- of rows: an erasure deletes none
create trigger append_only before truncate on statements for each statement execute function refuse_change();
create trigger append_only_facts before delete or update of company_id, number, billing_month, closed_at, requests, cost_eur, corrections,
  total_eur, content, previous, digest on statements for each row execute function refuse_change();
create trigger opened_once before update of opened_at on statements for each row when (old.opened_at is not null) execute function refuse_change();
create trigger append_only before update or delete or truncate on statement_rows for each statement execute function refuse_change();
create trigger append_only before update or truncate on late_usage for each statement execute function refuse_change();

-- The entry in the audit log, and the event for webhooks.
create function announce_statement() returns trigger language plpgsql security definer set search_path from current as $$
declare
  told jsonb := jsonb_build_object('number', new.number, 'month', to_char(new.billing_month, 'YYYY-MM'), 'requests', new.requests,
    'corrections', new.corrections, 'total_eur', trim_scale(new.total_eur)::text, 'digest', encode(new.digest, 'hex'));
begin
  insert into audit_log (actor, action, subject, company_id, after) values (audit_actor(), 'insert', tg_table_name, new.company_id, told);
  if exists (select from companies c where c.id = new.company_id) then
    perform record_event(new.company_id, 'statement.closed', new.number::text, jsonb_build_object('statement', told));
  end if;
  return null;
end $$;
create trigger announce after insert on statements for each row execute function announce_statement();

create function statement_rows_digest(company uuid, statement bigint) returns bytea
language sql stable set search_path from current as $$
  select sha256(coalesce(string_agg(sha256(row_digests || convert_to(json_build_array(billing_month, part, request_ids)::text, 'UTF8')),
    ''::bytea order by billing_month, part), '')) from statement_rows r where r.company_id = company and r.number = statement
$$;

-- Writes down which rows a statement covers, in parts of 10,000. Returns nothing: their digest is statement_rows_digest.
create function keep_statement_rows(company uuid, statement bigint, month date, requests uuid[]) returns void
language plpgsql set search_path from current as $$
begin
  insert into statement_rows (company_id, number, billing_month, part, request_ids, row_digests)
  select company, statement, month, part, array_agg(request_id order by request_id), string_agg(digest, ''::bytea order by request_id)
  from (
    select u.request_id, usage_digest(u.billing_month, u.request_id, u.company_id, u.api_key_id, u.model_slug, u.upstream_model,
      u.endpoint, u.prompt_tokens, u.completion_tokens, u.cost_eur, u.price_input, u.price_output, u.usage_source, u.outcome,
      u.occurred_at, u.cost_center, u.price_cache_read, u.price_cache_write, u.cached_tokens, u.cache_write_tokens, u.end_user_id, u.rate, u.parts) as digest,
      (row_number() over (order by u.request_id) - 1)::integer / 10000 as part
    from api_usage u where u.billing_month = month and u.company_id = company and (requests is null or u.request_id = any(requests))
  ) as numbered group by part;
end $$;

-- Which calls of a month came after its statement: how many each later one corrects; null: none yet. Of a statement with
-- few late calls this is one look at an index.
create function later_calls(company uuid, statement bigint, month date) returns json language plpgsql stable set search_path from current as $$
begin
  return (
    with moved as materialized (
      select r.number as statement, unnest(r.request_ids) as request_id from statement_rows r
      where r.company_id = company and r.billing_month = month and r.number <> later_calls.statement
    ),
    waiting as materialized (select request_id from late_usage l where l.company_id = company and l.billing_month = month),
    calls as materialized (
      select request_id, cost_eur from api_usage u where u.company_id = company and u.billing_month = month
        and request_id = any(array(select request_id from moved union all select request_id from waiting))
    )
    select coalesce(json_agg(json_build_object('statement', l.statement, 'requests', requests, 'cost_eur', eur) order by l.statement nulls last), '[]')
    from (
      select l.statement, count(*) as requests, trim_scale(sum(c.cost_eur))::text as eur
      from (select m.statement, m.request_id from moved m union all select null, w.request_id from waiting w) as l join calls c using (request_id)
      group by 1) as l);
end $$;
