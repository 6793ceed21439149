import t from 'tap';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';
import { MASTER_KEY, scriptedUpstream } from '../../support/upstream.ts';

const { url } = await testDatabase(t);
const env = { DATABASE_URL: url };
const tollgate = (...argv: string[]) => run(argv, { env });
const { id } = (await tollgate('company', 'create', '--name', 'Acme', '--json')).json;
const create = (slug: string, ...more: string[]) =>
  tollgate(
    'model',
    'create',
    '--slug',
    slug,
    '--upstream',
    'internal/gpt',
    '--kind',
    'chat',
    '--eu-hosted',
    'true',
    ...more,
  );
const PRICES = ['--input-price', '0.0025', '--output-price', '0.01'];

t.test('create, list, set and remove a shared model', async (t) => {
  t.match((await create('fast', ...PRICES, '--json')).json, {
    slug: 'fast',
    company_id: null,
    upstream_model: 'internal/gpt',
    kind: 'chat',
    eu_hosted: true,
    cost_eur_per_1k_input: '0.0025',
    cost_eur_per_1k_output: '0.01',
    token_input: 'refuse',
  });
  t.match(
    (await tollgate('model', 'list')).out,
    /^SLUG .*\nfast +chat +yes +0\.0025 +0\.01 +internal\/gpt +all\n$/,
  );
  const changes = [
    '--upstream',
    'other',
    '--kind',
    'embedding',
    '--eu-hosted',
    'false',
    '--output-price',
    '0.02',
    '--token-input',
    'accept',
  ];
  t.match((await tollgate('model', 'set', 'fast', ...changes, '--json')).json, {
    upstream_model: 'other',
    kind: 'embedding',
    eu_hosted: false,
    cost_eur_per_1k_input: '0.0025',
    cost_eur_per_1k_output: '0.02',
    token_input: 'accept',
  });
  t.match(await tollgate('model', 'remove', 'fast'), { code: 0, err: '', out: /^Model removed\./ });
  t.equal((await tollgate('model', 'list', '--json')).out, '[]\n');
  t.match(await tollgate('model', 'list'), {
    code: 0,
    out: /^There are no models; "tollgate model create" adds one\.\n$/,
  });
});

t.test("a company's own model and a shared one may have the same slug", async (t) => {
  await create('twin', ...PRICES);
  t.equal((await create('twin', ...PRICES, '--company', id, '--json')).json.company_id, id);
  await tollgate('model', 'set', 'twin', '--company', id, '--input-price', '5');
  const models = (await tollgate('model', 'list', '--company', id, '--json')).json;
  t.equal(models.length, 2);
  t.match(models, [
    { company_id: null, cost_eur_per_1k_input: '0.0025' },
    { company_id: id, cost_eur_per_1k_input: '5' },
  ]);
  t.equal((await tollgate('model', 'remove', 'twin', '--company', id)).code, 0);
  t.match(await tollgate('model', 'remove', 'twin', '--company', id), {
    code: 1,
    err: /See "tollgate model list"\./,
  });
});

t.test('a taken slug is refused with a line that says what to do', async (t) => {
  await create('taken', ...PRICES);
  t.match(await create('taken', ...PRICES), {
    code: 1,
    out: '',
    err: /^tollgate: A shared model taken exists already\. Change it with "tollgate model set"\.\n$/,
  });
});

t.test('a price of 0 gives a warning', async (t) => {
  const warned = async (input: string, output: string, ...more: string[]) => {
    const slug = `free-${input}-${output}-${more.length}`;
    return (await create(slug, '--input-price', input, '--output-price', output, ...more, '--json'))
      .err;
  };
  t.match(await warned('0', '0.000'), /^tollgate: warning: .*this model is free\n$/);
  t.match(await warned('0', '1'), /prompt tokens are free/);
  t.match(await warned('1', '0'), /completion tokens are free/);
  t.equal(await warned('1', '1'), '');
  t.equal(
    (await tollgate('model', 'set', 'free-1-0-0', '--kind', 'rerank')).err,
    '',
    'reranking has no completion',
  );
  t.match(
    (await tollgate('model', 'set', 'free-1-1-0', '--input-price', '0')).err,
    /prompt tokens are free/,
  );
});

t.test('wrong usage is refused and stores nothing', async (t) => {
  const before = (await tollgate('model', 'list', '--json')).json;
  for (const args of [
    ['bad', '--input-price', '0.0025'],
    ['bad', '--input-price', '1e-3', '--output-price', '1'],
    ['bad', '--input-price', '0.0000000000001', '--output-price', '1'],
    ['a b', ...PRICES],
    ['bad', ...PRICES, '--company='],
    ['bad', ...PRICES, '--eu-hosted', 'maybe'],
  ]) {
    t.match(
      await create(...(args as [string, ...string[]])),
      { code: 64, out: '', err: /^tollgate: [^\n]+\n$/ },
      args.join(' '),
    );
  }
  t.match(await tollgate('model', 'set', 'taken', '--slug', 'renamed'), {
    code: 64,
    err: /unknown option --slug/,
  });
  t.same((await tollgate('model', 'list', '--json')).json, before);
});

t.test('model offered lists what the router has, and what is offered of it', async (t) => {
  const router = await scriptedUpstream(t);
  const { url } = await testDatabase(t);
  const env = { DATABASE_URL: url, UPSTREAM_URL: router.url, UPSTREAM_API_KEY: MASTER_KEY };
  const tollgate = (...argv: string[]) => run(argv, { env });
  const price = ['--input-price', '0.1', '--output-price', '0.1'];
  const create = ['model', 'create', '--kind', 'chat', '--eu-hosted', 'true', ...price];
  await tollgate(...create, '--slug', 'fast', '--upstream', 'lab/one');
  await tollgate(...create, '--slug', 'quick', '--upstream', 'lab/one');
  router.answer((res) => {
    const data = ['lab/one', 'lab/two', 'lab/one', 'no\u0000name'].map((id) => ({ id }));
    res.end(JSON.stringify({ data }));
  });
  t.match(await tollgate('model', 'offered'), {
    code: 0,
    out: 'UPSTREAM  OFFERED AS\nlab/one   fast, quick\nlab/two   -\n',
    err: /1 more in the router's list/,
  });
  t.same((await tollgate('model', 'offered', '--json')).json, [
    { upstream: 'lab/one', slugs: ['fast', 'quick'] },
    { upstream: 'lab/two', slugs: [] },
  ]);
  router.answer((res) => void res.writeHead(401).end());
  t.match(await tollgate('model', 'offered'), {
    code: 1,
    out: '',
    err: /The router refuses the key \(401/,
  });
  t.notMatch((await tollgate('model', 'offered')).err, MASTER_KEY);
  const demo = await run(['model', 'offered'], { env: { DATABASE_URL: url } });
  t.match(demo, { code: 1, err: /UPSTREAM_URL is not set/ });
});
