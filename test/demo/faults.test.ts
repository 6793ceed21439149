import { request as rawRequest } from 'node:http';
import { gunzipSync } from 'node:zlib';
import t from 'tap';
import { chunksOf, dataOf, open } from '../support/client.ts';
import { FAULTS, INTERNAL_HOST, INTERNAL_KEY } from '../support/demo/fault.ts';
import { startFaultyDemo } from '../support/demo/server.ts';
import { until } from '../support/until.ts';

const demo = await startFaultyDemo({ port: 0 });
t.teardown(() => demo.close());

const said = (content: unknown, more: object = {}) => ({
  messages: [{ role: 'user', content }],
  ...more,
});

async function post(path: string, body: unknown, headers = {}) {
  const answer = await open(demo.url + path, { body, headers });
  return { status: answer.status, headers: answer.headers, text: await answer.text() };
}

/** The bytes of an answer that arrived, and whether the body was complete. */
function raw(body: unknown): Promise<{ bytes: Buffer; whole: boolean }> {
  return new Promise((resolve, reject) => {
    const req = rawRequest(`${demo.url}/chat/completions`, { method: 'POST' }, (res) => {
      const chunks: Buffer[] = [];
      res.on('data', (chunk) => chunks.push(chunk));
      res.on('error', () => {});
      res.on('close', () => resolve({ bytes: Buffer.concat(chunks), whole: res.complete }));
    });
    req.on('error', reject);
    req.end(JSON.stringify(body));
  });
}

const streamed = (fault = '') =>
  said('Tell me a story', {
    model: `x${fault}`,
    stream: true,
    stream_options: { include_usage: true },
  });

t.test('a fault that there is not is a model that there is not', async (t) => {
  const answer = await post('/chat/completions', said('x', { model: 'x!no-such-fault' }));
  t.equal(answer.status, 404);
  t.match(JSON.parse(answer.text), {
    error: { message: String, type: 'invalid_request_error', param: 'model' },
  });
});

t.test('the journal has the requests and the usage that was sent', async (t) => {
  const body = JSON.stringify(streamed());
  const before = demo.journal.length;
  const { text } = await post('/chat/completions', body, { 'x-mark': '1' });
  const call = demo.journal[before];
  t.match(call, {
    method: 'POST',
    path: '/v1/chat/completions',
    model: 'x',
    outcome: 'complete',
    headers: { 'x-mark': '1' },
  });
  t.equal(call?.body.toString(), body);
  t.same(call?.usage, chunksOf(text).at(-1).usage);
});

t.test('the journal shows that a caller left', async (t) => {
  const before = demo.journal.length;
  const leaving = new AbortController();
  const response = await fetch(`${demo.url}/chat/completions`, {
    method: 'POST',
    body: JSON.stringify(streamed('!stall-after-2')),
    signal: leaving.signal,
  });
  await response.body?.getReader().read();
  t.equal(demo.journal[before]?.outcome, 'open');
  leaving.abort();
  await until(
    () => demo.journal[before]?.outcome !== 'open',
    'the journal shows the end of the call',
  );
  t.match(demo.journal[before], { outcome: 'cut', usage: null });
});

/** Long enough for an answer that is not to come. */
function silence(): Promise<string> {
  return new Promise((resolve) => setTimeout(resolve, 30, 'silence'));
}

t.test('faults', async (t) => {
  const tried = new Set<string>();
  const fault = (name: string, test: (t: Tap, text: string) => Promise<void>) => {
    tried.add(name.replace(/\d+/, '<n>'));
    return t.test(`!${name}: ${FAULTS[name.replace(/\d+/, '<n>')]?.[0]}`, async (t) => {
      await test(t, `!${name}`);
    });
  };
  type Tap = typeof t;
  const plain = (name: string) => post('/chat/completions', said('hi', { model: `x${name}` }));

  await fault('error-500', async (t, name) => {
    const answer = await plain(name);
    t.equal(answer.status, 500);
    for (const secret of [`x${name}`, INTERNAL_HOST, INTERNAL_KEY, 'Traceback'])
      t.match(answer.text, secret);
    t.equal((await plain('!error-429')).headers.get('retry-after'), '7');
    t.equal((await post('/embeddings', { model: 'x!error-503', input: 'a' })).status, 503);
  });
  await fault('slow-first-byte-60000', async (t, name) => {
    const leaving = new AbortController();
    const body = JSON.stringify(streamed(name));
    const answer = fetch(`${demo.url}/chat/completions`, {
      method: 'POST',
      body,
      signal: leaving.signal,
    });
    t.equal(await Promise.race([answer, silence()]), 'silence');
    leaving.abort();
    await t.rejects(answer);
    t.equal((await plain('!slow-first-byte-1')).status, 200);
  });
  await fault('pace-0', async (t, name) => {
    t.equal(dataOf((await raw(streamed(name))).bytes.toString()).at(-1), '[DONE]');
  });
  for (const name of ['events-7', 'events-200-burst']) {
    await fault(name, async (t) => {
      const { text } = await post('/chat/completions', streamed(`!${name}`));
      t.equal(chunksOf(text).at(-1).usage.completion_tokens, Number.parseInt(name.slice(7), 10));
      t.equal(
        chunksOf(text).filter((chunk) => chunk.choices[0]?.delta.content).length,
        Number.parseInt(name.slice(7), 10),
      );
    });
  }
  for (const [name, whole] of [
    ['cut-after-3', false],
    ['stop-after-3', true],
  ] as const) {
    await fault(name, async (t) => {
      for (const pace of ['', '!pace-0']) {
        const seen = await raw(streamed(`!${name}${pace}`));
        const chunks = chunksOf(seen.bytes.toString());
        t.equal(chunks.length, 4, 'the role and three tokens');
        t.notOk(chunks.some((chunk) => chunk.choices[0].finish_reason));
        t.equal(seen.whole, whole);
      }
    });
  }
  await fault('torn-after-2', async (t, name) => {
    const seen = await raw(streamed(name));
    t.ok(seen.whole);
    t.equal(dataOf(seen.bytes.toString()).length, 4);
    t.throws(() => chunksOf(seen.bytes.toString()), 'the last event is torn');
  });
  await fault('stall-after-3', async (t, name) => {
    const response = await fetch(`${demo.url}/chat/completions`, {
      method: 'POST',
      body: JSON.stringify(streamed(name)),
    });
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    let text = '';
    while (chunksOf(text).length < 4)
      text += Buffer.from((await reader.read()).value as Uint8Array).toString();
    t.equal(await Promise.race([reader.read(), silence()]), 'silence');
    await reader.cancel();
  });
  await fault('error-event', async (t, name) => {
    const { text } = await post('/chat/completions', streamed(name));
    t.match(chunksOf(text).at(-1), { error: { message: INTERNAL_HOST } });
    t.equal(chunksOf(text).length, 5);
  });
  await fault('no-done', async (t, name) => {
    const { text } = await post('/chat/completions', streamed(name));
    t.notMatch(text, '[DONE]');
    t.ok(chunksOf(text).at(-1).usage);
  });
  await fault('no-usage', async (t, name) => {
    t.notMatch((await post('/chat/completions', streamed(name))).text, '"usage"');
    t.notMatch((await plain(name)).text, '"usage"');
  });
  await fault('usage-zero', async (t, name) => {
    t.equal(
      chunksOf((await post('/chat/completions', streamed(name))).text).at(-1).usage.total_tokens,
      0,
    );
    t.equal(JSON.parse((await plain(name)).text).usage.total_tokens, 0);
    t.equal(
      JSON.parse((await post('/embeddings', { model: 'x!usage-zero', input: 'a' })).text).usage
        .prompt_tokens,
      0,
    );
  });
  await fault('usage-in-finish', async (t, name) => {
    const last = chunksOf((await post('/chat/completions', streamed(name))).text).at(-1);
    t.equal(last.choices[0].finish_reason, 'stop');
    t.ok(last.usage.completion_tokens > 0);
  });
  await fault('usage-every', async (t, name) => {
    const counts = chunksOf((await post('/chat/completions', streamed(name))).text).map(
      (chunk) => chunk.usage.completion_tokens,
    );
    t.same(counts.slice(0, 4), [0, 1, 2, 3]);
  });
  await fault('usage-null', async (t, name) => {
    const usages = chunksOf((await post('/chat/completions', streamed(name))).text).map(
      (chunk) => chunk.usage,
    );
    t.ok(usages.slice(0, -1).every((usage) => usage === null));
    t.ok(usages.at(-1).total_tokens > 0);
  });
  await fault('fallback', async (t, name) => {
    t.equal(
      chunksOf((await post('/chat/completions', streamed(name))).text)[0].model,
      'internal-demo-fallback',
    );
    t.equal(JSON.parse((await plain(name)).text).model, 'internal-demo-fallback');
  });
  await fault('alphabetical', async (t, name) => {
    const chunks = chunksOf((await post('/chat/completions', streamed(name))).text);
    t.equal(chunks[0].model, '');
    t.same(Object.keys(chunks[1]), ['choices', 'created', 'id', 'model', 'object']);
  });
  await fault('no-model', async (t, name) => {
    t.notMatch((await post('/chat/completions', streamed(name))).text, '"model"');
    t.notMatch((await plain(name)).text, '"model"');
  });
  for (const [name, eol] of [
    ['cr', '\r'],
    ['crlf', '\r\n'],
  ] as const) {
    await fault(name, async (t) => {
      const { text } = await post('/chat/completions', streamed(`!${name}`));
      t.ok(text.endsWith(`data: [DONE]${eol}${eol}`));
      t.notMatch(text, /[^\r]\n/);
    });
  }
  await fault('noise', async (t, name) => {
    const { bytes } = await raw(streamed(name));
    t.same([...bytes.subarray(0, 3)], [0xef, 0xbb, 0xbf]);
    const text = bytes.toString();
    t.match(text, /^: x!noise keep-alive$/m);
    t.match(text, /^event: ping\n\n/m);
    t.match(text, /^id: x!noise$/m);
  });
  await fault('html', async (t, name) => {
    const answer = await plain(name);
    t.equal(answer.status, 200);
    t.match(answer.headers.get('content-type'), 'text/html');
  });
  await fault('truncated-json', async (t, name) => {
    const answer = await plain(name);
    t.equal(answer.status, 200);
    t.throws(() => JSON.parse(answer.text));
    t.equal(demo.journal.at(-1)?.usage, null);
  });
  await fault('swapped', async (t, name) => {
    t.match((await plain(name)).text, 'data: [DONE]');
    t.equal(
      JSON.parse((await post('/chat/completions', streamed(name))).text).object,
      'chat.completion',
    );
  });
  await fault('redirect', async (t, name) => {
    t.equal((await plain(name)).status, 302);
  });
  await fault('reset', async (t, name) => {
    await t.rejects(raw(said('x', { model: `x${name}` })));
    t.match(demo.journal.at(-1), { outcome: 'cut' });
  });
  await fault('gzip', async (t, name) => {
    t.equal((await plain(name)).headers.get('content-encoding'), 'gzip');
    t.match(gunzipSync((await raw(streamed(name))).bytes).toString(), 'data: [DONE]');
  });
  await fault('gzip-undeclared', async (t, name) => {
    t.match(gunzipSync((await raw(streamed(name))).bytes).toString(), 'data: [DONE]');
    t.equal((await plain(name)).headers.get('content-encoding'), null);
  });
  await fault('leaky-headers', async (t, name) => {
    for (const { headers } of [
      await plain(name),
      await post('/chat/completions', streamed(name)),
    ]) {
      t.equal(headers.get('x-litellm-model-id'), `x${name}`);
      t.equal(headers.getSetCookie().length, 2);
    }
  });
  await fault('floats', async (t, name) => {
    const body = { model: `x${name}`, input: 'a', encoding_format: 'base64' };
    t.equal(JSON.parse((await post('/embeddings', body)).text).data[0].embedding.length, 1024);
  });
  t.same([...tried].sort(), Object.keys(FAULTS).sort(), 'every fault of the table was tried');
});
