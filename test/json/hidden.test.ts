import assert from 'node:assert/strict';
import fc from 'fast-check';
import t from 'tap';
import { parsePrices } from '../../src/domain/pricing/prices.ts';
import {
  CHAT_ANSWER,
  hiddenBehind,
  MESSAGES_ANSWER,
} from '../../src/domain/request/answer-members.ts';
import { openMessage } from '../../src/gateway/endpoints/messages.ts';
import { scanAnswer } from '../../src/json/answer.ts';
import { splice } from '../../src/json/splice.ts';
import { ChatStream } from '../../src/sse/chat-stream.ts';
import { fuzz } from '../sse/fuzz.ts';

const model = (slug: string, upstream: string) =>
  ({
    slug,
    upstream,
    kind: 'chat',
    euHosted: true,
    acceptsTokens: false,
    prices: parsePrices('0', '0'),
    created: 0,
    next: null,
  }) as const;

const SECRETS = ['sk-master-1234', 'router.internal:4000', 'router.internal'];

/** What the client gets of a whole answer, without its inserted model. */
function whole(
  json: string,
  slug: string,
  upstream: string,
  secrets = SECRETS,
  table = CHAT_ANSWER,
): string {
  const body = Buffer.from(json);
  const hidden = hiddenBehind(model(slug, upstream), secrets);
  const scan = scanAnswer(body, Buffer.from(JSON.stringify(slug)), table, hidden);
  if (scan === null) throw new Error(`no answer: ${json}`);
  return splice(body, scan.edits).toString();
}

/** The same of a stream of this event, once and many times, so that it is read and compared. */
function streamed(
  json: string,
  slug: string,
  upstream: string,
  secrets = SECRETS,
): readonly string[] {
  let out = '';
  const sink = {
    bytes(b: Buffer, start: number, end: number) {
      out += b.toString('utf8', start, end);
    },
  };
  const hidden = hiddenBehind(model(slug, upstream), secrets);
  const stream = new ChatStream(
    { slug: Buffer.from(JSON.stringify(slug)), sink, maxEventBytes: 100_000, hidden },
    CHAT_ANSWER,
    true,
  );
  const event = (text: string) => Buffer.from(`data: ${json.replace('TEXT', text)}\n\n`);
  for (let i = 0; i < 8; i++) stream.push(event(`n${i}`));
  const bytes = Buffer.concat([event('cut'), event('cut')]);
  for (let i = 0; i < bytes.length; i++) stream.push(bytes.subarray(i, i + 1));
  return out.split('\n\n').slice(0, -1);
}

/** Upstream, slug, what it sends behind `"model":"x",`, and what leaves. */
const CASES: readonly (readonly [string, string, string, string])[] = [
  [
    'azure/fast-7b',
    'acme',
    '"choices":[{"model":"azure/fast-7b"}]',
    '"choices":[{"model":"acme"}]',
  ],
  ['azure/fast-7b', 'acme', '"choices":[{"model":"fast-7b"}]', '"choices":[{"model":"acme"}]'],
  ['azure/fast-7b', 'acme', '"a":"azure\\/fast-7b"', '"a":"acme"'],
  ['🦙-fast7b', 'acme', '"a":"🦙-fast7b","b":"by 🦙-FAST7B."', '"a":"acme","b":"by acme."'],
  [
    '🦙-fast7b',
    'acme',
    '"a":"\\ud83e\\udd99-fast7b","b":"by \\uD83E\\uDD99-fast7b."',
    '"a":"acme","b":"by acme."',
  ],
  [
    'hub/vendor/fast-7b',
    'acme',
    '"a":"vendor/fast-7b","b":"by vendor/fast-7b"',
    '"a":"acme","b":"by acme"',
  ],
  ['hub/vendor/fast-7b', 'acme', '"a":"hub/vendor/fast-7b","b":"fast-7b"', '"a":"acme","b":"acme"'],
  ['azure/fast-7b', 'acme', '"a":"\\u0061zure\\u002Ffast\\u002d7b!"', '"a":"acme!"'],
  ['azure/schön-7b', 'acme', '"a":"azure/sch\\u00f6n-7b","b":"schön-7b"', '"a":"acme","b":"acme"'],
  [
    'azure/fast-7b',
    'acme',
    '"a":{"azure/fast-7b":[1,"run fast-7b now"]}',
    '"a":{"acme":[1,"run acme now"]}',
  ],
  ['azure/fast-7b', 'acme', '"fast-7b":{"x":"\\nfast-7b\\n"}', '"acme":{"x":"\\nacme\\n"}'],
  ['azure/fast-7b', 'acme', '"id":"fast-7b-2024-08-06/17"', '"id":"acme-2024-08-06/17"'],
  ['azure/fast-7b', 'acme', '"id":"breakfast-7bx"', '"id":"breakfast-7bx"'],
  ['azure/fast-7b', 'acme', '"a":"http://router.internal:4000/v1"', '"a":"http:///v1"'],
  ['azure/fast-7b', 'acme', '"a":["router.internal","sk-master-1234"]', '"a":["",""]'],
  // an escape before or behind is what it stands for: .NET writes ' as \u0027, Go writes < as \u003c
  ['azure/fast-7b', 'acme', '"a":"key \\u0027sk-master-1234\\u0027"', '"a":"key \\u0027\\u0027"'],
  ['azure/fast-7b', 'acme', '"a":"to \\u003cfast-7b\\u003e"', '"a":"to \\u003cacme\\u003e"'],
  ['azure/fast-7b', 'acme', '"a":"say \\"fast-7b\\" \\tfast-7b"', '"a":"say \\"acme\\" \\tacme"'],
  [
    'azure/fast-7b',
    'acme',
    '"a":"\\u0061fast-7b fast-7b\\u0061"',
    '"a":"\\u0061fast-7b fast-7b\\u0061"',
  ],
  // a name does not begin within an escape
  ['azure/fast-7b', 'acme', '"a":"C:\\\\fast-7b"', '"a":"C:\\\\acme"'],
  ['azure/fast-7b', 'acme', '"a":"\\\\\\\\router.internal\\\\share"', '"a":"\\\\\\\\\\\\share"'],
  ['nano-5x', 'acme', '"a":"x\\nano-5x y"', '"a":"x\\nano-5x y"'],
  ['nano-5x', 'acme', '"a":"x\\\\nano-5x \\\\\\nano-5x"', '"a":"x\\\\acme \\\\\\nano-5x"'],
  ['003c-7b', 'acme', '"a":"\\u003c-7b"', '"a":"\\u003c-7b"'],
  // letters of other scripts, and quotation marks, do not continue a name
  ['azure/fast-7b', 'acme', '"a":"“fast-7b” 模型fast-7b不可用"', '"a":"“acme” 模型acme不可用"'],
  ['azure/fast-7b', 'acme', '"a":"éfast-7b fast-7b\\u00e9"', '"a":"éfast-7b fast-7b\\u00e9"'],
  // case
  [
    'azure/fast-7b',
    'acme',
    '"a":"Azure/Fast-7B","b":"on ROUTER.internal:4000"',
    '"a":"acme","b":"on "',
  ],
  [
    'Azure/Schön-7B',
    'acme',
    '"a":"azure/schÖn-7b","b":"SCH\\u00d6N-7b!"',
    '"a":"acme","b":"acme!"',
  ],
  ['openai/gpt-4o', 'GPT-4o', '"a":"gpt-4o","b":"see gpt-4o"', '"a":"GPT-4o","b":"see gpt-4o"'],
  // ordinary words are in no key: the format's own may be such words
  [
    'embedding',
    'acme',
    '"data":[{"object":"embedding","embedding":[1,2]}]',
    '"data":[{"object":"embedding","embedding":[1,2]}]',
  ],
  ['openai/embedding', 'acme', '"data":[{"embedding":[1,2]}]', '"data":[{"embedding":[1,2]}]'],
  ['openai/embedding', 'acme', '"embedding":"an embedding"', '"embedding":"an embedding"'],
  [
    'azure/fast-7b',
    'acme',
    '"choices":[{"message":{"content":"I am azure/fast-7b","tool_calls":[{"function":{"name":"fast-7b","arguments":"{\\"a\\":\\"fast-7b\\"}"}}]}}]',
    '"choices":[{"message":{"content":"I am azure/fast-7b","tool_calls":[{"function":{"name":"fast-7b","arguments":"{\\"a\\":\\"fast-7b\\"}"}}]}}]',
  ],
  [
    'x',
    'acme',
    '"choices":[{"logprobs":{"content":[{"token":"x"}]}}]',
    '"choices":[{"logprobs":{"content":[{"token":"x"}]}}]',
  ],
  ['azure/fast-7b', 'acme', '"at":{"name":"azure/fast-7b"}', '"at":{"name":"acme"}'],
  // ordinary words: whole values, and on their own within others
  [
    'gpt',
    'acme',
    '"a":"gpt","b":"a gpt is","c":"gpt-4-turbo"',
    '"a":"acme","b":"a acme is","c":"gpt-4-turbo"',
  ],
  ['stop', 'acme', '"choices":[{"finish_reason":"stop"}]', '"choices":[{"finish_reason":"stop"}]'],
  ['default', 'acme', '"service_tier":"default"', '"service_tier":"default"'],
  // ordinary words tell nothing: they count in a member for a model alone, and the whole name everywhere
  [
    'openrouter/auto',
    'acme',
    '"tool_choice":"auto","truncation":"auto","metadata":{"mode":"auto","by":"use auto mode"},"a":["auto"],"auto":1',
    '"tool_choice":"auto","truncation":"auto","metadata":{"mode":"auto","by":"use auto mode"},"a":["auto"],"auto":1',
  ],
  [
    'openrouter/auto',
    'acme',
    '"a":{"model":"auto","served_model":"AUTO"},"b":"by openrouter/auto","c":"Openrouter\\/auto"',
    '"a":{"model":"acme","served_model":"acme"},"b":"by acme","c":"acme"',
  ],
  [
    'hub/x/medium',
    'acme',
    '"effort":"medium","a":"x/medium","b":"medium"',
    '"effort":"medium","a":"acme","b":"medium"',
  ],
  ['router/none', 'acme', '"effort":"none","model":"none"', '"effort":"none","model":"acme"'],
  ['auto', 'acme', '"a":"auto","b":{"model":"auto"}', '"a":"auto","b":{"model":"acme"}'],
  ['x/sonnet', 'acme', '"a":"sonnet","b":"on sonnet"', '"a":"acme","b":"on acme"'],
  // secrets go from words of the format and from names too
  [
    'azure/fast-7b',
    'acme',
    '"a":{"name":"sk-master-1234","type":"router.internal:4000","role":"x sk-master-1234","object":"router.internal"}',
    '"a":{"name":"","type":"","role":"x ","object":""}',
  ],
  [
    'azure/fast-7b',
    'acme',
    '"choices":[{"message":{"content":"sk-master-1234","tool_calls":[{"type":"sk-master-1234","function":{"name":"sk-master-1234"}}]}}]',
    '"choices":[{"message":{"content":"sk-master-1234","tool_calls":[{"type":"","function":{"name":""}}]}}]',
  ],
  // the slug is public
  ['openai/gpt-4o', 'gpt-4o', '"a":"gpt-4o","b":"openai/gpt-4o"', '"a":"gpt-4o","b":"gpt-4o"'],
  [
    'gpt-4o',
    'acme/gpt-4o',
    '"a":"gpt-4o","b":"see acme/gpt-4o"',
    '"a":"acme/gpt-4o","b":"see acme/gpt-4o"',
  ],
  // members by name
  ['m', 's', '"openrouter_metadata":{"a":1},"debug":"m","id":1,"provider_metadata":[]', '"id":1'],
  [
    'm',
    's',
    '"usage":{"prompt_tokens":1,"cost":0.5,"cost_details":{"a":1}}',
    '"usage":{"prompt_tokens":1}',
  ],
  [
    'm',
    's',
    '"usage":{"cost":0.5,"is_byok":true,"prompt_tokens":1}',
    '"usage":{"prompt_tokens":1}',
  ],
  ['m', 's', '"usage":{"estimated_cost":0.5}', '"usage":{}'],
  ['azure/fast-7b', 's', '"usage":{"a":{"b":"fast-7b"},"cost":1}', '"usage":{"a":{"b":"s"}}'],
  // a leaking member's own value needs no edits of its own
  ['azure/fast-7b', 's', '"provider":{"a":"fast-7b"},"b":"fast-7b"', '"b":"s"'],
  [
    'azure/fast-7b',
    's',
    `"a":${'['.repeat(40)}"fast-7b"${']'.repeat(40)}`,
    `"a":${'['.repeat(40)}"s"${']'.repeat(40)}`,
  ],
];

t.test('no string outside generated text names what stands behind', async (t) => {
  for (const [upstream, slug, sent, left] of CASES) {
    t.equal(whole(`{"model":"x",${sent}}`, slug, upstream), `{"model":"${slug}",${left}}`, sent);
    t.equal(
      whole(`{${sent},"model":"x"}`, slug, upstream),
      `{${left},"model":"${slug}"}`,
      `${sent}, before the model`,
    );
    const text = '"choices":[{"delta":{"content":"TEXT"}}]';
    for (const event of streamed(`{"model":"x",${sent},${text}}`, slug, upstream)) {
      t.match(event, `data: {"model":"${slug}",${left},"choices":[{"delta":`, `${sent}, streamed`);
    }
  }
});

t.test('a string that differs from event to event is looked at each time', async (t) => {
  let out = '';
  const sink = {
    bytes(b: Buffer, start: number, end: number) {
      out += b.toString('utf8', start, end);
    },
  };
  const hidden = hiddenBehind(model('acme', 'azure/fast-7b'), SECRETS);
  const stream = new ChatStream(
    { slug: Buffer.from('"acme"'), sink, maxEventBytes: 100_000, hidden },
    CHAT_ANSWER,
    true,
  );
  for (let i = 0; i < 40; i++) {
    const by = i % 7 === 6 ? 'azure/fast-7b' : `${i}`.repeat(i % 5);
    stream.push(
      Buffer.from(
        `data: {"model":"x","by":"${by}","choices":[{"delta":{"content":"fast-7b ${i}"}}]}\n\n`,
      ),
    );
  }
  t.notMatch(out, /azure/);
  t.equal(out.match(/"by":"acme"/g)?.length, 5);
  t.equal(out.match(/"content":"fast-7b/g)?.length, 40, 'generated text stays');
});

t.test('a router named like a key of the format leaves the key', (t) => {
  const answer =
    '{"model":"x","choices":[{"message":{"content":"hi"},"by":"message","at":"http://message:4000/"}]}';
  t.equal(
    whole(answer, 'x', 'azure/fast-7b', ['message:4000', 'message']),
    '{"model":"x","choices":[{"message":{"content":"hi"},"by":"","at":"http:///"}]}',
  );
  t.end();
});

t.test(
  'a router whose host is an ordinary word leaves words of the format and tools of that name',
  (t) => {
    const answer =
      '{"model":"x","a":{"type":"message","name":"search","by":"search","role":"litellm"}}';
    t.equal(
      whole(answer, 'x', 'azure/fast-7b', ['message', 'search', 'litellm']),
      '{"model":"x","a":{"type":"message","name":"search","by":"","role":""}}',
    );
    t.end();
  },
);

t.test('a long string is searched unless it is generated, or a vector', (t) => {
  const text = `${'x'.repeat(5000)} fast-7b ${'y'.repeat(5000)}`;
  t.equal(
    whole(
      `{"model":"x","a":"${text}","data":[{"embedding":"${text}"}],"b":["${text}"]}`,
      'acme',
      'azure/fast-7b',
    ),
    `{"model":"acme","a":"${text.replace('fast-7b', 'acme')}","data":[{"embedding":"${text}"}],"b":["${text.replace('fast-7b', 'acme')}"]}`,
  );
  t.end();
});

t.test('the input of a tool is generated text, whole and streamed', (t) => {
  const input = '{"fast-7b":[1,{"query":"compare fast-7b and others","content":["fast-7b"]}]}';
  const block = `{"type":"tool_use","id":"fast-7b","name":"fast-7b","input":${input}}`;
  const left = `{"type":"tool_use","id":"acme","name":"fast-7b","input":${input}}`;
  t.equal(
    whole(
      `{"content":[${block},${block}],"model":"x"}`,
      'acme',
      'azure/fast-7b',
      SECRETS,
      MESSAGES_ANSWER,
    ),
    `{"content":[${left},${left}],"model":"acme"}`,
  );
  const generated = (json: string) =>
    scanAnswer(Buffer.from(json), Buffer.from('"acme"'), MESSAGES_ANSWER)?.generatedBytes;
  t.equal(generated(`{"content":[{"input":${input}},{"text":"abc"}]}`), input.length - 2 + 3);
  t.equal(generated('{"content":[{"input":{}}]}'), 0);
  for (const broken of ['{"a":[1}', '{"a"}', '[1,]', '{"a":tru}', '{"a":"\\x"}']) {
    t.equal(generated(`{"content":[{"input":${broken}}]}`), undefined, broken);
  }
  const deep = `${'['.repeat(40)}"fast-7b"${']'.repeat(40)}`;
  const answer = `{"model":"acme","content":[{"input":${deep}}]}`;
  t.equal(whole(answer, 'acme', 'azure/fast-7b', SECRETS, MESSAGES_ANSWER), answer);

  let out = '';
  const sink = {
    bytes(b: Buffer, start: number, end: number) {
      out += b.toString('utf8', start, end);
    },
  };
  const hidden = hiddenBehind(model('acme', 'azure/fast-7b'), SECRETS);
  const stream = openMessage({ slug: Buffer.from('"acme"'), sink, maxEventBytes: 100_000, hidden });
  const event = (type: string, members: string) =>
    stream.push(Buffer.from(`event: ${type}\ndata: {"type":"${type}","index":0,${members}}\n\n`));
  event('content_block_start', `"content_block":${block}`);
  for (let i = 0; i < 9; i++) {
    event(
      'content_block_delta',
      `"delta":{"type":"input_json_delta","partial_json":"fast-7b ${i}"}`,
    );
  }
  t.match(out, left);
  t.equal(out.match(/"partial_json":"fast-7b/g)?.length, 9);
  t.equal(stream.textEvents, 10);
  t.end();
});

t.test('however a string is written, no name is left in it, and nothing else is changed', (t) => {
  const names = ['azure/nano-5x', 'nano-5x', 'sk-u0027-n', 'u005c-host:80'];
  const hides = new RegExp(`(?<![a-z0-9])(?:${names.join('|')})(?![a-z0-9])`, 'gi');
  const parts = [
    '\\\\',
    '\\n',
    '\\u0027',
    '\\u005C',
    '\\u0061',
    'n',
    'u0027',
    '0027',
    '-',
    ' ',
    '模',
    ...names,
  ];
  const escaped = names.map((name) =>
    [...name].map((c) => `\\u00${c.charCodeAt(0).toString(16)}`).join(''),
  );
  fuzz(
    t,
    fc.property(
      fc.array(fc.constantFrom(...parts, ...escaped, 'NANO-5X'), { maxLength: 12 }),
      (written) => {
        const sent = written.join('');
        const text = JSON.parse(`"${sent}"`) as string;
        const expected = text.replace(hides, (found) => (/nano/i.test(found) ? 'acme' : ''));
        const left = whole(`{"a":["${sent}"],"model":"acme"}`, 'acme', 'azure/nano-5x', [
          'sk-u0027-n',
          'u005c-host:80',
        ]);
        assert.equal((JSON.parse(left) as { a: [string] }).a[0], expected, sent);
        if (expected === text) assert.equal(left, `{"a":["${sent}"],"model":"acme"}`);
      },
    ),
  );
  t.end();
});
