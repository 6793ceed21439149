import { connect } from 'node:net';
import t, { type Test } from 'tap';
import { openApp } from '../../../src/app.ts';
import { readConfig } from '../../../src/config.ts';
import { createLog } from '../../../src/log.ts';
import { NIL_ID } from '../../../src/store/connection/expressions.ts';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { trailStore } from '../../../src/store/gateway/request-trail.ts';
import { type Answer, ask, open } from '../../support/client.ts';
import { holds } from '../../support/postgres.ts';
import { addRequests } from '../../support/requests.ts';
import { until } from '../../support/until.ts';
import { CHAT, OVERSEAS, startWorld, type World } from '../../support/world.ts';

/** What the trail holds of requests, from the gateway's side to the table. */

type Row = Readonly<Record<string, unknown>>;

/** The row of a request, once it is there. */
async function rowOf(world: World, id: string | null): Promise<Row> {
  const rows = await until(
    () => world.sql<Row[]>`select * from request_trail where request_id = ${id}`,
    `the trail's row of ${id}`,
    ({ length }) => length > 0,
  );
  return rows[0] as Row;
}

const idOf = ({ headers }: Answer | Response): string => headers.get('x-request-id') as string;

async function tells(
  t: Test,
  world: World,
  answer: Answer | Response,
  expected: Row,
): Promise<Row> {
  const row = await rowOf(world, idOf(answer));
  t.match(row, { status: answer.status, ...expected });
  return row;
}

const UNKNOWN = { company_id: NIL_ID, api_key_id: NIL_ID };
const NOT_BOOKED = { outcome: null, cost_eur: null, upstream_status: null, upstream_reason: null };

t.test('every request leaves one row, whatever became of it', async (t) => {
  const world = await startWorld(t, { MAX_BODY_BYTES: '2048' });
  const { customer, upstream } = world;
  const { company } = customer;
  const [{ id: key }] = await world.sql<
    [{ id: string }]
  >`select id from api_keys where company_id = ${company}`;
  const own = { company_id: company, api_key_id: key, endpoint: 'chat.completions' };
  t.jobs = 20; // each waits for the trail, which is written once a second
  const running: PromiseLike<unknown>[] = [];
  const it = (name: string, run: (t: Test) => Promise<void>) =>
    void running.push(t.test(name, { buffered: true }, run));
  const part = (slug: string, model: string) => world.part(customer, slug, model);
  await part('refusing', upstream.parts.refusing);
  await part('limited', upstream.parts.limited);
  await part('failing', upstream.parts.failing);
  await part('broken', upstream.parts.broken);
  await part('endless', 'internal-demo-endless!events-100000');

  it('200', async (t) => {
    const row = await tells(t, world, await customer.chat(), {
      ...own,
      model_slug: CHAT,
      outcome: 'completed',
      code: null,
    });
    t.ok(
      Number(row.prompt_tokens) > 0 &&
        Number(row.completion_tokens) > 0 &&
        Number(row.cost_eur) > 0,
    );
    t.ok(
      (row.added_us as number) > 0 &&
        (row.added_us as number) / 1000 <= (row.duration_ms as number) + 1,
    );
    const booked = (await world.ledger(company, 1)).find(
      ({ request_id }) => request_id === row.request_id,
    );
    t.equal(Number(row.cost_eur), Number(booked?.cost_eur), 'the cost is that of the ledger');
    t.ok(Math.abs((row.occurred_at as Date).getTime() - Date.now()) < 60_000);
    t.equal(row.first_event_ms, null);
  });
  it('200, streamed', async (t) => {
    const row = await tells(t, world, await customer.chat({ stream: true }), {
      ...own,
      outcome: 'completed',
    });
    t.ok(
      (row.first_event_ms as number) >= 0 &&
        (row.first_event_ms as number) <= (row.duration_ms as number),
    );
  });
  it('200 of endpoints that cost nothing', async (t) => {
    await tells(t, world, await customer.ask('/models'), {
      ...own,
      ...NOT_BOOKED,
      endpoint: 'models',
      model_slug: null,
    });
    await tells(t, world, await customer.embed(), {
      ...own,
      endpoint: 'embeddings',
      completion_tokens: 0,
    });
  });
  it('400', async (t) => {
    const row = { ...own, ...NOT_BOOKED, code: 'unsupported_parameter', param: 'api_key' };
    await tells(t, world, await customer.chat({ api_key: 'x' }), row);
    const refused = { upstream_status: 400, outcome: 'upstream_failed', model_slug: 'refusing' };
    const { upstream_reason } = await tells(t, world, await customer.chat({ model: 'refusing' }), {
      ...own,
      ...refused,
    });
    t.match(upstream_reason, /400/, 'the words of the upstream');
    t.notMatch(upstream_reason, /sk-|svc_/);
  });
  it('401', async (t) => {
    const strangers = {
      ...UNKNOWN,
      ...NOT_BOOKED,
      code: 'invalid_api_key',
      endpoint: 'chat.completions',
      asked: null,
    };
    await tells(
      t,
      world,
      await customer.ask('/chat/completions', { key: 'svc_wrong', body: {} }),
      strangers,
    );
    const expired = await world.key(company, ['chat'], new Date(0));
    const known = await customer.ask('/models', { key: expired });
    const row = { company_id: company, code: 'invalid_api_key', param: 'key.expires_at' };
    t.not((await tells(t, world, known, row)).api_key_id, NIL_ID);
    const other = await world.newCustomer();
    await world.sql`update api_keys set revoked_at = now() where company_id = ${other.company}`;
    const [{ id }] = await world.sql<
      [{ id: string }]
    >`select id from api_keys where company_id = ${other.company}`;
    const revoked = { ...row, company_id: other.company, api_key_id: id, param: 'key.revoked_at' };
    await tells(t, world, await other.chat(), revoked);
    await world.sql`update companies set closed_at = now() where id = ${other.company}`;
    const unknown = async () =>
      (await rowOf(world, idOf(await other.chat()))).company_id === NIL_ID;
    await until(unknown, 'a key of a closed company is unknown');
  });
  it('402', async (t) => {
    const poor = await world.newCustomer({ budget: '0.000000001' });
    t.equal((await poor.chat()).status, 200);
    await world.ledger(poor.company, 1);
    const row = {
      company_id: poor.company,
      code: 'insufficient_quota',
      model_slug: CHAT,
      ...NOT_BOOKED,
    };
    await tells(t, world, await poor.chat(), { ...row, param: 'company.monthly_budget_eur' });
    const strict = await world.newCustomer({ budget: '0.000000001' });
    await world.sql`update companies set budget_mode = 'strict' where id = ${strict.company}`;
    await tells(t, world, await strict.chat({ max_tokens: 100 }), {
      status: 402,
      param: 'company.budget_mode',
    });
    const narrow = await world.newCustomer();
    await world.sql`update api_keys set monthly_budget_eur = 0.000000001 where company_id = ${narrow.company}`;
    const reached = await until(
      () => narrow.chat(),
      'the budget of the key is reached',
      ({ status }) => status === 402,
    );
    await tells(t, world, reached, { param: 'key.monthly_budget_eur' });
  });
  it('403', async (t) => {
    const gate = { ...own, ...NOT_BOOKED, code: 'non_eu_model_blocked', asked: OVERSEAS };
    await tells(t, world, await customer.chat({ model: OVERSEAS }), gate);
    const narrow = await world.key(company, ['embeddings']);
    const body = { model: CHAT, messages: [] };
    const scope = await customer.ask('/chat/completions', { key: narrow, body });
    await tells(t, world, scope, { company_id: company, code: 'insufficient_scope' });
  });
  it('404', async (t) => {
    const unknown = { ...own, ...NOT_BOOKED, code: 'not_found', model_slug: null };
    await tells(t, world, await customer.chat({ model: 'no-such' }), {
      ...unknown,
      param: 'model',
      asked: 'no-such',
    });
    await tells(t, world, await customer.chat({ model: 'Dear diary' }), {
      ...unknown,
      asked: '(no name)',
    });
    await tells(t, world, await customer.ask('/nowhere'), {
      ...UNKNOWN,
      ...NOT_BOOKED,
      endpoint: 'unknown',
    });
  });
  it('413', async (t) => {
    const messages = [{ role: 'user', content: 'secret '.repeat(1000) }];
    await tells(t, world, await customer.chat({ messages }), {
      ...own,
      ...NOT_BOOKED,
      code: 'request_too_large',
    });
  });
  it('429 of the upstream, and of a limit', async (t) => {
    const said = { upstream_status: 429, outcome: 'upstream_failed', code: 'rate_limit_exceeded' };
    await tells(t, world, await customer.chat({ model: 'limited' }), { ...own, ...said });
    const limited = await world.newCustomer();
    await world.sql`update companies set requests_per_minute = 1 where id = ${limited.company}`;
    const refused = await until(
      () => limited.chat(),
      'the limit holds',
      ({ status }) => status === 429,
    );
    const row = { company_id: limited.company, upstream_status: null, code: 'rate_limit_exceeded' };
    await tells(t, world, refused, { ...row, param: 'company.requests_per_minute' });
  });
  it('502', async (t) => {
    const said = {
      upstream_status: 500,
      outcome: 'upstream_failed',
      code: 'upstream_error',
      cost_eur: null,
    };
    await tells(t, world, await customer.chat({ model: 'failing' }), { ...own, ...said });
  });
  it('a stream that breaks off midway', async (t) => {
    const said = {
      status: 200,
      code: 'upstream_error',
      outcome: 'upstream_failed',
      upstream_status: null,
    };
    const row = await tells(t, world, await customer.chat({ model: 'broken', stream: true }), {
      ...own,
      ...said,
    });
    t.match(row.upstream_reason, /\w/);
  });
  it('a client that leaves', async (t) => {
    const leaving = new AbortController();
    const body = { model: 'endless', stream: true, messages: [{ role: 'user', content: 'x' }] };
    const answer = await open(`${world.url}/chat/completions`, {
      key: customer.key,
      body,
      signal: leaving.signal,
    });
    leaving.abort();
    await tells(t, world, answer, {
      ...own,
      status: 200,
      outcome: 'client_aborted',
      model_slug: 'endless',
    });
  });
  it('bytes that are no request', async (t) => {
    const { hostname, port } = new URL(world.url);
    const socket = connect(Number(port), hostname);
    socket.write('this is not HTTP\r\n\r\n');
    const text = Buffer.concat(await socket.toArray()).toString();
    const id = /x-request-id: (\S+)/.exec(text)?.[1] as string;
    t.match(await rowOf(world, id), {
      ...UNKNOWN,
      ...NOT_BOOKED,
      status: 400,
      endpoint: 'unknown',
    });
  });

  await Promise.all(running);
  await t.test(
    'failures of the upstream are the same everywhere, and none is a mistake of the caller',
    async (t) => {
      const [sums] = await world.sql`
      select sum(upstream_failed)::integer as failed, count(*) filter (where reasons <> '{}')::integer as reasoned,
        (select count(*) from request_trail where upstream_reason is not null)::integer as noted from request_hours`;
      // of what it answered to "refusing", "limited", "failing" and "broken" all but the first
      t.match(sums, { failed: 3, noted: 4 });
      t.ok(sums?.reasoned > 0);
      const { text } = await ask(`${world.adminUrl}/metrics`);
      t.match(text, /^tollgate_upstream_failures_total 3$/m);
      const said = (words: string) =>
        world.logged.filter((line) => line.includes(`"msg":"${words}"`));
      t.equal(said('upstream failed').length, 3);
      t.match(said('upstream refused the request'), [/"level":30,.*400/]);
    },
  );
  await t.test('nothing else is kept', async (t) => {
    const rows = await world.sql<Row[]>`select * from request_trail`;
    t.equal(new Set(rows.map((row) => row.request_id)).size, rows.length);
    t.notMatch(JSON.stringify(rows), /diary|secret|svc_|Hello there/, 'no prompts and no keys');
    const [{ counted }] = await world.sql<
      [{ counted: number }]
    >`select sum(requests)::integer as counted from request_hours`;
    t.equal(counted, rows.length);
  });
});

t.test('504', async (t) => {
  const world = await startWorld(t, { FIRST_BYTE_SECONDS: '1' }); // on a busy machine other calls may take as long
  const { customer } = world;
  await world.part(customer, 'slow', 'internal-demo-slow!slow-first-byte-30000');
  const said = {
    upstream_status: null,
    upstream_reason: 'too slow: first_byte',
    code: 'upstream_timeout',
  };
  const row = await tells(t, world, await customer.chat({ model: 'slow' }), {
    company_id: customer.company,
    ...said,
  });
  t.ok((row.duration_ms as number) >= 1000);
});

t.test('a request that is refused for overload is there too, with its company', async (t) => {
  const world = await startWorld(t, { MAX_REQUESTS: '1' });
  const { customer, upstream } = world;
  const { company } = customer;
  const slow = await world.part(customer, 'slow', `${upstream.parts.chat}!slow-first-byte-30000`);
  await customer.ask('/models'); // now the key is in memory
  const leaving = new AbortController();
  const body = { model: slow, messages: [{ role: 'user', content: 'x' }] };
  const held = open(`${world.url}/chat/completions`, {
    key: customer.key,
    body,
    signal: leaving.signal,
  });
  held.catch(() => {});
  await until(
    () => upstream.received(),
    'the first one waits for its answer',
    (calls) => calls.some(({ outcome }) => outcome === 'open'),
  );
  const shed = await customer.ask('/models');
  t.equal(shed.status, 503);
  leaving.abort();
  const row = { company_id: company, endpoint: 'shed', code: 'service_unavailable', ...NOT_BOOKED };
  await tells(t, world, shed, row);
});

t.test('with REQUEST_TRAIL_DAYS=0 nothing is kept, and nothing is measured', async (t) => {
  const world = await startWorld(t, { REQUEST_TRAIL_DAYS: '0' });
  await world.customer.chat();
  const metrics = await (await fetch(`${world.adminUrl}/metrics`)).text();
  t.notMatch(metrics, /tollgate_request_trail/);
  await world.ledger(world.customer.company, 1);
  const [{ days }] = await world.sql<[{ days: number }]>`
    select count(*)::integer as days from pg_inherits where inhparent = 'request_trail'::regclass`;
  t.equal(days, 0);
});

t.test('with REQUEST_TRAIL_DAYS=0 the days that were kept before are dropped', async (t) => {
  const world = await startWorld(t);
  const yesterday = Date.now() - 86_400_000;
  const db = openDatabase({ url: world.databaseUrl });
  t.teardown(() => db.close());
  await addRequests(trailStore(db), [{ at: yesterday, company: world.customer.company }]);
  const env = {
    DATABASE_URL: world.databaseUrl,
    REQUEST_TRAIL_DAYS: '0',
    PORT: '0',
    ADMIN_PORT: 'off',
    SPOOL_DIR: '',
  };
  const app = await openApp(
    readConfig({ ...env, UPSTREAM_URL: world.upstream.url }),
    createLog({ level: 'silent' }, process.stderr),
  );
  t.teardown(() => app.close());
  const day = new Date(yesterday).toISOString().slice(0, 10).replaceAll('-', '');
  await until(
    () => holds(db, `to_regclass('request_trail_${day}') is null`),
    'yesterday is dropped',
  );
});

t.test('a trail that cannot be written costs no request, and is counted', async (t) => {
  const world = await startWorld(t);
  await world.sql`drop table request_trail`;
  t.equal((await world.customer.chat()).status, 200);
  await until(async () => {
    const text = await (await fetch(`${world.adminUrl}/metrics`)).text();
    return /tollgate_request_trail_total\{result="dropped"\} [1-9]/.test(text);
  }, 'requests that are dropped are counted');
  t.equal((await world.ledger(world.customer.company, 1)).length, 1);
});
