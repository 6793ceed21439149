import t, { type Test } from 'tap';
import { until } from '../../support/until.ts';
import { glance, signedInTab } from '../browser.ts';
import { startOffice } from '../people.ts';

/** Somebody finds out, in a real browser, why a request failed. */

const office = await startOffice(t);
const { customer, upstream } = office;
const base = `/companies/${customer.company}`;
const failing = await office.part(customer, 'fails', upstream.parts.failing);

const begin = (t: Test, email: string, options = {}) =>
  signedInTab(t, office, email, { locale: 'en', ...options });

const idOf = ({ headers }: { headers: Headers }): string => headers.get('x-request-id') as string;

t.test('the owner watches a request fail, and reads what to do about it', async (t) => {
  const { page, complaints } = await begin(t, office.people.owner);
  await page.goto('/');
  await customer.chat();
  await page
    .getByRole('navigation', { name: 'Company' })
    .getByRole('link', { name: 'Requests' })
    .click();
  await page.getByRole('button', { name: 'Pause' }).waitFor();

  const id = idOf(await customer.chat({ model: failing }));
  const row = page.getByRole('row', { name: /502 upstream_error/ });
  await row.waitFor(); // without a click
  await page.getByRole('button', { name: 'Pause' }).click();
  t.equal(await page.getByRole('button', { name: 'Follow' }).count(), 1);
  t.same(await glance(page, 'requests'), []);

  await page.getByLabel('Result').selectOption('Failed (5xx, broken streams)');
  await page.getByRole('button', { name: 'Show' }).click();
  await page.waitForURL(/\/requests\?.*\bstatus=failed\b/);
  t.equal(await page.getByRole('row').count(), 2, 'the heading and the request');
  await page.getByRole('row').nth(1).getByRole('link').first().click();
  await page.waitForURL(`**${base}/requests/${id}`);
  const text = await page.getByRole('main').innerText();
  t.match(text, /The upstream failed to answer.*What to do: Let the client try again/s);
  t.notMatch(text, /What the upstream said|internal/);
  t.same(await glance(page, 'request'), []);
  t.same(complaints, []);
});

t.test(
  'the operator finds the same request by its id, and reads what the upstream said',
  async (t) => {
    const id = idOf(await customer.chat({ model: failing }));
    await until(
      async () => (await office.sql`select from request_trail where request_id = ${id}`).length > 0,
      'its row',
    );
    const { page, complaints } = await begin(t, office.people.operator);
    await page.goto('/');
    await page.getByRole('searchbox', { name: 'Search everything' }).fill(` ${id} `);
    await page.keyboard.press('Enter');
    await page.waitForURL(`**/requests/${id}`);
    const words = page.getByLabel('The words of the upstream');
    t.match(await words.innerText(), /500/);
    t.ok(
      await words.evaluate((box) => box.scrollWidth <= box.clientWidth),
      'they are read without scrolling sideways',
    );
    await page.getByRole('link', { name: 'its requests' }).click();
    await page.getByText('alone.').waitFor();
    t.same(await glance(page, 'requests-of-key'), []);
    t.same(complaints, []);
  },
);

t.test('without JavaScript, on a narrow screen, everything is there', async (t) => {
  const { page } = await begin(t, office.people.owner, {
    javaScriptEnabled: false,
    viewport: { width: 320, height: 640 },
  });
  await page.goto(`${base}/requests`);
  t.equal(await page.getByRole('button', { name: 'Pause' }).count(), 0);
  const id = idOf(await customer.chat({ model: 'no-such-model' }));
  await until(async () => {
    await page.getByRole('link', { name: 'Refresh' }).click();
    return (await page.content()).includes(id);
  }, 'the request is listed');
  const overflow = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
  t.ok(((await page.evaluate(overflow)) as number) <= 0, 'nothing is wider than the window');
  await page.goto(`${base}/requests/${id}`);
  t.match(await page.getByRole('main').innerText(), /There is no model “no-such-model”/);
  t.ok(((await page.evaluate(overflow)) as number) <= 0);
});

t.test(
  'on a phone the filters are folded unless some are set, and say which; a wide window shows them, without a script',
  async (t) => {
    const { page } = await begin(t, office.people.owner, { javaScriptEnabled: false });
    const result = page.getByLabel('Result');
    const summary = page.locator('.wide-open > summary');
    const rows = async () =>
      (await page.locator('#live-rows').boundingBox())?.y ?? Number.POSITIVE_INFINITY;
    await page.setViewportSize({ width: 1200, height: 800 });
    await page.goto(`${base}/requests`);
    t.ok(await result.isVisible());
    t.notOk(await summary.isVisible());
    await page.setViewportSize({ width: 360, height: 800 });
    t.notOk(await result.isVisible());
    t.ok((await rows()) < 800, 'the list begins on the first screen');
    await page.getByText('Filters', { exact: true }).focus();
    await page.keyboard.press('Enter');
    await result.selectOption('Refused (4xx)');
    await page.getByLabel('Model').fill('brand-chat');
    await page.getByRole('button', { name: 'Show' }).click();
    await page.waitForURL('**status=refused**');
    t.equal(await summary.innerText(), 'Filters: Refused (4xx), brand-chat');
    t.ok(await result.isVisible());
    await page.goto(
      `${base}/requests?status=429&endpoint=models&from=2026-11-01T00:00:00Z&to=2026-11-02T12:30:00Z`,
    );
    t.match(
      await summary.innerText(),
      /^Filters: status 429, Models, from Nov 1, 2026, 12:00.AM, until Nov 2, 2026, 12:30.PM$/,
    );
    await page.goto(`${base}/requests?from=yesterday`);
    t.ok(await page.locator('.wrong').isVisible(), 'what is wrong is not folded away');
  },
);
