import { randomUUID } from 'node:crypto';
import { PassThrough, Readable } from 'node:stream';
import t from 'tap';
import { runCli } from '../../src/cli.ts';
import { ROOT, tollgate as run } from '../support/cli.ts';
import { testDatabase } from '../support/postgres.ts';
import { addUsage } from '../support/usage.ts';

const { db, url } = await testDatabase(t);
const env = { DATABASE_URL: url };
const tollgate = (...argv: string[]) => run(argv, { env });
const { id: company } = (await tollgate('company', 'create', '--name', 'Acme', '--json')).json;
const month = ['--company', company, '--month', '2026-11'];
await db.run(10_000, (sql) =>
  addUsage(sql, [
    { company, prompt: 1000, input: '0.1', upstream: 'inter"nal,\nname', at: '2026-11-02T00:00:00Z' },
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

t.test('--csv gives RFC 4180 with a heading, and quotes what needs it', async (t) => {
  const { code, out } = await tollgate('ledger', 'export', ...month, '--csv');
  t.equal(code, 0);
  t.match(out, /^billing_month,request_id,company_id,.*,occurred_at\n2026-11-01,[0-9a-f-]{36},/);
  t.match(
    out,
    /,fast,"inter""nal,\nname",chat\.completions,1000,0,0\.1,0\.1,0,upstream,completed,2026-11-02T00:00:00\.000000Z\n$/,
  );
});

t.test('--json gives one array, empty or not', async (t) => {
  t.match((await tollgate('ledger', 'export', ...month, '--json')).json, [
    { prompt_tokens: 1 },
    { prompt_tokens: 1000 },
  ]);
  t.same((await tollgate('ledger', 'export', '--company', company, '--month', '2020-01', '--json')).json, []);
  t.equal((await tollgate('ledger', 'export', '--company', company, '--month', '2020-01')).out, '');
  t.match(await tollgate('ledger', 'export', ...month, '--json', '--csv'), {
    code: 64,
    out: '',
    err: /exclude each other/,
  });
  t.equal((await tollgate('ledger', 'export', '--company', randomUUID(), '--month', '2026-11')).code, 1);
});

t.test('a slow reader is waited for: rows do not pile up in memory', async (t) => {
  const { id } = (await tollgate('company', 'create', '--name', 'Large', '--json')).json;
  await db.run(60_000, (sql) =>
    addUsage(
      sql,
      Array.from({ length: 12_000 }, () => ({ company: id })),
    ),
  );
  const stdout = new PassThrough({ highWaterMark: 1024 });
  const argv = ['ledger', 'export', '--company', id, '--month', '2026-11'];
  const done = runCli({ argv, env, stdin: Readable.from([]), stdout, stderr: new PassThrough(), root: ROOT });
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

t.test('verify agrees with counters that are right, and exits 1 naming those that are not', async (t) => {
  t.match(await tollgate('ledger', 'verify'), { code: 0, out: /^monthly_spend is the sum of its rows; .*: 3\.\n$/ });
  t.same((await tollgate('ledger', 'verify', '--json')).json, { checked: 3, differences: [] });
  await db.run(
    5000,
    (sql) =>
      sql`update monthly_spend set requests = requests + 1 where company_id = ${company} and billing_month = '2026-11-01'`,
  );
  const { code, out } = await tollgate('ledger', 'verify');
  t.equal(code, 1);
  t.match(out, new RegExp(`^COMPANY .*\n${company} +2026-11 +requests +3 +2\n$`));
  t.match(await tollgate('ledger', 'verify', '--json'), {
    code: 1,
    json: { differences: [{ counter: 'requests', counted: '3', rows: '2' }] },
  });
});

t.test('reconcile is not there yet, and nothing pretends', async (t) => {
  t.match(await tollgate('ledger', 'reconcile'), {
    code: 64,
    out: '',
    err: /ledger has no verb "reconcile"; choose one of verify, export/,
  });
});
