import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';

/** HTTP byte by byte, for requests and answers that no library would send. */

export interface RawAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
  /** Everything that came. */
  readonly text: string;
}

/** When `speak` has heard enough. */
export interface Patience {
  /** Whole answers to wait for; interim ones (1xx) do not count. Default 1. */
  readonly answers?: number;
  /** Milliseconds without a byte after which nothing more is expected. Default 5000. */
  readonly quietMs?: number;
}

/** Sends bytes piece by piece, and reads until the answers are whole, the connection closes or nothing comes. */
export async function speak(
  url: string,
  pieces: readonly (string | Buffer)[],
  { answers = 1, quietMs = 5000 }: Patience = {},
): Promise<RawAnswer> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname).setTimeout(quietMs);
  const over = once(socket, 'close');
  let text = '';
  socket.on('data', (chunk: Buffer) => {
    text += chunk.toString('latin1');
    if (wholeAnswers(text) >= answers) socket.destroy();
  });
  socket.on('error', () => {});
  socket.on('timeout', () => socket.destroy());
  await Promise.race([once(socket, 'connect'), over]);
  for (const [n, piece] of pieces.entries()) {
    if (n > 0) await sleep(5); // paced: each piece is to arrive by itself
    if (socket.destroyed) break;
    socket.write(piece);
  }
  await over;
  return parseAnswer(text);
}

/** How many final answers a text holds, each with all of its body. */
function wholeAnswers(text: string): number {
  let count = 0;
  for (let at = 0; ; ) {
    const end = text.indexOf('\r\n\r\n', at) + 4;
    if (end < 4) return count;
    const head = text.slice(at, end);
    const length = /^content-length: (\d+)/im.exec(head)?.[1];
    if (/^HTTP\/1\.1 1/.test(head)) at = end;
    else if (length !== undefined) at = end + Number(length);
    else if (/^transfer-encoding: chunked/im.test(head)) at = text.indexOf('0\r\n\r\n', end) + 5;
    else return count; // such a body ends with the connection
    if (at > text.length || at < end) return count;
    if (!/^HTTP\/1\.1 1/.test(head)) count += 1;
  }
}

export function parseAnswer(text: string): RawAnswer {
  const end = text.indexOf('\r\n\r\n');
  const [statusLine = '', ...lines] = text.slice(0, end < 0 ? undefined : end).split('\r\n');
  const headers = new Map(
    lines.map((line) => [
      line.slice(0, line.indexOf(':')).toLowerCase(),
      line.slice(line.indexOf(':') + 1).trim(),
    ]),
  );
  return {
    status: Number(statusLine.split(' ')[1] ?? 0),
    headers,
    body: end < 0 ? '' : text.slice(end + 4),
    text,
  };
}

export interface RawUpstream {
  /** Base address, ending in /v1. */
  readonly url: string;
  /** Whole requests, in the order they arrived. */
  readonly received: string[];
  /** Sets what to do with each request from now on. */
  answer(script: (socket: Socket, request: string) => void): void;
}

/** An upstream that writes to its socket whatever a test says. A connection carries one request at a time. */
export async function rawUpstream(t: Test): Promise<RawUpstream> {
  const received: string[] = [];
  const sockets = new Set<Socket>();
  let script: (socket: Socket, request: string) => void = (socket) => socket.destroy();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
    socket.on('error', () => {});
    let text = '';
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      const end = text.indexOf('\r\n\r\n');
      if (end < 0) return;
      const length = Number(/content-length: (\d+)/i.exec(text)?.[1] ?? 0);
      if (text.length < end + 4 + length) return;
      const request = text;
      text = '';
      received.push(request);
      script(socket, request);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  t.teardown(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    received,
    answer: (next) => {
      script = next;
    },
  };
}

/** An HTTP/1.1 answer with a content-length. */
export function httpAnswer(
  status: number,
  type: string,
  body: string | Buffer,
  more: readonly string[] = [],
): Buffer {
  const bytes = Buffer.from(body as string);
  const head = [
    `HTTP/1.1 ${status} Whatever`,
    `content-type: ${type}`,
    `content-length: ${bytes.length}`,
    ...more,
  ];
  return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), bytes]);
}

/** The head of a chunked event stream, and its chunks. */
export const STREAM_HEAD =
  'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n';
export function chunk(text: string): string {
  return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
}
