import { randomUUID } from 'node:crypto';
import t from 'tap';
import { CostCenters } from '../../../src/domain/request/cost-center.ts';
import { costCenterOf } from '../../../src/gateway/endpoints/cost-center.ts';
import { RequestBody } from '../../../src/gateway/request/body.ts';
import type { ParsedObject } from '../../../src/json/members.ts';
import { parseObject } from '../../../src/json/parser.ts';
import { digestOfRow } from '../../../src/store/statement/digest.ts';
import { ask } from '../../support/client.ts';
import { startGateway } from '../../support/gateway.ts';
import { type Scripted, scriptedUpstream } from '../../support/upstream.ts';

/** The cost centre that a caller names is booked, on every endpoint, and steers nothing. */

const USAGE = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 };
const CHAT = {
  id: 'c',
  object: 'chat.completion',
  model: 'internal',
  choices: [{ index: 0, message: { role: 'assistant', content: 'x' }, finish_reason: 'stop' }],
  usage: USAGE,
};
const ANSWERS: Record<string, object> = {
  '/chat/completions': CHAT,
  '/embeddings': {
    object: 'list',
    model: 'internal',
    data: [{ index: 0, embedding: [1] }],
    usage: USAGE,
  },
  '/responses': {
    id: 'r',
    object: 'response',
    model: 'internal',
    status: 'completed',
    output: [],
    usage: { input_tokens: 1, output_tokens: 1, total_tokens: 2 },
  },
  '/messages': {
    id: 'm',
    type: 'message',
    role: 'assistant',
    model: 'internal',
    content: [],
    stop_reason: 'end_turn',
    usage: { input_tokens: 1, output_tokens: 1 },
  },
};

const upstream = await scriptedUpstream(t);
upstream.answer((res, _body, req) => {
  const answer = Object.entries(ANSWERS).find(([path]) => req.url?.endsWith(path))?.[1];
  res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
});

async function open(env: Record<string, string> = {}, behind: Scripted = upstream) {
  const gateway = await startGateway(t, behind.url, env);
  await gateway.model('fast', { upstream: 'internal' });
  await gateway.model('vectors', { upstream: 'internal', kind: 'embedding' });
  return gateway;
}

const gateway = await open();
const HELLO = '"messages":[{"role":"user","content":"x"}]';

/** A company of its own, and what it books for its calls, in the order of their answers. */
async function caller(at = gateway) {
  const company = await at.company();
  const key = await at.key(company);
  const assistant = await at.assistant(company, { model: 'fast' });
  const answered: (string | null)[] = [];
  return {
    company,
    async post(path: string, body: string, headers: Record<string, string> = {}) {
      const answer = await ask(at.url + path.replace('{id}', assistant), { key, body, headers });
      answered.push(answer.headers.get('x-request-id'));
      return answer;
    },
    async booked(rows: number): Promise<string[]> {
      await at.ledger(company, rows);
      const found =
        await at.sql`select request_id, cost_center from api_usage where company_id = ${company}`;
      const byCall = new Map(found.map(({ request_id, cost_center }) => [request_id, cost_center]));
      return answered.filter((id) => byCall.has(id)).map((id) => byCall.get(id));
    },
  };
}

const sent = () => String(upstream.received.at(-1)?.body);

t.test(
  'every endpoint books it; where the format has metadata, it goes upstream with the rest',
  async (t) => {
    const { company, post, booked } = await caller();
    const label = '"metadata": {"cost_center":"Einkauf \\u00fc", "note":"n"}';
    for (const [path, body, forwarded] of [
      [
        '/chat/completions',
        `{"model":"fast",${label},${HELLO}}`,
        `{"model":"internal",${label},${HELLO}}`,
      ],
      [
        '/responses',
        `{"model":"fast",${label},"input":"x"}`,
        `{"model":"internal","store":false,${label},"input":"x"}`,
      ],
      [
        '/messages',
        `{"model":"fast","max_tokens":9,${label},${HELLO}}`,
        `{"model":"internal","max_tokens":9,"metadata": { "note":"n"},${HELLO}}`,
      ],
      [
        '/embeddings',
        `{"model":"vectors",${label},"input":"x"}`,
        '{"model":"internal","metadata": { "note":"n"},"input":"x"}',
      ],
    ] as const) {
      const { status, text } = await post(path, body);
      t.equal(status, 200, text);
      t.equal(sent(), forwarded, path);
    }
    const run = await post(
      '/assistants/{id}/run',
      `{"metadata":{"cost_center":"Einkauf ü"},${HELLO}}`,
    );
    t.equal(run.status, 200, run.text);
    t.notMatch(sent(), 'metadata', 'a run sends nothing of it');
    t.same(
      await booked(5),
      Array.from({ length: 5 }, () => 'Einkauf ü'),
    );
    for (const table of ['usage_daily', 'usage_company_days', 'usage_key_months']) {
      const [row] = await gateway.sql`
      select sum(requests)::integer as requests from ${gateway.sql(table)} where company_id = ${company}
        and cost_center = 'Einkauf ü'`;
      t.equal(row?.requests, 5, table);
    }
  },
);

t.test('metadata that held nothing else leaves no trace where the format has none', async (t) => {
  const { post, booked } = await caller();
  for (const [body, forwarded] of [
    [
      `{"model":"fast","max_tokens":9,"metadata":{"cost_center":"a"},${HELLO}}`,
      `{"model":"internal","max_tokens":9,${HELLO}}`,
    ],
    [
      `{ "metadata" : {"cost_center":"b"} , "model":"fast","max_tokens":9,${HELLO}}`,
      `{ "model":"internal","max_tokens":9,${HELLO}}`,
    ],
    [
      `{"model":"fast","max_tokens":9,${HELLO} ,"metadata":{ "cost_center" : "c" }}`,
      `{"model":"internal","max_tokens":9,${HELLO}}`,
    ],
    [
      `{"model":"fast","max_tokens":9,"metadata":{"user_id":"u","cost_center":"d"},${HELLO}}`,
      `{"model":"internal","max_tokens":9,"metadata":{"user_id":"u"},${HELLO}}`,
    ],
  ] as const) {
    t.equal((await post('/messages', body)).status, 200);
    t.equal(sent(), forwarded);
  }
  const large = 'x'.repeat(70_000);
  const body = `{"metadata":{"cost_center":"e"},"model":"fast","max_tokens":9,"system":"${large}",${HELLO}}`;
  t.equal((await post('/messages', body)).status, 200, 'a body that is scanned as it arrives');
  t.equal(
    sent(),
    body.replace('"metadata":{"cost_center":"e"},', '').replace('"fast"', '"internal"'),
  );
  t.same(await booked(5), ['a', 'b', 'c', 'd', 'e']);
});

t.test('a large body is not copied to remove it', async (t) => {
  const text = Buffer.from(
    `{"model":"fast",${HELLO},"x":"${'x'.repeat(1_000_000)}","metadata":{"cost_center":"a"}}`,
  );
  const object = parseObject(text) as ParsedObject;
  let copied = 0;
  class Body extends RequestBody {
    override slice(start: number, end: number): Buffer {
      copied += end - start;
      return super.slice(start, end);
    }
  }
  const body = new Body([text.subarray(0, 99), text.subarray(99)], text.length, object);
  const { removal } = costCenterOf(
    { request: null, body, members: object.members, limiting: [] },
    'cost_center',
  );
  t.equal(
    `${Buffer.concat(body.edited(removal))}`,
    `${text}`.replace(',"metadata":{"cost_center":"a"}', ''),
  );
  t.ok(copied < 100, `${copied} bytes`);
});

t.test('what is no label is no cost centre, and disturbs nobody', async (t) => {
  const { post, booked } = await caller();
  // biome-ignore format: a table
  const bodies = [
    'null', '{}', '{"cost_center":null}', '{"cost_center":""}', '{"cost_center":"  "}',
    '{"cost_center":["a"]}', '{"cost_center":{"a":"b"}}', '{"cost_center":true}', '{"Cost_Center":"a"}',
  ];
  for (const metadata of bodies) {
    const body = `{"model":"fast","metadata":${metadata},${HELLO}}`;
    const { status, text } = await post('/chat/completions', body);
    t.equal(status, 200, text);
    t.equal(sent(), body.replace('fast', 'internal'));
  }
  t.same(
    await booked(bodies.length),
    bodies.map(() => ''),
  );
  const named = [
    ['"  x  "', 'x'],
    ['4711', '4711'],
    ['"\\ud83d\\ude00"', '😀'],
    [`"${'ü'.repeat(64)}"`, 'ü'.repeat(64)],
  ];
  for (const [json] of named)
    await post('/chat/completions', `{"model":"fast","metadata":{"cost_center":${json}},${HELLO}}`);
  t.same(
    (await booked(bodies.length + named.length)).slice(bodies.length),
    named.map(([, name]) => name),
  );
});

t.test('a text that cannot be booked is refused, by name', async (t) => {
  const { post } = await caller();
  const before = upstream.received.length;
  const bad = ['x'.repeat(65), '=1+1', '@x', '-x', '+x', 'a\nb', 'a\u0000', 'a\u202eb', '\ud800'];
  for (const name of bad) {
    for (const path of ['/chat/completions', '/assistants/{id}/run']) {
      const model = path === '/chat/completions' ? '"model":"fast",' : '';
      const answer = await post(
        path,
        `{${model}"metadata":{"cost_center":${JSON.stringify(name)}},${HELLO}}`,
      );
      t.match(
        answer,
        { status: 400, json: { error: { param: 'metadata.cost_center' } } },
        JSON.stringify(name),
      );
    }
  }
  const twice = await post(
    '/chat/completions',
    `{"model":"fast","metadata":{"cost_center":"a","cost_center":"b"},${HELLO}}`,
  );
  t.match(twice, { status: 400, json: { error: { param: 'metadata.cost_center' } } });
  const other = await post('/assistants/{id}/run', `{"metadata":{"team":"a"},${HELLO}}`);
  t.match(other, {
    status: 400,
    json: { error: { param: 'metadata.team', code: 'unsupported_parameter' } },
  });
  t.equal(upstream.received.length, before);
});

t.test('another member can name it, or none', async (t) => {
  const team = await caller(await open({ COST_CENTER_MEMBER: 'team' }));
  const both = `{"model":"fast","metadata":{"cost_center":["free"],"team":"blue"},${HELLO}}`;
  t.equal((await team.post('/chat/completions', both)).status, 200);
  t.same(await team.booked(1), ['blue']);

  const none = await caller(await open({ COST_CENTER_MEMBER: '' }));
  const long = `{"model":"fast","metadata":{"cost_center":"${'x'.repeat(200)}"},${HELLO}}`;
  t.equal((await none.post('/chat/completions', long)).status, 200);
  t.same(await none.booked(1), ['']);
  const run = await none.post('/assistants/{id}/run', `{"metadata":{"cost_center":"x"},${HELLO}}`);
  t.match(run, {
    status: 400,
    json: { error: { param: 'metadata', code: 'unsupported_parameter' } },
  });
});

t.test(
  'a header names it where the body names none, in every dialect, and goes no further',
  async (t) => {
    const { company, post, booked } = await caller(
      await open({ COST_CENTER_HEADER: 'X-Cost-Center' }),
    );
    const named = (name: string) => ({ 'x-COST-center': name });
    const bodies = [
      ['/chat/completions', `{"model":"fast",${HELLO}}`],
      ['/responses', '{"model":"fast","input":"x"}'],
      ['/messages', `{"model":"fast","max_tokens":9,${HELLO}}`],
      ['/embeddings', '{"model":"vectors","input":"x"}'],
      ['/assistants/{id}/run', `{${HELLO}}`],
    ] as const;
    for (const [path, body] of bodies) {
      t.equal(
        (await post(path, body, named(Buffer.from(' Einkauf ü').toString('latin1')))).status,
        200,
        path,
      );
      t.notMatch(JSON.stringify(upstream.received.at(-1)), /cost-center|Einkauf/i, path);
    }
    const own = `{"model":"fast","metadata":{"cost_center":"own"},${HELLO}}`;
    const object = `{"model":"fast","metadata":{"cost_center":["x"]},${HELLO}}`;
    await post('/chat/completions', own, named('header'));
    await post('/chat/completions', object, named('M\xfcnchen'));
    await post('/chat/completions', bodies[0][1], named(' '));
    await post('/chat/completions', bodies[0][1]);
    const wanted = [...bodies.map(() => 'Einkauf ü'), 'own', 'München', '', ''];
    t.same(await booked(wanted.length), wanted, company);

    const before = upstream.received.length;
    for (const name of ['=1+1', 'x'.repeat(65), 'a\u00ad']) {
      for (const [path, body] of bodies) {
        const answer = await post(path, body, named(name));
        t.match(
          answer,
          { status: 400, json: { error: { message: /header 'x-cost-center'/ } } },
          `${path} ${name}`,
        );
      }
      t.equal((await post('/chat/completions', own, named(name))).status, 200, 'the body wins');
    }
    const two = { ...named('a'), 'x-cost-center': 'b' };
    t.equal((await post('/chat/completions', bodies[0][1], two)).status, 400, 'two different ones');
    t.equal(upstream.received.length, before + 3);
  },
);

t.test(
  'records of gateways that know no cost centre are booked, and seals hold for old and new',
  async (t) => {
    const writer = randomUUID();
    const company = randomUUID();
    const record = (more: object) => ({
      billing_month: '2026-11-01',
      request_id: randomUUID(),
      company_id: company,
      api_key_id: company,
      model_slug: 'fast',
      upstream_model: 'internal',
      endpoint: 'messages',
      prompt_tokens: 1000,
      completion_tokens: 0,
      cost_eur: 1,
      price_input: 1,
      price_output: 0,
      usage_source: 'upstream',
      outcome: 'completed',
      occurred_at: '2026-11-03T10:00:00Z',
      ...more,
    });
    const records = [record({}), record({ cost_center: 'new' })];
    await gateway.sql`select from book_usage(${writer}::uuid, ${JSON.stringify(records)}::text::json)`;
    const rows = await gateway.sql`
    select cost_center, ${gateway.sql.unsafe(digestOfRow('u'))} = substr(sha256(convert_to(json_build_array(billing_month, request_id, company_id,
      api_key_id, model_slug, upstream_model, endpoint, prompt_tokens, completion_tokens, cost_eur, price_input, price_output,
      usage_source, outcome, extract(epoch from occurred_at))::text, 'UTF8')), 1, 16) as old
    from api_usage u where company_id = ${company} order by 1`;
    t.same(
      rows,
      [
        { cost_center: '', old: true },
        { cost_center: 'new', old: false },
      ],
      'digests of before are those of before',
    );
    await t.rejects(
      gateway.sql`select from book_usage(${writer}::uuid, ${JSON.stringify([record({ cost_center: 'a\nb' })])}::text::json)`,
      /api_usage_cost_center_check/,
    );
  },
);

t.test(
  'a cost centre for each call is booked with the others of its company, and the log tells it',
  async (t) => {
    const { company, post, booked } = await caller();
    const call = (n: number) =>
      post('/embeddings', `{"model":"vectors","input":"x","metadata":{"cost_center":"call ${n}"}}`);
    const { of } = CostCenters.prototype;
    CostCenters.prototype.of = function (id, month, name) {
      CostCenters.prototype.of = of;
      for (let n = 1; n < 9999; n++) of.call(this, id, month, `call ${n}`); // as if it had had so many calls before
      return of.call(this, id, month, name);
    };
    for (const n of [0, 9999, 10_000, 0, 10_001]) t.equal((await call(n)).status, 200);
    t.same(await booked(5), ['call 0', 'call 9999', '(others)', 'call 0', '(others)']);
    const told = gateway.logged.filter((line) => line.includes('very many cost centres'));
    t.match(
      told.map((line) => JSON.parse(line)),
      [{ level: 40, company }],
      'once',
    );
  },
);
