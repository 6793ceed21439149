import t, { type Test } from 'tap';
import { type Answer, ask, chunksOf, dataOf } from '../support/client.ts';
import { startGateway } from '../support/gateway.ts';
import {
  CHAT,
  customerWith,
  EMBED,
  INTERNAL,
  OVERSEAS,
  startWorld,
  visible,
} from '../support/world.ts';

const world = await startWorld(t);
const { customer } = world;
const messages = [{ role: 'user', content: 'Hello there' }];

/** Status, type and code of an error, after a look at its shape. */
function errorOf(
  t: Test,
  { status, headers, text, json }: Answer,
): [number, string, string | null] {
  t.match(headers.get('content-type'), /^application\/json/);
  t.match(headers.get('x-request-id'), /^[0-9a-f-]{36}$/);
  t.same(Object.keys(json), ['error'], text);
  t.same(Object.keys(json.error).sort(), ['code', 'message', 'param', 'type']);
  t.ok(json.error.message.length > 5);
  return [status, json.error.type, json.error.code];
}
t.test('7 an error has the status of the case and a JSON body', async (t) => {
  const answer = await customer.chat({ model: 'unknown' });
  t.test('7 error.message is text for people', async (t) => {
    t.match(answer.json.error.message, /unknown/);
  });
  t.test('7 error.type is a category such as not_found_error', async (t) => {
    t.equal(answer.json.error.type, 'not_found_error');
  });
  t.test('7 error.code is a string or null', async (t) => {
    t.equal(answer.json.error.code, null);
  });
});

t.test('7 400: invalid request body', async (t) => {
  const post = async (body: unknown) =>
    errorOf(t, await customer.ask('/chat/completions', { body }));
  const invalid = 'invalid_request_error';
  t.same(await post('{'), [400, invalid, 'invalid_json']);
  t.same(await post(''), [400, invalid, 'invalid_json']);
  t.same(await post(Buffer.from([0x7b, 0xff, 0x7d])), [400, invalid, 'invalid_json']);
  t.same(await post('[]'), [400, invalid, 'invalid_type']);
  t.same(await post({ model: CHAT }), [400, invalid, 'missing_required_parameter']);
  t.same(await post({ model: 7, messages }), [400, invalid, 'invalid_type']);
  t.same(await post(`{"model":"${CHAT}","model":"x","messages":[]}`), [400, invalid, null]);
  t.same(await post({ model: CHAT, messages, fallbacks: ['internal-other'] }), [
    400,
    invalid,
    'unsupported_parameter',
  ]);
});

t.test('7 400: no model for an assistant run', async (t) => {
  const assistant = await world.assistant(customer.company);
  t.same(errorOf(t, await customer.run(assistant)), [
    400,
    'invalid_request_error',
    'model_required',
  ]);
});

t.test('7 401: missing, invalid or revoked key', async (t) => {
  t.same(errorOf(t, await ask(`${world.url}/models`)), [
    401,
    'authentication_error',
    'invalid_api_key',
  ]);
  t.same(errorOf(t, await ask(`${world.url}/models`, { key: 'svc_wrong' })), [
    401,
    'authentication_error',
    'invalid_api_key',
  ]);
});

t.test('7 402: budget reached, without amounts in the text', async (t) => {
  const other = await world.newCustomer({ budget: '5.25' });
  await world.sql`insert into chat_usage (company_id, cost_eur) values (${other.company}, 7.125)`;
  const answer = await other.chat();
  t.same(errorOf(t, answer), [402, 'billing_error', 'insufficient_quota']);
  t.notMatch(answer.json.error.message, /\d/);
});

t.test('7 403: missing scope', async (t) => {
  const holder = customerWith(
    world.url,
    customer.company,
    await world.key(customer.company, ['embeddings']),
  );
  t.same(errorOf(t, await holder.chat()), [403, 'permission_error', 'insufficient_scope']);
});

t.test('7 403: a non-EU model blocked by the EU gate, on every call', async (t) => {
  const blocked = [403, 'permission_error', 'non_eu_model_blocked'] as const;
  const other = await world.newCustomer();
  await world.model('far-embed', {
    upstream: 'internal-x',
    kind: 'embedding',
    eu: false,
    company: other.company,
  });
  const assistant = await world.assistant(other.company, { model: OVERSEAS });
  t.same(errorOf(t, await other.chat({ model: OVERSEAS })), blocked);
  t.same(errorOf(t, await other.chat({ model: OVERSEAS, stream: true })), blocked);
  t.same(errorOf(t, await other.embed({ model: 'far-embed' })), blocked);
  t.same(errorOf(t, await other.run(assistant)), blocked);
  t.equal((await world.ledger(other.company, 0)).length, 0);
});

t.test('7 EU gate: with allow_non_eu_models the same calls go through', async (t) => {
  const open = await world.newCustomer({ allowNonEu: true });
  const assistant = await world.assistant(open.company, { model: OVERSEAS });
  t.equal((await open.chat({ model: OVERSEAS })).status, 200);
  t.equal((await open.run(assistant)).status, 200);
});

t.test(
  '7 404: model not found, or disabled for the company: the answer is the same, byte for byte',
  async (t) => {
    const other = await world.newCustomer({ disabled: [CHAT, EMBED] });
    const missing = [404, 'not_found_error', null] as const;
    t.same(errorOf(t, await other.chat()), missing);
    t.same(errorOf(t, await other.embed()), missing);
    t.same(errorOf(t, await other.ask(`/models/${CHAT}`)), missing);
    const unknown = (await other.chat({ model: 'brand-chut' })).text;
    t.equal((await other.chat()).text, unknown.replace('brand-chut', CHAT));
    const elsewhere = (await other.embed({ model: 'brand-chut' })).text;
    t.equal(
      (await other.embed({ model: CHAT })).text,
      elsewhere.replace('brand-chut', CHAT),
      'at the other endpoint',
    );
    t.equal(
      (await other.embed({ model: OVERSEAS })).text,
      elsewhere.replace('brand-chut', OVERSEAS),
      'outside the EU',
    );
  },
);

t.test(
  '7 404: a model that may be listed, at the endpoint of the other kind, is told its own',
  async (t) => {
    for (const [answer, endpoint] of [
      [await customer.chat({ model: EMBED }), /call it at \/embeddings/],
      [await customer.embed({ model: CHAT }), /call it at \/chat\/completions/],
    ] as const) {
      t.same(errorOf(t, answer), [404, 'not_found_error', null]);
      t.match(answer.json.error, { message: endpoint, param: 'model' });
    }
  },
);

t.test('7 404: assistant not found, ineligible or foreign', async (t) => {
  const foreign = await world.assistant((await world.newCustomer()).company, { model: CHAT });
  const hidden = await world.assistant(customer.company, { model: CHAT, visibility: 'teams' });
  for (const id of [crypto.randomUUID(), foreign, hidden]) {
    t.same(errorOf(t, await customer.run(id)), [404, 'not_found_error', null]);
  }
});

t.test('7 404: no such address', async (t) => {
  for (const path of ['/edits', '/chat', '/assistants', '/assistants//run']) {
    t.same(errorOf(t, await customer.ask(path)), [404, 'not_found_error', null], path);
  }
});

t.test('7 order of checks: key, scope, body, model, EU gate, budget', async (t) => {
  const other = await world.newCustomer({ budget: '0.001' });
  await world.sql`insert into chat_usage (company_id, cost_eur) values (${other.company}, 1)`;
  const narrow = customerWith(world.url, other.company, await world.key(other.company, []));
  const body = '{';
  t.equal((await ask(`${world.url}/chat/completions`, { body, key: 'svc_x' })).status, 401);
  t.equal((await narrow.ask('/chat/completions', { body })).status, 403);
  t.equal((await other.ask('/chat/completions', { body })).status, 400);
  t.equal((await other.chat({ model: 'unknown' })).status, 404);
  t.equal((await other.chat({ model: OVERSEAS })).status, 403);
  t.equal((await other.chat()).status, 402);
});

t.test('7 upstream failure: before anything was sent, one documented answer each', async (t) => {
  const other = await world.newCustomer();
  const error = [502, 'api_error', 'upstream_error'] as const;
  const faults: Record<string, readonly [number, string, string | null]> = {
    'error-500': error,
    'error-503': [503, 'overloaded_error', 'service_unavailable'],
    'error-401': error,
    'error-403': error,
    'error-404': error,
    'error-402': error,
    'error-429': [429, 'rate_limit_error', 'rate_limit_exceeded'],
    'error-400': [400, 'invalid_request_error', null],
    'error-422': [400, 'invalid_request_error', null],
    html: error,
    redirect: error,
    reset: error,
    gzip: error,
    'gzip-undeclared': error,
  };
  // before the company's first request: later ones would have to wait for the change feed
  for (const fault of [...Object.keys(faults), 'truncated-json'])
    await world.part(other, fault, `internal-x!${fault}`);
  for (const [fault, expected] of Object.entries(faults)) {
    t.test(`7 upstream failure: ${fault} gives ${expected[0]}`, async (t) => {
      for (const stream of [false, true]) {
        const answer = await other.chat({ model: fault, stream });
        const [status, type, code] = errorOf(t, answer);
        // a connection that dies before an answer may count as unreachable
        const same =
          fault === 'reset' && status === 503
            ? true
            : status === expected[0] && type === expected[1] && code === expected[2];
        t.ok(same, `${stream ? 'stream' : 'plain'}: ${status} ${type} ${code}`);
        t.notMatch(visible(answer), INTERNAL);
        if (fault === 'error-429') t.equal(answer.headers.get('retry-after'), '7');
      }
    });
  }
  t.same(errorOf(t, await other.chat({ model: 'truncated-json' })), error);
  t.equal((await world.ledger(other.company, 0)).length, 0, 'nothing that failed is charged');
});

t.test('7 upstream failure: an unreachable upstream gives 503', async (t) => {
  const gateway = await startGateway(t, 'http://127.0.0.1:1/v1');
  const company = await gateway.company();
  await gateway.model(CHAT, { upstream: 'internal-x', company });
  const lonely = customerWith(gateway.url, company, await gateway.key(company));
  for (const stream of [false, true]) {
    const answer = await lonely.chat({ stream });
    t.same(errorOf(t, answer), [503, 'overloaded_error', 'service_unavailable']);
    t.ok(answer.headers.get('retry-after'));
    t.notMatch(visible(answer), /127\.0\.0\.1|ECONN/);
  }
});

t.test('7 upstream failure: an upstream too slow to begin gives 504', async (t) => {
  const slow = await startWorld(t, { FIRST_BYTE_SECONDS: '1' });
  await slow.part(slow.customer, 'slow', 'internal-x!slow-first-byte-60000');
  const answer = await slow.customer.chat({ model: 'slow' });
  t.same(errorOf(t, answer), [504, 'timeout_error', 'upstream_timeout']);
  t.equal(answer.headers.get('x-should-retry'), 'false', 'a retry could charge twice');
});

t.test('7 upstream failure: after the first byte it is an error event and no [DONE]', async (t) => {
  const other = await world.newCustomer();
  const faults = ['cut-after-3', 'stop-after-3', 'torn-after-3', 'error-event'];
  for (const fault of faults) await world.part(other, fault, `internal-x!${fault}`);
  for (const fault of faults) {
    t.test(`7 upstream failure: ${fault}`, async (t) => {
      const answer = await other.chat({ model: fault, stream: true });
      t.equal(answer.status, 200);
      const chunks = chunksOf(answer.text);
      t.equal(chunks.length, 5, 'the role, three tokens, the error');
      t.match(chunks.at(-1), {
        error: { message: String, type: 'api_error', code: 'upstream_error', param: null },
      });
      t.not(dataOf(answer.text).at(-1), '[DONE]');
      t.notMatch(visible(answer), INTERNAL);
    });
  }
});

t.test('7 upstream failure: a stream that lacks nothing except [DONE] gets it', async (t) => {
  const other = await world.newCustomer();
  await world.part(other, 'undone', 'internal-x!no-done');
  const { text } = await other.chat({ model: 'undone', stream: true });
  t.equal(dataOf(text).at(-1), '[DONE]');
  t.match((await world.ledger(other.company, 1))[0], {
    outcome: 'completed',
    usage_source: 'upstream',
  });
});
