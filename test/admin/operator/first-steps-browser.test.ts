import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { ask } from '../../support/client.ts';
import { startGateway } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { demoUpstream, scriptedUpstream } from '../../support/upstream.ts';
import { glance, signedInTab } from '../browser.ts';
import { addOperator } from '../people.ts';

/** The first hour of an operator in a real browser: from an empty database to the first call, by the list of first steps. */

const EMAIL = 'olga@tollgate.example';

async function emptyInstallation(t: Test, upstream: string) {
  return startGateway(t, upstream, {}, (sql) => addOperator(sql, EMAIL));
}

const steps = (page: Page) => page.getByRole('region', { name: 'First steps' });
const step = (page: Page, title: string) =>
  steps(page)
    .getByRole('listitem')
    .filter({ has: page.getByRole('heading', { name: title, exact: true }) });

/** The call that the page shows, as whoever pastes it makes it. */
async function callAsShown(page: Page, key: string, model?: string) {
  const shown = await page.locator('#first-curl').innerText();
  const [, url = ''] = /^curl (\S+)/.exec(shown) ?? [];
  const body = JSON.parse(/-d '(.*)'$/.exec(shown)?.[1] ?? '');
  return ask(url, { key, body: { ...body, ...(model === undefined ? {} : { model }) } });
}

t.test('from an empty database to the first call, which shows without a click', async (t) => {
  const { url: upstream } = await demoUpstream(t);
  const gateway = await emptyInstallation(t, upstream);
  const { page, complaints } = await signedInTab(t, gateway, EMAIL, { locale: 'en' });
  let clicks = 0;
  const click = async (
    name: string,
    role: 'link' | 'button' = 'link',
    where = page.getByRole('main'),
  ) => {
    clicks++;
    await where.getByRole(role, { name, exact: true }).first().click();
  };
  await page.goto('/');
  t.match(await steps(page).innerText(), /1 of 6 done/);
  t.match(await step(page, 'The model router answers').innerText(), /done.*It offers \d+ models/s);
  t.match(await step(page, 'Its owner').innerText(), /It needs a company/);
  t.match(await step(page, 'The first call').innerText(), /It needs a key that works/);
  t.same(await glance(page, 'first-steps-empty'), []);

  await click('Add a model');
  await page.getByLabel('internal-demo-chat', { exact: true }).check();
  await page.getByLabel('internal-demo-embedding', { exact: true }).check();
  t.same(await glance(page, 'first-steps-choose'), []);
  await click('Set names and prices', 'button');
  const chat = page.getByRole('group', { name: 'internal-demo-chat', exact: true });
  t.equal(await chat.getByLabel('Model name').inputValue(), '', 'it hides what is behind');
  await chat.getByLabel('Model name').fill('fast');
  await chat.getByLabel('EUR per 1,000,000 prompt tokens').fill('2.5');
  await chat.getByLabel('EUR per 1,000,000 completion tokens').fill('10');
  const vectors = page.getByRole('group', { name: 'internal-demo-embedding' });
  t.equal(await vectors.getByLabel('Kind').inputValue(), 'embedding', 'guessed from the name');
  await vectors.getByLabel('Model name').fill('fast');
  await vectors.getByLabel('EUR per 1,000,000 prompt tokens').fill('0.1');
  for (const each of [chat, vectors]) await each.getByLabel('Yes, in the EU').check();
  t.same(await glance(page, 'first-steps-prices'), []);
  await click('Add 2 models', 'button');
  t.match(await page.getByRole('main').innerText(), /is the name of another one here/);
  t.equal(
    await chat.getByLabel('EUR per 1,000,000 prompt tokens').inputValue(),
    '2.5',
    'nothing typed is lost',
  );
  await vectors.getByLabel('Model name').fill('vectors');
  await click('Add 2 models', 'button');
  await page.getByText('Created.').waitFor();
  t.same(await gateway.sql`select slug, kind, upstream_model from models order by slug`, [
    { slug: 'fast', kind: 'chat', upstream_model: 'internal-demo-chat' },
    { slug: 'vectors', kind: 'embedding', upstream_model: 'internal-demo-embedding' },
  ]);

  await page.goto('/');
  t.match(await steps(page).innerText(), /2 of 6 done/);
  await click('Create a company');
  await page.getByLabel('Company name').fill('Kranich GmbH');
  await page.getByLabel('E-mail address of its owner').fill('karl@kranich.example');
  await page.getByLabel('Name of the key').fill('First');
  await click('Create company', 'button');
  const key = await page.locator('#key').innerText();
  await page.goto('/');
  t.match(await steps(page).innerText(), /5 of 6 done/);
  const live = page.locator('#first-call');
  t.match(await live.innerText(), /No call has come yet/);
  t.match(await page.locator('#first-curl').innerText(), `curl ${gateway.url}/chat/completions`);
  await page.locator('#first-curl').selectText(); // as whoever copies it does
  t.same(await glance(page, 'first-steps-call'), []);
  const unknown = await callAsShown(page, key, 'nowhere');
  t.equal(unknown.status, 404);
  await live.getByText('404').waitFor();
  t.match(await live.innerText(), /What to do/);
  t.equal(
    await live.getByRole('link').getAttribute('href'),
    `/requests/${unknown.headers.get('x-request-id')}`,
  );
  const answered = await callAsShown(page, key);
  t.equal(answered.status, 200);
  await live.getByText('200').waitFor();
  const told = page.locator('#first-steps');
  await told.locator('li').filter({ has: live }).locator('.step-title').getByText('done').waitFor();
  t.match(await told.locator('p').first().innerText(), /^6 of 6 done/);
  t.equal(
    await live.getByRole('link').getAttribute('href'),
    `/requests/${answered.headers.get('x-request-id')}`,
  );
  t.match(await live.innerText(), /This step is done\. The request was answered/);
  t.same(await glance(page, 'first-steps-called'), []);
  t.comment(`from the empty list to the key: ${clicks} clicks, one of them a form sent again`);
  await page.goto('/');
  t.equal(await steps(page).count(), 0, 'all is done');
  t.same(complaints, []);
});

t.test('without scripts, when the router comes late, and until the list is put away', async (t) => {
  const router = await scriptedUpstream(t);
  router.answer((res) => void res.writeHead(401).end());
  const gateway = await emptyInstallation(t, router.url);
  const { page, complaints } = await signedInTab(t, gateway, EMAIL, {
    locale: 'en',
    javaScriptEnabled: false,
  });
  await page.goto('/');
  t.match(
    await step(page, 'The model router answers').innerText(),
    /to do.*The router refuses the key/s,
  );
  await page.goto('/models/new');
  t.match(await page.getByRole('main').innerText(), /The router refuses the key.*type the name/s);
  await page.getByLabel('Another internal name').fill('internal-typed');
  await page.getByRole('button', { name: 'Set names and prices' }).click();
  await page.getByLabel('Model name').fill('typed');
  await page.getByLabel('EUR per 1,000,000 prompt tokens').fill('100');
  await page.getByLabel('EUR per 1,000,000 completion tokens').fill('100');
  await page.getByLabel('No, or not known').check();
  await page.getByRole('button', { name: 'Add a model' }).click();
  await page.getByText('Created.').waitFor();

  router.answer((res) => {
    const data = ['internal-typed', 'lab/other', 'bad\u0007name', '<b>odd</b>'].map((id) => ({
      id,
    }));
    res.end(JSON.stringify({ data }));
  });
  const shows = async () => {
    await page.goto('/models/new');
    return (await page.getByLabel('lab/other').count()) === 1;
  };
  await until(shows, 'the page asks the router again');
  t.same(
    await page.getByRole('checkbox', { name: /internal-typed/ }).count(),
    0,
    'what is offered is not asked for',
  );
  t.equal(await page.getByLabel('<b>odd</b>').count(), 1);
  t.match(await page.getByRole('main').innerText(), /One more entry of its list cannot be shown/);
  await page.getByLabel('lab/other').check();
  await page.getByRole('button', { name: 'Set names and prices' }).click();
  await page.getByLabel('Model name').fill('other');
  await page.getByLabel('EUR per 1,000,000 prompt tokens').fill('2.5');
  await page.getByLabel('EUR per 1,000,000 completion tokens').fill('10');
  await page.getByLabel('Yes, in the EU').check();
  await page.getByRole('button', { name: 'Add a model' }).click();
  t.match(
    await gateway.sql`select cost_eur_per_1k_input::text as input from models where slug = 'other'`,
    [{ input: /^0\.00250*$/ }],
  );

  const company = await gateway.company();
  await page.goto('/');
  for (const [title, path] of [
    ['Its owner', 'users'],
    ['A key', 'keys#create'],
  ] as const)
    t.equal(
      await step(page, title).getByRole('link').getAttribute('href'),
      `/companies/${company}/${path}`,
    );
  const key = await gateway.key(company);
  await page.goto('/');
  t.match(await steps(page).innerText(), /4 of 6 done/);
  t.match(await page.locator('#first-call').innerText(), /No call has come yet/);
  router.answer((res) => {
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
    const choices = [
      { index: 0, message: { role: 'assistant', content: 'Hi' }, finish_reason: 'stop' },
    ];
    const body = {
      id: 'x',
      object: 'chat.completion',
      created: 1,
      model: 'lab/other',
      choices,
      usage,
    };
    res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
  });
  t.equal((await callAsShown(page, key)).status, 200);
  await gateway.ledger(company, 1);
  await steps(page).getByRole('link', { name: 'Look again' }).click();
  t.match(await page.locator('#first-call').innerText(), /200|booked/);
  t.match(await steps(page).innerText(), /5 of 6 done/, 'its owner is missing');
  await steps(page).getByRole('button', { name: 'Hide checklist' }).click();
  t.equal(await steps(page).count(), 0);
  await gateway.sql`delete from models`;
  await page.goto('/');
  t.equal(await steps(page).count(), 0, 'for good');
  t.same(complaints, []);
});
