import { createServer } from 'node:net';
import t from 'tap';
import { decodedBody, startMailbox } from '../../support/receiver.ts';
import { until } from '../../support/until.ts';
import { type Office, PASSWORD, Person, startOwnOffice } from '../people.ts';

/** A forgotten password: a link by e-mail that works once, for an hour. */

const mailbox = await startMailbox(t);
const MAIL = {
  SMTP_URL: mailbox.url,
  ALERT_FROM: 'gate@tollgate.example',
  ADMIN_URL: 'http://admin.example.com',
};
const office = await startOwnOffice(t, MAIL);
const { sql, people, customer } = office;
const FORGOT = '/sign-in/forgot';
const NEW = 'a new and long password';

const mailsTo = (email: string, box = mailbox) => box.mails.filter(({ to }) => to.includes(email));

function ask(email: string, of: Office = office) {
  return new Person(of.adminUrl).post(FORGOT, { email });
}

/** Asks, and returns the path of the link in the e-mail that comes. */
async function linkFor(email: string): Promise<string> {
  const before = mailsTo(email).length;
  await ask(email);
  const mails = await until(
    async () => mailsTo(email),
    `an e-mail to ${email}`,
    ({ length }) => length > before,
  );
  return /\/new-password\/[\w-]{43}/.exec(decodedBody(mails.at(-1)?.text ?? ''))?.[0] as string;
}

/** As if it had been asked for earlier. */
const age = (email: string, minutes: number) =>
  sql`update users set reset_asked_at = reset_asked_at - make_interval(mins => ${minutes}) where email = ${email}`;

t.test(
  'the link sets a password once, ends all sessions, signs nobody in, and is told',
  async (t) => {
    const email = people.administrator;
    const session = new Person(office.adminUrl);
    await session.signIn(email);
    t.match(
      (await new Person(office.adminUrl).get('/sign-in')).text,
      '<a href="/sign-in/forgot">Forgot your password?</a>',
    );
    const path = await linkFor(email);
    const token = path.split('/')[2] as string;
    const visitor = new Person(office.adminUrl);
    const page = await visitor.get(path);
    t.match(page.text, /Choose a new password.*ada@customer\.example/s);
    t.equal(page.headers.get('referrer-policy'), 'same-origin');
    t.equal(
      (await visitor.get(path)).status,
      200,
      'opening it uses nothing up: programs of mail servers open links too',
    );
    t.equal((await session.get('/account')).status, 200, 'nothing has changed yet');
    const short = await visitor.post(path, { password: 'short' });
    t.equal(short.status, 422);
    t.match(short.text, 'Password must have at least 12 characters');
    const done = await visitor.post(path, { password: NEW });
    t.equal(done.headers.get('location'), '/sign-in?done=new-password');
    t.match((await visitor.get('/sign-in?done=new-password')).text, 'The new password is saved.');
    t.equal((await visitor.get('/account')).status, 303, 'nobody is signed in by it');
    t.equal((await session.get('/account')).status, 303, 'all sessions ended');
    t.equal((await visitor.post(path, { password: `${NEW} again` })).status, 404, 'it works once');
    t.equal((await visitor.signIn(email, PASSWORD)).status, 401);
    t.equal((await visitor.signIn(email, NEW)).status, 303);
    await until(
      async () => mailsTo(email).at(-1)?.text,
      'a notice',
      (text) => /Your password was changed/.test(`${text}`),
    );

    const entries = await sql`
    select actor, before ->> 'reset_asked_at' is null as is_asked, after ->> 'password_hash' as password from audit_log
    where subject = 'users' and action = 'update' and after ->> 'email' = ${email} order by id`;
    t.same(
      [...entries],
      [
        { actor: email, is_asked: true, password: null },
        { actor: email, is_asked: false, password: 'changed' },
      ],
    );
    const stored =
      JSON.stringify(await sql`select to_jsonb(u) as u from users u`) +
      JSON.stringify(await sql`select * from audit_log`);
    t.notMatch(stored, token, 'the token is nowhere');
    t.notMatch(stored, 'reset_digest":"', 'and its digest not in the log');
    t.notMatch(office.logged.join(''), token);
  },
);

t.test('the answer is the same, whether the address is known or not', async (t) => {
  const before = mailbox.mails.length;
  const answers = [];
  for (const email of [people.member, 'nobody@elsewhere.example', 'olga@customer.example'])
    answers.push(await ask(email));
  for (const { status, headers, text } of answers) {
    t.equal(status, 303);
    t.equal(headers.get('location'), '/sign-in?done=new-password-asked');
    t.equal(text, answers[0]?.text);
    t.same(headers.getSetCookie(), []);
  }
  t.match(
    (await new Person(office.adminUrl).get('/sign-in?done=new-password-asked')).text,
    'If this address has an account',
  );
  await until(
    async () => mailbox.mails.length,
    'one e-mail',
    (count) => count === before + 1,
  );
  t.same(mailbox.mails.at(-1)?.to, [people.member]);
  const wrong = await ask('nonsense');
  t.equal(wrong.status, 422);
  t.match(wrong.text, 'must be an address such as');
});

t.test('the answer does not wait for the mail server', async (t) => {
  const silent = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => silent.once('listening', resolve));
  t.teardown(() => silent.close());
  const { port } = silent.address() as { port: number };
  const connected = new Promise((resolve) => silent.once('connection', resolve));
  const slow = await startOwnOffice(t, { ...MAIL, SMTP_URL: `smtp://127.0.0.1:${port}` });
  t.equal((await ask(slow.people.owner, slow)).status, 303, 'though it never says a word');
  await connected;
});

t.test(
  'an address gets one e-mail in a quarter of an hour, whose link ends after an hour or by the next one',
  async (t) => {
    const email = people.owner;
    const first = await linkFor(email);
    const count = mailsTo(email).length;
    await ask(email);
    await ask(people.operator);
    await until(
      async () => mailsTo(people.operator).length,
      'the e-mail to somebody else',
      (found) => found === 1,
    );
    t.equal(mailsTo(email).length, count);
    const visitor = new Person(office.adminUrl);
    t.equal((await visitor.get(first)).status, 200, 'the first link still works');
    await age(email, 16);
    const second = await linkFor(email);
    t.equal((await visitor.get(first)).status, 404, 'a newer one ends it');
    await age(email, 45);
    t.equal((await visitor.get(second)).status, 200);
    await age(email, 16);
    const over = await visitor.get(second);
    t.equal(over.status, 404, 'the hour is over');
    t.match(over.text, /This link does not work any more.*href="\/sign-in\/forgot"/s);
    t.equal((await visitor.post(second, { password: NEW })).status, 404);
    t.equal((await visitor.signIn(email)).status, 303, 'the password is what it was');
  },
);

t.test('another new password ends the link', async (t) => {
  const email = people.owner;
  await age(email, 60);
  const path = await linkFor(email);
  const owner = new Person(office.adminUrl);
  await owner.signIn(email);
  t.equal((await owner.post('/account/password', { current: PASSWORD, new: NEW })).status, 303);
  t.equal((await owner.get(path)).status, 404);
  await until(
    async () => mailsTo(email).at(-1)?.text,
    'a notice',
    (text) => /Your password was changed/.test(`${text}`),
  );
});

t.test('who signs in with the organisation is told so, and gets no link', async (t) => {
  await sql`insert into users (email, company_id, role) values ('sso@customer.example', ${customer.company}, 'member')`;
  await ask('sso@customer.example');
  const [mail] = await until(
    async () => mailsTo('sso@customer.example'),
    'an e-mail',
    ({ length }) => length > 0,
  );
  t.match(decodedBody(mail?.text ?? ''), /Your account has no password/);
  t.notMatch(mail?.raw, 'new-password/');
});

t.test('one network cannot send many', async (t) => {
  const visitor = new Person(office.adminUrl);
  const asked = async () =>
    (await visitor.post(FORGOT, { email: 'nobody@elsewhere.example' })).status;
  const refused = await until(asked, 'a refusal', (status) => status === 429);
  t.equal(refused, 429);
});

t.test('the second factor is still asked for', async (t) => {
  const email = people.member;
  await sql`update users set second_factor_since = now(), reset_asked_at = now(), reset_digest = sha256('x') where email = ${email}`;
  const token = 'T'.repeat(43);
  await sql`update users set reset_digest = sha256(${token}::bytea) where email = ${email}`;
  const visitor = new Person(office.adminUrl);
  t.equal((await visitor.post(`/new-password/${token}`, { password: NEW })).status, 303);
  await visitor.signIn(email, NEW);
  t.match((await visitor.get('/account')).headers.get('location') ?? '', '/sign-in/code');
});

t.test('where no e-mails are sent, the page says who can help', async (t) => {
  const without = await startOwnOffice(t, { BRAND_SUPPORT: 'https://help.example/' });
  const visitor = new Person(without.adminUrl);
  const { status, text } = await visitor.get(FORGOT, { 'accept-language': 'de' });
  t.equal(status, 200);
  t.match(
    text,
    /Passwort vergessen\?.*Ein neues Passwort legt sein Betreiber für Sie fest\..*href="https:\/\/help\.example\/"/s,
  );
  t.notMatch(text, '<input type="email"');
  t.equal((await ask(without.people.owner, without)).status, 404);
});
