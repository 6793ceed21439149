import { setTimeout as sleep } from 'node:timers/promises';
import t from 'tap';
import { readBody as readRequestBody } from '../../../src/gateway/request/body.ts';
import { RequestLog, RequestSummary } from '../../../src/gateway/request/log.ts';
import type { Reply } from '../../../src/gateway/request/reply.ts';
import type { BodySink, ClientRequest } from '../../../src/http/exchange.ts';
import { Metrics } from '../../../src/metrics.ts';
import { BodyMemory } from '../../../src/runtime/body-memory.ts';
import { newRequestId } from '../../../src/runtime/request-id.ts';
import { ask } from '../../support/client.ts';
import { until } from '../../support/until.ts';
import { scriptedUpstream } from '../../support/upstream.ts';
import { CHAT, startWorld } from '../../support/world.ts';

/** Instants after the request's head, in milliseconds. */
function summaryWith(at: {
  asked?: number;
  whole?: number;
  sent?: number;
  ended?: number;
  left?: number;
}): RequestSummary {
  const reply = { endedAt: Number.NaN, leftAt: Number.NaN };
  const summary = new RequestSummary(reply as Reply, 0);
  const { began } = summary;
  if (at.asked !== undefined) summary.askedAt = began + at.asked;
  if (at.whole !== undefined) summary.wholeAt = began + at.whole;
  if (at.sent !== undefined) summary.sentAt = began + at.sent;
  if (at.ended !== undefined) reply.endedAt = began + at.ended;
  if (at.left !== undefined) reply.leftAt = began + at.left;
  return summary;
}

t.test(
  'what the gateway adds is neither the wait for the body nor that for the upstream',
  async (t) => {
    const added = (at: Parameters<typeof summaryWith>[0]): number =>
      Math.round(summaryWith(at).added * 1000) / 1000;
    t.equal(added({ asked: 1, whole: 101, sent: 104, ended: 2000, left: 2002 }), 6, 'a call');
    t.equal(added({ asked: 1, whole: 101, sent: 104, ended: 2000 }), 4, 'its client left');
    t.equal(added({ asked: 1, whole: 101, sent: 104 }), 4, 'before the upstream ended');
    t.equal(
      added({ asked: 1, whole: 101, sent: 104, left: 900 }),
      4,
      'the upstream never ended: too slow',
    );
    t.equal(added({ asked: 1, whole: 101, left: 103 }), 3, 'refused with its body read');
    t.equal(added({ left: 2 }), 2, 'refused, or answered, without a body');
    t.equal(added({ sent: 4, ended: 2000, left: 2002 }), 6, 'a call whose body came with its head');
    t.equal(added({ asked: 1, left: 500 }), 1, 'refused for its body');
    t.equal(added({ asked: 1 }), 1, 'its client left halfway');
    t.equal(added({}), 0, 'its client left at once');
  },
);

t.test('one line a request: id, company, slug, status, tokens, added microseconds', async (t) => {
  const upstream = await scriptedUpstream(t);
  const world = await startWorld(
    t,
    {},
    { name: 'scripted', url: upstream.url, parts: PARTS, received: () => [] },
  );
  upstream.answer(async (res) => {
    await sleep(400); // slow on purpose
    res.writeHead(200, { 'content-type': 'application/json' });
    const usage = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 };
    res.end(
      JSON.stringify({ model: 'internal-a', choices: [{ message: { content: 'hi' } }], usage }),
    );
  });
  const { company, key } = world.customer;
  const slowBody = new ReadableStream({
    async start(controller) {
      controller.enqueue(Buffer.from(`{"model":"${CHAT}","messages":`));
      await sleep(400); // slow on purpose
      controller.enqueue(Buffer.from('[{"role":"user","content":"secret diary"}]}'));
      controller.close();
    },
  });
  const answer = await fetch(`${world.url}/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: slowBody,
    duplex: 'half',
  } as RequestInit);
  t.equal(answer.status, 200);
  await answer.arrayBuffer();
  const id = answer.headers.get('x-request-id') as string;
  const [text] = await until(
    () => world.logged.filter((line) => line.includes(id)),
    'the log line of the request',
    ({ length }) => length === 1,
  );
  const { time, ms, added_us, ...line } = JSON.parse(text as string);
  t.same(line, {
    level: 30,
    request_id: id,
    endpoint: 'chat.completions',
    status: 200,
    company,
    slug: CHAT,
    outcome: 'completed',
    prompt_tokens: 11,
    completion_tokens: 7,
  });
  t.equal(new Date(time).toISOString(), time);
  t.ok(ms > 600, 'client and upstream took their time'); // 400 each; the client's begins before it is connected
  t.ok(
    Number.isInteger(added_us) && added_us > 0 && added_us < 790_000 / 2,
    'which is not the gateway',
  );
  t.notMatch(text, /secret|diary|internal|svc_/);
});

t.test(
  'a body that came with its head was not waited for: what parsing it takes is added',
  async (t) => {
    const body = Buffer.from('{}');
    for (const cameWithHead of [true, false]) {
      const readBody = (sink: BodySink): void => {
        sink.onPiece(body, 'kept');
        sink.onWhole();
      };
      const req = {
        head: { contentLength: 2 },
        takeBody: () => (cameWithHead ? body : null),
        readBody,
      };
      const waits: boolean[] = [];
      readRequestBody(req as unknown as ClientRequest, 99, new BodyMemory(), {
        onWait: () => waits.push(true),
        onBody: ({ wholeAt }) => waits.push(wholeAt > 0),
        onNoBody: ({ name }) => t.fail(name),
        takeMemory: () => true,
        worked() {},
        onThrown() {},
      });
      t.same(waits, cameWithHead ? [false] : [true, true]);
    }
  },
);

t.test(
  'a refusal tells its code, parameter, key and the model asked for, as far as that is a name',
  async (t) => {
    const world = await startWorld(t);
    const before = world.logged.length;
    t.equal((await world.customer.chat({ model: 'no-such-model' })).status, 404);
    await ask(`${world.url}/models`);
    t.equal((await world.customer.chat({ model: 'Dear diary, this is secret' })).status, 404);
    t.equal((await world.customer.chat({ model: world.customer.key })).status, 404);
    t.equal((await world.customer.chat({ model: CHAT, api_key: 'x' })).status, 400);
    t.equal((await world.customer.chat({ model: CHAT, messages: 'none' })).status, 400);
    const lines = await until(
      () => world.logged.slice(before).map((line) => JSON.parse(line)),
      'the log lines of six requests',
      ({ length }) => length === 6,
    );
    t.match(lines[0], {
      endpoint: 'chat.completions',
      slug: undefined,
      outcome: undefined,
      added_us: Number,
    });
    t.match(lines[0], {
      code: 'not_found',
      param: 'model',
      key: /^[0-9a-f-]{36}$/,
      asked: 'no-such-model',
    });
    t.match(lines[1], {
      endpoint: 'models',
      company: undefined,
      code: 'invalid_api_key',
      key: undefined,
    });
    t.match(lines[2], { asked: '(no name)' });
    t.match(lines[3], { asked: '(no name)' });
    t.match(lines[4], { code: 'unsupported_parameter', param: 'api_key' });
    t.match(lines[5], { code: 'invalid_type', param: 'messages' });
    t.notMatch(world.logged.join(''), /diary|svc_/);
  },
);

const PARTS = {
  chat: 'internal-a',
  embedding: 'internal-b',
  long: '',
  broken: '',
  refusing: '',
  limited: '',
  failing: '',
};

t.test('a line that is written in bytes is the one that is written as text', async (t) => {
  const at = Date.parse('2026-11-22T23:59:59.009Z');
  const lineOf = (
    slug: string,
    tokens: { prompt: number; completion: number },
    inBytes: boolean,
  ): string => {
    const buffer = Buffer.alloc(4096);
    let text = '';
    const write = (line: string): void => {
      text = line;
    };
    const take = (end: number): void => write(buffer.toString('latin1', 7, end));
    const reserved = { buffer, at: 7, take };
    const sink = { write, ...(inBytes && { reserve: () => reserved }) };
    const log = new RequestLog(sink, new Metrics(), () => at, null);
    const reply = {
      requestId: newRequestId(),
      status: 200,
      failure: null,
      streamedAt: Number.NaN,
    } as Reply;
    const summary = new RequestSummary(reply, at);
    const meter = { outcome: 'completed', tokens, cost: '0.1', failure: null } as const;
    Object.assign(summary, {
      endpoint: 'embeddings',
      companyId: newRequestId(),
      keyId: newRequestId(),
      slug,
      meter,
    });
    log.ended(summary);
    t.match(text, /"ms":\d+\.\d,.*\}\n$/s);
    t.ok(JSON.parse(text), 'one JSON object');
    return text.replace(/"ms":\d+\.\d/, '"ms":0.0').replaceAll(/[\da-f-]{36}/g, 'id');
  };
  for (const slug of ['small', 'größer "so"', 'x'.repeat(300)]) {
    for (const tokens of [
      { prompt: 0, completion: 0 },
      { prompt: 1e12, completion: 7 },
    ]) {
      t.equal(lineOf(slug, tokens, true), lineOf(slug, tokens, false));
    }
  }
});
