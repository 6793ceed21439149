import t from 'tap';
import { ask } from '../../support/client.ts';
import { glance, signedInTab } from '../browser.ts';
import { signedIn, startOffice } from '../people.ts';

/** The first steps of a company's people in a real browser, in both languages. */

const office = await startOffice(t);
const { sql, people } = office;
const { company } = office.customer;
const base = `/companies/${company}`;
await sql`delete from api_keys where company_id = ${company}`;
await sql`delete from users where company_id = ${company} and role <> 'owner'`;

t.test('an owner creates a key, sees the first call come, and invites somebody', async (t) => {
  const { page, complaints } = await signedInTab(t, office, people.owner, { locale: 'en' });
  const steps = page.getByRole('region', { name: 'First steps' });
  await page.goto('/');
  await page.waitForURL(`**${base}/usage`);
  t.match(
    await steps.innerText(),
    /0 of 3 done.*A key.*The first call.*It needs a key.*A colleague/s,
  );
  t.same(await glance(page, 'owner-steps'), []);
  await steps.getByRole('link', { name: 'Create a key' }).click();
  await page.getByLabel('Name').fill('First');
  await page.getByRole('button', { name: 'Create key' }).click();
  const key = await page.locator('#key').innerText();
  await page.goto('/');
  const live = page.locator('#first-call');
  await live.getByText('No call has come yet').waitFor();
  const shown = await page.locator('#first-curl').innerText();
  t.match(shown, '-H "Authorization: Bearer $TOLLGATE_API_KEY"');
  t.notMatch(shown, key);
  await steps.getByText('In a program').click();
  t.match(await page.locator('#first-sdk').innerText(), office.url);
  await page.context().clearPermissions();
  const wrong = { key, body: { model: 'not-there', messages: [{ role: 'user', content: 'x' }] } };
  t.equal((await ask(`${office.url}/chat/completions`, wrong)).status, 404);
  await live.getByText('404').waitFor();
  await sql`
    insert into monthly_spend (company_id, billing_month, requests)
    values (${company}, billing_month(now())::date, 1)`;
  await live.getByText('This step is done.').waitFor(); // a call is booked before its request can be shown
  t.notMatch(await live.innerText(), '404', 'what was refused is not the call');
  const made = await ask(`${office.url}/chat/completions`, {
    key,
    body: JSON.parse(/-d '(.*)'$/.exec(shown)?.[1] ?? ''),
  });
  t.equal(made.status, 200);
  await live.getByText('200').waitFor(); // without a click
  t.equal(
    await live.getByRole('link').getAttribute('href'),
    `${base}/requests/${made.headers.get('x-request-id')}`,
  );
  t.same(await glance(page, 'owner-steps-called'), []);
  await page.goto('/');
  t.match(await steps.innerText(), /2 of 3 done/);
  await steps.getByRole('link', { name: 'Invite somebody' }).click();
  await page.getByLabel('E-mail address').fill('nora@customer.example');
  await page.getByRole('button', { name: 'Invite', exact: true }).click();
  await page.goto('/');
  await page.getByRole('heading', { name: /^Usage/ }).waitFor();
  t.equal(await steps.count(), 0);
  t.same(complaints, []);
});

t.test('in German, until last month had calls too', async (t) => {
  await sql`delete from invitations`;
  const { page, complaints } = await signedInTab(t, office, people.owner, { locale: 'de-DE' });
  const steps = page.getByRole('region', { name: 'Erste Schritte' });
  await page.goto(`${base}/usage`);
  t.match(await steps.innerText(), /2 von 3 sind erledigt/);
  t.same(await glance(page, 'owner-steps-german'), []);
  await sql`
    insert into monthly_spend (company_id, billing_month, requests)
    values (${company}, (billing_month(now()) - interval '1 month')::date, 1)`;
  await page.goto(`${base}/usage`);
  t.equal(await steps.count(), 0, 'a company that has begun needs no list');
  await sql`delete from monthly_spend where company_id = ${company}`;
  await page.goto(`${base}/usage`);
  t.match(await steps.innerText(), /1 von 3 sind erledigt/);
  t.same(await glance(page, 'owner-steps-german-call'), []);
  t.same(complaints, []);
});

t.test('nobody else sees the list of a company', async (t) => {
  const operator = await signedIn(office, 'operator');
  t.notMatch((await operator.get(`${base}/usage`)).text, 'id="first-steps"');
  const { company: foreign } = await office.newCustomer();
  const owner = await signedIn(office, 'owner');
  t.equal((await owner.get(`/companies/${foreign}/usage?watched`)).status, 404);
  t.equal((await owner.post('/first-call/dismiss')).status, 403);
});
