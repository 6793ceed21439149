import { randomUUID } from 'node:crypto';
import t from 'tap';
import { wordsOf } from '../../src/domain/language/language.ts';
import { addDays } from '../../src/domain/reports/day-range.ts';
import { mailOf } from '../../src/domain/wording/alert.ts';
import { eventText } from '../../src/domain/wording/event-text.ts';
import type { UnusualEvent } from '../../src/domain/wording/unusual.ts';
import { emailSender } from '../../src/events/email.ts';
import { EventSender } from '../../src/events/sender.ts';
import { webhookSender } from '../../src/events/webhook.ts';
import type { Sql } from '../../src/store/connection/pool.ts';
import { eventStore } from '../../src/store/events/event.ts';
import { testDatabase } from '../support/postgres.ts';
import { decodedBody, startMailbox, startReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';
import { addUsage } from '../support/usage.ts';

/** Jumps on their way: four gateways and a restart, a webhook, a mail, and what chats show. */

const MS = 60_000;
const PAGES = new URL('https://gate.example');
const BRAND = {
  name: 'Tollgate',
  color: null,
  logo: null,
  support: null,
  imprint: null,
  privacy: null,
};

t.test('each jump is one event, whatever the number of gateways and restarts', async (t) => {
  const { db } = await testDatabase(t);
  const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(MS, work);
  const receiver = await startReceiver(t);
  const mailbox = await startMailbox(t);
  const secret = Buffer.from(receiver.secret.slice(6), 'base64');
  const log = {
    warn: (fields: object, text: string) => t.fail(`${text} ${JSON.stringify(fields)}`),
    info: () => {},
  };
  const gateway = () =>
    new EventSender({
      store: eventStore(db, db),
      holder: randomUUID(),
      channels: {
        webhook: webhookSender({ url: new URL(receiver.url), secret }, PAGES),
        email: emailSender({
          url: mailbox.url,
          from: 'tollgate@gate.example',
          pages: PAGES,
          brand: BRAND,
        }),
      },
      operators: [],
      everyMs: 30,
      unusualEveryMs: 0,
      log,
    });
  const [{ today }] = await run(
    (sql) => sql<[{ today: string }]>`select (now() at time zone 'UTC')::date::text as today`,
  );
  const companies = Array.from({ length: 6 }, () => randomUUID());
  for (const id of companies) {
    await run((sql) => sql`insert into companies (id, name) values (${id}, ${`Bank ${id}`})`);
    await run(
      (sql) =>
        sql`insert into users (email, company_id, role, language) values (${`own@${id}.example`}, ${id}, 'owner', 'de')`,
    );
    const key = randomUUID();
    await run(
      (sql) =>
        sql`insert into api_keys (id, company_id, name, digest, prefix, scopes) values (${key}, ${id}, 'Notebook', sha256(${key}::text::bytea), 'svc_abcd', '{chat}')`,
    );
    const days = [0, 7, 14, 21, 28].map((back) => addDays(today, -back));
    // the last company is as usual
    const eur = (day: string) => (day === today && id !== companies[5] ? 81 : 1);
    await run((sql) =>
      addUsage(
        sql,
        days.map((day) => ({
          company: id,
          key,
          model: 'us-reasoner',
          month: `${day.slice(0, 7)}-01`,
          at: `${day}T00:00:00Z`,
          prompt: eur(day) * 1000,
          input: '1',
        })),
      ),
    );
  }
  const gateways = Array.from({ length: 4 }, gateway);
  const ofJumps = () => receiver.received.filter(({ type }) => type === 'unusual.spend');
  await until(ofJumps, 'the jumps are told', ({ length }) => length >= 5);
  await until(
    () => mailbox.mails,
    'and written',
    ({ length }) => length >= 5,
  );
  await Promise.all(gateways.map((each) => each.close()));
  // a further jump shows that everything was compared again
  await run((sql) =>
    addUsage(sql, [
      {
        company: companies[5] as string,
        model: 'fast',
        month: `${today.slice(0, 7)}-01`,
        at: `${today}T00:00:00Z`,
        prompt: 90_000,
        input: '1',
      },
    ]),
  );
  const restarted = Array.from({ length: 2 }, gateway); // a look rests by how long it took: those that run might not look again
  await until(ofJumps, 'the last one', ({ length }) => length >= 6);
  await Promise.all(restarted.map((each) => each.close()));
  t.same(
    ofJumps()
      .map(({ company }) => company.id)
      .sort(),
    [...companies].sort(),
    'one each',
  );
  t.equal(new Set(receiver.received.map(({ id }) => id)).size, receiver.received.length);
  t.same(receiver.forged, []);
  const [first] = ofJumps().filter(({ company }) => company.id === companies[0]);
  const body = JSON.parse(first?.body as string) as UnusualEvent & { text: string };
  t.match(body, {
    subject: 'company',
    model: 'us-reasoner',
    key: { name: 'Notebook' },
    value: '81',
    usual: '1',
    day: today,
  });
  t.match(
    body.text,
    /^Bank [\da-f-]+: €81\.00 today by \d\d:\d\d, €1\.00 by then on other [A-Z][a-z]+days; key “Notebook”, us-reasoner https:\/\/gate\.example\/companies\/[\da-f-]+\/usage\?from=/,
  );
  const mail = mailbox.mails.find(({ to }) => to[0]?.includes(companies[0] as string));
  t.match(decodedBody(mail?.text ?? ''), /heute bis \d\d:\d\d 81,00/);
});

t.test('a chat is sent what it shows', async (t) => {
  const event = {
    id: '5f0c0000-0000-4000-8000-000000000000',
    company: { id: '7d9c0000-0000-4000-8000-000000000000', name: 'Quartz\nBank' },
    key: {
      id: '91b20000-0000-4000-8000-000000000000',
      name: 'Data science notebook',
      prefix: 'svc_m4qx',
    },
    subject: 'company',
    model: 'us-reasoner',
    day: '2026-11-28',
    until: '14:20',
    occurred_at: '2026-11-28T13:20:00.000Z',
  } as const;
  const of = (type: string, value: string, usual: string) => ({ ...event, type, value, usual });
  const posted = async (format: 'event' | 'text' | 'teams', each: object) => {
    const receiver = await startReceiver(t);
    const secret = Buffer.from(receiver.secret.slice(6), 'base64');
    await webhookSender({ url: new URL(receiver.url), secret, format }, PAGES)([each as never], {
      recipient: '',
      language: null,
      outsider: null,
    });
    return JSON.parse(receiver.received[0]?.body as string);
  };
  const text =
    'Quartz Bank: €81.00 today by 14:20, €1.00 by then on other Saturdays; key “Data science notebook”, us-reasoner';
  const spend = of('unusual.spend', '81', '1');
  const link = `https://gate.example/companies/${event.company.id}/usage?from=2026-11-28&to=2026-11-28&key=${event.key.id}&model=us-reasoner`;
  t.same(await posted('text', spend), { text: `${text} ${link}` });
  t.same(await posted('event', spend), { ...spend, text: `${text} ${link}` });
  t.match(await posted('teams', spend), {
    type: 'message',
    attachments: [{ content: { body: [{ text: `${text} ${link}` }] } }],
  });
  const refused = `https://gate.example/companies/${event.company.id}/requests?from=2026-11-28T00%3A00&status=refused&key=${event.key.id}&model=us-reasoner`;
  t.equal(
    (await posted('text', of('unusual.refused', '345', '2'))).text,
    `Quartz Bank: 345 refused requests today by 14:20, 2 by then on other Saturdays; key “Data science notebook”, us-reasoner ${refused}`,
  );
  t.match(
    (await posted('text', of('unusual.latency', '12345.6', '1000'))).text,
    /: 12\.3\ss a request today by 14:20, 1\ss by then/,
  );
  t.match(
    (await posted('text', { ...event, type: 'key.revoked' })).text,
    /^Quartz Bank: key revoked, key “Data science notebook” https:.*\/keys\/91b2/,
  );
  t.match(
    (
      await posted('text', {
        ...event,
        type: 'budget.threshold',
        key: null,
        day: null,
        month: '2026-11',
        threshold: '80',
        budget_eur: '10',
        spent_eur: '8',
        forecast_eur: null,
      })
    ).text,
    /^Quartz Bank has used 80 % of its budget for November 2026 https:/,
  );
});

t.test('names mention nobody in a chat, and lead nowhere', async (t) => {
  const company = {
    id: '7d9c0000-0000-4000-8000-000000000000',
    name: '<!channel> @all [x](https://evil.example)\n',
  };
  const event = { id: '5', type: 'company.paused', company, occurred_at: '' };
  t.equal(
    eventText(event, wordsOf('en'), null),
    '‹!channel› @\u200ball [x] (https://evil.example) : company paused',
  );
});

t.test('a jump and a budget stand in one mail', async (t) => {
  const company = { id: '7d9c0000-0000-4000-8000-000000000000', name: 'Quartz Bank' };
  const jump: UnusualEvent = {
    id: 'a',
    type: 'unusual.failed',
    company,
    key: null,
    model: null,
    subject: 'company',
    day: '2026-11-28',
    until: '14:20',
    value: '40',
    usual: '0',
  };
  const budget = {
    id: 'b',
    company,
    key: null,
    month: '2026-11',
    threshold: '50',
    budget_eur: '10',
    spent_eur: '5',
    forecast_eur: null,
    occurred_at: '',
  };
  const en = mailOf([jump, budget], wordsOf('en'), BRAND, PAGES);
  t.match(en.subject, '2 alerts for Quartz Bank');
  t.match(
    en.text,
    /40 failed requests today by 14:20, 0 by then on other Saturdays\..*has used 50 % of its budget/s,
  );
  t.match(
    mailOf([jump], wordsOf('de'), BRAND, PAGES).text,
    /heute bis 14:20 40 fehlgeschlagene Anfragen, an anderen Samstagen bis dahin 0/,
  );
});
