import assert from 'node:assert/strict';
import { createParser, type EventSourceMessage } from 'eventsource-parser';
import fc from 'fast-check';
import t from 'tap';
import { CHAT_ANSWER } from '../../src/domain/request/answer-members.ts';
import type { OpenStream } from '../../src/gateway/answer/stream-relay.ts';
import { openMessage } from '../../src/gateway/endpoints/messages.ts';
import { openResponse } from '../../src/gateway/endpoints/responses.ts';
import { ChatStream } from '../../src/sse/chat-stream.ts';
import {
  countsOf,
  framed,
  LINE_ENDS,
  MAX_EVENT_BYTES,
  SLUG,
  STREAMS,
  type StreamFixture,
} from './fixtures.ts';
import { cutAt, fuzz, places, someCuts } from './fuzz.ts';
import { MESSAGE_STREAMS, RESPONSE_STREAMS } from './typed-fixtures.ts';

const COMMENT = ': keepalive\n\n';
const PING = 'event: ping\ndata: {"type":"ping"}\n\n';

const openChat: OpenStream = (options) => new ChatStream(options, CHAT_ANSWER, true);
const DIALECTS: readonly (readonly [string, OpenStream, readonly StreamFixture[], string])[] = [
  ['chat completions', openChat, STREAMS, COMMENT],
  ['responses', openResponse, RESPONSE_STREAMS, COMMENT],
  ['messages', openMessage, MESSAGE_STREAMS, PING],
];

/**
 * Feeds a stream, and sends a keepalive behind some of the chunks.
 * @param isSilent whether nothing comes for a while behind the n-th chunk
 */
function feed(open: OpenStream, chunks: readonly Buffer[], isSilent: (n: number) => boolean) {
  const writes: string[] = [];
  const sink = {
    bytes: (buffer: Buffer, start: number, end: number) =>
      void writes.push(buffer.toString('latin1', start, end)),
  };
  const slug = Buffer.from(JSON.stringify(SLUG));
  const stream = open({ slug, sink, maxEventBytes: MAX_EVENT_BYTES, hidden: null });
  const keepalives: string[] = [];
  for (const [n, chunk] of chunks.entries()) {
    const copy = Buffer.from(chunk);
    stream.push(copy);
    copy.fill(0x7e); // as memory that is used again would be
    if (stream.state !== 'open' || !isSilent(n)) continue;
    const keepalive = stream.keepalive().toString('latin1');
    keepalives.push(keepalive);
    writes.push(keepalive);
  }
  stream.end();
  const { state, reason, events, textEvents, generatedBytes } = stream;
  const told = {
    state,
    reason,
    events,
    textEvents,
    generatedBytes,
    usage: countsOf(stream.usage()),
  };
  return { output: writes.join(''), told, keepalives };
}

/** What a client reads that knows nothing of ours; pings left out, the upstream's own too. */
function eventsOf(output: string): EventSourceMessage[] {
  const events: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => void events.push(event) });
  parser.feed(output);
  parser.feed(':\n'); // a CR at the end may else wait for its LF
  return events.filter(({ event }) => event !== 'ping');
}

/** A stream without keepalives, to compare others with. */
function busy(open: OpenStream, bytes: Buffer) {
  const { output, told } = feed(open, [bytes], () => false);
  const events = eventsOf(output);
  return (silent: ReturnType<typeof feed>, keepalive: string): void => {
    assert.deepEqual(silent.told, told);
    assert.deepEqual(eventsOf(silent.output), events);
    for (const each of silent.keepalives) assert(each === keepalive || each === `\n${keepalive}`);
  };
}

for (const [dialect, open, streams, keepalive] of DIALECTS) {
  for (const lineEnd of LINE_ENDS) {
    const where = lineEnd === '\n' ? 'anywhere' : 'about line ends';
    t.test(
      `${dialect} with ${JSON.stringify(lineEnd)}, silent ${where}: a client reads the same events`,
      (t) => {
        let count = 0;
        const cutsOf = someCuts(t);
        for (const { input } of streams) {
          const bytes = framed(input, lineEnd);
          const compare = busy(open, bytes);
          for (const cuts of [...cutsOf(bytes, lineEnd), [...bytes.keys()]]) {
            const silent = feed(open, cutAt(bytes, cuts), () => true);
            compare(silent, keepalive);
            count += silent.keepalives.length;
          }
        }
        t.ok(count > 1000, `${count} keepalives`);
        t.end();
      },
    );
  }

  t.test(`${dialect}: damaged streams, silent anywhere`, (t) => {
    const damaged = fc
      .tuple(
        fc.constantFrom(...streams.map(({ input }) => input)),
        fc.constantFrom(...LINE_ENDS),
        fc.array(
          fc.tuple(
            fc.nat(),
            fc.oneof(fc.nat(255), fc.constantFrom(...Buffer.from('\r\n"\\{}[]:, d'))),
          ),
          {
            maxLength: 4,
          },
        ),
      )
      .map(([input, lineEnd, damage]) => {
        const bytes = framed(input, lineEnd);
        for (const [place, byte] of damage) bytes[place % bytes.length] = byte;
        return bytes;
      });
    fuzz(
      t,
      fc.property(damaged, places, fc.nat(), (bytes, cuts, silences) => {
        const isSilent = (n: number): boolean => ((silences >> (n % 31)) & 1) === 1;
        busy(open, bytes)(feed(open, cutAt(bytes, cuts), isSilent), keepalive);
      }),
    );
    t.end();
  });
}

t.test(
  'behind the CR of a CRLF the keepalive brings the LF, which is not sent again',
  async (t) => {
    const bytes = Buffer.from(
      'data: {"model":"m","choices":[{"finish_reason":"stop"}]}\r\n\r\ndata: [DONE]\r\n\r\n',
    );
    const end = bytes.indexOf('\r\n\r\n') + 3;
    const { output } = feed(
      openChat,
      [bytes.subarray(0, end), bytes.subarray(end)],
      (n) => n === 0,
    );
    t.equal(
      output,
      `data: {"model":"${SLUG}","choices":[{"finish_reason":"stop"}]}\r\n\r\n${COMMENT}data: [DONE]\n\n`,
    );
  },
);

t.test('nothing of an event that is not whole has left', async (t) => {
  const event = 'data: {"model":"m","choices":[]}\n';
  const { output } = feed(
    openChat,
    [Buffer.from(event.slice(0, 12)), Buffer.from(event.slice(12))],
    () => true,
  );
  t.equal(output, COMMENT.repeat(2));
});
