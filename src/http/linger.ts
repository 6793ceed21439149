import type { Socket } from 'node:net';
import { performance } from 'node:perf_hooks';
import { bounded } from './boundary.ts';

/** How long, and how much, a client may go on sending after its answer. */
const LINGER_MS = 5000;
const MOST_BYTES = 67_108_864;
/** How often both are checked. */
const CHECK_MS = 100;
/** How long the client of an idle connection may take to close its side. */
const IDLE_LINGER_MS = 2000;

/**
 * Closes a connection that was idle for too long, unless a request has come meanwhile. A timer runs before the reads of
 * the same turn of the event loop: what has arrived is read first, and answered. The own side is closed first, so that
 * a client whose request crosses sees the end of the connection and no reset.
 * @param isBusy whether an answer is under way
 */
export function closeIdle(socket: Socket, isBusy: () => boolean): void {
  const { bytesRead } = socket;
  const close = (): void => {
    if (socket.destroyed || socket.bytesRead !== bytesRead || isBusy()) return;
    discard(socket);
    socket.end();
    const timer = setTimeout(() => socket.destroy(), IDLE_LINGER_MS).unref();
    socket.once('close', () => clearTimeout(timer));
  };
  setImmediate(bounded(socket, close));
}

/** Reads on and discards: no request is taken any more. */
export function discard(socket: Socket): void {
  socket.removeAllListeners('data');
  socket.on('data', () => {});
  socket.resume();
}

/**
 * Lets a client read an answer that ends its connection while it may still be sending, the rest of a body or the next
 * request: the connection's own side closes, and what still comes is discarded (RFC 9112, section 9.6). Closed at once, the
 * system would reset it, and the client would see that in place of this answer, and of those before it that it had not read.
 */
export function lingerAfterAnswer({ socket }: { readonly socket: Socket }): void {
  // Node calls this once the answer to the last request of a connection is out
  socket.destroySoon = () => {
    discard(socket);
    socket.end();
    const most = socket.bytesRead + MOST_BYTES;
    const last = performance.now() + LINGER_MS;
    const check = (): void => {
      if (socket.bytesRead > most || performance.now() > last) socket.destroy();
    };
    const timer = setInterval(bounded(socket, check), CHECK_MS).unref();
    socket.once('close', () => clearInterval(timer));
  };
}
