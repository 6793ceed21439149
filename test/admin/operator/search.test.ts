import { randomUUID } from 'node:crypto';
import t from 'tap';
import { costCenterPage } from '../../../src/domain/wording/alert.ts';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { trailStore } from '../../../src/store/gateway/request-trail.ts';
import { addRequests } from '../../support/requests.ts';
import { addUsage } from '../../support/usage.ts';
import { glance, signedInTab } from '../browser.ts';
import { signedIn, startOffice, textOf } from '../people.ts';

/** The search of the header. */

const office = await startOffice(t);
const { sql, customer } = office;
const db = openDatabase({ url: office.databaseUrl });
t.teardown(() => db.close());
const { company } = customer;
const other = await office.newCustomer();
await sql`update companies set name = 'Łódzka Grüne Müller' where id = ${other.company}`;
const operator = await signedIn(office, 'operator');
const owner = await signedIn(office, 'owner');
const member = await signedIn(office, 'member');
const at = (text: string) => `/search?${new URLSearchParams({ q: text })}`;
const main = (text: string) => /<main[^>]*>(.*)<\/main>/s.exec(text)?.[1] ?? '';
const search = async (person: typeof operator, text: string) =>
  main((await person.get(at(text))).text);

t.test('a company is found whatever the case and accents, and by its id', async (t) => {
  for (const text of ['muller', 'GRUENE', 'lodzka grune', 'Łódzka'])
    t.match(await search(operator, text), `href="/companies/${other.company}/usage"`, text);
  const { status, headers } = await operator.get(at(other.company.toUpperCase()));
  t.match([status, headers.get('location')], [303, `/companies/${other.company}/usage`]);
});

t.test(
  'keys are found by name and by the beginning of their prefix, with their company',
  async (t) => {
    const [{ id, name, prefix }] = await sql<[{ id: string; name: string; prefix: string }]>`
    select id, name, prefix from api_keys where company_id = ${other.company} and purpose is null limit 1`;
    const link = `href="/companies/${other.company}/keys/${id}"`;
    t.match(await search(operator, name), link);
    for (const text of [prefix, prefix.toUpperCase(), prefix.slice(0, -1), `${prefix}…`])
      t.match(await search(operator, text), link, text);
    t.match(textOf(await search(operator, prefix)), 'Łódzka Grüne Müller');
  },
);

t.test('a whole key leads to its page, and is not shown again', async (t) => {
  const { key } = other;
  const { status, headers } = await operator.get(at(`Authorization: Bearer ${key}`));
  t.match(
    [status, headers.get('location')],
    [303, new RegExp(`^/companies/${other.company}/keys/`)],
  );
  const { text } = await owner.get(at(key));
  t.match(textOf(main(text)), 'Nothing was found for a whole key', 'of another company');
  t.notMatch(text, key);
});

t.test('people and invitations are found by their address', async (t) => {
  await sql`insert into invitations (company_id, email, role, digest, expires_at)
    values (${company}, 'ines.guest@customer.example', 'member', decode(md5('a') || md5('b'), 'hex'), now() + interval '1 day')`;
  t.match(await search(operator, office.people.owner), /href="\/users\/[0-9a-f-]{36}"/);
  t.match(
    await search(operator, 'ines.guest'),
    `/companies/${company}/users?q=ines.guest%40customer.example`,
  );
  t.match(
    await search(owner, 'ines.guest'),
    `/companies/${company}/users?q=ines.guest%40customer.example`,
  );
});

t.test('statements are found by month and company, requests by their id', async (t) => {
  await sql`insert into statements (company_id, number, billing_month, requests, cost_eur, corrections, total_eur, content, previous, digest)
    values (${other.company}, 1, '2025-03-01', 0, 0, 0, 0, '{}', '', '')`;
  const link = `/companies/${other.company}/statements/month?month=2025-03`;
  t.match(await search(operator, '2025-03'), link);
  // as pages call it, and as others write it
  for (const month of [
    '2025-03',
    'March 2025',
    'märz 2025',
    'MAERZ 2025',
    'mar 2025',
    'Mär. 2025',
  ]) {
    t.match(await search(operator, month), link, month);
    t.match(await search(operator, `gruene muller ${month}`), link, month);
    t.notMatch(await search(operator, `nordlicht ${month}`), link, month);
  }
  for (const month of ['May 2025', 'Juni 2025', 'ma 2025', 'arch 2025', '2025-13'])
    t.notMatch(await search(operator, month), link, month);
  t.notMatch(await search(owner, '2025-03'), link);
  const [id = ''] = await addRequests(trailStore(db), [{ company }]);
  const own = await owner.get(at(` ${id} `));
  t.match([own.status, own.headers.get('location')], [303, `/companies/${company}/requests/${id}`]);
  t.equal((await operator.get(at(id))).headers.get('location'), `/requests/${id}`);
  const [foreign = ''] = await addRequests(trailStore(db), [{ company: other.company }]);
  t.match(textOf(await search(owner, foreign)), 'Nothing was found');
});

t.test('cost centres are found by name: those with a budget, and those of calls', async (t) => {
  await sql`insert into cost_center_budgets (company_id, name, monthly_budget_eur) values (${company}, 'Übersee Vertrieb', 10)`;
  const month = `${new Date().toISOString().slice(0, 7)}-01`;
  const call = { company: other.company, month, prompt: 1, input: '0.1', center: 'Marketing' };
  await db.run(60_000, (tx) => addUsage(tx, [call]));
  const budgeted = costCenterPage(company, 'Übersee Vertrieb').replaceAll('&', '&amp;');
  const called = costCenterPage(other.company, 'Marketing');
  for (const text of ['UEBERSEE', 'ubersee vertrieb']) {
    t.match(await search(operator, text), budgeted, text);
    t.match(await search(owner, text), budgeted, text);
  }
  t.match(await search(operator, 'marketing'), called);
  t.notMatch(await search(owner, 'marketing'), called, 'of another company');
  t.equal((await operator.get(called)).status, 200, 'it leads to its usage');
});

t.test('end users are found by the beginning of their name, and by their id', async (t) => {
  const names = ['anna@kunde.example', 'Jörg', '100%_\\', '6F9619FF-8B86-4D01-B42D-00CF4FC964FF'];
  const [anna, ...others] = await sql<{ id: string; name: string }[]>`
    insert into end_users (company_id, name) select ${other.company}, unnest(${names}::text[]) returning id, name`;
  if (anna === undefined) return;
  const page = ({ id }: { id: string }) => `/companies/${other.company}/end-users/${id}`;
  for (const text of ['anna', 'ANNA@kunde.example', ' anna@kunde.example '])
    t.match(await search(operator, text), page(anna), text);
  for (const each of others) t.match(await search(operator, each.name), page(each), each.name);
  for (const text of ['nna@kunde.example', 'anna@kunde.example.org', '%', '_', "anna'"])
    t.notMatch(await search(operator, text), page(anna), text);
  t.equal((await operator.get(at(anna.id))).headers.get('location'), page(anna));
  t.notMatch(await search(owner, 'anna@kunde.example'), 'kunde.example</a>', 'of another company');
  t.match((await owner.get(at(anna.id))).status, 200, 'nor by its id');
  const [own] =
    await sql`insert into end_users (company_id, name) values (${company}, 'annabel') returning id`;
  t.match(await search(owner, 'anna'), `/companies/${company}/end-users/${own?.id}`);
  t.notMatch(await search(member, 'anna'), 'annabel', 'members find nobody');
  t.match(textOf(await search(operator, 'nobody at all')), 'names of end users');
  await sql`select erase_end_user(${anna.id})`;
  t.notMatch(await search(operator, 'anna@kunde.example'), page(anna), 'erased');
  t.equal((await operator.get(at(anna.id))).status, 200, 'nor by the id');
});

t.test(
  'a company is chosen by any part of its name that no other has, whatever case and accents',
  async (t) => {
    await sql`insert into companies (id, name) values (${randomUUID()}, 'Quartz'), (${randomUUID()}, 'Quartz Bank')`;
    const choose = async (text: string, role = 'owner') => {
      const email = `${randomUUID()}@chosen.example`;
      const form = { email, role, company: text, password: 'correct horse battery' };
      const { status, text: page } = await operator.post('/users', form);
      const [row] = await sql<{ name: string }[]>`
      select c.name from users join companies c on c.id = company_id where email = ${email}`;
      return (
        row?.name ?? `${status} ${/(is not known|is the name of several)/.exec(textOf(page))?.[1]}`
      );
    };
    t.equal(await choose('quartz'), 'Quartz', 'the whole name goes before a part');
    t.equal(await choose('QUARTZ bánk'), 'Quartz Bank');
    t.equal(await choose('lodzka grune'), 'Łódzka Grüne Müller');
    t.equal(await choose('quar'), '422 is the name of several');
    t.equal(await choose('no such company'), '422 is not known');
  },
);

t.test('a second company of a name is asked about, and can be meant', async (t) => {
  const form = { name: 'quartz bank' };
  const { id, name } = { id: other.company, name: 'Łódzka Grüne Müller' };
  const asked = await operator.post(`/companies/${id}/name`, { name: form.name });
  t.match([asked.status, textOf(asked.text)], [409, /There is a company of this name already/]);
  t.equal(
    (await operator.post(`/companies/${id}/name`, { name })).status,
    303,
    'its own name is no other',
  );
  const meant = await operator.post(`/companies/${id}/name`, {
    name: form.name,
    confirmed: `name ${form.name}`,
  });
  t.equal(meant.status, 303);
  await sql`update companies set name = ${name} where id = ${id}`;
});

t.test('a company finds its own things and shared models, and no internal names', async (t) => {
  await office.part(other, 'other-model', 'hidden/internal-one');
  await office.part(customer, 'own-model', 'hidden/internal-two');
  for (const text of [
    'muller',
    'other-model',
    other.company,
    'internal-two',
    office.people.operator,
  ])
    t.match(textOf(await search(owner, text)), 'Nothing was found', text);
  t.match(await search(owner, 'own-model'), `/companies/${company}/models`);
  t.match(await search(operator, 'internal-two'), /href="\/models\/[0-9a-f-]{36}"/);
});

t.test('who may see nothing but their account has no search', async (t) => {
  t.notMatch((await member.get('/account')).text, 'action="/search"');
  t.match(textOf(await search(member, 'nordlicht')), 'Nothing was found');
});

t.test(
  'ten of a kind are shown, what is called exactly so first, and all of them in its list',
  async (t) => {
    await sql`insert into companies (id, name) select gen_random_uuid(), 'Reihe ' || i from generate_series(10, 40) i`;
    await sql`insert into companies (id, name) values (${randomUUID()}, 'Reihe')`;
    const found = await search(operator, 'reihe');
    t.equal([...found.matchAll(/href="\/companies\/[0-9a-f-]+\/usage"/g)].length, 10);
    t.match(textOf(found), /Companies Companies Reihe Reihe 10 /);
    t.match(found, 'href="/companies?q=reihe"');
  },
);

t.test('any text is searched, whatever it is', async (t) => {
  for (const text of [
    '',
    ' ',
    '\0',
    '%',
    '.*',
    '\\',
    "'; --",
    '(',
    '9'.repeat(500),
    '9999-99',
    '{}',
    '🦊',
    'ß',
  ])
    t.equal((await operator.get(at(text))).status, 200, JSON.stringify(text));
});

t.test('the key "/" leads to the search, but not from a field', async (t) => {
  const { page, complaints } = await signedInTab(t, office, office.people.operator);
  await page.goto('/companies');
  await page.keyboard.press('/');
  await page.keyboard.type('gruene/');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Search' }).waitFor();
  t.equal(new URL(page.url()).searchParams.get('q'), 'gruene/');
  await page.getByRole('searchbox', { name: 'Search everything' }).fill('lodzka');
  await page.getByRole('button', { name: 'Search everything' }).click();
  await page.getByRole('link', { name: 'Łódzka Grüne Müller' }).first().waitFor();
  t.same(await glance(page, 'search'), []);
  t.same(complaints, []);
});
