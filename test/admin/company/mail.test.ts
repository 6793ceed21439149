import t from 'tap';
import { openDatabase, type Sql } from '../../../src/store/connection/pool.ts';
import { decodedBody, type Mail, startMailbox } from '../../support/receiver.ts';
import { until } from '../../support/until.ts';
import { addUsage } from '../../support/usage.ts';
import { PASSWORD, Person, signedIn, startOwnOffice } from '../people.ts';

/** In which language people get e-mails, and the summary of a closed month. */

const mailbox = await startMailbox(t);
const office = await startOwnOffice(t, {
  SMTP_URL: mailbox.url,
  ALERT_FROM: 'gate@tollgate.example',
  ADMIN_URL: 'http://admin.example.com',
});
const { sql, people, customer } = office;
const { company } = customer;
const db = openDatabase({ url: office.databaseUrl, maxConnections: 1 });
t.teardown(() => db.close());
const GERMAN = { 'accept-language': 'de-DE,de;q=0.9' };

const mailTo = (email: string, text: RegExp): Promise<Mail | undefined> =>
  until(
    async () =>
      mailbox.mails.find((mail) => mail.to.includes(email) && text.test(decodedBody(mail.text))),
    `an e-mail to ${email}: ${text}`,
    Boolean,
  );

/** Signs in with a browser of this language, in which nobody chooses one on a page. */
async function signIn(email: string, headers: Record<string, string>): Promise<Person> {
  const person = new Person(office.adminUrl);
  await person.send('/sign-in', { email, password: PASSWORD }, headers);
  return person;
}

const languageOf = async (email: string) =>
  (await sql`select page_language from users where email = ${email}`)[0]?.page_language;

t.test(
  'a person gets e-mails in the language of the first page, until somebody chooses another',
  async (t) => {
    await signIn(people.owner, GERMAN);
    await signIn(people.owner, { 'accept-language': 'en' });
    await signIn(people.operator, GERMAN);
    t.equal(await languageOf(people.owner), 'de', 'that of the first sign-in');
    t.equal(await languageOf(people.operator), null, 'pages of operators are in English');
    const member = await signedIn(office, 'member');
    await member.post('/account/erasure');
    const mail = await mailTo(people.owner, /bittet um Löschung|bittet darum/);
    t.match(mail?.html, /<html lang="de.*Antrag prüfen<\/a>/s);

    const path = '/account/password';
    const owner = await signIn(people.owner, GERMAN);
    await sql`update companies set language = 'en' where id = ${company}`;
    await owner.post(path, { current: PASSWORD, new: PASSWORD });
    await mailTo(people.owner, /The password of your account was changed/);
    await sql`update companies set language = null where id = ${company}`;
    await owner.post('/language', { language: 'de', back: '/account' });
    await sql`update companies set language = 'en' where id = ${company}`;
    await owner.post(path, { current: PASSWORD, new: PASSWORD });
    await mailTo(people.owner, /Das Passwort Ihres Kontos wurde geändert/);
    await sql`update companies set language = null where id = ${company}`;
  },
);

t.test('who joins keeps the language of the invitation’s page', async (t) => {
  const owner = await signIn(people.owner, GERMAN);
  await owner.post(
    `/companies/${company}/users`,
    { email: 'neu@customer.example', role: 'member' },
    GERMAN,
  );
  const mail = await mailTo('neu@customer.example', /eingeladen/);
  const path = /\/invitation\/[\w-]{43}/.exec(decodedBody(mail?.text ?? ''))?.[0] as string;
  await new Person(office.adminUrl).send(path, { password: PASSWORD }, GERMAN);
  t.equal(await languageOf('neu@customer.example'), 'de');
});

t.test('an outsider is asked and told in the language of who adds the address', async (t) => {
  const alerts = `/companies/${company}/alerts`;
  const fields = { percents: '50', forecast: '' };
  const owner = await signIn(people.owner, GERMAN);
  await owner.send(alerts, { ...fields, email: 'buch@kanzlei.example' }, GERMAN);
  const mail = await mailTo('buch@kanzlei.example', /möchte Ihnen Budgethinweise/);
  const path = /\/alert-receiver\/confirm\/[\w-]{43}/.exec(
    decodedBody(mail?.text ?? ''),
  )?.[0] as string;
  await new Person(office.adminUrl).post(path);
  await sql`update companies set monthly_budget_eur = 10 where id = ${company}`;
  await sql`insert into chat_usage (company_id, occurred_at, cost_eur) values (${company}, now(), 6)`;
  const told = await mailTo('buch@kanzlei.example', /hat 50 % des Budgets .*abbestellen/s);
  t.notMatch(told?.raw, '/usage?', 'its reader cannot sign in');

  const operator = await signedIn(office, 'operator');
  await operator.post(alerts, { ...fields, email: 'one@books.example' });
  await mailTo('one@books.example', /wants to send you/);
  await sql`update companies set language = 'de' where id = ${company}`;
  await operator.post(alerts, { ...fields, email: 'two@books.example' });
  await mailTo('two@books.example', /möchte Ihnen Budgethinweise/);
  await sql`update companies set language = null where id = ${company}`;
});

t.test('a closed month is summed up for owners, and for administrators who want it', async (t) => {
  const rows = [
    { company, month: '2026-01-01', prompt: 1000, input: '1.5', model: 'small' },
    { company, month: '2026-02-01', prompt: 1000, input: '2', model: 'small' },
    { company, month: '2026-02-01', prompt: 1000, input: '40', model: 'large' },
  ];
  await db.run(60_000, (each: Sql) => addUsage(each, rows as never));
  const operator = await signedIn(office, 'operator');
  const close = `/companies/${company}/statements/month`;
  t.match((await operator.get(`${close}?month=2026-01`)).text, /name="mail" value="true">/);
  t.equal((await operator.post(close, { month: '2026-01' })).status, 303);
  t.equal(
    (
      await sql`select from event_deliveries d join events e on e.id = event_id where e.kind = 'statement.closed' and channel = 'email'`
    ).length,
    0,
    'not asked for',
  );

  const administrator = await signIn(people.administrator, {});
  t.notMatch((await administrator.get('/account')).text, /name="summary" value="true" checked/);
  t.equal((await administrator.post('/account/mails', { summary: 'true' })).status, 303);
  t.match((await administrator.get('/account')).text, /name="summary" value="true" checked/);
  t.notMatch((await (await signedIn(office, 'member')).get('/account')).text, 'name="summary"');
  await sql`insert into users (email, company_id, role, monthly_summary) values ('no@customer.example', ${company}, 'owner', false)`;
  t.equal((await operator.post(close, { month: '2026-02', mail: 'true' })).status, 303);
  const german = await mailTo(
    people.owner,
    /Die Abrechnung von Nordlicht Verlag für Februar 2026 liegt vor/,
  );
  const text = decodedBody(german?.text ?? '').replaceAll('\r', '');
  t.match(text, /Gesamtbetrag: 42,00\s€\nVormonat: 1,50\s€\nAufrufe: 2\n/);
  t.match(text, /large: 40,00\s€\nsmall: 2,00\s€\n/);
  t.match(text, `http://admin.example.com/companies/${company}/statements/month?month=2026-02\n`);
  t.match(text, 'http://admin.example.com/account\n');
  const told = await mailTo(
    people.administrator,
    /The statement of Nordlicht Verlag for February 2026 is ready/,
  );
  t.match(
    decodedBody(told?.text ?? ''),
    `/companies/${company}/usage?month=2026-02`,
    'which administrators can open',
  );
  const receivers = await sql`
    select recipient from event_deliveries d join events e on e.id = event_id where e.kind = 'statement.closed' and channel = 'email' order by 1`;
  t.same(
    [...receivers],
    [{ recipient: people.administrator }, { recipient: people.owner }],
    'who wants none gets none',
  );
});
