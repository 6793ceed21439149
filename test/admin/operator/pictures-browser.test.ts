import t from 'tap';
import { addDays } from '../../../src/domain/reports/day-range.ts';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { trailStore } from '../../../src/store/gateway/request-trail.ts';
import { addRequests } from '../../support/requests.ts';
import { until } from '../../support/until.ts';
import { addUsage } from '../../support/usage.ts';
import { accessibility, glance, SCRIPTS, signedInTab } from '../browser.ts';
import { startOffice } from '../people.ts';

/** The pictures of the first page in a browser: what a bar shows is what it leads to. */

const office = await startOffice(t, { BILLING_TIMEZONE: 'UTC' });
const { sql } = office;
const { company } = office.customer;
const now = Date.now();
const today = new Date(now).toISOString().slice(0, 10);
const day = addDays(today, -2);
const other = (await sql`insert into companies (name) values ('Zweite') returning id`)[0]
  ?.id as string;
await sql`update companies set name = 'Erste', monthly_budget_eur = 1 where id = ${company}`;
const call = (of: string, at: string, prompt: number) => ({
  company: of,
  month: `${at.slice(0, 7)}-01`,
  at: `${at}T12:00:00Z`,
  model: 'swift',
  prompt,
  input: '0.000123',
});
await addUsage(sql, [
  call(company, day, 1_000_000),
  call(company, day, 2_000_000),
  call(other, day, 5_000_000),
  call(company, today, 9_000_000),
]);
const db = openDatabase({ url: office.databaseUrl });
t.teardown(() => db.close());
const noon = Date.parse(`${day}T12:00:00Z`);
const BUDGET = { company, status: 402, code: 'insufficient_quota' };
await addRequests(trailStore(db), [
  ...Array.from({ length: 7 }, () => ({ ...BUDGET, at: noon })),
  ...Array.from({ length: 20 }, () => ({ company, at: noon, ms: 400 })),
  { company, status: 502, code: 'upstream_error', at: noon },
  ...Array.from({ length: 3 }, () => ({ ...BUDGET, at: now })),
]);
await sql`select sum_request_hours(interval '10 days')`;
const [{ all }] = await sql<[{ all: number }]>`
  select count(*)::integer as all from request_trail where (occurred_at at time zone 'UTC')::date = ${day}::date`;

for (const javaScriptEnabled of SCRIPTS) {
  t.test(
    `each picture leads to the day that it counted, ${javaScriptEnabled ? 'with' : 'without'} a script`,
    async (t) => {
      const { page, complaints } = await signedInTab(t, office, office.people.operator, {
        locale: 'en-IE',
        javaScriptEnabled,
      });
      await page.goto('/');
      t.equal(await page.locator('.pictures svg.chart').count(), 4);
      const spend = page.locator('.pictures .card').nth(0);
      await spend.getByRole('link', { name: /: €0\.984$/ }).focus();
      await Promise.all([
        page.waitForURL(`**/usage?from=${day}&to=${day}`),
        page.keyboard.press('Enter'),
      ]);
      t.equal(
        await page.locator('.figure-card .big .eur').first().getAttribute('title'),
        '€0.984',
        'the same amount',
      );
      t.match(await page.getByRole('table', { name: 'By company' }).innerText(), /Zweite.*Erste/s);

      await page.goto('/');
      const refused = page.locator('.pictures .card').nth(1);
      await refused.getByRole('link', { name: /: 8$/ }).focus();
      await Promise.all([
        page.waitForURL(`**/usage?from=${day}&to=${day}#reasons`),
        page.keyboard.press('Enter'),
      ]);
      const requests = page.locator('#reasons');
      t.match(await requests.innerText(), `7 of ${all} requests were refused, and 1 failed.`);
      await requests.getByRole('link', { name: /7 requests: Budget reached/ }).click();
      t.equal(
        await page.getByRole('table', { name: 'Requests' }).getByRole('row').count(),
        8,
        'its seven requests and the heading',
      );
      t.same(complaints, []);
    },
  );
}

t.test('the figures of a picture are a table too', async (t) => {
  const { page } = await signedInTab(t, office, office.people.operator, { locale: 'en-IE' });
  await page.goto('/');
  const latency = page.locator('.pictures .card').nth(3);
  await latency.locator('summary').click();
  const cells = latency
    .getByRole('row')
    .filter({ has: page.getByRole('link', { name: new RegExp(`^${Number(day.slice(8))} `) }) });
  t.match(await cells.innerText(), /\d+ ms\s+\d+ ms/);
  t.same(await accessibility(page), []);
  t.same(await glance(page, 'pictures'), []);
});

t.test('who is refused now, and whose budget ends, with the owner to write to', async (t) => {
  const { page } = await signedInTab(t, office, office.people.operator, { locale: 'en-IE' });
  await page.goto('/');
  const now = page.getByRole('table', {
    name: 'Refused or failing in this hour and the one before',
  });
  const row = now.getByRole('row').filter({ hasText: 'Budget reached' });
  t.match(await row.innerText(), /Erste\s+Budget reached insufficient_quota\s+3\s+requests/);
  const mail = (await row
    .getByRole('link', { name: office.people.owner })
    .getAttribute('href')) as string;
  t.match(
    mail,
    `mailto:${office.people.owner}?subject=Requests%20are%20refused%3A%20Budget%20reached`,
  );
  await row.getByRole('link', { name: /3 requests/ }).click();
  t.equal(await page.getByRole('table', { name: 'Requests' }).getByRole('row').count(), 4);
  await page.goto('/');
  const budget = page
    .getByRole('table', { name: 'Budgets near their end' })
    .getByRole('row')
    .filter({ hasText: 'Erste' });
  t.match(await budget.innerText(), /used up/);
  t.match(
    await budget.getByRole('link', { name: office.people.owner }).getAttribute('href'),
    /^mailto:.*subject=Budget%20of%20Erste/,
  );
  await until(async () => (await sql`select from gateways`).length > 0, 'a gateway beats');
});

t.test(
  'the address where two companies were compared leads to the table that has both, or to the changes of the only one',
  async (t) => {
    const { page } = await signedInTab(t, office, office.people.operator, { locale: 'en-IE' });
    const days = `from=${day}&to=${day}`;
    for (const [asked, path, rest] of [
      [`company=Zweite&with=${company}`, '/usage', 'by=company'],
      [`company=${other}`, `/companies/${other}/usage`, 'against=before'],
      ['company=Nobody', '/usage', 'against=before'],
    ] as const) {
      await page.goto(`/usage/beside?${asked}&${days}`);
      t.equal(page.url(), `${office.adminUrl}${path}?${days}&${rest}`);
    }
  },
);
