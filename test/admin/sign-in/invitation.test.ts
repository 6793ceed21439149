import { randomBytes, randomUUID } from 'node:crypto';
import t from 'tap';
import { startMailbox } from '../../support/receiver.ts';
import { until } from '../../support/until.ts';
import { type Office, PASSWORD, Person, signedIn, startOffice } from '../people.ts';

/** Invitations: a link that works once, for a week, for one address. */

const office = await startOffice(t);
const { sql, customer } = office;
const people = `/companies/${customer.company}/users`;
const owner = await signedIn(office, 'owner');

const linkIn = (text: string) => /id="link"[^>]*>([^<]+)</.exec(text)?.[1] as string;

async function invite(email: string, role = 'administrator', by = owner): Promise<string> {
  const { status, text } = await by.post(people, { email, role });
  if (status !== 200) throw new Error(`${email} was not invited: ${status}`);
  return new URL(linkIn(text)).pathname;
}

const join = (path: string, password = PASSWORD, from: Office = office) => {
  const person = new Person(from.adminUrl);
  return person.post(path, { password }).then((page) => ({ person, ...page }));
};
const idOf = async (email: string) =>
  (await sql`select id from invitations where email = ${email}`)[0]?.id as string;

t.test('the link shows once, sets a password once, and signs in', async (t) => {
  const path = await invite(' Nina@Customer.example ');
  t.match(path, /^\/invitation\/[\w-]{43}$/);
  const token = path.split('/')[2] as string;
  t.notMatch((await owner.get(people)).text, token, 'the list does not show it');
  const [row] =
    await sql`select to_jsonb(i) as all from invitations i where digest = sha256(${token}::bytea)`;
  t.ok(row, 'the digest is stored');
  t.notMatch(JSON.stringify(row), token);

  const visitor = new Person(office.adminUrl);
  const page = await visitor.get(path);
  t.match(page.text, /Join Nordlicht Verlag.*nina@customer\.example/s);
  t.equal(page.headers.get('referrer-policy'), 'same-origin');
  t.equal(page.headers.get('cache-control'), 'no-store');
  const short = await join(path, 'too short');
  t.equal(short.status, 422);
  t.match(short.text, '<title>Error: Invitation');
  t.match(short.text, '>Password must have at least 12 characters');
  const { person, headers } = await join(path, 'a password of her own');
  t.equal(headers.get('location'), `/companies/${customer.company}/keys?done=joined`);
  const first = await person.get(headers.get('location') as string);
  t.match(
    first.text,
    /<details class="card create" id="create" open>.*Create key/s,
    'the form of a key is open',
  );
  t.match((await person.get('/account')).text, /nina@customer\.example.*administrator/s);
  t.equal(
    (await new Person(office.adminUrl).signIn('nina@customer.example', 'a password of her own'))
      .status,
    303,
  );

  const second = await join(path, 'another long password');
  t.equal(second.status, 404, 'it works once');
  t.match(second.text, 'This invitation has ended');
  t.equal((await visitor.get(path)).status, 404);
  const actors =
    await sql`select actor, action, subject from audit_log where coalesce(after, before) ->> 'email' = 'nina@customer.example' order by id`;
  t.same(
    actors.map(({ actor, action, subject }) => `${actor} ${action} ${subject}`),
    [
      'owen@customer.example insert invitations',
      'nina@customer.example delete invitations',
      'nina@customer.example insert users',
    ],
  );
  t.notMatch(JSON.stringify(await sql`select * from audit_log`), token);
  t.notMatch(office.logged.join(''), token, 'nor does any log have it');
});

t.test(
  'a member who joins is led to the start, and two who press the button at once make one account',
  async (t) => {
    const path = await invite('max@customer.example', 'member');
    const both = await Promise.all([join(path), join(path)]);
    t.same(both.map(({ status }) => status).sort(), [303, 404]);
    t.equal(both.find(({ status }) => status === 303)?.headers.get('location'), '/');
  },
);

t.test('a link ends: withdrawn, renewed, after a week, with its company', async (t) => {
  const withdrawn = await invite('w@customer.example');
  t.equal(
    (
      await owner.post(
        `/companies/${customer.company}/invitations/${await idOf('w@customer.example')}/withdraw`,
      )
    ).status,
    303,
  );
  t.equal((await join(withdrawn)).status, 404);

  const old = await invite('r@customer.example');
  const renewal = await owner.post(
    `/companies/${customer.company}/invitations/${await idOf('r@customer.example')}/renew`,
  );
  const fresh = new URL(linkIn(renewal.text)).pathname;
  t.not(fresh, old);
  t.equal((await join(old)).status, 404);
  await sql`update invitations set expires_at = now() - interval '1 second' where email = 'r@customer.example'`;
  t.equal((await join(fresh)).status, 404, 'expired');
  t.match((await owner.get(people)).text, 'has ended');
  const [span] =
    await sql`select expires_at - created_at = interval '7 days' as week from invitations where email = 'r@customer.example'`;
  t.equal(span?.week, false, 'the test moved it');
  await owner.post(
    `/companies/${customer.company}/invitations/${await idOf('r@customer.example')}/renew`,
  );
  const [whole] =
    await sql`select expires_at - created_at = interval '7 days' as week from invitations where email = 'r@customer.example'`;
  t.equal(whole?.week, true);
});

t.test(
  'who has an account, or is invited already, is refused; of another company nothing is told',
  async (t) => {
    const { company: other } = await office.newCustomer();
    await sql`update companies set name = 'Secret Rival' where id = ${other}`;
    await sql`insert into users (email, company_id, role) values ('spy@rival.example', ${other}, 'owner')`;
    const refusals = [];
    for (const email of ['spy@rival.example', office.people.member, office.people.operator]) {
      const { status, text } = await owner.post(people, { email, role: 'member' });
      t.equal(status, 422);
      t.notMatch(text, 'Secret Rival');
      refusals.push(/role="alert"[^>]*>([^<]+)</.exec(text)?.[1]?.replace(email, 'X'));
    }
    t.same(
      new Set(refusals),
      new Set(['X cannot be invited: the address has an account already. Choose another address.']),
    );
    await invite('twice@customer.example');
    t.match(
      (await owner.post(people, { email: 'TWICE@customer.example', role: 'member' })).text,
      'is invited already',
    );
    t.equal(
      (await owner.post(people, { email: 'x@customer.example', role: 'operator' })).status,
      422,
    );
    t.equal((await owner.post(people, { email: 'nonsense', role: 'member' })).status, 422);

    // invited here and there: whoever is first
    await sql`insert into invitations (company_id, email, role, digest, expires_at)
    values (${other}, 'both@customer.example', 'owner', sha256('there'), now() + interval '1 day')`;
    const path = await invite('both@customer.example');
    await sql`insert into users (email, company_id, role) values ('both@customer.example', ${other}, 'owner')`;
    const late = await join(path);
    t.equal(late.status, 409);
    t.match(late.text, 'There is a user both@customer.example already');
  },
);

const guarded = await startOffice(t, { ADMIN_PROXIES: '1' });

t.test('guesses are throttled like wrong passwords, and a good link with them', async (t) => {
  const guess = (address: string) =>
    new Person(guarded.adminUrl).get(`/invitation/${crypto.randomUUID()}-${'x'.repeat(6)}`, {
      'x-forwarded-for': address,
    });
  for (let i = 0; i < 30; i++) t.equal((await guess('198.51.100.1')).status, 404);
  const { status, headers } = await guess('198.51.100.1');
  t.equal(status, 429);
  t.ok(Number(headers.get('retry-after')) > 800);
  t.equal((await guess('198.51.100.2')).status, 404, 'from elsewhere it is open');
});

t.test('a company cannot send a flood of invitations', async (t) => {
  const person = await signedIn(guarded, 'owner');
  const path = `/companies/${guarded.customer.company}/users`;
  const csrf = await person.csrf();
  for (let i = 0; i < 30; i++)
    await person.post(path, { csrf, email: `n${i}@customer.example`, role: 'member' });
  const { status, text } = await person.post(path, {
    csrf,
    email: 'more@customer.example',
    role: 'member',
  });
  t.equal(status, 422);
  t.match(text, /many invitations in a short time. Try again in 15 minutes/);
  const [first] = await guarded.sql`select id from invitations limit 1`;
  const renewal = await person.post(
    `/companies/${guarded.customer.company}/invitations/${first?.id}/renew`,
    { csrf },
  );
  t.match(renewal.text, /many invitations in a short time/);
  t.equal((await guarded.sql`select from invitations`).length, 30);
});

t.test('where e-mails are set up the link is sent, and only below ADMIN_URL', async (t) => {
  const mailbox = await startMailbox(t);
  const mail = { SMTP_URL: mailbox.url, ALERT_FROM: 'gate@tollgate.example' };
  const sending = await startOffice(t, {
    ...mail,
    ADMIN_URL: 'http://admin.example.com',
    BILLING_TIMEZONE: 'Pacific/Auckland',
  });
  await sending.sql`update companies set name = ${'Evil\r\nBcc: all@example.com'} where id = ${sending.customer.company}`;
  const person = await signedIn(sending, 'owner');
  const path = `/companies/${sending.customer.company}/users`;
  const page = await person.post(path, { email: 'far@customer.example', role: 'owner' });
  t.match(page.text, 'on its way');
  const link = linkIn(page.text);
  t.match(link, /^http:\/\/admin\.example\.com\/invitation\/[\w-]{43}$/);
  const [sent] = await until(
    async () => mailbox.mails,
    'the e-mail is there',
    (mails) => mails.length === 1,
  );
  t.same(sent?.to, ['far@customer.example']);
  const text = sent?.text.replaceAll('=\r\n', '').replaceAll('=3D', '=');
  t.match(text, link);
  t.match(
    text?.replace(/\r?\n/g, ' '),
    /It works once, until \d{1,2} \w+ \d{4} at \d\d:\d\d \(Pacific\/Auckland\), and for you alone/,
  );
  t.match(
    text?.replace(/\r?\n/g, ' '),
    `${sending.people.owner} invites you to Evil`,
    'a stranger’s link would be ignored',
  );
  t.notMatch(text, /^Bcc:/m);
  const operator = await signedIn(sending, 'operator');
  await operator.post(path, { email: 'second@customer.example', role: 'owner' });
  const [, byOperator] = await until(
    async () => mailbox.mails,
    'the second e-mail is there',
    (mails) => mails.length === 2,
  );
  t.match(byOperator?.text, /You are invited to Evil/);
  t.notMatch(
    byOperator?.text,
    sending.people.operator,
    'companies do not know the addresses of operators',
  );
  for (const email of ['fay,boss@customer.example', 'ä@ö', 'jörg@customer.example'])
    t.equal(
      (await person.post(path, { email, role: 'member' })).status,
      422,
      'what a browser takes for no address',
    );
  mailbox.refuse('gone@customer.example');
  const failed = await person.post(path, { email: 'gone@customer.example', role: 'member' });
  t.match(failed.text, 'The e-mail could not be sent');
  t.match(linkIn(failed.text), '/invitation/', 'and the link is there to copy');
  t.notMatch(sending.logged.join(''), /gone@customer\.example|\/invitation\//);

  const nowhere = await startOffice(t, mail);
  const asked = await (await signedIn(nowhere, 'owner')).post(
    `/companies/${nowhere.customer.company}/users`,
    {
      email: 'far@customer.example',
      role: 'owner',
    },
  );
  t.match(asked.text, 'Give this link to');
  t.equal(mailbox.mails.length, 2);
});

t.test('an operator creates a company and invites its owner in one step', async (t) => {
  const operator = await signedIn(office, 'operator');
  const form = () => ({ id: randomUUID(), claim: randomBytes(32).toString('base64url') });
  const asked = { ...form(), name: 'Kranich', owner: 'karl@kranich.example' };
  const { text } = await operator.post('/companies/new', asked);
  const { headers } = await join(new URL(linkIn(text)).pathname);
  t.match(headers.get('location'), /^\/companies\/[\w-]+\/keys\?done=joined$/);
  const [row] =
    await sql`select c.name, role from users join companies c on c.id = company_id where email = 'karl@kranich.example'`;
  t.same(row, { name: 'Kranich', role: 'owner' });
  const taken = await operator.post('/companies/new', { ...asked, ...form(), name: 'Other' });
  t.equal(taken.status, 422);
  t.equal(
    (await sql`select from companies where name = 'Other'`).length,
    0,
    'and nothing half done',
  );
});
