import { randomUUID } from 'node:crypto';
import t from 'tap';
import { openDatabase, type Sql } from '../../../src/store/connection/pool.ts';
import { migrate } from '../../../src/store/schema/migrate.ts';
import { SUMS_NAMES, verifySums } from '../../../src/store/statement/verify.ts';
import { privateServer, testDatabase } from '../../support/postgres.ts';
import { insertUsage } from '../rows.ts';

/** The sums by day, hour and month always equal the sums of the ledger. */

const COMPANIES = [randomUUID(), randomUUID()];
const KEYS = [randomUUID(), randomUUID(), randomUUID()];

/** Groups of the daily sums, and the same groups of the ledger. */
async function compare(sql: Sql): Promise<{ rollup: unknown[]; ledger: unknown[] }> {
  const rollup = await sql`
    select company_id, billing_month, day, model_slug, api_key_id, endpoint, usage_source, outcome, cost_center,
      requests, prompt_tokens, completion_tokens, trim_scale(cost_eur)::text as cost
    from usage_daily order by 1, 2, 3, 4, 5, 6, 7, 8, 9`;
  const ledger = await sql`
    select company_id, billing_month, (occurred_at at time zone (select value from settings where name = 'billing_timezone'))::date as day,
      model_slug, api_key_id, endpoint, usage_source, outcome, cost_center, count(*) as requests, sum(prompt_tokens)::bigint as prompt_tokens,
      sum(completion_tokens)::bigint as completion_tokens, trim_scale(sum(cost_eur))::text as cost
    from api_usage group by 1, 2, 3, 4, 5, 6, 7, 8, 9 order by 1, 2, 3, 4, 5, 6, 7, 8, 9`;
  return { rollup: [...rollup], ledger: [...ledger] };
}

t.test('equals the ledger, through any path a row may take', async (t) => {
  const { db } = await testDatabase(t);
  await db.run(60_000, async (sql) => {
    for (const seed of [1, 2, 3])
      await insertUsage(sql, { companies: COMPANIES, keys: KEYS, rows: 500, seed });
    await insertUsage(sql, {
      companies: COMPANIES,
      keys: KEYS,
      rows: 40,
      seed: 4,
      into: 'api_usage_2026_11',
    });
    await t.rejects(
      insertUsage(sql, {
        companies: COMPANIES,
        keys: KEYS,
        rows: 5,
        seed: 4,
        into: 'api_usage_2026_11',
      }), // same ids
      /duplicate key/,
    );
    const { rollup, ledger } = await compare(sql);
    t.ok(rollup.length > 100, 'there is something to compare');
    t.same(rollup, ledger);
    for (const name of SUMS_NAMES) t.match(await verifySums(sql, name), { total: 0 }, name);
  });
});

t.test('many writers at once lose and double nothing', async (t) => {
  const { url } = await testDatabase(t);
  const db = openDatabase({ url, maxConnections: 4 });
  t.teardown(() => db.close());
  await Promise.all(
    Array.from({ length: 12 }, (_, seed) =>
      db.run(60_000, (sql) =>
        insertUsage(sql, { companies: COMPANIES, keys: KEYS, rows: 200, seed: seed + 10 }),
      ),
    ),
  );
  const { rollup, ledger } = await db.run(60_000, compare);
  t.same(rollup, ledger);
  for (const name of SUMS_NAMES) {
    t.match(await db.run(60_000, (sql) => verifySums(sql, name)), { total: 0 }, name);
  }
});

t.test('a day is one of the billing time zone', async (t) => {
  const { url } = await privateServer(t, { fsync: 'off' });
  const db = openDatabase({ url });
  t.teardown(() => db.close());
  await migrate(db, { billingTimezone: 'Pacific/Auckland' });
  await db.run(60_000, async (sql) => {
    await insertUsage(sql, { companies: COMPANIES, keys: KEYS, rows: 500, seed: 2 });
    const { rollup, ledger } = await compare(sql);
    t.same(rollup, ledger);
    for (const name of SUMS_NAMES) t.match(await verifySums(sql, name), { total: 0 }, name);
  });
});
