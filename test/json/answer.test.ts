import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import {
  CHAT_ANSWER,
  COMPLETIONS_ANSWER,
  MESSAGES_ANSWER,
  RESPONSES_ANSWER,
} from '../../src/domain/request/answer-members.ts';
import {
  type AnswerScan,
  scanAnswer,
  scanBeginning,
  scanEnd,
  type ToldOfCall,
} from '../../src/json/answer.ts';
import { splice } from '../../src/json/splice.ts';
import { fuzz } from '../sse/fuzz.ts';

const SLUG = 'acme/large';
const SLUG_JSON = Buffer.from(JSON.stringify(SLUG));

/** What the client gets, or null. */
function rendered(json: string, table = CHAT_ANSWER): string | null {
  const body = Buffer.from(json);
  const scan = scanAnswer(body, SLUG_JSON, table);
  return scan === null ? null : splice(body, scan.edits).toString();
}

function scanned(json: string): AnswerScan {
  return scanAnswer(Buffer.from(json), SLUG_JSON, CHAT_ANSWER) as AnswerScan;
}

t.test('spec 2.2: the upstream model name becomes the slug, other bytes stay', (t) => {
  t.equal(
    rendered(
      '{\n  "id": "chatcmpl-1",\r\n  "model": "internal-7b",\n  "n": 1.50, "model":null\n}\n',
    ),
    `{\n  "id": "chatcmpl-1",\r\n  "model": "${SLUG}",\n  "n": 1.50, "model":"${SLUG}"\n}\n`,
  );
  t.equal(rendered(' {"id":"x"}'), ` {"model":"${SLUG}","id":"x"}`);
  t.equal(rendered('{ }'), `{"model":"${SLUG}" }`);
  t.equal(
    rendered('{"a":{"model":"x"},"\\u006dodel":"x"}'),
    `{"a":{"model":"x"},"\\u006dodel":"${SLUG}"}`,
  );
  t.end();
});

t.test('members that name what stands behind are taken out', (t) => {
  t.equal(
    rendered(
      '{"provider":"x","model":"m","_hidden_params":{"a":[1]},"id":1,"provider_specific_fields":null}',
    ),
    `{"model":"${SLUG}","id":1}`,
  );
  t.equal(
    rendered('{"model":"m","x_groq":{"id":"req_1","usage":{"prompt_tokens":1}},"id":1}'),
    `{"model":"${SLUG}","id":1}`,
  );
  t.end();
});

t.test('they are taken out however deep they are', (t) => {
  const leak = '"provider":{"a":"}"},"b":1,\n"_hidden_params" : [1] ,"co\\u0073t":-1e3';
  for (const levels of [1, 15, 16, 30, 31, 32, 62, 63, 200, 1000]) {
    const deep = (inner: string) =>
      `{"model":"m","x":${'[{"y":'.repeat(levels)}{${inner}}${'}]'.repeat(levels)}}`;
    t.equal(
      rendered(deep(leak)),
      deep('"b":1 ').replace('"m"', `"${SLUG}"`),
      `${levels * 2} levels`,
    );
  }
  const tooDeep = `{"x":${'['.repeat(3000)}${']'.repeat(3000)}}`;
  t.equal(rendered(tooDeep), null, 'what is too deep to be looked at is no answer');
  for (const broken of [
    '"cost"',
    '"cost":',
    '"cost":tru',
    '"cost":1,',
    '"cost":{"a":1',
    '"a":1,"cost":"x',
    '"cost":[}',
  ])
    t.equal(rendered(`{"x":{${broken}}}`), null, broken);
  t.end();
});

t.test('what is generated, and what a response repeats of its request, has any members', (t) => {
  const own = '{"cost":1,"host":"h","headers":{"x-y":1},"a":[{"provider":"p","model":"m"}]}';
  const kept = (json: string, table: typeof CHAT_ANSWER) =>
    t.equal(rendered(json, table), json, json);
  kept(
    `{"model":"${SLUG}","choices":[{"message":{"tool_calls":[{"function":{"arguments":${own}}}],"parsed":${own}}}]}`,
    CHAT_ANSWER,
  );
  kept(`{"model":"${SLUG}","content":[{"type":"tool_use","input":${own}}]}`, MESSAGES_ANSWER);
  for (const name of ['metadata', 'tools', 'text', 'tool_choice', 'instructions']) {
    kept(`{"model":"${SLUG}","${name}":[${own}],"output":[]}`, RESPONSES_ANSWER);
  }
  for (const name of ['arguments', 'input', 'action', 'operation', 'tools']) {
    kept(`{"model":"${SLUG}","output":[{"${name}":${own}}]}`, RESPONSES_ANSWER);
    t.equal(
      rendered(`{"model":"m","output":[{"${name}":${own},"cost":1}]}`, RESPONSES_ANSWER),
      `{"model":"${SLUG}","output":[{"${name}":${own}}]}`,
    );
  }
  t.equal(
    rendered(`{"model":"m","reasoning":${own}}`, RESPONSES_ANSWER),
    `{"model":"${SLUG}","reasoning":{"a":[{"model":"m"}]}}`,
  );
  t.end();
});

t.test('a usage names no model, whichever it is', (t) => {
  const usage = (name: string, more = '') =>
    `{"model":${name},"a":[{"model":${name},"b":{"model": ${name}}}],"prompt_tokens":1${more}}`;
  for (const more of ['', ',"cost":1']) {
    t.equal(
      rendered(`{"model":"m","usage":${usage('"vendor-large"', more)},"b":{"model":"mine"}}`),
      `{"model":"${SLUG}","usage":${usage(`"${SLUG}"`)},"b":{"model":"mine"}}`,
    );
  }
  t.end();
});

t.test(
  'what the operator pays is removed in any spelling, from a usage and elsewhere',
  async (t) => {
    const words = [
      'cost',
      'Cost',
      'COST',
      'costs',
      'totalCost',
      'TotalCost',
      'total_cost',
      'TOTAL_COST',
      'cost_details',
    ];
    words.push(
      'price',
      'Price',
      'total_price',
      'totalPrice',
      'TOTAL_PRICE',
      'unitPrice',
      'prompt_price',
      'price_unit',
    );
    words.push(
      'prices',
      'pricing',
      'Pricing',
      'PRICE',
      'total_usd',
      'total_cost_usd',
      'totalUsd',
      'amount_eur',
      'USD_COST',
    );
    for (const name of words) {
      t.equal(
        rendered(
          `{"model":"m","usage":{"prompt_tokens":1,"${name}":1,"a":{"${name}":"1"}},"b":[{"${name}":{}}],"${name}":1}`,
        ),
        `{"model":"${SLUG}","usage":{"prompt_tokens":1,"a":{}},"b":[{}]}`,
        name,
      );
    }
    const within = [
      'prompt_price_per_token',
      'input_cost_per_token',
      'modelCostBreakdown',
      'TOTAL_PRICE_MICROS',
    ];
    for (const name of [...within, 'token_price_\\u0075nits', 'in_\\u0063ost_cents']) {
      t.equal(
        rendered(
          `{"model":"m","usage":{"prompt_tokens":1,"${name}":1,"a":[{"${name}":"1","b":2}]},"c":{"capricious":1}}`,
        ),
        `{"model":"${SLUG}","usage":{"prompt_tokens":1,"a":[{"b":2}]},"c":{"capricious":1}}`,
        name,
      );
    }
    const counts =
      '"usage":{"prompt_tokens":1,"prompt_tokens_details":{"cached_tokens":1},"cos":1,"pri":2,"ost_ric":3}';
    t.equal(rendered(`{"model":"m",${counts}}`), `{"model":"${SLUG}",${counts}}`);
    const kept = `{"model":"${SLUG}","choices":[{"message":{"content":"","arguments":{"price":1}}}]}`;
    t.equal(rendered(kept), kept, "the input of a tool is the model's");
  },
);

t.test('usage of an answer', (t) => {
  t.strictSame(
    scanned('{"usage":{"prompt_tokens":8,"completion_tokens":3,"total_tokens":11}}').usage,
    {
      prompt: 8,
      completion: 3,
      details: null,
    },
  );
  t.strictSame(scanned('{"usage":{"prompt_tokens":8,"total_tokens":8}}').usage, {
    prompt: 8,
    completion: 0,
    details: null,
  });
  t.strictSame(scanned('{"x_groq":{"usage":{"prompt_tokens":1,"completion_tokens":2}}}').usage, {
    prompt: 1,
    completion: 2,
    details: null,
  });
  const within = { prompt_tokens: 1, completion_tokens: 2 };
  for (const outside of [
    undefined,
    null,
    {},
    { prompt_tokens: 0, completion_tokens: 0 },
    { total_tokens: 0 },
  ]) {
    for (const place of [{ choices: [{ usage: within }] }, { x_groq: { usage: within } }]) {
      for (const body of [
        { usage: outside, ...place },
        { ...place, usage: outside },
      ]) {
        t.match(
          scanned(JSON.stringify(body)).usage,
          { prompt: 1, completion: 2 },
          JSON.stringify(body),
        );
      }
    }
  }
  t.match(
    scanned(
      '{"choices":[{"usage":{"prompt_tokens":1,"completion_tokens":2}}],"usage":{"completion_tokens":7}}',
    ).usage,
    { prompt: 1, completion: 7 },
    'that outside counts',
  );
  for (const none of [
    '{}',
    '{"usage":null}',
    '{"usage":{}}',
    '{"x_groq":{"id":1}}',
    '{"choices":[{"usage":{}}]}',
  ]) {
    t.equal(scanned(none).usage, null, none);
  }
  t.end();
});

t.test('an error and generated text are noticed', (t) => {
  t.equal(scanned('{"error":{"message":"x"}}').error, true);
  t.equal(scanned('{"error":null,"a":{"error":1}}').error, false);
  for (const none of ['null', 'false', '0', '-0.00', '""', '[]', '{}', '[ ]', '{\n}']) {
    t.equal(scanned(`{"error":${none},"choices":[{"error":${none}}]}`).error, false, none);
  }
  for (const some of ['true', '1', '0.1', '" "', '"0"', '[0]', '{"a":null}']) {
    t.equal(scanned(`{"error":${some}}`).error, true, some);
    t.equal(scanned(`{"choices":[{"error":${some}}]}`).error, true, some);
  }
  t.equal(scanned('{"choices":[{"index":0},{"error" :\n {"message":"x"},"index":1}]}').error, true);
  t.equal(scanned('{"choices":[{"error":"x"}]}').error, true);
  t.equal(
    scanned('{"choices":[{"error": null,"message":{"error":1,"content":"\\"error\\":1"}}]}').error,
    false,
  );
  const answer = scanned(
    '{"choices": [\n {"index":0,"message":{"role":"assistant","content":"Hi \\"you\\""},"finish_reason": "stop"}]}',
  );
  t.equal(answer.generatedBytes, 10);
  t.end();
});

t.test('what is not one whole object is no answer', (t) => {
  const none = [
    '',
    ' ',
    '[]',
    'null',
    '"x"',
    '<html>',
    '{',
    '{"a":1',
    '{"a":[1}',
    '{"a":"b',
    '{"a":1}x',
    '{}{}',
    '\ufeff{}',
  ];
  for (const text of none) t.equal(rendered(text), null, text);
  t.end();
});

t.test('a truncated answer is never taken for a whole one', (t) => {
  const answer = Buffer.from(
    '{"id":"x","model":"m","choices":[{"message":{"content":"a{\\"b\\"}"}}],"usage":{"a":1}}',
  );
  for (let end = 0; end < answer.length; end++) {
    if (scanAnswer(answer.subarray(0, end), SLUG_JSON, CHAT_ANSWER) !== null)
      t.fail(`taken at ${end}`);
  }
  t.ok(scanAnswer(answer, SLUG_JSON, CHAT_ANSWER));
  t.end();
});

t.test('an answer is whole where JSON.parse says so, and nowhere else', (t) => {
  const broken = [
    'tru',
    'nul',
    'True',
    '01',
    '-',
    '1.',
    '.5',
    '1e',
    '+1',
    'NaN',
    '1 2',
    '"\\x"',
    '"\\u12g4"',
    '"\t"',
    '{"a"}',
    '{"a":}',
  ];
  const whole = ['true', '0', '-0.5e+10', '1E5', '"\\u12aF\\n"', '[ 1 , 2 ]', '{ "a" : [ ] }'];
  for (const value of [...broken, ...whole]) {
    for (const json of [
      `{"x":${value}}`,
      `{"choices":[${value}]}`,
      `{"choices":[{"x":${value},"y":[]}],"id":"1"}`,
    ]) {
      t.equal(rendered(json) !== null, whole.includes(value), json);
    }
  }
  for (const json of [
    '{"a":[1,]}',
    '{"a":[,1]}',
    '{"a":{"b":1,}}',
    '{"a":{1:2}}',
    '{"a":[1:2]}',
    '{"a":[]]}',
    '{"a":{"b":1"c":2}}',
  ]) {
    t.equal(rendered(json), null, json);
  }
  const deep = (inner: string) => `{"a":${'['.repeat(50)}${inner}${']'.repeat(50)}}`;
  t.not(rendered(deep('"]",1')), null, 'deep');
  t.equal(rendered(deep('tru')), null, 'deep and broken');

  const seeds = fc.oneof(
    fc.json({ maxDepth: 5 }).map((text) => `{"choices":[${text}],"usage":${text}}`),
    fc
      .array(
        fc.constantFrom(...'{}[]:,"01-.eE+ \\u\n\t', 'true', 'null', 'false', '"a"', '"a":', '1'),
      )
      .map((parts) => `{"choices":[${parts.join('')}]}`),
  );
  const damage = fc.array(
    fc.tuple(fc.nat(), fc.oneof(fc.nat(127), fc.constantFrom(...Buffer.from('{}[]:,"0\\')))),
    {
      maxLength: 2,
    },
  );
  fuzz(
    t,
    fc.property(seeds, damage, (text, damage) => {
      const body = Buffer.from(text);
      for (const [place, byte] of damage) body[place % body.length] = byte;
      let value: unknown = null;
      try {
        value = JSON.parse(body.toString());
      } catch {}
      const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
      assert.equal(
        scanAnswer(body, SLUG_JSON, CHAT_ANSWER) !== null,
        isObject,
        body.toString('latin1'),
      );
    }),
  );
  t.end();
});

/** Dialects with the usage of an answer, and where they tell the service tier. */
const TELLING = [
  [CHAT_ANSWER, { prompt_tokens: 7, completion_tokens: 5 }, false],
  [COMPLETIONS_ANSWER, { prompt_tokens: 7, completion_tokens: 5 }, false],
  [RESPONSES_ANSWER, { input_tokens: 7, output_tokens: 5 }, false],
  [MESSAGES_ANSWER, { input_tokens: 7, output_tokens: 5 }, true],
] as const;

t.test('what an answer tells is found in its beginning and in its end, wherever it is cut', (t) => {
  /** Members within others, and text: of the caller, or of the model. */
  const decoy = {
    service_tier: 'decoy',
    usage: { prompt_tokens: 1, input_tokens: 1, service_tier: 'decoy' },
  };
  const texts = fc.oneof(
    fc.constant(JSON.stringify(decoy)),
    fc.constantFrom('\\', '"', '\\"', '},"service_tier":"decoy"}', '{"usage":{', 'ü', '[', ''),
    fc.string(),
  );
  const values = fc.oneof(
    texts,
    fc.constant(decoy),
    fc.array(fc.oneof(texts, fc.constant(decoy), fc.constant(null), fc.integer())),
    fc.dictionary(texts, texts),
  );
  const others = fc.dictionary(fc.constantFrom('metadata', 'tools', 'text', 'a', 'b', 'c'), values);
  fuzz(
    t,
    fc.property(
      fc.nat(TELLING.length - 1),
      others,
      others,
      fc.boolean(),
      fc.boolean(),
      fc.array(fc.nat(), { minLength: 40, maxLength: 40 }),
      (n, before, behind, isSpaced, isTierFirst, cuts) => {
        const [table, counts, isWithin] = TELLING[n] as (typeof TELLING)[number];
        const tier: [string, unknown][] = isWithin ? [] : [['service_tier', 'flex']];
        const usage = isWithin ? { ...counts, service_tier: 'flex' } : counts;
        const told: [string, unknown][] = [...tier, ['usage', usage]];
        if (!isTierFirst) told.reverse();
        const members = [
          ...Object.entries(before),
          ...told,
          ...Object.entries(behind).map(([name, value]) => [`${name}_2`, value] as const),
        ];
        const [space, line] = isSpaced ? [' ', '\r\n'] : ['', ''];
        let text = `${line}{`;
        const spans = new Map<string, readonly [from: number, to: number]>();
        for (const [at, [name, value]] of members.entries()) {
          const from = Buffer.byteLength(text) - (at === 0 ? 1 : 0);
          text += `${at === 0 ? '' : `,${line}`}${JSON.stringify(name)}${space}:${space}${JSON.stringify(value, null, isSpaced ? 1 : 0)}`;
          spans.set(name, [from, Buffer.byteLength(text)]);
        }
        const body = Buffer.from(`${text}${space}}${line}`);
        const [from, to] = spans.get('usage') as readonly [number, number];
        const [tierFrom, tierTo] = spans.get('service_tier') ?? [from, to];
        for (const place of [...cuts, from, from + 1, to, to - 1, tierFrom, tierTo]) {
          const cut = place % (body.length + 1);
          const begun = scanBeginning(body.subarray(0, cut), table);
          const ended = scanEnd(body.subarray(cut), table);
          const found = ({ usage, tier }: ToldOfCall) => [usage?.prompt, usage?.completion, tier];
          const expected = (hasUsage: boolean, hasTier: boolean) => [
            ...(hasUsage ? [7, 5] : [undefined, undefined]),
            hasTier ? 'flex' : undefined,
          ];
          const shown = `${cut} of ${body}`;
          assert.deepEqual(found(ended), expected(cut <= from, cut <= tierFrom), shown);
          if (isWithin && cut < to && begun.tier === 'flex') continue; // the usage is cut behind it
          assert.deepEqual(found(begun), expected(cut >= to, cut >= tierTo), shown);
        }
      },
    ),
  );
  t.end();
});

t.test('the end of an answer is read once, whatever it holds', async (t) => {
  const told = ',"usage":{"prompt_tokens":7,"completion_tokens":5}}';
  for (const text of [
    '"usage":{"',
    '"usage":{}}',
    '{',
    '[',
    '}',
    '\\',
    '\\"',
    '",',
    ',',
    '{"a":',
  ]) {
    const part = text.repeat(1_000_000 / text.length);
    for (const end of ['}', told, `"${'}'.repeat(100_000)}${told}`, ''])
      t.equal(scanEnd(Buffer.from(part + end), CHAT_ANSWER).tier, undefined);
  }
});
