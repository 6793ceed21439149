import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import t, { type Test } from 'tap';
import { attach, FAST_PARTS, type FastPart, messageClasses } from '../../src/http/attach.ts';
import type { ClientRequest, ClientResponse } from '../../src/http/exchange.ts';
import { createServer } from '../../src/runtime/node-http.ts';
import { until } from '../support/until.ts';

/** A request whose body has arrived, for the test to answer. */
interface Arrived {
  readonly text: string;
  readonly res: ClientResponse;
  closed: boolean;
}

const MARK = '~';
const HEAD = 'POST /x HTTP/1.1\r\nhost: x\r\n';
const post = (body: string, head = HEAD) => `${head}content-length: ${body.length}\r\n\r\n${body}`;
const LARGE = 'l'.repeat(100_000);

/** What is sent before the sending side is closed, by name: earlier requests, which are answered, and the last ones. */
const WAYS: Record<string, { earlier?: string[]; sent: string[]; requests?: number }> = {
  'the first request': { sent: [post('one')] },
  'a repeated request': { earlier: [post('a'), post('b')], sent: [post('one')] },
  'a repeated request in pieces': {
    earlier: [post('a'), post('b')],
    sent: [post('one').slice(0, -2), 'ne'],
  },
  'a large body': { sent: [post(LARGE)] },
  'a large body of a repeated request': { earlier: [post('a'), post('b')], sent: [post(LARGE)] },
  'a body in chunks': {
    sent: [`${HEAD}transfer-encoding: chunked\r\n\r\n2\r\non\r\n`, '1\r\ne\r\n0\r\n\r\n'],
  },
  'no body': { sent: ['GET /x HTTP/1.1\r\nhost: x\r\n\r\n'] },
  'two requests at once': { sent: [post('one') + post('two')], requests: 2 },
  'two behind repeated ones': {
    earlier: [post('a'), post('b')],
    sent: [post('one') + post('two')],
    requests: 2,
  },
  'one behind a repeated one': {
    earlier: [post('a'), post('b')],
    sent: [post('one'), post('two')],
    requests: 2,
  },
  'HTTP/1.0': { sent: [post('one', 'POST /x HTTP/1.0\r\nhost: x\r\n')] },
};

async function serve(t: Test, parts: ReadonlySet<FastPart>) {
  const arrived: Arrived[] = [];
  const server = createServer({
    ...messageClasses(parts),
    requireHostHeader: false,
    keepAliveTimeout: 75_000,
  });
  const handler = (req: ClientRequest, res: ClientResponse): void => {
    const pieces: Buffer[] = [];
    const onPiece = (piece: Buffer): boolean => pieces.push(Buffer.from(piece)) > 0;
    const onWhole = (): void => {
      const one: Arrived = { text: `${Buffer.concat(pieces)}`.slice(0, 10), res, closed: false };
      const onClose = (): void => {
        one.closed = true;
      };
      res.listen({ onStream() {}, onSent() {}, onClose, onThrown() {} });
      arrived.push(one);
    };
    const body = req.takeBody();
    if (body === null)
      return req.readBody({
        onPiece,
        onFilled: () => true,
        room: () => null,
        onWhole,
        onThrown() {},
      });
    onPiece(body);
    onWhole();
  };
  attach(server, { handler, parts, secure: false });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    server.closeAllConnections();
    server.close();
  });
  return { arrived, port: (server.address() as AddressInfo).port };
}

/** A connection that may close its sending side alone, and all that came over it. */
async function open(t: Test, port: number) {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true, noDelay: true });
  t.teardown(() => socket.destroy());
  const heard = { socket, text: '', ended: false, error: null as Error | null };
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    heard.text += chunk;
  });
  socket.on('end', () => {
    heard.ended = true;
  });
  socket.on('error', (error) => {
    heard.error = error;
  });
  await once(socket, 'connect');
  return heard;
}

type Heard = Awaited<ReturnType<typeof open>>;

const TYPE = ['content-type', 'text/plain'];

function sendWhole({ res, text }: Arrived): void {
  const body = `${text}${MARK}`;
  res.send(200, [...TYPE, 'content-length', `${body.length}`], body);
}

/** Sends the answers to some requests, each after a silence if the client is probed meanwhile. */
const ANSWERS: Record<string, (one: Arrived, silence: () => Promise<unknown>) => Promise<void>> = {
  'at once': async (one) => sendWhole(one),
  'after a silence': async (one, silence) => {
    await silence();
    sendWhole(one);
  },
  'as a stream with silences': async ({ res, text }, silence) => {
    await silence();
    const stream = res.openStream(TYPE, () => {});
    for (const piece of [text, `more${MARK}`]) {
      stream.add(Buffer.from(piece), 0, piece.length);
      stream.flush();
      if (piece === text) await silence();
    }
    stream.end();
  },
};

/** Sends the earlier requests, each answered before the next, then the last ones. */
async function send(
  heard: Heard,
  arrived: Arrived[],
  way: (typeof WAYS)[string],
  closes: boolean,
): Promise<void> {
  for (const request of way.earlier ?? []) {
    const { length } = arrived;
    heard.socket.write(request);
    await until(() => arrived.length > length, 'an earlier request arrives');
    sendWhole(arrived[length] as Arrived);
    await until(() => arrived[length]?.closed && heard.text.endsWith(MARK), 'its answer');
  }
  heard.text = '';
  for (const piece of way.sent) await new Promise((resolve) => heard.socket.write(piece, resolve));
  if (closes) heard.socket.end();
}

/** An answer without what may differ: date, whether the connection stays open, zeros before the length of a chunk. */
function plain(text: string): string {
  return text
    .replaceAll(/(date|connection|keep-alive): [^\r]+\r\n/gi, '')
    .replaceAll(/^0+(?=[\da-f]+\r$)/gm, '');
}

for (const [path, parts] of Object.entries({
  fast: Object.keys(FAST_PARTS) as FastPart[],
  plain: [],
})) {
  for (const [name, way] of Object.entries(WAYS)) {
    t.test(`${name}: who closes the sending side behind it is answered (${path})`, async (t) => {
      const { port, arrived } = await serve(t, new Set(parts));
      for (const [when, give] of Object.entries(ANSWERS)) {
        const answersTo = async (closes: boolean): Promise<Heard> => {
          const heard = await open(t, port);
          const first = arrived.length + (way.earlier?.length ?? 0);
          await send(heard, arrived, way, closes);
          for (let n = 0; n < (way.requests ?? 1); n++) {
            await until(() => arrived.length > first + n, 'a request arrives');
            const one = arrived[first + n] as Arrived;
            await give(one, async () => {
              if (!closes || (name === 'HTTP/1.0' && one.res.headersSent)) return; // its streams have no chunks
              await until(
                () => (one.res.headersSent ? /\r\n0+$/ : /HTT?$/).test(heard.text),
                'a probe',
              );
            });
            await until(() => arrived[first + n]?.closed, 'the answer is out');
          }
          return heard;
        };
        const open_ = await answersTo(false);
        const closed = await answersTo(true);
        await until(() => closed.ended, 'the server closes its side');
        await until(
          () => plain(open_.text) === plain(closed.text),
          `the same answers, ${when}: ${closed.text}`,
        );
        t.equal(closed.error, null);
        t.match(closed.text, MARK);
        open_.socket.destroy();
      }
    });

    t.test(`${name}: who leaves behind it is noticed (${path})`, async (t) => {
      const { port, arrived } = await serve(t, new Set(parts));
      for (const streamed of [false, true]) {
        if (streamed && name === 'HTTP/1.0') continue; // noticed by its next bytes, as it has no chunks
        const heard = await open(t, port);
        const first = arrived.length + (way.earlier?.length ?? 0);
        await send(heard, arrived, way, false);
        await until(() => arrived.length > first, 'the request arrives');
        if (streamed) {
          const stream = arrived[first]?.res.openStream(TYPE, () => {});
          stream?.add(Buffer.from(MARK), 0, 1);
          stream?.flush();
          await until(() => heard.text.includes(MARK), 'the stream begins');
        }
        heard.socket.destroy();
        await until(
          () => arrived.slice(first).every(({ closed }) => closed),
          `noticed, streamed: ${streamed}`,
        );
        t.ok(arrived[first]?.res.destroyed);
      }
    });
  }
}
