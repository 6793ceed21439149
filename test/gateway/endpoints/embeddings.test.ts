import t from 'tap';
import type { GatewayError } from '../../../src/domain/errors.ts';
import type { CallMeter } from '../../../src/gateway/answer/call-meter.ts';
import type { JsonRelay } from '../../../src/gateway/answer/json-relay.ts';
import { embeddings } from '../../../src/gateway/endpoints/embeddings.ts';
import { RequestBody } from '../../../src/gateway/request/body.ts';
import type { Reply } from '../../../src/gateway/request/reply.ts';
import type { Services } from '../../../src/gateway/request/services.ts';
import { parseObject } from '../../../src/json/parser.ts';
import type { AnswerHead } from '../../../src/upstream/upstream.ts';
import { until } from '../../support/until.ts';

/** The relay of a client that asked for one encoding, and what became of the call. `waiting` has parts of long work. */
function relayTo(encoding: 'base64' | 'float' | null) {
  const waiting: (() => void)[] = [];
  const turns = { enter: (part: () => void) => waiting.push(part) };
  const settings = { costCenterMember: null };
  const services = { steering: null, settings, bodyMemory: { turns } } as unknown as Services;
  const text = Buffer.from(
    `{"model":"m","input":"x","encoding_format":${JSON.stringify(encoding)}}`,
  );
  const body = new RequestBody([text], text.length, parseObject(text));
  const call = embeddings.read(services, body, '', '', {} as never);
  if (call instanceof Promise) throw new Error('it waits for nothing');
  const became: {
    sent: string | null;
    outcome: string | null;
    deadline: ((which: 'total') => void) | null;
  } = {
    sent: null,
    outcome: null,
    deadline: null,
  };
  const reply = {
    res: {},
    json(answer: Buffer) {
      became.sent = `${Buffer.concat([answer].flat())}`;
    },
    error({ status }: GatewayError) {
      became.sent = `${status}`;
    },
  };
  const meter = {
    admission: { payer: { companyId: 'one' } },
    load: { work: 0 },
    names: { slug: Buffer.from('"brand"'), hidden: null },
    newMemory: () => ({ take: () => true, hold() {}, end() {} }),
    maxAnswerBytes: 100_000_000,
    readOnMs: { streamed: 3000, whole: 3_600_000 },
    watch(_res: unknown, watched: { onDeadline(which: 'total'): void }) {
      became.deadline = (which) => watched.onDeadline(which);
      return { sent() {}, answered() {}, settled() {}, close() {}, abandon: () => true };
    },
    upstreamFailed() {},
    settle(
      outcome: string,
      _usage: unknown,
      _generated: unknown,
      listener: { onBooked(): void } | null,
    ) {
      became.outcome = outcome;
      listener?.onBooked();
    },
  };
  const relay = call.answer(reply as unknown as Reply, meter as unknown as CallMeter) as JsonRelay;
  relay.onConnected({ abort() {}, leave() {} } as never);
  relay.onHead({ status: 200, contentType: 'application/json' } as AnswerHead);
  const answer = (text: string): void => {
    relay.onData(Buffer.from(text.slice(0, 9)), false);
    relay.onData(Buffer.from(text.slice(9)), true);
    relay.onEnd();
  };
  return { relay, answer, became, waiting };
}

const FLOATS = [0.5, -1, 0, 3.25];
const BASE64 = Buffer.from(Float32Array.from(FLOATS).buffer).toString('base64');

/** An answer with vectors as JSON texts. */
const answerOf = (vectors: string[], model = 'internal'): string =>
  `{ "object":"list", "model":"${model}","data":[${vectors.map((vector, n) => `{"object":"embedding","index":${n},"embedding" : ${vector}}`)}],"note":"\\"embedding\\":[1]"}`;

t.test('vectors are converted to the encoding asked for, and nothing else is', async (t) => {
  const [floats, base64] = [JSON.stringify(FLOATS), JSON.stringify(BASE64)];
  for (const [asked, given, sent] of [
    ['base64', [floats, floats], [base64, base64]],
    ['base64', [floats, base64], [base64, base64]],
    ['float', [base64, base64.replaceAll('/', '\\/')], [floats, floats]],
    ['float', [floats], [floats]],
    ['base64', [], []],
  ] as const) {
    const { answer, became } = relayTo(asked);
    answer(answerOf([...given]));
    await until(() => became.sent !== null, 'the answer');
    t.equal(became.sent, answerOf([...sent], 'brand'));
    t.equal(became.outcome, 'completed');
  }
});

t.test(
  'base64 of other numbers than floats stays as it is, and is broken where floats were asked for',
  async (t) => {
    const int8 = Int8Array.from({ length: 1024 }, (_, n) => ((n * 37) % 255) - 127);
    for (const bytes of [int8, int8.subarray(0, 1021), new Uint8Array(128).fill(0xa5)]) {
      const vector = JSON.stringify(Buffer.from(bytes).toString('base64'));
      for (const [asked, sent] of [
        [null, answerOf([vector, vector], 'brand')],
        ['base64', answerOf([vector, vector], 'brand')],
        ['float', '502'],
      ] as const) {
        const { answer, became } = relayTo(asked);
        answer(answerOf([vector, vector]));
        await until(() => became.sent !== null, 'the answer');
        t.equal(became.sent, sent, `${bytes.length} bytes, ${asked} asked`);
      }
    }
    const { answer, became } = relayTo(null);
    answer(answerOf([JSON.stringify(BASE64)]));
    await until(() => became.sent !== null, 'the answer');
    t.equal(
      became.sent,
      answerOf([JSON.stringify(FLOATS)], 'brand'),
      'floats where nothing was asked',
    );
  },
);

t.test('an answer with a vector that is none is broken', async (t) => {
  for (const encoding of ['base64', 'float'] as const) {
    for (const wrong of [
      '{}',
      'null',
      '1',
      ...(encoding === 'float' ? [] : ['[[1],[2]]', '[1,null]', '[1,"2"]']),
    ]) {
      const { answer, became } = relayTo(encoding);
      const first = JSON.stringify(encoding === 'float' ? BASE64 : FLOATS);
      answer(answerOf([first, wrong]));
      await until(() => became.sent !== null, 'the answer');
      t.same([became.sent, became.outcome], ['502', 'upstream_failed'], `${wrong} as ${encoding}`);
    }
  }
});

const VECTORS = 100;
const VECTOR = Buffer.from(new Float32Array(10_000).fill(0.25).buffer).toString('base64');
const LARGE = answerOf(Array.from({ length: VECTORS }, () => JSON.stringify(VECTOR)));

t.test('others have their turn while a large answer becomes floats', async (t) => {
  const { answer, became, waiting } = relayTo('float');
  answer(LARGE);
  let turns = 0;
  await until(() => {
    const part = waiting.shift();
    if (part !== undefined) turns++;
    part?.();
    return became.sent !== null;
  }, 'the answer');
  t.ok(turns > LARGE.length / 400_000, `${turns} turns`);
  const floats = JSON.stringify(Array(10_000).fill(0.25));
  const expected = answerOf(
    Array.from({ length: VECTORS }, () => floats),
    'brand',
  );
  t.ok(became.sent === expected, 'all of it');
});

t.test(
  'a client that leaves meanwhile is charged, and a call given up meanwhile ends once',
  async (t) => {
    const left = relayTo('float');
    left.answer(LARGE);
    left.relay.onClientClose();
    const late = relayTo('float');
    late.answer(LARGE);
    late.became.deadline?.('total');
    t.same([late.became.sent, late.became.outcome], ['504', 'upstream_failed']);
    await until(() => {
      for (const { waiting } of [left, late]) waiting.shift()?.();
      return left.became.outcome !== null && late.waiting.length === 0;
    }, 'the end of both');
    t.equal(left.became.outcome, 'client_aborted');
    t.same([late.became.sent, late.became.outcome], ['504', 'upstream_failed']);
  },
);
