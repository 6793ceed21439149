import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { until } from '../../support/until.ts';
import { CHAT } from '../../support/world.ts';
import { ALL, examine, openTab, signedInTab, signInTab, startBrowser } from '../browser.ts';
import { PASSWORD, startOffice } from '../people.ts';

/** A member in a real browser: from the first sign-in to a key, its usage and the playground, with and without script. */

const office = await startOffice(t);
const { sql, people } = office;
const { company } = office.customer;
const base = `/companies/${company}`;

async function look(t: Test, page: Page, name: string): Promise<void> {
  if (!ALL && name.startsWith('german')) return;
  t.same(await examine(page, `member-${name}`), [], name);
}

const statusOf = async (key: string) =>
  (await fetch(`${office.url}/models`, { headers: { authorization: `Bearer ${key}` } })).status;
const call = (key: string) =>
  fetch(`${office.url}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: CHAT, messages: [{ role: 'user', content: 'Hello' }] }),
  });

await t.test('before anything is allowed, the pages say whom to ask', async (t) => {
  const tab = await openTab(await startBrowser(t), office.adminUrl);
  const { page } = tab;
  t.teardown(() => page.context().close());
  await signInTab(tab, people.member, PASSWORD);
  await page.waitForURL(`**${base}/own/keys`);
  await page.getByText('Ask an owner if you need one.').waitFor();
  t.same(
    await page.getByRole('navigation', { name: 'Company' }).getByRole('link').allInnerTexts(),
    ['My keys', 'My usage', 'My requests'],
  );
  await look(t, page, 'keys-off');
  await page.getByRole('link', { name: 'My usage' }).click();
  await look(t, page, 'usage-none');
  t.same(tab.complaints, []);
});

await t.test('the owner says what members may do', async (t) => {
  const { page, complaints } = await signedInTab(t, office, people.owner);
  await page.goto(`${base}/settings`);
  await page.getByLabel('Active keys of each member').fill('3');
  await page.getByLabel('Highest budget a month of such a key').fill('20');
  await page.getByLabel('Members may use the playground').check();
  await look(t, page, 'settings');
  await page.getByRole('button', { name: 'Save for members' }).click();
  await page.getByText('Saved.').waitFor();
  t.match(
    await sql`select member_max_keys, member_key_budget_eur, member_playground from companies where id = ${company}`,
    [{ member_max_keys: 3, member_key_budget_eur: '20', member_playground: true }],
  );
  t.same(complaints, []);
});

for (const javaScriptEnabled of [true, false]) {
  await t.test(
    `a key, a call, its usage and request, ${javaScriptEnabled ? 'with' : 'without'} script`,
    async (t) => {
      const { page, complaints } = await signedInTab(t, office, people.member, {
        javaScriptEnabled,
      });
      const name = javaScriptEnabled ? 'Notebook' : 'No script';
      const see = (what: string) => (javaScriptEnabled ? look(t, page, what) : Promise.resolve());
      await page.goto('/');
      await page.getByLabel('Name').fill(name);
      await see('keys-create');
      await page.getByRole('button', { name: 'Create key' }).click();
      const key = await page.locator('#key').innerText();
      await see('key-shown');
      t.equal(await statusOf(key), 200);
      const id = (await call(key)).headers.get('x-request-id') as string;
      await until(
        async () => (await sql`select from request_trail where request_id = ${id}`).length > 0,
        'its row',
      );
      await page.getByRole('link', { name: 'I have stored the key' }).click();
      await see('keys');
      await page.getByRole('link', { name, exact: true }).click();
      await see('key');
      await page.getByRole('link', { name: 'My usage' }).click();
      await page.getByRole('table', { name: 'By key' }).getByText(name).first().waitFor();
      await see('usage');
      await page.getByRole('link', { name: 'My requests' }).click();
      await see('requests');
      await page.goto(`${base}/own/requests/${id}`);
      await page.getByText('x-request-id').first().waitFor();
      await see('request');
      await page.getByRole('link', { name: 'My keys' }).click();
      await page.getByLabel(`Actions: ${name}`).click();
      await page.getByRole('link', { name: `Rotate ${name}` }).click();
      await see('key-rotate');
      await page.getByRole('button', { name: 'Stop the old key and create a new one' }).click();
      const next = await page.locator('#key').innerText();
      t.not(next, key);
      await until(
        () => statusOf(key),
        'the old key stops',
        (status) => status === 401,
      );
      await page.getByRole('link', { name: 'I have stored the key' }).click();
      await page.getByLabel(`Actions: ${name}`).click();
      await page.getByRole('link', { name: `Revoke ${name}` }).click();
      await see('key-revoke');
      await page.getByRole('button', { name: 'Revoke key' }).click();
      await page.getByText('The key is revoked.').waitFor();
      await until(
        () => statusOf(next),
        'it stops',
        (status) => status === 401,
      );
      t.same(complaints, []);
    },
  );
}

await t.test('the playground', async (t) => {
  const { page, complaints } = await signedInTab(t, office, people.member);
  await page.goto(base.concat('/own/keys'));
  await page.getByRole('link', { name: 'Playground' }).click();
  await page.getByLabel('Prompt', { exact: true }).fill('Hello there');
  await page.getByRole('button', { name: 'Send' }).click();
  await page.getByText(/completed: \d+ tokens in/).waitFor();
  await look(t, page, 'playground');
  await page.getByRole('link', { name: 'Details of this request' }).click();
  await page.getByText(`Playground of ${people.member}`).waitFor();
  t.same(complaints, []);
});

await t.test('the same in German', async (t) => {
  const { page, complaints } = await signedInTab(t, office, people.member, { locale: 'de-DE' });
  await page.goto('/');
  await page.getByRole('heading', { name: 'Meine Schlüssel' }).waitFor();
  await page.getByLabel('Name').fill('Auswertung');
  await page.getByText('Grenzen und Einschränkungen').click();
  await page.getByLabel('Budget im Monat in EUR').fill('20,01');
  await page.getByRole('button', { name: 'Schlüssel anlegen' }).click();
  await page
    .getByText('darf höchstens 20 sein: So viel lassen die Inhaber Ihres Unternehmens')
    .waitFor();
  t.equal(await page.getByLabel('Name').inputValue(), 'Auswertung', 'nothing typed is lost');
  await look(t, page, 'german-refused');
  await page.getByLabel('Budget im Monat in EUR').fill('19,99');
  await page.getByRole('button', { name: 'Schlüssel anlegen' }).click();
  t.match(await page.locator('#key').innerText(), /^svc_/);
  await page.goto(`${base}/own/keys`);
  await look(t, page, 'german-keys');
  await page.getByRole('link', { name: 'Meine Nutzung' }).click();
  await page.getByRole('heading', { name: /^Meine Nutzung im / }).waitFor();
  await look(t, page, 'german-usage');
  await page.goto('/account');
  await look(t, page, 'german-account');
  t.same(complaints, []);
});

await t.test('the owner sees whose keys they are', async (t) => {
  const { page } = await signedInTab(t, office, people.owner);
  await page.goto(`${base}/keys`);
  await page.getByText('personal', { exact: true }).first().waitFor();
  await look(t, page, 'keys-of-owner');
  await page.goto(`${base}/users`);
  await look(t, page, 'people-of-owner');
});
