import type { Locator, Page } from 'playwright-core';
import t from 'tap';
import { formatEur, parseEur } from '../../../src/domain/money.ts';
import { addDays } from '../../../src/domain/reports/day-range.ts';
import { addUsage } from '../../support/usage.ts';
import { glance, signedInTab } from '../browser.ts';
import { startOffice } from '../people.ts';

/** Why a company spent more, and its usage by two groups, in a browser with and without a script. */

const office = await startOffice(t, { BILLING_TIMEZONE: 'UTC' });
const { sql } = office;
const { company } = office.customer;
const path = `/companies/${company}/usage`;
const today = new Date().toISOString().slice(0, 10);
const key = (await sql`select id from api_keys where company_id = ${company}`)[0]?.id as string;
await sql`update api_keys set name = 'Website' where id = ${key}`;

const call = (back: number, model: string, prompt: number, center = '') => {
  const day = addDays(today, -back);
  return {
    company,
    key,
    month: `${day.slice(0, 7)}-01`,
    at: `${day}T12:00:00Z`,
    model,
    prompt,
    input: '0.000123',
    center,
  };
};
// a week of 3 calls, and one of 5 that are longer
await addUsage(sql, [
  ...[9, 10, 11].map((back) => call(back, 'swift', 1_000_000)),
  ...[2, 3, 4, 5].map((back) => call(back, 'swift', 1_500_000, 'Marketing')),
  call(2, 'solid', 7_000_000, 'Marketing'),
]);

const exactOf = async (cell: Locator): Promise<string> => {
  const eur = cell.locator('.eur');
  const text = (await eur.getAttribute('title')) ?? (await eur.innerText());
  return text.replaceAll(/[€,+\s]/g, '').replace('−', '-');
};
const row = (page: Page, name: string | RegExp) =>
  page
    .locator('table.steps')
    .getByRole('row')
    .filter({ has: page.getByRole('rowheader', { name }) });
const lastCell = (of: Locator) => of.getByRole('cell').last();

for (const javaScriptEnabled of [true, false]) {
  t.test(
    `the difference and its parts, by model and key, ${javaScriptEnabled ? 'with' : 'without'} a script`,
    async (t) => {
      const { page, complaints } = await signedInTab(t, office, office.people.owner, {
        locale: 'en-IE',
        javaScriptEnabled,
      });
      await page.goto(path);
      await page.getByRole('link', { name: 'What changed' }).click();
      await page.getByLabel('Before: first day').fill(addDays(today, -14));
      await page.getByLabel('Before: last day').fill(addDays(today, -8));
      await page.getByLabel('After: first day').fill(addDays(today, -7));
      await page.getByLabel('After: last day').fill(addDays(today, -1));
      await Promise.all([page.waitForURL(/before_from=/), page.getByRole('button', { name: 'Compare' }).click()]);
      t.match(
        await page.getByRole('heading', { level: 2 }).first().innerText(),
        /^€1\.23 more than before \(333\.3%\)\.$/,
      );
      const parts = ['More calls', 'Longer calls', 'Dearer models', 'Prices'];
      const amounts = [];
      for (const part of parts) amounts.push(await exactOf(lastCell(row(page, part))));
      t.equal(formatEur(amounts.reduce((sum, text) => sum + parseEur(text), 0n)), '1.23', 'to the last digit');
      t.same(
        amounts,
        ['0.246', '0.246', '0.738', '0.00'].map((text) => text),
      );
      t.same(await glance(page, `usage-change-${javaScriptEnabled}`), []);

      await page
        .getByRole('table', { name: 'Cost centres that changed most' })
        .getByRole('link', { name: 'Marketing' })
        .click();
      t.match(
        await page.getByRole('heading', { level: 2 }).first().innerText(),
        /€1\.599\s+more than before\.$/,
        'of the cost centre alone',
      );
      await page.getByRole('link', { name: 'Remove the filter Cost centre: Marketing' }).click();
      await page.getByRole('table', { name: 'By model' }).getByRole('link', { name: 'swift' }).click();
      t.equal(await exactOf(lastCell(row(page, 'Choice of models'))), '0.00', 'one model has no other');
      t.match(page.url(), /model=swift.*before_from=/);
      await page.getByRole('link', { name: 'Remove the filter Model: swift' }).click();
      await page.getByRole('table', { name: 'Keys that changed most' }).getByRole('link', { name: 'Website' }).click();
      t.equal(await page.getByRole('link', { name: /^Remove the filter Key: Website/ }).count(), 1, 'by its name');
      t.same(complaints, []);
    },
  );
}

t.test('a mistake in the days is told, and nothing typed is lost', async (t) => {
  const { page } = await signedInTab(t, office, office.people.owner, { locale: 'en-IE' });
  const answer = await page.goto(
    `${path}/change?from=2026-11-08&to=2026-11-14&before_from=2026-11-07&before_to=2026-11-01`,
  );
  t.equal(answer?.status(), 422);
  t.match(await page.locator('.wrong').innerText(), 'Before: last day must not be before the first day.');
  t.equal(await page.getByLabel('Before: last day').inputValue(), '2026-11-01');
});

for (const javaScriptEnabled of [true, false]) {
  t.test(
    `a figure by two groups, chosen on the page and in its address, ${javaScriptEnabled ? 'with' : 'without'} a script`,
    async (t) => {
      const { page, complaints } = await signedInTab(t, office, office.people.owner, {
        locale: 'en-IE',
        javaScriptEnabled,
      });
      await page.goto(`${path}?from=${addDays(today, -14)}&to=${addDays(today, -1)}`);
      await page.getByRole('link', { name: 'By two groups' }).click();
      t.match(await page.getByRole('heading', { level: 1 }).innerText(), /^Cost by model and key from /);
      await page.getByLabel('Figure').selectOption('Requests');
      await page.getByLabel('Rows').selectOption('cost centre');
      await page.getByLabel('Columns').selectOption('model');
      await Promise.all([page.waitForURL(/rows=cost_center/), page.getByRole('button', { name: 'Show' }).click()]);
      const grid = page.getByRole('table', { name: 'Requests by cost centre and model' });
      t.same(
        await grid
          .getByRole('row')
          .evaluateAll((rows) =>
            rows.map((each) => (each as { innerText: string } & object).innerText.trim().split(/\s+/).join(' ')),
          ),
        ['cost centre All swift solid', 'All 8 7 1', 'Marketing 5 4 1', 'none 3 3 –'],
      );
      t.same(await glance(page, `usage-grid-${javaScriptEnabled}`), []);
      await grid.getByRole('link', { name: 'Marketing' }).click();
      t.match(
        await page.locator('.figure-card .big').nth(1).innerText(),
        '5',
        'a line leads to the calls that it counts',
      );
      t.same(complaints, []);
    },
  );
}

t.test('two groups that are the same are refused with a message', async (t) => {
  const { page } = await signedInTab(t, office, office.people.owner, { locale: 'en-IE' });
  const answer = await page.goto(`${path}/table?rows=model&columns=model`);
  t.equal(answer?.status(), 422);
  t.match(await page.locator('.wrong').innerText(), 'Columns must be another group than the rows.');
});
