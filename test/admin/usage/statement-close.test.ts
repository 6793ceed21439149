import { randomUUID } from 'node:crypto';
import t from 'tap';
import { openDatabase, type Sql } from '../../../src/store/connection/pool.ts';
import { addUsage } from '../../support/usage.ts';
import { glance, signedInTab } from '../browser.ts';
import { signedIn, startOffice } from '../people.ts';

/** Months are closed on the pages: of one company, and of all. */

const office = await startOffice(t);
const { company } = office.customer;
const db = openDatabase({ url: office.databaseUrl, maxConnections: 2 });
t.teardown(() => db.close());
const base = `/companies/${company}/statements`;
const ALL = '/companies/statements/month';
const add = (...rows: Parameters<typeof addUsage>[1]) => db.run(10_000, (sql: Sql) => addUsage(sql, rows));
const row = { company, prompt: 1000, input: '0.0025' };
const operator = await signedIn(office, 'operator');

const textOf = ({ text }: { readonly text: string }) => text.replaceAll(/<[^>]*>/g, '');

async function newCompany(name: string): Promise<string> {
  const { company } = await office.newCustomer();
  await office.sql`update companies set name = ${name} where id = ${company}`;
  return company;
}

async function numberOf(id: string, month: string): Promise<string | undefined> {
  const [found] = await office.sql`select number from statements where company_id = ${id} and billing_month = ${month}`;
  return found?.number;
}

t.test('an operator closes the months of a company in their order, and gets their statements', async (t) => {
  await add({ ...row, month: '2026-01-01' }, { ...row, month: '2026-02-01' }, { ...row, month: '2026-03-01' });
  const tab = await signedInTab(t, office, office.people.operator);
  const { page } = tab;
  await page.goto(base);
  await page.getByRole('link', { name: 'Close… March 2026' }).click();
  await page.getByRole('heading', { name: 'Close March 2026?' }).waitFor();
  const main = page.getByRole('main');
  t.match(await main.innerText(), /Still open before it: January 2026, February 2026\. .*these are closed first/);
  t.equal(await main.getByRole('button', { name: 'Close March 2026' }).count(), 0);
  t.same(await glance(page, 'statement-close-order'), []);
  t.match(await operator.post(`${base}/close`, { month: '2026-03' }), {
    status: 422,
    text: /2026-01 and 2026-02 are still open .* beginning with 2026-01; then 2026-03\./,
  });
  t.equal(await numberOf(company, '2026-03-01'), undefined);
  const all = await operator.get(`${ALL}?month=2026-03`);
  t.match(textOf(all), /Still open before it: January 2026 \(one company\), February 2026 \(one company\)\./);
  t.match(await operator.post(ALL, { month: '2026-03' }), {
    status: 200,
    text: /Not closed.*2026-01 and 2026-02 are/s,
  });

  for (const [at, month] of ['January', 'February', 'March'].entries()) {
    if (at > 0) await page.goto(`${base}/close?month=2026-03`);
    const first = page.getByRole('link', { name: `Close ${month} 2026…` });
    if (month !== 'March') await first.click();
    await page.getByRole('heading', { name: `Close ${month} 2026?` }).waitFor();
    t.match(await main.innerText(), /This cannot be undone/);
    if (at === 0) t.same(await glance(page, 'statement-close'), []);
    await page.getByRole('button', { name: `Close ${month} 2026` }).click();
    await page.getByText('The month is closed. This is its statement.').waitFor();
    await page.getByRole('heading', { name: `Statement ${at + 1} · ${month} 2026` }).waitFor();
    t.equal(await main.getByRole('link', { name: /^Close/ }).count(), 0);
  }
  await page.goto(`${base}/close?month=2026-03`);
  await page.getByRole('heading', { name: 'Statement 3 · March 2026' }).waitFor(); // and not closed twice
  t.same(tab.complaints, []);
  t.equal((await operator.post(`${base}/close`, { month: '2026-03' })).status, 303, 'a form that is sent again');
  const log = await office.sql`select distinct actor from audit_log where subject = 'statements'`;
  t.same([...log], [{ actor: office.people.operator }]);
  await add({ ...row, month: '2026-04-01' }); // it comes late, and waits for its statement
});

t.test('people of a company close nothing', async (t) => {
  const owner = await signedIn(office, 'owner');
  t.equal((await owner.post(`${base}/close`, { month: '2026-04' })).status, 403);
  t.equal((await owner.post(ALL, { month: '2026-04' })).status, 403);
  t.equal((await owner.get('/companies/statements')).status, 403);
  t.equal(await numberOf(company, '2026-04-01'), undefined);
});

t.test(
  'a month that is not over is not closed, and no month is closed unasked to which records are on their way',
  async (t) => {
    const now = { month: new Date().toISOString().slice(0, 7) };
    for (const path of [`${base}/close`, ALL]) {
      t.match(await operator.get(`${path}?month=${now.month}`), { status: 409, text: /is not over yet in UTC/ });
      t.match(await operator.post(path, now), { status: 409, text: /is not over yet in UTC/ });
      t.equal((await operator.post(path, { month: 'May' })).status, 404);
    }
    const id = randomUUID();
    await office.sql`insert into gateways (id, name, version, backlog, oldest_at) values (${id}, 'gw-1', '1', 7, '2026-04-30T23:00:00Z')`;
    t.match((await operator.get(`${base}/close?month=2026-04`)).text, /may still be on their way from gw-1/);
    for (const path of [ALL, `${base}/close`]) {
      const asked = await operator.post(path, { month: '2026-04' });
      t.match(asked, { status: 409, text: /on their way from gw-1 .*7 records waiting.*Close it anyway/s });
      t.equal(await numberOf(company, '2026-04-01'), undefined);
    }
    const [, answer = ''] =
      /name="confirmed" value="([^"]+)"/.exec((await operator.post(ALL, { month: '2026-04' })).text) ?? [];
    t.equal((await operator.post(`${base}/close`, { month: '2026-04', confirmed: answer })).status, 303);
    t.equal(await numberOf(company, '2026-04-01'), '4');
    await office.sql`delete from gateways where id = ${id}`;
  },
);

t.test(
  'a month is closed for all companies: closed and removed ones too, and those with late calls; who is refused is named',
  async (t) => {
    const month = '2026-07-01';
    const [whole, lacking, gone, shut] = await Promise.all(['Whole', 'Lacking', 'Gone', 'Shut'].map(newCompany));
    for (const company of [whole, lacking, gone, shut]) await add({ ...row, company: company as string, month });
    await add({ ...row, month: '2026-06-01' });
    t.equal((await operator.post(`${base}/close`, { month: '2026-06' })).status, 303);
    await add({ ...row, month: '2026-06-01' });
    await office.sql`delete from companies where id = ${gone as string}`;
    await office.sql`update companies set closed_at = now() where id = ${shut as string}`;
    await office.sql`update monthly_spend set requests = 2 where company_id = ${lacking as string}`;
    t.match((await operator.get('/companies/statements')).text, /July 2026.*>0<.*>4</s);

    const { page, complaints } = await signedInTab(t, office, office.people.operator);
    await page.goto('/companies');
    await page.getByRole('link', { name: 'Statements of all companies' }).click();
    await page.getByRole('link', { name: 'July 2026' }).click();
    const open = page.getByRole('table', { name: 'Companies to close July 2026 for' });
    t.equal(await open.getByRole('row').count(), 6);
    t.match(await open.innerText(), /a removed company.*Nordlicht Verlag\s+0\s.*\s1\s.*Shut/s);
    t.same(await glance(page, 'statements-all'), []);
    await page.getByRole('button', { name: 'Close July 2026 for 5 companies' }).click();
    t.match(await page.getByRole('status').innerText(), '4 companies are closed for July 2026.');
    t.same(await glance(page, 'statements-all-refused'), []);
    const refused = page.getByRole('table', { name: 'Not closed for July 2026' });
    t.match(await refused.innerText(), /Lacking\s+The ledger rows of 2026-07 are not those that were booked/);
    t.same(complaints, []);
    t.same(await Promise.all([whole, gone, shut, company, lacking].map((id) => numberOf(id as string, month))), [
      '1',
      '1',
      '1',
      '6',
      undefined,
    ]);
    await office.sql`update monthly_spend set requests = 1 where company_id = ${lacking as string}`;
    await page.getByRole('link', { name: 'What is still open of July 2026' }).click();
    await page.getByRole('button', { name: 'Close July 2026 for one company' }).click();
    t.match(
      await page.getByRole('main').innerText(),
      /One company is closed.*No company waits for a statement of July 2026/s,
    );
    await page.reload();
    t.match(await page.getByRole('status').innerText(), 'One company is closed', 'nothing is sent again');
  },
);

t.test('the last month of a closed company is closed on its own page', async (t) => {
  const id = await newCompany('Left');
  await add({ ...row, company: id, month: '2026-05-01' });
  await office.sql`update companies set closed_at = now() where id = ${id}`;
  t.match((await operator.get(`/companies/${id}/statements/close?month=2026-05`)).text, /Close May 2026\?/);
  t.equal((await operator.post(`/companies/${id}/statements/close`, { month: '2026-05' })).status, 303);
  t.equal(await numberOf(id, '2026-05-01'), '1');
});
