import { randomBytes } from 'node:crypto';
import type { Page } from 'playwright-core';
import decodeQr from 'qr/decode.js';
import t from 'tap';
import { startMailbox } from '../../support/receiver.ts';
import { base32Bytes, totp } from '../../support/totp.ts';
import { ALL, examine, openTab, signedInTab, signInTab, startBrowser } from '../browser.ts';
import { PASSWORD, startOwnOffice } from '../people.ts';

/** How people help themselves, in a real browser without scripts: second factor, sessions, alerts, erasure, what is kept. */

const mailbox = await startMailbox(t);
const office = await startOwnOffice(t, {
  SECOND_FACTOR_KEY: randomBytes(32).toString('base64'),
  SMTP_URL: mailbox.url,
  ALERT_FROM: 'tollgate@example.com',
  ADMIN_URL: 'http://admin.example.com',
});
const { sql, people } = office;
const base = `/companies/${office.customer.company}`;
const browser = await startBrowser(t);

/** What accessible.test.ts does not come to. */
const HERE_ALONE = [
  'factor-setup',
  'factor-codes',
  'factor-on',
  'factor-code',
  'alert-agree',
  'alert-stop',
];

/** Judges the page that a tab shows in one where scripts run: axe-core is a script. */
async function look(page: Page, name: string, locale = 'en-GB'): Promise<string[]> {
  if (!(ALL || HERE_ALONE.includes(name))) return [];
  const context = await browser.newContext({ locale });
  await context.addCookies(await page.context().cookies());
  const other = await context.newPage();
  await other.goto(page.url());
  const found = await examine(other, name);
  await context.close();
  return found;
}

/** What a phone reads of the picture, as the browser draws it. */
async function scan(page: Page): Promise<string> {
  const box = await page.locator('.qr svg').boundingBox();
  const png = await page.screenshot({ clip: box as NonNullable<typeof box> });
  const scanner = await (await browser.newContext()).newPage(); // the policy of our pages lets no script run
  const { width, height, base64Data } = await scanner.evaluate(async (base64: string) => {
    // biome-ignore lint/suspicious/noExplicitAny: this runs in the browser
    const { document, Image } = globalThis as any;
    const image = new Image();
    image.src = `data:image/png;base64,${base64}`;
    await image.decode();
    const canvas = Object.assign(document.createElement('canvas'), {
      width: image.width,
      height: image.height,
    });
    const context = canvas.getContext('2d');
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, image.width, image.height);
    // as numbers it takes a second to get out of the browser
    const base64Data = new Uint8Array(data.buffer).toBase64();
    return { width: image.width, height: image.height, base64Data };
  }, png.toString('base64'));
  await scanner.context().close();
  return decodeQr({ width, height, data: Buffer.from(base64Data, 'base64') });
}

t.test('somebody sets a second factor up with a phone, and signs in with it', async (t) => {
  const options = { javaScriptEnabled: false, locale: 'en-GB' };
  const { page } = await signedInTab(t, office, people.owner, options);
  await page.goto('/account');
  await page.getByRole('link', { name: 'Set up a second factor' }).click();
  t.same(await look(page, 'factor-off'), []);
  await page.getByLabel('Your password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Set up' }).click();
  await page.getByRole('heading', { name: '1. Scan this with your app' }).waitFor();
  t.same(await look(page, 'factor-setup'), []);
  const uris: string[] = [];
  const looks = [
    ['light', 1200],
    ['dark', 375],
    ['light', 375],
    ['dark', 1200],
  ] as const;
  for (const [colorScheme, width] of ALL ? looks : looks.slice(0, 2)) {
    await page.emulateMedia({ colorScheme });
    await page.setViewportSize({ width, height: 800 });
    uris.push(await scan(page));
  }
  t.equal(new Set(uris).size, 1, 'a phone reads it in light and dark, on a desk and on a phone');
  const secret = base32Bytes(new URL(uris[0] as string).searchParams.get('secret') as string);
  await page.getByLabel('Code of your app').fill('000000');
  await page.getByRole('button', { name: 'Turn on' }).click();
  await page.getByText('Is the clock of your phone right').waitFor();
  t.equal(await page.getByLabel('Code of your app').inputValue(), '');
  await page.getByLabel('Code of your app').fill(totp(secret, Date.now()));
  await page.getByRole('button', { name: 'Turn on' }).click();
  await page.getByRole('heading', { name: 'Your second factor is on' }).waitFor();
  t.same(await look(page, 'factor-codes'), []);
  const [recovery = ''] = (await page.locator('#codes').innerText()).split('\n');
  await page.reload();
  await page.getByText('This is the only time your recovery codes are shown').waitFor();
  await page.getByRole('link', { name: 'I have kept them' }).click();
  t.same(await look(page, 'factor-on'), []);

  const tab = await openTab(browser, office.adminUrl, options);
  t.teardown(() => tab.page.context().close());
  await signInTab(tab, people.owner, PASSWORD);
  await tab.page.getByRole('heading', { name: 'Second factor' }).waitFor();
  t.same(await look(tab.page, 'factor-code'), []);
  await sql`update second_factors set last_step = 0`;
  await tab.page.getByLabel('Code of your app').fill(totp(secret, Date.now()));
  await tab.page.getByRole('button', { name: 'Go on' }).click();
  await tab.page.getByRole('link', { name: people.owner }).waitFor();

  await tab.page.goto('/account');
  await tab.page.getByText('Chrome on Linux').first().waitFor();
  t.same(await look(tab.page, 'sessions'), []);

  const lost = await openTab(browser, office.adminUrl, options);
  t.teardown(() => lost.page.context().close());
  await signInTab(lost, people.owner, PASSWORD);
  await lost.page.getByText('I cannot use my app').click();
  await lost.page.getByLabel('Recovery code').fill(recovery);
  await lost.page.getByRole('button', { name: 'Go on' }).click();
  await lost.page.getByRole('link', { name: people.owner }).waitFor();
  t.same(tab.complaints, []);
  await sql`delete from second_factors`;
  await sql`update users set second_factor_since = null, recovery_codes = 0`;
});

t.test('an owner sets alerts, reads what is kept and erases somebody who asks', async (t) => {
  const { page, complaints } = await signedInTab(t, office, people.owner, {
    javaScriptEnabled: false,
    locale: 'en-GB',
  });
  await page.goto(`${base}/settings`);
  await page.getByRole('link', { name: 'Budget alerts' }).click();
  await page.getByText('Add a rule', { exact: true }).click();
  await page.getByLabel('E-mail address').fill('books@accountants.example');
  await page.getByLabel('Percentages of the budget').fill('half');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByText('must be whole percentages').waitFor();
  t.equal(await page.getByLabel('E-mail address').inputValue(), 'books@accountants.example');
  await page.getByLabel('Percentages of the budget').fill('50, 90');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByText('has not agreed').waitFor();
  t.same(await look(page, 'alerts'), []);
  await page.getByRole('link', { name: 'Change the rule of books@' }).click();
  t.same(await look(page, 'alert-edit'), []);

  await page.goto(`${base}/settings`);
  await page.getByRole('link', { name: 'What is kept about us' }).click();
  await page.getByText('7 days, rounded up').waitFor();
  t.same(await look(page, 'kept'), []);

  const ada = await signedInTab(t, office, people.administrator, {
    javaScriptEnabled: false,
    locale: 'en-GB',
  });
  await ada.page.goto('/account');
  await ada.page.getByRole('link', { name: 'Ask to be erased' }).click();
  t.same(await look(ada.page, 'erasure-ask'), []);
  await ada.page.getByRole('button', { name: 'Ask to be erased' }).click();
  await ada.page.getByText('You asked on').waitFor();

  await page.goto(`${base}/users`);
  await page.getByLabel(`Actions: ${people.administrator}`).click();
  await page.getByRole('link', { name: `Erase ${people.administrator}` }).click();
  t.same(await look(page, 'person-erase'), []);
  await page.getByLabel('Address of the person').fill(people.administrator);
  await page.getByRole('button', { name: 'Erase for good' }).click();
  await page.getByText('The person is erased').waitFor();
  await ada.page.goto('/account');
  await ada.page.getByRole('heading', { name: 'Sign in' }).waitFor();
  t.same(complaints, []);
});

t.test('somebody outside agrees to alerts, and ends them', async (t) => {
  const { page } = await openTab(browser, office.adminUrl, { javaScriptEnabled: false });
  t.teardown(() => page.context().close());
  const text = mailbox.mails
    .find(({ to }) => to.includes('books@accountants.example'))
    ?.text.replaceAll('=\r\n', '') as string;
  await page.goto(new URL(/http:\/\/\S+/.exec(text)?.[0] as string).pathname);
  t.same(await look(page, 'alert-agree'), []);
  await page.getByRole('button', { name: 'Subscribe' }).click();
  await page.getByRole('heading', { name: 'You get the budget alerts' }).waitFor();
  const [{ id }] = await sql<[{ id: string }]>`select id from alert_receivers`;
  await page.goto(`/alert-receiver/stop/${id}`);
  t.same(await look(page, 'alert-stop'), []);
  await page.getByRole('button', { name: 'Unsubscribe' }).click();
  await page.getByRole('heading', { name: 'Unsubscribed' }).waitFor();
});

t.test('in German, too: the set-up, the codes and the sign-in', async (t) => {
  const options = { javaScriptEnabled: false, locale: 'de-DE' };
  const { page } = await signedInTab(t, office, people.member, options);
  await page.goto('/account/second-factor');
  await page.getByLabel('Ihr Passwort').fill(PASSWORD);
  await page.getByRole('button', { name: 'Einrichten' }).click();
  const secret = base32Bytes(new URL(await scan(page)).searchParams.get('secret') as string);
  await page.getByLabel('Code aus Ihrer App').fill('000000');
  await page.getByRole('button', { name: 'Einschalten' }).click();
  await page.getByText('Geht die Uhr Ihres Telefons richtig?').waitFor();
  const code = totp(secret, Date.now());
  await page.getByLabel('Code aus Ihrer App').fill(code);
  await page.getByRole('button', { name: 'Einschalten' }).click();
  await page.getByRole('heading', { name: 'Ihr zweiter Faktor ist an' }).waitFor();
  t.same(await look(page, 'german-factor-codes', 'de-DE'), []);
  const tab = await openTab(browser, office.adminUrl, options);
  t.teardown(() => tab.page.context().close());
  await tab.page.goto('/sign-in');
  await tab.page.getByLabel('E-Mail-Adresse').fill(people.member);
  await tab.page.getByLabel('Passwort').fill(PASSWORD);
  await tab.page.getByRole('button', { name: 'Anmelden', exact: true }).click();
  await tab.page.getByRole('heading', { name: 'Zweiter Faktor' }).waitFor();
  t.same(await look(tab.page, 'german-factor-code', 'de-DE'), []);
  await sql`update second_factors set last_step = last_step + 1`; // whatever the clock says when it is given again
  await tab.page.getByLabel('Code aus Ihrer App').fill(code);
  await tab.page.getByRole('button', { name: 'Weiter' }).click();
  await tab.page
    .getByText('Dieser Code wurde schon verwendet. Warten Sie auf den nächsten.')
    .waitFor();
});
