import fc from 'fast-check';
import t from 'tap';
import { ask } from '../support/client.ts';
import { fuzzRuns } from '../support/fuzz.ts';
import { CHAT, EMBED, startWorld } from '../support/world.ts';

/**
 * Requests in which some values have types that no client should send: each is answered or refused, and none is a
 * fault of the gateway. `FUZZ_RUNS` and `FUZZ_SEED` are those of test/sse/fuzz.ts.
 */

const { url, customer, logged, assistant, model } = await startWorld(t);
await model('brand-rerank', { upstream: 'internal-rerank', kind: 'rerank' });
const run = `/assistants/${await assistant(customer.company, { model: CHAT })}/run`;

const parts = [{ type: 'text', text: 'Hi', cache_control: { type: 'ephemeral' } }];
const messages = [
  { role: 'user', content: 'Hi' },
  { role: 'user', content: parts },
];
const metadata = { cost_center: 'Sales' };
const schema = { type: 'object', properties: { a: { type: 'string' } } };
const sampling = { temperature: 1, top_p: 1 };
const BODIES: Record<string, object> = {
  '/chat/completions': {
    model: CHAT,
    messages,
    metadata,
    ...sampling,
    max_tokens: 5,
    n: 1,
    stream: false,
    stream_options: { include_usage: true },
    user: 'a',
    stop: ['a'],
    response_format: { type: 'text' },
    tools: [{ type: 'function', function: { name: 'a', parameters: schema } }],
    tool_choice: 'auto',
  },
  '/completions': {
    model: CHAT,
    prompt: ['Hi', 'Ho'],
    suffix: 'a',
    metadata,
    ...sampling,
    max_tokens: 5,
    n: 1,
    echo: true,
    logprobs: null,
    best_of: null,
    stream: false,
    stream_options: { include_usage: true },
    user: 'a',
    stop: ['a'],
  },
  '/responses': {
    model: CHAT,
    input: [{ role: 'user', content: [{ type: 'input_text', text: 'Hi' }] }],
    metadata,
    ...sampling,
    max_output_tokens: 5,
    store: false,
    include: ['reasoning.encrypted_content'],
    instructions: 'a',
    prompt: null,
    tools: [{ type: 'function', name: 'a', parameters: schema }],
    tool_choice: 'auto',
    background: false,
  },
  '/messages': {
    model: CHAT,
    messages,
    metadata,
    ...sampling,
    max_tokens: 5,
    system: parts,
    stream: false,
    container: null,
    tools: [{ name: 'a', input_schema: schema }],
    tool_choice: { type: 'auto' },
    thinking: { type: 'disabled' },
    include: [],
    input: [],
  },
  '/messages/count_tokens': { model: CHAT, messages, system: parts, include: [], input: [] },
  '/embeddings': {
    model: EMBED,
    input: ['a', 'b'],
    encoding_format: 'base64',
    metadata,
    dimensions: 4,
  },
  '/rerank': {
    model: 'brand-rerank',
    query: 'a',
    documents: ['a', { text: 'b' }, { title: 'c' }],
    top_n: 2,
    return_documents: true,
    metadata,
  },
  [run]: { model_slug: CHAT, messages, metadata, temperature: 1, max_tokens: 5 },
};

// biome-ignore format: a table
const odd = fc.constantFrom<unknown>(
  null, true, false, 0, -1, 0.5, 1e300, '', 'x', {}, [], [null], [{}], [[]], ['x'], [0.5], { length: 1 },
  { toString: 1 }, [{ toString: 1 }], { type: { toString: 1 } }, { cost_center: { toString: 1 } },
);

/** The value with another one where the steps lead: the last of them, or as deep as there are members. */
function changed(value: unknown, steps: readonly number[], other: unknown): unknown {
  const [step, ...rest] = steps;
  if (step === undefined || typeof value !== 'object' || value === null) return other;
  const names = Object.keys(value);
  if (names.length === 0) return other;
  const name = names[step % names.length] as string;
  const member = changed((value as Record<string, unknown>)[name], rest, other);
  return Array.isArray(value) ? value.with(Number(name), member) : { ...value, [name]: member };
}

t.test('a request with values of any type is answered or refused', async (t) => {
  const post = (path: string, body: unknown) =>
    ask(url + path, { key: customer.key, body, signal: AbortSignal.timeout(20_000) });
  for (const [path, body] of Object.entries(BODIES))
    t.equal((await post(path, body)).status, 200, path);
  const { FUZZ_RUNS, FUZZ_SEED } = process.env;
  const seed = Number(FUZZ_SEED ?? (FUZZ_RUNS === undefined ? 1 : Date.now() & 0x7fffffff));
  t.comment(`FUZZ_SEED=${seed}`);
  const changes = fc.array(fc.tuple(fc.array(fc.nat(99), { minLength: 1, maxLength: 5 }), odd), {
    maxLength: 2,
  });
  const requests = fc.tuple(fc.constantFrom(...Object.keys(BODIES)), changes);
  for (const [path, [first, second]] of fc.sample(requests, { seed, numRuns: fuzzRuns(400) })) {
    let body: unknown = BODIES[path];
    for (const change of [first, second]) if (change !== undefined) body = changed(body, ...change);
    const { status } = await post(path, body);
    // 502: the upstream, which is the demo here, refuses as it likes
    if (![200, 400, 404, 502].includes(status))
      t.fail(`${status} for ${path} ${JSON.stringify(body)}`);
  }
  const faults = logged.filter((line) => line.startsWith('{"level":50'));
  t.same(
    [...new Set(faults.map((line) => JSON.parse(line).err?.stack))],
    [],
    'no fault of the gateway',
  );
});
