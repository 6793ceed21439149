import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import t from 'tap';
import { ROUTES } from '../../../src/admin/pages.ts';
import { isReading } from '../../../src/operations/frame/permission.ts';
import { ask } from '../../support/client.ts';
import { until } from '../../support/until.ts';
import { customerWith } from '../../support/world.ts';
import { newToken, send } from '../api/tokens.ts';
import { glance, signedInTab } from '../browser.ts';
import { PASSWORD, signedIn, startOffice } from '../people.ts';

const office = await startOffice(t);
const { sql, customer } = office;
const { company } = customer;
const base = `/companies/${company}`;
const status = async (key: string, path = '/models') =>
  (await ask(office.url + path, { key })).status;
const close = () => sql`update companies set closed_at = now() where id = ${company}`;
const reopen = () => sql`update companies set closed_at = null where id = ${company}`;
const settled = (key: string, wanted: number) =>
  until(
    () => status(key),
    `the gateway answers ${wanted}`,
    (got) => got === wanted,
  );

t.test(
  'all keys of a closed company get what an unknown key gets, also by plain SQL',
  async (t) => {
    const narrow = await office.key(company, ['embeddings']);
    const { key: foreign } = await office.newCustomer();
    for (const key of [customer.key, narrow, foreign]) t.equal(await status(key), 200);
    await close();
    await settled(customer.key, 401);
    await settled(narrow, 401);
    const unknown = await ask(`${office.url}/models`, { key: 'svc_unknown' });
    for (const ask of [
      '/models',
      '/usage',
      '/chat/completions',
      '/embeddings',
      '/responses',
      '/messages',
    ]) {
      // the scope of the key is not asked: it would tell that the key is known
      const { status, json } = await customerWith(office.url, company, narrow).ask(
        ask,
        ask === '/models' || ask === '/usage' ? {} : { body: {} },
      );
      t.equal(status, 401, ask);
      if (ask !== '/messages') t.same(json, unknown.json);
    }
    t.equal(await status(foreign), 200, 'others do not notice');

    // a key that came in behind the refusal, as with a restore
    await sql`alter table api_keys disable trigger open_only`;
    const late = await office.key(company);
    await sql`alter table api_keys enable trigger open_only`;
    t.equal(await status(late), 401);
    await reopen();
    for (const key of [customer.key, narrow, late]) await settled(key, 200);
  },
);

t.test('a revoked key does not come back', async () => {
  const gone = await office.key(company);
  await sql`update api_keys set revoked_at = now() where digest = sha256(${gone}::text::bytea)`;
  await close();
  await settled(customer.key, 401);
  await reopen();
  await settled(customer.key, 200);
  t.equal(await status(gone), 401);
});

t.test('a call in flight ends and is booked', async (t) => {
  const slug = await office.part(customer, 'slow', 'internal-demo-slow!events-60!pace-30');
  await until(
    async () => (await status(customer.key, `/models/${slug}`)) === 200,
    'the gateway serves the model',
  );
  const booked = (await office.ledger(company, 0)).length;
  const response = await fetch(`${office.url}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({
      model: slug,
      stream: true,
      messages: [{ role: 'user', content: 'Hello there' }],
    }),
  });
  t.equal(response.status, 200);
  await close();
  await settled(customer.key, 401);
  t.match(await response.text(), /data: \[DONE\]\n\n$/);
  const rows = await office.ledger(company, booked + 1);
  t.match(rows.at(-1), { model_slug: slug, outcome: 'completed' });
  await reopen();
});

t.test('an owner revokes a token of a closed company', async (t) => {
  const token = await newToken(office, { company_id: company });
  const owner = await signedIn(office, 'owner');
  await close();
  const { text } = await owner.get(`${base}/tokens`);
  const [, path = ''] = new RegExp(`href="(${base}/tokens/[0-9a-f-]+/revoke)"`).exec(text) ?? [];
  t.match((await owner.get(path)).text, /Revoke this administration token/);
  t.equal((await owner.post(path)).status, 303);
  t.equal((await send(office, token, ['GET', base])).status, 401);
  t.notMatch((await owner.get(`${base}/tokens`)).text, new RegExp(path));
  await reopen();
});

t.test('pages of a closed company can be read, and refuse every change', async (t) => {
  const assistant = await office.assistant(company);
  const [key] =
    await sql`select id from api_keys where company_id = ${company} and revoked_at is null limit 1`;
  const [request] = await until(
    () => sql`select request_id as id from request_trail where company_id = ${company} limit 1`,
    'a request of the company is in the trail',
    ({ length }) => length > 0,
  );
  const [person] =
    await sql`insert into end_users (company_id, name) values (${company}, 'ann') returning id`;
  await close();
  const operator = await signedIn(office, 'operator');
  const owner = await signedIn(office, 'owner');
  const pathOf = (path: string) =>
    path
      .replace(':company', company)
      .replace(':assistant', assistant)
      .replace(':key', key?.id)
      .replace(':request', request?.id)
      .replace(':person', person?.id)
      .replace(/:\w+/g, randomUUID());
  const log = async () => (await sql`select count(*)::integer as n from audit_log`)[0]?.n;
  const before = await log();
  const csrf = { operator: await operator.csrf(), owner: await owner.csrf() };
  // those of members are for members alone, and read the key of somebody else as none
  const routes = ROUTES.filter(({ path }) => path.includes(':company') && !path.includes('/own/'));
  t.ok(routes.filter(({ method }) => method === 'POST').length > 10);
  for (const { method, path, action, whileClosed } of routes) {
    if (method === 'GET' && /usage\/(change|table)$|cost-center$/.test(path)) continue; // lead elsewhere
    if (whileClosed || /\.(csv|json|gz)$/.test(path) || path === '/companies/:company') continue;
    const found = await (method === 'GET'
      ? operator.get(pathOf(path))
      : operator.post(pathOf(path), { csrf: csrf.operator, name: 'Changed', slug: 'brand-chat' }));
    if (method === 'GET' && isReading(action)) {
      t.equal(found.status, 200, path);
      t.match(found.text, /This company was closed on/, 'a banner');
      const forms = [...found.text.matchAll(/<form method="post" action="([^"]+)"/g)].map(
        ([, to]) => to,
      );
      t.same(
        forms.filter((to) => to !== '/sign-out' && to !== `${base}/reopen`),
        [],
        'no forms',
      );
      t.notMatch(found.text, /href="[^"]*\/(new|rotate|revoke|close|run)"/, 'no ways to forms');
    } else {
      t.equal(found.status, 409, `${method} ${path}`);
      t.match(found.text, /This company is closed: its pages can be read/);
    }
  }
  const member = await signedIn(office, 'member');
  for (const place of ['keys', 'usage', 'requests'])
    t.match(
      await member.get(`${base}/own/${place}`),
      { status: 200, text: /This company was closed on/ },
      place,
    );
  t.equal((await member.post(`${base}/own/keys/create`, { name: 'Changed' })).status, 409);
  t.equal((await owner.get(`${base}/settings`)).status, 200);
  t.equal((await owner.post(`${base}/settings`, { csrf: csrf.owner, budget: '5' })).status, 409);
  t.equal(
    (await owner.post(`${base}/reopen`, { csrf: csrf.owner })).status,
    403,
    'reopening is for operators',
  );
  t.equal((await owner.get(`${base}/close`)).status, 403);
  // forms that name the company elsewhere
  const user = { csrf: csrf.operator, email: 'new@customer.example', role: 'member', company };
  t.match(await operator.post('/users', user), {
    status: 422,
    text: /The company was closed on .* nothing of it can be changed/,
  });
  const model = {
    csrf: csrf.operator,
    '0-slug': 'x',
    company,
    upstream: 'x',
    '0-kind': 'chat',
    '0-eu_hosted': 'false',
    '0-input': '1',
    '0-output': '1',
  };
  t.match(await operator.post('/models/new', model), {
    status: 422,
    text: /The company was closed on/,
  });
  t.equal(await log(), before, 'nothing has changed');
  // the own account is not the company's
  t.equal(
    (
      await owner.post('/account/password', {
        csrf: csrf.owner,
        current: PASSWORD,
        new: `${PASSWORD} 2`,
      })
    ).status,
    303,
  );
  t.match((await operator.get('/companies')).text, />closed</);
  await reopen();
  const marked = `<a href="${base}/settings" aria-current="page">`;
  t.match(
    (await operator.get(`${base}/close`)).text,
    marked,
    'the tab that leads to its end is marked',
  );
});

t.test('programs may read a closed company, and change nothing', async (t) => {
  const token = await newToken(office, { company_id: company });
  await close();
  const { status, body } = await send(office, token, ['PATCH', base], { monthly_budget_eur: '5' });
  t.match({ status, body }, { status: 409, body: { detail: /^The company was closed on/ } });
  t.match(await send(office, token, ['GET', base]), { status: 200, body: { closed_at: /^20/ } });
  await reopen();
});

t.test('every table of a company refuses changes while it is closed', async (t) => {
  await close();
  const tables = await sql`
    select c.relname as name, exists (select from pg_trigger g where g.tgrelid = c.oid and g.tgname = 'open_only') as guarded
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attname = 'company_id'
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition`;
  // what happened is written down all the same
  const written = [
    'api_usage',
    'usage_daily',
    'usage_details',
    'usage_end_user_days',
    'usage_company_days',
    'usage_key_months',
    'monthly_spend',
    'spend_changes',
    // the last months are closed, and late rows come, after the company was
    'statements',
    'statement_rows',
    'late_usage',
    'chat_usage',
    'audit_log',
    'budget_alerts',
    'end_user_alerts',
    'budget_reservations',
    'unusual_days',
    'events',
    'request_trail',
    'request_hours',
    'request_days',
    'key_reveals', // the text of a new key goes after a minute, also where its company was closed meanwhile
    'upstream_costs',
    'upstream_cost_monthly',
    'model_cost_prices', // what a provider charged may become known later
  ];
  t.same(
    tables
      .filter(({ guarded }) => !guarded)
      .map(({ name }) => name)
      .sort(),
    written.sort(),
  );
  await t.rejects(sql`update assistants set name = 'x' where company_id = ${company}`, {
    message: /^The company was closed on/,
  });
  await t.rejects(sql`update companies set name = 'x' where id = ${company}`, {
    message: /^The company was closed on/,
  });
  await sql`insert into chat_usage (company_id, cost_eur) values (${company}, 1)`;
  await reopen();
});

t.test('an owner downloads everything, an administrator does not', async (t) => {
  const options = { acceptDownloads: true, password: `${PASSWORD} 2` };
  const owner = await signedInTab(t, office, office.people.owner, options);
  await owner.page.goto(`${base}/settings`);
  const [download] = await Promise.all([
    owner.page.waitForEvent('download'),
    owner.page.getByRole('link', { name: 'Download everything' }).click(),
  ]);
  const text = execFileSync('tar', ['xzOf', await download.path()], {
    encoding: 'utf8',
    maxBuffer: 1 << 26,
  });
  t.match(text, office.people.owner);
  t.notMatch(text, /internal-demo/);
  const administrator = await signedIn(office, 'administrator');
  t.equal((await administrator.get(`${base}/export.tar.gz`)).status, 403);
  t.notMatch((await administrator.get(`${base}/settings`)).text, /Download everything/);
});

t.test('an operator closes a company by typing its name, and opens it again', async (t) => {
  const tab = await signedInTab(t, office, office.people.operator);
  const { page } = tab;
  await page.goto(`${base}/settings`);
  await page.getByRole('link', { name: 'Close this company…' }).click();
  await page.getByLabel('Name of the company').fill('Nordlicht');
  await page.getByRole('button', { name: 'Close company' }).click();
  t.match(await page.locator('main').innerText(), /is not the name of this company/);
  t.same(await glance(page, 'company-close'), []);
  t.equal(await status(customer.key), 200);
  await page.getByLabel('Name of the company').fill('Nordlicht Verlag');
  await page.getByRole('button', { name: 'Close company' }).click();
  await page.getByText('Its keys are refused within a second.').waitFor();
  await settled(customer.key, 401);
  t.same(await glance(page, 'company-closed'), []);
  for (const section of ['Keys', 'Models', 'Assistants', 'Usage']) {
    await page
      .getByRole('navigation', { name: 'Company' })
      .getByRole('link', { name: section })
      .click();
    await page.getByText('This company was closed on').waitFor();
  }
  await page.goto(`${base}/settings`);
  await page.getByRole('button', { name: 'Open again' }).click();
  await page.getByText('The company is open again.').waitFor();
  await settled(customer.key, 200);
  t.same(tab.complaints, []);
});
