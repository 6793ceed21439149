import { randomBytes, randomUUID } from 'node:crypto';
import t from 'tap';
import { ROUTES } from '../../src/admin/pages.ts';
import { openDatabase } from '../../src/store/connection/pool.ts';
import { closeStatement } from '../support/statement.ts';
import { until } from '../support/until.ts';
import { addUsage } from '../support/usage.ts';
import { accessibility, examine, openTab, signedInTab, startBrowser } from './browser.ts';
import { paint, paintOthers, paintRates } from './paint.ts';
import { signedIn, startOffice } from './people.ts';

/** Every page there is, with something on it: axe-core judges it once on each window and in each colour scheme. */

const office = await startOffice(t);
const { sql, people } = office;
const { company } = office.customer;
const base = `/companies/${company}`;

await paint(sql, company);
await paintOthers(sql, company);
const calls = await paintRates(sql, company);
const { headers } = await office.customer.chat();
const request = headers.get('x-request-id') as string;
await until(
  async () => (await sql`select from request_trail where request_id = ${request}`).length > 0,
  'its row',
);
const [{ closed, open }] = await sql<[{ closed: string; open: string }]>`
  select to_char(now() - interval '2 months', 'YYYY-MM') as closed, to_char(now() - interval '1 month', 'YYYY-MM') as open`;
await addUsage(sql, [{ company, month: `${closed}-01`, prompt: 1000, input: '0.002' }]);
const db = openDatabase({ url: office.databaseUrl });
await closeStatement(db, company, `${closed}-01`);
await db.close();
await sql`insert into model_cost_prices (slug, valid_from, input, output) values ('aurora-swift', '2026-01-01', 0.00007, 0.0009)`;
await sql`insert into oidc_groups (name, company_id, role) values
  ('/nordlicht/editors', ${company}, 'administrator'), ('platform-operators', null, 'operator')`;
await sql`insert into users (email, company_id, role, oidc_group, last_sign_in_at)
  values ('greta@customer.example', ${company}, 'administrator', '/nordlicht/editors', now())`;
const operator = await signedIn(office, 'operator');

for (const place of ['', base])
  await operator.post(`${place}/tokens`, { name: 'Deploy', access: 'write' });
const invited = await operator.post(`${base}/users`, {
  email: 'mona@customer.example',
  role: 'member',
});
const invitation = new URL(/id="link"[^>]*>([^<]+)/.exec(invited.text)?.[1] as string).pathname;

/** What stands in the address of a route, by its name there. */
const ids: Record<string, string> = {
  company,
  request,
  key: await idOf(sql`select id from api_keys where name = 'Newsroom CMS'`),
  model: await idOf(sql`select id from models where slug = 'polar-reasoning'`),
  cost: await idOf(sql`select id from model_cost_prices where rates is not null`),
  assistant: await idOf(sql`select id from assistants where name = 'Headline coach'`),
  user: await idOf(sql`select id from users where role = 'member'`),
  group: await idOf(sql`select id from oidc_groups where company_id is not null`),
  token: await idOf(sql`select id from admin_tokens where company_id is null`),
  person: await idOf(
    sql`insert into end_users (company_id, name) values (${company}, 'ann@front.example') returning id`,
  ),
};
const receiver = await idOf(
  sql`insert into alert_receivers (company_id, email, percents, forecast)
    values (${company}, 'books@accountants.example', '{50,90}', true) returning id`,
);
await sql`insert into cost_center_budgets (company_id, name, monthly_budget_eur)
  values (${company}, 'Marketing', 5), (${company}, 'Sales', 500)`;
const [{ present }] = await sql<[{ present: string }]>`select to_char(now(), 'YYYY-MM') as present`;
await addUsage(sql, [
  {
    company,
    month: `${present}-01`,
    at: new Date().toISOString(),
    prompt: 6000,
    input: '1',
    center: 'Marketing',
  },
  {
    company,
    month: `${present}-01`,
    at: new Date().toISOString(),
    prompt: 50,
    input: '1',
    endUser: ids.person as string,
  },
]);
const byGroup = await idOf(sql`select id from users where oidc_group is not null`);
const tokenOfCompany = await idOf(sql`select id from admin_tokens where company_id is not null`);
/** What follows the address of a route. */
const queries: Record<string, string> = {
  '/companies/:company/usage': `?from=${open}-08&to=${open}-11`, // each bar of its chart has a row and a picture
  '/companies/:company/cost-centers': '?sort=-share',
  '/usage': `?from=${open}-08&to=${open}-11`,
  '/companies/:company/statements/month': `?month=${closed}`,
  '/month-end': `?month=${open}`,
};
/** The forms that lead to a page, which can be opened for a minute. */
const forms: Record<string, readonly [path: string, fields: Record<string, string>]> = {
  '/companies/:company/keys/:key/shown': [
    `${base}/keys/create`,
    {
      name: 'Website search',
      scope: 'chat',
      id: randomUUID(),
      claim: randomBytes(32).toString('base64url'),
    },
  ],
  '/companies/:company/invitations/:invitation/shown': [
    `${base}/users`,
    { email: 'nora@customer.example', role: 'member' },
  ],
  '/companies/:company/onboarding/shown': [
    '/companies/new',
    {
      name: 'Möwe Reederei',
      owner: 'mona@moewe.example',
      key_name: 'First',
      scope: 'chat',
      id: randomUUID(),
      claim: randomBytes(32).toString('base64url'),
    },
  ],
  '/tokens/:token/shown': ['/tokens', { name: 'Terraform', access: 'write' }],
  '/companies/:company/tokens/:token/shown': [
    `${base}/tokens`,
    { name: 'Billing', access: 'read' },
  ],
};
/** Pages that a code of an app leads to, and those of members: second-factor-browser.test.ts and own-key-browser.test.ts judge them. */
const ELSEWHERE = /^\/account\/second-factor\/shown$|^\/companies\/:company\/own\//;
/** What is no page: files, what leads to another page, and a text that a script asks for. */
const NO_PAGES =
  /\.(csv|json|tar\.gz)$|^\/companies\/(:company|statements|statements\/month)$|\/usage\/(change|table|beside)$|\/cost-center$|^\/companies\/:company\/playground\/:request$/;
const ROUTES_TO_GET = ROUTES.filter(
  ({ method, path }) => method === 'GET' && !ELSEWHERE.test(path),
).map(({ path }) => path);

const browser = await startBrowser(t);

t.test('every page', async (t) => {
  const { page, complaints } = await openTab(browser, office.adminUrl);
  t.teardown(() => page.context().close());
  await page
    .context()
    .addCookies(
      [...operator.cookies].map(([name, value]) => ({ name, value, url: office.adminUrl })),
    );
  const csrf = await operator.csrf();
  for (const path of ROUTES_TO_GET.filter((path) => !NO_PAGES.test(path))) {
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
    t.equal(page.url(), office.adminUrl + address, `${path} leads nowhere else`);
    t.same(await examine(page, path.replaceAll(/\W+/g, '-')), [], path);
  }
  t.same(complaints, []);
});

t.test('what is no page', async (t) => {
  for (const path of ROUTES_TO_GET.filter((path) => NO_PAGES.test(path))) {
    const { status, headers } = await operator.get(addressOf(path));
    t.notOk(status === 200 && headers.get('content-type')?.includes('html'), path);
  }
});

t.test('every page of a customer that differs from that of the operator', async (t) => {
  const { page, complaints } = await signedInTab(t, office, people.owner);
  for (const path of [
    '/usage',
    '/usage?against=before',
    '/usage?by=model&and=key',
    '/usage?cost_center=Marketing',
    '/usage?by=cost_center&against=days',
    '/keys',
    '/settings',
    '/models',
    '/requests',
    `/requests/${request}`,
    `/requests/${calls['priority over 272000']}`,
    '/statements/month',
    '/users',
    `/users/${byGroup}`,
    `/users/${byGroup}/remove`,
  ]) {
    await page.goto(base + path);
    t.same(
      await examine(
        page,
        `owner${path.replace(request, 'request').replace(byGroup, 'by-group').replaceAll(/\W+/g, '-')}`,
      ),
      [],
      path,
    );
  }
  t.same(complaints, []);
});

t.test('a fault of a page is one of the copy that is judged', async (t) => {
  const { page } = await signedInTab(t, office, people.owner);
  await page.goto(`${base}/settings`);
  const contrast = "document.querySelector('h1').style.color = '#eee'";
  for (const [rule, plant] of [
    ['color-contrast', contrast],
    ['heading-order', "document.querySelector('h2').outerHTML = '<h6>Deep</h6>'"],
    ['label', "for (const each of document.querySelector('[name=budget]').labels) each.remove()"],
    ['html-has-lang', 'document.documentElement.lang = ""'],
  ] as const) {
    await page.evaluate(plant);
    t.match((await accessibility(page)).join('\n'), new RegExp(`^${rule}: `, 'm'), rule);
  }
});

t.test('pages without a session', async (t) => {
  const { page, complaints } = await openTab(browser, office.adminUrl);
  t.teardown(() => page.context().close());
  const token = 'T'.repeat(43);
  await office.sql`update users set reset_digest = sha256(${token}::bytea), reset_asked_at = now() where email = ${office.people.member}`;
  for (const path of [
    '/sign-in',
    '/sign-in/forgot',
    `/new-password/${token}`,
    invitation,
    '/nowhere',
  ]) {
    await page.goto(path);
    t.same(await examine(page, path.slice(0, 15)), [], path);
  }
  t.same(complaints, []);
});

function addressOf(path: string): string {
  if (path.includes(':receiver'))
    return path.replace(':company', company).replace(':receiver', receiver);
  const own = path.startsWith('/companies/:company/tokens')
    ? { ...ids, token: tokenOfCompany }
    : ids;
  return path.replace(/:(\w+)/g, (_, name) => own[name] ?? name) + (queries[path] ?? '');
}

async function idOf(rows: PromiseLike<readonly Record<string, string>[]>): Promise<string> {
  return (await rows)[0]?.id as string;
}
