import t from 'tap';
import { wordsOf } from '../../../src/domain/language/language.ts';
import { startMailbox } from '../../support/receiver.ts';
import { until } from '../../support/until.ts';
import { newToken, send } from '../api/tokens.ts';
import { Person, sendsNothing, signedIn, startOffice, startOwnOffice, textOf } from '../people.ts';

/** Owners choose who is told of budgets, and at which percentages; an address of nobody of theirs agrees first. */

const mailbox = await startMailbox(t);
const office = await startOwnOffice(
  t,
  {
    SMTP_URL: mailbox.url,
    ALERT_FROM: 'tollgate@example.com',
    ADMIN_URL: 'http://admin.example.com',
  },
  sendsNothing,
);
const { sql, people } = office;
const { company } = office.customer;
const base = `/companies/${company}/alerts`;
const owner = await signedIn(office, 'owner');
const BOOKS = 'books@accountants.example';

const rows = () =>
  sql`select email, percents, forecast, confirmed_at is not null as agreed from alert_receivers where company_id = ${company}
    order by email nulls first`;
const idOf = async (email: string) =>
  (await sql`select id from alert_receivers where email = ${email}`)[0]?.id as string;
const plain = (text: string) => text.replaceAll(/=\r\n/g, '').replaceAll('=3D', '=');

async function linkTo(email: string, path: RegExp): Promise<string> {
  const linkIn = () => {
    const mail = mailbox.mails.findLast(
      ({ to, text }) => to.includes(email) && path.test(plain(text)),
    );
    return mail && path.exec(plain(mail.text))?.[0];
  };
  return (await until(
    async () => linkIn(),
    `a link to ${email}`,
    (link) => link !== undefined,
  )) as string;
}

t.test('without a rule the page says who is notified; owners alone open it', async (t) => {
  t.match(
    textOf(await owner.get(base)),
    /Owners and administrators who have no rule of their own 50, 80 and 100 %, and the forecast/,
  );
  t.match((await owner.get(`/companies/${company}/settings`)).text, `href="${base}"`);
  t.equal((await (await signedIn(office, 'administrator')).get(base)).status, 403);
});

t.test(
  'percentages are chosen for owners and administrators, and for one of the people',
  async (t) => {
    t.equal(
      (await owner.post(base, { email: '', percents: '90, 75' })).headers.get('location'),
      `${base}?done=receiver-added`,
    );
    t.equal(
      (await owner.post(base, { email: people.member, percents: '25%', forecast: 'true' })).status,
      303,
    );
    t.same(
      [...(await rows())],
      [
        { email: null, percents: [75, 90], forecast: false, agreed: false },
        { email: people.member, percents: [25], forecast: true, agreed: false },
      ],
    );
    t.match(textOf(await owner.get(base)), /75 and 90 %.*25 %, and the forecast of the company/);
    const twice = await owner.post(base, { email: people.member, percents: '50' });
    t.equal(twice.status, 422);
    t.match(twice.text, /There is a rule for mila@customer\.example already/);
    for (const percents of [
      '0',
      '101',
      '50.5',
      'half',
      Array.from({ length: 11 }, (_, i) => i + 1).join(),
    ]) {
      const refused = await owner.post(base, { email: people.owner, percents });
      t.equal(refused.status, 422, percents);
      t.match(refused.text, `value="${percents}"`, 'what was typed is kept');
    }
    const rule = await idOf(people.member);
    const path = `${base}/${rule}`;
    const { text: list } = await owner.get(base);
    t.match(list, `href="${base}?rule=${rule}#rule"`);
    t.notMatch(list, 'id="rule"');
    const { text: form } = await owner.get(`${base}?rule=${rule}`);
    t.match(form, /id="rule"><h2>Rule for mila@customer\.example<\/h2>.*value="25"/s);
    t.notMatch(form, 'id="create"', 'it takes the place of the form for a new one');
    t.match(
      (await owner.post(path, { percents: 'half' })).text,
      /id="rule">.*value="half"/s,
      'what was typed is kept',
    );
    t.equal(
      (await owner.post(path, { percents: '' })).status,
      303,
      'people of the company may be told nothing',
    );
    t.match(textOf(await owner.get(base)), /mila@customer\.example nothing/);
    await owner.post(`${path}/remove`);
    t.equal((await rows()).length, 1);
    t.equal(mailbox.mails.length, 0, 'none of them was asked');
    const log = textOf(await owner.get(`/companies/${company}/audit`));
    t.match(log, /receiver of alerts mila@customer\.example/);
  },
);

t.test('an address outside the company is sent a link, which its reader has to use', async (t) => {
  const added = await owner.post(base, { email: BOOKS, percents: '100' });
  t.equal(added.headers.get('location'), `${base}?done=receiver-asked`);
  t.match(
    textOf(await owner.get(base)),
    /books@accountants\.example 100 % has not agreed its link works until/,
  );
  const link = await linkTo(
    BOOKS,
    /http:\/\/admin\.example\.com\/alert-receiver\/confirm\/[\w-]{43}/,
  );
  const { pathname } = new URL(link);
  t.notMatch(
    await (await owner.get(base)).text,
    pathname.slice(-20),
    'the owner does not learn it',
  );
  const reader = new Person(office.adminUrl);
  const page = await reader.get(pathname);
  t.match(textOf(page), /Nordlicht Verlag wants to notify books@accountants\.example/);
  t.equal(page.headers.get('referrer-policy'), 'same-origin');
  t.same(
    (await rows()).at(-1)?.agreed,
    false,
    'opening it changes nothing: programs open links, too',
  );
  t.match(textOf(await reader.post(pathname)), /You get the budget alerts/);
  t.same((await rows()).at(-1)?.agreed, true);
  t.equal((await reader.get(pathname)).status, 404, 'it works once');
  t.match(textOf(await owner.get(base)), /books@accountants\.example 100 % agreed on/);
  const [entry] =
    await sql`select actor, after from audit_log where subject = 'alert_receivers' order by id desc limit 1`;
  t.match(entry, { actor: BOOKS, after: { email: BOOKS } });
  t.notMatch(JSON.stringify(await sql`select * from audit_log`), pathname.slice(-43));
  t.notMatch(office.logged.join(''), pathname.slice(-43));

  const none = await owner.post(`${base}/${await idOf(BOOKS)}`, { percents: '' });
  t.equal(none.status, 422);
  t.match(none.text, /remove the rule to send this address nothing/);
});

t.test('each of its e-mails has a link that ends them', async (t) => {
  const { mailOf } = await import('../../../src/domain/wording/alert.ts');
  const brand = {
    name: 'Tollgate',
    color: null,
    logo: null,
    support: null,
    imprint: null,
    privacy: null,
  };
  const textFor = (outsider: string | null) =>
    mailOf([alert], wordsOf('de'), brand, pages, outsider).text;
  const id = await idOf(BOOKS);
  const alert = {
    id,
    company: { id: company, name: 'Nordlicht' },
    key: null,
    month: '2026-11',
    threshold: '90',
    budget_eur: '10',
    spent_eur: '9',
    forecast_eur: null,
    occurred_at: '2026-11-01T00:00:00Z',
  };
  const pages = new URL('https://admin.example.com');
  t.match(textFor(id), `https://admin.example.com/alert-receiver/stop/${id}\n`);
  t.notMatch(textFor(id), '/usage', 'its reader cannot sign in');
  t.notMatch(textFor(null), 'alert-receiver');
  const reader = new Person(office.adminUrl);
  t.match(
    textOf(await reader.get(`/alert-receiver/stop/${id}`)),
    /books@accountants\.example gets the budget alerts of Nordlicht Verlag/,
  );
  t.match(textOf(await reader.post(`/alert-receiver/stop/${id}`)), /Unsubscribed/);
  t.equal((await sql`select from alert_receivers where email = ${BOOKS}`).length, 0);
  t.equal((await reader.get(`/alert-receiver/stop/${id}`)).status, 404);
  await sql`update alert_receivers set email = null`;
  const [{ team }] = await sql<[{ team: string }]>`select id as team from alert_receivers`;
  t.equal(
    (await reader.post(`/alert-receiver/stop/${team}`)).status,
    404,
    'that of the company has no such link',
  );
});

t.test('a link ends: replaced, after a week, with its line, and with the company', async (t) => {
  const CONFIRM = /\/alert-receiver\/confirm\/[\w-]{43}/;
  await owner.post(base, { email: BOOKS, percents: '100' });
  const first = await linkTo(BOOKS, CONFIRM);
  const count = mailbox.mails.length;
  const path = `${base}/${await idOf(BOOKS)}`;
  t.equal((await owner.post(`${path}/ask`)).headers.get('location'), `${base}?done=receiver-asked`);
  await until(async () => mailbox.mails.length > count, 'another e-mail');
  const second = await linkTo(BOOKS, CONFIRM);
  t.not(first, second);
  const reader = new Person(office.adminUrl);
  t.equal((await reader.get(first)).status, 404);
  t.equal((await reader.get(second)).status, 200);
  await sql`update companies set closed_at = now() where id = ${company}`;
  t.equal((await reader.post(second)).status, 404);
  await sql`update companies set closed_at = null where id = ${company}`;
  await sql`update alert_receivers set expires_at = now() - interval '1 second' where email = ${BOOKS}`;
  t.equal((await reader.post(second)).status, 404);
  t.match(textOf(await owner.get(base)), /its link has ended/);
  await owner.post(`${path}/remove`);
  t.match((await owner.post(`${path}/ask`)).status, 404);
});

t.test('a company asks few addresses in a short time, and has at most twenty lines', async (t) => {
  await sql`delete from alert_receivers`;
  await sql`insert into alert_receivers (company_id, email, percents, forecast)
    select ${company}, 'reader' || n || '@elsewhere.example', '{50}', false from generate_series(1, 20) n`;
  const many = await owner.post(base, { email: people.member, percents: '50' });
  t.equal(many.status, 422);
  t.match(many.text, /at most 20 receivers/);
  await sql`delete from alert_receivers`;
  let refused = '';
  for (let i = 0; i < 30 && refused === ''; i++) {
    const { status, text } = await owner.post(base, {
      email: `someone${i}@elsewhere.example`,
      percents: '50',
    });
    if (status === 422) refused = text;
    await sql`delete from alert_receivers`;
  }
  t.match(refused, /has sent many invitations in a short time/);
});

t.test('programs add people of the company, and nobody else', async (t) => {
  const token = await newToken(office, { company_id: company });
  const at = `/companies/${company}/alert-receivers`;
  const outside = await send(office, token, ['POST', at], {
    email: 'x@elsewhere.example',
    percents: [50],
    forecast: false,
  });
  t.match(outside, { status: 409, body: { detail: /none of the company's users/ } });
  t.equal((await rows()).length, 0, 'nothing is left of it');
  const inside = await send(office, token, ['POST', at], {
    email: people.member,
    percents: [50],
    forecast: false,
  });
  t.match(inside, { status: 201, body: { is_person: true } });
  for (const percents of [[0], [101], [1.5], ['50']]) {
    t.equal(
      (await send(office, token, ['POST', at], { email: people.owner, percents, forecast: false }))
        .status,
      400,
    );
  }
});

t.test('where no e-mails can be sent, an address outside the company is refused', async (t) => {
  const plainOffice = await startOffice(t);
  const person = await signedIn(plainOffice, 'owner');
  const path = `/companies/${plainOffice.customer.company}/alerts`;
  t.match(textOf(await person.get(path)), /This service sends no e-mails/);
  const refused = await person.post(path, { email: BOOKS, percents: '50' });
  t.equal(refused.status, 422);
  t.match(refused.text, /could not be asked here/);
  t.match(refused.text, `value="${BOOKS}"`);
  t.equal((await plainOffice.sql`select from alert_receivers`).length, 0);
});
