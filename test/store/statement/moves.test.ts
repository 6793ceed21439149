import { randomUUID } from 'node:crypto';
import t from 'tap';
import { openDatabase, type Sql } from '../../../src/store/connection/pool.ts';
import { attachMonth, detachMonth } from '../../../src/store/statement/moves.ts';
import { SUMS } from '../../../src/store/statement/sums.ts';
import { copyFocus } from '../../../src/store/usage/focus.ts';
import { tollgate } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';
import { closeStatement } from '../../support/statement.ts';
import { until } from '../../support/until.ts';
import { addUsage } from '../../support/usage.ts';

const MS = 60_000;
const seed = Number(process.env.FUZZ_SEED ?? Math.floor(Math.random() * 1e9));
t.comment(`FUZZ_SEED=${seed}`);
let state = (seed % 2_147_483_646) + 1;
const pick = (below: number): number => {
  state = (state * 48_271) % 2_147_483_647;
  return state % below;
};

const { db, url } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(MS, async (sql) => work(sql));
const [{ past, before }] = await run(
  (sql) => sql<[{ past: string; before: string }]>`
    select to_char(now() - interval '3 months', 'YYYY-MM-01') as past, to_char(now() - interval '4 months', 'YYYY-MM-01') as before`,
);
const MONTH = past.slice(0, 7);
const TABLE = `api_usage_${MONTH.replace('-', '_')}`;
const COSTS = `upstream_costs_${MONTH.replace('-', '_')}`;
for (const month of [past, before])
  await run((sql) => sql`select ensure_api_usage_partitions(${month}::date, 1)`);
const companies = [randomUUID(), randomUUID(), randomUUID()];
const writer = randomUUID();

/** Rows as other programs write them, and a batch of a gateway, which has a seal and costs of the upstream. */
async function add(month: string, count: number, of = companies): Promise<void> {
  const usage = () => ({
    company: of[pick(of.length)] as string,
    month,
    model: ['fast', 'large'][pick(2)] as string,
    key: `00000000-0000-4000-8000-00000000000${pick(3)}`,
    center: ['', 'R&D'][pick(2)] as string,
    prompt: 10 + pick(1000),
    completion: pick(50),
    input: '0.0037',
    output: '0.01',
    at: `${month.slice(0, 8)}${String(1 + pick(28)).padStart(2, '0')}T${String(pick(24)).padStart(2, '0')}:30:00Z`,
    ...(pick(2) === 0 ? {} : { cached: pick(10), reasoning: 0 }),
    ...(pick(2) === 0 ? {} : { endUser: `00000000-0000-4000-9000-00000000000${pick(3)}` }),
  });
  await run((sql) => addUsage(sql, Array.from({ length: count }, usage)));
  const records = Array.from({ length: count }, usage).map((row) => ({
    billing_month: month,
    request_id: randomUUID(),
    company_id: row.company,
    api_key_id: row.key,
    model_slug: row.model,
    upstream_model: 'internal/x',
    endpoint: 'messages',
    prompt_tokens: row.prompt,
    completion_tokens: 0,
    price_input: 1,
    price_output: 0,
    cost_eur: row.prompt / 1000,
    usage_source: ['upstream', 'estimated'][pick(2)],
    outcome: ['completed', 'client_aborted'][pick(2)],
    occurred_at: row.at,
    upstream_cost: 0.5,
    upstream_currency: 'USD',
  }));
  await run((sql) => sql`select book_usage(${writer}, ${JSON.stringify(records)}::text::json)`);
}

/** All sums, without the parts in which they are kept. */
async function sums(): Promise<unknown> {
  const tables = await Promise.all(
    Object.values(SUMS).map(({ table, by, figures }) =>
      run((sql) =>
        sql.unsafe(
          `select ${by}, ${Object.keys(figures).map((name) => `trim_scale(sum(${name}))::text as ${name}`)} from ${table} group by ${by} order by ${by}`,
        ),
      ),
    ),
  );
  return tables;
}
/** How many costs of the upstream a table has of the month. */
const costsIn = async (table: string) =>
  (await run((sql) => sql`select from ${sql(table)} where billing_month = ${past}`)).length;
const verify = () => tollgate(['ledger', 'verify', '--json'], { env: { DATABASE_URL: url } });
const move = (how: 'detach' | 'attach', ...more: string[]) =>
  tollgate(['ledger', how, MONTH, ...more], { env: { DATABASE_URL: url } });

await add(before, 20);
await add(past, 40);

t.test('a month that is open is not taken away', async (t) => {
  const { code, err } = await move('detach');
  t.equal(code, 1);
  t.match(err, /is not closed for 3 companies with calls/);
  const [{ now }] = await run(
    (sql) => sql<[{ now: string }]>`select to_char(now(), 'YYYY-MM-01') as now`,
  );
  await t.rejects(detachMonth(db, { month: now, anyway: true, onProgress() {} }), {
    message: /is not over yet/,
  });
  await t.rejects(detachMonth(db, { month: '1999-01-01', anyway: true, onProgress() {} }), {
    message: /has no table of its own for 1999-01: it is away, or it never had one/,
  });
  for (const company of companies)
    for (const month of [before, past]) await closeStatement(db, company, month);
});

t.test(
  'a closed month goes with its sums, is proven without its rows, and comes back whole',
  async (t) => {
    const whole = await sums();
    t.equal((await verify()).code, 0);
    t.match(await move('detach'), { code: 0 });
    const { code, out } = await verify();
    t.equal(code, 0, out);
    t.match(JSON.parse(out).away, [{ month: MONTH, companies: 3, requests: 80 }]);
    for (const { table } of Object.values(SUMS)) {
      const [{ rows }] = await run(
        (sql) =>
          sql<
            [{ rows: number }]
          >`select count(*)::integer as rows from ${sql(table)} where billing_month = ${past}`,
      );
      t.equal(rows, 0, table);
    }
    t.same([await costsIn('upstream_costs'), await costsIn(COSTS)], [0, 40]);
    t.match(await move('detach'), { code: 1, err: /has no table of its own/ });
    await t.rejects(
      db.transaction(MS, (sql) =>
        copyFocus(
          sql,
          { brand: { name: 'N', seller: null }, month: past, company: null, role: 'operator' },
          async () => true,
        ),
      ),
      { message: /were taken away/ },
    );
    const company = companies[0] as string;
    t.match(
      await tollgate(['ledger', 'export', '--company', company, '--month', MONTH], {
        env: { DATABASE_URL: url },
      }),
      { code: 1, err: /were taken away/ },
    );

    t.test('calls that come meanwhile are booked, and join the others', async (t) => {
      await add(past, 3);
      await run((sql) =>
        addUsage(sql, [{ company: randomUUID(), month: past, prompt: 5, input: '1' }]),
      );
      t.equal((await verify()).code, 0);
      const late = await sums();
      t.match(await move('attach'), { code: 0 });
      t.equal((await verify()).code, 0);
      t.notSame(await sums(), late);
      for (const table of ['api_usage_default', 'upstream_costs_default'])
        t.equal(await costsIn(table), 0, table);
      t.equal(await costsIn('upstream_costs'), 43);
      for (const change of ['update upstream_costs set cost = 0', `delete from ${COSTS}`])
        await t.rejects(
          run((sql) => sql.unsafe(change)),
          { code: '23001' },
          change,
        );
      t.match(await move('attach'), { code: 1, err: /is not away/ });
    });
    await t.test('nothing is lost of the sums', async (t) => {
      await detachMonth(db, { month: past, anyway: true, onProgress() {} });
      await attachMonth(db, { month: past, onProgress() {} });
      const again = await sums();
      await detachMonth(db, { month: past, anyway: true, onProgress() {} });
      await attachMonth(db, { month: past, onProgress() {} });
      t.same(await sums(), again);
      t.notSame(again, whole, 'those that came late are in it');
    });
  },
);

t.test(
  'bookings and readers of the ledger never queue for long behind a month that goes',
  async (t) => {
    const apart = openDatabase({ url, maxConnections: 1 });
    t.teardown(() => apart.close());
    const [held, over] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const reader = db.transaction(MS, async (sql) => {
      await sql`select count(*) from api_usage`;
      held.resolve();
      await over.promise;
    });
    await held.promise;
    const told: string[] = [];
    const onProgress = (text: string) => told.push(text);
    const moved = detachMonth(apart, { month: past, anyway: true, onProgress });
    await Promise.race([
      until(() => told.some((text) => /waiting for others/.test(text)), 'it gave way'),
      moved,
    ]);
    await add(before, 1, [randomUUID()]);
    await add(past, 1); // a late call of the month that goes
    over.resolve();
    await reader;
    await moved;
    t.equal((await verify()).code, 0);
  },
);

t.test('a move that ends in the middle leaves the ledger as it was', async (t) => {
  await attachMonth(db, { month: past, onProgress() {} });
  const whole = await sums();
  const costs = await costsIn('upstream_costs');
  for (const how of ['detach', 'attach'] as const) {
    if (how === 'attach') await detachMonth(db, { month: past, anyway: true, onProgress() {} });
    const apart = openDatabase({ url, maxConnections: 1 });
    const [held, over] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    // it has moved the calls, and waits for the costs
    const reader = db.transaction(MS, async (sql) => {
      await sql`lock table upstream_costs in access share mode`;
      await sql`lock table upstream_costs_default in access share mode`;
      held.resolve();
      await over.promise;
    });
    await held.promise;
    const options = { month: past, anyway: true, onProgress() {} };
    const moved = how === 'detach' ? detachMonth(apart, options) : attachMonth(apart, options);
    const failed = t.rejects(moved, how);
    await until(
      async () =>
        (
          await run(
            (sql) => sql`
              select pg_terminate_backend(pid) from pg_locks
              where relation::regclass::text like 'upstream_costs%' and not granted`,
          )
        ).length > 0,
      'it waits for the costs',
    );
    await failed;
    over.resolve();
    await reader;
    await apart.close();
    const { code, out } = await verify();
    t.equal(code, 0, how);
    t.equal(JSON.parse(out).away.length, how === 'detach' ? 0 : 1);
    t.equal(await costsIn(COSTS), costs);
  }
  t.match(await move('attach'), { code: 0 });
  t.same(await sums(), whole);
  await detachMonth(db, { month: past, anyway: true, onProgress() {} });
});

t.test('a ledger on several servers keeps its months, and says so', async (t) => {
  const spread = (is: boolean) =>
    run((sql) =>
      sql.unsafe(
        `create or replace function is_distributed() returns boolean language sql immutable as 'select ${is}'`,
      ),
    );
  await spread(true);
  const refused = { message: /spread over several servers/ };
  await t.rejects(detachMonth(db, { month: past, anyway: true, onProgress() {} }), refused);
  await spread(false);
});

t.test('a table that was dumped and restored fits: its checks read as they did', async (t) => {
  await db.transaction(MS, async (sql) => {
    for (const table of ['api_usage', 'upstream_costs']) {
      const checks = await sql<{ name: string; text: string }[]>`
        select conname as name, pg_get_constraintdef(oid) as text from pg_constraint
        where contype = 'c' and conrelid = ${table}::regclass`;
      t.ok(checks.length > 0);
      await sql`create temp table restored (like ${sql(table)}) on commit drop`;
      for (const { name, text } of checks) {
        await sql.unsafe(`alter table restored add constraint "${name}" ${text}`);
        const [again] = await sql`
          select pg_get_constraintdef(oid) as text from pg_constraint
          where conname = ${name} and conrelid = 'restored'::regclass`;
        t.equal(again?.text, text, name);
      }
      await sql`drop table restored`;
    }
  });
});

t.test('another table does not come back, and a note that was changed is named', async (t) => {
  const set = (change: string) => run((sql) => sql.unsafe(change));
  await set(`alter table ${COSTS} rename to elsewhere`);
  t.match(await move('attach'), {
    code: 1,
    err: new RegExp(`there is no table ${TABLE} or ${COSTS}`),
  });
  await set(`alter table elsewhere rename to ${COSTS}`);
  await set(`alter table ${COSTS} disable trigger user`);
  for (const [change, back] of [
    ['cost = cost + 1', 'cost = cost - 1'],
    ["currency = 'GBP'", "currency = 'USD'"],
  ]) {
    const one = `where request_id = (select min(request_id::text)::uuid from ${COSTS})`;
    await set(`update ${COSTS} set ${change} ${one}`);
    t.match(await move('attach'), { code: 1, err: /are not those that were taken away/ });
    await set(`update ${COSTS} set ${back} ${one}`);
  }
  await run((sql) => sql.unsafe(`alter table ${TABLE} disable trigger user`));
  const [row] = await run((sql) =>
    sql.unsafe<{ id: string }[]>(
      `update ${TABLE} set upstream_model = 'other' where request_id = (select min(request_id::text)::uuid from ${TABLE}) returning request_id::text as id`,
    ),
  );
  t.match(await move('attach'), { code: 1, err: /are not those that were taken away/ });
  await run((sql) =>
    sql.unsafe(
      `update ${TABLE} set upstream_model = case endpoint when 'messages' then 'internal/x' else 'internal/fast' end where request_id = '${row?.id}'`,
    ),
  );
  t.match(await move('attach'), { code: 0 });
  t.equal((await verify()).code, 0);
  await run(async (sql) => {
    await sql`alter table ledger_moves disable trigger user`;
    await sql`update ledger_moves set requests = array[1::bigint] || requests[2:] where number = 1`;
    await sql`delete from ledger_moves where number = 2`;
  });
  const { code, out } = await verify();
  t.equal(code, 1);
  t.match(JSON.parse(out).checkpoints.findings, [
    { what: 'move edited', checkpoint: 1 },
    { what: 'move missing', checkpoint: 2 },
  ]);
});
