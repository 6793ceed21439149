import { randomUUID } from 'node:crypto';
import t from 'tap';
import { formatDecimal, parseDecimal } from '../../src/domain/pricing/money.ts';
import { COUNTED_PARTS } from '../../src/domain/pricing/parts.ts';
import { costOf, partsWithin, ratedPrices } from '../../src/domain/pricing/prices.ts';
import { conditionsOf, type RateTexts } from '../../src/domain/pricing/rates.ts';
import { pricesIn } from '../../src/domain/reports/price-preview.ts';
import type { SomePrices } from '../../src/domain/settings/model.ts';
import { previewPrice } from '../../src/operations/price-preview.ts';
import type { Sql } from '../../src/store/connection/pool.ts';
import { withinTime } from '../../src/store/connection/within-time.ts';
import { newToken, send } from '../admin/api/tokens.ts';
import { signedIn, startOffice } from '../admin/people.ts';
import { tollgate as run } from '../support/cli.ts';
import { fuzzRuns } from '../support/fuzz.ts';
import { testDatabase } from '../support/postgres.ts';
import { addUsage } from '../support/usage.ts';

/** What the last month would have cost at another price of a model. */

const SEED = Number(process.env.FUZZ_SEED ?? Date.now() & 0x7fffffff);
let state = SEED;
/** A whole number below `n`. */
const below = (n: number): number => {
  state = (Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5) | 0;
  return ((state ^ (state >>> 13)) >>> 0) % n;
};
const one = <T>(of: readonly T[]): T => of[below(of.length)] as T;

const COLUMNS = COUNTED_PARTS.map(({ column }) => column);
const RATES = ['priority', 'over 1000', 'priority over 1000', null, null];
const HOURS = [
  'Mon-Fri 08:30-17:10 Europe/Berlin',
  '22:00-03:00 UTC',
  'Sat,Sun 00:00-24:00 Asia/Kathmandu',
];

/** Rows of the last month of a model, in which companies have factors and own prices that begin and end within it. */
async function addRandom(sql: Sql, companies: readonly string[]): Promise<string> {
  const [{ month }] = await sql<[{ month: string }]>`
    select (billing_month(now()) - interval '1 month')::date::text as month`;
  const instant = () =>
    new Date(Date.parse(month) + below(28 * 86_400) * 1000 + below(1000)).toISOString();
  const json = Array.from({ length: 600 }, () => {
    const [prompt, completion] = [below(3000), below(500)];
    const counts = COUNTED_PARTS.map(({ column }) => {
      const most = /reasoning|completion/.test(column) ? completion : prompt;
      return [column, below(3) === 0 ? null : below(most + 1)];
    });
    return {
      ...Object.fromEntries(counts),
      month,
      company: one(companies),
      prompt,
      completion,
      rate: one(RATES),
      at: below(4) === 0 ? `${month.slice(0, 7)}-10T${one(['07', '20', '02'])}:30:00Z` : instant(),
    };
  });
  await sql`
    insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens, completion_tokens,
      cost_eur, price_input, price_output, usage_source, outcome, occurred_at, rate, ${sql.unsafe(COLUMNS.join(', '))})
    select month, gen_random_uuid(), company, ${randomUUID()}, 'random', 'internal', 'chat.completions', prompt, completion,
      (prompt * 0.002 + completion * 0.008) * 0.001, 0.002, 0.008, 'upstream', 'completed', at, rate, ${sql.unsafe(COLUMNS.join(', '))}
    from json_to_recordset(${JSON.stringify(json)}::text::json) as r (month date, company uuid, prompt bigint, completion bigint, at timestamptz, rate text,
      ${sql.unsafe(COLUMNS.map((column) => `${column} bigint`).join(', '))})`;
  for (const company of companies.slice(2)) {
    const factor = { company, factor: one(['0.9', '1.25', '0.123456']), at: instant() };
    if (below(2) === 0)
      await sql`insert into company_price_factors (company_id, valid_from, factor, applied) values (${company}, ${factor.at}, ${factor.factor}, true)`;
    const [from, to] = [instant(), instant()].sort() as [string, string];
    if (below(3) === 0)
      await sql`insert into model_prices (slug, company_id, valid_from, input, output, applied) values
        ('random', ${company}, ${from}, 1, 1, true), ('random', ${company}, ${to}, null, null, true)`;
  }
  return month;
}

/** A price of up to four decimals, so that it fits every factor above. */
const price = () => `${below(3)}.${1000 + below(9000)}`;
function somePrice(parts: readonly string[]): SomePrices & { input: string; output: string } {
  const some = parts.flatMap((part) => (below(2) === 0 ? [[part, price()]] : []));
  return {
    input: price(),
    output: price(),
    request: one([null, '2.5']),
    ...Object.fromEntries(some),
  };
}

function randomPrices(): SomePrices {
  const parts = one([[], ['cache_read'], COUNTED_PARTS.map(({ part }) => part)]);
  const rate = (conditions: object) => ({ ...conditions, ...somePrice(parts) }) as RateTexts;
  const rates = [
    { over: 1000 },
    { over: 2000 },
    { tier: 'priority' },
    { hours: one(HOURS) },
  ].flatMap((conditions) => (below(2) === 0 ? [rate(conditions)] : []));
  return { ...somePrice(parts), rates: below(2) === 0 || rates.length === 0 ? null : rates };
}

interface Row extends Record<string, unknown> {
  readonly company: string;
  readonly factor: string;
}

/** The same, call by call, as the gateway prices one, with the factor and the price of its instant. */
async function slowly(sql: Sql, month: string, wanted: SomePrices, owner: string | null) {
  const rows = await sql<Row[]>`
    select u.*, company_id as company, trim_scale(cost_eur)::text as cost, extract(epoch from occurred_at)::float8 * 1000 as ms, trim_scale(f.factor)::text as factor
    from api_usage u, price_factor(company_id, occurred_at) f
    where billing_month = ${month} and model_slug = 'random' and case when ${owner}::uuid is not null then company_id = ${owner}
      else (select company_id from list_price('random', u.company_id, occurred_at)) is null
        and not exists (select from models m where m.slug = 'random' and m.company_id = u.company_id) end`;
  const sums = new Map<string, { calls: number; cost: bigint; would: bigint }>();
  for (const row of rows) {
    const tokens = { prompt: Number(row.prompt_tokens), completion: Number(row.completion_tokens) };
    const counts = Object.fromEntries(
      COUNTED_PARTS.map(({ count, column }) => [
        count,
        row[column] === null ? null : Number(row[column]),
      ]),
    );
    const tier = row.rate === null ? null : (conditionsOf(row.rate as string).tier ?? null);
    const prices = ratedPrices(pricesIn(wanted), { at: row.ms as number, tier }, tokens.prompt);
    const cost = costOf(
      prices,
      tokens.prompt,
      tokens.completion,
      partsWithin(prices, tokens, counts),
    );
    const sum = sums.get(row.company) ?? { calls: 0, cost: 0n, would: 0n };
    sums.set(row.company, sum);
    sum.calls++;
    sum.cost += parseDecimal(row.cost as string, 15);
    sum.would += cost * parseDecimal(row.factor, 6);
  }
  return new Map(
    [...sums].map(([company, { calls, cost, would }]) => [
      company,
      { calls, cost_eur: formatDecimal(cost, 15), would_eur: formatDecimal(would, 21) },
    ]),
  );
}

t.test('sums of the ledger cost what its calls cost one by one, to the last digit', async (t) => {
  t.comment(`FUZZ_SEED=${SEED}`);
  const { db } = await testDatabase(t);
  const companies = await db.transaction(60_000, async (sql) => {
    const rows = await sql<{ id: string }[]>`
      insert into companies (name) select 'Company ' || n from generate_series(1, 9) n returning id`;
    await sql`insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output, company_id)
      values ('random', 'internal', 'chat', true, 1, 1, null), ('random', 'internal', 'chat', true, 1, 1, ${rows[1]?.id ?? null})`;
    return rows.map(({ id }) => id);
  });
  const month = await db.transaction(60_000, async (sql) => {
    await sql`alter table company_price_factors disable trigger user`;
    await sql`alter table model_prices disable trigger user`;
    const added = await addRandom(sql, companies);
    await sql`alter table company_price_factors enable trigger user`;
    await sql`alter table model_prices enable trigger user`;
    return added;
  });
  for (let n = 0; n < fuzzRuns(60); n++) {
    const wanted = randomPrices();
    const owner = below(5) === 0 ? one(companies) : null;
    await db.run(60_000, async (sql) => {
      const preview = await previewPrice(sql, { slug: 'random', company_id: owner }, wanted, null);
      const slow = await slowly(sql, month, wanted, owner);
      const fast = preview.companies.map(({ company_id, company_name: _, ...figures }) => [
        company_id,
        figures,
      ]);
      t.same(Object.fromEntries(fast), Object.fromEntries(slow), JSON.stringify({ owner, wanted }));
      t.equal(
        preview.calls,
        [...slow.values()].reduce((sum, { calls }) => sum + calls, 0),
      );
    });
  }
});

t.test('work that takes too long is given up, and its transaction goes on', async (t) => {
  const { db } = await testDatabase(t);
  await db.transaction(60_000, async (sql) => {
    t.equal(await withinTime(sql, 20, () => sql`select pg_sleep(60)`), null);
    const endless = async (rest: () => void) => {
      for (;;) {
        await sql`select 1`;
        rest();
      }
    };
    t.equal(await withinTime(sql, 20, endless), null);
    t.equal(await withinTime(sql, 60_000, async () => 1), 1);
    const [found] = await sql`show statement_timeout`;
    t.match(found, { statement_timeout: '0' });
  });
});

t.test('each face says it before a price is saved', async (t) => {
  const office = await startOffice(t);
  const { sql, databaseUrl } = office;
  const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: databaseUrl } });
  const [{ month, id }] = await sql<[{ month: string; id: string }]>`
    insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
    values ('previewed', 'internal', 'chat', true, 0.002, 0.008) returning id, (billing_month(now()) - interval '1 month')::date::text as month`;
  const companies = await sql<{ id: string }[]>`
    insert into companies (name) select 'Company ' || n from generate_series(1, 12) n returning id`;
  const calls = companies.map(({ id }, n) => ({
    company: id,
    prompt: (n + 1) * 1000,
    cached: 500,
  }));
  const { cached: _, ...untold } = calls[0] as (typeof calls)[number];
  const row = { month, model: 'previewed', completion: 100, input: '0.002', output: '0.008' };
  await addUsage(
    sql as never,
    [...calls, untold].map((each) => ({ ...each, ...row })),
  );
  const stored = async () =>
    (
      await sql`select trim_scale(cost_eur_per_1k_input)::text as input from models where id = ${id}`
    )[0]?.input;
  const cost = { calls: 13, cost_eur: '0.1684', would_eur: '0.3264' };

  const tried = await tollgate(
    'model',
    'set',
    'previewed',
    '--input-price',
    '0.004',
    '--dry-run',
    '--json',
  );
  t.match(tried.json, { month: month.slice(0, 7), ...cost, notes: [] });
  t.same(
    tried.json.companies.map(({ company_name }: { company_name: string }) => company_name),
    Array.from({ length: 10 }, (_, n) => `Company ${12 - n}`),
  );
  t.match(tried.json.companies[0], { calls: 1, cost_eur: '0.0248', would_eur: '0.0488' });
  const shown = await tollgate(
    'model',
    'set',
    'previewed',
    '--cache-read-price',
    '0.0002',
    '--dry-run',
  );
  t.match(
    shown.out,
    /EUR as booked +0\.1684\n +EUR at this price +0\.1576\n[\s\S]*Company 12 +1 +0\.0248 +0\.0239\n/,
  );
  t.match(
    shown.out,
    /! 1000 prompt tokens are of calls that do not tell how many were cache read: they count at the input price/,
  );
  t.match(await tollgate('model', 'set', 'previewed', '--upstream', 'x', '--dry-run'), {
    code: 64,
  });
  t.equal(await stored(), '0.002', 'nothing is changed');

  const path = `/models/${id}/prices/preview`;
  const ask = async (body: object, more: object = {}) =>
    send(office, await newToken(office, more), ['POST', path], body);
  t.match(await ask({ input: '0.004' }, { access: 'read' }), { status: 200, body: cost });
  const rates = [{ tier: 'priority', input: '1', output: '1' }];
  t.match((await ask({ rates })).body, {
    would_eur: '0.1684',
    notes: [/^which calls priority served was not recorded/],
  });
  t.equal((await ask({ rates: [...rates, ...rates] })).status, 409);
  t.equal((await ask({})).status, 400);
  t.equal((await ask({ input: '1' }, { company_id: office.customer.company })).status, 403);
  t.equal(await stored(), '0.002');

  const operator = await signedIn(office, 'operator');
  const fields = {
    upstream: 'internal',
    kind: 'chat',
    eu_hosted: 'true',
    input: '0.004',
    output: '0.008',
  };
  for (const [to, sent] of [
    [
      `/models/${id}/prices`,
      { next_input: '0.004', next_output: '0.008', from: '2099-01-01T12:00' },
    ],
    [`/models/${id}`, fields],
  ] as const) {
    const asked = await operator.post(to, sent);
    t.match([asked.status, asked.text], [409, /October|would have cost/]);
    t.match(
      asked.text,
      /title="€0\.1684"[\s\S]*title="€0\.3264"[\s\S]*>Company 12<[\s\S]*title="€0\.0248"[\s\S]*title="€0\.0488"/,
    );
    t.equal(await stored(), '0.002', 'not saved yet');
    const confirmed = /name="confirmed" value="([^"]+)"/.exec(asked.text)?.[1] as string;
    t.equal((await operator.post(to, { ...sent, confirmed })).status, 303);
  }
  t.equal(await stored(), '0.004');
  const same = await operator.post(`/models/${id}`, { ...fields, upstream: 'another' });
  t.equal(same.status, 303, 'no other price, no question');
  t.match(
    (await tollgate('model', 'set', 'previewed', '--input-price', '0.002')).err,
    /the calls of \d{4}-\d\d to previewed cost 0\.1684 EUR; at this price they would have cost 0\.1684 EUR/,
  );
});

t.test(
  'shared prices concern no company with its own, and its own price all its calls',
  async (t) => {
    const { db } = await testDatabase(t);
    await db.transaction(60_000, async (sql) => {
      const [one, two] = await sql<[{ id: string }, { id: string }]>`
      insert into companies (name) values ('Own'), ('Shared') returning id`;
      const [{ month }] = await sql<[{ month: string }]>`
      insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
      values ('m', null, 'i', 'chat', true, 1, 1), ('m', ${one.id}, 'i', 'chat', true, 1, 1)
      returning (billing_month(now()) - interval '1 month')::date::text as month`;
      const row = { month, model: 'm', prompt: 1000, input: '1', output: '1' };
      await addUsage(sql, [
        { ...row, company: one.id },
        { ...row, company: two.id },
      ]);
      const costs = async (company_id: string | null) => {
        const name = { slug: 'm', company_id };
        const preview = await previewPrice(sql, name, { input: '2', output: '2' }, null);
        return preview.companies.map(({ company_name, would_eur }) => [company_name, would_eur]);
      };
      t.same(await costs(null), [['Shared', '2']]);
      t.same(await costs(one.id), [['Own', '2']]);
    });
  },
);
