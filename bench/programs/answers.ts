import { prose } from '../load/body.ts';

/**
 * What the model router answers, made once. Shapes follow what model routers send; the internal model name is
 * longer than the slug, as it is in practice.
 */
export const SLUG = 'bench-chat';
export const INTERNAL_MODEL = 'internal/chat-large-2026-de';
/** Content events of one burst; the finish, the usage and [DONE] follow them. */
export const BURST_EVENTS = 200;
const PACKETS = 4;

/** The key of the n-th company of a benchmark database; the SQL that fills the database makes the same text. */
export function benchKey(n: number): string {
  // base32 has no 0, 1, 8, 9
  const digits = String(n).replace(/[0189]/g, (digit) => 'abcd'['0189'.indexOf(digit)] as string);
  return `svc_${digits.padStart(32, 'z')}`;
}

/** The head and body of a non-streaming answer with 1 KiB of body. */
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
export const LAST_CHUNK = Buffer.from('0\r\n\r\n');

const WORDS = ' the| answer| is| not| far| away|.| Berlin| Straße|\\n\\n| \\"| token'.split('|');
/** Different content events of 230 to 250 bytes, without HTTP framing. */
export const CONTENT_EVENTS = WORDS.map((word) => event(`{"content":"${word}"}`, 'null'));
export const FIRST_EVENT = event('{"role":"assistant","content":""}', 'null');
export const LAST_EVENTS = [
  event('{}', '"stop"'),
  chunkEvent(
    '"choices":[],"usage":{"prompt_tokens":231,"completion_tokens":199,"total_tokens":430}',
  ),
  'data: [DONE]\n\n',
];

function event(delta: string, finish: string): string {
  return chunkEvent(`"choices":[{"index":0,"delta":${delta},"finish_reason":${finish}}]`);
}

function chunkEvent(members: string): string {
  return `data: {"id":"chatcmpl-9f1c2b7d4e5a46c0b8d2f3a1","object":"chat.completion.chunk","created":1795257600,"model":"${INTERNAL_MODEL}","system_fingerprint":"fp_a1b2c3d4e5",${members}}\n\n`;
}

/** One HTTP chunk. */
export function chunk(data: string | Buffer): Buffer {
  const bytes = Buffer.from(data as string);
  return Buffer.concat([
    Buffer.from(`${bytes.length.toString(16)}\r\n`),
    bytes,
    Buffer.from('\r\n'),
  ]);
}

/**
 * A whole streamed answer as the few packets it is sent in.
 * @param chunkPerEvent frames each event as its own HTTP chunk, as most servers do; otherwise each packet is one
 *   HTTP chunk and ends anywhere within an event, as behind a hop that frames anew
 * @param count content events; the finish, the usage and [DONE] follow them
 */
export function burstPackets(chunkPerEvent: boolean, count = BURST_EVENTS): Buffer[] {
  const turns = Math.ceil(count / CONTENT_EVENTS.length);
  const content = Array<string[]>(turns).fill(CONTENT_EVENTS).flat().slice(1, count);
  const events = [FIRST_EVENT, ...content, ...LAST_EVENTS];
  const all = Buffer.from(events.join(''));
  const packets = chunkPerEvent
    ? inParts(events.map(chunk), PACKETS).map((part) => Buffer.concat(part))
    : inParts(all, PACKETS).map(chunk);
  packets[0] = Buffer.concat([STREAM_HEAD, packets[0] as Buffer]);
  packets.push(Buffer.concat([packets.pop() as Buffer, LAST_CHUNK]));
  return packets;
}

/** Cuts a list or bytes into `count` parts of the same length; the last one may be shorter. */
export function inParts<T extends { readonly length: number; slice(from: number, to: number): T }>(
  whole: T,
  count: number,
): T[] {
  const size = Math.ceil(whole.length / count);
  return Array.from({ length: count }, (_, i) => whole.slice(i * size, (i + 1) * size));
}
