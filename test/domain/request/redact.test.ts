import t from 'tap';
import { parsePrices } from '../../../src/domain/pricing/prices.ts';
import { nameOrNot, redact, scrub } from '../../../src/domain/request/redact.ts';

const MODEL = {
  slug: 'fast',
  upstream: 'azure/gpt-4o-eu-prod',
  kind: 'chat',
  euHosted: true,
  acceptsTokens: false,
  prices: parsePrices('0', '0'),
  created: 0,
  next: null,
} as const;

const CASES: readonly (readonly [string, string])[] = [
  [
    "Invalid value for 'temperature': must be at most 2.",
    "Invalid value for 'temperature': must be at most 2.",
  ],
  [
    "This model's maximum context length is 8192 tokens.",
    "This model's maximum context length is 8192 tokens.",
  ],
  ['litellm.BadRequestError: OpenAIException - bad tool', 'bad tool'],
  ['model azure/gpt-4o-eu-prod refuses this', 'model fast refuses this'],
  ['deployment GPT-4o-EU-Prod refuses this', 'deployment fast refuses this'],
  [
    'no vision in resource group rg-prod-1, project proj_8aXz',
    'no vision in resource group …, project …',
  ],
  [
    "tenant 'acme-gmbh' and organization org-AbC1 refuse top_k",
    'tenant … and organization … refuse top_k',
  ],
  ["Unknown parameter: 'project'.", "Unknown parameter: 'project'."],
  ['the account or project must be a string', 'the account or project must be a string'],
  ['bad image at https://blob.example.com/x?sig=1 here', 'bad image at … here'],
  ['asked 10.1.2.3:4000 and router.internal:8000/v1', 'asked … and …'],
  ['key sk-proj-abcd1234 is wrong', 'key … is wrong'],
  ['bad tool (request id: 20261123AbCd)', 'bad tool (…)'],
  ['bad tool, Request-ID=0a1b-2c3d', 'bad tool, …'],
  ['bad tool: see req_011CVabcdef, trace_id "4bf92f3577b3"', 'bad tool: see …, …"'],
  ["Unknown parameter 'request_id'.", "Unknown parameter 'request_id'."],
  ['first line\nTraceback (most recent call last):', 'first line'],
];

t.test('the reason of a refusal keeps its sense and loses what stands behind', async (t) => {
  for (const [from, to] of CASES) t.equal(redact(from, MODEL), to);
});

t.test('a reason is 300 characters at most', async (t) => {
  t.equal(redact('word '.repeat(200), MODEL).length, 300);
  const address = `https://a/${'b'.repeat(900)}`;
  for (let shift = 0; shift < 100; shift++) {
    const line = `bad ${'c'.repeat(shift)} ${address} from router.internal/ab router.internal/ab router.internal/ab`;
    t.notMatch(redact(line, MODEL), /rout/, 'no part of a name is left where a long line was cut');
  }
});

t.test(
  'a reason in the log repeats nothing of the prompt, however it is repeated there',
  async (t) => {
    const cases: readonly (readonly [text: string, prompt: string, logged: string])[] = [
      [
        '400: "tell me about the merger" is bad',
        '{"content":"Please, tell me about the merger!"}',
        '400: "…" is bad',
      ],
      ['one secret word, one secret word!', '{"content":"one secret word"}', '…, …!'],
      [`bad ${'a'.repeat(500)}`, `"${'a'.repeat(16_000)}"`, 'bad …'],
      ['too short', '{"content":"too short"}', 'too short'],
      ['ein Märchen von dreizehn', '{"content":"ein M\\u00e4rchen von dreizehn"}', '…'],
      ['nothing of the kind was asked', '{"content":"nothing of the kin"}', '…d was asked'],
    ];
    for (const [text, prompt, logged] of cases) t.equal(scrub(text, [], prompt), logged);
  },
);

t.test(
  'a text of a caller is told if it looks like a name, and is no key and no address of a person',
  async (t) => {
    for (const name of [
      'gpt-5',
      'azure/gpt-4o:eu',
      '@cf/meta/llama-3.1',
      'claude-3-5@20240620',
      'gemini@1.5',
    ])
      t.equal(nameOrNot(name), name);
    for (const text of [
      'Dear diary',
      'ann@acme.example',
      'Ann.O+x@mail.acme.example',
      'model:ann@acme.example',
      'x'.repeat(65),
    ])
      t.equal(nameOrNot(text), '(no name)', text);
  },
);
