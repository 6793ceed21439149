import t from 'tap';
import { addUsage } from '../../support/usage.ts';
import { choose, glance, SCRIPTS, signedInTab } from '../browser.ts';
import { paint } from '../paint.ts';
import { sendsNothing, startOffice } from '../people.ts';

/** What cost centres cost and may cost, in a browser with and without a script, in both languages. */

const office = await startOffice(t, {}, sendsNothing);
const { sql, people } = office;
const { company } = office.customer;
const path = `/companies/${company}`;
await paint(sql, company);
const [{ month, day }] = await sql<[{ month: string; day: number }]>`
  select billing_month(now())::text as month, extract(day from now())::integer as day`;
const keys = (
  await sql`select id from api_keys where name in ('Newsroom CMS', 'Cover blurb tool')`
).map(({ id }) => id);
const CENTERS = [
  'Marketing',
  'Redaktion',
  'Vertrieb',
  'R&D',
  'IT',
  'Recht',
  'Personal',
  'Archiv',
  'Lizenzen',
  'Messe',
  'Büro Köln',
];
await addUsage(
  sql,
  CENTERS.flatMap((center, n) =>
    Array.from({ length: day }, (_, back) => ({
      company,
      month,
      key: keys[(n + back) % keys.length],
      at: new Date(Date.now() - back * 86_400_000).toISOString(),
      model: ['aurora-large', 'aurora-swift', 'meridian-vision'][(n + back) % 3] as string,
      prompt: 1000 + ((n * 7919 + back * 613) % 900),
      completion: 300,
      input: `${(0.3 / (n + 1)).toFixed(6)}`,
      center,
    })),
  ),
);

for (const javaScriptEnabled of SCRIPTS) {
  t.test(
    `a budget is set, changed and removed ${javaScriptEnabled ? 'with' : 'without'} a script`,
    async (t) => {
      await sql`delete from cost_center_budgets`;
      const options = { locale: 'en-IE', javaScriptEnabled };
      const { page, complaints } = await signedInTab(t, office, people.owner, options);
      // axe-core waits by timers, which a page without scripts has none of
      const seen = async (name: string) =>
        javaScriptEnabled && t.same(await glance(page, `cost-center-${name}`), []);
      await page.goto(`${path}/usage`);
      await page.getByRole('link', { name: 'Cost centres', exact: true }).click();
      const rows = page.getByRole('table').getByRole('row');
      t.match(await rows.nth(1).innerText(), /calls that name none/, 'the dearest first');
      t.match(await rows.nth(2).innerText(), /Marketing/);
      await page.getByText('Set a budget').click();
      await page.getByLabel('Name of the cost centre').fill('Marketing');
      await page.getByLabel('Monthly budget in EUR').fill('none');
      await page.getByRole('button', { name: 'Set budget' }).click();
      await page.getByText('Monthly budget in EUR must be an amount in EUR').waitFor();
      t.equal(
        await page.getByLabel('Name of the cost centre').inputValue(),
        'Marketing',
        'nothing typed is lost',
      );
      await page.getByLabel('Monthly budget in EUR').fill('0.60');
      await Promise.all([
        page.waitForURL(/done=budget-saved/),
        page.getByRole('button', { name: 'Set budget' }).click(),
      ]);
      t.match(
        await page.getByRole('heading', { level: 1 }).innerText(),
        /^Cost centre Marketing in /,
      );
      t.match(await page.getByRole('status').innerText(), /The budget is saved/);
      t.equal(await page.getByRole('img', { name: /percent of the budget is spent/ }).count(), 1);
      await seen('page');

      await page.getByLabel('Monthly budget in EUR').fill('5000');
      await Promise.all([
        page.waitForURL(/done=/),
        page.getByRole('button', { name: 'Save budget' }).click(),
      ]);
      t.equal(await page.getByLabel('Monthly budget in EUR').inputValue(), '5000');
      await sql`insert into cost_center_budgets (company_id, name, monthly_budget_eur)
      values (${company}, 'Redaktion', 0.3), (${company}, 'Vertrieb', 0.1), (${company}, 'Volontariat', 20)`;
      await page.getByRole('link', { name: 'Cost centres', exact: true }).click();
      t.match(await rows.filter({ hasText: 'Redaktion' }).innerText(), /% of €0\.30/);
      await seen('list');
      await Promise.all([
        page.waitForURL(/sort=-share/),
        page.locator('thead a[href*="sort=-share"]').click(),
      ]);
      t.match(await rows.nth(1).innerText(), /used up/);

      await page.getByRole('link', { name: 'Marketing' }).click();
      const models = page.getByRole('table', { name: 'By model' });
      t.equal(await models.getByRole('link').count(), 3, 'of its calls alone');
      await models.getByRole('link').first().click();
      t.match(page.url(), /\/usage\?.*model=.*cost_center=Marketing/, 'a model leads to its usage');
      await page.goBack();
      await choose(page, 'Compare to', 'previous period', javaScriptEnabled);
      t.match(page.url(), /against=before/);
      t.equal(
        await page.getByRole('link', { name: 'Remove the filter Cost centre: Marketing' }).count(),
        1,
      );
      await page.goBack();
      await page.getByLabel('Monthly budget in EUR').fill('');
      await Promise.all([
        page.waitForURL(/budget-removed/),
        page.getByRole('button', { name: 'Save budget' }).click(),
      ]);
      t.match(await page.locator('main').innerText(), /No budget is set\. Spent so far: €/);
      t.same(complaints, []);
    },
  );
}

t.test('in German, as an administrator reads it', async (t) => {
  await sql`delete from cost_center_budgets`;
  await sql`insert into cost_center_budgets (company_id, name, monthly_budget_eur) values (${company}, 'Büro Köln', 1234.5)`;
  const { page, complaints } = await signedInTab(t, office, people.administrator, {
    locale: 'de-DE',
  });
  await page.goto(`${path}/cost-centers`);
  t.match(await page.getByRole('heading', { level: 1 }).innerText(), /^Kostenstellen im /);
  t.equal(await page.getByText('Ein Budget festlegen').count(), 0, 'owners set them');
  await page.getByRole('link', { name: 'Büro Köln' }).click();
  t.match(await page.locator('main').innerText(), /von 1\.234,50\s€/);
  t.equal(await page.getByRole('button', { name: 'Budget speichern' }).count(), 0);
  t.same(await glance(page, 'cost-center-german'), []);
  await page.locator('footer').getByRole('button', { name: 'English' }).click();
  await page.getByRole('heading', { name: 'Cost centre Büro Köln' }).waitFor();
  t.same(complaints, []);
});
