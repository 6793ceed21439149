import type { Locator } from 'playwright-core';
import t, { type Test } from 'tap';
import { addDays } from '../../src/domain/reports/day-range.ts';
import { openDatabase } from '../../src/store/connection/pool.ts';
import { trailStore } from '../../src/store/gateway/request-trail.ts';
import { addRequests, sumDays } from '../support/requests.ts';
import { choose, glance, signedInTab } from './browser.ts';
import { signedIn, startOffice } from './people.ts';

/** The usage page in a browser: ranges, filters, the chart by keyboard, the way down to hours and requests. */

const office = await startOffice(t, { BILLING_TIMEZONE: 'UTC' });
const company = office.customer.company;
const path = `/companies/${company}/usage`;
const today = new Date().toISOString().slice(0, 10);
const [key] = await office.sql`select id from api_keys where company_id = ${company}`;

// a call of a minute past midnight and one of a minute past one today; two models last month
await office.sql`
  insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint,
    prompt_tokens, completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at, cost_center)
  select date_trunc('month', at at time zone 'UTC')::date, gen_random_uuid(), ${company}, ${key?.id}, model, 'internal', 'messages',
    prompt, 0, prompt * 0.00000123456 * 0.001, 0.00000123456, 0, 'upstream', 'completed', at, center
  from (values
    (${`${today}T00:01:00Z`}::timestamptz, 'swift', 1000000, 'Marketing & <b>Sales</b>'),
    (${`${today}T01:01:00Z`}::timestamptz, 'solid', 2000000, ''),
    (now() - interval '40 days', 'swift', 3000000, 'Legal'),
    (now() - interval '41 days', 'solid', 4000000, '')) v (at, model, prompt, center)`;
await office.sql`
  insert into request_hours (company_id, hour, model_slug, api_key_id, endpoint, requests, refused, failed, upstream_failed,
    duration_ms, added_us, duration_buckets, added_buckets)
  select ${company}, ${`${today}T00:00:00Z`}, 'swift', ${key?.id}, 'messages', 4, 0, 1, 1, 4000, 400,
    array_fill(0, array[9]) || array[4] || array_fill(0, array[13]), array_fill(0, array[15])`;
await sumDays(office.sql);

const begin = (t: Test, options = {}) =>
  signedInTab(t, office, office.people.owner, { locale: 'en-IE', ...options });

const firstsOf = (table: Locator) => table.getByRole('rowheader').allInnerTexts();

t.test('a range, a filter and its removal; all of it is in the address', async (t) => {
  const { page, complaints } = await begin(t);
  await page.goto(path);
  t.match(await page.getByRole('heading', { level: 1 }).innerText(), /^Usage in /);
  await choose(page, 'Period', 'other days');
  await page.getByLabel('First day').fill(addDays(today, -60));
  await page.getByLabel('Last day').fill(today);
  await page.getByRole('button', { name: 'Apply' }).click();
  await page.waitForURL((url) => url.searchParams.get('from') === addDays(today, -60));
  const models = page.getByRole('table', { name: 'By model' });
  t.same(await firstsOf(models), ['solid', 'swift'], 'the dearest first');
  t.same(await glance(page, 'usage-range'), []);

  await choose(page, 'Model', 'swift');
  await choose(page, 'Cost centre', { label: 'Marketing & <b>Sales</b>' });
  t.same(await firstsOf(page.getByRole('table', { name: 'By cost centre' })), [
    'Marketing & <b>Sales</b>',
  ]);
  const spent = page.locator('.figure-card .big').first().locator('.eur');
  t.equal(await spent.getAttribute('title'), '€0.00123456');
  t.same(await glance(page, 'usage-filtered'), []);
  await page.getByRole('link', { name: 'Remove the filter Model: swift' }).click();
  await page.waitForURL(
    (url) => !url.searchParams.has('model') && url.searchParams.has('cost_center'),
  );
  await page.getByRole('link', { name: /^Remove the filter Cost centre/ }).click();
  t.same(await firstsOf(models), ['solid', 'swift']);
  await page
    .getByRole('table', { name: 'By cost centre' })
    .getByRole('link', { name: 'none' })
    .click();
  t.same(await firstsOf(models), ['solid'], 'calls that name none');
  t.same(complaints, []);
});

t.test(
  'by keyboard from the chart to the hours of a day, and to its requests where they are kept',
  async (t) => {
    const { page, complaints } = await begin(t);
    await page.goto(path);
    const bar = page.getByRole('link', { name: /: €0\.00370368$/ });
    await bar.focus();
    t.match(
      await page.locator('.tip:visible').innerText(),
      /solid: €0\.00246912\nswift: €0\.00123456/,
    );
    await page.keyboard.press('Enter');
    await page.waitForURL(new RegExp(`from=${today}&to=${today}`));
    t.match(
      await page.getByRole('heading', { level: 2, name: 'Cost per hour' }).innerText(),
      /hour/,
    );
    await page.getByText('Figures of the chart').click();
    const figures = page.getByRole('table', { name: /^Cost per hour/ });
    t.equal((await firstsOf(figures)).length, 24);
    t.equal(await page.locator('svg a.bar').count(), 0, 'no request is kept: bars lead nowhere');
    t.same(await glance(page, 'usage-hours'), []);
    const row = page.getByRole('table', { name: 'By model' }).getByRole('row', { name: 'swift' });
    t.match(await row.innerText(), /875 ms.*99[0-9] ms|8\d\d ms.*9\d\d ms/s, 'p50 and p95');
    t.match(await row.innerText(), /25%/, 'one of four failed');

    const db = openDatabase({ url: office.databaseUrl });
    t.teardown(() => db.close());
    await addRequests(trailStore(db), [
      { at: Date.parse(`${today}T00:01:00Z`), company, key: key?.id, endpoint: 'messages' },
    ]);
    await page.reload();
    const hour = page.locator('svg.chart.wide a.bar').nth(1);
    const found = new URL((await hour.getAttribute('href')) as string, page.url());
    t.equal(found.pathname, `/companies/${company}/requests`);
    t.same(Object.fromEntries(found.searchParams), {
      from: `${today}T01:00:00Z`,
      to: `${today}T02:00:00Z`,
    });
    const calls = page.getByRole('link', { name: '1 requests of swift' });
    const query = new URL((await calls.getAttribute('href')) as string, page.url()).searchParams;
    t.same(Object.fromEntries(query), { from: today, to: addDays(today, 1), model: 'swift' });
    t.same(complaints, []);
  },
);

t.test('without JavaScript, at 320 pixels and on paper', async (t) => {
  const { page } = await begin(t, {
    javaScriptEnabled: false,
    viewport: { width: 320, height: 700 },
  });
  await page.goto(`${path}?from=${addDays(today, -60)}&to=${today}`);
  await page.getByText('Figures of the chart').click();
  await choose(page, 'Period', 'Today', false);
  t.match(page.url(), /\?range=today$/);
  const { page: wide } = await begin(t, { viewport: { width: 320, height: 700 } });
  await wide.goto(`${path}?from=${addDays(today, -60)}&to=${today}`);
  const overflow = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
  t.equal(await wide.evaluate(overflow), 0, 'nothing is wider than the window');
  await wide.emulateMedia({ media: 'print', colorScheme: 'dark' });
  for (const hidden of [
    wide.locator('header.top'),
    wide.locator('.usage-bar .filters').first(),
    wide.getByLabel('Period'),
    wide.locator('#export'),
  ]) {
    t.equal(await hidden.isVisible(), false);
  }
  t.equal(await wide.getByRole('table', { name: 'By model' }).isVisible(), true);
  t.equal(
    await wide.evaluate(
      'getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color',
    ),
    'rgb(255, 255, 255)rgb(0, 0, 0)',
  );
});

t.test('pages of any range stay below 300 KB', async (t) => {
  const owner = await signedIn(office, 'owner');
  await office.sql`
    insert into usage_daily (company_id, billing_month, day, model_slug, api_key_id, endpoint, usage_source, outcome, requests,
      prompt_tokens, completion_tokens, cost_eur, cost_center)
    select ${company}, date_trunc('month', day)::date, day, 'model-with-a-long-name-' || i % 70, md5(i::text)::uuid, 'embeddings', 'upstream',
      'completed', 1000, 100000, 10000, i * 0.00123456, 'Cost centre with a long name ' || i % 80
    from generate_series(1, 200) i, generate_series('2024-01-01'::date, '2024-03-02', interval '1 day') day`;
  await office.sql`
    insert into usage_company_days select company_id, billing_month, day, model_slug, endpoint, usage_source, outcome, cost_center,
      sum(requests), sum(prompt_tokens), sum(completion_tokens), sum(cost_eur)
    from usage_daily where billing_month < '2025-01-01' group by 1, 2, 3, 4, 5, 6, 7, 8`;
  await office.sql`
    insert into usage_key_months (company_id, billing_month, api_key_id, endpoint, cost_center, requests, prompt_tokens,
      completion_tokens, cost_eur, estimated, unfinished, day_01, day_05)
    select company_id, billing_month, api_key_id, endpoint, cost_center, sum(requests), sum(prompt_tokens), sum(completion_tokens),
      sum(cost_eur), 0, 0, sum(cost_eur) filter (where day = billing_month), sum(cost_eur) filter (where day = billing_month + 4)
    from usage_daily where billing_month < '2025-01-01' group by 1, 2, 3, 4, 5`;
  for (const query of [
    'from=2024-01-01&to=2024-03-02',
    'from=2023-01-01&to=2027-12-31',
    'from=2024-01-05&to=2024-01-05',
  ]) {
    const { status, text } = await owner.get(`${path}?${query}`);
    t.equal(status, 200);
    t.ok(Buffer.byteLength(text) < 300_000, `${query}: ${Buffer.byteLength(text)} bytes`);
  }
});
