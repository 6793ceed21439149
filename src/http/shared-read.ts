import type { Server } from 'node:http';
import { Socket, type SocketConstructorOpts } from 'node:net';

/** The most that one read of a socket yields, as everywhere in Node. */
const READ_BYTES = 65_536;

/** Takes what is read from a socket. */
export interface Reader {
  /** Where the next bytes are read to; null: to the buffer that all connections share. */
  readonly room: Buffer | null;
  /**
   * Takes the bytes [0, end) of a buffer whose next read overwrites them.
   * @returns false to read nothing more until the socket is resumed
   */
  onRead(bytes: Buffer, end: number): boolean;
}

interface Internals {
  _handle?: { readonly useUserBuffer?: unknown } | null;
  _server: Server | null;
  server: Server;
  /** Of a server: the one that its connections are to have, also those that another process accepted. */
  readonly highWaterMark?: number;
}

const shared = Buffer.allocUnsafeSlow(READ_BYTES);

/**
 * Makes an accepted connection read into a buffer that all connections share, or where its reader has room. Otherwise
 * Node takes 64 KiB for each read and gives most of it back, which costs 2.5 µs. Node offers this (`onread`) for client
 * sockets alone, so the system's handle moves to a socket that is made like one of a client.
 * @returns null for a stream that is not a system socket: a server can be given any stream
 */
export function readShared(accepted: Socket, server: Server, reader: Reader): Socket | null {
  const internals = accepted as unknown as Internals;
  const { _handle: handle } = internals;
  if (typeof handle?.useUserBuffer !== 'function') return null;
  internals._handle = null;
  let current: Buffer | null = null;
  const options = {
    handle,
    allowHalfOpen: true, // as in http.Server, which decides itself
    writableHighWaterMark: (server as unknown as Internals).highWaterMark,
    onread: {
      /** Called first, and after each read. @returns undefined: the next one goes where the last one went */
      buffer(): Buffer | undefined {
        const next = reader.room ?? shared;
        if (next === current) return undefined;
        current = next;
        return next;
      },
      callback: (end: number, bytes: Buffer): boolean => reader.onRead(bytes, end),
    },
  };
  const socket = new Socket(options as unknown as SocketConstructorOpts);
  (socket as unknown as Internals).server = server;
  (socket as unknown as Internals)._server = internals._server; // the server counts those that it accepted by this field
  return socket;
}
