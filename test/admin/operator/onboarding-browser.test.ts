import OpenAI from 'openai';
import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { startMailbox } from '../../support/receiver.ts';
import { until } from '../../support/until.ts';
import { CHAT, OVERSEAS } from '../../support/world.ts';
import { examine, openTab, signedInTab, startBrowser } from '../browser.ts';
import { PASSWORD, signedIn, startOffice } from '../people.ts';

/** A customer is onboarded in a real browser, with and without script. */

const office = await startOffice(t);
const { sql } = office;

async function look(t: Test, page: Page, name: string): Promise<void> {
  t.same(await examine(page, name), [], name);
}

/** From the list of companies to the form. */
async function openForm(page: Page): Promise<void> {
  await page.goto('/companies');
  await page.getByRole('link', { name: 'New company' }).click();
}

async function fill(page: Page, name: string, owner: string): Promise<void> {
  await page.getByLabel('Company name').fill(name);
  await page.getByLabel('Monthly budget in EUR').fill('250');
  await page.getByLabel('E-mail address of its owner').fill(owner);
  await page.getByLabel('Name of the key').fill('Backend');
}

t.test(
  'one form and one click: its key is called, its link joined, and both are shown once',
  async (t) => {
    const { page, complaints } = await signedInTab(t, office, office.people.operator);
    await openForm(page);
    await look(t, page, 'onboarding');
    await fill(page, 'Möwe Reederei', 'owen@customer.example');
    await page.getByText('Prices of its own').click();
    const prices = page.getByRole('group', { name: CHAT, exact: true });
    await prices.getByLabel('EUR per 1,000,000 prompt tokens').fill('1');
    await page.getByRole('button', { name: 'Create company' }).click();
    await page
      .getByText('E-mail address of its owner has an account already: choose another address.')
      .waitFor();
    t.equal(await page.evaluate('document.activeElement.name'), 'owner', 'where the mistake is');
    t.equal(
      await prices.getByLabel('EUR per 1,000,000 prompt tokens').inputValue(),
      '1',
      'it is open, and kept',
    );
    await look(t, page, 'onboarding-refused');
    await page.getByLabel('E-mail address of its owner').fill('mona@moewe.example');
    await page.getByRole('button', { name: 'Create company' }).dblclick();
    await page.getByRole('heading', { name: 'Möwe Reederei is ready' }).waitFor();
    t.equal(
      (await sql`select from companies where name = 'Möwe Reederei'`).count,
      1,
      'clicked twice',
    );
    await look(t, page, 'onboarding-shown');

    const [key, link, curl] = await Promise.all(
      ['key', 'link', 'curl'].map((id) => page.locator(`#${id}`).innerText()),
    );
    t.match(curl, key, 'the call that works has the key');
    const client = new OpenAI({ baseURL: office.url, apiKey: key, maxRetries: 0 });
    const listed = await client.models.list();
    t.notOk(listed.data.some(({ id }) => id === OVERSEAS));
    await page.reload();
    t.equal(await page.locator('#key').innerText(), key, 'a reload within the minute');
    await page.goBack();
    await page.goForward();
    t.equal(await page.locator('#link').innerText(), link);
    await page.context().clearCookies({ name: 'tollgate-shown' }); // as the browser does after a minute
    await page.reload();
    await page.getByRole('heading', { name: 'Link and key can no longer be shown' }).waitFor();
    t.notMatch(await page.content(), key?.slice(8));
    await look(t, page, 'onboarding-gone');

    const mona = await openTab(await startBrowser(t), office.adminUrl);
    t.teardown(() => mona.page.context().close());
    await mona.page.goto(link as string);
    await mona.page.getByLabel('Password').fill(PASSWORD);
    await mona.page.getByRole('button', { name: 'Join', exact: true }).click();
    await mona.page.getByRole('link', { name: 'Backend', exact: true }).waitFor();
    t.same([...complaints, ...mona.complaints], []);
  },
);

t.test('it works without script', async (t) => {
  const { page } = await signedInTab(t, office, office.people.operator, {
    javaScriptEnabled: false,
  });
  await openForm(page);
  await fill(page, 'Without script', 'nils@script.example');
  await page.getByText('Prices of its own').click();
  await page
    .getByRole('group', { name: CHAT, exact: true })
    .getByLabel('EUR per 1,000,000 prompt tokens')
    .fill('many');
  await page.getByRole('button', { name: 'Create company' }).click();
  await page.getByText('EUR per 1,000,000 prompt tokens must be').waitFor();
  t.equal(await page.getByLabel('Company name').inputValue(), 'Without script');
  await page
    .getByRole('group', { name: CHAT, exact: true })
    .getByLabel('EUR per 1,000,000 prompt tokens')
    .fill('500');
  await page.getByRole('button', { name: 'Create company' }).click();
  await page.getByRole('heading', { name: 'Without script is ready' }).waitFor();
  t.match(await page.locator('#key').innerText(), /^svc_/);
  t.match(await page.locator('#link').innerText(), /\/invitation\/[\w-]{43}$/);
  const [model] = await sql`
    select m.cost_eur_per_1k_input from models m join companies c on c.id = m.company_id where c.name = 'Without script'`;
  t.equal(Number(model?.cost_eur_per_1k_input), 0.5);
});

t.test('a company without owner and key is told what comes next', async (t) => {
  const { page } = await signedInTab(t, office, office.people.operator);
  await openForm(page);
  await page.getByLabel('Company name').fill('Department');
  await page.getByRole('button', { name: 'Create company' }).click();
  await page.getByRole('heading', { name: 'Department is ready' }).waitFor();
  t.equal(await page.getByRole('status').count(), 0, 'there is nothing that is shown once');
  await page.getByRole('link', { name: 'Invite its owner' }).waitFor();
  await look(t, page, 'onboarding-bare');
  await page.getByRole('link', { name: 'Make a key' }).click();
  await page.getByText('Create a key', { exact: true }).waitFor();
});

t.test(
  'where e-mails are set up the invitation goes out once, however often the form is sent',
  async (t) => {
    const mailbox = await startMailbox(t);
    const mail = {
      SMTP_URL: mailbox.url,
      ALERT_FROM: 'gate@tollgate.example',
      ADMIN_URL: 'http://admin.example.com',
    };
    const sending = await startOffice(t, mail);
    const operator = await signedIn(sending, 'operator');
    const { text } = await operator.get('/companies/new');
    t.match(text, 'it goes out by e-mail too');
    const hidden = (name: string) =>
      new RegExp(`name="${name}" value="([^"]+)"`).exec(text)?.[1] as string;
    const fields = {
      id: hidden('id'),
      claim: hidden('claim'),
      name: 'Mailed',
      owner: 'mia@mailed.example',
    };
    t.match((await operator.post('/companies/new', fields)).text, 'is on its way');
    t.match((await operator.post('/companies/new', fields)).text, '/invitation/');
    t.match(
      (
        await operator.post('/companies/new', {
          ...fields,
          name: 'Other',
          owner: 'other@mailed.example',
        })
      ).status,
      200,
    );
    const mails = await until(
      async () => mailbox.mails,
      'the e-mails are there',
      ({ length }) => length === 2,
    );
    t.same(
      mails.flatMap(({ to }) => to),
      ['mia@mailed.example', 'other@mailed.example'],
    );
    t.notMatch(sending.logged.join(''), /@mailed\.example|\/invitation\//);
  },
);
