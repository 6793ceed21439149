import t from 'tap';
import { ResponseReader } from '../../src/upstream/response-reader.ts';
import { fuzzRuns } from '../support/fuzz.ts';
import { answers, eachTwist, type GeneratedAnswer, type Outcome } from './responses.ts';

const RUNS = fuzzRuns(2000);
const SEED =
  process.env.FUZZ_RUNS === undefined
    ? 11
    : Number(process.env.FUZZ_SEED ?? Date.now() & 0x7fffffff);

/** What may stand before and behind a read in the buffer that connections share. */
const FOREIGN = Buffer.from(
  '\r\n\r\n0\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\nforeign\n',
);

t.test('an answer is what RFC 9112 makes of it, however it is cut into reads', async (t) => {
  t.comment(`FUZZ_SEED=${SEED} FUZZ_RUNS=${RUNS}`);
  const reader = new ResponseReader();
  let wrong = 0;
  for (const answer of [...answers(SEED, RUNS), ...eachTwist(SEED + 1, Math.ceil(RUNS / 50))]) {
    for (const cuts of [[], everyByte(answer.bytes), ...someCuts(answer.bytes)]) {
      const read = readCut(reader, answer.bytes, cuts);
      const allowed = [answer.expected, ...answer.alsoAllowed];
      if (allowed.some((outcome) => isSame(read, outcome))) continue;
      if (++wrong <= 20) t.fail(`${shown(answer)} cut at ${cuts}: ${JSON.stringify(read)}`);
      break;
    }
  }
  t.equal(wrong, 0);
});

t.test('what the gateway wants to know of the head', async (t) => {
  const reader = new ResponseReader();
  const head = (...lines: string[]): void => {
    reader.reset();
    const bytes = Buffer.from(
      `HTTP/1.1 200 OK\r\n${lines.join('\r\n')}\r\ncontent-length: 2\r\n\r\n`,
    );
    reader.read(bytes, 0, bytes.length);
  };
  head(
    'Content-Type:\ttext/plain ',
    'CONTENT-ENCODING: gzip',
    'retry-after: 3',
    'Keep-Alive: timeout=5, max=100',
  );
  t.match(reader, {
    hasHead: true,
    contentType: 'text/plain',
    contentEncoding: 'gzip',
    retryAfter: '3',
  });
  t.match(reader, { keepAliveSeconds: 5, reusable: true, state: 'open' });
  head('x-content-type: a', 'content-typf: b', 'xontent-type: c');
  t.match(reader, { contentType: undefined, keepAliveSeconds: Number.POSITIVE_INFINITY });
  head('connection: x-close, keep-alive');
  t.ok(reader.reusable);
  head('connection: keep-alive , Close');
  t.notOk(reader.reusable);
});

t.test('what an interim answer says holds for itself alone', async (t) => {
  const reader = new ResponseReader();
  const bytes = Buffer.from(
    'HTTP/1.1 103 Early\r\nconnection: close\r\nretry-after: 9\r\ncontent-length: 5\r\n\r\nHTTP/1.1 204 No\r\n\r\n',
  );
  reader.read(bytes, 0, bytes.length);
  t.match(reader, { state: 'done', status: 204, retryAfter: undefined, reusable: true });
});

t.test('heads and trailers have a limit', async (t) => {
  const reader = new ResponseReader();
  const large = `x: ${'y'.repeat(300)}\r\n`.repeat(60);
  for (const text of [
    `HTTP/1.1 200 OK\r\n${large}\r\n`,
    `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n0\r\n${large}\r\n`,
    `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5;${'e'.repeat(20_000)}`,
  ]) {
    for (const size of [64, text.length]) {
      reader.reset();
      for (let at = 0; at < text.length; at += size) {
        const bytes = Buffer.from(text.slice(at, at + size));
        reader.read(bytes, 0, bytes.length);
      }
      t.match(reader, { state: 'broken', reason: 'a head larger than allowed' });
    }
  }
});

/** All the reader makes of the bytes; each read stands amid others' bytes, as it does in a buffer that connections share. */
function readCut(
  reader: ResponseReader,
  bytes: Buffer,
  cuts: readonly number[],
): Outcome | 'malformed' {
  reader.reset();
  const body: Buffer[] = [];
  let from = 0;
  for (const to of [...cuts, bytes.length]) {
    const shared = Buffer.concat([FOREIGN, bytes.subarray(from, to), FOREIGN]);
    reader.read(shared, FOREIGN.length, FOREIGN.length + to - from);
    body.push(Buffer.from(shared.subarray(reader.bodyStart, reader.bodyEnd)));
    from = to;
  }
  const { reusable } = reader;
  reader.close();
  if (reader.state !== 'done') return 'malformed';
  return { status: reader.status, body: Buffer.concat(body), reusable };
}

function isSame(read: Outcome | 'malformed', outcome: Outcome | 'malformed'): boolean {
  if (read === 'malformed' || outcome === 'malformed') return read === outcome;
  return (
    read.status === outcome.status &&
    read.reusable === outcome.reusable &&
    read.body.equals(outcome.body)
  );
}

function everyByte(bytes: Buffer): number[] {
  return Array.from(bytes.subarray(1), (_, k) => k + 1);
}

/** One cut at each of some places. */
function someCuts(bytes: Buffer): number[][] {
  const step = Math.max(1, bytes.length >> 4);
  return Array.from({ length: Math.floor(bytes.length / step) }, (_, k) => [k * step]);
}

function shown({ what, bytes }: GeneratedAnswer): string {
  return `${what}: ${JSON.stringify(bytes.toString('latin1'))}`;
}
