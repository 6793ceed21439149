import type { Sql } from '../connection/pool.ts';
import { HAS_PARTS, PART_SUMS } from './cost.ts';
import { digestOfRow } from './digest.ts';
import { type Found, MOST } from './verify.ts';

/** What the parts of a cost are made from. */
const PRICED = [
  'price_input',
  'price_output',
  'parts',
  'price_cache_read',
  'price_cache_write',
  'cached_tokens',
  'cache_write_tokens',
];

/** A fault of a statement, or of a row of a closed month. */
interface StatementFinding {
  readonly what: /** its text, its figures or the chain is not as it was closed */
    | 'statement edited'
    | 'statement missing'
    /** its sums are not those of the rows it covers */
    | 'statement differs from its rows'
    /** rows could enter its month unseen */
    | 'month not closed'
    /** a row of the statement is not in the ledger as it was */
    | 'row edited'
    | 'row missing'
    /** it is in a closed month, but neither in its statement nor in a correction */
    | 'row added'
    /** it is in two statements */
    | 'row repeated';
  readonly company_id: string;
  /** The number of the statement; null for rows in none. */
  readonly number: number | null;
  /** "2026-11"; null where it is not known. */
  readonly month: string | null;
  readonly request_id: string | null;
}

export interface StatementCheck extends Found<StatementFinding> {
  readonly statements: number;
  /** Rows that statements cover, and late ones that the next statements will. */
  readonly rows: number;
  readonly late: number;
}

/**
 * Proves every statement from the rows it covers (sql/schema/statements.sql): its text against its digest and the
 * statement before it, its rows against the ledger, its sums against its rows, and each row of a closed month
 * against the statements. Reads all closed months; safe while rows are written.
 */
export async function verifyStatements(sql: Sql): Promise<StatementCheck> {
  const [row] = await sql<[StatementCheck]>`
    with chain as materialized (
      select s.*, digest = sha256(convert_to(content, 'UTF8')) as intact, number > 1 + coalesce(lag(number) over c, 0) as gap,
        previous <> coalesce(lag(digest) over c, '') as torn
      from statements s window c as (partition by company_id order by number)
    ),
    covered as materialized (
      select r.company_id, r.number, r.billing_month, t.request_id, substr(r.row_digests, (t.place * 16 - 15)::integer, 16) as digest
      from statement_rows r, unnest(r.request_ids) with ordinality as t (request_id, place)
    ),
    -- rows of the ledger are read by themselves: they may be on other servers than statements
    away as materialized (select distinct billing_month from months_away()),
    closed as materialized (
      select company_id, billing_month, request_id, model_slug, api_key_id, cost_center, prompt_tokens, completion_tokens, cost_eur,
        ${sql.unsafe(PRICED.join(', '))}, ${sql.unsafe(digestOfRow('u'))} as digest
      from api_usage u where billing_month in (select billing_month from covered) or billing_month in (select billing_month from statements)
    ),
    late as materialized (select company_id, billing_month, request_id from late_usage),
    months as materialized (select company_id, billing_month, statement from monthly_spend where statement is not null),
    proven as materialized (
      select c.company_id, c.number, c.billing_month, c.request_id, u.model_slug as model, u.api_key_id as key, u.cost_center,
        u.prompt_tokens, u.completion_tokens, u.cost_eur, ${sql.unsafe(PRICED.map((name) => `u.${name}`).join(', '))},
        case when u.request_id is null and c.billing_month in (select billing_month from away) then null
          when u.request_id is null then 'row missing' when u.digest <> c.digest then 'row edited' end as what
      from covered c left join closed u on u.billing_month = c.billing_month and u.request_id = c.request_id
    ),
    -- in a closed month and covered by no statement
    others as (
      select u.company_id, u.billing_month, u.request_id, l.request_id is not null as is_late
      from closed u join statements s using (company_id, billing_month)
      left join covered c on c.billing_month = u.billing_month and c.request_id = u.request_id
      left join late l on l.company_id = u.company_id and l.billing_month = u.billing_month and l.request_id = u.request_id
      where c.request_id is null
    ),
    findings as (
      select what, company_id, number, billing_month, request_id from proven where what is not null
      union all
      select 'row added', company_id, null, billing_month, request_id from others where not is_late
      union all
      select 'row missing', company_id, null, billing_month, request_id from late l
      where billing_month not in (select billing_month from away) and not exists (
        select 1 from closed u where u.billing_month = l.billing_month and u.request_id = l.request_id)
      union all
      select 'row repeated', company_id, max(number), billing_month, request_id from covered
      group by company_id, billing_month, request_id having count(*) > 1
      union all
      select 'statement edited', company_id, number, billing_month, null from chain
      where not intact or (torn and not gap) or ${figuresAgree(sql)} is not true
      union all
      select 'statement missing', company_id, number, max(billing_month), null from (
        select company_id, number - 1 as number, null::date as billing_month from chain where gap
        union
        select company_id, statement, billing_month from months m where not exists (
          select 1 from statements s where s.company_id = m.company_id and s.number = m.statement)
        union
        select company_id, number, null from statement_rows r where not exists (
          select 1 from statements s where s.company_id = r.company_id and s.number = r.number)
      ) as missing group by company_id, number
      union all
      select 'month not closed', company_id, number, billing_month, null from statements s where not exists (
        select 1 from months m where m.company_id = s.company_id and m.billing_month = s.billing_month and m.statement = s.number)
      union all
      select distinct 'statement differs from its rows', company_id, number, null::date, null::uuid
      from (${linesOf(sql)}) as told full join (
        select company_id, number, billing_month, model, key, cost_center, count(*) as requests, sum(prompt_tokens) as prompt_tokens,
          sum(completion_tokens) as completion_tokens, sum(cost_eur) as cost_eur, ${sql.unsafe(PART_SUMS)} as parts,
          bool_or(${sql.unsafe(HAS_PARTS)}) as is_priced
        from proven where model is not null group by 1, 2, 3, 4, 5, 6
      ) as summed using (company_id, number, billing_month, model, key, cost_center)
      where billing_month not in (select billing_month from away)
        and (told.requests, told.prompt_tokens, told.completion_tokens, told.cost_eur, told.parts)
        is distinct from (summed.requests, summed.prompt_tokens, summed.completion_tokens, summed.cost_eur,
          case when told.parts is not null or is_priced then summed.parts end)
        and exists (select 1 from chain c where c.company_id = coalesce(told.company_id, summed.company_id)
          and c.number = coalesce(told.number, summed.number) and c.intact)
    )
    select (select count(*) from chain)::integer as statements, (select count(*) from covered)::integer as rows,
      (select count(*) from late)::integer as late, (select count(*) from findings)::integer as total,
      (select coalesce(json_agg(first), '[]') from (
        select what, company_id, number, to_char(billing_month, 'YYYY-MM') as month, request_id from findings
        order by company_id, number nulls last, what, request_id limit ${MOST}) as first) as findings`;
  return row;
}

/** Whether a statement's columns say what its text says, and its totals are those of its lines; asked of intact texts. */
function figuresAgree(sql: Sql) {
  return sql`case when intact then (
    select (chain.company_id, chain.number, to_char(billing_month, 'YYYY-MM'), chain.requests, chain.cost_eur, chain.total_eur, chain.corrections)
        is not distinct from (d.company_id, d.number, d.month, d.requests, d.cost_eur, d.total_eur,
          (select coalesce(sum((c ->> 'requests')::bigint), 0) from json_array_elements(d.corrections) c))
      and row (d.requests, d.cost_eur) = (
        select coalesce(sum(l.requests), 0), coalesce(sum(l.cost_eur), 0) from json_to_recordset(d.lines) as l (requests bigint, cost_eur numeric))
      and d.total_eur = d.cost_eur + (select coalesce(sum(l.cost_eur), 0) from json_array_elements(d.corrections) c,
        json_to_recordset(c -> 'lines') as l (cost_eur numeric))
      and coalesce((select sum(l.cost_eur) from json_to_recordset(d.charges) as l (cost_eur numeric)), d.cost_eur) = d.cost_eur
      and d.closed_at = chain.closed_at and coalesce(d.previous, '') = encode(chain.previous, 'hex')
      and d.rows = encode(statement_rows_digest(chain.company_id, chain.number), 'hex')
      and exists (select 1 from seal_checkpoints m where m.number = (d.closing_seals ->> 'checkpoint')::bigint
        and encode(m.digest, 'hex') = d.closing_seals ->> 'digest')
    from json_to_record(content::json) as d (company_id uuid, number bigint, month text, requests bigint, cost_eur numeric,
      total_eur numeric, lines json, charges json, corrections json, previous text, rows text, closing_seals json, closed_at timestamptz)) end`;
}

/** The lines that statements tell, of their months and of corrections. */
function linesOf(sql: Sql) {
  const line = sql`model text, key uuid, cost_center text, requests bigint, prompt_tokens numeric, completion_tokens numeric, cost_eur numeric, parts jsonb`;
  return sql`
    select company_id, number, billing_month, l.*
    from chain, json_to_recordset(case when intact then content::json -> 'lines' end) as l (${line})
    union all
    select company_id, number, (c ->> 'month' || '-01')::date, l.*
    from chain, json_array_elements(case when intact then content::json -> 'corrections' end) as c,
      json_to_recordset(c -> 'lines') as l (${line})`;
}

/**
 * A checkpoint of the seals, or a seal that one names, that is not as it was; or what was noted when a month of the ledger
 * was taken away or came back.
 */
interface CheckpointFinding {
  readonly what:
    | 'checkpoint edited'
    | 'checkpoint missing'
    | 'seal edited'
    | 'seal missing'
    | 'move edited'
    | 'move missing';
  /** The number of the checkpoint, or of the move. */
  readonly checkpoint: number;
  readonly writer: string | null;
  /** The writer's number of the seal. */
  readonly number: number | null;
}

/**
 * Checks the checkpoints that statements name: each against the one before it, and each seal in it against the ledger's.
 * So the removal of a writer's newest seals is found too, which its chain alone cannot tell. Moves are a chain as well.
 */
export async function verifyCheckpoints(
  sql: Sql,
): Promise<{ checkpoints: number; findings: CheckpointFinding[] }> {
  const [row] = await sql<[{ checkpoints: number; findings: CheckpointFinding[] }]>`
    with chain as (
      select m.number as checkpoint, digest <> seal_checkpoint_digest(m) as edited, number > 1 + coalesce(lag(number) over c, 0) as gap,
        previous <> coalesce(lag(digest) over c, '') as torn
      from seal_checkpoints m window c as (order by number)
    ),
    findings as (
      select case when gap then 'checkpoint missing' else 'checkpoint edited' end as what, case when gap then checkpoint - 1 else checkpoint end as checkpoint,
        null::uuid as writer, null::bigint as number
      from chain where edited or gap or torn
      union all
      select case when s.writer is null then 'seal missing' else 'seal edited' end, m.number, t.writer, t.number
      from seal_checkpoints m, unnest(m.writers, m.numbers) with ordinality as t (writer, number, place)
      left join ledger_seals s on s.writer = t.writer and s.number = t.number
      where s.digest is distinct from substr(m.digests, (t.place * 32 - 31)::integer, 32)
      union all
      select case when gap then 'move missing' else 'move edited' end, case when gap then move - 1 else move end, null, null from (
        select m.number as move, digest <> ledger_move_digest(m) as edited, number > 1 + coalesce(lag(number) over c, 0) as gap,
          previous <> coalesce(lag(digest) over c, '') as torn
        from ledger_moves m window c as (order by number)) as moves where edited or gap or torn
    )
    select (select count(*) from seal_checkpoints)::integer as checkpoints,
      (select coalesce(json_agg(first), '[]') from (select * from findings order by checkpoint, writer, number limit ${MOST}) as first) as findings`;
  return row;
}
