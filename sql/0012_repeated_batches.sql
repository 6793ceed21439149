-- A repetition is acknowledged only when what it repeats is safe. A batch that waits too long
-- for a synchronous standby is cancelled; Postgres has then committed it on the primary alone.
-- Its repetition inserts nothing, and a transaction that writes nothing waits for no standby:
-- the gateway would let go of records that are lost should the standby take over. So it writes
-- a few bytes of log, which reach the standby after what it repeats.

-- Books one batch: records are the members of one JSON array, named as the columns of
-- api_usage are. What is there already stays as it is; what is really inserted is counted,
-- sealed, and returned as sums. All or nothing, and safe to repeat after a lost answer:
-- the lock makes a repetition wait for an attempt that is still running.
create or replace function book_usage(batch_writer uuid, records json)
returns table (company_id uuid, billing_month date, cost_eur numeric)
language plpgsql set search_path from current as $$
#variable_conflict use_column
declare
  seal   ledger_seals;
  batch  record;
  booked boolean := false;
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
    delete from budget_reservations where request_id = any(batch.request_ids);
    return query select t.company, batch.month, t.cost from unnest(batch.companies, batch.costs) as t (company, cost);
  end loop;
  if not booked then perform pg_logical_emit_message(true, 'tollgate', 'repeated'); end if;
end $$;
