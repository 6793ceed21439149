import { connect, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { ENDPOINTS, type Endpoint } from './endpoints.ts';
import { count, type Tally } from './tally.ts';

/**
 * What comes next: the head of an answer; a line of a chunked body, which is a chunk's size or the end of its data;
 * a trailer; `left` bytes of a body; or a body that lasts until the connection closes.
 */
type State = 'idle' | 'head' | 'line' | 'trailer' | 'body' | 'untilClose';

const DATA = '\ndata:';
const SLICE_MS = 5; // of a request that is sent at a pace
const MOMENT_MS = 10; // for which one that reads now and then reads
const TAIL_CHARS = 50; // longer than what is looked for in a stream
const ERROR_EVENT =
  /\n(?:data: ?\{"error"|(?:event: ?|data: ?\{"type": ?")(?:error|response\.failed))/;

/** An endpoint to put load on; `lastEvent` finds the event without which a stream is not whole. */
export type Address = Readonly<ReturnType<typeof parseAddress>>;

/** @throws TypeError when the text is no http or https address */
export function parseAddress(baseUrl: string, endpoint: Endpoint = 'chat') {
  const url = new URL(baseUrl);
  const tls = url.protocol === 'https:';
  if (!tls && url.protocol !== 'http:')
    throw new TypeError(`${baseUrl} begins with neither http:// nor https://`);
  return {
    authority: url.host,
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: Number(url.port) || (tls ? 443 : 80),
    tls,
    path: url.pathname.replace(/\/$/, '') + ENDPOINTS[endpoint].path + url.search,
    lastEvent: ENDPOINTS[endpoint].lastEvent,
  };
}

/** The bytes of one POST. */
export function requestBytes(
  address: Address,
  headers: Readonly<Record<string, string>>,
  body: Buffer,
): Buffer {
  let head = `POST ${address.path} HTTP/1.1\r\nhost: ${address.authority}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n`;
  for (const name in headers) head += `${name}: ${headers[name]}\r\n`;
  return Buffer.concat([Buffer.from(`${head}\r\n`, 'latin1'), body]);
}

/**
 * One keep-alive connection over a bare socket, with one exchange at a time. Reads an answer just far enough
 * to know its status, its events and its end: a third of what autocannon or fetch cost per request, 0.5 to 0.9 of undici.
 */
export class Connection {
  readonly #address: Address;
  readonly #tally: Tally;
  readonly #bytesPerSecond: number;
  readonly #readEveryMs: number;
  #socket: Socket | null = null;
  #state: State = 'idle';
  #rest: Buffer | null = null; // an incomplete head or line
  #left = 0;
  #chunked = false;
  #status = 0;
  #started = 0;
  #exchange = 0;
  #eventStream = false;
  #silent = true; // no event of the stream has come
  #tail = ''; // the last characters of a stream; empty before its first, and between streams
  #packetAt = 0; // when the last packet of a stream came
  #whole = false;
  #failed = false;
  #onEnd: ((whole: boolean) => void) | null = null;
  #request: Buffer | null = null; // kept until the first byte of the answer, on a connection used before

  /**
   * @param bytesPerSecond how fast it sends; default: as fast as the other side takes it
   * @param readEveryMs how often it reads what has come; default: always
   */
  constructor(
    address: Address,
    tally: Tally,
    bytesPerSecond = Number.POSITIVE_INFINITY,
    readEveryMs = 0,
  ) {
    this.#readEveryMs = readEveryMs;
    this.#address = address;
    this.#tally = tally;
    this.#bytesPerSecond = bytesPerSecond;
  }

  /**
   * Sends one request; connects again if the server has closed the connection.
   * @param onEnd is called once: with true when the answer is whole, with false when it failed
   * @param since when the request was due, for latency without coordinated omission
   */
  send(request: Buffer, onEnd: (whole: boolean) => void, since = performance.now()): void {
    this.#onEnd = onEnd;
    this.#state = 'head';
    this.#started = since;
    this.#whole = this.#failed = false;
    // a server may close an idle connection while the request is on its way: that request is sent again
    this.#request = this.#socket === null ? null : request;
    this.#write(this.#socket ?? this.#open(), request);
  }

  #write(socket: Socket, request: Buffer): void {
    if (this.#bytesPerSecond === Number.POSITIVE_INFINITY) return void socket.write(request);
    const began = performance.now();
    let sent = 0;
    const slice = (): void => {
      if (socket.destroyed) return;
      const due = Math.ceil(((performance.now() - began + SLICE_MS) / 1000) * this.#bytesPerSecond);
      socket.write(request.subarray(sent, due));
      sent = due;
      if (sent < request.length) setTimeout(slice, SLICE_MS);
    };
    slice();
  }

  close(): void {
    this.#onEnd = null;
    this.#state = 'idle';
    this.#socket?.destroy();
    this.#socket = null;
  }

  #open(): Socket {
    const { host, port, tls } = this.#address;
    const secure = { host, port, servername: isIP(host) ? '' : host, ALPNProtocols: ['http/1.1'] };
    const socket: Socket = tls ? connectTls(secure) : connect({ host, port });
    socket.setNoDelay(true);
    socket.on('data', (data: Buffer) => this.#read(data));
    if (this.#readEveryMs > 0) {
      let reads = false;
      socket.on('data', () => {
        if (reads) return;
        reads = true; // all that has come, which a pause at once would leave in the socket but for its first piece
        setTimeout(() => {
          socket.pause();
          // begun here: of two timers that are both late the longer one may run first
          setTimeout(() => {
            reads = false;
            socket.resume();
          }, this.#readEveryMs);
        }, MOMENT_MS);
      });
    }
    socket.on('error', (error: NodeJS.ErrnoException) => this.#fail(error.code ?? error.message));
    socket.on('close', () => {
      if (this.#socket !== socket) return;
      this.#socket = null;
      if (this.#state === 'untilClose') this.#end();
      else if (this.#state !== 'idle') this.#fail('connection closed early');
    });
    this.#socket = socket;
    return socket;
  }

  #read(data: Buffer): void {
    this.#request = null;
    if (this.#tail !== '') this.#betweenPackets();
    const bytes = this.#rest === null ? data : Buffer.concat([this.#rest, data]);
    this.#rest = null;
    const exchange = this.#exchange;
    let at = 0;
    while (at < bytes.length && this.#exchange === exchange) {
      if (this.#state === 'idle') return;
      if (this.#state === 'untilClose') return this.#body(bytes, at, bytes.length);
      if (this.#state === 'body') {
        const stop = Math.min(bytes.length, at + this.#left);
        this.#body(bytes, at, stop);
        this.#left -= stop - at;
        at = stop;
        if (this.#left > 0) return;
        if (this.#chunked) this.#state = 'line';
        else this.#end();
      } else {
        const ending = this.#state === 'head' ? '\r\n\r\n' : '\r\n';
        const end = bytes.indexOf(ending, at);
        if (end < 0) {
          this.#rest = bytes.subarray(at);
          return;
        }
        if (this.#state === 'head') this.#head(bytes.toString('latin1', at, end + 2));
        else this.#line(bytes.toString('latin1', at, end));
        at = end + ending.length;
      }
    }
  }

  #head(head: string): void {
    this.#status = Number(head.slice(9, 12));
    if (this.#status < 200) return; // 1xx: another head follows
    if (this.#counted) count(this.#tally.statuses, this.#status);
    this.#eventStream = /\r\ncontent-type: *text\/event-stream/i.test(head);
    this.#tail = '';
    this.#silent = true;
    const length = /\r\ncontent-length: *(\d+)/i.exec(head);
    this.#chunked = length === null && /\r\ntransfer-encoding: *chunked/i.test(head);
    if (length !== null) {
      this.#left = Number(length[1]);
      this.#state = 'body';
      if (this.#left === 0) this.#end();
    } else this.#state = this.#chunked ? 'line' : 'untilClose';
  }

  #line(line: string): void {
    if (this.#state === 'trailer') {
      if (line === '') this.#end();
    } else if (line !== '') {
      this.#left = Number.parseInt(line, 16);
      this.#state = this.#left === 0 ? 'trailer' : 'body';
    }
  }

  /** Counts events by their `data:`, which comments that keep a connection open lack; looks for the last one and for errors. */
  #body(bytes: Buffer, from: number, to: number): void {
    if (!this.#eventStream || from === to) return;
    if (this.#tail === '') {
      this.#packetAt = performance.now();
      this.#tail = '\n';
    }
    const text = this.#tail + bytes.toString('latin1', from, to);
    const seen = Math.max(0, this.#tail.length - DATA.length + 1);
    let at = text.indexOf(DATA, seen);
    if (at >= 0 && this.#silent) {
      this.#silent = false;
      if (this.#counted) this.#tally.firstEvent.record(nanosSince(this.#started));
    }
    for (; at >= 0; at = text.indexOf(DATA, at + DATA.length)) this.#tally.events++;
    this.#whole ||= this.#address.lastEvent.test(text);
    this.#failed ||= ERROR_EVENT.test(text);
    this.#tail = text.slice(-TAIL_CHARS);
  }

  #end(): void {
    if (this.#status >= 300) return this.#finish(`HTTP ${this.#status}`);
    if (this.#failed) return this.#finish('error event within the stream');
    if (this.#eventStream && !this.#whole) return this.#finish('stream without its last event');
    this.#tally.done++;
    if (this.#counted) this.#tally.latency.record(nanosSince(this.#started));
    this.#finish('');
  }

  #betweenPackets(): void {
    // also of a stream that began before
    if (this.#packetAt >= this.#tally.from) this.#tally.gap.record(nanosSince(this.#packetAt));
    this.#packetAt = performance.now();
  }

  get #counted(): boolean {
    return this.#started >= this.#tally.from;
  }

  #fail(reason: string): void {
    this.#socket?.destroy();
    this.#socket = null;
    if (this.#onEnd === null) return;
    const again = this.#request;
    this.#request = null;
    if (again === null) this.#finish(reason);
    else this.#write(this.#open(), again);
  }

  #finish(error: string): void {
    if (error !== '') count(this.#tally.errors, error);
    const onEnd = this.#onEnd;
    this.#onEnd = null;
    this.#state = 'idle';
    this.#tail = '';
    this.#exchange++;
    onEnd?.(error === '');
  }
}

function nanosSince(start: number): number {
  return Math.max(1, Math.round((performance.now() - start) * 1e6));
}
