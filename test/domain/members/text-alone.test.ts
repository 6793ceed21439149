import t from 'tap';
import { isTextAlone } from '../../../src/domain/members/text-alone.ts';

const messages = [{ role: 'user', content: 'Hello' }];

t.test('tools are text where all of them stand in the body', async (t) => {
  const named = { type: 'function', function: { name: 'f' } };
  for (const tools of [
    null,
    [],
    [named],
    [{ name: 'f', input_schema: {} }],
    [{ type: 'custom', name: 'f' }],
    [{ type: 'namespace', name: 'n', tools: [named] }],
  ])
    t.ok(isTextAlone({ messages, tools }), JSON.stringify(tools));
  for (const tools of [
    [named, { type: 'web_search' }],
    [{ type: 'web_search_20250305', name: 'web_search' }],
    [{ type: 'bash_20250124', name: 'bash' }],
    [{ type: 'namespace', name: 'n', tools: [{ type: 'mcp', name: 'm' }] }],
    [{ type: 'namespace', name: 'n' }].map((group) => ({ ...group, tools: {} })),
    [{ type: 'function', googleSearch: {} }],
    [{ googleSearch: {} }],
    ['web_search'],
    [null],
    { type: 'web_search' },
    'web_search',
  ]) {
    t.notOk(isTextAlone({ messages, tools }), JSON.stringify(tools));
    t.notOk(isTextAlone({ messages, functions: tools }), JSON.stringify(tools));
  }
});

t.test(
  'members that bring texts from elsewhere leave no bound, unless they ask for nothing',
  async (t) => {
    for (const name of [
      'web_search_options',
      'vectorStoreIds',
      'plugins',
      'session_id',
      'template',
    ])
      t.notOk(isTextAlone({ messages, [name]: {} }), name);
    for (const value of [null, false, []]) t.ok(isTextAlone({ messages, plugins: value }));
    t.ok(isTextAlone({ messages, best_of: 2, tags: ['a'], disable_search: true, metadata: {} }));
  },
);

t.test('messages have no members but texts, and JSON of known names', async (t) => {
  const message = (more: object) => isTextAlone({ messages: [{ role: 'assistant', ...more }] });
  t.ok(message({ content: null, tool_calls: [{}], refusal: null, audio: null, annotations: [] }));
  t.ok(message({ content: 'x', name: 'n', reasoning_details: [{}], cache_control: {} }));
  t.notOk(message({ audio: { id: 'audio_1' } }));
  t.notOk(message({ content: 'x', images: ['a'] }));
  t.notOk(message({ content: 'x', image: 'a' }));
  t.notOk(message({ content: 'x', annotations: [{ type: 'file', file: {} }] }));
  t.notOk(isTextAlone({ input: 'x', instructions: [{ content: [{ type: 'input_image' }] }] }));
});

t.test('parts of text have no media beside it, whatever their type says', async (t) => {
  const part = (more: object) =>
    isTextAlone({ messages: [{ role: 'user', content: [{ type: 'text', text: 'x', ...more }] }] });
  t.ok(part({ cache_control: {}, annotations: [{}], citations: [{}], file: null }));
  t.ok(part({ type: 'redacted_thinking', data: 'x' }));
  t.ok(part({ type: 'tool_use', input: { image_url: 'x' } }), 'JSON for a tool');
  for (const name of ['image', 'image_url', 'video_url', 'input_audio_url', 'file', 'data'])
    t.notOk(part({ [name]: { url: 'a' } }), name);
  t.notOk(part({ type: 'tool_result', content: [{ type: 'text', text: 'x', image: 'a' }] }));
});

t.test('nothing beside the messages is media, or what is read in their place', async (t) => {
  for (const name of ['image', 'images', 'image_url', 'videos', 'inputs', 'contents'])
    t.notOk(isTextAlone({ messages, [name]: ['x'] }), name);
  t.ok(isTextAlone({ messages, audio: { voice: 'a' } }));
  const seen = [{ role: 'user', content: [{ type: 'image_url' }] }];
  t.notOk(isTextAlone({ messages, input: seen }));
  t.notOk(isTextAlone({ input: 'x', messages: seen }));
  t.ok(isTextAlone({ messages, input: 'x', prompt: [1, 2] }));
});

t.test('documents to be ranked are text without media and lists', async (t) => {
  const ranked = (...documents: unknown[]) => isTextAlone({ query: 'x', documents });
  t.ok(ranked('a', { text: 'b' }, { title: 'c', year: 7, draft: false, body: null }));
  for (const name of ['image', 'imageUrl', 'IMAGE', 'url', 'video', 'file_id', 'audio_data'])
    t.notOk(ranked('a', { text: 'b', [name]: 'c' }), name);
  t.notOk(ranked({ text: 'b', parts: [{}] }));
  t.ok(
    isTextAlone({ messages, documents: [{ url: 'a', data: {} }] }),
    'a template has JSON of them',
  );
});

t.test('an image is whole in base64 alone', async (t) => {
  const image = (url: string) =>
    isTextAlone(
      { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }] },
      true,
    );
  t.ok(image('data:image/png;base64,iVBORw0KGgo='));
  t.ok(image('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ'));
  t.ok(image(''), 'its content was taken out');
  for (const url of ['https://a/b.png', 'data:image/png,x', '//a/b.png', '/data/b.png', 'b.png'])
    t.notOk(image(url), url);
});
