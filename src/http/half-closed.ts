import type { Server } from 'node:http';
import type { Socket } from 'node:net';
import { bounded } from './boundary.ts';
import type { AnswerUnderWay } from './exchange.ts';

/**
 * The pauses before the probes of an answer, in milliseconds. No more than BEGINNING has letters, and clients refuse the
 * length of a chunk with more than 16 digits: of these the fast path writes seven.
 */
const PAUSES_MS = [10, 30, 100, 300, 1000, 5000, 30_000, 120_000];
/** What every answer begins with. */
const BEGINNING = 'HTTP/1.1 ';

/** Makes a server answer clients that have closed their sending side (RFC 9293, section 3.6): Node would leave them. */
export function answerHalfClosed(server: Server): void {
  Object.assign(server, { allowHalfOpen: true, httpAllowHalfOpen: true }); // the first only matters under TLS
}

/**
 * Finds out whether a client that has closed its sending side has left: it sends the same FIN, but resets the
 * connection at the next byte, and the write after that fails. A silent answer is probed with bytes of its own, so that
 * it is only a slow one to a client that waits: the letters of the status line, then zeros before the length of the next
 * chunk. An answer that comes within 10 ms is not probed, nor a streamed one to HTTP/1.0, which has no chunks.
 * @param answering the answer that a connection is busy with; null: all are out
 */
export function watchHalfClosed(
  socket: Socket,
  answering: (socket: Socket) => AnswerUnderWay | null,
): void {
  socket.once('end', () => {
    if (answering(socket) === null) return;
    let probed: AnswerUnderWay | null = null;
    let probes = 0;
    let timer: NodeJS.Timeout | undefined;
    const wait = (): void => {
      const pause = PAUSES_MS[probes++];
      if (pause !== undefined) timer = setTimeout(bounded(socket, probe), pause);
    };
    const begin = beginning(socket);
    const probe = (): void => {
      const answer = answering(socket);
      if (answer === null || !socket.writable) return;
      if (answer !== probed) probes = 0;
      probed = answer;
      if (!answer.headersSent) begin();
      else if (!answer.writableEnded && answer.req.httpVersionMinor > 0) socket.write('0');
      wait();
    };
    socket.once('close', () => clearTimeout(timer));
    wait();
  });
}

/** What sends the next letter of the status line; the write of the head then leaves out what was sent of it. */
function beginning(socket: Socket): () => void {
  const { write } = socket;
  let sent = 0;
  const writeRest = (head: string | Buffer, ...more: []): boolean => {
    socket.write = write;
    const rest = typeof head === 'string' ? head.slice(sent) : head.subarray(sent);
    sent = 0;
    return write.call(socket, rest, ...more);
  };
  return () => {
    write.call(socket, BEGINNING.charAt(sent++));
    socket.write = writeRest as typeof write;
  };
}
