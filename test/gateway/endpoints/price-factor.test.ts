import fc from 'fast-check';
import t from 'tap';
import { formatDecimal } from '../../../src/domain/pricing/money.ts';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { readAllChange } from '../../../src/store/usage/all-usage.ts';
import { readUsageChange } from '../../../src/store/usage/change.ts';
import { NO_FILTERS } from '../../../src/store/usage/cube.ts';
import { readMargin } from '../../../src/store/usage/margin.ts';
import { completion } from '../../support/answers.ts';
import { ask } from '../../support/client.ts';
import { startGateway } from '../../support/gateway.ts';
import { closeStatement } from '../../support/statement.ts';
import { until } from '../../support/until.ts';
import { scriptedUpstream } from '../../support/upstream.ts';

/** The factor of a company in what its calls cost. The oracle multiplies whole numbers: 10^-18 EUR per 1000 tokens, 10^-21 EUR. */

const upstream = await scriptedUpstream(t);
const gateway = await startGateway(t, upstream.url);
const db = openDatabase({ url: gateway.databaseUrl, maxConnections: 2 });
t.teardown(() => db.close());
const { sql } = gateway;

const PRICES = { input: 2_500_001n, output: 10_000_003n, read: 250_007n, write: 3_125_009n }; // 10^-9 EUR
const nano = (price: bigint) => formatDecimal(price, 9);
const usage = (prompt: number, read: number, write: number, output: number) => ({
  prompt_tokens: prompt,
  completion_tokens: output,
  total_tokens: prompt + output,
  prompt_tokens_details: { cached_tokens: read, cache_write_tokens: write },
});

t.test('row, header, sums, statement, margin and change: no digit differs', async (t) => {
  await gateway.model('fast', {
    upstream: 'internal-fast',
    input: nano(PRICES.input),
    output: nano(PRICES.output),
    cacheRead: nano(PRICES.read),
    cacheWrite: nano(PRICES.write),
  });
  await sql`insert into model_cost_prices (slug, valid_from, input, output) values ('fast', '2026-01-01', 0, 0)`;
  const factor = fc.integer({ min: 1, max: 1_000_000 }); // thousandths
  const count = fc.integer({ min: 1, max: 2000 });
  const calls = fc.array(fc.tuple(count, count, count, count), { minLength: 1, maxLength: 4 });
  let all = 0n;
  const companies: string[] = [];
  await fc.assert(
    fc.asyncProperty(factor, calls, async (thousandths, calls) => {
      const company = await gateway.company();
      companies.push(company);
      const key = await gateway.key(company);
      await sql`update companies set price_factor = ${formatDecimal(BigInt(thousandths), 3)} where id = ${company}`;
      let sum = 0n; // 10^-15 EUR
      for (const [more, read, write, output] of calls) {
        upstream.answerJson(completion(usage(more + read + write, read, write, output)));
        const cost =
          (BigInt(more) * PRICES.input +
            BigInt(read) * PRICES.read +
            BigInt(write) * PRICES.write +
            BigInt(output) * PRICES.output) *
          BigInt(thousandths); // 10^-12 EUR per 1000
        sum += cost;
        const body = { model: 'fast', messages: [{ role: 'user', content: 'x' }] };
        const { headers, status } = await ask(`${gateway.url}/chat/completions`, { key, body });
        t.match(
          { status, cost: headers.get('x-cost-eur') },
          { status: 200, cost: formatDecimal(cost, 15) },
        );
      }
      all += sum;
      const rows = await gateway.ledger(company, calls.length);
      const expected = (price: bigint) => formatDecimal(price * BigInt(thousandths), 12);
      const prices = await sql<Record<'input' | 'output' | 'read' | 'write', string>[]>`
        select distinct trim_scale(price_input)::text as input, trim_scale(price_output)::text as output,
          trim_scale(price_cache_read)::text as read, trim_scale(price_cache_write)::text as write from api_usage where company_id = ${company}`;
      t.same(prices, [
        {
          input: expected(PRICES.input),
          output: expected(PRICES.output),
          read: expected(PRICES.read),
          write: expected(PRICES.write),
        },
      ]);
      const [asked] =
        await sql`select trim_scale(m.input)::text as paid, trim_scale(l.input)::text as list, trim_scale(m.factor)::text as factor
        from model_price('fast', ${company}, ${rows.at(-1)?.occurred_at as Date}::timestamptz + interval '1 minute') m, list_price('fast', ${company}, now()) l`;
      t.same(asked, {
        paid: expected(PRICES.input),
        list: nano(PRICES.input),
        factor: formatDecimal(BigInt(thousandths), 3),
      });
      const [spent] =
        await sql`select trim_scale(api_cost_eur)::text as cost from monthly_spend where company_id = ${company}`;
      t.equal(spent?.cost, formatDecimal(sum, 15));
      const [{ month }] = (await sql`select billing_month(now())::text as month`) as unknown as [
        { month: string },
      ];
      await closeStatement(db, company, month);
      const [sealed] =
        await sql`select trim_scale(total_eur)::text as total from statements where company_id = ${company}`;
      t.equal(sealed?.total, formatDecimal(sum, 15));
      return true;
    }),
    { numRuns: 15 },
  );
  const [{ day, yesterday, month }] = await sql<[Record<'day' | 'yesterday' | 'month', string>]>`
    select (now() at time zone 'UTC')::date::text as day, ((now() at time zone 'UTC')::date - 1)::text as yesterday, billing_month(now())::text as month`;
  const margin = await db.run(60_000, (sql) => readMargin(sql, month));
  t.equal(margin.total?.revenue_eur, formatDecimal(all, 15));
  await sql.begin(async (sql) => {
    await sql`set local session_replication_role = replica`; // history that began long ago
    for (const table of ['model_prices', 'company_price_factors'])
      await sql`update ${sql(table)} set valid_from = '2026-01-01'`;
  });
  const times = { before: { from: yesterday, to: yesterday }, after: { from: day, to: day } };
  const change = await db.transaction(60_000, (sql) => readAllChange(sql, times, null));
  t.equal(change.total.difference_eur, formatDecimal(all, 15));
  t.equal(change.total.changed_prices_eur, '0');
  const own = await db.transaction(60_000, (sql) =>
    readUsageChange(sql, companies[0] as string, times, NO_FILTERS),
  );
  t.equal(own.total.changed_prices_eur, '0');
});

t.test(
  'a change of the column reaches calls; its own models are multiplied, and a company without a factor pays the list',
  async (t) => {
    upstream.answerJson(completion(usage(1000, 0, 0, 1000)));
    const company = await gateway.company();
    await gateway.model('bespoke', { upstream: 'internal-own', input: '1', output: '2', company });
    const key = await gateway.key(company);
    const cost = async (model: string, by = key) => {
      const body = { model, messages: [{ role: 'user', content: 'x' }] };
      return (await ask(`${gateway.url}/chat/completions`, { key: by, body })).headers.get(
        'x-cost-eur',
      );
    };
    t.equal(await cost('bespoke'), '3');
    for (const [factor, own, shared] of [
      ['0.5', '1.5', '0.006250002'],
      ['2', '6', '0.025000008'],
      ['1', '3', '0.012500004'],
    ] as const) {
      await sql`update companies set price_factor = ${factor} where id = ${company}`;
      await until(
        () => cost('bespoke'),
        `the factor ${factor} holds`,
        (found) => found === own,
      );
      t.equal(await cost('fast'), shared);
    }
    const other = await gateway.company();
    t.equal(await cost('fast', await gateway.key(other)), '0.012500004');
    await sql`update companies set price_factor = 3 where id = ${company}`;
    await sql`update models set cost_eur_per_1k_input = 0.5, cost_eur_per_1k_output = 0.5 where slug = 'fast'`;
    await until(
      () => cost('fast'),
      'a new list price is multiplied',
      (found) => found === '3',
    );
    await sql`update models set cost_eur_per_1k_input = 0.25 where slug = 'fast'`;
    await until(
      () => cost('fast'),
      'and the next one',
      (found) => found === '2.25',
    );
  },
);

t.test('a budget counts what is paid, and a strict one reserves it', async (t) => {
  upstream.answerJson(completion(usage(1000, 0, 0, 0)));
  await gateway.model('unit', { upstream: 'internal-unit', input: '1', output: '1' });
  const company = await gateway.company({ budget: '1' });
  await sql`update companies set price_factor = 0.5, budget_mode = 'strict' where id = ${company}`;
  const key = await gateway.key(company);
  const call = async (max_tokens: number) => {
    const body = { model: 'unit', messages: [{ role: 'user', content: 'x' }], max_tokens };
    return (await ask(`${gateway.url}/chat/completions`, { key, body })).status;
  };
  t.equal(await call(1900), 200, '0.95 EUR at most of 1');
  await gateway.ledger(company, 1);
  t.equal(await call(1100), 402, '0.5 EUR are spent');
  t.equal(await call(900), 200);
});
