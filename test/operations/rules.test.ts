import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { companyMistake } from '../../src/domain/user.ts';
import { aboveCeilings } from '../../src/operations/company.ts';
import { unknownModels } from '../../src/operations/model.ts';
import { takesPlace } from '../../src/operations/price.ts';
import type { CompanyRow } from '../../src/store/company/company.ts';
import { newToken, send } from '../admin/api/tokens.ts';
import { signedIn, startOffice } from '../admin/people.ts';
import { tollgate as run } from '../support/cli.ts';
import { addUsage } from '../support/usage.ts';
import { CHAT, EMBED } from '../support/world.ts';

/** Rules that are decided once, and how each of the four faces shows them: page, command, file and HTTP. */

const office = await startOffice(t);
const { sql, databaseUrl } = office;
const { company } = office.customer;
const owner = await signedIn(office, 'owner');
const token = await newToken(office);
const base = `/companies/${company}`;
const path = join(t.testdir({}), 'wanted.yml');
const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: databaseUrl } });

async function apply(entry: string) {
  writeFileSync(path, `companies:\n  - name: Nordlicht Verlag\n${entry}`);
  return tollgate('apply', path);
}

const KEY = { name: 'Website', scopes: ['chat'] };
const detail = (slug: string) => `must be one of the company’s models, not "${slug}"`;

t.test('a slug names a model of its company, but for those that were there before', async (t) => {
  const check = (
    ...asked: [string, Parameters<typeof unknownModels>[3], Parameters<typeof unknownModels>[4]?]
  ) => sql.begin((sql) => unknownModels(sql as never, company, ...asked));
  const wrong = (slug: string, pointer: string) => ({ slug, pointer, detail: detail(slug) });
  const list = 'allowed_model_slugs';
  t.match(await check(list, [CHAT, 'tpyo', EMBED, 'gone', 'tpyo'], ['gone']), [
    wrong('tpyo', `#/${list}/1`),
  ]);
  t.match(await check(list, ['b', 'a']), [wrong('a', `#/${list}/1`), wrong('b', `#/${list}/0`)]);
  t.match(await check('model_slug', 'tpyo', 'gone'), [wrong('tpyo', '#/model_slug')]);
  for (const wanted of [null, undefined, [], CHAT, [CHAT], 'gone', ['gone']])
    t.match(await check(list, wanted, 'gone'), []);
  const { company: other } = await office.newCustomer();
  await office.model('theirs', { upstream: 'x', company: other });
  t.match(
    await check(list, ['theirs']),
    [wrong('theirs', `#/${list}/0`)],
    'a model of another company is none',
  );
});

t.test(
  'models of a key: a page, a file and HTTP refuse an unknown one, a command warns',
  async (t) => {
    const models = (slug: string) => ({ allowed_model_slugs: [CHAT, slug] });
    const refused = (slug: string) => ({
      status: 409,
      body: { errors: [{ pointer: '#/allowed_model_slugs/1', detail: detail(slug) }] },
    });
    t.match(
      await send(office, token, ['POST', `${base}/keys`], { ...KEY, ...models('tpyo') }),
      refused('tpyo'),
    );
    const { body: key } = await send(office, token, ['POST', `${base}/keys`], KEY);
    const patch = (body: object) => send(office, token, ['PATCH', `${base}/keys/${key.id}`], body);
    t.match(await patch(models('tpyo')), refused('tpyo'));
    await sql`update api_keys set allowed_model_slugs = ${['gone']} where id = ${key.id}`;
    t.match(
      await patch(models('gone')),
      { status: 200, body: models('gone') },
      'its model may have been removed',
    );
    const edit = (...model: string[]) =>
      owner.post(`${base}/keys/${key.id}`, { name: 'x', scope: 'chat', model });
    const page = await edit(CHAT, 'gone', 'tpyo');
    t.equal(page.status, 422);
    t.match(page.text.replaceAll('&quot;', '"'), `Models ${detail('tpyo')}.`);
    t.equal((await edit(CHAT, 'gone')).status, 303);
    const file = (slug: string) =>
      apply(`    keys: [{ id: ${key.id}, name: x, allowed_model_slugs: [${slug}, gone] }]\n`);
    const at = 'wanted.yml:3:';
    t.match(
      (await file('tpyo')).err,
      new RegExp(`${at}\\d+: companies\\[0\\]\\.keys\\[0\\]\\.allowed_model_slugs\\[0\\] must`),
    );
    t.equal((await file(CHAT)).code, 0);
    const set = await tollgate('key', 'set', key.id, '--model', 'tpyo', '--model', 'gone');
    t.match(
      set,
      { code: 0, err: /^tollgate: warning: the company has no model tpyo; [^\n]*\n$/ },
      'not of the one there',
    );
  },
);

t.test('the model of an assistant, and those a company disables: likewise', async (t) => {
  const asked = { name: 'Summary', system_prompt: 'x', model_slug: 'tpyo' };
  const pointer = (name: string) => ({
    status: 409,
    body: { errors: [{ pointer: name, detail: detail('tpyo') }] },
  });
  t.match(
    await send(office, token, ['POST', `${base}/assistants`], asked),
    pointer('#/model_slug'),
  );
  const { body: made } = await send(office, token, ['POST', `${base}/assistants`], {
    ...asked,
    model_slug: CHAT,
  });
  const assistant = `${base}/assistants/${made.id}`;
  t.match(
    await send(office, token, ['PATCH', assistant], { model_slug: 'tpyo' }),
    pointer('#/model_slug'),
  );
  await sql`update assistants set model_slug = 'gone' where id = ${made.id}`;
  t.equal((await send(office, token, ['PATCH', assistant], { model_slug: 'gone' })).status, 200);
  const edit = (slug: string) =>
    owner.post(assistant, {
      name: 'x',
      system_prompt: 'x',
      visibility: 'company',
      model_slug: slug,
    });
  const page = await edit('tpyo');
  t.match(
    [page.status, page.text.replaceAll('&quot;', '"')],
    [422, `Default model ${detail('tpyo')}.`],
  );
  t.equal((await edit('gone')).status, 303);
  t.match(
    (await apply('    assistants: [{ name: x, model_slug: tpyo }]\n')).err,
    /assistants\[0\]\.model_slug must be one/,
  );
  t.match(
    (await tollgate('assistant', 'set', made.id, '--model', 'tpyo')).err,
    /warning: the company has no model tpyo;/,
  );

  const again = await tollgate('assistant', 'set', made.id, '--model', 'tpyo', '--name', 'y');
  t.match(again, { code: 0, err: '' }, 'it was there');

  const disable = { disabled_model_slugs: [CHAT, 'tpyo'] };
  t.match(await send(office, token, ['PATCH', base], disable), pointer('#/disabled_model_slugs/1'));
  t.match(
    await send(office, token, ['POST', '/companies'], { name: 'New', ...disable }),
    pointer('#/disabled_model_slugs/1'),
  );
  t.same(await sql`select from companies where name = 'New'`, [], 'it is not created');
  t.match(
    (await apply('    disabled_model_slugs: [tpyo]\n')).err,
    /disabled_model_slugs\[0\] must be one/,
  );
  t.equal((await owner.post(`${base}/models/disable`, { slug: 'tpyo' })).status, 404);
  await sql`update companies set disabled_model_slugs = ${['gone']} where id = ${company}`;
  t.match(
    await tollgate('company', 'set', company, '--disable-model', 'gone'),
    { code: 0, err: '' },
    'it was there',
  );
  t.equal(
    (await send(office, token, ['PATCH', base], { disabled_model_slugs: ['gone'] })).status,
    200,
  );
  await sql`update companies set disabled_model_slugs = '{}' where id = ${company}`;
});

t.test('a setting stays below its ceiling, which the same change may set', async (t) => {
  const row = {
    monthly_budget_eur: '5',
    credit_limit_eur: '10',
    allow_non_eu_models: false,
    eu_locked: true,
  } as CompanyRow;
  const budget = {
    pointer: '#/monthly_budget_eur',
    detail: 'must be at most 10, the credit limit of the company',
  };
  const gate = {
    pointer: '#/allow_non_eu_models',
    detail: 'is locked by the operator of this service',
  };
  t.match(aboveCeilings(row, { monthly_budget_eur: '11', allow_non_eu_models: true }), [
    budget,
    gate,
  ]);
  t.match(aboveCeilings(row, { monthly_budget_eur: '11', credit_limit_eur: '12' }), []);
  t.match(aboveCeilings(row, { allow_non_eu_models: true, eu_locked: false }), []);
  t.match(aboveCeilings(null, { monthly_budget_eur: '11', credit_limit_eur: '10' }), [budget]);
  t.match(aboveCeilings(null, { monthly_budget_eur: '11' }), []);

  await sql`update companies set credit_limit_eur = 10, eu_locked = true, monthly_budget_eur = 5, allow_non_eu_models = false where id = ${company}`;
  const above = { monthly_budget_eur: '11', allow_non_eu_models: true };
  t.match(await send(office, token, ['PATCH', base], above), {
    status: 409,
    body: { errors: [budget, gate] },
  });
  const created = { name: 'Above', monthly_budget_eur: '11', credit_limit_eur: '10' };
  t.match(await send(office, token, ['POST', '/companies'], created), {
    status: 409,
    body: { errors: [budget] },
  });
  const page = await owner.post(`${base}/settings`, { budget: '11' });
  t.match(
    [page.status, page.text],
    [422, 'Monthly budget in EUR must be at most 10, the credit limit of the company.'],
  );
  const file = await apply('    monthly_budget_eur: "11"\n    allow_non_eu_models: true\n');
  t.equal(file.code, 1);
  t.match(file.err, /wanted\.yml:3:\d+: companies\[0\]\.monthly_budget_eur must be at most 10/);
  t.match(file.err, /wanted\.yml:4:\d+: companies\[0\]\.allow_non_eu_models is locked/);
  const command = await tollgate(
    'company',
    'set',
    company,
    '--budget',
    '11',
    '--allow-non-eu',
    'true',
  );
  t.equal(command.code, 0, 'an operator at a terminal is told, and the ceiling holds');
  t.match(command.err, /warning: the budget is above the credit limit: 10 EUR hold\n/);
  t.match(command.err, /warning: the EU gate is locked: models outside the EU stay refused\n/);
  const same = await apply('    monthly_budget_eur: "11"\n    allow_non_eu_models: true\n');
  t.match(
    same,
    { code: 0, out: 'Nothing to change.\n' },
    'what is above it already may stay in the file',
  );
  await sql`update companies set credit_limit_eur = null, eu_locked = false, monthly_budget_eur = null where id = ${company}`;
});

t.test(
  'a budget that is spent already: a page asks and a command warns; a file and HTTP mean it',
  async (t) => {
    const { body: key } = await send(office, token, ['POST', `${base}/keys`], KEY);
    const month = `${new Date().toISOString().slice(0, 7)}-01`;
    await addUsage(office.sql as never, [
      { company, key: key.id, month, prompt: 1000, input: '3' },
    ]);
    const warning = (spent: string) =>
      new RegExp(
        `warning: ${spent} EUR of the budget of 2 EUR are spent this month: calls get 402`,
      );
    t.match((await tollgate('key', 'set', key.id, '--budget', '2')).err, warning('3'));
    t.equal((await tollgate('key', 'set', key.id, '--budget', '2')).err, '', 'it is no new one');
    t.equal((await tollgate('key', 'set', key.id, '--budget', '4')).err, '');
    t.match((await tollgate('company', 'set', company, '--budget', '2')).err, warning('3'));
    t.equal((await owner.post(`${base}/settings`, { budget: '1' })).status, 409, 'it asks');
    t.equal((await send(office, token, ['PATCH', base], { monthly_budget_eur: '1' })).status, 200);
    t.equal((await apply('    monthly_budget_eur: "2"\n')).code, 0);
    await sql`update companies set monthly_budget_eur = null where id = ${company}`;
  },
);

t.test('so is a budget of a day; each is asked for by itself', async (t) => {
  const { company: customer } = await office.newCustomer();
  const operator = await signedIn(office, 'operator');
  const own = `/companies/${customer}`;
  const { body: key } = await send(office, token, ['POST', `${own}/keys`], KEY);
  const now = new Date();
  const month = `${now.toISOString().slice(0, 7)}-01`;
  const used = { company: customer, key: key.id, month, prompt: 1000 };
  const yesterday = new Date(now.getTime() - 86_400_000).toISOString();
  const isFirst = yesterday < month;
  await addUsage(office.sql as never, [
    { ...used, input: '3', at: now.toISOString() },
    ...(isFirst ? [] : [{ ...used, input: '4', at: yesterday }]),
  ]);
  const warning = (budget: string) =>
    new RegExp(`warning: 3 EUR of the budget of ${budget} EUR are spent today: calls get 402`);
  const setKey = (budget: string) => tollgate('key', 'set', key.id, '--daily-budget', budget);
  t.match((await setKey('2')).err, warning('2'));
  t.equal((await setKey('2.0')).err, '', 'it is no new one');
  t.equal((await setKey('3.01')).err, '');
  t.match((await tollgate('company', 'set', customer, '--daily-budget', '3')).err, warning('3'));
  const asked = await operator.post(`${own}/settings`, { budget: '1', daily_budget: '1' });
  t.match(asked, { status: 409, text: /this month/ });
  const again = await operator.post(`${own}/settings`, {
    budget: '1',
    daily_budget: '1',
    confirmed: 'monthly budget 1',
  });
  t.match(again, { status: 409, text: /has spent .*3\.00.* today.*until the day ends/s });
  const confirmed = ['monthly budget 1', 'daily budget 1'];
  t.equal(
    (await operator.post(`${own}/settings`, { budget: '1', daily_budget: '1', confirmed })).status,
    303,
  );
  t.equal((await send(office, token, ['PATCH', own], { daily_budget_eur: '0.5' })).status, 200);
});

t.test('a key works beside the one that takes its place for 30 days at most', async (t) => {
  const made = async () =>
    (await send(office, token, ['POST', `${base}/keys`], KEY)).body.id as string;
  const rotate = async (seconds: number) =>
    (
      await send(office, token, ['POST', `${base}/keys/${await made()}/rotate`], {
        overlap_seconds: seconds,
      })
    ).status;
  t.same([await rotate(30 * 86_400), await rotate(30 * 86_400 + 1)], [201, 400]);
  t.equal((await tollgate('key', 'rotate', await made(), '--overlap', '30d')).code, 0);
  const long = await tollgate('key', 'rotate', await made(), '--overlap', '721h');
  t.match(long, { code: 64, err: /--overlap must be at most 30d/ });
});

t.test(
  'a price that takes the place of another one for the same time, which may be written in another way',
  async (t) => {
    const now = { input: '0.1', output: '2', changed_by: 'ann' };
    t.same(takesPlace(null, now), []);
    t.same(takesPlace(now, { input: '0.100', output: '2.0' }), []);
    for (const mine of [
      { ...now, output: '2.1' },
      { ...now, input: null },
    ])
      t.match(takesPlace(now, mine), [
        { severity: 'ask', passed: 'it takes the place of 0.1 and 2, set by ann' },
      ]);

    const [{ id }] = await sql<
      [{ id: string }]
    >`select id from models where slug = ${CHAT} and company_id is null`;
    const operator = await signedIn(office, 'operator');
    const cost = (output: string) =>
      tollgate(
        'model',
        'cost',
        CHAT,
        '--input-price',
        '0.1',
        '--output-price',
        output,
        '--from',
        '2026-01-01',
      );
    const page = (cost_output: string) =>
      operator.post(`/models/${id}/costs`, {
        since: '2026-01-01',
        cost_input: '0.10',
        cost_output,
      });
    t.equal((await cost('2')).err, '');
    t.equal((await cost('2.0')).err, '', 'the same is no replacement');
    t.equal((await page('2.00')).status, 303, 'nor is it on the page');
    t.equal((await page('3')).status, 409, 'it asks');
    t.match((await cost('3')).err, /warning: it takes the place of 0\.1 and 2, set by olga/);
    t.equal(
      (
        await send(office, token, ['POST', `/models/${id}/cost-prices`], {
          valid_from: '2026-01-01',
          input: '0.1',
          output: '4',
        })
      ).status,
      201,
    );
  },
);

t.test(
  'a list of a key has at most 1000 values, and a text at most 1000 parts that may be keys',
  async (t) => {
    const many = Array.from({ length: 1001 }, (_, n) => `10.${n >> 8}.${n & 255}.0/24`);
    const pointer = { body: { errors: [{ pointer: '#/allowed_cidrs' }] } };
    t.match(await send(office, token, ['POST', `${base}/keys`], { ...KEY, allowed_cidrs: many }), {
      status: 400,
      ...pointer,
    });
    const { body: key } = await send(office, token, ['POST', `${base}/keys`], KEY);
    const edit = { name: 'x', scope: 'chat', cidrs: many.join('\n') };
    t.match(
      (await owner.post(`${base}/keys/${key.id}`, edit)).text,
      'Networks must be at most 1000 lines.',
    );
    t.match(
      (await apply(`    keys: [{ id: ${key.id}, name: x, allowed_cidrs: [${many}] }]\n`)).err,
      /allowed_cidrs must/,
    );
    const set = await tollgate('key', 'set', key.id, ...many.flatMap((cidr) => ['--cidr', cidr]));
    t.match(set, { code: 64, err: /--cidr must be given at most 1000 times/ });

    const text = Array.from(
      { length: 1001 },
      (_, n) =>
        `svc_${String(n)
          .padStart(32, 'a')
          .replaceAll(/\d/g, (digit) => 'bcdefghijk'[+digit] as string)}`,
    ).join(' ');
    const found = await send(office, token, ['POST', '/keys/find'], { text });
    const wrong = 'has more than 1000 parts that may be keys: send less of it';
    t.match(found, { status: 400, body: { errors: [{ pointer: '#/text', detail: wrong }] } });
    t.match((await owner.post(`${base}/keys/find`, { text })).text, `Key or text ${wrong}.`);
  },
);

t.test('an operator has no company, and every other role has one', async (t) => {
  const [surplus, missing] = [
    'must be left out for an operator',
    'must be given for every role but operator',
  ];
  const operator = await signedIn(office, 'operator');
  for (const [role, company_id, detail] of [
    ['operator', company, surplus],
    ['member', null, missing],
  ] as const) {
    t.equal(companyMistake(role, company_id), detail);
    const asked = { email: 'new@customer.example', role };
    const http = await send(office, token, ['POST', '/users'], { ...asked, company_id });
    t.match(http, { status: 400, body: { errors: [{ pointer: '#/company_id', detail }] } });
    const page = await operator.post('/users', { ...asked, company: company_id ?? '' });
    t.match([page.status, page.text], [422, `Company ${detail}.`]);
    const options = [
      '--email',
      asked.email,
      '--role',
      role,
      ...(company_id === null ? [] : ['--company', company_id]),
    ];
    t.match(await tollgate('user', 'create', ...options, '--password-stdin'), {
      code: 64,
      err: `--company ${detail}`,
    });
    const users = `[{ email: ${asked.email}, role: ${role} }]`;
    const file =
      company_id === null
        ? `operators: ${users}\n`
        : `companies:\n  - { name: Nordlicht Verlag, users: ${users} }\n`;
    writeFileSync(path, file);
    t.match(
      (await tollgate('apply', path)).err,
      /users\[0\]\.role must|operators\[0\]\.role must/,
      'a file has places for both',
    );
  }
  t.equal(companyMistake('operator', null), null);
  t.equal(companyMistake('owner', company), null);
});

t.test('an address that few mail servers take is refused by all faces', async (t) => {
  const owner = await signedIn(office, 'owner');
  for (const email of ['ä@ö', 'jörg@x.example', 'a b@x.example']) {
    const invited = { email, role: 'member' };
    t.match(
      await send(office, token, ['POST', `${base}/invitations`], invited),
      { status: 400 },
      email,
    );
    t.equal((await owner.post(`${base}/users`, invited)).status, 422, email);
    t.equal((await owner.post(`${base}/alerts`, { email, percents: '50' })).status, 422, email);
    const argv = ['--email', email, '--company', company, '--role', 'member'];
    t.match(await tollgate('user', 'invite', ...argv), {
      code: 64,
      err: 'must be an address such as ada@example.com',
    });
    writeFileSync(
      path,
      `companies:\n  - { name: Nordlicht Verlag, users: [{ email: "${email}", role: member }] }\n`,
    );
    t.match((await tollgate('apply', path)).err, /users\[0\]\.email must/, email);
  }
  t.same(
    [
      ...(await sql`select email from invitations where company_id = ${company} and email like '%ö%'`),
    ],
    [],
  );
});

t.test(
  'a group makes operators only by the command and the file, which name that role',
  async (t) => {
    const operator = await signedIn(office, 'operator');
    const asked = { name: 'ops', role: 'operator' };
    const http = await send(office, token, ['POST', '/groups'], { ...asked, company_id: company });
    t.match(http, { status: 400, body: { errors: [{ pointer: '#/role' }] } });
    t.equal((await operator.post('/groups', { ...asked, company: '' })).status, 422);
    t.match(
      (await operator.post('/groups', { name: 'staff', role: 'member' })).text,
      'Company must be given.',
    );
    t.same([...(await sql`select from oidc_groups`)], []);
    t.equal((await tollgate('group', 'create', '--name', 'ops', '--role', 'operator')).code, 0);
    writeFileSync(path, 'oidc_groups: [{ name: more ops, role: operator }]');
    t.equal((await tollgate('apply', path)).code, 0);
    const [{ id }] = await sql<[{ id: string }]>`select id from oidc_groups where name = 'ops'`;
    const change = await send(office, token, ['PATCH', `/groups/${id}`], { role: 'owner' });
    t.match(change, {
      status: 409,
      body: { detail: /makes operators\. Remove it, and add it to a company/ },
    });
    t.equal((await operator.post(`/groups/${id}`, { role: 'owner' })).status, 422);
    t.equal((await operator.post(`/groups/${id}/remove`)).status, 303);
  },
);

t.test('what members may do: each face sets it, and refuses the same', async (t) => {
  const stored = async () =>
    (
      await sql`select member_max_keys, member_key_budget_eur, member_playground from companies where id = ${company}`
    )[0];
  const as = (keys: number, budget: string | null, playground: boolean) => ({
    member_max_keys: keys,
    member_key_budget_eur: budget,
    member_playground: playground,
  });
  t.same(await stored(), as(0, null, false));
  t.equal(
    (
      await owner.post(`${base}/members`, {
        member_keys: '1',
        member_budget: '10',
        member_playground: 'true',
      })
    ).status,
    303,
  );
  t.same(await stored(), as(1, '10', true));
  const set = await tollgate(
    'company',
    'set',
    company,
    ...['--member-max-keys', '2', '--member-key-budget', 'none'],
  );
  t.match(set.out, /member max keys +2\n/);
  t.match(set.out, /member playground +yes\n/);
  t.same(await stored(), as(2, null, true));
  t.equal(
    (
      await apply(
        '    member_max_keys: 3\n    member_key_budget_eur: "7.5"\n    member_playground: false\n',
      )
    ).code,
    0,
  );
  t.same(await stored(), as(3, '7.5', false));
  const changed = await send(office, token, ['PATCH', base], as(4, '8', true));
  t.match(changed, { status: 200, body: as(4, '8', true) });
  t.match(await send(office, token, ['GET', base]), { body: as(4, '8', true) });

  for (const [keys, budget] of [
    ['101', '8'],
    ['-1', '8'],
    ['4', '0'],
  ] as const) {
    t.equal(
      (await owner.post(`${base}/members`, { member_keys: keys, member_budget: budget })).status,
      422,
    );
    const options = [`--member-max-keys=${keys}`, '--member-key-budget', budget];
    t.equal((await tollgate('company', 'set', company, ...options)).code, 64, `${keys} ${budget}`);
    t.equal(
      (await apply(`    member_max_keys: ${keys}\n    member_key_budget_eur: "${budget}"\n`)).code,
      1,
    );
    t.equal(
      (await send(office, token, ['PATCH', base], as(Number(keys), budget, true))).status,
      400,
    );
  }
  t.same(await stored(), as(4, '8', true));
  await sql`update companies set member_max_keys = 0, member_key_budget_eur = null, member_playground = false where id = ${company}`;
});

t.test('a key of a person: listed with its person, and left alone by the file', async (t) => {
  const [{ id }] = await sql<
    [{ id: string }]
  >`select id from users where email = ${office.people.member}`;
  const own = { name: 'Website', email: office.people.member };
  const [{ key }] = await sql<[{ key: string }]>`
    insert into api_keys (company_id, name, digest, prefix, scopes, user_id, created_by)
    values (${company}, ${own.name}, sha256('own'), 'svc_own1', '{chat}', ${id}, ${own.email}) returning id as key`;
  const listed = await tollgate('key', 'list', '--company', company);
  t.match(listed.out, new RegExp(`svc_own1 .* ${own.email} +${own.email} `));
  t.match(await send(office, token, ['GET', `${base}/keys/${key}`]), {
    body: { person: own.email, user_id: id },
  });
  t.notMatch((await tollgate('export-config')).out, 'svc_own1');
  const absent = await apply(`    keys: [{ name: ${own.name}, absent: true }]\n`);
  t.notMatch(absent.err, /own/);
  t.same(
    await sql`select revoked_at from api_keys where id = ${key}`,
    [{ revoked_at: null }],
    'a name that a member chose is not meant',
  );
});

t.test(
  'a name is one however its accents are written: by a page, a command, a file and HTTP',
  async (t) => {
    const [name, apart] = ['Zürich AG', 'Zürich AG'.normalize('NFD')];
    t.not(name, apart);
    const named = () => sql<{ id: string }[]>`select id from companies where name = ${name}`;
    const { json } = await tollgate('company', 'create', '--name', apart, '--json');
    t.equal(json.name, name);
    const things = (name: string, temperature: number) => `companies:
  - name: ${name}
    assistants: [{ name: ${`Übersicht ${name}`.normalize(temperature ? 'NFC' : 'NFD')}, system_prompt: x, temperature: ${temperature} }]
`;
    for (const [n, text] of [things(apart, 0), things(name, 1), things(apart, 0)].entries()) {
      writeFileSync(path, text);
      t.match(await tollgate('apply', path), {
        code: 0,
        out: n === 0 ? /^\+ assistant/ : /^~ assistant[^~+]*temperature/,
      });
    }
    t.match(await tollgate('apply', path), { code: 0, out: 'Nothing to change.\n' });
    t.same(await named(), [{ id: json.id }]);
    writeFileSync(path, `companies: [{ name: ${name} }, { name: ${apart} }]`);
    t.match(await tollgate('apply', path), { code: 1, err: /a second time/ });
    t.match(await send(office, token, ['GET', `/companies?name=${encodeURIComponent(apart)}`]), {
      body: { data: [{ id: json.id }] },
    });
    const { body: other } = await send(office, token, ['POST', '/companies'], {
      name: `${apart} 2`,
    });
    t.equal(other.name, `${name} 2`);
    t.match(
      await send(office, token, ['PATCH', `/companies/${other.id}`], { name: `${apart} 3` }),
      {
        body: { name: `${name} 3` },
      },
    );
    const { body: key } = await send(office, token, ['POST', `${base}/keys`], {
      ...KEY,
      name: apart,
    });
    t.equal(key.name, name);
    t.match(await send(office, token, ['GET', `${base}/keys?name=${encodeURIComponent(apart)}`]), {
      body: { data: [{ id: key.id }] },
    });
    t.match(
      await send(office, token, ['PATCH', `${base}/keys/${key.id}`], { name: `${apart} 4` }),
      {
        body: { name: `${name} 4` },
      },
    );
    await sql`update companies set name = ${apart} where id = ${json.id}`; // plain SQL
    writeFileSync(path, `companies: [{ name: ${name}, requests_per_minute: 60 }]`);
    t.match(await tollgate('apply', path), { code: 0 });
    t.same(await named(), [{ id: json.id }]);
    const email = 'u@zürich.example';
    for (const each of [email, email.normalize('NFD')])
      await tollgate('user', 'invite', '--email', each, '--company', json.id, '--role', 'owner');
    t.match(await sql`select email from invitations where company_id = ${json.id}`, [
      { email: 'u@xn--zrich-kva.example' },
    ]);
  },
);
