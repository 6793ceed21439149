import { randomBytes, randomUUID } from 'node:crypto';
import t from 'tap';
import type { Mistake } from '../../src/operations/frame/refused.ts';
import { refuse } from '../../src/operations/frame/refused.ts';
import { type Onboarding, onboardCompany, onboardOnce } from '../../src/operations/onboarding.ts';
import { readOwnPrice } from '../../src/operations/own-price.ts';
import { openDatabase, type Sql } from '../../src/store/connection/pool.ts';
import { newToken, send } from '../admin/api/tokens.ts';
import { signedIn, startOffice, textOf } from '../admin/people.ts';
import { tollgate as run } from '../support/cli.ts';
import { until } from '../support/until.ts';
import { CHAT, customerWith, EMBED, OVERSEAS } from '../support/world.ts';

/** How a customer begins: the rule, and how page, command and HTTP show it. */

const office = await startOffice(t);
const { sql } = office;
const db = openDatabase({ url: office.databaseUrl });
t.teardown(() => db.close());
const token = await newToken(office);
const operator = await signedIn(office, 'operator');
const tollgate = (...argv: string[]) => run(argv, { env: { DATABASE_URL: office.databaseUrl } });

const MAKER = { actor: 'olga@tollgate.example', services: { keyPrefix: 'svc_' }, judge: refuse };
const change = <T>(work: (sql: Sql) => Promise<T>) => db.transaction(60_000, work);
const onboard = (asked: Onboarding) => change((sql) => onboardCompany(sql, MAKER, asked));

let customers = 0;
/** A customer with every part. */
function whole(): Onboarding & { readonly owner: { readonly email: string } } {
  const n = ++customers;
  return {
    name: `Customer ${n}`,
    monthly_budget_eur: '250',
    credit_limit_eur: '500',
    allow_non_eu_models: true,
    requests_per_minute: 600,
    language: 'de',
    disabled_model_slugs: [OVERSEAS],
    own_prices: [{ slug: CHAT, cost_eur_per_1k_input: '0.001', cost_eur_per_1k_output: '0.002' }],
    owner: { email: `Owner${n}@Customer.example` },
    key: { name: 'First', scopes: ['chat'] },
  };
}

/** The rows of a company of this name, by table. */
async function rowsOf(name: string) {
  const [company] = await sql`select * from companies where name = ${name}`;
  const id = company?.id ?? null;
  return {
    company,
    models: [...(await sql`select * from models where company_id = ${id}`)],
    invitations: [...(await sql`select * from invitations where company_id = ${id}`)],
    keys: [...(await sql`select * from api_keys where company_id = ${id}`)],
  };
}

t.test('creates company, models, invitation and key, and they work', async (t) => {
  const asked = whole();
  const { company, invitation, key, already } = await onboard(asked);
  t.equal(already, false);
  t.match(company, {
    name: asked.name,
    monthly_budget_eur: '250',
    credit_limit_eur: '500',
    allow_non_eu_models: true,
    requests_per_minute: 600,
    tokens_per_minute: null,
    language: 'de',
    disabled_model_slugs: [OVERSEAS],
  });
  t.match(invitation, { email: 'owner1@customer.example', role: 'owner', company_id: company.id });
  const { models, keys } = await rowsOf(asked.name);
  const [shared] = await sql`select * from models where slug = ${CHAT} and company_id is null`;
  t.match(models, [
    { slug: CHAT, upstream_model: shared?.upstream_model, kind: 'chat', eu_hosted: true },
  ]);
  t.same(
    [models[0]?.cost_eur_per_1k_input, models[0]?.cost_eur_per_1k_output].map(Number),
    [0.001, 0.002],
  );
  t.match(keys, [{ name: 'First', scopes: ['chat'], created_by: MAKER.actor }]);

  const customer = customerWith(office.url, company.id, key?.key as string);
  t.equal((await customer.chat()).status, 200);
  const { json } = await customer.ask('/models');
  t.same(json.data.map(({ id }: { id: string }) => id).sort(), [CHAT, EMBED].sort());
});

t.test('a name is enough', async (t) => {
  const { invitation, key } = await onboard({ name: 'Bare' });
  t.same([invitation, key], [null, null]);
  const { company, models, invitations, keys } = await rowsOf('Bare');
  t.match(company, {
    monthly_budget_eur: null,
    allow_non_eu_models: false,
    disabled_model_slugs: [],
  });
  t.same([models, invitations, keys], [[], [], []]);
});

t.test('the audit log has each part, in the words of each', async (t) => {
  const asked = whole();
  const answer = await send(office, token, ['POST', '/companies/onboard'], asked);
  const id = answer.body.id as string;
  const log = await sql`select subject, actor from audit_log where company_id = ${id} order by id`;
  t.same([...new Set(log.map(({ actor }) => actor))], ['token deploy']);
  t.same([...new Set(log.map(({ subject }) => subject))].sort(), [
    'api_keys',
    'companies',
    'invitations',
    'models',
  ]);
  const page = textOf(await operator.get(`/audit?q=${encodeURIComponent(asked.name)}`));
  t.match(page, 'token deploy');
});

/** What is wrong with each part, and the field of it at each face. */
const WRONG: readonly [
  change: Partial<Onboarding>,
  mistake: Mistake,
  option: string,
  label: string,
][] = [
  [
    { monthly_budget_eur: '501' },
    {
      pointer: '#/monthly_budget_eur',
      detail: 'must be at most 500, the credit limit of the company',
    },
    '--budget',
    'Monthly budget in EUR',
  ],
  [
    { eu_locked: true },
    { pointer: '#/allow_non_eu_models', detail: 'is locked by the operator of this service' },
    '--allow-non-eu',
    'Allow models hosted outside the EU',
  ],
  [
    { disabled_model_slugs: ['tpyo'] },
    {
      pointer: '#/disabled_model_slugs/0',
      detail: 'must be one of the company’s models, not "tpyo"',
    },
    '--disable-model',
    'Models that it may not use',
  ],
  [
    { owner: { email: 'owen@customer.example' } },
    { pointer: '#/owner/email', detail: 'has an account already: choose another address' },
    '--owner-email',
    'E-mail address of its owner',
  ],
];
const OWN: readonly [Partial<Onboarding>, Mistake][] = [
  [
    { own_prices: [{ slug: 'tpyo', cost_eur_per_1k_input: '1', cost_eur_per_1k_output: '1' }] },
    { pointer: '#/own_prices/0/slug', detail: 'must be one of the company’s models, not "tpyo"' },
  ],
  [
    {
      own_prices: [CHAT, EMBED, CHAT].map((slug) => ({
        slug,
        cost_eur_per_1k_input: '1',
        cost_eur_per_1k_output: '1',
      })),
    },
    { pointer: '#/own_prices/2/slug', detail: `names "${CHAT}" a second time` },
  ],
  [
    { key: { name: 'First', scopes: ['chat'], allowed_model_slugs: [CHAT, 'tpyo'] } },
    {
      pointer: '#/key/allowed_model_slugs/1',
      detail: 'must be one of the company’s models, not "tpyo"',
    },
  ],
  [
    { key: { name: 'First', scopes: ['chat'], expires_at: '2001-01-01T00:00:00Z' } },
    { pointer: '#/key/expires_at', detail: 'must be later than now' },
  ],
];

const NOTHING = { company: undefined, models: [], invitations: [], keys: [] };

t.test('a mistake in any part creates nothing, and names its member', async (t) => {
  for (const [change, mistake] of [...WRONG, ...OWN]) {
    const asked = { ...whole(), ...change };
    const problem = await onboard(asked).catch((error: unknown) => error);
    t.match(problem, { kind: 'conflict', mistakes: [mistake] }, mistake.pointer);
    t.same(await rowsOf(asked.name), NOTHING, mistake.pointer);
    const refused = await send(office, token, ['POST', '/companies/onboard'], asked);
    t.match(refused, { status: 409, body: { errors: [mistake] } });
  }
  const all = { ...whole(), ...Object.assign({}, ...WRONG.map(([change]) => change)) };
  const told = await send(office, token, ['POST', '/companies/onboard'], all);
  t.match(
    told.body.errors,
    WRONG.map(([, mistake]) => mistake),
    'all of them at once',
  );
  t.equal(told.body.errors.length, WRONG.length);
  const form = await send(office, token, ['POST', '/companies/onboard'], {
    name: 'x',
    owner: { email: 'x' },
    key: {},
  });
  t.equal(form.status, 400);
  const pointers = form.body.errors.map(({ pointer }: Mistake) => pointer).sort();
  t.same(pointers, ['#/key/name', '#/key/scopes', '#/owner/email']);
  t.same([...(await sql`select from invitations where email like 'owen%'`)], []);
});

t.test(
  'the same form gets the same company, key and link, and another session gets neither',
  async (t) => {
    const asked = whole();
    const form = {
      id: randomUUID(),
      keyId: randomUUID(),
      claim: { secret: 's'.repeat(43), holder: 'session 1' },
    };
    const once = (claim = form.claim) =>
      change((sql) => onboardOnce(sql, MAKER, asked, { ...form, claim }));
    const both = await Promise.all([once(), once()]);
    const [first, again] = both.toSorted(
      (one, other) => Number(one.already) - Number(other.already),
    );
    t.match(first, {
      already: false,
      company: { id: form.id },
      key: { id: form.keyId, key: /^svc_/ },
    });
    t.equal(again?.already, true);
    t.equal(again?.key?.key, first?.key?.key);
    t.equal(again?.invitation?.token, first?.invitation?.token);
    const stranger = await once({ ...form.claim, holder: 'session 2' });
    t.match(stranger, {
      already: true,
      company: { id: form.id },
      invitation: null,
      key: { id: form.keyId, key: null },
    });
    await sql`update key_reveals set expires_at = now() where key_id = ${form.keyId}`;
    t.equal((await once()).key?.key, null, 'a minute later');
    const { keys, invitations } = await rowsOf(asked.name);
    t.same([keys.length, invitations.length], [1, 1]);
  },
);

t.test('an idempotency key: the same company, and link and key for a minute', async (t) => {
  const headers = { 'idempotency-key': 'customer 4711' };
  const asked = whole();
  const create = () => send(office, token, ['POST', '/companies/onboard'], asked, headers);
  const [first, again] = await Promise.all([create(), create()]);
  t.match(first, {
    status: 201,
    body: { key: { key: /^svc_/ }, invitation: { link: /\/invitation\/[\w-]{43}$/ } },
  });
  t.same(again.body, first.body);
  const [{ stored }] = await sql<[{ stored: string }]>`
    select string_agg(a::text, ' ') as stored from idempotent_answers a`;
  for (const secret of [first.body.key.key, first.body.invitation.link])
    t.notOk(stored.includes(secret), 'not stored');
  await sql`update idempotent_answers set created_at = created_at - interval '61 seconds'`;
  const { key, invitation } = first.body;
  t.same(
    (await create()).body,
    { ...first.body, key: { ...key, key: null }, invitation: { ...invitation, link: null } },
    'after a minute all but their texts',
  );
  const bare = () =>
    send(
      office,
      token,
      ['POST', '/companies/onboard'],
      { name: 'No parts' },
      { 'idempotency-key': 'b' },
    );
  t.match((await bare()).body, { key: null, invitation: null });
  t.match((await bare()).body, { key: null, invitation: null }, 'what was not made has no text');
});

t.test('operators alone', async (t) => {
  const { company } = office.customer;
  const owners = await newToken(office, { company_id: company });
  t.equal((await send(office, owners, ['POST', '/companies/onboard'], { name: 'x' })).status, 403);
  const owner = await signedIn(office, 'owner');
  t.equal((await owner.get('/companies/new')).status, 403);
  t.equal((await owner.post('/companies/new', { name: 'x' })).status, 403);
});

const settings = [
  '--budget',
  '250',
  '--credit-limit',
  '500',
  '--requests-per-minute',
  '600',
  '--allow-non-eu',
];

t.test('the command prints link and key once, and a line for each mistake', async (t) => {
  const options = [
    'company',
    'onboard',
    '--name',
    'By command',
    '--owner-email',
    'Ida@Command.example',
    ...settings,
  ];
  const made = await tollgate(
    ...[...options, '--own-price', `${CHAT}=0.001,0.002`, '--disable-model', OVERSEAS],
    ...['--key-name', 'First', '--key-scope', 'chat', '--json'],
  );
  t.match(made, {
    code: 0,
    err: /warning: the link has the address of this machine/,
    json: {
      id: /^[\da-f-]{36}$/,
      monthly_budget_eur: '250',
      requests_per_minute: 600,
      disabled_model_slugs: [OVERSEAS],
      invitation: { email: 'ida@command.example', role: 'owner', link: /\/invitation\/[\w-]{43}$/ },
      key: { name: 'First', scopes: ['chat'], key: /^svc_/ },
    },
  });
  t.equal(made.out.trimEnd().split('\n').length, 1);
  t.match(await rowsOf('By command'), { models: [{ slug: CHAT }], keys: [{ created_by: 'cli' }] });
  const customer = customerWith(office.url, made.json.id, made.json.key.key);
  t.equal((await customer.chat()).status, 200);

  const text = await tollgate(
    'company',
    'onboard',
    '--name',
    'No key',
    '--owner-email',
    'no@key.example',
  );
  t.match(
    text.out,
    /^Company created\..*\n\n {2}id .*Its owner joins by this link.*\/invitation\//s,
  );
  t.notMatch(text.out, 'first key');
  const twice = await tollgate(
    ...options,
    '--eu-locked',
    '--budget=501',
    '--disable-model',
    'tpyo',
  );
  t.match(twice, { code: 64, err: /--budget is given twice/ });

  for (const [change, mistake, option] of WRONG) {
    const {
      monthly_budget_eur: eur = '250',
      eu_locked,
      disabled_model_slugs: [slug] = [],
      owner,
    } = change;
    const wrong = await tollgate(
      ...[
        'company',
        'onboard',
        '--name',
        'Refused',
        '--budget',
        eur as string,
        '--credit-limit',
        '500',
        '--allow-non-eu',
      ],
      ...['--owner-email', owner?.email ?? 'new@command.example', '--key-name', 'x'],
      ...[
        ...(eu_locked ? ['--eu-locked'] : []),
        ...(slug === undefined ? [] : ['--disable-model', slug]),
      ],
    );
    t.match(wrong, { code: 1, out: '', err: `tollgate: ${option} ${mistake.detail}\n` });
  }
  t.same(await rowsOf('Refused'), NOTHING);
  const asked = ['company', 'onboard', '--name', 'Refused', '--owner-email', 'new@command.example'];
  t.match(await tollgate(...asked, '--key-scope', 'chat'), {
    code: 64,
    err: /--key-scope needs --key-name/,
  });
  t.match(await tollgate(...asked, '--own-price', 'fast=1'), {
    code: 64,
    err: /--own-price must be SLUG=INPUT,OUTPUT/,
  });
  t.match(await tollgate(...asked, '--own-price', 'tpyo=1,2'), {
    code: 1,
    err: /--own-price must be one of/,
  });
});

t.test('own prices are written as a slug and two prices', async (t) => {
  const prices = { cost_eur_per_1k_input: '0.002', cost_eur_per_1k_output: '8' };
  t.same(readOwnPrice('openai/gpt-4:x@1=0.002,8'), { slug: 'openai/gpt-4:x@1', ...prices });
  for (const text of [
    'fast',
    'fast=1',
    'fast=1,2,3',
    'fast=1,2,3,x',
    'fast=1,2,3,4,5',
    'fast=none,2,3,4',
    '=1,2',
    'fast=1,-2',
    'fast =1,2',
    'fast=,2',
  ])
    t.throws(() => readOwnPrice(text), /must/, text);
});

/** The fields that a browser sends of the form. */
const form = () => ({ id: randomUUID(), claim: randomBytes(32).toString('base64url') });
const FIELDS = {
  budget: '250',
  allow_non_eu: 'true',
  key_name: 'First',
  scope: 'chat',
};

t.test(
  'a page refuses each mistake at its field, loses nothing that was typed, and creates nothing',
  async (t) => {
    for (const [{ owner }, mistake, , label] of WRONG) {
      if (owner === undefined) continue; // ceilings and models are not on the form
      const fields = { ...FIELDS, name: 'By page', owner: owner.email };
      const page = await operator.post('/companies/new', {
        ...{ ...form(), ...fields, 'input:brand-chat': '0.005' },
      });
      t.equal(page.status, 422, label);
      t.match(textOf(page), `${label} ${mistake.detail}.`);
      t.match(page.text, / aria-invalid="true"/, label);
      t.match(page.text, /name="name"[^>]* value="By page"/);
      t.match(page.text, /name="input:brand-chat"[^>]* value="0.005"/);
    }
    const gone = { ...form(), ...FIELDS, name: 'By page', 'input:gone': '1' };
    t.match(
      textOf(await operator.post('/companies/new', gone)),
      'The model gone is not offered any more.',
    );
    const half = { ...form(), ...FIELDS, name: 'By page', scope: [], 'output:brand-chat': 'x' };
    const page = textOf(await operator.post('/companies/new', half));
    t.match(page, 'Scopes');
    t.match(page, 'EUR per 1000 completion tokens must be');
    t.same(await rowsOf('By page'), NOTHING);
  },
);

t.test(
  'the page hands over once: the same form sent again within a minute, and then no longer',
  async (t) => {
    const fields = {
      ...form(),
      ...FIELDS,
      name: 'Handed over',
      owner: 'olli@handed.example',
      'output:brand-chat': '7',
    };
    const pages = await Promise.all([
      operator.post('/companies/new', fields),
      operator.post('/companies/new', fields),
    ]);
    const partsOf = (text: string) =>
      [/svc_[a-z2-7]{32}/, /\/invitation\/[\w-]{43}/].map((part) => part.exec(text)?.[0]);
    for (const page of pages) {
      t.equal(page.status, 200);
      t.match(textOf(page), 'Give this link to olli@handed.example , and to nobody else.');
      t.same(partsOf(page.text), partsOf(pages[0].text));
    }
    t.match(partsOf(pages[0].text), [/^svc_/, /^\/invitation/]);
    const { company, models, keys, invitations } = await rowsOf('Handed over');
    t.same([keys.length, invitations.length], [1, 1]);
    const [shared] = await sql`select * from models where slug = ${CHAT} and company_id is null`;
    t.equal(
      Number(models[0]?.cost_eur_per_1k_input),
      Number(shared?.cost_eur_per_1k_input),
      'that of all companies',
    );
    t.equal(Number(models[0]?.cost_eur_per_1k_output), 7);

    const other = await signedIn(office, 'operator');
    const stranger = await other.post('/companies/new', fields);
    t.equal(stranger.status, 410);
    t.same(partsOf(stranger.text), [undefined, undefined]);
    const shown = `/companies/${company?.id}/onboarding/shown`;
    t.equal((await operator.get(shown)).status, 200, 'a reload');
    for (const name of operator.cookies.keys())
      if (name.includes('shown')) operator.cookies.delete(name);
    const late = await operator.get(shown);
    t.equal(late.status, 410);
    t.match(textOf(late), 'Handed over was created with all that was asked for.');
    await until(
      async () =>
        (await customerWith(office.url, company?.id, partsOf(pages[0].text)[0] as string).chat())
          .status,
      'served',
      (status) => status === 200,
    );
  },
);

t.test('more than a hundred models are typed', async (t) => {
  await sql`insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
    select 'many-' || i, 'internal', 'chat', true, 1, 2 from generate_series(1, 100) as i`;
  t.teardown(() => sql`delete from models where slug like 'many-%'`);
  const typed = {
    ...form(),
    name: 'Typed',
    own_prices: 'many-3=0.1,0.2\r\ntpyo=1,2',
  };
  const refused = await operator.post('/companies/new', typed);
  t.equal(refused.status, 422);
  t.match(textOf(refused), 'Prices of its own must be one of the company’s models, not "tpyo".');
  const made = await operator.post('/companies/new', { ...typed, own_prices: 'many-3=0.1,0.2' });
  t.equal(made.status, 200);
  t.match(await rowsOf('Typed'), {
    models: [{ slug: 'many-3', cost_eur_per_1k_input: /^0\.10*$/ }],
  });
});
