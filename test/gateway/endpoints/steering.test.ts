import t from 'tap';
import { GatewayError } from '../../../src/domain/errors.ts';
import { isLimit } from '../../../src/domain/members/completion-limit.ts';
import { NameSet } from '../../../src/domain/members/name-set.ts';
import {
  EMPTY_COUNTS,
  HARMLESS,
  STEERING_METADATA,
  STEERING_TABLE,
  STEERING_WITHIN,
} from '../../../src/domain/members/steering-table.ts';
import { STORED_MEMBERS } from '../../../src/domain/request/stateless.ts';
import { STEERING, SteeringFilter } from '../../../src/domain/request/steering.ts';
import type { Endpoint } from '../../../src/gateway/endpoints/call.ts';
import { chat } from '../../../src/gateway/endpoints/chat.ts';
import { completions } from '../../../src/gateway/endpoints/completions.ts';
import { embeddings } from '../../../src/gateway/endpoints/embeddings.ts';
import { countTokens, messages } from '../../../src/gateway/endpoints/messages.ts';
import { rerank } from '../../../src/gateway/endpoints/rerank.ts';
import { responses } from '../../../src/gateway/endpoints/responses.ts';
import { RequestBody } from '../../../src/gateway/request/body.ts';
import type { Services } from '../../../src/gateway/request/services.ts';
import { RequestHead } from '../../../src/http/request-head.ts';
import { parseObject } from '../../../src/json/parser.ts';
import { ObjectStreamParser } from '../../../src/json/stream-parser.ts';
import {
  READ_MEMBERS,
  READ_OF_METADATA,
  READ_TEXTS_OF_METADATA,
  SENT_BY_CLIENTS,
} from '../engine-members.ts';

const SERVICES = { steering: new SteeringFilter(STEERING), settings: {} } as Services;
const HI = '[{"role":"user","content":"hi"}]';
/** Each dialect, with what a body of it needs. */
const DIALECTS: readonly (readonly [Endpoint, string])[] = [
  [chat, `"messages":${HI}`],
  [responses, `"input":${HI}`],
  [completions, '"prompt":"hi"'],
  [messages, `"max_tokens":9,"messages":${HI}`],
  [countTokens, `"messages":${HI}`],
  [embeddings, '"input":"hi"'],
  [rerank, '"query":"hi","documents":["hi"]'],
];

/** Whether the least body of a dialect has the member already. */
const isOwn = ([, own]: readonly [Endpoint, string], name: string) => own.includes(`"${name}":`);
const words = (text: string) => text.trim().split(/\s+/);
const namesOf = (groups: readonly (readonly [string, ...unknown[]])[]) =>
  groups.flatMap(([names]) => words(names));
/** A name that the entry stands for. */
const example = (entry: string) => entry.replace('*', 'some_thing').replace('[]', '');

/** The refusal of a body with this member, as small and large bodies are read; null: it would go upstream. */
function refusal(
  [endpoint, own]: readonly [Endpoint, string],
  member: string,
): GatewayError | null {
  const bytes = Buffer.from(`{"model":"m",${own},${member}}`);
  const parser = new ObjectStreamParser();
  parser.push(bytes);
  const [small, large] = [parseObject(bytes), parser.end()].map((parsed) => {
    try {
      endpoint.read(
        SERVICES,
        new RequestBody([bytes], bytes.length, parsed),
        'company',
        '',
        new RequestHead([]),
      );
      return null;
    } catch (error) {
      if (error instanceof GatewayError) return error;
      throw error;
    }
  }) as [GatewayError | null, GatewayError | null];
  if (small?.param !== large?.param) throw new Error(`${member} is judged by its size`);
  return small;
}

/** `y.x` as the member x of y. */
function memberOf(name: string, value = '1'): string {
  const [parent, inner] =
    /^(chat_template_kwargs|structured_outputs|diagnostics|prompt_cache_options)\.(.*)/
      .exec(name)
      ?.slice(1) ?? [null, null];
  return parent === null
    ? `${JSON.stringify(name)}:${value}`
    : `"${parent}":{${JSON.stringify(inner)}:${value}}`;
}

/** The name without what careless readers overlook. */
const plain = (name: string | null) => name?.toLowerCase().replaceAll('_', '');

/** As careless readers take it for the same name. */
const spelled = (name: string) => [
  name,
  name.toUpperCase(),
  name.replace(/(?<=[a-z])_([a-z])/g, (_, c: string) => c.toUpperCase()),
];

for (const dialect of DIALECTS) {
  const [{ name: endpoint }] = dialect;
  t.test(`${endpoint}: every member of the list is refused and named`, async (t) => {
    let walked = 0;
    const refuses = (member: string, param: string) => {
      walked++;
      const error = refusal(dialect, member);
      if (error?.status !== 400 || plain(error.param) !== plain(param))
        t.fail(`${member}: ${error?.param}`);
    };
    for (const entry of namesOf(STEERING_TABLE)) {
      for (const name of spelled(example(entry))) refuses(memberOf(name), name);
      const name = example(entry);
      refuses(`"\\u${name.charCodeAt(0).toString(16).padStart(4, '0')}${name.slice(1)}":1`, name);
      refuses(`"metadata":{"note":"x",${JSON.stringify(name)}:["x"]}`, `metadata.${name}`);
    }
    for (const entry of namesOf(STEERING_METADATA)) {
      const value = entry.endsWith('[]') ? '{}' : '"x"';
      for (const name of spelled(example(entry)))
        refuses(`"metadata":{${JSON.stringify(name)}:${value}}`, `metadata.${name}`);
    }
    for (const entry of namesOf(STEERING_WITHIN)) {
      const [parent, inner] = example(entry).split('.') as [string, string];
      for (const name of spelled(inner))
        refuses(`"${parent}":{"a":1,"${name}":"x"}`, `${parent}.${name}`);
    }
    t.ok(walked > 1000, `${walked} bodies`);
  });

  t.test(`${endpoint}: what routers and engines read of a body is judged`, async (t) => {
    for (const [who, { refused, passed = '' }] of Object.entries(READ_MEMBERS)) {
      for (const name of words(refused))
        t.equal(refusal(dialect, memberOf(name))?.status, 400, `${who}: ${name}`);
      for (const name of words(passed).filter((name) => name !== '' && !isOwn(dialect, name))) {
        // values that the dialect itself checks are left out
        const value = name === 'stop' || name === 'audio' ? 'null' : '{}';
        t.equal(refusal(dialect, memberOf(name, value))?.param, undefined, `${who}: ${name}`);
      }
    }
    for (const name of words(READ_OF_METADATA)) {
      t.equal(refusal(dialect, `"metadata":{"${name}":{}}`)?.param, `metadata.${name}`);
    }
    for (const name of words(READ_TEXTS_OF_METADATA)) {
      t.equal(refusal(dialect, `"metadata":{"${name}":"x"}`)?.param, `metadata.${name}`);
    }
  });

  t.test(`${endpoint}: what clients send and what is harmless passes`, async (t) => {
    for (const name of [
      ...words(SENT_BY_CLIENTS),
      ...HARMLESS.flatMap(([names]) => words(names)),
    ]) {
      if (isOwn(dialect, name)) continue;
      // values that the dialect itself checks, and a number of answers, which counts towards the limit of tokens
      const value = name === 'stream_options' ? 'null' : name === 'n' ? '1' : '{}';
      t.equal(refusal(dialect, memberOf(name, value)), null, name);
    }
    const labels =
      '{"user":"u","tags":"a","priority":"1","grammar":"x","research":"y","system_prompt":"z"}';
    t.equal(refusal(dialect, `"metadata":${labels}`), null, 'labels');
  });
}

/** A schema with patterns, as structured outputs of the reference have them. */
const SCHEMA =
  '{"type":"object","properties":{"zip":{"type":"string","pattern":"^(a+)+$"}},"required":["zip"]}';

t.test(
  'the form of an answer is text, an object or a schema, with patterns in it; programs are refused',
  async (t) => {
    for (const dialect of DIALECTS) {
      for (const [form, param] of [
        [
          `"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":${SCHEMA}}}`,
          null,
        ],
        [`"response_format":{"type":"json_object","schema":${SCHEMA}}`, null],
        ['"response_format":{"type":"text"}', null],
        ['"response_format":null', null],
        ['"response_format":{}', null],
        [
          `"text":{"verbosity":"low","format":{"type":"json_schema","name":"n","schema":${SCHEMA}}}`,
          null,
        ],
        ['"text":{"format":null}', null],
        ['"text":{"verbosity":"low"}', null],
        ['"text":null', null],
        [
          `"output_config":{"effort":"low","format":{"type":"json_schema","schema":${SCHEMA}}}`,
          null,
        ],
        [`"output_format":{"type":"json_schema","schema":${SCHEMA}}`, null],
        ['"output_format":"png"', null],
        [
          `"tools":[{"type":"function","name":"f","function":{"name":"f","parameters":${SCHEMA}}}]`,
          null,
        ],
        [`"guided_json":${SCHEMA}`, null],
        [`"json_schema":${SCHEMA}`, null],
        [`"structured_outputs":{"json":${SCHEMA}}`, null],
        ['"structured_outputs":{"choice":["a","b"],"regex":null}', null],
        ['"chat_template_kwargs":{"enable_thinking":false,"chat_template":null}', null],
        ['"chat_template_kwargs":null', null],
        ['"response_format":{"type":"regex","value":"(a*)*b"}', 'response_format.type'],
        [
          '"response_format":{"type":"regex_schema","regex_schema":"(a*)*b"}',
          'response_format.type',
        ],
        ['"response_format":{"type":"ebnf","ebnf":"root ::= root"}', 'response_format.type'],
        ['"response_format":{"type":"grammar","grammar":"root ::= root"}', 'response_format.type'],
        ['"response_format":{"type":"structural_tag","format":{}}', 'response_format.type'],
        ['"response_format":{"type":"Regex"}', 'response_format.type'],
        ['"response_format":{"type":["regex"]}', 'response_format.type'],
        [`"response_format":{"type":"${'x'.repeat(99)}"}`, 'response_format.type'],
        ['"response_format":{"type":"regex","type":"text"}', 'response_format.type'],
        ['"response_format":{"type":"text","Type":"regex"}', 'response_format.type'],
        ['"response_format":{"t\\u0079pe":"regex"}', 'response_format.type'],
        ['"response_format":{"type":"regex"},"response_format":null', 'response_format'],
        ['"Response_Format":{"type":"regex"}', 'response_format'],
        ['"text":{"format":{"type":"grammar"}}', 'text.format.type'],
        ['"text":{"format":{"type":"text"},"format":{"type":"grammar"}}', 'text.format'],
        ['"text":{"Format":{"type":"grammar"}}', 'text.format'],
        ['"output_config":{"format":{"type":"regex"}}', 'output_config.format.type'],
        ['"output_format":{"type":"regex"}', 'output_format.type'],
        ['"structured_outputs":{"json":{},"regex":"(a*)*b"}', 'structured_outputs.regex'],
        ['"structured_outputs":{"Regex":"(a*)*b"}', 'structured_outputs.Regex'],
        ['"structured_outputs":"{\\"regex\\":\\"(a*)*b\\"}"', 'structured_outputs'],
        ['"chat_template_kwargs":"{\\"chat_template\\":\\"x\\"}"', 'chat_template_kwargs'],
      ] as const) {
        t.equal(refusal(dialect, form)?.param ?? null, param, `${dialect[0].name}: ${form}`);
      }
    }
  },
);

t.test('a schema may be large, within a bound', async (t) => {
  const form = (bytes: number) =>
    `"response_format":{"type":"json_schema","x":"${'a'.repeat(bytes)}"}`;
  const dialect = DIALECTS[0] as (typeof DIALECTS)[number];
  t.equal(refusal(dialect, form(250_000)), null);
  t.match(refusal(dialect, form(270_000)), {
    status: 400,
    param: 'response_format',
    message: /larger than 262144/,
  });
});

t.test('the types of forms are adjustable', async (t) => {
  const allowing = new SteeringFilter([...STEERING, '-formats.regex']);
  t.same(
    ['regex', 'ebnf', 'text'].map((type) => allowing.refusesFormat(type)),
    [false, true, false],
  );
  const stricter = new SteeringFilter([...STEERING, 'formats.json_object']);
  t.same(
    ['json_object', 'json_schema'].map((type) => stricter.refusesFormat(type)),
    [true, false],
  );
  t.notOk(new SteeringFilter(['only_this']).refusesFormat('regex'));
});

t.test(
  'what is null or empty asks for nothing, unless it takes away what the operator set',
  async (t) => {
    const counts = new NameSet(words(EMPTY_COUNTS));
    for (const dialect of DIALECTS) {
      const { name: endpoint } = dialect[0];
      for (const name of [
        ...namesOf(STEERING_TABLE).map(example),
        'fallback_credit_token',
        'mcp_servers',
      ]) {
        if (STORED_MEMBERS.some((stored) => stored === name)) continue; // judged with the rest of what is stored
        if (endpoint === 'completions' && name === 'echo') continue; // a member of that format
        const wanted = counts.has(name) ? [name] : [];
        // a list as a limit of tokens is refused as one that readers may take for none
        for (const value of isLimit(name) ? ['null'] : ['null', '[]', '[ ]']) {
          const found = [memberOf(name, value), `"metadata":{"${name}":${value}}`].map((member) =>
            refusal(dialect, member),
          );
          const isRight = found.every((error) => (error === null) === (wanted.length === 0));
          if (!isRight) t.fail(`${endpoint}: ${name} is ${value}`);
        }
      }
      for (const value of ['[1]', '{}', '""', 'false', '0', '[[]]', '[null]']) {
        t.equal(
          refusal(dialect, `"fallbacks":${value}`)?.param,
          'fallbacks',
          `${endpoint}: ${value}`,
        );
      }
      t.equal(
        refusal(dialect, '"fallbacks":null,"fallbacks":["m"]')?.param,
        'fallbacks',
        'the second of two',
      );
      t.equal(
        refusal(dialect, '"fallbacks":["m"]')?.param,
        'fallbacks',
        'behind bodies of the same names',
      );
    }
  },
);
