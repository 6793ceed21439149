import { gunzipSync } from 'node:zlib';
import t from 'tap';
import { ROUTES } from '../../../src/admin/pages.ts';
import { OPERATIONS } from '../../../src/operations/list.ts';
import { newToken, send } from '../api/tokens.ts';
import { signedIn, startOffice } from '../people.ts';

/** Customers learn that the operator did something, and not which person did. */

const office = await startOffice(t);
const { sql, people } = office;
const { company } = office.customer;
const base = `/companies/${company}`;
const operator = await signedIn(office, 'operator');
const owner = await signedIn(office, 'owner');
const OPERATOR = people.operator;
/** What would tell who of the operator it was, with what stands before it. */
const leaks = (text: string) =>
  [...text.matchAll(/.{0,50}(olga@tollgate\.example|Ansible)/g)].map(([found]) => found);
const keyForm = (name: string) => ({
  id: crypto.randomUUID(),
  name,
  scope: ['chat'],
  claim: 'a'.repeat(43),
});

const [byOperator, byOwner] = [keyForm('By Olga'), keyForm('By Owen')];
for (const [person, form] of [
  [operator, byOperator],
  [owner, byOwner],
] as const) {
  await person.post(`${base}/keys/create`, form);
}
await operator.post(`${base}/tokens`, { name: 'Deploy', access: 'read' });
await operator.post(`${base}/users`, { email: 'new@customer.example', role: 'member' });
await operator.post(`${base}/playground`, { model: 'brand-chat', prompt: 'Hello' });
const ofAll = await newToken(office, { name: 'Ansible' });
const ofCompany = await newToken(office, {
  name: 'Billing',
  company_id: company,
  created_by: OPERATOR,
});
await send(office, ofAll, ['POST', `${base}/keys`], { name: 'By program', scopes: ['chat'] });
const [playground] =
  await sql`select id, name, created_by from api_keys where purpose = 'playground'`;

t.test('pages', async (t) => {
  t.equal(playground?.created_by, OPERATOR);
  const keys = [byOperator.id, byOwner.id, playground?.id].map((id) => `${base}/keys/${id}`);
  const lists = ROUTES.filter(
    ({ method, path }) => method === 'GET' && /^\/companies\/:company\/[^:]*(?<!gz)$/.test(path),
  );
  t.ok(lists.length > 10);
  for (const path of [...keys, ...lists.map(({ path }) => path.replace(':company', company))]) {
    const { status, text } = await owner.get(path);
    t.ok(status < 500, path);
    t.same(leaks(text), [], path);
  }
  t.match(
    (await owner.get(`${base}/keys`)).text,
    /By Olga.*operator.*By Owen|By Owen.*By Olga.*operator/s,
  );
  t.match((await owner.get(`${base}/keys`)).text, people.owner, 'colleagues are named');
  t.match((await operator.get(`${base}/keys`)).text, OPERATOR, 'to operators everybody is');
  t.match((await operator.get(`${base}/keys/${playground?.id}`)).text, OPERATOR);
  t.match((await operator.get(`${base}/tokens`)).text, OPERATOR);
});

t.test('the search of keys', async (t) => {
  const found = async (person: typeof owner, text: string) =>
    (await person.get(`${base}/keys?q=${text}`)).text.includes('By Olga');
  t.equal(await found(owner, OPERATOR), false);
  t.equal(await found(owner, 'operator'), true);
  t.equal(await found(operator, OPERATOR), true);
});

t.test('HTTP', async (t) => {
  const lists = OPERATIONS.filter(
    ({ method, path }) => method === 'get' && /^\/companies\/{company}\/[^{]*$/.test(path),
  );
  for (const { path } of lists) {
    const { body } = await send(office, ofCompany, ['GET', path.replace('{company}', company)]);
    t.same(leaks(JSON.stringify(body)), [], path);
  }
  for (const path of ['/keys', `/keys/${byOperator.id}`, '/tokens', '/invitations']) {
    const { status, body } = await send(office, ofCompany, ['GET', base + path]);
    t.equal(status, 200, path);
    t.same(leaks(JSON.stringify(body)), [], path);
    t.match(JSON.stringify(body), '"created_by":"operator"', path);
    const { body: all } = await send(office, ofAll, ['GET', base + path]);
    t.match(JSON.stringify(all), OPERATOR, path);
  }
  const { body } = await send(office, ofCompany, ['PATCH', `${base}/keys/${byOperator.id}`], {
    name: 'Renamed',
  });
  t.match(body, { name: 'Renamed', created_by: 'operator' });
  const { body: own } = await send(office, ofCompany, ['POST', `${base}/keys`], {
    name: 'Own',
    scopes: ['chat'],
  });
  t.equal(own.created_by, 'token Billing');
  const { body: keys } = await send(office, ofCompany, ['GET', `${base}/keys?name=By%20Owen`]);
  t.match(keys.data, [{ created_by: people.owner }]);
});

t.test('the archive', async (t) => {
  const told = await fetch(`${office.adminUrl}/api/v1${base}/export`, {
    headers: { authorization: `Bearer ${ofCompany}` },
  });
  t.equal(told.status, 200);
  const archive = gunzipSync(Buffer.from(await told.arrayBuffer())).toString();
  t.same(leaks(archive), []);
  t.match(archive, people.owner);
  t.match(archive, '"created_by":"operator"');
});
