import { randomUUID } from 'node:crypto';
import t from 'tap';
import { addDays } from '../../../src/domain/reports/day-range.ts';
import { openDatabase, type Sql } from '../../../src/store/connection/pool.ts';
import { within } from '../../../src/store/connection/tenant-role.ts';
import { eventStore } from '../../../src/store/events/event.ts';
import { readUnusual } from '../../../src/store/events/unusual.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addUsage } from '../../support/usage.ts';

/** What is unusual today, from the sums of a real database. */

const MS = 60_000;
const EVERYBODY = { webhook: true, email: true, operators: ['ops@tollgate.example'] };

// a database whose clock the tests set: this now() is found before the server's own
const { url, db: plain } = await testDatabase(t);
await plain.run(MS, (sql) =>
  sql.unsafe(`update settings set value = 'Europe/Berlin';
    create table test_clock (at timestamptz not null);
    create function public.now() returns timestamptz language sql stable as 'select at from test_clock';
    grant select on test_clock to public`),
);
const db = openDatabase({
  url: `${url}${url.includes('?') ? '&' : '?'}search_path=public,pg_catalog`,
});
t.teardown(() => db.close());
const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(MS, work);
const clock = (at: string) =>
  run((sql) => sql`with gone as (delete from test_clock) insert into test_clock values (${at})`);

/** Saturdays at noon in Berlin, the last one first; today is the first. */
const TODAY = '2026-11-28';
const SATURDAYS = ['2026-11-21', '2026-11-14', '2026-11-07', '2026-10-31', '2026-10-24'];

interface Owned {
  readonly company: string;
  readonly key: string;
}

async function owned(name: string, more: { readonly times?: number | null } = {}): Promise<Owned> {
  const { times = 3 } = more;
  const [row] = await run(
    (sql) => sql<{ id: string }[]>`
      insert into companies (name, unusual_times) values (${name}, ${times}) returning id`,
  );
  const company = row?.id as string;
  await run(
    (sql) => sql`insert into users (email, company_id, role) values
      (${`own@${company}.example`}, ${company}, 'owner'), (${`member@${company}.example`}, ${company}, 'member')`,
  );
  return { company, key: await keyOf(company, 'Data science notebook') };
}

async function keyOf(company: string, name: string, from: string | null = null): Promise<string> {
  const [row] = await run(
    (sql) => sql<{ id: string }[]>`
      insert into api_keys (company_id, name, digest, prefix, scopes, rotated_from)
      values (${company}, ${name}, sha256(${randomUUID()}::text::bytea), 'svc_abcd', '{chat}', ${from}) returning id`,
  );
  return row?.id as string;
}

/** Books calls of a day at an hour of Berlin, and counts the requests of that hour. */
async function spend(
  { company, key }: Owned,
  day: string,
  eur: number,
  more: { readonly model?: string; readonly hour?: string; readonly refused?: number } = {},
): Promise<void> {
  const { model = 'us-reasoner', hour = '09', refused = 0 } = more;
  const at = `${day}T${hour}:00:00+01:00`;
  await run((sql) =>
    addUsage(sql, [
      { company, key, month: `${day.slice(0, 7)}-01`, model, prompt: eur * 1000, input: '1', at },
    ]),
  );
  await count({ company, key }, at, model, { requests: 10 + refused, refused });
}

const NONE = Array.from({ length: 23 }, () => 0);

function count(
  { company, key }: Owned,
  at: string,
  model: string,
  {
    requests,
    refused = 0,
    failed = 0,
    ms = 1000,
  }: { requests: number; refused?: number; failed?: number; ms?: number },
) {
  return run(
    (sql) => sql`
      with hours as (
        insert into request_hours (company_id, hour, model_slug, api_key_id, endpoint, requests, refused, failed, upstream_failed,
          duration_ms, added_us, duration_buckets, added_buckets)
        values (${company}, date_trunc('hour', ${at}::timestamptz), ${model}, ${key}, 'chat.completions', ${requests}, ${refused}, ${failed}, 0,
          ${(requests - refused) * ms}, 0, ${NONE}::bigint[], ${NONE}::bigint[])
        on conflict (company_id, hour, model_slug, api_key_id, endpoint) do update
          set requests = request_hours.requests + excluded.requests, refused = request_hours.refused + excluded.refused, duration_ms = request_hours.duration_ms + excluded.duration_ms)
      insert into request_days (company_id, day, model_slug, endpoint, requests, refused, failed, duration_buckets, reasons)
      values (${company}, (${at}::timestamptz at time zone 'Europe/Berlin')::date, ${model}, 'chat.completions', ${requests}, ${refused}, ${failed},
        ${NONE}::bigint[], '{}')
      on conflict (company_id, day, model_slug, endpoint) do update set requests = request_days.requests + excluded.requests,
        refused = request_days.refused + excluded.refused, failed = request_days.failed + excluded.failed`,
  );
}

/** Looks at all companies, as a gateway that was just started does. */
async function look(): Promise<void> {
  const store = eventStore(db, db);
  let after: string | null = null;
  do after = await store.lookAtUnusual(after);
  while (after !== null);
}

/** What was found of a company: those that belong to another jump in brackets. */
async function found(company: string): Promise<string[]> {
  const rows = await run((sql) => readUnusual(sql, company, true, 100));
  return rows
    .map(({ measure, subject, key, model, value, usual, superseded }) => {
      const text = `${measure} of the ${subject}: ${value}, not ${usual}; ${key?.name ?? '-'}, ${model ?? '-'}`;
      return superseded ? `(${text})` : text;
    })
    .sort();
}

const events = (company: string) =>
  run(
    (sql) => sql<{ kind: string; body: Record<string, unknown> }[]>`
      select kind, body from events where company_id = ${company} and kind like 'unusual.%' order by at`,
  );

/** 11:30 in Berlin. */
const NOON = `${TODAY}T10:30:00Z`;

t.test(
  'a key is named for a jump that is spread over many models, and none of these',
  async (t) => {
    await clock(NOON);
    const broad = await owned('Broad');
    for (const day of SATURDAYS) await spend(broad, day, 1);
    for (let n = 0; n < 24; n++) await spend(broad, TODAY, 4, { model: `small-${n}` });
    await look();
    t.same(await found(broad.company), [
      '(spend of the key: 96, not 1; Data science notebook, -)',
      'spend of the company: 96, not 1; Data science notebook, -',
    ]);
  },
);

t.test(
  'spend is compared with the same hours of the same weekday, and a jump is one event',
  async (t) => {
    await clock(NOON);
    const quartz = await owned('Quartz Bank');
    const calm = await owned('Calm');
    const fresh = await owned('New');
    const off = await owned('Off', { times: null });
    const patient = await owned('Patient', { times: 100 });
    for (const day of SATURDAYS) {
      for (const each of [quartz, off, patient]) {
        await spend(each, day, 1);
        await spend(each, day, 9, { hour: '20' });
      }
      await spend(calm, day, 80);
    }
    await spend(fresh, SATURDAYS[0] as string, 1);
    await spend(fresh, SATURDAYS[1] as string, 1);
    for (const each of [quartz, calm, fresh, off, patient]) await spend(each, TODAY, 81);
    await look();
    t.same(
      await found(quartz.company),
      [
        '(spend of the key: 81, not 5; Data science notebook, us-reasoner)',
        '(spend of the model: 81, not 5; Data science notebook, us-reasoner)',
        'spend of the company: 81, not 5; Data science notebook, us-reasoner',
      ],
      'half of the requests of other Saturdays had come by now, so half of their cost',
    );
    for (const { company } of [calm, fresh, off, patient]) t.same(await found(company), []);
    const [event, ...more] = await events(quartz.company);
    t.same(more, []);
    t.match(event, {
      kind: 'unusual.spend',
      body: {
        key: { id: quartz.key, prefix: 'svc_abcd' },
        model: 'us-reasoner',
        subject: 'company',
        day: TODAY,
        until: '11:30',
        value: '81',
        usual: '5',
      },
    });

    t.comment('four gateways, and one that was restarted');
    await spend(quartz, TODAY, 9);
    await clock(`${TODAY}T11:30:00Z`);
    await Promise.all(Array.from({ length: 4 }, look));
    await look();
    t.equal((await events(quartz.company)).length, 1);
    t.match((await found(quartz.company)).at(-1), /^spend of the company: 90, /, 'as it is now');

    t.comment('the next day it goes on');
    await clock('2026-11-29T10:30:00Z');
    for (const day of SATURDAYS) await spend(quartz, addDays(day, 1), 1);
    await spend(quartz, '2026-11-29', 99);
    await look();
    t.equal((await events(quartz.company)).length, 1, 'the jump of yesterday goes on');
    t.equal((await found(quartz.company)).length, 3, 'and is seen');
    t.equal((await run((sql) => readUnusual(sql, quartz.company, false, 9))).length, 1, 'once');
    await spend(quartz, '2026-11-29', 100);
    await look();
    t.equal((await events(quartz.company)).length, 1, 'however high, once a day');
    await clock(NOON);
  },
);

t.test(
  'refusals, failures and latency are compared too, and keys of one line are one',
  async (t) => {
    await clock(NOON);
    const big = await owned('Big');
    const batch = await keyOf(big.company, 'Batch');
    const rotated = await keyOf(big.company, 'Batch', batch);
    const web = { company: big.company, key: await keyOf(big.company, 'Website') };
    for (const day of SATURDAYS) {
      await spend(big, day, 500, { model: 'large' });
      await spend({ company: big.company, key: batch }, day, 20, { model: 'small' });
      for (let each = 0; each < 3; each++)
        await count(web, `${day}T09:00:00+01:00`, 'fast', { requests: 100 });
    }
    await spend(big, TODAY, 400, { model: 'large' });
    // the first key of the line until nine, and the one in its place
    await spend({ company: big.company, key: batch }, TODAY, 100, { model: 'small' });
    await spend({ company: big.company, key: rotated }, TODAY, 150, { model: 'small', hour: '10' });
    await count(web, `${TODAY}T09:00:00+01:00`, 'fast', {
      requests: 400,
      refused: 100,
      failed: 90,
      ms: 20_000,
    });
    await look();
    const all = await found(big.company);
    t.same(
      all.filter((each) => !each.startsWith('(')),
      [
        'failed of the company: 90, not 0; Website, fast',
        'latency of the company: 18272.727273, not 1000; Website, fast',
        'refused of the company: 100, not 0; Website, fast',
        'spend of the key: 250, not 20; Batch, small',
      ],
    );
    const [first] = await run(
      (sql) =>
        sql`select api_key_id from unusual_days where company_id = ${big.company} and measure = 'spend' and subject = 'key'`,
    );
    t.equal(first?.api_key_id, rotated, 'the key with most of it today');
  },
);

t.test(
  'who is told: owners and operators, nobody of a closed company, and each company of itself alone',
  async (t) => {
    await clock(NOON);
    const [told, other] = [await owned('Told'), await owned('Other')];
    for (const each of [told, other]) for (const day of SATURDAYS) await spend(each, day, 1);
    await spend(told, TODAY, 90);
    const store = eventStore(db, db);
    await look();
    await store.look(null, EVERYBODY);
    const due = async (channel: 'webhook' | 'email') =>
      (await store.due(channel, 1000, EVERYBODY.operators))
        .filter(({ event }) => event.company.id === told.company && event.type === 'unusual.spend')
        .map(({ recipient }) => recipient.replace(told.company, 'told'))
        .sort();
    await run((sql) => sql`update event_deliveries set next_attempt_at = '2026-10-01'`); // the server's clock is not the test's
    t.same(await due('webhook'), ['']);
    t.same(await due('email'), ['ops@tollgate.example', 'own@told.example'], 'no member');
    await run((sql) => sql`update companies set closed_at = now() where id = ${told.company}`);
    t.same(await due('webhook'), []);
    t.same(await due('email'), []);
    await spend(told, TODAY, 900);
    await look();
    t.match((await found(told.company)).at(-1), /: 90, /, 'a closed company is not compared');
    await run((sql) => sql`update companies set closed_at = null where id = ${told.company}`);
    const seen = (company: string) =>
      within(db, company, MS, (sql) => readUnusual(sql, null, false, 10)).then((rows) =>
        rows.map(({ company }) => company.name),
      );
    t.same(await seen(told.company), ['Told']);
    t.same(await seen(other.company), []);
  },
);
