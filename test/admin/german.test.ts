import { randomBytes, randomUUID } from 'node:crypto';
import type { Page } from 'playwright-core';
import t from 'tap';
import { ROUTES } from '../../src/admin/pages.ts';
import { PERMISSIONS } from '../../src/operations/frame/permission.ts';
import { openDatabase } from '../../src/store/connection/pool.ts';
import { closeStatement } from '../support/statement.ts';
import { until } from '../support/until.ts';
import { addUsage } from '../support/usage.ts';
import { ALL, examine, openTab, signedInTab, startBrowser } from './browser.ts';
import { englishPieces } from './english.ts';
import { paint, paintRates } from './paint.ts';
import { Person, sendsNothing, signedIn, startOffice } from './people.ts';

/** Every page of a customer in German: no word of English is left, and with ALL it is as accessible as in English. */

const office = await startOffice(t, {}, sendsNothing);
const { sql, people } = office;
const { company } = office.customer;
const base = `/companies/${company}`;
await paint(sql, company);
const calls = await paintRates(sql, company);
await sql`update companies set price_factor = 0.9 where id = ${company}`;
const { headers } = await office.customer.chat();
const request = headers.get('x-request-id') as string;
await until(
  async () => (await sql`select from request_trail where request_id = ${request}`).length > 0,
  'its row',
);
const [{ closed, open, present }] = await sql<[{ closed: string; open: string; present: string }]>`
  select to_char(now() - interval '2 months', 'YYYY-MM') as closed, to_char(now() - interval '1 month', 'YYYY-MM') as open,
    to_char(now(), 'YYYY-MM') as present`;
await addUsage(sql, [{ company, month: `${closed}-01`, prompt: 1000, input: '0.002' }]);
const db = openDatabase({ url: office.databaseUrl });
await closeStatement(db, company, `${closed}-01`);
await db.close();
await sql`insert into cost_center_budgets (company_id, name, monthly_budget_eur) values (${company}, 'Vertrieb', 5)`;
const owner = await signedIn(office, 'owner');
await owner.post(`${base}/tokens`, { name: 'Terraform', access: 'write' });
await owner.post(`${base}/users`, { email: 'mona@customer.example', role: 'member' });
await sql`
  insert into budget_alerts (company_id, api_key_id, billing_month, threshold, budget_eur, spent_eur)
  select company_id, id, billing_month(now()), '80', monthly_budget_eur, 40 from api_keys where monthly_budget_eur > 0
  union all select id, null, billing_month(now()), '50', monthly_budget_eur, 250 from companies where id = ${company}`;

const ids: Record<string, string> = {
  company,
  request,
  key: await idOf(sql`select id from api_keys where name = 'Newsroom CMS'`),
  assistant: await idOf(sql`select id from assistants where name = 'Headline coach'`),
  user: await idOf(sql`select id from users where role = 'member'`),
  token: await idOf(sql`select id from admin_tokens where company_id is not null`),
  person: await idOf(
    sql`insert into end_users (company_id, name) values (${company}, 'anna') returning id`,
  ),
  receiver: await idOf(
    sql`insert into alert_receivers (company_id, email, percents, forecast)
      values (${company}, 'buch@kanzlei.example', '{50,90}', true) returning id`,
  ),
};
/** A code of an app leads there: second-factor-browser.test.ts has it in German too. */
const ELSEWHERE = ['/account/second-factor/shown'];
/** The forms that lead to a page, which can be opened for a minute. */
const forms: Record<string, readonly [path: string, fields: Record<string, string>]> = {
  '/companies/:company/keys/:key/shown': [
    `${base}/keys/create`,
    {
      name: 'Pressespiegel',
      scope: 'chat',
      id: randomUUID(),
      claim: randomBytes(32).toString('base64url'),
    },
  ],
  '/companies/:company/invitations/:invitation/shown': [
    `${base}/users`,
    { email: 'nora@customer.example', role: 'member' },
  ],
  '/companies/:company/tokens/:token/shown': [
    `${base}/tokens`,
    { name: 'Billing', access: 'read' },
  ],
};
const NO_PAGES = /\.(csv|json|tar\.gz)$|^\/companies\/:company$|\/playground\/:request$/;
const isForOwners = (action: keyof typeof PERMISSIONS) =>
  (PERMISSIONS[action] as readonly string[]).includes('owner');
const PATHS = ROUTES.filter(({ method, action }) => method === 'GET' && isForOwners(action)).map(
  ({ path }) => path,
);

const { whole, parts } = englishPieces();
/** Words that German does not have. */
const ENGLISH =
  /\b(the|and|of|is|are|this|that|your|with|without|from|which|has|have|been|were|when|until|each|every|only|nothing|none|never|unknown|you|it|its)\b/i;

/** What people read on a page, hear or find in it, but for names, identifiers and code, which have no language. */
function textsOf(page: Page): Promise<string[]> {
  return page.evaluate<string[]>(`(() => {
    const data = 'code, pre, textarea, script, style, [lang]:not(html), .badges, .company-name, .by, dl.diff, option[value="en"]';
    const found = [document.title];
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) if (!texts.currentNode.parentElement.closest(data)) found.push(texts.currentNode.data);
    for (const each of document.querySelectorAll('[aria-label], [placeholder], [title], [alt], [data-label], [data-copied]')) {
      if (each.closest(data)) continue;
      for (const name of ['aria-label', 'placeholder', 'title', 'alt', 'data-label', 'data-copied']) found.push(each.getAttribute(name) ?? '');
    }
    return found.map((text) => text.replaceAll(/\\s+/g, ' ').trim()).filter((text) => text !== '');
  })()`);
}

/** The texts of a page that are in English. */
async function englishIn(page: Page): Promise<string[]> {
  const texts = (await textsOf(page)).map((text) => text.replaceAll(/Playground of \S+/g, ''));
  const isEnglish = (text: string) =>
    whole.has(text) || parts.some((part) => text.includes(part)) || ENGLISH.test(text);
  return [...new Set(texts.filter(isEnglish))];
}

/** What follows an address, by its last part. */
const queries: Readonly<Record<string, string>> = { month: `?month=${closed}` };
const addressOf = (path: string) =>
  path.replace(/:(\w+)/g, (_, name) => ids[name] ?? name) +
  (queries[path.split('/').at(-1) as string] ?? '');

t.test('every page of an owner', async (t) => {
  const { page, complaints } = await signedInTab(t, office, people.owner, { locale: 'de-DE' });
  const csrf = await owner.csrf();
  await page
    .context()
    .addCookies([...owner.cookies].map(([name, value]) => ({ name, value, url: office.adminUrl })));
  const pages = PATHS.filter((path) => !NO_PAGES.test(path) && !ELSEWHERE.includes(path));
  const rated = Object.values(calls).map((id) => `${base}/requests/${id}`);
  const more = ['/companies/:company/usage?cost_center=Vertrieb', `${base}/usage?against=before`];
  for (const path of [...pages, ...more, ...rated, `${base}/statements/month?month=${present}`]) {
    let address = addressOf(path);
    const [action, fields] = forms[path] ?? [];
    if (action !== undefined) {
      const options = {
        form: { csrf, ...fields },
        maxRedirects: 0,
        headers: { origin: office.adminUrl },
      };
      address = (await page.request.post(action, options)).headers().location as string;
    }
    const answer = await page.goto(address);
    t.equal(answer?.status(), 200, path);
    t.equal(await page.locator('html').getAttribute('lang'), 'de', path);
    t.same(await englishIn(page), [], path);
    if (ALL) t.same(await examine(page, `german${path.replaceAll(/\W+/g, '-')}`), [], path);
  }
  t.same(complaints, []);
});

t.test('refused forms, and pages that are not there', async (t) => {
  const { page } = await signedInTab(t, office, people.owner, { locale: 'de-DE' });
  await page.goto(`${base}/settings`);
  await page.getByLabel('Monatsbudget in EUR').fill('viel');
  await page.getByRole('button', { name: 'Einstellungen speichern' }).click();
  await page
    .getByText(
      '„Monatsbudget in EUR“ muss ein Betrag in EUR wie 250 oder 99,50 sein, unter 1 Billion, nicht „viel“.',
    )
    .waitFor();
  t.same(await englishIn(page), []);
  await page.getByLabel('Monatsbudget in EUR').fill('1.500');
  await page.getByRole('button', { name: 'Einstellungen speichern' }).click();
  await page
    .getByText('„1.500“ kann 1.500,00 oder 1,50 bedeuten. Schreiben Sie 1500 oder 1,50.')
    .waitFor();
  await page.getByLabel('Monatsbudget in EUR').fill('1,50');
  await page.getByRole('button', { name: 'Einstellungen speichern' }).click();
  await page.getByRole('heading', { name: 'Dieses Budget ist bereits aufgebraucht' }).waitFor();
  t.same(await englishIn(page), []);
  await page.goto(`${base}/users`);
  await page.getByRole('textbox', { name: 'E-Mail-Adresse' }).fill('mona@customer.example');
  await page.getByRole('button', { name: 'Einladen', exact: true }).click();
  await page
    .getByText(
      'mona@customer.example ist bereits eingeladen. Erneuern Sie die Einladung oder ziehen Sie sie zurück.',
    )
    .waitFor();
  t.same(await englishIn(page), []);
  for (const path of [
    '/nowhere',
    `${base}/statements/month?month=${open}`,
    `${base}/requests?status=nie`,
    `${base}/usage?from=2026-02-30`,
    `/companies/${randomUUID()}/usage`,
    `${base}/keys/${randomUUID()}`,
    '/companies',
  ]) {
    await page.goto(path);
    t.same(await englishIn(page), [], path);
  }
});

t.test('the choice below each page is stored, and holds before and after signing in', async (t) => {
  const { page, complaints } = await openTab(await startBrowser(t), office.adminUrl, {
    locale: 'fr-FR',
  });
  t.teardown(() => page.context().close());
  await page.goto(`/sign-in?next=${base}/usage`);
  t.equal(await page.locator('html').getAttribute('lang'), 'en', 'of a language that there is not');
  await page.getByRole('button', { name: 'Deutsch' }).click();
  await page.getByRole('heading', { name: 'Anmelden' }).waitFor();
  t.match(page.url(), `next=${base}/usage`, 'it leads back to the page');
  t.same(await englishIn(page), []);
  t.same(await examine(page, 'german-sign-in'), []);
  await page.getByLabel('E-Mail-Adresse').fill(people.administrator);
  await page.getByLabel('Passwort').fill('falsch');
  await page.getByRole('button', { name: 'Anmelden' }).click();
  await page.getByText('Die E-Mail-Adresse oder das Passwort ist falsch.').waitFor();
  t.same(complaints, []);

  const person = new Person(office.adminUrl);
  await person.signIn(people.administrator);
  const langOf = async (accept: string) =>
    /<html lang="(\w+)">/.exec(
      (await person.get('/account', { 'accept-language': accept })).text,
    )?.[1];
  t.equal(await langOf('de-AT,en;q=0.5'), 'de', 'what the browser asks for');
  t.equal(await langOf('fr'), 'en');
  const chosen = await owner.send(`${base}/settings`, { budget: '', company_language: 'de' });
  t.equal(chosen.headers.get('location'), `${base}/settings?done=saved`);
  t.equal(await langOf('en'), 'de', 'what the company chose');
  t.equal(
    (await owner.send(`${base}/settings`, { budget: '', company_language: 'fr' })).status,
    422,
  );
  t.equal((await owner.send(`${base}/settings`, { budget: '' })).status, 303);
  t.equal(await langOf('en'), 'de', 'a form without the field leaves it');
  const { status, headers } = await person.send('/language', {
    language: 'en',
    back: `${base}/usage?from=2026-01-01`,
  });
  t.same([status, headers.get('location')], [303, `${base}/usage?from=2026-01-01`]);
  t.equal(await langOf('de'), 'en', 'what the person chose');
  const [stored] = await sql`select language from users where email = ${people.administrator}`;
  t.equal(stored?.language, 'en');
  t.equal(
    (
      await person.send('/language', { language: 'xx', back: 'https://elsewhere.example/' })
    ).headers.get('location'),
    '/',
  );
  t.equal(await langOf('de'), 'en', 'a language that there is not changes nothing');
  await sql`update companies set language = null where id = ${company}`;

  const operator = await signedIn(office, 'operator');
  const page1 = await operator.get('/companies', { 'accept-language': 'de' });
  t.match(page1.text, '<html lang="en">', 'operators read English');
  t.notMatch(page1.text, '/language');
});

async function idOf(rows: PromiseLike<readonly Record<string, string>[]>): Promise<string> {
  return (await rows)[0]?.id as string;
}
