import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import {
  parseStatement,
  statementDigest,
  sumsBy,
} from '../../../src/domain/documents/statement.ts';
import { Refused } from '../../../src/domain/refusal.ts';
import { closeEach } from '../../../src/operations/statement.ts';
import type { Database, Sql } from '../../../src/store/connection/pool.ts';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import {
  checkpointSeals,
  companiesToClose,
  insertStatement,
  requireClosable,
} from '../../../src/store/statement/close.ts';
import {
  listStatements,
  openMonths,
  previewStatement,
  readMonthOf,
  type StatementBound,
  type StoredStatement,
  statementOf,
} from '../../../src/store/statement/statement.ts';
import {
  verifyCheckpoints,
  verifyStatements,
} from '../../../src/store/statement/verify-statements.ts';
import { WORKERS } from '../../support/distributed.ts';
import { holds, testDatabase } from '../../support/postgres.ts';
import { closeStatement } from '../../support/statement.ts';
import { until } from '../../support/until.ts';
import { addUsage, type SomeUsage } from '../../support/usage.ts';

const SEPTEMBER = '2026-09-01';
const OCTOBER = '2026-10-01';
const NOVEMBER = '2026-11-01';

interface World {
  readonly db: Database;
  readonly url: string;
  run<T>(work: (sql: Sql) => PromiseLike<T>): Promise<T>;
  add(...rows: SomeUsage[]): Promise<void>;
  close(company: string, month?: string, bound?: StatementBound): Promise<{ number: number }>;
  newCompany(): Promise<string>;
}

async function world(t: Test): Promise<World> {
  const { db, url } = await testDatabase(t);
  const run: World['run'] = (work) => db.run(60_000, work);
  return {
    db,
    url,
    run,
    add: (...rows) => run((sql) => addUsage(sql, rows)),
    close: (company, month = OCTOBER, bound) => closeStatement(db, company, month, bound),
    async newCompany() {
      const [row] = await run(
        (sql) => sql<[{ id: string }]>`insert into companies (name) values ('Acme') returning id`,
      );
      return row.id;
    },
  };
}

async function findStatement(sql: Sql, company: string, number: number): Promise<StoredStatement> {
  const row = (await listStatements(sql, company)).find((each) => each.number === number);
  return (await statementOf(sql, company, `${row?.month}-01`)) as StoredStatement;
}

t.test(
  'a closed month: exact sums by model, key and cost centre, and the digest of its text',
  async (t) => {
    const { add, close, run, newCompany } = await world(t);
    const company = await newCompany();
    const [one, two] = [randomUUID(), randomUUID()];
    const row = { company, month: OCTOBER, key: one };
    await add(
      { ...row, prompt: 1000, input: '0.000000000001' },
      { ...row, prompt: 1, completion: 1, input: '0.1', output: '0.3' },
      { ...row, prompt: 7, input: '0.1', center: 'sales' },
      { ...row, key: two, model: 'slow', prompt: 5, input: '2' },
      { ...row, month: NOVEMBER, prompt: 100, input: '9' },
      { ...row, company: randomUUID(), prompt: 100, input: '9' },
    );
    t.equal((await run((sql) => openMonths(sql, company)))[0], '2026-10');
    const preview = await run((sql) => previewStatement(sql, company, OCTOBER));
    t.match(preview, { number: null, closed_at: null, total_eur: '0.011100000001', requests: 4 });

    t.same(await close(company), { number: 1, already: false });
    const stored = await run((sql) => findStatement(sql, company, 1));
    const { text, digest } = stored;
    t.match(stored, {
      number: 1,
      month: '2026-10',
      requests: 4,
      total_eur: '0.011100000001',
      corrections: 0,
      later: [],
    });
    t.equal(statementDigest(text), digest);
    const statement = parseStatement(text);
    t.match(statement, {
      number: 1,
      previous: null,
      opening_seals: null,
      closing_seals: { checkpoint: 1 },
      corrections: [],
    });
    t.same(statement.lines, preview.lines);
    t.same(
      sumsBy(statement.lines, 'cost_center').map(({ name, cost_eur }) => [name, cost_eur]),
      [
        ['', '0.010400000001'],
        ['sales', '0.0007'],
      ],
    );
    t.notMatch(text, /internal|Acme/, 'neither internal model names nor names');
    t.same(await close(company), { number: 1, already: true });
    t.equal((await run((sql) => statementOf(sql, company, OCTOBER)))?.text, text);
    t.notOk((await run((sql) => openMonths(sql, company))).includes('2026-10'));
    t.match(await run((sql) => verifyStatements(sql)), {
      statements: 1,
      rows: 4,
      late: 0,
      total: 0,
      findings: [],
    });
  },
);

t.test(
  'for a process that others share a statement has a bound, before it is closed and afterwards',
  async (t) => {
    const { add, close, run, newCompany } = await world(t);
    const company = await newCompany();
    await add(...['a', 'b', 'c'].map((center) => ({ company, month: OCTOBER, center })));
    const [enough, few] = [
      { lines: 3, bytes: 10_000 },
      { lines: 2, bytes: 100 },
    ];
    const tooLong = {
      kind: 'conflict',
      message: RegExp(`tollgate statement --company ${company} --month 2026-10"`),
    };
    t.equal(
      (await run((sql) => readMonthOf(sql, company, OCTOBER, enough))).statement.lines.length,
      3,
    );
    await t.rejects(
      run((sql) => readMonthOf(sql, company, OCTOBER, few)),
      tooLong,
    );
    await t.rejects(close(company, OCTOBER, few), tooLong);
    t.same(await run((sql) => openMonths(sql, company)), ['2026-10'], 'it is not closed');
    t.match(await close(company, OCTOBER, enough), { already: false });
    t.equal(
      (await run((sql) => readMonthOf(sql, company, OCTOBER, enough))).statement.lines.length,
      3,
    );
    await t.rejects(
      run((sql) => readMonthOf(sql, company, OCTOBER, few)),
      tooLong,
    );
  },
);

t.test(
  'the bound holds for late rows too: for the lines of corrections, and for the ids of their requests',
  async (t) => {
    const { add, close, run, newCompany } = await world(t);
    const company = await newCompany();
    const lateRow = (center: string) => ({ company, month: SEPTEMBER, center });
    await add({ company, month: SEPTEMBER }, { company, month: OCTOBER });
    await close(company, SEPTEMBER);
    await add(lateRow('a'), lateRow('b'), lateRow('c'));
    const tooLong = {
      kind: 'conflict',
      message: RegExp(`tollgate statement --company ${company} --month 2026-10"`),
    };
    for (const few of [
      { lines: 2, bytes: 10_000 },
      { lines: 3, bytes: 110 },
    ]) {
      await t.rejects(
        run((sql) => previewStatement(sql, company, OCTOBER, few)),
        tooLong,
      );
      await t.rejects(close(company, OCTOBER, few), tooLong);
    }
    t.match(await close(company, OCTOBER, { lines: 3, bytes: 10_000 }), {
      number: 2,
      already: false,
    });
  },
);

t.test('late rows become a correction of the next statement, whoever writes them', async (t) => {
  const { add, close, run, newCompany } = await world(t);
  const company = await newCompany();
  const late = randomUUID();
  await add({ company, month: SEPTEMBER, prompt: 1, input: '1' });
  await close(company, SEPTEMBER);
  await add(
    { company, month: SEPTEMBER, request: late, prompt: 3, input: '0.000000000001' },
    { company, month: OCTOBER, prompt: 2, input: '1' },
  );
  const shown = () => run((sql) => findStatement(sql, company, 1));
  t.match((await shown()).later, [{ statement: null, requests: 1, cost_eur: '0.000000000000003' }]);
  t.match(await run((sql) => verifyStatements(sql)), { late: 1, total: 0 });
  t.match(await run((sql) => previewStatement(sql, company, OCTOBER)), {
    corrections: [{ request_ids: [late] }],
  });

  await close(company);
  t.match((await shown()).later, [{ statement: 2, requests: 1, cost_eur: '0.000000000000003' }]);
  const first = await shown();
  const { text } = await run((sql) => findStatement(sql, company, 2));
  t.match(parseStatement(text), {
    number: 2,
    previous: first.digest,
    opening_seals: parseStatement(first.text).closing_seals,
    requests: 1,
    cost_eur: '0.002',
    corrections: [
      { month: '2026-09', statement: 1, requests: 1, prompt_tokens: 3, request_ids: [late] },
    ],
    total_eur: '0.002000000000003',
  });
  t.match(await run((sql) => verifyStatements(sql)), { statements: 2, rows: 3, late: 0, total: 0 });
  t.same(
    (await run((sql) => listStatements(sql, company))).map(({ number }) => number),
    [2, 1],
  );
});

t.test(
  'a month is closed once by many at once, and batches that race it are in it or late, never neither',
  async (t) => {
    const { run, close, newCompany, url } = await world(t);
    const pool = openDatabase({ url, maxConnections: 8 });
    t.teardown(() => pool.close());
    const company = await newCompany();
    const seals = await run(checkpointSeals);
    const record = () => ({
      billing_month: OCTOBER,
      request_id: randomUUID(),
      company_id: company,
      api_key_id: randomUUID(),
      model_slug: 'fast',
      upstream_model: 'x',
      endpoint: 'chat.completions',
      prompt_tokens: 1,
      completion_tokens: 0,
      cost_eur: '0.001',
      price_input: '1',
      price_output: '0',
      usage_source: 'upstream',
      outcome: 'completed',
      occurred_at: '2026-10-20T10:00:00Z',
    });
    let booked = 0;
    let isClosed = false;
    const book = async () => {
      const writer = randomUUID();
      for (let after = 0; after < 5; after += isClosed ? 1 : 0) {
        const batch = JSON.stringify(Array.from({ length: 7 }, record));
        await pool.run(
          20_000,
          (sql) => sql`select from book_usage(${writer}::uuid, ${batch}::text::json)`,
        );
        booked += 7;
      }
    };
    const writers = Array.from({ length: 4 }, book);
    await until(() => booked > 50, 'the writers have begun');
    const closings = await Promise.all(
      Array.from({ length: 3 }, () =>
        pool.transaction(60_000, (sql) => insertStatement(sql, { company, month: OCTOBER, seals })),
      ),
    );
    isClosed = true;
    await Promise.all(writers);
    t.same(closings.map(({ number, already }) => `${number} ${already}`).sort(), [
      '1 false',
      '1 true',
      '1 true',
    ]);
    const statement = await run((sql) => findStatement(sql, company, 1));
    const check = await run((sql) => verifyStatements(sql));
    t.match(check, { statements: 1, total: 0 });
    t.ok(check.late > 0, `${statement.requests} rows in the month, ${check.late} late`);
    t.equal(statement.requests + check.late, booked);
    t.equal(statement.later[0]?.requests, check.late);
    await close(company, NOVEMBER);
    const next = await run((sql) => findStatement(sql, company, 2));
    t.match(next, { corrections: check.late, requests: 0 });
    t.match(await run((sql) => verifyStatements(sql)), { rows: booked, late: 0, total: 0 });
    t.ok(
      await holds(
        pool,
        `(select sum(total_eur) from statements) = (select sum(cost_eur) from api_usage)`,
      ),
    );
  },
);

t.test(
  'a month whose rows were taken away is not closed, and neither are corrections of one',
  { skip: WORKERS.length > 0 && 'other servers have the rows' },
  async (t) => {
    const { add, close, run, newCompany } = await world(t);
    const company = await newCompany();
    const without = async (work: () => Promise<unknown>) => {
      await run((sql) => sql`alter table api_usage detach partition api_usage_2026_10`);
      await work();
      await run(
        (sql) =>
          sql`alter table api_usage attach partition api_usage_2026_10 for values from ('2026-10-01') to ('2026-11-01')`,
      );
    };
    const isRefused = (month: string) =>
      t.rejects(close(company, month), {
        kind: 'conflict',
        message: /^The ledger rows of 2026-10 are not those that were booked/,
      });
    await add({ company, month: OCTOBER, prompt: 1000, input: '5' });
    await without(() => isRefused(OCTOBER));
    t.same(await run((sql) => openMonths(sql, company)), ['2026-10'], 'and stays open');
    t.equal((await close(company)).number, 1);
    await add({ company, month: OCTOBER, prompt: 1000, input: '7' });
    await without(() => isRefused(NOVEMBER));
    await close(company, NOVEMBER);
    t.match(await run((sql) => findStatement(sql, company, 2)), { cost_eur: '0', total_eur: '7' });
  },
);

t.test('a batch waits for a closing that began before it, and is late', async (t) => {
  const { db, add, run, newCompany, url } = await world(t);
  const company = await newCompany();
  await add({ company, month: OCTOBER, prompt: 1, input: '1' });
  const seals = await run(checkpointSeals);
  const other = openDatabase({ url, maxConnections: 1 });
  t.teardown(() => other.close());
  let booking: Promise<void> | undefined;
  await db.transaction(60_000, async (sql) => {
    await insertStatement(sql, { company, month: OCTOBER, seals });
    booking = other.run(60_000, (sql) =>
      addUsage(sql, [{ company, month: OCTOBER, prompt: 2, input: '1' }]),
    );
    await until(
      () =>
        holds(
          db,
          `exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`,
        ),
      'the batch waits',
    );
  });
  await booking;
  t.match(await run((sql) => findStatement(sql, company, 1)), {
    requests: 1,
    later: [{ statement: null, requests: 1 }],
  });
});

t.test('what is not over, or known to be on its way, is not closed', async (t) => {
  const { run } = await world(t);
  const refused = (month: string) =>
    run((sql) => requireClosable(sql, month)).then(
      () => null,
      (error: Error) => error.message,
    );
  const [{ present, last }] = await run(
    (sql) => sql<[{ present: string; last: string }]>`
      select billing_month(now())::text as present, (billing_month(now()) - interval '1 month')::date::text as last`,
  );
  t.match(await refused(present), /is not over yet in UTC/);
  t.equal(await refused('2020-01-01'), null);
  const beat = (backlog: number, seconds: number) =>
    run(
      (sql) =>
        sql`select beat_gateway(${randomUUID()}::uuid, ${`gw${seconds}`}, '1', ${backlog}, ${seconds}::float8, 0, false, false, 0)`,
    );
  await beat(3, 1);
  t.equal(await refused('2020-01-01'), null, 'records that came later');
  await beat(5, 86_400 * 40);
  t.match(
    await refused(last),
    /may still be on their way from gw3456000 \(seen .* UTC, 5 records waiting\)/,
  );
  await run((sql) => requireClosable(sql, last, true));
  await run((sql) => sql`delete from gateways`);
  t.equal(await refused('2020-01-01'), null);
  await run(
    (sql) =>
      sql`insert into gateways (id, name, version, last_seen_at) values (gen_random_uuid(), 'gone', '1', '2020-02-01T00:59:00Z')`,
  );
  t.match(
    await refused('2020-01-01'),
    /on their way from gone/,
    'it ended without a word before the month had settled',
  );
  t.equal(await refused('2019-12-01'), null);
});

t.test(
  'companies that need a statement: with calls of the month, or late ones of earlier months',
  async (t) => {
    const { add, close, run, newCompany } = await world(t);
    const [used, late, idle] = [await newCompany(), await newCompany(), await newCompany()];
    await add(
      { company: used, month: OCTOBER },
      { company: late, month: SEPTEMBER },
      { company: idle, month: SEPTEMBER },
    );
    await close(late, SEPTEMBER);
    t.same(await run((sql) => companiesToClose(sql, OCTOBER)), [used]);
    await add({ company: late, month: SEPTEMBER });
    t.same(await run((sql) => companiesToClose(sql, OCTOBER)), [used, late].sort());
    t.same(
      await run((sql) => companiesToClose(sql, '2026-08-01')),
      [],
      'none for late calls of a later month alone',
    );
    await close(late);
    await close(used);
    t.same(await run((sql) => companiesToClose(sql, OCTOBER)), []);
  },
);

t.test('months of a company are closed in their order, whatever is asked for first', async (t) => {
  const { add, close, run, newCompany } = await world(t);
  const [company, later] = [await newCompany(), await newCompany()];
  const [july, august] = ['2026-07-01', '2026-08-01'];
  for (const month of [OCTOBER, august, SEPTEMBER]) await add({ company, month });
  await add({ company: later, month: OCTOBER });
  const isRefused = (month: string, message: RegExp) =>
    t.rejects(close(company, month), { kind: 'conflict', message });
  const first = /^2026-08 and 2026-09 are still open .*beginning with 2026-08; then 2026-10\.$/;
  await isRefused(OCTOBER, first);
  await isRefused(NOVEMBER, /^2026-08, 2026-09 and 2026-10 are still open /);
  await isRefused(SEPTEMBER, /^2026-08 is still open .* Close 2026-08 first; then 2026-09\.$/);
  t.equal((await close(later, OCTOBER)).number, 1, 'a company without calls before');
  t.same(
    await Promise.all(
      [OCTOBER, OCTOBER].map((month) => close(company, month).catch(({ kind }) => kind)),
    ),
    ['conflict', 'conflict'],
  );
  const seals = await run(checkpointSeals);
  const close2 = (month: string) => (id: string) =>
    run((sql) =>
      sql.begin((own) => insertStatement(own as unknown as Sql, { company: id, month, seals })),
    );
  const all = await run((sql) => companiesToClose(sql, OCTOBER));
  t.match(await closeEach(all, close2(OCTOBER), () => true), {
    closed: [],
    refused: [{ company_id: company, reason: first }],
  });
  for (const [at, month] of [august, SEPTEMBER, OCTOBER].entries())
    t.equal((await close(company, month)).number, at + 1);
  t.same(
    await close(company, august),
    { number: 1, already: true },
    'a closed month stays as it is',
  );
  await isRefused(july, /^2026-10 of this company is closed already, and 2026-07 has no calls /);
  t.match(await run((sql) => verifyStatements(sql)), { statements: 4, total: 0 });
});

t.test(
  'calls of an earlier month that come after a later one was closed get their statement',
  async (t) => {
    const { add, close, run, newCompany } = await world(t);
    const company = await newCompany();
    await add({ company, month: OCTOBER });
    t.equal((await close(company, OCTOBER)).number, 1);
    for (const month of [SEPTEMBER, '2026-08-01', NOVEMBER]) await add({ company, month });
    await t.rejects(close(company, NOVEMBER), { message: /^2026-08 and 2026-09 are still open / });
    for (const [at, month] of ['2026-08-01', SEPTEMBER, NOVEMBER].entries())
      t.equal((await close(company, month)).number, at + 2);
    t.match(await run((sql) => verifyStatements(sql)), { statements: 4, total: 0 });
  },
);

t.test(
  'many are closed one by one: a refusal stops no other, a failure does, and the rest can be left',
  async (t) => {
    const close = async (company: string) => {
      if (company === 'lacking') throw new Refused('conflict', 'It lacks rows.', [], 'statement');
      if (company === 'broken') throw new Error('The database is away.');
      return { number: 7 };
    };
    const companies = ['a', 'lacking', 'b', 'c'];
    const refused = [{ company_id: 'lacking', reason: 'It lacks rows.' }];
    const closed = (...ids: string[]) => ids.map((company_id) => ({ company_id, number: 7 }));
    t.same(await closeEach(companies, close, () => true), {
      closed: closed('a', 'b', 'c'),
      refused,
    });
    t.same(await closeEach(companies, close, (count) => count < 2), {
      closed: closed('a', 'b'),
      refused,
    });
    await t.rejects(
      closeEach(['broken', 'a'], close, () => true),
      /away/,
    );
  },
);

t.test(
  'nobody changes statements, and verify names what somebody changed behind the guard',
  async (t) => {
    const { add, close, run, newCompany } = await world(t);
    const company = await newCompany();
    const [edited, removed, moved] = [randomUUID(), randomUUID(), randomUUID()];
    const row = { company, month: OCTOBER, prompt: 1, input: '1' };
    await add(
      { ...row, request: edited },
      { ...row, request: removed },
      { ...row, request: moved },
      row,
    );
    await close(company, SEPTEMBER);
    await close(company);
    await close(company, NOVEMBER);
    for (const table of ['statements', 'statement_rows', 'seal_checkpoints']) {
      for (const change of [
        `delete from ${table}`,
        `update ${table} set number = 9`,
        `truncate ${table}`,
      ]) {
        await t.rejects(
          run((sql) => sql.unsafe(change)),
          { code: '23001' },
          change,
        );
      }
    }
    await t.rejects(
      run((sql) => sql`update monthly_spend set statement = null`),
      { code: '23001' },
    );
    t.match(await run((sql) => verifyStatements(sql)), { total: 0 });

    /** What is found after changes behind the triggers, which are undone. */
    const found = async (...changes: string[]) => {
      let told: string[] = [];
      const undone = new Error('undone');
      const changed = run(async (sql) => {
        await sql.unsafe(
          `begin; set local session_replication_role = replica; ${changes.join(';')}`,
        );
        told = (await verifyStatements(sql)).findings.map(({ what, number, month, request_id }) =>
          [what, number, month, request_id].join(' ').trim(),
        );
        await sql.unsafe('rollback');
        throw undone;
      });
      await t.rejects(changed, undone);
      return told;
    };
    const ofRow = (id: string) => `where request_id = '${id}'`;
    t.same(
      await found(`update api_usage set prompt_tokens = 2, cost_eur = 0.002 ${ofRow(edited)}`),
      ['statement differs from its rows 2', `row edited 2 2026-10 ${edited}`].sort((a, b) =>
        a.localeCompare(b),
      ),
    );
    t.same((await found(`delete from api_usage ${ofRow(removed)}`)).sort(), [
      `row missing 2 2026-10 ${removed}`,
      'statement differs from its rows 2',
    ]);
    t.same(
      await found(
        `update api_usage set occurred_at = occurred_at + interval '1 day' ${ofRow(moved)}`,
      ),
      [`row edited 2 2026-10 ${moved}`],
    );
    const added = randomUUID();
    const copy = `insert into api_usage select billing_month, '${added}', company_id, api_key_id, model_slug, upstream_model, endpoint,
    prompt_tokens, completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at from api_usage ${ofRow(moved)}`;
    t.same(await found(copy), [`row added  2026-10 ${added}`]);
    t.same(
      await found(
        `update statements set content = replace(content, '0.004', '0.005') where number = 2`,
      ),
      ['statement edited 2 2026-10'],
    );
    t.same(await found(`update statements set total_eur = 1 where number = 1`), [
      'statement edited 1 2026-09',
    ]);
    const forged = (
      number: number,
      from: string,
      to: string,
    ) => `update statements set content = c, digest = sha256(convert_to(c, 'UTF8')),
    total_eur = (c::json ->> 'total_eur')::numeric, cost_eur = (c::json ->> 'cost_eur')::numeric
    from (select replace(content, '${from}', '${to}') as c from statements where number = ${number}) x where number = ${number}`;
    t.same(await found(forged(2, '0.004', '0.005')), [
      'statement edited 2 2026-10',
      'statement edited 3 2026-11',
    ]);
    t.same(await found(forged(3, '"total_eur":"0"', '"total_eur":"5"')), [
      'statement edited 3 2026-11',
    ]);
    t.same(await found(forged(2, '"model":"fast"', '"model":"slow"')), [
      'statement differs from its rows 2',
      'statement edited 3 2026-11',
    ]);
    const without = (
      member: string,
    ) => `update statements set content = c, digest = sha256(convert_to(c, 'UTF8'))
    from (select (content::jsonb - '${member}')::text as c from statements where number = 3) x where number = 3`;
    for (const member of ['rows', 'closing_seals', 'closed_at']) {
      t.same(
        await found(without(member)),
        ['statement edited 3 2026-11'],
        `a text that says nothing of ${member}`,
      );
    }
    t.same(
      await found(
        `update statements set closed_at = closed_at - interval '1 day' where number = 3`,
      ),
      ['statement edited 3 2026-11'],
    );
    t.same(await found('delete from statements where number = 2'), ['statement missing 2 2026-10']);
    t.same(
      await found(
        'delete from statements where number = 3',
        'delete from statement_rows where number = 3',
      ),
      ['statement missing 3 2026-11'],
    );
    t.same(await found('update monthly_spend set statement = null where statement = 2'), [
      'month not closed 2 2026-10',
    ]);
  },
);

t.test('checkpoints hold the newest seals: their removal is named', async (t) => {
  const { close, run, newCompany } = await world(t);
  const company = await newCompany();
  const writer = randomUUID();
  for (let n = 0; n < 2; n++) {
    const record = {
      billing_month: OCTOBER,
      request_id: randomUUID(),
      company_id: company,
      api_key_id: randomUUID(),
      model_slug: 'fast',
      upstream_model: 'x',
      endpoint: 'embeddings',
      prompt_tokens: 1,
      completion_tokens: 0,
      cost_eur: '0.001',
      price_input: '1',
      price_output: '0',
      usage_source: 'upstream',
      outcome: 'completed',
      occurred_at: '2026-10-20T10:00:00Z',
    };
    await run(
      (sql) =>
        sql`select from book_usage(${writer}::uuid, ${JSON.stringify([record])}::text::json)`,
    );
  }
  await close(company);
  t.same(await run((sql) => verifyCheckpoints(sql)), { checkpoints: 1, findings: [] });
  await run((sql) =>
    sql.unsafe(
      `begin; set local session_replication_role = replica; delete from ledger_seals where number = 2; commit`,
    ),
  );
  t.same((await run((sql) => verifyCheckpoints(sql))).findings, [
    { what: 'seal missing', checkpoint: 1, writer, number: 2 },
  ]);
});

t.test('closing leaves an entry in the audit log, and an event for webhooks', async (t) => {
  const { add, close, run, newCompany } = await world(t);
  const company = await newCompany();
  await add({ company, month: OCTOBER, prompt: 1, input: '1' });
  await close(company);
  await close(company);
  const told = { number: 1, month: '2026-10', requests: 1, corrections: 0, total_eur: '0.001' };
  const entries = await run(
    (sql) => sql`select action, after from audit_log where subject = 'statements'`,
  );
  t.match([...entries], [{ action: 'insert', after: told }]);
  t.equal(entries.length, 1);
  const events = await run(
    (sql) => sql`select company_id, subject, body from events where kind = 'statement.closed'`,
  );
  t.match([...events], [{ company_id: company, subject: '1', body: { statement: told } }]);
  t.equal(events.length, 1);
});
