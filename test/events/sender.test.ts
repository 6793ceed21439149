import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import t, { type Test } from 'tap';
import type { EventStore } from '../../src/domain/ports.ts';
import { emailSender } from '../../src/events/email.ts';
import { EventSender, type EventSenderOptions } from '../../src/events/sender.ts';
import { webhookSender } from '../../src/events/webhook.ts';
import { replayEvents, retryAlerts } from '../../src/operations/event.ts';
import { insertCompany } from '../../src/store/company/company.ts';
import { insertKey } from '../../src/store/company/key.ts';
import { actingAs } from '../../src/store/connection/acting-person.ts';
import type { Database, Sql } from '../../src/store/connection/pool.ts';
import { listAlerts } from '../../src/store/events/alert.ts';
import { eventStore } from '../../src/store/events/event.ts';
import { testDatabase } from '../support/postgres.ts';
import { type Mailbox, type Receiver, startMailbox, startReceiver } from '../support/receiver.ts';
import { until } from '../support/until.ts';
import { addUsage } from '../support/usage.ts';

/** Alerts on their way, from a real Postgres to a real HTTP receiver and a real mail server. */

const MS = 60_000;

interface Case {
  readonly db: Database;
  readonly receiver: Receiver;
  readonly mailbox: Mailbox;
  readonly logged: string[];
  /** Starts a sender, as one gateway has it. */
  sender(more?: Partial<EventSenderOptions>): EventSender;
  /** A company with an owner that has used 120 % of its budget. @returns its id */
  company(name: string): Promise<string>;
  /** Every delivery as "channel recipient state attempts error". */
  deliveries(): Promise<string[]>;
  /** Makes what waits due now. */
  hurry(): Promise<unknown>;
}

async function begin(t: Test): Promise<Case> {
  const { db } = await testDatabase(t);
  const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(MS, work);
  const receiver = await startReceiver(t);
  const mailbox = await startMailbox(t);
  const logged: string[] = [];
  const log = {
    warn: (fields: object, text: string) => void logged.push(`${text} ${JSON.stringify(fields)}`),
    info: (_fields: object, text: string) => void logged.push(text),
  };
  return {
    db,
    receiver,
    mailbox,
    logged,
    sender(more = {}) {
      const sender = new EventSender({
        store: eventStore(db, db),
        holder: randomUUID(),
        channels: { webhook: webhookTo(receiver), email: emailTo(mailbox) },
        operators: ['ops@tollgate.example'],
        everyMs: 30,
        quietEveryMs: 0,
        log,
        ...more,
      });
      t.teardown(() => sender.close());
      return sender;
    },
    async company(name) {
      const [row] = await run(
        (sql) =>
          sql`insert into companies (name, monthly_budget_eur) values (${name}, 100) returning id`,
      );
      await run(
        (sql) =>
          sql`insert into users (email, company_id, role) values (${`own@${row?.id}.example`}, ${row?.id}, 'owner')`,
      );
      await run(
        (sql) => sql`insert into chat_usage (company_id, cost_eur) values (${row?.id}, 120)`,
      );
      return row?.id;
    },
    async deliveries() {
      const rows = await run((sql) =>
        listAlerts(sql, { undelivered: false, company: null, limit: 100 }),
      );
      return rows
        .filter(({ channel }) => channel !== null)
        .map(({ channel, recipient, state, attempts, last_error }) =>
          [channel, recipient?.replace(/@.*/, ''), state, attempts, last_error ?? '']
            .join(' ')
            .trim(),
        )
        .sort();
    },
    hurry: () =>
      run(
        (sql) =>
          sql`update event_deliveries set next_attempt_at = '-infinity' where state = 'pending'`,
      ),
  };
}

function webhookTo({ url, secret }: Receiver, timeoutMs?: number) {
  return webhookSender(
    { url: new URL(url), secret: Buffer.from(secret.slice(6), 'base64') },
    null,
    timeoutMs,
  );
}

function emailTo({ url }: Mailbox, timeoutMs?: number) {
  const brand = {
    name: 'Tollgate',
    color: null,
    logo: null,
    support: null,
    imprint: null,
    privacy: null,
  };
  return emailSender(
    { url, from: 'tollgate@gate.example', pages: new URL('https://gate.example'), brand },
    timeoutMs,
  );
}

t.test('an alert reaches the webhook, the owner and the operators, once', async (t) => {
  const { receiver, mailbox, sender, company, deliveries } = await begin(t);
  const id = await company('Müller\r\nBcc: x@evil.example');
  const { counts } = sender();
  const done = ['email ops delivered 1', 'email own delivered 1', 'webhook  delivered 1'];
  await until(deliveries, 'all are delivered', (found) => `${found}` === `${done}`);
  const [hook] = receiver.received;
  t.match(hook, {
    type: 'budget.threshold',
    company: { id },
    key: null,
    threshold: '100',
    budget_eur: '100',
    spent_eur: '120',
  });
  const members =
    'budget_eur company forecast_eur id key month occurred_at spent_eur text threshold type';
  t.equal(
    Object.keys(JSON.parse(hook?.body as string))
      .sort()
      .join(' '),
    members,
    'as receivers know it',
  );
  t.equal(hook?.webhookId, hook?.id);
  t.ok(Math.abs(Date.now() / 1000 - (hook?.timestamp ?? 0)) < 60);
  t.same(mailbox.mails.map(({ to }) => to).sort(), [
    ['ops@tollgate.example'],
    [`own@${id}.example`],
  ]);
  t.same(receiver.forged, []);
  for (const { from, text: folded } of mailbox.mails) {
    const text = folded.replaceAll('\r\n ', ' ');
    t.equal(from, 'tollgate@gate.example');
    t.match(text, /^Subject: =\?UTF-8\?Q\?=5BTollgate=5D_M=C3=BCller__Bcc=3A_/m);
    t.notMatch(text, /^Bcc:/im, 'a name adds no line');
    t.match(text, new RegExp(`^Message-ID: +<${hook?.id}\\.[0-9a-f]{16}@gate\\.example>`, 'm'));
    t.match(text, /^Content-Type: text\/plain/m);
    t.match(text, /^Auto-Submitted: auto-generated/im);
  }
  await company('Later');
  const all = (found: readonly string[]) =>
    found.length === 6 && found.every((each) => / delivered 1$/.test(each));
  await until(deliveries, 'the next one is delivered too', all);
  t.equal(receiver.received.length, 2);
  t.same(counts, { webhook: { delivered: 2, failed: 0 }, email: { delivered: 4, failed: 0 } });
});

t.test(
  'the alert of a cost centre reaches the webhook and the company, once, however many gateways look',
  async (t) => {
    const { db, receiver, mailbox, sender } = await begin(t);
    const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(MS, work);
    const { id } = await run((sql) => insertCompany(sql, { name: 'ACME', language: 'de' }));
    await run(
      (sql) => sql`insert into users (email, company_id, role, language) values
    ('own@acme.example', ${id}, 'owner', 'en'), ('adm@acme.example', ${id}, 'administrator', null)`,
    );
    await run(
      (sql) => sql`
    insert into cost_center_budgets (company_id, name, monthly_budget_eur) values (${id}, 'R&D "Köln"', 10)`,
    );
    const month = (await run((sql) => sql`select billing_month(now())::text as month`))[0]?.month;
    const spend = (eur: number) =>
      run((sql) =>
        addUsage(sql, [
          {
            company: id,
            month,
            at: new Date().toISOString(),
            prompt: eur * 1000,
            input: '1',
            center: 'R&D "Köln"',
          },
        ]),
      );
    // whether the forecast passes the budget depends on the day on which this runs: it was told
    await run(
      (sql) => sql`
      insert into budget_alerts (company_id, cost_center, billing_month, threshold, budget_eur, spent_eur, superseded)
      values (${id}, 'R&D "Köln"', ${month}, 'forecast', 10, 0, true)`,
    );
    for (let gateway = 0; gateway < 2; gateway++) sender({ costCentersEveryMs: 0 });
    const reach = async (eur: number, mails: number) => {
      await spend(eur);
      await until(
        () => mailbox.mails,
        `${mails} messages`,
        ({ length }) => length === mails,
      );
    };
    await reach(6, 2);
    await reach(3, 4);
    await reach(3, 6);
    t.same(
      receiver.received.map(({ type, threshold }) => `${type} ${threshold}`),
      ['cost_center.threshold 50', 'cost_center.threshold 80', 'cost_center.threshold 100'],
    );
    const [hook] = receiver.received;
    t.match(hook, {
      company: { id, name: 'ACME' },
      cost_center: 'R&D "Köln"',
      budget_eur: '10',
      spent_eur: '6',
    });
    const members =
      'budget_eur company cost_center forecast_eur id month occurred_at spent_eur text threshold type';
    t.equal(
      Object.keys(JSON.parse(hook?.body as string))
        .sort()
        .join(' '),
      members,
      'as receivers know it',
    );
    const texts = (to: string) =>
      mailbox.mails
        .filter((mail) => mail.to.includes(to))
        .map(({ text }) => text.replaceAll(/=\r\n/g, ''));
    const [english, german] = ['own@acme.example', 'adm@acme.example'].map(
      (to) => texts(to)[0] as string,
    );
    t.match(
      english,
      /Cost centre =E2=80=9CR&D "K=C3=B6ln"=E2=80=9D of ACME has used 50 % of its budget/,
    );
    t.match(english, /Calls are not refused/);
    t.match(english, 'https://gate.example/companies/');
    t.match(english, `/usage?cost_center=3DR%26D+%22K%C3%B6ln%22&month=3D${month.slice(0, 7)}`);
    t.match(
      german,
      /Die Kostenstelle =E2=80=9ER&D "K=C3=B6ln"=E2=80=9C von ACME hat 50 % des Budgets/,
    );
    t.notMatch(texts('own@acme.example').join(), /\b402\b/);
    t.equal(
      (await run((sql) => sql`select from budget_alerts where cost_center is not null`)).length,
      4,
    );
    t.same(receiver.forged, []);
  },
);

t.test(
  'alerts of many keys that are reached together are one e-mail for each reader of a company',
  async (t) => {
    const { db, mailbox, receiver, sender, company } = await begin(t);
    const id = await company('ACME');
    await db.run(
      MS,
      (sql) => sql`
      with keys as (
        insert into api_keys (company_id, name, digest, prefix, scopes, monthly_budget_eur)
        select ${id}, 'key ' || n, sha256(n::text::bytea), 'svc_aaaa', '{chat}', 0.000001 from generate_series(1, 120) n returning id
      ), spent as (
        select id, row_number() over () as n from keys
      )
      insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens,
        completion_tokens, cost_eur, price_input, price_output, usage_source, outcome, occurred_at)
      select billing_month(now()), gen_random_uuid(), ${id}, id, 'fast', 'internal-name', 'chat.completions', 1, 0, 0.001, 1, 1,
        'upstream', 'completed', now() from spent`,
    );
    const { counts } = sender();
    await until(
      () => receiver.received.length,
      'programs are told one by one',
      (count) => count === 241, // and of 120 new keys
    );
    await until(
      () => mailbox.mails.length,
      'readers are told',
      (count) => count >= 2,
    );
    await until(
      () => db.run(MS, (sql) => sql`select from event_deliveries where state = 'pending'`),
      'all is delivered',
      ({ length }) => length === 0,
    );
    t.same(
      mailbox.mails.map(({ to }) => to).sort(),
      [['ops@tollgate.example'], [`own@${id}.example`]],
      'one for each',
    );
    for (const { text } of mailbox.mails) {
      t.match(text, /121 budget alerts for ACME/);
      for (const name of ['key 1', 'key 77', 'key 120'])
        t.ok(text.replaceAll('=\r\n', '').includes(name), name);
    }
    t.equal(counts.email.delivered, 2);
  },
);

t.test('where cost centres cannot be looked at, the other alerts go on', async (t) => {
  const { db, receiver, sender, company, logged } = await begin(t);
  let looks = 0;
  const store: EventStore = {
    ...eventStore(db, db),
    lookAtCostCenters: async () => {
      looks++;
      throw new Error('too long');
    },
  };
  sender({ store, costCentersEveryMs: 0 });
  await until(
    () => looks,
    'a second look',
    (count) => count > 1,
  );
  await company('ACME');
  await until(
    () => receiver.received,
    'the alert of the company',
    ({ length }) => length === 1,
  );
  t.match(logged[0], /^events: cannot look at cost centres .*too long/);
});

t.test(
  'a change of a key reaches the webhook alone; a replay sends the same under the same id',
  async (t) => {
    const { db, receiver, mailbox, sender } = await begin(t);
    const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(MS, work);
    sender();
    const { id: company_id } = await run((sql) => insertCompany(sql, { name: 'ACME' }));
    const asked = { company_id, name: 'Website', scopes: ['chat'] as const, created_by: 'cli' };
    const key = await actingAs(db, 'ann@acme.example', MS, (sql) => insertKey(sql, 'svc_', asked));
    await until(
      () => receiver.received,
      'it is posted',
      ({ length }) => length === 1,
    );
    const [hook] = receiver.received;
    t.match(hook, {
      type: 'key.created',
      webhookId: hook?.id,
      company: { id: company_id, name: 'ACME' },
      key: { id: key.id, name: 'Website', prefix: key.prefix },
      actor: 'ann@acme.example',
    });
    t.notOk(hook?.body.includes(key.key.slice(8)), 'without the text of the key');
    const delivered = () =>
      run((sql) => sql`select from event_deliveries where state = 'delivered'`);
    await until(delivered, 'that is written', ({ length }) => length === 1);
    t.equal(await run((sql) => replayEvents(sql, { id: hook?.id as string })), 1);
    await until(
      () => receiver.received,
      'it is posted again',
      ({ length }) => length === 2,
    );
    t.equal(receiver.received[1]?.body, hook?.body);
    t.equal(receiver.received[1]?.webhookId, hook?.webhookId);
    t.same(receiver.forged, []);
    t.same(mailbox.mails, []);
  },
);

t.test(
  'a receiver in trouble is asked again with growing pauses, under one id and with one body',
  async (t) => {
    const { db, receiver, sender, company, deliveries, hurry } = await begin(t);
    receiver.answer(500);
    await company('ACME');
    sender({ channels: { webhook: webhookTo(receiver) } });
    await until(deliveries, 'one failure', ([first]) => first === 'webhook  pending 1 status 500');
    const pauses: number[] = [];
    for (const [n, status] of [302, 404, 503].entries()) {
      const [row] = await db.run(
        MS,
        (sql) =>
          sql`select extract(epoch from next_attempt_at - now())::float8 as pause from event_deliveries`,
      );
      pauses.push(row?.pause);
      receiver.answer(status);
      await hurry();
      await until(
        deliveries,
        'another failure',
        ([first]) => first === `webhook  pending ${n + 2} status ${status}`,
      );
    }
    t.ok(
      pauses.every((pause, n) => n === 0 || pause > (pauses[n - 1] as number)),
      `${pauses} s`,
    );
    receiver.answer((res) => void res.destroy());
    await hurry();
    await until(deliveries, 'no answer', ([first]) => first === 'webhook  pending 5 ECONNRESET');
    receiver.answer(202);
    await hurry();
    await until(deliveries, 'it is taken', ([first]) => first === 'webhook  delivered 6');
    t.equal(receiver.received.length, 6);
    t.equal(new Set(receiver.received.map(({ webhookId }) => webhookId)).size, 1);
    t.equal(new Set(receiver.received.map(({ body }) => body)).size, 1);
  },
);

t.test('an endless answer and none at all end in time', async (t) => {
  const { receiver, sender, company, deliveries } = await begin(t);
  receiver.answer((res) => {
    res.writeHead(200);
    const flood = setInterval(() => res.write('x'.repeat(65_536)), 1);
    res.once('close', () => clearInterval(flood));
  });
  await company('ACME');
  const patient = sender({ channels: { webhook: webhookTo(receiver) } });
  await until(deliveries, 'the body does not count', ([first]) => first === 'webhook  delivered 1');
  await patient.close();
  receiver.answer(() => {});
  await company('Beta');
  sender({ channels: { webhook: webhookTo(receiver, 100) } });
  await until(deliveries, 'it is given up', (found) =>
    found.includes('webhook  pending 1 no answer in time'),
  );
});

t.test(
  'one mailbox that refuses keeps no other from its e-mail; server words stay out',
  async (t) => {
    const { mailbox, sender, company, deliveries } = await begin(t);
    mailbox.refuse('ops@tollgate.example');
    await company('ACME');
    sender({ channels: { email: emailTo(mailbox) } });
    const expected = ['email ops pending 1 EENVELOPE 550', 'email own delivered 1'];
    await until(deliveries, 'one arrives, one waits', (found) => `${found}` === `${expected}`);
  },
);

t.test('a wrong password and a dead mail server are told in a word', async (t) => {
  const { mailbox, sender, company, deliveries } = await begin(t);
  await company('ACME');
  const url = mailbox.url.replace('pa%3Ass', 'secret');
  const wrong = sender({ channels: { email: emailTo({ ...mailbox, url }) }, operators: [] });
  await until(deliveries, 'a failure', ([first]) => first === 'email own pending 1 EAUTH 535');
  await wrong.close();
  await company('Beta');
  sender({
    channels: { email: emailTo({ ...mailbox, url: 'smtp://127.0.0.1:1' }) },
    operators: [],
  });
  await until(deliveries, 'another', (found) => found.includes('email own pending 1 ESOCKET'));
});

t.test('a mail server that says nothing is given up in time', async (t) => {
  const { mailbox, sender, company, deliveries } = await begin(t);
  const silent = createServer().listen(0, '127.0.0.1');
  await once(silent, 'listening');
  t.teardown(() => silent.close());
  const { port } = silent.address() as AddressInfo;
  await company('ACME');
  sender({
    channels: { email: emailTo({ ...mailbox, url: `smtp://127.0.0.1:${port}` }, 200) },
    operators: [],
  });
  await until(deliveries, 'it is given up', ([first]) =>
    /^email own pending 1 (ETIMEDOUT|no answer in time)$/.test(first ?? ''),
  );
});

t.test('a mail server that looks at a message for seconds gets it once', async (t) => {
  const { mailbox, sender, company, deliveries } = await begin(t);
  mailbox.hold(sleep(5500)); // half of what a webhook has, and more
  await company('ACME');
  sender({ channels: { email: emailTo(mailbox) }, operators: [] });
  await until(
    deliveries,
    'an end',
    ([first]) => first !== 'email own pending 0' && first !== undefined,
  );
  t.same(await deliveries(), ['email own delivered 1']);
  t.equal(mailbox.mails.length, 1);
});

t.test('what failed for a day is given up, counted, and sent again when asked to', async (t) => {
  const { db, receiver, sender, company, deliveries, hurry, logged } = await begin(t);
  receiver.answer(500);
  await company('ACME');
  const own = sender({ channels: { webhook: webhookTo(receiver) } });
  for (let n = 1; n < 12; n++) {
    await until(
      deliveries,
      `${n} failures`,
      ([first]) => first === `webhook  pending ${n} status 500`,
    );
    await hurry();
  }
  await until(deliveries, 'it is dead', ([first]) => first === 'webhook  dead 12 status 500');
  t.match(logged, [/one could not be delivered .*"channel":"webhook","reason":"status 500"/]);
  await until(() => own.dead?.webhook === 1, 'it is counted');
  receiver.answer(200);
  t.equal(await db.run(MS, (sql) => retryAlerts(sql, null)), 1);
  await until(deliveries, 'it is delivered', ([first]) => first === 'webhook  delivered 1');
  t.equal(
    await db.run(MS, (sql) => retryAlerts(sql, null)),
    0,
    'what was delivered is not sent again',
  );
});

t.test('one of several gateways sends; the next takes over when it stops', async (t) => {
  const { receiver, sender, company, deliveries } = await begin(t);
  const senders = [sender(), sender(), sender()];
  const holders = () => senders.filter(({ dead }) => dead !== null);
  await until(holders, 'one looks', ({ length }) => length === 1);
  for (const [n, name] of ['A', 'B', 'C'].entries()) {
    await company(name);
    const all = (found: readonly string[]) =>
      found.length === 3 * (n + 1) && found.every((each) => / delivered 1$/.test(each));
    await until(deliveries, `${name} is delivered`, all);
    const [holder] = await until(holders, 'one looks', ({ length }) => length === 1);
    senders.splice(senders.indexOf(holder as EventSender), 1);
    await holder?.close();
  }
  t.same(
    receiver.received.map(({ company }) => company.name),
    ['A', 'B', 'C'],
  );
});

t.test(
  'without a channel budgets are looked at again when somebody saw spend, else only in a while',
  async (t) => {
    const { db, sender } = await begin(t);
    const store = eventStore(db, db);
    let looks = 0;
    const counted: typeof store = {
      ...store,
      look(...of) {
        looks++;
        return store.look(...of);
      },
    };
    const one = sender({ store: counted, channels: {}, quietEveryMs: 3_600_000 });
    await until(
      () => looks,
      'the first look',
      (count) => count === 1,
    );
    await sleep(300); // turns in which nothing happens tell nobody
    t.equal(looks, 1);
    one.spent();
    await until(
      () => looks,
      'another look',
      (count) => count === 2,
    );
  },
);

t.test('closing waits for the attempt on its way, and writes what became of it', async (t) => {
  const { receiver, sender, company, deliveries } = await begin(t);
  const asked = Promise.withResolvers<() => void>();
  receiver.answer((res) => asked.resolve(() => void res.writeHead(204).end()));
  await company('ACME');
  const stopping = sender({ channels: { webhook: webhookTo(receiver) } });
  const answer = await asked.promise;
  const closed = stopping.close();
  answer();
  await closed;
  t.same(await deliveries(), ['webhook  delivered 1']);
});

t.test(
  'an acknowledgement that cannot be written is written later, and the alert not sent twice',
  async (t) => {
    const { db, receiver, sender, company, deliveries } = await begin(t);
    const store = eventStore(db, db);
    let refusals = 2;
    const forgetful = {
      ...store,
      delivered: async (...given: Parameters<typeof store.delivered>) => {
        if (refusals-- > 0) throw new Error('the database is away');
        await store.delivered(...given);
      },
    };
    await company('ACME');
    sender({ channels: { webhook: webhookTo(receiver) }, store: forgetful });
    await until(deliveries, 'it is written', ([first]) => first === 'webhook  delivered 1');
    t.equal(receiver.received.length, 1);
  },
);

t.test('without a channel rows are written and nothing waits', async (t) => {
  const { db, sender, company, deliveries } = await begin(t);
  await company('ACME');
  sender({ channels: {} });
  await until(
    () => db.run(MS, (sql) => listAlerts(sql, { undelivered: false, company: null, limit: 10 })),
    'three rows',
    ({ length }) => length === 3,
  );
  t.same(await deliveries(), []);
});
