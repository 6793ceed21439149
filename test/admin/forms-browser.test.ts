import type { Page } from 'playwright-core';
import t from 'tap';
import { glance, signedInTab } from './browser.ts';
import { PASSWORD, startOffice } from './people.ts';

/** Forms in a real browser: nothing that was typed is lost, and nothing happens unasked. */

const office = await startOffice(t);
const { company } = office.customer;
const settings = `/companies/${company}/settings`;
const stored = async () =>
  (
    await office.sql`select name, trim_scale(monthly_budget_eur)::text as monthly_budget_eur from companies where id = ${company}`
  )[0];

const budgetOf = (page: Page) => page.getByLabel('Monthly budget in EUR');
const save = (page: Page) => page.getByRole('button', { name: 'Save settings' }).click();
/** Waits until the cursor is there: a browser gives it to an `autofocus` element when it first draws the page. */
const focused = (page: Page, where: string) => page.locator(`${where}:focus`).waitFor();

t.test(
  'on a wide window forms stand beside each other, with any font, and the page beside its links',
  async (t) => {
    const { page } = await signedInTab(t, office, office.people.operator, {
      viewport: { width: 1440, height: 900 },
    });
    await page.goto(settings);
    const boxes = (selector: string) =>
      page
        .locator(selector)
        .evaluateAll((all) =>
          all.map(
            (each) =>
              each.getBoundingClientRect().toJSON() as Record<'top' | 'left' | 'right', number>,
          ),
        );
    for (const blank of ['0', '0.5rem']) {
      await page.evaluate(`document.querySelector('main').style.wordSpacing = '${blank}'`);
      const [first, second] = await boxes('main > .card:has(> .stack)');
      t.equal(first?.top, second?.top, `blanks ${blank} wider`);
    }
    await page.setViewportSize({ width: 2560, height: 1200 });
    const [links, main] = await boxes('.top nav, main');
    t.ok((main?.left ?? 999) - (links?.right ?? 0) < 32, `${links?.right} to ${main?.left}`);
  },
);

t.test('on a wide window an owner’s links stand beside each page and not on it', async (t) => {
  const { page } = await signedInTab(t, office, office.people.owner, {
    viewport: { width: 1440, height: 900 },
  });
  for (const name of 'usage statements requests keys models assistants users settings audit'.split(
    ' ',
  )) {
    await page.goto(`/companies/${company}/${name}`);
    const links = await page.locator('.company').boundingBox();
    const heading = await page.locator('h1').boundingBox();
    const [end = 999, begins = 0] = [links && links.x + links.width, heading?.x];
    t.ok((end ?? 999) <= begins, `${name}: links end at ${end}, the page begins at ${begins}`);
  }
});

t.test(
  'a German reader’s 1.500 is asked for, 1.500,5 is taken, and an unchanged form changes nothing',
  async (t) => {
    const { page, complaints } = await signedInTab(t, office, office.people.owner);
    await page.goto(settings);
    await budgetOf(page).fill('1.500');
    await save(page);
    t.match(
      await page.locator('.wrong').innerText(),
      '“1.500” can mean 1.500,00 or 1,50. Write 1500 or 1,50',
    );
    await focused(page, '[name=budget]');
    t.match(await page.title(), /^Error: Settings/);
    await budgetOf(page).fill('1.500,125');
    await save(page);
    await page.getByText('Saved.').waitFor();
    t.equal((await stored())?.monthly_budget_eur, '1500.125');
    t.equal(await budgetOf(page).inputValue(), '1500,1250');
    await save(page);
    await page.getByText('Saved.').waitFor();
    t.equal((await stored())?.monthly_budget_eur, '1500.125');
    t.same(complaints, []);
  },
);

t.test('the second who saves sees both values, changes his mind, and saves', async (t) => {
  const { page, complaints } = await signedInTab(t, office, office.people.owner);
  const second = await signedInTab(t, office, office.people.operator); // an administrator may not set the budget
  await page.goto(settings);
  await second.page.goto(settings);
  await budgetOf(page).fill('2000');
  await save(page);
  await page.getByText('Saved.').waitFor();
  await budgetOf(second.page).fill('3000');
  await save(second.page);
  await second.page.getByRole('heading', { name: 'Somebody else saved this first' }).waitFor();
  t.match(
    await second.page.getByRole('table').innerText(),
    /Monthly budget in EUR\s+€3.000,00\s+€2.000,00/,
  );
  t.match(
    await second.page.getByRole('alert').innerText(),
    /saved at .* by owen@customer\.example/,
  );
  t.same(await glance(second.page, 'form-stale'), []);
  await second.page.getByRole('button', { name: 'Change what I typed' }).click();
  await focused(second.page, ':text("This is what you typed")');
  t.equal(await budgetOf(second.page).inputValue(), '3000');
  await budgetOf(second.page).fill('2500');
  await save(second.page);
  await second.page.getByRole('button', { name: 'Save mine anyway' }).click();
  await second.page.getByText('Saved.').waitFor();
  t.equal((await stored())?.monthly_budget_eur, '2500');
  await page.getByLabel('Allow models hosted outside the EU').check();
  await save(page);
  await page.getByRole('link', { name: 'Take theirs' }).click();
  t.equal(await budgetOf(page).inputValue(), '2500');
  t.same([...complaints, ...second.complaints], []);
});

t.test('a budget below what is spent is confirmed by one click', async (t) => {
  const { page, complaints } = await signedInTab(t, office, office.people.owner, {
    javaScriptEnabled: false,
  });
  await office.sql`
    insert into monthly_spend (company_id, billing_month, api_cost_eur) values (${company}, billing_month(now()), 80)`;
  await page.goto(settings);
  await budgetOf(page).fill('79,99');
  await save(page);
  t.match(
    await page.getByRole('alert').innerText(),
    /has spent €80,00 this month.*€79,99, calls get 402 at once/,
  );
  t.not((await stored())?.monthly_budget_eur, '79.99');
  await page.getByRole('button', { name: 'Save it anyway' }).click();
  await page.getByText('Saved.').waitFor();
  t.equal((await stored())?.monthly_budget_eur, '79.99');
  t.same(complaints, []);
});

t.test('what was typed before the session ended is there after signing in', async (t) => {
  const { page, complaints } = await signedInTab(t, office, office.people.owner);
  const text = 'You answer letters.\n\n  Be brief: “two” <lines> & no more.';
  await page.goto(`/companies/${company}/assistants/new`);
  await page.getByLabel('Name').fill('Letters');
  await page.getByLabel('System prompt').fill(text);
  await page.getByLabel('Temperature').fill('0,5');
  await page.getByLabel('Shared with').selectOption({ label: 'Only its maker' });
  await office.sql`delete from sessions`;
  await page.getByRole('button', { name: 'Save assistant' }).click();
  await page.getByText('Your session ended. Sign in to go on; what you typed is kept.').waitFor();
  t.same(await glance(page, 'form-ended'), []);
  await page.getByLabel('E-mail address').fill(office.people.owner);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('This is what you typed. Nothing is saved yet').waitFor();
  t.equal(new URL(page.url()).pathname, `/companies/${company}/assistants/new`);
  t.equal(await page.getByLabel('System prompt').inputValue(), text);
  t.equal(await page.getByLabel('Shared with').inputValue(), 'private');
  t.equal((await office.sql`select from assistants`).length, 0);
  await page.getByRole('button', { name: 'Save assistant' }).click();
  await page.getByText('Created.').waitFor();
  const [assistant] = await office.sql`select system_prompt, temperature::text from assistants`;
  t.match(assistant, { system_prompt: text, temperature: '0.5' });
  t.same(complaints, []);
});

t.test('a page leads to sign-in and back, with its search', async (t) => {
  const { page } = await signedInTab(t, office, office.people.owner);
  await office.sql`delete from sessions`;
  await page.goto(`/companies/${company}/keys?q=t%C3%A9st%20%26%20more&sort=name`);
  await page.getByText('Your session ended. Sign in to go on.').waitFor();
  await page.getByLabel('E-mail address').fill(office.people.owner);
  await page.getByLabel('Password').fill(PASSWORD);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.waitForURL('**/keys?q=t%C3%A9st%20%26%20more&sort=name');
  t.equal(
    await page.getByRole('searchbox', { name: 'Search this list' }).inputValue(),
    'tést & more',
  );
});

t.test('names from right to left end on the left, and change no order around them', async (t) => {
  const { page } = await signedInTab(t, office, office.people.operator);
  await office.sql`update companies set name = 'שלום!' where id = ${company}`;
  await page.goto('/companies');
  const places = (selector: string) =>
    page.evaluate<number[]>(`(() => {
      const [text] = document.querySelector('${selector}').childNodes;
      return [0, text.length - 1].map((at) => {
        const range = document.createRange();
        range.setStart(text, at);
        range.setEnd(text, at + 1);
        return range.getBoundingClientRect().left;
      });
    })()`);
  const [first = 0, mark = 0] = await places(`tbody a[href*="${company}"]`);
  t.ok(mark < first, 'in a list');
  await page.goto(settings);
  const [letter = 0, last = 0] = await places('.company-name');
  t.ok(last < letter, 'in the heading');

  await office.sql`update api_keys set name = 'מפתח' where company_id = ${company}`;
  await office.sql`
    insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens,
      completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at)
    select billing_month(now()), gen_random_uuid(), ${company}, id, 'm', 'u', 'embeddings', 5000, 0, 5, 1, 0, 'upstream', 'completed', now()
    from api_keys where company_id = ${company}`;
  await page.goto(`/companies/${company}/usage`);
  const [start = 0, dots = 0] = await places('tbody a[href*="key="] code');
  t.ok(start < dots, 'what a key begins with runs from left to right');
});
