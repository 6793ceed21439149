import type { Locator, Page } from 'playwright-core';
import t from 'tap';
import { formatEur, parseEur } from '../../../src/domain/pricing/money.ts';
import { addDays, addMonths, monthSoFar } from '../../../src/domain/reports/day-range.ts';
import { addUsage } from '../../support/usage.ts';
import { choose, glance, SCRIPTS, signedInTab } from '../browser.ts';
import { signedIn, startOffice } from '../people.ts';

/** The one page of usage in a browser, with and without a script: groups, comparison and pictures of one question. */

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

/** The rows of a table as text. */
const cells = (table: Locator): Promise<string[]> =>
  table
    .getByRole('row')
    .evaluateAll((rows) =>
      rows.map((each) =>
        (each as { innerText: string } & object).innerText.trim().split(/\s+/).join(' '),
      ),
    );

const apply = (page: Page) => page.getByRole('button', { name: 'Apply' }).click();

for (const javaScriptEnabled of SCRIPTS) {
  t.test(
    `the difference and its parts, by model and key, ${javaScriptEnabled ? 'with' : 'without'} a script`,
    async (t) => {
      const { page, complaints } = await signedInTab(t, office, office.people.owner, {
        locale: 'en-IE',
        javaScriptEnabled,
      });
      await page.goto(path);
      await choose(page, 'Period', 'other days', javaScriptEnabled);
      await page.getByLabel('First day', { exact: true }).fill(addDays(today, -7));
      await page.getByLabel('Last day', { exact: true }).fill(addDays(today, -1));
      await Promise.all([page.waitForURL(/range=days&from/), apply(page)]);
      await choose(page, 'Compare to', 'other days', javaScriptEnabled);
      t.match(page.url(), /against=days/);
      t.equal(
        await page.getByLabel('Before: first day').inputValue(),
        addDays(today, -14),
        'as many days before',
      );
      await choose(page, 'Compare to', 'previous period', javaScriptEnabled);
      t.match(page.url(), /against=before/);
      t.match(
        await page.getByRole('heading', { name: 'than before' }).innerText(),
        /^€1\.23 more than before \(333\.3%\)\.$/,
      );
      const parts = ['More calls', 'Longer calls', 'More expensive models', 'Prices'];
      const amounts = [];
      for (const part of parts) amounts.push(await exactOf(lastCell(row(page, part))));
      t.equal(
        formatEur(amounts.reduce((sum, text) => sum + parseEur(text), 0n)),
        '1.23',
        'to the last digit',
      );
      t.same(amounts, ['0.246', '0.246', '0.738', '0.00']);
      t.same(await glance(page, `usage-change-${javaScriptEnabled}`), []);

      await page
        .getByRole('table', { name: 'Cost centres that changed most' })
        .getByRole('link', { name: 'Marketing' })
        .click();
      t.match(
        await page.getByRole('heading', { name: 'than before' }).innerText(),
        /€1\.599\s+more than before\.$/,
        'of the cost centre alone',
      );
      await page.getByRole('link', { name: 'Remove the filter Cost centre: Marketing' }).click();
      await page
        .getByRole('table', { name: 'By model' })
        .getByRole('link', { name: 'swift' })
        .click();
      t.equal(
        await exactOf(lastCell(row(page, 'Choice of models'))),
        '0.00',
        'one model has no other',
      );
      t.match(page.url(), /model=swift.*against=before/);
      await page.getByRole('link', { name: 'Remove the filter Model: swift' }).click();
      await page
        .getByRole('table', { name: 'Keys that changed most' })
        .getByRole('link', { name: 'Website' })
        .click();
      t.equal(
        await page.getByRole('link', { name: /^Remove the filter Key: Website/ }).count(),
        1,
        'by its name',
      );
      t.same(complaints, []);
    },
  );
}

t.test('a month that runs is compared with the same days of the month before', async (t) => {
  const { page } = await signedInTab(t, office, office.people.owner, { locale: 'en-IE' });
  const { before, after } = monthSoFar(today);
  const days = new Intl.DateTimeFormat('en-IE', { dateStyle: 'long', timeZone: 'UTC' });
  const text = ({ from, to }: typeof before) => days.formatRange(new Date(from), new Date(to));
  for (const query of ['?against=before', `?month=${today.slice(0, 7)}&against=before`]) {
    await page.goto(path + query);
    t.same(
      await page.locator('table.steps tr.whole th').allInnerTexts(),
      [text(before), text(after)],
      query,
    );
  }
});

t.test('a mistake in the days is told, and nothing typed is lost', async (t) => {
  const { page } = await signedInTab(t, office, office.people.owner, { locale: 'en-IE' });
  const answer = await page.goto(
    `${path}?from=2026-11-08&to=2026-11-14&before_from=2026-11-07&before_to=2026-11-01`,
  );
  t.equal(answer?.status(), 422);
  t.match(
    await page.locator('.wrong').innerText(),
    'Before: last day must not be before the first day.',
  );
  t.equal(await page.getByLabel('Before: last day').inputValue(), '2026-11-01');
});

for (const javaScriptEnabled of SCRIPTS) {
  t.test(
    `a figure by two groups, as a table and drawn, all of it in the address, ${javaScriptEnabled ? 'with' : 'without'} a script`,
    async (t) => {
      const { page, complaints } = await signedInTab(t, office, office.people.owner, {
        locale: 'en-IE',
        javaScriptEnabled,
      });
      await page.goto(`${path}?from=${addDays(today, -14)}&to=${addDays(today, -1)}`);
      for (const [label, option] of [
        ['Metric', 'Requests'],
        ['Break down by', 'cost centre'],
        ['Then by', 'model'],
      ] as const)
        await choose(page, label, option, javaScriptEnabled);
      t.match(page.url(), /by=cost_center&and=model&figure=requests$/);
      const grid = page.getByRole('table', { name: 'Requests by cost centre and model' });
      t.same(await cells(grid), [
        'Cost centre All swift solid',
        'All 8 7 1',
        'Marketing 5 4 1',
        'none 3 3 –',
      ]);
      t.same(await page.locator('.chart-frame .legend > span').allInnerTexts(), [
        'Marketing · swift',
        'none · swift',
        'Marketing · solid',
      ]);
      await page.getByText('Figures of the chart').click();
      const figures = page.getByRole('table', { name: /^Requests per day/ });
      const sums = (await cells(figures))
        .slice(1)
        .map((line) => line.replaceAll('–', '0').split(' ').slice(-4).map(Number));
      t.same(
        sums.reduce((all, line) => all.map((sum, at) => sum + (line[at] as number)), [0, 0, 0, 0]),
        [8, 4, 3, 1],
        'the bars add up to the table',
      );
      t.same(await glance(page, `usage-grid-${javaScriptEnabled}`), []);
      const saved = page.url();
      await choose(page, 'View', 'table', javaScriptEnabled);
      t.match(page.url(), /as=table/);
      t.equal(await page.locator('svg.chart').count(), 0);
      await page.goto(saved);
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

t.test('one group is drawn over time and has its table alone', async (t) => {
  const { page } = await signedInTab(t, office, office.people.owner, { locale: 'en-IE' });
  await page.goto(`${path}?from=${addDays(today, -14)}&to=${addDays(today, -1)}&by=cost_center`);
  t.same(await page.locator('.chart-frame .legend > span').allInnerTexts(), ['Marketing', 'none']);
  t.equal(await page.getByRole('table', { name: 'By cost centre' }).count(), 1);
  t.equal(await page.getByRole('table', { name: 'By model' }).count(), 0);
});

t.test('two groups that are the same are refused with a message', async (t) => {
  const { page } = await signedInTab(t, office, office.people.owner, { locale: 'en-IE' });
  const answer = await page.goto(`${path}?by=model&and=model`);
  t.equal(answer?.status(), 422);
  t.match(await page.locator('.wrong').innerText(), 'Then by must be another group than the rows.');
});

t.test(
  'a range with a name stays one when a filter is applied, and other days take its place',
  async (t) => {
    const { page } = await signedInTab(t, office, office.people.owner, { locale: 'en-IE' });
    await page.goto(path);
    await choose(page, 'Period', 'Last 7 days');
    t.equal(page.url(), `${office.adminUrl}${path}?range=7d`);
    await choose(page, 'Break down by', 'key');
    t.equal(page.url(), `${office.adminUrl}${path}?range=7d&by=key`);
    await choose(page, 'Period', 'other days');
    t.equal(await page.getByLabel('First day', { exact: true }).inputValue(), addDays(today, -6));
    await page.getByLabel('First day', { exact: true }).fill(addDays(today, -5));
    await Promise.all([
      page.waitForURL(new RegExp(`range=days&from=${addDays(today, -5)}.*by=key`)),
      apply(page),
    ]);
    const last = addMonths(today, -1);
    await choose(page, 'Period', 'Last month');
    t.match(page.url(), /range=last-month&by=key$/, 'the days that were shown are left');
    await page.goto(`${path}?range=${last.slice(0, 7)}`);
    const [month] = await page.getByLabel('Period').locator('option:checked').allInnerTexts();
    t.match(month, last.slice(0, 4), 'a month by its name');
    await choose(page, 'Period', 'other days');
    t.match(page.url(), new RegExp(`range=days&from=${last.slice(0, 7)}-01&`), 'can be changed');
  },
);

t.test('addresses of former pages lead to the same question', async (t) => {
  const { page } = await signedInTab(t, office, office.people.operator, { locale: 'en-IE' });
  const days = `from=${addDays(today, -7)}&to=${addDays(today, -1)}`;
  const before = `before_from=${addDays(today, -14)}&before_to=${addDays(today, -8)}`;
  for (const base of [path, '/usage']) {
    for (const [asked, leads] of [
      [`/change?${days}`, `?${days}&against=before`],
      [`/change?${days}&${before}&model=swift`, `?${days}&${before}&model=swift`],
      ['/change', '?range=7d&against=before'],
      [
        `/table?${days}&rows=model&columns=day&metric=requests`,
        `?${days}&by=model&and=day&figure=requests&as=table`,
      ],
      [
        '/table?rows=model',
        base === path ? '?by=model&and=key&as=table' : '?by=model&and=company&as=table',
      ],
    ]) {
      await page.goto(base + asked);
      t.equal(page.url(), office.adminUrl + base + leads, base + asked);
      t.equal(await page.locator('.wrong').count(), 0);
    }
  }
});

t.test(
  'why the cost changed is one choice from any usage, drawn with the time before as a line',
  async (t) => {
    const { page } = await signedInTab(t, office, office.people.operator, { locale: 'en-IE' });
    for (const at of [path, '/usage']) {
      await page.goto(`${at}?from=${addDays(today, -7)}&to=${addDays(today, -1)}`);
      t.equal(await page.locator('details[open]').count(), 0, 'nothing is open');
      await choose(page, 'Compare to', 'previous period');
      t.match(page.url(), /against=before$/);
      t.equal(await page.getByRole('heading', { name: /€1\.23 more than before/ }).count(), 1);
      t.equal(await page.locator('svg.chart.wide .line.was').count(), 1);
      await page.getByText('Figures of the chart').click();
      const sums = await page
        .getByRole('table', { name: /^Cost per day/ })
        .locator('tbody tr td:last-child')
        .evaluateAll((cells) => cells.map((cell) => cell.getAttribute('title') ?? ''));
      const before = sums.map((text) => parseEur(text.replace('€', '') || '0'));
      t.equal(formatEur(before.reduce((sum, value) => sum + value, 0n)), '0.369', 'all of it');
    }
  },
);

t.test('by keyboard other choices are passed on the way, and the button asks', async (t) => {
  const { page } = await signedInTab(t, office, office.people.owner, { locale: 'en-IE' });
  await page.goto(path);
  const button = page.locator('.usage-bar > form').getByRole('button', { name: 'Apply' });
  t.equal(await button.isVisible(), false);
  await page.getByLabel('Compare to').focus();
  await page.keyboard.press('p'); // "previous period"
  await button.waitFor();
  t.equal(page.url(), office.adminUrl + path, 'nothing is sent');
  await button.focus();
  await Promise.all([
    page.waitForURL(/\?range=month&against=before$/),
    page.keyboard.press('Enter'),
  ]);
  await page.goBack();
  t.equal(await page.getByLabel('Compare to').inputValue(), '', 'Back shows what is asked there');
});

for (const javaScriptEnabled of SCRIPTS) {
  t.test(
    `a question is kept under a name by whoever asks it, ${javaScriptEnabled ? 'with' : 'without'} a script`,
    async (t) => {
      const own = `/companies/${company}/own/usage`;
      for (const [email, at] of [
        [office.people.owner, path],
        [office.people.operator, path],
        [office.people.operator, '/usage'],
      ] as const) {
        const { page, complaints } = await signedInTab(t, office, email, {
          locale: 'en-IE',
          javaScriptEnabled,
        });
        const asked = `${at}?range=7d&by=model&against=before`;
        await page.goto(asked);
        await page.getByText('Saved views').click(); // behind what is broken down, which is open
        await page.getByLabel('Name of this view').fill('a\u200bb');
        await page.getByRole('button', { name: 'Save view' }).click();
        t.match(await page.locator('.wrong').innerText(), 'Name of this view');
        t.equal(
          await page.getByLabel('Name of this view').inputValue(),
          'a\u200bb',
          'what was typed is there',
        );
        await page.getByLabel('Name of this view').fill('My week');
        await page.getByRole('button', { name: 'Save view' }).click();
        await page.getByText('The view is saved.').waitFor();
        await page.goto(at);
        await page.getByText('Saved views (1)').click();
        t.same(await glance(page, `usage-views-${javaScriptEnabled}`), []);
        await page.getByRole('link', { name: 'My week' }).click();
        await page.waitForURL(office.adminUrl + asked);
        await page.goto(at === path ? '/account' : path);
        t.equal(
          await page.getByText('Saved views (1)').count(),
          0,
          'those of other pages are not there',
        );
        await page.goto(at);
        await page.getByText('Saved views (1)').click();
        await page.getByRole('button', { name: 'Remove the view My week' }).click();
        await page.getByText('The view is removed.').waitFor();
        t.equal(await page.getByText('Saved views (').count(), 0);
        t.same(complaints, []);
      }
      const { page } = await signedInTab(t, office, office.people.member, {
        locale: 'en-IE',
        javaScriptEnabled,
      });
      await page.goto(own);
      t.equal(
        await page.getByText('Saved views').count(),
        0,
        'a member without a key has nothing to see',
      );
    },
  );
}

t.test(
  'one person keeps thirty views, and a name stands for the last of its questions',
  async (t) => {
    const owner = await signedIn(office, 'owner');
    const save = (name: string, query = '') => owner.post(`${path}${query}`, { view: name });
    for (let n = 1; n <= 30; n++) t.match((await save(`View ${n}`)).status, 303);
    t.equal((await save('View 7', '?by=key')).status, 303);
    const { status, text } = await save('One more');
    t.equal(status, 422);
    t.match(text, 'you have 30 views');
    const page = (await owner.get(path)).text;
    t.match(page, 'Saved views (30)');
    t.match(page, new RegExp(`<a class="chip" href="${path}\\?range=month&amp;by=key">View 7</a>`));
    t.equal(
      (await sql`select from audit_log where after::text like '%View 7%'`).length,
      0,
      'not in the audit log',
    );
  },
);
