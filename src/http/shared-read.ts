import type { Server } from 'node:http';
import { Socket, type SocketConstructorOpts } from 'node:net';

/** What one read of a socket brings at most, as everywhere in Node. */
const READ_BYTES = 65_536;

/** Takes what comes: the bytes [0, end) of a buffer that is used again. */
export interface Reader {
  onRead(bytes: Buffer, end: number): void;
}

const shared = Buffer.allocUnsafeSlow(READ_BYTES);

/**
 * Makes of a connection a server has accepted one that reads into a buffer all of them share.
 * Of a server's sockets Node takes 64 KiB from the system for each read, gives back what was not
 * needed, and leaves the rest to the collector: 2.5 µs for the one read of a request. Clients'
 * sockets have an option against that (`onread`), servers' have not; so the system's handle
 * moves to a socket made as a client's is.
 * @returns null for what is no such connection: a server can be given any stream
 */
export function readShared(accepted: Socket, server: Server, reader: Reader): Socket | null {
  const internals = accepted as unknown as Internals;
  const { _handle: handle } = internals;
  if (typeof handle?.useUserBuffer !== 'function') return null;
  internals._handle = null;
  const options = {
    handle,
    allowHalfOpen: true, // as http.Server's own: it decides itself
    writableHighWaterMark: accepted.writableHighWaterMark,
    onread: {
      buffer: shared,
      callback(end: number, bytes: Buffer): boolean {
        reader.onRead(bytes, end);
        return true;
      },
    },
  };
  const socket = new Socket(options as unknown as SocketConstructorOpts);
  (socket as unknown as Internals).server = server; // which counts its connections by it
  (socket as unknown as Internals)._server = server;
  return socket;
}

interface Internals {
  _handle?: { readonly useUserBuffer?: unknown } | null;
  _server: Server;
  server: Server;
}
