import t from 'tap';
import { cheapHash, PASSWORD, Person, startOffice } from '../people.ts';

/** A browser in which somebody signed in before has attempts of its own: strangers lock nobody out of it. */

const office = await startOffice(t, { ADMIN_URL: 'https://admin.example.com', ADMIN_PROXIES: '1' });
const { owner, operator } = office.people;

/** Long enough for a queue to form: dozens of requests come meanwhile. */
const SLOW = cheapHash(PASSWORD, 15);

/** People with passwords that are slow to check. @returns their e-mail addresses */
async function slowPeople(name: string, count: number): Promise<string[]> {
  const emails = Array.from({ length: count }, (_, i) => `${name}${i}@example.com`);
  await office.sql`
    insert into users (email, company_id, role, password_hash)
    select email, ${office.customer.company}, 'member', ${SLOW} from unnest(${emails}::text[]) as email`;
  return emails;
}

function attempt(person: Person, email: string, password: string, address: string) {
  return person.post('/sign-in', { email, password }, { 'x-forwarded-for': address });
}

/** A hundred wrong passwords from twenty addresses, which close an account to everybody. */
async function lockOut(email: string): Promise<void> {
  for (let i = 0; i < 100; i++)
    await attempt(new Person(office.adminUrl), email, 'wrong', `198.51.100.${i % 20}`);
  t.equal((await attempt(new Person(office.adminUrl), email, PASSWORD, '192.0.2.1')).status, 429);
}

const usual = new Person(office.adminUrl);
const { setCookies } = await attempt(usual, owner, PASSWORD, '192.0.2.1');

t.test('the cookie is for this host alone, tells nothing, and is kept for a year', async (t) => {
  t.match(
    setCookies[1],
    /^__Host-tollgate-known=[\w-]{22}\.[\w-]{43}; Max-Age=31536000; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
  );
});

t.test('strangers from many networks do not lock people out of the browser they use', async (t) => {
  await usual.post('/sign-out');
  await lockOut(owner);
  t.equal((await attempt(usual, owner, PASSWORD, '192.0.2.1')).status, 303);
});

t.test(
  'such a browser is for its own account, and guesses no more often than an address',
  async (t) => {
    const chosen = 'a new long password';
    await office.sql`update users set password_hash = ${cheapHash(chosen)} where email = ${operator}`;
    await lockOut(operator);
    t.equal((await attempt(usual, operator, chosen, '192.0.2.2')).status, 429);
    const made = new Person(office.adminUrl);
    made.cookies.set('__Host-tollgate-known', `${'a'.repeat(22)}.${'b'.repeat(43)}`);
    t.equal(
      (await attempt(made, owner, PASSWORD, '192.0.2.3')).status,
      429,
      'a cookie that somebody made up',
    );
    for (let i = 0; i < 5; i++)
      t.equal((await attempt(usual, owner, 'wrong', `192.0.2.${10 + i}`)).status, 401);
    t.equal((await attempt(usual, owner, PASSWORD, '192.0.2.20')).status, 429, 'wherever it is');
  },
);

t.test('a new password ends it everywhere but where it was chosen', async (t) => {
  const { administrator } = office.people;
  const [here, there] = [new Person(office.adminUrl), new Person(office.adminUrl)];
  for (const person of [here, there]) await attempt(person, administrator, PASSWORD, '192.0.2.4');
  await lockOut(administrator); // before: a real hash takes long
  const chosen = 'a new long password';
  await here.post('/account/password', { current: PASSWORD, new: chosen });
  t.equal((await attempt(here, administrator, chosen, '192.0.2.4')).status, 303);
  t.equal((await attempt(there, administrator, chosen, '192.0.2.4')).status, 429);
});

t.test(
  'a queue of guesses from many networks keeps nobody who is known waiting behind it',
  async (t) => {
    const { member } = office.people;
    const person = new Person(office.adminUrl);
    await attempt(person, member, PASSWORD, '192.0.2.5');
    const turnedAway = Promise.withResolvers<void>();
    const emails = await slowPeople('many', 20);
    const guesses = emails.map(async (email, i) => {
      const { status } = await attempt(
        new Person(office.adminUrl),
        email,
        'wrong',
        `203.0.113.${i}`,
      );
      if (status === 503) turnedAway.resolve();
    });
    await Promise.race([turnedAway.promise, Promise.all(guesses)]);
    t.equal((await attempt(person, member, PASSWORD, '192.0.2.5')).status, 303);
    await Promise.all(guesses);
  },
);

t.test('guesses from one block of IPv6 networks leave places to others', async (t) => {
  const turnedAway = Promise.withResolvers<void>();
  let refused = 0;
  const emails = await slowPeople('block', 24);
  const guesses = emails.map(async (email, i) => {
    const { status } = await attempt(
      new Person(office.adminUrl),
      email,
      'wrong',
      `2001:db8:7:${i + 1}::1`,
    );
    if (status === 503 && ++refused === 7) turnedAway.resolve(); // with a place for each network the queue is full now
  });
  await Promise.race([turnedAway.promise, Promise.all(guesses)]);
  t.equal(
    (await attempt(new Person(office.adminUrl), 'nobody@example.com', PASSWORD, '192.0.2.7'))
      .status,
    401,
  );
  await Promise.all(guesses);
});

t.test('many browsers of one account leave places to others', async (t) => {
  const [email] = (await slowPeople('greedy', 1)) as [string];
  const other = new Person(office.adminUrl);
  await attempt(other, office.people.member, PASSWORD, '192.0.2.5');
  const browsers = Array.from({ length: 5 }, () => new Person(office.adminUrl));
  for (const [i, browser] of browsers.entries())
    await attempt(browser, email, PASSWORD, `192.0.2.${100 + i}`);
  const turnedAway = Promise.withResolvers<void>();
  let refused = 0;
  const again = browsers.flatMap((browser) =>
    Array.from({ length: 5 }, async () => {
      const { status } = await attempt(browser, email, PASSWORD, '192.0.2.110');
      if (status === 503 && ++refused === 8) turnedAway.resolve(); // with a part of the queue for each browser it is full now
    }),
  );
  await Promise.race([turnedAway.promise, Promise.all(again)]);
  const own = [1, 2, 3].map(() => attempt(other, office.people.member, PASSWORD, '192.0.2.5'));
  for (const { status } of await Promise.all(own)) t.equal(status, 303);
  await Promise.all(again);
});
