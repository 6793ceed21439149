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

t.test('a model is offered with rates: nothing typed is lost', async (t) => {
  const operator = await signedIn(office, 'operator');
  const path = '/models/new';
  const fresh = await operator.get(`${path}?name=lab/one&name=lab/two&unit=1M`);
  t.match(fresh.text, /data-rates="\/models\/rates\/check\?of=1-"/);
  t.match(fresh.text, /name="1-rate-0-tier"/);
  const offer = (at: number) => ({
    [`${at}-slug`]: `offered-${at}`,
    [`${at}-kind`]: 'chat',
    [`${at}-eu_hosted`]: 'true',
    [`${at}-input`]: '1',
    [`${at}-output`]: '2',
  });
  const fields = {
    unit: '1M',
    upstream: ['lab/one', 'lab/two'],
    ...offer(0),
    ...offer(1),
    '1-rates': 'table',
    '1-rate-0-tier': 'priority',
    '1-rate-0-input': '2',
  };
  const checked = await operator.post('/models/rates/check?of=1-', fields);
  t.same(Object.keys(JSON.parse(checked.text)), ['1-rate-0-output']);
  const refused = await operator.post(path, fields);
  t.match(refused, { status: 422, text: /name="1-rate-0-tier"[^>]*value="priority"/ });
  t.match(refused.text, /name="1-rate-0-output"[^>]*aria-invalid="true"/);
  const tie = { ...fields, '1-rate-0-output': '4', '1-rate-1-tier': 'priority' };
  const tied = await operator.post(path, { ...tie, '1-rate-1-input': '1', '1-rate-1-output': '1' });
  t.equal(tied.status, 422, 'two rates that could win at once');
  t.match(tied.text, /name="1-rate-1-tier"[^>]*aria-invalid="true"/);
  t.equal((await operator.post(path, { ...fields, '1-rate-0-output': '4' })).status, 303);
  const rows = await sql`select rates from models where slug like 'offered-%' order by slug`;
  const rate = { tier: 'priority', input: '0.002', output: '0.004' };
  t.same(rows, [{ rates: null }, { rates: [rate] }]);
});

t.test('a company sees the rates that begin at a date, times its factor', async (t) => {
  const { company } = office.customer;
  const id = await newModel('dated', [LONG]);
  await sql`update companies set price_factor = 2 where id = ${company}`;
  const prices = { input: '0.004', output: '0.03', cache_read: '0.0004', reasoning: null };
  const rates = [
    { ...LONG, reasoning: null },
    { tier: 'priority', ...prices },
  ];
  await sql`
    insert into model_prices (slug, valid_from, input, output, cache_read, reasoning, rates)
    select 'dated', now() + n * interval '30 days', 0.003, 0.02, 0.0003, 0.025, ${rates as never}::jsonb
    from generate_series(1, 2) as n`;
  for (const role of ['owner', 'operator'] as const) {
    const { text } = await (await signedIn(office, role)).get(
      `/companies/${company}/models?unit=1k`,
    );
    const row = text.split('<tr').find((each) => each.includes('>dated<')) ?? '';
    const words = row.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
    t.match(words, /prompt over 272,000 tokens: prompt tokens €0\.01, completion tokens €0\.045/);
    t.match(words, /from .*: prompt over .* tier priority: prompt tokens €0\.008/);
    t.equal(words.match(/tier priority/g)?.length, 1, 'rates that stay are told once');
    t.match(words, /as output from .*: €0\.05/);
    t.equal(words.includes('list price'), role === 'operator');
    t.notMatch(words, /€0\.004\b/);
  }
  await sql`update companies set price_factor = 1 where id = ${company}`;
  await sql`delete from models where id = ${id}`;
});
