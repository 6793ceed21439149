import fc from 'fast-check';
import t from 'tap';
import { GatewayError } from '../../src/domain/errors.ts';
import { parsePrices } from '../../src/domain/pricing/prices.ts';
import {
  REFERENCE,
  refusedNames,
  STEERING,
  SteeringFilter,
} from '../../src/domain/request/steering.ts';
import type { Call } from '../../src/gateway/endpoints/call.ts';
import { chat } from '../../src/gateway/endpoints/chat.ts';
import { embeddings } from '../../src/gateway/endpoints/embeddings.ts';
import { messages } from '../../src/gateway/endpoints/messages.ts';
import { responses } from '../../src/gateway/endpoints/responses.ts';
import { RequestBody } from '../../src/gateway/request/body.ts';
import type { Services } from '../../src/gateway/request/services.ts';
import { RequestHead } from '../../src/http/request-head.ts';
import { parseObject } from '../../src/json/parser.ts';
import { ObjectStreamParser } from '../../src/json/stream-parser.ts';
import { cutAt, fuzz, places } from '../sse/fuzz.ts';
import { type Pairs, plain, READERS, readLeniently, type Value } from './readers.ts';

const MODEL = {
  slug: 'brand',
  upstream: 'internal/gated',
  kind: 'chat',
  euHosted: true,
  acceptsTokens: false,
  prices: parsePrices('0', '0'),
  created: 0,
  next: null,
} as const;
const SERVICES = { steering: new SteeringFilter(STEERING), settings: {} } as Services;

/** Of random bodies few are accepted, and only those show what runs. */
const RUNS = 800;

/** Whether a member asks for something: null and an empty list do not. */
const asks = (value: Value | undefined) =>
  value !== undefined && !/^(null|\[\s*\])$/.test(JSON.stringify(plain(value)));

/** What some router somewhere takes for another model, host, key or answer. Written down apart from our list. */
const DANGEROUS = [
  'models',
  'fallbacks',
  'fallback_models',
  'model_list',
  'context_window_fallback_dict',
  'model_id',
  'engine',
  'deployment_id',
  'preset',
  'route',
  'tags',
  'prompt_id',
  'base_model',
  'specific_deployment',
  'draft_model',
  'provider',
  'provider_options',
  'custom_llm_provider',
  'api_base',
  'base_url',
  'azure_ad_token',
  'api_version',
  'aws_bedrock_runtime_endpoint',
  'vertex_project',
  'sagemaker_base_url',
  's3_endpoint_url',
  'deployment_url',
  'extra_body',
  'extra_headers',
  'headers',
  'targets',
  'strategy',
  'plugins',
  'data_sources',
  'vllm_xargs',
  'kv_transfer_params',
  'bootstrap_host',
  'api_key',
  'user_config',
  'litellm_params',
  'litellm_metadata',
  'mock_response',
  'input_cost_per_token',
  'langfuse_host',
  'guardrails',
  'compound_custom',
  'lora_path',
  'tensorzero::variant_name',
  'system_prompt',
  'ignore_eos',
  'banned_regex',
  'guided_grammar',
  'web_search_options',
  'enable_search',
  'prompt_logprobs',
];
const DANGEROUS_IN_METADATA = [
  'api_base',
  'base_url',
  'api_key',
  'user_config',
  'model_group',
  'user_api_key',
];

/** As it might be written for a careless reader. */
const SPELLINGS: ((name: string) => string)[] = [
  (name) => JSON.stringify(name),
  (name) => JSON.stringify(name.toUpperCase()),
  (name) => JSON.stringify(name.replace(/^./, (c) => c.toUpperCase())),
  (name) => `"\\u00${name.charCodeAt(0).toString(16)}${name.slice(1)}"`,
  (name) => JSON.stringify(name.replace('s', '\u017f').replace('k', '\u212a')),
  (name) => JSON.stringify(name.replace('i', '\u0131')),
  (name) => `"${name}\\u0000"`,
  (name) => JSON.stringify(name.replace(/_([a-z])/g, (_, c: string) => c.toUpperCase())),
  (name) => JSON.stringify(`${name} `),
];

const key = (names: readonly string[]) =>
  fc.tuple(fc.constantFrom(...names), fc.nat(SPELLINGS.length * 2)).map(
    // half of them plain
    ([name, n]) => (SPELLINGS[n] ?? (SPELLINGS[0] as (name: string) => string))(name),
  );
const GOVERNED = ['model', 'messages', 'stream', 'stream_options', 'metadata', 'max_tokens', 'n'];
// biome-ignore format: a table
const scalar = fc.constantFrom(
  '"internal/other"', 'true', 'false', 'null', '1', '0.1000000000000000055', '12345678901234567890', '1e999',
  '"x"', '[]', '{}', '["a"]', '"\\ud800"', '{"include_usage":false}', '{"include_usage":true,"Include_Usage":false}',
);
const metadata = fc
  .array(fc.tuple(key([...DANGEROUS_IN_METADATA, 'tags', 'note']), scalar), { maxLength: 3 })
  .map((members) => `{${members.map(([name, value]) => `${name}:${value}`).join(',')}}`);
const nested = fc.nat(700).map((depth) => `${'['.repeat(depth)}${']'.repeat(depth)}`);
const member = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.tuple(key([...REFERENCE].filter((name) => !GOVERNED.includes(name))), scalar),
  },
  { weight: 2, arbitrary: fc.tuple(key(GOVERNED), scalar) },
  { weight: 2, arbitrary: fc.tuple(key(DANGEROUS), scalar) },
  { weight: 2, arbitrary: fc.tuple(fc.constant('"metadata"'), metadata) },
  {
    weight: 1,
    arbitrary: fc.tuple(
      fc.json({ maxDepth: 0 }).map((text) => JSON.stringify(text)),
      fc.json(),
    ),
  },
  { weight: 1, arbitrary: fc.tuple(key(['deep', 'future_parameter']), nested) },
);
const between = fc.constantFrom('', '', '', ' ', '\n', '\t', '/**/', '//\n', ',', '\0');
/** A body that is mostly right, with what is wrong about it in any place. */
const body = fc
  .record({
    own: fc.constantFrom(
      '"model":"brand"',
      '"mod\\u0065l" : "brand"',
      '"model":"brand","stream":true',
    ),
    members: fc.array(member, { maxLength: 4 }),
    at: fc.nat(4),
    gaps: fc.array(between, { maxLength: 3 }),
    mark: fc.constantFrom('', '', '', '', '', '\ufeff'),
    tail: fc.constantFrom('', '', '', '', '', '\n', '{"model":"x"}', ',', '\0'),
  })
  .map(({ own, members, at, gaps, mark, tail }) => {
    const parts = members.map(([name, value]) => `${name}:${value}`);
    parts.splice(at, 0, own, '"messages":[{"role":"user","content":"hi","model":"decoy"}]');
    const [a = '', b = '', c = ''] = gaps;
    return `${mark}{${a}${parts.join(`,${b}`)}${c}}${tail}`;
  });

function bodyOf(bytes: Buffer, cuts: readonly number[] | null): RequestBody {
  if (cuts === null) return new RequestBody([bytes], bytes.length, parseObject(bytes));
  const scanner = new ObjectStreamParser();
  const pieces = cutAt(bytes, cuts).filter(({ length }) => length > 0);
  for (const piece of pieces) scanner.push(piece);
  return new RequestBody(pieces, bytes.length, scanner.end());
}

/** What goes upstream, or the refusal. */
function forwarded(
  endpoint: typeof chat,
  body: RequestBody,
): { call: Call; sent: Buffer } | GatewayError {
  try {
    const call = endpoint.read(SERVICES, body, 'company', '', new RequestHead([])) as Call;
    return { call, sent: Buffer.concat(call.forward(Buffer.from(JSON.stringify(MODEL.upstream)))) };
  } catch (error) {
    if (error instanceof GatewayError) return error;
    throw error;
  }
}

function pairsOf(value: Value | undefined): Pairs {
  return value !== undefined && 'pairs' in value ? value.pairs : [];
}

t.test(
  'whatever reader an upstream has, it runs the gated model and nothing chooses another',
  async (t) => {
    let accepted = 0;
    let runs = 0;
    fuzz(
      t,
      fc.property(body, fc.option(places), (text, cuts) => {
        runs++;
        const result = forwarded(chat, bodyOf(Buffer.from(text), cuts));
        if (result instanceof GatewayError) return result.status === 400;
        accepted++;
        const { call, sent } = result;
        const judged = JSON.parse(text);
        const pairs = readLeniently(sent);
        if (pairs === null || call.slug !== 'brand') return false;
        for (const { name, member } of READERS) {
          const wrong = (what: string) => new Error(`${name}: ${what} in ${sent}`);
          const value = (member_: string) => plain(member(pairs, member_));
          if (value('model') !== MODEL.upstream) throw wrong('model');
          if ((value('stream') === true) !== (judged.stream === true)) throw wrong('stream');
          if (JSON.stringify(value('messages')) !== JSON.stringify(judged.messages))
            throw wrong('messages');
          const options = pairsOf(member(pairs, 'stream_options'));
          if (judged.stream === true && plain(member(options, 'include_usage')) !== true)
            throw wrong('include_usage');
          for (const danger of DANGEROUS) if (asks(member(pairs, danger))) throw wrong(danger);
          const inner = pairsOf(member(pairs, 'metadata'));
          for (const danger of DANGEROUS_IN_METADATA) {
            if (asks(member(inner, danger))) throw wrong(`metadata.${danger}`);
          }
          const tags = member(inner, 'tags');
          if (tags !== undefined && typeof plain(tags) !== 'string') throw wrong('metadata.tags');
        }
        return true;
      }),
      RUNS,
    );
    t.ok(accepted > runs / 20, `${accepted} of ${runs} bodies were accepted`);
  },
);

t.test('small and large bodies are judged alike, to the byte', async (t) => {
  fuzz(
    t,
    fc.property(body, places, (text, cuts) => {
      const bytes = Buffer.from(text);
      const [a, b] = [forwarded(chat, bodyOf(bytes, null)), forwarded(chat, bodyOf(bytes, cuts))];
      if (a instanceof GatewayError || b instanceof GatewayError) {
        return a instanceof GatewayError && b instanceof GatewayError && a.status === b.status;
      }
      return a.sent.equals(b.sent);
    }),
  );
});

/** What names state at the provider, if it is neither null nor false. */
const STATEFUL = ['previous_response_id', 'conversation', 'prompt', 'background', 'container'];
const statefulMember = fc.tuple(key([...STATEFUL, 'store']), scalar);

for (const [endpoint, name, own] of [
  [responses, 'input', ''],
  [messages, 'messages', ',"max_tokens":9'],
] as const) {
  t.test(
    `${endpoint.name}: the gated model runs, nothing is stored and nothing stored is read`,
    async (t) => {
      let accepted = 0;
      let runs = 0;
      const bodies = fc.tuple(body, fc.option(statefulMember), fc.option(places));
      fuzz(
        t,
        fc.property(bodies, ([chatText, stateful, cuts]) => {
          runs++;
          const more = stateful === null ? '' : `,${stateful[0]}:${stateful[1]}`;
          const text = chatText.replace(
            /"messages":(\[\{"role".*?\}\])/,
            (_, turns) => `"${name}":${turns}${own}${more}`,
          );
          const result = forwarded(endpoint, bodyOf(Buffer.from(text), cuts));
          if (result instanceof GatewayError) return result.status === 400;
          accepted++;
          const pairs = readLeniently(result.sent);
          if (pairs === null || result.call.slug !== 'brand') return false;
          const judged = JSON.parse(text);
          for (const { name: reader, member } of READERS) {
            const wrong = (what: string) => new Error(`${reader}: ${what} in ${result.sent}`);
            const value = (member_: string) => plain(member(pairs, member_));
            if (value('model') !== MODEL.upstream) throw wrong('model');
            if ((value('stream') === true) !== (judged.stream === true)) throw wrong('stream');
            if (JSON.stringify(value(name)) !== JSON.stringify(judged[name])) throw wrong(name);
            if (endpoint === responses && value('store') !== false) throw wrong('store');
            for (const danger of DANGEROUS) if (asks(member(pairs, danger))) throw wrong(danger);
            for (const state of STATEFUL)
              if (value(state) || value(state) === '') throw wrong(state);
          }
          return true;
        }),
        RUNS,
      );
      t.ok(accepted > runs / 50, `${accepted} of ${runs} bodies were accepted`);
    },
  );
}

t.test('an embedding request runs the gated model as well', async (t) => {
  fuzz(
    t,
    fc.property(fc.array(member, { maxLength: 4 }), fc.nat(4), (members, at) => {
      const parts = members.map(([name, value]) => `${name}:${value}`);
      parts.splice(at, 0, '"model":"brand","input":["a"]');
      const bytes = Buffer.from(`{${parts.join(',')}}`);
      const result = forwarded(embeddings, bodyOf(bytes, null));
      if (result instanceof GatewayError) return result.status === 400;
      const pairs = readLeniently(result.sent) as Pairs;
      return READERS.every(
        ({ member }) =>
          plain(member(pairs, 'model')) === MODEL.upstream &&
          JSON.stringify(plain(member(pairs, 'input'))) === '["a"]' &&
          DANGEROUS.every((danger) => !asks(member(pairs, danger))),
      );
    }),
  );
});

t.test(
  'parameters of the reference format, and those not invented yet, pass by their bytes',
  async (t) => {
    const name = fc.oneof(
      fc.constantFrom(...[...REFERENCE].filter((name) => !GOVERNED.includes(name))),
      fc.stringMatching(/^new_[a-z]{3,10}_(effort|mode|level|format|level_of_detail)$/),
    );
    const names = fc.uniqueArray(
      name.filter((name) => !['input', 'tools', 'functions'].includes(name)), // those are checked
      {
        maxLength: 6,
      },
    );
    const values = fc.array(
      fc.oneof(scalar, fc.json(), fc.constant('{ "a" : 1.0 , "b":[ 1E400,-0 ] }')),
      {
        minLength: 6,
        maxLength: 6,
      },
    );
    fuzz(
      t,
      fc.property(names, values, fc.boolean(), fc.option(places), (names, values, first, cuts) => {
        const rest = names.map((name, i) => `${JSON.stringify(name)} :${values[i]}`).join(' , ');
        const own = '"model": "brand","messages":[{"role":"user","content":"hi"}]';
        const text = (own: string) =>
          `{${(first ? [own, rest] : [rest, own]).filter((part) => part !== '').join(',')}}`;
        const result = forwarded(chat, bodyOf(Buffer.from(text(own)), cuts));
        if (result instanceof GatewayError) throw result;
        return (
          result.sent.toString() === text(own.replace('"brand"', JSON.stringify(MODEL.upstream)))
        );
      }),
    );
  },
);

t.test('metadata of the reference format passes, whatever its keys', async (t) => {
  for (const metadata of [
    'null',
    '{}',
    '{"user":"u-1","tags":"blue","config":"a","client":"acme","model":"of car","organization":"x","route":"66"}',
  ]) {
    const text = `{"model":"brand","messages":[{"role":"user","content":"hi"}],"metadata":${metadata}}`;
    const result = forwarded(chat, bodyOf(Buffer.from(text), null));
    t.notOk(result instanceof GatewayError, metadata);
    if (!(result instanceof GatewayError))
      t.ok(result.sent.toString().endsWith(`"metadata":${metadata}}`));
  }
  for (const metadata of [
    '"{\\"tags\\":[\\"us\\"]}"',
    '{"tags":["us"]}',
    '{"tags":["us"],"tags":"x"}',
    '{"apiBase":"x"}',
    '{"tags\\u0000":["us"]}',
  ]) {
    const text = `{"model":"brand","messages":[{"role":"user","content":"hi"}],"metadata":${metadata}}`;
    const result = forwarded(chat, bodyOf(Buffer.from(text), null));
    t.match(result, { status: 400 }, metadata);
  }
});

t.test('the list of refused parameters is adjustable', async (t) => {
  t.equal(refusedNames(''), STEERING);
  const adjusted = new SteeringFilter(
    refusedNames('+service_tier, -tags +x_* -base_model -metadata.priority[]'),
  );
  t.ok(adjusted.refuses('service_tier'), 'even a parameter of the reference format');
  t.ok(adjusted.refuses('x_anything'));
  t.notOk(adjusted.refuses('tags'));
  t.notOk(adjusted.refuses('base_model'), 'an exception from a pattern');
  t.ok(adjusted.refuses('other_model'));
  t.notOk(adjusted.refusesInMetadata('priority', false));
  t.ok(adjusted.refusesInMetadata('timeout', false));
  t.ok(adjusted.refuses('fallbacks'));
  const replaced = new SteeringFilter(refusedNames('only_this'));
  t.ok(replaced.refuses('onlyThis'));
  t.notOk(replaced.refuses('fallbacks'));
  t.notOk(replaced.refusesTool('mcp'));
  const tools = new SteeringFilter(refusedNames('-tools.mcp,+tools.custom'));
  t.same(
    ['function', 'custom', 'mcp', 'file_search', null].map((type) => tools.refusesTool(type)),
    [false, true, false, true, true],
  );
  t.same(
    [tools.refusesTool('mcp', false), tools.refusesTool('function', false)],
    [false, true],
    'without a name',
  );
  t.notOk(new SteeringFilter(refusedNames('-tools.*')).refusesTool('file_search'));
});

t.test('only tools that the caller runs itself are forwarded', async (t) => {
  const TOOLS: readonly (readonly [string, string | null])[] = [
    ['[{"type":"function","function":{"name":"f"}},{"type":"custom","custom":{"name":"c"}}]', null],
    ['[{"function":{"name":"f"}}]', null],
    ['null', null],
    ['[]', null],
    ['[{"type":"mcp","server_url":"http://x"}]', 'tools[0].type'],
    ['[{"type":"function","function":{"name":"f"}},{"type":"file_search"}]', 'tools[1].type'],
    ['[{"type":"Function"}]', 'tools[0].type'],
    ['[{"type":null}]', 'tools[0].type'],
    ['[{"googleSearch":{}}]', 'tools[0].type'],
    ['[{"type":"function","googleSearch":{}}]', 'tools[0].type'],
    ['[{"type":"custom","codeExecution":{}}]', 'tools[0].type'],
    ['[{"type":"bash_20250124","urlContext":{}}]', 'tools[0].type'],
    [
      '[{"type":"namespace","tools":[{"type":"function","googleSearch":{}}]}]',
      'tools[0].tools[0].type',
    ],
    ['[{"type":"function","Type":"mcp"}]', 'tools[0].type'],
    [
      '[{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"},{"type":"custom","name":"c"}]}]',
      null,
    ],
    [
      '[{"type":"namespace","tools":[{"type":"function","name":"f"},{"type":"mcp"}]}]',
      'tools[0].tools[1].type',
    ],
    ['[{"type":"namespace","tools":[{"type":"namespace","tools":[]}]}]', 'tools[0].tools[0].type'],
    ['[{"type":"namespace","tools":[],"Tools":[{"type":"mcp"}]}]', 'tools[0].tools'],
    ['[{"type":"namespace","tools":[{"type":"mcp"}],"tools":[]}]', 'tools[0].tools'],
    ['[{"type":"namespace","tools":[{"type":"mcp","type":"function"}]}]', 'tools[0].tools[0].type'],
    ['[{"type":"function","function":{}}],"tools":[{"type":"mcp"}]', 'tools'],
    ['[],"Tools":[{"type":"mcp"}]', 'tools'],
  ];
  for (const [tools, param] of TOOLS) {
    for (const cuts of [null, [7, 90]]) {
      const text = `{"model":"brand","messages":[{"role":"user","content":"hi"}],"tools":${tools}}`;
      const result = forwarded(chat, bodyOf(Buffer.from(text), cuts));
      if (param === null) t.notOk(result instanceof GatewayError, tools);
      else t.match(result, { status: 400, param }, tools);
    }
  }
});

t.test('functions are checked as tools are: LiteLLM makes Gemini tools of them too', async (t) => {
  for (const [functions, param] of [
    ['[{"name":"f","parameters":{"type":"object"}}]', null],
    ['null', null],
    ['[{"googleSearch":{}}]', 'functions[0].type'],
    ['[{"name":"f"},{"type":"function","urlContext":{}}]', 'functions[1].type'],
    ['[{"type":"mcp","name":"f"}]', 'functions[0].type'],
    ['[{"name":"f"}],"functions":[{"googleSearch":{}}]', 'functions'],
    ['[],"Functions":[{"googleSearch":{}}]', 'functions'],
  ] as const) {
    const text = `{"model":"brand","messages":[{"role":"user","content":"hi"}],"functions":${functions}}`;
    const result = forwarded(chat, bodyOf(Buffer.from(text), null));
    if (param === null) t.notOk(result instanceof GatewayError, functions);
    else t.match(result, { status: 400, param }, functions);
  }
});

t.test('the tools of an input are looked for in a bounded part of it', async (t) => {
  const item = (name: string) =>
    `{"type":"additional_tools","role":"developer","tools":[{"type":"function","name":"${name}"}]}`;
  const judged = (...items: readonly string[]) =>
    forwarded(responses, bodyOf(Buffer.from(`{"model":"brand","input":[${items}]}`), [7, 90]));
  const image = `{"role":"user","content":[{"type":"input_image","image_url":"${'A'.repeat(3_000_000)}"}]}`;
  t.notOk(
    judged(item('f'), image, item('g'.repeat(500_000))) instanceof GatewayError,
    'strings are passed over fast',
  );
  const half = item('g'.repeat(600_000));
  t.match(judged(half, item('f'), half), {
    status: 400,
    param: 'input[2]',
    message: /larger than 1048576 bytes/,
  });
  const numbers = `{"role":"user","content":[[[${'1,'.repeat(300_000)}1]]]}`;
  t.match(judged(item('f'), numbers), {
    status: 400,
    param: 'input',
    message: /524288 bytes outside of strings/,
  });
  t.notOk(judged(numbers) instanceof GatewayError, 'without tools nothing is looked for');
});

/** Bodies whose names are as dear as can be to look up, and how much one request may take for it. */
const NAMES: Record<string, (i: number) => string> = {
  'long names': (i) => `${i}`.padStart(480, 'x'),
  'mixed case': (i) => `${i}`.padStart(480, 'aB'),
  hyphens: (i) => `${i}`.padStart(480, 'a-'),
  'letters that fold': (i) => `${i}`.padStart(240, 'ſ'),
  'the beginning of an entry': (i) => `search_tool_${i}`,
  'the end of many entries': (i) => `${i}_fail_s`,
  'entries almost': (i) => `litellm${'_'.repeat(i % 2)}`.repeat(8) + i,
};
const MOST_MS = 2;

t.test(`no body costs more than ${MOST_MS} ms to check, whatever its names are`, async (t) => {
  const check = (body: RequestBody) => {
    const began = process.cpuUsage();
    forwarded(chat, body);
    const { user, system } = process.cpuUsage(began);
    return (user + system) / 1000;
  };
  for (const [what, name] of Object.entries(NAMES)) {
    const members = Array.from({ length: 1000 }, (_, i) => `"${name(i)}":1`);
    const inMetadata = members.slice(
      0,
      Math.floor(60_000 / Buffer.byteLength(members[0] as string)) - 1,
    );
    const own = '"model":"brand","messages":[{"role":"user","content":"hi"}]';
    for (const text of [
      `{${own},${members},"fallbacks":["x"]}`,
      `{${own},"metadata":{${inMetadata}},"fallbacks":["x"]}`,
    ]) {
      const times = Array.from({ length: 25 }, () => check(bodyOf(Buffer.from(text), null)));
      const best = Math.min(...times);
      t.ok(best <= MOST_MS, `${what}: ${best} ms`);
    }
  }
});
