import t from 'tap';
import { newRequestId } from '../../../src/runtime/request-id.ts';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { trailStore } from '../../../src/store/gateway/request-trail.ts';
import { addRequests } from '../../support/requests.ts';
import { addUsage } from '../../support/usage.ts';
import { signedIn, startOffice } from '../people.ts';

/** Pages of requests: who sees what, filters in the address, and one request. */

const office = await startOffice(t, { REQUEST_TRAIL_DAYS: '5' });
const db = openDatabase({ url: office.databaseUrl });
t.teardown(() => db.close());
const store = trailStore(db);
const { company } = office.customer;
const base = `/companies/${company}/requests`;
const [owner, operator] = [await signedIn(office, 'owner'), await signedIn(office, 'operator')];
const foreign = await office.newCustomer();
const [{ id: key }] = await office.sql<
  [{ id: string }]
>`update api_keys set name = 'CMS <b>' where company_id = ${company} returning id`;

const [ours, theirs, stranger] = (await addRequests(store, [
  {
    company,
    key,
    status: 502,
    code: 'upstream_error',
    model: 'fast',
    outcome: 'upstream_failed',
    upstreamStatus: 500,
    reason: 'internal-words <b>',
  },
  { company: foreign.company, status: 404, code: 'not_found', asked: 'secret-model' },
  { status: 401, code: 'invalid_api_key' },
])) as [string, string, string];

const plain = (html: string) => html.replaceAll(/<[^>]+>/g, '').replaceAll(/\s+/g, ' ');
const english = { 'accept-language': 'en' };

t.test(
  'an owner sees the requests of the company alone, and never what the upstream said',
  async (t) => {
    const { status, text } = await owner.get(base, english);
    t.equal(status, 200);
    t.match(text, ours);
    t.notMatch(text, new RegExp(`${theirs}|${stranger}|secret-model|internal-words`));
    t.match(text, 'CMS &lt;b&gt;');
    const one = await owner.get(`${base}/${ours}`, english);
    t.match(plain(one.text), /The upstream failed to answer.*What to do: Let the client try again/);
    t.notMatch(one.text, /internal-words|status 500/);
    t.match(
      one.text,
      `<a href="/companies/${company}/models?q=fast">`,
      'where its price and state are',
    );
    for (const id of [theirs, stranger]) {
      const other = await owner.get(`${base}/${id}`, english);
      t.equal(other.status, 404);
      t.match(
        plain(other.text),
        /Nothing is known of a request with this id\. What became of each request is kept for 5 days\./,
      );
    }
    for (const path of ['/requests', `/requests/${ours}`])
      t.equal((await owner.get(path)).status, 403);
    t.equal((await owner.get(`/companies/${foreign.company}/requests`)).status, 404);
  },
);

t.test('a list without any filter does not speak of such requests', async (t) => {
  const [{ id }] = await office.sql<
    [{ id: string }]
  >`insert into companies (name) values ('Quiet') returning id`;
  const path = `/companies/${id}/requests`;
  t.match(
    (await operator.get(path)).text,
    /class="empty">No requests are kept\. Each appears .*\/keys">keys</,
  );
  t.match(
    (await operator.get(`${path}?status=failed`)).text,
    /class="empty">There are no such requests\. <a href/,
  );
});

t.test(
  'an operator sees all of them, those without a company too, and the words of the upstream',
  async (t) => {
    const { text } = await operator.get('/requests', english);
    for (const id of [ours, theirs, stranger]) t.match(text, id);
    const one = await operator.get(`/requests/${ours}`, english);
    t.match(one.text, 'internal-words &lt;b&gt;');
    t.match(plain(one.text), /It answered with status 500\./);
    t.match(one.text, `href="/companies/${company}/keys/${key}"`);
    const unknown = (await operator.get(`/requests/${stranger}`, english)).text;
    t.match(plain(unknown), /no key, or one that is unknown or of a closed company/);
    t.match(unknown, '<a href="/keys">Find it by its text</a>');
  },
);

t.test('filters and pages live in the address', async (t) => {
  const found = async (query: string) => {
    const { status, text } = await operator.get(`/requests?${query}`, english);
    t.equal(status, 200);
    return [ours, theirs, stranger].map((id) => text.includes(`/requests/${id}"`));
  };
  t.same(await found('status=failed'), [true, false, false]);
  t.same(await found('status=401'), [false, false, true]);
  t.same(await found(`key=${key}`), [true, false, false]);
  t.same(await found('model=fast'), [true, false, false]);
  t.same(await found('from=2020-01-01T00:00&to=2020-01-02T00:00:00Z'), [false, false, false]);
  t.same(
    await found(`from=${encodeURIComponent(new Date(Date.now() - 3_600_000).toISOString())}`),
    [true, true, true],
  );
  await addRequests(
    store,
    Array.from({ length: 60 }, () => ({ company, model: 'many' })),
  );
  const first = await owner.get(`${base}?model=many`, english);
  const [, next] = /rel="next" href="([^"]+)"/.exec(first.text) ?? [];
  t.match(next, `${base}?model=many&amp;before=`);
  const second = await owner.get((next as string).replace('&amp;', '&'), english);
  t.equal(second.text.match(/<code>many<\/code>/g)?.length, 10);
  t.notMatch(second.text, /rel="next"|data-live/);
});

t.test('what the upstream failed is a question of operators alone', async (t) => {
  const label = 'Failed by the upstream';
  t.match((await operator.get('/requests', english)).text, label);
  for (const user of [operator, owner]) {
    const { text } = await user.get(`${base}?status=upstream_failed`, english);
    t.match(plain(text), /Result must be success, refused, failed or left, not/);
    t.notMatch(text, label);
  }
});

t.test('mistakes in the address are told at their fields', async (t) => {
  const { text } = await operator.get('/requests?from=yesterday&status=9&id=abc&key=x', english);
  const shown = plain(text);
  t.match(shown, /From must be a time such as 2027-01-31T18:00/);
  t.match(shown, /Result must be success, refused, failed, left or upstream_failed, not/);
  t.match(shown, /In the address, “id” must be an id/);
  t.match(shown, /In the address, “key” must be an id/);
  t.notMatch(text, ours);
});

t.test('an id of the year 10889 and an offset into the year 999 are mistakes too', async (t) => {
  const late = newRequestId(2 ** 48 - 1);
  for (const path of ['/requests', `/companies/${company}/requests`]) {
    const { status, text } = await operator.get(
      `${path}?before=${late}&to=1000-01-01T00:00:00%2B23:59`,
      english,
    );
    t.equal(status, 200);
    t.match(
      plain(text),
      /Until must be an ISO time.*In the address, “before” must be the id of a request/s,
    );
    t.match(await operator.get(`${path}/${late}`), { status: 404 });
  }
});

t.test('requests are narrowed by a key of the company, and by days, in one click', async (t) => {
  const { text } = await owner.get(`${base}?status=429`, english);
  t.match(text, new RegExp(`<select[^>]*name="key"[^]*<option value="${key}"`));
  t.notMatch(
    (await operator.get('/requests', english)).text,
    'name="key"',
    'all companies have too many',
  );
  const hour = /href="([^"]+)">Last hour</.exec(text)?.[1]?.replaceAll('&amp;', '&') ?? '';
  const from = new URL(hour, 'http://a').searchParams.get('from') ?? '';
  t.ok(Math.abs(Date.now() - 3_600_000 - Date.parse(from)) < 60_000, hour);
  t.match(hour, 'status=429', 'other filters stay');
  t.equal((await owner.get(hour)).status, 200);
});

t.test('an x-request-id leads to its page', async (t) => {
  const { status, headers } = await owner.get(`${base}?id=%20${ours.toUpperCase()}`);
  t.same([status, headers.get('location')], [303, `${base}/${ours}`]);
});

t.test('a call that only the ledger knows says so', async (t) => {
  const request = newRequestId();
  const month = `${new Date().toISOString().slice(0, 7)}-01`;
  await db.run(60_000, (sql) =>
    addUsage(sql, [{ company, key, request, month, prompt: 10, input: '0.5' }]),
  );
  const { status, text } = await owner.get(`${base}/${request}`, english);
  t.equal(status, 200);
  t.match(
    plain(text),
    /The request was answered.*Told from the ledger alone.*10 prompt \+ 0 completion, reported by the upstream/,
  );
});

t.test('requests of a removed company lead nowhere that is gone', async (t) => {
  const gone = await office.newCustomer();
  const [{ id: key }] = await office.sql<
    [{ id: string }]
  >`select id from api_keys where company_id = ${gone.company}`;
  const [id] = (await addRequests(store, [
    { company: gone.company, key, status: 402, code: 'insufficient_quota' },
  ])) as [string];
  await office.sql`delete from companies where id = ${gone.company}`;
  for (const path of ['/requests', `/requests/${id}`]) {
    const { text } = await operator.get(path, english);
    t.match(text, 'a removed company');
    t.notMatch(text, `/companies/${gone.company}`);
    t.match(text, `/requests?key=${key}`, 'its key has its requests');
  }
});
