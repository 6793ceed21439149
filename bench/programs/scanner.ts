import { CHAT_ANSWER } from '../../src/domain/request/answer-members.ts';
import type { OpenStream } from '../../src/gateway/answer/stream-relay.ts';
import { openMessage } from '../../src/gateway/endpoints/messages.ts';
import { openResponse } from '../../src/gateway/endpoints/responses.ts';
import { scanAnswer } from '../../src/json/answer.ts';
import { parseObject } from '../../src/json/parser.ts';
import { splice } from '../../src/json/splice.ts';
import { ObjectStreamParser } from '../../src/json/stream-parser.ts';
import { ChatStream } from '../../src/sse/chat-stream.ts';
import { chatStream, framed, MAX_EVENT_BYTES, SLUG } from '../../test/sse/fixtures.ts';
import { messageStream, responseStream } from '../../test/sse/typed-fixtures.ts';
import { requestBody } from '../load/body.ts';
import { answerBytes, inParts } from './answers.ts';

/** Times the readers of streams and JSON alone, on the streams the tests use. Prints one JSON object of nanoseconds. */
const EVENTS = 200;
const STRETCHES = 8; // of which the best counts
const STRETCH_MS = 50;

const slug = Buffer.from(JSON.stringify(SLUG));
const stream = framed(chatStream(EVENTS), '\n');
const events = eventsOf(chatStream(EVENTS));
const responseEvents = eventsOf(responseStream(EVENTS));
const messageEvents = eventsOf(messageStream(EVENTS));
const answerBody = answerBytes().subarray(answerBytes().indexOf('\r\n\r\n') + 4);
const request = requestBody({ model: SLUG, bytes: 1024 });
const [text, image] = [false, true].map((image) =>
  inParts(requestBody({ model: SLUG, bytes: 1 << 20, image }), 16),
);

// the relay copies what it sends once, and so does this
const out = Buffer.alloc(1 << 20);
let at = 0;
const sink = {
  bytes(buffer: Buffer, start: number, end: number): void {
    if (at + end - start > out.length) at = 0;
    at += buffer.copy(out, at, start, end);
  },
};

const options = { slug, sink, maxEventBytes: MAX_EVENT_BYTES, hidden: null };
const openChat: OpenStream = (options) => new ChatStream(options, CHAT_ANSWER, true);

function eventsOf(text: string): Buffer[] {
  return String(framed(text, '\n'))
    .split(/(?<=\n\n)/)
    .map((event) => Buffer.from(event));
}

function scanStream(chunks: readonly Buffer[], open: OpenStream = openChat): void {
  const scanner = open(options);
  for (const chunk of chunks) scanner.push(chunk);
  scanner.end();
}

function scanBody(chunks: readonly Buffer[] = []): void {
  const scanner = new ObjectStreamParser();
  for (const chunk of chunks) scanner.push(chunk);
  if (typeof scanner.end() === 'string') throw new Error('a body of ours is refused');
}

function scanAndRender(): void {
  const found = scanAnswer(answerBody, slug, CHAT_ANSWER);
  if (found === null) throw new Error('an answer of ours is refused');
  splice(answerBody, found.edits);
}

/** Nanoseconds per unit, in the best of some stretches. */
function time(work: () => unknown, units: number): number {
  let best = Number.POSITIVE_INFINITY;
  for (let stretch = 0; stretch < STRETCHES; stretch++) {
    const start = performance.now();
    let runs = 0;
    for (; performance.now() - start < STRETCH_MS; runs += 8) for (let i = 0; i < 8; i++) work();
    best = Math.min(best, ((performance.now() - start) * 1e6) / runs / units);
  }
  return best;
}

const packets = inParts(stream, 4);
const results = {
  'stream event, a chunk each': time(() => scanStream(events), events.length),
  'stream event, 200 in four chunks': time(() => scanStream(packets), events.length),
  'event of a response, a chunk each': time(
    () => scanStream(responseEvents, openResponse),
    responseEvents.length,
  ),
  'event of a message, a chunk each': time(
    () => scanStream(messageEvents, openMessage),
    messageEvents.length,
  ),
  'answer of 1 KiB, scanned and rendered': time(scanAndRender, 1),
  'request of 1 KiB, parsed and located': time(() => parseObject(request), 1),
  'request of 1 MiB text, scanned, per KiB': time(() => scanBody(text), 1024),
  'request of 1 MiB image, scanned, per KiB': time(() => scanBody(image), 1024),
};
console.log(JSON.stringify(results));
