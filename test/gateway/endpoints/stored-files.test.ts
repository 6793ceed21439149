import t from 'tap';
import { ask } from '../../support/client.ts';
import { startGateway } from '../../support/gateway.ts';
import { scriptedUpstream } from '../../support/upstream.ts';

/** Files that are stored at the provider: one master key stands behind all companies. */

const upstream = await scriptedUpstream(t);
const gateway = await startGateway(t, upstream.url);
const company = await gateway.company();
await gateway.model('fast', { upstream: 'internal-fast', company });
const key = await gateway.key(company);

const LONG = 'x'.repeat(100_000); // such a body is read as it arrives
const SCHEMA = {
  type: 'object',
  properties: { file_id: { type: 'string' } },
  required: ['file_id'],
};

const messages = (...content: unknown[]) => ({
  model: 'fast',
  max_tokens: 9,
  messages: [{ role: 'user', content }],
});
const input = (...content: unknown[]) => ({ model: 'fast', input: [{ role: 'user', content }] });

for (const text of ['short', LONG]) {
  const refused: readonly (readonly [path: string, body: object])[] = [
    [
      '/chat/completions',
      messages({ type: 'text', text }, { type: 'file', file: { file_id: 'file-1' } }),
    ],
    ['/responses', input({ type: 'input_text', text }, { type: 'input_file', file_id: 'file-1' })],
    ['/responses', input({ type: 'input_text', text }, { type: 'input_image', file_id: 'file-1' })],
    [
      '/messages',
      messages(
        { type: 'text', text },
        { type: 'document', source: { type: 'file', file_id: 'file-1' } },
      ),
    ],
    [
      '/messages',
      messages({ type: 'text', text }, { type: 'container_upload', file_id: 'file-1' }),
    ],
    [
      '/messages',
      messages({
        type: 'tool_result',
        content: [{ type: 'image', source: { type: 'file', file_id: 'f' } }, text],
      }),
    ],
  ];
  t.test(
    `a file id in a part of a message is refused, in a body of ${text.length} bytes and more`,
    async (t) => {
      for (const [path, body] of refused) {
        const { status, text } = await ask(`${gateway.url}${path}`, { key, body });
        t.equal(status, 400, path);
        t.match(text, /\[\]\.file_id' needs state that is stored at the provider/, path);
      }
      t.equal(upstream.received.length, 0);
    },
  );
}

t.test('a file id is refused in every spelling, wherever messages may have parts', async (t) => {
  const part = (member: string) =>
    `{"model":"fast","input":[{"role":"user","content":[{"type":"input_file","${member}":"f"}]}]}`;
  const names = [
    'File_ID',
    'fileId',
    'file-id',
    'file_id\\u0000',
    '\\u0046\\u0049LE_ID',
    'f\u0131le_id',
  ];
  const document = '[{"type":"document","source":{"type":"file","file_id":"f"}}]';
  const asked: readonly (readonly [path: string, body: string])[] = [
    ...names.map((name) => ['/responses', part(name)] as const),
    [
      '/responses',
      '{"model":"fast","input":[{"role":"user","content":[{"input":{}},[{"file_id":"f"}]]}]}',
    ],
    ['/responses', '{"model":"fast","input":"x","instructions":[{"content":[{"file_id":"f"}]}]}'],
    [
      '/messages',
      `{"model":"fast","max_tokens":3,"system":${document},"messages":[{"role":"user","content":"x"}]}`,
    ],
    [
      `/assistants/${await gateway.assistant(company, { model: 'fast' })}/run`,
      `{"messages":[{"role":"user","content":${document}}]}`,
    ],
  ];
  for (const [path, body] of asked) {
    for (const text of [body, body.replace('{', `{"metadata":null,${' '.repeat(100_000)}`)]) {
      if (path.endsWith('/run') && text !== body) continue;
      const answer = await ask(`${gateway.url}${path}`, { key, body: text });
      t.equal(answer.status, 400, body);
      t.match(answer.text, "file_id' needs state", body);
    }
  }
  t.equal(upstream.received.length, 0);
});

for (const text of ['short', LONG]) {
  t.test(
    `an address that needs the operator's account is refused, in a body of ${text.length} bytes and more`,
    async (t) => {
      const image = (url: string) =>
        messages({ type: 'text', text }, { type: 'image_url', image_url: { url } });
      const source = (url: string) => ({ type: 'image', source: { type: 'url', url } });
      const refused: readonly (readonly [path: string, body: object, param: string])[] = [
        ...[
          'gs://b/f',
          's3://b/f',
          'file:///f',
          'FILE:/f',
          '\n gs://b/f',
          'g\ts://b/f',
          ' '.repeat(2000),
        ].map((url) => ['/chat/completions', image(url), 'url'] as const),
        [
          '/chat/completions',
          messages({ type: 'text', text }, { type: 'image_url', image_url: 'gs://b/f' }),
          'image_url',
        ],
        [
          '/chat/completions',
          messages({ type: 'text', text }, { type: 'file', file: { file_data: 'gs://b/f' } }),
          'file_data',
        ],
        [
          '/chat/completions',
          messages({ type: 'text', text }, { type: 'file', file: { fileUri: 'gs://b/f' } }),
          'fileUri',
        ],
        [
          '/responses',
          input({ type: 'input_text', text }, { type: 'input_file', file_url: 's3://b/f' }),
          'file_url',
        ],
        [
          '/messages',
          messages({ type: 'text', text }, source('https://a/b'), source('gs://b/f')),
          'url',
        ],
        [
          '/messages',
          messages({ type: 'tool_result', content: [source('gs://b/f'), text] }),
          'url',
        ],
      ];
      const before = upstream.received.length;
      for (const [path, body, member] of refused) {
        const { status, text } = await ask(`${gateway.url}${path}`, { key, body });
        t.equal(status, 400, path);
        t.match(
          text,
          `[].${member}' has an address that is read with the operator's account`,
          path,
        );
        if (path !== '/messages')
          t.match(text, `[].${member}"`, 'the param, which that format does not have');
      }
      t.equal(upstream.received.length, before);
      upstream.answer((res) => {
        res.writeHead(200, { 'content-type': 'application/json' });
        res.end('{"model":"internal-fast","choices":[],"output":[],"content":[]}');
      });
      for (const url of [
        'https://a/b',
        'HTTP://a',
        'data:image/png;base64,iVBO',
        'iVBORw0KGgo=',
        '',
      ]) {
        t.equal(
          (await ask(`${gateway.url}/chat/completions`, { key, body: image(url) })).status,
          200,
          url,
        );
      }
      const use = { type: 'tool_use', id: 't', name: 'read', input: { url: 'gs://b/f' } };
      t.equal(
        (
          await ask(`${gateway.url}/messages`, {
            key,
            body: messages({ type: 'text', text: 'gs://b/f' }, use),
          })
        ).status,
        200,
      );
    },
  );
}

t.test('tensors in place of media are refused: engines load them as they are', async (t) => {
  const before = upstream.received.length;
  for (const text of ['short', LONG]) {
    for (const part of [
      { type: 'image_embeds', image_embeds: 'AAAA' },
      { type: 'image_embeds', image_embeds: { image_embeds: 'AAAA', image_grid_thw: 'AAAA' } },
      { type: 'audio_embeds', audio_embeds: 'AAAA' },
      { type: 'video_embeds', Video_Embeds: 'AAAA' },
    ]) {
      for (const [path, body] of [
        ['/chat/completions', messages({ type: 'text', text }, part)],
        ['/responses', input({ type: 'input_text', text }, part)],
        ['/messages', messages({ type: 'text', text }, part)],
      ] as const) {
        const answer = await ask(`${gateway.url}${path}`, { key, body });
        t.equal(answer.status, 400, `${path} ${JSON.stringify(part)}`);
        t.match(answer.text, /Unsupported parameter: '\w+\[\]\.(image|audio|video)_embeds'/i);
      }
    }
  }
  t.equal(upstream.received.length, before);
});

t.test('a tool may have a parameter of that name', async (t) => {
  upstream.answer((res) => {
    res.writeHead(200, { 'content-type': 'application/json' });
    res.end('{"model":"internal-fast","choices":[],"output":[],"content":[]}');
  });
  const use = {
    type: 'tool_use',
    id: 't',
    name: 'read',
    input: { file_id: 'file-1', image_embeds: 'x' },
  };
  const used = {
    ...messages({ type: 'text', text: 'file_id' }, use),
    tools: [{ name: 'read', input_schema: SCHEMA }],
  };
  t.equal((await ask(`${gateway.url}/messages`, { key, body: used })).status, 200);
  const tools = [{ type: 'function', function: { name: 'read', parameters: SCHEMA } }];
  const asked = { ...messages({ type: 'text', text: '{"file_id":"file-1"}' }), tools };
  t.equal((await ask(`${gateway.url}/chat/completions`, { key, body: asked })).status, 200);
});
