import t from 'tap';
import type { CompanyEvent } from '../../../src/domain/event.ts';
import { wordsOf } from '../../../src/domain/language/language.ts';
import { LANGUAGES } from '../../../src/domain/languages.ts';
import { type EndUserAlert, mailOf } from '../../../src/domain/wording/alert.ts';
import { eventText } from '../../../src/domain/wording/event-text.ts';
import type { Sql } from '../../../src/store/connection/pool.ts';
import { within } from '../../../src/store/connection/tenant-role.ts';
import { readRefusedEndUsers } from '../../../src/store/events/end-user.ts';
import { eventStore, listEvents } from '../../../src/store/events/event.ts';
import { testDatabase } from '../../support/postgres.ts';

/** End users who used up their budgets: each is told once a month, and many at once are one event. */

const MS = 60_000;
const { db } = await testDatabase(t);
const run = <T>(work: (sql: Sql) => PromiseLike<T>) => db.run(MS, work);
const store = eventStore(db, db);
const look = () => store.lookAtCostCenters(null);

/** A company, a key whose end users may cost 10 EUR each, and a person who is told. */
async function front(email: string, percents = '{80,100}') {
  const [row] = await run(
    (sql) => sql<[{ company: string; key: string }]>`
      with c as (insert into companies (name) values ('Acme') returning id),
      u as (insert into users (email, company_id, role) select ${email}, id, 'owner' from c),
      r as (insert into alert_receivers (company_id, email, percents, forecast) select id, ${email}, ${percents}::smallint[], false from c)
      insert into api_keys (company_id, name, digest, prefix, scopes, end_users, end_user_budget_eur)
      select id, 'front', sha256(id::text::bytea), 'svc', '{chat}', 'header', 10 from c returning company_id as company, id as key`,
  );
  return row;
}

/** So many people who cost so much each. */
const people = (
  { company, key }: { company: string; key: string },
  name: string,
  count: number,
  eur: number,
) =>
  run(async (sql) => {
    const rows = await sql<{ id: string }[]>`
      insert into end_users (company_id, name) select ${company}, ${name} || n from generate_series(1, ${count}::int) n returning id`;
    const ids = rows.map(({ id }) => id);
    await sql`
      insert into api_usage (billing_month, request_id, company_id, api_key_id, model_slug, upstream_model, endpoint, prompt_tokens, completion_tokens,
        cost_eur, price_input, price_output, usage_source, outcome, occurred_at, end_user_id)
      select billing_month(now()), gen_random_uuid(), ${company}, ${key}, 'fast', 'internal', 'chat.completions', 1000, 0,
        ${eur}, ${eur}, 0, 'upstream', 'completed', now(), id from unnest(${ids}::uuid[]) id`;
    return ids;
  });

const events = (company: string) =>
  run((sql) =>
    listEvents(
      sql,
      { company, kind: 'end_user', since: null, state: null },
      { after: null, limit: 50 },
    ),
  );
const told = async (company: string) =>
  (await events(company))
    .map(({ event }) => `${event.count} at ${event.threshold}`)
    .sort()
    .join(', ');
/** An hour passes. */
const later = () =>
  run((sql) => sql`update end_user_alerts set told_at = told_at - interval '61 minutes'`);
const refused = async (company: string | null) =>
  (
    await within(
      db,
      company,
      MS,
      (sql) => readRefusedEndUsers(sql, company, 50),
      company === null ? 'operator' : 'owner',
    )
  )
    .map(({ name }) => name)
    .sort();

t.test('where no key has budgets of end users, no sum is read', async (t) => {
  t.equal(await look(), null);
});

t.test('a company that takes too long keeps no other from being told', async (t) => {
  const slow = await front('slow@acme.example');
  const [id] = await people(slow, 'slow', 1, 20);
  const others = await Promise.all(
    ['one', 'two', 'three'].map(async (name) => {
      const key = await front(`${name}@acme.example`);
      await people(key, name, 1, 20);
      return key.company;
    }),
  );
  await db.transaction(MS, async (sql) => {
    // the same row, not yet committed: who writes it waits
    await sql`insert into end_user_alerts (company_id, billing_month, end_user_id, threshold)
      select ${slow.company}, billing_month(now()), ${id as string}, 80`;
    await look();
    for (const company of others) t.equal(await told(company), '1 at 100');
    t.equal(await told(slow.company), '');
  });
  await look();
  t.equal(await told(slow.company), '1 at 100', 'it is told once it can be looked at');
});

t.test(
  'each person once a month, whatever the number of gateways; many are one event',
  async (t) => {
    const key = await front('many@acme.example');
    const { company } = key;
    await people(key, 'calm', 5, 7.99);
    await people(key, 'near', 20, 8);
    await people(key, 'full', 100, 10);
    await Promise.all(Array.from({ length: 4 }, look));
    t.equal(await told(company), '100 at 100, 20 at 80');
    await look();
    t.equal(await told(company), '100 at 100, 20 at 80', 'nor again');
    t.equal((await refused(company)).length, 50);
    const cursor = await store.lookAtCostCenters(null);
    const [late = ''] = await people(key, 'late', 1, 12);
    await people(key, 'later', 1, 12);
    await store.lookAtCostCenters(cursor);
    t.equal(await told(company), '100 at 100, 20 at 80', 'those of an hour wait');
    await later();
    await run((sql) => sql`select erase_end_user(${late})`);
    await Promise.all(Array.from({ length: 4 }, look));
    t.equal(await told(company), '100 at 100, 2 at 100, 20 at 80', 'and are told together');
    t.ok(!(await refused(company)).includes('late1'), 'an erased one has no name');
  },
);

t.test(
  'a budget of one person holds in place of the key’s, and nobody is told twice',
  async (t) => {
    const key = await front('own@acme.example');
    const { company } = key;
    const [ann = '', bob = ''] = [
      ...(await people(key, 'ann', 1, 10)),
      ...(await people(key, 'bob', 1, 5)),
    ];
    const own = (id: string, eur: number | null) =>
      run((sql) => sql`update end_users set monthly_budget_eur = ${eur} where id = ${id}`);
    await own(ann, 100);
    await look();
    t.equal(await told(company), '');
    t.same(await refused(company), []);
    await own(bob, 5);
    await look();
    t.equal(await told(company), '1 at 100');
    t.match((await events(company))[0]?.event.end_user, { id: bob });
    t.same(await refused(company), ['bob1']);
    t.same(await refused(null).then((names) => names.includes('bob1')), true, 'for operators, too');
    const elsewhere = await front('elsewhere@acme.example');
    t.same(await refused(elsewhere.company), [], 'another company sees nobody');
    await own(bob, 6);
    t.same(await refused(company), [], 'raised');
    await later();
    await own(bob, 5);
    await look();
    t.equal(await told(company), '1 at 100', 'reached again');
    await run((sql) => sql`update api_keys set end_users = 'off' where id = ${key.key}`);
    t.same(await refused(company), [], 'a key that takes no names refuses nobody');
  },
);

t.test('who is told chose the percentage; a company may switch it off', async (t) => {
  const key = await front('eighty@acme.example', '{80}');
  const off = await front('off@acme.example');
  await run((sql) => sql`update companies set end_user_alerts = false where id = ${off.company}`);
  await people(key, 'full', 3, 11);
  await people(key, 'near', 2, 9);
  await people(off, 'full', 3, 11);
  await look();
  await store.look(null, { webhook: true, email: true, operators: ['ops@gate.example'] });
  t.same(await events(off.company), []);
  const deliveries = (await events(key.company)).flatMap(({ event, deliveries }) =>
    deliveries.map(({ channel, recipient }) => `${event.threshold} ${channel} ${recipient}`),
  );
  t.same(deliveries.sort(), ['100 webhook ', '80 email eighty@acme.example', '80 webhook ']);
  await run((sql) => sql`update companies set end_user_alerts = true where id = ${off.company}`);
  await run((sql) => sql`update companies set closed_at = now() where id = ${off.company}`);
  await look();
  t.same(await events(off.company), [], 'of a closed company nobody is told');
});

t.test('mails, chats and links say how many, and no name', async (t) => {
  const key = await front('texts@acme.example');
  await people(key, 'full', 2, 11);
  const [near = ''] = await people(key, 'near', 1, 9);
  await look();
  const pages = new URL('https://gate.example');
  const brand = {
    name: 'Gate',
    color: null,
    logo: null,
    support: null,
    imprint: null,
    privacy: null,
  };
  for (const { event } of await events(key.company)) {
    const alert = event as CompanyEvent & EndUserAlert;
    const path = `https://gate.example/companies/${key.company}/end-users`;
    const link =
      alert.threshold === '100' ? `${path}?month=${alert.month}&show=reached` : `${path}/${near}`;
    for (const language of LANGUAGES) {
      const words = wordsOf(language);
      const line = eventText(event, words, pages);
      t.ok(line.endsWith(` ${link}`), line);
      t.match(line, new RegExp(`^Acme: ${alert.count} .*${alert.threshold} %`));
      const { subject, text } = mailOf([alert], words, brand, pages);
      t.match(subject, `${alert.threshold} %`);
      t.ok(text.includes(link), text);
      t.notMatch(line + text, /full|near/);
    }
  }
});

t.test('what is over is forgotten', async (t) => {
  await run(
    (sql) => sql`update end_user_alerts set billing_month = billing_month - interval '1 month'`,
  );
  await store.trim();
  t.same([...(await run((sql) => sql`select from end_user_alerts`))], []);
});
