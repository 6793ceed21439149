import t from 'tap';
import {
  addUsage,
  chatUsage,
  inputUsage,
  messagesUsage,
  promptUsage,
  readUsageMembers,
  responsesUsage,
  type UsageReader,
  withCost,
} from '../../src/json/usage.ts';
import { NO_DETAILS } from '../../src/json/usage-counts.ts';
import { countsOf } from '../sse/fixtures.ts';
import { readUsage } from '../support/told-usage.ts';

t.test('the usage of embeddings is that of the prompt: there is no completion', (t) => {
  const read = (json: string) => countsOf(readUsage(json, inputUsage));
  t.strictSame(read('{"prompt_tokens":5}'), { prompt: 5, completion: 0 });
  t.strictSame(read('{"prompt_tokens":5,"total_tokens":5}'), { prompt: 5, completion: 0 });
  t.strictSame(read('{"prompt_tokens":5,"total_tokens":7}'), { prompt: 7, completion: 0 });
  t.strictSame(read('{"prompt_tokens":5,"completion_tokens":3,"total_tokens":8}'), {
    prompt: 8,
    completion: 0,
  });
  t.strictSame(read('{"total_tokens":7}'), { prompt: 7, completion: 0 });
  t.strictSame(read('{"prompt_tokens":null,"completion_tokens":null,"total_tokens":7}'), {
    prompt: 7,
    completion: 0,
  });
  t.end();
});

t.test('the usage of a chat completion is two whole numbers that are not negative', (t) => {
  const read = (json: string) => countsOf(readUsage(json, chatUsage));
  t.strictSame(read('{"prompt_tokens":1,"completion_tokens":2}'), { prompt: 1, completion: 2 });
  t.strictSame(read('{"prompt_tokens":1.0,"completion_tokens":2e3}'), {
    prompt: 1,
    completion: 2000,
  });
  t.strictSame(read('{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}'), {
    prompt: null,
    completion: 0,
  });
  t.strictSame(read('{"prompt_tokens":5}'), { prompt: 5, completion: null });
  t.strictSame(read('{"prompt_tokens":5,"completion_tokens":null,"total_tokens":7}'), {
    prompt: 5,
    completion: 2,
  });
  t.strictSame(read('{"prompt_tokens":5,"total_tokens":3}'), { prompt: 5, completion: 0 });
  t.strictSame(read('{"prompt_tokens":35,"completion_tokens":12,"total_tokens":109,"d":{"x":0}}'), {
    prompt: 35,
    completion: 74,
  });
  t.strictSame(read('{"input_tokens":2}'), { prompt: 2, completion: null });
  t.strictSame(read('{"prompt_tokens":1,"completion_tokens":2.0}'), { prompt: 1, completion: 2 });
  // of two members of a name the last one counts, however it is spelt; what lies deeper does not
  t.strictSame(read('{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens":3}'), {
    prompt: 3,
    completion: 2,
  });
  t.strictSame(read('{"prompt_tokens":1,"completion_tokens":2,"completion_tokens":4}'), {
    prompt: 1,
    completion: 4,
  });
  t.strictSame(read('{"prompt_tokens":1,"completion_tokens":2,"prompt_token\\u0073":3}'), {
    prompt: 3,
    completion: 2,
  });
  t.strictSame(read('{"prompt_tokens":1,"completion_tokens":2,"d":{"prompt_tokens":9}}'), {
    prompt: 1,
    completion: 2,
  });
  // a bad number leaves the good one
  for (const json of [
    '{"prompt_tokens":1,"completion_tokens":2,"completion_tokens":-4}',
    '{"prompt_tokens":1,"completion_tokens":-2}',
    '{"prompt_tokens":1,"completion_tokens":"2"}',
    '{"prompt_tokens":1,"completion_tokens":1e999}',
    '{"prompt_tokens":1,"completion_tokens":1000000000001}',
  ]) {
    t.strictSame(read(json), { prompt: 1, completion: null }, json);
  }
  for (const json of [
    '{"completion_tokens":2}',
    '{"prompt_tokens":null,"completion_tokens":2}',
    '{"prompt_tokens":-1,"completion_tokens":2}',
    '{"prompt_tokens":1.5,"completion_tokens":2}',
    '{"prompt_tokens":"1","completion_tokens":2}',
    '{"prompt_tokens":9007199254740992,"completion_tokens":2}',
    '{"prompt_tokens":1000000000001,"completion_tokens":2}',
  ]) {
    t.strictSame(read(json), { prompt: null, completion: 2 }, json);
  }
  for (const json of [
    'null',
    '1',
    '"x"',
    '[]',
    '{}',
    '{"prompt_tokens":-1,"total_tokens":3}',
    '{',
  ]) {
    t.equal(read(json), null, json);
  }
  t.end();
});

t.test('the usage of a response', async (t) => {
  const read = (json: string) => countsOf(readUsage(json, responsesUsage));
  t.strictSame(
    read(
      '{"input_tokens":9,"input_tokens_details":{"cached_tokens":8},"output_tokens":4,"total_tokens":13}',
    ),
    { prompt: 9, completion: 4 },
  );
  t.strictSame(read('{"input_tokens":9,"total_tokens":13}'), { prompt: 9, completion: 4 });
  t.strictSame(read('{"input_tokens":9}'), { prompt: 9, completion: null });
  t.strictSame(read('{"input_tokens":"9","output_tokens":4,"total_tokens":13}'), {
    prompt: 9,
    completion: 4,
  });
  t.strictSame(
    read('{"prompt_tokens":9,"input_tokens":0,"completion_tokens":4}'),
    { prompt: 9, completion: 4 },
    'by the names of chat, where its own tell nothing',
  );
});

t.test(
  'reasoning that stands beside the completion, by the total, is completion too',
  async (t) => {
    const chat = (completion: unknown, reasoning: unknown, total: unknown) =>
      countsOf(
        readUsage(
          JSON.stringify({
            prompt_tokens: 32,
            completion_tokens: completion,
            total_tokens: total,
            completion_tokens_details: { reasoning_tokens: reasoning },
          }),
          chatUsage,
        ),
      );
    t.strictSame(chat(9, 94, 135), { prompt: 32, completion: 103 });
    t.strictSame(chat(0, 94, 126), { prompt: 32, completion: 94 });
    t.strictSame(
      chat(103, 94, 135),
      { prompt: 32, completion: 103 },
      'within it, as nearly all tell it',
    );
    for (const [reasoning, total, completion] of [
      [94, 134, 102],
      [94, undefined, 9],
      ['94', 135, 103],
      [-94, -53, 9],
      [null, 135, 103],
      [0, 41, 9],
    ] as const) {
      t.strictSame(chat(9, reasoning, total), { prompt: 32, completion }, `${reasoning}, ${total}`);
    }
    const flat = { prompt_tokens: 32, completion_tokens: 9, reasoning_tokens: 94 };
    for (const [total_tokens, completion] of [
      [135, 103],
      [41, 9],
    ]) {
      t.match(readUsage(JSON.stringify({ ...flat, total_tokens }), chatUsage), {
        prompt: 32,
        completion,
      });
    }
    t.strictSame(chat('9', 94, 135), { prompt: 32, completion: 103 }, 'what the total leaves');
    const response = { input_tokens: 32, output_tokens: 9, total_tokens: 135 };
    const told = readUsage(
      JSON.stringify({ ...response, output_tokens_details: { reasoning_tokens: 94 } }),
      responsesUsage,
    );
    t.match(told, { prompt: 32, completion: 103, details: { reasoning: 94 } });
  },
);

t.test(
  'tokens of the cache that stand beside the prompt, by the total, are prompt tokens',
  async (t) => {
    const read = (usage: object, reader: UsageReader) => readUsage(JSON.stringify(usage), reader);
    const forms: readonly (readonly [name: string, cached: object, written: object])[] = [
      ['details', { prompt_tokens_details: { cached_tokens: 13_312 } }, {}],
      ['messages', { cache_read_input_tokens: 13_312 }, { cache_creation_input_tokens: 500 }],
      ['DeepSeek', { prompt_cache_hit_tokens: 13_312 }, {}],
      ['Moonshot', { cached_tokens: 13_312 }, {}],
      [
        'both forms at once',
        { cache_read_input_tokens: 13_312, prompt_tokens_details: { cached_tokens: 13_312 } },
        { cache_creation_input_tokens: 500 },
      ],
    ];
    for (const [name, cached, written] of forms) {
      const beside = { prompt_tokens: 479, completion_tokens: 373, ...cached };
      t.match(
        read({ ...beside, total_tokens: 14_164 }, chatUsage),
        { prompt: 13_791, completion: 373 },
        name,
      );
      t.match(
        read({ ...beside, total_tokens: 14_164 }, chatUsage)?.details,
        { cached: 13_312 },
        name,
      );
      t.match(
        read({ ...beside, ...written, total_tokens: 14_164 }, chatUsage),
        { prompt: 13_791 },
        `${name}, written within`,
      );
      const within = { ...beside, prompt_tokens: 13_791, total_tokens: 14_164 };
      t.match(
        read(within, chatUsage),
        { prompt: 13_791, completion: 373, details: { cached: 13_312 } },
        `${name}, within`,
      );
      t.match(
        read({ ...beside, total_tokens: 852 }, chatUsage),
        { prompt: 479, completion: 373 },
        name,
      );
      t.match(
        read({ ...beside, total_tokens: 14_165 }, chatUsage),
        { prompt: 13_791, completion: 374, rest: 1 },
        `${name}, more than its prompt`,
      );
      if ('cache_creation_input_tokens' in written) {
        const all = { ...beside, ...written, total_tokens: 14_664 };
        t.match(
          read(all, chatUsage),
          { prompt: 14_291, details: { cached: 13_312, cacheWrite: 500 } },
          name,
        );
      }
      const { prompt_tokens: _, ...noPrompt } = { ...beside, total_tokens: 14_164 };
      t.match(read(noPrompt, chatUsage), { prompt: 13_791, completion: 373 }, `${name}, no prompt`);
      const { completion_tokens: __, ...noCompletion } = { ...beside, total_tokens: 14_164 };
      t.match(
        read(noCompletion, chatUsage),
        { prompt: 13_791, completion: 373 },
        `${name}, no completion`,
      );
    }
    const thinking = {
      prompt_tokens: 479,
      completion_tokens: 373,
      prompt_tokens_details: { cached_tokens: 13_312, cache_creation_tokens: 88 },
      completion_tokens_details: { reasoning_tokens: 1000 },
    };
    for (const [total_tokens, prompt, completion] of [
      [852, 479, 373],
      [1852, 479, 1373],
      [14_164, 13_791, 373],
      [14_252, 13_879, 373],
      [15_164, 13_791, 1373],
      [15_252, 13_879, 1373],
      [9999, 479, 9520],
    ]) {
      t.match(
        read({ ...thinking, total_tokens }, chatUsage),
        { prompt, completion },
        `${total_tokens}`,
      );
    }
    const response = {
      input_tokens: 479,
      output_tokens: 373,
      input_tokens_details: { cached_tokens: 13_312 },
    };
    t.match(read({ ...response, total_tokens: 14_164 }, responsesUsage), {
      prompt: 13_791,
      completion: 373,
    });
    t.match(read({ ...response, total_tokens: 14_164, input_tokens: null }, responsesUsage), {
      prompt: 13_791,
    });
    const message = { input_tokens: 13_791, output_tokens: 373, cache_read_input_tokens: 13_312 };
    t.match(read(message, messagesUsage), { prompt: 27_103 }, 'the format tells them beside it');
    t.match(
      read({ ...message, total_tokens: 14_164 }, messagesUsage),
      { prompt: 13_791 },
      'but not by this total',
    );
    t.match(
      read({ ...message, input_tokens: 479, total_tokens: 852 }, messagesUsage),
      { prompt: 13_791 },
      'nor within less',
    );
    const vectors = { prompt_tokens: 0, total_tokens: 55 };
    t.match(read(vectors, inputUsage), { prompt: 55, completion: 0 });
    t.match(read({ ...vectors, completion_tokens: 0, prompt_tokens: null }, inputUsage), {
      prompt: 55,
      completion: 0,
    });
    t.match(read({ prompt_tokens: 0, total_tokens: 0 }, inputUsage), {
      prompt: null,
      completion: 0,
    });
  },
);

t.test('a count that is not told is what the total leaves', async (t) => {
  const read = (usage: object) => countsOf(readUsage(JSON.stringify(usage), chatUsage));
  for (const missing of [null, undefined, 0, -1, '7']) {
    t.same(read({ prompt_tokens: missing, completion_tokens: 3, total_tokens: 10 }), {
      prompt: 7,
      completion: 3,
    });
    if (missing !== 0) {
      t.same(read({ prompt_tokens: 7, completion_tokens: missing, total_tokens: 10 }), {
        prompt: 7,
        completion: 3,
      });
    }
  }
  const reasoned = { completion_tokens: 3, completion_tokens_details: { reasoning_tokens: 90 } };
  t.same(read({ ...reasoned, total_tokens: 100 }), { prompt: 7, completion: 93 });
  t.same(
    read({ completion_tokens: 3, total_tokens: 3 }),
    { prompt: null, completion: 3 },
    'no prompt has 0 tokens',
  );
});

t.test('a later usage adds to an earlier one by member', async (t) => {
  const merged = (...usages: object[]) => {
    const all: Record<string, unknown> = Object.create(null);
    for (const usage of usages) addUsage(all, JSON.parse(JSON.stringify(usage)));
    return JSON.parse(JSON.stringify(all));
  };
  const counts = { a: 1, b: 2, d: { e: 3, f: 4 } };
  for (const none of [
    {},
    { a: 0, b: 0, d: { e: 0, f: 0 } },
    { a: null, d: null },
    { a: -1, b: '', d: {} },
  ]) {
    t.same(merged(counts, none), counts, JSON.stringify(none));
    t.same(merged(none, counts), counts, JSON.stringify(none));
  }
  t.same(merged(counts, { b: 1, c: 5, d: { f: 9, g: 1 } }), {
    a: 1,
    b: 1,
    c: 5,
    d: { e: 3, f: 9, g: 1 },
  });
  t.same(
    merged({ a: { valueOf: 1, toString: 1 } }, { a: { valueOf: 1 } }, { a: 2 }).a,
    2,
    'members of any type',
  );
  const all = Object.create(null);
  const hostile = JSON.parse('{"__proto__":{"a":1},"d":{"__proto__":{"polluted":1}}}');
  for (let n = 0; n < 2; n++) addUsage(all, hostile);
  t.equal(({} as { polluted?: unknown }).polluted, undefined);
});

t.test(
  'a later usage brings its own total, and its own input where it tells the cache',
  async (t) => {
    const merged = (reader: UsageReader, ...usages: object[]) => {
      const all: Record<string, unknown> = Object.create(null);
      for (const usage of usages) addUsage(all, JSON.parse(JSON.stringify(usage)));
      return readUsageMembers(all, reader);
    };
    const begun = { prompt_tokens: 32, completion_tokens: 40, total_tokens: 72 };
    for (const later of [{ completion_tokens: 9 }, { completion_tokens: 9, total_tokens: 0 }])
      t.match(merged(chatUsage, begun, later), { prompt: 32, completion: 9, rest: undefined });
    t.match(merged(chatUsage, begun, { prompt_tokens_details: { cached_tokens: 5 } }), {
      completion: 40,
    });
    const start = { input_tokens: 5000, output_tokens: 1 };
    const kept = { cache_creation: { ephemeral_1h_input_tokens: 5000 } };
    for (const cache of [{ cache_read_input_tokens: 5000 }, kept])
      t.match(merged(messagesUsage, start, { input_tokens: 0, output_tokens: 9, ...cache }), {
        prompt: 5000,
        completion: 9,
      });
    const cached = { ...start, cache_read_input_tokens: 70 };
    t.match(
      merged(messagesUsage, cached, { input_tokens: 0, cache_read_input_tokens: 70 }),
      { prompt: 5070 },
      'it was told before: the zero tells nothing',
    );
  },
);

t.test('details have one list of names, in every dialect', async (t) => {
  const chat = { prompt_tokens: 100, completion_tokens: 50 };
  const response = { input_tokens: 100, output_tokens: 50 };
  const dialects: readonly (readonly [UsageReader, object, isMessage: boolean])[] = [
    [chatUsage, chat, false],
    [inputUsage, { prompt_tokens: 100 }, false],
    [responsesUsage, response, false],
    [messagesUsage, response, true],
  ];
  const reads = `cached_tokens cached_token num_cached_tokens cached_read_tokens cache_read_tokens
    cache_read_input_tokens prompt_cache_hit_tokens cached_input_tokens`.split(/\s+/);
  const writes =
    `cache_write_tokens cached_write_tokens cache_creation_tokens cached_creation_tokens
    write_cached_tokens caching_tokens caching_token cache_creation_input_tokens
    prompt_cache_write_tokens`.split(/\s+/);
  for (const [reader, usage, isMessage] of dialects) {
    for (const [names, part] of [
      [reads, 'cached'],
      [writes, 'cacheWrite'],
    ] as const) {
      for (const name of names) {
        const isBeside = isMessage ? { prompt: 130 } : { prompt: 100 };
        const beside = readUsage(JSON.stringify({ ...usage, [name]: 30 }), reader);
        t.match(beside, { ...isBeside, details: { [part]: 30 } }, name);
        for (const details of [
          'prompt_tokens_details',
          'prompt_token_details',
          'input_tokens_details',
        ]) {
          const within = readUsage(JSON.stringify({ ...usage, [details]: { [name]: 30 } }), reader);
          t.match(within, { prompt: 100, details: { [part]: 30 } }, `${details}.${name}`);
        }
      }
    }
    const kept = { ephemeral_5m_input_tokens: 20, ephemeral_1h_input_tokens: 10 };
    const dashScope = { cached_tokens: 5, cache_creation: kept, cache_creation_input_tokens: 30 };
    const told = readUsage(JSON.stringify({ ...usage, prompt_tokens_details: dashScope }), reader);
    t.match(told, { prompt: 100, details: { cached: 5, cacheWrite: 30 } });
  }
});

t.test('sound and images that stand beside a count, by the total, are of it', async (t) => {
  const read = (usage: object) => readUsage(JSON.stringify(usage), chatUsage);
  const voxtral = { prompt_tokens: 9, completion_tokens: 248, total_tokens: 632 };
  const told = { prompt: 384, completion: 248, details: { audioPrompt: 375 } };
  t.match(read({ ...voxtral, prompt_tokens_details: { audio_tokens: 375 } }), told);
  t.match(read({ ...voxtral, audio_tokens: 375 }), told);
  const seen = { prompt: 384, completion: 248, details: { imagePrompt: 375 }, rest: undefined };
  t.match(read({ ...voxtral, prompt_tokens_details: { image_tokens: 375 } }), seen);
  const drawn = { ...voxtral, completion_tokens_details: { image_tokens: 375 } };
  t.match(read(drawn), { prompt: 9, completion: 623, rest: undefined });
});

t.test('search units of a rerank are read beside its tokens and without them', async (t) => {
  const read = (usage: object) => readUsage(JSON.stringify(usage), inputUsage);
  const billed_units = { search_units: 3 };
  t.match(read({ tokens: { input_tokens: 44 }, billed_units }), {
    prompt: 44,
    details: { searchUnits: 3 },
  });
  t.match(read({ total_tokens: 44, billed_units }), { prompt: 44, details: { searchUnits: 3 } });
  t.match(read({ billed_units }), { prompt: null, details: { searchUnits: 3 } });
});

t.test('a usage may be nested without end, and have members without number', async (t) => {
  const deep = JSON.parse(`${'{"tokens_a":'.repeat(20_000)}1${'}'.repeat(20_000)}`);
  const all: Record<string, unknown> = { prompt_tokens: 9, x: deep, prompt_tokens_details: deep };
  for (let i = 0; i < 2; i++) addUsage(all, { x: deep, prompt_tokens_details: deep });
  t.equal(chatUsage(all).prompt, 9);
  const iterations = Array.from({ length: 100 }, (_, i) => ({
    input_tokens: 1,
    output_tokens: 1,
    [`of_${i}_tokens`]: 1,
  }));
  t.equal(messagesUsage({ iterations }).unread?.length, 8);
});

t.test('members with tokens that nobody reads are named, others not', async (t) => {
  const read = (usage: object) =>
    readUsage(JSON.stringify({ prompt_tokens: 1, completion_tokens: 2, ...usage }), chatUsage)
      ?.unread;
  t.same(read({ recached_tokens: 3, tool_tokens: 4, cache_used: 5 }), [
    'recached_tokens',
    'tool_tokens',
    'cache_used',
  ]);
  t.same(
    read({ prompt_tokens_details: { tool_tokens: 4 }, by: [{ tokenCount: 1 }, { tokenCount: 2 }] }),
    ['by.tokenCount', 'tool_tokens'],
  );
  t.same(
    read({
      tool_tokens: 0,
      cache_tokens_kind: 'x',
      total_time: 0.3,
      cache_read_cost: 0.1,
      tokens_per_second: 99,
      cost: 1,
      server_tool_use: { web_search_requests: 3 },
      prompt_cache_miss_tokens: 3,
      completion_tokens_details: { accepted_prediction_tokens: 3, image_tokens: 4, text_tokens: 5 },
    }),
    undefined,
  );
});

t.test(
  'the usage of a message: tokens written to the cache and read from it are prompt tokens',
  async (t) => {
    const read = (json: string) => countsOf(readUsage(json, messagesUsage));
    t.strictSame(read('{"input_tokens":9,"output_tokens":4}'), { prompt: 9, completion: 4 });
    t.strictSame(
      read(
        '{"input_tokens":9,"cache_creation_input_tokens":100,"cache_read_input_tokens":1000,"output_tokens":4}',
      ),
      { prompt: 1109, completion: 4 },
    );
    t.strictSame(read('{"input_tokens":9,"cache_read_input_tokens":null,"output_tokens":4}'), {
      prompt: 9,
      completion: 4,
    });
    t.strictSame(read('{"input_tokens":9,"cache_read_input_tokens":-1,"output_tokens":4}'), {
      prompt: null,
      completion: 4,
    });
    t.strictSame(read('{"output_tokens":4}'), { prompt: null, completion: 4 });
    t.strictSame(
      read('{"input_tokens":9}'),
      { prompt: 9, completion: null },
      'an answer is not free for want of a number',
    );
  },
);

t.test('the usage of a message that took several askings is that of all', async (t) => {
  const read = (usage: object) => countsOf(readUsage(JSON.stringify(usage), messagesUsage));
  const one = { input_tokens: 9, output_tokens: 4 };
  const cached = { ...one, cache_read_input_tokens: 100 };
  t.strictSame(read({ ...one, iterations: [cached, one] }), { prompt: 118, completion: 8 });
  t.strictSame(read({ ...one, iterations: [one] }), { prompt: 9, completion: 4 });
  t.strictSame(read({ iterations: [one, one] }), { prompt: 18, completion: 8 });
  t.strictSame(
    read({ ...cached, iterations: [one] }),
    { prompt: 109, completion: 4 },
    'never less than told beside',
  );
  for (const iterations of [
    null,
    {},
    [],
    [null],
    [{}],
    [one, { input_tokens: -1 }],
    [{ input_tokens: '9' }],
  ]) {
    t.strictSame(
      read({ ...one, iterations }),
      { prompt: 9, completion: 4 },
      JSON.stringify(iterations),
    );
  }
  t.strictSame(read({ ...one, iterations: [one, { input_tokens: 9 }] }), {
    prompt: 18,
    completion: 4,
  });

  t.test('tokens of the cache are those of all askings of a message', async (t) => {
    const one = { input_tokens: 9, output_tokens: 4 };
    const [read, written] = [{ cache_read_input_tokens: 100 }, { cache_creation_input_tokens: 7 }];
    const cache = (usage: object) => {
      const { cached, cacheWrite } = readUsage(JSON.stringify(usage), messagesUsage)?.details ?? {};
      return [cached, cacheWrite];
    };
    t.strictSame(
      cache({
        ...one,
        iterations: [
          { ...one, ...read },
          { ...one, ...read, ...written },
        ],
      }),
      [200, 7],
    );
    t.strictSame(cache({ ...one, ...read, ...written, iterations: [one, one] }), [100, 7]);
    t.strictSame(cache({ ...one, iterations: [one, one] }), [undefined, undefined]);
  });

  t.test(
    'tokens that a message wrote to the cache may be told by how long they are kept',
    async (t) => {
      const one = { input_tokens: 9, output_tokens: 4 };
      const kept = { ephemeral_5m_input_tokens: 100, ephemeral_1h_input_tokens: 20 };
      const { ephemeral_1h_input_tokens } = kept;
      const read = (usage: object) =>
        readUsage(JSON.stringify({ ...one, ...usage }), messagesUsage);
      t.match(read({ cache_creation: kept }), { prompt: 129, details: { cacheWrite: 120 } });
      t.match(read({ cache_creation: { ephemeral_1h_input_tokens } }), {
        prompt: 29,
        details: { cacheWrite: 20 },
      });
      t.match(read({ cache_creation_input_tokens: 120, cache_creation: kept }), {
        prompt: 129,
        details: { cacheWrite: 120 },
      });
      t.match(read({ cache_creation_input_tokens: 0, cache_creation: null }), {
        prompt: 9,
        details: { cacheWrite: 0 },
      });
      t.match(read({ cache_creation: null }), { prompt: 9, details: null });
      t.match(read({ cache_creation_input_tokens: 0, cache_creation: kept }), {
        prompt: 129,
        details: { cacheWrite: 120 },
      });
    },
  );
});

const told = (more: object) => ({ ...NO_DETAILS, ...more });

t.test('details of the tokens, and what the call cost the upstream', async (t) => {
  const details = (reader: UsageReader, usage: object) =>
    readUsage(JSON.stringify(usage), reader)?.details;
  const chat = { prompt_tokens: 100, completion_tokens: 50 };
  t.equal(details(chatUsage, chat), null);
  t.equal(
    details(chatUsage, {
      ...chat,
      prompt_tokens_details: null,
      completion_tokens_details: {},
      cost: null,
    }),
    null,
  );
  t.strictSame(
    details(chatUsage, {
      ...chat,
      prompt_tokens_details: { cached_tokens: 64, cache_write_tokens: 30, audio_tokens: 0 },
      completion_tokens_details: {
        reasoning_tokens: 40.0,
        audio_tokens: 5,
        rejected_prediction_tokens: 3,
      },
      cost: 0.000123,
    }),
    {
      ...NO_DETAILS,
      cached: 64,
      cacheWrite: 30,
      audioPrompt: 0,
      reasoning: 40,
      audioCompletion: 5,
      cost: '0.000123',
    },
  );
  const response = {
    input_tokens: 9,
    output_tokens: 4,
    input_tokens_details: { cached_tokens: 8 },
  };
  t.strictSame(
    details(responsesUsage, { ...response, output_tokens_details: { reasoning_tokens: 4 } }),
    {
      ...told({ cached: 8, reasoning: 4 }),
    },
  );
  const message = { input_tokens: 9, output_tokens: 4 };
  t.equal(details(messagesUsage, message), null);
  t.strictSame(
    details(messagesUsage, {
      ...message,
      cache_read_input_tokens: 1000,
      cache_creation_input_tokens: 100,
    }),
    told({ cached: 1000, cacheWrite: 100 }),
  );
  t.strictSame(
    details(messagesUsage, { ...message, cache_read_input_tokens: 0 }),
    told({ cached: 0 }),
  );
  t.strictSame(details(messagesUsage, { ...message, cost: 2 }), told({ cost: '2' }));
  t.equal(details(messagesUsage, { ...message, output_tokens_details: null }), null);
  t.strictSame(
    details(messagesUsage, { ...message, output_tokens_details: { thinking_tokens: 3 } }),
    told({ reasoning: 3 }),
  );
});

t.test('a detail that cannot be right is left out, and nothing else is', async (t) => {
  const bad = [-1, 1.5, Number.NaN, 1e30, '7', true, [], {}, null];
  for (const value of [...bad, 101]) {
    const usage = {
      prompt_tokens: 100,
      completion_tokens: 100,
      prompt_tokens_details: { cached_tokens: value, cache_write_tokens: value, audio_tokens: 1 },
      completion_tokens_details: { reasoning_tokens: value, audio_tokens: value },
    };
    const read = readUsage(JSON.stringify(usage), chatUsage);
    // what is beyond its whole is cut where it is charged
    const beyond =
      value === 101 ? { cached: 101, cacheWrite: 101, reasoning: 101, audioCompletion: 101 } : {};
    const details = told({ audioPrompt: 1, ...beyond });
    t.strictSame(read, { prompt: 100, completion: 100, details }, JSON.stringify(value));
  }
  for (const parts of ['x', 7, [], true]) {
    const usage = { prompt_tokens: 1, completion_tokens: 2, prompt_tokens_details: parts };
    const unread = parts === 7 ? { unread: ['prompt_tokens_details'] } : {};
    t.strictSame(readUsage(JSON.stringify(usage), chatUsage), {
      prompt: 1,
      completion: 2,
      details: null,
      ...unread,
    });
  }
  const unknown = {
    prompt_tokens: -1,
    completion_tokens: 2,
    prompt_tokens_details: { cached_tokens: 0 },
  };
  t.equal(
    readUsage(JSON.stringify(unknown), chatUsage)?.details,
    null,
    'a part of what is not known',
  );
  for (const cost of [
    '-0.1',
    '1e30',
    '"0.5"',
    '1e-30',
    '1000000',
    'true',
    '{"total_cost":1}',
    '[]',
    '1e999',
  ]) {
    const read = readUsage(`{"prompt_tokens":1,"completion_tokens":2,"cost":${cost}}`, chatUsage);
    t.strictSame(read, { prompt: 1, completion: 2, details: null }, cost);
  }
  const cost = (text: string) =>
    readUsage(`{"prompt_tokens":1,"cost":${text}}`, chatUsage)?.details?.cost;
  t.strictSame(['0', '-0', '3.4500000000000005e-05', '999999.9'].map(cost), [
    '0',
    '0',
    '0.000034500000000000005',
    '999999.9',
  ]);
});

t.test('the cost in a header counts where the usage has none', async (t) => {
  t.equal(withCost(null, undefined), null);
  t.strictSame(withCost(null, '0.00025'), told({ cost: '0.00025' }));
  t.strictSame(withCost(null, '3.45e-05'), told({ cost: '0.0000345' }));
  t.strictSame(withCost(told({ cached: 1 }), '0.0'), told({ cached: 1, cost: '0' }));
  t.strictSame(withCost(told({ cost: '7' }), '0.5'), told({ cost: '7' }));
  for (const bad of [
    'None',
    '',
    '-1',
    'NaN',
    'Infinity',
    '1e30',
    '0x10',
    '1 ',
    '1e-99',
    '9'.repeat(400),
  ]) {
    t.equal(withCost(null, bad), null, bad);
  }
});

t.test('until the completion is whole, what is told of it does not count', async (t) => {
  const details = {
    ...NO_DETAILS,
    cached: 1,
    reasoning: 2,
    audioCompletion: 3,
    cost: '4',
  };
  t.strictSame(promptUsage({ prompt: 5, completion: 6, details }), {
    prompt: 5,
    completion: null,
    details: told({ cached: 1 }),
  });
  t.strictSame(promptUsage({ prompt: 5, completion: 6, details: { ...details, cached: null } }), {
    prompt: 5,
    completion: null,
    details: null,
  });
  t.equal(promptUsage({ prompt: null, completion: 6, details }), null);
});
