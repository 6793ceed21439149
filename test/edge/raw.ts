import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Test } from 'tap';

/** HTTP by the byte, for what no client library would say. */

export interface RawAnswer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: ReadonlyMap<string, string>;
  readonly body: string;
  /** All that came. */
  readonly text: string;
}

/** Sends bytes, piece by piece, and reads until the connection closes or falls silent for `quietMs`. */
export async function speak(url: string, pieces: readonly (string | Buffer)[], quietMs = 400): Promise<RawAnswer> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  const chunks: Buffer[] = [];
  let heard = performance.now();
  let open = true;
  socket.on('data', (chunk: Buffer) => {
    chunks.push(chunk);
    heard = performance.now();
  });
  socket.on('error', () => {});
  socket.on('close', () => {
    open = false;
  });
  await once(socket, 'connect');
  for (const piece of pieces) {
    if (!open) break;
    socket.write(piece);
    await sleep(5);
  }
  heard = performance.now();
  while (open && (performance.now() - heard < quietMs || (chunks.length === 0 && performance.now() - heard < 5000))) {
    await sleep(10);
  }
  socket.destroy();
  return parseAnswer(Buffer.concat(chunks).toString('latin1'));
}

export function parseAnswer(text: string): RawAnswer {
  const end = text.indexOf('\r\n\r\n');
  const [statusLine = '', ...lines] = text.slice(0, end < 0 ? undefined : end).split('\r\n');
  const headers = new Map(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  );
  return { status: Number(statusLine.split(' ')[1] ?? 0), headers, body: end < 0 ? '' : text.slice(end + 4), text };
}

export interface RawUpstream {
  /** Base address, ending in /v1. */
  readonly url: string;
  /** Requests as they arrived, whole. */
  readonly received: string[];
  /** What to do with a request that has arrived, from now on. */
  answer(script: (socket: Socket, request: string) => void): void;
}

/** An upstream that writes bytes to its socket as a test says. Each connection has one request at a time. */
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
export function httpAnswer(status: number, type: string, body: string | Buffer, more: readonly string[] = []): Buffer {
  const bytes = Buffer.from(body as string);
  const head = [`HTTP/1.1 ${status} Whatever`, `content-type: ${type}`, `content-length: ${bytes.length}`, ...more];
  return Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), bytes]);
}

/** The head of a chunked event stream, and its chunks. */
export const STREAM_HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n';
export function chunk(text: string): string {
  return `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`;
}
