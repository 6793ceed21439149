import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t from 'tap';
import { decodedBody, startMailbox } from '../support/receiver.ts';
import { until } from '../support/until.ts';
import { examine, openTab, signedInTab, startBrowser } from './browser.ts';
import { signedIn, startOwnOffice } from './people.ts';

/** The operator's own brand on sign-in, pages, statements and in e-mails, each in the language of its reader. */

const folder = mkdtempSync(join(tmpdir(), 'brand-'));
t.teardown(() => rmSync(folder, { recursive: true }));
const logo = join(folder, 'logo.svg');
writeFileSync(
  logo,
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 40 16"><path fill="#c00" d="M0 0h40v16H0z"/></svg>',
);
const mailbox = await startMailbox(t);
const office = await startOwnOffice(t, {
  BRAND_NAME: 'Modellwerk',
  BRAND_LOGO: logo,
  BRAND_COLOR: '#ffd400',
  BRAND_SUPPORT: 'hilfe@modellwerk.example',
  BRAND_IMPRINT: 'https://modellwerk.example/impressum',
  BRAND_PRIVACY: 'https://modellwerk.example/datenschutz',
  SMTP_URL: mailbox.url,
  ALERT_FROM: 'dienst@modellwerk.example',
  ALERT_TO: 'betrieb@modellwerk.example',
  ADMIN_URL: 'http://pages.example',
});
const { sql, people } = office;
const { company } = office.customer;

t.test('name, logo, colour and links are on pages with and without a session', async (t) => {
  const { page, complaints } = await openTab(await startBrowser(t), office.adminUrl, {
    locale: 'de-DE',
  });
  t.teardown(() => page.context().close());
  await page.goto('/sign-in');
  t.equal(await page.title(), 'Anmelden · Modellwerk');
  const source = (await page.locator('.top img.logo').getAttribute('src')) as string;
  t.match(source, /^\/assets\/[\da-f]{12}\/logo\.svg$/);
  const image = await page.request.get(source);
  t.equal(image.headers()['content-type'], 'image/svg+xml');
  t.match(
    image.headers()['content-security-policy'],
    "default-src 'none'",
    'opened by itself it runs nothing',
  );
  t.ok(
    await page.evaluate('document.querySelector(".top img.logo").naturalWidth > 0'),
    'the policy lets it in',
  );
  const links = await page
    .locator('footer nav a')
    .evaluateAll((all) => all.map((each) => each.getAttribute('href')));
  t.same(links, [
    'mailto:hilfe@modellwerk.example',
    'https://modellwerk.example/impressum',
    'https://modellwerk.example/datenschutz',
  ]);
  t.same(await examine(page, 'brand-sign-in'), [], 'yellow is made readable');
  t.same(complaints, []);
  const owner = await signedInTab(t, office, people.owner, { locale: 'de-DE' });
  for (const path of ['usage', 'keys', 'statements/month']) {
    await owner.page.goto(`/companies/${company}/${path}`);
    t.match(await owner.page.title(), / · Modellwerk$/);
    t.same(await examine(owner.page, `brand-${path.replace('/', '-')}`), [], path);
    t.notMatch(await owner.page.content(), 'Tollgate', path);
  }
  await owner.page.emulateMedia({ media: 'print' });
  t.ok(
    await owner.page.locator('.letterhead').isVisible(),
    'a statement says on paper whose it is',
  );
  t.match(
    await owner.page.locator('.letterhead').textContent(),
    /Modellwerk https:\/\/modellwerk\.example\/impressum/,
  );
  t.same(owner.complaints, []);
});

t.test(
  'an amount is shown to two decimals, and exact by a link that the keyboard reaches',
  async (t) => {
    await sql`insert into chat_usage (company_id, occurred_at, cost_eur) values (${company}, now(), 1234.5678)`;
    const { page } = await signedInTab(t, office, people.owner, { locale: 'de-DE' });
    await page.goto(`/companies/${company}/usage`);
    t.match(await page.locator('.figure-card .big').first().textContent(), /^1\.234,57\s€/);
    const link = page.getByRole('link', { name: 'Exakte Beträge anzeigen' });
    await link.focus();
    await page.keyboard.press('Enter');
    await page.getByRole('link', { name: 'Gerundete Beträge anzeigen' }).waitFor();
    t.match(await page.locator('.figure-card .big').first().textContent(), /^1\.234,5678\s€$/);
    t.same(await examine(page, 'exact'), []);
  },
);

t.test('e-mails are in the language of the receiver, the company or English', async (t) => {
  await sql`update companies set language = 'de', monthly_budget_eur = 1000 where id = ${company}`;
  await sql`update users set language = 'en' where email = ${people.administrator}`;
  await sql`insert into chat_usage (company_id, occurred_at, cost_eur) values (${company}, now(), 1)`;
  const receivers = [people.owner, people.administrator, 'betrieb@modellwerk.example'];
  const alertTo = (to: string) =>
    mailbox.mails.find((mail) => mail.to.includes(to) && mail.text.includes('100 %'));
  await until(() => receivers.every((to) => alertTo(to) !== undefined), 'three alerts', Boolean);
  const textTo = (to: string) => decodedBody(alertTo(to)?.text ?? '');
  t.match(textTo(people.owner), /100 % des Budgets für .* verbraucht\./, 'that of the company');
  t.match(textTo(people.owner), /Budget: 1\.000,00\s€/);
  t.match(textTo(people.owner), 'Impressum: https://modellwerk.example/impressum');
  t.match(textTo(people.administrator), /has used 100 % of its budget/, 'that of the person');
  t.match(textTo(people.administrator), 'Budget: €1,000.00');
  t.match(
    textTo('betrieb@modellwerk.example'),
    /has used 100 % of its budget/,
    'operators read English',
  );
  t.match(alertTo(people.owner)?.text, /^Subject: .*Modellwerk/m);

  const owner = await signedIn(office, 'owner');
  await owner.post(`/companies/${company}/users`, {
    email: 'neu@customer.example',
    role: 'member',
  });
  const invited = () => mailbox.mails.find((mail) => mail.to.includes('neu@customer.example'));
  await until(() => invited() !== undefined, 'the invitation', Boolean);
  t.match(
    decodedBody(invited()?.text ?? ''),
    /hat Sie zu Nordlicht Verlag eingeladen \(Rolle: Mitglied\)\./,
  );
});
