import { randomUUID } from 'node:crypto';
import t from 'tap';
import { datedPrices, pricesOn } from '../../../src/store/company/price.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { testDatabase } from '../../support/postgres.ts';

const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(60_000, work);
const one = async (work: (sql: Sql) => PromiseLike<readonly object[]>) =>
  (await run(work))[0] as Record<string, unknown>;

/** As another program adds a model. */
async function addModel(slug: string, price = '1', company: string | null = null): Promise<void> {
  await run(
    (
      sql,
    ) => sql`insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
      values (${slug}, ${company}, 'internal', 'chat', true, ${price}, ${price})`,
  );
}
const history = (slug: string) =>
  run(
    (sql) => sql<{ input: string | null; applied: boolean; company_id: string | null }[]>`
      select trim_scale(input)::text as input, applied, company_id from model_prices where slug = ${slug} order by valid_from`,
  );
const inputs = async (slug: string) => (await history(slug)).map(({ input }) => input);
const columnOf = async (slug: string) =>
  (
    await one(
      (sql) =>
        sql`select trim_scale(cost_eur_per_1k_input)::text as price from models where slug = ${slug}`,
    )
  ).price;
/** A price that another program lets begin. @param seconds from now */
const schedule = (slug: string, seconds: number, price = '2', company: string | null = null) =>
  run(
    (sql) => sql`insert into model_prices (slug, company_id, valid_from, input, output)
      values (${slug}, ${company}, clock_timestamp() + ${seconds} * interval '1 second', ${price}, ${price}) returning id`,
  );
/** Moves the history of a model as time would. */
const pass = (slug: string, seconds: number) =>
  db.transaction(60_000, async (sql) => {
    await sql`set local session_replication_role = replica`; // no triggers
    await sql`update model_prices set valid_from = valid_from - ${seconds} * interval '1 second' where slug = ${slug}`;
  });
const apply = async () =>
  (await one((sql) => sql`select apply_due_prices() as seconds`)).seconds as number | null;

t.test('each change of a price by plain SQL leaves one row, and nothing else does', async (t) => {
  await addModel('plain');
  await run((sql) => sql`update models set cost_eur_per_1k_input = 1.50 where slug = 'plain'`);
  await run(
    (sql) =>
      sql`update models set cost_eur_per_1k_input = 1.5, upstream_model = 'other' where slug = 'plain'`,
  );
  await run((sql) => sql`update models set eu_hosted = false where slug = 'plain'`);
  t.same(await inputs('plain'), ['1', '1.5']);
  await db.transaction(60_000, async (sql) => {
    for (const price of [3, 4, 5])
      await sql`update models set cost_eur_per_1k_input = ${price} where slug = 'plain'`;
  });
  t.same(await inputs('plain'), ['1', '1.5', '3', '4', '5'], 'each of one transaction');
  t.equal(
    (
      await one(
        (sql) =>
          sql`select changed_by = session_user as yes from model_prices where slug = 'plain'`,
      )
    ).yes,
    true,
  );
});

t.test('a program with rights to models alone goes on writing them', async (t) => {
  await addModel('granted');
  const role = `writer_${randomUUID().slice(0, 8)}`;
  await run((sql) => sql.unsafe(`create role ${role}; grant all on models, audit_log to ${role}`));
  await db.transaction(60_000, async (sql) => {
    await sql.unsafe(`set local role ${role}`);
    await sql`update models set cost_eur_per_1k_input = 9 where slug = 'granted'`;
    await sql`delete from models where slug = 'granted'`;
  });
  await run((sql) => sql.unsafe(`drop owned by ${role}; drop role ${role}`));
  t.same(await inputs('granted'), ['1', '9', null]);
});

t.test(
  'a removed, renamed or emptied model keeps its history, which says that it ended',
  async (t) => {
    await addModel('gone');
    await schedule('gone', 3600);
    await run((sql) => sql`update models set slug = 'renamed' where slug = 'gone'`);
    t.same(await inputs('gone'), ['1', null], 'what was to begin is withdrawn');
    t.same(await inputs('renamed'), ['1']);
    await run((sql) => sql`delete from models where slug = 'renamed'`);
    t.same(await inputs('renamed'), ['1', null]);
    await addModel('renamed', '1');
    t.same(await inputs('renamed'), ['1', null, '1'], 'and begins again');

    const { id } = await one(
      (sql) => sql`insert into companies (name) values ('Leaving') returning id`,
    );
    await addModel('renamed', '7', id as string);
    await run((sql) => sql`delete from companies where id = ${id as string}`);
    t.same(
      await inputs('renamed'),
      ['1', null, '1', '7', null],
      'a company that leaves takes no history along',
    );
    await db
      .transaction(60_000, async (sql) => {
        await sql`truncate models`;
        t.equal(
          (await sql`select from model_prices where input is null and slug = 'renamed'`).length,
          3,
        );
        throw new Error('as it was');
      })
      .catch(() => {});
  },
);

t.test('what has begun cannot be added, changed, withdrawn or emptied', async (t) => {
  await addModel('fixed');
  const { id } = (await schedule('fixed', 3600))[0] as { id: string };
  const refused = (
    work: (sql: Sql) => PromiseLike<unknown>,
    constraint: string | null = 'model_prices_begun',
  ) => t.rejects(run(work), { unavailable: false, constraint } as never);
  await refused((sql) => sql`update model_prices set input = 5 where slug = 'fixed' and applied`);
  await refused((sql) => sql`update model_prices set applied = false where slug = 'fixed'`);
  await refused((sql) => sql`delete from model_prices where slug = 'fixed' and applied`);
  await refused((sql) => sql`truncate model_prices`, null);
  await refused(
    (sql) =>
      sql`insert into model_prices (slug, valid_from, input, output) values ('fixed', now(), 1, 1)`,
  );
  await refused(
    (sql) =>
      sql`insert into model_prices (slug, valid_from, input, output, applied) values ('fixed', '2020-01-01', 1, 1, true)`,
  );
  await refused((sql) => sql`update model_prices set valid_from = now() where id = ${id}`);
  await refused(
    (sql) =>
      sql`insert into model_prices (slug, valid_from, input, output) values ('nothing', now() + interval '1 day', 1, 1)`,
    'model_prices_model',
  );
  await refused(
    (sql) =>
      sql`insert into model_prices (slug, valid_from) values ('fixed', now() + interval '1 day')`,
    null,
  );
  await run((sql) => sql`update model_prices set applied = true where id = ${id}`);
  t.same(
    (await history('fixed')).map(({ applied }) => applied),
    [true, false],
    'nor be said to have begun',
  );
  await run((sql) => sql`update model_prices set input = 3 where id = ${id}`);
  await run((sql) => sql`delete from model_prices where id = ${id}`);
  t.same(await inputs('fixed'), ['1'], 'what is to come can be changed and withdrawn');
  await schedule('fixed', 3600);
  await pass('fixed', 3597);
  await refused((sql) => sql`delete from model_prices where slug = 'fixed' and not applied`);
  await pass('fixed', 10);
  await apply();
});

t.test('the columns of models follow a date, without a second row', async (t) => {
  const { id } = await one((sql) => sql`insert into companies (name) values ('Own') returning id`);
  await addModel('dated');
  await addModel('dated', '8', id as string);
  await schedule('dated', 100, '2');
  await schedule('dated', 100, '9', id as string);
  t.ok(((await apply()) as number) > 90, 'says when to ask again');
  await pass('dated', 101);
  t.ok(((await apply()) as number) <= 2, 'not before two seconds have gone by');
  t.equal(
    (
      await one(
        (sql) =>
          sql`select min(cost_eur_per_1k_input)::text as price from models where slug = 'dated'`,
      )
    ).price,
    '1',
  );
  await pass('dated', 2);
  await Promise.all([apply(), apply(), apply()]); // as several gateways do
  t.same(
    await run(
      (sql) =>
        sql`select trim_scale(cost_eur_per_1k_input)::text as price from models where slug = 'dated' order by 1`,
    ),
    [{ price: '2' }, { price: '9' }],
  );
  t.same(await inputs('dated'), ['1', '8', '2', '9']);
  t.ok((await history('dated')).every(({ applied }) => applied));
});

t.test('after an outage over several dates the last one holds', async (t) => {
  await addModel('late');
  for (const [seconds, price] of [
    [50, '2'],
    [60, '3'],
    [9000, '4'],
  ] as const)
    await schedule('late', seconds, price);
  await pass('late', 500);
  await apply();
  t.equal(await columnOf('late'), '3');
  t.same(
    (await history('late')).map(({ applied }) => applied),
    [true, true, true, false],
  );
});

t.test('a price set just after a date is not overwritten by it', async (t) => {
  await addModel('raced');
  await schedule('raced', 50, '2');
  await pass('raced', 51);
  await run(
    (sql) =>
      sql`update models set cost_eur_per_1k_input = 3, cost_eur_per_1k_output = 3 where slug = 'raced'`,
  );
  await pass('raced', 10);
  await apply();
  t.equal(await columnOf('raced'), '3');
  t.same(await inputs('raced'), ['1', '2', '3']);
});

t.test(
  'what a price was is answered for any instant: own before shared, and after the own one was removed',
  async (t) => {
    const { id } = await one(
      (sql) => sql`insert into companies (name) values ('Asks') returning id`,
    );
    const priceAt = async (at: unknown) =>
      (
        await one(
          (sql) =>
            sql`select trim_scale(input)::text as input from model_price('asked', ${id as string}, ${at as string}::text::timestamptz)`, // a Date has no microseconds
        )
      )?.input;
    await addModel('asked', '1');
    await addModel('asked', '7', id as string);
    await run(
      (sql) => sql`delete from models where slug = 'asked' and company_id = ${id as string}`,
    );
    // the instants of the rows themselves: clocks of two connections may differ by more than a query takes
    const rows = await run(
      (sql) => sql<
        { at: string; before: string }[]
      >`select valid_from::text as at, (valid_from - interval '1 microsecond')::text as before
        from model_prices where slug = 'asked' order by valid_from`,
    );
    const [shared, own, after] = rows.map(({ at }) => at);
    const before = rows[0]?.before;
    t.same(
      [await priceAt(before), await priceAt(shared), await priceAt(own), await priceAt(after)],
      [undefined, '1', '7', '1'],
    );
  },
);

t.test(
  'prices to come and purchase prices are audited; a tenant reads neither the latter nor who changed them',
  async (t) => {
    const { id } = await one(
      (sql) => sql`insert into companies (name) values ('Curious') returning id`,
    );
    await addModel('audited', '1', id as string);
    await schedule('audited', 3600, '2', id as string);
    await run(
      (sql) =>
        sql`insert into model_cost_prices (slug, company_id, valid_from, input, output) values ('audited', ${id as string}, '2026-01-01', 0.777, 0.888)`,
    );
    const rows = await run(
      (sql) =>
        sql`select subject, company_id from audit_log where coalesce(after, before) ->> 'slug' = 'audited' order by id`,
    );
    t.same(
      rows.map(({ subject }) => subject),
      ['models', 'model_prices', 'model_cost_prices'],
    );
    t.equal(rows.at(-1)?.company_id, null);
    const asTenant = (work: (sql: Sql) => PromiseLike<readonly object[]>) =>
      db.transaction(60_000, async (sql) => {
        await sql`select enter_company(${id as string})`;
        return work(sql);
      });
    await t.rejects(
      asTenant((sql) => sql`select * from model_cost_prices`),
      /permission denied/,
    );
    await t.rejects(
      asTenant((sql) => sql`select valid_from from model_prices`),
      /permission denied/,
    );
    await t.rejects(
      asTenant((sql) => sql`select begin_model_price('audited', ${id as string}, null)`),
      /permission denied/,
    );
  },
);

t.test('prices of a closed company hold nobody up, and hold when it is opened again', async (t) => {
  const { id } = await one(
    (sql) => sql`insert into companies (name) values ('Closing') returning id`,
  );
  const company = id as string;
  await addModel('closing', '1', company);
  await addModel('open', '1');
  await schedule('closing', 50, '2', company);
  await schedule('open', 50, '2');
  await run((sql) => sql`update companies set closed_at = now() where id = ${company}`);
  await t.rejects(schedule('closing', 500, '3', company), /was closed/);
  await pass('closing', 60);
  await pass('open', 60);
  await apply();
  t.same([await columnOf('closing'), await columnOf('open')], ['1', '2']);
  await run((sql) => sql`update companies set closed_at = null where id = ${company}`);
  await apply();
  t.equal(await columnOf('closing'), '2');
});

t.test('an erasure takes who changed a price, and nothing else', async (t) => {
  await addModel('erased');
  await t.rejects(
    run((sql) => sql`update model_prices set changed_by = 'nobody' where slug = 'erased'`),
    /cannot be changed/,
  );
  const erase = (set: (sql: Sql) => PromiseLike<unknown>) =>
    db.transaction(60_000, async (sql) => {
      await sql`select begin_erasure('users', null, null)`;
      await set(sql);
    });
  await erase((sql) => sql`update model_prices set changed_by = 'nobody' where slug = 'erased'`);
  await t.rejects(
    erase((sql) => sql`update model_prices set input = 5 where slug = 'erased'`),
    /cannot be changed/,
  );
  t.match(
    await run((sql) => sql`select changed_by, input from model_prices where slug = 'erased'`),
    [{ changed_by: 'nobody', input: '1' }],
  );
});

t.test('prices of many models and moments are read at once, each in its place', async (t) => {
  await addModel('at-once');
  await run(
    (sql) => sql`insert into model_prices (slug, company_id, valid_from, input, output)
      values ('at-once', null, '2031-03-01', 2, 3), ('at-once', null, '2031-04-01 10:00:00.000123+00', 4, 5)`,
  );
  const own = { slug: 'at-once', company_id: randomUUID() };
  const shared = { slug: 'at-once', company_id: null };
  const at = new Date('2031-04-01T10:00:00Z');
  const found = await run((sql) =>
    datedPrices(sql, [
      { ...shared, from: { at } },
      { ...own, from: { day: '2031-03-01' } },
      { ...shared, from: { day: '2031-03-01' } },
      { ...shared, from: { day: '2001-01-01' } },
    ]),
  );
  t.match(found, [
    { price: { input: '4', output: '5' }, at, passed: false, late: false },
    { price: null, at: new Date('2031-03-01T00:00:00Z') },
    { price: { input: '2', output: '3' }, at: new Date('2031-03-01T00:00:00Z') },
    { price: null, passed: true, late: true },
  ]);
  t.same(await run((sql) => datedPrices(sql, [])), []);
});

t.test('a price begins with its day, also where the clock is put back to midnight', async (t) => {
  await addModel('islands');
  const days = ['2027-10-31', '2027-11-01', '2027-03-28'];
  const begins = [
    '2027-10-31T00:00:00.000Z',
    '2027-11-01T01:00:00.000Z',
    '2027-03-28T01:00:00.000Z',
  ];
  await db.transaction(60_000, async (sql) => {
    await sql`update settings set value = 'Atlantic/Azores' where name = 'billing_timezone'`;
    const asked = days.map((day) => ({ slug: 'islands', company_id: null, from: { day } }));
    t.same(
      (await datedPrices(sql, asked)).map(({ at }) => at.toISOString()),
      begins,
    );
    for (const [n, day] of days.entries()) {
      t.equal((await pricesOn(sql, 'islands', null, { day }))[0]?.from.toISOString(), begins[n]);
    }
    await sql`update settings set value = 'UTC' where name = 'billing_timezone'`;
  });
});
