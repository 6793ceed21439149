import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { newToken, send } from '../admin/api/tokens.ts';
import { signedIn, startOffice } from '../admin/people.ts';
import { tollgate as run } from '../support/cli.ts';
import { addUsage } from '../support/usage.ts';

/** The factor of a company on its prices, at all faces; its owners see what they pay, and not the factor. */

const office = await startOffice(t);
const { sql, databaseUrl } = office;
const operator = await signedIn(office, 'operator');
const token = await newToken(office);
const folder = t.testdir({});
const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: databaseUrl } });
const http = (method: string, path: string, body?: object, by = token) =>
  send(office, by, [method, path], body);

const [{ last }] = await sql<[{ last: string }]>`
  select (billing_month(now()) - interval '1 month')::date::text as last`;
await sql`insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output, cost_eur_per_1k_cache_read)
  values ('factored', 'internal-factored', 'chat', true, 0.002, 0.008, 0.0002)`;

/** A company whose calls of the last month cost 2 EUR. */
async function newCompany(name: string): Promise<string> {
  const [{ id }] = await sql<
    [{ id: string }]
  >`insert into companies (name) values (${name}) returning id`;
  await addUsage(sql as never, [
    { company: id, month: last, model: 'factored', prompt: 1_000_000, input: '0.002' },
  ]);
  return id;
}
const factorOf = async (id: string) =>
  (await sql`select trim_scale(price_factor)::text as factor from companies where id = ${id}`)[0]
    ?.factor;
const coming = async (id: string) =>
  (
    await sql`select concat_ws(' ', utc_text(valid_from), trim_scale(factor)) as text
      from company_price_factors where company_id = ${id} and not applied order by valid_from`
  ).map(({ text }) => text as string);

t.test('commands: set, from a date, shown, tried, withdrawn', async (t) => {
  const id = await newCompany('By command');
  t.match(await tollgate('company', 'factor', id), { code: 0, out: /always 1/ });
  t.match(await tollgate('company', 'factor', id, '--with', '0.9', '--json'), {
    json: { month: last.slice(0, 7), cost_eur: '2', would_eur: '1.8' },
  });
  t.equal(await factorOf(id), '1', 'nothing is changed');
  const set = await tollgate('company', 'set', id, '--price-factor', '0.90');
  t.match(set, { code: 0, out: /price factor +0\.9\n/ });
  t.match(
    set.err,
    /the API calls of \d{4}-\d\d cost 2 EUR; with the price factor 0\.90 they would have cost 1\.8 EUR/,
  );
  t.equal(
    (await tollgate('company', 'set', id, '--price-factor', '0.9')).err,
    '',
    'it is so already',
  );
  t.match((await tollgate('company', 'list')).out, /PRICE FACTOR/);
  for (const wrong of ['0', '0.000', '-1', 'x', '1,5', '1000.1', '0.0000001', '1e2', 'none']) {
    t.match(
      await tollgate('company', 'set', id, '--price-factor', wrong),
      { code: 64, err: /--price-factor must be/ },
      wrong,
    );
  }
  const from = ['--from', '2099-01-01'];
  t.match(await tollgate('company', 'set', id, '--price-factor', '0.8', ...from), {
    code: 0,
    out: /begins at its date/,
    err: /1\.6 EUR/,
  });
  t.match(
    (await tollgate('company', 'set', id, '--price-factor', '0.7', ...from)).err,
    /it takes the place of 0\.8, set by the command line; .*1\.4 EUR/,
  );
  t.same(await coming(id), ['2099-01-01T00:00:00.000Z 0.7']);
  for (const wrong of [
    ['--budget', '5', '--price-factor', '1'],
    ['--budget', '5'],
    ['--disable-model', 'factored', '--price-factor', '1'],
  ])
    t.match(await tollgate('company', 'set', id, ...wrong, ...from), {
      code: 64,
      err: /only --price-factor can begin at a date/,
    });
  t.match(await tollgate('company', 'set', id, '--price-factor', '1', '--from', '2020-01-01'), {
    code: 1,
    err: /five seconds from now or later/,
  });
  t.match(
    (await tollgate('company', 'factor', id)).out,
    /^FROM +FACTOR +STATE +BY\n2099-01-01.* 0\.7 +to come +the command line\n.* 0\.9 +begun/,
  );
  t.equal((await tollgate('company', 'withdraw', id, ...from)).code, 0);
  t.match(await tollgate('company', 'withdraw', id, ...from), {
    code: 1,
    err: /no such price factor to come/,
  });
  t.same(await coming(id), []);
  const answer = await tollgate(
    'model',
    'price',
    'factored',
    '--company',
    id,
    '--at',
    '2098-01-01',
    '--json',
  );
  t.match(answer.json, [
    { input: '0.0018', output: '0.0072', cache_read: '0.00018', cache_write: null, factor: '0.9' },
  ]);
  t.match(
    (await tollgate('model', 'price', 'factored', '--company', id, '--at', '2098-01-01')).out,
    /FACTOR .*\n.* 0\.0018 .* 0\.9 /,
  );
  const plain = await tollgate('model', 'price', 'factored', '--at', '2098-01-01');
  t.notMatch(plain.out, /FACTOR/);
  const made = await tollgate(
    'company',
    'create',
    '--name',
    'With a factor',
    '--price-factor',
    '1.25',
    '--json',
  );
  t.match(made.json, { price_factor: '1.25' });
});

t.test(
  'HTTP: a member of a company, dated factors, and what the last month would have cost',
  async (t) => {
    const id = await newCompany('By HTTP');
    const path = `/companies/${id}`;
    t.match(await http('GET', path), { status: 200, body: { price_factor: '1' } });
    t.match(await http('GET', `${path}/price-factors/preview?factor=1.5`), {
      body: { month: last.slice(0, 7), cost_eur: '2', would_eur: '3' },
    });
    t.match(await http('PATCH', path, { price_factor: '1.5' }), {
      status: 200,
      body: { price_factor: '1.5' },
    });
    for (const wrong of ['0', '0.0', '1000.1', 1.5, null, '0.1234567'])
      t.equal((await http('PATCH', path, { price_factor: wrong })).status, 400, String(wrong));
    const added = await http('POST', `${path}/price-factors`, {
      valid_from: '2099-01-01',
      factor: '2',
    });
    t.match(added, {
      status: 201,
      body: {
        factor: '2',
        valid_from: '2099-01-01T00:00:00.000Z',
        begun: false,
        changed_by: 'token deploy',
      },
    });
    const listed = await http('GET', `${path}/price-factors`);
    t.match(listed.body, {
      data: [{ factor: '2' }, { factor: '1.5', begun: true }],
      next_cursor: null,
    });
    t.match(
      (await http('GET', `${path}/price-factors/preview?factor=1`)).body,
      { cost_eur: '2', would_eur: '2' },
      'the last month had none',
    );
    t.equal(
      (await http('POST', `${path}/price-factors`, { valid_from: '2020-01-01', factor: '2' }))
        .status,
      409,
    );
    t.equal(
      (await http('DELETE', `${path}/price-factors/${listed.body.data[1].id}`)).status,
      409,
      'it has begun',
    );
    t.equal((await http('DELETE', `${path}/price-factors/${added.body.id}`)).status, 204);
    t.equal((await http('DELETE', `${path}/price-factors/${added.body.id}`)).status, 404);
    const [{ id: model }] = await sql<
      [{ id: string }]
    >`select id from models where slug = 'factored'`;
    const asked = await http('GET', `/models/${model}/prices/on?at=2098-01-01&company_id=${id}`);
    t.match(asked.body.data, [{ input: '0.003', factor: '1.5' }]);
    t.match(await http('PATCH', `/models/${model}`, { cost_eur_per_1k_input: '0.000000000001' }), {
      status: 409,
      body: { detail: /A price of factored would have more than 12 decimals/ },
    });
    t.match(await http('PATCH', path, { price_factor: '1.123456' }), { status: 200 });
    t.equal(
      (await http('POST', '/companies', { name: 'New', price_factor: '0.95' })).body.price_factor,
      '0.95',
    );
    t.equal(
      (await http('POST', '/companies/onboard', { name: 'Onboarded', price_factor: '0.85' })).body
        .company?.price_factor ??
        (
          await sql`select trim_scale(price_factor)::text as f from companies where name = 'Onboarded'`
        )[0]?.f,
      '0.85',
    );
  },
);

t.test(
  'a factor within the last month: each part of it is told by the factor that held',
  async (t) => {
    const id = await newCompany('Twice');
    await sql.begin(async (sql) => {
      await sql`update companies set price_factor = 0.5 where id = ${id}`;
      await sql`set local session_replication_role = replica`;
      await sql`update company_price_factors set valid_from = ${last}::date + interval '20 days' where company_id = ${id}`;
    });
    const late = { company: id, month: last, model: 'factored', prompt: 1_000_000, input: '0.001' };
    await addUsage(sql as never, [{ ...late, at: `${last.slice(0, 7)}-25T12:00:00Z` }]);
    t.match((await http('GET', `/companies/${id}/price-factors/preview?factor=3`)).body, {
      cost_eur: '3',
      would_eur: '12',
    });
  },
);

t.test('a file of apply, and its export', async (t) => {
  const id = await newCompany('By file');
  const apply = (text: string) => {
    const path = join(folder, 'wanted.yml');
    writeFileSync(path, text);
    return tollgate('apply', path);
  };
  const file = (factor: string) => `companies:\n  - name: By file\n    price_factor: "${factor}"\n`;
  const done = await apply(file('0.90'));
  t.match(done.out, /price_factor: 1 -> 0\.90/);
  t.equal(await factorOf(id), '0.9');
  t.match(await apply(file('0.9')), { code: 0, out: 'Nothing to change.\n' });
  t.match(
    (await tollgate('export-config')).out,
    /name: By file\n(?: +.*\n)*? +price_factor: "0\.9"\n/,
  );
  t.equal((await apply(file('0'))).code, 1);
  const dated = (list: string) => `${file('0.9')}    price_factors: [${list}]\n`;
  const first = '{ valid_from: 2099-01-01, factor: "0.80" }';
  t.match(
    (await apply(dated(`${first}, { valid_from: 2099-06-01T12:00:00Z, factor: "0.7" }`))).out,
    /~ company By file\n {4}price factor from 2099-01-01: none -> 0\.80\n {4}price factor from 2099-06-01T12:00:00Z: none -> 0\.7\n/,
  );
  t.same(await coming(id), ['2099-01-01T00:00:00.000Z 0.8', '2099-06-01T12:00:00.000Z 0.7']);
  t.match(
    await apply(dated(first)),
    { out: 'Nothing to change.\n' },
    'what a file does not name stays',
  );
  const { out: exported } = await tollgate('export-config');
  t.match(
    exported,
    /price_factors:\n +- valid_from: 2099-01-01T00:00:00\.000Z\n +factor: "0\.8"\n/,
  );
  t.match(await apply(exported), { code: 0, out: /Nothing to change/ });
  t.match(
    (await apply(dated('{ valid_from: 2099-01-01, absent: true }'))).out,
    /price factor from 2099-01-01: 0\.8 -> none/,
  );
  t.same(await coming(id), ['2099-06-01T12:00:00.000Z 0.7']);
  const refused = async (list: string) => (await apply(dated(list))).err;
  const twice = await refused(`${first}, { valid_from: 2099-01-01T00:00:00Z, factor: "1" }`);
  t.match(
    twice,
    /:4:\d\d: companies\[0\]\.price_factors\[1\] names "2099-01-01T00:00:00Z" a second time/,
  );
  t.match(
    await refused('{ valid_from: 2099-01-01 }'),
    /:4:\d\d: companies\[0\]\.price_factors\[0\] needs factor/,
  );
  const over = await apply(dated('{ valid_from: 2020-01-01, factor: "0.95" }'));
  t.match(over.out, /price_factor: 0\.9 -> 0\.95/, 'a date that is over holds now');
  const fresh =
    'companies:\n  - name: From a file\n    price_factors: [{ valid_from: 2099-01-01, factor: "2" }]\n';
  t.match(
    (await apply(fresh)).out,
    /\+ company From a file\n(?: {4}.*\n)* {4}price factor from 2099-01-01: none -> 2\n/,
  );
});

t.test(
  'pages: the operator is asked before it is saved, sees both prices, and withdraws',
  async (t) => {
    const id = await newCompany('By page');
    const path = `/companies/${id}`;
    const post = (fields: object) => operator.post(`${path}/price-factor`, { from: '', ...fields });
    t.match((await operator.get(`${path}/settings`)).text, /<h2>Price factor<\/h2>/);
    const asked = await post({ price_factor: '0.9' });
    t.match(
      [asked.status, asked.text],
      [409, /What the company would have paid[\s\S]*2\.00[\s\S]*1\.80/],
    );
    t.equal(await factorOf(id), '1');
    const answer = /name="confirmed" value="([^"]+)"/.exec(asked.text)?.[1] as string;
    t.equal((await post({ price_factor: '0.9', confirmed: answer })).status, 303);
    t.equal(await factorOf(id), '0.9');
    const wrong = await post({ price_factor: '0' });
    t.match(
      [wrong.status, wrong.text],
      [422, /Factor must be a number above 0|must be a number above 0/],
    );
    const dated = await post({ price_factor: '0.8', from: '2099-01-01' });
    t.equal(dated.status, 409);
    const confirmed = /name="confirmed" value="([^"]+)"/.exec(dated.text)?.[1] as string;
    t.equal((await post({ price_factor: '0.8', from: '2099-01-01', confirmed })).status, 303);
    const settings = (await operator.get(`${path}/settings`)).text;
    t.match(settings, /History of the price factor[\s\S]*to come[\s\S]*0\.8/);
    const models = (await operator.get(`${path}/models`)).text;
    t.match(models, /€1\.80<small class="muted coming">list price €2\.00/, 'per 1,000,000 tokens');
    t.match(models, /from [\s\S]*2099[\s\S]*1\.60/);
    const withdraw = /action="([^"]+\/withdraw)"/.exec(settings)?.[1] as string;
    t.equal((await operator.post(withdraw, {})).status, 303);
    t.same(await coming(id), []);
    const created = await operator.get('/companies/new');
    t.match(created.text, /name="price_factor"/);
  },
);

t.test('owners see what they pay, and nowhere the factor', async (t) => {
  const { company } = office.customer;
  await sql`update companies set price_factor = 0.75 where id = ${company}`;
  await sql`insert into company_price_factors (company_id, valid_from, factor) values (${company}, '2099-01-01', 0.625)`;
  const owner = await signedIn(office, 'owner');
  const theirs = await newToken(office, { company_id: company });
  const own = `/companies/${company}`;
  const models = (await owner.get(`${own}/models?search=factored`)).text;
  t.match(models, /1\.50/);
  t.notMatch(models, /list price|2\.00/);
  t.match((await http('GET', own, undefined, theirs)).body, { price_factor: null });
  const { body } = await http('GET', `${own}/models?limit=200`, undefined, theirs);
  t.match(
    body.data.find(({ slug }: { slug: string }) => slug === 'factored'),
    {
      cost_eur_per_1k_input: '0.0015',
      cost_eur_per_1k_output: '0.006',
      cost_eur_per_1k_cache_read: '0.00015',
      cost_eur_per_1k_cache_write: null,
      coming: [{ input: '0.00125', output: '0.005', cache_read: '0.000125', cache_write: null }],
    },
  );
  t.match(await http('PATCH', own, { price_factor: '0.1' }, theirs), {
    status: 403,
    body: { errors: [{ pointer: '#/price_factor' }] },
  });
  for (const path of ['', '/preview?factor=1'])
    t.equal((await http('GET', `${own}/price-factors${path}`, undefined, theirs)).status, 403);
  t.equal((await owner.post(`${own}/price-factor`, { price_factor: '0.1', from: '' })).status, 403);
  for (const path of ['settings', 'audit', 'models', 'usage', 'kept', 'statements']) {
    const { text } = await owner.get(`${own}/${path}`);
    t.notMatch(
      text.replaceAll(/<select[\s\S]*?<\/select>/g, ''),
      /price.?factor|0[.,]75\b|0[.,]625/i,
      path,
    );
  }
  t.notMatch(
    JSON.stringify((await http('GET', `${own}/audit?limit=200`, undefined, theirs)).body),
    /price_factor|0\.75|0\.625/,
  );
  const found = await http('GET', `${own}/audit?search=factor`, undefined, theirs);
  if (found.status === 200) t.same(found.body.data, []);
  await addUsage(sql as never, [
    { company, month: last, model: 'factored', prompt: 1000, input: '0.0015' },
  ]);
  await sql.begin(async (sql) => {
    await sql`set local session_replication_role = replica`;
    await sql`update company_price_factors set valid_from = ${last} where company_id = ${company} and applied`;
  });
  const days = `from=${last}&to=${last.slice(0, 7)}-28&before_from=2026-01-01&before_to=2026-01-28`;
  t.equal((await http('GET', `${own}/usage/change?${days}`, undefined, theirs)).status, 200);
  const focus = `month=${last.slice(0, 7)}`;
  const file = (await http('GET', `${own}/focus?${focus}`, undefined, theirs)).body as string;
  t.match(file, /0\.0015/);
  t.notMatch(file, /0\.002\b/, 'the list price would tell the factor');
  t.notMatch((await owner.get(`${own}/statements/month/focus.csv?${focus}`)).text, /0\.002\b/);
  t.match((await http('GET', `${own}/focus?${focus}`)).body, /0\.002\b/, 'the operator has it');
  const log = await sql`select action, subject, before, after, company_id from audit_log
    where subject = 'company_price_factors' and after ->> 'of_company' = ${company} order by id`;
  t.match(log, [{ action: 'insert', company_id: null, after: { factor: 0.625 } }]);
  t.match((await operator.get('/audit')).text, /price factor/);
});
