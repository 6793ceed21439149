import { hash } from 'node:crypto';
import type { Database, Sql } from '../../src/store/connection/pool.ts';

/** How much is made; `ledgerRows` lie in the last five months, the present one included. */
export interface PagesData {
  readonly companies: number;
  /** Keys of company 0, which has an eighth of the ledger; every other company has one key. */
  readonly keys: number;
  readonly ledgerRows: number;
}

/** The id of "company 0", "key 1" or "model 1". */
export function idOf(name: string): string {
  return hash('md5', name).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}

const MODELS = 20;
/** Slug of model n. All but the first have a cost price; model-02 has another since the middle of the last month. */
const MODEL = `'model-' || lpad((1 + n % ${MODELS})::text, 2, '0')`;
const SEED_MS = 7_200_000;

/**
 * Fills a migrated database for the pages. It is hard data: every key of company 0 uses every model, so that its sums
 * are hardly fewer than its calls. All but the ledger without triggers, for speed.
 */
export async function fillPages(
  db: Database,
  data: PagesData,
  say: (text: string) => void,
): Promise<void> {
  await db.run(SEED_MS, async (sql) => {
    await sql.unsafe(`set session_replication_role = replica; set work_mem = '512MB'; set synchronous_commit = off;
      set maintenance_work_mem = '512MB'; select setseed(0.5)`);
    for (const fill of [companies, models, ledger, requests, changes]) {
      const began = performance.now();
      await fill(sql, data);
      say(`${fill.name}: ${((performance.now() - began) / 1000).toFixed(0)} s`);
    }
    await sql`vacuum analyze`;
  });
}

/** Companies, people and keys. */
async function companies(sql: Sql, { companies, keys }: PagesData): Promise<void> {
  await sql`
    insert into companies (id, name, monthly_budget_eur)
    select md5('company ' || n)::uuid, 'Company ' || n, case when n % 2 = 0 then 20 + n % 400 end
    from generate_series(0, ${companies - 1}::int) n`;
  await sql`
    insert into users (email, company_id, role)
    select 'person' || n || '@example.com', md5('company ' || case when n < 500 then 0 else n end)::uuid,
      case when n = 0 or n >= 500 then 'owner' else 'member' end
    from generate_series(0, ${companies - 1}::int) n`;
  await sql`
    insert into api_keys (id, line, company_id, name, digest, prefix, scopes, created_by, last_used_at)
    select md5('key ' || n)::uuid, md5('key ' || n)::uuid, md5('company ' || greatest(n - ${keys}::int, 0))::uuid, 'Key ' || n,
      sha256(convert_to('key ' || n, 'UTF8')), 'svc_' || left(md5(n::text), 4), array['chat'], 'person0@example.com',
      now() - make_interval(mins => n)
    from generate_series(1, ${keys + companies - 1}::int) n`;
}

/** Models and their prices. */
async function models(sql: Sql): Promise<void> {
  await sql.unsafe(`
    insert into models (id, slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
    select md5('model ' || n)::uuid, ${MODEL}, 'internal-' || n, 'chat', true, 0.0005, 0.0015 from generate_series(0, ${MODELS - 1}) n;
    insert into model_prices (slug, valid_from, input, output, applied)
    select slug, '2020-01-01', cost_eur_per_1k_input, cost_eur_per_1k_output, true from models;
    insert into model_cost_prices (slug, valid_from, input, output)
    select ${MODEL}, '2020-01-01', 0.0003, 0.0009 from generate_series(1, ${MODELS - 1}) n;
    insert into model_cost_prices (slug, valid_from, input, output)
    select 'model-02', (billing_month(now()) - interval '15 days')::date, 0.0002, 0.0008`);
}

/** The ledger day by day, as it comes, and with the triggers, which keep all sums of its rows. */
async function ledger(sql: Sql, { companies, keys, ledgerRows }: PagesData): Promise<void> {
  const days = await sql<{ day: Date; rows: number }[]>`
    with days as (
      select day, extract(epoch from least('1 day', now() - day)) as seconds -- of today only what is over
      from generate_series(billing_month(now()) - interval '4 months', now(), '1 day') as day
    )
    select day, (${ledgerRows} * seconds / sum(seconds) over ())::int as rows from days`;
  await sql.unsafe(`
    select ensure_api_usage_partitions((billing_month(now()) - interval '4 months')::date, 5);
    set session_replication_role = origin`);
  for (const { day, rows } of days) {
    await sql`
      insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens,
        completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at)
      select billing_month(at), gen_random_uuid(), md5('company ' || company)::uuid, md5('key ' || key)::uuid,
        'model-' || lpad(model::text, 2, '0'), 'internal', case when i % 5 = 0 then 'responses' else 'chat.completions' end,
        200 + i % 1000, 100 + i % 500, ((200 + i % 1000) * 0.0005 + (100 + i % 500) * 0.0015) * 0.001, 0.0005, 0.0015,
        case when i % 50 = 0 then 'estimated' else 'upstream' end, case when i % 40 = 0 then 'client_aborted' else 'completed' end, at
      from (
        select i, company, case when company = 0 then 1 + floor(random() * ${keys}::int)::int else ${keys}::int + company end as key,
          case when company = 0 then 1 + floor(random() * ${MODELS}::int)::int
            else 1 + (company * 7 + floor(random() * (1 + company % 4))::int) % ${MODELS}::int end as model, at
        from (
          select i, case when i % 8 = 0 then 0 else 1 + floor(random() * ${companies - 1}::int)::int end as company,
            ${day}::timestamptz + random() * least('1 day', now() - ${day}) as at
          from generate_series(1, ${rows}::int) i) c) k`;
  }
  await sql`set session_replication_role = replica`;
}

/** The requests of a week, from the ledger. */
async function requests(sql: Sql): Promise<void> {
  await sql.unsafe(
    `select ensure_request_trail_day((now() at time zone 'UTC')::date - d) from generate_series(-1, 8) d`,
  );
  await sql`
    insert into request_trail (company_id, occurred_at, request_id, api_key_id, status, duration_ms, added_us, endpoint, model_slug,
      code, outcome, prompt_tokens, completion_tokens, cost_eur)
    select company_id, occurred_at, request_id, api_key_id, case when n % 40 = 0 then 502 when n % 50 = 1 then 402 else 200 end, 100 + n % 5000,
      80 + n % 300, endpoint, model_slug, case when n % 40 = 0 then 'upstream_error' when n % 50 = 1 then 'insufficient_quota' end, outcome, prompt_tokens, completion_tokens, cost_eur
    from (select u.*, row_number() over () as n from api_usage u where occurred_at > now() - interval '7 days') u`;
  await sql`
    insert into request_hours (company_id, hour, model_slug, api_key_id, endpoint, requests, refused, failed, upstream_failed,
      duration_ms, added_us, duration_buckets, added_buckets)
    select company_id, date_trunc('hour', occurred_at, 'UTC'), model_slug, api_key_id, endpoint, count(*), count(*) filter (where status = 402),
      count(*) filter (where status >= 500), count(*) filter (where status >= 500), sum(duration_ms), sum(added_us),
      array_fill(0, array[10]) || count(*) || array_fill(0::bigint, array[12]), array_fill(0, array[2]) || count(*) || array_fill(0::bigint, array[12])
    from request_trail where model_slug is not null group by 1, 2, 3, 4, 5 order by 2`;
  await sql`
    update request_hours set reasons = jsonb_strip_nulls(jsonb_build_object('upstream_error', nullif(failed, 0), 'insufficient_quota', nullif(refused, 0)))
    where failed + refused > 0`;
  await sql`
    insert into request_days (company_id, day, model_slug, endpoint, requests, refused, failed, duration_buckets, reasons)
    select company_id, (hour at time zone 'UTC')::date, model_slug, endpoint, sum(requests), sum(refused), sum(failed),
      array_fill(0, array[10]) || sum(requests)::bigint || array_fill(0::bigint, array[12]),
      jsonb_strip_nulls(jsonb_build_object('upstream_error', nullif(sum(failed), 0), 'insufficient_quota', nullif(sum(refused), 0)))
    from request_hours group by 1, 2, 3, 4 order by 2`;
  await sql`select sum_request_hours(interval '8 days')`;
  // the three weeks before, whose rows a real database has too, though no page reads them
  await sql`
    insert into request_totals (hour, requests, refused, failed, duration_buckets, reasons, models)
    select hour - make_interval(days => back), requests, refused, failed, duration_buckets, reasons, models
    from request_totals, unnest(array[7, 14, 21, 28]) as back on conflict do nothing`;
}

/** Changes, gateways and marks of usage. */
async function changes(sql: Sql, { companies }: PagesData): Promise<void> {
  await sql`
    insert into audit_log (at, actor, action, subject, subject_id, company_id, before, after)
    select now() - make_interval(mins => 100000 - n), 'person0@example.com', 'update', 'companies', md5('company ' || n % ${companies}::int)::uuid,
      md5('company ' || n % ${companies}::int)::uuid, '{"name": "Before"}', '{"name": "After"}'
    from generate_series(1, 100000) n`;
  await sql`
    insert into gateways (id, name, version) select gen_random_uuid(), 'gateway-' || n, '0.1.0' from generate_series(1, 4) n`;
  await sql`
    insert into usage_marks (period, begins, at, requests, tokens, cost_eur)
    select 'day', (at at time zone 'UTC')::date, at, 1000, 1000, 1 from generate_series(now() - interval '2 days', now(), '15 minutes') at
    union all select 'month', billing_month(at), at, 1000, 1000, 1
    from generate_series(now() - interval '45 days', now(), '15 minutes') at`;
}
