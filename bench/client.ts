import { connect, type Socket } from 'node:net';
import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import { connect as connectTls } from 'node:tls';

/**
 * A light load generator over bare sockets: one keep-alive connection carries one exchange at a
 * time, requests are prebaked bytes, answers are read just far enough to know their status, their
 * events and their end. Costs about a third of what autocannon or fetch cost per request.
 */
export interface Target {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  readonly basePath: string;
}

/** @throws TypeError when the text is no http or https address */
export function parseTarget(baseUrl: string): Target {
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
  target: Target,
  path: string,
  headers: Readonly<Record<string, string>>,
  body: Buffer,
): Buffer {
  let head = `POST ${target.basePath}${path} HTTP/1.1\r\nhost: ${target.host}:${target.port}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n`;
  for (const name in headers) head += `${name}: ${headers[name]}\r\n`;
  return Buffer.concat([Buffer.from(`${head}\r\n`, 'latin1'), body]);
}

/** What one run saw. Times are histograms of nanoseconds. */
export interface Tally {
  /** Exchanges that ended as they should: 2xx, and streams with [DONE]. */
  done: number;
  events: number;
  readonly statuses: Map<number, number>;
  /** What went wrong, by text. */
  readonly errors: Map<string, number>;
  readonly latency: RecordableHistogram;
  readonly firstEvent: RecordableHistogram;
}

export function newTally(): Tally {
  return {
    done: 0,
    events: 0,
    statuses: new Map(),
    errors: new Map(),
    latency: createHistogram(),
    firstEvent: createHistogram(),
  };
}

const STATE = {
  idle: 0,
  head: 1,
  length: 2, // a body of known length
  size: 3, // a chunk: its size line
  data: 4,
  dataEnd: 5,
  trailer: 6,
  untilClose: 7,
} as const;
type State = (typeof STATE)[keyof typeof STATE];

/** One connection and the exchange on it. Reconnects by itself when the server closed it. */
export class Connection {
  readonly #target: Target;
  readonly #tally: Tally;
  #socket: Socket | null = null;
  #state: State = STATE.idle;
  #rest: Buffer | null = null; // an incomplete head or chunk line
  #left = 0;
  #status = 0;
  #started = 0;
  #eventStream = false;
  #sawEvent = false;
  #lastByte = 0;
  #tail = '';
  #failed = false;
  #onEnd: ((whole: boolean) => void) | null = null;
  #request: Buffer | null = null; // kept until the first byte of the answer, on a connection used before

  constructor(target: Target, tally: Tally) {
    this.#target = target;
    this.#tally = tally;
  }

  /**
   * Sends one request; `onEnd` is called once, when the answer is whole or has failed, and told which.
   * @param since when the request was due, for latency without coordinated omission
   */
  send(request: Buffer, onEnd: (whole: boolean) => void, since = performance.now()): void {
    this.#onEnd = onEnd;
    this.#state = STATE.head;
    this.#started = since;
    this.#failed = false;
    // a server may close an idle connection while the request is on its way: that one is sent again
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
    const { host, port, tls } = this.#target;
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
    let bytes = data;
    if (this.#rest !== null) {
      bytes = Buffer.concat([this.#rest, data]);
      this.#rest = null;
    }
    let at = 0;
    while (at < bytes.length) {
      switch (this.#state) {
        case STATE.head: {
          const end = bytes.indexOf('\r\n\r\n', at);
          if (end < 0) {
            this.#rest = bytes.subarray(at);
            return;
          }
          this.#head(bytes.latin1Slice(at, end + 2));
          at = end + 4;
          break;
        }
        case STATE.length:
        case STATE.data: {
          const stop = Math.min(bytes.length, at + this.#left);
          this.#body(bytes, at, stop);
          this.#left -= stop - at;
          at = stop;
          if (this.#left > 0) return;
          if (this.#state === STATE.length) {
            this.#end();
            return;
          }
          this.#state = STATE.dataEnd;
          this.#left = 2;
          break;
        }
        case STATE.dataEnd: {
          const stop = Math.min(bytes.length, at + this.#left);
          this.#left -= stop - at;
          at = stop;
          if (this.#left === 0) this.#state = STATE.size;
          break;
        }
        case STATE.size: {
          const end = bytes.indexOf('\r\n', at);
          if (end < 0) {
            this.#rest = bytes.subarray(at);
            return;
          }
          this.#left = Number.parseInt(bytes.latin1Slice(at, end), 16);
          at = end + 2;
          this.#state = this.#left === 0 ? STATE.trailer : STATE.data;
          break;
        }
        case STATE.trailer: {
          const end = bytes.indexOf('\r\n', at);
          if (end < 0) {
            this.#rest = bytes.subarray(at);
            return;
          }
          const empty = end === at;
          at = end + 2;
          if (empty) {
            this.#end();
            return;
          }
          break;
        }
        case STATE.untilClose:
          this.#body(bytes, at, bytes.length);
          return;
        default: // bytes after the answer
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
    const length = /\r\ncontent-length: *(\d+)/i.exec(head);
    if (length !== null) {
      this.#left = Number(length[1]);
      this.#state = STATE.length;
      if (this.#left === 0) this.#end();
    } else if (/\r\ntransfer-encoding: *chunked/i.test(head)) this.#state = STATE.size;
    else this.#state = STATE.untilClose;
  }

  // Events are counted by the empty line that ends each; the [DONE] is looked for in the last bytes.
  #body(bytes: Buffer, from: number, to: number): void {
    if (!this.#eventStream || from === to) return;
    if (!this.#sawEvent) {
      this.#sawEvent = true;
      this.#tally.firstEvent.record(nanosSince(this.#started));
    }
    let events = 0;
    if (this.#lastByte === LF && bytes[from] === LF) events++;
    let at = bytes.indexOf('\n\n', from);
    while (at >= 0 && at + 2 <= to) {
      events++;
      at = bytes.indexOf('\n\n', at + 2);
    }
    this.#tally.events += events;
    this.#lastByte = bytes[to - 1] as number;
    const kept = Math.max(from, to - 20);
    this.#tail = (to - from < 20 ? this.#tail.slice(-20) : '') + bytes.latin1Slice(kept, to);
    if (bytes.subarray(from, to).includes(ERROR_EVENT)) this.#failed = true;
  }

  #end(): void {
    const ok = this.#status >= 200 && this.#status < 300;
    let whole = false;
    if (ok && this.#eventStream && this.#failed) this.#count('error event within the stream');
    else if (ok && this.#eventStream && !this.#tail.includes('data: [DONE]')) this.#count('stream without [DONE]');
    else if (ok) {
      whole = true;
      this.#tally.done++;
      this.#tally.latency.record(nanosSince(this.#started));
    } else this.#count(`HTTP ${this.#status}`);
    this.#finish(whole);
  }

  #fail(reason: string): void {
    this.#socket?.destroy();
    this.#socket = null;
    if (this.#onEnd === null) return;
    if (this.#request !== null) {
      const again = this.#request;
      this.#request = null;
      this.#open().write(again);
      return;
    }
    this.#count(reason);
    this.#finish(false);
  }

  #finish(whole: boolean): void {
    const onEnd = this.#onEnd;
    this.#onEnd = null;
    this.#state = STATE.idle;
    onEnd?.(whole);
  }

  #count(error: string): void {
    this.#tally.errors.set(error, (this.#tally.errors.get(error) ?? 0) + 1);
  }
}

function nanosSince(start: number): number {
  return Math.max(1, Math.round((performance.now() - start) * 1e6));
}

const LF = 10;
const ERROR_EVENT = Buffer.from('data: {"error"');

/** Keeps `connections` exchanges open at once, each followed by the next, a failed one after 50 ms. Closed loop. */
export class Loop {
  readonly #connections: Connection[] = [];
  #stopped = false;

  /** @param request the bytes of the n-th request */
  constructor(target: Target, connections: number, request: (n: number) => Buffer, tally: Tally) {
    let sent = 0;
    for (let i = 0; i < connections; i++) {
      const connection = new Connection(target, tally);
      const next = (whole: boolean): void => {
        if (this.#stopped) return;
        if (whole) connection.send(request(sent++), next);
        else setTimeout(next, 50, true);
      };
      this.#connections.push(connection);
      next(true);
    }
  }

  /** Sends no more; exchanges under way go on. */
  drain(): void {
    this.#stopped = true;
  }

  stop(): void {
    this.#stopped = true;
    for (const connection of this.#connections) connection.close();
  }
}

/** Starts a wanted number of requests per second, however long the answers take. Open loop. */
export class Rate {
  readonly #idle: Connection[] = [];
  readonly #all: Connection[] = [];
  readonly #timer: NodeJS.Timeout;
  /** Requests waiting for an answer. */
  open = 0;

  constructor(target: Target, perSecond: number, request: (n: number) => Buffer, tally: Tally) {
    const start = performance.now();
    let sent = 0;
    this.#timer = setInterval(() => {
      const due = ((performance.now() - start) / 1000) * perSecond;
      while (sent < due) {
        let connection = this.#idle.pop();
        if (connection === undefined) {
          connection = new Connection(target, tally);
          this.#all.push(connection);
        }
        const used = connection;
        this.open++;
        const since = start + (sent / perSecond) * 1000;
        used.send(
          request(sent++),
          () => {
            this.open--;
            this.#idle.push(used);
          },
          since,
        );
      }
    }, 1);
  }

  /** Sends no more; answers under way still come in. */
  pause(): void {
    clearInterval(this.#timer);
  }

  stop(): void {
    clearInterval(this.#timer);
    for (const connection of this.#all) connection.close();
  }
}
