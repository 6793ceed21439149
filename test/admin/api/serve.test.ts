import { randomUUID } from 'node:crypto';
import { Ajv2020 } from 'ajv/dist/2020.js';
import t from 'tap';
import { OPERATIONS } from '../../../src/operations/list.ts';
import { newRequestId } from '../../../src/runtime/request-id.ts';
import { ask } from '../../support/client.ts';
import { until } from '../../support/until.ts';
import { addUsage } from '../../support/usage.ts';
import { CHAT, EMBED } from '../../support/world.ts';
import { cheapHash, PASSWORD, Person, startOffice } from '../people.ts';
import { newToken, send } from './tokens.ts';

const office = await startOffice(t);
const { company } = office.customer;
const token = await newToken(office);
const reader = await newToken(office, { access: 'read' });
const owners = await newToken(office, { company_id: company });
const KEY = { name: 'Website', scopes: ['chat'] };

t.test(
  'a token decides: none, an unknown, an expired, a revoked one, one that only reads',
  async (t) => {
    const list = ['GET', '/companies'] as const;
    const expired = await newToken(office, { expires_at: new Date(Date.now() + 60_000) });
    await office.sql`update admin_tokens set expires_at = now() - interval '1 second' where expires_at is not null`;
    for (const bad of ['', 'tga-nothing', `tga-${'a'.repeat(32)}`, expired]) {
      const { status, headers, body } = await send(office, bad, list);
      t.match(
        { status, type: headers.get('content-type'), body },
        { status: 401, type: 'application/problem+json' },
      );
    }
    t.equal((await send(office, reader, list)).status, 200);
    t.match(await send(office, reader, ['POST', '/companies'], { name: 'x' }), { status: 403 });
    const short = await newToken(office);
    t.equal((await send(office, short, list)).status, 200);
    await office.sql`update admin_tokens set revoked_at = now() where digest = sha256(${short}::bytea)`;
    t.equal((await send(office, short, list)).status, 401);
  },
);

t.test('a list of a company that is not there is refused, and an empty one is not', async (t) => {
  const lists = OPERATIONS.filter(
    ({ method, path, query }) =>
      method === 'get' && path.includes('{company}') && query?.properties.cursor !== undefined,
  );
  t.ok(lists.length >= 11, 'they are found');
  const { company: empty } = await office.newCustomer();
  for (const { path } of lists) {
    t.equal(
      (await send(office, reader, ['GET', path.replace('{company}', empty)])).status,
      200,
      path,
    );
    t.equal(
      (await send(office, reader, ['GET', path.replace('{company}', randomUUID())])).status,
      404,
      path,
    );
  }
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
  for (const path of ['/requests', '/status', '/margin', '/tokens', `${own}/erasure`]) {
    t.equal((await send(office, owners, ['GET', path])).status, 403, path);
  }
  for (const path of [`${own}/close`, `${own}/reopen`, `${own}/erase`, '/keys/find']) {
    const body = path.endsWith('erase')
      ? { name: 'Nordlicht Verlag' }
      : path === '/keys/find'
        ? { text: 'x' }
        : undefined;
    t.equal((await send(office, owners, ['POST', path], body)).status, 403, path);
  }
  for (const path of [
    'users',
    'invitations',
    'audit',
    'requests',
    'models',
    'tokens',
    'usage',
    'export',
  ]) {
    t.equal((await send(office, owners, ['GET', `${own}/${path}`])).status, 200, path);
    t.equal((await send(office, owners, ['GET', `/companies/${other}/${path}`])).status, 404, path);
  }
  const refused = await send(office, owners, ['PATCH', own], {
    name: 'Mine',
    requests_per_minute: 5,
  });
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
    t.match(await patch(theirs, member), {
      status: 403,
      body: { errors: [{ pointer: `#/${Object.keys(member)}` }] },
    });
  }
  t.match(await patch(theirs, { monthly_budget_eur: '500.01' }), {
    status: 409,
    body: { detail: /at most 500/ },
  });
  t.match(await patch(theirs, { allow_non_eu_models: true }), {
    status: 409,
    body: { detail: /locked/ },
  });
  t.match(await patch(theirs, { monthly_budget_eur: '400' }), {
    status: 200,
    body: { effective_budget_eur: '400' },
  });
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

t.test('what the upstream said, and its names of models, are for operators', async (t) => {
  const { body: models } = await send(office, owners, ['GET', `/companies/${company}/models`]);
  t.notOk(JSON.stringify(models).includes('internal'));
  const asked = await office.customer.ask('/chat/completions', {
    body: { model: 'none-such', messages: [] },
  });
  const id = asked.headers.get('x-request-id') as string;
  await until(
    async () => (await office.sql`select from request_trail where request_id = ${id}`).length > 0,
    'kept',
  );
  await office.sql`update request_trail set upstream_reason = 'deployment secret-7' where request_id = ${id}`;
  t.match(await send(office, token, ['GET', `/requests/${id}`]), {
    body: { upstream_reason: 'deployment secret-7' },
  });
  const { status, body } = await send(office, owners, [
    'GET',
    `/companies/${company}/requests/${id}`,
  ]);
  t.match({ status, body }, { status: 200, body: { request_id: id, upstream_reason: null } });
  const { body: ledger } = await send(office, owners, ['GET', `/companies/${company}/ledger`]);
  t.notOk(String(ledger).includes('upstream_model'));
});

t.test("a company's token leaves the company an owner; an operator's need not", async (t) => {
  const { company: small } = await office.newCustomer();
  const theirs = await newToken(office, { company_id: small });
  const [{ id }] = await office.sql<[{ id: string }]>`
    insert into users (email, company_id, role) values ('only@small.example', ${small}, 'owner') returning id`;
  const path = `/companies/${small}/users/${id}`;
  t.match(await send(office, theirs, ['PATCH', path], { role: 'member' }), {
    status: 409,
    body: { detail: /last owner/ },
  });
  t.match(await send(office, theirs, ['DELETE', path]), { status: 409 });
  t.match(await send(office, token, ['PATCH', path], { role: 'member' }), {
    status: 200,
    body: { role: 'member' },
  });
});

t.test('a closed company is read, and not changed until it is opened again', async (t) => {
  const { company: ended } = await office.newCustomer();
  const path = `/companies/${ended}`;
  t.equal((await send(office, token, ['POST', `${path}/close`])).status, 200);
  t.match(await send(office, token, ['POST', `${path}/keys`], KEY), {
    status: 409,
    body: { detail: /closed/ },
  });
  t.equal((await send(office, token, ['GET', `${path}/export`])).status, 200);
  const wrong = await send(office, token, ['POST', `${path}/erase`], { name: 'Another' });
  t.match(wrong, { status: 409, body: { detail: /give it to confirm/ } });
  t.equal((await send(office, token, ['POST', `${path}/reopen`])).status, 200);
  t.match(
    await send(office, token, ['GET', `${path}/erasure`]),
    { status: 409 },
    'an open one is not erased',
  );
});

t.test(
  'keys are looked for with a token that only reads; a price that has begun stays',
  async (t) => {
    t.match(await send(office, reader, ['POST', '/keys/find'], { text: office.customer.key }), {
      status: 200,
      body: { looked_up: 1, data: [{ company_id: company, state: 'active' }] },
    });
    const many = Array.from(
      { length: 1001 },
      (_, n) =>
        `svc_${String(n)
          .padStart(32, 'a')
          .replaceAll(/\d/g, (d) => 'bcdefghijk'[Number(d)] as string)}`,
    );
    const flood = await send(office, reader, ['POST', '/keys/find'], { text: many.join(' ') });
    t.match(flood, { status: 400, body: { errors: [{ pointer: '#/text' }] } });
    const { body: models } = await send(office, token, ['GET', '/models?slug=brand-chat']);
    const path = `/models/${models.data[0].id}/prices`;
    const { body: prices } = await send(office, token, ['GET', path]);
    t.match(await send(office, token, ['DELETE', `${path}/${prices.data[0].id}`]), { status: 409 });
    const gone = await send(office, token, ['POST', path], {
      valid_from: '2099-01-01',
      input: '1',
    });
    t.equal((await send(office, token, ['DELETE', `${path}/${gone.body.id}`])).status, 204);
    t.match(await send(office, token, ['GET', `${path}?cursor=${gone.body.id}`]), {
      status: 400,
      body: { errors: [{ pointer: '?cursor', detail: /begin at the first page/ }] },
    });
    const past = await send(office, token, ['POST', path], {
      valid_from: '2020-01-01',
      input: '1',
    });
    t.match(past, { status: 409, body: { detail: /five seconds/ } });
    const wrong = await send(office, token, ['POST', path], {
      valid_from: '2027-02-30',
      input: '1e3',
    });
    t.same(wrong.body.errors.map(({ pointer }: { pointer: string }) => pointer).sort(), [
      '#/input',
      '#/valid_from',
    ]);
  },
);

t.test('all mistakes of a body and a query are told at once, with pointers', async (t) => {
  const bad = {
    name: '',
    scopes: ['chat', 'shell'],
    monthly_budget_eur: 5,
    max_concurrent: 0,
    'a/b': 1,
  };
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
  t.same(query.body.errors.map(({ pointer }: { pointer: string }) => pointer).sort(), [
    '?colour',
    '?limit',
  ]);
  t.match(await send(office, token, ['GET', '/companies?limit=1&limit=2']), { status: 400 });
  const companies = `${office.adminUrl}/api/v1/companies`;
  t.match(await ask(companies, { key: token, body: '{"name":' }), {
    status: 400,
    json: { detail: 'The body is not JSON.' },
  });
  t.match(
    await ask(companies, { key: token, body: 'name=x', headers: { 'content-type': 'text/plain' } }),
    {
      status: 415,
    },
  );
  const changed = `${companies}/${company}`;
  for (const [type, status] of [
    ['application/merge-patch+json', 200],
    ['Application/Merge-Patch+JSON; charset=utf-8', 200],
    ['application/json', 200],
    ['application/json-patch+json', 415],
    ['application/jsonl', 415],
    ['text/json', 415],
  ] as const) {
    const body = '{"requests_per_minute":600,"monthly_budget_eur":null}';
    const asked = { method: 'PATCH', key: token, body, headers: { 'content-type': type } };
    t.equal((await ask(changed, asked)).status, status, type);
  }
  const json = { 'content-type': 'application/json', authorization: `Bearer ${token}` };
  const latin = { method: 'POST', headers: json, body: Buffer.from('{"name":"Müller"}', 'latin1') };
  t.match(await (await fetch(companies, latin)).json(), {
    status: 400,
    detail: 'The body is not in UTF-8.',
  });
  t.match(await send(office, token, ['POST', '/companies'], { name: 'Half \ud83d' }), {
    body: { errors: [{ pointer: '#/name', detail: 'has half a character' }] },
  });
  const people = `/companies/${company}/invitations`;
  for (const email of [
    'a\0b@customer.example',
    'a@customer\u0007.example',
    'op\u200b@customer.example',
  ]) {
    const refused = await send(office, token, ['POST', people], { email, role: 'member' });
    t.match(refused, { status: 400, body: { errors: [{ pointer: '#/email' }] } });
  }
  for (const [character, code] of Object.entries({
    '\u200b': 'U+200B',
    '\ufeff': 'U+FEFF',
    '\u00a0': 'U+00A0',
  })) {
    for (const email of [`op${character}im@customer.example`, `op@custo${character}mer.example`]) {
      const refused = await send(office, token, ['POST', people], { email, role: 'member' });
      const detail = new RegExp(`^must not hold ${code.replace('+', '\\+')}`);
      t.match(refused, { status: 400, body: { errors: [{ pointer: '#/email', detail }] } }, email);
    }
  }
  for (const email of [
    '\u212aim@customer.example',
    'müller@customer.example',
    'a b@customer.example',
    'a@b@customer.example',
    '@customer.example',
  ]) {
    const detail = /^must be an address such as/;
    const refused = await send(office, token, ['POST', people], { email, role: 'member' });
    t.match(refused, { status: 400, body: { errors: [{ pointer: '#/email', detail }] } }, email);
  }
  const late = newRequestId(2 ** 48 - 1); // of the year 10889
  for (const path of ['', `/companies/${company}`]) {
    t.match(await send(office, token, ['GET', `${path}/requests?cursor=${late}`]), { status: 400 });
    t.match(await send(office, token, ['GET', `${path}/requests/${late}`]), { status: 404 });
  }
  t.match(await send(office, token, ['GET', '/companies/me']), { status: 404 });
  t.match(await send(office, token, ['PATCH', `/companies/${company}`], {}), { status: 400 });
});

t.test('what is refused before an operation is looked for has problem details too', async (t) => {
  const busy = await newToken(office);
  const list = ['GET', '/companies'] as const;
  t.equal((await send(office, busy, list)).status, 200);
  const refused = [
    await send(office, busy, ['PUT', '/companies'], { name: 'x' }),
    ...(await Promise.all(Array.from({ length: 100 }, () => send(office, busy, list)))),
  ].filter(({ status }) => status !== 200);
  t.same([...new Set(refused.map(({ status }) => status))].sort(), [405, 503]);
  t.equal(refused[0]?.headers.get('allow'), 'GET, HEAD, POST, PATCH, DELETE');
  for (const { status, headers, body } of refused) {
    t.equal(headers.get('content-type'), 'application/problem+json');
    t.match(body, { type: 'about:blank', status, title: String, detail: /^[A-Z].*\.$/ });
  }
});

t.test('If-Match: what somebody changed meanwhile is not overwritten', async (t) => {
  const path = `/companies/${company}`;
  const { headers } = await send(office, token, ['GET', path]);
  const etag = headers.get('etag') as string;
  t.equal(
    (await send(office, token, ['GET', path], undefined, { 'if-none-match': etag })).status,
    304,
  );
  for (const [known, status] of [
    [`W/${etag}`, 304],
    [`"none", ${etag}`, 304],
    ['*', 304],
    ['"none"', 200],
  ] as const) {
    t.equal(
      (await send(office, token, ['GET', path], undefined, { 'if-none-match': known })).status,
      status,
      known,
    );
  }
  const first = await send(
    office,
    token,
    ['PATCH', path],
    { monthly_budget_eur: '70' },
    { 'if-match': etag },
  );
  t.equal(first.status, 200);
  const stale = await send(
    office,
    token,
    ['PATCH', path],
    { monthly_budget_eur: '80' },
    { 'if-match': etag },
  );
  t.equal(stale.status, 412);
  const now = first.headers.get('etag') as string;
  const both = await Promise.all(
    ['81', '82'].map((eur) =>
      send(office, token, ['PATCH', path], { monthly_budget_eur: eur }, { 'if-match': now }),
    ),
  );
  t.same(both.map(({ status }) => status).sort(), [200, 412], 'of two at once one wins');
});

t.test(
  'of two lists of disabled models at once the later one holds: they are not added up',
  async (t) => {
    const { company: busy } = await office.newCustomer();
    const set = (slug: string) =>
      send(office, token, ['PATCH', `/companies/${busy}`], { disabled_model_slugs: [slug] });
    let both: ReturnType<typeof set>[] = [];
    await office.sql.begin(async (sql) => {
      await sql`select from companies where id = ${busy} for update`;
      both = [set(CHAT), set(EMBED)];
      await until(
        () =>
          office.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        'both wait for the company',
        ({ length }) => length === 2,
      );
    });
    const lists = (await Promise.all(both)).map(({ body }) => body.disabled_model_slugs);
    t.same(lists, [[CHAT], [EMBED]], 'each is answered with its own');
    const [{ now }] = await office.sql<[{ now: string[] }]>`
    select disabled_model_slugs as now from companies where id = ${busy}`;
    t.ok(now.length === 1, `${now}`);
  },
);

t.test('an idempotency key: the same answer again, the text of a key for a minute', async (t) => {
  const headers = { 'idempotency-key': 'order 4711' };
  const create = () => send(office, token, ['POST', `/companies/${company}/keys`], KEY, headers);
  const [first, again] = await Promise.all([create(), create()]);
  t.equal(first.status, 201);
  t.same(again.body, first.body, 'both at once make one key');
  t.match(first.body.key, /^svc_/);
  const other = await send(
    office,
    token,
    ['POST', `/companies/${company}/keys`],
    { ...KEY, name: 'Other' },
    headers,
  );
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
  t.equal(
    (await send(office, token, ['POST', `/companies/${company}/keys`], bad, refused)).status,
    409,
  );
  t.equal(
    (await send(office, token, ['POST', `/companies/${company}/keys`], KEY, refused)).status,
    201,
    'a refusal takes no key',
  );
});

t.test('a request under an idempotency key waits for no request of another token', async (t) => {
  const { company: other } = await office.newCustomer();
  const theirs = await newToken(office, { company_id: other });
  const create = (key: string, by = owners, of = company) =>
    send(office, by, ['POST', `/companies/${of}/keys`], KEY, { 'idempotency-key': key });
  const age = (key: string, by: string) =>
    office.sql`update idempotent_answers set created_at = now() - ${by}::interval where key_digest = sha256(${key}::bytea)`;
  await create('two days ago');
  await create('two minutes ago');
  t.equal(
    (await age('two days ago', '2 days')).count + (await age('two minutes ago', '2 minutes')).count,
    2,
  );
  let waiting: ReturnType<typeof create> | undefined;
  await office.sql.begin(async (sql) => {
    await sql`select from companies where id = ${company} for update`;
    waiting = create('now');
    await until(
      () =>
        office.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      'the request waits for its company',
      ({ length }) => length > 0,
    );
    t.equal((await create('now', theirs, other)).status, 201);
    const old =
      await office.sql`select from idempotent_answers where created_at < now() - interval '1 day'
      or (secret is not null and created_at < now() - interval '1 minute')`;
    t.equal(old.length, 0, 'what is kept no longer is gone all the same');
  });
  t.equal((await waiting)?.status, 201);
});

t.test(
  'a list is read page by page: none is skipped or repeated while others are created',
  async (t) => {
    const { company: large } = await office.newCustomer();
    await office.sql`insert into api_keys (company_id, name, digest, prefix, scopes)
    select ${large}, 'key ' || n, sha256((${large} || n)::bytea), 'sk-aaaaa', '{chat}' from generate_series(1, 25) as n`;
    const before = new Set(
      (await office.sql<{ id: string }[]>`select id from api_keys where company_id = ${large}`).map(
        ({ id }) => id,
      ),
    );
    const seen: string[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const more: string = cursor === '' ? '' : `&cursor=${cursor}`;
      const { body } = await send(office, reader, [
        'GET',
        `/companies/${large}/keys?limit=10${more}`,
      ]);
      seen.push(...body.data.map(({ id }: { id: string }) => id));
      cursor = body.next_cursor;
      await send(office, token, ['POST', `/companies/${large}/keys`], KEY);
    }
    t.equal(new Set(seen).size, seen.length, 'none twice');
    t.ok(
      [...before].every((id) => seen.includes(id)),
      'none is missing',
    );
  },
);

t.test('keys are listed by their state, and changes in pages of any length', async (t) => {
  const { company: mixed } = await office.newCustomer();
  await office.sql`delete from api_keys where company_id = ${mixed}`;
  await office.sql`insert into api_keys (company_id, name, digest, prefix, scopes, expires_at, revoked_at)
    select ${mixed}, state, sha256((${mixed} || state)::bytea), 'sk-aaaaa', '{chat}',
      case state when 'expired' then now() - interval '1 hour' end, case state when 'revoked' then now() end
    from unnest(array['active', 'expired', 'revoked']) as state`;
  const names = async (query: string) => {
    const { body } = await send(office, reader, ['GET', `/companies/${mixed}/keys?${query}`]);
    return body.data.map(({ name }: { name: string }) => name).sort();
  };
  for (const state of ['active', 'expired', 'revoked'])
    t.same(await names(`state=${state}`), [state]);
  t.same(await names('limit=200'), ['active', 'expired', 'revoked']);
  t.same(await names('state=active&name=expired'), []);

  const whole = (await send(office, reader, ['GET', `/companies/${mixed}/audit?limit=200`])).body;
  t.same([whole.data.length > 3, whole.next_cursor], [true, null]);
  const seen: number[] = [];
  for (let cursor: string | null = ''; cursor !== null; ) {
    const more: string = cursor === '' ? '' : `&cursor=${cursor}`;
    const { body } = await send(office, reader, [
      'GET',
      `/companies/${mixed}/audit?limit=2${more}`,
    ]);
    t.ok(body.data.length <= 2);
    seen.push(...body.data.map(({ id }: { id: number }) => id));
    cursor = body.next_cursor;
  }
  t.same(
    seen,
    whole.data.map(({ id }: { id: number }) => id),
  );
  t.equal(
    (await send(office, reader, ['GET', '/audit?limit=1&search=active'])).body.data.length,
    1,
  );
});

t.test(
  'a page of long assistants, keys or companies has fewer of them, and all pages have all',
  async (t) => {
    const { company: wordy } = await office.newCustomer();
    await office.sql`insert into assistants (company_id, name, system_prompt)
    select ${wordy}, 'A' || n, repeat('x', 900000) from generate_series(1, 5) as n`;
    const pages: number[] = [];
    for (let cursor: string | null = ''; cursor !== null; ) {
      const more: string = cursor === '' ? '' : `?cursor=${cursor}`;
      const { body } = await send(office, reader, ['GET', `/companies/${wordy}/assistants${more}`]);
      pages.push(body.data.length);
      cursor = body.next_cursor;
    }
    t.same(pages, [2, 2, 1]);

    // 1000 names of 125 bytes in each, of which Postgres stores a few KB
    const slugs = office.sql`array(select repeat('a', 121) || m from generate_series(1000, 1999) m)`;
    const texts = Array.from(
      { length: 20 },
      (_, n) => `svc_${'a'.repeat(30)}${'abcd'[n >> 2]}${'abcde'[n % 5]}`,
    );
    await office.sql`insert into api_keys (company_id, name, digest, prefix, scopes, allowed_model_slugs)
    select ${wordy}, 'long', sha256(x::bytea), 'svc_aaaa', '{chat}', ${slugs} from unnest(${texts}::text[]) x`;
    await office.sql`insert into companies (name, disabled_model_slugs) select 'long', ${slugs} from generate_series(1, 20)`;
    for (const path of [`/companies/${wordy}/keys`, '/companies']) {
      const first = await send(office, reader, ['GET', `${path}?name=long`]);
      const rest = await send(office, reader, [
        'GET',
        `${path}?name=long&cursor=${first.body.next_cursor}`,
      ]);
      t.same(
        [first, rest].map(({ body }) => [body.data.length, body.next_cursor === null]),
        [
          [15, false],
          [5, true],
        ],
        path,
      );
    }
    const find = (some: string[]) =>
      send(office, token, ['POST', `/companies/${wordy}/keys/find`], { text: some.join(' ') });
    t.equal((await find(texts.slice(0, 15))).body.data.length, 15);
    t.match(await find(texts), {
      status: 409,
      body: { detail: /more than 2 MiB: look for fewer/ },
    });
    const { company: none } = await office.newCustomer();
    t.same((await send(office, reader, ['GET', `/companies/${none}/assistants`])).body, {
      data: [],
      next_cursor: null,
    });
  },
);

t.test('usage names the thousand dearest cost centres, and says how many there are', async (t) => {
  const { company } = await office.newCustomer();
  const rows = Array.from({ length: 1200 }, (_, i) => ({
    company,
    center: `centre ${i}`,
    prompt: i + 1,
    input: '1',
  }));
  await addUsage(office.sql, rows);
  const { body } = await send(office, token, ['GET', `/companies/${company}/usage?month=2026-11`]);
  t.equal(body.by_cost_center.length, 1000);
  t.match(body.by_cost_center[0], { cost_center: 'centre 1199', cost_eur: '1.2' });
  t.equal(body.by_key.length, 1000);
  t.same(body.counts, { by_model: 1, by_endpoint: 1, by_key: 1200, by_cost_center: 1200 });
  t.match(body, { requests: 1200, total_cost_eur: '720.6' }, 'the sums are of all');
  const { answer } = OPERATIONS.find(({ id }) => id === 'getUsage') as (typeof OPERATIONS)[number];
  const ajv = new Ajv2020({ strict: false, validateFormats: false });
  t.ok(ajv.validate(answer as object, body), ajv.errorsText());
});

t.test(
  'the people and tokens of a company change so much in an hour, and others feel nothing',
  async (t) => {
    const { company: busy } = await office.newCustomer();
    const [first, second] = [
      await newToken(office, { company_id: busy }),
      await newToken(office, { company_id: busy }),
    ];
    const change = ['POST', `/companies/${busy}/keys`] as const;
    const long = { ...KEY, name: 'x'.repeat(1 << 19) };
    for (let i = 0; i < 63; i++) t.equal((await send(office, first, change, long)).status, 400);
    t.equal((await send(office, second, change, KEY)).status, 201, 'a small one still fits');
    // small bodies of which the audit log keeps much
    const allowed_model_slugs = Array.from({ length: 1000 }, (_, i) => `a${i}`.padEnd(127, 'x'));
    await office.sql`
    insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
    select slug, ${busy}, 'internal', 'chat', true, 1, 1 from unnest(${allowed_model_slugs}::text[]) as t (slug)`;
    let { body: key } = await send(office, first, change, { ...KEY, allowed_model_slugs });
    for (let i = 0; i < 2; i++) {
      const rotated = await send(office, first, ['POST', `${change[1]}/${key.id}/rotate`], {
        overlap_seconds: 0,
      });
      t.equal(rotated.status, 201);
      key = rotated.body;
    }
    for (const token of [first, second]) {
      const { status, headers, body } = await send(office, token, change, KEY);
      t.match(
        { status, body },
        {
          status: 429,
          body: { detail: /^The users and administration tokens .* Try again in \d+ minutes\.$/ },
        },
      );
      t.ok(Number(headers.get('retry-after')) > 3000);
    }
    t.equal(
      (await send(office, first, ['GET', `/companies/${busy}/keys`])).status,
      200,
      'reading goes on',
    );
    await office.sql`insert into users (email, company_id, role, password_hash)
    values ('busy@customer.example', ${busy}, 'owner', ${cheapHash(PASSWORD)})`;
    const person = new Person(office.adminUrl);
    await person.signIn('busy@customer.example');
    const page = await person.post(`/companies/${busy}/settings`, { budget: '7' });
    t.match(
      [page.status, page.text],
      [429, /Too many changes.*have made changes of 32 MiB within an hour/s],
    );
    t.ok(Number(page.headers.get('retry-after')) > 3000);
    t.equal((await person.get(`/companies/${busy}/settings`)).status, 200);
    for (const path of ['playground', 'playground/stream']) {
      const trial = await person.post(`/companies/${busy}/${path}`, {
        model: CHAT,
        prompt: 'Hello',
      });
      t.equal(trial.status, 200, 'a trial is no change');
    }
    t.equal((await send(office, owners, ['POST', `/companies/${company}/keys`], KEY)).status, 201);
    t.equal((await send(office, token, change, KEY)).status, 201, 'operators are not counted');
  },
);

t.test('events of a company that is not there are not sent again', async (t) => {
  const asked = {
    company_id: '00000000-0000-4000-8000-000000000000',
    since: '2026-01-01T00:00:00Z',
  };
  t.match(await send(office, token, ['POST', '/events/replay'], asked), { status: 404 });
});

t.test('neither tokens nor keys reach the log or the audit log', async (t) => {
  const { body } = await send(office, token, ['POST', `/companies/${company}/keys`], KEY);
  await until(
    async () => (await office.sql`select from audit_log where subject_id = ${body.id}`).length > 0,
    'audited',
  );
  const [{ text }] = await office.sql<
    [{ text: string }]
  >`select string_agg(a::text, ' ') as text from audit_log a`;
  for (const secret of [token, owners, body.key]) {
    t.notOk(text.includes(secret));
    t.notOk(office.logged.join('').includes(secret));
  }
});

t.test(
  'nothing of it is on the port of the API: each address is one that it does not know',
  async (t) => {
    const told = async (path: string, body?: object) => {
      const { status, text } = await ask(new URL(path, office.url).href, { key: token, body });
      return { status, text: text.replaceAll(path, '') };
    };
    const unknown = await told('/some/thing');
    t.equal(unknown.status, 404);
    for (const path of [
      '/api/v1/openapi.json',
      '/api/v1/companies',
      '/api/v1/status',
      `/api/v1/companies/${company}/keys`,
    ]) {
      t.same(await told(path), unknown, path);
    }
    t.same(
      await told('/api/v1/companies', { name: 'x' }),
      await told('/some/thing', { name: 'x' }),
    );
  },
);
