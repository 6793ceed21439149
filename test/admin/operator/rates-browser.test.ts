import t from 'tap';
import { examine, signedInTab } from '../browser.ts';
import { signedIn, startOffice } from '../people.ts';

/** The table of rates on the page of a model, in a browser and without script. */

const office = await startOffice(t);
const { sql } = office;
const newModel = async (slug: string, rates: object | null = null) =>
  (
    await sql<[{ id: string }]>`
    insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output, cost_eur_per_1k_cache_read, rates)
    values (${slug}, 'internal', 'chat', true, 0.0025, 0.015, 0.0002, ${rates as never}::jsonb) returning id`
  )[0].id;
const ratesOf = async (id: string) =>
  (await sql`select rates from models where id = ${id}`)[0]?.rates;
const LONG = { over: 272_000, input: '0.005', output: '0.0225', cache_read: null };

t.test('rates are typed into a table, checked meanwhile, changed and removed', async (t) => {
  const id = await newModel('tabled');
  const { page, complaints } = await signedInTab(t, office, office.people.operator);
  await page.goto(`/models/${id}?unit=1k`);
  const box = page.locator('[data-rates]').first();
  const cell = (rate: number, heading: string) =>
    box.getByLabel(`${heading}, rate ${rate}`, { exact: true });
  await box.getByText('Rates: prices under conditions').click();
  await cell(1, 'Prompt over').fill('272000');
  await cell(1, 'Prompt').fill('0.005');
  await cell(1, 'Completion').fill('0.0225');
  await cell(1, 'Completion').blur();
  await box.locator('.wrong', { hasText: 'the base price has this part' }).waitFor();
  await cell(1, 'Cache read').fill('none');
  await box.getByRole('button', { name: 'Add a rate' }).click();
  await cell(2, 'Hours').fill('at night');
  for (const heading of ['Prompt', 'Completion', 'Cache read'])
    await cell(2, heading).fill('0.001');
  await cell(2, 'Cache read').blur();
  await box.locator('.wrong', { hasText: 'windows of the week' }).waitFor();
  t.equal(await box.locator('.wrong').count(), 1, 'what is right now says nothing');
  t.same(await examine(page, 'model-rates'), []);
  await page.setViewportSize({ width: 1200, height: 800 });
  await page.getByRole('button', { name: 'Save model' }).click();
  await page.locator('.problem').waitFor();
  t.equal(await cell(2, 'Hours').inputValue(), 'at night', 'nothing is lost');
  t.equal(await cell(1, 'Prompt over').inputValue(), '272000');
  await cell(2, 'Hours').fill('22:00-06:00 Europe/Berlin');
  await page.getByRole('button', { name: 'Save model' }).click();
  await page.getByText('Saved.').waitFor();
  const night = {
    hours: '22:00-06:00 Europe/Berlin',
    input: '0.001',
    output: '0.001',
    cache_read: '0.001',
  };
  t.same(await ratesOf(id), [LONG, night]);
  await page.goto(`/models/${id}`);
  await box.getByRole('button', { name: 'Remove this rate' }).first().click();
  await page.getByRole('button', { name: 'Save model' }).click();
  await page.getByText('Saved.').waitFor();
  t.same(await ratesOf(id), [night]);
  t.same(complaints, []);
});

t.test('without script: a row more, prices to come and cost prices with rates', async (t) => {
  const id = await newModel('plain', [LONG]);
  const operator = await signedIn(office, 'operator');
  const path = `/models/${id}`;
  const { text } = await operator.get(`${path}?unit=1M`);
  t.match(text, /name="rate-0-input"[^>]*value="5"/);
  t.match(text, /name="rate-1-over"/, 'one more row');
  t.match(text, /<summary>Prices of further parts<\/summary>/);
  const rate = (start: string, member: string) => `${start}rate-0-${member}`;
  const priced = (start: string) => ({
    [`${start}rates`]: 'table',
    [`${start}input`]: '3',
    [`${start}output`]: '15',
    [rate(start, 'tier')]: 'priority',
    [rate(start, 'input')]: '6',
    [rate(start, 'output')]: '30',
  });
  const unit = { unit: '1M' };
  const next = { ...unit, ...priced('next_'), from: '2099-01-01' };
  t.equal((await operator.post(`${path}/prices`, next)).status, 303);
  t.equal((await operator.post(`${path}/costs`, { ...unit, ...priced('cost_') })).status, 303);
  const stored = [{ tier: 'priority', input: '0.006', output: '0.03' }];
  const [coming] = await sql`select rates from model_prices where slug = 'plain' and not applied`;
  t.same(coming?.rates, stored);
  const [cost] = await sql`select rates from model_cost_prices where slug = 'plain'`;
  t.same(cost?.rates, stored);
  const wrong = { ...next, [rate('next_', 'hours')]: '01:00-02:00 Mars/Base' };
  const refused = await operator.post(`${path}/prices`, wrong);
  t.match(
    refused.text,
    /name="next_rate-0-hours"[^>]*value="01:00-02:00 Mars\/Base"[^>]*aria-invalid="true"/,
  );
  t.match((await operator.get(path)).text, /tier priority: prompt tokens/);
});
