import { randomBytes, randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import { openDatabase } from '../../src/store/connection/pool.ts';
import { startMailbox } from '../support/receiver.ts';
import { closeStatement } from '../support/statement.ts';
import { base32Bytes, totp } from '../support/totp.ts';
import { until } from '../support/until.ts';
import { openTab, startBrowser } from './browser.ts';
import { type Hand, handOf, MARK, MARKED, startDriver, startFirefox } from './hand.ts';
import { LONG_AGO, paint, paintOtherCalls, paintOthers } from './paint.ts';
import { PASSWORD, sendsNothing, startOwnOffice } from './people.ts';

/**
 * What people come to the pages for, from the first page on, in clicks, fields and pages, which are printed. It runs in
 * Chromium; or in Firefox where FIREFOX names its program; or in any browser for which WEBDRIVER names a driver, such as
 * /usr/bin/WebKitWebDriver. WEBDRIVER_BROWSER is its program, where the driver needs one.
 */

/** Marks the first visible element that people know by a name; a field by its label, the box of all pages by "Search everything". */
const FIND = `((kind, name) => {
  const all = [...document.querySelectorAll(kind === 'field' ? 'input, select, textarea' : 'main a, main button, main summary, a, button, summary')];
  const named = (each) => [each.getAttribute('aria-label'), each.innerText, ...[...each.labels ?? []].map((label) => label.innerText)]
    .map((text) => (text ?? '').replace(/\\s+/g, ' ').trim());
  document.querySelectorAll('${MARKED}').forEach((each) => each.removeAttribute('${MARK}'));
  const shown = all.filter((each) => each.checkVisibility());
  const found = shown.find((each) => named(each).includes(name)) ?? shown.find((each) => named(each).some((text) => text.startsWith(name)));
  found?.setAttribute('${MARK}', '');
  return found !== undefined;
})`;

/** What a person does, and what it took. */
class Person {
  clicks = 0;
  fields = 0;
  readonly #pages = new Set<number>();
  readonly #hand: Hand;

  constructor(hand: Hand) {
    this.#hand = hand;
  }

  get pages(): number {
    return this.#pages.size;
  }

  async click(name: string): Promise<void> {
    await this.#find('control', name);
    await this.#hand.click(MARKED);
    this.clicks += 1;
  }

  async fill(name: string, text: string, enter = false): Promise<void> {
    await this.#find('field', name);
    await this.#hand.type(MARKED, text, enter);
    this.fields += 1;
  }

  async choose(name: string, text: string): Promise<void> {
    await this.#find('field', name);
    await this.#hand.choose(MARKED, text);
    this.fields += 1;
  }

  /** Waits until a page has a text in its main part. */
  async sees(text: RegExp): Promise<void> {
    const read = () =>
      this.#look<string>(`document.querySelector('main')?.innerText.replace(/\\s+/g, ' ') ?? ''`);
    await until(read, `a page says ${text}`, (all) => text.test(all ?? ''));
  }

  /** What an element says, also one that is folded away. */
  async reads(selector: string): Promise<string> {
    const read = () =>
      this.#look<string>(`document.querySelector('${selector}')?.textContent ?? ''`);
    return (await until(read, `there is ${selector}`, (text) => Boolean(text))) as string;
  }

  async #find(kind: string, name: string): Promise<void> {
    const find = () =>
      this.#look<boolean>(`${FIND}(${JSON.stringify(kind)}, ${JSON.stringify(name)})`);
    await until(find, `there is a ${kind} "${name}"`, (found) => found === true);
  }

  /** Asks the page, whichever is there; null while one goes and the next comes. */
  async #look<T>(script: string): Promise<T | null> {
    const isWhole = `document.readyState === 'complete'`;
    const answer = await this.#hand
      .read<[number, T] | null>(`${isWhole} ? [performance.timeOrigin, ${script}] : null`)
      .catch(() => null);
    if (answer === null) return null;
    this.#pages.add(answer[0]);
    return answer[1];
  }
}

const mailbox = await startMailbox(t);
const office = await startOwnOffice(
  t,
  {
    SECOND_FACTOR_KEY: randomBytes(32).toString('base64'),
    SMTP_URL: mailbox.url,
    ALERT_FROM: 'tollgate@example.com',
    ADMIN_URL: 'http://admin.example.com',
  },
  sendsNothing,
);
const { sql, people, customer } = office;
const { company } = customer;
await paint(sql, company);
const others = await paintOthers(sql, company, LONG_AGO);
await paintOtherCalls(sql, others, new Date());
await sql`update companies set monthly_budget_eur = 100000`;
await sql`update companies set member_max_keys = 3, member_playground = true where id = ${company}`;
const LEAVER = 'lena@customer.example';
await sql`insert into users (email, company_id, role, password_hash, erasure_asked_at) values (${LEAVER}, ${company}, 'member', 'none', now())`;
await sql`insert into end_users (id, company_id, name) values (${randomUUID()}, ${company}, 'anna@front.example')`;
const db = openDatabase({ url: office.databaseUrl });
const [{ closed }] = await sql<
  [{ closed: string }]
>`select to_char(now() - interval '1 month', 'YYYY-MM-01') as closed`;
await closeStatement(db, company, closed);
await db.close();
const at = `/companies/${company}`;
const nextYear = new Date().getUTCFullYear() + 1;

const { FIREFOX, WEBDRIVER, WEBDRIVER_BROWSER } = process.env;
/** What a page says of "1.500": both meanings in Germany; a driver's browser is in America, where it is 1.5. */
const MEANT = WEBDRIVER === undefined ? /1\.5.*1500/ : /With a budget of €1\.50/;

const WHO = ['operator', 'owner', 'member', 'administrator'] as const;

interface Task {
  readonly who: (typeof WHO)[number];
  readonly task: string;
  /** Clicks, fields and, where they were counted, pages before the last rework of the pages. */
  readonly before:
    | readonly [clicks: number, fields: number, pages?: number]
    | 'not possible'
    | 'not counted';
  /** Why it takes a click more than before. */
  readonly because?: string;
  /** Where it begins. */
  readonly from: string;
  readonly act: (person: Person) => Promise<void>;
}

const TASKS: readonly Task[] = [
  {
    ...{ who: 'operator', task: 'who spends most', before: [2, 0, 3], from: '/' },
    async act(person) {
      await person.click('Companies');
      await person.sees(/Companies.*Nordlicht Verlag/);
    },
  },
  {
    ...{
      who: 'operator',
      task: 'why a customer spends more',
      before: [3, 1, 5],
      from: '/companies',
    },
    async act(person) {
      await person.click('Alpenkäse eG');
      await person.choose('Compare to', 'previous period');
      await person.sees(/(more|less) than before/);
    },
  },
  {
    ...{ who: 'operator', task: 'who is refused now', before: [0, 0, 1], from: '/' },
    async act(person) {
      await person.sees(/owen@customer.example/);
    },
  },
  {
    ...{ who: 'operator', task: 'what of a month is open', before: [1, 0, 2], from: '/' },
    async act(person) {
      await person.click('Month-end');
      await person.sees(/Nordlicht Verlag/);
    },
  },
  {
    ...{ who: 'operator', task: 'a leaked key', before: [0, 1, 2], from: '/' },
    async act(person) {
      await person.fill('Search everything', 'svc_k3vq', true);
      await person.sees(/Newsroom CMS/);
    },
  },
  {
    ...{ who: 'operator', task: 'an end user complains', before: 'not possible', from: '/' },
    async act(person) {
      await person.fill('Search everything', 'anna@front', true);
      await person.sees(/anna@front\.example/);
    },
  },
  {
    ...{
      who: 'operator',
      task: 'a factor of 0.9, with its preview',
      before: [2, 1, 3],
      from: `${at}/settings`,
    },
    async act(person) {
      await person.fill('Factor', '0.9');
      await person.click('Save factor');
      await person.sees(/would have cost/);
    },
  },
  {
    ...{
      who: 'operator',
      task: 'pause a customer, and go on',
      before: [2, 1, 3],
      from: `${at}/settings`,
    },
    async act(person) {
      await person.fill('Reason', 'The invoice of September is unpaid');
      await person.click('Pause company');
      await person.sees(/The company is paused/);
      await person.click('Resume company');
      await person.sees(/The company is resumed/);
    },
  },
  {
    ...{ who: 'owner', task: 'the statement of a month', before: [2, 0, 3], from: '/' },
    async act(person) {
      await person.click('Statements');
      await person.click('1 ·');
      await person.sees(/Amount to invoice/);
    },
  },
  {
    ...{ who: 'owner', task: 'the budget', before: [1, 1, 2], from: `${at}/settings` },
    async act(person) {
      await person.fill('Monthly budget in EUR', '2000');
      await person.click('Save settings');
      await person.sees(/Saved/);
    },
  },
  {
    ...{ who: 'operator', task: 'a new customer with owner and key', before: [4, 5], from: '/' },
    async act(person) {
      await person.click('Companies');
      await person.click('New company');
      await person.fill('Company name', 'Almwiese eG');
      await person.fill('E-mail address of its owner', 'alma@almwiese.example');
      await person.fill('Name of the key', 'Website search');
      await person.click('Create company');
      await person.sees(/Almwiese eG is ready.*API key/);
    },
  },
  {
    ...{
      who: 'operator',
      task: 'a price from 1 January',
      before: [3, 3],
      from: '/models',
    },
    async act(person) {
      await person.click('aurora-large');
      await person.fill('Begins', `${nextYear}-01-01T00:00`);
      await person.fill('New price of 1,000,000 prompt tokens, EUR', '2.5');
      await person.fill('New price of 1,000,000 completion tokens, EUR', '7.5');
      await person.click('Schedule price');
      await person.sees(/would have cost/);
      await person.click('Save the price');
      await person.sees(/to come/);
    },
  },
  {
    ...{ who: 'owner', task: 'what a team spends', before: [2, 0], from: '/' },
    async act(person) {
      await person.click('Usage');
      await person.sees(/Newsroom CMS svc_\w+…\s*€\d+[.,]\d\d/);
    },
  },
  {
    ...{
      who: 'owner',
      task: 'a budget of "1.500"',
      before: 'not counted',
      from: `${at}/settings`,
    },
    async act(person) {
      await person.fill('Monthly budget in EUR', '1.500', true);
      await person.sees(MEANT);
    },
  },
  {
    ...{ who: 'owner', task: 'invite somebody', before: [3, 1], from: '/' },
    async act(person) {
      await person.click('Users');
      await person.fill('E-mail address', 'nele@customer.example');
      await person.click('Invite');
      await person.sees(/nele@customer\.example/);
    },
  },
  {
    ...{ who: 'owner', task: 'who gets alerts', before: [4, 3], from: '/' },
    async act(person) {
      await person.click('Settings');
      await person.click('Budget alerts');
      await person.click('Add a rule');
      await person.fill('E-mail address', 'desk@front.example');
      await person.click('Add');
      await person.sees(/desk@front\.example.*has not agreed/);
    },
  },
  {
    ...{
      who: 'owner',
      task: 'erase somebody who asked for it',
      before: [3, 2],
      from: `${at}/users`,
    },
    async act(person) {
      await person.click(`Actions: ${LEAVER}`);
      await person.click(`Erase ${LEAVER}`);
      await person.fill('Address of the person', LEAVER);
      await person.click('Erase for good');
      await person.sees(/The person is erased/);
    },
  },
  {
    ...{ who: 'owner', task: 'rotate a key', before: [2, 0], from: `${at}/keys` },
    because: 'actions of a row are in a menu, so that a screen shows 15 keys',
    async act(person) {
      await person.click('Actions: Newsroom CMS');
      await person.click('Rotate');
      await person.click('Create the new key');
      await person.sees(/Your new key/);
    },
  },
  {
    ...{ who: 'member', task: 'a key of her own', before: 'not counted', from: '/' },
    async act(person) {
      await person.click('My keys');
      await person.fill('Name', 'Notebook');
      await person.click('Create key');
      await person.sees(/Your new key/);
    },
  },
  {
    ...{ who: 'member', task: 'a prompt in the playground', before: 'not counted', from: '/' },
    async act(person) {
      await person.click('Playground');
      await person.choose('Model', 'brand-chat');
      await person.fill('Prompt', 'Say good morning.');
      await person.click('Send');
      await person.sees(/tokens in/);
    },
  },
  {
    ...{ who: 'member', task: 'what it cost', before: 'not counted', from: '/' },
    async act(person) {
      await person.click('My usage');
      await person.sees(/My usage/);
    },
  },
  {
    ...{ who: 'administrator', task: 'a second factor', before: 'not counted', from: '/' },
    async act(person) {
      await person.click(people.administrator);
      await person.click('Set up a second factor');
      await person.fill('Your password', PASSWORD);
      await person.click('Set up');
      const key = await person.reads('#secret');
      await person.fill('Code of your app', totp(base32Bytes(key), Date.now()));
      await person.click('Turn on');
      await person.sees(/Your second factor is on/);
    },
  },
];

/** Does all tasks in a browser that begins without a session. */
async function doAll(t: Test, name: string, hands: () => Promise<Hand>): Promise<void> {
  for (const who of WHO) {
    const hand = await hands();
    await hand.open(`${office.adminUrl}/sign-in`);
    const begin = new Person(hand);
    await begin.fill('E-mail address', people[who]);
    await begin.fill('Password', PASSWORD);
    await begin.click('Sign in');
    const path = () => hand.read<string>('location.pathname').catch(() => '/sign-in');
    await until(path, 'somebody is signed in', (now) => now !== '/sign-in');
    for (const { task, before, because, from, act } of TASKS.filter((each) => each.who === who)) {
      await hand.open(`${office.adminUrl}${from}`);
      const person = new Person(hand);
      await act(person);
      const { clicks, fields, pages } = person;
      const was = typeof before === 'string' ? before : before.join(' / ');
      t.comment(`${name}: ${who}: ${task}: ${was} before, ${clicks} / ${fields} / ${pages} now`);
      if (typeof before === 'string') continue;
      const [clicksBefore, mostFields] = before;
      const mostClicks = because === undefined ? clicksBefore : clicksBefore + 1;
      t.ok(
        clicks <= mostClicks && fields <= mostFields,
        `${name}: ${task} takes no more than before${because === undefined ? '' : `, but for a click: ${because}`}`,
      );
    }
  }
}

/** Tasks change what they find: a run has one browser. */
const isOther = (FIREFOX ?? WEBDRIVER) !== undefined;

t.test('tasks in Chromium', { skip: isOther && 'another browser is named' }, async (t) => {
  const browser = await startBrowser(t);
  await doAll(t, 'Chromium', async () => {
    const { page } = await openTab(browser, office.adminUrl, {
      viewport: { width: 1440, height: 900 },
    });
    t.teardown(() => page.context().close());
    return handOf(page);
  });
});

t.test(
  'tasks in another browser',
  { skip: WEBDRIVER === undefined && 'WEBDRIVER names no driver' },
  async (t) => {
    const name = (WEBDRIVER as string).split('/').at(-1) as string;
    await doAll(t, name, await startDriver(t, WEBDRIVER as string, WEBDRIVER_BROWSER));
  },
);

t.test('tasks in Firefox', { skip: FIREFOX === undefined && 'FIREFOX names none' }, async (t) =>
  doAll(t, 'Firefox', await startFirefox(t, FIREFOX as string)),
);
