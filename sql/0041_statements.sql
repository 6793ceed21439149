-- Statements: a month of a company is closed into a numbered document. Its digest covers its content, the digest of
-- the statement before it, and a checkpoint of the ledger's seals. Rows that come later are corrections on the next one.

alter table monthly_spend add column statement bigint;
comment on column monthly_spend.statement is 'number of the statement that closed this month; null: the month is open';

create function refuse_change() returns trigger language plpgsql as $$
begin
  raise exception '% is append-only', tg_table_name using errcode = 'restrict_violation';
end $$;
-- looked at only by an update that names the column, so counting rows does not pay for it
create trigger closed_once before update of statement on monthly_spend for each row
  when (old.statement is not null) execute function refuse_change();

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
  primary key (company_id, number),
  unique (company_id, billing_month)
);
comment on table statements is 'closed months; numbers of a company have no gap';
comment on column statements.requests is 'of the month, like cost_eur; corrections counts late calls of earlier months; total_eur is of both';
comment on column statements.content is 'the document as JSON; digest is the SHA-256 of these bytes';
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

create table seal_checkpoints (
  number   bigint primary key check (number > 0),
  taken_at timestamptz not null default now(),
  writers  uuid[] not null,
  numbers  bigint[] not null,
  digests  bytea not null,
  previous bytea not null,
  digest   bytea not null
);
comment on table seal_checkpoints is 'the newest seal of each writer that wrote since the checkpoint before; statements name a checkpoint';
comment on column seal_checkpoints.digests is '32 bytes each, those of the seals, in the order of writers';

create trigger append_only before update or delete or truncate on statements for each statement execute function refuse_change();
create trigger append_only before update or delete or truncate on statement_rows for each statement execute function refuse_change();
create trigger append_only before update or delete or truncate on seal_checkpoints for each statement execute function refuse_change();
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

create function seal_checkpoint_digest(checkpoint seal_checkpoints) returns bytea language sql stable as $$
  select sha256(checkpoint.previous || checkpoint.digests || convert_to(json_build_array(
    checkpoint.number, extract(epoch from checkpoint.taken_at), checkpoint.writers, checkpoint.numbers)::text, 'UTF8'))
$$;

-- Writes down what is sealed by now; a checkpoint of the last minute serves again. Reads one row for each writer there ever was.
create function checkpoint_seals() returns table (checkpoint bigint, checkpoint_digest bytea) language plpgsql set search_path from current as $$
declare
  latest seal_checkpoints;
  fresh  seal_checkpoints;
begin
  perform pg_advisory_xact_lock(hashtext('tollgate seal checkpoints'));
  select * into latest from seal_checkpoints m order by m.number desc limit 1;
  if latest.taken_at > clock_timestamp() - interval '1 minute' then
    return query select latest.number, latest.digest;
    return;
  end if;
  fresh.number := coalesce(latest.number, 0) + 1;
  fresh.taken_at := clock_timestamp();
  fresh.previous := coalesce(latest.digest, '');
  with recursive known (writer) as (
    (select s.writer from ledger_seals s order by s.writer limit 1)
    union all
    select (select s.writer from ledger_seals s where s.writer > k.writer order by s.writer limit 1) from known k where k.writer is not null
  ),
  heads as (
    select s.writer, s.number, s.digest from known k,
      lateral (select h.writer, h.number, h.digest from ledger_seals h where h.writer = k.writer order by h.number desc limit 1) s
  ),
  known_before as (
    select t.writer, max(t.number) as number from seal_checkpoints m, unnest(m.writers, m.numbers) as t (writer, number) group by 1
  )
  select coalesce(array_agg(h.writer order by h.writer), '{}'), coalesce(array_agg(h.number order by h.writer), '{}'),
    coalesce(string_agg(h.digest, ''::bytea order by h.writer), '')
  into fresh.writers, fresh.numbers, fresh.digests
  from heads h left join known_before m using (writer) where h.number > coalesce(m.number, 0);
  fresh.digest := seal_checkpoint_digest(fresh);
  insert into seal_checkpoints select (fresh).*;
  return query select fresh.number, fresh.digest;
end $$;

create function statement_rows_digest(company uuid, statement bigint) returns bytea
language sql stable set search_path from current as $$
  select sha256(coalesce(string_agg(sha256(row_digests || convert_to(json_build_array(billing_month, part, request_ids)::text, 'UTF8')),
    ''::bytea order by billing_month, part), '')) from statement_rows r where r.company_id = company and r.number = statement
$$;

-- What may still be on its way to a month, as far as the heartbeats of gateways tell: records that wait since the
-- month, calls that were admitted in it and may run for another hour, and gateways that ended without a word then.
create function on_its_way(month date) returns table (gateway text, seen_at timestamptz, records integer)
language sql stable set search_path from current as $$
  with closing as (
    select (month + interval '1 month') at time zone value + interval '1 hour' as until from settings where name = 'billing_timezone')
  select g.name, g.last_seen_at, g.backlog from gateways g, closing
  where (g.backlog > 0 and coalesce(g.oldest_at, g.last_seen_at) < until) or g.last_seen_at < until
  order by g.name, g.last_seen_at
$$;

alter table statements enable row level security;
alter table statement_rows enable row level security;
alter table late_usage enable row level security;
create policy own on statements using (is_visible(company_id));
create policy own on statement_rows using (is_visible(company_id));
create policy own on late_usage using (is_visible(company_id));
insert into tenant_grants (privilege) values ('select on statements, statement_rows, late_usage');
select raise_tenant_wall();
