import { Ajv2020 } from 'ajv/dist/2020.js';
import { OpenAPIClientAxios } from 'openapi-client-axios';
import t from 'tap';
import { OPERATIONS } from '../../../src/admin/operations/list.ts';
import { type Answer, ask } from '../../support/client.ts';
import { until } from '../../support/until.ts';
import { startOffice } from '../people.ts';
import { newToken, send } from './tokens.ts';

const office = await startOffice(t);
const { company } = office.customer;
const token = await newToken(office);
const reader = await newToken(office, { access: 'read' });
const owners = await newToken(office, { company_id: company });
const KEY = { name: 'Website', scopes: ['chat'] };
const MODEL = {
  ...{ slug: 'brand-new', upstream_model: 'internal-x', kind: 'chat', eu_hosted: true },
  ...{ cost_eur_per_1k_input: '0.1', cost_eur_per_1k_output: '0.25' },
};

t.test('a client generated from openapi.json drives every operation, and every answer is as described', async (t) => {
  const { json: document } = await ask(`${office.adminUrl}/api/v1/openapi.json`);
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  t.ok(ajv.validateSchema({ $ref: '#/d', d: document.components.schemas.Problem }), 'the schemas are valid');
  const api = new OpenAPIClientAxios({
    definition: document,
    axiosConfigDefaults: { baseURL: `${office.adminUrl}/api/v1`, headers: { authorization: `Bearer ${token}` } },
  });
  const client = await api.init();
  const driven = new Set<string>();
  const operations = client as unknown as Record<
    string,
    (...asked: unknown[]) => Promise<{ status: number; data: Answer['json'] }>
  >;
  const call = async (id: string, params: object | null = null, body?: object) => {
    const { status, data } = await (operations[id] as NonNullable<(typeof operations)[string]>)(params, body);
    const operation = OPERATIONS.find((each) => each.id === id);
    t.equal(status, operation?.status, id);
    if (operation?.answer) t.ok(ajv.validate(operation.answer, data), `${id}: ${ajv.errorsText()}`);
    driven.add(id);
    return data;
  };
  const created = await call('createCompany', null, { name: 'Südwind', disabled_model_slugs: ['brand-overseas'] });
  const at = { company: created.id };
  t.same((await call('changeCompany', at, { monthly_budget_eur: '99.50' })).monthly_budget_eur, '99.5');
  t.match(await call('getCompany', at), { name: 'Südwind', disabled_model_slugs: ['brand-overseas'] });
  t.equal((await call('listCompanies', { name: 'Südwind' })).data.length, 1);

  const model = await call('createModel', null, MODEL);
  await call('changeModel', { model: model.id }, { eu_hosted: false });
  t.equal((await call('getModel', { model: model.id })).eu_hosted, false);
  t.equal((await call('listModels', { slug: 'brand-new' })).data.length, 1);

  const key = await call('createKey', at, { ...KEY, expires_at: '2099-01-31T00:00:00Z', monthly_budget_eur: '5' });
  t.match(key.key, /^svc_/);
  await call('changeKey', { ...at, key: key.id }, { expires_at: null, allowed_model_slugs: ['brand-chat'] });
  t.match(await call('getKey', { ...at, key: key.id }), { expires_at: null, allowed_model_slugs: ['brand-chat'] });
  const rotated = await call('rotateKey', { ...at, key: key.id }, { overlap_seconds: 0 });
  t.match((await call('listKeys', at)).data.map((each: { state: string }) => each.state).sort(), ['active', 'revoked']);
  await call('revokeKey', { ...at, key: rotated.id });

  const assistant = await call('createAssistant', at, { name: 'Summary', system_prompt: 'Sum up.' });
  await call('changeAssistant', { ...at, assistant: assistant.id }, { temperature: 0.5 });
  t.equal((await call('getAssistant', { ...at, assistant: assistant.id })).temperature, 0.5);
  t.equal((await call('listAssistants', at)).data.length, 1);
  await call('removeAssistant', { ...at, assistant: assistant.id });

  const user = await call('createUser', null, { email: 'Ute@south.example', role: 'owner', company_id: created.id });
  t.equal(user.email, 'ute@south.example');
  await call('getUser', { user: user.id });
  t.equal((await call('listUsers', { company_id: created.id })).data.length, 1);
  await call('removeUser', { user: user.id });

  const day = { from: '2026-11-22T00:00:00Z', to: '2026-11-23T00:00:00Z' };
  t.same(await call('sumRequests', { ...at, ...day, by: 'model' }), { data: [] });
  t.match(await call('getUsage', at), { total_cost_eur: '0', company_name: 'Südwind' });
  t.same(await call('listStatements', at), { data: [], next_cursor: null });
  const statement = await call('closeStatement', at, { month: '2026-09' });
  t.match(statement, { number: 1, total_eur: '0', document: { number: 1, month: '2026-09', lines: [] } });
  t.same(await call('getStatement', { ...at, month: '2026-09' }), statement);
  t.equal((await call('listChanges', { search: 'Südwind' })).data[0].actor, 'token deploy');
  await call('removeModel', { model: model.id });

  const mine = { company_id: created.id, kind: 'key', since: '2026-01-01T00:00:00Z' };
  const events = (await call('listEvents', mine)).data;
  t.match(events[0], { subject: rotated.id, event: { type: 'key.revoked', actor: 'token deploy' }, deliveries: [] });
  t.same(await call('replayEvent', { event: events[0].id }), { events: 1 });
  t.same(await call('replayEvents', null, mine), { events: 4 });
  t.equal((await call('listEvents', mine)).data[0].deliveries.length, 1);
  t.same([...driven].sort(), OPERATIONS.map(({ id }) => id).sort(), 'every operation was driven');
});

t.test('a token decides: none, an unknown, an expired, a revoked one, one that only reads', async (t) => {
  const list = ['GET', '/companies'] as const;
  const expired = await newToken(office, { expires_at: new Date(Date.now() + 60_000) });
  await office.sql`update admin_tokens set expires_at = now() - interval '1 second' where expires_at is not null`;
  for (const bad of ['', 'tga-nothing', `tga-${'a'.repeat(32)}`, expired]) {
    const { status, headers, body } = await send(office, bad, list);
    t.match({ status, type: headers.get('content-type'), body }, { status: 401, type: 'application/problem+json' });
  }
  t.equal((await send(office, reader, list)).status, 200);
  t.match(await send(office, reader, ['POST', '/companies'], { name: 'x' }), { status: 403 });
  const short = await newToken(office);
  t.equal((await send(office, short, list)).status, 200);
  await office.sql`update admin_tokens set revoked_at = now() where digest = sha256(${short}::bytea)`;
  t.equal((await send(office, short, list)).status, 401);
});

t.test("a company's token acts behind the wall of its company", async (t) => {
  const { company: other } = await office.newCustomer();
  const own = `/companies/${company}`;
  t.equal((await send(office, owners, ['GET', own])).status, 200);
  t.equal((await send(office, owners, ['PATCH', own], { monthly_budget_eur: '50' })).status, 200);
  t.equal((await send(office, owners, ['POST', `${own}/keys`], KEY)).status, 201);
  t.equal((await send(office, owners, ['GET', `/companies/${other}`])).status, 404);
  t.equal((await send(office, owners, ['GET', `/companies/${other}/keys`])).status, 404);
  for (const path of ['/companies', '/models', '/users', '/audit']) {
    t.equal((await send(office, owners, ['GET', path])).status, 403, path);
  }
  const refused = await send(office, owners, ['PATCH', own], { name: 'Mine', requests_per_minute: 5 });
  t.match(refused, { status: 403, body: { errors: [{ pointer: '#/name' }] } });
});

t.test('ceilings are for tokens of operators, and hold for those of a company', async (t) => {
  const { company: capped } = await office.newCustomer();
  const theirs = await newToken(office, { company_id: capped });
  const path = `/companies/${capped}`;
  const patch = (by: string, body: object) => send(office, by, ['PATCH', path], body);
  const set = await patch(token, { credit_limit_eur: '500', eu_locked: true, name: 'Capped' });
  t.match(set, {
    status: 200,
    body: { credit_limit_eur: '500', eu_locked: true, effective_budget_eur: '500', name: 'Capped' },
  });
  for (const member of [{ credit_limit_eur: null }, { eu_locked: false }]) {
    t.match(await patch(theirs, member), { status: 403, body: { errors: [{ pointer: `#/${Object.keys(member)}` }] } });
  }
  t.match(await patch(theirs, { monthly_budget_eur: '500.01' }), { status: 409, body: { detail: /at most 500/ } });
  t.match(await patch(theirs, { allow_non_eu_models: true }), { status: 409, body: { detail: /locked/ } });
  t.match(await patch(theirs, { monthly_budget_eur: '400' }), { status: 200, body: { effective_budget_eur: '400' } });
  t.equal((await patch(token, { credit_limit_eur: '0' })).status, 400);
  const raised = await patch(token, { credit_limit_eur: '900', monthly_budget_eur: '800' });
  t.match(
    raised,
    { status: 200, body: { effective_budget_eur: '800' } },
    'a budget fits the ceiling of the same change',
  );
  const log =
    await office.sql`select actor from audit_log where company_id = ${capped} and subject = 'companies' order by id`;
  t.equal(log.at(-1)?.actor, 'token deploy', 'outside of the wall the actor is still named');
});

t.test('all mistakes of a body and a query are told at once, with pointers', async (t) => {
  const bad = { name: '', scopes: ['chat', 'shell'], monthly_budget_eur: 5, max_concurrent: 0, 'a/b': 1 };
  const { status, body } = await send(office, token, ['POST', `/companies/${company}/keys`], bad);
  t.equal(status, 400);
  t.same(body.errors.map(({ pointer }: { pointer: string }) => pointer).sort(), [
    '#/a~1b',
    '#/max_concurrent',
    '#/monthly_budget_eur',
    '#/name',
    '#/scopes/1',
  ]);
  t.match(await send(office, token, ['POST', '/companies'], {}), {
    body: { errors: [{ pointer: '#/name', detail: 'is missing' }] },
  });
  const query = await send(office, token, ['GET', '/companies?limit=0&colour=red']);
  t.same(query.body.errors.map(({ pointer }: { pointer: string }) => pointer).sort(), ['?colour', '?limit']);
  t.match(await send(office, token, ['GET', '/companies?limit=1&limit=2']), { status: 400 });
  const companies = `${office.adminUrl}/api/v1/companies`;
  t.match(await ask(companies, { key: token, body: '{"name":' }), {
    status: 400,
    json: { detail: 'The body is not JSON.' },
  });
  t.match(await ask(companies, { key: token, body: 'name=x', headers: { 'content-type': 'text/plain' } }), {
    status: 415,
  });
  t.match(await send(office, token, ['GET', '/companies/me']), { status: 404 });
  t.match(await send(office, token, ['PATCH', `/companies/${company}`], {}), { status: 400 });
});

t.test('If-Match: what somebody changed meanwhile is not overwritten', async (t) => {
  const path = `/companies/${company}`;
  const { headers } = await send(office, token, ['GET', path]);
  const etag = headers.get('etag') as string;
  t.equal((await send(office, token, ['GET', path], undefined, { 'if-none-match': etag })).status, 304);
  const first = await send(office, token, ['PATCH', path], { monthly_budget_eur: '70' }, { 'if-match': etag });
  t.equal(first.status, 200);
  const stale = await send(office, token, ['PATCH', path], { monthly_budget_eur: '80' }, { 'if-match': etag });
  t.equal(stale.status, 412);
  const now = first.headers.get('etag') as string;
  const both = await Promise.all(
    ['81', '82'].map((eur) => send(office, token, ['PATCH', path], { monthly_budget_eur: eur }, { 'if-match': now })),
  );
  t.same(both.map(({ status }) => status).sort(), [200, 412], 'of two at once one wins');
});

t.test('an idempotency key: the same answer again, the text of a key for a minute', async (t) => {
  const headers = { 'idempotency-key': 'order 4711' };
  const create = () => send(office, token, ['POST', `/companies/${company}/keys`], KEY, headers);
  const [first, again] = await Promise.all([create(), create()]);
  t.equal(first.status, 201);
  t.same(again.body, first.body, 'both at once make one key');
  t.match(first.body.key, /^svc_/);
  const other = await send(office, token, ['POST', `/companies/${company}/keys`], { ...KEY, name: 'Other' }, headers);
  t.equal(other.status, 422);
  const [{ stored }] = await office.sql<
    [{ stored: string }]
  >`select string_agg(a::text, ' ') as stored from idempotent_answers a`;
  t.notOk(stored.includes(first.body.key), 'it is nowhere in the table');
  await office.sql`update idempotent_answers set created_at = created_at - interval '61 seconds'`;
  t.same((await create()).body, { ...first.body, key: null }, 'after a minute all but its text');
  const [{ count }] = await office.sql<[{ count: number }]>`
    select count(*)::integer as count from api_keys where id = ${first.body.id}`;
  t.equal(count, 1);
  await office.sql`update idempotent_answers set created_at = created_at - interval '2 days'`;
  t.not((await create()).body.id, first.body.id, 'after a day it is a new request');
  const refused = { 'idempotency-key': 'refused' };
  const bad = { ...KEY, expires_at: '2001-01-01T00:00:00Z' };
  t.equal((await send(office, token, ['POST', `/companies/${company}/keys`], bad, refused)).status, 409);
  t.equal(
    (await send(office, token, ['POST', `/companies/${company}/keys`], KEY, refused)).status,
    201,
    'a refusal takes no key',
  );
});

t.test('a list is read page by page: none is skipped or repeated while others are created', async (t) => {
  const { company: large } = await office.newCustomer();
  await office.sql`insert into api_keys (company_id, name, digest, prefix, scopes)
    select ${large}, 'key ' || n, sha256((${large} || n)::bytea), 'sk-aaaaa', '{chat}' from generate_series(1, 25) as n`;
  const before = new Set(
    (await office.sql<{ id: string }[]>`select id from api_keys where company_id = ${large}`).map(({ id }) => id),
  );
  const seen: string[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const more: string = cursor === '' ? '' : `&cursor=${cursor}`;
    const { body } = await send(office, reader, ['GET', `/companies/${large}/keys?limit=10${more}`]);
    seen.push(...body.data.map(({ id }: { id: string }) => id));
    cursor = body.next_cursor;
    await send(office, token, ['POST', `/companies/${large}/keys`], KEY);
  }
  t.equal(new Set(seen).size, seen.length, 'none twice');
  t.ok(
    [...before].every((id) => seen.includes(id)),
    'none is missing',
  );
});

t.test('neither tokens nor keys reach the log or the audit log', async (t) => {
  const { body } = await send(office, token, ['POST', `/companies/${company}/keys`], KEY);
  await until(
    async () => (await office.sql`select from audit_log where subject_id = ${body.id}`).length > 0,
    'audited',
  );
  const [{ text }] = await office.sql<[{ text: string }]>`select string_agg(a::text, ' ') as text from audit_log a`;
  for (const secret of [token, owners, body.key]) {
    t.notOk(text.includes(secret));
    t.notOk(office.logged.join('').includes(secret));
  }
});
