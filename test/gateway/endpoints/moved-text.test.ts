import t from 'tap';
import { ask } from '../../support/client.ts';
import { fuzzRuns } from '../../support/fuzz.ts';
import { startGateway } from '../../support/gateway.ts';
import { scriptedUpstream } from '../../support/upstream.ts';

/**
 * The same bytes, moved within a body, change what is bound and estimated by no more than the way in which engines read
 * them: nothing gets cheaper by its place. In all dialects, at random.
 */

const SEED = Number(process.env.FUZZ_SEED ?? Date.now() % 1_000_000);
const RUNS = fuzzRuns(12);
const PRICE = 1000; // tokens for one EUR
/** The most tokens that a told prompt may have beyond the bytes that were sent. */
const MOST_ADDED = 16_384;

const upstream = await scriptedUpstream(t);
const gateway = await startGateway(t, upstream.url, {
  REFUSED_PARAMETERS:
    '-tools.web_search,-tools.web_search_20250305,-tools.code_interpreter,-web_search_options,-search_parameters,-vector_store_ids,-plugins,-file_id',
});
await gateway.model('chat', { upstream: 'internal-chat', input: '1', output: '0' });
for (const kind of ['embedding', 'rerank'] as const)
  await gateway.model(kind, { upstream: `internal-${kind}`, kind, input: '1', output: '0' });

const SCOPES = ['chat', 'embeddings', 'assistants', 'rerank'];
async function caller(mode: 'strict' | 'standard') {
  const company = await gateway.company({ budget: '1000000000' });
  await gateway.sql`update companies set budget_mode = ${mode} where id = ${company}`;
  const assistant = await gateway.assistant(company, { model: 'chat' });
  return { key: await gateway.key(company, SCOPES), assistant, mode };
}
type Caller = Awaited<ReturnType<typeof caller>>;
/** Calls of which a usage is told teach estimates, so the others are of companies of their own. */
const told = [await caller('strict'), await caller('standard')];
const untold = [await caller('strict'), await caller('standard')];

interface Dialect {
  readonly path: (caller: Caller) => string;
  /** The member that limits the answer, and other members. */
  readonly more: object;
  /** Where a model reads a text; the first place is a plain message. */
  readonly texts: Readonly<Record<string, (text: string) => object>>;
  /** What models read besides their bytes. */
  readonly media: Readonly<Record<string, object>>;
  answer(usage: number | null): object;
}

const user = (content: unknown) => ({ role: 'user', content });
const says = (...content: unknown[]) => ({ messages: [user(content)] });
const hello = { type: 'text', text: 'Hello' };
const schema = (url: string) => ({ type: 'object', properties: { url: { default: { url } } } });
const call = (args: unknown) => ({
  role: 'assistant',
  content: null,
  tool_calls: [{ id: 'c', type: 'function', function: { name: 'f', arguments: args } }],
});
const tool = (...tools: object[]) => ({ tools });
const ADDRESS = 'https://example.com/a.png';
/** One pixel, in base64. */
const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==';
const usageOf = (prompt: number | null) =>
  prompt === null
    ? {}
    : { usage: { prompt_tokens: prompt, completion_tokens: 1, total_tokens: prompt + 1 } };
const choices = [{ index: 0, message: { role: 'assistant', content: '.' }, finish_reason: 'stop' }];
const chatAnswer = (prompt: number | null) => ({
  object: 'chat.completion',
  model: 'internal-chat',
  choices,
  ...usageOf(prompt),
});
const inputUsage = (prompt: number | null) =>
  prompt === null ? {} : { usage: { input_tokens: prompt, output_tokens: 1 } };

const DIALECTS: Readonly<Record<string, Dialect>> = {
  chat: {
    path: () => '/chat/completions',
    more: { model: 'chat', max_tokens: 1, messages: [user('Hello')] },
    texts: {
      message: (text) => ({ messages: [user(text)] }),
      part: (text) => says({ type: 'text', text }),
      system: (text) => ({ messages: [{ role: 'system', content: text }, user('Hello')] }),
      'description of a tool': (description) =>
        tool({ type: 'function', function: { name: 'f', description } }),
      'schema of a tool': (url) =>
        tool({ type: 'function', function: { name: 'f', parameters: schema(url) } }),
      functions: (url) => ({ functions: [{ name: 'f', parameters: schema(url) }] }),
      'arguments of a call': (url) => ({
        messages: [user('Hello'), call(JSON.stringify({ url }))],
      }),
      'arguments of a call as an object': (url) => ({
        messages: [user('Hello'), call({ image_url: { url } })],
      }),
      documents: (url) => ({ documents: [{ url, image_url: { url: 'a' } }] }),
      'schema of the answer': (url) => ({
        response_format: { type: 'json_schema', json_schema: { name: 's', schema: schema(url) } },
      }),
    },
    media: {
      'address of an image': says({ type: 'image_url', image_url: { url: ADDRESS } }),
      'other address': says({ type: 'image', image: ADDRESS }),
      'path of an image': says({ type: 'image_url', image_url: { url: '/data/a.png' } }),
      image: says({
        type: 'image_url',
        image_url: { url: `data:image/png;base64,${PIXEL}` },
      }),
      sound: says({ type: 'input_audio', input_audio: { data: PIXEL, format: 'wav' } }),
      'sound that is stored': {
        messages: [user('Hello'), { role: 'assistant', content: null, audio: { id: 'audio_1' } }],
      },
      images: { messages: [{ ...user('Hello'), images: ['a.png'] }] },
      file: says({ type: 'file', file: { file_data: `data:application/pdf;base64,${PIXEL}` } }),
      'file id': says({ type: 'file', file: { file_id: 'f' } }),
      search: { web_search_options: {} },
      parameters: { search_parameters: { mode: 'on' } },
      store: { vector_store_ids: ['vs'] },
      plugins: { plugins: [{ id: 'web' }] },
      tool: tool({ type: 'web_search', name: 'f' }),
    },
    answer: chatAnswer,
  },
  completions: {
    path: () => '/completions',
    more: { model: 'chat', max_tokens: 1, prompt: 'Hello' },
    texts: {
      prompt: (prompt) => ({ prompt }),
      prompts: (text) => ({ prompt: ['a', text] }),
      suffix: (suffix) => ({ suffix }),
    },
    media: { search: { web_search_options: {} }, store: { vector_store_ids: ['vs'] } },
    answer: (prompt) => ({
      object: 'text_completion',
      choices: [{ index: 0, text: '.', finish_reason: 'stop' }],
      ...usageOf(prompt),
    }),
  },
  responses: {
    path: () => '/responses',
    more: { model: 'chat', max_output_tokens: 1, input: 'Hello' },
    texts: {
      input: (input) => ({ input }),
      part: (text) => ({ input: [user([{ type: 'input_text', text }])] }),
      instructions: (instructions) => ({ instructions }),
      'schema of a tool': (url) => tool({ type: 'function', name: 'f', parameters: schema(url) }),
      'arguments of a call': (url) => ({
        input: [
          { type: 'function_call', call_id: 'c', name: 'f', arguments: JSON.stringify({ url }) },
        ],
      }),
      'result of a call': (output) => ({
        input: [{ type: 'function_call_output', call_id: 'c', output }],
      }),
    },
    media: {
      'address of an image': { input: [user([{ type: 'input_image', image_url: ADDRESS }])] },
      'address of a file': { input: [user([{ type: 'input_file', file_url: ADDRESS }])] },
      instructions: {
        instructions: [user([{ type: 'input_image', image_url: ADDRESS }])],
      },
      tool: tool({ type: 'web_search' }),
      'tool that runs code': tool({ type: 'code_interpreter', container: { type: 'auto' } }),
      'tools of a group': tool({ type: 'namespace', name: 'n', tools: [{ type: 'web_search' }] }),
    },
    answer: (prompt) => ({
      object: 'response',
      status: 'completed',
      output: [{ type: 'message', content: [{ type: 'output_text', text: '.' }] }],
      ...inputUsage(prompt),
    }),
  },
  messages: {
    path: () => '/messages',
    more: { model: 'chat', max_tokens: 1, messages: [user('Hello')] },
    texts: {
      message: (text) => ({ messages: [user(text)] }),
      part: (text) => says({ type: 'text', text }),
      system: (system) => ({ system }),
      'part of the system prompt': (text) => ({ system: [{ type: 'text', text }] }),
      'input of a tool': (url) => says({ type: 'tool_use', id: 't', name: 'f', input: { url } }),
      'result of a tool': (text) =>
        says({ type: 'tool_result', tool_use_id: 't', content: [{ type: 'text', text }] }),
      'schema of a tool': (url) => tool({ name: 'f', input_schema: schema(url) }),
    },
    media: {
      'address of an image': says({ type: 'image', source: { type: 'url', url: ADDRESS } }),
      'address of a document': says({ type: 'document', source: { type: 'url', url: ADDRESS } }),
      'result of a tool': says({
        type: 'tool_result',
        content: [{ type: 'image', source: { type: 'url', url: ADDRESS } }],
      }),
      tool: tool({ type: 'web_search_20250305', name: 'web_search' }),
      "tool of the provider's that the caller runs": tool({ type: 'bash_20250124', name: 'bash' }),
    },
    answer: (prompt) => ({
      type: 'message',
      role: 'assistant',
      model: 'internal-chat',
      content: [{ type: 'text', text: '.' }],
      stop_reason: 'end_turn',
      ...inputUsage(prompt),
    }),
  },
  embeddings: {
    path: () => '/embeddings',
    more: { model: 'embedding', input: 'Hello', encoding_format: 'float' },
    texts: {
      input: (input) => ({ input }),
      inputs: (text) => ({ input: ['a', text, 'b'] }),
    },
    media: { store: { vector_store_ids: ['vs'] } },
    answer: (prompt) => ({
      object: 'list',
      data: [{ object: 'embedding', index: 0, embedding: [0.5] }],
      ...(prompt === null ? {} : { usage: { prompt_tokens: prompt, total_tokens: prompt } }),
    }),
  },
  rerank: {
    path: () => '/rerank',
    more: { model: 'rerank', query: 'Hello', documents: ['Hi'] },
    texts: {
      documents: (text) => ({ documents: ['a', text] }),
      'text of a document': (text) => ({ documents: [{ text }] }),
      'field of a document': (body) => ({ documents: [{ title: 'a', body }] }),
      'field beside a text': (body) => ({
        documents: [{ text: 'a', body }],
        rank_fields: ['text', 'body'],
      }),
      query: (query) => ({ query }),
    },
    media: {
      'address of an image': { documents: [{ image: ADDRESS }] },
      'image among texts': { documents: ['a', { text: 'b' }, { image: PIXEL }] },
      'image in an object': { documents: [{ image_url: { url: ADDRESS } }] },
      'images in a list': { documents: [{ text: 'a', parts: [{ image: ADDRESS }] }] },
      'other spelling': { documents: [{ imageUrl: ADDRESS }] },
      address: { documents: [{ url: ADDRESS }] },
      sound: { documents: [{ audio: PIXEL }] },
      store: { vector_store_ids: ['vs'] },
    },
    answer: (prompt) => ({
      results: [{ index: 0, relevance_score: 0.5 }],
      ...(prompt === null ? {} : { usage: { total_tokens: prompt } }),
    }),
  },
  runs: {
    path: ({ assistant }) => `/assistants/${assistant}/run`,
    more: { max_tokens: 1, messages: [user('Hello')] },
    texts: {
      message: (text) => ({ messages: [user(text)] }),
      part: (text) => says({ type: 'text', text }),
    },
    media: {
      'address of an image': says(hello, { type: 'image_url', image_url: { url: ADDRESS } }),
    },
    answer: chatAnswer,
  },
};

/** Posts a body, to be answered with a usage. @returns the tokens that were booked */
async function booked(
  dialect: Dialect,
  who: Caller,
  more: object,
  usage: number | null,
): Promise<number> {
  upstream.answerJson(dialect.answer(usage));
  const body = { ...dialect.more, ...more };
  const answer = await ask(gateway.url + dialect.path(who), { key: who.key, body });
  t.equal(answer.status, 200, answer.text.slice(0, 300));
  return Math.round(Number(answer.headers.get('x-cost-eur')) * PRICE);
}

/** Numbers from 0 up to 1, the same for a seed. */
function randomFrom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let x = Math.imul(state ^ (state >>> 15), state | 1);
    x = (x + Math.imul(x ^ (x >>> 7), x | 61)) ^ x;
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
}

const random = randomFrom(SEED);
const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;

/** What a text begins with, to be taken for a file, and what is between its words. */
const BEGINNINGS = ['data:image/png,', 'data:image/png;base64,', PIXEL, ''];
const BETWEEN = [' ', '/'];
const WORDS = 'station left right river under seven market paper window quiet'.split(' ');

/** A text of up to 150 kB: half of them cost more than any image. */
function newText(): string {
  const size = random() < 0.5 ? 2000 * 30 ** random() : 100_000 + 50_000 * random();
  const between = pick(BETWEEN);
  let text = pick(BEGINNINGS);
  while (text.length < size) text += pick(WORDS) + between;
  return text;
}

/** Each place of each dialect, as often as there are runs. */
function* places(): Generator<[dialect: Dialect, place: (text: string) => object, name: string]> {
  for (let n = 0; n < RUNS; n++) {
    for (const [name, dialect] of Object.entries(DIALECTS)) {
      for (const [place, more] of Object.entries(dialect.texts))
        yield [dialect, more, `seed ${SEED}, run ${n}: as ${place} of ${name}`];
    }
  }
}

t.comment(`seed ${SEED}, ${RUNS} runs of each place`);

t.test('a text costs what was told for it, wherever it stands', async (t) => {
  for (const [dialect, place, name] of places()) {
    const text = newText();
    const usage = Math.round(text.length * (0.6 + 0.35 * random()));
    const who = pick(told);
    const at = `${name}, ${who.mode}: ${text.length} bytes, ${text.slice(0, 25)}`;
    t.equal(await booked(dialect, who, place(text), usage), usage, at);
  }
});

t.test('a text is estimated alike, wherever it stands', async (t) => {
  for (const [dialect, place, name] of places()) {
    const text = newText();
    const who = pick(untold);
    const [plain] = Object.values(dialect.texts) as [(text: string) => object];
    if (place === plain) continue;
    const message = await booked(dialect, who, plain(text), null);
    const moved = await booked(dialect, who, place(text), null);
    const at = `${name}: ${moved} for ${message}, ${text.slice(0, 25)}`;
    t.ok(moved > 0.75 * message - 50 && moved < 1.3 * message + 50, at);
  }
});

t.test('what has no bound of text is charged as it was told', async (t) => {
  for (const [name, dialect] of Object.entries(DIALECTS)) {
    for (const [place, more] of Object.entries(dialect.media)) {
      const usage = 20_000 + Math.floor(20_000 * random());
      for (const who of told) {
        const at = `seed ${SEED}: ${place} of ${name}, ${who.mode}`;
        t.equal(await booked(dialect, who, more, usage), usage, at);
      }
    }
  }
});

t.test('what is text alone costs no more than its bytes, whatever is told', async (t) => {
  for (const [name, dialect] of Object.entries(DIALECTS)) {
    for (const [place, more] of Object.entries(dialect.texts)) {
      const text = newText().slice(0, 30_000);
      const bytes = JSON.stringify({ ...dialect.more, ...more(text) }).length;
      const usage = 5 * bytes + 2 * MOST_ADDED;
      for (const who of told) {
        const tokens = await booked(dialect, who, more(text), usage);
        const most = (who.mode === 'strict' ? 1 : 1.5) * bytes + 500;
        t.ok(tokens <= most, `seed ${SEED}: ${tokens} for ${bytes} bytes as ${place} of ${name}`);
      }
    }
  }
});
