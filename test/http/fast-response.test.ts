import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import t, { type Test } from 'tap';
import { FastResponse } from '../../src/http/fast-response.ts';
import { FramedStream, STREAM_BUFFER, streamBuffers } from '../../src/http/framed-stream.ts';
import { until } from '../support/until.ts';

/** What requests get on a connection of their own, and whether it is closed then: if not, one more is answered. */
async function exchange(t: Test, answer: (res: ServerResponse) => void, request: string) {
  const server = createServer(
    { ServerResponse: FastResponse, keepAliveTimeout: 75_000 } as object,
    (_req, res) => answer(res),
  );
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  t.teardown(() => server.closeAllConnections());
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk;
  });
  let closed = false;
  socket.on('error', () => {}); // one more request may come too late
  socket.on('close', () => {
    closed = true;
  });
  socket.write(request);
  const asked = request.split('GET ').length - 1;
  const answered = () => text.split(BODY).length - 1;
  await until(() => closed || answered() === asked, 'the answers');
  if (!closed) socket.write(`${GET}\r\n`);
  await until(() => closed || answered() > asked, 'one more answer, or the end of the connection');
  socket.destroy();
  server.close();
  return {
    text: text.replaceAll(/date: [^\r]+ GMT/gi, 'date: now').replaceAll(/^0+(?=[\da-f]+\r$)/gm, ''),
    closed,
  };
}

const KEPT_BY_NO_CACHE = ['cache-control', 'no-store'];
const BODY = '{"name":"\xe4"}';
const HEAD = [
  'content-type',
  'application/json',
  'content-length',
  `${BODY.length}`,
  'x-request-id',
  'id-1',
];
const GET = 'GET / HTTP/1.1\r\nhost: x\r\n';

const CASES: Record<string, [request: string, leaving?: boolean]> = {
  'kept alive': [`${GET}\r\n`],
  'two in a row': [`${GET}\r\n${GET}\r\n`],
  'closed by the client': [`${GET}connection: close\r\n\r\n`],
  'closed by the server': [`${GET}\r\n`, true],
  'HTTP/1.0': ['GET / HTTP/1.0\r\n\r\n'],
  'HTTP/1.0, kept alive': ['GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n'],
};

/** What both ways to answer send in each of the cases. */
async function compare(
  t: Test,
  ours: (res: FastResponse) => void,
  node: (res: ServerResponse) => void,
) {
  for (const [name, [request, leaving = false]] of Object.entries(CASES)) {
    const [answered, expected] = await Promise.all(
      [ours, node].map((answer) => {
        const leave = (res: ServerResponse) => {
          if (leaving) res.shouldKeepAlive = false;
          answer(res as FastResponse);
        };
        return exchange(t, leave, request);
      }),
    );
    t.match(expected?.text, /^HTTP\/1\.1 [24]\d\d \w+/);
    t.strictSame(answered, expected, name);
  }
}

t.test("a whole answer is to the byte what Node's own head would make it", async (t) => {
  for (const status of [200, 404]) {
    for (const body of [BODY, Buffer.from(BODY, 'latin1')]) {
      await compare(
        t,
        (res) => res.send(status, HEAD, body),
        (res) => res.writeHead(status, [...KEPT_BY_NO_CACHE, ...HEAD]).end(BODY, 'latin1'),
      );
    }
  }
});

t.test('what a large read brings leaves in one piece, what small ones bring in small ones', (t) => {
  const written: Buffer[] = [];
  const socket = { writableLength: 0, write: (bytes: Buffer) => written.push(Buffer.from(bytes)) };
  const pool = streamBuffers();
  const res = { headersSent: true, writableLength: 0, socket, endStream() {} };
  const sizes = (...spans: [buffer: Buffer, start: number, end: number][]): number[] => {
    written.length = 0;
    const stream = new FramedStream(res as never, [], pool, () => {});
    for (const [buffer, start, end] of spans) stream.add(buffer, start, end);
    stream.flush();
    const text = `${Buffer.concat(written)}`.replaceAll(/[\da-f]{7}\r\n|\r\n/g, '');
    const sent = spans.map(([buffer, start, end]) => `${buffer.subarray(start, end)}`).join('');
    t.ok(text === sent, 'byte for byte');
    return written.map(({ length }) => length);
  };
  const [read, largeRead] = [Buffer.alloc(16_384, 'r'), Buffer.alloc(65_536, 'l')];
  const own = Buffer.from('brand');
  t.equal(sizes([largeRead, 0, 30_000], [own, 0, 5], [largeRead, 30_010, 65_536]).length, 1);
  t.equal(sizes([read, 0, 16_384]).length, 1);
  t.equal(sizes([read, 0, 16_384], [own, 0, 5], [read, 0, 16_384]).length, 2, 'though both grew');
  const cut = Buffer.alloc(21_800, 'z'); // the memory of an event that two reads cut
  t.same(sizes([cut, 0, 11_000]), [11_011]);
  t.equal(pool.take().length, STREAM_BUFFER, 'in a small one');
  t.ok(sizes([Buffer.alloc(200_000, 'x'), 0, 200_000]).every((length) => length <= 69_632));
  t.end();
});

t.test("so is a streamed answer, but for zeros before a chunk's length", async (t) => {
  const bytes = Buffer.from(BODY, 'latin1');
  const head = ['content-type', 'text/event-stream'];
  await compare(
    t,
    (res) => {
      res.buffers = streamBuffers();
      const stream = res.openStream(head, () => {});
      stream.add(bytes, 0, bytes.length);
      stream.flush();
      stream.end();
    },
    (res) => {
      res.writeHead(200, [...KEPT_BY_NO_CACHE, ...head]).write(bytes);
      res.end();
    },
  );
});
