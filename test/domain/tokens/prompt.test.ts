import { randomBytes } from 'node:crypto';
import t from 'tap';
import { STORED_FILES } from '../../../src/domain/request/stateless.ts';
import {
  keepPrompt,
  type Prompt,
  promptTokens,
  roughPromptTokens,
} from '../../../src/domain/tokens/prompt.ts';
import { countTokens } from '../../../src/domain/tokens/tokens.ts';
import { RequestBody } from '../../../src/gateway/request/body.ts';
import { parseObject } from '../../../src/json/parser.ts';
import { ObjectStreamParser } from '../../../src/json/stream-parser.ts';
import { TEXTS } from '../../faults/upstream.ts';

const prose = TEXTS.prose as string;
const body = (value: object): Buffer[] => [Buffer.from(JSON.stringify({ model: 'm', ...value }))];
/** A prompt as the gateway keeps it, read in pieces of a size. */
function keptOf(pieces: readonly Buffer[], size = Number.POSITIVE_INFINITY): Prompt {
  const whole = Buffer.concat(pieces);
  const parser = new ObjectStreamParser(STORED_FILES);
  const parts: Buffer[] = [];
  for (let at = 0; at < whole.length; at += size) parts.push(whole.subarray(at, at + size));
  for (const part of parts) parser.push(part);
  const read = new RequestBody(
    parts,
    whole.length,
    parts.length === 1 ? parseObject(whole, STORED_FILES) : parser.end(),
  );
  const model = { start: 10, end: 11, bytes: Buffer.from('internal-name') };
  return keepPrompt(read.edited([model]), read.files, read.filePieces);
}
const tokensOf = (pieces: readonly Buffer[]): number => promptTokens(keptOf(pieces));
const near = (found: number, wanted: number, share: number): boolean =>
  Math.abs(found - wanted) <= wanted * share;

t.test(
  'a small body is kept as it is, and its messages are counted with what frames them',
  async (t) => {
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
  },
);

t.test('a text counts wherever it reaches the model', async (t) => {
  const schema = { description: prose };
  const cases: Record<string, object> = {
    'a function of the older format': { functions: [{ name: 'f', description: prose }] },
    'a call of one': {
      messages: [{ role: 'assistant', function_call: { name: 'f', arguments: prose } }],
    },
    'earlier reasoning': {
      messages: [{ role: 'assistant', content: '', reasoning_content: prose }],
    },
    'a schema of the answer': {
      response_format: { type: 'json_schema', json_schema: { name: 's', schema } },
    },
    'that of a response': {
      input: 'x',
      text: { format: { type: 'json_schema', name: 's', schema } },
    },
    'that of a message': { output_format: { type: 'json_schema', schema } },
    documents: { documents: [{ text: prose }] },
  };
  for (const [name, request] of Object.entries(cases)) {
    const found = tokensOf(body({ messages: [{ role: 'user', content: 'x' }], ...request }));
    t.ok(found >= countTokens(prose), `${name}: ${found}`);
  }
});

t.test(
  'items of a response, system prompts, and tools with their results are counted as text',
  async (t) => {
    const tokens = countTokens(prose);
    t.equal(tokensOf(body({ input: prose, instructions: prose })), 4 + 2 * tokens);
    const items = [
      { role: 'user', content: prose },
      { type: 'message', role: 'user', content: [{ type: 'input_text', text: prose }] },
      { type: 'function_call', name: 'f', arguments: prose },
      { type: 'function_call_output', output: prose },
      { type: 'function_call_output', output: [{ type: 'input_text', text: prose }] },
      {
        type: 'reasoning',
        summary: [{ type: 'summary_text', text: prose }],
        encrypted_content: 'x'.repeat(999),
      },
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
      tokensOf(
        body({ system: [{ type: 'text', text: prose }], messages: [{ role: 'user', content }] }),
      ),
      3 + 4 + tokens + 4 + 4 * tokens + input,
    );
    t.equal(
      tokensOf(
        body({ input: [{ role: 'user', content: [{ type: 'input_image', image_url: 'x' }] }] }),
      ),
      3 + 4 + 1000,
    );
  },
);

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
  const filled = Array.from(
    { length: 32 },
    (_, n) => `${' '.repeat(512)}${content.slice(n * gap, (n + 1) * gap)}`,
  );
  const found = tokensOf(body({ messages: [{ role: 'user', content: filled.join('') }] }));
  t.ok(found > 500 * countTokens(prose), `${found}`);
});

/** A file of so many bytes that begins as its kind does, in base64. */
const fileOf = (first: string, bytes: number): string =>
  Buffer.concat([Buffer.from(first, 'latin1'), randomBytes(bytes)]).toString('base64');
const PNG = '\x89PNG\r\n\x1a\n';
const JPEG = '\xff\xd8\xff\xe0';
const SIZES = [100, 12_000, 40_000, 1_000_000, 10_000_000];
type Part = (data: string) => object;
const user = (...content: object[]): object => ({ role: 'user', content });

/** An image in each dialect, alone and in the result of a tool. */
const IMAGES: Readonly<Record<string, Part>> = {
  chat: (data) => ({
    messages: [user({ type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } })],
  }),
  'chat, of a tool': (data) => ({
    messages: [
      {
        role: 'tool',
        content: [{ type: 'image_url', image_url: { url: `data:image/png;base64,${data}` } }],
      },
    ],
  }),
  responses: (data) => ({
    input: [user({ type: 'input_image', image_url: `data:image/png;base64,${data}` })],
  }),
  'responses, of a tool': (data) => ({
    input: [
      {
        type: 'function_call_output',
        output: [{ type: 'input_image', image_url: `data:;base64,${data}` }],
      },
    ],
  }),
  messages: (data) => ({
    messages: [user({ type: 'image', source: { data, type: 'base64', media_type: 'image/png' } })],
  }),
  'messages, of a tool': (data) => ({
    messages: [
      user({ type: 'tool_result', content: [{ type: 'image', source: { type: 'base64', data } }] }),
    ],
  }),
};

t.test('an image is counted as models do, whatever the bytes of its file', async (t) => {
  for (const [name, dialect] of Object.entries(IMAGES)) {
    for (const bytes of SIZES) {
      const pieces = body(dialect(fileOf(PNG, bytes)));
      for (const size of [Number.POSITIVE_INFINITY, 65_536, 999]) {
        const kept = keptOf(pieces, size);
        const found = promptTokens(kept);
        t.ok(
          found >= 255 && found < 1800,
          `${name}, ${bytes} bytes in pieces of ${size}: ${found}`,
        );
        t.ok(
          roughPromptTokens(kept) < 1800,
          `${name}, ${bytes} bytes at a glance: ${roughPromptTokens(kept)}`,
        );
      }
    }
  }
});

t.test(
  'text beside images is counted by itself, in front of them, behind them and between',
  async (t) => {
    const image = {
      type: 'image_url',
      image_url: { url: `data:image/jpeg;base64,${fileOf(JPEG, 1_000_000)}` },
    };
    for (const length of [1, 20, 1000]) {
      const text = { type: 'text', text: prose.repeat(length) };
      for (const content of [
        [text, image],
        [image, text],
        [image, text, image],
        Array(8).fill(image).concat(text),
      ]) {
        const images = content.filter((part) => part === image).length;
        const found = tokensOf(body({ messages: [user(...content)] }));
        const wanted = length * countTokens(prose) + 1600 * images;
        t.ok(near(found, wanted, 0.15), `${length} texts, ${images} images: ${found} of ${wanted}`);
      }
    }
  },
);

t.test('an image of which little is to be seen is 85 tokens, wherever that is said', async (t) => {
  const url = `data:image/png;base64,${fileOf(PNG, 1_000_000)}`;
  for (const [image, wanted] of [
    [{ url, detail: 'low' }, 85],
    [{ detail: 'low', url }, 85],
    [{ url, detail: 'high' }, 1600],
  ] as const) {
    const others = [
      { type: 'image_url', image_url: image },
      { type: 'image_url', image_url: { url } },
    ];
    const found = tokensOf(body({ messages: [user(...others)] }));
    t.ok(
      found > wanted + 1600 && found < wanted + 1800,
      `${JSON.stringify(image).slice(0, 20)}: ${found}`,
    );
  }
});

t.test('sound, documents and texts count by their kind', async (t) => {
  const bytes = 1_000_000;
  const cases: readonly (readonly [string, object, least: number, most: number])[] = [
    [
      'sound',
      { type: 'input_audio', input_audio: { data: fileOf('RIFF1234WAVE', bytes), format: 'wav' } },
      300,
      3000,
    ],
    [
      'samples of sound',
      { type: 'input_audio', input_audio: { data: fileOf('', bytes), format: 'pcm16' } },
      300,
      3000,
    ],
    [
      'video',
      {
        type: 'video_url',
        video_url: { url: `data:video/mp4;base64,${fileOf('1234ftypisom', bytes)}` },
      },
      300,
      3000,
    ],
    [
      'a document',
      { type: 'document', source: { type: 'base64', data: fileOf('%PDF-1.7', bytes) } },
      5000,
      40_000,
    ],
    [
      'a file',
      { type: 'input_file', file_data: `data:application/pdf;base64,${fileOf('%PDF-1.7', bytes)}` },
      5000,
      40_000,
    ],
    [
      'a table',
      { type: 'file', file: { file_data: `data:text/csv;base64,${fileOf('a,b', bytes)}` } },
      2e5,
      3e5,
    ],
    [
      'a text',
      { type: 'document', source: { type: 'text', data: prose.repeat(1000) } },
      700 * countTokens(prose),
      1300 * countTokens(prose),
    ],
    [
      'an address',
      { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
      1000,
      1100,
    ],
  ];
  for (const [name, part, least, most] of cases) {
    const found = tokensOf(body({ messages: [user(part)] }));
    t.ok(found >= least && found <= most, `${name}: ${found}`);
  }
});

t.test('letters of base64 in a text are letters', async (t) => {
  for (const bytes of [1000, 40_000, 1_000_000]) {
    const text = fileOf(PNG, bytes);
    for (const content of [text, `data:image/png;base64,${text}`]) {
      for (const request of [
        { messages: [{ role: 'user', content }] },
        { messages: [user({ type: 'text', text: content })] },
        { input: [{ type: 'function_call_output', output: content }] },
        { messages: [user({ type: 'tool_use', input: { data: content } })] },
      ]) {
        const found = tokensOf(body(request));
        t.ok(
          near(found, 0.69 * text.length, 0.1),
          `${JSON.stringify(request).slice(0, 60)}: ${found}`,
        );
      }
    }
  }
});

t.test('thoughts that only the provider can read weigh little', async (t) => {
  const thought = { type: 'reasoning', summary: [], encrypted_content: fileOf('', 9000) };
  for (const count of [1, 30]) {
    const found = tokensOf(
      body({ input: [...Array(count).fill(thought), user({ type: 'input_text', text: prose })] }),
    );
    t.ok(found < count * 2000 + 2 * countTokens(prose), `${count}: ${found}`);
  }
});

t.test(
  'of more files than are noted the rest counts as text, and the time is that of the text',
  async (t) => {
    const tiny = {
      type: 'image_url',
      image_url: { url: `data:image/png;base64,${fileOf(PNG, 60)}` },
    };
    t.ok(tokensOf(body({ messages: [user(...Array(5000).fill(tiny))] })) > 4096 * 255);
  },
);
