import { createServer, type Socket } from 'node:net';
import { parseArgs } from 'node:util';
import { answerBytes, burstPackets, chunk, contentEvents, FIRST_EVENT, LAST_EVENTS, STREAM_HEAD } from './payload.ts';

/**
 * A model router that replays prebaked bytes over bare sockets, so that it costs as little of the
 * load core as Node allows (about 8 µs a request). It swallows bodies of any size and answers each
 * POST: a request whose body says "stream":true with events, any other with 1 KiB of JSON.
 *
 *   node bench/upstream.ts --port 4000 [--mode paced --events 200 --interval 20]
 *
 * Forked by the benchmark it takes StreamMode messages, ends the streams still open whole, and
 * answers each with {done: true}.
 */
export interface StreamMode {
  /**
   * paced: one event per packet, every `interval` ms, streams spread evenly over it, for ever when
   * events is 0; burst: a whole stream in four packets; open: one event, then silence.
   */
  readonly mode: 'paced' | 'burst' | 'open';
  readonly interval?: number;
  readonly events?: number;
  /** burst only: one HTTP chunk for each event instead of each packet. */
  readonly chunkPerEvent?: boolean;
}

function serve(port: number, first: StreamMode): void {
  let mode = first;
  let pacer = new Pacer(mode.interval ?? 20, mode.events ?? 0);
  const packets = { event: burstPackets(true), packet: burstPackets(false) };
  const open = Buffer.concat([STREAM_HEAD, chunk(FIRST_EVENT)]);
  let silent: Socket[] = [];

  const stream = (socket: Socket): void => {
    if (mode.mode === 'burst') writeSpaced(socket, mode.chunkPerEvent ? packets.event : packets.packet, 0);
    else if (mode.mode === 'open') {
      socket.write(open);
      silent.push(socket);
    } else pacer.add(socket);
  };
  const server = createServer({ noDelay: true }, (socket) => answerRequests(socket, stream));
  server.listen({ port, host: '127.0.0.1', backlog: 4096 }, () => {
    const address = server.address();
    const bound = typeof address === 'object' && address ? address.port : port;
    if (process.send) process.send({ port: bound });
    else console.log(`upstream: http://127.0.0.1:${bound}/v1`);
  });
  process.on('message', (message: StreamMode) => {
    mode = message;
    for (const socket of silent) if (!socket.destroyed) socket.write(ENDING);
    silent = [];
    pacer.stop();
    pacer = new Pacer(mode.interval ?? 20, mode.events ?? 0);
    process.send?.({ done: true });
  });
  process.on('disconnect', () => process.exit(0));
}

/** Reads requests off one connection: just enough of HTTP/1.1 for clients that are known. */
function answerRequests(socket: Socket, stream: (socket: Socket) => void): void {
  let head: Buffer | null = null;
  let left = 0; // bytes of the body still to come; -1: chunked
  let streaming = false;

  const answer = (): void => {
    if (streaming) stream(socket);
    else socket.write(ANSWER);
  };
  socket.on('data', (data: Buffer) => {
    if (left > 0) {
      left -= data.length;
      if (left === 0) answer();
      return;
    }
    if (left < 0) {
      if (!streaming && data.includes(STREAM_TRUE)) streaming = true;
      if (!endsChunked(data)) return;
      left = 0;
      return answer();
    }
    const bytes: Buffer = head === null ? data : Buffer.concat([head, data]);
    const end = bytes.indexOf('\r\n\r\n');
    if (end < 0) {
      head = bytes;
      return;
    }
    head = null;
    const text = bytes.latin1Slice(0, end + 2);
    const length = /\r\ncontent-length: *(\d+)/i.exec(text);
    streaming = bytes.includes(STREAM_TRUE, end);
    if (length !== null) {
      left = Number(length[1]) - (bytes.length - end - 4);
      if (left === 0) answer();
    } else if (/\r\ntransfer-encoding: *chunked/i.test(text)) {
      if (endsChunked(bytes)) answer();
      else left = -1;
    } else answer();
  });
  socket.on('error', () => socket.destroy());
}

// Enough for clients that send whole chunks and no trailers.
function endsChunked(data: Buffer): boolean {
  return data.length >= 5 && data.latin1Slice(data.length - 5) === '0\r\n\r\n';
}

// Each packet in a turn of its own, so that the receiver may see them apart.
function writeSpaced(socket: Socket, packets: readonly Buffer[], at: number): void {
  socket.write(packets[at] as Buffer);
  if (at + 1 < packets.length) setImmediate(writeSpaced, socket, packets, at + 1);
}

/**
 * Paced streams on a wheel of one slot per millisecond of the interval. Streams take slots in turn,
 * so at any instant only few are due, as with real models.
 */
class Pacer {
  readonly #slots: Stream[][];
  readonly #content = contentEvents().map(chunk);
  readonly #events: number;
  readonly #start = performance.now();
  #next = 0;
  #done = 0; // slots served since the start
  #timer: NodeJS.Timeout;

  constructor(interval: number, events: number) {
    this.#slots = Array.from({ length: Math.max(1, interval) }, () => []);
    this.#events = events;
    this.#timer = setInterval(() => this.#turn(), 1);
  }

  add(socket: Socket): void {
    socket.write(Buffer.concat([STREAM_HEAD, chunk(FIRST_EVENT)]));
    (this.#slots[this.#next] as Stream[]).push({ socket, sent: 1 });
    this.#next = (this.#next + 1) % this.#slots.length;
  }

  stop(): void {
    clearInterval(this.#timer);
    for (const { socket } of this.#slots.flat()) if (!socket.destroyed) socket.write(ENDING);
  }

  #turn(): void {
    const due = Math.floor(performance.now() - this.#start);
    for (; this.#done < due; this.#done++) {
      const at = this.#done % this.#slots.length;
      const slot = this.#slots[at] as Stream[];
      let ended = false;
      for (const stream of slot) {
        if (!this.#send(stream)) ended = true;
      }
      if (ended) this.#slots[at] = slot.filter((stream) => stream.sent >= 0);
    }
  }

  #send(stream: Stream): boolean {
    const { socket } = stream;
    if (socket.destroyed) {
      stream.sent = -1;
      return false;
    }
    if (this.#events > 0 && stream.sent >= this.#events) {
      socket.write(ENDING);
      stream.sent = -1;
      return false;
    }
    socket.write(this.#content[stream.sent++ % this.#content.length] as Buffer);
    return true;
  }
}

interface Stream {
  readonly socket: Socket;
  /** Events sent; -1 once ended. */
  sent: number;
}

const ANSWER = answerBytes();
const ENDING = Buffer.concat([...LAST_EVENTS.map(chunk), Buffer.from('0\r\n\r\n')]);
const STREAM_TRUE = Buffer.from('"stream":true');

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    mode: { type: 'string', default: 'paced' },
    events: { type: 'string', default: '200' },
    interval: { type: 'string', default: '20' },
  },
});
serve(Number(values.port), {
  mode: values.mode as StreamMode['mode'],
  events: Number(values.events),
  interval: Number(values.interval),
});
