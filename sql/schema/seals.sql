-- Seals. Each batch leaves what it inserted: which rows, a digest of each, count and sums,
-- and a digest of all that, chained to the same writer's seal before. A row edited, removed or
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
  xid               xid8 not null default pg_current_xact_id(),
  primary key (writer, number)
);
comment on column ledger_seals.writer is 'one start of one gateway process';
comment on column ledger_seals.row_digests is '16 bytes each, in the order of request_ids';
create index ledger_seals_xid on ledger_seals (xid); -- what is new for the feed (feed.sql)
comment on column ledger_seals.previous is 'digest of the same writer''s seal before; empty for its first';
alter table ledger_seals alter column request_ids set storage external; -- random bytes do not compress
alter table ledger_seals alter column row_digests set storage external;

create trigger append_only before update or delete or truncate on ledger_seals
  for each statement execute function refuse_change();

create function seal_digest(seal ledger_seals) returns bytea language sql stable as $$
  select sha256(seal.previous || seal.row_digests || convert_to(json_build_array(
    seal.writer, seal.number, seal.billing_month, seal.row_count, seal.prompt_tokens, seal.completion_tokens,
    seal.cost_eur, seal.request_ids)::text, 'UTF8'))
$$;

-- Books one batch: records are the members of one JSON array, named as the columns of
-- api_usage are. What is there already stays as it is; what is really inserted is counted,
-- sealed, and returned as sums. All or nothing, and safe to repeat after a lost answer:
-- the lock makes a repetition wait for an attempt that is still running.
--
-- A repetition is acknowledged only when what it repeats is safe. A batch that waits too long for a synchronous standby is
-- cancelled; Postgres has then committed it on the primary alone. Its repetition inserts nothing, and a transaction that
-- writes nothing waits for no standby: the gateway would let go of records that are lost should the standby take over. So
-- it writes a few bytes of log, which reach the standby after what it repeats.
create function book_usage(batch_writer uuid, records json)
returns table (company_id uuid, billing_month date, cost_eur numeric)
language plpgsql set search_path from current as $$
#variable_conflict use_column
declare
  seal   ledger_seals;
  batch  record;
  booked boolean := false;
  told   text := records; -- once: it is copied
  costed boolean := strpos(told, '"upstream_cost":') > 0;
  named  boolean := strpos(told, '"end_user_id":') > 0;
begin
  perform pg_advisory_xact_lock(hashtextextended('tollgate ledger ' || batch_writer, 0));
  select * into seal from ledger_seals s where s.writer = batch_writer order by s.number desc limit 1;
  if seal.number is null then
    seal.number := 0;
    seal.digest := '';
  end if;
  seal.writer := batch_writer;
  seal.sealed_at := now();
  seal.xid := pg_current_xact_id();
  perform set_config('tollgate.sealed', 'on', true); -- count_api_usage() notes other rows for the feed
  for batch in
    with inserted as (
      insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint,
        prompt_tokens, completion_tokens, cost_eur, price_input, price_output, price_cache_read, price_cache_write,
        usage_source, outcome, occurred_at, cost_center,
        cached_tokens, cache_write_tokens, audio_prompt_tokens, reasoning_tokens, audio_completion_tokens, end_user_id,
        cache_write_1h_tokens, image_prompt_tokens, image_completion_tokens, search_units, rate, parts)
      select r.billing_month, r.request_id, r.company_id, r.api_key_id, r.model_slug, r.upstream_model, r.endpoint,
        r.prompt_tokens, r.completion_tokens, r.cost_eur, r.price_input, r.price_output, r.price_cache_read, r.price_cache_write,
        r.usage_source, r.outcome, r.occurred_at,
        coalesce(r.cost_center, ''), -- most calls name none
        r.cached_tokens, r.cache_write_tokens, r.audio_prompt_tokens, r.reasoning_tokens, r.audio_completion_tokens,
        r.end_user_id, r.cache_write_1h_tokens, r.image_prompt_tokens, r.image_completion_tokens, r.search_units, r.rate, r.parts
      from json_to_recordset(records) as r (billing_month date, request_id uuid, company_id uuid,
        api_key_id uuid, model_slug text, upstream_model text, endpoint text, prompt_tokens bigint,
        completion_tokens bigint, cost_eur numeric, price_input numeric, price_output numeric, price_cache_read numeric,
        price_cache_write numeric, usage_source text, outcome text, occurred_at timestamptz, cost_center text,
        cached_tokens bigint, cache_write_tokens bigint, audio_prompt_tokens bigint, reasoning_tokens bigint,
        audio_completion_tokens bigint, end_user_id uuid, cache_write_1h_tokens bigint, image_prompt_tokens bigint,
        image_completion_tokens bigint, search_units bigint, rate text, parts jsonb)
      order by r.billing_month, r.request_id -- the same for all writers: none waits for another crosswise
      on conflict do nothing
      returning billing_month as month, request_id, company_id as company, prompt_tokens, completion_tokens, cost_eur as cost,
        usage_digest(billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens,
          completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at, cost_center,
          price_cache_read, price_cache_write, cached_tokens, cache_write_tokens, end_user_id, rate, parts) as digest
    ),
    sealed as (
      select month, count(*)::integer as row_count, sum(prompt_tokens) as prompt_tokens, sum(completion_tokens) as completion_tokens,
        sum(cost) as cost, array_agg(request_id order by request_id) as request_ids,
        string_agg(digest, ''::bytea order by request_id) as row_digests
      from inserted group by month
    ),
    spent as (
      select month, array_agg(company order by company) as companies, array_agg(cost order by company) as costs
      from (select month, company, sum(cost) as cost from inserted group by 1, 2) as companies group by month
    )
    select * from sealed join spent using (month) order by month
  loop
    booked := true;
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
    perform end_reservations(batch.request_ids);
    if costed then perform book_upstream_costs(records, batch.month, batch.request_ids); end if;
    return query select t.company, batch.month, t.cost from unnest(batch.companies, batch.costs) as t (company, cost);
  end loop;
  perform set_config('tollgate.sealed', '', true);
  if booked and named then perform note_end_users(records); end if;
  if not booked then perform pg_logical_emit_message(true, 'tollgate', 'repeated'); end if;
end $$;

-- The newest seal of each writer at an instant, for statements: the removal of a writer's newest seals is noticed too.
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
create trigger append_only before update or delete or truncate on seal_checkpoints for each statement execute function refuse_change();

create function seal_checkpoint_digest(checkpoint seal_checkpoints) returns bytea language sql stable as $$
  select sha256(checkpoint.previous || checkpoint.digests || convert_to(json_build_array(
    checkpoint.number, extract(epoch from checkpoint.taken_at), checkpoint.writers, checkpoint.numbers)::text, 'UTF8'))
$$;

-- The newest seal of each writer there ever was: a step along the index for each.
create function newest_seals() returns setof ledger_seals language sql stable set search_path from current as $$
  with recursive known (writer) as (
    (select s.writer from ledger_seals s order by s.writer limit 1)
    union all
    select (select s.writer from ledger_seals s where s.writer > k.writer order by s.writer limit 1) from known k where k.writer is not null
  )
  select newest.* from known k, lateral (select h.* from ledger_seals h where h.writer = k.writer order by h.number desc limit 1) newest
$$;

-- Writes down what is sealed by now; a checkpoint of the last minute serves again. Reads newest_seals().
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
  with known_before as (
    select t.writer, max(t.number) as number from seal_checkpoints m, unnest(m.writers, m.numbers) as t (writer, number) group by 1
  )
  select coalesce(array_agg(h.writer order by h.writer), '{}'), coalesce(array_agg(h.number order by h.writer), '{}'),
    coalesce(string_agg(h.digest, ''::bytea order by h.writer), '')
  into fresh.writers, fresh.numbers, fresh.digests
  from newest_seals() h left join known_before m using (writer) where h.number > coalesce(m.number, 0);
  fresh.digest := seal_checkpoint_digest(fresh);
  insert into seal_checkpoints select (fresh).*;
  return query select fresh.number, fresh.digest;
end $$;

-- Months that were taken away, and that came back: what each company had in the table, and a digest of its rows. So the
-- ledger is proven without them, and it is noticed if another table comes back. Each row names the digest of the one before.
create table ledger_moves (
  number            bigint primary key check (number > 0),
  billing_month     date not null check (extract(day from billing_month) = 1),
  is_away           boolean not null,
  moved_at          timestamptz not null default now(),
  companies         uuid[] not null,
  requests          bigint[] not null,
  prompt_tokens     numeric[] not null,
  completion_tokens numeric[] not null,
  cost_eur          numeric[] not null,
  row_digests       bytea not null,
  previous          bytea not null,
  digest            bytea not null
);
comment on table ledger_moves is 'months of the ledger that "ledger detach" took away, and "ledger attach" brought back';
comment on column ledger_moves.is_away is 'false: it came back';
comment on column ledger_moves.row_digests is '32 bytes each, in the order of companies: of the digests of their rows';
create trigger append_only before update or delete or truncate on ledger_moves for each statement execute function refuse_change();

create function ledger_move_digest(move ledger_moves) returns bytea language sql stable as $$
  select sha256(move.previous || move.row_digests || convert_to(json_build_array(
    move.number, move.billing_month, move.is_away, extract(epoch from move.moved_at), move.companies, move.requests,
    move.prompt_tokens, move.completion_tokens, move.cost_eur)::text, 'UTF8'))
$$;

-- What each company had in the months that are away.
create function months_away() returns table (billing_month date, company_id uuid, requests bigint, prompt_tokens numeric,
  completion_tokens numeric, cost_eur numeric, row_digest bytea) language sql stable set search_path from current as $$
  select m.billing_month, t.company_id, t.requests, t.prompt_tokens, t.completion_tokens, t.cost_eur,
    substr(m.row_digests, (t.place * 32 - 31)::integer, 32)
  from (select distinct on (billing_month) * from ledger_moves order by billing_month, number desc) as m,
    unnest(m.companies, m.requests, m.prompt_tokens, m.completion_tokens, m.cost_eur) with ordinality
      as t (company_id, requests, prompt_tokens, completion_tokens, cost_eur, place)
  where m.is_away
$$;

-- Notes that a month goes or comes. @param figures rows of company_id, requests, prompt_tokens, completion_tokens, cost_eur
-- and row_digest (hex)
create function note_ledger_move(month date, away boolean, figures json) returns void
language plpgsql set search_path from current as $$
declare
  move ledger_moves;
begin
  select coalesce(max(m.number), 0) + 1 into move.number from ledger_moves m;
  move.billing_month := month;
  move.is_away := away;
  move.moved_at := clock_timestamp();
  move.previous := coalesce((select m.digest from ledger_moves m where m.number = move.number - 1), '');
  select coalesce(array_agg(f.company_id order by f.company_id), '{}'), coalesce(array_agg(f.requests order by f.company_id), '{}'),
    coalesce(array_agg(f.prompt_tokens order by f.company_id), '{}'), coalesce(array_agg(f.completion_tokens order by f.company_id), '{}'),
    coalesce(array_agg(f.cost_eur order by f.company_id), '{}'), coalesce(string_agg(decode(f.row_digest, 'hex'), '' order by f.company_id), '')
  into move.companies, move.requests, move.prompt_tokens, move.completion_tokens, move.cost_eur, move.row_digests
  from json_to_recordset(figures) as f (company_id uuid, requests bigint, prompt_tokens numeric, completion_tokens numeric,
    cost_eur numeric, row_digest text);
  move.digest := ledger_move_digest(move);
  insert into ledger_moves select (move).*;
end $$;
