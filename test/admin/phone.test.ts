import type { Page } from 'playwright-core';
import t from 'tap';
import { openDatabase } from '../../src/store/connection/pool.ts';
import { trailStore } from '../../src/store/gateway/request-trail.ts';
import { addRequests, sumDays } from '../support/requests.ts';
import { ALL, examine, SCRIPTS, signedInTab } from './browser.ts';
import { startOffice } from './people.ts';

/** Navigation and tables of usage on a phone of 390 × 844 pixels, and the header of an ordinary window. */

const PHONE = { width: 390, height: 844 };
/** A quarter of the first screen. */
const MOST_ABOVE = PHONE.height / 4;
const MOST_SCREENS = 6;
const KEYS = 46;

const office = await startOffice(t);
const { company } = office.customer;
const usage = `/companies/${company}/usage`;
await office.sql`
  insert into api_keys (company_id, name, digest, prefix, scopes)
  select ${company}, 'Application ' || n, sha256(('phone ' || n)::bytea), 'svc_' || n, '{chat}' from generate_series(2, ${KEYS}) n`;
await office.sql`
  insert into models (slug, upstream_model, kind, eu_hosted, cost_eur_per_1k_input, cost_eur_per_1k_output)
  select 'model-' || n, 'internal-' || n, 'chat', true, 0.001, 0.002 from generate_series(1, 12) n`;
await office.sql`
  insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint,
    prompt_tokens, completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at, cost_center, cached_tokens)
  select billing_month(now()), gen_random_uuid(), ${company}, id, 'model-' || (1 + n % 12), 'internal', 'chat.completions',
    n * 12345, n * 2345, (n * 12345 * 0.001 + n * 2345 * 0.002) * 0.001, 0.001, 0.002,
    case when n % 3 = 0 then 'estimated' else 'upstream' end, case when n % 4 = 0 then 'client_aborted' else 'completed' end, now(), 'Department ' || (n % 15), 10
  from (select id, row_number() over (order by name) as n from api_keys where company_id = ${company}) k`;
const reasons = [
  'insufficient_quota',
  'rate_limit_exceeded',
  'model_not_found',
  'context_length_exceeded',
  'invalid_api_key',
  'upstream_error',
  'upstream_timeout',
  'insufficient_permissions',
  'invalid_request_error',
].map((code, n) => [code, n + 1]);
await office.sql`
  insert into request_hours (company_id, hour, model_slug, api_key_id, endpoint, requests, refused, failed, upstream_failed,
    duration_ms, added_us, duration_buckets, added_buckets, reasons)
  select ${company}, date_trunc('hour', now()), 'model-1', id, 'chat.completions', 400, 30, 15, 15, 4000, 400,
    array_fill(0, array[11]) || array[355] || array_fill(0, array[11]), array_fill(0, array[15]), ${office.sql.json(Object.fromEntries(reasons))}
  from (select id from api_keys where company_id = ${company} limit 1) k`;
await sumDays(office.sql);
const { operator, owner } = office.people;

/** Pixels above the heading of the page. */
function above(page: Page): Promise<number> {
  return page.evaluate("document.querySelector('h1').getBoundingClientRect().top");
}

for (const [who, email, locale] of [
  ['an operator', operator, 'en-DE'],
  ['a German owner', owner, 'de-DE'],
  ...(ALL ? ([['an owner', owner, 'en-DE']] as const) : []),
] as const) {
  t.test(
    `both navigations take a quarter of the first screen of ${who}'s phone, without script`,
    async (t) => {
      const { page } = await signedInTab(t, office, email, {
        locale,
        viewport: PHONE,
        javaScriptEnabled: false,
      });
      for (const path of ['usage', 'keys', 'settings', 'audit']) {
        await page.goto(`/companies/${company}/${path}`);
        const height = await above(page);
        t.ok(height <= MOST_ABOVE, `${path}: ${height} of ${MOST_ABOVE} pixels`);
        t.equal(
          await page.locator('.company .tabs [aria-current="page"]').count(),
          1,
          'the present page is marked',
        );
      }
    },
  );
}

t.test('the keyboard reaches each link of a navigation, which scrolls it into sight', async (t) => {
  const { page } = await signedInTab(t, office, operator, {
    viewport: PHONE,
    javaScriptEnabled: false,
  });
  await page.goto('/companies');
  const links = page.getByRole('navigation', { name: 'Administration' }).getByRole('link');
  t.equal(await links.count(), 11);
  t.match(
    await page.getByRole('group').evaluateAll((groups) => groups.map((group) => group.textContent)),
    [
      'CustomersCompaniesUsers',
      'ServiceModelsMarginMonth-end',
      'RecordsRequestsAudit logEventsAdministration tokens',
    ],
  );
  // each width cuts other links in half
  for (let width = PHONE.width; width >= (ALL ? 320 : PHONE.width); width -= 14) {
    await page.setViewportSize({ ...PHONE, width });
    await links.first().focus();
    let key = 'Tab';
    const there = [...Array(11).keys()];
    for (const n of [...there, ...there.toReversed().slice(1)]) {
      if (n > 0 || key === 'Shift+Tab') await page.keyboard.press(key);
      const link = links.nth(n);
      t.ok(
        await link.evaluate((link) => link === link.ownerDocument.activeElement),
        'nothing else is between the links',
      );
      const box = (await link.boundingBox()) ?? { x: -1, width: 0 };
      t.ok(
        box.x >= 0 && box.x + box.width <= width,
        `link ${n} of ${width} pixels: ${box.x} to ${box.x + box.width}`,
      );
      if (n === 10) key = 'Shift+Tab';
    }
  }
});

t.test('where script runs, the present page is in sight', async (t) => {
  const { page } = await signedInTab(t, office, operator, { viewport: PHONE });
  await page.goto('/tokens');
  const { x = -1, width = 0 } = (await page.locator('.top nav [aria-current]').boundingBox()) ?? {};
  t.ok(x >= 0 && x + width <= PHONE.width, `${x} to ${x + width}`);
  await page.goto(`/companies/${company}/audit`);
  const tab = (await page.locator('.company .tabs [aria-current]').boundingBox()) ?? {
    x: -1,
    width: 0,
  };
  t.ok(tab.x >= 0 && tab.x + tab.width <= PHONE.width, `${tab.x} to ${tab.x + tab.width}`);
});

t.test('a row that becomes a little too long still begins at its beginning', async (t) => {
  const { page } = await signedInTab(t, office, office.people.member, {
    viewport: { width: 560, height: 280 },
  });
  await page.goto(`/companies/${company}/own/keys`);
  await page.setViewportSize({ width: 280, height: 560 }); // the phone is turned
  const tabs = page.locator('.company .tabs');
  const hidden: number = await tabs.evaluate((row) => row.scrollWidth - row.clientWidth);
  t.ok(hidden > 0 && hidden < 100, `${hidden} pixels are beyond the end`);
  t.equal(await tabs.evaluate((row) => row.scrollLeft), 0);
});

t.test(
  'name, search and account are whole in any window, and the links stand in one line below, or at the side',
  async (t) => {
    const { page } = await signedInTab(t, office, operator, {
      viewport: { width: 1200, height: 800 },
    });
    await page.goto('/companies');
    const boxesOf = (parts: string) =>
      page
        .locator(parts)
        .evaluateAll((all) =>
          all.map(
            (part) =>
              part.getBoundingClientRect().toJSON() as Record<
                'width' | 'left' | 'right' | 'bottom',
                number
              >,
          ),
        );
    for (const width of [1200, 1280, 1399, 1400, 1920]) {
      await page.setViewportSize({ width, height: 800 });
      const [name, search, links, main] = await boxesOf('.brand-name, .find input, .top nav, main');
      t.ok((name?.width ?? 0) > 40, `${width}: the name of the service is read: ${name?.width}`);
      const lines = new Set((await boxesOf('.top nav a')).map(({ bottom }) => Math.round(bottom)))
        .size;
      t.ok(
        (search?.width ?? 0) >= 300,
        `${width}: the search has room for an x-request-id: ${search?.width}`,
      );
      if (width < 1400) t.equal(lines, 1, `${width}: the links stand in one line`);
      else
        t.ok((links?.right ?? 0) <= (main?.left ?? 0), `${width}: the links stand beside the page`);
    }
  },
);

for (const javaScriptEnabled of [...new Set([...SCRIPTS, false])]) {
  t.test(
    `the first figure stands on the first screen of a desk and a phone, below one line of controls, ${javaScriptEnabled ? 'with' : 'without'} a script`,
    async (t) => {
      // most of the budget is used, and a notice says so
      await office.sql`
        update companies set monthly_budget_eur = 1.1 * (select sum(cost_eur) from api_usage where company_id = ${company})
        where id = ${company}`;
      for (const [name, viewport, most, lines] of [
        ['desk', { width: 1440, height: 900 }, 450, 1],
        ['phone', PHONE, PHONE.height, 2],
      ] as const) {
        const { page } = await signedInTab(t, office, operator, {
          locale: 'de-DE',
          viewport,
          javaScriptEnabled,
        });
        for (const path of [usage, `${usage}?cost_center=Department+1`, '/usage']) {
          await page.goto(path);
          const bottom: number = await page
            .locator('.figure-card .big')
            .first()
            .evaluate((figure) => figure.getBoundingClientRect().bottom);
          t.ok(bottom <= most, `${name} ${path}: ${bottom} of ${most} pixels`);
          const bar = page.locator(
            '.usage-bar > form > .field > select, .usage-bar summary.button, .usage-bar > form > button',
          );
          const tops = await bar.evaluateAll((controls) =>
            controls
              .filter((control) => control.checkVisibility())
              .map((control) => control.getBoundingClientRect().top)
              .sort((a, b) => a - b),
          );
          t.ok(tops.length <= (javaScriptEnabled ? 4 : 5), `${tops.length} controls`);
          const rows = tops.filter((top, at) => top - (tops[at - 1] ?? 0) > 20).length;
          t.ok(rows <= lines, `${name} ${path}: in ${rows} lines`);
          t.equal(
            await page.locator('main details[open]').count(),
            0,
            'the rest is behind buttons',
          );
        }
      }
    },
  );
}

for (const locale of ALL ? ['en-DE', 'de-DE'] : ['de-DE']) {
  t.test(
    `usage of ${KEYS} keys, with estimated and aborted calls, takes ${MOST_SCREENS} screens of a phone: ${locale}`,
    async (t) => {
      const { page } = await signedInTab(t, office, owner, {
        locale,
        viewport: PHONE,
        javaScriptEnabled: false,
      });
      await page.goto(usage);
      const height: number = await page.evaluate('document.documentElement.scrollHeight');
      t.ok(
        height <= MOST_SCREENS * PHONE.height,
        `${height} pixels, ${(height / PHONE.height).toFixed(1)} screens`,
      );
      const rows = page.locator('#by-key tbody tr');
      t.equal(await rows.count(), 11, 'the ten dearest, and the others as one line');
      await page.locator('#by-key .more a').click();
      await page.waitForURL(/all=key#by-key$/);
      t.equal(await rows.count(), KEYS, 'all of them');
      t.equal(await page.locator('#by-model tbody tr').count(), 11, 'other tables stay short');
      await page.locator('#by-key .more a').click();
      await page.waitForURL(/\/usage#by-key$/);
      t.equal(await rows.count(), 11);
    },
  );
}

t.test(
  'lists of a desk of 1,440 × 900 pixels show 20 customers, and 15 keys, requests and changes',
  async (t) => {
    const db = openDatabase({ url: office.databaseUrl, maxConnections: 2 });
    t.teardown(() => db.close());
    const long =
      'Vereinigte Gesellschaft für Unternehmensverwaltung und Beteiligungen des Nordens mit beschränkter Haftung';
    await office.sql`
    insert into companies (name, monthly_budget_eur)
    select case n when 1 then ${long} else 'Customer ' || n end, 100 from generate_series(1, 30) n`;
    const at = Date.now();
    const failed = { status: 402, code: 'insufficient_quota', company };
    await addRequests(
      trailStore(db),
      Array.from({ length: 30 }, (_, n) => ({
        at: at - n * 1000,
        company,
        model: 'model-1',
        ...(n % 3 === 0 && failed),
      })),
    );
    const { page } = await signedInTab(t, office, operator, {
      viewport: { width: 1440, height: 900 },
    });
    for (const [path, least] of [
      ['/companies', 20],
      [`/companies/${company}/keys`, 15],
      ['/requests', 15],
      [`/companies/${company}/audit`, 15],
    ] as const) {
      await page.goto(path);
      const bottoms = await page
        .locator('main tbody tr')
        .evaluateAll((rows) => rows.map((row) => row.getBoundingClientRect().bottom));
      const shown = bottoms.filter((bottom) => bottom <= 900).length;
      t.ok(shown >= least, `${path}: ${shown} rows`);
    }
  },
);

t.test('a figure by two groups shows ten lines, and all of them by a link', async (t) => {
  const { page } = await signedInTab(t, office, owner, {
    viewport: PHONE,
    javaScriptEnabled: false,
  });
  await page.goto(`${usage}?by=key&and=model`);
  t.equal(await page.locator('.grid tbody tr').count(), 12, 'all together, ten, and the others');
  await page.getByRole('link', { name: `All ${KEYS} lines` }).click();
  await page.waitForURL(/all=rows/);
  t.equal(await page.locator('.grid tbody tr').count(), KEYS + 1);
});

for (const [name, email, locale] of [
  ['phone-usage', operator, 'en-DE'],
  ...(ALL ? ([['phone-usage-german', owner, 'de-DE']] as const) : []),
] as const) {
  t.test(`looked at on a desk and a phone, in light and dark: ${name}`, async (t) => {
    const { page } = await signedInTab(t, office, email, { locale });
    await page.goto(usage);
    t.same(await examine(page, name), []);
  });
}
