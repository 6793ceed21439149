import t from 'tap';
import { COST_PARTS } from '../../../src/domain/pricing/parts.ts';
import { until } from '../../support/until.ts';
import { examine, signedInTab } from '../browser.ts';
import { signedIn, startOffice, textOf } from '../people.ts';

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
  await until(
    async () => (await box.locator('.wrong').count()) === 1,
    'what is right now says nothing',
  ); // each cell is checked by itself
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
  t.match(text, /<summary>More<\/summary>/);
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
  t.match(textOf(await operator.get(path)), /tier priority €6\.00 /);
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

/** The fields of the form of a model, as its page has them. */
const fieldsOf = (text: string, path: string) => {
  const form = text.split('<form').find((each) => each.includes(`action="${path}"`)) ?? '';
  const fields: Record<string, string[]> = {};
  for (const [input] of form.matchAll(/<(?:input|select)[^>]*>/g)) {
    const [, name = ''] = / name="([^"]*)"/.exec(input) ?? [];
    const [, value = ''] = / value="([^"]*)"/.exec(input) ?? [];
    if (/type="(radio|checkbox)"/.test(input) && !input.includes(' checked')) continue;
    if (name !== '' && name !== 'csrf') fields[name] = [...(fields[name] ?? []), value];
  }
  return fields;
};

t.test('what was removed or typed stays so when the form is shown again', async (t) => {
  const priority = { tier: 'priority', input: '0.007', output: '0.03', cache_read: '0.0007' };
  const id = await newModel('kept', [LONG, priority]);
  const operator = await signedIn(office, 'operator');
  const path = `/models/${id}`;
  const fields = fieldsOf((await operator.get(`${path}?unit=1k`)).text, path);
  const without = Object.fromEntries(
    Object.entries(fields).filter(([name]) => !/^rate-[12]-/.test(name)),
  );
  const wrong = { ...without, kind: 'chat', input: 'x', 'rate-0-reasoning': '0.123' };
  const refused = await operator.post(path, wrong);
  t.equal(refused.status, 422);
  t.notMatch(
    refused.text,
    /name="rate-\d+-\w+"[^>]*value="(priority|0\.007)"/,
    'removed by script',
  );
  t.match(
    refused.text,
    /name="rate-0-reasoning"[^>]*value="0\.123"/,
    'a part without a base price',
  );

  const before = fieldsOf(refused.text, path);
  await sql`update models set rates = ${[priority] as never}::jsonb where id = ${id}`; // somebody else
  const asked = await operator.post(path, { ...before, kind: 'chat', input: '0.0025' });
  t.equal(asked.status, 409);
  t.match(asked.text, /Somebody else saved this first/);
  t.match(asked.text, /over 272000 0\.005 and 0\.0225, reasoning 0\.123/);
  t.match(asked.text, /priority 0\.007 and 0\.03, cache read 0\.0007/);
  const kept = fieldsOf(asked.text, path);
  const [, confirmed = ''] = /name="confirmed" value="([^"]*)"/.exec(asked.text) ?? [];
  t.equal((await operator.post(path, { ...kept, confirmed })).status, 303);
  t.same(await ratesOf(id), [{ ...LONG, reasoning: '0.123' }]);
});

t.test(
  'as many rates as a model may have, of all parts, with long hours, fit a form',
  async (t) => {
    const id = await newModel('many');
    const operator = await signedIn(office, 'operator');
    const path = `/models/${id}`;
    const fields = {
      ...fieldsOf((await operator.get(`${path}?unit=1k`)).text, path),
      kind: 'chat',
    };
    const windows = Array.from({ length: 12 }, (_, n) => `${String(2 * n).padStart(2, '0')}:00`);
    const hours = `Mon-Fri ${windows.map((at) => `${at}-${at.replace(':00', ':30')}`).join()} UTC`;
    const rate = (n: number) => ({
      over: `${n + 1}`,
      ...(n % 2 === 1 && { hours }),
      ...Object.fromEntries(COST_PARTS.map((part) => [part, '0.123456789012'])),
    });
    const withRates = (count: number) =>
      Object.assign(
        { ...fields },
        ...Array.from({ length: count }, (_, n) =>
          Object.fromEntries(
            Object.entries(rate(n)).map(([member, value]) => [`rate-${n}-${member}`, value]),
          ),
        ),
      );
    const checked = await operator.post('/models/rates/check?of=', withRates(65));
    t.same(Object.keys(JSON.parse(checked.text)), ['rate-64-over']);
    const refused = await operator.post(path, withRates(65));
    t.equal(refused.status, 422);
    t.match(refused.text, /one rate too many/);
    t.equal((await operator.post(path, withRates(64))).status, 303);
    t.equal((await ratesOf(id)).length, 64);
    const { text } = await operator.get(path);
    t.equal((await operator.post(path, { ...fieldsOf(text, path), kind: 'chat' })).status, 303);
  },
);

t.test('as many models as one form offers can be sent with it', async (t) => {
  const operator = await signedIn(office, 'operator');
  const names = Array.from({ length: 50 }, (_, n) => ['name', `lab/many-${n}`]);
  const { text } = await operator.get(`/models/new?${new URLSearchParams(names)}`);
  const fields = fieldsOf(text, '/models/new');
  const answers = names.map((_, n) => ({
    [`${n}-slug`]: `many-${n}`,
    [`${n}-kind`]: 'chat',
    [`${n}-eu_hosted`]: 'true',
    [`${n}-input`]: '1',
    [`${n}-output`]: '1',
  }));
  const sent = await operator.post('/models/new', Object.assign(fields, ...answers));
  t.equal(sent.status, 303);
  t.equal((await sql`select from models where upstream_model like 'lab/many-%'`).length, 50);
  await sql`delete from models where upstream_model like 'lab/many-%'`;
});

t.test(
  'Back finds the rows that were added and typed, and not those that were removed',
  async (t) => {
    const id = await newModel('left', [LONG, { ...LONG, over: 500_000 }]);
    const { page, complaints } = await signedInTab(t, office, office.people.operator);
    await page.goto(`/models/${id}?unit=1k`);
    const box = page.locator('[data-rates]').first();
    const typed = () =>
      box
        .getByLabel(/^Prompt over/)
        .evaluateAll((all) => all.map((each) => Reflect.get(each, 'value')));
    await box.getByRole('button', { name: 'Remove this rate' }).first().click();
    await box.getByRole('button', { name: 'Add a rate' }).click();
    await box.getByLabel('Prompt over, rate 3', { exact: true }).fill('700000');
    await box.getByLabel('Prompt over, rate 2', { exact: true }).fill('600000');
    t.same(await typed(), ['500000', '600000', '700000']);
    await page.goto('/models');
    await page.goBack();
    t.same(await typed(), ['500000', '600000', '700000']);
    t.same(complaints, []);
  },
);

t.test('owners reach no check of prices', async (t) => {
  const owner = await signedIn(office, 'owner');
  const asked = { rates: 'table', 'rate-0-tier': 'priority', input: '1', output: '1' };
  for (const start of ['', 'next_', 'cost_']) {
    const { status, text } = await owner.post(`/models/rates/check?of=${start}`, asked);
    t.equal(status, 403);
    t.notMatch(text, /must be/);
  }
});

t.test('a company sees the rates that begin at a date, times its factor', async (t) => {
  const { company } = office.customer;
  await sql`delete from models where upstream_model = 'internal'`; // their parts would be columns
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
    const words = (part = '') => part.replaceAll(/<[^>]*>/g, ' ').replaceAll(/\s+/g, ' ');
    const [, list = '', rated = ''] = text.split('<table');
    t.match(rated, /<caption class="sr">All prices of models with rates/);
    const lines = rated
      .split('<tr')
      .flatMap((each) => (each.includes('>dated<') ? words(each) : []));
    t.equal(lines.length, 5, 'a price that stays as it is is told once');
    t.match(lines, [
      /now base price €0\.005 €0\.03 €0\.0004 as output/,
      /now prompt over 272,000 tokens €0\.01 €0\.045 as input as output/,
    ]);
    t.match(lines.slice(2), [
      /20\d\d.* base price €0\.006 €0\.04 €0\.0006 €0\.05/,
      /over/,
      /tier priority €0\.008 €0\.06 €0\.0008 as output/,
    ]);
    const row = words(list.split('<tr').find((each) => each.includes('>dated<')));
    t.match(row, /from .*: €0\.04/);
    t.equal(row.includes('list price'), role === 'operator');
    t.notMatch(lines.join(), /€0\.004\b|list price/);
  }
  await sql`update companies set price_factor = 1 where id = ${company}`;
  await sql`delete from models where id = ${id}`;
});
