import { Ajv2020 } from 'ajv/dist/2020.js';
import { OpenAPIClientAxios } from 'openapi-client-axios';
import t from 'tap';
import { OPERATIONS } from '../../../src/operations/list.ts';
import { type Answer, ask } from '../../support/client.ts';
import { until } from '../../support/until.ts';
import { startOffice } from '../people.ts';
import { newToken } from './tokens.ts';

const office = await startOffice(t);
const token = await newToken(office);
const KEY = { name: 'Website', scopes: ['chat'] };
const MODEL = {
  slug: 'brand-new',
  upstream_model: 'internal-x',
  kind: 'chat',
  eu_hosted: true,
  cost_eur_per_1k_input: '0.1',
  cost_eur_per_1k_output: '0.25',
};

/** A client that was generated from openapi.json. It compares every answer with its description. */
const { json: document } = await ask(`${office.adminUrl}/api/v1/openapi.json`);
const ajv = new Ajv2020({ strict: false, validateFormats: false });
const axiosConfigDefaults = {
  baseURL: `${office.adminUrl}/api/v1`,
  headers: { authorization: `Bearer ${token}` },
};
const client = await new OpenAPIClientAxios({ definition: document, axiosConfigDefaults }).init();
const driven = new Set<string>();

type Driver = (...asked: unknown[]) => Promise<{ status: number; data: Answer['json'] }>;

async function call(
  id: string,
  params: object | null = null,
  body?: object,
): Promise<Answer['json']> {
  const drive = (client as unknown as Readonly<Record<string, Driver>>)[id] as Driver;
  const { status, data } = await drive(params, body);
  const { status: wanted, answer } = OPERATIONS.find(
    (each) => each.id === id,
  ) as (typeof OPERATIONS)[number];
  if (status !== wanted) throw new Error(`${id}: ${status}, not ${wanted}`);
  if (answer !== null && !ajv.validate(answer, data)) throw new Error(`${id}: ${ajv.errorsText()}`);
  driven.add(id);
  return data;
}

const company = await call('createCompany', null, {
  name: 'Südwind',
  disabled_model_slugs: ['brand-overseas'],
});
const at = { company: company.id };
const model = await call('createModel', null, MODEL);

t.test('companies, their models and keys', async (t) => {
  t.ok(
    ajv.validateSchema({ $ref: '#/d', d: document.components.schemas.Problem }),
    'the schemas are valid',
  );
  t.same(
    (await call('changeCompany', at, { monthly_budget_eur: '99.50' })).monthly_budget_eur,
    '99.5',
  );
  t.match(await call('getCompany', at), {
    name: 'Südwind',
    disabled_model_slugs: ['brand-overseas'],
  });
  t.equal((await call('listCompanies', { name: 'Südwind' })).data.length, 1);
  const { data: models } = await call('listModelsOfCompany', at);
  t.match(
    Object.fromEntries(models.map(({ slug, state }: Record<string, string>) => [slug, state])),
    {
      'brand-chat': 'available',
      'brand-overseas': 'disabled',
    },
  );
  t.notOk(JSON.stringify(models).includes('internal'), 'without the names that the upstream knows');

  const key = await call('createKey', at, {
    ...KEY,
    expires_at: '2099-01-31T00:00:00Z',
    monthly_budget_eur: '5',
  });
  t.match(key.key, /^svc_/);
  await call(
    'changeKey',
    { ...at, key: key.id },
    { expires_at: null, allowed_model_slugs: ['brand-chat'] },
  );
  t.match(await call('getKey', { ...at, key: key.id }), {
    expires_at: null,
    allowed_model_slugs: ['brand-chat'],
  });
  const leaked = { text: `export KEY=${key.key}\n` };
  t.match(await call('findKeys', null, leaked), {
    looked_up: 1,
    data: [{ id: key.id, company_name: 'Südwind' }],
  });
  t.match(await call('findKeysOfCompany', at, leaked), { data: [{ id: key.id }] });
  t.same((await call('findKeysOfCompany', { company: office.customer.company }, leaked)).data, []);
  const rotated = await call('rotateKey', { ...at, key: key.id }, { overlap_seconds: 0 });
  const overlapping = await call(
    'rotateKey',
    { ...at, key: rotated.id },
    { overlap_seconds: 3600 },
  );
  const { data: keys } = await call('listKeys', at);
  t.match(keys.map((each: { state: string }) => each.state).sort(), [
    'active',
    'active',
    'revoked',
  ]);
  t.ok(keys.find(({ id }: { id: string }) => id === rotated.id).expires_at, 'the overlap ends');
  await call('revokeKey', { ...at, key: overlapping.id });
});

t.test('a customer is onboarded in one call', async (t) => {
  const done = await call('onboardCompany', null, {
    name: 'Nordwind',
    monthly_budget_eur: '250',
    requests_per_minute: 600,
    disabled_model_slugs: ['brand-overseas'],
    own_prices: [
      { slug: 'brand-chat', cost_eur_per_1k_input: '0.001', cost_eur_per_1k_output: '0.002' },
    ],
    owner: { email: 'Nora@north.example' },
    key: KEY,
  });
  t.match(done, {
    monthly_budget_eur: '250',
    invitation: { email: 'nora@north.example' },
    key: { name: 'Website' },
  });
  t.equal((await ask(done.invitation.link)).status, 200, 'the link works');
  t.equal((await ask(`${office.url}/models`, { key: done.key.key })).status, 200, 'the key works');
  const bare = await call('onboardCompany', null, { name: 'Bare' });
  t.match(bare, { name: 'Bare', invitation: null, key: null });
});

t.test('models, their prices and cost prices', async (t) => {
  const of = { model: model.id };
  await call('changeModel', of, { eu_hosted: false });
  t.equal((await call('getModel', of)).eu_hosted, false);
  t.equal((await call('listModels', { slug: 'brand-new' })).data.length, 1);

  const coming = await call('addPrice', of, { valid_from: '2099-01-01', input: '0.123456789012' });
  t.match(coming, {
    valid_from: '2099-01-01T00:00:00.000Z',
    input: '0.123456789012',
    output: '0.25',
    begun: false,
  });
  t.match(await call('getPrice', { ...of, price: coming.id }), coming);
  const first = await call('listPrices', { ...of, limit: 1 });
  t.match(first, { data: [{ id: coming.id }], next_cursor: coming.id });
  t.match(await call('listPrices', { ...of, cursor: coming.id }), {
    data: [{ input: '0.1' }],
    next_cursor: null,
  });
  t.match(await call('getPricesOn', { ...of, at: '2099-06-01' }), {
    data: [{ input: '0.123456789012' }],
  });
  t.match(await call('listModelsOfCompany', at), { data: { length: 4 } });
  await call('withdrawPrice', { ...of, price: coming.id });
  t.match(await call('listPrices', of), { data: { length: 1 } });

  const factor = await call('addPriceFactor', at, { valid_from: '2099-01-01', factor: '0.9' });
  t.match(await call('listPriceFactors', at), {
    data: [{ id: factor.id, factor: '0.9', begun: false }],
  });
  t.match(await call('previewPriceFactor', { ...at, factor: '0.9' }), { would_eur: '0' });
  await call('withdrawPriceFactor', { ...at, factor: factor.id });

  t.match(await call('previewPrice', of, { input: '0.01' }), { calls: 0, would_eur: '0' });
  const cost = await call('setCostPrice', of, {
    valid_from: '2026-11-01',
    input: '0.01',
    output: '0.02',
  });
  t.match(await call('listCostPrices', of), {
    data: [{ id: cost.id, valid_from: '2026-11-01', input: '0.01' }],
  });
  await call('removeCostPrice', { ...of, cost: cost.id });
  t.match(await call('getMargin', { month: '2026-11', lines: 'true' }), {
    month: '2026-11-01',
    total: { cost_eur: null },
  });
  await call('removeModel', of);
});

t.test('assistants, users, people and invitations', async (t) => {
  const assistant = await call('createAssistant', at, {
    name: 'Summary',
    system_prompt: 'Sum up.',
  });
  await call('changeAssistant', { ...at, assistant: assistant.id }, { temperature: 0.5 });
  t.equal((await call('getAssistant', { ...at, assistant: assistant.id })).temperature, 0.5);
  t.equal((await call('listAssistants', at)).data.length, 1);
  await call('removeAssistant', { ...at, assistant: assistant.id });

  const user = await call('createUser', null, {
    email: 'Ute@south.example',
    role: 'owner',
    company_id: company.id,
  });
  t.equal(user.email, 'ute@south.example');
  await call('getUser', { user: user.id });
  t.equal((await call('listUsers', { company_id: company.id })).data.length, 1);
  const person = await call('createUser', null, {
    email: 'paul@south.example',
    role: 'member',
    company_id: company.id,
  });
  await call('changeCompanyUser', { ...at, user: person.id }, { role: 'administrator' });
  t.equal((await call('getCompanyUser', { ...at, user: person.id })).role, 'administrator');
  const { data: people } = await call('listCompanyUsers', at);
  t.same(people.map(({ role }: { role: string }) => role).sort(), ['administrator', 'owner']);
  const center = await call('createCostCenterBudget', at, {
    name: 'Bu\u0308ro ',
    monthly_budget_eur: '99.50',
  });
  t.match(center, { name: 'Büro', monthly_budget_eur: '99.5' });
  const budget = { ...at, budget: center.id };
  t.match(await call('changeCostCenterBudget', budget, { monthly_budget_eur: '20' }), {
    monthly_budget_eur: '20',
  });
  t.match(await call('getCostCenterBudget', budget), { name: 'Büro', monthly_budget_eur: '20' });
  t.match(await call('listCostCenterBudgets', at), {
    data: [{ id: center.id, spent_eur: '0' }],
    next_cursor: null,
  });
  await call('removeCostCenterBudget', budget);
  const receiver = await call('createAlertReceiver', at, {
    email: 'Paul@south.example',
    percents: [90, 75],
    forecast: false,
  });
  t.match(receiver, { email: 'paul@south.example', percents: [75, 90], is_person: true });
  await call('changeAlertReceiver', { ...at, receiver: receiver.id }, { forecast: true });
  const told = { percents: [75, 90], forecast: true };
  t.match(await call('getAlertReceiver', { ...at, receiver: receiver.id }), told);
  t.match(await call('listAlertReceivers', at), { data: [told], next_cursor: null });
  await call('removeAlertReceiver', { ...at, receiver: receiver.id });
  await call('removeCompanyUser', { ...at, user: person.id });
  const paula = { email: 'paula@south.example', role: 'member', company_id: company.id };
  const leaving = { ...at, user: (await call('createUser', null, paula)).id };
  t.match(await call('countPersonErasure', leaving), { persons: 1, rows: { users: 1 } });
  t.match(await call('erasePerson', leaving, { email: paula.email }), {
    persons: 1,
    rows: { users: 1 },
  });
  await call('removeUser', { user: user.id });

  const group = await call('createGroup', null, {
    name: '/south/staff',
    company_id: company.id,
    role: 'member',
  });
  t.equal((await call('changeGroup', { group: group.id }, { role: 'owner' })).role, 'owner');
  t.match(await call('getGroup', { group: group.id }), {
    name: '/south/staff',
    company_id: company.id,
    role: 'owner',
  });
  t.match(await call('listGroups', { company_id: company.id }), {
    data: [{ id: group.id }],
    next_cursor: null,
  });
  await call('removeGroup', { group: group.id });

  const invited = await call('createInvitation', at, { email: 'Ina@south.example', role: 'owner' });
  const opened = await ask(invited.link);
  t.match(opened, { status: 200, text: /ina@south\.example/ }, 'the link works');
  const renewed = await call('renewInvitation', { ...at, invitation: invited.id });
  t.not(renewed.link, invited.link);
  t.match(await call('listInvitations', at), {
    data: [{ id: invited.id, created_by: 'token deploy' }],
  });
  await call('withdrawInvitation', { ...at, invitation: invited.id });
});

t.test('usage, requests, changes and the state of all', async (t) => {
  const { customer } = office;
  const of = { company: customer.company };
  const refused = await customer.ask('/chat/completions', {
    body: { model: 'none-such', messages: [] },
  });
  const id = refused.headers.get('x-request-id') as string;
  await until(
    async () => (await office.sql`select from request_trail where request_id = ${id}`).length > 0,
    'kept',
  );
  await office.sql`update request_trail set upstream_status = 500, upstream_reason = 'boom' where request_id = ${id}`;
  t.match(await call('listRequests', { status: 'refused', limit: 1 }), {
    data: [{ request_id: id, result: 'refused' }],
  });
  t.same(await call('listRequests', { status: 'upstream_failed' }), {
    data: [],
    next_cursor: null,
  });
  t.match(await call('getRequest', { request: id }), { what: /./, upstream_reason: 'boom' });
  t.match(await call('listRequestsOfCompany', of), {
    data: [{ request_id: id }],
    next_cursor: null,
  });
  t.match(await call('getRequestOfCompany', { ...of, request: id }), {
    result: 'refused',
    upstream_reason: null,
  });
  const day = { from: '2026-11-22T00:00:00Z', to: '2026-11-23T00:00:00Z' };
  t.same(await call('sumRequests', { ...at, ...day, by: 'model' }), { data: [] });

  t.match(await call('getUsage', at), { total_cost_eur: '0', company_name: 'Südwind' });
  const week = { ...at, from: '2026-11-01', to: '2026-11-07', model: 'brand-chat' };
  t.match(await call('getUsage', week), {
    from: '2026-11-01',
    month: null,
    chat_cost_eur: null,
    by_time: [],
  });
  const days = { from: '2026-11-08', to: '2026-11-14' };
  t.match(await call('getUsageChange', { ...at, ...days }), {
    before: { from: '2026-11-01', to: '2026-11-07' },
    total: { difference_eur: '0' },
    by_model: [],
  });
  t.match(await call('getUsageTable', { ...at, ...days, rows: 'cost_center', columns: 'day' }), {
    total: '0',
    rows: [],
  });
  const [person] =
    await office.sql`insert into end_users (company_id, name) values (${company.id}, 'ann') returning id`;
  const end_user = person?.id;
  t.match(await call('listEndUsers', at), { data: [{ name: 'ann' }] });
  t.match(await call('getEndUser', { ...at, end_user }), { name: 'ann', erased_at: null });
  t.match(await call('getUsageByEndUser', at), { count: 0, end_users: [] });
  t.match(await call('getUsageOfEndUser', { ...at, end_user }), { cost_eur: '0', by_day: [] });
  const budget = { monthly_budget_eur: '7.50' };
  t.match(await call('changeEndUser', { ...at, end_user }, budget), { monthly_budget_eur: '7.5' });
  await call('eraseEndUser', { ...at, end_user });
  t.match(await call('getAllUsage', days), { ...days, requests: 0, by_company: { count: 0 } });
  t.match(await call('getAllUsageChange', { ...days, before_from: '2026-10-01' }), {
    before: { from: '2026-10-01', to: '2026-10-01' },
    by_company: { count: 0, lines: [] },
  });
  t.match(await call('getAllUsageTable', { ...days, metric: 'requests' }), {
    total: '0',
    columns: [],
  });
  t.match(await call('exportLedger', { ...at, month: '2026-11' }), /^billing_month,request_id,/);
  t.equal((await call('listChanges', { search: 'Südwind' })).data[0].actor, 'token deploy');
  t.match(await call('listChangesOfCompany', at), { data: [{ actor: 'operator' }] });
  t.match(await call('getStatus'), { ok: true, problems: [], gateways: [{ gone: false }] });
});

t.test('statements are closed, listed and read', async (t) => {
  t.same(await call('listStatements', at), { data: [], next_cursor: null, open_months: [] });
  const statement = await call('closeStatement', at, { month: '2026-09' });
  t.match(statement, {
    number: 1,
    total_eur: '0',
    document: { number: 1, month: '2026-09', lines: [] },
  });
  t.same(await call('getStatement', { ...at, month: '2026-09' }), statement);
});

t.test('the feed tells the calls of all companies, FOCUS their charges', async (t) => {
  t.equal(await call('feedUsage', { limit: 1 }), '', 'there is none');
  const month = { month: '2026-09' };
  t.match(await call('exportFocus', { ...at, ...month }), /^BilledCost,.*,Tags\n$/);
  t.match(await call('exportAllFocus', month), /^BilledCost,/);
});

t.test('events are listed, and told again', async (t) => {
  const mine = { company_id: company.id, kind: 'key', since: '2026-01-01T00:00:00Z' };
  const { data: events } = await call('listEvents', mine);
  t.match(events[0], { event: { type: 'key.revoked', actor: 'token deploy' }, deliveries: [] });
  t.same(await call('replayEvent', { event: events[0].id }), { events: 1 });
  t.same(await call('replayEvents', null, mine), { events: events.length });
  t.equal((await call('listEvents', mine)).data[0].deliveries.length, 1);
});

t.test('what is unusual today is listed', async (t) => {
  t.same((await call('listUnusual', at)).data, []);
  t.same((await call('listAllUnusual', { company_id: company.id })).data, []);
});

t.test('tokens are listed and revoked', async (t) => {
  await newToken(office, { name: 'old' });
  await newToken(office, { name: 'theirs', company_id: company.id });
  const [old] = (await call('listTokens')).data.filter(
    ({ name }: { name: string }) => name === 'old',
  );
  t.match(await call('revokeToken', { token: old.id }), { state: 'revoked' });
  const [theirs] = (await call('listTokensOfCompany', at)).data;
  t.match(theirs, { name: 'theirs', state: 'active' });
  t.match(await call('revokeTokenOfCompany', { ...at, token: theirs.id }), { state: 'revoked' });
});

t.test('pauses', async (t) => {
  const { key } = await call('createKey', at, { name: 'paused', scopes: ['chat'] }).then(
    ({ id }) => ({ key: id }),
  );
  const one = { ...at, key };
  t.match(await call('pauseKey', one, { reason: 'Leaving' }), {
    state: 'paused',
    pause_reason: 'Leaving',
  });
  t.match(await call('resumeKey', one), { state: 'active', paused_at: null });
  t.match(await call('pauseCompany', at, { reason: 'Unpaid' }), {
    paused_at: /^20/,
    paused_by: 'token deploy',
  });
  t.match(await call('resumeCompany', at), { paused_at: null, pause_reason: null });
});

t.test('the end of a company', async (t) => {
  t.match(await call('closeCompany', at), { closed_at: /^20/ });
  t.match(await call('reopenCompany', at), { closed_at: null });
  await call('closeCompany', at);
  t.equal((await call('exportCompany', at)).charCodeAt(0), 0x1f, 'a gzip file');
  t.match(await call('countErasure', at), { rows: { companies: 1 } });
  t.match(await call('eraseCompany', at, { name: 'Südwind' }), { rows: { companies: 1 } });
  t.match(await call('getCompany', at), { name: /^company-/, erased_at: /^20/ });
});

t.test(
  'what a page ends with is what the next one is asked by, and patterns are read alike by every client',
  async (t) => {
    type Described = { parameters?: { name: string; schema: { type: string } }[] };
    for (const { get: list } of Object.values<{ get?: Described }>(document.paths)) {
      const cursor = list?.parameters?.find(({ name }) => name === 'cursor');
      t.match(
        cursor ?? { schema: { type: 'string' } },
        { schema: { type: 'string' } },
        'as next_cursor',
      );
    }
    const patterns = [...JSON.stringify(document).matchAll(/"pattern":("(?:[^"\\]|\\.)*")/g)].map(
      ([, text]) => text,
    );
    const used = new Set(patterns.map((text) => JSON.parse(text as string) as string));
    // without the flag u, \p{…} is the letters between; Python has none, Go and Rust have no (?=
    t.same(
      [...used].filter((pattern) => /\\[pPu]|\(\?/.test(pattern)),
      [],
    );
    const matches = (flags: string) =>
      [...used].filter((pattern) => new RegExp(pattern, flags).test('Pacific p{Cc} 1'));
    t.same(matches(''), matches('u'));
  },
);

t.test('every operation of the document was driven', async (t) => {
  const described = Object.values<Record<string, { operationId: string }>>(document.paths).flatMap(
    (path) => Object.values(path).map(({ operationId }) => operationId),
  );
  t.same([...driven].sort(), described.sort());
});
