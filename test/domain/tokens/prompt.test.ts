import t from 'tap';
import { keepPrompt, promptTokens } from '../../../src/domain/tokens/prompt.ts';
import { countTokens } from '../../../src/domain/tokens/tokens.ts';
import { TEXTS } from '../../faults/upstream.ts';

const prose = TEXTS.prose as string;
const body = (value: object): Buffer[] => [Buffer.from(JSON.stringify({ model: 'm', ...value }))];
const tokensOf = (pieces: readonly Buffer[]): number => promptTokens(keepPrompt(pieces));
const near = (found: number, wanted: number, share: number): boolean => Math.abs(found - wanted) <= wanted * share;

t.test('a small body is kept as it is, and its messages are counted with what frames them', async (t) => {
  const pieces = body({
    messages: [
      { role: 'system', content: prose },
      { role: 'user', content: [{ type: 'text', text: prose }] },
    ],
  });
  t.equal(keepPrompt(pieces).pieces, pieces);
  t.equal(tokensOf(pieces), 3 + 2 * (4 + countTokens(prose)));
  const tools = [{ type: 'function', function: { name: 'weather', parameters: {} } }];
  t.equal(tokensOf(body({ messages: [], tools })), 3 + countTokens(JSON.stringify(tools)));
});

t.test('a text counts wherever it reaches the model', async (t) => {
  const schema = { description: prose };
  const cases: Record<string, object> = {
    'a function of the older format': { functions: [{ name: 'f', description: prose }] },
    'a call of one': { messages: [{ role: 'assistant', function_call: { name: 'f', arguments: prose } }] },
    'earlier reasoning': { messages: [{ role: 'assistant', content: '', reasoning_content: prose }] },
    'a schema of the answer': { response_format: { type: 'json_schema', json_schema: { name: 's', schema } } },
    'that of a response': { input: 'x', text: { format: { type: 'json_schema', name: 's', schema } } },
    'that of a message': { output_format: { type: 'json_schema', schema } },
    documents: { documents: [{ text: prose }] },
  };
  for (const [name, request] of Object.entries(cases)) {
    const found = tokensOf(body({ messages: [{ role: 'user', content: 'x' }], ...request }));
    t.ok(found >= countTokens(prose), `${name}: ${found}`);
  }
});

t.test('items of a response, system prompts, and tools with their results are counted as text', async (t) => {
  const tokens = countTokens(prose);
  t.equal(tokensOf(body({ input: prose, instructions: prose })), 4 + 2 * tokens);
  const items = [
    { role: 'user', content: prose },
    { type: 'message', role: 'user', content: [{ type: 'input_text', text: prose }] },
    { type: 'function_call', name: 'f', arguments: prose },
    { type: 'function_call_output', output: prose },
    { type: 'function_call_output', output: [{ type: 'input_text', text: prose }] },
    { type: 'reasoning', summary: [{ type: 'summary_text', text: prose }], encrypted_content: 'x'.repeat(999) },
  ];
  t.equal(tokensOf(body({ input: items })), 3 + 6 * (4 + tokens));
  const content = [
    { type: 'text', text: prose },
    { type: 'thinking', thinking: prose },
    { type: 'tool_use', name: 'f', input: { text: 'one two' } },
    { type: 'tool_result', content: [{ type: 'text', text: prose }] },
    { type: 'tool_result', content: prose },
  ];
  const input = countTokens('{"text":"one two"}');
  t.equal(
    tokensOf(body({ system: [{ type: 'text', text: prose }], messages: [{ role: 'user', content }] })),
    3 + 4 + tokens + 4 + 4 * tokens + input,
  );
  t.equal(
    tokensOf(body({ input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'x' }] }] })),
    3 + 4 + 1000,
  );
});

t.test('the texts of an embedding are counted', async (t) => {
  t.equal(tokensOf(body({ input: prose })), countTokens(prose));
  t.equal(tokensOf(body({ input: [prose, prose] })), 2 * countTokens(prose));
});

t.test('each token id of an embedding is one token, however many there are', async (t) => {
  t.equal(tokensOf(body({ input: [17, 4, 99] })), 3);
  t.equal(tokensOf(body({ input: [[17, 4], [99]] })), 3);
  for (const count of [50, 200]) {
    const input = Array.from({ length: count }, (_, n) =>
      Array.from({ length: 100 }, (_, k) => (n * k * 7919) % 100_277),
    );
    t.ok(near(tokensOf(body({ input })), count * 100, 0.08), `${tokensOf(body({ input }))}`);
  }
});

t.test('of a large body pieces are kept, and they tell the whole', async (t) => {
  const content = prose.repeat(1000);
  const [whole] = body({ messages: [{ role: 'user', content }] }) as [Buffer];
  for (const cut of [whole.length, 1000, 65_536]) {
    const pieces = Array.from({ length: Math.ceil(whole.length / cut) }, (_, n) =>
      whole.subarray(n * cut, (n + 1) * cut),
    );
    const kept = keepPrompt(pieces);
    t.ok(kept.pieces.reduce((sum, { length }) => sum + length, 0) <= 8192);
    t.ok(near(promptTokens(kept), 1000 * countTokens(prose), 0.1), `${promptTokens(kept)}`);
  }
});

t.test('a long table of numbers is text, not token ids', async (t) => {
  for (const line of ['12 34 56\n', '12,34,56\n']) {
    const content = line.repeat(20_000);
    for (const before of [{}, { stop_token_ids: [1] }]) {
      const found = tokensOf(body({ ...before, messages: [{ role: 'user', content }] }));
      t.ok(near(found, countTokens(content), 0.3), `${found} of ${countTokens(content)}`);
    }
  }
});

t.test('a body of middling size is kept as it is, and its pieces tell the whole', (t) => {
  const pieces = body({ messages: [{ role: 'user', content: prose.repeat(100) }] });
  const kept = keepPrompt(pieces);
  t.equal(kept.pieces, pieces);
  t.equal(kept.kept, 'long');
  t.ok(near(promptTokens(kept), 100 * countTokens(prose), 0.15), `${promptTokens(kept)}`);
  t.end();
});

t.test('pieces smaller than what is kept of each are no trouble', async (t) => {
  const [whole] = body({ messages: [{ role: 'user', content: prose.repeat(200) }] }) as [Buffer];
  const pieces = Array.from({ length: Math.ceil(whole.length / 100) }, (_, n) =>
    whole.subarray(n * 100, (n + 1) * 100),
  );
  t.ok(near(tokensOf(pieces), 200 * countTokens(prose), 0.15), `${tokensOf(pieces)}`);
});

t.test('words that are joined as in names are text, not a file', async (t) => {
  for (const joint of ['_', '-', '/']) {
    const content = `${prose.replace(/[^a-z]+/gi, joint)}${joint}`.repeat(200);
    const found = tokensOf(body({ messages: [{ role: 'user', content }] }));
    t.ok(near(found, countTokens(content), 0.2), `${joint}: ${found} of ${countTokens(content)}`);
  }
});

t.test('blanks at even distances do not stand for all of a body', async (t) => {
  const content = prose.repeat(1000);
  const gap = content.length / 32;
  const filled = Array.from({ length: 32 }, (_, n) => `${' '.repeat(512)}${content.slice(n * gap, (n + 1) * gap)}`);
  const found = tokensOf(body({ messages: [{ role: 'user', content: filled.join('') }] }));
  t.ok(found > 500 * countTokens(prose), `${found}`);
});

t.test('an image is not counted by the letters of its file', async (t) => {
  const url = `data:image/png;base64,${Buffer.alloc(200_000, 'a picture of noise').toString('base64')}`;
  const image = { type: 'image_url', image_url: { url } };
  const found = tokensOf(
    body({ messages: [{ role: 'user', content: [{ type: 'text', text: 'What is this?' }, image] }] }),
  );
  t.ok(found > 300 && found < 5000, `${found}`);
});

t.test('nor is silence, or a plain area', async (t) => {
  for (const sample of [[0], [1, 0], [255, 255], [200, 150, 100], [10, 20, 30, 255]]) {
    const data = Buffer.alloc(200_000, Buffer.from(sample)).toString('base64');
    const found = tokensOf(
      body({ messages: [{ role: 'user', content: [{ type: 'input_audio', input_audio: { data } }] }] }),
    );
    t.ok(found < 8000, `${sample}: ${found}`);
  }
});
