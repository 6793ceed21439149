import type { Server } from 'node:http';
import { Socket, type SocketConstructorOpts } from 'node:net';

/** The most that one read of a socket brings, as everywhere in Node. */
const READ_BYTES = 65_536;

/** Takes the bytes [0, end) of a buffer that is used again. */
export interface Reader {
  onRead(bytes: Buffer, end: number): void;
}

interface Internals {
  _handle?: { readonly useUserBuffer?: unknown } | null;
  _server: Server;
  server: Server;
}

const shared = Buffer.allocUnsafeSlow(READ_BYTES);

/**
 * Makes an accepted connection read into a buffer that all connections share: for each read Node takes 64 KiB and
 * gives most of it back, which costs 2.5 µs. Only client sockets offer that (`onread`), so the system's handle
 * moves to a socket made as theirs are.
 * @returns null for a stream that is no system socket: a server can be given any
 */
export function readShared(accepted: Socket, server: Server, reader: Reader): Socket | null {
  const internals = accepted as unknown as Internals;
  const { _handle: handle } = internals;
  if (typeof handle?.useUserBuffer !== 'function') return null;
  internals._handle = null;
  const options = {
    handle,
    allowHalfOpen: true, // as in http.Server, which decides itself
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
  (socket as unknown as Internals).server = server; // by which the server counts its connections
  (socket as unknown as Internals)._server = server;
  return socket;
}
