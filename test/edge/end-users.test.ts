import { randomUUID } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import t, { type Test } from 'tap';
import { ask } from '../support/client.ts';
import { startCollector } from '../support/collector.ts';
import { startGateway } from '../support/gateway.ts';
import { until } from '../support/until.ts';
import { demoUpstream } from '../support/upstream.ts';

/**
 * The people behind a key: calls name them in headers and bodies, two gateways know them by the same ids, their names are
 * in one table and nowhere else, and an erasure leaves nothing that leads from a name to its calls.
 */

const upstream = await demoUpstream(t);
const collector = await startCollector(t);
const spool = mkdtempSync(join(tmpdir(), 'tollgate-end-users-'));
const gateway = await startGateway(t, upstream.url, {
  OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
  SPOOL_DIR: spool,
});
const { sql } = gateway;
const other = await startGateway(t, upstream.url, { DATABASE_URL: gateway.databaseUrl });
await gateway.model('fast', { upstream: upstream.parts.chat, input: '0.01', output: '0.02' });
await gateway.model('vectors', { upstream: upstream.parts.embedding, kind: 'embedding' });
const HELLO = [{ role: 'user', content: 'hello' }];

/** A key of a company of its own that takes names. */
async function front(endUsers: string) {
  const company = await gateway.company();
  const key = await gateway.key(company);
  await sql`update api_keys set end_users = ${endUsers} where company_id = ${company}`;
  const assistant = await gateway.assistant(company, { model: 'fast' });
  const calls: Record<string, readonly [path: string, body: object]> = {
    chat: ['/chat/completions', { model: 'fast', messages: HELLO }],
    stream: ['/chat/completions', { model: 'fast', messages: HELLO, stream: true }],
    embeddings: ['/embeddings', { model: 'vectors', input: 'hello' }],
    assistant: [`/assistants/${assistant}/run`, { messages: HELLO }],
    response: ['/responses', { model: 'fast', input: 'hello' }],
    message: ['/messages', { model: 'fast', max_tokens: 9, messages: HELLO }],
    'message stream': [
      '/messages',
      { model: 'fast', max_tokens: 9, messages: HELLO, stream: true },
    ],
  };
  return {
    company,
    key,
    calls,
    /** @returns the id of the request, which was answered */
    async call(
      t: Test,
      name: string,
      headers: Record<string, string>,
      more: object = {},
      url = gateway.url,
    ) {
      const [path, body] = calls[name] as [string, object];
      const answer = await ask(url + path, { key, headers, body: { ...body, ...more } });
      t.equal(answer.status, 200, `${name}: ${answer.text}`);
      return String(answer.headers.get('x-request-id'));
    },
    /** The person whom the row of a request names; null: nobody. */
    async booked(request: string): Promise<{ id: string | null; name: string | null }> {
      const [row] = await until(
        () => sql<{ id: string | null; name: string | null }[]>`
          select u.end_user_id as id, e.name from api_usage u left join end_users e on e.id = u.end_user_id
          where u.request_id = ${request}`,
        'the call is booked',
        ({ length }) => length > 0,
      );
      return row as { id: string | null; name: string | null };
    },
  };
}

/** Where the database holds a text, in whatever column. */
async function tablesWith(text: string): Promise<string[]> {
  const tables = await sql<{ name: string }[]>`
    select c.relname as name from pg_class c where c.relnamespace = 'public'::regnamespace and c.relkind = 'r'`;
  const found: string[] = [];
  for (const { name } of tables) {
    const [row] =
      await sql`select exists (select from ${sql(name)} x where strpos(x::text, ${text}) > 0) as has`;
    if (row?.has) found.push(name);
  }
  return found;
}

t.test('a header names the person of a call of any format', async (t) => {
  const { calls, call, booked } = await front('header');
  const ids = new Set<string | null>();
  for (const name of Object.keys(calls)) {
    const row = await booked(await call(t, name, { 'X-OpenWebUI-User-Id': 'person-4711' }));
    t.equal(row.name, 'person-4711', name);
    ids.add(row.id);
  }
  t.equal(ids.size, 1, 'always the same one');
  const { name } = await booked(
    await call(t, 'chat', { 'x-librechat-user-id': 'a', 'x-openwebui-user-email': 'b%40c' }),
  );
  t.equal(name, 'b@c', 'the first of the setting');
  t.same(
    await booked(await call(t, 'chat', {}, { user: 'ann' })),
    { id: null, name: null },
    'not in the body',
  );
  t.same(await booked(await call(t, 'chat', { 'x-end-user-id': 'n'.repeat(300) })), {
    id: null,
    name: null,
  });
});

t.test(
  'the member of a format names the person where the key says so, and no header does',
  async (t) => {
    const { call, booked } = await front('body');
    t.equal((await booked(await call(t, 'chat', {}, { user: 'ann' }))).name, 'ann');
    t.equal((await booked(await call(t, 'stream', {}, { safety_identifier: 'bob' }))).name, 'bob');
    t.equal((await booked(await call(t, 'embeddings', {}, { user: 'ann' }))).name, 'ann');
    t.equal((await booked(await call(t, 'response', {}, { safety_identifier: 'cy' }))).name, 'cy');
    t.equal(
      (await booked(await call(t, 'message', {}, { metadata: { user_id: 'di' } }))).name,
      'di',
    );
    t.equal(
      (await booked(await call(t, 'chat', { 'x-end-user-id': 'eve' }, { user: 'ann' }))).name,
      'eve',
    );
    t.equal((await booked(await call(t, 'assistant', { 'x-end-user-id': 'eve' }))).name, 'eve');
  },
);

t.test('a key that takes no names has none', async (t) => {
  const { company, call, booked } = await front('off');
  const request = await call(t, 'chat', { 'x-end-user-id': 'ann' }, { user: 'ann' });
  t.same(await booked(request), { id: null, name: null });
  t.same([...(await sql`select from end_users where company_id = ${company}`)], []);
});

t.test('the name stands in one table, and leaves by no header, log, metric or trace', async (t) => {
  const { key, calls, call, booked } = await front('header');
  const secret = `canary-${randomUUID()}`;
  const before = upstream.received().length;
  const requests: string[] = [];
  for (const name of Object.keys(calls)) {
    const request = await call(t, name, { 'x-end-user-id': secret });
    t.equal((await booked(request)).name, secret);
    requests.push(request);
  }
  const sent = upstream.received().slice(before);
  t.equal(sent.length, Object.keys(calls).length);
  t.notMatch(JSON.stringify(sent), secret, 'not sent on');
  const { text } = await ask(`${gateway.adminUrl}/metrics`);
  t.notMatch(text, secret);
  await collector.arrived(2 * Object.keys(calls).length);
  t.notMatch(collector.posts.map((post) => post.text).join(), secret);
  t.notMatch([...gateway.logged, ...other.logged].join(), secret);
  await until(async () => (await sql`select from request_trail`).length > 0, 'the trail has rows');
  t.same(await tablesWith(secret), ['end_users']);
  const files = readdirSync(spool, { recursive: true, withFileTypes: true }).filter((file) =>
    file.isFile(),
  );
  for (const file of files)
    t.notMatch(readFileSync(join(file.parentPath, file.name), 'latin1'), secret, file.name);
  for (const path of ['/usage', ...requests.map((request) => `/usage/${request}`)]) {
    const { status, text } = await ask(gateway.url + path, { key });
    t.equal(status, 200);
    t.notMatch(text, secret, 'whoever holds the key is not told either');
  }
});

t.test('two gateways know a person by the same id, from the first call on', async (t) => {
  const { company, call, booked } = await front('header');
  const people = Array.from({ length: 5 }, (_, at) => `person ${at}`);
  const requests = await Promise.all(
    people.flatMap((name) =>
      [gateway, other].map(
        async ({ url }) =>
          [name, await call(t, 'chat', { 'x-end-user-id': name }, {}, url)] as const,
      ),
    ),
  );
  const ids = new Map<string, Set<string | null>>();
  for (const [name, request] of requests) {
    const row = await booked(request);
    t.equal(row.name, name);
    ids.set(name, (ids.get(name) ?? new Set()).add(row.id));
  }
  t.same(
    [...ids.values()].map(({ size }) => size),
    people.map(() => 1),
  );
  t.equal((await sql`select from end_users where company_id = ${company}`).length, people.length);
});

t.test(
  'an erased person is nobody, and the same name again is somebody new, on every gateway',
  async (t) => {
    const { company, call, booked } = await front('header');
    const [ann, bob] = ['ann', 'bob'].map((name) => `${name}-${randomUUID()}`) as [string, string];
    const named = async (name: string, url: string) =>
      booked(await call(t, 'chat', { 'x-end-user-id': name }, {}, url));
    const first = await named(ann, gateway.url);
    t.same(await named(ann, other.url), first);
    const beside = await named(bob, gateway.url);
    const digests = () => sql`select * from ledger_seals order by writer, number`;
    const seals = await digests();

    await sql`select erase_end_user(${first.id})`;
    t.same(await tablesWith(ann), [], 'the name is nowhere');
    const [row] =
      await sql`select name, erased_at is not null as erased from end_users where id = ${first.id}`;
    t.same(row, { name: null, erased: true });
    t.equal(
      (await sql`select from api_usage where end_user_id = ${first.id}`).length,
      2,
      'what was booked stays',
    );
    t.same((await digests()).slice(0, seals.length), seals);

    const again = await until(
      () => named(ann, gateway.url),
      'a gateway forgets',
      ({ id }) => id !== first.id,
    );
    t.same(
      await until(
        () => named(ann, other.url),
        'so does the other',
        ({ id }) => id !== first.id,
      ),
      again,
    );
    t.same(await named(bob, other.url), beside, 'others stay who they are');
    const [entry] = await sql`
    select action, subject, subject_id, after from audit_log where company_id = ${company} and action = 'erase'`;
    t.match(entry, {
      subject: 'end_users',
      subject_id: first.id,
      after: { rows: { end_users: 1 } },
    });
    await sql`select erase_end_user(${first.id})`;
    t.equal(
      (await sql`select from audit_log where company_id = ${company} and action = 'erase'`).length,
      1,
      'once',
    );
  },
);

t.test('a company that ends takes the names of its people along', async (t) => {
  const { company, call, booked } = await front('header');
  const name = `ann-${randomUUID()}`;
  const { id } = await booked(await call(t, 'chat', { 'x-end-user-id': name }));
  await sql`update companies set closed_at = now() where id = ${company}`;
  await t.rejects(sql`update end_users set name = 'x' where id = ${id}`, /was closed/);
  t.same(
    [...(await sql`select from end_user_ids(${sql.array([company])}::uuid[], '{"new"}')`)],
    [],
    'nobody is added',
  );
  await sql`select erase_company(${company}, false)`;
  t.same(await tablesWith(name), []);
  t.equal((await sql`select from end_users where id = ${id} and erased_at is not null`).length, 1);
});
