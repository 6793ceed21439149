import t from 'tap';
import type { Role } from '../../../src/domain/user.ts';
import { until } from '../../support/until.ts';
import { newToken, send } from '../api/tokens.ts';
import {
  cheapHash,
  type Office,
  PASSWORD,
  type Page,
  Person,
  signedIn,
  startOffice,
  textOf,
} from '../people.ts';

/** The people of a company: who may name them, and what nobody can do by accident. */

async function newOffice() {
  const office = await startOffice(t);
  const base = `/companies/${office.customer.company}`;
  const idOf = async (email: string) =>
    (await office.sql`select id from users where email = ${email}`)[0]?.id as string;
  return { office, base, people: `${base}/users`, idOf };
}

async function addOwner({ sql, customer, adminUrl }: Office, email: string): Promise<Person> {
  await sql`insert into users (email, company_id, role, password_hash)
    values (${email}, ${customer.company}, 'owner', ${cheapHash(PASSWORD)})`;
  const person = new Person(adminUrl);
  await person.signIn(email);
  return person;
}

const { office, base, people, idOf } = await newOffice();
const { sql } = office;
const owner = await signedIn(office, 'owner');
const operator = await signedIn(office, 'operator');
const roleOf = async (email: string) =>
  (await sql`select role from users where email = ${email}`)[0]?.role as Role;

t.test(
  'the page lists the people of the company and nobody else, with their last sign-in',
  async (t) => {
    const { text } = await owner.get(people);
    for (const role of ['owner', 'administrator', 'member'] as const)
      t.match(text, office.people[role]);
    t.notMatch(text, office.people.operator);
    t.match(text, /mila@customer\.example.*not known/s);
    await signedIn(office, 'member');
    t.match(
      (await owner.get(people)).text,
      /mila@customer\.example(?:(?!<\/tr>).)*<time/s,
      'known after a sign-in',
    );
    const log =
      await sql`select from audit_log where after ? 'last_sign_in_at' and after ->> 'last_sign_in_at' is not null`;
    t.equal(log.length, 0, 'signing in is no entry of the audit log');
  },
);

t.test('administrators and members do not see the people, nor the links to them', async (t) => {
  const administrator = await signedIn(office, 'administrator');
  const { text } = await administrator.get(`${base}/keys`);
  t.notMatch(text, `${base}/users`);
  t.notMatch(text, `${base}/audit`);
  t.match(text, `${base}/settings`);
  t.equal((await administrator.get(people)).status, 403);
  const settings = await administrator.get(`${base}/settings`);
  t.match(settings.text, 'Set by the owners of the company');
  t.notMatch(settings.text, 'Save settings');
  const change = { budget: '7', allow_non_eu: 'true' };
  t.equal((await administrator.post(`${base}/settings`, change)).status, 403);
  const [row] =
    await sql`select monthly_budget_eur, allow_non_eu_models from companies where id = ${office.customer.company}`;
  t.same(row, { monthly_budget_eur: null, allow_non_eu_models: false });
});

t.test('an owner changes a role, which holds from the next page on', async (t) => {
  const { administrator } = office.people;
  const person = await signedIn(office, 'administrator');
  const path = `${people}/${await idOf(administrator)}`;
  t.match((await owner.get(path)).text, `Role of ${administrator}`);
  t.equal((await person.get(people)).status, 403);
  t.equal(
    (await owner.post(path, { role: 'owner' })).headers.get('location'),
    `${people}?done=saved`,
  );
  t.equal((await person.get(people)).status, 200);
  t.equal(
    (await owner.post(path, { role: 'operator' })).status,
    422,
    'nobody is made an operator here',
  );
  await owner.post(path, { role: 'administrator' });
  t.equal((await person.get(people)).status, 403);
});

t.test('nobody removes or demotes himself, and an owner not the last owner', async (t) => {
  const self = await idOf(office.people.owner);
  const removal = await owner.post(`${people}/${self}/remove`);
  t.equal(removal.status, 422);
  t.match(removal.text, 'You cannot remove yourself');
  t.match(
    (await owner.get('/account')).text,
    /When you leave it, one of its owners/,
    'the account says who can',
  );
  t.match(
    (await owner.post(`${people}/${self}`, { role: 'member' })).text,
    'You cannot change your own role',
  );

  // two owners who remove each other at once: the second one waits for the first
  const second = await addOwner(office, 'otto@customer.example');
  let answer: Promise<Page> | undefined;
  await sql.begin(async (first) => {
    await first`delete from users where email = 'otto@customer.example'`;
    answer = second.post(`${people}/${self}/remove`);
    const waits = () =>
      sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`;
    await until(async () => (await waits()).length > 0, 'the second one waits');
  });
  const { status, text } = (await answer) as Page;
  t.equal(status, 422);
  t.match(text, 'This is the last owner of the company');
  t.equal(await roleOf(office.people.owner), 'owner');
});

t.test('what a removed person made works on, and the question before says so', async (t) => {
  const leaving = await addOwner(office, 'leaving@customer.example');
  const made = await leaving.post(`${base}/tokens`, { name: 'Kept', access: 'write' });
  const token = /<pre[^>]* id="token"[^>]*>([^<]+)</.exec(made.text)?.[1];
  await leaving.post(people, { email: 'back-door@elsewhere.example', role: 'owner' });
  const path = `${people}/${await idOf('leaving@customer.example')}/remove`;
  t.match(
    (await owner.get(path)).text,
    'Keys of the company, administration tokens and open invitations that this user made keep working',
  );
  t.equal((await owner.post(path)).status, 303);
  const headers = { authorization: `Bearer ${token}` };
  t.equal((await fetch(`${office.adminUrl}/api/v1${base}`, { headers })).status, 200);
  t.match(
    (await owner.get(people)).text,
    'back-door@elsewhere.example',
    'the invitation is still there to be withdrawn',
  );
});

t.test(
  'whoever is removed is signed out at once, and asked about on a page of its own',
  async (t) => {
    const { member } = office.people;
    const person = await signedIn(office, 'member');
    const path = `${people}/${await idOf(member)}/remove`;
    const again = await signedIn(office, 'owner');
    t.match((await again.get(path)).text, `Remove ${member}?`);
    t.equal((await person.get('/account')).status, 200, 'asking removes nobody');
    t.equal((await again.post(path)).headers.get('location'), `${people}?done=removed`);
    t.equal(
      (await person.get('/account')).headers.get('location'),
      '/sign-in?next=%2Faccount&done=ended',
    );
    t.equal(
      (await again.post(path)).headers.get('location'),
      `${people}?done=removed`,
      'sent twice',
    );
  },
);

t.test('an operator may take away the last owner', async (t) => {
  const path = `${people}/${await idOf(office.people.owner)}`;
  t.equal((await operator.post(path, { role: 'administrator' })).status, 303);
  t.equal(await roleOf(office.people.owner), 'administrator');
  t.equal((await operator.post(`${path}/remove`)).status, 303);
  t.equal(await roleOf(office.people.owner), undefined);
});

t.test('of two operators who remove each other at once one stays', async (t) => {
  const { office: pair, idOf } = await newOffice();
  const [olga, otto] = [pair.people.operator, 'otto@tollgate.example'];
  await pair.sql`insert into users (email, role, password_hash) select ${otto}, role, password_hash from users where email = ${olga}`;
  const first = await signedIn(pair, 'operator');
  const second = new Person(pair.adminUrl);
  await second.signIn(otto);
  const paths = [`/users/${await idOf(otto)}/remove`, `/users/${await idOf(olga)}/remove`] as const;
  await Promise.all([first.csrf(), second.csrf()]);
  let both: ReturnType<typeof first.post>[] = [];
  await pair.sql.begin(async (sql) => {
    await sql`select from users where role = 'operator' for update`;
    both = [first.post(paths[0]), second.post(paths[1])];
    await until(
      () =>
        pair.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      'both wait',
      ({ length }) => length === 2,
    );
  });
  const answers = await Promise.all(both);
  t.same(answers.map(({ status }) => status).sort(), [303, 422]);
  t.match(answers.find(({ status }) => status === 422)?.text, 'This is the last operator');
  const [left, ...more] = await pair.sql`select id from users where role = 'operator'`;
  t.same(more, []);
  const token = await newToken(pair);
  const refused = await send(pair, token, ['DELETE', `/users/${left?.id}`]);
  t.match(
    refused,
    { status: 409, body: { detail: /^This is the last operator/ } },
    'and a program leaves it too',
  );
});

t.test('people of another company are not found', async (t) => {
  const mine = await newOffice();
  const { company } = await mine.office.newCustomer();
  await mine.office
    .sql`insert into users (email, company_id, role) values ('far@away.example', ${company}, 'member')`;
  const far = await mine.idOf('far@away.example');
  const person = await signedIn(mine.office, 'owner');
  t.equal((await person.get(`${mine.people}/${far}`)).status, 404);
  t.equal((await person.post(`${mine.people}/${far}`, { role: 'owner' })).status, 404);
  t.equal(
    (await person.post(`${mine.people}/${far}/remove`)).status,
    303,
    'as of somebody who was removed already',
  );
  t.ok(await mine.idOf('far@away.example'));
});

t.test(
  'owners stay below the ceilings that an operator sets, and the form says them',
  async (t) => {
    const mine = await newOffice();
    const person = await signedIn(mine.office, 'owner');
    const boss = await signedIn(mine.office, 'operator');
    const settings = `${mine.base}/settings`;
    const row = async () =>
      (
        await mine.office
          .sql`select monthly_budget_eur::float8 as budget, allow_non_eu_models as non_eu, credit_limit_eur::float8 as "limit",
      eu_locked as locked from companies where id = ${mine.office.customer.company}`
      )[0];
    await person.post(settings, { budget: '800', allow_non_eu: 'true' });
    for (const wrong of ['0', '0.00', '-1', 'much']) {
      t.equal(
        (await boss.post(`${mine.base}/ceilings`, { credit_limit: wrong })).status,
        422,
        wrong,
      );
    }
    t.equal((await person.post(`${mine.base}/ceilings`, { credit_limit: '9000' })).status, 403);
    t.equal((await boss.post(`${mine.base}/ceilings`, { strict: 'true' })).status, 303);
    t.match(
      (await person.get(`${mine.base}/settings`)).text,
      'The budget is strict',
      'owners read why a call may get 402',
    );
    t.equal(
      (await boss.post(`${mine.base}/ceilings`, { credit_limit: '500', eu_locked: 'true' })).status,
      303,
    );
    t.same(
      await row(),
      { budget: 800, non_eu: true, limit: 500, locked: true },
      'what the company chose stays',
    );

    const { text } = await person.get(settings, { 'accept-language': 'en' });
    t.match(text, /at most €?500/);
    t.match(text, 'The budget is above the credit limit, which applies');
    t.match(text, 'has locked the EU gate');
    t.notMatch(text, /name="allow_non_eu"|Save these limits/);
    const refused = await person.post(settings, { budget: '500.01' });
    t.equal(refused.status, 422);
    t.match(
      refused.text,
      'Monthly budget in EUR must be at most 500, the credit limit of the company.',
    );
    t.equal((await person.post(settings, { budget: '400', allow_non_eu: 'true' })).status, 422);
    t.equal(
      (await person.post(settings, { budget: '800.0' })).status,
      303,
      'what was above it before may stay',
    );
    t.same(await row(), { budget: 800, non_eu: true, limit: 500, locked: true });
    for (const budget of ['500', '', '0', '12'])
      t.equal((await person.post(settings, { budget })).status, 303, budget);
    t.match(textOf((await boss.get('/companies', { 'accept-language': 'en' })).text), /of €12\.00/);
    await boss.post(`${mine.base}/ceilings`, { credit_limit: '' });
    t.same(await row(), { budget: 12, non_eu: true, limit: null, locked: false });
  },
);
