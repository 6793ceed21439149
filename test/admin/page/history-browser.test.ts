import type { Page } from 'playwright-core';
import t from 'tap';
import { signedInTab } from '../browser.ts';
import { startOffice } from '../people.ts';

/** Back and Forward in a real browser: each page that a form led to is there again, and nothing is sent a second time. */

const office = await startOffice(t);
const { company } = office.customer;
const { sql } = office;
const ofCompany = `/companies/${company}`;
const open = (role: 'operator' | 'owner') => signedInTab(t, office, office.people[role]);

const press = (page: Page, name: string) =>
  Promise.all([
    page.waitForEvent('domcontentloaded'),
    page.getByRole('button', { name, exact: true }).click(),
  ]);

/** Goes back and forward again. @returns the text of the page before and after */
async function backAndForward(page: Page): Promise<[string, string]> {
  const text = () => page.locator('main').innerText();
  const before = await text();
  await page.goBack();
  await page.goForward(); // rejects with ERR_CACHE_MISS where the form would have to be sent again
  return [before, await text()];
}

t.test(
  'what is shown once is there again for its minute, and then a page that says so',
  async (t) => {
    const { page } = await open('owner');
    const secrets: readonly (readonly [string, RegExp, () => Promise<unknown>])[] = [
      [
        'a new key',
        /svc_\w{20,}/,
        async () => {
          await page.goto(`${ofCompany}/keys`);
          await page.getByText('Create a key', { exact: true }).click();
          await page.getByLabel('Name').fill('First');
          await press(page, 'Create key');
        },
      ],
      [
        'a rotated key',
        /svc_\w{20,}.*/s,
        async () => {
          const [key] = await sql`select id from api_keys where name = 'First'`;
          await page.goto(`${ofCompany}/keys/${key?.id}/rotate`);
          await press(page, 'Create the new key');
          t.match(await page.locator('main').innerText(), /The old key .* works until/);
        },
      ],
      [
        'a token',
        /Bearer tga-\w{20,}/,
        async () => {
          await page.goto(`${ofCompany}/tokens`);
          await page.getByLabel('Name').fill('Terraform');
          await press(page, 'Create token');
        },
      ],
      [
        'an invitation',
        /\/invitation\/[\w-]{43}/,
        async () => {
          await page.goto(`${ofCompany}/users`);
          await page.getByLabel('E-mail address').fill('new@customer.example');
          await press(page, 'Invite');
        },
      ],
      [
        'a renewed invitation',
        /\/invitation\/[\w-]{43}/,
        async () => {
          await page.goto(`${ofCompany}/users`);
          await page
            .getByRole('button', { name: 'Renew the invitation of new@customer.example' })
            .click();
          await page.locator('#link').waitFor();
        },
      ],
    ];
    for (const [name, secret, make] of secrets) {
      await make();
      t.match(new URL(page.url()).pathname, /\/shown$/, `${name} has a page of its own`);
      const [before, after] = await backAndForward(page);
      t.match(before, secret, name);
      t.equal(after, before, name);
      t.notMatch(page.url(), secret, 'which is in no address');
      await page.context().clearCookies({ name: 'tollgate-shown' });
      const [late] = await backAndForward(page);
      t.equal((await page.reload())?.status(), 410, name);
      t.match(await page.locator('main').innerText(), 'can no longer be shown');
      t.ok(late);
    }
    t.equal(
      (await sql`select from api_keys where name = 'First'`).length,
      2,
      'the key and the one after it',
    );
  },
);

t.test('refused forms, questions, previews and what was found are there again', async (t) => {
  const { page } = await open('operator');
  const forms: readonly (readonly [string, RegExp, () => Promise<unknown>])[] = [
    [
      'a refused form',
      /EUR/,
      async () => {
        await page.goto(`${ofCompany}/settings`);
        await page.getByLabel('Monthly budget in EUR').fill('much');
        await press(page, 'Save settings');
      },
    ],
    [
      'a question',
      /used up already/,
      async () => {
        await sql`insert into chat_usage (company_id, cost_eur) values (${company}, 5)`;
        await page.goto(`${ofCompany}/settings`);
        await page.getByLabel('Monthly budget in EUR').fill('1');
        await press(page, 'Save settings');
      },
    ],
    [
      'keys that were found',
      /One key was found/,
      async () => {
        await page.goto('/keys');
        await page.getByLabel('Key or text').fill(office.customer.key);
        await press(page, 'Find keys');
      },
    ],
  ];
  for (const [name, what, make] of forms) {
    await make();
    const [before, after] = await backAndForward(page);
    t.match(before, what, name);
    t.equal(after, before, name);
  }
});

t.test('the page of a secret shows it to the session that made it alone', async (t) => {
  const { page } = await open('owner');
  await page.goto(`${ofCompany}/tokens`);
  await page.getByText('Create an administration token', { exact: true }).click();
  await page.getByLabel('Name').fill('Mine');
  await press(page, 'Create token');
  const token = await page.locator('#token').innerText();
  const [cookie] = (await page.context().cookies(page.url())).filter(
    ({ name }) => name === 'tollgate-shown',
  );
  t.match(cookie, { httpOnly: true, sameSite: 'Strict', path: new URL(page.url()).pathname });
  t.notMatch(
    Buffer.from(cookie?.value ?? '', 'base64url').toString('latin1'),
    token,
    'and is not read from its cookie',
  );
  const other = await open('operator');
  await other.page.context().addCookies([cookie as NonNullable<typeof cookie>]);
  await other.page.goto(page.url());
  t.match(await other.page.locator('main').innerText(), 'can no longer be shown');
});

t.test('every page has an icon', async (t) => {
  const { page } = await open('owner');
  await page.goto('/account');
  const icon = await page.locator('link[rel=icon]').getAttribute('href');
  const answer = await page.request.get(icon as string);
  t.equal(answer.status(), 200);
  t.match(answer.headers()['content-type'], 'image/svg+xml');
  const size = await page.evaluate(
    `new Promise((done, fail) => { const image = new Image(); image.onload = () => done(image.naturalWidth); image.onerror = fail; image.src = ${JSON.stringify(icon)}; })`,
  );
  t.ok((size as number) > 0);
});
