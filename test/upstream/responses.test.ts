import { request } from 'node:http';
import { Duplex } from 'node:stream';
import t from 'tap';
import { answers, eachTwist, type GeneratedAnswer } from './responses.ts';

t.test('the same seed makes the same answers, another one others', async (t) => {
  t.strictSame([...answers(7, 200)], [...answers(7, 200)]);
  t.notSame([...answers(7, 20)], [...answers(8, 20)]);
});

/** Where Node's reader is another opinion: what it takes though it should not, and what it refuses. */
const LAX = /^(chunked twice|switching protocols|wrong version|transfer coding badly written)/;
const STRICT = /^bytes behind the end/;
const BLIND = /transfer-encoding: \tchunked|\r\n(content-length: 3|transfer-encoding: gzip)\r\n/; // tabs, framing in trailers

t.test("Node's own reader takes what is as it should be for what it is said to be", async (t) => {
  for (const answer of [...answers(1, 1500), ...eachTwist(2, 10)]) {
    if (answer.expected === 'malformed' || answer.alsoAllowed.includes('malformed')) continue;
    if (STRICT.test(answer.what) || BLIND.test(answer.bytes.toString('latin1'))) continue;
    const { status, body } = answer.expected;
    const read = await readByNode(answer.bytes);
    const expected = { status, body: body.toString('latin1'), headers: answer.headers };
    if (JSON.stringify(read) !== JSON.stringify(expected))
      t.strictSame(read, expected, shown(answer));
  }
});

t.test('and refuses what is malformed', async (t) => {
  for (const answer of [...answers(3, 500), ...eachTwist(4, 40)]) {
    if (answer.expected !== 'malformed' || answer.alsoAllowed.length > 0) continue;
    if (LAX.test(answer.what) || BLIND.test(answer.bytes.toString('latin1'))) continue;
    const read = await readByNode(answer.bytes);
    if (read !== 'malformed') t.fail(shown(answer));
  }
});

const shown = ({ what, bytes }: GeneratedAnswer): string =>
  `${what}: ${JSON.stringify(bytes.toString('latin1'))}`;

type Read =
  | { status: number | undefined; body: string; headers: readonly (readonly [string, string])[] }
  | 'malformed';

/** A POST over a connection that brings these bytes and then its end. */
async function readByNode(bytes: Buffer): Promise<Read> {
  const connection = new Duplex({
    read() {},
    write: (_chunk, _encoding, done) => done(),
  });
  return new Promise((resolve) => {
    const call = request({
      method: 'POST',
      host: 'upstream',
      createConnection: () => connection as never,
    });
    call.on('error', () => resolve('malformed'));
    call.on('upgrade', () => resolve('malformed'));
    call.on('response', (response) => {
      const { statusCode: status, rawHeaders } = response;
      const headers = rawHeaders.flatMap((name, n) =>
        n % 2 ? [] : [[name.toLowerCase(), rawHeaders[n + 1] ?? ''] as const],
      );
      const chunks: Buffer[] = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('error', () => resolve('malformed'));
      response.on('end', () =>
        resolve({ status, body: Buffer.concat(chunks).toString('latin1'), headers }),
      );
    });
    call.end(() => {
      connection.push(bytes);
      connection.push(null);
    });
  });
}
