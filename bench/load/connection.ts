import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import type { Tally } from './tally.ts';

const STATE = {
  idle: 0,
  head: 1,
  line: 2, // of a chunked body: a chunk's size, the end of its data, a trailer
  body: 3, // `left` bytes to come
  untilClose: 4,
} as const;
type State = (typeof STATE)[keyof typeof STATE];

const LF = 10;
const TAIL_BYTES = 20; // enough to find [DONE] at the end of a stream
const ERROR_EVENT = Buffer.from('data: {"error"');

/** A service to put load on. */
export interface Address {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  readonly basePath: string;
}

/** @throws TypeError when the text is no http or https address */
export function parseAddress(baseUrl: string): Address {
  const url = new URL(baseUrl);
  const tls = url.protocol === 'https:';
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: Number(url.port) || (tls ? 443 : 80),
    tls,
    basePath: url.pathname.replace(/\/$/, ''),
  };
}

/** The bytes of one POST. */
export function requestBytes(
  address: Address,
  path: string,
  headers: Readonly<Record<string, string>>,
  body: Buffer,
): Buffer {
  let head = `POST ${address.basePath}${path} HTTP/1.1\r\nhost: ${address.host}:${address.port}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n`;
  for (const name in headers) head += `${name}: ${headers[name]}\r\n`;
  return Buffer.concat([Buffer.from(`${head}\r\n`, 'latin1'), body]);
}

/**
 * One keep-alive connection over a bare socket, with one exchange at a time. Reads an answer just far enough
 * to know its status, its events and its end: a third of what autocannon or fetch cost per request.
 */
export class Connection {
  readonly #address: Address;
  readonly #tally: Tally;
  #socket: Socket | null = null;
  #state: State = STATE.idle;
  #rest: Buffer | null = null; // an incomplete head or line
  #left = 0;
  #chunked = false;
  #lastChunk = false;
  #status = 0;
  #started = 0;
  #exchange = 0;
  #eventStream = false;
  #sawEvent = false;
  #lastByte = 0;
  #tail = '';
  #failed = false;
  #onEnd: ((whole: boolean) => void) | null = null;
  #request: Buffer | null = null; // kept until the first byte of the answer, on a connection used before

  constructor(address: Address, tally: Tally) {
    this.#address = address;
    this.#tally = tally;
  }

  /**
   * Sends one request; connects again if the server has closed the connection.
   * @param onEnd is called once: with true when the answer is whole, with false when it failed
   * @param since when the request was due, for latency without coordinated omission
   */
  send(request: Buffer, onEnd: (whole: boolean) => void, since = performance.now()): void {
    this.#onEnd = onEnd;
    this.#state = STATE.head;
    this.#started = since;
    this.#failed = false;
    // a server may close an idle connection while the request is on its way: that request is sent again
    this.#request = this.#socket === null ? null : request;
    const socket = this.#socket ?? this.#open();
    socket.write(request);
  }

  close(): void {
    this.#onEnd = null;
    this.#state = STATE.idle;
    this.#socket?.destroy();
    this.#socket = null;
  }

  #open(): Socket {
    const { host, port, tls } = this.#address;
    const socket: Socket = tls
      ? connectTls({ host, port, servername: host, ALPNProtocols: ['http/1.1'] })
      : connect({ host, port });
    socket.setNoDelay(true);
    socket.on('data', (data: Buffer) => this.#read(data));
    socket.on('error', (error: NodeJS.ErrnoException) => this.#fail(error.code ?? error.message));
    socket.on('close', () => {
      if (this.#socket !== socket) return;
      this.#socket = null;
      if (this.#state === STATE.untilClose) this.#end();
      else if (this.#state !== STATE.idle) this.#fail('connection closed early');
    });
    this.#socket = socket;
    return socket;
  }

  #read(data: Buffer): void {
    this.#request = null;
    const bytes = this.#rest === null ? data : Buffer.concat([this.#rest, data]);
    this.#rest = null;
    const exchange = this.#exchange;
    let at = 0;
    while (at < bytes.length && this.#exchange === exchange) {
      if (this.#state === STATE.head || this.#state === STATE.line) {
        const inHead = this.#state === STATE.head;
        const end = bytes.indexOf(inHead ? '\r\n\r\n' : '\r\n', at);
        if (end < 0) {
          this.#rest = bytes.subarray(at);
          return;
        }
        if (inHead) this.#head(bytes.toString('latin1', at, end + 2));
        else this.#line(bytes.toString('latin1', at, end));
        at = end + (inHead ? 4 : 2);
      } else if (this.#state === STATE.body) {
        const stop = Math.min(bytes.length, at + this.#left);
        this.#body(bytes, at, stop);
        this.#left -= stop - at;
        at = stop;
        if (this.#left > 0) return;
        if (this.#chunked) this.#state = STATE.line;
        else this.#end();
      } else {
        if (this.#state === STATE.untilClose) this.#body(bytes, at, bytes.length);
        return;
      }
    }
  }

  #head(head: string): void {
    this.#status = Number(head.slice(9, 12));
    if (this.#status < 200) return; // 1xx: another head follows
    const { statuses } = this.#tally;
    statuses.set(this.#status, (statuses.get(this.#status) ?? 0) + 1);
    this.#eventStream = /\r\ncontent-type: *text\/event-stream/i.test(head);
    this.#sawEvent = false;
    this.#lastByte = 0;
    this.#tail = '';
    this.#lastChunk = false;
    const length = /\r\ncontent-length: *(\d+)/i.exec(head);
    this.#chunked = length === null && /\r\ntransfer-encoding: *chunked/i.test(head);
    if (length !== null) {
      this.#left = Number(length[1]);
      this.#state = STATE.body;
      if (this.#left === 0) this.#end();
    } else this.#state = this.#chunked ? STATE.line : STATE.untilClose;
  }

  #line(line: string): void {
    if (this.#lastChunk) {
      if (line === '') this.#end(); // other lines are trailers
    } else if (line !== '') {
      this.#left = Number.parseInt(line, 16);
      this.#lastChunk = this.#left === 0;
      if (!this.#lastChunk) this.#state = STATE.body;
    }
  }

  // Counts events by the empty line that ends each; [DONE] must be in the last bytes.
  #body(bytes: Buffer, from: number, to: number): void {
    if (!this.#eventStream || from === to) return;
    if (!this.#sawEvent) {
      this.#sawEvent = true;
      this.#tally.firstEvent.record(nanosSince(this.#started));
    }
    if (this.#lastByte === LF && bytes[from] === LF) this.#tally.events++;
    for (let at = bytes.indexOf('\n\n', from); at >= 0 && at + 2 <= to; at = bytes.indexOf('\n\n', at + 2)) {
      this.#tally.events++;
    }
    this.#lastByte = bytes[to - 1] as number;
    const kept = to - from < TAIL_BYTES ? this.#tail.slice(-TAIL_BYTES) : '';
    this.#tail = kept + bytes.toString('latin1', Math.max(from, to - TAIL_BYTES), to);
    if (bytes.subarray(from, to).includes(ERROR_EVENT)) this.#failed = true;
  }

  #end(): void {
    const ok = this.#status >= 200 && this.#status < 300;
    let error = '';
    if (!ok) error = `HTTP ${this.#status}`;
    else if (this.#eventStream && this.#failed) error = 'error event within the stream';
    else if (this.#eventStream && !this.#tail.includes('data: [DONE]')) error = 'stream without [DONE]';
    else {
      this.#tally.done++;
      this.#tally.latency.record(nanosSince(this.#started));
    }
    this.#finish(error);
  }

  #fail(reason: string): void {
    this.#socket?.destroy();
    this.#socket = null;
    if (this.#onEnd === null) return;
    if (this.#request !== null) {
      const again = this.#request;
      this.#request = null;
      this.#open().write(again);
    } else this.#finish(reason);
  }

  #finish(error: string): void {
    const { errors } = this.#tally;
    if (error !== '') errors.set(error, (errors.get(error) ?? 0) + 1);
    const onEnd = this.#onEnd;
    this.#onEnd = null;
    this.#state = STATE.idle;
    this.#exchange++;
    onEnd?.(error === '');
  }
}

function nanosSince(start: number): number {
  return Math.max(1, Math.round((performance.now() - start) * 1e6));
}
