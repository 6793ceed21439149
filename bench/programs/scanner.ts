import { CHAT_ANSWER } from '../../src/domain/answer-members.ts';
import { scanAnswer } from '../../src/json/answer.ts';
import { parseObject } from '../../src/json/parser.ts';
import { splice } from '../../src/json/splice.ts';
import { ObjectScanner } from '../../src/json/stream-parser.ts';
import { ChatStream } from '../../src/sse/chat-stream.ts';
import { chatStream, framed, MAX_EVENT_BYTES, SLUG, STREAMS } from '../../test/sse/fixtures.ts';
import { chatBody } from '../load/body.ts';
import { answerBytes, inParts } from './answers.ts';

/** Times the readers of streams and JSON alone, on the streams the tests use. Prints one JSON object of nanoseconds. */
const EVENTS = 200;
const STRETCHES = 8; // of which the best counts
const STRETCH_MS = 50;

const slug = Buffer.from(JSON.stringify(SLUG));
const stream = framed(chatStream(EVENTS), '\n');
const events = Array.from(stream.toString().matchAll(/.+\n\n/g), ([event]) => Buffer.from(event));
const fixtures = STREAMS.map(({ input }) => framed(input, '\n'));
const answer = answerBytes();
const answerBody = answer.subarray(answer.indexOf('\r\n\r\n') + 4);
const request = chatBody({ model: SLUG, bytes: 1024 });
const [text, image] = [false, true].map((image) => inParts(chatBody({ model: SLUG, bytes: 1 << 20, image }), 16));

// the relay copies what it sends once, and so does this
const out = Buffer.alloc(1 << 20);
let at = 0;
const sink = {
  bytes(buffer: Buffer, start: number, end: number): void {
    if (at + end - start > out.length) at = 0;
    at += buffer.copy(out, at, start, end);
  },
};

function scanStream(chunks: readonly Buffer[]): void {
  const scanner = new ChatStream({ slug, sink, maxEventBytes: MAX_EVENT_BYTES, hidden: null }, CHAT_ANSWER, true);
  for (const chunk of chunks) scanner.push(chunk);
  scanner.end();
}

function scanBody(chunks: readonly Buffer[] = []): void {
  const scanner = new ObjectScanner();
  for (const chunk of chunks) scanner.push(chunk);
  if (typeof scanner.end() === 'string') throw new Error('a body of ours is refused');
}

function scanAndRender(): void {
  const found = scanAnswer(answerBody, slug, CHAT_ANSWER);
  if (found === null) throw new Error('an answer of ours is refused');
  splice(answerBody, found.edits);
}

function serializeAgain(): void {
  for (const event of events.slice(0, -1)) {
    const value = JSON.parse(event.toString().slice('data: '.length)) as { model: string };
    value.model = SLUG;
    out.write(`data: ${JSON.stringify(value)}\n\n`);
  }
}

/** Nanoseconds per unit, in the best of some stretches. */
function time(work: () => unknown, units: number): number {
  let best = Number.POSITIVE_INFINITY;
  for (let stretch = 0; stretch < STRETCHES; stretch++) {
    const start = performance.now();
    let runs = 0;
    while (performance.now() - start < STRETCH_MS) {
      for (let i = 0; i < 8; i++) work();
      runs += 8;
    }
    best = Math.min(best, ((performance.now() - start) * 1e6) / runs / units);
  }
  return best;
}

const packets = inParts(stream, 4);
const fixtureBytes = Buffer.concat(fixtures).length;
const results = {
  'stream event, a chunk each': time(() => scanStream(events), events.length),
  'stream event, 200 in four chunks': time(() => scanStream(packets), events.length),
  'the same event with JSON.parse and JSON.stringify': time(serializeAgain, events.length),
  'every stream of the tests, per KiB': time(() => fixtures.map((one) => scanStream([one])), fixtureBytes / 1024),
  'answer of 1 KiB, scanned and rendered': time(scanAndRender, 1),
  'request of 1 KiB, parsed and located': time(() => parseObject(request), 1),
  'request of 1 MiB text, scanned, per KiB': time(() => scanBody(text), 1024),
  'request of 1 MiB image, scanned, per KiB': time(() => scanBody(image), 1024),
};
console.log(JSON.stringify(results));
