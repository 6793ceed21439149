import t from 'tap';
import { newToken, send } from '../api/tokens.ts';
import { signedIn, startOffice, textOf } from '../people.ts';

/** The audit log of a company, as its owner sees it. */

const office = await startOffice(t, { BILLING_TIMEZONE: 'Europe/Berlin' });
const { sql, customer } = office;
const path = `/companies/${customer.company}/audit`;
const owner = await signedIn(office, 'owner');
const operator = await signedIn(office, 'operator');
/** The table of changes, without the rest of the page. */
const changes = async (query = '') =>
  textOf(/<table[\s\S]*<\/table>/.exec((await owner.get(path + query)).text)?.[0] ?? '');

t.test('it has what its people and operators changed, and who', async (t) => {
  await owner.post(`/companies/${customer.company}/settings`, { budget: '250' });
  await operator.post(`/companies/${customer.company}/ceilings`, {
    credit_limit: '900',
    eu_locked: 'true',
  });
  await sql`update companies set name = 'Other name' where id = ${customer.company}`;
  const log = await changes();
  t.match(log, /operator changed company Other name name Nordlicht Verlag Other name/, 'SQL');
  t.match(
    log,
    /operator changed company Nordlicht Verlag [\w ]+, [\w ]+ (eu locked no yes credit limit none €900\.00|credit limit none €900\.00 eu locked no yes)/,
  );
  t.match(
    log,
    /owen@customer\.example changed company Nordlicht Verlag [^€]*monthly budget none €250\.00/,
  );
  t.notMatch(log, office.people.operator);
  t.match((await operator.get('/audit')).text, office.people.operator, 'operators see each other');
});

t.test('keys are links to their pages, unless they or their company were removed', async (t) => {
  const { company } = await office.newCustomer();
  const [{ id }] = await sql<
    [{ id: string }]
  >`select id from api_keys where company_id = ${company}`;
  const link = `href="/companies/${company}/keys/${id}"`;
  t.match((await operator.get('/audit')).text, link);
  t.match((await operator.get(`/companies/${company}/audit`)).text, link);
  await sql`delete from companies where id = ${company}`;
  t.notMatch((await operator.get('/audit')).text, link);
});

t.test('operators are not found by their address, nor is the database user', async (t) => {
  const [me] = await sql<[{ name: string }]>`select session_user::text as name`;
  t.match(await changes('?q=OWEN@'), 'owen@customer.example');
  t.equal(await changes(`?q=${office.people.operator}`), '');
  t.notMatch(await changes(`?q=operator`), new RegExp(`by SQL| ${me.name} `));
  t.not(await changes('?q=operator'), '');
});

t.test('it is searched by the words of its page, in the language of its reader', async (t) => {
  const { company } = await office.newCustomer();
  await sql`update api_keys set revoked_at = now() where company_id = ${company}`;
  await sql`update users set company_id = ${company} where email = ${office.people.owner}`;
  const rows = async (search: string, language: string) =>
    (
      await owner.get(`/companies/${company}/audit?q=${search}`, { 'accept-language': language })
    ).text.match(/<tr/g)?.length;
  t.equal(await rows('widerrufen', 'de'), 2);
  t.equal(await rows('revoked', 'en'), 2);
  t.equal(await rows('revoked', 'de'), 2, 'the name of the column');
  t.equal(await rows('widerrufen', 'en'), undefined);
  await sql`update users set company_id = ${customer.company} where email = ${office.people.owner}`;
});

t.test('internal model names never show, nor that of a model that was removed', async (t) => {
  await office.part(customer, 'own-model', 'provider/internal-one');
  await sql`update models set upstream_model = 'provider/internal-two', cost_eur_per_1k_input = 0.75 where slug = 'own-model'`;
  await sql`delete from models where slug = 'own-model'`;
  const log = await changes();
  t.match(log, /created model own-model/);
  t.match(log, /changed model own-model input price €0\.50 €0\.75/);
  t.match(log, /removed model own-model/);
  t.notMatch((await owner.get(path)).text, /internal-|upstream_model/);
  t.equal(await changes('?q=internal-one'), '');
  t.match((await operator.get('/audit')).text, /internal-two/);
});

t.test('amounts, times and choices are as the other pages of the reader have them', async (t) => {
  await sql`update companies set budget_mode = 'strict', monthly_budget_eur = 160.06, language = 'de' where id = ${customer.company}`;
  const at = '2026-07-01T00:30:00Z';
  await sql`insert into api_keys (company_id, name, digest, prefix, scopes, expires_at, monthly_budget_eur)
    values (${customer.company}, 'Dated', ${Buffer.alloc(32, 77)}, 'svc_date', '{chat,assistants}', ${at}, 1234.5)`;
  const german = textOf((await owner.get(path, { 'accept-language': 'de-DE' })).text);
  t.match(german, /Monatsbudget (?:\S+\s€|leer) 160,06\s€/);
  t.match(german, /Art des Budgets normal strikt/);
  t.match(german, /Sprache leer Deutsch/);
  t.match(german, /Berechtigungen Chat, Assistenten/);
  t.match(german, /Monatsbudget 1\.234,50\s€/);
  t.match(german, /gültig bis 01\.07\.2026, 02:30/, 'in the billing time zone');
  await sql`update companies set budget_mode = 'standard', language = null where id = ${customer.company}`;
});

t.test(
  'who was one of its people keeps the name; an operator who made a key does not get one',
  async (t) => {
    const administrator = await signedIn(office, 'administrator');
    const key = { id: crypto.randomUUID(), name: 'By Ada', scope: ['chat'], claim: 'a'.repeat(43) };
    await administrator.post(`/companies/${customer.company}/keys/create`, key);
    await operator.post(`/companies/${customer.company}/keys/create`, {
      ...key,
      id: crypto.randomUUID(),
      name: 'By Olga',
    });
    await sql`delete from users where email = ${office.people.administrator}`;
    const log = await changes();
    t.match(log, /ada@customer\.example created key By Ada/);
    t.match(log, /operator created key By Olga/);
    t.notMatch((await owner.get(path)).text, office.people.operator);
  },
);

t.test('a token of the company has its name, one of an operator has not', async (t) => {
  const own = await newToken(office, { name: 'Billing', company_id: customer.company });
  const all = await newToken(office, { name: 'Terraform' });
  const target = ['PATCH', `/companies/${customer.company}`] as const;
  await send(office, own, target, { monthly_budget_eur: '77' });
  await send(office, all, target, { monthly_budget_eur: '78' });
  const log = await changes();
  t.match(log, /operator changed company \S+ \S+ monthly budget €77\.00 €78\.00/);
  t.match(log, /token Billing changed company/);
  t.match(log, /created administration token Billing/);
  t.notMatch((await owner.get(path)).text, 'Terraform');
});

t.test('nothing of other companies, nor of what belongs to none, in pages of fifty', async (t) => {
  const { company: other } = await office.newCustomer();
  await sql`update companies set name = 'Rival' where id = ${other}`;
  await sql`update models set cost_eur_per_1k_input = 2 where company_id is null`;
  for (let i = 0; i < 60; i++) {
    await sql`update companies set requests_per_minute = ${i + 1} where id in ${sql([customer.company, other])}`;
  }
  const { text } = await owner.get(path);
  t.notMatch(text, /Rival|brand-chat/);
  t.equal(text.match(/requests per minute/g)?.length, 50);
  const next = /rel="next" href="([^"]+)"/.exec(text)?.[1]?.replaceAll('&amp;', '&') as string;
  t.ok(next.startsWith(`${path}?`));
  t.match((await owner.get(next)).text, /requests per minute/);
  t.equal(await changes('?q=Rival'), '');
  t.equal((await owner.get(`/companies/${other}/audit`)).status, 404);
});

t.test('amounts keep all their digits, on the page and for programs', async (t) => {
  const amount = '123456789012.123456789012345';
  await sql`update companies set credit_limit_eur = null, monthly_budget_eur = ${amount} where id = ${customer.company}`;
  t.match(await changes(), /monthly budget €[\d.]+ €123,456,789,012\.123456789012345/);
  const { body } = await send(office, await newToken(office), ['GET', '/audit']);
  const { after } = body.data.find(({ subject }: { subject: string }) => subject === 'companies');
  t.match(after, { monthly_budget_eur: amount, credit_limit_eur: null, requests_per_minute: 60 });
});
