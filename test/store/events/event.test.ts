import { randomUUID } from 'node:crypto';
import t, { type Test } from 'tap';
import { digestOf } from '../../../src/domain/key.ts';
import { closeCompany, reopenCompany } from '../../../src/operations/company-end.ts';
import { replayEvents } from '../../../src/operations/event.ts';
import { mintPlaygroundKey } from '../../../src/operations/key.ts';
import { insertCompany } from '../../../src/store/company/company.ts';
import { endKey, insertKey, replaceKey, updateKey } from '../../../src/store/company/key.ts';
import { actingAs } from '../../../src/store/connection/acting-person.ts';
import type { Database, Sql } from '../../../src/store/connection/pool.ts';
import { enterCompany } from '../../../src/store/connection/tenant-role.ts';
import { listAlerts } from '../../../src/store/events/alert.ts';
import {
  type EventFilter,
  type EventRow,
  eventStore,
  listEvents,
} from '../../../src/store/events/event.ts';
import { testDatabase } from '../../support/postgres.ts';

const MS = 60_000;
const ANN = 'ann@customer.example';
const ALL: EventFilter = { company: null, kind: null, since: null, state: null };
const FIRST = { after: null, limit: 100 };
const WEBHOOK = { webhook: true, email: false, operators: [] };
const NOBODY = { webhook: false, email: false, operators: [] };

async function begin(t: Test) {
  const { db } = await testDatabase(t);
  const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(MS, work);
  const asAnn = <T>(work: (sql: Sql) => Promise<T>) => actingAs(db, ANN, MS, work);
  const { id } = await run((sql) => insertCompany(sql, { name: 'ACME' }));
  const asked = { company_id: id, name: 'Website', scopes: ['chat'] as const, created_by: ANN };
  return { db, run, asAnn, company: id, asked, store: eventStore(db, db), list: listOf(db) };
}

function listOf(db: Database) {
  return (filter: Partial<EventFilter> = {}) =>
    db.run(MS, (sql) => listEvents(sql, { ...ALL, ...filter }, FIRST));
}

/** Their kinds, the oldest first. */
function kinds(rows: readonly EventRow[]): string[] {
  return rows.map(({ event }) => event.type).reverse();
}

/** An instant behind all that was written and before all that will be: the database counts microseconds. */
function nextMillisecond(): Date {
  const at = Date.now() + 1;
  while (Date.now() < at);
  return new Date(at);
}

t.test(
  'each change of a key is one event of its transaction, by whoever and however it is made',
  async (t) => {
    const { run, asAnn, company, asked, list } = await begin(t);
    const key = await asAnn((sql) => insertKey(sql, 'svc_', asked));
    await asAnn((sql) => updateKey(sql, key.id, { name: 'Shop', requests_per_minute: 5 }));
    await run((sql) => sql`update api_keys set last_used_at = now() where id = ${key.id}`);
    const [created, ...none] = await list();
    t.same(none, [], 'settings and use are none');
    t.match(created, { id: /-/, subject: key.id, deliveries: [] });
    t.same(created?.event, {
      id: created?.id,
      type: 'key.created',
      company: { id: company, name: 'ACME' },
      key: { id: key.id, name: 'Shop', prefix: key.prefix },
      scopes: ['chat'],
      purpose: null,
      expires_at: null,
      actor: ANN,
      occurred_at: created?.event.occurred_at,
    });
    t.match(created?.event.occurred_at, /^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

    const rotation = { id: key.id, company_id: null, created_by: ANN };
    const second = await asAnn((sql) => replaceKey(sql, 'svc_', { ...rotation, overlap: 3600 }));
    const third = await asAnn((sql) =>
      replaceKey(sql, 'svc_', { ...rotation, id: second.id, overlap: 0 }),
    );
    await run((sql) => endKey(sql, third.id));
    await run((sql) => endKey(sql, third.id));
    const rows = await list();
    t.same(kinds(rows), [
      'key.created',
      'key.rotated',
      'key.revoked',
      'key.rotated',
      'key.revoked',
    ]);
    const [last, atOnce, replaced, overlapped] = rows;
    t.match(overlapped?.event, {
      key: { id: second.id },
      old_key: { id: key.id, prefix: key.prefix, ends_at: /Z$/ },
    });
    const ends = (overlapped as EventRow).event.old_key as { ends_at: string };
    t.ok(Date.parse(ends.ends_at) > Date.now() + 3_000_000);
    t.match(replaced?.event, { type: 'key.revoked', key: { id: second.id }, actor: ANN });
    t.match(atOnce?.event, { key: { id: third.id }, old_key: { id: second.id, ends_at: /Z$/ } });
    t.match(
      last?.event,
      { key: { id: third.id }, actor: /^(?!ann@)/ },
      'by a role of the database',
    );

    const texts = JSON.stringify(rows);
    for (const { key: text } of [key, second, third]) {
      t.notOk(texts.includes(text.slice(8)), 'no text of a key');
      t.notOk(texts.includes(digestOf(text)), 'no digest');
    }
  },
);

t.test('plain SQL writes them too; what is rolled back writes none', async (t) => {
  const { run, asAnn, company, list } = await begin(t);
  const insert = (sql: Sql) => sql<{ id: string }[]>`
    insert into api_keys (company_id, name, digest, prefix, scopes)
    values (${company}, 'SQL', sha256(${randomUUID()}::text::bytea), 'svc_abcd', '{chat}') returning id`;
  await t.rejects(
    asAnn(async (sql) => {
      await insert(sql);
      throw new Error('not after all');
    }),
    { message: 'not after all' },
  );
  t.same(await list(), []);
  const [{ id }] = (await run(insert)) as unknown as [{ id: string }];
  await run(
    (sql) =>
      sql`update api_keys set digest = sha256('another'), prefix = 'svc_efgh' where id = ${id}`,
  );
  t.match((await list())[0]?.event, {
    type: 'key.rotated',
    key: { id, prefix: 'svc_efgh' },
    old_key: { id, prefix: 'svc_abcd', ends_at: /Z$/ },
  });
  await run((sql) => sql`delete from api_keys where id = ${id}`);
  t.same(kinds(await list()), ['key.created', 'key.rotated', 'key.revoked']);
  t.match((await list())[0]?.event.key, { name: 'removed key', prefix: 'svc_efgh' });
  await run(insert);
  await run((sql) => sql`delete from companies where id = ${company}`);
  t.same(await list(), [], 'a company that is removed takes its events with it');
});

t.test(
  'behind the tenant wall events are written, and those of another company not seen',
  async (t) => {
    const { db, asAnn, company, asked } = await begin(t);
    const other = await db.run(MS, (sql) => insertCompany(sql, { name: 'Other' }));
    for (const id of [company, other.id]) {
      await asAnn(async (sql) => {
        await enterCompany(sql, id);
        await insertKey(sql, 'svc_', { ...asked, company_id: id });
      });
    }
    const seen = await asAnn(async (sql) => {
      await enterCompany(sql, company);
      return sql`select company_id from events`;
    });
    t.same(seen, [{ company_id: company }]);
  },
);

t.test(
  "a playground's key is an event when it is made and revoked, not with each of its texts",
  async (t) => {
    const { asAnn, company, list } = await begin(t);
    const player = { company_id: company, email: ANN, role: 'owner' } as const;
    for (let n = 0; n < 3; n++) await asAnn((sql) => mintPlaygroundKey(sql, 'svc_', player));
    const [row, ...more] = await list();
    t.same(more, []);
    t.match(row?.event, { type: 'key.created', purpose: 'playground' });
    await asAnn((sql) => endKey(sql, row?.subject as string));
    t.same(kinds(await list()), ['key.created', 'key.revoked']);
  },
);

t.test('whatever a program writes as a body, the event and the others are sent', async (t) => {
  const { run, company, store } = await begin(t);
  const bodies = [
    { key: { id: 'none' } },
    { key: 'text' },
    { key: null, id: 1, type: 2, company: 3, occurred_at: 4 },
    {},
  ];
  for (const body of bodies)
    await run((sql) => sql`select record_event(${company}, 'key.created', 'x', ${body as never})`);
  await store.look(null, WEBHOOK);
  const due = await store.due('webhook', 10, []);
  t.equal(due.length, bodies.length);
  for (const { event } of due)
    t.match(event, { id: /-/, type: 'key.created', company: { id: company }, occurred_at: /Z$/ });
});

t.test(
  'a company that is closed and reopened tells it, and its statement is told while it is closed',
  async (t) => {
    const { run, asAnn, company, list, store } = await begin(t);
    await asAnn((sql) => closeCompany(sql, company));
    const [{ id }] = await run(
      (sql) => sql<[{ id: string }]>`
      select record_event(${company}, 'statement.closed', 'S-2026-0001', ${{ total_eur: '12.5' } as never}) as id`,
    );
    await store.look(null, WEBHOOK);
    const due = await store.due('webhook', 10, []);
    t.same(due.map(({ event }) => event.type).sort(), ['company.closed', 'statement.closed']);
    t.match(
      due.find(({ event }) => event.id === id),
      {
        event: { type: 'statement.closed', total_eur: '12.5', company: { name: 'ACME' } },
        attempts: 0,
      },
    );
    await asAnn((sql) => reopenCompany(sql, company));
    t.same(kinds(await list()), ['company.closed', 'statement.closed', 'company.reopened']);
    t.match((await list({ kind: 'statement' }))[0], { id, subject: 'S-2026-0001' });
  },
);

t.test('an event is told once, however often and by however many it is looked at', async (t) => {
  const { db, asAnn, asked, list, store } = await begin(t);
  for (let n = 0; n < 30; n++) await asAnn((sql) => insertKey(sql, 'svc_', asked));
  const looks = await Promise.all(
    Array.from({ length: 4 }, () => eventStore(db, db).look(null, WEBHOOK)),
  );
  t.equal(
    looks.reduce((sum, { told }) => sum + told, 0),
    30,
  );
  t.equal(
    (await store.look(null, { ...WEBHOOK, email: true, operators: ['ops@gate.example'] })).told,
    0,
  );
  t.ok((await list()).every(({ deliveries }) => deliveries.length === 1));
  await asAnn((sql) => insertKey(sql, 'svc_', asked));
  const everybody = { webhook: true, email: true, operators: ['ops@gate.example'] };
  t.equal((await store.look(null, everybody)).told, 1, 'e-mails are for budget alerts');
});

t.test('events of a company do not wait until thousands of another one are sent', async (t) => {
  const { run, company, store } = await begin(t);
  const { id: other } = await run((sql) => insertCompany(sql, { name: 'Other' }));
  const addEvents = (id: string, count: number) =>
    run(
      (sql) =>
        sql`insert into events (company_id, kind, subject, body) select ${id}, 'key.created', n::text, '{}' from generate_series(1, ${count}::integer) as n`,
    );
  const dueOf = async (id: string) =>
    (await store.due('webhook', 5000, [])).filter(({ event }) => event.company.id === id);
  const check = async () => {
    t.equal((await dueOf(other)).length, 3);
    t.ok((await dueOf(company)).length < 1000, 'the rest are due one after the other');
    const [found] = await run(
      (
        sql,
      ) => sql`select extract(epoch from max(next_attempt_at) - min(next_attempt_at))::integer as seconds
        from event_deliveries join events e on e.id = event_id where e.company_id = ${company}`,
    );
    t.equal(found?.seconds, 297);
  };
  await addEvents(company, 3000);
  t.equal((await store.look(null, WEBHOOK)).told, 3000);
  await addEvents(other, 3);
  await store.look(null, WEBHOOK);
  await check();
  t.equal(await run((sql) => replayEvents(sql, ALL)), 3003);
  await check();
});

t.test('a list is filtered, and read page by page', async (t) => {
  const { run, asAnn, company, asked, list, store } = await begin(t);
  const other = await run((sql) => insertCompany(sql, { name: 'Other' }));
  for (let n = 0; n < 5; n++) await asAnn((sql) => insertKey(sql, 'svc_', asked));
  const middle = nextMillisecond();
  const key = await asAnn((sql) => insertKey(sql, 'svc_', { ...asked, company_id: other.id }));
  await asAnn((sql) => endKey(sql, key.id));
  await store.look(null, WEBHOOK);
  const [first, second] = await store.due('webhook', 2, []);
  await store.failed(first as never, 'status 500', null);
  await store.failed(second as never, 'status 500', 60);
  const ids = async (filter: Partial<EventFilter>) => (await list(filter)).map(({ id }) => id);
  t.equal((await ids({ company: company })).length, 5);
  t.equal((await ids({ kind: 'key' })).length, 7);
  t.equal((await ids({ kind: 'key.revoked' })).length, 1);
  t.equal((await ids({ kind: 'bud' })).length, 0);
  t.equal((await ids({ since: middle })).length, 2);
  t.same(await ids({ state: 'dead' }), [first?.event.id]);
  t.same((await ids({ state: 'undelivered' })).sort(), [first?.event.id, second?.event.id].sort());
  t.same(await ids({ state: 'failing' }), []);
  for (let attempt = 2; attempt <= 5; attempt++)
    await store.failed(second as never, 'status 500', 60);
  t.same(await ids({ state: 'failing' }), [second?.event.id]);
  const all = await ids({});
  const read: string[] = [];
  for (let after: string | null = null; ; ) {
    const rows: EventRow[] = await run((sql) => listEvents(sql, ALL, { after, limit: 3 }));
    if (rows.length === 0) break;
    read.push(...rows.map(({ id }) => id));
    after = rows.at(-1)?.id ?? null;
  }
  t.same(read, all);
});

t.test('a replay sends again what was delivered, given up, or had no webhook', async (t) => {
  const { db, run, asAnn, asked, store } = await begin(t);
  const replay = (which: Parameters<typeof replayEvents>[1]) =>
    run((sql) => replayEvents(sql, which));
  await asAnn((sql) => insertKey(sql, 'svc_', asked));
  await store.look(null, NOBODY);
  await asAnn((sql) => insertKey(sql, 'svc_', asked));
  const since = nextMillisecond();
  await store.look(null, WEBHOOK);
  const [taken] = await store.due('webhook', 10, []);
  await store.delivered(taken as never);
  t.same(await store.due('webhook', 10, []), [], 'one had no webhook, one was taken');
  t.equal(await replay({ id: taken?.event.id as string }), 1);
  const [again] = await store.due('webhook', 10, []);
  t.same(again, taken, 'the same once more');
  await store.failed(again as never, 'status 500', null);
  t.equal(await replay({ ...ALL, since }), 0);
  t.equal(await replay({ ...ALL, state: 'dead' }), 1);
  t.equal(await replay({ ...ALL, state: 'dead' }), 0, 'nothing is dead any more');
  t.equal(await replay({ ...ALL, since: new Date(0) }), 2);
  t.equal((await store.due('webhook', 10, [])).length, 2);
  await t.rejects(replay({ id: randomUUID() }), { message: /^There is no event/ });
  const owner = (sql: Sql) =>
    sql`insert into users (email, company_id, role) values (${ANN}, ${asked.company_id}, 'owner')`;
  await run(owner);
  await run(
    (sql) => sql`update companies set monthly_budget_eur = 1 where id = ${asked.company_id}`,
  );
  await run(
    (sql) => sql`insert into chat_usage (company_id, cost_eur) values (${asked.company_id}, 2)`,
  );
  await eventStore(db, db).look(null, {
    webhook: true,
    email: true,
    operators: ['ops@gate.example'],
  });
  const [one, two] = await store.due('email', 10, ['ops@gate.example']);
  await store.delivered(one as never);
  await store.failed(two as never, 'EENVELOPE 550', null);
  t.equal(await replay({ ...ALL, kind: 'budget' }), 1);
  t.same(
    (await store.due('email', 10, ['ops@gate.example'])).map(({ recipient }) => recipient),
    [two?.recipient],
    'nobody gets an e-mail twice',
  );
});

t.test(
  'after 90 days events go, with their deliveries; an alert says that no more is known',
  async (t) => {
    const { run, asAnn, company, asked, list, store } = await begin(t);
    await asAnn((sql) => insertKey(sql, 'svc_', asked));
    await run((sql) => sql`update companies set monthly_budget_eur = 1`);
    await run((sql) => sql`insert into chat_usage (company_id, cost_eur) values (${company}, 2)`);
    await store.look(null, WEBHOOK);
    await store.trim();
    t.equal((await list()).length, 2);
    await run((sql) => sql`update events set at = now() - interval '91 days'`);
    await asAnn((sql) => insertKey(sql, 'svc_', asked));
    await store.trim();
    t.same(kinds(await list()), ['key.created']);
    t.same(await run((sql) => sql`select from event_deliveries`), []);
    const alerts = await run((sql) => listAlerts(sql, { undelivered: false, company, limit: 10 }));
    t.same(alerts.map(({ state }) => state).sort(), ['forgotten', 'superseded', 'superseded']);
  },
);
