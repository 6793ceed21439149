import type { IncomingMessage } from 'node:http';
import { performance } from 'node:perf_hooks';

/** How long, and how much, a client may go on sending after its answer. */
const LINGER_MS = 5000;
const MOST_BYTES = 67_108_864;
/** How often both are checked. */
const CHECK_MS = 100;

/**
 * Lets a client read an answer that comes before the end of its body: the connection's own side closes, and what still
 * comes is discarded (RFC 9112, section 9.6). Closed at once, the system would reset it, and a client that still sends
 * would see that in place of the answer and try again.
 */
export function lingerAfterAnswer(req: IncomingMessage): void {
  const { socket } = req;
  const destroySoon = socket.destroySoon;
  // Node calls this once the answer to the last request of a connection is out
  socket.destroySoon = () => {
    if (req.complete) return destroySoon.call(socket);
    socket.removeAllListeners('data'); // no parser: what follows the body is no request any more
    socket.on('data', () => {});
    socket.end();
    const most = socket.bytesRead + MOST_BYTES;
    const last = performance.now() + LINGER_MS;
    const timer = setInterval(() => {
      if (socket.bytesRead > most || performance.now() > last) socket.destroy();
    }, CHECK_MS).unref();
    socket.once('close', () => clearInterval(timer));
    socket.resume();
  };
}
