import { once } from 'node:events';
import { type AddressInfo, connect } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { createServer } from '../runtime/node-http.ts';
import { Patience } from '../runtime/patience.ts';
import { attach, FAST_PARTS, type FastPart, type FastParts, messageClasses } from './attach.ts';
import type { ClientRequest, ClientResponse } from './exchange.ts';

/** Longer than any start. */
const IDLE_MS = 600_000;
/** How often the script is begun where its answers stop coming, before that is taken for a result. */
const TRIES = 2;
/** The most bytes of a large body that are read at once, in bytes. */
const ROOM = 20_000;
/** Ends every answer of the check. */
const MARK = '~';

/** The parts of the fast path that work on this Node. */
interface CheckedParts {
  readonly parts: FastParts;
  /** The parts that do not work. */
  readonly failed: readonly FastPart[];
  /** What was thrown during the check; empty where no part failed. */
  readonly errors: readonly unknown[];
  /** Plain node:http did not answer either: the machine was too busy, and nothing is known of the parts. */
  readonly isBusy: boolean;
}

/**
 * Compares the fast path with plain node:http over a loopback connection, byte for byte. Where they differ, it
 * looks for the one part without which they agree, and switches that off; else all parts. So a new Node may make
 * the gateway slower, but not wrong. Takes some 10 ms, and on a busy machine as long as it needs.
 */
export async function checkFastParts(
  names = Object.keys(FAST_PARTS) as FastPart[],
): Promise<CheckedParts> {
  const expected = await transcript(new Set()).catch((error: Error) => error);
  // without a loopback interface nothing can be tried
  if (expected instanceof Error)
    return { parts: new Set(), failed: names, errors: [expected], isBusy: false };
  if (expected === null) return { parts: new Set(), failed: [], errors: [], isBusy: true };
  const errors: unknown[] = [];
  const onError = (error: unknown): void => void errors.push(error);
  const works = async (parts: FastParts): Promise<boolean> =>
    (await transcript(parts).catch(onError)) === expected;
  process.on('uncaughtException', onError); // a changed internal may throw anywhere below Node's own code
  try {
    const all = new Set(names);
    if (await works(all)) {
      for (const error of errors)
        queueMicrotask(() => {
          throw error;
        }); // something else threw these
      return { parts: all, failed: [], errors: [], isBusy: false };
    }
    for (const failed of names.toReversed()) {
      const parts = new Set(names.filter((name) => name !== failed));
      if (await works(parts)) return { parts, failed: [failed], errors, isBusy: false };
    }
    return { parts: new Set(), failed: names, errors, isBusy: false };
  } finally {
    process.off('uncaughtException', onError);
  }
}

/** What a server answers to the script; null where its answers stopped coming each time. */
async function transcript(parts: FastParts): Promise<string | null> {
  for (let tries = 1; ; tries++) {
    const text = await play(parts);
    if (text !== null || tries === TRIES) return text;
  }
}

/** All that a server answers to the script on one connection, without the time of day; null where it stops answering. */
async function play(parts: FastParts): Promise<string | null> {
  const server = createServer({
    requireHostHeader: false,
    ...messageClasses(parts),
    keepAliveTimeout: IDLE_MS,
  });
  attach(server, { handler: answer, parts, secure: false });
  // exclusive: a process manager with node:cluster would take this port as the sign that the gateway serves
  server.listen({ port: 0, host: '127.0.0.1', exclusive: true });
  await once(server, 'listening');
  const socket = connect({
    port: (server.address() as AddressInfo).port,
    host: '127.0.0.1',
    noDelay: true,
  });
  const patience = new Patience(() => socket.destroy());
  const script = requestScript();
  const sendNext = async (): Promise<void> => {
    for (const piece of script.shift() ?? []) {
      socket.write(piece, 'latin1');
      await setImmediate(); // so that the pieces are read one by one
    }
  };
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk;
    patience.progress();
    if (chunk.includes(MARK)) void sendNext();
  });
  socket.on('error', ({ message }) => {
    text += message;
  });
  void sendNext();
  try {
    await once(socket, 'close');
  } finally {
    patience.end();
    server.close();
    server.closeAllConnections();
  }
  if (patience.isOver) return null;
  // the length of a chunk may be written with zeros before it
  return text.replaceAll(/date: [^\r]+/gi, '').replaceAll(/^0+(?=[\da-f]+\r$)/gm, '');
}

/** Answers with what it understood of the request, in each of the ways in which the gateway answers. */
function answer(req: ClientRequest, res: ClientResponse): void {
  const { method, url, head } = req;
  const pieces: Buffer[] = [];
  const onWhole = (): void => {
    const body = Buffer.concat(pieces);
    const text = `${method} ${url} ${head.bearer} ${body.length} ${body.toString('latin1', 0, 8)}${MARK}`;
    if (url !== '/stream')
      res.send(url === '/json' ? 200 : 404, ['content-length', `${text.length}`], text);
    else {
      const stream = res.openStream(['content-type', 'text/event-stream'], () => {});
      stream.add(body, 0, Math.min(body.length, 8));
      stream.flush();
      stream.add(Buffer.from(text), 0, text.length);
      stream.end();
    }
  };
  const body = req.takeBody();
  if (body === null) {
    const room = Buffer.alloc(ROOM);
    const onPiece = (piece: Buffer): boolean => pieces.push(Buffer.from(piece)) > 0;
    const onFilled = (bytes: number): boolean => onPiece(room.subarray(0, bytes));
    const onThrown = (): void => res.destroy();
    const roomFor = (most: number): Buffer => room.subarray(0, most);
    return req.readBody({ onPiece, onFilled, room: roomFor, onWhole, onThrown });
  }
  pieces.push(body);
  onWhole();
}

function request(path: string, body: string, token = 'a', more = ''): string {
  const length = `content-length: ${body.length}\r\n`;
  return `POST ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n${more}${length}\r\n${body}`;
}

/**
 * The pieces of each request: small and large bodies, whole and in parts; from the tab on they are for Node's parser. Made for
 * each transcript: kept, they would be 0.3 MB that nothing needs after the start.
 */
function requestScript(): string[][] {
  const large = 'x'.repeat(100_000);
  return [
    [request('/json', 'one')],
    [request('/json', 'two')],
    [request('/json', 'three', 'other')],
    [request('/json', 'four').slice(0, -2), 'ur'],
    [request('/json', large)],
    [request('/json', large, 'a', 'x-other: 1\r\n')],
    [request('/json', 'five')],
    [request('/stream', 'seven')],
    [request('/stream', 'eight')],
    [request('/stream', large.slice(0, 60_000))],
    [request('/error', 'nine')],
    [request('/error', 'ten')],
    [request('/json', large, 'a', 'x-other:\t1\r\n')],
    [request('/stream', 'twelve')],
    [request('/json', 'last', 'a', 'connection: close\r\n')],
  ];
}
