import t from 'tap';
import { startMailbox } from '../../support/receiver.ts';
import { until } from '../../support/until.ts';
import { newToken, send } from '../api/tokens.ts';
import { cheapHash, PASSWORD, Person, signedIn, startOwnOffice, textOf } from '../people.ts';

/** A person asks to be erased; an owner does it, and sees what goes and what stays. */

const mailbox = await startMailbox(t);
const office = await startOwnOffice(t, {
  SMTP_URL: mailbox.url,
  ALERT_FROM: 'tollgate@example.com',
});
const { sql, people } = office;
const { company } = office.customer;
const base = `/companies/${company}/users`;
const owner = await signedIn(office, 'owner');
const idOf = async (email: string) =>
  (await sql`select id from users where email = ${email}`)[0]?.id as string;
const mailTo = (email: string, subject: RegExp) =>
  until(
    async () => mailbox.mails.find(({ to, text }) => to.includes(email) && subject.test(text)),
    `an e-mail to ${email}`,
    (mail) => mail !== undefined,
  );

t.test(
  'a person asks and takes it back; nothing is erased by it, and owners are told',
  async (t) => {
    const person = await signedIn(office, 'administrator');
    t.match(textOf(await person.get('/account/erasure')), /What goes .* What stays .*ledger/);
    t.equal(
      (await person.post('/account/erasure')).headers.get('location'),
      '/account/erasure?done=erasure-asked',
    );
    t.match((await mailTo(people.owner, /asks to be erased/))?.text, /ada@customer\.example/);
    t.match(textOf(await person.get('/account/erasure')), /You asked on/);
    t.match(textOf(await owner.get(base)), /ada@customer\.example asks to be erased/);
    t.match(
      textOf(await (await signedIn(office, 'operator')).get('/users')),
      /ada@customer\.example asks to be erased/,
    );
    await person.post('/account/erasure/withdraw');
    t.notMatch(textOf(await owner.get(base)), /asks to be erased/);
    t.equal((await person.get('/account')).status, 200);
    const entries =
      await sql`select actor from audit_log where subject_id = ${await idOf(people.administrator)} and action = 'update'`;
    t.same(
      entries.map(({ actor }) => actor),
      [people.administrator, people.administrator],
    );
    await person.post('/account/erasure');
  },
);

t.test('owners are told once, however often a person asks and takes it back', async (t) => {
  const person = await signedIn(office, 'administrator');
  for (let n = 0; n < 5; n++) {
    await person.post('/account/erasure');
    await person.post('/account/erasure');
    await person.post('/account/erasure/withdraw');
  }
  await person.post('/account/erasure');
  await (await signedIn(office, 'member')).post('/account/erasure');
  const askedBy = (email: string) =>
    mailbox.mails.filter(({ to, text }) => to.includes(people.owner) && text.includes(email))
      .length;
  await until(
    async () => askedBy(people.member),
    'the owner is told of the next person',
    (count) => count === 1,
  );
  t.equal(askedBy(people.administrator), 1);
});

t.test('the last owner cannot ask, and the last operator cannot', async (t) => {
  const asked = await owner.post('/account/erasure');
  t.equal(asked.status, 422);
  t.match(asked.text, /This is the last owner of the company/);
  const operator = await signedIn(office, 'operator');
  t.match((await operator.post('/account/erasure')).text, /This is the last operator/);
});

t.test('the page tells what goes and what stays, and wants the address typed', async (t) => {
  const ada = await signedIn(office, 'administrator');
  const key = { name: 'Website', scope: 'chat', id: crypto.randomUUID(), claim: 'A'.repeat(43) };
  await ada.post(`/companies/${company}/keys/create`, key);
  await office.customer.chat();
  const path = `${base}/${await idOf(people.administrator)}/erase`;
  const page = textOf(await owner.get(path));
  t.match(page, /ada@customer\.example asked for it on/);
  t.match(page, /in the audit log \(entries: \d+\) and elsewhere \(rows: \d+\), of this company/);
  t.match(page, /What stays .*The ledger, its sums, seals and statements, unchanged/);
  const wrong = await owner.post(path, { email: 'ada' });
  t.equal(wrong.status, 422);
  t.match(wrong.text, /The address of the person is ada@customer\.example/);
  t.ok(await idOf(people.administrator), 'nothing happened');
});

t.test(
  'an owner erases: account, address and sessions go, the ledger stays without the person',
  async (t) => {
    const ada = await signedIn(office, 'administrator');
    const ledger = () =>
      sql`select (select json_agg(u order by request_id) from api_usage u) as rows, (select json_agg(s) from monthly_spend s) as sums,
      (select json_agg(s order by writer, number) from ledger_seals s) as seals`;
    await until(async () => (await sql`select from api_usage`).length > 0, 'the call is booked');
    const before = JSON.stringify(await ledger());
    const keys = await sql`select id from api_keys where created_by = ${people.administrator}`;
    t.equal(keys.length, 1);
    const answer = await owner.post(`${base}/${await idOf(people.administrator)}/erase`, {
      email: ' ADA@customer.example ',
    });
    t.equal(answer.headers.get('location'), `${base}?done=erased`);
    t.equal((await ada.get('/account')).status, 303, 'signed out at once');
    t.equal((await new Person(office.adminUrl).signIn(people.administrator)).status, 401);
    const [{ all }] = await sql<
      [{ all: string }]
    >`select concat((select json_agg(a) from audit_log a), (select json_agg(k) from api_keys k),
    (select json_agg(u) from users u), (select json_agg(e) from events e)) as all`;
    t.notMatch(all, people.administrator);
    t.match(all, /person-[0-9a-f]{12}/);
    t.equal(JSON.stringify(await ledger()), before);
    const [key] = await sql`select created_by, revoked_at from api_keys where id = ${keys[0]?.id}`;
    t.match(key, { created_by: /^person-/, revoked_at: null });
    const [entry] = await sql`select actor, company_id from audit_log where action = 'erase'`;
    t.match(entry, { actor: people.owner, company_id: company });
    t.match((await mailTo(people.administrator, /Your account was erased/))?.text, /Nordlicht/);
  },
);

t.test(
  'the last owner is not erased by themselves, nor by another, also not at once',
  async (t) => {
    const own = `${base}/${await idOf(people.owner)}/erase`;
    const self = await owner.post(own, { email: people.owner });
    t.equal(self.status, 422);
    t.match(self.text, /You cannot erase yourself/);
    await sql`insert into users (email, company_id, role, password_hash) values
    ('otto@customer.example', ${company}, 'owner', ${cheapHash(PASSWORD)})`;
    const otto = new Person(office.adminUrl);
    await otto.signIn('otto@customer.example');
    const ottos = `${base}/${await idOf('otto@customer.example')}/erase`;
    await Promise.all([owner.csrf(), otto.csrf()]);
    await Promise.all([
      otto.post(own, { email: people.owner }),
      owner.post(ottos, { email: 'otto@customer.example' }),
    ]);
    const left =
      await sql`select email from users where company_id = ${company} and role = 'owner'`;
    t.equal(left.length, 1, 'of two owners who erase each other one is left');
  },
);

t.test('programs of the company keep the last owner, too', async (t) => {
  const token = await newToken(office, { company_id: company });
  const [{ id, email }] = await sql<[{ id: string; email: string }]>`
    select id, email from users where company_id = ${company} and role = 'owner'`;
  const at = `/companies/${company}/users/${id}`;
  t.match(await send(office, token, ['GET', `${at}/erasure`]), {
    status: 200,
    body: { persons: 1 },
  });
  const refused = await send(office, token, ['POST', `${at}/erase`], { email });
  t.match(refused, { status: 409, body: { detail: /last owner/ } });
  const other = await send(office, token, ['POST', `${at}/erase`], { email: 'x@y.example' });
  t.match(other, { status: 409, body: { detail: /give it to confirm/ } });
});
