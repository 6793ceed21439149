import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import type { Test } from 'tap';
import type {
  AnswerHead,
  Upstream,
  UpstreamCall,
  UpstreamHandler,
  UpstreamOptions,
  UpstreamRequest,
} from '../../src/upstream/upstream.ts';

/** A call that keeps everything its handler gets. */
export class Call implements UpstreamHandler {
  call: UpstreamCall | null = null;
  isOptional = false;
  status = 0;
  type: string | undefined;
  text = '';
  /** How often its connection was closed before the other side had the request. */
  stale = 0;
  readonly ended: Promise<string>;
  /** Resolves with the head of the answer. */
  readonly headed: Promise<void>;
  readonly #wanted: boolean;
  #onHead!: () => void;
  #resolve!: (text: string) => void;
  #reject!: (error: Error) => void;

  constructor(wanted = true) {
    this.#wanted = wanted;
    this.headed = new Promise((resolve) => {
      this.#onHead = resolve;
    });
    this.ended = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.ended.catch(() => {});
  }

  onConnected(call: UpstreamCall): boolean {
    if (this.#wanted) this.call = call;
    return this.#wanted;
  }

  onStale(): boolean {
    this.stale++;
    return true;
  }

  onHead(head: AnswerHead): void {
    this.status = head.status;
    this.type = head.contentType;
    this.#onHead();
  }

  onData(bytes: Buffer): void {
    this.text += bytes.toString('latin1');
  }

  onEnd(): void {
    this.#resolve(this.text);
  }

  onError(error: Error): void {
    this.#reject(error);
  }

  onThrown(error: unknown): void {
    this.#reject(new Error('thrown', { cause: error }));
  }
}

export function post(upstream: Upstream, body: readonly Buffer[] = [Buffer.from('{}')]): Call {
  const call = new Call();
  send(upstream, call, { body });
  return call;
}

/** Posts for a call, with what else the request has. */
export function send(upstream: Upstream, call: Call, more: Partial<UpstreamRequest>): void {
  upstream.post({
    path: '/x',
    requestId: 'id',
    body: [],
    handler: call,
    onSent: null,
    headers: [],
    ...more,
  });
}

export interface Served<U extends Upstream> {
  readonly upstream: U;
  readonly server: Server;
  /** As they were opened. */
  readonly sockets: Socket[];
  /** Whole requests. */
  readonly requests: string[];
}

/** A pool and its server, which reads whole requests and lets `answer` write to the socket. */
export async function serve<U extends Upstream>(
  t: Test,
  open: (options: UpstreamOptions) => U,
  answer: (socket: Socket) => void,
  { path = '/v1', apiKey = null as string | null, idleMs = 30_000 } = {},
): Promise<Served<U>> {
  const sockets: Socket[] = [];
  const requests: string[] = [];
  const server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    const chunks: Buffer[] = [];
    let size = 0;
    let due = -1;
    socket.on('data', (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      if (due < 0) {
        const text = Buffer.concat(chunks).toString('latin1');
        const end = text.indexOf('\r\n\r\n');
        if (end >= 0) due = end + 4 + Number(/content-length: (\d+)/.exec(text)?.[1]);
      }
      if (due < 0 || size < due) return;
      requests.push(Buffer.concat(chunks).toString('latin1'));
      chunks.length = 0;
      size = 0;
      due = -1;
      answer(socket);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const upstream = open({
    urls: [new URL(`http://127.0.0.1:${port}${path}`)],
    apiKey,
    idleMs,
    connectMs: 2000,
  });
  t.teardown(() => {
    upstream.destroy();
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { upstream, server, sockets, requests };
}
