import t from 'tap';
import { askRouter, RouterModels } from '../../src/upstream/router-models.ts';
import { freePort } from '../support/port.ts';
import { demoUpstream, MASTER_KEY, type Script, scriptedUpstream } from '../support/upstream.ts';

const router = await scriptedUpstream(t);
const where = { apiKey: MASTER_KEY, headers: { 'x-team': 'gateway' }, isDemo: false };
const ask = (script: Script, deadlineMs?: number) => {
  router.answer(script);
  return askRouter({ ...where, urls: [router.url] }, deadlineMs);
};
const json =
  (body: unknown): Script =>
  (res) =>
    void res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(body));
const list = (...ids: unknown[]) =>
  json({ object: 'list', data: ids.map((id) => ({ id, object: 'model' })) });

t.test('the names are those of the router, each once and in its order', async (t) => {
  const answer = await ask(list('openai/gpt-4o', 'fast', 'openai/gpt-4o', 'Qwen3 (8B)'));
  t.same(answer, {
    isReachable: true,
    names: ['openai/gpt-4o', 'fast', 'Qwen3 (8B)'],
    sizes: {},
    leftOut: 0,
    reason: null,
  });
  const { headers } = router.received.at(-1) ?? {};
  t.match(
    headers,
    { authorization: `Bearer ${MASTER_KEY}`, 'x-team': 'gateway' },
    'asked with the key of calls',
  );
  t.same((await ask(json([{ id: 'bare' }]))).names, ['bare'], 'a list without an envelope');
});

t.test('the demo lists what it has', async (t) => {
  const { url } = await demoUpstream(t);
  t.ok((await askRouter({ ...where, urls: [url] })).names.length > 1);
  t.match(await askRouter({ ...where, apiKey: 'sk-other', urls: [url] }), {
    isReachable: false,
    reason: /refuses the key \(401/,
  });
});

t.test('what no model can be named is left out, and counted', async (t) => {
  const odd = [
    'a\u0000b',
    'line\nbreak',
    '\u202Eevil',
    ' space',
    '',
    'x'.repeat(201),
    7,
    null,
    '\ud800',
  ];
  t.match(await ask(list(...odd, 'good')), { names: ['good'], leftOut: odd.length });
  t.match(await ask(json({ data: ['text', null, [], { name: 'no id' }, { id: 'good' }] })), {
    names: ['good'],
    leftOut: 4,
  });
  const many = Array.from({ length: 700 }, (_, i) => `m-${i}`);
  t.match(await ask(list(...many)), { names: many.slice(0, 500), leftOut: 200 });
});

t.test('why there are none is said in words, whatever the router answers', async (t) => {
  const status =
    (code: number): Script =>
    (res) =>
      void res.writeHead(code, { location: '/elsewhere' }).end('{"error":"internal-secret-name"}');
  for (const [script, isReachable, reason] of [
    [list(), true, /offers no model yet/],
    [list('\u0007'), true, /names no model/],
    [json({ models: {} }), true, /no list of models/],
    [json(null), true, /no list of models/],
    [json('text'), true, /no list of models/],
    [(res) => void res.end('<html>'), true, /not JSON/],
    [(res) => void res.end('['.repeat(500_000)), true, /not JSON/],
    [(res) => void res.end(`{"data":["${'x'.repeat(10_000_000)}"]}`), true, /larger than 1 MiB/],
    [status(401), false, /refuses the key \(401 .*UPSTREAM_API_KEY/],
    [status(403), false, /refuses the key \(403/],
    [status(404), false, /no list of models .*404.*\/v1/],
    [status(302), false, /leads elsewhere \(302\)/],
    [status(500), false, /answers 500/],
    [(_, __, req) => void req.socket.destroy(), false, /closed the connection/],
  ] as [Script, boolean, RegExp][]) {
    const answer = await ask(script);
    t.match(answer, { isReachable, names: [], reason });
    t.notMatch(answer.reason, /internal-secret-name|sk-master/, 'neither its words nor the key');
  }
});

t.test('a router that is slow, or never ends, is left after the deadline', async (t) => {
  t.match(await ask(() => {}, 100), {
    isReachable: false,
    reason: /did not answer .* within 0\.1 s/,
  });
  t.match(await ask((res) => void res.writeHead(200).write('{"data":['), 100), {
    isReachable: false,
    reason: /within 0\.1 s/,
  });
});

t.test('where nothing listens, and where the name is unknown', async (t) => {
  const none = `http://127.0.0.1:${await freePort()}/v1`;
  t.match(await askRouter({ ...where, urls: [none] }), {
    isReachable: false,
    reason: /Nothing listens at 127\.0\.0\.1:/,
  });
  router.answer(list('good'));
  t.same(
    (await askRouter({ ...where, urls: [none, router.url] })).names,
    ['good'],
    'another replica answers',
  );
});

t.test('an answer is used again for a while, a failure for a moment', async (t) => {
  let now = 0;
  const models = new RouterModels({ ...where, urls: [router.url] }, () => now);
  router.answer(list('first'));
  const [one, two] = await Promise.all([models.ask(), models.ask()]);
  t.equal(one, two, 'asked once at a time');
  router.answer((res) => void res.writeHead(500).end());
  now = 29_999;
  t.same((await models.ask()).names, ['first']);
  now = 30_000;
  t.match(await models.ask(), { reason: /answers 500/ });
  router.answer(list('second'));
  now += 999;
  t.match(await models.ask(), { reason: /answers 500/ });
  now += 1;
  t.same((await models.ask()).names, ['second']);
});

t.test(
  'context length and most output are taken from the list, or from what LiteLLM tells beside it',
  async (t) => {
    const sizes = async (...data: object[]) => ({ ...(await ask(json({ data }))).sizes });
    t.same(
      await sizes(
        {
          id: 'openrouter',
          context_length: 131_072,
          top_provider: { max_completion_tokens: 8192, context_length: 9 },
        },
        { id: 'vllm', max_model_len: 32_768 },
        { id: 'groq', context_window: 8192, max_completion_tokens: 4096 },
        { id: 'none' },
        { id: 'odd', context_length: '8192', max_model_len: 0, max_output_tokens: 1.5 },
        { id: 'huge', context_length: 1e12 },
      ),
      {
        openrouter: { context_length: 131_072, max_output_tokens: 8192 },
        vllm: { context_length: 32_768 },
        groq: { context_length: 8192, max_output_tokens: 4096 },
      },
    );
    const info = (model_name: string, model_info: unknown) => ({
      model_name,
      litellm_params: { model: 'x' },
      model_info,
    });
    const told = await ask((res, body, req) => {
      if (req.url === '/v1/models') return list('a', 'b', '__proto__')(res, body, req);
      const data = [
        info('a', { max_input_tokens: 128_000, max_output_tokens: 16_384 }),
        info('a', { max_input_tokens: 64_000, max_output_tokens: null }),
        info('b', { max_tokens: 4096 }),
        info('c', null),
      ];
      return json(req.url === '/v1/model/info' ? { data } : {})(res, body, req);
    });
    t.same(
      { ...told.sizes },
      { a: { context_length: 64_000, max_output_tokens: 16_384 } },
      'the smallest of deployments',
    );
    for (const body of ['<html>', 'null', '{"data":7}', '{"data":[null]}']) {
      const answer = await ask((res, sent, req) => {
        if (req.url === '/v1/models') return list('a')(res, sent, req);
        return void res.writeHead(200).end(body);
      });
      t.match(answer, { names: ['a'], sizes: {}, reason: null }, body);
    }
  },
);
