import t from 'tap';
import { addUsage } from '../../support/usage.ts';
import { sendsNothing, signedIn, startOffice, textOf } from '../people.ts';

/** The usage of cost centres over HTTP: their addresses, what they show, and what their forms refuse. */

const office = await startOffice(t, {}, sendsNothing);
const { sql } = office;
const { company } = office.customer;
const base = `/companies/${company}`;
const owner = await signedIn(office, 'owner');
const [{ present, last }] = await sql<[{ present: string; last: string }]>`
  select billing_month(now())::text as present, (billing_month(now()) - interval '1 month')::date::text as last`;
const at = new Date().toISOString();
const call = (center: string, prompt: number, month = present) => ({
  company,
  month,
  at: month === present ? at : `${month.slice(0, 8)}15T12:00:00Z`,
  prompt,
  completion: 10,
  input: '1',
  center,
});
/** Names that an address could take for something else. */
const ODD = [
  '.',
  '..',
  'a/b',
  'R&D',
  'what?',
  '#1',
  '50 %',
  'Büro Köln',
  '"quoted" <b>',
  '%2e%2e',
  '~',
  '(others)',
];
await addUsage(sql, [
  ...ODD.map((name, n) => call(name, 1000 * (n + 1))),
  call('', 500),
  call('..', 77_000, last),
]);

const links = (html: string) =>
  [...html.matchAll(/<a href="([^"]+\/usage\?cost_center=[^"]+)">/g)].map(([, href]) =>
    (href as string).replaceAll('&amp;', '&').replaceAll('&#39;', "'"),
  );

t.test('the address of an old mail leads to the cost centre that it names', async (t) => {
  const { status, headers } = await owner.get(`${base}/cost-center?name=R%26D`);
  t.same([status, headers.get('location')], [302, `${base}/usage?cost_center=R%26D`]);
});

t.test(
  'the list leads to a page of each, whatever its name, and the usage page to both',
  async (t) => {
    const { text } = await owner.get(`${base}/cost-centers`);
    t.match(text, '<a href="/companies/', 'marks the tab of usage');
    const found = links(text);
    t.equal(found.length, ODD.length + 1);
    const costs = new Map<string, string | undefined>();
    for (const href of found) {
      const page = await owner.get(href);
      t.equal(page.status, 200, href);
      t.match(page.text, /aria-current="page">Usage</, 'the tab of usage');
      costs.set(
        new URL(href, 'http://x').searchParams.get('cost_center') as string,
        /€([\d.,]+)/.exec(textOf(page))?.[1],
      );
    }
    t.same(Object.fromEntries(costs), {
      ...Object.fromEntries(ODD.map((name, n) => [name, `${n + 1}.00`])),
      ' ': '0.50',
    });
    t.equal(links(text)[0], found[0], 'the dearest first');
    t.match(found[0], 'others');
    const usage = (await owner.get(`${base}/usage?all=cost_center`)).text;
    t.match(usage, 'href="cost-centers?month=');
    const linked = [...usage.matchAll(/<a href="\?range=month&amp;cost_center=([^"]+)"/g)].map(
      ([, name]) => name,
    );
    t.same(linked.sort(), found.map((href) => href.replace(/^.*=/, '')).sort());
  },
);

t.test('a month that is over has its own figures, and no budget beside them', async (t) => {
  await sql`insert into cost_center_budgets (company_id, name, monthly_budget_eur) values (${company}, '..', 10)`;
  const month = last.slice(0, 7);
  const before = await owner.get(`${base}/cost-centers?month=${month}`);
  t.same(links(before.text), [`${base}/usage?cost_center=..&month=${month}`]);
  t.match(textOf(before), /€77\.00/);
  t.notMatch(textOf(before), /of €10\.00/);
  const now = textOf(await owner.get(`${base}/cost-centers`));
  t.match(now, /20% of €10\.00/);
  const one = textOf(await owner.get(`${base}/usage?cost_center=..&month=${month}`));
  t.match(one, /€77\.00/);
  t.match(one, /20% of €10\.00/, 'the budget of the present month');
  t.equal((await owner.get(`${base}/usage?cost_center=..&month=2026-13`)).status, 404);
  await sql`delete from cost_center_budgets`;
});

t.test('a name that nobody used has no calls; one that can be no name is refused', async (t) => {
  for (const name of ['%00', 'x'.repeat(200)])
    t.equal((await owner.get(`${base}/usage?cost_center=${name}`)).status, 404);
  t.match(textOf(await owner.get(`${base}/usage?cost_center=nobody+named+it`)), /No API calls/);
});

t.test('a budget is set, changed and removed on the page; who saves second is asked', async (t) => {
  const form = async (name: string) => {
    const { text } = await owner.get(`${base}/usage?${new URLSearchParams({ cost_center: name })}`);
    return /name="seen" value="([^"]*)"/.exec(text)?.[1] as string;
  };
  const save = (name: string, budget: string, seen: string) =>
    owner.post(`${base}/cost-center`, { name, budget, seen });
  const first = await form('R&D');
  const saved = await save('R&D', '12.50', first);
  t.equal(saved.headers.get('location'), `${base}/usage?cost_center=R%26D&done=budget-saved`);
  const late = await save('R&D', '99', first);
  t.match([late.status, textOf(late)], [409, /Somebody else saved this first.*€99\.00.*€12\.50/]);
  t.equal((await save('R&D', '12.5', first)).status, 303, 'the same is no difference');
  t.match(
    (await owner.get(`${base}/usage?cost_center=R%26D`)).text,
    /name="budget"[^>]* value="12\.5"/,
  );
  const wrong = await save('R&D', 'much', await form('R&D'));
  t.match([wrong.status, wrong.text], [422, /value="much"/], 'nothing typed is lost');
  t.match(wrong.text, /<input type="hidden" name="name" value="R&amp;D">/);
  const gone = await save('R&D', '', await form('R&D'));
  t.equal(gone.headers.get('location'), `${base}/usage?cost_center=R%26D&done=budget-removed`);
  t.equal((await save('R&D', '', await form('R&D'))).status, 303, 'twice is no error');
  for (const name of ['(others)', ' ']) {
    t.equal(await form(name), undefined, 'no form');
    t.equal((await save(name, '5', '')).status, 422);
  }
  t.same([...(await sql`select from cost_center_budgets`)], []);
});

t.test(
  'the list is searched, sorted, and shows budgets of cost centres that nobody named',
  async (t) => {
    await sql`insert into cost_center_budgets (company_id, name, monthly_budget_eur)
    values (${company}, 'Ahead', 5), (${company}, '#1', 3), (${company}, 'a/b', 300)`;
    const names = (text: string) =>
      links(text).map((href) => new URL(href, 'http://x').searchParams.get('cost_center'));
    t.same(names((await owner.get(`${base}/cost-centers?q=K%C3%B6ln`)).text), ['Büro Köln']);
    t.same(names((await owner.get(`${base}/cost-centers?sort=-share`)).text).slice(0, 2), [
      '#1',
      'a/b',
    ]);
    t.ok(names((await owner.get(`${base}/cost-centers?sort=name`)).text).includes('Ahead'));
    t.match(textOf(await owner.get(`${base}/cost-centers?q=%231`)), /200% of €3\.00 used up/);
  },
);
