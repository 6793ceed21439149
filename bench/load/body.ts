export interface BodyShape {
  readonly model: string;
  readonly stream?: boolean;
  /** Size of the whole body in bytes; at least some 150. */
  readonly bytes: number;
  /** Fills the body with a base64 image part instead of text. */
  readonly image?: boolean;
  /** Sent as max_tokens unless 0. */
  readonly maxTokens?: number;
}

/** A chat request of exactly the wanted size. */
export function chatBody({ model, stream = false, bytes, image = false, maxTokens = 0 }: BodyShape): Buffer {
  const limit = maxTokens > 0 ? `"max_tokens":${maxTokens},` : '';
  const head = `{${limit}"model":${JSON.stringify(model)},"stream":${stream},"temperature":0.7,"messages":[{"role":"system","content":"Answer briefly."},{"role":"user","content":`;
  const open = image
    ? `${head}[{"type":"text","text":"What is in this picture?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,`
    : `${head}"`;
  const close = image ? '"}}]}]}' : '"}]}';
  const room = Math.max(0, bytes - Buffer.byteLength(open) - Buffer.byteLength(close));
  return Buffer.concat([Buffer.from(open), image ? base64(room) : prose(room), Buffer.from(close)]);
}

/** Text with the escapes JSON text has, so that a scanner cannot jump to its end in one search. */
export function prose(bytes: number): Buffer {
  const line = 'The quick brown fox jumps over the lazy dog; \\"why\\" nobody knows.\\n';
  return Buffer.from(line.repeat(Math.floor(bytes / line.length)).padEnd(bytes, '.'), 'latin1');
}

function base64(bytes: number): Buffer {
  const raw = Buffer.alloc(Math.ceil(bytes / 4) * 3);
  let seed = 0x9e3779b9;
  for (let i = 0; i < raw.length; i++) {
    seed = (Math.imul(seed, 1664525) + 1013904223) >>> 0;
    raw[i] = seed >>> 24;
  }
  return Buffer.from(raw.toString('base64').slice(0, bytes), 'latin1');
}
