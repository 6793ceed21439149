import type { Page } from 'playwright-core';
import t from 'tap';
import { ALL, brokenWords, signedInTab } from './browser.ts';
import { paintRates } from './paint.ts';
import { startOffice } from './people.ts';

/** The narrowest phones, 320 px wide, and paper, with names of 120 letters without a space on every page that links lead to. */

const UUID = /[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/g;
const LONG = `Gesellschaft${'fuerUnternehmensverwaltung'.repeat(5)}`.slice(0, 120);
const office = await startOffice(t);
const { company } = office.customer;
const { sql } = office;
await sql`update companies set name = ${LONG}, monthly_budget_eur = 123456789012.123456789012345 where id = ${company}`;
await sql`update api_keys set name = ${LONG}, requests_per_minute = 1000000000, monthly_budget_eur = 0.000000000000001,
  created_by = ${office.people.owner}, expires_at = now() + interval '3 days', last_used_at = now() - interval '22 minutes'`;
await sql`
  insert into usage_key_months
  select company_id, billing_month(now()), id, 'chat.completions', '', 1, 1, 1, 123456789012.123456789012345, 0, 0 from api_keys`;
await sql`
  insert into budget_alerts (company_id, api_key_id, billing_month, threshold, budget_eur, spent_eur)
  select company_id, id, billing_month(now()), '100', monthly_budget_eur, 123456789012 from api_keys on conflict do nothing`;
const MEMBER = `${LONG.toLowerCase()}@${'example'.repeat(9)}.com`;
await sql`update users set email = ${MEMBER} where role = 'member'`;
await sql`update companies set member_max_keys = 100, member_key_budget_eur = 123456789012, member_playground = true where id = ${company}`;
await sql`
  insert into api_keys (company_id, name, digest, prefix, scopes, user_id, created_by)
  select company_id, ${LONG}, sha256('own'), 'svc_abcd', '{chat,embeddings,assistants}', id, email from users where role = 'member'`;
await sql`
  insert into cost_center_budgets (company_id, name, monthly_budget_eur) values (${company}, ${'W'.repeat(64)}, 0.000000000000001)`;
await sql`insert into oidc_groups (name, company_id, role) values (${LONG}, ${company}, 'administrator')`;
await sql`insert into users (email, company_id, role, oidc_group) values ('greta@customer.example', ${company}, 'administrator', ${LONG})`;
await sql`update models set upstream_model = ${LONG}, cost_eur_per_1k_input = 123456.123456789012 where kind = 'chat'`;
await sql`insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
  values (${LONG}, ${LONG}, 'chat', true, 0.000000000001, 1)`;
await sql`insert into model_prices (slug, valid_from, input, output, changed_by)
  select slug, now() + interval '30 days', 0.0035, 0.012, 'ann@tollgate.example' from models where kind = 'chat' and company_id is null`;
await sql`insert into assistants (company_id, name, system_prompt, model_slug) values (${company}, ${LONG}, ${LONG}, ${LONG})`;
await sql`update api_keys set allowed_model_slugs = array[${LONG}], allowed_cidrs = '{2001:db8:1111:2222:3333:4444:5555:6666/128}'`;
await sql`
  insert into monthly_spend (company_id, billing_month, api_cost_eur, chat_cost_eur)
  values (${company}, billing_month(now()), 0.123456789012345, 123456789012.1)`;

const calls = await paintRates(sql, company);
const [rated] = await sql`select id from models where slug = 'polar-reasoning'`;
/** Pages with rates and parts that no link leads to, of everybody and of operators. */
const RATED = [
  `/companies/${company}/requests/${calls['priority over 272000']}`,
  `/companies/${company}/usage?against=before`,
];
const RATED_ALL = [...RATED, `/models/${rated?.id}`];

const begin = (email: string, locale = 'en-DE') =>
  signedInTab(t, office, email, { locale, viewport: { width: 320, height: 640 } });

/** Widths of windows; every other page is drawn in the opposite order, so that it begins as wide as the one before. */
const WIDTHS = ALL ? [1280, 1200, 1040, 800, 375, 320] : [320];
/** Pages of companies in German, whose words are the longest, and those of operators, which are in English. */
const READERS = [
  ['operator', office.people.operator, 'en-DE'],
  ['German owner', office.people.owner, 'de-DE'],
  ['owner', office.people.owner, 'en-DE'],
  ['German member', MEMBER, 'de-DE'],
] as const;

/** A4 between its margins. */
const PAPER = 680;

/** How much a page is wider than its window, and what is; and the words that it breaks. */
async function overflow(page: Page): Promise<string[]> {
  const found: string[] = [];
  for (const width of WIDTHS.reverse()) {
    await page.setViewportSize({ width, height: 640 });
    found.push(
      ...(await page.evaluate<string[]>(`
        document.documentElement.scrollWidth <= ${width} ? [] : [...document.querySelectorAll('body *')]
          .filter((each) => each.getBoundingClientRect().right > ${width + 1})
          .map((each) => [${width}, each.getBoundingClientRect().right, each.outerHTML.slice(0, 100)].join(' ')).slice(0, 8)`)),
      ...(await page.evaluate<string[]>(`[...document.querySelectorAll('table')]
        .filter((each) => ${width} > 1024 && each.getBoundingClientRect().right > each.parentElement.getBoundingClientRect().right + 1)
        .map((each) => '${width}: wider than its frame: ' + each.caption.textContent)`)),
      ...(await brokenWords(page)),
    );
  }
  await page.emulateMedia({ media: 'print' });
  await page.setViewportSize({ width: PAPER, height: 1000 });
  found.push(
    ...(await page.evaluate<string[]>(`
      document.documentElement.scrollWidth <= ${PAPER} ? [] : [...document.querySelectorAll('body *')]
        .filter((each) => each.getBoundingClientRect().right > ${PAPER + 1})
        .map((each) => ['paper', each.getBoundingClientRect().right, each.outerHTML.slice(0, 100)].join(' ')).slice(0, 8)`)),
    ...(await page.evaluate<
      string[]
    >(`[...document.querySelectorAll('button, .button, [href*="exact="]')]
      .filter((each) => each.checkVisibility()).map((each) => 'printed: ' + each.outerHTML.slice(0, 100)).slice(0, 8)`)),
  );
  await page.emulateMedia({ media: 'screen' });
  return found;
}

for (const [role, email, locale] of ALL ? READERS : READERS.slice(0, 2)) {
  t.test(`every page that the ${role} can reach`, async (t) => {
    const { page } = await begin(email, locale);
    const seen = new Set<string>();
    const rated = role === 'operator' ? RATED_ALL : role.endsWith('owner') ? RATED : [];
    const waiting = ['/', '/sign-in', ...rated];
    for (let path = waiting.shift(); path !== undefined; path = waiting.shift()) {
      await page.goto(path);
      t.same(await overflow(page), [], path.replaceAll(UUID, ':id'));
      const links: string[] = await page.evaluate(
        `[...document.querySelectorAll('a[href^="/"]:not([download])')].map((a) => new URL(a.getAttribute('href'), location.href).pathname)`,
      );
      for (const link of links) {
        const kind = link.replaceAll(UUID, ':id');
        if (!seen.has(kind)) waiting.push(link);
        seen.add(kind);
      }
    }
    t.ok(seen.size >= 10, [...seen].join());
  });
}

t.test('refused forms, questions and the page of an ended session', async (t) => {
  const { page } = await begin(office.people.operator);
  const settings = `/companies/${company}/settings`;
  await page.goto(settings);
  await page.getByLabel('Monthly budget in EUR').fill(LONG);
  await page.getByRole('button', { name: 'Save settings' }).click();
  await page.locator('.wrong').first().waitFor();
  t.same(await overflow(page), [], 'a refused form');
  await page.getByLabel('Company name').fill(`${LONG}${LONG}`.slice(0, 199));
  await sql`update companies set name = ${LONG.toUpperCase()} where id = ${company}`;
  await page.getByRole('button', { name: 'Save name' }).click();
  await page.getByRole('heading', { name: 'Somebody else saved this first' }).waitFor();
  t.same(await overflow(page), [], 'a stale form');
  await page.goto(settings);
  await page.getByLabel('Monthly budget in EUR').fill('123456789011.123456789012345');
  await page.getByRole('button', { name: 'Save settings' }).click();
  await page.getByRole('heading', { name: 'This budget is used up already' }).waitFor();
  t.same(await overflow(page), [], 'a used-up budget');
  await page.goto(settings);
  await sql`delete from sessions`;
  await page.getByLabel('Company name').fill(LONG);
  await page.getByRole('button', { name: 'Save name' }).click();
  await page.getByText('Your session ended').waitFor();
  t.same(await overflow(page), [], 'an ended session');
});

t.test('controls side by side are level, whatever their labels and hints', async (t) => {
  const { page } = await begin(office.people.operator);
  await page.setViewportSize({ width: 1200, height: 800 });
  const [model] = await sql`select id from models where slug = ${LONG}`;
  await page.goto(`/models/${model?.id}?unit=1M`);
  await page.getByLabel('EUR per 1,000,000 prompt tokens').fill('x');
  await page.getByRole('button', { name: 'Save model' }).click();
  await page.locator('.wrong').waitFor();
  const fields = page.locator('.pair').first().locator('input');
  const bottoms = await fields.evaluateAll((all) =>
    all.map((each) => Math.round(each.getBoundingClientRect().bottom)),
  );
  t.equal(new Set(bottoms).size, 1, `${bottoms}`);
});
