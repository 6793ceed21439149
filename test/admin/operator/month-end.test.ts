import { randomUUID } from 'node:crypto';
import t from 'tap';
import { openDatabase, type Sql } from '../../../src/store/connection/pool.ts';
import { addUsage } from '../../support/usage.ts';
import { glance, signedInTab } from '../browser.ts';
import { signedIn, startOffice } from '../people.ts';

/** Months are closed on the pages: of one company on its preview, and of all on the month-end desk. */

const office = await startOffice(t);
const { company } = office.customer;
const db = openDatabase({ url: office.databaseUrl, maxConnections: 2 });
t.teardown(() => db.close());
const base = `/companies/${company}/statements`;
const ALL = '/month-end';
const ONE = `${base}/month`;
const add = (...rows: Parameters<typeof addUsage>[1]) =>
  db.run(60_000, (sql: Sql) => addUsage(sql, rows));
const row = { company, prompt: 1000, input: '0.0025' };
const operator = await signedIn(office, 'operator');

const textOf = ({ text }: { readonly text: string }) => text.replaceAll(/<[^>]*>/g, '');

async function newCompany(name: string): Promise<string> {
  const { company } = await office.newCustomer();
  await office.sql`update companies set name = ${name} where id = ${company}`;
  return company;
}

async function numberOf(id: string, month: string): Promise<string | undefined> {
  const [found] =
    await office.sql`select number from statements where company_id = ${id} and billing_month = ${month}`;
  return found?.number;
}

t.test(
  'an operator closes the months of a company in their order, and gets their statements',
  async (t) => {
    await add(
      { ...row, month: '2026-01-01' },
      { ...row, month: '2026-02-01' },
      { ...row, month: '2026-03-01' },
    );
    const tab = await signedInTab(t, office, office.people.operator);
    const { page } = tab;
    await page.goto(base);
    await page.getByRole('link', { name: 'Close… March 2026' }).click();
    await page.getByRole('heading', { name: 'Preview of March 2026' }).waitFor();
    const main = page.getByRole('main');
    t.match(
      await main.innerText(),
      /Still open before it: January 2026, February 2026\. .*these are closed first/,
    );
    t.equal(await main.getByRole('button', { name: 'Close March 2026' }).count(), 0);
    t.same(await glance(page, 'statement-close-order'), []);
    t.match(await operator.post(ONE, { month: '2026-03' }), {
      status: 422,
      text: /2026-01 and 2026-02 are still open .* beginning with 2026-01; then 2026-03\./,
    });
    t.equal(await numberOf(company, '2026-03-01'), undefined);
    const charges = await operator.get(`${ALL}/focus.csv?month=2026-03`);
    t.match(charges, { status: 200, text: /^BilledCost,.*\n0\.0025,/ });
    const all = await operator.get(`${ALL}?month=2026-03`);
    t.match(all.text, `href="${ALL}/focus.csv?month=2026-03"`);
    t.match(
      textOf(all),
      /Still open: January 2026 \(one company\), February 2026 \(one company\)\./,
    );
    t.match(await operator.post(ALL, { month: '2026-03' }), {
      status: 200,
      text: /Not closed.*2026-01 and 2026-02 are/s,
    });

    for (const [at, month] of ['January', 'February', 'March'].entries()) {
      if (at > 0) await page.goto(`${ONE}?month=2026-03`);
      if (month !== 'March') await main.getByRole('link', { name: `${month} 2026` }).click();
      await page.getByRole('heading', { name: `Preview of ${month} 2026` }).waitFor();
      t.match(await main.innerText(), /This cannot be undone/);
      if (at === 0) t.same(await glance(page, 'statement-close'), []);
      await page.getByRole('button', { name: `Close ${month} 2026` }).click();
      await page.getByText('The month is closed. This is its statement.').waitFor();
      await page.getByRole('heading', { name: `Statement ${at + 1} · ${month} 2026` }).waitFor();
      t.equal(await main.getByRole('button', { name: /^Close/ }).count(), 0);
    }
    await page.goto(`${ONE}?month=2026-03`);
    await page.getByRole('heading', { name: 'Statement 3 · March 2026' }).waitFor(); // and not closed twice
    t.same(tab.complaints, []);
    t.equal(
      (await operator.post(ONE, { month: '2026-03' })).status,
      303,
      'a form that is sent again',
    );
    const log = await office.sql`select distinct actor from audit_log where subject = 'statements'`;
    t.same([...log], [{ actor: office.people.operator }]);
    await add({ ...row, month: '2026-04-01' }); // it comes late, and waits for its statement
  },
);

t.test(
  'e-mails of a month that is closed already are sent to whom they were not, once',
  async (t) => {
    const mails = () => office.sql`
    select recipient from event_deliveries join events on id = event_id
    where company_id = ${company} and channel = 'email' and body #>> '{statement,month}' = '2026-03'`;
    t.same([...(await mails())], []);
    for (let sent = 0; sent < 2; sent++) {
      t.equal((await operator.post(ONE, { month: '2026-03', mail: 'true' })).status, 303);
      t.same([...(await mails())], [{ recipient: office.people.owner }]);
    }
  },
);

t.test(
  'a month with open ones before it has no button, and sends no mail unasked; old addresses lead here',
  async (t) => {
    const id = await newCompany('In order');
    for (const month of ['2025-01-01', '2025-02-01']) await add({ ...row, company: id, month });
    const { text } = await operator.get(`${ALL}?month=2025-02`);
    t.match(text, 'Earlier months are closed');
    t.notMatch(text, /<button[^>]*>Close February 2025/);
    const first = await operator.get(`${ALL}?month=2025-01`);
    t.match(first.text, /<button[^>]*>Close January 2025/);
    t.notMatch(first.text, / name="mail" value="true" checked/);
    for (const old of ['/companies/statements', '/companies/statements/month']) {
      const { headers } = await operator.get(`${old}?month=2025-01`);
      t.equal(headers.get('location'), '/month-end?month=2025-01');
    }
    for (const month of ['2025-01', '2025-02'])
      t.equal((await operator.post(ALL, { month })).status, 303);
  },
);

t.test('people of a company close nothing', async (t) => {
  const owner = await signedIn(office, 'owner');
  t.equal((await owner.post(ONE, { month: '2026-04' })).status, 403);
  t.equal((await owner.post(ALL, { month: '2026-04' })).status, 403);
  t.equal((await owner.get(ALL)).status, 403);
  t.equal(await numberOf(company, '2026-04-01'), undefined);
});

t.test(
  'a month that is not over is not closed, and no month is closed unasked to which records are on their way',
  async (t) => {
    const now = { month: new Date().toISOString().slice(0, 7) };
    t.match(await operator.get(`${ALL}?month=${now.month}`), {
      status: 409,
      text: /is not over yet in UTC/,
    });
    t.match(await operator.post(ALL, now), { status: 409, text: /is not over yet in UTC/ });
    t.notMatch(
      (await operator.get(`${ONE}?month=${now.month}`)).text,
      /<button class="danger">Close/,
    );
    t.equal((await operator.post(ONE, now)).status, 422);
    for (const path of [ONE, ALL])
      t.equal((await operator.post(path, { month: 'May' })).status, 404);
    const id = randomUUID();
    await office.sql`insert into gateways (id, name, version, backlog, oldest_at) values (${id}, 'gw-1', '1', 7, '2026-04-30T23:00:00Z')`;
    t.match(
      (await operator.get(`${ONE}?month=2026-04`)).text,
      /may still be on their way from gw-1/,
    );
    for (const path of [ALL, ONE]) {
      const asked = await operator.post(path, { month: '2026-04' });
      t.match(asked, {
        status: 409,
        text: /on their way from gw-1 .*7 records waiting.*Close it anyway/s,
      });
      t.equal(await numberOf(company, '2026-04-01'), undefined);
    }
    const [, answer = ''] =
      /name="confirmed" value="([^"]+)"/.exec(
        (await operator.post(ALL, { month: '2026-04' })).text,
      ) ?? [];
    t.equal((await operator.post(ONE, { month: '2026-04', confirmed: answer })).status, 303);
    t.equal(await numberOf(company, '2026-04-01'), '4');
    await office.sql`delete from gateways where id = ${id}`;
  },
);

t.test(
  'a month is closed for all companies: closed and removed ones too, and those with late calls; who is refused is named',
  async (t) => {
    const month = '2026-07-01';
    const [whole, lacking, gone, shut] = await Promise.all(
      ['Whole', 'Lacking', 'Gone', 'Shut'].map(newCompany),
    );
    for (const company of [whole, lacking, gone, shut])
      await add({ ...row, company: company as string, month });
    await add({ ...row, month: '2026-06-01' });
    t.equal((await operator.post(ONE, { month: '2026-06' })).status, 303);
    await add({ ...row, month: '2026-06-01' });
    await office.sql`delete from companies where id = ${gone as string}`;
    await office.sql`update companies set closed_at = now() where id = ${shut as string}`;
    await office.sql`update monthly_spend set requests = 2 where company_id = ${lacking as string}`;
    t.match(textOf(await operator.get(`${ALL}?month=2026-07`)), /Closed\s*0 of 5/);

    const { page, complaints } = await signedInTab(t, office, office.people.operator);
    await page.goto('/companies');
    await page.getByRole('link', { name: 'Month-end' }).click();
    await page.goto(`${ALL}?month=2026-07`);
    const open = page.getByRole('table', { name: 'Statements of July 2026' });
    t.equal(await open.getByRole('row').count(), 6);
    t.match(await open.innerText(), /a removed company.*Nordlicht Verlag\s+open\s+0\s+1\s.*Shut/s);
    t.same(await glance(page, 'statements-all'), []);
    await page.getByRole('button', { name: 'Close July 2026 for 5 companies' }).click();
    t.match(await page.getByRole('status').innerText(), '4 companies are closed for July 2026.');
    t.same(await glance(page, 'statements-all-refused'), []);
    const refused = page.getByRole('table', { name: 'Not closed for July 2026' });
    t.match(
      await refused.innerText(),
      /Lacking\s+The ledger rows of 2026-07 are not those that were booked/,
    );
    t.same(complaints, []);
    t.same(
      await Promise.all(
        [whole, gone, shut, company, lacking].map((id) => numberOf(id as string, month)),
      ),
      ['1', '1', '1', '6', undefined],
    );
    await office.sql`update monthly_spend set requests = 1 where company_id = ${lacking as string}`;
    await page.getByRole('link', { name: 'What is still open of July 2026' }).click();
    await page.getByRole('button', { name: 'Close July 2026 for one company' }).click();
    t.match(await page.getByRole('main').innerText(), /One company is closed.*5 of 5/s);
    await page.reload();
    t.match(
      await page.getByRole('status').innerText(),
      'One company is closed',
      'nothing is sent again',
    );
  },
);

t.test('the last month of a closed company is closed on its own page', async (t) => {
  const id = await newCompany('Left');
  await add({ ...row, company: id, month: '2026-05-01' });
  await office.sql`update companies set closed_at = now() where id = ${id}`;
  t.match(
    (await operator.get(`/companies/${id}/statements/month?month=2026-05`)).text,
    /Close May 2026/,
  );
  t.equal(
    (await operator.post(`/companies/${id}/statements/month`, { month: '2026-05' })).status,
    303,
  );
  t.equal(await numberOf(id, '2026-05-01'), '1');
});

t.test(
  'figures are the same to the last digit on the desk, in the file of all and in each statement; who opened one is noted once',
  async (t) => {
    const month = '2025-11';
    const [one, other] = await Promise.all(['Ähre & Söhne', '=Cent/Co'].map(newCompany));
    const each = { month: `${month}-01`, input: '0.000000000001' };
    await add(
      { ...row, ...each, company: one as string, prompt: 5_000_000 },
      { ...row, company: one as string, month: each.month, input: '0.005', prompt: 1000 },
    );
    await add(
      { ...row, ...each, company: other as string, prompt: 7 },
      { ...each, company: other as string, model: 'gift', prompt: 9, input: '0' },
    );
    await add({ ...row, company: one as string, month: '2025-10-01', input: '0.01' });
    const before = await operator.get(`${ALL}?month=${month}&exact=1`);
    t.match(textOf(before), /Total€0\.005000005000007/);
    t.match(textOf(before), /-€0\.004999994999993 \(-50%\) against October 2025/);
    t.match(textOf(before), /Still open: October 2025 \(one company\)/);
    t.match(textOf(before), /Calls of gift had tokens and cost nothing/);
    t.equal((await operator.post(ALL, { month: '2025-10' })).status, 303);
    t.equal((await operator.post(`/companies/${other}/statements/month`, { month })).status, 303);
    const inOrder = async (sort: string) =>
      textOf(await operator.get(`${ALL}?month=${month}&sort=${sort}`));
    t.match(await inOrder('name'), /=Cent\/Co.*Ähre/s);
    t.match(await inOrder('open'), /Ähre.*=Cent\/Co/s);
    t.equal((await operator.post(ALL, { month })).status, 303);
    const [statement] =
      await office.sql`select total_eur::text as total from statements where company_id = ${one as string} and number = 2`;
    t.equal(statement?.total, '0.005000005');
    const csv = await operator.get(`${ALL}.csv?month=${month}&spreadsheet=comma`);
    const lines = csv.text
      .trim()
      .split('\n')
      .slice(1)
      .map((line) => line.split(','));
    t.same(
      lines.map((cells) => [cells[2], cells[5], ...cells.slice(7, 12)]),
      [
        ["'=Cent/Co", '1', '2', '0.000000000000007', '0', '0.000000000000007', '0.00'],
        ['Ähre & Söhne', '2', '2', '0.005000005', '0', '0.005000005', '0.01'],
      ],
    );
    const desk = textOf(await operator.get(`${ALL}?month=${month}&exact=1`));
    t.match(desk, /Closed2 of 2/);
    t.match(desk, /Ähre &amp; Söhne22none€0\.005000005€0\.01no/);

    const archive = await operator.get(`${ALL}.tar.gz?month=${month}`);
    t.equal(archive.status, 200);
    t.equal(archive.headers.get('content-type'), 'application/gzip');
    t.equal((await operator.get(`/companies/${one}/statements/month?month=${month}`)).status, 200);
    const opened = () =>
      office.sql`select opened_by, opened_at from statements where opened_at is not null`;
    t.same([...(await opened())], [], 'an operator is no owner');
    const owner = await signedIn(office, 'owner');
    t.equal(
      (await owner.get(`${base}/month?month=2025-12`)).status,
      200,
      'a preview is no statement',
    );
    t.equal((await owner.get(`${base}/month.json?month=2026-03`)).status, 200);
    const first = await opened();
    t.match([...first], [{ opened_by: office.people.owner }]);
    t.equal((await owner.get(`${base}/month?month=2026-03`)).status, 200);
    t.same([...(await opened())], [...first], 'noted once');
    t.match(
      textOf(await operator.get(`${ALL}?month=2026-03`)),
      new RegExp(`1 opened by their owners.*${office.people.owner}`, 's'),
    );
    const again = office.sql`update statements set opened_at = now() where company_id = ${company} and number = 3`;
    await t.rejects(again, /append-only/);
    await t.rejects(
      office.sql`update statements set content = '{}' where company_id = ${company}`,
      /append-only/,
    );
  },
);
