import t from 'tap';
import {
  CHAT_LIMITS,
  completionLimit,
  isLimit,
  type LimitFormat,
  MESSAGES_LIMITS,
  RESPONSES_LIMITS,
  unclearLimit,
} from '../../../src/domain/members/completion-limit.ts';

const BYTES = 1000;
const chat = (request: object) => completionLimit({ messages: [], ...request }, CHAT_LIMITS, BYTES);
const messages = (request: object) =>
  completionLimit({ messages: [], ...request }, MESSAGES_LIMITS, BYTES);
const responses = (request: object) =>
  completionLimit({ input: 'x', ...request }, RESPONSES_LIMITS, BYTES);

t.test('the limits of each format, and of several the larger one', async (t) => {
  t.equal(chat({ max_tokens: 5 }), 5);
  t.equal(chat({ max_completion_tokens: 5 }), 5);
  t.equal(chat({ max_completion_tokens: 5, max_tokens: 7 }), 7);
  t.equal(responses({ max_output_tokens: 5 }), 5);
  t.equal(messages({ max_tokens: 5 }), 5);
  for (const limit of [chat, responses, messages]) t.equal(limit({}), null);
});

t.test(
  '0 limits a message, which only warms the cache; engines take it for no limit elsewhere',
  async (t) => {
    t.equal(messages({ max_tokens: 0 }), 0);
    t.equal(chat({ max_tokens: 0 }), null);
    t.equal(responses({ max_output_tokens: 0 }), null);
    t.equal(messages({ max_tokens: 0, max_new_tokens: 70 }), 70);
  },
);

/** Members that an engine or provider takes as the most, where they are not the format’s own. */
// biome-ignore format: a table
const SPELLINGS = [
  'max_tokens', 'max_completion_tokens', 'max_output_tokens', 'max_new_tokens', 'max_total_tokens',
  'max_generated_tokens',
    'max_response_tokens',
    'max_tokens_to_sample',
    'max_tokens_to_generate',
    'max_token_count',
  'max_length', 'max_new_length', 'max_gen_len', 'max_output_len', 'max_decode_len', 'max_generation_length',
  'n_predict', 'num_predict', 'tokens_to_generate', 'request_output_len', 'output_len', 'completion_max_tokens',
  'maxTokens',
    'maxTokenCount',
    'maxOutputTokens',
    'MAX_NEW_TOKENS',
    'max-new-tokens',
    'maxNewTokens',
    'numPredict',
  'max_new_tokens\0x', 'max_new_token\u017f',
];

t.test('every spelling counts, so that the largest is what is reserved', async (t) => {
  for (const name of SPELLINGS) {
    const own = (format: LimitFormat) => Object.fromEntries(format.own.map((own) => [own, 10]));
    for (const format of [CHAT_LIMITS, RESPONSES_LIMITS, MESSAGES_LIMITS]) {
      if (format.own.includes(name)) continue;
      t.equal(completionLimit({ ...own(format), [name]: 100_000 }, format, BYTES), 100_000, name);
      t.equal(
        completionLimit({ ...own(format), [name]: 3 }, format, BYTES),
        10,
        `${name}: a smaller one promises nothing`,
      );
      t.equal(
        completionLimit({ ...own(format), [name]: null }, format, BYTES),
        10,
        `${name}: null`,
      );
      t.equal(
        completionLimit({ [name]: 10 }, format, BYTES),
        null,
        `${name} alone: an engine may not know it`,
      );
    }
    t.ok(isLimit(name), name);
  }
});

t.test('objects that engines read limits from', async (t) => {
  for (const [within, name] of [
    ['generation_config', 'max_output_tokens'],
    ['generationConfig', 'maxOutputTokens'],
    ['inferenceConfig', 'maxTokens'],
    ['parameters', 'max_new_tokens'],
    ['options', 'num_predict'],
    ['sampling_params', 'max_tokens'],
  ] as const) {
    t.equal(chat({ max_tokens: 10, [within]: { [name]: 100_000 } }), 100_000, within);
    t.equal(
      chat({ max_tokens: 10, additional_fields: { [within]: { [name]: 100_000 } } }),
      100_000,
      within,
    );
  }
  t.equal(chat({ max_tokens: 10, generation_config: { candidate_count: 4 } }), 40);
  t.equal(chat({ max_tokens: 10, generation_config: { max_output_tokens: '99' } }), null);
});

t.test('choices multiply the limit, by any name', async (t) => {
  for (const name of [
    'n',
    'best_of',
    'n_cmpl',
    'num_return_sequences',
    'candidate_count',
    'candidateCount',
    'num_beams',
  ]) {
    t.equal(chat({ max_tokens: 10, [name]: 3 }), 30, name);
    t.equal(messages({ max_tokens: 10, [name]: 3 }), 30, name);
    t.equal(responses({ max_output_tokens: 10, [name]: 3 }), 30, name);
    t.equal(chat({ max_tokens: 10, [name]: '3' }), null, `${name} as a text`);
  }
  t.equal(chat({ max_tokens: 10, n: 3, best_of: 2 }), 30);
});

t.test('what readers may take for another number is no limit', async (t) => {
  for (const odd of ['100000', -1, 0, 1.5, 1e300, 2 ** 53, true, {}, [9], Number.NaN]) {
    t.equal(chat({ max_tokens: odd }), null, String(odd));
    t.equal(chat({ max_tokens: 10, max_completion_tokens: odd }), null, String(odd));
    t.equal(chat({ max_tokens: 10, max_new_tokens: odd }), null, `${odd} by another name`);
  }
  t.equal(chat({ max_tokens: 2 ** 52, n: 2 ** 52 }), null, 'more than a row can hold');
});

t.test(
  'a limit that others may read as none is unclear; one that everybody reads as none is not',
  async (t) => {
    const unclear = (request: object) =>
      unclearLimit(request as Record<string, unknown>, CHAT_LIMITS, Object.keys(request));
    for (const odd of ['100000', '', -1, 0, 1.5, true, [], Number.NaN]) {
      t.equal(unclear({ max_tokens: 10, max_new_tokens: odd }), 'max_new_tokens', String(odd));
      t.equal(
        unclear({ max_tokens: 10, max_completion_tokens: odd }),
        'max_completion_tokens',
        String(odd),
      );
      t.equal(
        unclear({ max_tokens: 10, generation_config: { numPredict: odd } }),
        'generation_config.numPredict',
      );
      t.equal(unclear({ max_tokens: 10, n: odd }), 'n', String(odd));
      t.equal(unclear({ max_new_tokens: odd }), null, 'there is no limit to be believed');
    }
    for (const alone of ['100000', 1.5, {}, 0, -1, null])
      t.equal(unclear({ max_tokens: alone }), null, String(alone));
    t.equal(
      unclear({ max_tokens: 10, max_completion_tokens: null, max_new_tokens: 99, n: 2 }),
      null,
    );
  },
);

t.test('members that hold texts and schemas are not looked into', async (t) => {
  const schema = { type: 'object', properties: { max_tokens: { type: 'integer' }, n: 7 } };
  t.equal(
    chat({
      max_tokens: 10,
      response_format: { json_schema: schema },
      metadata: { max_tokens: '99' },
    }),
    10,
  );
  t.equal(responses({ max_output_tokens: 10, text: { format: { schema } } }), 10);
  t.equal(
    messages({
      max_tokens: 10,
      thinking: { budget_tokens: 99 },
      output_config: { format: { schema } },
    }),
    10,
  );
});

t.test(
  'a predicted answer is charged beside the own one, and a compaction runs the model once more',
  async (t) => {
    t.equal(chat({ max_tokens: 10, prediction: { type: 'content', content: 'x' } }), 10 + BYTES);
    t.equal(
      messages({ max_tokens: 10, context_management: { edits: [{ type: 'compact_20260112' }] } }),
      null,
    );
    t.equal(
      responses({ max_output_tokens: 10, context_management: [{ type: 'compaction' }] }),
      null,
    );
    t.equal(
      messages({
        max_tokens: 10,
        context_management: { edits: [{ type: 'clear_thinking_20251015' }] },
      }),
      10,
    );
  },
);
