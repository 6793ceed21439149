import { ANSWER_MEMBERS } from '../src/domain/answer-members.ts';
import { renderAnswer, scanAnswer } from '../src/json/answer.ts';
import { parseObject } from '../src/json/parser.ts';
import { ObjectScanner } from '../src/json/stream-parser.ts';
import { ChatStream } from '../src/sse/chat-stream.ts';
import { chatStream, framed, MAX_EVENT_BYTES, SLUG, STREAMS } from '../test/sse/fixtures.ts';
import { answerBytes, chatBody } from './payload.ts';

/**
 * The byte machines alone, on the streams the tests use. Prints one JSON object: what → nanoseconds.
 */
const EVENTS = 200;
const slug = Buffer.from(JSON.stringify(SLUG));
const stream = framed(chatStream(EVENTS), '\n');
const events = stream
  .toString()
  .split('\n\n')
  .filter((event) => event !== '')
  .map((event) => Buffer.from(`${event}\n\n`));
const packets = inPackets(stream, 4);
const fixtures = STREAMS.map(({ input }) => framed(input, '\n'));
const fixtureBytes = fixtures.reduce((sum, { length }) => sum + length, 0);
const answer = answerBytes();
const answerBody = answer.subarray(answer.indexOf('\r\n\r\n') + 4);
const request = chatBody({ bytes: 1024 });
const text = inPackets(chatBody({ bytes: 1 << 20 }), 16);
const image = inPackets(chatBody({ bytes: 1 << 20, image: true }), 16);

// what leaves is copied once, as the relay does
const out = Buffer.alloc(1 << 20);
let at = 0;
const sink = {
  bytes(buffer: Buffer, start: number, end: number): void {
    if (at + end - start > out.length) at = 0;
    at += buffer.copy(out, at, start, end);
  },
};

function scan(chunks: readonly Buffer[]): void {
  const scanner = new ChatStream(slug, sink, MAX_EVENT_BYTES, ANSWER_MEMBERS);
  for (const chunk of chunks) scanner.push(chunk);
  scanner.end();
}

function scanFixtures(): void {
  for (const fixture of fixtures) scan([fixture]);
}

function scanBody(chunks: readonly Buffer[]): void {
  const scanner = new ObjectScanner();
  for (const chunk of chunks) scanner.push(chunk);
  if (typeof scanner.end() === 'string') throw new Error('a body of ours is refused');
}

const results = {
  'stream event, a chunk each': time(() => scan(events), events.length),
  'stream event, 200 in four chunks': time(() => scan(packets), events.length),
  'the same event with JSON.parse and JSON.stringify': time(reserializeAll, events.length),
  'every stream of the tests, per KiB': time(scanFixtures, fixtureBytes / 1024),
  'answer of 1 KiB, scanned and rendered': time(() => {
    const found = scanAnswer(answerBody, slug, ANSWER_MEMBERS);
    if (found === null) throw new Error('an answer of ours is refused');
    renderAnswer(answerBody, found);
  }, 1),
  'request of 1 KiB, parsed and located': time(() => parseObject(request), 1),
  'request of 1 MiB text, scanned, per KiB': time(() => scanBody(text), 1024),
  'request of 1 MiB image, scanned, per KiB': time(() => scanBody(image), 1024),
};
console.log(JSON.stringify(results));

function reserializeAll(): void {
  for (const event of events) {
    const data = event.toString().slice('data: '.length);
    if (data.startsWith('[DONE]')) continue;
    const value = JSON.parse(data) as { model: string };
    value.model = SLUG;
    out.write(`data: ${JSON.stringify(value)}\n\n`);
  }
}

/** Nanoseconds per unit: the best of some stretches of 50 ms after a warm-up. */
function time(work: () => void, units: number): number {
  let best = Number.POSITIVE_INFINITY;
  for (let stretch = 0; stretch < 8; stretch++) {
    const start = performance.now();
    let runs = 0;
    while (performance.now() - start < 50) {
      for (let i = 0; i < 8; i++) work();
      runs += 8;
    }
    best = Math.min(best, ((performance.now() - start) * 1e6) / runs / units);
  }
  return best;
}

function inPackets(bytes: Buffer, count: number): Buffer[] {
  const size = Math.ceil(bytes.length / count);
  return Array.from({ length: count }, (_, i) => bytes.subarray(i * size, (i + 1) * size));
}
