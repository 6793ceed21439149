import { once } from 'node:events';
import type { Server as HttpServer } from 'node:http';
import { type AddressInfo, connect, createServer as createNetServer, type Server } from 'node:net';
import { createServer } from '../runtime/node-http.ts';

const CHECK_MS = 2000;

/** A connection as the system has it: accepted, and nothing of it read. */
export interface Handle {
  close(): void;
}

interface Internals {
  _handle: { onconnection?: (error: number, connection: Handle) => void };
  _listen2(address: null, port: number, addressType: number, backlog: number): void;
}

/**
 * Makes a listening server hand its connections over instead of reading them, as node:cluster's primary does.
 * @param onError gets the number of the system's error when a connection cannot be accepted
 */
export function handOver(server: Server, take: (connection: Handle) => void, onError: (code: number) => void): void {
  (server as unknown as Internals)._handle.onconnection = (error, connection) =>
    error === 0 ? take(connection) : onError(error);
}

/**
 * Makes a server listen to connections that were accepted elsewhere, as node:cluster does in its workers: it emits
 * "listening", counts its connections and closes as with a port of its own.
 * @returns gives the server a connection; only until it is closed
 */
export function takeOver(server: HttpServer): (connection: Handle) => void {
  const door = {
    onconnection: (_error: number, _connection: Handle): void => {},
    listen: () => 0,
    close(): void {},
    ref(): void {},
    unref(): void {},
  };
  const internals = server as unknown as Internals;
  internals._handle = door;
  internals._listen2(null, -1, -1, 0);
  return (connection) => door.onconnection(0, connection);
}

/** Whether both work on this Node, tried over a loopback connection. */
export async function canHandOver(): Promise<boolean> {
  const port = createNetServer();
  const server = createServer((_req, res) => res.end('here'));
  try {
    const take = takeOver(server);
    port.listen(0, '127.0.0.1');
    await once(port, 'listening');
    handOver(port, take, () => {});
    const client = connect((port.address() as AddressInfo).port, '127.0.0.1');
    client.end('GET / HTTP/1.1\r\nhost: check\r\nconnection: close\r\n\r\n');
    const timer = setTimeout(() => client.destroy(), CHECK_MS);
    let text = '';
    for await (const piece of client.setEncoding('latin1')) text += piece;
    clearTimeout(timer);
    return text.endsWith('here');
  } catch {
    return false;
  } finally {
    port.close();
    server.close();
    server.closeAllConnections();
  }
}
