import t, { type Test } from 'tap';
import { ask, open } from '../../support/client.ts';
import { type Collector, type Span, startCollector } from '../../support/collector.ts';
import { until } from '../../support/until.ts';
import { MASTER_KEY, scriptedUpstream } from '../../support/upstream.ts';
import { CHAT, EMBED, INTERNAL, startWorld, type World } from '../../support/world.ts';

const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
/** Of a caller that leaves. */
const LEFT = '5bf92f3577b34da6a3ce929d0e0e4737';
const PARENT = '00f067aa0ba902b7';
const MESSAGES = [{ role: 'user', content: 'My secret diary' }];

async function tracedWorld(
  t: Test,
  env: Record<string, string> = {},
): Promise<{ world: World; collector: Collector }> {
  const collector = await startCollector(t);
  const world = await startWorld(t, {
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20collector-secret, x-tenant=a',
    OTEL_SERVICE_NAME: 'our-gateway',
    ...env,
  });
  return { world, collector };
}

/** Of the tests that need no settings of their own. */
const shared = await tracedWorld(t);

/** The spans of one trace, the server's first, as soon as there are so many. */
async function trace(collector: Collector, id: string, count: number): Promise<Span[]> {
  const spans = await until(
    () => collector.spans().filter(({ traceId }) => traceId === id),
    `${count} spans of trace ${id}`,
    ({ length }) => length >= count,
  );
  return spans.sort((a, b) => a.kind - b.kind);
}

const traceOf = (requestId: string | null): string => String(requestId).replaceAll('-', '');

t.test('a call is two spans after the conventions for HTTP and for generative AI', async (t) => {
  const { world, collector } = shared;
  const answer = await world.customer.chat();
  const requestId = answer.headers.get('x-request-id') as string;
  const [server, client] = (await trace(collector, traceOf(requestId), 2)) as [Span, Span];
  const { added, ...attributes } = splitAdded(server);
  t.ok(added > 0);
  t.match(server, {
    name: 'POST /v1/chat/completions',
    kind: 2,
    parentSpanId: undefined,
    status: undefined,
  });
  t.same(attributes, {
    'http.request.method': 'POST',
    'http.route': '/v1/chat/completions',
    'url.path': '/v1/chat/completions',
    'url.scheme': 'http',
    'http.response.status_code': 200,
    'server.address': '127.0.0.1',
    'server.port': Number(new URL(world.url).port),
    'tollgate.request_id': requestId,
    'tollgate.company_id': world.customer.company,
  });
  t.match(client, {
    name: `chat ${CHAT}`,
    kind: 3,
    parentSpanId: server.spanId,
    status: undefined,
  });
  t.same(client.attributes, {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'tollgate',
    'gen_ai.request.model': CHAT,
    'gen_ai.response.model': CHAT,
    'gen_ai.usage.input_tokens': answer.json.usage.prompt_tokens,
    'gen_ai.usage.output_tokens': answer.json.usage.completion_tokens,
    'tollgate.outcome': 'completed',
  });
  t.match(server.resource, {
    'service.name': 'our-gateway',
    'service.instance.id': /^[\da-f-]{36}$/,
  });
  t.ok(BigInt(server.startTimeUnixNano) <= BigInt(client.startTimeUnixNano));
  t.ok(BigInt(server.endTimeUnixNano) >= BigInt(client.endTimeUnixNano));
  t.match(collector.posts[0]?.headers, {
    authorization: 'Bearer collector-secret',
    'x-tenant': 'a',
  });
  t.ok(
    world.logged.some(
      (line) => line.includes(requestId) && line.includes(`"trace_id":"${traceOf(requestId)}"`),
    ),
  );
});

function splitAdded({ attributes }: Span) {
  const { 'tollgate.added_us': added, ...rest } = attributes;
  return { added: added as number, ...rest };
}

t.test('each endpoint by its own name', async (t) => {
  const { world, collector } = shared;
  const { customer } = world;
  const assistant = await world.assistant(customer.company, { model: CHAT });
  const seen = async (answer: { headers: Headers }, count: number) =>
    trace(collector, traceOf(answer.headers.get('x-request-id')), count);

  const [embedding, embed] = await seen(await customer.embed(), 2);
  t.match(embedding, { name: 'POST /v1/embeddings' });
  t.match(embed, {
    name: `embeddings ${EMBED}`,
    attributes: { 'gen_ai.operation.name': 'embeddings' },
  });
  t.equal(embed?.attributes['gen_ai.usage.output_tokens'], undefined);

  const [running, run] = await seen(await customer.run(assistant), 2);
  t.match(running, { name: 'POST /v1/assistants/{id}/run', attributes: { 'url.path': undefined } });
  t.match(run, { name: `chat ${CHAT}` });

  for (const path of ['/responses', '/messages', '/messages/count_tokens']) {
    const body = { model: CHAT, max_tokens: 9, input: 'x', messages: MESSAGES };
    const [server, client] = await seen(await customer.ask(path, { body }), 2);
    t.match(server, { name: `POST /v1${path}`, attributes: { 'http.route': `/v1${path}` } });
    t.match(client, { name: `chat ${CHAT}` });
  }

  const [, stream] = await seen(await customer.chat({ stream: true }), 2);
  t.equal(stream?.attributes['gen_ai.request.stream'], true);
  t.ok((stream?.attributes['gen_ai.response.time_to_first_chunk'] as number) > 0);

  t.match(await seen(await customer.ask('/models'), 1), [
    { name: 'GET /v1/models', attributes: { 'url.path': '/v1/models' } },
  ]);
  t.match(await seen(await customer.ask(`/models/${CHAT}`), 1), [
    { name: 'GET /v1/models/{model}' },
  ]);

  t.match(await seen(await customer.ask('/usage'), 1), [
    { name: 'GET /v1/usage', attributes: { 'url.path': '/v1/usage' } },
  ]);
  t.match(await seen(await customer.ask('/usage/secret'), 1), [
    { name: 'GET /v1/usage/{id}', attributes: { 'url.path': undefined } },
  ]);
});

t.test('refusals and failures', async (t) => {
  const { world, collector } = shared;
  const customer = await world.newCustomer();
  const seen = async (answer: { headers: Headers }, count: number) =>
    trace(collector, traceOf(answer.headers.get('x-request-id')), count);

  const { failing, limited, broken } = world.upstream.parts;
  for (const [slug, upstream] of Object.entries({ failing, limited, broken }))
    await world.part(customer, slug, upstream);

  const lost = await customer.ask('/secret-diary?and=more', { method: 'PROPFIND' });
  const [unknown] = await seen(lost, 1);
  t.match(unknown, {
    name: '_OTHER',
    status: undefined,
    attributes: { 'http.response.status_code': 404 },
  });
  t.equal(
    unknown?.attributes['url.path'],
    undefined,
    "a path that is no route is the caller's text",
  );

  const [gated] = await seen(await ask(`${world.url}/chat/completions`, { body: {} }), 1);
  t.match(gated, {
    attributes: { 'http.response.status_code': 401, 'error.type': undefined },
    status: undefined,
  });

  const [server, client] = await seen(await customer.chat({ model: 'failing' }), 2);
  for (const span of [server, client])
    t.match(span, { attributes: { 'error.type': '502' }, status: { code: 2 } });
  t.match(client, { attributes: { 'tollgate.outcome': 'upstream_failed' } });

  const refused = await seen(await customer.chat({ model: 'limited' }), 2);
  t.equal(refused[0]?.status, undefined, 'what the server answers with 4xx is not its error');
  t.match(refused[1], { attributes: { 'error.type': '429' }, status: { code: 2 } });

  const cut = await seen(await customer.chat({ model: 'broken', stream: true }), 2);
  for (const span of cut)
    t.match(span, { attributes: { 'error.type': 'upstream_failed' }, status: { code: 2 } });
});

t.test('a request shed by overload has its span, in the trace of its caller', async (t) => {
  const { world, collector } = await tracedWorld(t, { MAX_REQUESTS: '1' });
  const { customer } = world;
  await world.part(customer, 'waiting', 'internal-x!stall-after-1');
  const leave = new AbortController();
  t.teardown(() => leave.abort());
  const waiting = { model: 'waiting', messages: MESSAGES, stream: true };
  const stream = await open(`${world.url}/chat/completions`, {
    key: customer.key,
    body: waiting,
    signal: leave.signal,
  });

  const began = await customer.chat();
  t.equal(began.status, 503);
  const requestId = String(began.headers.get('x-request-id'));
  const [alone] = await trace(collector, traceOf(requestId), 1);
  t.match(alone, {
    name: 'POST',
    kind: 2,
    parentSpanId: undefined,
    status: { code: 2 },
    attributes: {
      'http.response.status_code': 503,
      'error.type': '503',
      'tollgate.request_id': requestId,
    },
  });
  t.match(alone?.attributes, { 'http.route': undefined }, 'nothing was looked up'); // its company, where it is in memory

  const headers = { traceparent: `00-${TRACE}-${PARENT}-01` };
  const body = { model: CHAT, messages: MESSAGES };
  t.equal(
    (await ask(`${world.url}/chat/completions`, { key: customer.key, body, headers })).status,
    503,
  );
  t.match(await trace(collector, TRACE, 1), [{ parentSpanId: PARENT, status: { code: 2 } }]);
  t.equal(
    stream.status,
    200,
    'referred to until here: fetch ends an answer that is collected as garbage',
  );
});

t.test(
  "a caller's trace is continued, and nothing else of its headers goes upstream",
  async (t) => {
    const { world, collector } = shared;
    const traced = {
      traceparent: `00-${TRACE}-${PARENT}-01`,
      tracestate: 'vendor=secret',
      baggage: 'user=secret',
    };
    const body = { model: CHAT, messages: MESSAGES };
    await ask(`${world.url}/chat/completions`, { key: world.customer.key, body, headers: traced });
    const [server, client] = (await trace(collector, TRACE, 2)) as [Span, Span];
    t.equal(server.parentSpanId, PARENT);
    const received = world.upstream.received().at(-1);
    t.equal(received?.headers.traceparent, `00-${TRACE}-${client.spanId}-01`);
    t.equal(received?.headers.tracestate, undefined);
    t.equal(received?.headers.baggage, undefined);
  },
);

t.test('a trace that is not recorded is passed on, and not recorded', async (t) => {
  const { world, collector } = await tracedWorld(t, {
    OTEL_TRACES_SAMPLER: 'parentbased_traceidratio',
    OTEL_TRACES_SAMPLER_ARG: '0',
  });
  const { key } = world.customer;
  const body = { model: CHAT, messages: MESSAGES };
  const send = (flags: string) =>
    ask(`${world.url}/chat/completions`, {
      key,
      body,
      headers: { traceparent: `00-${TRACE}-${PARENT}-${flags}` },
    });
  await world.customer.chat();
  await send('00');
  await send('03'); // its caller has decided
  await trace(collector, TRACE, 2);
  t.equal(collector.spans().length, 2);
  const sent = world.upstream.received().map(({ headers }) => String(headers.traceparent));
  t.match(sent[0], /^00-[\da-f]{32}-[\da-f]{16}-00$/);
  t.match(sent[1], new RegExp(`^00-${TRACE}-[\\da-f]{16}-00$`));
  t.match(sent[2], new RegExp(`^00-${TRACE}-[\\da-f]{16}-03$`));
});

t.test('a sampler that does not follow the caller decides by itself', async (t) => {
  const { world, collector } = await tracedWorld(t, { OTEL_TRACES_SAMPLER: 'always_on' });
  const { key } = world.customer;
  const traceparent = `00-${TRACE}-${PARENT}-02`;
  const body = { model: CHAT, messages: MESSAGES };
  await ask(`${world.url}/chat/completions`, { key, body, headers: { traceparent } });
  await trace(collector, TRACE, 2);
  const [sent] = world.upstream.received();
  t.match(sent?.headers.traceparent, new RegExp(`^00-${TRACE}-[\\da-f]{16}-03$`));
});

t.test('what is no valid traceparent, or is there twice, begins a new trace', async (t) => {
  const { world } = shared;
  const { key } = world.customer;
  const body = { model: CHAT, messages: MESSAGES };
  const twice = `00-${TRACE}-${PARENT}-01, 00-${TRACE}-${PARENT}-01`;
  for (const traceparent of ['nonsense', twice, `00-${'0'.repeat(32)}-${PARENT}-01`]) {
    const { headers } = await ask(`${world.url}/chat/completions`, {
      key,
      body,
      headers: { traceparent },
    });
    const sent = world.upstream.received().at(-1)?.headers.traceparent;
    t.match(sent, new RegExp(`^00-${traceOf(headers.get('x-request-id'))}-[\\da-f]{16}-01$`));
  }
});

t.test('without a collector nothing of the headers goes upstream', async (t) => {
  const world = await startWorld(t);
  const headers = {
    traceparent: `00-${TRACE}-${PARENT}-01`,
    tracestate: 'vendor=secret',
    baggage: 'user=secret',
  };
  const body = { model: CHAT, messages: MESSAGES };
  await ask(`${world.url}/chat/completions`, { key: world.customer.key, body, headers });
  const [received] = world.upstream.received();
  for (const name of Object.keys(headers)) t.equal(received?.headers[name], undefined, name);
  t.notOk(world.logged.join('').includes('trace_id'));
});

t.test('a client that leaves is told of', async (t) => {
  const { world, collector } = shared;
  const customer = await world.newCustomer();
  await world.part(customer, 'slow', world.upstream.parts.long);
  const leaving = new AbortController();
  const headers = {
    traceparent: `00-${LEFT}-${PARENT}-01`,
    authorization: `Bearer ${customer.key}`,
  };
  const answer = await fetch(`${world.url}/chat/completions`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'slow', messages: MESSAGES, stream: true }),
    signal: leaving.signal,
  });
  await answer.body?.getReader().read();
  leaving.abort();
  const [server, client] = await trace(collector, LEFT, 2);
  t.match(client, { attributes: { 'tollgate.outcome': 'client_aborted' }, status: undefined });
  t.equal(server?.status, undefined);
});

t.test('no prompt, no key, no internal name is in any span', async (t) => {
  const upstream = await scriptedUpstream(t);
  const collector = await startCollector(t);
  const world = await startWorld(
    t,
    { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url },
    {
      name: 'scripted',
      url: upstream.url,
      parts: { chat: 'internal-a', embedding: 'internal-b' } as never,
      received: () => [],
    },
  );
  const { customer } = world;
  upstream.answer((res) => {
    res.writeHead(400, { 'content-type': 'application/json' });
    res.end(
      JSON.stringify({ error: { message: 'internal-a at internal-host says: My secret diary' } }),
    );
  });
  await customer.chat({ messages: MESSAGES });
  await customer.chat({ messages: MESSAGES, stream: true, model: 'svc_secret-diary' });
  await customer.ask(`/models/My-secret-diary/${customer.key}`);
  await customer.ask(`/${customer.key}?secret=diary`, {
    headers: { 'user-agent': 'secret diary' },
  });
  await collector.arrived(5);
  const text = collector.posts.map((post) => post.text).join();
  t.notMatch(text, INTERNAL);
  t.notMatch(text, /secret|diary/i);
  t.notOk(text.includes(customer.key) || text.includes(MASTER_KEY));
});

t.test('a missing collector costs no request', async (t) => {
  const world = await startWorld(t, { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' });
  for (let i = 0; i < 5; i++) t.equal((await world.customer.chat()).status, 200);
  await until(
    () => world.logged.some((line) => line.includes('traces cannot be exported')),
    'the log tells of it',
  );
  t.match(
    (await ask(`${world.adminUrl}/metrics`)).text,
    /^tollgate_trace_spans_total\{result="exported"\} 0$/m,
  );
});
