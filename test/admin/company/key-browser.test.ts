import OpenAI from 'openai';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { until } from '../../support/until.ts';
import { glance, signedInTab } from '../browser.ts';
import { startOffice } from '../people.ts';

/** Keys in a real browser: clicked twice, reloaded, leaked. */

const office = await startOffice(t);
const { company } = office.customer;
const base = `/companies/${company}/keys`;

async function look(t: Test, page: Page, name: string): Promise<void> {
  t.same(
    await glance(page, name),
    [],
    `${name}: nothing is wider than the window, and axe-core finds nothing where it is asked`,
  );
}

const statusOf = (apiKey: string) =>
  new OpenAI({ baseURL: office.url, apiKey, maxRetries: 0 }).models.list().then(
    () => 200,
    (error: { status: number }) => error.status,
  );
const shown = (page: Page) => page.locator('#key').innerText();
const countNamed = async (name: string) =>
  (await office.sql`select from api_keys where name = ${name}`).length;

async function fillForm(page: Page, name: string): Promise<void> {
  await page.goto(base);
  await page.getByText('Create a key', { exact: true }).click();
  await page.getByLabel('Name').fill(name);
}

await t.test(
  'a double click makes one key, a reload shows it again, and after a minute no longer',
  async (t) => {
    const { page, complaints } = await signedInTab(t, office, office.people.owner);
    await fillForm(page, 'Clicked twice');
    await page.getByRole('button', { name: 'Create key' }).dblclick();
    const key = await shown(page);
    t.equal(await countNamed('Clicked twice'), 1);
    t.equal(await statusOf(key), 200);
    await page.reload();
    t.equal(await shown(page), key);
    t.equal(await countNamed('Clicked twice'), 1);
    await page.context().clearCookies({ name: 'tollgate-shown' }); // as the browser does after a minute
    await page.reload();
    await page.getByRole('heading', { name: 'This key can no longer be shown' }).waitFor();
    t.notMatch(await page.content(), key.slice(8));
    await look(t, page, 'key-gone');
    await page.getByRole('button', { name: 'Replace the key' }).click();
    const replacement = await shown(page);
    t.not(replacement, key);
    await until(
      () => statusOf(key),
      'the old key stops',
      (status) => status === 401,
    );
    t.equal(await statusOf(replacement), 200);
    t.same(complaints, []);
  },
);

await t.test('a leaked key is replaced with three clicks', async (t) => {
  const { page, complaints } = await signedInTab(t, office, office.people.owner);
  await fillForm(page, 'In a repository');
  await page.getByRole('button', { name: 'Create key' }).click();
  const key = await shown(page);
  await page.goto(base);
  await page.getByRole('link', { name: 'Find a leaked key' }).click();
  await look(t, page, 'key-find');
  await page.getByLabel('Key or text').fill(`API_KEY="${key}"`);
  await page.getByRole('button', { name: 'Find keys' }).click();
  await page.getByRole('table', { name: 'One key was found' }).waitFor();
  t.equal(await page.getByLabel('Key or text').inputValue(), '');
  t.notMatch(await page.content(), key.slice(8));
  t.notMatch(page.url(), key.slice(8));
  await look(t, page, 'key-found');
  await page.getByRole('button', { name: 'Stop it and create a new one' }).click();
  const replacement = await shown(page);
  await until(
    () => statusOf(key),
    'the leaked key is refused',
    (status) => status === 401,
  );
  t.equal(await statusOf(replacement), 200);
  await page.goto(`${base}?state=dead`);
  await page.getByRole('row', { name: 'In a repository' }).getByText('revoked').waitFor();
  t.same(complaints, []);
});

await t.test('rotation asks why, and works without JavaScript', async (t) => {
  const { page } = await signedInTab(t, office, office.people.administrator, {
    javaScriptEnabled: false,
  });
  await page.goto(base);
  const row = page.getByRole('row', { name: 'In a repository' });
  await row.getByLabel('Actions: In a repository').click(); // without script, too
  await row.getByRole('link', { name: 'Rotate' }).click();
  t.same(await page.getByRole('heading', { level: 2 }).allInnerTexts(), [
    'A planned change',
    'The key leaked',
  ]);
  await page.getByLabel('Overlap').selectOption({ label: 'One week' });
  await page.getByRole('button', { name: 'Create the new key', exact: true }).click();
  await page.getByText(/works until/).waitFor();
  await page.goto(base);
  await row.first().getByLabel('Actions: In a repository').click();
  await row.first().getByRole('link', { name: 'Rotate' }).click();
  await page.getByRole('button', { name: 'Stop the old key and create a new one' }).click();
  await page.getByText(/has stopped working/).waitFor();
  t.match(await shown(page), /^svc_/);
});

await t.test('the rotation page, and keys found by an operator', async (t) => {
  const { page, complaints } = await signedInTab(t, office, office.people.operator);
  const [key] =
    await office.sql`select id from api_keys where company_id = ${company} and revoked_at is null limit 1`;
  await page.goto(`${base}/${key?.id}/rotate`);
  await look(t, page, 'key-rotate');
  const search = page.getByRole('searchbox', { name: 'Search everything' });
  await search.fill('leaked key');
  await search.press('Enter');
  await page.getByRole('link', { name: 'Leaked key', exact: true }).click();
  await page.getByLabel('Key or text').fill(office.customer.key);
  await page.getByRole('button', { name: 'Find keys' }).click();
  t.match(await page.getByRole('table').innerText(), /Nordlicht Verlag/);
  await look(t, page, 'key-found-operator');
  t.same(complaints, []);
});
