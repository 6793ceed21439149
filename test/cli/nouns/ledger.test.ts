import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import t from 'tap';
import { runCli } from '../../../src/cli/cli.ts';
import { ledgerStore } from '../../../src/store/gateway/ledger.ts';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addUsage } from '../../support/usage.ts';

const { db, url } = await testDatabase(t);
const env = { DATABASE_URL: url };
const tollgate = (...argv: string[]) => run(argv, { env });
const { id: company } = (await tollgate('company', 'create', '--name', 'Acme', '--json')).json;
const month = ['--company', company, '--month', '2026-11'];
await db.run(60_000, (sql) =>
  addUsage(sql, [
    {
      company,
      prompt: 1000,
      input: '0.1',
      upstream: 'inter"nal,\nname',
      at: '2026-11-02T00:00:00Z',
    },
    { company, prompt: 1, input: '0.000000000001', at: '2026-11-01T00:00:00Z' },
    { company, month: '2026-10-01', prompt: 5 },
  ]),
);

t.test('export gives one JSON object a line, oldest first', async (t) => {
  const { code, err, out } = await tollgate('ledger', 'export', ...month);
  t.match({ code, err }, { code: 0, err: '' });
  const rows = out
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line));
  t.equal(rows.length, 2);
  t.match(rows, [
    {
      company_id: company,
      cost_eur: '0.000000000000001',
      prompt_tokens: 1,
      occurred_at: '2026-11-01T00:00:00.000000Z',
    },
    { cost_eur: '0.1', upstream_model: 'inter"nal,\nname' },
  ]);
});

t.test('--csv gives RFC 4180 with a heading, and quotes where they are needed', async (t) => {
  const { code, out } = await tollgate('ledger', 'export', ...month, '--csv');
  t.equal(code, 0);
  t.match(
    out,
    /^billing_month,request_id,company_id,.*,occurred_at,cost_center,cached_tokens,.*,upstream_cost,upstream_currency\n2026-11-01,[0-9a-f-]{36},/,
  );
  t.match(
    out,
    /,fast,"inter""nal,\nname",chat\.completions,1000,0,0\.1,0\.1,0,upstream,completed,2026-11-02T00:00:00\.000000Z,,,,,,,,\n$/,
  );
});

t.test('feed tells the calls of all companies, each once, behind a cursor', async (t) => {
  const feed = async (...argv: string[]) => {
    const { code, err, out } = await tollgate('ledger', 'feed', ...argv);
    t.match({ code, err }, { code: 0, err: '' });
    return out
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line));
  };
  const all = await feed();
  const [{ count } = { count: 0 }] = await db.run(
    10_000,
    (sql) =>
      sql<{ count: number }[]>`select count(distinct request_id)::integer as count from api_usage`,
  );
  t.equal(all.length, count);
  t.equal(new Set(all.map(({ request_id }) => request_id)).size, count);
  const first = await feed('--limit', '2');
  t.same(first, all.slice(0, 2));
  t.same(await feed('--after', first[1].cursor), all.slice(2));
  t.same(await feed('--after', all.at(-1).cursor), []);
  t.same((await tollgate('ledger', 'feed', '--json')).json, all);
  t.match(await tollgate('ledger', 'feed', '--after', 'x'), {
    code: 64,
    err: /--after must be the cursor of a call/,
  });
  t.match(await tollgate('ledger', 'feed', '--limit', '0'), {
    code: 64,
    err: /--limit must be a whole number/,
  });
  t.match(await tollgate('ledger', 'feed', '--after', '1-0-1-00000000'), {
    code: 1,
    err: /of another ledger/,
  });
});

t.test('--json gives one array, empty or not', async (t) => {
  t.match((await tollgate('ledger', 'export', ...month, '--json')).json, [
    { prompt_tokens: 1 },
    { prompt_tokens: 1000 },
  ]);
  t.same(
    (await tollgate('ledger', 'export', '--company', company, '--month', '2020-01', '--json')).json,
    [],
  );
  t.equal((await tollgate('ledger', 'export', '--company', company, '--month', '2020-01')).out, '');
  t.match(await tollgate('ledger', 'export', ...month, '--json', '--csv'), {
    code: 64,
    out: '',
    err: /exclude each other/,
  });
  t.equal(
    (await tollgate('ledger', 'export', '--company', randomUUID(), '--month', '2026-11')).code,
    1,
  );
});

t.test('export waits for a slow reader, so that rows do not pile up in memory', async (t) => {
  const { db, url } = await testDatabase(t); // of its own: no later test adds up its rows
  const env = { DATABASE_URL: url };
  const { id } = (await run(['company', 'create', '--name', 'Large', '--json'], { env })).json;
  await db.transaction(60_000, async (sql) => {
    await sql`set local session_replication_role = replica`; // without the triggers that count and audit
    await addUsage(
      sql,
      Array.from({ length: 12_000 }, () => ({ company: id })),
    );
  });
  const stdout = new PassThrough({ highWaterMark: 1024 });
  const argv = ['ledger', 'export', '--company', id, '--month', '2026-11'];
  const done = runCli({ argv, env, stdin: Readable.from([]), stdout, stderr: new PassThrough() });
  let lines = 0;
  let most = 0;
  for await (const chunk of stdout) {
    most = Math.max(most, stdout.writableLength + stdout.readableLength);
    lines += chunk.toString().split('\n').length - 1;
    if (lines === 12_000) stdout.end();
  }
  t.equal(await done, 0);
  t.equal(lines, 12_000);
  t.ok(most < 1_500_000, `a batch or two of about 500 bytes a row, not 6 MB: ${most}`);
});

t.test('verify exits 1 when counters are wrong, and names them', async (t) => {
  t.match(await tollgate('ledger', 'verify'), {
    code: 0,
    out: /^monthly_spend is the sum of its rows; .*: 2\.\nusage_daily is the sum of its rows; .*: 3\.\nusage_company_days is the sum of its rows; .*: \d+\.\nusage_key_months is the sum of its rows; .*: \d+\.\nusage_model_days is the sum of its rows; .*: \d+\.\nusage_details is the sum of its rows; .*: 0\.\nusage_end_user_days is the sum of its rows; .*: 0\.\nupstream_cost_monthly is the sum of its rows; .*: 0\.\nEvery sealed row is as it was written; rows: 0, seals: 0\. Rows without a seal: 3\.\n$/,
  });
  t.match((await tollgate('ledger', 'verify', '--json')).json, {
    checked: 2,
    differences: [],
    unsealed: 3,
  });
  await db.run(
    5000,
    (sql) =>
      sql`update monthly_spend set requests = requests + 1 where company_id = ${company} and billing_month = '2026-11-01'`,
  );
  const { code, out } = await tollgate('ledger', 'verify');
  t.equal(code, 1);
  t.match(out, new RegExp(`^COMPANY .*\n${company} +2026-11 +requests +3 +2\nusage_daily is `));
  t.match(await tollgate('ledger', 'verify', '--json'), {
    code: 1,
    json: { differences: [{ counter: 'requests', counted: '3', rows: '2' }] },
  });
});

t.test('verify also compares usage_daily, which the pages show, with the rows', async (t) => {
  await db.run(
    5000,
    (sql) => sql`update usage_daily set cost_eur = cost_eur + 0.05
      where company_id = ${company} and day = '2026-11-02' and model_slug = 'fast'`,
  );
  const { code, out } = await tollgate('ledger', 'verify');
  t.equal(code, 1);
  t.match(
    out,
    new RegExp(
      `COMPANY +DAY .*\n${company} +2026-11-02 +fast +cost_eur +0\\.15 +0\\.1\nusage_company_days is `,
    ),
  );
  t.match((await tollgate('ledger', 'verify', '--json')).json.daily, {
    total: 1,
    differences: [
      { company_id: company, day: '2026-11-02', counter: 'cost_eur', counted: '0.15', rows: '0.1' },
    ],
  });
});

t.test('verify names an edited row, a removed row and a removed seal', async (t) => {
  const at = '2026-11-03T10:00:00Z';
  const row = (n: number) =>
    `{"billing_month":"2026-11-01","request_id":"00000000-0000-7000-8000-00000000000${n}","company_id":"${company}","api_key_id":"${company}","model_slug":"fast","upstream_model":"internal/sealed","endpoint":"embeddings","prompt_tokens":1000,"completion_tokens":0,"cost_eur":${n},"price_input":${n},"price_output":0,"usage_source":"upstream","outcome":"completed","occurred_at":"${at}"}`;
  const store = ledgerStore(db);
  const writer = randomUUID();
  for (const batch of [`${row(1)},${row(2)}`, row(3), row(4)])
    await store.insert(writer, Buffer.from(`[${batch}]`), null);
  t.match((await tollgate('ledger', 'verify', '--json')).json, { seals: 3, rows: 4, total: 0 });

  await db.run(60_000, async (sql) => {
    await sql.unsafe(
      'alter table api_usage_2026_11 disable trigger user; alter table ledger_seals disable trigger user',
    );
    await sql`update api_usage_2026_11 set upstream_model = 'cheaper' where request_id = '00000000-0000-7000-8000-000000000001'`;
    await sql`delete from api_usage_2026_11 where request_id = '00000000-0000-7000-8000-000000000002'`;
    await sql`update ledger_seals set cost_eur = 0 where writer = ${writer} and number = 3`;
    await sql`delete from ledger_seals where writer = ${writer} and number = 2`;
  });
  const { code, json } = await tollgate('ledger', 'verify', '--json');
  t.equal(code, 1);
  t.match(json.findings, [
    {
      what: 'row edited',
      request_id: '00000000-0000-7000-8000-000000000001',
      month: '2026-11',
      number: 1,
    },
    {
      what: 'row missing',
      request_id: '00000000-0000-7000-8000-000000000002',
      month: '2026-11',
      number: 1,
    },
    { what: 'seal edited', writer, number: 3 },
    { what: 'seal missing', writer, number: 2 },
  ]);
  t.match(
    (await tollgate('ledger', 'verify')).out,
    /row missing +2026-11 +00000000-0000-7000-8000-000000000002/,
  );
});

t.test("reconcile pairs the calls of an upstream's bill with the ledger", async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  const bill = (...lines: string[]) => {
    const file = join(folder, 'bill.csv');
    writeFileSync(
      file,
      `startTime,model,prompt_tokens,completion_tokens,request_id,note\n${lines.join('\n')}\n`,
    );
    return file;
  };
  const others = ['00000000-0000-7000-8000-000000000003', '00000000-0000-7000-8000-000000000004'];
  const good = bill(
    `2026-11-03 10:00:01,internal/sealed,1000,0,${others[0]},"by id, ours"`,
    '2026-11-03T10:00:30Z,internal/sealed,1000,0,chatcmpl-1,by time',
    '2026-11-03T10:00:02Z,cheaper,1000,0,,',
  );
  t.match(await tollgate('ledger', 'reconcile', '--upstream', good), {
    code: 0,
    out: /^matched 3, missing 0, extra 0, differing 0\n\nMODEL +UPSTREAM CALLS .*\n/,
  });
  const bad = bill(
    '2026-11-03T09:59:59Z,internal/sealed,1000,7,,other figures',
    '2026-11-03T10:00:00Z,internal/unknown,5,5,,never booked',
    '2026-11-03T10:00:01Z,cheaper,1000,0,,',
  );
  const { code, json } = await tollgate('ledger', 'reconcile', '--upstream', bad, '--json');
  t.equal(code, 1);
  t.match(json, {
    matched: 1,
    missing: [{ name: 'line 3', model: 'internal/unknown' }],
    extra: [{ model: 'internal/sealed' }],
    differing: [
      { upstream: { name: 'line 2' }, ledger: { promptTokens: 1000, completionTokens: 0 } },
    ],
  });
  t.match(await tollgate('ledger', 'reconcile', '--upstream', bill('yesterday,a,1,1,,')), {
    code: 1,
    err: /line 2: "yesterday" is no ISO 8601 time/,
  });
  t.match(await tollgate('ledger', 'reconcile', '--upstream', join(folder, 'none.csv')), {
    code: 1,
    err: /ENOENT/,
  });
  t.equal((await tollgate('ledger', 'reconcile')).code, 64);
});
