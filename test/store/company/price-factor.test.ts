import t, { type Test } from 'tap';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { testDatabase } from '../../support/postgres.ts';

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(60_000, work);

async function newCompany(name: string, factor = '1'): Promise<string> {
  const [row] = await run(
    (sql) =>
      sql<
        { id: string }[]
      >`insert into companies (name, price_factor) values (${name}, ${factor}) returning id`,
  );
  return (row as { id: string }).id;
}
const setFactor = (id: string, factor: string) =>
  run((sql) => sql`update companies set price_factor = ${factor} where id = ${id}`);
const history = async (id: string) => {
  const rows = await run(
    (sql) => sql<{ factor: string; applied: boolean }[]>`
      select trim_scale(factor)::text as factor, applied from company_price_factors where company_id = ${id} order by valid_from`,
  );
  return rows.map(({ factor, applied }) => (applied ? factor : `${factor} to come`));
};
const schedule = (id: string, seconds: number, factor: string) =>
  run(
    (sql) => sql<
      { id: string }[]
    >`insert into company_price_factors (company_id, valid_from, factor)
      values (${id}, clock_timestamp() + ${seconds} * interval '1 second', ${factor}) returning id`,
  );
/** Moves the history of a company as time would. */
const pass = (id: string, seconds: number) =>
  db.transaction(60_000, async (sql) => {
    await sql`set local session_replication_role = replica`; // no triggers
    await sql`update company_price_factors set valid_from = valid_from - ${seconds} * interval '1 second' where company_id = ${id}`;
  });
const apply = () =>
  run((sql) => sql<[{ seconds: number | null }]>`select apply_due_prices() as seconds`);
const present = async (id: string) =>
  (
    await run(
      (sql) => sql`select trim_scale(price_factor)::text as factor from companies where id = ${id}`,
    )
  )[0]?.factor;
const refused = (
  t: Test,
  work: (sql: Sql) => PromiseLike<unknown>,
  constraint: string | null = 'price_factor_begun',
) => t.rejects(run(work), { unavailable: false, constraint } as never);

t.test('a company has the factor 1 and no history, until somebody sets another one', async (t) => {
  const id = await newCompany('plain');
  t.same(await history(id), []);
  await setFactor(id, '1.0');
  t.same(await history(id), []);
  await setFactor(id, '0.90');
  await setFactor(id, '0.9');
  await run((sql) => sql`update companies set name = 'other' where id = ${id}`);
  await setFactor(id, '1');
  t.same(await history(id), ['0.9', '1']);
  t.same(await history(await newCompany('from the start', '1.175')), ['1.175']);
  for (const factor of ['0', '-1', '1000.1', '0.0000001', 'NaN', 'Infinity'])
    await refused(
      t,
      (sql) => sql`update companies set price_factor = ${factor}::text::numeric where id = ${id}`,
      'companies_price_factor_check',
    );
});

t.test('what a price of an instant is, with and without a factor', async (t) => {
  const id = await newCompany('asks');
  await run(
    (
      sql,
    ) => sql`insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output, cost_eur_per_1k_cache_read)
      values ('asked', 'internal', 'chat', true, 0.002, 0.008, 0.0002)`,
  );
  const price = async (company: string | null, seconds = 0) =>
    (
      await run(
        (
          sql,
        ) => sql`select trim_scale(input)::text as input, trim_scale(output)::text as output, trim_scale(cache_read)::text as read,
          cache_write as write, trim_scale(factor)::text as factor
          from model_price('asked', ${company}, clock_timestamp() + ${seconds} * interval '1 second')`,
      )
    )[0];
  const list = { input: '0.002', output: '0.008', read: '0.0002', write: null, factor: '1' };
  t.same(await price(id), list);
  await setFactor(id, '1.125');
  await schedule(id, 3600, '0.5');
  t.same(await price(id), {
    input: '0.00225',
    output: '0.009',
    read: '0.000225',
    write: null,
    factor: '1.125',
  });
  t.same(await price(id, 3601), {
    input: '0.001',
    output: '0.004',
    read: '0.0001',
    write: null,
    factor: '0.5',
  });
  t.same(await price(null), list);
  t.same(await price(await newCompany('other')), list);
  const [listed] = await run(
    (sql) =>
      sql`select trim_scale(input)::text as input from list_price('asked', ${id}, clock_timestamp())`,
  );
  t.same(listed, { input: '0.002' });
  await run(
    (
      sql,
    ) => sql`insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
      values ('asked', ${id}, 'internal', 'chat', true, 0.4, 0)`,
  );
  t.match(
    await price(id),
    { input: '0.45', output: '0', read: null },
    'its own model is multiplied too',
  );
  const [{ since }] = (await run(
    (sql) => sql`select m.valid_from = f.valid_from as since
      from model_price('asked', ${id}, clock_timestamp() + interval '2 hours') m, price_factor(${id}, clock_timestamp() + interval '2 hours') f`,
  )) as unknown as [{ since: boolean }];
  t.ok(since, 'it holds since the later of both began');
});

t.test('what has begun is never changed or removed; what is to come is', async (t) => {
  const id = await newCompany('fixed', '2');
  const [row] = await schedule(id, 3600, '3');
  await refused(
    t,
    (sql) => sql`update company_price_factors set factor = 5 where company_id = ${id} and applied`,
  );
  await refused(
    t,
    (sql) =>
      sql`update company_price_factors set applied = false where company_id = ${id} and applied`,
  );
  await refused(
    t,
    (sql) => sql`delete from company_price_factors where company_id = ${id} and applied`,
  );
  await refused(t, (sql) => sql`truncate company_price_factors`, null);
  await refused(
    t,
    (sql) =>
      sql`insert into company_price_factors (company_id, valid_from, factor) values (${id}, now(), 1)`,
  );
  await refused(
    t,
    (sql) => sql`insert into company_price_factors (company_id, valid_from, factor)
      values (gen_random_uuid(), now() + interval '1 day', 1)`,
    'price_factor_company',
  );
  await run(
    (sql) => sql`update company_price_factors set applied = true where id = ${row?.id as string}`,
  );
  t.same(await history(id), ['2', '3 to come'], 'nor be said to have begun');
  await run(
    (sql) => sql`update company_price_factors set factor = 4 where id = ${row?.id as string}`,
  );
  t.same(await history(id), ['2', '4 to come']);
  await run((sql) => sql`delete from company_price_factors where id = ${row?.id as string}`);
  t.same(await history(id), ['2']);
});

t.test('the column follows a date, without a second row', async (t) => {
  const id = await newCompany('dated');
  await schedule(id, 10, '0.8');
  await schedule(id, 20, '0.7');
  await pass(id, 11);
  await apply();
  t.equal(await present(id), '1', 'two seconds later, for clocks that are behind');
  await pass(id, 2);
  const [{ seconds }] = await apply();
  t.equal(await present(id), '0.8');
  t.ok(seconds !== null && seconds > 5 && seconds < 12, 'it tells when the next one is due');
  await pass(id, 20);
  await apply();
  t.equal(await present(id), '0.7');
  t.same(await history(id), ['0.8', '0.7']);
  await schedule(id, 3600, '0.6');
  await run((sql) => sql`delete from companies where id = ${id}`);
  t.same(
    await history(id),
    ['0.8', '0.7', '1'],
    'a company that leaves takes no history along, and nothing is to come',
  );
  await run(
    (sql) => sql`insert into companies (id, name, price_factor) values (${id}, 'back', 0.7)`,
  );
  t.same(await history(id), ['0.8', '0.7', '1', '0.7']);
});

t.test(
  'no digit is lost: a price that does not fit the factor is refused, and a factor that does not fit a price',
  async (t) => {
    await run((sql) => sql`delete from companies`);
    const id = await newCompany('exact', '0.000001');
    const model = (slug: string, price: string, company: string | null = null) =>
      run(
        (
          sql,
        ) => sql`insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
        values (${slug}, ${company}, 'internal', 'chat', true, ${price}, 0)`,
      );
    const message =
      /A price of \w+ would have more than 12 decimals, or be 1000000 or more, times the price factor/;
    await t.rejects(model('long', '0.0000001'), message);
    await model('fits', '0.000001');
    await t.rejects(
      run(
        (sql) => sql`update models set cost_eur_per_1k_cache_write = 0.0000001 where slug = 'fits'`,
      ),
      message,
    );
    await t.rejects(
      run(
        (sql) =>
          sql`insert into model_prices (slug, valid_from, input, output) values ('fits', now() + interval '1 day', 0, 0.0000001)`,
      ),
      message,
    );
    await setFactor(id, '1');
    await model('long', '0.000000000001');
    await t.rejects(setFactor(id, '0.9'), message);
    await t.rejects(schedule(id, 3600, '0.9'), message);
    await t.rejects(newCompany('new', '1.1'), message);
    await setFactor(id, '1000');
    await run((sql) => sql`delete from models where slug = 'long'`);
    await setFactor(id, '0.9');
    await model('own', '0.000000000001', await newCompany('elsewhere'));
    await setFactor(id, '0.99');
    await run((sql) => sql`update models set cost_eur_per_1k_input = 999999 where slug = 'fits'`);
    await t.rejects(setFactor(id, '1.1'), message);
    await run(
      (sql) =>
        sql`insert into model_prices (slug, valid_from, input, output) values ('fits', now() + interval '1 day', 1, 1)`,
    );
    await run((sql) => sql`update models set cost_eur_per_1k_input = 2 where slug = 'fits'`);
    await setFactor(id, '1.1');
  },
);

t.test(
  'a factor and a price that are set at the same time are compared, whichever comes first',
  async (t) => {
    await run((sql) => sql`update companies set price_factor = 1`);
    const id = await newCompany('at once');
    await run(
      (
        sql,
      ) => sql`insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
      values ('at-once', 'internal', 'chat', true, 1, 1)`,
    );
    const price = (sql: Sql, input: string) =>
      sql`update models set cost_eur_per_1k_input = ${input} where slug = 'at-once'`;
    const factor = (sql: Sql, value: string) =>
      sql`update companies set price_factor = ${value} where id = ${id}`;
    for (const [first, second] of [
      [(sql: Sql) => factor(sql, '0.9'), (sql: Sql) => price(sql, '0.000000000001')],
      [(sql: Sql) => price(sql, '0.000000000001'), (sql: Sql) => factor(sql, '0.9')],
    ] as const) {
      let other: Promise<unknown> = Promise.resolve();
      await db.transaction(60_000, async (sql) => {
        await first(sql);
        other = t.rejects(run(second), /more than 12 decimals/);
      });
      await other;
      await run((sql) => price(sql, '1'));
      await run((sql) => factor(sql, '1'));
    }
  },
);
