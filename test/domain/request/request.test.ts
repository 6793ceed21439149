import { readFileSync } from 'node:fs';
import t from 'tap';
import { GatewayError } from '../../../src/domain/errors.ts';
import {
  checkAssistantRun,
  checkChat,
  checkEmbedding,
} from '../../../src/domain/request/request.ts';
import { GENERATED, generatedFile } from '../../generate-validators.ts';

const messages = [{ role: 'user', content: 'hi' }];

/** Code and param of the refusal, or null. */
function refusal(
  check: (body: unknown) => unknown,
  body: unknown,
): [string | null, string | null] | null {
  try {
    check(body);
    return null;
  } catch (error) {
    if (!(error instanceof GatewayError)) throw error;
    return [error.code, error.param];
  }
}

t.test('the committed validators are what the schemas generate', async (t) => {
  for (const [path, generate] of Object.entries(GENERATED)) {
    t.equal(
      readFileSync(generatedFile(path), 'utf8'),
      generate(),
      `${path}: run \`make generate\``,
    );
  }
});

t.test('chat: model and at least one message, each with role and content', async (t) => {
  t.equal(refusal(checkChat, { model: 'm', messages }), null);
  t.equal(
    refusal(checkChat, { model: 'm', messages, stream: null, stream_options: null, future: {} }),
    null,
  );
  t.equal(
    refusal(checkChat, { model: 'm', messages: [{ role: 'assistant', tool_calls: [] }] }),
    null,
  );
  t.same(refusal(checkChat, { messages }), ['missing_required_parameter', 'model']);
  t.same(refusal(checkChat, { model: 'm' }), ['missing_required_parameter', 'messages']);
  t.same(refusal(checkChat, { model: 5, messages }), ['invalid_type', 'model']);
  t.same(refusal(checkChat, { model: 'm', messages: [] }), [null, 'messages']);
  t.same(refusal(checkChat, { model: 'm', messages: 'hi' }), ['invalid_type', 'messages']);
  t.same(refusal(checkChat, { model: 'm', messages: [{ content: 'hi' }] }), [
    'missing_required_parameter',
    'messages[0].role',
  ]);
  t.same(refusal(checkChat, { model: 'm', messages: [{ role: 'user' }] }), [
    'missing_required_parameter',
    'messages[0].content',
  ]);
  for (const stream of ['true', 1])
    t.same(refusal(checkChat, { model: 'm', messages, stream }), ['invalid_type', 'stream']);
  t.same(refusal(checkChat, []), ['invalid_type', null]);
});

t.test('embeddings: model and a string or an array of strings', async (t) => {
  t.equal(refusal(checkEmbedding, { model: 'm', input: 'a' }), null);
  t.equal(
    refusal(checkEmbedding, { model: 'm', input: ['a', 'b'], encoding_format: 'base64' }),
    null,
  );
  t.same(refusal(checkEmbedding, { model: 'm' }), ['missing_required_parameter', 'input']);
  t.same(refusal(checkEmbedding, { model: 'm', input: 5 }), ['invalid_type', 'input']);
  t.equal(refusal(checkEmbedding, { model: 'm', input: [5, 6] }), null);
  t.equal(refusal(checkEmbedding, { model: 'm', input: [[5, 6], [7]] }), null);
  for (const input of [
    [true],
    [5, 'a'],
    ['a', 5],
    [1.5],
    [{}],
    [null],
    [[5], 6],
    [[5], ['a']],
    [[]],
    [[[5]]],
  ]) {
    t.match(
      refusal(checkEmbedding, { model: 'm', input }),
      ['invalid_type', /^input\[[01]\]$/],
      JSON.stringify(input),
    );
  }
  t.same(refusal(checkEmbedding, { model: 'm', input: [] }), [null, 'input']);
  t.same(refusal(checkEmbedding, { model: 'm', input: 'a', encoding_format: 'hex' }), [
    null,
    'encoding_format',
  ]);
});

t.test(
  'assistant run: 1 to 50 messages, overrides within their limits, nothing else',
  async (t) => {
    const many = (n: number): unknown[] => Array(n).fill(messages[0]);
    t.equal(
      refusal(checkAssistantRun, { messages: many(50), temperature: 2, max_tokens: 32000 }),
      null,
    );
    t.equal(
      refusal(checkAssistantRun, {
        messages,
        model_slug: null,
        temperature: 0,
        max_tokens: 1,
        stream: false,
      }),
      null,
    );
    t.same(refusal(checkAssistantRun, { messages: [] }), [null, 'messages']);
    t.same(refusal(checkAssistantRun, { messages: many(51) }), [null, 'messages']);
    for (const temperature of [-0.1, 2.1])
      t.same(refusal(checkAssistantRun, { messages, temperature }), [null, 'temperature']);
    for (const max_tokens of [0, 32001])
      t.same(refusal(checkAssistantRun, { messages, max_tokens }), [null, 'max_tokens']);
    t.same(refusal(checkAssistantRun, { messages, max_tokens: 1.5 }), [
      'invalid_type',
      'max_tokens',
    ]);
    t.same(refusal(checkAssistantRun, { messages, stream: true }), [null, 'stream']);
    t.same(refusal(checkAssistantRun, { messages, tools: [] }), ['unsupported_parameter', 'tools']);
  },
);
