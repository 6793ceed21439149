-- Seals. Each batch leaves what it inserted: which rows, a digest of each, count and sums,
-- and a digest of all that chained to the same writer's seal before. A row edited, removed or
-- added behind the ledger's back is then named by "tollgate ledger verify"; to hide it, every
-- later seal of that writer would have to be made anew.

create table ledger_seals (
  writer            uuid not null,
  number            bigint not null check (number > 0),
  billing_month     date not null,
  row_count         integer not null,
  prompt_tokens     numeric not null,
  completion_tokens numeric not null,
  cost_eur          numeric not null,
  request_ids       uuid[] not null,
  row_digests       bytea not null,
  previous          bytea not null,
  digest            bytea not null,
  sealed_at         timestamptz not null default now(),
  primary key (writer, number)
);
comment on column ledger_seals.writer is 'one start of one gateway process';
comment on column ledger_seals.row_digests is '16 bytes each, in the order of request_ids';
comment on column ledger_seals.previous is 'digest of the same writer''s seal before; empty for its first';
alter table ledger_seals alter column request_ids set storage external; -- random bytes do not compress
alter table ledger_seals alter column row_digests set storage external;

create function refuse_seal_change() returns trigger language plpgsql as $$
begin
  raise exception 'ledger_seals is append-only' using errcode = 'restrict_violation';
end $$;
create trigger append_only before update or delete or truncate on ledger_seals
  for each statement execute function refuse_seal_change();

-- What identifies a row to the last digit; 16 bytes. An instant as seconds: its text
-- would depend on the session's time zone.
create function usage_digest(usage api_usage) returns bytea language sql stable as $$
  select substr(sha256(convert_to(json_build_array(
    usage.billing_month, usage.request_id, usage.company_id, usage.api_key_id, usage.model_slug, usage.upstream_model,
    usage.endpoint, usage.prompt_tokens, usage.completion_tokens, usage.cost_eur, usage.price_input, usage.price_output,
    usage.usage_source, usage.outcome, extract(epoch from usage.occurred_at))::text, 'UTF8')), 1, 16)
$$;

create function seal_digest(seal ledger_seals) returns bytea language sql stable as $$
  select sha256(seal.previous || seal.row_digests || convert_to(json_build_array(
    seal.writer, seal.number, seal.billing_month, seal.row_count, seal.prompt_tokens, seal.completion_tokens,
    seal.cost_eur, seal.request_ids)::text, 'UTF8'))
$$;

-- Books one batch: records are the members of one JSON array, named as the columns of
-- api_usage are. What is there already stays as it is; what is really inserted is counted,
-- sealed, and returned as sums. All or nothing, and safe to repeat after a lost answer:
-- the lock makes a repetition wait for an attempt that is still running.
create function book_usage(batch_writer uuid, records json)
returns table (company_id uuid, billing_month date, cost_eur numeric)
language plpgsql set search_path from current as $$
#variable_conflict use_column
declare
  seal   ledger_seals;
  batch  record;
begin
  perform pg_advisory_xact_lock(hashtextextended('tollgate ledger ' || batch_writer, 0));
  select * into seal from ledger_seals s where s.writer = batch_writer order by s.number desc limit 1;
  if seal.number is null then
    seal.number := 0;
    seal.digest := '';
  end if;
  seal.writer := batch_writer;
  seal.sealed_at := now();
  for batch in
    with inserted as (
      insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint,
        prompt_tokens, completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at)
      select r.billing_month, r.request_id, r.company_id, r.api_key_id, r.model_slug, r.upstream_model, r.endpoint,
        r.prompt_tokens, r.completion_tokens, r.cost_eur, r.price_input, r.price_output, r.usage_source, r.outcome, r.occurred_at
      from json_to_recordset(records) as r (billing_month date, request_id uuid, company_id uuid,
        api_key_id uuid, model_slug text, upstream_model text, endpoint text, prompt_tokens bigint,
        completion_tokens bigint, cost_eur numeric, price_input numeric, price_output numeric, usage_source text,
        outcome text, occurred_at timestamptz)
      order by r.billing_month, r.request_id -- the same for all writers: none waits for another crosswise
      on conflict do nothing
      returning billing_month as month, api_usage as usage
    ),
    companies as (
      select month, (usage).company_id as company, sum((usage).cost_eur) as cost
      from inserted group by 1, 2
    )
    select month, count(*)::integer as row_count,
      sum((usage).prompt_tokens) as prompt_tokens, sum((usage).completion_tokens) as completion_tokens,
      sum((usage).cost_eur) as cost, array_agg((usage).request_id order by (usage).request_id) as request_ids,
      string_agg(usage_digest(usage), ''::bytea order by (usage).request_id) as row_digests,
      (select array_agg(company order by company) from companies c where c.month = inserted.month) as companies,
      (select array_agg(cost order by company) from companies c where c.month = inserted.month) as costs
    from inserted group by month order by month
  loop
    seal.number := seal.number + 1;
    seal.billing_month := batch.month;
    seal.row_count := batch.row_count;
    seal.prompt_tokens := batch.prompt_tokens;
    seal.completion_tokens := batch.completion_tokens;
    seal.cost_eur := batch.cost;
    seal.request_ids := batch.request_ids;
    seal.row_digests := batch.row_digests;
    seal.previous := seal.digest;
    seal.digest := seal_digest(seal);
    insert into ledger_seals select (seal).*;
    -- what a call reserved of a strict budget ends with the transaction that counts its cost
    delete from budget_reservations where request_id = any(batch.request_ids);
    return query select t.company, batch.month, t.cost from unnest(batch.companies, batch.costs) as t (company, cost);
  end loop;
end $$;

-- A record that comes a second time, as a replay does, is set aside once.
delete from api_usage_set_aside a using api_usage_set_aside b where a.record = b.record and a.id > b.id;
create unique index api_usage_set_aside_once on api_usage_set_aside (md5(record));
