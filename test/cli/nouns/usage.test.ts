import { randomUUID } from 'node:crypto';
import t from 'tap';
import { trailStore } from '../../../src/store/gateway/request-trail.ts';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addRequests } from '../../support/requests.ts';
import { addUsage } from '../../support/usage.ts';

const { db, url } = await testDatabase(t);
const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: url } });
const { id: company } = (
  await tollgate('company', 'create', '--name', 'Acme', '--budget', '12.5', '--json')
).json;
await db.run(60_000, async (sql) => {
  await addUsage(sql, [
    {
      company,
      model: 'fast',
      prompt: 1000,
      completion: 10,
      input: '0.1',
      output: '0.000000000001',
    },
    { company, model: 'embed', prompt: 7, input: '0.2', endpoint: 'embeddings' },
  ]);
  await sql`insert into chat_usage (company_id, occurred_at, cost_eur) values (${company}, '2026-11-03T00:00:00Z', 0.5)`;
});

t.test('a month is shown with its totals, budget, models and endpoints', async (t) => {
  const { code, err, out } = await tollgate(
    'usage',
    'summary',
    '--company',
    company,
    '--month',
    '2026-11',
  );
  t.match({ code, err }, { code: 0, err: '' });
  t.same(out.split('\n'), [
    'Usage of Acme in 2026-11',
    '',
    '  requests           2',
    '  prompt tokens      1007',
    '  completion tokens  10',
    '  EUR API            0.10140000000001',
    '  EUR in-app chat    0.5',
    '  EUR total          0.60140000000001',
    '  EUR budget         12.5',
    '',
    'MODEL  REQUESTS  PROMPT  COMPLETION               EUR',
    'fast          1    1000          10  0.10000000000001',
    'embed         1       7           0            0.0014',
    '',
    'ENDPOINT          REQUESTS  PROMPT  COMPLETION               EUR',
    'chat.completions         1    1000          10  0.10000000000001',
    'embeddings               1       7           0            0.0014',
    '',
  ]);
});

t.test('a daily budget is told beside that of the month, with what is spent today', async (t) => {
  const { id } = (
    await tollgate('company', 'create', '--name', 'Daily', '--daily-budget', '8', '--json')
  ).json;
  await db.run(
    10_000,
    (sql) => sql`insert into chat_usage (company_id, cost_eur) values (${id}, 2)`,
  );
  const { out } = await tollgate('usage', 'summary', '--company', id);
  t.match(out, /\n {2}EUR budget +unlimited\n {2}EUR today +2 of 8 \(25 %\)\n/);
  const { json } = await tollgate('usage', 'summary', '--company', id, '--json');
  t.same(json.day, { spent_eur: '2', budget_eur: '8', percent: 25 });
});

t.test('refused and failed requests are told by their reasons', async (t) => {
  const at = Date.parse('2026-10-03T10:00:00Z');
  const refused = { company, at, status: 402, code: 'insufficient_quota' };
  await addRequests(trailStore(db), [
    refused,
    refused,
    { company, at },
    { company, at, status: 502, code: 'upstream_error', upstreamStatus: 500 },
  ]);
  const month = ['usage', 'summary', '--company', company, '--month', '2026-10'];
  const { out } = await tollgate(...month);
  t.match(out, /\n {2}requests +0\n {2}refused +2\n {2}failed +1\n/);
  t.match(
    out,
    /\nREFUSED OR FAILED +CODE +STATUS +REQUESTS\nBudget reached +insufficient_quota +402 +2\nUpstream failed +upstream_error +502 +1\n/,
  );
  t.match((await tollgate(...month, '--json')).json.answers, {
    requests: 4,
    refused: 2,
    failed: 1,
    reasons: [{ code: 'insufficient_quota', requests: 2 }, { code: 'upstream_error' }],
  });
});

t.test('parts are told in all and by model, rare ones where an upstream told one', async (t) => {
  const { id } = (await tollgate('company', 'create', '--name', 'Parts', '--json')).json;
  const ofCompany = ['usage', 'summary', '--company', id, '--month', '2026-11'];
  const fast = { company: id, model: 'fast', prompt: 200, cached: 50, reasoning: 3, completion: 4 };
  await db.run(60_000, (sql) => addUsage(sql, [fast, { company: id, model: 'plain', prompt: 9 }]));
  const { out } = await tollgate(...ofCompany);
  t.match(out, /\n {2}cached tokens +50 \(25 %\)\n/);
  t.match(
    out,
    /\nMODEL +CACHED +CACHE WRITE +AUDIO PROMPT +REASONING +AUDIO COMPLETION\nfast +50 +0 +0 +3 +0\n\n/,
  );
  t.notMatch(out, /search units|SEARCH UNITS|image/);
  const rank = { company: id, model: 'rank', prompt: 70, searchUnits: 12, endpoint: 'rerank' };
  await db.run(60_000, (sql) => addUsage(sql, [rank]));
  const more = await tollgate(...ofCompany);
  t.match(more.out, /\n {2}search units +12\n/);
  t.match(more.out, / SEARCH UNITS\nfast +50 .* 0\nrank +0 .* 12\n\n/);
  t.notMatch(more.out, /image/);
  const { by_model } = (await tollgate(...ofCompany, '--json')).json;
  t.match(
    Object.fromEntries(by_model.map((line: { model_slug: string }) => [line.model_slug, line])),
    {
      fast: { token_details: { requests: 1, cached_tokens: 50, cached_percent: 25 } },
      rank: { token_details: { search_units: 12, cached_tokens: 0, cached_percent: null } },
      plain: { token_details: null },
    },
  );
});

t.test('in JSON amounts are strings, so that no parser rounds them', async (t) => {
  t.match(
    (await tollgate('usage', 'summary', '--company', company, '--month', '2026-11', '--json')).json,
    {
      month: '2026-11',
      total_cost_eur: '0.60140000000001',
      by_model: [{ model_slug: 'fast', cost_eur: '0.10000000000001' }, { model_slug: 'embed' }],
      by_endpoint: [{ endpoint: 'chat.completions' }, { endpoint: 'embeddings' }],
    },
  );
});

t.test('a month without usage, the current month as default, and refused values', async (t) => {
  t.match(
    (await tollgate('usage', 'summary', '--company', company, '--month', '2020-01', '--json')).json,
    {
      requests: 0,
    },
  );
  const [now] = await db.run(
    5000,
    (sql) => sql`select to_char(billing_month(now()), 'YYYY-MM') as month`,
  );
  t.equal(
    (await tollgate('usage', 'summary', '--company', company, '--json')).json.month,
    now?.month,
  );
  t.equal((await tollgate('usage', 'summary', '--company', randomUUID())).code, 1);
  t.match(await tollgate('usage', 'summary', '--company', company, '--month', '2026-13'), {
    code: 64,
    err: /--month must be a month/,
  });
});

t.test('the usage of a removed company is shown: its ledger outlives it', async (t) => {
  await db.run(60_000, (sql) => sql`delete from companies where id = ${company}`);
  const { code, out } = await tollgate(
    'usage',
    'summary',
    '--company',
    company,
    '--month',
    '2026-11',
  );
  t.equal(code, 0);
  t.match(
    out,
    /^Usage of a removed company in 2026-11\n\n {2}requests +2\n.*EUR total +0\.60140000000001\n {2}EUR budget +unlimited\n/s,
  );
  t.match(
    (await tollgate('usage', 'summary', '--company', randomUUID())).err,
    /^tollgate: There is no company /,
  );
});
