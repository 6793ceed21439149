import type { ServerResponse } from 'node:http';
import { setImmediate } from 'node:timers/promises';
import OpenAI from 'openai';
import t from 'tap';
import type { CallMeter } from '../../../src/gateway/answer/call-meter.ts';
import { JsonRelay } from '../../../src/gateway/answer/json-relay.ts';
import type { Reply } from '../../../src/gateway/request/reply.ts';
import { ask } from '../../support/client.ts';
import { startGateway, type TestGateway } from '../../support/gateway.ts';
import { until } from '../../support/until.ts';
import { scriptedUpstream } from '../../support/upstream.ts';

const upstream = await scriptedUpstream(t);
const ANSWER =
  '{"choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":7,"completion_tokens":5}}';

/** A call of a company of its own whose client leaves when the upstream has it; `res` is the upstream's to answer. */
async function leftCall(gateway: TestGateway) {
  const company = await gateway.company();
  const begun = upstream.received.length;
  const left: { res: ServerResponse | null; closed: boolean } = { res: null, closed: false };
  upstream.answer((res) => {
    left.res = res;
    res.on('close', () => {
      left.closed = true;
    });
  });
  const leaving = new AbortController();
  const body = { model: 'whole', messages: [{ role: 'user', content: 'x' }] };
  const asked = { key: await gateway.key(company), body, signal: leaving.signal };
  const over = ask(`${gateway.url}/chat/completions`, asked).catch(() => {});
  await until(
    () => upstream.received.length > begun && left.res !== null,
    'the upstream has the call',
  );
  leaving.abort();
  await over;
  return { company, left };
}

t.test(
  'READ_ON_SECONDS: an answer whose client left is awaited for exact usage, or not, for a free slot',
  async (t) => {
    for (const [seconds, rows] of [
      ['3,3600', { usage_source: 'upstream', prompt_tokens: 7, completion_tokens: 5 }],
      ['3,0', { usage_source: 'estimated', completion_tokens: 0 }],
      ['3,1', { usage_source: 'estimated', completion_tokens: 0 }],
    ] as const) {
      const gateway = await startGateway(t, upstream.url, { READ_ON_SECONDS: seconds });
      await gateway.model('whole', { upstream: 'internal-whole' });
      const { company, left } = await leftCall(gateway);
      if (rows.usage_source === 'upstream') {
        await until(
          () => gateway.logged.some((line) => line.includes(company)),
          'the gateway saw the client leave',
        );
        t.notOk(left.closed, 'the upstream may go on');
        left.res?.writeHead(200, { 'content-type': 'application/json' }).end(ANSWER);
      } else await until(() => left.closed, 'the upstream is let go');
      t.match(await gateway.ledger(company, 1), [{ outcome: 'client_aborted', ...rows }], seconds);
    }
  },
);

t.test(
  'a large answer arrives as it was, with its model named, however it comes and leaves',
  async (t) => {
    const text = 'word "quoted" ü '.repeat(30_000);
    const whole = (model: string, vectors: string) =>
      `{"id":"a","model":"${model}","provider":"internal-host","object":"list","data":[${vectors}],"choices":[{"message":{"content":${JSON.stringify(text)}},"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}}`;
    const vector = `{"object":"embedding","index":0,"embedding":[${'0.25,'.repeat(20_000)}0]}`;
    const coded = `{"object":"embedding","index":1,"embedding":"${Buffer.from(new Float32Array(20_000)).toString('base64')}"}`;
    for (const FAST_HTTP of ['on', 'off']) {
      const gateway = await startGateway(t, upstream.url, { FAST_HTTP });
      await gateway.model('large', { upstream: 'internal-large' });
      await gateway.model('embed', { upstream: 'internal-embed', kind: 'embedding' });
      const company = await gateway.company();
      const key = await gateway.key(company);
      for (const [path, model, vectors] of [
        ['/chat/completions', 'large', ''],
        ['/embeddings', 'embed', vector],
        ['/embeddings', 'embed', `${vector},${coded}`],
      ] as const) {
        const sent = whole(`internal-${model}`, vectors);
        for (const isChunked of [true, false, true]) {
          upstream.answer((res) => {
            res.setHeader('content-type', 'application/json');
            if (isChunked) res.write(sent.slice(0, 70_000));
            else res.setHeader('content-length', Buffer.byteLength(sent));
            res.end(isChunked ? sent.slice(70_000) : sent);
          });
          const body = { model, messages: [{ role: 'user', content: 'x' }], input: 'x' };
          const answer = await ask(`${gateway.url}${path}`, { key, body });
          t.equal(answer.status, 200);
          t.ok(
            answer.text === whole(model, vectors).replace('"provider":"internal-host",', ''),
            `FAST_HTTP=${FAST_HTTP}, ${path}, ${vectors.length} bytes of vectors, chunks: ${isChunked}`,
          );
          t.equal(answer.headers.get('content-length'), `${Buffer.byteLength(answer.text)}`);
        }
      }
      await gateway.ledger(company, 9);
    }
  },
);

/** Writes an answer of embeddings with vectors of digits, as most upstreams write them. */
async function writeVectors(
  res: ServerResponse,
  vectors: number,
  size: number,
  usage = '"usage":{"prompt_tokens":9}',
): Promise<void> {
  res.writeHead(200, { 'content-type': 'application/json' });
  res.write('{"object":"list","data":[');
  for (let n = 0; n < vectors; n++) {
    const digits = Array.from({ length: size }, (_, k) => Math.sin(n + k) / 37);
    const vector = `{"object":"embedding","index":${n},"embedding":${JSON.stringify(digits)}}`;
    if (!res.write(n === 0 ? vector : `,${vector}`)) await setImmediate();
  }
  res.end(`],"model":"internal-embed"${usage === '' ? '' : `,${usage}`}}`);
}

async function embedder(maxAnswerBytes: string) {
  const gateway = await startGateway(t, upstream.url, { MAX_ANSWER_BYTES: maxAnswerBytes });
  await gateway.model('embed', { upstream: 'internal-embed', kind: 'embedding' });
  const company = await gateway.company();
  const key = await gateway.key(company);
  return {
    gateway,
    company,
    key,
    openai: new OpenAI({ apiKey: key, baseURL: gateway.url, maxRetries: 2 }),
  };
}

t.test(
  'floats for an SDK that asked for base64 are held as base64: a quarter of their digits',
  async (t) => {
    const { gateway, company, openai } = await embedder('2200000');
    upstream.answer((res) => writeVectors(res, 256, 1536)); // 8.2 MB
    const { data, usage } = await openai.embeddings.create({ model: 'embed', input: 'x' });
    t.equal(data.length, 256);
    t.ok(
      data.every(
        ({ embedding }, n) =>
          embedding.length === 1536 && embedding[7] === Math.fround(Math.sin(n + 7) / 37),
      ),
    );
    t.equal(usage.prompt_tokens, 9);
    t.match(await gateway.ledger(company, 1), [
      { outcome: 'completed', usage_source: 'upstream', prompt_tokens: 9 },
    ]);
  },
);

t.test(
  'an answer larger than MAX_ANSWER_BYTES is an error that says so, and what ran is booked',
  async (t) => {
    const { gateway, company, key, openai } = await embedder('2000000');
    const asked = upstream.received.length;
    const ends = {
      upstream: '"usage":{"prompt_tokens":9}',
      estimated: '',
    };
    for (const [source, usage] of Object.entries(ends)) {
      upstream.answer((res) => writeVectors(res, 256, 1536, usage));
      await t.rejects(openai.embeddings.create({ model: 'embed', input: 'x' }), {
        status: 502,
        code: 'upstream_error',
        message: /larger than the gateway passes on.*is charged/,
      });
      t.comment(source);
    }
    t.equal(upstream.received.length, asked + 2, 'no SDK asks again');
    const rows = await gateway.ledger(company, 2);
    t.match(rows, [
      {
        outcome: 'upstream_failed',
        usage_source: 'upstream',
        prompt_tokens: 9,
        completion_tokens: 0,
      },
      { outcome: 'upstream_failed', usage_source: 'estimated', completion_tokens: 0 },
    ]);
    t.match(
      gateway.logged.filter((line) => line.includes('MAX_ANSWER_BYTES (2000000)')),
      { length: 2 },
      'the log names the setting',
    );
    // the usage may stand before the vectors, and the upstream may break off
    upstream.answer((res) => {
      res.writeHead(200, { 'content-type': 'application/json' });
      res.write(`{"usage":{"prompt_tokens":7},"data":[{"embedding":"${'A'.repeat(3_000_000)}`, () =>
        res.destroy(),
      );
    });
    const body = { model: 'embed', input: 'x', encoding_format: 'float' };
    const answer = await ask(`${gateway.url}/embeddings`, { key, body });
    t.equal(answer.status, 502);
    t.equal(answer.headers.get('x-should-retry'), 'false');
    t.match((await gateway.ledger(company, 3))[2], { usage_source: 'upstream', prompt_tokens: 7 });
  },
);

t.test(
  'the text of an answer that is too large and tells no usage is counted by what passed',
  async (t) => {
    const gateway = await startGateway(t, upstream.url, { MAX_ANSWER_BYTES: '400000' });
    const company = await gateway.company();
    await gateway.model('chat', { upstream: 'internal-chat', company });
    const key = await gateway.key(company);
    const words = 'the quick brown fox jumps over a lazy dog and '.repeat(20_000); // 920 KB of 200,000 words
    const whole = { message: { role: 'assistant', content: words } };
    const small = { message: { role: 'assistant', content: words.slice(0, 4600) } };
    const answers = [
      [{ choices: [whole] }, 200_000],
      [{ choices: Array.from({ length: 200 }, () => small) }, 200_000],
      [{ choices: [small], padding: 'x'.repeat(900_000) }, 1000],
    ] as const;
    for (const [n, [body, tokens]] of answers.entries()) {
      upstream.answerJson(body);
      const messages = [{ role: 'user', content: 'x' }];
      t.equal(
        (await ask(`${gateway.url}/chat/completions`, { key, body: { model: 'chat', messages } }))
          .status,
        502,
      );
      const row = (await gateway.ledger(company, n + 1)).at(-1);
      t.match(row, { usage_source: 'estimated', outcome: 'upstream_failed' });
      const counted = row?.completion_tokens ?? 0;
      t.ok(counted > tokens * 0.8 && counted < tokens * 3, `${counted} tokens for ${tokens} words`);
    }
  },
);

t.test('what is too large and no answer is broken, and free', async (t) => {
  const { gateway, company, key } = await embedder('100000');
  const body = { model: 'embed', input: 'x', encoding_format: 'float' };
  for (const [status, type] of [
    [200, 'text/html'],
    [500, 'application/json'],
  ] as const) {
    upstream.answer(
      (res) => void res.writeHead(status, { 'content-type': type }).end(' '.repeat(2_000_000)),
    );
    const answer = await ask(`${gateway.url}/embeddings`, { key, body });
    t.equal(answer.status, 502);
    t.notMatch(answer.text, /charged/);
  }
  t.same(await gateway.ledger(company, 0), []);
});

t.test('one vector without end is not held without end', async (t) => {
  const { gateway, company, key } = await embedder('1000000');
  upstream.answer((res) => {
    res.writeHead(200, { 'content-type': 'application/json' });
    res.end(`{"data":[{"embedding":[${'0.125,'.repeat(300_000)}0]}],"usage":{"prompt_tokens":4}}`);
  });
  const body = { model: 'embed', input: 'x', encoding_format: 'base64' };
  t.equal((await ask(`${gateway.url}/embeddings`, { key, body })).status, 502);
  t.match(await gateway.ledger(company, 1), [{ usage_source: 'upstream', prompt_tokens: 4 }]);
});

t.test(
  'a request that did not reach the upstream is sent again only for a client that is still there',
  async (t) => {
    const became = { dropped: 0, settled: 0, closed: 0, left: 0, status: 0 };
    const watch = {
      sent() {},
      answered() {},
      settled() {},
      abandon: () => true,
      close: () => became.closed++,
    };
    const meter = {
      admission: { payer: { companyId: 'one' } },
      maxAnswerBytes: 1000,
      readOnMs: { streamed: 3000, whole: 3_600_000 },
      watch: () => watch,
      drop: () => became.dropped++,
      settle: () => became.settled++,
      upstreamFailed() {},
    } as unknown as CallMeter;
    const error = ({ status }: { status: number }): void => {
      became.status = status;
    };
    const call = { abort() {}, leave: () => became.left++ } as never;
    const newRelay = () =>
      new JsonRelay(
        { error, res: { writableFinished: false } } as unknown as Reply,
        meter,
        (body) => body,
      );

    const stays = newRelay();
    t.ok(stays.onConnected(call));
    t.ok(stays.onStale());
    stays.onError(new Error('refused')); // no fresh connection could be opened
    t.match(became, { status: 503, settled: 1, dropped: 0 }, 'it may be retried: nothing ran');

    const left = newRelay();
    t.ok(left.onConnected(call));
    left.onClientClose();
    t.notOk(left.onStale());
    t.match(
      became,
      { settled: 1, dropped: 1, closed: 1, left: 1 },
      'nothing ran, and nothing is booked',
    );

    const leaves = newRelay();
    t.ok(leaves.onConnected(call));
    t.ok(leaves.onStale());
    leaves.onClientClose();
    t.notOk(leaves.onConnected(call));
    t.match(became, { settled: 1, dropped: 2 });
  },
);
