import t from 'tap';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { eventStore } from '../../../src/store/events/event.ts';
import { tollgate } from '../../support/cli.ts';
import { addUsage } from '../../support/usage.ts';
import { newToken, send } from '../api/tokens.ts';
import { sendsNothing, signedIn, startOffice, textOf } from '../people.ts';

/** Who behind a key cost what, by page, over HTTP and by command, and the erasure of a name by each of them. */

const office = await startOffice(t, {}, sendsNothing);
const { sql } = office;
const { company } = office.customer;
const base = `/companies/${company}/end-users`;
const owner = await signedIn(office, 'owner');
const [{ present }] = await sql<
  [{ present: string }]
>`select billing_month(now())::text as present`;
const month = present.slice(0, 7);
const at = new Date().toISOString();
const [{ key }] = await sql<
  [{ key: string }]
>`select id as key from api_keys where company_id = ${company} limit 1`;

/** Somebody new, who cost one euro for each thousand tokens. */
async function person(
  name: string,
  ...calls: readonly [model: string, prompt: number][]
): Promise<string> {
  const [row] =
    await sql`insert into end_users (company_id, name) values (${company}, ${name}) returning id`;
  const rows = calls.map(([model, prompt]) => ({
    company,
    key,
    month: present,
    at,
    model,
    prompt,
    input: '1',
    endUser: row?.id,
  }));
  await addUsage(sql, rows);
  return row?.id;
}

const ann = await person('ann@front.example', ['fast', 1000], ['solid', 2500]);
const token = await newToken(office, { company_id: company });
const bob = await person('<b>bob</b>', ['fast', 500]);
await addUsage(sql, [{ company, key, month: present, at, prompt: 9000, input: '1' }]);

t.test('the list has those who cost most first, and leads to a page of each', async (t) => {
  const page = await owner.get(base);
  t.match(page.text, 'aria-current="page">Usage<', 'the tab of usage');
  t.match(
    textOf(page),
    /ann@front\.example.*3\.50.*&lt;b&gt;bob&lt;\/b&gt;.*0\.50.*can name anybody/s,
  );
  t.notMatch(page.text, '<b>bob');
  t.match((await owner.get(`/companies/${company}/usage`)).text, 'href="end-users?month=');
  const one = textOf(await owner.get(`${base}/${ann}?month=${month}`));
  t.match(one, /ann@front\.example.*3\.50.*solid.*2\.50.*fast.*1\.00/s);
  t.match(
    textOf(await owner.get(`${base}?month=2020-01`)),
    'No call named anybody in January 2020',
  );
  t.match(await owner.get(`${base}/${company}`), { status: 404 });
});

t.test(
  'the page of one tells what is spent of what each key allows, in the present month',
  async (t) => {
    const told = async (query = '') => textOf(await owner.get(`${base}/${ann}${query}`));
    t.notMatch(await told(), /% of/);
    await sql`update api_keys set end_users = 'header', end_user_budget_eur = 5 where id = ${key}`;
    t.match(await told(), /Budget.*3\.50.*70% of €5\.00/s);
    const one = (await send(office, token, ['GET', `${base}/${ann}/usage`])).body;
    t.match(one.by_key, [{ id: key, end_user_budget_eur: '5' }]);
    await sql`update api_keys set end_user_budget_eur = 3 where id = ${key}`;
    t.match(await told(), /116\.6% of €3\.00.*reached: calls get 402/s);
    t.notMatch(await told('?month=2020-01'), /% of/);
    await sql`update api_keys set end_users = 'off' where id = ${key}`;
    t.notMatch(await told(), /% of/, 'no call is held to it');
  },
);

t.test('the list is searched, ordered, filtered and leads to all of them', async (t) => {
  const told = async (query: string) => {
    const page = await owner.get(`${base}?${query}`);
    const names = [
      ...page.text.matchAll(/end-users\/[0-9a-f-]{36}[^"]*">(?:<span[^>]*>)?([^<]*)/g),
    ];
    return { text: textOf(page), names: names.map(([, name]) => name) };
  };
  const bobs = '&lt;b&gt;bob&lt;/b&gt;';
  t.same((await told('q=ANN%40')).names, ['ann@front.example']);
  t.same((await told('q=front.exam')).names, ['ann@front.example'], 'by any part');
  t.same((await told(`q=${ann.slice(0, 8)}`)).names, ['ann@front.example'], 'by the id');
  t.match((await told('q=nobody')).text, 'Nothing matches');
  t.same((await told('sort=name')).names, [bobs, 'ann@front.example']);
  t.same((await told('sort=spent')).names, [bobs, 'ann@front.example']);
  await sql`update end_users set last_seen = now() - interval '3 days' where id = ${bob}`;
  t.same((await told('sort=-called')).names, ['ann@front.example', bobs]);
  t.match((await told('')).text, /bob.*3 days ago/s);
  t.notMatch((await told('')).text, /% of/);
  await sql`update api_keys set end_users = 'header', end_user_budget_eur = 3 where id = ${key}`;
  const both = await told('sort=-share');
  t.match(both.text, /ann@.*116\.6% of €3\.00.*bob.*16\.6% of €3\.00/s);
  t.same((await told('show=reached')).names, ['ann@front.example']);
  t.same((await told('show=reached&q=bob')).names, []);
  // a second key of the line counts with the first; another front end by itself
  const [line, other] = await sql<[{ id: string }, { id: string }]>`
    insert into api_keys (company_id, name, digest, prefix, scopes, rotated_from, end_users, end_user_budget_eur)
    select ${company}, n, sha256(n::bytea), 'zz', '{chat}', case n when 'line' then ${key}::uuid end, 'header', 0.9
    from unnest('{line, other}'::text[]) n returning id`;
  await addUsage(sql, [
    { company, key: line.id, month: present, at, prompt: 250, input: '1', endUser: bob },
    { company, key: other.id, month: present, at, prompt: 100, input: '1', endUser: bob },
  ]);
  t.match((await told('q=bob')).text, /0\.85.*83\.3% of €0\.90/s);
  await sql`delete from api_keys where id in (${line.id}, ${other.id})`;
  await sql`update api_keys set end_users = 'off' where id = ${key}`;
  t.notMatch((await told('')).text, /% of/, 'no call is held to it');
  t.notMatch((await told('month=2020-01')).text, 'Which end users');
  const people = await sql<{ id: string }[]>`
    insert into end_users (company_id, name) select ${company}, 'p' || n from generate_series(100, 219) n returning id`;
  await sql`insert into usage_end_user_days
    select ${company}, '2020-02-01', id, ${key}, '2020-02-03', 'fast', 1, 1, 1, 0.5 from unnest(${people.map(({ id }) => id)}::uuid[]) id`;
  const first = await told('month=2020-02&sort=name');
  t.match(first.text, '1 – 50 of 120');
  const last = await told('month=2020-02&sort=name&page=3');
  t.same([last.names.length, last.names.at(-1)], [20, 'p219']);
  await sql`delete from usage_end_user_days where billing_month = '2020-02-01'`;
  await sql`delete from end_users where name ~ '^p\\d'`;
});

t.test('administrators see them, owners erase, members do neither', async (t) => {
  const administrator = await signedIn(office, 'administrator');
  t.match((await administrator.get(`${base}/${bob}`)).text, 'bob');
  t.notMatch((await administrator.get(`${base}/${bob}`)).text, '/erase"');
  t.equal((await administrator.get(`${base}/${bob}/erase`)).status, 403);
  const member = await signedIn(office, 'member');
  for (const path of [base, `${base}/${bob}`, `${base}/${bob}/erase`])
    t.equal((await member.get(path)).status, 403, path);
});

t.test('an owner gives one person a budget of their own, in place of the key’s', async (t) => {
  await sql`update api_keys set end_users = 'header', end_user_budget_eur = 3 where id = ${key}`;
  const path = `${base}/${ann}`;
  const seen = (text: string) => /name="seen" value="([^"]*)"/.exec(text)?.[1] ?? '';
  const shown = await owner.get(path);
  t.match(textOf(shown), /116\.6% of €3\.00.*Own budget/s);
  const save = (budget: string, more: object = {}) =>
    owner.post(path, { budget, seen: seen(shown.text), ...more });
  for (const [text, why] of [
    ['0', 'must be above 0'],
    ['-1', 'must be'],
    ['x', 'must be'],
  ] as const)
    t.match([(await save(text)).status, textOf(await save(text))], [422, new RegExp(why)], text);
  const saved = await save('7');
  t.match([saved.status, saved.headers.get('location')], [303, `${path}?done=budget-saved`]);
  t.match(textOf(await owner.get(path)), /50% of €7\.00/);
  t.match(textOf(await owner.get(base)), /ann@.*50% of €7\.00.*bob.*16\.6% of €3\.00/s);
  t.notMatch(textOf(await owner.get(`${base}?show=reached`)), /ann@/);
  t.match((await send(office, token, ['GET', `${base}/${ann}/usage`])).body.by_key, [
    { id: key, end_user_budget_eur: '7' },
  ]);
  // whoever saves second is asked
  const stale = await save('8');
  t.match([stale.status, textOf(stale)], [409, /owen@customer\.example/]);
  t.match(await save('7'), { status: 303 }, 'the same once more changes nothing');
  const audit = await owner.get(`/companies/${company}/audit`);
  t.match(textOf(audit), new RegExp(`end user ${ann.slice(0, 8)}.*€7\\.00`, 's'));
  t.match(audit.text, `href="${path}"`);
  const log = await sql`select before, after from audit_log where subject = 'end_users'`;
  t.equal(log.length, 1);
  t.notMatch(JSON.stringify(log), 'front.example', 'no name is in it');
  // administrators and members may not, and strangers are not there
  for (const role of ['administrator', 'member'] as const) {
    const other = await signedIn(office, role);
    t.equal((await other.post(path, { budget: '1' })).status, 403, role);
  }
  t.notMatch((await (await signedIn(office, 'administrator')).get(path)).text, 'Own budget');
  const elsewhere = await office.newCustomer();
  t.equal(
    (await owner.post(`/companies/${elsewhere.company}/end-users/${ann}`, { budget: '1' })).status,
    404,
  );
  const operator = await signedIn(office, 'operator');
  const none = await operator.post(path, {
    budget: '',
    seen: seen((await operator.get(path)).text),
  });
  t.match(none.headers.get('location'), 'budget-removed');
  t.match(textOf(await owner.get(path)), /116\.6% of €3\.00/);
  await sql`update api_keys set end_users = 'off' where id = ${key}`;
});

t.test('whose calls are refused now is told by name, to operators and the company', async (t) => {
  const db = openDatabase({ url: office.databaseUrl });
  t.teardown(() => db.close());
  const operator = await signedIn(office, 'operator');
  const usage = `/companies/${company}/usage`;
  const link = `href="${base}/${ann}"`;
  await sql`update api_keys set end_users = 'header', end_user_budget_eur = 3 where id = ${key}`;
  await eventStore(db, db).lookAtCostCenters(null);
  const other = await office.newCustomer();
  await sql`update users set company_id = ${other.company} where email = ${office.people.administrator}`;
  for (const [person, path, isShown] of [
    [operator, '/', true],
    [owner, usage, true],
    [await signedIn(office, 'member'), `/companies/${company}/own/usage`, false],
    [await signedIn(office, 'administrator'), `/companies/${other.company}/usage`, false],
  ] as const)
    t.equal((await person.get(path)).text.includes(link), isShown, path);
  await sql`update users set company_id = ${company} where email = ${office.people.administrator}`;
  const { text } = await operator.get('/');
  t.match(text, `href="${base}?show=reached"`, 'it leads to all of the company');
  t.notMatch(text, `href="${base}/${bob}"`);
  t.match((await operator.get(`${base}?show=reached`)).text, `href="${base}/${ann}?`);
  await sql`update api_keys set end_user_budget_eur = 30 where id = ${key}`;
  t.notMatch((await owner.get(usage)).text, link, 'raised');
  await sql`update api_keys set end_users = 'off' where id = ${key}`;
});

t.test('an owner erases a name by page', async (t) => {
  const path = `${base}/${bob}/erase`;
  const asked = await owner.get(path);
  t.match(textOf(asked), 'is somebody new');
  const answer = await owner.post(path);
  t.match(answer, { status: 303 });
  const page = await owner.get(String(answer.headers.get('location')));
  t.match(textOf(page), /The name is erased\..*erased \(.{8}\).*0\.50/s, 'what it cost stays');
  t.notMatch(page.text, '/erase"');
  t.match(textOf(await owner.get(base)), /erased \(.{8}\)/);
  t.same([...(await sql`select name from end_users where id = ${bob}`)], [{ name: null }]);
  const audit = textOf(await owner.get(`/companies/${company}/audit`));
  t.match(audit, 'end user');
  t.notMatch(audit, 'bob');
  t.equal((await owner.post(`${base}/${bob}`, { budget: '5' })).status, 422, 'nobody is there');
});

t.test('programs list, read and erase them', async (t) => {
  const cy = await person('cy', ['fast', 250]);
  const listed = (await send(office, token, ['GET', base])).body.data.map(
    ({ id, name }: Record<string, string>) => [id, name],
  );
  t.same(new Map(listed).get(ann), 'ann@front.example');
  const all = (await send(office, token, ['GET', `/companies/${company}/usage-by-end-user`])).body;
  t.match(all, {
    month,
    count: 3,
    end_users: [{ id: ann, cost_eur: '3.5', requests: 2 }, {}, { id: cy, name: 'cy' }],
  });
  const one = (await send(office, token, ['GET', `${base}/${ann}/usage?month=${month}`])).body;
  t.match(one, {
    cost_eur: '3.5',
    by_model: [{ model_slug: 'solid' }, {}],
    by_key: [{ id: key, cost_eur: '3.5' }],
  });
  t.equal(one.by_day.length, 1);
  t.equal((await send(office, token, ['DELETE', `${base}/${cy}`])).status, 204);
  t.match(await send(office, token, ['GET', `${base}/${cy}`]), {
    body: { name: null, erased_at: /^20/ },
  });
  const foreign = await newToken(office, {
    company_id: (await sql`insert into companies (name) values ('Other') returning id`)[0]?.id,
  });
  t.not((await send(office, foreign, ['GET', `${base}/${ann}`])).status, 200);
});

t.test('commands list, sum up and erase them', async (t) => {
  const run = (...argv: string[]) => tollgate(argv, { env: { DATABASE_URL: office.databaseUrl } });
  const di = await person('di', ['fast', 100]);
  const list = await run('end-user', 'list', '--company', company);
  t.match(list.out, /ann@front\.example/);
  const summary = await run('usage', 'summary', '--company', company, '--by', 'end-user');
  t.match(summary.out, /END USER.*ann@front\.example +2 +3500 +0 +3\.5 .*\(erased\)/s);
  t.match(await run('end-user', 'erase', di), {
    code: 0,
    out: /name of the end user is erased\..*\berased +20\d\d-/s,
  });
  t.match(await run('end-user', 'erase', company), { code: 1, err: /There is no end user/ });
  t.same([...(await sql`select name from end_users where id = ${di}`)], [{ name: null }]);
});
