import assert from 'node:assert/strict';
import { randomInt } from 'node:crypto';
import t from 'tap';
import { COMPLETIONS_ANSWER, hiddenBehind } from '../../src/domain/request/answer-members.ts';
import { ChatStream, EMPTY_TEXT } from '../../src/sse/chat-stream.ts';
import { fuzzRuns } from '../support/fuzz.ts';
import { countsOf, framed, LINE_ENDS } from './fixtures.ts';
import { cutAt, everyCut } from './fuzz.ts';

/** Streams of text completions, as engines write them. */

const hidden = hiddenBehind(
  { slug: 'acme/large', upstream: 'internal-7b' } as Parameters<typeof hiddenBehind>[0],
  ['sk-secret-0001'],
);

interface Fixture {
  readonly name: string;
  readonly input: string;
  readonly output: string;
  readonly state: string;
  readonly usage: { prompt: number | null; completion: number | null } | null;
  readonly generated: number;
}

const data = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
const DONE = 'data: [DONE]\n\n';
const head = (model: string) => ({ id: 'cmpl-1', object: 'text_completion', created: 17, model });
const WORDS = ['def', ' f', '():', '\n', '    ', 'return', ' "é🙂"', ' 1'];
const written = (texts: readonly string[]) =>
  texts.reduce((sum, text) => sum + Buffer.byteLength(JSON.stringify(text)) - 2, 0);

/** @param one a chunk of a text, of the model that it names */
const streamOf = (
  model: string,
  one: (text: string, finish: string | null) => object,
  usage: object,
  ...last: object[]
) =>
  [
    ...WORDS.map((text) => data({ ...head(model), ...one(text, null) })),
    data({ ...head(model), ...one('', 'length') }),
    data({ ...head(model), choices: [], usage, ...Object.assign({}, ...last) }),
    DONE,
  ].join('');

const USAGE = { prompt_tokens: 5, completion_tokens: 8, total_tokens: 13 };
const EMPTY = '"choices":[{"index":0,"text":"","logprobs":null,"finish_reason":null}]';
const vllm = (text: string, finish_reason: string | null) => ({
  choices: [
    { index: 0, text, logprobs: null, finish_reason, stop_reason: null, prompt_token_ids: null },
  ],
  usage: null,
});
const logprobs = {
  tokens: ['internal-7b', ' a'],
  token_logprobs: [-0.5, 0],
  top_logprobs: [{ provider: -1, cost: -2 }],
};
const openai = (text: string, finish_reason: string | null) => ({
  choices: [{ text, index: 0, logprobs, finish_reason }],
});
const litellm = (text: string, finish_reason: string | null) => ({
  choices: [
    {
      finish_reason,
      index: 0,
      text,
      logprobs: null,
      provider_specific_fields: { deployment: 'internal-7b' },
    },
  ],
  provider: 'internal-7b',
});
const cleaned = (text: string, finish_reason: string | null) => ({
  choices: [{ finish_reason, index: 0, text, logprobs: null }],
});

const whole = { state: 'done', usage: { prompt: 5, completion: 8 }, generated: written(WORDS) };
const FIXTURES: readonly Fixture[] = [
  {
    name: 'vLLM',
    input: streamOf('internal-7b', vllm, USAGE),
    output: streamOf('acme/large', vllm, USAGE).replace('"choices":[]', EMPTY),
    ...whole,
  },
  {
    name: 'with logprobs, whose tokens may be named like anything',
    input: streamOf('internal-7b', openai, USAGE, { system_fingerprint: 'sk-secret-0001' }),
    output: streamOf('acme/large', openai, USAGE, { system_fingerprint: '' }).replace(
      '"choices":[]',
      EMPTY,
    ),
    ...whole,
  },
  {
    name: 'LiteLLM',
    input: streamOf('internal-7b', litellm, { ...USAGE, cost: 0.1 }),
    output: streamOf('acme/large', cleaned, USAGE).replace('"choices":[]', EMPTY),
    ...whole,
  },
  {
    name: 'two prompts, each with its reason',
    input: [
      ...[0, 1].map((index) =>
        data({ ...head('internal-7b'), choices: [{ index, text: 'a', finish_reason: null }] }),
      ),
      ...[0, 1].map((index) =>
        data({ ...head('internal-7b'), choices: [{ index, text: '', finish_reason: 'stop' }] }),
      ),
      DONE,
    ].join(''),
    output: [
      ...[0, 1].map((index) =>
        data({ ...head('acme/large'), choices: [{ index, text: 'a', finish_reason: null }] }),
      ),
      ...[0, 1].map((index) =>
        data({ ...head('acme/large'), choices: [{ index, text: '', finish_reason: 'stop' }] }),
      ),
      DONE,
    ].join(''),
    state: 'done',
    usage: null,
    generated: 2,
  },
  {
    name: 'broken off',
    input: data({ ...head('internal-7b'), ...vllm('a', null) }) + DONE,
    output: data({ ...head('acme/large'), ...vllm('a', null) }),
    state: 'broken',
    usage: null,
    generated: 1,
  },
];

function feed(chunks: readonly Buffer[]) {
  let output = '';
  const sink = {
    bytes(buffer: Buffer, start: number, end: number) {
      output += buffer.toString('latin1', start, end);
    },
  };
  const options = { slug: Buffer.from('"acme/large"'), sink, maxEventBytes: 4000, hidden };
  const stream = new ChatStream(options, COMPLETIONS_ANSWER, false, EMPTY_TEXT);
  for (const chunk of chunks) stream.push(Buffer.from(chunk));
  stream.end();
  return {
    output,
    state: stream.state,
    usage: countsOf(stream.usage()),
    generated: stream.generatedBytes,
  };
}

t.test('an event whose type is no text is none of the format, and breaks nothing', (t) => {
  const one = (text: string, finish: string | null) =>
    data({ ...head('internal-7b'), ...cleaned(text, finish) });
  const odd = [{ toString: 1 }, { valueOf: 1, toString: 1 }, ['x'], 7, null].flatMap((value) => [
    { type: value, code: 1 },
    { object: value, code: 1 },
  ]);
  const { output, state } = feed([
    Buffer.from(one('a', null) + odd.map(data).join('') + one('', 'stop') + DONE),
  ]);
  t.strictSame(
    { output, state },
    {
      output: `${one('a', null)}${one('', 'stop')}${DONE}`.replaceAll('internal-7b', 'acme/large'),
      state: 'done',
    },
  );
  t.end();
});

for (const lineEnd of LINE_ENDS) {
  t.test(
    `text completions with ${JSON.stringify(lineEnd)}: whole, split at every byte, byte by byte`,
    (t) => {
      for (const { name, input, output, ...rest } of FIXTURES) {
        const bytes = framed(input, lineEnd);
        const expected = { output: framed(output, lineEnd).toString('latin1'), ...rest };
        t.strictSame(feed([bytes]), expected, name);
        for (const cuts of [...everyCut(bytes, lineEnd), [...bytes.keys()]]) {
          assert.deepEqual(feed(cutAt(bytes, cuts)), expected, `${name}, split at ${cuts}`);
        }
      }
      t.end();
    },
  );
}

t.test(
  'the tier is the last one that an event tells, at every cut and with patterns',
  async (t) => {
    const event = (service_tier: unknown, n: number) =>
      data({
        ...head('internal-7b'),
        choices: [{ index: 0, text: ` ${n}`, finish_reason: null }],
        ...(service_tier === undefined ? {} : { service_tier }),
      });
    const tiers = [undefined, undefined, null, '', 'default', 'priority', 'flex', 'fl\u0065x"'];
    const sink = { bytes: () => {} };
    for (let n = 0; n < fuzzRuns(2000); n++) {
      // runs of one tier are learned as patterns, and come back after others
      const some = [tiers[randomInt(tiers.length)], tiers[randomInt(tiers.length)]];
      const told = Array.from({ length: 4 }, () => some[randomInt(2)]).flatMap((tier) =>
        Array(1 + randomInt(5)).fill(tier),
      );
      const input = Buffer.from(told.map(event).join(''));
      const stream = new ChatStream(
        { slug: Buffer.from('"a"'), sink, maxEventBytes: 9999, hidden },
        COMPLETIONS_ANSWER,
        true,
      );
      for (let at = 0; at < input.length; ) {
        const next = Math.min(input.length, at + 1 + randomInt(randomInt(2) === 0 ? 40 : 2000));
        stream.push(input.subarray(at, next));
        at = next;
      }
      const last = told.findLast((tier) => typeof tier === 'string' && tier !== '');
      if (stream.tier !== last) t.equal(stream.tier, last, JSON.stringify(told));
    }
  },
);
