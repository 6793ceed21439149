import { createHash, randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import t from 'tap';
import { openDatabase, type Sql } from '../../../src/store/connection/pool.ts';
import { closeStatement } from '../../support/statement.ts';
import { until } from '../../support/until.ts';
import { addUsage } from '../../support/usage.ts';
import { newToken, send } from '../api/tokens.ts';
import { glance, signedInTab } from '../browser.ts';
import { signedIn, startOffice } from '../people.ts';

/** Statements on the pages of operators and owners, on paper, and as operations. */

const office = await startOffice(t);
const { company } = office.customer;
const db = openDatabase({ url: office.databaseUrl, maxConnections: 2 });
t.teardown(() => db.close());
const base = `/companies/${company}/statements`;
const add = (rows: Parameters<typeof addUsage>[1]) =>
  db.run(60_000, (sql: Sql) => addUsage(sql, rows));
const [{ id: key } = { id: '' }] = await office.sql<
  { id: string }[]
>`select id from api_keys where company_id = ${company} limit 1`;
const row = {
  company,
  key,
  month: '2026-09-01',
  upstream: 'internal/secret-name',
  prompt: 12_345,
  completion: 678,
  input: '0.0025',
  output: '0.01',
};
await add([
  row,
  { ...row, model: 'brand-large', center: 'Einkauf'.repeat(9), input: '0.01' },
  { ...row, key: randomUUID(), center: 'Sales' },
]);
await closeStatement(db, company, '2026-09-01');
const late = randomUUID();
await add([
  { ...row, request: late },
  { ...row, month: '2026-10-01' },
]);
await closeStatement(db, company, '2026-10-01');
await add([
  { ...row, month: '2026-10-01' },
  { ...row, month: '2026-08-01' },
]);

t.test('owners see their statements, and neither internal names nor those of others', async (t) => {
  const owner = await signedIn(office, 'owner');
  const list = await owner.get(base);
  t.equal(list.status, 200);
  t.match(list.text, /2 · October 2026/);
  t.match(list.text, /1 call, .*, on the next one/);
  t.match(list.text, /month=2026-08">August 2026<\/a>/, 'an open month');
  t.notMatch(list.text, '/close', 'owners cannot close');
  const month = await owner.get(`${base}/month?month=2026-10`);
  t.match(month.text, /<h1>Statement 2 · October 2026<\/h1>/);
  t.match(month.text, new RegExp(`Correction of September 2026.*${late}`, 's'));
  t.match(month.text, `<a href="/companies/${company}/keys/${key}">`);
  const preview = await owner.get(`${base}/month?month=2026-08`);
  t.match(preview.text, /This month is not closed/);
  t.notMatch(preview.text, '/close');
  t.notMatch(list.text + month.text + preview.text, 'secret-name');
  t.match(await owner.get(`${base}/month?month=2026-13`), {
    status: 404,
    text: /A value in the address must be a month/,
  });
  t.match((await owner.get(`${base}/month`)).text, /<h1>Preview of/, 'the present month');
  const { company: foreign } = await office.newCustomer();
  t.equal((await owner.get(`/companies/${foreign}/statements`)).status, 404);
  t.equal((await (await signedIn(office, 'administrator')).get(base)).status, 403);
  const operator = await signedIn(office, 'operator');
  t.match((await operator.get(base)).text, `href="${base}/month?month=2026-08">Close…`);
});

t.test('the JSON is the sealed document, and the CSV has all lines', async (t) => {
  const owner = await signedIn(office, 'owner');
  const json = await owner.get(`${base}/month.json?month=2026-10`);
  const named = 'attachment; filename="statement-2-2026-10.json"';
  t.match(
    json.headers.get('content-disposition'),
    `${named}; filename*=UTF-8''Nordlicht%20Verlag%20statement-2-2026-10.json`,
  );
  const [stored] = await office.sql<{ digest: string }[]>`
    select encode(digest, 'hex') as digest from statements where company_id = ${company} and number = 2`;
  t.equal(createHash('sha256').update(json.text).digest('hex'), stored?.digest);
  t.match((await owner.get(`${base}/month?month=2026-10`)).text, stored?.digest as string);
  const csv = await owner.get(`${base}/month.csv?month=2026-10`);
  t.match(
    csv.text,
    /^statement,kind,month,.*\n2,month,2026-10,fast,.*\n2,correction,2026-09,fast,.*\n$/,
  );
  t.equal(
    (await owner.get(`${base}/month.json?month=2026-08`)).status,
    404,
    'a preview is no document',
  );

  const charges = await owner.get(`${base}/month/focus.csv?month=2026-10`);
  t.match(charges.headers.get('content-disposition'), 'attachment; filename="focus-2026-10.csv"');
  t.match(charges.text, /^BilledCost,.*\n(.*,Usage,,.*\n){2}(.*,Usage,Correction,.*\n){2}$/);
  t.match(
    (await owner.get(`${base}/month?month=2026-10`)).text,
    `href="${base}/month/focus.csv?month=2026-10"`,
  );
  t.equal(
    (await owner.get(`${base}/month/focus.csv?month=2026-08`)).status,
    200,
    'a preview has charges',
  );
  t.equal((await owner.get('/month-end/focus.csv?month=2026-10')).status, 403);

  const operator = await signedIn(office, 'operator');
  const exports: ReturnType<typeof owner.get>[] = [];
  await office.sql.begin(async (sql) => {
    await sql`lock table assistants in access exclusive mode`; // the exports wait for it
    for (const person of [owner, owner, operator]) {
      exports.push(person.get(`/companies/${company}/export.tar.gz`));
      await until(
        () =>
          office.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        'the export runs',
        ({ length }) => length === exports.length,
      );
    }
    t.equal(
      (await owner.get(`${base}/month.json?month=2026-10`)).status,
      200,
      'a statement waits for no export',
    );
    const invited = { email: 'new@customer.example', role: 'member' };
    t.equal(
      (await owner.post(`/companies/${company}/users`, invited)).status,
      200,
      'nor does an invitation',
    );
  });
  await Promise.all(exports);
});

t.test(
  'the pages are accessible on every window, and print without what one can click',
  async (t) => {
    const tab = await signedInTab(t, office, office.people.owner);
    await tab.page.goto(base);
    t.same(await glance(tab.page, 'statements'), []);
    await tab.page
      .getByRole('link', { name: /October 2026/ })
      .first()
      .click();
    await tab.page.getByRole('heading', { name: 'Statement 2 · October 2026' }).waitFor();
    t.same(await glance(tab.page, 'statement'), []);
    await tab.page.setViewportSize({ width: 360, height: 800 });
    const files = await Promise.all(
      ['JSON', 'CSV'].map((name) =>
        tab.page.getByRole('link', { name, exact: true }).boundingBox(),
      ),
    );
    t.equal(files[0]?.y, files[1]?.y, 'the files stand side by side on a phone');
    const usage = tab.page.getByRole('main').getByRole('link', { name: 'Usage', exact: true });
    t.equal(await usage.last().getAttribute('href'), `/companies/${company}/usage?month=2026-10`);
    await tab.page.emulateMedia({ media: 'print' });
    t.notOk(await tab.page.getByRole('link', { name: 'CSV' }).isVisible());
    t.ok(
      await tab.page.locator('.parties').getByText('Nordlicht Verlag').isVisible(),
      'the company is named',
    );
    t.ok(await tab.page.getByText(late).isVisible());
    await tab.page.setViewportSize({ width: 680, height: 1000 }); // A4 between its margins
    await tab.page.goto(`${base}/month?month=2026-09`);
    const wide = await tab.page.evaluate('document.documentElement.scrollWidth');
    t.equal(wide, 680, 'no column is cut off');
    const size = await tab.page.evaluate<string>(
      `getComputedStyle(document.querySelector('td')).fontSize`,
    );
    t.ok(Number.parseFloat(size) < 13, 'tables are of the size of paper too');
    const tops = await tab.page
      .locator('.parties > *')
      .evaluateAll((blocks) => blocks.map((block) => block.getBoundingClientRect().top));
    t.equal(new Set(tops).size, 1, 'paper is no phone');
    await tab.page.goto(`${base}/month?month=2026-08`);
    t.ok(
      await tab.page.getByText('This month is not closed').isVisible(),
      'a preview says what it is',
    );
    if (process.env.SCREENSHOTS) {
      mkdirSync('.tap/screenshots', { recursive: true });
      await tab.page.pdf({ path: '.tap/screenshots/statement.pdf', format: 'A4' });
      await tab.page.setViewportSize({ width: 794, height: 1123 });
      await tab.page.screenshot({ path: '.tap/screenshots/statement-print.png', fullPage: true });
    }
    t.same(tab.complaints, []);
  },
);

t.test(
  'a month whose calls name a cost centre each is left to commands: it would take the memory of all pages',
  async (t) => {
    const { company: careless } = await office.newCustomer();
    await office.sql`
    insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens,
      completion_tokens, price_input, price_output, cost_eur, usage_source, outcome, occurred_at, cost_center)
    select '2026-07-01', gen_random_uuid(), ${careless}, ${key}, 'fast', 'x', 'chat.completions', 1, 0, 0, 0, 0, 'upstream',
      'completed', '2026-07-15T12:00:00Z', 'call ' || n from generate_series(1, 20001) as n`;
    const operator = await signedIn(office, 'operator');
    const statements = `/companies/${careless}/statements`;
    const { status, text } = await operator.get(`${statements}/month?month=2026-07`);
    t.equal(status, 409);
    t.match(text, `tollgate statement --company ${careless} --month 2026-07`);
    const closed = await send(office, await newToken(office), ['POST', statements], {
      month: '2026-07',
    });
    t.match(closed, { status: 409, body: { detail: /has too many lines/ } });
    t.match((await operator.get(statements)).text, /July 2026/, 'still open');
  },
);

t.test('programs list, read and close statements; tokens of a company only read', async (t) => {
  const token = await newToken(office);
  const owners = await newToken(office, { company_id: company });
  const list = await send(office, owners, ['GET', `${base}?limit=1`]);
  t.match(list, {
    status: 200,
    body: {
      data: [{ number: 2, corrections: 1, later: [{ statement: null }] }],
      next_cursor: '2',
      open_months: ['2026-08'],
    },
  });
  t.match(await send(office, owners, ['GET', `${base}?cursor=2`]), {
    body: { data: [{ number: 1 }], next_cursor: null },
  });
  const read = await send(office, owners, ['GET', `${base}/month?month=2026-10`]);
  const { digest, document } = read.body;
  t.equal(
    createHash('sha256')
      .update(`${JSON.stringify(document)}\n`)
      .digest('hex'),
    digest,
  );
  t.match(await send(office, owners, ['GET', `${base}/month?month=2026-08`]), {
    status: 404,
    body: { detail: /is not closed/ },
  });
  t.equal((await send(office, owners, ['POST', base], { month: '2026-08' })).status, 403);
  t.match(await send(office, token, ['POST', base], { month: '2999-01' }), {
    status: 409,
    body: { detail: /not over/ },
  });
  t.match(await send(office, token, ['POST', base], { month: 'May' }), {
    status: 400,
    body: { errors: [{ pointer: '#/month' }] },
  });
  t.match(await send(office, token, ['POST', base], { month: '2026-07' }), {
    status: 409,
    body: { detail: /^2026-10 of this company is closed already/ },
  });
  await add([{ ...row, month: '2026-07-01' }]);
  t.match(await send(office, token, ['POST', base], { month: '2026-08' }), {
    status: 409,
    body: { detail: /^2026-07 is still open .* Close 2026-07 first; then 2026-08\.$/ },
  });
  t.match(await send(office, token, ['POST', base], { month: '2026-07' }), {
    status: 201,
    body: { number: 3, corrections: 1, document: { previous: digest } },
  });
  const closed = await send(office, token, ['POST', base], { month: '2026-08' });
  t.match(closed, {
    status: 201,
    body: { number: 4, month: '2026-08', corrections: 0 },
  });
  t.same(
    (await send(office, token, ['POST', base], { month: '2026-08' })).body,
    closed.body,
    'closed once',
  );
  const log = await office.sql<{ actor: string; number: string }[]>`
    select actor, after ->> 'number' as number from audit_log where subject = 'statements' order by id desc limit 1`;
  t.same([...log], [{ actor: 'token deploy', number: '4' }]);
});

t.test(
  '43 keys with a cached price print on two sheets: parts stand by price alone, the amount first',
  async (t) => {
    const { company } = await office.newCustomer();
    await office.sql`
    insert into api_keys (company_id, name, digest, prefix, scopes)
    select ${company}, 'Application ' || n, sha256(('sheet ' || n)::bytea), 'svc_' || n, '{chat}' from generate_series(2, 43) n`;
    const keys = await office.sql<
      { id: string }[]
    >`select id from api_keys where company_id = ${company}`;
    t.equal(keys.length, 43);
    const cached = { cached: 5000, cacheRead: '0.0003' };
    await add(
      keys.map(({ id }, n) => ({ ...row, company, key: id, center: `Team ${n % 5}`, ...cached })),
    );
    await closeStatement(db, company, '2026-09-01');
    const { page } = await signedInTab(t, office, office.people.operator);
    await page.goto(`/companies/${company}/statements/month?month=2026-09`);
    t.equal(await page.getByText('cache read').count(), 1);
    t.equal(await page.locator('.annex tbody tr').count(), 43 + 5);
    const [due, buyer] = await page.locator('.figure-card, .parties').allInnerTexts();
    t.match([due, buyer], [/^Amount to invoice/, /^Requests/]);
    const sheets = (await page.pdf({ preferCSSPageSize: true })).toString('latin1');
    t.equal(sheets.match(/\/Type\s*\/Page\b/g)?.length, 2);
  },
);

t.test('a table of many keys adds up: those that it does not show are one line', async (t) => {
  const { company } = await office.newCustomer();
  const rows = Array.from({ length: 203 }, (_, n) => ({
    company,
    month: '2026-08-01',
    prompt: n + 1,
    input: '1',
  }));
  await add(rows);
  const { text } = await (await signedIn(office, 'operator')).get(
    `/companies/${company}/statements/month?month=2026-08`,
  );
  const keys = text.slice(text.indexOf('By key'));
  t.equal(keys.match(/a deleted key/g)?.length, 200);
  const row = keys.slice(keys.indexOf('3 others')).split('</tr>', 1)[0] ?? '';
  const cells = row.replaceAll(/<[^>]*>/g, ' ').split(/\s+/);
  t.match(cells.join(' '), '3 others 3 6 0 €0.01 €0.006', 'the cheapest, of 1, 2 and 3 tokens');
});

t.test(
  'a statement is a document: seller, buyer, unit prices, and from the exact sum to the amount in cents',
  async (t) => {
    const owner = await signedIn(office, 'owner');
    const operator = await signedIn(office, 'operator');
    const settings = `/companies/${company}`;
    const buyer = {
      billing_name: 'Nordlicht GmbH',
      billing_address: 'Am Kai 1\r\n\r\n20457 Hamburg',
      vat_id: 'DE1',
    };
    t.equal((await owner.post(`${settings}/buyer`, buyer)).status, 303);
    t.equal(
      (await owner.post(`${settings}/buyer`, { ...buyer, billing_address: 'x\n'.repeat(7) }))
        .status,
      422,
    );
    t.equal(
      (await owner.post(`${settings}/name`, { name: 'Mine', customer_number: 'K-1' })).status,
      403,
    );
    const named = { name: 'Nordlicht Verlag', customer_number: 'K-1' };
    t.equal((await operator.post(`${settings}/name`, named)).status, 303);
    const { text } = await owner.get(`${base}/month?month=2026-09`);
    const shown = text.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
    t.match(
      shown,
      /From Tollgate To Nordlicht GmbH Am Kai 1 20457 Hamburg VAT id DE1 Period 1 – 30 September 2026|From Tollgate To Nordlicht GmbH Am Kai 1 20457 Hamburg VAT id DE1 Period 1–30 September 2026/,
    );
    t.match(shown, /Customer number K-1/);
    t.match(shown, /fast input 24,690 €2\.50 €0\.061725 fast output 1,356 €10\.00 €0\.01356/);
    t.match(
      shown,
      /Calls in September 2026 €0\.205515 Exact total €0\.205515 Rounding to cents €0\.004485 Amount to invoice €0\.21/,
    );
    const [{ content }] = await office.sql<[{ content: string }]>`
    select content from statements where company_id = ${company} and number = 1`;
    t.match(JSON.parse(content).charges, [
      { model: 'brand-large', part: 'input', price: '0.01', tokens: 12_345 },
      {},
      {},
      {},
    ]);
  },
);
