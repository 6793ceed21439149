import { createServer, type Socket } from 'node:net';
import {
  answerBytes,
  burstPackets,
  CONTENT_EVENTS,
  chunk,
  FIRST_EVENT,
  LAST_CHUNK,
  LAST_EVENTS,
  STREAM_HEAD,
} from './answers.ts';

/**
 * The model router behind the programs under test. It replays bytes made once over bare sockets, so that it costs
 * the load core little (some 8 µs a request). It accepts bodies of any size and answers each POST: one whose body
 * says "stream":true with events, any other with 1 KiB of JSON. Takes StreamMode messages and answers {done: true}.
 */
export interface StreamMode {
  /**
   * paced: one event per packet, every `interval` ms, until the next mode or until `events` were sent; burst: a whole
   * stream in four packets; open: one event, then silence. A change of mode ends the open streams as whole ones.
   */
  readonly mode: 'paced' | 'burst' | 'open';
  /** Milliseconds. */
  readonly interval?: number;
  /** Content events of a stream. Of paced: the first of them one interval after the beginning, endless if absent; of burst: BURST_EVENTS if absent. */
  readonly events?: number;
  /** Of paced: `waits` sends nothing but the first event, until the same mode that `goesOn` with the open streams. */
  readonly begin?: 'waits' | 'goesOn';
  /** Of burst: an HTTP chunk for each event instead of each packet. */
  readonly chunkPerEvent?: boolean;
}

const ANSWER = answerBytes();
const OPENING = Buffer.concat([STREAM_HEAD, chunk(FIRST_EVENT)]);
const CONTENT = CONTENT_EVENTS.map(chunk);
const ENDING = Buffer.concat([...LAST_EVENTS.map(chunk), LAST_CHUNK]);
const STREAM_TRUE = Buffer.from('"stream":true');

let mode: StreamMode = { mode: 'burst' };
let burst = burstPackets(false);
let wheel = newWheel(1);
let turned = performance.now(); // up to where the wheel has turned
let turns = 0;

/** Open streams and the events they still get, a slot for each millisecond of the interval: few are due at an instant. */
function newWheel(slots: number): { next: number; readonly slots: Map<Socket, number>[] } {
  return { next: 0, slots: Array.from({ length: slots }, () => new Map()) };
}

function startStream(socket: Socket): void {
  if (mode.mode === 'burst') return writeSpaced(socket, burst, 0);
  socket.write(OPENING);
  // streams that all began at once are spread over the interval
  const slot = mode.events === undefined ? wheel.next++ : turns - 1 + wheel.slots.length;
  wheel.slots[slot % wheel.slots.length]?.set(socket, mode.events ?? Number.POSITIVE_INFINITY);
}

// Writes each packet in its own turn of the event loop, so that the receiver may see them apart.
function writeSpaced(socket: Socket, packets: readonly Buffer[], at: number): void {
  socket.write(packets[at] as Buffer);
  if (at + 1 < packets.length) setImmediate(writeSpaced, socket, packets, at + 1);
}

function turn(): void {
  for (const now = performance.now(); turned + 1 <= now; turned++) {
    if (mode.mode !== 'paced' || mode.begin === 'waits') continue;
    const slot = wheel.slots[turns++ % wheel.slots.length] as Map<Socket, number>;
    for (const [socket, left] of slot) {
      if (socket.destroyed || left === 0) slot.delete(socket);
      else slot.set(socket, left - 1);
      if (!socket.destroyed)
        socket.write(left === 0 ? ENDING : (CONTENT[turns % CONTENT.length] as Buffer));
    }
  }
}

/** Reads requests off one connection: just enough of HTTP/1.1 for the clients of the benchmark. */
function answerRequests(socket: Socket): void {
  let head: Buffer | null = null;
  let left = 0; // bytes of the body still to come; -1: chunked
  let streaming = false;

  const answer = (): void => {
    left = 0;
    if (streaming) startStream(socket);
    else socket.write(ANSWER);
  };
  socket.on('data', (data: Buffer) => {
    if (left > 0) {
      left -= data.length;
      if (left === 0) answer();
      return;
    }
    if (left < 0) {
      streaming ||= data.includes(STREAM_TRUE);
      if (endsChunked(data)) answer();
      return;
    }
    const bytes: Buffer = head === null ? data : Buffer.concat([head, data]);
    const end = bytes.indexOf('\r\n\r\n');
    head = end < 0 ? bytes : null;
    if (end < 0) return;
    const text = bytes.toString('latin1', 0, end + 2);
    streaming = bytes.includes(STREAM_TRUE, end);
    const length = /\r\ncontent-length: *(\d+)/i.exec(text);
    if (length !== null) left = Number(length[1]) - (bytes.length - end - 4);
    else left = /\r\ntransfer-encoding: *chunked/i.test(text) && !endsChunked(bytes) ? -1 : 0;
    if (left === 0) answer();
  });
  socket.on('error', () => socket.destroy());
}

// Enough for clients that send whole chunks and no trailers.
function endsChunked(data: Buffer): boolean {
  return data.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK);
}

const server = createServer({ noDelay: true }, answerRequests);
server.listen({ port: 0, host: '127.0.0.1', backlog: 4096 }, () =>
  process.send?.(server.address()),
);
process.on('message', (message: StreamMode) => {
  mode = message;
  if (mode.begin === 'goesOn') return process.send?.({ done: true });
  for (const socket of wheel.slots.flatMap((slot) => [...slot.keys()]))
    if (!socket.destroyed) socket.write(ENDING);
  wheel = newWheel(mode.interval ?? 1);
  if (mode.mode === 'burst') burst = burstPackets(mode.chunkPerEvent ?? false, mode.events);
  process.send?.({ done: true });
});
process.on('disconnect', () => process.exit(0));
setInterval(turn, 1);
