import type { Page } from 'playwright-core';
import t, { type Test } from 'tap';
import { until } from '../../support/until.ts';
import { CHAT, EMBED, OVERSEAS } from '../../support/world.ts';
import { glance, signedInTab } from '../browser.ts';
import { type Person, signedIn, startOffice, textOf } from '../people.ts';

/** The playground: a prompt, its answer as it comes, what it cost, and who spent it. */

const office = await startOffice(t);
const { sql, people } = office;
const { company } = office.customer;
const other = await office.newCustomer();
const base = `/companies/${company}/playground`;
const KEY = /svc_[a-z2-7]{32}/;
await office.part(office.customer, 'stalling', 'internal-demo-chat!stall-after-3');
await office.part(office.customer, 'breaking', 'internal-demo-chat!cut-after-3');
await office.part(office.customer, 'odd', 'internal-demo-chat!cr!noise');
await office.part(office.customer, 'refusing', 'internal-demo-chat!error-400');

/** Rows of the ledger with the key that paid, newest last. */
const ledger = () => sql`
  select l.*, k.name as key_name, k.created_by from api_usage l join api_keys k on k.id = l.api_key_id
  where l.company_id = ${company} order by occurred_at`;

/** The text of what has the keyboard. */
const focused = (page: Page): Promise<string> =>
  page.evaluate('document.activeElement.textContent');

async function send(person: Person, fields: Record<string, string>) {
  const { status, text } = await person.post(base, {
    model: CHAT,
    prompt: 'Hello there',
    ...fields,
  });
  const [, id = ''] = /x-request-id ([\da-f-]{36})/.exec(text) ?? [];
  return { status, text, id };
}

t.test(
  'each role: its own key, booked on the company; members and other companies have none',
  async (t) => {
    for (const role of ['owner', 'administrator', 'operator'] as const) {
      const person = await signedIn(office, role);
      const { status, text, id } = await send(person, { system: 'Be brief.', max_tokens: '50' });
      t.equal(status, 200);
      const row = await until(
        async () => (await ledger()).find(({ request_id }) => request_id === id),
        'the call is in the ledger',
      );
      t.match(row, {
        key_name: `Playground of ${role === 'operator' ? 'operator' : people[role]}`,
        created_by: people[role],
        model_slug: CHAT,
        endpoint: 'chat.completions',
        outcome: 'completed',
      });
      t.match(
        textOf(text),
        `completed: ${row?.prompt_tokens} tokens in, ${row?.completion_tokens} out`,
      );
      t.match(text, `€${Number(row?.cost_eur)}`);
      t.notMatch(text, KEY);
      t.notMatch(text, office.upstream.parts.chat);
    }
    const [sent] = office.upstream.received().slice(-1);
    t.match(sent?.body, {
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Hello there' },
      ],
      max_tokens: 50,
    });
    t.equal((await (await signedIn(office, 'member')).get(base)).status, 403);
    const foreign = await (await signedIn(office, 'owner')).post(
      `/companies/${other.company}/playground`,
      {
        model: CHAT,
      },
    );
    t.equal(foreign.status, 404);
  },
);

t.test('trials at once of somebody whose key is not in memory share one', async (t) => {
  const operator = await signedIn(office, 'operator');
  const trial = () =>
    operator.post(`/companies/${other.company}/playground`, { model: CHAT, prompt: 'Hello' });
  const answers = await Promise.all(Array.from({ length: 6 }, trial));
  for (const { status, text } of answers) {
    t.equal(status, 200);
    t.match(text, 'data-error></p>', 'no call was refused');
  }
  const [row] = await sql`
    select count(*)::integer as texts from audit_log where subject = 'api_keys' and company_id = ${other.company}
      and after ->> 'purpose' = 'playground'`;
  t.equal(row?.texts, 1, 'each new text would end the one before');
});

t.test('a call of another person is not told of', async (t) => {
  const [owner, administrator] = [
    await signedIn(office, 'owner'),
    await signedIn(office, 'administrator'),
  ];
  const { id } = await send(owner, {});
  t.match((await owner.get(`${base}/${id}`)).text, /^completed: /);
  t.match((await administrator.get(`${base}/${id}`)).text, /^Nothing is booked/);
});

t.test('the list has what the company may call, with a word on the rest', async (t) => {
  const owner = await signedIn(office, 'owner');
  await sql`update companies set disabled_model_slugs = '{breaking}' where id = ${company}`;
  const { text } = await owner.get(`${base}?model=stalling`);
  t.match(
    text,
    `<a href="/companies/${company}/models" aria-current="page">`,
    'the tab that leads here is marked',
  );
  t.match(text, '<option value="stalling" selected>');
  t.match(text, `<option value="${CHAT}">`);
  for (const slug of [EMBED, OVERSEAS, 'breaking']) t.notMatch(text, `<option value="${slug}"`);
  t.match(text, `Not offered: ${OVERSEAS} (blocked by the EU gate); breaking (disabled).`);
  await sql`
    insert into models (slug, company_id, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
    select 'far-' || n, ${company}, 'internal', 'chat', false, 1, 1 from generate_series(1, 7) as n`;
  t.match(
    (await owner.get(base)).text,
    `${OVERSEAS}, far-1, far-2, far-3, far-4 and 3 more (blocked by the EU gate); breaking (`,
  );
  await sql`delete from models where slug like 'far-%'`;
  await sql`update companies set disabled_model_slugs = '{}' where id = ${company}`;
  const models = await owner.get(`/companies/${company}/models`);
  t.match(models.text, `href="${base}?model=${CHAT}"`);
  t.notMatch(models.text, `href="${base}?model=${OVERSEAS}"`);
});

t.test('gates and the budget hold, and a refusal books nothing', async (t) => {
  const owner = await signedIn(office, 'owner');
  t.match(textOf((await send(owner, { model: OVERSEAS })).text), /403: .*Nothing is booked/s);
  t.match(textOf((await send(owner, { model: 'refusing' })).text), /400: .*Nothing is booked/s);
  t.equal((await send(owner, { model: CHAT, max_tokens: '0' })).status, 422);
  t.equal((await send(owner, { prompt: '' })).status, 422);
  await sql`update companies set monthly_budget_eur = 0.0000001 where id = ${company}`;
  await until(
    async () => textOf((await send(owner, {})).text),
    'the budget stops the playground',
    (text) => /402: /.test(text),
  );
  await sql`update companies set monthly_budget_eur = null where id = ${company}`;
  await until(
    async () => textOf((await send(owner, {})).text),
    'without a budget it goes on',
    (text) => /completed: /.test(text),
  );
  const { text } = await send(owner, { model: 'breaking' });
  t.match(
    textOf(text),
    /Hello.*Connection error: the stream was terminated.*Nothing is booked/s,
    'no usage was known',
  );
  t.match(
    textOf((await send(owner, { model: 'odd' })).text),
    /Hello.*completed: /s,
    'lines may end in CR',
  );
});

t.test('another replica gave the key another text: the call goes on with a third', async (t) => {
  const owner = await signedIn(office, 'owner');
  await send(owner, {});
  await sql`update api_keys set digest = sha256('of another replica') where created_by = ${people.owner} and purpose = 'playground'`;
  t.match(textOf((await send(owner, {})).text), 'completed: ');
});

t.test(
  'a revoked playground stays so until it is allowed again; it is listed apart from other keys',
  async (t) => {
    const owner = await signedIn(office, 'owner');
    await send(owner, {});
    const [key] =
      await sql`select id from api_keys where created_by = ${people.owner} and purpose = 'playground' and revoked_at is null`;
    const access = await owner.get(`/companies/${company}/keys`);
    t.match(access.text, /<h2 id="playgrounds">.*Playground of owen@customer\.example/s);
    t.equal(access.text.split(`>Playground of ${people.owner}</a>`).length, 2, 'once');
    await owner.post(`/companies/${company}/keys/${key?.id}/revoke`);
    const before = (await ledger()).length;
    const refused = await send(owner, {});
    t.equal(refused.status, 422);
    t.match(refused.text, 'was revoked');
    t.equal((await ledger()).length, before);
    t.notMatch((await owner.get(`/companies/${company}/keys`)).text, 'Playground of owen');
    t.equal((await owner.post(`${base}/allow`)).status, 303);
    t.match(textOf((await send(owner, {})).text), 'completed: ');
    const rotation = { id: company, claim: 's'.repeat(43), overlap: '0' };
    const [fresh] =
      await sql`select id from api_keys where created_by = ${people.owner} and purpose = 'playground' and revoked_at is null`;
    t.equal(
      (await owner.post(`/companies/${company}/keys/${fresh?.id}/rotate`, rotation)).status,
      422,
    );
  },
);

t.test(
  'a playground that is revoked while its person asks for a new text stays revoked',
  async (t) => {
    const owner = await signedIn(office, 'owner');
    await send(owner, {});
    const live = sql`created_by = ${people.owner} and purpose = 'playground' and revoked_at is null`;
    await sql`update api_keys set digest = sha256('of a third replica') where ${live}`;
    let sent: ReturnType<typeof send> | undefined;
    await sql.begin(async (revoking) => {
      await revoking`update api_keys set revoked_at = now() where ${live}`;
      sent = send(owner, {});
      const waiting = () =>
        sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
      await until(async () => (await waiting()).length > 0, 'the trial waits for the revocation');
    });
    const refused = await sent;
    t.equal(refused?.status, 422);
    t.match(refused?.text, 'was revoked');
    t.equal((await sql`select from api_keys where ${live}`).length, 0);
    await owner.post(`${base}/allow`);
  },
);

await t.test('in a browser', async (t) => {
  const begin = (t: Test, options = {}) => signedInTab(t, office, people.administrator, options);
  const look = async (page: Page, name: string) => t.same(await glance(page, name), [], name);
  const answer = (page: Page) => page.locator('[data-answer]');
  const figures = (page: Page) => page.locator('[data-figures]');
  const rowOf = async (page: Page) => {
    const [, id] = /x-request-id ([\da-f-]{36})/.exec(await figures(page).innerText()) ?? [];
    return (await ledger()).find(({ request_id }) => request_id === id);
  };

  await t.test('the answer comes into the page, and then what it cost', async (t) => {
    const { page, complaints } = await begin(t);
    await page.goto(`/companies/${company}/models`);
    await page.getByRole('link', { name: `Try ${CHAT}` }).click();
    t.equal(await page.getByLabel('Model').inputValue(), CHAT);
    await page.getByLabel('Prompt', { exact: true }).fill('Hello <b>there</b>');
    await page.getByRole('button', { name: 'Send' }).click();
    await figures(page).getByText('completed: ').waitFor();
    t.match(await answer(page).innerText(), /\w/);
    t.equal(await answer(page).locator('*').count(), 0, 'text only');
    const row = await rowOf(page);
    t.match(row, { outcome: 'completed', created_by: people.administrator });
    t.match(await figures(page).innerText(), `€${Number(row?.cost_eur)}`.replace('.', ','));
    await look(page, 'playground');
    await page.getByRole('link', { name: 'Details of this request' }).click();
    t.match(await page.locator('main').innerText(), `${row?.request_id}`);
    t.same(complaints, []);
  });

  await t.test(
    'what is generated is shown while more is to come; Stop ends the call',
    async (t) => {
      const { page, complaints } = await begin(t);
      await page.goto(`${base}?model=stalling`);
      await page.getByLabel('Prompt', { exact: true }).fill('Go on for ever');
      await page.getByRole('button', { name: 'Send' }).focus();
      await page.keyboard.press('Enter');
      await until(
        () => answer(page).innerText(),
        'the first words are shown while the answer goes on',
        (text) => /\w/.test(text),
      );
      t.equal(await focused(page), 'Send', 'the keyboard stays where it was');
      await page.keyboard.press('Enter'); // is not sent twice
      await page.keyboard.press('Tab');
      t.equal(await focused(page), 'Stop');
      await page.keyboard.press('Enter');
      await figures(page).getByText('client_aborted: ').waitFor();
      t.match(await page.locator('[data-error]').innerText(), 'Stopped.');
      t.match(await rowOf(page), {
        outcome: 'client_aborted',
        key_name: `Playground of ${people.administrator}`,
      });
      t.equal(await page.getByRole('button', { name: 'Stop' }).isVisible(), false);
      t.equal(await focused(page), 'Send');
      await page.getByLabel('Model').selectOption(CHAT);
      await page.getByRole('button', { name: 'Send' }).click();
      await figures(page).getByText('completed: ').waitFor();
      t.same(complaints, []);
    },
  );

  await t.test('a closed window ends the call too', async (t) => {
    const { page } = await begin(t);
    const before = (await ledger()).length;
    await page.goto(`${base}?model=stalling`);
    await page.getByLabel('Prompt', { exact: true }).fill('Go on');
    await page.getByRole('button', { name: 'Send' }).click();
    await until(
      () => answer(page).innerText(),
      'the answer began',
      (text) => text !== '',
    );
    await page.close();
    const rows = await until(ledger, 'the call is booked', (found) => found.length > before);
    t.match(rows.at(-1), { outcome: 'client_aborted' });
  });

  await t.test('a refusal is shown, and a form with a mistake as without JavaScript', async (t) => {
    const { page, complaints } = await begin(t);
    await page.goto(`${base}?model=refusing`);
    await page.getByLabel('Prompt', { exact: true }).fill('x');
    await page.getByRole('button', { name: 'Send' }).click();
    await figures(page).getByText('Nothing is booked').waitFor();
    t.match(await page.locator('[data-error]').innerText(), /^400: /);
    await page.getByLabel('Maximum tokens').fill('many');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText(/Maximum tokens of the answer must be a whole number/).waitFor();
    t.equal(await page.getByLabel('Prompt', { exact: true }).inputValue(), 'x');
    t.same(complaints, []);
  });

  await t.test('without JavaScript the whole answer is shown', async (t) => {
    const { page } = await begin(t, { javaScriptEnabled: false });
    await page.goto(base);
    await page.getByLabel('Prompt', { exact: true }).fill('Hello');
    await page.getByRole('button', { name: 'Send' }).click();
    await figures(page).getByText('completed: ').waitFor();
    t.match(await answer(page).innerText(), /\w/);
    t.equal(await page.getByRole('button', { name: 'Stop' }).count(), 0);
  });
});

t.test('no page, log, metric or table has the text of a key', async (t) => {
  t.notMatch(office.logged.join(''), KEY);
  t.notMatch(await (await fetch(`${office.adminUrl}/metrics`)).text(), KEY);
  const rows =
    await sql`select to_jsonb(a)::text as text from audit_log a union all select to_jsonb(k)::text from api_keys k`;
  t.notMatch(rows.map(({ text }) => text).join('\n'), KEY);
});

t.test(
  'one company holds half of the trials at most: another company still has some',
  async (t) => {
    const owner = await signedIn(office, 'owner');
    const operator = await signedIn(office, 'operator');
    const cookie = [...owner.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
    const left = new AbortController();
    t.teardown(() => left.abort());
    const body = new URLSearchParams({
      csrf: await owner.csrf(),
      model: 'stalling',
      prompt: 'Hello',
    });
    const trials = Array.from({ length: 12 }, () =>
      fetch(`${office.adminUrl}${base}/stream`, {
        method: 'POST',
        headers: { cookie, origin: office.adminUrl },
        body,
        signal: left.signal,
      }),
    );
    const statuses = (await Promise.all(trials)).map(({ status }) => status).sort();
    t.same(statuses, [...Array(8).fill(200), ...Array(4).fill(503)]);
    t.equal((await send(operator, {})).status, 200);
  },
);
