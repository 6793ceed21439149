import { randomBytes } from 'node:crypto';
import { ENDPOINTS, type Endpoint } from './endpoints.ts';

export interface BodyShape {
  readonly model: string;
  /** 'chat' when absent. */
  readonly endpoint?: Endpoint;
  readonly stream?: boolean;
  /** Size of the whole body in bytes; at least some 150. */
  readonly bytes: number;
  /** Fills a chat request with a base64 image part instead of text. */
  readonly image?: boolean;
  /** Most tokens to generate, unless 0. */
  readonly maxTokens?: number;
}

/** A request of exactly the wanted size. */
export function requestBody(shape: BodyShape): Buffer {
  const { model, endpoint = 'chat', stream = false, bytes, image = false, maxTokens = 0 } = shape;
  const { limit, prompt } = ENDPOINTS[endpoint];
  const most = maxTokens || (endpoint === 'messages' ? 1024 : 0); // required there
  const limited = most > 0 ? `"${limit}":${most},` : '';
  const settings =
    endpoint === 'embeddings' ? '' : `"stream":${stream},"temperature":0.7,${limited}`;
  const head = `{"model":${JSON.stringify(model)},${settings}${prompt}`;
  const open = image
    ? `${head}[{"type":"text","text":"What is in this picture?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,`
    : `${head}"`;
  const close = `${image ? '"}}]' : '"'}${endpoint === 'embeddings' ? '}' : '}]}'}`;
  const room = Math.max(0, bytes - Buffer.byteLength(open) - Buffer.byteLength(close));
  const content = image
    ? Buffer.from(randomBytes(room).toString('base64').slice(0, room))
    : prose(room);
  return Buffer.concat([Buffer.from(open), content, Buffer.from(close)]);
}

/** The header of a trace that is not recorded, another each time (W3C Trace Context, section 3.2). */
export function traceparent(): { traceparent: string } {
  const id = (bytes: number): string => randomBytes(bytes).toString('hex');
  return { traceparent: `00-${id(16)}-${id(8)}-00` };
}

/**
 * The bodies of an agent's conversation, one for each turn: tools, the whole history with their calls and results, and
 * streamed answers. The first has some 20 KiB, and each is longer than the one before by the same.
 * @param bytes of the last, within a message
 */
export function turnBodies(model: string, turns: number, bytes: number): Buffer[] {
  const tools = ['read_file', 'write_file', 'run_command', 'search'].map((name) => ({
    type: 'function',
    function: {
      name,
      description: `${name}: ${'works in the folder of the project. '.repeat(10)}`,
      parameters: {
        type: 'object',
        properties: { path: { type: 'string' }, text: { type: 'string' } },
        required: ['path'],
      },
    },
  }));
  const text = JSON.parse(`"${prose(1500)}"`) as string;
  const step = (n: number) => [
    {
      role: 'assistant',
      content: null,
      tool_calls: [
        {
          id: `call_${n}`,
          type: 'function',
          function: { name: 'read_file', arguments: `{"path":"src/${n}.ts"}` },
        },
      ],
    },
    { role: 'tool', tool_call_id: `call_${n}`, content: text },
    { role: 'assistant', content: text.slice(0, 500) },
    { role: 'user', content: 'Go on.' },
  ];
  const first = [
    { role: 'system', content: text.repeat(10) },
    { role: 'user', content: 'Mend the failing test.' },
  ];
  const head = {
    model,
    stream: true,
    stream_options: { include_usage: true },
    temperature: 0.7,
    tools,
  };
  const sizeOf = (messages: unknown): number =>
    Buffer.byteLength(JSON.stringify({ ...head, messages }));
  const start = sizeOf(first);
  const steps = Math.max(
    1,
    Math.floor((bytes - start) / (sizeOf([...first, ...step(0)]) - start) / (turns - 1 || 1)),
  );
  return Array.from({ length: turns }, (_, turn) => {
    const history = Array.from({ length: turn * steps }, (_, n) => step(n)).flat();
    return Buffer.from(JSON.stringify({ ...head, messages: [...first, ...history] }));
  });
}

/** Text with the escapes JSON text has, so that a scanner cannot jump to its end in one search. */
export function prose(bytes: number): Buffer {
  const line = 'The quick brown fox jumps over the lazy dog; \\"why\\" nobody knows.\\n';
  return Buffer.from(line.repeat(Math.floor(bytes / line.length)).padEnd(bytes, '.'), 'latin1');
}
