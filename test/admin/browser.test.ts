import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import OpenAI from 'openai';
import type { BrowserContextOptions, Locator, Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { formatEur, parseEur } from '../../src/domain/pricing/money.ts';
import { openDatabase } from '../../src/store/connection/pool.ts';
import { eventStore } from '../../src/store/events/event.ts';
import { readAs } from '../support/spreadsheet.ts';
import { until } from '../support/until.ts';
import { CHAT, OVERSEAS } from '../support/world.ts';
import { ALL, glance, openTab, signedInTab, signInTab, startBrowser, type Tab } from './browser.ts';
import { paint } from './paint.ts';
import { PASSWORD, sendsNothing, startOffice } from './people.ts';

/** What each role does, in a real browser, with the OpenAI SDK as a client of the same gateway. */

const office = await startOffice(t, {}, sendsNothing);
const browser = await startBrowser(t);
const run = promisify(execFile);
const company = office.customer.company;
const base = `/companies/${company}`;

const kept = new Map<string, Tab>();

/** A tab of somebody at the first page. Without options it is that of the tests before. */
async function begin(email: string, options?: BrowserContextOptions): Promise<Tab> {
  const known = options === undefined ? kept.get(email) : undefined;
  const tab = known ?? (await signedInTab(t, office, email, options));
  if (options === undefined) kept.set(email, tab);
  await tab.page.goto('/');
  return tab;
}

async function look(t: Test, page: Page, name: string): Promise<void> {
  t.same(
    await glance(page, name),
    [],
    `${name}: nothing is wider than the window, and axe-core finds nothing where it is asked`,
  );
}

function clientOf(apiKey: string): OpenAI {
  return new OpenAI({ baseURL: office.url, apiKey, maxRetries: 0 });
}

const hello = { messages: [{ role: 'user' as const, content: 'Hello there' }] };
const statusOf = (call: Promise<unknown>) =>
  call.then(
    () => 200,
    (error: { status: number }) => error.status,
  );

// the owner's tests share one window and one key
const owner = await begin(office.people.owner, { acceptDownloads: true });
let key = 'svc_none_yet';
let client = clientOf(key);

await t.test('the owner creates a key, which is shown once', async (t) => {
  const { page } = owner;
  await page.waitForURL(`**${base}/usage`);
  await section(page, 'Keys').click();
  await page.getByText('Create a key', { exact: true }).click();
  await page.getByLabel('Name').fill('Website search');
  await page.getByLabel('Embeddings').uncheck();
  await page.getByRole('button', { name: 'Create key' }).click();
  key = await page.locator('#key').innerText();
  client = clientOf(key);
  t.match(key, /^svc_[a-z2-7]{32}$/);
  const { stdout } = await run('sh', ['-c', `${await page.locator('#curl').innerText()} -s`]);
  t.match(
    JSON.parse(stdout),
    { object: 'chat.completion', choices: [{ finish_reason: 'stop' }] },
    'curl, as pasted',
  );
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.getByRole('button', { name: 'Copy API key' }).click();
  t.equal(await page.evaluate('navigator.clipboard.readText()'), key);
  await look(t, page, 'key-created');
  await page.getByRole('link', { name: 'I have stored the key' }).click();
  const row = page.getByRole('row', { name: 'Website search' });
  t.match(
    await row.innerText(),
    new RegExp(`${key.slice(0, 8)}….*active.*Chat completions, Assistant runs.*owen@`, 's'),
  );
  t.notMatch(await page.content(), key, 'shown once');
});

await t.test('the owner sees the usage of the key', async (t) => {
  const { page } = owner;
  const answer = await client.chat.completions.create({ model: CHAT, ...hello });
  const entries = await office.ledger(company, 2);
  const cost = formatEur(entries.reduce((sum, { cost_eur }) => sum + parseEur(cost_eur), 0n));
  await section(page, 'Usage').click();
  t.match(await page.getByRole('table', { name: 'By model' }).innerText(), CHAT);
  const amount = page.getByRole('row', { name: 'Website search' }).locator('.eur');
  const shown = (await amount.getAttribute('title')) ?? (await amount.textContent());
  t.equal(
    digits(shown).replace(/0+$/, ''),
    digits(cost),
    'the exact cost is the ledger’s to the last digit',
  );
  t.ok(answer.usage?.total_tokens);
  const tokens = entries.reduce(
    (sum, each) => sum + each.prompt_tokens + each.completion_tokens,
    0,
  );
  t.match(await page.locator('.figures').innerText(), String(tokens));
});

await t.test('the owner opens and closes the EU gate, disables and enables a model', async (t) => {
  const { page } = owner;
  const models = async () => (await client.models.list()).data.map(({ id }) => id);
  await section(page, 'Settings').click();
  await page.getByLabel('Allow models hosted outside the EU').check();
  await page.getByRole('button', { name: 'Save settings' }).click();
  await page.getByText('Saved.').waitFor();
  await until(models, `${OVERSEAS} is listed`, (ids) => ids.includes(OVERSEAS));
  t.equal(await statusOf(client.chat.completions.create({ model: OVERSEAS, ...hello })), 200);
  await page.getByLabel('Allow models hosted outside the EU').uncheck();
  await page.getByRole('button', { name: 'Save settings' }).click();
  await until(models, `${OVERSEAS} is not listed`, (ids) => !ids.includes(OVERSEAS));
  t.equal(await statusOf(client.chat.completions.create({ model: OVERSEAS, ...hello })), 403);
  await section(page, 'Models').click();
  t.match(
    await page.getByRole('row', { name: OVERSEAS }).innerText(),
    /blocked.*EU gate is closed/s,
  );
  const preview = JSON.parse(await page.getByLabel('Answer of GET /models').innerText());
  t.same(
    preview,
    JSON.parse(JSON.stringify({ object: 'list', data: (await client.models.list()).data })),
  );
  await page.getByRole('button', { name: `Disable ${CHAT}` }).click();
  await until(models, `${CHAT} is not listed`, (ids) => !ids.includes(CHAT));
  t.match(await page.getByRole('row', { name: CHAT }).innerText(), /hidden/);
  t.equal(await statusOf(client.chat.completions.create({ model: CHAT, ...hello })), 404);
  await page.getByRole('button', { name: `Enable ${CHAT}` }).click();
  await until(models, `${CHAT} is listed`, (ids) => ids.includes(CHAT));
});

await t.test('the owner sets a budget', async (t) => {
  const { page } = owner;
  await section(page, 'Settings').click();
  await page.getByLabel('Monthly budget in EUR').fill('1.500');
  await page.getByRole('button', { name: 'Save settings' }).click();
  t.match(await page.getByRole('alert').innerText(), /Nothing was changed/);
  t.match(await page.title(), /^Error: /);
  const typed = page.getByLabel('Monthly budget in EUR');
  t.equal(await typed.inputValue(), '1.500', 'what was typed is still there');
  await page.locator('[name=budget]:focus').waitFor(); // the cursor is where the mistake is, once the page is drawn
  t.match(
    await page.locator('.wrong').innerText(),
    'can mean 1.500,00 or 1,50. Write 1500 or 1,50',
  );
  await typed.fill('1.500,00');
  await page.getByRole('button', { name: 'Save settings' }).click();
  await page.getByText('Saved.').waitFor();
  t.equal(await typed.inputValue(), '1500');
  await page.getByLabel('Monthly budget in EUR').fill('0.000001');
  await page.getByRole('button', { name: 'Save settings' }).click();
  await page.getByText('calls get 402 at once').waitFor();
  await page.getByRole('button', { name: 'Save it anyway' }).click();
  await page.getByText('Saved.').waitFor();
  await until(
    () => statusOf(client.chat.completions.create({ model: CHAT, ...hello })),
    'the budget stops calls',
    (status) => status === 402,
  );
  await section(page, 'Usage').click();
  t.match(await page.locator('.figures').innerText(), /reached: calls get 402/);
  await section(page, 'Settings').click();
  await page.getByLabel('Monthly budget in EUR').fill('250');
  await page.getByRole('button', { name: 'Save settings' }).click();
  await until(
    () => statusOf(client.chat.completions.create({ model: CHAT, ...hello })),
    'the new budget lets calls pass',
    (status) => status === 200,
  );
});

await t.test('the owner rotates the key and revokes the new one', async (t) => {
  const { page } = owner;
  await section(page, 'Keys').click();
  await page.getByLabel('Actions: Website search').click();
  await page.getByRole('link', { name: 'Rotate Website search' }).click();
  await page.getByLabel('Overlap').selectOption({ label: 'One hour' });
  await page.getByRole('button', { name: 'Create the new key' }).click();
  const second = await page.locator('#key').innerText();
  t.not(second, key);
  t.equal(await statusOf(client.models.list()), 200, 'the old key works during the overlap');
  t.equal(await statusOf(clientOf(second).models.list()), 200, 'and so does the new one');
  await page.getByRole('link', { name: 'I have stored the key' }).click();
  t.match(
    await page
      .getByRole('row', { name: `${key.slice(0, 8)}` })
      .first()
      .innerText(),
    /until/,
  );

  // the new key is the first of the list
  await page.getByLabel('Actions: Website search').first().click();
  await page.getByRole('link', { name: 'Revoke Website search' }).first().click();
  await look(t, page, 'key-revoke');
  await page.getByRole('button', { name: 'Revoke key' }).click();
  await until(
    () => statusOf(clientOf(second).models.list()),
    'the key is refused',
    (status) => status === 401,
  );
  t.equal(await statusOf(client.models.list()), 200);

  t.match(
    await page.getByRole('status').innerText(),
    /The key is revoked.* Its page tells whether somebody still uses it/,
  );
  await page.getByRole('link', { name: 'Its page' }).click();
  await page.getByRole('heading', { name: 'Key Website search' }).waitFor();
  await until(async () => {
    await page.reload();
    return (await page.getByRole('main').innerText()).includes('Somebody still uses this key');
  }, 'the attempt that was refused is told');
  await look(t, page, 'key-revoked');
  await page.getByRole('link', { name: 'All refused attempts' }).click();
  t.equal(await page.getByRole('row', { name: /401 invalid_api_key Website search/ }).count(), 1);
});

await t.test('the owner creates a key that may do little, and lets it do more', async (t) => {
  const { page } = owner;
  await section(page, 'Keys').click();
  await page.getByText('Create a key', { exact: true }).click();
  await page.getByLabel('Name').fill('Kiosk');
  t.notOk(
    await page.getByLabel('Requests a minute').isVisible(),
    'the plain case is as short as before',
  );
  await page.getByText('Limits and restrictions').focus();
  await page.keyboard.press('Enter');
  await page.keyboard.press('Tab');
  await page.keyboard.type('ten');
  await page.getByRole('group', { name: 'Models' }).getByLabel(CHAT, { exact: true }).check();
  await page.getByLabel('Budget a month in EUR').fill('9.50');
  await page.getByLabel('Networks').fill('10.0.0.1/8\n2001:db8::1');
  await page.getByRole('button', { name: 'Create key' }).click();
  t.same(await page.locator('.wrong').allInnerTexts(), [
    'Requests a minute must be a whole number from 1 to 1000000000, not "ten".',
    'Networks must be the network 10.0.0.0/8 or the address 10.0.0.1/32, not "10.0.0.1/8".',
  ]);
  await look(t, page, 'key-restricted-refused');
  await page.getByLabel('Requests a minute').fill('60');
  await page.getByLabel('Networks').fill('10.0.0.0/8\n\n2001:db8::1\n10.0.0.0/8');
  await page.getByRole('button', { name: 'Create key' }).click();
  t.match(
    await page.locator('#curl').innerText(),
    CHAT,
    'the example calls a model that the key may use',
  );
  await page.getByRole('link', { name: 'I have stored the key' }).click();
  const row = page.getByRole('row', { name: 'Kiosk' });
  t.match(
    await row.textContent(),
    /restricted: 60 requests a minute, €9,50 a month, 1 model, 2 networks/,
  );
  t.notMatch(
    await page.getByRole('row', { name: 'Website search' }).first().innerText(),
    /restricted/,
  );

  await page.getByRole('link', { name: 'Kiosk', exact: true }).click();
  t.equal(await page.getByLabel('Networks').inputValue(), '10.0.0.0/8\n2001:db8::1/128');
  await look(t, page, 'key-edit');
  await page.getByLabel('Name').fill('Kiosk in the hall');
  await page.getByLabel('Chat completions').uncheck();
  await page.getByLabel('Requests a minute').fill('');
  await page.getByLabel('Calls at once').fill('3');
  await page.getByLabel(CHAT, { exact: true }).uncheck();
  await page.getByLabel('Networks').fill('');
  await page.keyboard.press('Tab'); // to where calls name end users
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.getByText('Saved.').waitFor();
  t.match(
    await row.textContent(),
    /Kiosk in the hall.*restricted: 3 at once, €9,50 a month.*Embeddings, Assistant runs/s,
  );
  const [stored] = await office.sql`select * from api_keys where name = 'Kiosk in the hall'`;
  t.match(stored, {
    scopes: ['embeddings', 'assistants'],
    requests_per_minute: null,
    tokens_per_minute: null,
    max_concurrent: 3,
    allowed_model_slugs: null,
    monthly_budget_eur: '9.5',
    allowed_cidrs: null,
    revoked_at: null,
  });
});

await t.test('the owner sees the limits of the company, which an operator sets', async (t) => {
  const { page, complaints } = await begin(office.people.operator);
  await page.goto(`${base}/settings`);
  await page.getByLabel('Tokens a minute').fill('0');
  await page.getByRole('button', { name: 'Save limits' }).click();
  t.match(
    await page.locator('.wrong').innerText(),
    'Tokens a minute must be a whole number from 1 to 1000000000000',
  );
  await page.getByLabel('Tokens a minute').fill('120000');
  await page.getByLabel('Calls at once').fill('1');
  await page.getByRole('button', { name: 'Save limits' }).click();
  await page.getByText('Saved.').waitFor();
  await section(owner.page, 'Settings').click();
  await owner.page.getByText('All keys together: 120.000 tokens a minute, 1 at once.').waitFor();
  t.equal(await owner.page.getByLabel('Tokens a minute').count(), 0);
  await look(t, owner.page, 'settings-owner');
  await page.getByLabel('Tokens a minute').fill('');
  await page.getByLabel('Calls at once').fill('');
  await page.getByRole('button', { name: 'Save limits' }).click();
  await owner.page.reload();
  await owner.page.getByText('None.').waitFor();
  await page.goto('/audit');
  await page.evaluate(
    'for (const each of document.querySelectorAll("td details")) each.open = true',
  );
  const log = await page.getByRole('table', { name: 'Changes' }).innerText();
  t.match(log, /tokens per minute\s+120\.000\s+none/);
  t.match(log, new RegExp(`allowed models?(?: slugs)?\\s+${CHAT}\\s+all`));
  t.match(log, /allowed networks\s+10\.0\.0\.0\/8, 2001:db8::1\/128\s+all/);
  t.match(log, /scopes\s+Embeddings, Assistant runs\s+Chat completions/);
  t.same(complaints, []);
});

await t.test('the owner exports the ledger', async (t) => {
  const { page, complaints } = owner;
  await section(page, 'Usage').click();
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page
      .getByText('Export', { exact: true })
      .click()
      .then(() => page.getByRole('button', { name: 'Export ledger rows' }).click()),
  ]);
  const csv = String(Buffer.concat(await (await download.createReadStream()).toArray()));
  const ledger = await office.ledger(company, 4);
  t.ok(csv.startsWith('\ufeff'));
  const [heading = [], ...lines] = readAs(csv, ';'); // for a German spreadsheet, as the reader is German
  t.same(
    lines.map((cells) => cells[heading.indexOf('cost_eur')]),
    ledger.map(({ cost_eur }) => cost_eur.replace('.', ',')),
  );
  t.same(complaints, []);
});

await t.test('the administrator: an assistant, its eligibility, a run of it', async (t) => {
  const { page, complaints } = await begin(office.people.administrator);
  await section(page, 'Assistants').click();
  await page.getByRole('link', { name: 'New assistant' }).click();
  await page.getByLabel('Name').fill('Blurb writer');
  await page.getByLabel('System prompt').fill('You write\ncover blurbs.');
  await page.getByLabel('Temperature').fill('3');
  await page.getByRole('button', { name: 'Save assistant' }).click();
  t.match(await page.locator('.wrong').innerText(), /Temperature must be a number from 0 to 2/);
  await look(t, page, 'assistant-form');
  await page.getByLabel('Temperature').fill('0.7');
  await page.getByLabel('Default model').selectOption(CHAT);
  await page.getByLabel('Shared with').selectOption({ label: 'Only its maker' });
  await page.getByRole('button', { name: 'Save assistant' }).click();
  const row = page.getByRole('row', { name: 'Blurb writer' });
  t.match(await row.innerText(), /404.*shared with: only its maker/s);
  await page.getByLabel('Actions: Blurb writer').click();
  await page.getByRole('link', { name: 'Edit Blurb writer' }).click();
  await page.getByLabel('Shared with').selectOption({ label: 'The whole company' });
  await page.getByRole('button', { name: 'Save assistant' }).click();
  t.match(await row.innerText(), /visible/);
  const [stored] =
    await office.sql`select system_prompt from assistants where name = 'Blurb writer'`;
  t.equal(stored?.system_prompt, 'You write\ncover blurbs.', 'line ends are those of a text');

  await page.getByLabel('Actions: Blurb writer').click();
  await page.getByRole('link', { name: 'Try Blurb writer' }).click();
  await page.getByLabel('Message').fill('Two sentences, please.');
  t.equal(await page.getByLabel('Model').innerText(), `The default, ${CHAT}\n${CHAT}`);
  await page.getByRole('button', { name: 'Run', exact: true }).click();
  await page.getByRole('heading', { name: 'Answer' }).waitFor();
  t.match(
    await page.getByRole('status').innerText(),
    /completed: .* €0,\d+\. x-request-id [\da-f-]{36}/s,
  );
  t.equal(await page.getByLabel('Message').inputValue(), 'Two sentences, please.');
  await look(t, page, 'assistant-run');
  t.same(complaints, []);
});

await t.test('the operator: companies, models and prices, users, the audit log', async (t) => {
  const { page, complaints } = await begin(office.people.operator);
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await page.getByRole('link', { name: 'Companies' }).click();
  await page.getByRole('link', { name: 'New company' }).click();
  await page.getByLabel('Company name').fill('Kranich & Söhne <GmbH>');
  await page.getByLabel('Monthly budget in EUR').fill('99.50');
  await page.getByRole('button', { name: 'Create company' }).click();
  await page.getByRole('heading', { name: 'Kranich & Söhne <GmbH> is ready' }).waitFor();
  t.match(await page.locator('.company-name').innerText(), 'Kranich & Söhne <GmbH>');

  await page.getByRole('link', { name: 'Models', exact: true }).first().click();
  await page.getByRole('link', { name: 'Add models' }).click();
  await page.getByLabel('Another internal name').fill('internal-new');
  await page.getByRole('button', { name: 'Set names and prices' }).click();
  await page.getByLabel('Model name').fill(CHAT);
  await page.getByLabel('EUR per 1,000,000 prompt tokens').fill('0.25');
  await page.getByLabel('EUR per 1,000,000 completion tokens').fill('1.5');
  await page.getByLabel('Yes, in the EU').check();
  await page.getByRole('button', { name: 'Add a model' }).click();
  t.match(await page.getByRole('alert').innerText(), `A shared model ${CHAT} exists already`);
  await page.getByLabel('Model name').fill('feather');
  await page.getByRole('button', { name: 'Add a model' }).click();
  await page.getByRole('link', { name: 'feather' }).click();
  await page.getByLabel('EUR per 1,000,000 prompt tokens').fill('0.125');
  await page.getByRole('button', { name: 'Save model' }).click();
  t.match(digits(await page.getByRole('row', { name: 'feather' }).innerText()), digits('0.125'));

  await page.getByRole('link', { name: 'Users' }).click();
  await page.getByText('Add a user', { exact: true }).click();
  await page.getByLabel('E-mail address').fill('Karl@Kranich.example');
  await page.getByLabel('Company').fill('Kranich & Söhne <GmbH>');
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Add user' }).click();
  await page.getByRole('link', { name: 'karl@kranich.example' }).waitFor();

  await page.getByRole('link', { name: 'Audit log' }).click();
  const log = await page.getByRole('table', { name: 'Changes' }).innerText();
  t.match(log, /karl@kranich\.example/);
  t.match(log, /input price.*€0,00025.*€0,000125/s);
  t.match(log, /owen@customer\.example/, 'what the owner did today');
  t.notMatch(log, /password_hash|digest/);
  t.same(complaints, []);

  const karl = await openTab(browser, office.adminUrl);
  t.teardown(() => karl.page.context().close());
  await signInTab(karl, 'karl@kranich.example', PASSWORD);
  await karl.page.getByRole('heading', { name: /^Usage in/ }).waitFor();
});

await t.test(
  'onboarding a company: its operator fills in one form, its owner one more',
  async (t) => {
    const { page, complaints } = await begin(office.people.operator);
    let forms = 0; // what people have to send
    const send = async (on: Page, button: string) => {
      await on.getByRole('button', { name: button, exact: true }).click();
      forms++;
    };
    await page.getByRole('link', { name: 'Companies' }).click();
    await page.getByRole('link', { name: 'New company' }).click();
    await page.getByLabel('Company name').fill('Möwe Reederei');
    await page.getByLabel('E-mail address of its owner').fill('mona@moewe.example');
    await page.getByLabel('Name of the key').fill('First');
    await send(page, 'Create company');
    await page.getByRole('heading', { name: 'Möwe Reederei is ready' }).waitFor();
    const link = await page.locator('#link').innerText();
    const first = await page.locator('#key').innerText();
    t.equal(
      await statusOf(clientOf(first).chat.completions.create({ model: CHAT, ...hello })),
      200,
      'before anybody joins',
    );

    const mona = await openTab(browser, office.adminUrl);
    t.teardown(() => mona.page.context().close());
    await mona.page.goto(link);
    await look(t, mona.page, 'invitation');
    await mona.page.getByLabel('Password').fill(PASSWORD);
    await send(mona.page, 'Join');
    await mona.page.getByRole('link', { name: 'First', exact: true }).waitFor();
    t.equal(forms, 2, 'and nothing else in between: no page to look for');

    await mona.page.goto(link);
    await mona.page.getByRole('heading', { name: 'This invitation has ended' }).waitFor();
    t.same([...complaints, ...mona.complaints], []);
  },
);

await t.test('the owner invites, names and removes people, and reads the audit log', async (t) => {
  const { page, complaints } = await begin(office.people.owner);
  await section(page, 'Users').click();
  await page.getByLabel('E-mail address').fill('nora@customer.example');
  await page.getByLabel('Role').selectOption('member');
  await page.getByRole('button', { name: 'Invite' }).click();
  await page.locator('#link').waitFor();
  await page.getByRole('link', { name: 'To the users of the company' }).click();
  const open = page.getByRole('table', { name: 'Invitations' });
  t.match(await open.innerText(), /nora@customer\.example\s+member\s+works until/);
  await look(t, page, 'users');
  await page.setViewportSize({ width: 320, height: 800 });
  t.equal(
    await page.evaluate('document.documentElement.scrollWidth'),
    320,
    'nothing is wider than the smallest phone',
  );
  await page.setViewportSize({ width: 1200, height: 800 });
  await page
    .getByRole('button', { name: 'Withdraw the invitation of nora@customer.example' })
    .click();
  await page.getByText('The invitation is withdrawn.').waitFor();
  t.equal(await open.count(), 0);

  await page.getByLabel('Actions: mila@customer.example').click();
  await page.getByRole('link', { name: 'Change role of mila@customer.example' }).click();
  await look(t, page, 'person-role');
  await page.getByLabel('Role').selectOption('administrator');
  await page.getByRole('button', { name: 'Save role' }).click();
  await page.getByText('Saved.').waitFor();
  t.match(await page.getByRole('row', { name: 'mila@' }).innerText(), /administrator/);
  await page.getByLabel('Actions: mila@customer.example').click();
  await page.getByRole('link', { name: 'Change role of mila@customer.example' }).click();
  await page.getByLabel('Role').selectOption('member');
  await page.getByRole('button', { name: 'Save role' }).click();
  await page.getByLabel('Actions: mila@customer.example').click();
  await page.getByRole('link', { name: 'Remove mila@customer.example' }).click();
  await look(t, page, 'person-remove');
  await page.getByRole('link', { name: 'Keep it' }).click();
  t.match(await page.getByRole('row', { name: 'mila@' }).innerText(), /member/);

  await section(page, 'Audit log').click();
  await look(t, page, 'company-audit');
  t.match(
    await page.getByRole('table', { name: 'Changes' }).innerText(),
    /owen@.*created invitation.*nora@/s,
  );
  t.same(complaints, []);
});

await t.test('the operator sets ceilings, which the owner reads', async (t) => {
  const { page } = await begin(office.people.operator);
  await page.goto(`${base}/settings`);
  await page.getByLabel('Credit limit in EUR a month').fill('100000');
  await page.getByLabel('Lock the EU gate').check();
  await page.getByRole('button', { name: 'Save these limits' }).click();
  await page.getByText('Saved.').waitFor();
  await section(owner.page, 'Settings').click();
  await owner.page.getByText('has locked the EU gate').waitFor();
  await look(t, owner.page, 'settings-ceilings');
  await page.getByLabel('Credit limit in EUR a month').fill('');
  await page.getByLabel('Lock the EU gate').uncheck();
  await page.getByRole('button', { name: 'Save these limits' }).click();
  await page.getByText('Saved.').waitFor();
});

await t.test(
  'the operator: prices per million, one from a date, its history and the margin',
  async (t) => {
    const { page, complaints } = await begin(office.people.operator);
    await page.getByRole('link', { name: 'Models', exact: true }).first().click();
    t.match(
      digits(await page.getByRole('row', { name: 'feather' }).innerText()),
      digits('0.125'),
      '0.000125 per 1000',
    );
    await page.getByRole('link', { name: 'feather' }).click();
    t.equal(
      await page.getByLabel('EUR per 1,000,000 prompt tokens').inputValue(),
      '0,1250',
      'as a German reader writes it',
    );

    await page.getByLabel('Begins').fill('2099-01-01T00:00');
    await page.getByLabel('New price of 1,000,000 prompt tokens').fill('0.1');
    await page.getByLabel('New price of 1,000,000 completion tokens').fill('1e3');
    await page.getByRole('button', { name: 'Schedule price' }).click();
    t.match(await page.getByRole('alert').innerText(), /Please correct the marked fields/);
    await page.getByLabel('New price of 1,000,000 completion tokens').fill('1.25');
    await page.getByRole('button', { name: 'Schedule price' }).click();
    await page.getByText('The price begins at its date').waitFor();
    const history = page.getByRole('table', { name: 'History of prices' });
    t.match(
      await history.getByRole('row').nth(1).innerText(),
      /2099.*to come.*olga@tollgate\.example.*Withdraw/s,
    );
    t.equal(
      await history.getByRole('row').count(),
      4,
      'the heading, one to come, two that were set today',
    );
    await page.getByLabel('First day').fill('2026-01-01');
    await page.getByLabel('Your cost of 1,000,000 prompt tokens').fill('0.07');
    await page.getByLabel('Your cost of 1,000,000 completion tokens').fill('0.9');
    await page.getByRole('button', { name: 'Save cost price' }).click();
    await page.getByRole('table', { name: 'Cost prices' }).waitFor();
    await look(t, page, 'model');
    await history.getByRole('button', { name: /^Withdraw/ }).click();
    await page.getByText('The price is withdrawn.').waitFor();
    const perThousand = new URL(page.url());
    perThousand.searchParams.set('unit', '1k'); // as an account may have it
    await page.goto(perThousand.href);
    t.equal(await page.getByLabel('EUR per 1000 prompt tokens').inputValue(), '0,000125');

    await page.getByRole('link', { name: 'Margin' }).first().click();
    t.match(
      await page.getByRole('table', { name: 'By model' }).innerText(),
      /Upstream’?'?s cost.* USD/s,
    );
    t.match(
      await page.locator('main').innerText(),
      new RegExp(`Without a cost price, and in the revenue alone: .*${CHAT}`),
    );
    await look(t, page, 'margin');
    t.same(complaints, []);
  },
);

await t.test('the member: signs in, sees nothing of the company’s keys and usage', async (t) => {
  const tab = await openTab(browser, office.adminUrl);
  const { page } = tab;
  t.teardown(() => page.context().close());
  await signInTab(tab, office.people.member, PASSWORD);
  await page.waitForURL('**/own/keys');
  t.equal(await page.getByRole('link', { name: /^Keys|^Usage|Settings|Companies/ }).count(), 0);
  await page.goto('/account');
  await look(t, page, 'account-member');
  await page.goto(`${base}/usage`);
  await page.getByRole('heading', { name: 'Not permitted' }).waitFor();
  await page.goto('/account');
  await page.getByRole('button', { name: 'Sign out' }).click();
  await page.getByText('You are signed out.').waitFor();
  await look(t, page, 'sign-in');
});

await t.test('without JavaScript everything works', async (t) => {
  const { page } = await begin(office.people.owner, { javaScriptEnabled: false });
  await page.goto(`${base}/keys`);
  await page.getByText('Create a key', { exact: true }).click();
  await page.getByLabel('Name').fill('No script');
  await page.getByRole('button', { name: 'Create key' }).click();
  t.match(await page.locator('#key').innerText(), /^svc_/);
  t.equal(await page.getByRole('button', { name: /Copy/ }).count(), 0);
});

await t.test('pages of a company with two months of data, for screenshots', async (t) => {
  await paint(office.sql, company);
  await office.sql`update api_keys set monthly_budget_eur = 1 where name = 'Newsroom CMS'`;
  await reachBudgets(office.databaseUrl);
  const operator = await begin(office.people.operator);
  // another gateway, which was killed
  await office.sql`insert into gateways (id, name, version, last_seen_at, backlog)
    values (gen_random_uuid(), 'tollgate-2', '0.0.9', now() - interval '5 minutes', 12)`;
  await office.sql`insert into gateways (id, name, version) values (gen_random_uuid(), 'tollgate-3', '0.0.9')`;
  const pages = {
    overview: '/',
    companies: '/companies',
    usage: `${base}/usage`,
    keys: `${base}/keys`,
    'keys-dead': `${base}/keys?state=dead`,
    'key-find': '/keys',
    models: `${base}/models`,
    assistants: `${base}/assistants`,
    settings: `${base}/settings`,
    'operator-models': '/models',
    users: '/users',
    audit: '/audit',
    events: '/events',
  };
  // otherwise accessible.test.ts looks at them
  for (const [name, path] of ALL || process.env.SCREENSHOTS ? Object.entries(pages) : []) {
    await operator.page.goto(path);
    await look(t, operator.page, name);
  }
  await operator.page.goto('/');
  await operator.page
    .getByRole('link', { name: 'tollgate-2 is gone, and its spool had 12 usage records.' })
    .click();
  t.match(
    await operator.page.locator('#gateways').innerText(),
    /tollgate-2.*gone/s,
    'what is wrong leads to where it is',
  );
  await operator.page.getByRole('link', { name: 'Top spenders' }).click();
  await operator.page.waitForURL(/\/companies\?sort=-spent$/);
  await operator.page.goto(`${base}/usage`);
  await operator.page.locator('svg.chart.wide .bar').first().hover();
  t.match(await operator.page.locator('.tip:visible').innerText(), /^1 [A-Z].+: €.+\n.+: €/);
  const now = await operator.page.getByRole('heading', { level: 1 }).innerText();
  const period = operator.page.getByLabel('Period');
  const texts = await period.locator('option').allInnerTexts();
  await period.selectOption(texts.filter((text) => /^\p{L}+ \d{4}$/u.test(text))[1] as string); // sends itself
  await operator.page.waitForURL(/from=/);
  t.not(
    await operator.page.getByRole('heading', { level: 1 }).innerText(),
    now,
    'an earlier month',
  );
  t.match(await operator.page.locator('.figures').innerText(), /1\.400/);
  t.same(operator.complaints, []);
});

await t.test('the owner searches, sorts and turns the pages of a long list', async (t) => {
  await office.sql`
    insert into api_keys (company_id, name, digest, prefix, scopes, created_by, created_at)
    select ${company}, 'Shop ' || i, sha256(('shop ' || i)::bytea), 'svc_' || left(md5(i::text), 4), '{chat,embeddings}',
      'owen@customer.example', now() - i * interval '1 hour' from generate_series(1, 120) as i`;
  const { page, complaints } = await begin(office.people.owner);
  await section(page, 'Keys').click();
  const keys = page.getByRole('table', { name: 'Keys', exact: true });
  const names = () =>
    keys.getByRole('rowheader').getByRole('link', { name: /^Shop/ }).allInnerTexts();
  const pages = page.getByRole('navigation', { name: 'Pages' });
  await page.getByRole('searchbox', { name: 'Search this list' }).fill('sHOP');
  await page.getByRole('button', { name: 'Show' }).click();
  await page.waitForURL('**/keys?q=sHOP&sort=-created');
  const shops = (from: number, to: number) =>
    Array.from({ length: to - from + 1 }, (_, i) => `Shop ${from + i}`);
  t.same(await names(), shops(1, 50), 'newest first');
  t.match(await pages.innerText(), /1 – 50 of 120/);
  t.equal(await pages.getByRole('link', { name: 'Previous' }).count(), 0);
  await pages.getByRole('link', { name: 'Next' }).click();
  await pages.getByText('51 – 100 of 120').waitFor();
  t.same(await names(), shops(51, 100));
  await look(t, page, 'keys-paged');
  await pages.getByRole('link', { name: 'Next' }).click();
  await pages.getByText('101 – 120 of 120').waitFor();
  t.same(await names(), shops(101, 120));
  t.equal(await pages.getByRole('link', { name: 'Next' }).count(), 0);
  await page.goBack();
  await pages.getByText('51 – 100 of 120').waitFor();
  await keys.getByRole('link', { name: 'Key', exact: true }).click();
  await page.waitForURL('**/keys?q=sHOP&sort=name');
  t.same((await names()).slice(0, 3), ['Shop 1', 'Shop 10', 'Shop 100'], 'from the first page on');
  await page.getByRole('searchbox', { name: 'Search this list' }).fill('no such key');
  await page.getByRole('searchbox', { name: 'Search this list' }).press('Enter');
  await page.getByText('Nothing matches the search.').waitFor();
  t.same(complaints, []);
});

/** Writes alerts of what was spent, as if their webhook had failed for a day and e-mails were failing. */
async function reachBudgets(databaseUrl: string): Promise<void> {
  const db = openDatabase({ url: databaseUrl });
  const store = eventStore(db, db);
  await office.sql`delete from budget_alerts`;
  await office.sql`delete from events where kind like 'budget.%'`;
  await store.look(null, { webhook: true, email: true, operators: ['alerts@tollgate.example'] });
  for (const delivery of await store.due('webhook', 10, []))
    await store.failed(delivery, 'status 500', null);
  for (const delivery of await store.due('email', 2, ['alerts@tollgate.example']))
    await store.failed(delivery, 'ETIMEDOUT', 7200);
  await db.close();
}

/** The link to a section of the company's pages. */
function section(page: Page, name: string): Locator {
  return page.getByRole('navigation', { name: 'Company' }).getByRole('link', { name });
}

/** The digits of an amount in any language. */
function digits(text: string | null | undefined): string {
  return (text ?? '').replace(/[^\d]/g, '');
}
