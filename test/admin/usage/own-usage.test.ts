import { randomUUID } from 'node:crypto';
import t from 'tap';
import { newRequestId } from '../../../src/runtime/request-id.ts';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { trailStore } from '../../../src/store/gateway/request-trail.ts';
import { addRequests } from '../../support/requests.ts';
import { addUsage } from '../../support/usage.ts';
import { signedIn, startOffice, textOf } from '../people.ts';

/** What a member sees of usage: that of the own keys, and nothing of the company's. */

const office = await startOffice(t);
const { sql, people } = office;
const { company } = office.customer;
const base = `/companies/${company}/own`;
const member = await signedIn(office, 'member');
const [person] = await sql<[{ id: string }]>`select id from users where email = ${people.member}`;

/** A key by plain SQL. @param user null: of the company */
async function key(
  name: string,
  user: string | null,
  more: { purpose?: string; by?: string } = {},
): Promise<string> {
  const text = `svc_${randomUUID().replaceAll('-', '').slice(0, 26)}`;
  const [row] = await sql<[{ id: string }]>`
    insert into api_keys (company_id, name, digest, prefix, scopes, user_id, purpose, created_by, created_at)
    values (${company}, ${name}, sha256(${text}::bytea), 'svc_test', '{chat}', ${user}, ${more.purpose ?? null},
      ${more.by ?? people.member}, '2026-09-10') returning id`;
  return row.id;
}

const own = await key('Mine', person.id);
const dead = await key('Mine, revoked', person.id);
await sql`update api_keys set revoked_at = now() where id = ${dead}`;
const playground = await key('Playground of mila', null, { purpose: 'playground' });
const theirs = await key('Newsroom', null);
const colleague = await key('Of somebody else', randomUUID());
const COST = { [own]: 1, [dead]: 2, [playground]: 4, [theirs]: 77_000, [colleague]: 55_000 };
await addUsage(
  sql,
  Object.entries(COST).flatMap(([id, cost]) => [
    { company, key: id, model: 'fast', prompt: cost * 1000, input: '1', month: '2026-10-01' },
    {
      company,
      key: id,
      model: `model-of-${cost}`,
      prompt: cost * 1000,
      input: '1',
      month: '2026-11-01',
      center: `center-${cost}`,
    },
  ]),
);
await sql`insert into chat_usage (company_id, occurred_at, cost_eur) values (${company}, '2026-10-05', 33000)`;
const missing = newRequestId(Date.now() - 5000);
const OTHERS = /\b(77|55|132|139),?000|\b33,?000|Newsroom|somebody else|(model-of|center)-(77|55)/;

t.test('sums, tables and chart of the own keys: the playground and revoked keys too', async (t) => {
  const page = await member.get(`${base}/usage?month=2026-10`);
  const text = textOf(page);
  t.equal(page.status, 200);
  t.match(text, 'My usage in October 2026');
  t.match(text, /Spent €7\.00 by your keys and in the playground/);
  t.match(text, /Requests 3 /);
  t.match(text, /Playground of mila svc_test….* Mine, revoked svc_test….* Mine svc_test…/);
  t.notMatch(text, OTHERS);
  t.notMatch(text, /budget|forecast|unlimited/i, 'no budget of the company');
  const november = textOf(await member.get(`${base}/usage?month=2026-11`));
  t.match(november, 'center-4');
  t.match(november, 'model-of-1');
  t.notMatch(november, OTHERS);
  for (const range of [
    '?from=2026-09-01&to=2026-11-30',
    '?from=2026-10-15&to=2026-10-15',
    '?from=2026-10-10&to=2026-11-20',
  ])
    t.notMatch(textOf(await member.get(`${base}/usage${range}`)), OTHERS, range);
  t.match(textOf(await member.get(`${base}/usage?from=2026-10-15&to=2026-10-15`)), 'Cost per hour');
});

t.test('filters narrow what is one’s own, and lead to nobody else’s', async (t) => {
  t.match(textOf(await member.get(`${base}/usage?month=2026-10&key=${dead}`)), 'Spent €2.00');
  for (const id of [theirs, colleague]) {
    const text = textOf(await member.get(`${base}/usage?month=2026-10&key=${id}`));
    t.match(text, 'Spent €0.00');
    t.notMatch(text, OTHERS);
  }
  t.match(
    textOf(await member.get(`${base}/usage?month=2026-11&model=model-of-77000`)),
    'Spent €0.00',
  );
  t.match(textOf(await member.get(`${base}/usage?month=2026-11&model=model-of-4`)), 'Spent €4.00');
  t.match(
    textOf(await member.get(`${base}/usage?month=2026-11&cost_center=center-2`)),
    'Spent €2.00',
  );
});

t.test('exports have the same rows', async (t) => {
  for (const by of ['model', 'key', 'endpoint', 'cost_center', 'time', 'ending', 'total']) {
    const { status, text } = await member.get(
      `${base}/usage.csv?month=2026-10&by=${by}&spreadsheet=comma`,
    );
    t.equal(status, 200, by);
    t.notMatch(text, OTHERS, by);
    t.match(text, /[1247]/, by);
  }
  const { text } = await member.get(
    `${base}/ledger.csv?from=2026-10-01&to=2026-11-30&spreadsheet=comma`,
  );
  t.equal(text.trim().split(/\r?\n/).length, 7, 'a heading, and three keys in two months');
  t.notMatch(text, OTHERS);
  t.notMatch(text, 'internal/fast');
});

t.test(
  'the months to choose from begin with the first key, and tell nothing of the company',
  async (t) => {
    await addUsage(sql, [{ company, key: theirs, prompt: 1, input: '1', month: '2024-03-01' }]);
    const months = [
      ...(await member.get(`${base}/usage`)).text.matchAll(/<option value="(\d{4}-\d\d)"/g),
    ].map(([, month]) => month);
    t.ok(months.includes('2026-09') && months.includes('2026-10'), `${months}`);
    t.notOk(
      months.some((month) => (month as string) < '2026-09'),
      `${months}`,
    );
  },
);

t.test('without any key the page says what comes first', async (t) => {
  await sql`insert into users (email, company_id, role, password_hash)
    select 'new@customer.example', company_id, role, password_hash from users where email = ${people.member}`;
  const fresh = await signedIn(
    { ...office, people: { ...people, member: 'new@customer.example' } },
    'member',
  );
  const page = await fresh.get(`${base}/usage`);
  t.match(textOf(page), 'You have no key yet, so nothing was used.');
  t.match(page.text, `href="${base}/keys"`);
  t.equal((await fresh.get(`${base}/requests`)).status, 200);
});

t.test(
  'requests of own keys alone: in the list, with each filter, by their id, and where a page of the list ends',
  async (t) => {
    const db = openDatabase({ url: office.databaseUrl });
    t.teardown(() => db.close());
    const now = Date.now();
    const few = [own, dead, playground].map((key, at) => ({
      key,
      company,
      at: now - 60_000 - at,
      model: 'fast',
    }));
    const refused = {
      key: own,
      company,
      at: now - 70_000,
      status: 402,
      code: 'insufficient_quota',
      model: 'fast',
    };
    const foreign = Array.from({ length: 120 }, (_, at) => ({
      ...{
        key: at % 2 === 0 ? theirs : colleague,
        company,
        at: now - 61_000 - at * 100,
        model: 'secret-model',
      },
      ...(at % 3 === 0 ? { status: 402, code: 'insufficient_quota' } : {}),
    }));
    const ids = await addRequests(trailStore(db), [...few, refused, ...foreign]);
    const others = ids.slice(4);
    const idsIn = (text: string) => ids.filter((id) => text.includes(id));
    const list = async (query = '') => (await member.get(`${base}/requests${query}`)).text;
    t.same(idsIn(await list()).sort(), ids.slice(0, 4).sort());
    t.same(idsIn(await list('?status=refused')), [ids[3]]);
    t.same(idsIn(await list('?code=insufficient_quota')), [ids[3]]);
    t.same(idsIn(await list(`?key=${dead}`)), [ids[1]]);
    t.same(idsIn(await list('?model=fast')).sort(), ids.slice(0, 4).sort());
    const ofOthers = await list(`?key=${theirs}`);
    t.same(idsIn(ofOthers), []);
    t.notMatch(ofOthers, 'Newsroom');
    t.same(idsIn(await list('?model=secret-model')), []);
    for (const query of ['', '?status=refused', '?model=secret-model']) {
      const page = await list(query);
      t.notMatch(textOf(page), /secret-model<|Newsroom|somebody else/, query);
      t.notOk(
        others.some((id) => page.includes(id)),
        `${query}: nothing of others, nor where they are`,
      );
    }
    const mine = textOf(await member.get(`${base}/requests/${ids[3]}`));
    t.match(mine, 'insufficient_quota');
    t.notMatch(mine, OTHERS);
    const { status, text } = await member.get(`${base}/requests/${others[0]}`);
    t.equal(status, 404);
    t.same(
      textOf(text).replaceAll(others[0] as string, ''),
      textOf(await member.get(`${base}/requests/${missing}`)).replaceAll(missing, ''),
    );
    const opened = await member.get(`${base}/requests?id=${ids[0]}`);
    t.equal(opened.headers.get('location'), `${base}/requests/${ids[0]}`);
    const many = Array.from({ length: 120 }, (_, at) => ({
      key: at % 2 === 0 ? own : dead,
      company,
      at: now - 200_000 - at,
      model: 'fast',
    }));
    await addRequests(trailStore(db), many);
    const seen = new Set<string>();
    let next: string | undefined = `${base}/requests?model=fast`;
    for (let pages = 0; next !== undefined && pages < 10; pages++) {
      const page: string = (await member.get(next)).text;
      for (const [, id] of page.matchAll(/own\/requests\/([\da-f-]{36})"/g)) seen.add(id as string);
      next = /rel="next" href="([^"]+)"/.exec(page)?.[1]?.replaceAll('&amp;', '&');
    }
    t.equal(seen.size, 124, 'each once, over all pages');
  },
);
