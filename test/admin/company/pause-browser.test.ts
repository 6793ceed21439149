import t from 'tap';
import { examine, openTab, signedInTab, signInTab, startBrowser } from '../browser.ts';
import { PASSWORD, startOwnOffice } from '../people.ts';

/** What people see of a pause: with the operator's address for questions, which an office of its own has. */

const office = await startOwnOffice(t, { BRAND_SUPPORT: 'help@tollgate.example' });
const { sql, people } = office;
const { company } = office.customer;
const base = `/companies/${company}`;
const [{ id }] = await sql<[{ id: string }]>`select id from api_keys where company_id = ${company}`;
await sql`update api_keys set name = 'Newsroom CMS' where id = ${id}`;

t.test('an owner pauses a key with a reason, and resumes it', async (t) => {
  const { page, complaints } = await signedInTab(t, office, people.owner);
  await page.goto(`${base}/keys/${id}`);
  t.same(await examine(page, 'key-to-pause'), []);
  await page.getByLabel('Reason').fill('The agency has left');
  await page.getByRole('button', { name: 'Pause key' }).click();
  await page.getByText('The key is paused. It is refused within a second.').waitFor();
  t.same(await examine(page, 'key-paused'), []);
  await page.getByRole('button', { name: 'Resume key' }).click();
  await page.getByText('The key is resumed.').waitFor();
  t.equal(await page.getByRole('button', { name: 'Resume key' }).count(), 0);
  t.same(complaints, []);
});

t.test(
  'an operator pauses a company; its owner signs in and reads why and whom to ask',
  async (t) => {
    const { page } = await signedInTab(t, office, people.operator);
    await page.goto(`${base}/settings`);
    await page.getByLabel('Reason').fill('The invoice of September is unpaid');
    t.same(await examine(page, 'company-to-pause'), []);
    await page.getByRole('button', { name: 'Pause company' }).click();
    await page.getByText('The company is paused. Its keys are refused within a second.').waitFor();
    t.same(await examine(page, 'company-paused'), []);
    await page.goto('/companies?show=paused');
    t.same(await examine(page, 'companies-paused'), []);
    await page.goto(`${base}/keys/${id}`);
    await page.getByLabel('Reason').fill('Requests from an address that nobody knows');
    await page.getByRole('button', { name: 'Pause key' }).click();
    await page.getByText('The key is paused.').waitFor();

    const tab = await openTab(await startBrowser(t), office.adminUrl, { locale: 'de-DE' });
    t.teardown(() => tab.page.context().close());
    await tab.page.goto('/sign-in');
    await tab.page.getByLabel('E-Mail-Adresse').fill(people.owner);
    await tab.page.getByLabel('Passwort').fill(PASSWORD);
    await tab.page.getByRole('button', { name: 'Anmelden' }).click();
    await tab.page.getByText('„The invoice of September is unpaid“').waitFor();
    t.same(await examine(tab.page, 'owner-of-paused-de'), []);
    const link = tab.page.getByRole('main').getByRole('link', { name: 'Betreiber kontaktieren' });
    t.equal(await link.getAttribute('href'), 'mailto:help@tollgate.example');
    await tab.page.goto(`${base}/keys/${id}`);
    t.same(await examine(tab.page, 'key-locked-de'), []);
    t.equal(await tab.page.getByRole('button', { name: 'Pause beenden' }).count(), 0);
    await tab.page.goto(`${base}/statements`);
    await tab.page.getByRole('heading', { name: 'Abrechnungen' }).waitFor();
    t.same(tab.complaints, []);

    const member = await openTab(await startBrowser(t), office.adminUrl);
    t.teardown(() => member.page.context().close());
    await signInTab(member, people.member, PASSWORD);
    await member.page.getByText('This company has been paused since').waitFor();
    t.notMatch(await member.page.content(), /unpaid/, 'why is for owners');
  },
);
