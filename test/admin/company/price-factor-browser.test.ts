import t from 'tap';
import { startGateway } from '../../support/gateway.ts';
import { addUsage } from '../../support/usage.ts';
import { glance, signedInTab } from '../browser.ts';
import { addOperator } from '../people.ts';

/** An operator gives a company a factor on its prices, in a real browser. */

const EMAIL = 'olga@tollgate.example';
const gateway = await startGateway(t, 'http://127.0.0.1:9', {}, (sql) => addOperator(sql, EMAIL));
const { sql } = gateway;

t.test('what the company would have paid is asked before the factor is saved', async (t) => {
  for (const [slug, input, output, read] of [
    ['brand-fast', '0.0025', '0.01', '0.00025'],
    ['brand-reasoning', '0.015', '0.06', null],
    ['brand-small', '0.00015', '0.0006', null],
  ] as const)
    await sql`insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output, cost_eur_per_1k_cache_read)
      values (${slug}, 'internal', 'chat', true, ${input}, ${output}, ${read})`;
  const company = await gateway.company();
  await sql`update companies set name = 'Nordlicht Verlag' where id = ${company}`;
  const [{ last }] = await sql<
    [{ last: string }]
  >`select (billing_month(now()) - interval '1 month')::date::text as last`;
  await addUsage(sql as never, [
    { company, month: last, model: 'brand-fast', prompt: 123_456_789, input: '0.0025' },
  ]);
  const { page, complaints } = await signedInTab(t, gateway, EMAIL, { locale: 'en' });
  await page.goto(`/companies/${company}/settings`);
  const card = page.locator('section.card', {
    has: page.getByRole('heading', { name: 'Price factor', exact: true }),
  });
  t.equal(await card.getByLabel('Factor').inputValue(), '1');
  t.same(await glance(page, 'price-factor-none'), []);
  await card.getByLabel('Factor').fill('0.9');
  await card.getByRole('button', { name: 'Save factor' }).click();
  t.match(
    await page.getByRole('main').innerText(),
    /What the company would have paid[\s\S]*€308\.64[\s\S]*factor 0\.9[\s\S]*€277\.78/,
  );
  t.same(await glance(page, 'price-factor-question'), []);
  await page.getByRole('button', { name: 'Save the factor' }).click();
  t.match(
    await card.innerText(),
    /brand-fast[\s\S]*€2\.50 and €10\.00, cache read €0\.25[\s\S]*€2\.25 and €9\.00, cache read €0\.225/,
  );
  await card.getByLabel('Factor').fill('0.85');
  await card.getByLabel('Begins').fill('2099-01-01T00:00');
  await card.getByRole('button', { name: 'Save factor' }).click();
  await page.getByRole('button', { name: 'Save the factor' }).click();
  t.match(
    await page.getByRole('table', { name: 'History of the price factor' }).innerText(),
    /to come[\s\S]*0\.85[\s\S]*0\.9/,
  );
  t.same(await glance(page, 'price-factor-set'), []);
  await card.getByRole('link', { name: 'All prices that it pays' }).click();
  t.match(await page.getByRole('main').innerText(), /€2\.25\s+list price €2\.50/);
  t.same(await glance(page, 'price-factor-models'), []);
  await page.goBack();
  await page.getByRole('button', { name: /^Withdraw/ }).click();
  t.notMatch(await page.getByRole('main').innerText(), /to come/);
  await card.getByLabel('Factor').fill('0');
  await card.getByRole('button', { name: 'Save factor' }).click();
  t.match(await card.innerText(), /must be a number above 0/);
  t.same(await glance(page, 'price-factor-refused'), []);
  t.same(complaints, []);
});
