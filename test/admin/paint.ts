import type { Sql } from 'postgres';
import { newRequestId } from '../../src/runtime/request-id.ts';
import { sumDays } from '../support/requests.ts';

/** A time long before any test runs, for pictures whose days and amounts are always the same. */
export const LONG_AGO = new Date('2026-06-30T18:00:00Z');

/**
 * Two months of data for screenshots, the same every time: models, keys, assistants, 3,300 calls
 * and the cost of in-app chat.
 */
export async function paint(sql: Sql, company: string): Promise<void> {
  await sql`update companies set monthly_budget_eur = 400, disabled_model_slugs = '{velvet-legacy}' where id = ${company}`;
  await sql`
    insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output) values
      ('aurora-large', 'internal-aurora-70b', 'chat', true, 0.0021, 0.0063),
      ('aurora-swift', 'internal-aurora-8b', 'chat', true, 0.00018, 0.00054),
      ('meridian-vision', 'internal-vision-2', 'chat', true, 0.0034, 0.0102),
      ('pacific-pro', 'internal-overseas-pro', 'chat', false, 0.0044, 0.0176),
      ('quill-embed', 'internal-bge-m3', 'embedding', true, 0.00002, 0),
      ('velvet-legacy', 'internal-velvet-1', 'chat', true, 0.0012, 0.0024)`;
  await sql`
    insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
    values ('nordlicht-editor', ${company}, 'internal-finetune-17', 'chat', true, 0.0029, 0.0087)`;
  const keys = await sql<{ id: string }[]>`
    insert into api_keys (company_id, name, digest, prefix, scopes, created_by, created_at, last_used_at, expires_at, revoked_at)
    select ${company}, name, sha256(name::bytea), prefix, scopes, 'owen@customer.example', now() - age * interval '1 day',
      now() - used * interval '1 minute', now() + ends * interval '1 day', now() - gone * interval '1 day'
    from (values
      ('Newsroom CMS', 'svc_k3vq', '{chat,assistants}'::text[], 210, 4, null, null),
      ('Archive search', 'svc_7hpa', '{embeddings}', 160, 22, null, null),
      ('Cover blurb tool', 'svc_m2xd', '{assistants}', 41, 190, 5, null),
      ('Intern project', 'svc_qz6e', '{chat}', 95, 70000, null, 48)) as k (name, prefix, scopes, age, used, ends, gone)
    returning id`;
  await sql`update api_keys set requests_per_minute = 600, tokens_per_minute = 250000, allowed_model_slugs = '{aurora-large,aurora-swift}',
    monthly_budget_eur = 50, allowed_cidrs = '{203.0.113.0/24}' where name = 'Cover blurb tool'`;
  await sql`
    insert into assistants (company_id, name, system_prompt, model_slug, temperature, max_tokens, visibility, project_id) values
      (${company}, 'Headline coach', 'Suggest three headlines.', 'aurora-large', 0.8, 400, 'company', null),
      (${company}, 'Rights desk', 'Answer questions about reprint rights.', 'pacific-pro', 0.2, null, 'company', null),
      (${company}, 'Diary', 'Keep my diary.', null, null, null, 'private', null)`;
  await paintCalls(
    sql,
    company,
    keys.map(({ id }) => id),
    new Date(),
  );
}

/** Calls of a month up to a time, and of the month before, by the keys that `paint` adds. */
export async function paintCalls(
  sql: Sql,
  company: string,
  keys: readonly string[],
  until: Date,
): Promise<void> {
  for (const [back, calls] of [
    [1, 1400],
    [0, 1900],
  ] as const) {
    await sql`
      with made as (
        select i, billing_month(${until}::timestamptz - ${back} * interval '1 month') as month,
          1 + (i * 7919 % 100) as a, 1 + (i * 104729 % 97) as b, (i * 31 % 1440) as minute
        from generate_series(1, ${calls}::int) as i
      ),
      placed as (
        select *, month::timestamp + minute * interval '1 minute' + (case when ${back} = 0
            then (i * 997) % greatest(1, extract(day from ${until}::timestamptz at time zone 'UTC')::int)
            else (i * 997) % 28 end) * interval '1 day' as at,
          case when a <= 34 then 1 when a <= 60 then 2 when a <= 72 then 3 when a <= 84 then 4 when a <= 93 then 5 else 6 end as model
        from made
      ),
      priced as (
        select p.*, m.slug, m.kind, m.upstream_model, m.cost_eur_per_1k_input as price_in, m.cost_eur_per_1k_output as price_out,
          (300 + b * 211) * (case when extract(isodow from at) >= 6 then 1 else 4 end) * (case when m.kind = 'embedding' then 30 else 1 end) as prompt,
          case when m.kind = 'embedding' then 0 else 90 + a * b end * (case when extract(isodow from at) >= 6 then 1 else 3 end) as completion
        from placed p join models m
          on m.slug = (array['aurora-large', 'aurora-swift', 'quill-embed', 'nordlicht-editor', 'meridian-vision', 'velvet-legacy'])[p.model]
      )
      insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens,
        completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at,
        cached_tokens, cache_write_tokens, reasoning_tokens)
      select month, md5(i || ' ' || month)::uuid, ${company},
        (${keys}::uuid[])[case when kind = 'embedding' then 2 when i % 5 = 0 then 3 else 1 end],
        slug, upstream_model,
        case when kind = 'embedding' then 'embeddings' when i % 5 = 0 then 'assistants.run' else 'chat.completions' end,
        prompt, completion, (prompt * price_in + completion * price_out) * 0.001, price_in, price_out,
        case when i % 83 = 0 then 'estimated' else 'upstream' end,
        case when i % 83 = 0 then 'client_aborted' when i % 211 = 0 then 'upstream_failed' else 'completed' end,
        at at time zone 'UTC',
        case when kind = 'chat' then prompt * (i % 7) / 10 end, case when model = 1 then prompt / 20 end,
        case when model in (1, 5) then completion / (2 + i % 3) end
      from priced`;
    await sql`
      insert into chat_usage (company_id, occurred_at, cost_eur)
      select ${company}, billing_month(${until}::timestamptz - ${back} * interval '1 month')::timestamp at time zone 'UTC', 61.2475`;
  }
}

/**
 * Four more companies with owners and budgets, 40 days of their calls, a price that went up a week ago, and requests of 30 days.
 * @returns the ids of the companies
 */
export async function paintOthers(
  sql: Sql,
  company: string,
  until = new Date(),
): Promise<string[]> {
  await sql.begin(async (begun) => {
    await begun`set local session_replication_role = replica`; // the history of prices began long ago
    await begun`
      update model_prices set valid_from = valid_from - interval '1 year' where company_id is null`;
    await begun`
      insert into model_prices (slug, valid_from, input, output, applied)
      values ('aurora-swift', date_trunc('day', ${until}::timestamptz) - interval '7 days', 0.00024, 0.00072, true)`;
  });
  const others = await sql<{ id: string }[]>`
    insert into companies (name, monthly_budget_eur) values
      ('Kieler Werft', 16), ('Alpenkäse eG', 38), ('Stadtwerke Ulm', 300), ('Praxis am Ring', 9)
    returning id`;
  const ids = others.map(({ id }) => id);
  await sql`
    insert into users (email, company_id, role)
    select email, id, 'owner' from unnest(${['frauke@werft.example', 'toni@alpenkaese.example', 'it@ulm.example', 'dr.klein@ring.example']}::text[],
      ${ids}::uuid[]) as o (email, id)`;
  await paintOtherCalls(sql, ids, until);
  await sql`
    with hours as (
      select hour, extract(hour from hour)::int as h, row_number() over (order by hour) as n
      from generate_series(date_trunc('hour', now()) - interval '29 days', date_trunc('hour', now()), '1 hour') as hour
    ),
    each as (
      select *, 30 + 60 * (h between 7 and 17)::int as answered, (n % 5 = 0)::int + 3 * (n > 640 and h between 8 and 16)::int + 7 * (n > 695)::int as budget,
        (h between 9 and 11)::int * (n % 7)::int as rate, (n % 11 = 0)::int as gate, (n % 6 = 0)::int as key,
        (n % 9 = 0)::int as other, (n % 13 = 0)::int + 8 * (n between 300 and 305)::int as failed
      from hours
    )
    insert into request_hours (company_id, hour, model_slug, api_key_id, endpoint, requests, refused, failed, upstream_failed, duration_ms,
      added_us, duration_buckets, added_buckets, reasons)
    select case when n % 3 = 0 then ${company}::uuid else ${ids[1] as string}::uuid end, hour, 'aurora-large', md5('key')::uuid, 'chat.completions',
      answered + budget + rate + gate + key + other + failed, budget + rate + gate + key + other, failed, failed, answered * 900, answered * 100,
      array_fill(0::bigint, array[6]) || array[answered / 4, answered / 3, answered / 4, answered / 9, answered / 20 + (n between 300 and 330)::int * 9]
        || array_fill(0::bigint, array[12]), array_fill(0::bigint, array[2]) || answered::bigint || array_fill(0::bigint, array[12]),
      coalesce((select jsonb_object_agg(code, count) from (values ('insufficient_quota', budget), ('rate_limit_exceeded', rate), ('non_eu_model_blocked', gate),
        ('invalid_api_key', key), ('invalid_request', other), ('upstream_error', failed)) as r (code, count) where count > 0), '{}')
    from each
    on conflict do nothing`;
  await sql`select sum_request_hours(interval '40 days')`;
  await sumDays(sql);
  return ids;
}

/** Calls of 40 days up to a time, of the companies that `paintOthers` adds. */
export async function paintOtherCalls(
  sql: Sql,
  ids: readonly string[],
  until: Date,
): Promise<void> {
  await sql`
    with made as (
      select c.id, c.nth, d, n, date_trunc('day', ${until}::timestamptz) - make_interval(days => d) + make_interval(mins => 300 + n * 13) as at,
        (array['aurora-swift', 'aurora-large', 'meridian-vision'])[1 + (n + c.nth::int) % (1 + c.nth::int % 3)] as slug,
        (900 + (n * 7919 + d * 613) % 9000) * (case when c.nth = 1 and d < 8 then 5 else 3 end) as prompt,
        (200 + (n * 104729 + d * 331) % 1500) * (case when extract(isodow from ${until}::timestamptz - make_interval(days => d)) >= 6 then 1 else 2 end) as completion
      from unnest(${ids}::uuid[]) with ordinality as c (id, nth), generate_series(0, 40) as d,
        generate_series(1, 12 + c.nth::int * 9 + case when c.nth = 2 and d < 8 then 40 else 0 end) as n
    ),
    priced as (select m.*, p.input, p.output from made m, lateral model_price(m.slug, m.id, m.at) p where m.at < ${until}::timestamptz)
    insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens,
      completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at)
    select date_trunc('month', at at time zone 'UTC')::date, gen_random_uuid(), id, md5('key of ' || id)::uuid, slug, 'internal',
      'chat.completions', prompt, completion, (prompt * input + completion * output) * 0.001, input, output, 'upstream', 'completed', at
    from priced`;
}

/**
 * Prices under conditions: a shared model and one of the company with rates, now and from a date on, cost prices with
 * rates, and calls of three months by tier, length, hour and further parts.
 * @returns the id of a call of each, by its rate
 */
export async function paintRates(sql: Sql, company: string): Promise<Record<string, string>> {
  const hours = 'Mon-Fri 22:00-06:00 Europe/Berlin';
  const rate = (conditions: object, times: number) => {
    const [input, output, cache_read, reasoning] = [0.002, 0.008, 0.0002, 0.01].map(
      (eur) => `${Number((eur * times).toFixed(6))}`,
    );
    return {
      ...conditions,
      input,
      output,
      cache_read,
      cache_write_1h: null,
      reasoning,
      request: '0.05',
    };
  };
  const rates = [
    rate({ over: 272_000 }, 2),
    rate({ tier: 'priority' }, 3),
    rate({ over: 272_000, tier: 'priority' }, 4),
    rate(
      { hours: 'Mon-Fri 08:00-12:00,13:00-18:30,20:00-21:00 Europe/Berlin', over: 1_000_000 },
      5,
    ),
  ] as never;
  const night = [{ hours, input: '0.001', output: '0.002' }] as never;
  await sql`
    insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output, cost_eur_per_1k_cache_read,
      cost_eur_per_1k_cache_write_1h, cost_eur_per_1k_reasoning, cost_eur_per_1k_request, rates) values
    ('polar-reasoning', null, 'internal-polar', 'chat', true, 0.002, 0.008, 0.0002, 0.004, 0.01, 0.05, ${rates}::jsonb),
    ('nordlicht-night', ${company}, 'internal-night', 'chat', true, 0.004, 0.008, null, null, null, null, ${night}::jsonb)`;
  await sql`
    insert into model_prices (slug, valid_from, input, output, cache_read, reasoning, request, rates, changed_by)
    select slug, now() + interval '30 days', 0.0015, 0.006, 0.00015, 0.0075, 0.05, ${[rates[0]] as never}::jsonb, 'ann@tollgate.example'
    from models where slug = 'polar-reasoning'`;
  await sql`
    insert into model_cost_prices (slug, valid_from, input, output, cache_read, cache_write_1h, reasoning, request, rates, changed_by)
    values ('polar-reasoning', '2026-01-01', 0.001, 0.004, 0.0001, 0.002, 0.005, 0, ${rates}::jsonb, 'ann@tollgate.example')`;
  const calls = [
    [0, null, 12_000, 1],
    [0, 'over 272000', 272_113, 2],
    [0, 'priority', 12_000, 3],
    [0, 'priority over 272000', 272_113, 4],
    [0, hours, 5000, 0],
    [1, null, 12_000, 1],
    [1, null, 5000, 0],
    [2, null, 12_000, 1],
    [2, 'priority over 272000', 272_113, 4],
    [2, hours, 5000, 0],
  ] as const;
  const ids: Record<string, string> = {};
  for (const [back, name, prompt, times] of calls) {
    const price = (eur: number) => (eur * times).toFixed(6);
    const parts = [
      { part: 'input', units: prompt - 3000, price: price(0.002) },
      { part: 'cache_read', units: 2000, price: price(0.0002) },
      { part: 'cache_write_1h', units: 1000, price: price(0.004) },
      { part: 'output', units: 300, price: price(0.008) },
      { part: 'reasoning', units: 600, price: price(0.01) },
      { part: 'request', units: 1, price: '0.05' },
    ] as never;
    const [row] = await sql<[{ id: string }]>`
      insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens, completion_tokens,
        cost_eur, price_input, price_output, price_cache_read, usage_source, outcome, occurred_at, cached_tokens, cache_write_tokens, cache_write_1h_tokens,
        reasoning_tokens, rate, parts)
      select billing_month(at), ${newRequestId()}, ${company}, (select id from api_keys where company_id = ${company} order by id limit 1),
        ${times === 0 ? 'nordlicht-night' : 'polar-reasoning'}, 'internal', 'chat.completions', ${prompt}::int, 900,
        case when ${times}::int = 0 then ${prompt}::int * input * 0.001 + 900 * output * 0.001 else parts_cost(${parts}::jsonb, ${prompt}, 900) end,
        input, output, case when ${times}::int > 0 then ${price(0.0002)}::numeric end, 'upstream', 'completed', at, 2000, 1000, 1000, 600, ${name}::text,
        case when ${times}::int > 0 then ${parts}::jsonb end
      from (select now() - make_interval(months => ${back}) as at) as t,
        (select case when ${times}::int > 0 then ${price(0.002)}::numeric when ${name === null} then 0.004 else 0.001 end as input,
          case when ${times}::int > 0 then ${price(0.008)}::numeric when ${name === null} then 0.008 else 0.002 end as output) as p
      returning request_id as id`;
    ids[name ?? 'base'] ??= row.id;
  }
  return ids;
}
