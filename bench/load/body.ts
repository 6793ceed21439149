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
  const settings = endpoint === 'embeddings' ? '' : `"stream":${stream},"temperature":0.7,${limited}`;
  const head = `{"model":${JSON.stringify(model)},${settings}${prompt}`;
  const open = image
    ? `${head}[{"type":"text","text":"What is in this picture?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,`
    : `${head}"`;
  const close = `${image ? '"}}]' : '"'}${endpoint === 'embeddings' ? '}' : '}]}'}`;
  const room = Math.max(0, bytes - Buffer.byteLength(open) - Buffer.byteLength(close));
  const content = image ? Buffer.from(randomBytes(room).toString('base64').slice(0, room)) : prose(room);
  return Buffer.concat([Buffer.from(open), content, Buffer.from(close)]);
}

/** Text with the escapes JSON text has, so that a scanner cannot jump to its end in one search. */
export function prose(bytes: number): Buffer {
  const line = 'The quick brown fox jumps over the lazy dog; \\"why\\" nobody knows.\\n';
  return Buffer.from(line.repeat(Math.floor(bytes / line.length)).padEnd(bytes, '.'), 'latin1');
}
