import { createHash } from 'node:crypto';
import { readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Page } from 'playwright-core';
import t from 'tap';
import { openDatabase } from '../../src/store/connection/pool.ts';
import { closeStatement } from '../support/statement.ts';
import { addUsage } from '../support/usage.ts';
import { signedInTab } from './browser.ts';
import { LONG_AGO, paint, paintCalls, paintOtherCalls, paintOthers } from './paint.ts';
import { sendsNothing, startOwnOffice } from './people.ts';

/**
 * Draws the pictures of README.md and of the manual from pages with data, and fails where one is older than what it
 * shows: where the skeleton of its page is no longer that in screenshots/skeletons.json. With UPDATE_PICTURES=1 it
 * writes the pictures that are older, with UPDATE_PICTURES=all every one.
 */

const FOLDER = fileURLToPath(new URL('screenshots/', import.meta.url));
const SKELETONS = `${FOLDER}skeletons.json`;
const COMMAND = 'UPDATE_PICTURES=1 node test/run.ts test/admin/manual-browser.test.ts';
const { UPDATE_PICTURES } = process.env;
/** Somewhat wider than GitHub shows a picture, with half as many pixels again, so that text stays sharp. */
const WIDTH = 1100;
const SCALE = 1.5;
/** All pixels of a page. */
const WHOLE = { from: 0, to: 1e6 };
/** Pixels around what a picture begins and ends with. */
const MARGIN = 8;
/** Of WebP: text is as sharp as in a PNG of four times the size. */
const QUALITY = 80;

/** What a page is made of, whatever data it shows: which tags with which classes stand in which, its words, and the rules of style that reach them. */
interface Skeleton {
  readonly tags: string;
  readonly words: string;
  readonly styles: string;
}

/** The parts of a skeleton as sorted lines, from the page as it is drawn. */
const LINES = `(({ from, to }) => {
  const lines = { tags: new Set(), words: new Set(), styles: new Set() };
  const months = Array.from({ length: 12 }, (_, month) =>
    new Intl.DateTimeFormat(document.documentElement.lang, { month: 'long' }).format(new Date(2026, month, 15)));
  const data = new RegExp('\\\\p{N}[\\\\p{N}.,:–\\\\s]*|' + months.join('|'), 'gu');
  const bare = (text) => text.replace(data, ' ').replace(/\\s+/g, ' ').trim();
  const nameOf = (each) => [each.localName, ...[...each.classList].map(bare).sort()].join('.');
  const isIn = (each) => {
    const { top, bottom, height } = each.getBoundingClientRect();
    // a forecast begins on the second day of a month
    return height > 0 && top + scrollY < to && bottom + scrollY > from && each.closest('.forecast') === null;
  };
  const within = (selector) => [...document.querySelectorAll(selector)].filter(isIn);
  for (const each of within('body *'))
    if (each.parentElement.closest('svg, .eur') === null) lines.tags.add(nameOf(each.parentElement) + ' ' + nameOf(each));
  for (const each of within('h1, h2, h3, thead th, label, legend, summary, button, nav a'))
    if (each.closest('tbody, details table') === null) lines.words.add(each.localName + ' ' + bare(each.textContent));
  const reaches = (selector) => {
    try { return within(selector.replace(/::?(?:before|after|hover|focus|focus-visible|focus-within|active|marker|backdrop)\\b/g, '')).length > 0; }
    catch { return true; }
  };
  const add = (rules, around) => {
    for (const rule of rules) {
      if (rule.media !== undefined && !matchMedia(rule.media.mediaText).matches) continue;
      if (rule.selectorText === undefined && rule.cssRules !== undefined) add(rule.cssRules, around + rule.cssText.split('{')[0]);
      else if (rule.selectorText === undefined || reaches(rule.selectorText)) lines.styles.add(around + rule.cssText);
    }
  };
  for (const sheet of document.styleSheets) add(sheet.cssRules, '');
  return Object.fromEntries(Object.entries(lines).map(([part, found]) => [part, [...found].sort()]));
})`;

/** The pictures must be the same on every day and at every hour: amounts of today may change no badge, line or notice. */
const office = await startOwnOffice(
  t,
  {
    API_URL: 'https://api.example.com/v1',
    BRAND_SELLER: 'Beispiel KI GmbH; Hafenstraße 1; 20457 Hamburg; VAT ID DE123456789',
  },
  sendsNothing,
);
const { sql, people, customer } = office;
const { company } = customer;
await sql`delete from api_keys where company_id = ${company}`;
await paint(sql, company);
await sql`update companies set monthly_budget_eur = 500, billing_name = 'Nordlicht Verlag GmbH', vat_id = 'DE987654321',
  billing_address = ${'Speicherstadt 5\n20457 Hamburg'} where id = ${company}`;
const keys = await sql<{ id: string }[]>`
  select id from api_keys where company_id = ${company}
  order by array_position('{Newsroom CMS,Archive search,Cover blurb tool,Intern project}', name)`;
await paintCalls(
  sql,
  company,
  keys.map(({ id }) => id),
  LONG_AGO,
);
const others = await paintOthers(sql, company, LONG_AGO);
const alpine = others[1] as string;
await paintOtherCalls(sql, others, new Date());
// what an hour or a day decides: how much of a budget is left, and whether today is unusual
await sql`update companies set monthly_budget_eur = null where id = any(${others}::uuid[])`;
await sql`
  with made as (
    insert into companies (name, monthly_budget_eur) values ('Kanzlei Brandt', 30), ('Praxis am Hafen', 9) returning id, monthly_budget_eur),
  owners as (
    insert into users (email, company_id, role)
    select 'it@' || (array['brandt', 'hafen'])[row_number() over ()] || '.example', id, 'owner' from made)
  insert into chat_usage (company_id, occurred_at, cost_eur)
  select id, billing_month(now())::timestamp at time zone 'UTC', case when monthly_budget_eur = 30 then 27.9 else 9.4 end from made`;
const [{ day }] = await sql<[{ day: string }]>`select now()::date::text as day`;
const jump = { company: others[0] as string, model: 'meridian-vision', prompt: 4000, input: '3' };
await addUsage(sql, [{ ...jump, month: `${day.slice(0, 7)}-01`, at: `${day}T00:00:00Z` }]);
await sql`
  insert into unusual_days (company_id, day, measure, subject, about, model_slug, value, usual, superseded)
  select company_id, ${day}::date, 'spend', 'company', '', 'meridian-vision', sum(cost_eur), 0.94, false
  from api_usage where company_id = ${jump.company} and occurred_at >= ${day}::date group by 1`;
const db = openDatabase({ url: office.databaseUrl });
for (const month of ['2026-05-01', '2026-06-01']) await closeStatement(db, company, month);
await db.close();

/** The pictures: who sees which page, in which language, from the top or a heading on, and down to where: a table or so many pixels. */
const PICTURES: Record<
  string,
  { path: string; from?: string; to: string | number; email?: string; locale?: string }
> = {
  overview: { path: '/', to: 820 },
  statement: {
    path: `/companies/${company}/statements/month?month=2026-06`,
    to: 820,
    email: people.owner,
  },
  change: {
    path: `/companies/${alpine}/usage?from=2026-06-23&to=2026-06-29&against=days&before_from=2026-06-16&before_to=2026-06-22`,
    from: 'h2:has-text("than before")',
    to: 'table:has-text("Difference")',
  },
  keys: { path: `/companies/${company}/keys`, to: 'main table' },
  'usage-german': {
    path: `/companies/${company}/usage?month=2026-06`,
    to: 820,
    email: people.owner,
    locale: 'de-DE',
  },
};

const old: Record<string, Skeleton> = JSON.parse(readFileSync(SKELETONS, 'utf8'));

for (const [name, given] of Object.entries(PICTURES)) {
  const { path, email = people.operator, locale = 'en-GB' } = given;
  t.test(`the picture ${name} shows the page as it is`, async (t) => {
    const { page, complaints } = await signedInTab(t, office, email, {
      viewport: { width: WIDTH, height: 900 },
      colorScheme: 'light',
      reducedMotion: 'reduce',
      locale,
    });
    await page.goto(path, { waitUntil: 'load' });
    const part = await partOf(page, given);
    // what is just above so many pixels depends on the day: the whole page counts
    const skeleton = await skeletonOf(page, typeof given.to === 'number' ? WHOLE : part);
    const picture = await draw(page, part);
    t.ok(picture.length < 120_000, `${name} is small: ${picture.length} bytes`);
    const older = Object.entries(skeleton)
      .filter(([part, hash]) => old[name]?.[part as keyof Skeleton] !== hash)
      .map(([part]) => part);
    if (UPDATE_PICTURES === 'all' || (UPDATE_PICTURES !== undefined && older.length > 0)) {
      writeFileSync(`${FOLDER}${name}.webp`, picture);
      old[name] = skeleton;
    } else t.same(older, [], `${name} is older than what it shows; draw it anew: ${COMMAND}`);
    t.same(complaints, []);
  });
}

t.test('every picture in the folder is drawn here', async (t) => {
  const files = readdirSync(FOLDER).filter((name) => name.endsWith('.webp'));
  t.same(
    files.sort(),
    Object.keys(PICTURES)
      .map((name) => `${name}.webp`)
      .sort(),
  );
});

if (UPDATE_PICTURES !== undefined)
  t.test('the skeletons are written beside the pictures', async () => {
    const kept = Object.keys(PICTURES).map((name) => [name, old[name]]);
    writeFileSync(SKELETONS, `${JSON.stringify(Object.fromEntries(kept), null, 2)}\n`);
  });

/** The first and the last pixel of a picture. */
async function partOf(page: Page, { from, to }: { from?: string; to: string | number }) {
  const boxOf = async (selector: string) => {
    const box = await page.locator(selector).first().boundingBox();
    return box ?? { y: 0, height: 0 };
  };
  const first = from === undefined ? 0 : Math.max(0, Math.floor((await boxOf(from)).y) - MARGIN);
  if (typeof to === 'number') return { from: first, to: first + to };
  const { y, height } = await boxOf(to);
  return { from: first, to: Math.ceil(y + height) + MARGIN };
}

type Part = Awaited<ReturnType<typeof partOf>>;

async function skeletonOf(page: Page, part: Part): Promise<Skeleton> {
  const lines = await page.evaluate<Record<keyof Skeleton, string[]>>(
    `${LINES}(${JSON.stringify(part)})`,
  );
  const hash = (name: keyof Skeleton) =>
    createHash('sha256').update(lines[name].join('\n')).digest('hex').slice(0, 16);
  return { tags: hash('tags'), words: hash('words'), styles: hash('styles') };
}

/** A part of a page as WebP. */
async function draw(page: Page, { from, to }: Part): Promise<Buffer> {
  const client = await page.context().newCDPSession(page);
  const { data } = await client.send('Page.captureScreenshot', {
    format: 'webp',
    quality: QUALITY,
    captureBeyondViewport: true,
    clip: { x: 0, y: from, width: WIDTH, height: to - from, scale: SCALE },
  });
  return Buffer.from(data, 'base64');
}
