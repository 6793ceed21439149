import { randomUUID } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addUsage } from '../../support/usage.ts';

const { db, url } = await testDatabase(t);
const folder = mkdtempSync(join(tmpdir(), 'tollgate-'));
t.teardown(() => rmSync(folder, { recursive: true }));
const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: url } });
const [one, two] = [await newCompany('One'), await newCompany('Two')];
const [first, second, third] = [randomUUID(), randomUUID(), randomUUID()];
const at = '2026-10-20T10:00:00Z';
await db.run(60_000, async (sql) => {
  const row = { month: '2026-10-01', at, prompt: 1000, completion: 10, input: '1', output: '2' };
  await addUsage(sql, [
    { ...row, company: one, request: first },
    { ...row, company: two, request: second },
    { ...row, company: two, request: third, model: 'own', upstream: 'internal/own' },
  ]);
  await sql`insert into model_cost_prices (slug, company_id, valid_from, input, output) values
    ('fast', null, '2026-10-01', 0.1, 0.3), ('fast', null, '2026-10-21', 9, 9), ('own', ${two}, '2026-10-01', 0.000000000007, 0)`;
  await sql`insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
    values ('own', ${two}, 'internal/own', 'chat', true, 1, 2)`;
  await sql`alter table model_prices disable trigger user`;
  await sql`update model_prices set valid_from = '2026-01-01'`;
  await sql`alter table model_prices enable trigger user`;
});

async function newCompany(name: string): Promise<string> {
  return (await tollgate('company', 'create', '--name', name, '--json')).json.id;
}

function bill(...lines: string[]): string {
  const file = join(folder, `${randomUUID()}.csv`);
  writeFileSync(
    file,
    `time,model,prompt_tokens,completion_tokens,request_id,spend\n${lines.join('\n')}\n`,
  );
  return file;
}
const call = (id: string, cost: string, model = 'internal/fast') =>
  `${at},${model},1000,10,${id},${cost}`;
const reconcile = (file: string, ...more: string[]) =>
  tollgate('ledger', 'reconcile', '--upstream', file, ...more);

t.test(
  'what the upstream billed is compared with what it should cost, by model and to the last digit',
  async (t) => {
    const file = bill(
      call(first, '0.12875'),
      call(second, '1.2875e-01'),
      call(third, '8.75e-12', 'internal/own'),
    );
    const { code, json, err } = await reconcile(file, '--rate', '0.8', '--json');
    t.match({ code, err }, { code: 0, err: '' });
    t.same(json.models, [
      {
        model: 'internal/fast',
        upstream_calls: 2,
        ledger_calls: 2,
        upstream_tokens: 2020,
        ledger_tokens: 2020,
        billed_eur: '0.206',
        expected_eur: '0.206',
        difference_eur: '0',
        charged_eur: '2.04',
      },
      {
        model: 'internal/own',
        upstream_calls: 1,
        ledger_calls: 1,
        upstream_tokens: 1010,
        ledger_tokens: 1010,
        billed_eur: '0.000000000007',
        expected_eur: '0.000000000007',
        difference_eur: '0',
        charged_eur: '1.02',
      },
    ]);
    t.match(
      (await reconcile(file, '--rate', '0.8')).out,
      /MODEL .*BILLED EUR +SHOULD COST EUR +DIFFERENCE EUR +CHARGED EUR\n/,
    );
  },
);

t.test('a model that was billed too high is a difference beyond the tolerance', async (t) => {
  const file = bill(
    call(first, '0.2'),
    call(second, '0.10300000000000000001'),
    call(third, '', 'internal/own'),
  );
  const { code, json } = await reconcile(file, '--json');
  t.equal(code, 1);
  t.same(json.models_off, ['internal/fast']);
  t.match(json.models, [
    { billed_eur: '0.30300000000000000001', difference_eur: '0.09700000000000000001' },
    { billed_eur: null, difference_eur: null },
  ]);
  t.match((await reconcile(file)).out, /more or less than it should for: internal\/fast\./);
  t.equal((await reconcile(file, '--tolerance', '0.1')).code, 0);
});

t.test('one company alone: a file may have calls of others', async (t) => {
  const file = bill(call(first, '0.103'), call(second, '0.103'), call(third, '0', 'internal/own'));
  t.match(await reconcile(file, '--company', one, '--json'), {
    code: 0,
    json: {
      matched: 1,
      models: [
        { model: 'internal/fast', ledger_calls: 1, billed_eur: '0.103', charged_eur: '1.02' },
      ],
    },
  });
  const own = bill(call(first, '0.103'), `${at},internal/other,5,5,,1`);
  const { code, json } = await reconcile(own, '--company', one, '--json');
  t.equal(code, 1);
  t.match(
    json,
    { matched: 1, missing: [{ name: 'line 3' }], extra: [] },
    'what the ledger lacks may be of anybody',
  );
  t.match(await reconcile(own, '--company', randomUUID()), { code: 1, err: /no company/ });
});

t.test('what is no cost and no rate is told', async (t) => {
  t.match(await reconcile(bill(call(first, 'EUR 1'))), {
    code: 1,
    err: /line 2: "EUR 1" is no cost/,
  });
  t.match(await reconcile(bill(call(first, '1')), '--rate', '1,1'), {
    code: 64,
    err: /--rate must be a plain number/,
  });
  t.match(await reconcile(bill(call(first, '1')), '--rate', '0.0'), {
    code: 64,
    err: /--rate must be above 0/,
  });
});
