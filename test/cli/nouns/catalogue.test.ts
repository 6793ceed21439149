import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import t from 'tap';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addUsage } from '../../support/usage.ts';

const { db, url } = await testDatabase(t);
const env = { DATABASE_URL: url };
const tollgate = (...argv: string[]) => run(argv, { env });
const query = <T>(text: string) =>
  db.run(60_000, (sql) => sql.unsafe(text) as never as Promise<T[]>);
const LIST = {
  'internal/fast': {
    mode: 'chat',
    max_input_tokens: 400_000,
    max_output_tokens: 64_000,
    input_cost_per_token: 2e-6,
    output_cost_per_token: 1e-5,
    cache_read_input_token_cost: 2e-7,
    input_cost_per_token_above_272k_tokens: 4e-6,
    output_cost_per_token_above_272k_tokens: 1.5e-5,
    cache_read_input_token_cost_above_272k_tokens: 4e-7,
    output_cost_per_token_batches: 5e-6,
  },
  'internal/embed': { mode: 'embedding', input_cost_per_token: 2e-8 },
  'internal/asks': { mode: 'chat', max_tokens: 1000 },
};
const compare = (...more: string[]) =>
  run(['model', 'prices', '--catalogue', '-', '--usd-rate', '0.9', ...more], {
    env,
    stdin: JSON.stringify(LIST),
  });

t.before(async () => {
  const create = (slug: string, kind: string, input: string, output: string) =>
    tollgate(
      'model',
      'create',
      '--slug',
      slug,
      '--upstream',
      `internal/${slug}`,
      '--kind',
      kind,
      '--eu-hosted',
      'true',
      '--input-price',
      input,
      '--output-price',
      output,
    );
  await create('fast', 'chat', '0.002', '0.01');
  await create('embed', 'embedding', '0.000018', '0');
  await create('asks', 'chat', '1', '1');
  await create('other', 'chat', '1', '1');
  const { json } = await tollgate('company', 'create', '--name', 'One', '--json');
  await db.run(60_000, async (sql) => {
    await sql`alter table model_prices disable trigger user`;
    await sql`update model_prices set valid_from = '2020-01-01'`;
    await sql`alter table model_prices enable trigger user`;
    const [{ month, at }] = await sql<[{ month: string; at: string }]>`
      select date_trunc('month', now() - interval '1 month' )::date::text as month, (date_trunc('month', now() at time zone 'UTC') - interval '10 days')::text || 'Z' as at`;
    const row = {
      company: json.id,
      month,
      at,
      model: 'fast',
      upstream: 'internal/fast',
      input: '0.002',
      output: '0.01',
    };
    await addUsage(sql, [
      { ...row, request: randomUUID(), prompt: 1000, completion: 100 },
      { ...row, request: randomUUID(), prompt: 300_000, completion: 1000 },
    ]);
  });
});

t.test(
  'shows differences, what last month would have cost, and what is not said; changes nothing',
  async (t) => {
    const shown = await compare();
    t.match(shown, { code: 0, err: '' });
    t.equal(
      shown.out,
      `~ fast (internal/fast)
    now        0.002 and 0.01
    catalogue  0.0018 and 0.009, cache read 0.00018
               over 272000 0.0036 and 0.0135, cache read 0.00036
    context length: 400000
    max output tokens: 64000
    last month 2 calls, 0.613 EUR; would be 1.0962 EUR
    aside: output_cost_per_token_batches of batches, which are not served here

! asks has no price of a call there
! other is not in the catalogue

1 differ, 1 as in the catalogue.
`,
    );
    const { json } = await compare('--json', '--model', 'fast', '--model', 'nobody');
    t.match(json, {
      accepted: false,
      models: [
        {
          slug: 'fast',
          differs: true,
          catalogue: { input: '0.0018' },
          last_month: { calls: 2, cost_eur: '0.613', would_eur: '1.0962' },
        },
      ],
      left: [{ slug: 'nobody', why: 'is no shared model' }],
    });
    t.same(await query('select rates from models where rates is not null'), []);
  },
);

t.test('a price below the cost price is marked, and not accepted', async (t) => {
  await tollgate('model', 'cost', 'fast', '--input-price', '0.0001', '--output-price', '0.01');
  const shown = await compare('--accept', '--model', 'fast');
  t.equal(shown.code, 1);
  t.match(shown.out, /below its cost price: output 0\.009, cost price 0\.01\n/);
  t.match(shown.out, 'Nothing was set: name the other models');
  t.same(await query('select rates from models where rates is not null'), []);
  await tollgate('model', 'cost', 'fast', '--input-price', '0.0001', '--output-price', '0.009');
});

t.test(
  'accepts prices, rates and sizes from a date, and at once; then nothing differs',
  async (t) => {
    t.match(await compare('--from', '2099-01-01'), { code: 64 });
    const later = await compare('--accept', '--from', '2099-01-01', '--model', 'fast');
    t.match(later, { err: '', code: 0, out: /\n1 set, 0 as in the catalogue\.\n$/ });
    const rates = [{ over: 272_000, input: '0.0036', cache_read: '0.00036', output: '0.0135' }];
    t.match(
      await query(
        "select trim_scale(input)::text as input, rates from model_prices where slug = 'fast' order by valid_from",
      ),
      [
        { input: '0.002', rates: null },
        { input: '0.0018', rates },
      ],
    );
    t.match(await compare('--accept'), { code: 0, out: /\n1 set, 1 as in the catalogue\.\n$/ });
    t.match(
      await query(
        "select trim_scale(cost_eur_per_1k_output)::text as output, rates, context_length, max_output_tokens from models where slug = 'fast'",
      ),
      [{ output: '0.009', rates, context_length: 400_000, max_output_tokens: 64_000 }],
    );
    t.match(await compare(), { code: 0, out: /\n0 differ, 2 as in the catalogue\.\n$/ });
  },
);

t.test('a running router is asked; what is no catalogue is refused', async (t) => {
  const server = createServer((_, response) =>
    response.end(
      `{"data":[{"model_name":"internal/fast","litellm_params":{},"model_info":{"id":"a","mode":"chat","input_cost_per_token":1.00000000000001e-05,"output_cost_per_token":2e-05}}]}`,
    ),
  );
  await new Promise<void>((listens) => server.listen(0, '127.0.0.1', listens));
  t.teardown(() => server.close());
  const { port } = server.address() as AddressInfo;
  const asked = await run(
    ['model', 'prices', '--catalogue', 'router', '--usd-rate', '1', '--json'],
    {
      env: { ...env, UPSTREAM_URL: `http://127.0.0.1:${port}/v1` },
    },
  );
  t.match(asked.json.models, [
    {
      slug: 'fast',
      catalogue: { input: '0.01', output: '0.02' },
      inexact: [{ name: 'input', why: /0\.0100000000000001 is rounded to 0\.01$/ }],
    },
  ]);
  for (const [stdin, err] of [
    ['{', /is not JSON/],
    ['[]', /lists no models/],
  ] as const) {
    t.match(await run(['model', 'prices', '--catalogue', '-', '--usd-rate', '1'], { env, stdin }), {
      code: 1,
      err,
    });
  }
});
