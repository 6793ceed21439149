import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { newToken, send } from '../admin/api/tokens.ts';
import { signedIn, startOffice } from '../admin/people.ts';
import { tollgate as run } from '../support/cli.ts';
import { addUsage } from '../support/usage.ts';

/** Prices of cached input, which a model may have or not, at all faces. */

const office = await startOffice(t);
const { sql, databaseUrl } = office;
const { company } = office.customer;
const operator = await signedIn(office, 'operator');
const token = await newToken(office);
const folder = t.testdir({});
const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: databaseUrl } });
const http = (method: string, path: string, body?: object) =>
  send(office, token, [method, path], body);

async function fromFile(name: string, text: string, ...command: string[]) {
  const path = join(folder, name);
  writeFileSync(path, text);
  return tollgate(...command, path);
}

/** The prices of a model now, and its history. */
async function pricesOf(slug: string, owner: string | null = null) {
  const [row] = await sql`
    select concat_ws(' ', trim_scale(cost_eur_per_1k_input), coalesce(trim_scale(cost_eur_per_1k_cache_read)::text, '-'),
      coalesce(trim_scale(cost_eur_per_1k_cache_write)::text, '-'), trim_scale(cost_eur_per_1k_output)) as now, id
    from models where slug = ${slug} and company_id is not distinct from ${owner}`;
  const history = await sql`
    select concat_ws(' ', coalesce(trim_scale(input)::text, 'gone'), coalesce(trim_scale(cache_read)::text, '-'),
      coalesce(trim_scale(cache_write)::text, '-'), trim_scale(output)) as price
    from model_prices where slug = ${slug} and company_id is not distinct from ${owner} order by valid_from`;
  return {
    id: row?.id as string,
    now: row?.now as string,
    history: history.map(({ price }) => price as string),
  };
}

const NEW =
  '--upstream internal/x --kind chat --eu-hosted true --input-price 1 --output-price 2'.split(' ');
const HTTP_NEW = {
  upstream_model: 'x',
  kind: 'chat',
  eu_hosted: true,
  cost_eur_per_1k_input: '1',
  cost_eur_per_1k_output: '2',
};

t.test('commands: given, changed, taken away with none, and left as they are', async (t) => {
  const made = await tollgate(
    'model',
    'create',
    '--slug',
    'told',
    ...NEW,
    '--cache-read-price',
    '0.10',
    '--json',
  );
  t.match(made.json, { cost_eur_per_1k_cache_read: '0.1', cost_eur_per_1k_cache_write: null });
  t.match(
    (await tollgate('model', 'create', '--slug', 'bare', ...NEW)).out,
    /output price +2 EUR per 1000 tokens\n(?!.*cache)/,
  );
  t.equal((await pricesOf('bare')).now, '1 - - 2');
  const set = (...more: string[]) => tollgate('model', 'set', 'told', ...more);
  t.match(
    (await set('--cache-write-price', '1.25')).out,
    /cache read price +0\.1 EUR .*\n +cache write price +1\.25 EUR /,
  );
  t.equal((await set('--input-price', '3')).code, 0);
  t.equal((await set('--cache-read-price', 'none')).code, 0);
  t.equal((await set('--cache-read-price', '0')).code, 0, '0 is a price');
  t.same((await pricesOf('told')).history, [
    '1 0.1 - 2',
    '1 0.1 1.25 2',
    '3 0.1 1.25 2',
    '3 - 1.25 2',
    '3 0 1.25 2',
  ]);
  for (const wrong of ['-1', 'x', '1,5', '1000000', '0.0000000000001']) {
    t.match(
      await set('--cache-read-price', wrong),
      { code: 64, err: /--cache-read-price must be/ },
      wrong,
    );
  }
  t.match(
    (await tollgate('model', 'list')).out,
    /EUR\/1K IN +EUR\/1K OUT +EUR\/1K CACHE READ +EUR\/1K CACHE WRITE/,
  );
  t.match(
    (await tollgate('model', 'price', 'bare')).out,
    /^FROM +EUR\/1K IN +EUR\/1K OUT +COMPANY/,
  );

  const from = ['--from', '2099-01-01'];
  t.equal((await set('--cache-write-price', 'none', ...from)).code, 0);
  t.equal((await pricesOf('told')).history.at(-1), '3 0 - 2', 'the others are as before');
  t.match((await tollgate('model', 'price', 'told', '--at', '2099-02-01', '--json')).json, [
    { input: '3', output: '2', cache_read: '0', cache_write: null },
  ]);
  t.equal((await tollgate('model', 'withdraw', 'told', ...from)).code, 0);

  const cost = (...more: string[]) =>
    tollgate('model', 'cost', 'told', '--input-price', '0.5', '--output-price', '1', ...more);
  t.match((await cost('--from', '2026-01-01')).out, /EUR per 1000 out +1\n(?!.*cache)/);
  t.match(
    (await cost('--cache-read-price', '0.05', '--from', '2026-01-01')).err,
    /it takes the place of 0\.5 and 1, set by/,
  );
});

t.test(
  'HTTP: members of models, of dated prices, cost prices, own prices, and what a company sees',
  async (t) => {
    const made = await http('POST', '/models', {
      slug: 'http',
      ...HTTP_NEW,
      cost_eur_per_1k_cache_read: '0.1',
    });
    t.match(made, {
      status: 201,
      body: { cost_eur_per_1k_cache_read: '0.1', cost_eur_per_1k_cache_write: null },
    });
    const path = `/models/${made.body.id}`;
    const changed = await http('PATCH', path, {
      cost_eur_per_1k_cache_write: '1.25',
      cost_eur_per_1k_cache_read: null,
    });
    t.match(changed.body, {
      cost_eur_per_1k_cache_read: null,
      cost_eur_per_1k_cache_write: '1.25',
      cost_eur_per_1k_input: '1',
    });
    t.equal((await http('PATCH', path, { cost_eur_per_1k_input: null })).status, 400);
    const dated = { valid_from: '2099-01-01', cache_read: '0.2' };
    t.match(await http('POST', `${path}/prices`, dated), {
      status: 201,
      body: { input: '1', cache_read: '0.2', cache_write: '1.25' },
    });
    t.match((await http('POST', `${path}/prices`, { ...dated, cache_write: null })).body, {
      cache_read: '0.2',
      cache_write: null,
    });
    const asked = await http('GET', `${path}/prices/on?at=2099-01-02`);
    t.match(asked.body.data, [{ input: '1', output: '2', cache_read: '0.2', cache_write: null }]);
    const cost = { valid_from: '2026-01-01', input: '0.5', output: '1' };
    t.match((await http('POST', `${path}/cost-prices`, cost)).body, {
      cache_read: null,
      cache_write: null,
    });
    t.match((await http('POST', `${path}/cost-prices`, { ...cost, cache_read: '0.05' })).body, {
      cache_read: '0.05',
    });

    const { body: listed } = await http('GET', `/companies/${company}/models?limit=200`);
    const shown = listed.data.find(({ slug }: { slug: string }) => slug === 'http');
    t.match(shown, {
      cost_eur_per_1k_cache_write: '1.25',
      coming: [{ input: '1', output: '2', cache_read: '0.2', cache_write: null }],
    });

    const prices = { cost_eur_per_1k_input: '0.9', cost_eur_per_1k_output: '1.9' };
    const own = [
      { slug: 'http', ...prices },
      {
        slug: 'told',
        ...prices,
        cost_eur_per_1k_cache_read: '0.09',
        cost_eur_per_1k_cache_write: null,
      },
    ];
    const onboarded = await http('POST', '/companies/onboard', { name: 'Own', own_prices: own });
    t.equal(onboarded.status, 201);
    t.equal(
      (await pricesOf('http', onboarded.body.id)).now,
      '0.9 - 1.25 1.9',
      'one that is left out is that of all',
    );
    t.equal((await pricesOf('told', onboarded.body.id)).now, '0.9 0.09 - 1.9');
    const owner = ['--owner-email', 'ada@own.example', '--json'];
    const command = await tollgate(
      'company',
      'onboard',
      '--name',
      'Own too',
      '--own-price',
      'told=1,2,0.3,none',
      ...owner,
    );
    t.equal((await pricesOf('told', command.json.id ?? command.json.company.id)).now, '1 0.3 - 2');
  },
);

t.test('a file of apply, its export, and a CSV', async (t) => {
  const file = (more: string) =>
    fromFile('wanted.yml', `models:\n  - slug: told\n${more}`, 'apply');
  t.equal(
    (await file('    cost_eur_per_1k_cache_read: "0.4"\n    cost_eur_per_1k_cache_write: null\n'))
      .code,
    0,
  );
  t.equal((await pricesOf('told')).now, '3 0.4 - 2');
  t.match(await file('    cost_eur_per_1k_cache_read: "0.40"\n'), {
    code: 0,
    out: 'Nothing to change.\n',
  });
  const dated =
    '    prices: [{ valid_from: 2099-01-01, input: "3", output: "2", cache_read: null }]\n';
  t.match((await file(dated)).out, /price from 2099-01-01: none -> 3 and 2/);
  t.equal((await pricesOf('told')).history.at(-1), '3 - - 2');
  t.match(await file(dated), { out: 'Nothing to change.\n' });
  const costs = '    cost_prices: [{ valid_from: 2026-01-01, input: "0.6", output: "1" }]\n';
  t.match(
    (await file(costs)).out,
    /cost price from 2026-01-01: 0\.5 and 1, cache read 0\.05 -> 0\.6 and 1/,
  );
  const [kept] =
    await sql`select trim_scale(cache_read)::text as read from model_cost_prices where slug = 'told'`;
  t.equal(kept?.read, '0.05', 'what a file leaves out stays as it is');

  const { out } = await tollgate('export-config');
  t.match(out, /slug: told\n(?: +.*\n)*? +cost_eur_per_1k_cache_read: "0\.4"\n/);
  t.match(
    out,
    /valid_from: 2099-01-01T00:00:00\.000Z\n +input: "3"\n +output: "2"\n +cache_read: null\n/,
  );
  t.notMatch(
    /slug: bare\n(?: {4,}.*\n)*/.exec(out)?.[0],
    /cache/,
    'nothing of it where there is none',
  );
  t.match(await fromFile('again.yml', out, 'apply'), { code: 0, out: /Nothing to change/ });
});

t.test(
  'pages: empty is the input price, in both units, and a table has the columns where a model has the price',
  async (t) => {
    const { id } = await pricesOf('bare');
    const fields = {
      upstream: 'internal/x',
      kind: 'chat',
      eu_hosted: 'true',
      input: '1',
      output: '2',
      unit: '1k',
    };
    const saved = async (more: object) =>
      (await operator.post(`/models/${id}`, { ...fields, ...more })).status;
    t.equal(await saved({ cache_read: '', cache_write: '' }), 303);
    t.equal((await pricesOf('bare')).now, '1 - - 2');
    t.equal(
      await saved({
        cache_read: '100',
        cache_write: '1250',
        input: '1000',
        output: '2000',
        unit: '1M',
      }),
      303,
    );
    t.equal((await pricesOf('bare')).now, '1 0.1 1.25 2');
    const wrong = await operator.post(`/models/${id}`, { ...fields, cache_read: 'x' });
    t.match(
      [wrong.status, wrong.text],
      [422, /EUR per 1000 cache read tokens must be EUR per 1000 tokens/],
    );
    for (const list of ['/models', `/companies/${company}/models`])
      t.match((await operator.get(list)).text, /<th[^>]*>Cache read</, list);
    const priced = {
      from: '2099-03-01',
      next_input: '1',
      next_output: '2',
      next_cache_read: '',
      next_cache_write: '3',
      unit: '1k',
    };
    t.equal((await operator.post(`/models/${id}/prices`, priced)).status, 303);
    t.equal((await pricesOf('bare')).history.at(-1), '1 - 3 2');
    const asked = await operator.post(`/models/${id}/prices`, {
      ...priced,
      next_cache_read: '0.2',
    });
    t.match(
      [asked.status, asked.text],
      [409, /it is <strong>€1\.00 and €2\.00, cache write €3\.00<\/strong>.*cache read €0\.20/],
    );
  },
);

t.test(
  'reports: more of it cached is a part of a change, and parts are lines of a statement',
  async (t) => {
    const made = await http('POST', '/models', {
      slug: 'turns',
      ...HTTP_NEW,
      cost_eur_per_1k_cache_read: '0.1',
    });
    t.equal(made.status, 201);
    const turn = (day: string, cached: number) => ({
      company,
      month: `${day.slice(0, 7)}-01`,
      model: 'turns',
      prompt: 10_000,
      completion: 100,
      cached,
      input: '1',
      output: '2',
      cacheRead: '0.1',
      at: `${day}T12:00:00Z`,
    });
    await addUsage(sql as never, [turn('2026-09-05', 1000), turn('2026-09-06', 9000)]);
    const days = 'from=2026-09-06&to=2026-09-06&before_from=2026-09-05&before_to=2026-09-05';
    const parts = {
      more_cached_eur: '-7.2',
      longer_calls_eur: '0',
      changed_prices_eur: '0',
      difference_eur: '-7.2',
    };
    t.match((await http('GET', `/companies/${company}/usage/change?${days}`)).body, {
      total: parts,
    });
    t.match((await http('GET', `/usage/change?${days}`)).body, { total: parts });
    const command = ['--company', company, '--from', '2026-09-06', '--to', '2026-09-06'];
    t.match((await tollgate('usage', 'change', ...command)).out, /EUR more cached +-7\.2\n/);
    const key = (
      await sql`select api_key_id as id from api_usage where model_slug = 'turns' limit 1`
    )[0]?.id;
    const ofKey = await http('GET', `/companies/${company}/usage/change?${days}&key=${key}`);
    t.match(ofKey.body, { total: { changed_prices_eur: '0' } }, 'of a single key too');
    t.match(
      (await operator.get(`/companies/${company}/usage?${days}&compare=1`)).text,
      /More of it cached/,
    );

    const closed = await tollgate('statement', 'close', '--company', company, '--month', '2026-09');
    t.match(
      closed.out,
      /turns +2 +20000 +200 +11\.4\n +input +10000 +0 +10\n +cache read +10000 +0 +1\n +output +0 +200 +0\.4\n/,
    );
    const csv = await tollgate('statement', '--company', company, '--month', '2026-09', '--csv');
    t.match(csv.out, /^statement,kind,month,model,key,key_name,cost_center,part,requests,/);
    t.match(csv.out, /,cache_read,0,9000,0,0\.9\n/);
    const page = await operator.get(`/companies/${company}/statements/month?month=2026-09`);
    t.match(page.text, /cache read/);
    const exported = await tollgate(
      'ledger',
      'export',
      '--company',
      company,
      '--month',
      '2026-09',
      '--csv',
    );
    t.match(
      exported.out,
      /,price_cache_read,price_cache_write,cost_input,cost_cache_read,cost_cache_write,cost_output\n/,
    );
    t.match(exported.out, /,0\.1,,1,0\.9,0,0\.2\n/);
  },
);
