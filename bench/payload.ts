/**
 * The bytes everybody in the benchmark sends: request bodies of a wanted size, and the
 * upstream's answers, baked once. Shapes follow what model routers send; the internal
 * model name is longer than the slug, as it is in practice.
 */
export const SLUG = 'bench-chat';
export const INTERNAL_MODEL = 'internal/chat-large-2026-de';
/** Content events of one burst; a usage event and [DONE] follow them. */
export const BURST_EVENTS = 200;
const PACKETS = 4;

/** The key of the n-th company of a benchmark database; the seeding SQL makes the same text. */
export function benchKey(n: number): string {
  return `svc_${String(n)
    .replace(/[0189]/g, (digit) => KEY_DIGITS[digit] as string)
    .padStart(32, 'z')}`;
}

// base32 has no 0, 1, 8, 9
const KEY_DIGITS: Readonly<Record<string, string>> = { 0: 'a', 1: 'b', 8: 'c', 9: 'd' };

export interface BodyShape {
  readonly model?: string;
  readonly stream?: boolean;
  /** Size of the whole body in bytes; at least some 150. */
  readonly bytes: number;
  /** Fills the size with a base64 image part instead of text. */
  readonly image?: boolean;
}

/** A chat request of exactly the wanted size. */
export function chatBody({ model = SLUG, stream = false, bytes, image = false }: BodyShape): Buffer {
  const head = `{"model":${JSON.stringify(model)},"stream":${stream},"temperature":0.7,"messages":[{"role":"system","content":"Answer briefly."},{"role":"user","content":`;
  const open = image
    ? `${head}[{"type":"text","text":"What is in this picture?"},{"type":"image_url","image_url":{"url":"data:image/png;base64,`
    : `${head}"`;
  const close = image ? '"}}]}]}' : '"}]}';
  const room = Math.max(0, bytes - Buffer.byteLength(open) - Buffer.byteLength(close));
  return Buffer.concat([Buffer.from(open), image ? base64(room) : prose(room), Buffer.from(close)]);
}

/** One non-streaming answer, head and body, of 1 KiB body. */
export function answerBytes(): Buffer {
  const open = `{"id":"chatcmpl-9f1c2b7d4e5a46c0b8d2f3a1","object":"chat.completion","created":1795257600,"model":"${INTERNAL_MODEL}","choices":[{"index":0,"message":{"role":"assistant","content":"`;
  const close =
    '"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":231,"completion_tokens":154,"total_tokens":385,"prompt_tokens_details":{"cached_tokens":0}},"system_fingerprint":"fp_a1b2c3d4e5"}';
  const body = `${open}${prose(1024 - open.length - close.length).toString('latin1')}${close}`;
  return Buffer.from(
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\nx-request-id: 0a1b2c3d\r\n\r\n${body}`,
    'latin1',
  );
}

export const STREAM_HEAD = Buffer.from(
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n',
);

/** Some different content events of 230 to 250 bytes, without HTTP framing. */
export function contentEvents(): string[] {
  const words = [
    ' the',
    ' answer',
    ' is',
    ' not',
    ' far',
    ' away',
    '.',
    ' Berlin',
    ' Straße',
    '\\n\\n',
    ' "',
    ' token',
  ];
  return words.map((word) => event(`{"content":"${word === ' "' ? ' \\"' : word}"}`, 'null'));
}

export const FIRST_EVENT = event('{"role":"assistant","content":""}', 'null');
export const LAST_EVENTS = [event('{}', '"stop"'), usageEvent(), 'data: [DONE]\n\n'];

/** One HTTP chunk. */
export function chunk(data: string | Buffer): Buffer {
  const bytes = typeof data === 'string' ? Buffer.from(data) : data;
  return Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')]);
}

/**
 * A whole streamed answer as the few packets it leaves in.
 * @param chunkPerEvent frames each event as its own HTTP chunk, as most servers do; otherwise each
 *   packet is one HTTP chunk and ends anywhere within an event, as behind a re-chunking hop
 */
export function burstPackets(chunkPerEvent: boolean): Buffer[] {
  const content = contentEvents();
  const events = [FIRST_EVENT];
  for (let i = 1; i < BURST_EVENTS; i++) events.push(content[i % content.length] as string);
  events.push(...LAST_EVENTS);
  const packets: Buffer[] = [];
  if (chunkPerEvent) {
    const share = Math.ceil(events.length / PACKETS);
    for (let at = 0; at < events.length; at += share) {
      packets.push(Buffer.concat(events.slice(at, at + share).map(chunk)));
    }
  } else {
    const all = Buffer.from(events.join(''));
    const share = Math.ceil(all.length / PACKETS);
    for (let at = 0; at < all.length; at += share) packets.push(chunk(all.subarray(at, at + share)));
  }
  packets[0] = Buffer.concat([STREAM_HEAD, packets[0] as Buffer]);
  packets.push(Buffer.concat([packets.pop() as Buffer, Buffer.from('0\r\n\r\n')]));
  return packets;
}

function event(delta: string, finish: string): string {
  return `data: {"id":"chatcmpl-9f1c2b7d4e5a46c0b8d2f3a1","object":"chat.completion.chunk","created":1795257600,"model":"${INTERNAL_MODEL}","system_fingerprint":"fp_a1b2c3d4e5","choices":[{"index":0,"delta":${delta},"finish_reason":${finish}}]}\n\n`;
}

function usageEvent(): string {
  return `data: {"id":"chatcmpl-9f1c2b7d4e5a46c0b8d2f3a1","object":"chat.completion.chunk","created":1795257600,"model":"${INTERNAL_MODEL}","system_fingerprint":"fp_a1b2c3d4e5","choices":[],"usage":{"prompt_tokens":231,"completion_tokens":199,"total_tokens":430}}\n\n`;
}

// Text with the escapes JSON text has, so that a scanner cannot skip to the end in one search.
function prose(bytes: number): Buffer {
  const line = 'The quick brown fox jumps over the lazy dog; \\"why\\" nobody knows.\\n';
  const text = line.repeat(Math.floor(bytes / line.length));
  return Buffer.from(text.padEnd(bytes, '.'), 'latin1');
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
