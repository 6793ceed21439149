import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import { DatabaseRefused } from '../../../src/store/connection/errors.ts';
import { SPEND_CURSOR, spentSince } from '../../../src/store/connection/expressions.ts';
import { type Database, openDatabase, type Sql } from '../../../src/store/connection/pool.ts';
import { requireUsable } from '../../../src/store/schema/migrate.ts';
import { type TestDatabase, testDatabase } from '../../support/postgres.ts';
import { until } from '../../support/until.ts';

const MS = 60_000;

t.test('monthly_spend is the sum of the rows, whichever way they come', async (t) => {
  const { db } = await testDatabase(t);
  const [one, two] = [randomUUID(), randomUUID()];
  const twice = usage({
    company_id: one,
    prompt_tokens: 123_456_789,
    price_input: '0.000000000001',
  });

  await db.run(MS, (sql) =>
    insert(sql, [usage({ company_id: one }), usage({ company_id: two }), twice]),
  );
  await t.test('rows inserted through api_usage', (t) => agrees(t, db));

  const [replayed] = await db.run(MS, (sql) =>
    insert(sql, [twice, usage({ company_id: two })], 'on conflict do nothing'),
  );
  await t.test('a replay counts only what is new', async (t) => {
    await agrees(t, db);
    t.not(replayed?.request_id, twice.request_id, 'the conflicting row was not inserted again');
    const [{ n }] = await db.run(
      MS,
      (sql) => sql<[{ n: number }]>`select count(*) as n from api_usage`,
    );
    t.equal(n, 4);
  });

  const months = await db.run(
    MS,
    (sql) => sql<{ month: string; part: string }[]>`
      select substring(pg_get_expr(c.relpartbound, c.oid) from '[0-9-]{10}') as month, c.relname as part
      from pg_inherits i join pg_class c on c.oid = i.inhrelid
      where i.inhparent = 'api_usage'::regclass and c.relname <> 'api_usage_default' order by 1`,
  );
  const part = months[1] as { month: string; part: string };
  await db.run(MS, (sql) =>
    insert(sql, [usage({ company_id: one, billing_month: part.month })], '', part.part),
  );
  await t.test('rows inserted straight into a partition', (t) => agrees(t, db));

  await db.run(MS, (sql) => insert(sql, [usage({ company_id: one, billing_month: '1999-01-01' })]));
  await t.test('rows of a month without a partition', (t) => agrees(t, db));

  await db.run(
    MS,
    (sql) => sql`insert into chat_usage (company_id, cost_eur, occurred_at) values
    (${one}, 1.000000000000000001, '2026-01-15T12:00Z'), (${one}, 2.5, '2026-02-15T12:00Z'), (${two}, 3, '2026-01-15T12:00Z')`,
  );
  await t.test('in-app chat inserted', (t) => agrees(t, db));

  await db.run(
    MS,
    (sql) => sql`update chat_usage set company_id = ${two}, cost_eur = cost_eur * 2,
    occurred_at = occurred_at + interval '31 days' where cost_eur < 3`,
  );
  await t.test('in-app chat changed: amount, company and month', (t) => agrees(t, db));

  await db.run(MS, (sql) => sql`delete from chat_usage where cost_eur > 4`);
  await t.test('in-app chat deleted', (t) => agrees(t, db));

  await db.run(MS, (sql) => sql`truncate chat_usage`);
  await t.test('in-app chat truncated', async (t) => {
    await agrees(t, db);
    const left = await db.run(MS, (sql) => sql`select from monthly_spend where chat_cost_eur <> 0`);
    t.equal(left.length, 0);
  });

  await t.test('a rolled back insert leaves nothing', async (t) => {
    const failed = db.transaction(MS, async (sql) => {
      await insert(sql, [usage({ company_id: one })]);
      throw new Error('changed my mind');
    });
    await t.rejects(failed, { message: 'changed my mind' });
    await agrees(t, db);
  });
});

t.test('many writers at once, replaying each other, count every row once', async (t) => {
  const { url, db } = await testDatabase(t);
  const companies = Array.from({ length: 7 }, () => randomUUID());
  const rows = Array.from({ length: 700 }, (_, i) =>
    usage({
      company_id: companies[i % 7] as string,
      billing_month: i % 2 === 0 ? '2026-05-01' : '2026-06-01',
    }),
  );
  const writers = openDatabase({ url, maxConnections: 4 });
  t.teardown(() => writers.close());
  const batches = Array.from({ length: 12 }, (_, i) => {
    const start = (i % 6) * 100;
    return writers.run(MS, (sql) =>
      insert(sql, shuffled(rows.slice(start, start + 200)), 'on conflict do nothing'),
    );
  });
  await Promise.all(batches);
  await agrees(t, db);
  const [{ n }] = await db.run(
    MS,
    (sql) => sql<[{ n: number }]>`select count(*) as n from api_usage`,
  );
  t.equal(n, 700);
});

t.test('the ledger is append-only', async (t) => {
  const { db } = await testDatabase(t);
  const row = usage();
  await db.run(MS, (sql) => insert(sql, [row]));
  const partition = `api_usage_${row.billing_month.slice(0, 7).replace('-', '_')}`;
  for (const table of ['api_usage', partition]) {
    const attempts: Record<string, (sql: Sql) => PromiseLike<unknown>> = {
      update: (sql) => sql`update ${sql(table)} set model_slug = 'other'`,
      delete: (sql) => sql`delete from ${sql(table)}`,
      truncate: (sql) => sql`truncate ${sql(table)}`,
    };
    for (const [name, attempt] of Object.entries(attempts)) {
      await t.rejects(db.run(MS, attempt), { code: '23001' }, `${name} ${table}`);
    }
  }
  await agrees(t, db);
});

t.test('rows that cannot be right are refused', async (t) => {
  const { db } = await testDatabase(t);
  const wrong: Record<string, Partial<Usage>> = {
    'a cost that is not tokens times price': { cost_eur: '0.000000000000001' },
    'a cost that is no number': { cost_eur: 'NaN', price_input: 'NaN' },
    'a price below zero': { price_input: '-1', cost_eur: '-0.9' },
    'an infinite price': { price_output: 'Infinity', cost_eur: 'Infinity' },
    'a cost without the price of its cached tokens': {
      cached_tokens: 100,
      price_cache_read: '0.001',
    },
    'a price of cached tokens below zero': { price_cache_read: '-1' },
    'an infinite price of cached tokens': { price_cache_write: 'Infinity' },
    'more cached tokens than the prompt has': { cached_tokens: 901, price_cache_read: '0.0015' },
    'both together': { cached_tokens: 500, cache_write_tokens: 401, price_cache_write: '0.0015' },
    'negative tokens': { prompt_tokens: -1 },
    'more tokens than there are': { prompt_tokens: 1_000_000_000_001 },
    'a month that does not begin on the first': { billing_month: '2026-05-02' },
    'an unknown endpoint': { endpoint: 'images' },
    'an unknown source': { usage_source: 'guessed' },
    'an unknown outcome': { outcome: 'lost' },
  };
  for (const [name, change] of Object.entries(wrong)) {
    const refused = await db.run(MS, (sql) => insert(sql, [usage(change)])).catch((error) => error);
    t.match(refused, { code: '23514', unavailable: false }, name);
    t.type(refused, DatabaseRefused, name);
  }
  const budget = (amount: string) =>
    db.run(
      MS,
      (sql) => sql`insert into companies (name, monthly_budget_eur) values ('c', ${amount})`,
    );
  for (const amount of ['NaN', 'Infinity', '-1', '0.0000000000000001']) {
    await t.rejects(budget(amount), { code: '23514' }, `a budget of ${amount}`);
  }
  await agrees(t, db);
});

t.test('every change is announced: a row in changes and a notification', async (t) => {
  const { url, db } = await testDatabase(t);
  const company = randomUUID();
  const other = randomUUID();
  const assistant = randomUUID();
  const digest = 'ab'.repeat(32);
  const digest2 = 'cd'.repeat(32);
  const notices = await listening(t, url);
  const steps: [string, string[]][] = [
    [
      `insert into companies (id, name) values ('${company}', 'c'), ('${other}', 'd')`,
      [`company:${company}`, `company:${other}`],
    ],
    [
      `update companies set allow_non_eu_models = true where id = '${company}'`,
      [`company:${company}`],
    ],
    [
      `insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
       values ('shared', 'u', 'chat', true, 0, 0)`,
      ['model:'],
    ],
    [
      `update models set company_id = '${company}' where slug = 'shared'`,
      ['model:', `model:${company}`],
    ],
    [`update models set cost_eur_per_1k_input = 1 where slug = 'shared'`, [`model:${company}`]],
    [
      `update models set company_id = '${other}' where slug = 'shared'`,
      [`model:${company}`, `model:${other}`],
    ],
    [`delete from models where slug = 'shared'`, [`model:${other}`]],
    [
      `insert into api_keys (company_id, name, digest, prefix, scopes)
       values ('${company}', 'k', '\\x${digest}', 'svc_abcd', '{chat}')`,
      [`key:${digest}`],
    ],
    [`update api_keys set last_used_at = now()`, []],
    [`update api_keys set name = 'renamed'`, []],
    [`update api_keys set scopes = '{}'`, [`key:${digest}`]],
    [`update api_keys set expires_at = now()`, [`key:${digest}`]],
    [`update api_keys set digest = '\\x${digest2}'`, [`key:${digest},${digest2}`]],
    [`update api_keys set revoked_at = now()`, [`key:${digest2}`]],
    [
      `insert into assistants (id, company_id, name, system_prompt) values ('${assistant}', '${company}', 'a', 'p')`,
      [`assistant:${assistant}`],
    ],
    [`update assistants set visibility = 'private'`, [`assistant:${assistant}`]],
    // what hangs on a company goes with it
    [
      `delete from companies where id = '${company}'`,
      [`company:${company}`, `key:${digest2}`, `assistant:${assistant}`],
    ],
    ['truncate models', ['all:']],
    ['truncate api_keys', ['all:']],
    ['truncate assistants', ['all:']],
    // each truncated table says so
    ['truncate companies cascade', ['all:', 'all:', 'all:', 'all:', 'all:']],
  ];
  let last = 0;
  for (const [statement, expected] of steps) {
    await db.run(MS, (sql) => sql.unsafe(statement));
    const rows = await db.run(
      MS,
      (sql) => sql<{ id: number; text: string }[]>`
        select id, kind || ':' || subject as text from changes where id > ${last} order by id`,
    );
    last = rows.at(-1)?.id ?? last;
    t.same(rows.map(({ text }) => text).sort(), [...expected].sort(), statement);
    await db.run(MS, (sql) => sql`select pg_notify('tollgate', 'end')`);
    const notified = rows.map(({ id, text }) => `${text}:${id}`);
    t.same((await notices.until('end')).sort(), notified.sort(), `notified: ${statement}`);
  }
});

t.test('triggers find their tables whatever search_path the caller has', async (t) => {
  const { db } = await testDatabase(t);
  await db.transaction(MS, async (sql) => {
    await sql`set local search_path = pg_catalog`;
    await sql`insert into public.companies (name) values ('elsewhere')`;
    await sql`insert into public.chat_usage (company_id, cost_eur) values (${randomUUID()}, 1)`;
    await sql`select public.ensure_api_usage_partitions('2040-01-01', 1)`;
  });
  await agrees(t, db);
});

t.test(
  'a program with a user of its own needs rights to the tables that it writes, and to no others',
  async (t) => {
    const { db } = await testDatabase(t);
    const company = randomUUID();
    const done = db.transaction(MS, async (sql) => {
      await sql.unsafe(`create role application; grant select, insert, update, delete on companies, models, api_keys, assistants,
      chat_usage, model_prices to application; set local role application`);
      await sql`insert into companies (id, name) values (${company}, 'c')`;
      await sql`insert into chat_usage (company_id, cost_eur) values (${company}, 3)`;
      await sql`update chat_usage set cost_eur = 2`;
      await sql`
      insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
      values ('own', ${company}, 'u', 'chat', true, 1, 1)`;
      await sql`insert into model_prices (slug, company_id, valid_from, input, output) values ('own', ${company}, now() + interval '1 hour', 2, 2)`;
      await sql`
      insert into api_keys (company_id, name, digest, prefix, scopes) values (${company}, 'k', sha256('key'), 'svc_abcd', '{chat}')`;
      await sql`insert into assistants (company_id, name, system_prompt) values (${company}, 'a', 'p')`;
      await sql`update companies set monthly_budget_eur = 5`;
      await sql`set local role none`;
      const [row] =
        await sql`select chat_cost_eur, (select count(*)::integer from audit_log) as entries from monthly_spend`;
      throw Object.assign(new Error('done'), row); // the role goes with it
    });
    await t.rejects(done, { message: 'done', chat_cost_eur: '2', entries: 6 });
  },
);

t.test(
  'neither a temporary table of a caller, nor a schema that is named like the owner, stands for ours',
  async (t) => {
    const { db } = await testDatabase(t);
    const [{ owner }] = await db.run(
      MS,
      (sql) => sql<[{ owner: string }]>`select current_user::text as owner`,
    );

    /** What a stranger makes, then an update that the owner's program makes, or a call of the stranger's own. */
    const attack = (place: 'pg_temp' | 'schema', call: string) =>
      db.transaction(MS, async (sql) => {
        const schema = place === 'pg_temp' ? 'pg_temp' : `"${owner}"`;
        await sql.unsafe(`create role stranger; grant create, temporary on database ${(await sql`select quote_ident(current_database()) as name`)[0]?.name} to stranger;
        grant update, select on companies to stranger; grant select on changes, events, audit_log to stranger; set local role stranger`);
        if (place === 'schema')
          await sql.unsafe(`create schema ${schema}; grant usage on schema ${schema} to public`);
        await sql.unsafe(`
        create function ${schema}.tell() returns trigger language plpgsql as $$ begin raise 'trigger of %', current_user; end $$;
        grant execute on function ${schema}.tell() to public`);
        for (const name of ['changes', 'events', 'audit_log']) {
          await sql.unsafe(`create table ${schema}.${name} (like public.${name});
          create trigger tell before insert on ${schema}.${name} for each row execute function ${schema}.tell();
          grant all on ${schema}.${name} to public`);
        }
        await sql.unsafe(call);
        throw new Error('done');
      });
    const announce = `select public.announce_change('all', '')`;
    const update = `update public.companies set name = 'other'`;
    await db.run(MS, (sql) => sql`insert into companies (name) values ('c')`);
    for (const place of ['pg_temp', 'schema'] as const) {
      await t.rejects(attack(place, update), { message: 'done' }, place);
      await t.rejects(
        attack(place, announce),
        { message: /permission denied for function announce_change/ },
        place,
      );
    }

    // what the attack finds where a function has the path of whoever made it
    const functions = await db.run(
      MS,
      (sql) => sql<{ name: string }[]>`select oid::regprocedure::text as name from pg_proc
      where pronamespace = current_schema()::regnamespace and proconfig::text like '%search_path=%'`,
    );
    for (const { name } of functions)
      await db.run(MS, (sql) =>
        sql.unsafe(`alter function ${name} set search_path = "$user", public`),
      );
    const byOwner = { message: new RegExp(`trigger of ${owner}`) };
    for (const place of ['pg_temp', 'schema'] as const)
      await t.rejects(attack(place, update), byOwner, place);
  },
);

t.test(
  'a program refuses a database in which a schema of its name belongs to somebody else',
  async (t) => {
    const { db } = await testDatabase(t);
    const made = db.transaction(MS, async (sql) => {
      await sql.unsafe(`create role stranger; create role gateway_c; grant create on database ${(await sql`select quote_ident(current_database()) as name`)[0]?.name} to stranger;
      set local role stranger; create schema gateway_c; grant usage on schema gateway_c to public;
      set local role none; set local role gateway_c; set local search_path = "$user", public`);
      await requireUsable(sql);
    });
    await t.rejects(made, {
      message:
        /^the schema gateway_c of the database belongs to stranger, .*alter role .* set search_path = public"$/,
    });
  },
);

/** Functions without a path of their own: they name no table, or Postgres could not inline them. */
// biome-ignore format: a table
const WITHOUT_PATH = [
  'audit_actor',
    'company_allows_non_eu',
    'company_budget',
    'company_daily_budget',
    'enter_company',
    'fits_budget',
      'is_distributed',
    'is_operator',
    'is_visible',
  'ledger_move_digest',
    'new_pseudonym',
    'note_end_user_erasure',
    'part_price',
    'part_units',
    'parts_cost',
    'price_parts',
  'refuse_change',
    'seal_checkpoint_digest',
  'seal_digest', 'spend_horizon', 'usage_digest', 'utc_text',
];

t.test(
  'a function with the rights of the owner can be called by the owner alone, and by the roles named here',
  async (t) => {
    const { db } = await testDatabase(t);
    const functions = await db.run(
      MS,
      (sql) => sql<{ name: string; owners: boolean; path: string | null; callers: string[] }[]>`
      select p.proname as name, p.prosecdef as owners,
        (select split_part(setting, '=', 2) from unnest(p.proconfig) as setting where setting like 'search_path=%') as path,
        array(select coalesce(r.rolname, 'public') from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
          left join pg_roles r on r.oid = a.grantee where a.grantee <> p.proowner order by 1)::text[] as callers
      from pg_proc p where p.pronamespace = current_schema()::regnamespace order by 1`,
    );
    const owners = functions.filter((each) => each.owners);
    t.ok(owners.length > 10);
    t.same(
      Object.fromEntries(
        owners
          .filter(({ callers }) => callers.length > 0)
          .map(({ name, callers }) => [name, callers]),
      ),
      {
        has_account: ['tollgate_tenant'],
        operators_factor: ['tollgate_tenant'],
        people_ever: ['tollgate_tenant'],
      },
    );
    t.same(
      functions.filter(({ path }) => path === null).map(({ name }) => name),
      WITHOUT_PATH,
    );
    t.same([...new Set(functions.map(({ path }) => String(path)))].toSorted(), [
      'null',
      'public, pg_temp',
    ]);
    t.same(
      owners.filter(({ path }) => path === null).map(({ name }) => name),
      [],
    );
  },
);

t.test('looks of gateways for spend do not read the whole table', async (t) => {
  const { db } = await testDatabase(t);
  await db.run(MS, (sql) =>
    sql.unsafe(`insert into monthly_spend (company_id, billing_month) select gen_random_uuid(), '2026-05-01' from generate_series(1, 20000);
      insert into spend_changes (company_id, xid, billing_month) select gen_random_uuid(), (3 + n % 700)::text::xid8, '2026-05-01' from generate_series(1, 20000) n;
      analyze monthly_spend; analyze spend_changes`),
  );
  const [cursor = ''] = (
    await db.run(MS, (sql) => sql<{ now: string }[]>`select ${sql.unsafe(SPEND_CURSOR)} as now`)
  ).map(({ now }) => now);
  const company = randomUUID();
  await db.transaction(MS, async (sql) => {
    const look = async () => [
      ...(await sql.unsafe(
        `select coalesce((${spentSince(cursor, 'true')} order by xid limit 1), false) as spent`,
      )),
      ...(await sql.unsafe(`with changed as materialized (${spentSince(cursor)}) select company_id::text from monthly_spend
        where company_id = any(array(select company_id from changed)) and billing_month = any(array(select billing_month from changed))`)),
    ];
    t.same(await look(), [{ spent: false }]);
    const read = await sql`
      select sum(seq_tup_read)::integer as rows from pg_stat_xact_user_tables where relname in ('monthly_spend', 'spend_changes')`;
    t.same([...read], [{ rows: 0 }]);
    await sql`insert into chat_usage (company_id, cost_eur) values (${company}, 1)`;
    t.same(await look(), [{ spent: true }, { company_id: company }]);
  });
});

t.test(
  'the next version of a row of monthly_spend stays on its page: no index gets an entry',
  async (t) => {
    const { db } = await testDatabase(t);
    const companies = Array.from({ length: 50 }, () => randomUUID());
    await db.run(MS, async (sql) => {
      for (let batch = 0; batch < 2; batch++)
        await insert(
          sql,
          companies.map((company_id) => usage({ company_id })),
        );
    });
    await until(
      () =>
        db.run(
          MS,
          (sql) => sql<[{ updated: number; hot: number }]>`
          select n_tup_upd::integer as updated, n_tup_hot_upd::integer as hot from pg_stat_user_tables
          where relname = 'monthly_spend'`,
        ),
      'every update is a HOT one',
      ([{ updated, hot }]) => updated === 50 && hot === 50,
    );
    const told = await db.run(
      MS,
      (sql) => sql`select cardinality(others) as others from spend_changes`,
    );
    t.same(
      [...told],
      Array(2).fill({ others: 49 }),
      'a row for each batch tells whose spend it changed',
    );
  },
);

t.test('the billing month is the calendar month of the configured zone', async (t) => {
  const { db } = await testDatabase(t);
  const month = async (at: string) => {
    const [row] = await db.run(
      MS,
      (sql) => sql<[{ month: string }]>`select billing_month(${at}::timestamptz) as month`,
    );
    return row.month;
  };
  t.equal(await month('2025-12-31T23:30:00Z'), '2025-12-01', 'UTC');
  await db.run(
    MS,
    (sql) => sql`update settings set value = 'Europe/Berlin' where name = 'billing_timezone'`,
  );
  t.equal(
    await month('2025-12-31T22:59:59.999Z'),
    '2025-12-01',
    'Berlin, the last instant of the year',
  );
  t.equal(
    await month('2025-12-31T23:00:00Z'),
    '2026-01-01',
    'Berlin, the first instant of the year',
  );
  t.equal(await month('2026-03-31T21:59:59Z'), '2026-03-01', 'Berlin in summer time');
  t.equal(await month('2026-03-31T22:00:00Z'), '2026-04-01', 'Berlin in summer time');

  const company = randomUUID();
  await db.run(
    MS,
    (sql) => sql`insert into chat_usage (company_id, cost_eur, occurred_at) values
    (${company}, 1, '2025-12-31T22:59:59Z'), (${company}, 2, '2025-12-31T23:00:00Z')`,
  );
  const rows = await db.run(
    MS,
    (sql) =>
      sql`select billing_month, chat_cost_eur from monthly_spend where company_id = ${company} order by 1`,
  );
  t.same(
    [...rows],
    [
      { billing_month: '2025-12-01', chat_cost_eur: '1' },
      { billing_month: '2026-01-01', chat_cost_eur: '2' },
    ],
  );
});

t.test('partitions', async (t) => {
  const { url, db } = await testDatabase(t);
  const many = openDatabase({ url, maxConnections: 6 });
  t.teardown(() => many.close());
  await t.test('many may make the same ones at once', async (t) => {
    const asked = Array.from({ length: 12 }, (_, i) =>
      many.run(
        MS,
        (sql) => sql`select ensure_api_usage_partitions(${`2030-0${(i % 3) + 1}-15`}, 5)`,
      ),
    );
    await Promise.all(asked);
    const rows = await db.run(
      MS,
      (sql) =>
        sql<
          { name: string }[]
        >`select relname as name from pg_class where relname ~ '^api_usage_2030_..$' order by 1`,
    );
    t.same(
      rows.map(({ name }) => name),
      [1, 2, 3, 4, 5, 6, 7].map((n) => `api_usage_2030_0${n}`),
    );
  });
  await t.test(
    'a month whose rows wait in the default partition stays there, and counts',
    async (t) => {
      await db.run(MS, (sql) => insert(sql, [usage({ billing_month: '2031-01-01' })]));
      await db.run(MS, (sql) => sql`select ensure_api_usage_partitions('2031-01-01', 2)`);
      const [{ january, february }] = await db.run(
        MS,
        (sql) => sql<[{ january: boolean; february: boolean }]>`
        select to_regclass('api_usage_2031_01') is not null as january, to_regclass('api_usage_2031_02') is not null as february`,
      );
      t.same([january, february], [false, true]);
      await db.run(MS, (sql) =>
        insert(sql, [
          usage({ billing_month: '2031-01-01' }),
          usage({ billing_month: '2031-02-01' }),
        ]),
      );
      await agrees(t, db);
    },
  );
});

interface Usage {
  billing_month: string;
  request_id: string;
  company_id: string;
  api_key_id: string;
  model_slug: string;
  upstream_model: string;
  endpoint: string;
  prompt_tokens: number;
  completion_tokens: number;
  cost_eur: string;
  price_input: string;
  price_output: string;
  usage_source: string;
  outcome: string;
  occurred_at: string;
  cost_center: string;
  cached_tokens?: number;
  cache_write_tokens?: number;
  price_cache_read?: string;
  price_cache_write?: string;
}

function usage(change: Partial<Usage> = {}): Usage {
  const now = new Date().toISOString();
  const row: Usage = {
    billing_month: `${now.slice(0, 7)}-01`,
    request_id: randomUUID(),
    company_id: randomUUID(),
    api_key_id: randomUUID(),
    model_slug: 'chat-large',
    upstream_model: 'provider/large',
    endpoint: 'chat.completions',
    prompt_tokens: 900,
    completion_tokens: 100,
    cost_eur: '',
    price_input: '0.0015',
    price_output: '0.002000000001',
    usage_source: 'upstream',
    outcome: 'completed',
    occurred_at: now,
    cost_center: '',
    ...change,
  };
  return row.cost_eur === '' ? { ...row, cost_eur: exactCost(row) } : row;
}

/** The specification's formula in whole numbers: prices with 12 decimals, costs with 15. */
function exactCost({ prompt_tokens, completion_tokens, price_input, price_output }: Usage): string {
  const [input, output] = [price_input, price_output].map((price) => {
    const [whole = '', fraction = ''] = price.split('.');
    return BigInt(whole + fraction.padEnd(12, '0'));
  }) as [bigint, bigint];
  const digits = (BigInt(prompt_tokens) * input + BigInt(completion_tokens) * output)
    .toString()
    .padStart(16, '0');
  return `${digits.slice(0, -15)}.${digits.slice(-15)}`;
}

function insert(sql: Sql, rows: readonly Usage[], conflict = '', table = 'api_usage') {
  return sql<{ request_id: string }[]>`
    insert into ${sql(table)} select r.* from json_populate_recordset(null::api_usage, ${JSON.stringify(rows)}::text::json) r
    order by billing_month, request_id ${sql.unsafe(conflict)} returning request_id`;
}

/** Compares each counter with what the rows add up to. */
async function agrees(t: Test, db: Database): Promise<void> {
  const rows = await db.run(
    MS,
    (sql) => sql`
      select coalesce(m.company_id, s.company_id) as company, m as counter, s as rows
      from (select company_id, billing_month, requests::numeric, prompt_tokens::numeric, completion_tokens::numeric,
              trim_scale(api_cost_eur) as api, trim_scale(chat_cost_eur) as chat from monthly_spend
            where (requests, api_cost_eur, chat_cost_eur) <> (0, 0, 0)) m
      full join (
        select company_id, billing_month, sum(requests)::numeric as requests, sum(prompt)::numeric as prompt_tokens,
          sum(completion)::numeric as completion_tokens, trim_scale(sum(api)) as api, trim_scale(sum(chat)) as chat
        from (
          select company_id, billing_month, 1 as requests, prompt_tokens as prompt, completion_tokens as completion,
            cost_eur as api, 0 as chat from api_usage
          union all select company_id, billing_month(occurred_at), 0, 0, 0, 0, cost_eur from chat_usage
        ) u group by 1, 2) s using (company_id, billing_month)
      where m is distinct from s`,
  );
  t.same([...rows], [], 'every counter is the sum of its rows');
}

/** What arrives on the channel. */
async function listening(t: Test, url: TestDatabase['url']) {
  const db = openDatabase({ url });
  t.teardown(() => db.close());
  let notices: string[] = [];
  let wake = () => {};
  await new Promise<void>((ready) => {
    db.listen('tollgate', {
      onNotice: (text) => {
        notices.push(text);
        wake();
      },
      onReady: ready,
      onLost: () => {},
    });
  });
  return {
    /** Everything up to a notice, without it. */
    async until(end: string): Promise<string[]> {
      while (!notices.includes(end)) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      const place = notices.indexOf(end);
      const before = notices.slice(0, place);
      notices = notices.slice(place + 1);
      return before;
    },
  };
}

function shuffled<T>(items: readonly T[]): T[] {
  return items
    .map((item) => ({ item, key: Math.random() }))
    .sort((a, b) => a.key - b.key)
    .map(({ item }) => item);
}
