import { randomBytes } from 'node:crypto';
import t, { type Test } from 'tap';
import { startMailbox } from '../../support/receiver.ts';
import { base32Bytes, totp } from '../../support/totp.ts';
import { until } from '../../support/until.ts';
import { newToken, send } from '../api/tokens.ts';
import { type Office, PASSWORD, type Page, Person, startOwnOffice, textOf } from '../people.ts';

/** The second factor on the pages: setting it up, signing in with it, and what happens to sessions. */

const PATH = '/account/second-factor';
const KEY = randomBytes(32).toString('base64');

async function newOffice(t: Test, env: Record<string, string> = {}) {
  const mailbox = await startMailbox(t);
  const settings = {
    SECOND_FACTOR_KEY: KEY,
    SMTP_URL: mailbox.url,
    ALERT_FROM: 'tollgate@example.com',
    ...env,
  };
  const office = await startOwnOffice(t, settings);
  return { office, mailbox };
}

const { office, mailbox } = await newOffice(t);
const { sql } = office;
const { owner, administrator, member, operator } = office.people;

/** Codes are taken once: each test moves on by a period. Up to one ahead of the clock is taken. */
async function freshCode(secret: Buffer, email: string, of: Office = office): Promise<string> {
  await of.sql`update second_factors set last_step = 0 where user_id = (select id from users where email = ${email})`;
  return totp(secret, Date.now());
}

const secretIn = ({ text }: Page) =>
  base32Bytes(/id="secret"[^>]*>([^<]+)</.exec(text)?.[1] as string);
const codesIn = ({ text }: Page) => `${/id="codes"[^>]*>([^<]+)</.exec(text)?.[1]}`.split('\n');
const to = (page: Page) => page.headers.get('location');

async function signIn(email: string, of: Office = office): Promise<Person> {
  const person = new Person(of.adminUrl);
  await person.signIn(email);
  return person;
}

/** Sets the second factor of somebody up, by the pages. */
async function setUp(email: string, of: Office = office) {
  const person = await signIn(email, of);
  t.equal(to(await person.post(PATH, { current: PASSWORD })), PATH);
  const secret = secretIn(await person.get(PATH));
  const shown = await person.post(`${PATH}/confirm`, { 'sign-in.code': totp(secret, Date.now()) });
  return { person, secret, shown, codes: codesIn(shown) };
}

async function mailTo(email: string, subject: RegExp, box = mailbox): Promise<string> {
  const found = () => box.mails.find((mail) => mail.to.includes(email) && subject.test(mail.text));
  const mail = await until(
    async () => found(),
    `an e-mail to ${email}: ${subject}`,
    (each) => each !== undefined,
  );
  return `${mail?.text}`.replaceAll(/=?\r\n/g, (end) => (end.startsWith('=') ? '' : ' '));
}

t.test(
  'it is set up with the password and a first code, and recovery codes are shown once',
  async (t) => {
    const person = await signIn(owner);
    t.match(textOf(await person.get('/account')), /Signing in asks for your password alone/);
    const wrong = await person.post(PATH, { current: 'not the password' });
    t.equal(wrong.status, 422);
    t.match(wrong.text, /Your password is wrong/);
    t.equal(to(await person.post(PATH, { current: PASSWORD })), PATH);
    const page = await person.get(PATH);
    t.match(page.text, /<svg role="img" aria-label="QR code for your app"/);
    const secret = secretIn(page);
    t.same(secretIn(await person.get(PATH)), secret, 'the same after a reload');
    const refused = await person.post(`${PATH}/confirm`, {
      'sign-in.code': totp(secret, Date.now() - 600_000),
    });
    t.equal(refused.status, 422);
    t.match(refused.text, /Is the clock of your phone right/);
    const before = person.cookies.get('tollgate');
    const answer = await person.send(`${PATH}/confirm`, {
      'sign-in.code': totp(secret, Date.now()),
    });
    t.equal(to(answer), `${PATH}/shown`);
    t.not(person.cookies.get('tollgate'), before, 'under a new token');
    const shown = await person.get(`${PATH}/shown`);
    t.equal(codesIn(shown).length, 10);
    t.equal((await person.get('/account')).status, 200, 'this session has given a code');
    person.cookies.delete('tollgate-shown');
    t.equal((await person.get(`${PATH}/shown`)).status, 410);
    t.match(await mailTo(owner, /second factor is on/), /If it was not you/);
    const [entry] =
      await sql`select actor, company_id, after from audit_log where subject = 'users' and action = 'update'
    and after ->> 'second_factor_since' is not null order by id desc limit 1`;
    t.match(entry, {
      actor: owner,
      company_id: office.customer.company,
      after: { recovery_codes: 10 },
    });
    t.match(
      textOf(await person.get(`/companies/${office.customer.company}/audit`)),
      /second factor since/,
    );
    t.match(
      textOf(await person.get(`/companies/${office.customer.company}/users`)),
      /owen@customer\.example owner[^@]* on /,
    );
  },
);

t.test(
  'after the password nothing is let in but the code; it is led to what was asked for',
  async (t) => {
    const { secret } = await setUp(administrator);
    const page = `/companies/${office.customer.company}/keys?sort=name`;
    const person = new Person(office.adminUrl);
    const first = await person.post('/sign-in', {
      email: administrator,
      password: PASSWORD,
      next: page,
    });
    t.equal(to(first), page);
    const asked = `/sign-in/code?${new URLSearchParams({ next: page })}`;
    t.equal(to(await person.get(page)), asked);
    for (const path of ['/', '/account', PATH, `${PATH}/shown`, '/account/erasure', '/nowhere']) {
      const answer = await person.get(path);
      t.ok(
        answer.status === 404 || to(answer)?.startsWith('/sign-in/code'),
        `${path}: ${answer.status}`,
      );
    }
    for (const path of [
      `${PATH}/off`,
      `${PATH}/codes`,
      `/companies/${office.customer.company}/keys/create`,
    ]) {
      const { status } = await person.post(path, { csrf: '', 'sign-in.code': '' });
      t.equal(status, 303, path);
    }
    t.equal(
      (
        await sql`select from users where email = ${administrator} and last_sign_in_at > now() - interval '1 minute'`
      ).length,
      1,
    );
    const half = person.cookies.get('tollgate');
    t.match((await person.get(asked)).text, /autocomplete="one-time-code"/);
    const wrong = await person.post('/sign-in/code', { next: page, 'sign-in.code': '12' });
    t.equal(wrong.status, 401);
    t.match(wrong.text, /<title>Error: Second factor/);
    const code = await freshCode(secret, administrator);
    const done = await person.post('/sign-in/code', { next: page, 'sign-in.code': code });
    t.equal(to(done), page);
    t.equal((await person.get(page)).status, 200);
    t.not(person.cookies.get('tollgate'), half);
    const thief = new Person(office.adminUrl);
    thief.cookies.set('tollgate', half as string);
    t.match(
      to(await thief.get('/account')),
      /^\/sign-in\?/,
      'the token of before the code is of no use',
    );
    const again = await signIn(administrator);
    t.match((await again.post('/sign-in/code', { 'sign-in.code': code })).text, /used already/);
  },
);

t.test('a form that was sent meanwhile is kept until the code is given', async (t) => {
  const { secret } = await setUp(member);
  const person = await signIn(operator);
  const settings = `/companies/${office.customer.company}/settings`;
  const { text } = await person.get(settings);
  const user = /name="user" value="([^"]+)"/.exec(text)?.[1] as string;
  await sql`update second_factors set user_id = ${user} where user_id = (select id from users where email = ${member})`;
  await sql`update users set second_factor_since = now() where id = ${user}`; // as if it was set up in another browser
  const csrf = /name="csrf" value="([^"]+)"/.exec(text)?.[1] as string;
  const asked = await person.send(settings, { user, csrf, budget: '1234' });
  t.equal(asked.status, 401);
  t.match(asked.text, /what you typed is kept/);
  t.match(asked.text, /name="budget" value="1234"/);
  // the secret belongs to another person: it is not decrypted
  const unreadable = await person.send(settings, {
    user,
    budget: '1234',
    'sign-in.code': totp(secret, Date.now()),
  });
  t.match(unreadable.text, /cannot be read/);
  t.match(unreadable.text, /name="budget" value="1234"/);
  t.notMatch(unreadable.text, totp(secret, Date.now()));
  const [{ recovery }] = await sql<
    [{ recovery: string }]
  >`update second_factors set recovery = array[sha256('abcdabcdabcdabcd')]
    where user_id = ${user} returning 'ABCD-abcd-abcd-abcd' as recovery`;
  const back = await person.send(settings, {
    user,
    budget: '1234',
    'sign-in.code': '',
    'sign-in.recovery': recovery,
  });
  t.equal(back.status, 200);
  t.match(back.text, /This is what you typed/);
  t.match(back.text, /value="1234"/);
  const [{ monthly_budget_eur: budget }] = await sql<[{ monthly_budget_eur: string | null }]>`
    select monthly_budget_eur from companies where id = ${office.customer.company}`;
  t.equal(budget, null, 'nothing was saved by it');
  // and where the session had ended, after the password
  await sql`delete from sessions`;
  await sql`update second_factors set recovery = array[sha256('efghefghefghefgh')] where user_id = ${user}`;
  const form = { user, csrf: 'x', budget: '77' };
  t.match((await person.send(settings, form)).text, /Your session ended/);
  const credentials = { 'sign-in.email': operator, 'sign-in.password': PASSWORD };
  const code = await person.send(settings, { ...form, ...credentials });
  t.match(code.text, /name="budget" value="77"/);
  t.notMatch(code.text, PASSWORD);
  const end = await person.send(settings, {
    ...form,
    'sign-in.code': '',
    'sign-in.recovery': 'efghefghefghefgh',
  });
  t.match(end.text, /This is what you typed.*value="77"/s);
  await sql`delete from second_factors where user_id = ${user}`;
  await sql`update users set second_factor_since = null, recovery_codes = 0`;
  await sql`delete from second_factors`;
});

t.test(
  'a recovery code lets in once, and is told by e-mail; new ones and turning it off need a code',
  async (t) => {
    const { person, secret, codes } = await setUp(member);
    const other = await signIn(member);
    t.equal(to(await other.post('/sign-in/code', { 'sign-in.recovery': codes[0] as string })), '/');
    t.match(await mailTo(member, /recovery code was used/), /Left: 9\./);
    t.equal((await other.get('/account')).status, 200);
    t.match(textOf(await other.get(PATH)), /You have 9 left/);
    const third = await signIn(member);
    t.match(
      (await third.post('/sign-in/code', { 'sign-in.recovery': codes[0] as string })).text,
      /used already/,
    );

    t.equal((await person.post(`${PATH}/codes`)).status, 422, 'without a code');
    t.match(
      (await person.post(`${PATH}/codes`)).text,
      /<details open><summary>Make new recovery codes/,
    );
    const renewed = await person.post(`${PATH}/codes`, {
      'sign-in.code': await freshCode(secret, member),
    });
    const fresh = codesIn(renewed);
    t.equal(fresh.filter((code) => codes.includes(code)).length, 0);
    await mailTo(member, /You have new recovery codes/);

    const moving = await person.post(PATH, {
      current: PASSWORD,
      'sign-in.code': await freshCode(secret, member),
    });
    t.equal(to(moving), PATH);
    t.not(secretIn(await person.get(PATH)).toString('hex'), secret.toString('hex'));
    t.equal(to(await person.post(`${PATH}/cancel`)), PATH);
    t.notMatch((await person.get(PATH)).text, 'id="secret"');

    t.equal((await person.post(`${PATH}/off`, { 'sign-in.code': '000000' })).status, 422);
    const off = await person.post(`${PATH}/off`, { 'sign-in.recovery': fresh[1] as string });
    t.equal(to(off), `${PATH}?done=factor-off`);
    await mailTo(member, /second factor is off/);
    t.equal((await (await signIn(member)).get('/account')).status, 200);
  },
);

t.test(
  'five wrong codes are told by e-mail, and close it for app codes from everywhere',
  async (t) => {
    const { secret, codes } = await setUp(owner);
    const person = await signIn(owner);
    for (let i = 0; i < 5; i++) {
      await person.post('/sign-in/code', {
        'sign-in.code': totp(secret, Date.now() + 3_600_000 * (i + 1)),
      });
    }
    t.match(await mailTo(owner, /Wrong codes were given/), /knows your password/);
    t.equal(
      (await person.post('/sign-in/code', { 'sign-in.code': totp(secret, Date.now()) })).status,
      429,
      'this address',
    );
    const [{ closed }] = await sql<[{ closed: boolean }]>`
    select closed_until > now() + interval '14 minutes' as closed from second_factors
    where user_id = (select id from users where email = ${owner})`;
    t.ok(closed, 'all addresses');
    t.equal(
      to(await person.post('/sign-in/code', { 'sign-in.recovery': codes[2] as string })),
      '/',
    );
  },
);

t.test(
  'an operator takes it away by page: the person is signed out everywhere, and told',
  async (t) => {
    const boss = await signIn(operator);
    const [{ id }] = await sql<[{ id: string }]>`select id from users where email = ${owner}`;
    const page = await boss.get(`/users/${id}`);
    t.match(textOf(page), /On since/);
    t.match(textOf(await boss.get('/users')), /owen@customer\.example owner Nordlicht Verlag on/);
    t.match(textOf(await boss.get(`/users/${id}/second-factor`)), /Be sure who asks/);
    t.equal(to(await boss.post(`/users/${id}/second-factor`)), `/users/${id}?done=factor-reset`);
    t.equal((await sql`select from sessions where user_id = ${id}`).length, 0);
    await mailTo(owner, /second factor was reset/);
    t.equal((await (await signIn(owner)).get('/account')).status, 200);
    const again = await boss.post(`/users/${id}/second-factor`);
    t.equal(again.status, 422);
    t.match(again.text, /has no second factor/);
    const [entry] =
      await sql`select actor from audit_log where subject_id = ${id} order by id desc limit 1`;
    t.equal(entry?.actor, operator);
  },
);

t.test('without a key nobody can set one up, and the page says why', async (t) => {
  const { office: without } = await newOffice(t, { SECOND_FACTOR_KEY: '' });
  const person = await signIn(without.people.owner, without);
  t.match((await person.get(PATH)).text, /This service has no key for second factors/);
  const refused = await person.post(PATH, { current: PASSWORD });
  t.equal(refused.status, 422);
});

t.test(
  'where all must have one, sessions that are there are asked at the next request',
  async (t) => {
    const { office: strict } = await newOffice(t, { REQUIRE_SECOND_FACTOR: 'all' });
    const page = `/companies/${strict.customer.company}/usage`;
    const person = await signIn(strict.people.owner, strict);
    t.equal(to(await person.get(page)), PATH);
    t.equal(to(await person.get('/account')), PATH);
    const text = textOf(await person.get(PATH));
    t.match(text, /This service requires a second factor of you/);
    // a form of before is kept, too
    const csrf = /name="csrf" value="([^"]+)"/.exec((await person.get(PATH)).text)?.[1] as string;
    const user = /name="user" value="([^"]+)"/.exec((await person.get(PATH)).text)?.[1] as string;
    const settings = `/companies/${strict.customer.company}/settings`;
    const kept = await person.send(settings, { user, csrf, budget: '99' });
    t.equal(kept.status, 403);
    t.match(kept.text, /Set up a second factor first/);
    t.match(kept.text, /name="budget" value="99"/);
    const { person: done, secret } = await setUp(strict.people.owner, strict);
    t.equal((await done.get(page)).status, 200);
    t.match(
      (await done.send(settings, { user, csrf: '', budget: '99' })).text,
      /This is what you typed.*value="99"/s,
    );
    t.equal(
      to(await person.get(page)),
      `/sign-in/code?${new URLSearchParams({ next: page })}`,
      'the other browser',
    );
    t.notMatch((await done.get(PATH)).text, 'Turn it off');
    const off = await done.post(`${PATH}/off`, {
      'sign-in.code': await freshCode(secret, strict.people.owner, strict),
    });
    t.equal(off.status, 422);
    t.match(off.text, /cannot be turned off/);
    const signedOut = await person.post('/sign-out', {
      csrf: /name="csrf" value="([^"]+)"/.exec(
        (await person.get('/sign-in/code')).text,
      )?.[1] as string,
    });
    t.equal(to(signedOut), '/sign-in?done=signed-out', 'whoever gives no code may go');

    const token = await newToken(strict);
    const answer = await send(strict, token, ['GET', `/companies/${strict.customer.company}`]);
    t.equal(answer.status, 200, 'tokens of programs have no second factor, and need none');
  },
);

t.test('where operators must have one, others need not', async (t) => {
  const { office: some } = await newOffice(t, { REQUIRE_SECOND_FACTOR: 'operators' });
  t.equal((await (await signIn(some.people.owner, some)).get('/account')).status, 200);
  t.equal(to(await (await signIn(some.people.operator, some)).get('/companies')), PATH);
});
