import t from 'tap';
import { addUsage } from '../support/usage.ts';
import { examine, signedInTab } from './browser.ts';
import { sendsNothing, signedIn, startOffice, textOf } from './people.ts';

/** What is unusual today, as people see it: a sentence on the first page, and a dot in lists. */

const office = await startOffice(t, {}, sendsNothing);
const { sql, people } = office;
const { company } = office.customer;
await sql`update companies set name = 'Quartz <i>Bank' where id = ${company}`;
const [key] = await sql<
  [{ id: string; name: string }]
>`select id, name from api_keys where company_id = ${company} limit 1`;
const [model] = await sql<
  [{ slug: string }]
>`select slug from models where company_id is null and kind = 'chat' order by slug limit 1`;
const [other] = await sql<
  [{ id: string }]
>`insert into companies (name) values ('Other') returning id`;
const today =
  "(now() at time zone (select value from settings where name = 'billing_timezone'))::date";
const [{ day }] = await sql<[{ day: string }]>`select ${sql.unsafe(today)}::text as day`;

await addUsage(
  sql,
  [company, other.id].map((each) => ({
    company: each,
    month: `${day.slice(0, 7)}-01`,
    at: `${day}T00:00:00Z`,
    prompt: 1000,
    input: '1',
  })),
);

function add(of: string, measure: string, subject: string, value: number, superseded = false) {
  const about = { company: '', key: key.id, model: model.slug }[subject] as string;
  const own = of === company;
  return sql`insert into unusual_days (company_id, day, measure, subject, about, api_key_id, model_slug, value, usual, superseded)
    values (${of}, ${day}::date, ${measure}, ${subject}, ${about}, ${own ? key.id : null}, ${own ? model.slug : null}, ${value}, 1, ${superseded})`;
}
await add(company, 'spend', 'company', 81);
await add(company, 'spend', 'key', 80, true);
await add(company, 'refused', 'company', 345, true); // since yesterday
await add(company, 'refused', 'model', 340, true);
await add(other.id, 'latency', 'company', 12_345);
await sql`insert into unusual_days (company_id, day, measure, subject, about, value, usual, superseded)
  values (${other.id}, ${day}::date - 1, 'failed', 'company', '', 99, 1, false)`;

const about = ({ text }: { text: string }) =>
  textOf(/<section class="notice warn-notice unusual".*?<\/section>/s.exec(text)?.[0] ?? '');
const dots = ({ text }: { text: string }) => text.match(/class="dot"/g)?.length ?? 0;

t.test(
  'operators see all on the first page, each with the way to what it consists of',
  async (t) => {
    const operator = await signedIn(office, 'operator');
    const page = await operator.get('/');
    const section = about(page);
    t.match(section, /Unusual today/);
    t.match(
      section,
      new RegExp(
        `Quartz &lt;i&gt;Bank: €81.00 today by \\d\\d:\\d\\d, €1.00 by then on other \\w+days; key “${key.name}”, ${model.slug}`,
      ),
    );
    t.match(section, /345 refused requests today/, 'what goes on since a day before');
    t.match(section, /Other: 12\.3\ss a request today/);
    t.notMatch(section, /€80|340|99/, 'not what another one tells, or was yesterday');
    const links = [...page.text.matchAll(/<li><a href="(\/companies\/[^"]+)"/g)].map(
      ([, href]) => href?.replaceAll('&amp;', '&') as string,
    );
    t.equal(links.length, 3);
    for (const link of links) t.equal((await operator.get(link)).status, 200, link);
    t.match(
      (await operator.get(links[0] as string)).text,
      key.id,
      'the usage of that day, of the key',
    );
    t.equal(dots(await operator.get('/companies')), 2);
    t.equal(dots(await operator.get('/models')), 1);
    t.match(about(await operator.get(`/companies/${other.id}/usage`)), /Unusual today/);
  },
);

t.test('owners and administrators see their own company, members nothing', async (t) => {
  for (const role of ['owner', 'administrator'] as const) {
    const person = await signedIn(office, role);
    const section = about(await person.get(`/companies/${company}/usage`));
    t.match(section, /€81\.00/);
    t.notMatch(section, /Other/);
    t.equal(dots(await person.get(`/companies/${company}/keys`)), 1);
    t.equal(dots(await person.get(`/companies/${company}/models`)), 1);
    t.equal((await person.get(`/companies/${other.id}/usage`)).status, 404);
  }
  const member = await signedIn(office, 'member');
  t.equal(about(await member.get(`/companies/${company}/own/usage`)), '');
  t.equal(dots(await member.get(`/companies/${company}/own/keys`)), 0);
});

t.test('owners set from how much on it is told, or that nothing is', async (t) => {
  const owner = await signedIn(office, 'owner');
  const path = `/companies/${company}/settings`;
  const { text } = await owner.get(path);
  t.match(text, /name="unusual_times"[^>]*value="3"/);
  const form = { budget: '', daily_budget: '', allow_non_eu: '', company_language: '' };
  const saved = async () =>
    (await sql`select unusual_times from companies where id = ${company}`)[0]?.unusual_times;
  t.equal((await owner.post(path, { ...form, unusual_times: '10' })).status, 303);
  t.equal(await saved(), 10);
  t.equal((await owner.post(path, { ...form, unusual_times: '0' })).status, 422);
  t.equal((await owner.post(path, { ...form, unusual_times: '' })).status, 303);
  t.equal(await saved(), null);
  t.equal((await (await signedIn(office, 'member')).post(path, form)).status, 403);
});

t.test('in a browser: light, dark and on a phone, in English and German', async (t) => {
  for (const [who, path, locale] of [
    [people.operator, '/', 'en-DE'],
    [people.operator, '/companies', 'en-DE'],
    [people.owner, `/companies/${company}/usage`, 'de-DE'],
    [people.owner, `/companies/${company}/keys`, 'de-DE'],
  ] as const) {
    const { page, complaints } = await signedInTab(t, office, who, { locale });
    await page.goto(path);
    const name = `unusual-${path.split('/').at(-1) || 'overview'}`;
    t.same(await examine(page, name), [], name);
    await page.setViewportSize({ width: 320, height: 640 });
    t.equal(await page.evaluate('document.documentElement.scrollWidth'), 320, `${name} on 320 px`);
    t.same(complaints, []);
  }
});
