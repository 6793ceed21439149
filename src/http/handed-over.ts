import { type ChildProcess, type Serializable, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Server as HttpServer } from 'node:http';
import { type AddressInfo, connect, createServer as createNetServer, type Server } from 'node:net';

/** Long, because a busy machine takes long to start a process. */
const CHECK_MS = 20_000;

/** The system's handle of a connection that was accepted, and of which nothing was read. */
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
export function handOver(
  server: Server,
  take: (connection: Handle) => void,
  onError: (code: number) => void,
): void {
  (server as unknown as Internals)._handle.onconnection = (error, connection) =>
    error === 0 ? take(connection) : onError(error);
}

/**
 * Makes a server listen to connections that were accepted elsewhere, as node:cluster does in its workers: it emits
 * "listening", counts its connections and closes as with a port of its own.
 * @returns a function that gives the server a connection; not to be called after the server was closed
 */
export function takeOver(server: HttpServer): (connection: Handle) => void {
  const listening = {
    onconnection: (_error: number, _connection: Handle): void => {},
    listen: () => 0,
    close(): void {},
    ref(): void {},
    unref(): void {},
  };
  const internals = server as unknown as Internals;
  internals._handle = listening;
  internals._listen2(null, -1, -1, 0);
  return (connection) => listening.onconnection(0, connection);
}

/** Sends a message to a child process, and a connection with it, as node:cluster does. */
export function sendTo(child: ChildProcess, message: Serializable, connection?: Handle): void {
  if (child.connected) child.send(message, connection as never, () => {});
}

/** Takes the messages and connections that the parent sends by `sendTo`. */
export function onSent<M>(take: (message: M, connection: Handle) => void): void {
  process.on('message', (message, connection) =>
    take(message as M, connection as unknown as Handle),
  );
}

/** The other process of the check: answers the connection that it is sent. */
const RECEIVER = `
  import { createServer } from 'node:http';
  import { onSent, takeOver } from ${JSON.stringify(import.meta.url)};
  const server = createServer((_req, res) => res.end('here'));
  const take = takeOver(server);
  onSent((_message, connection) => take(connection));`;

/**
 * Whether all this works on this Node: a connection over loopback is answered by another process.
 * @throws when no process can be started
 */
export async function canHandOver(): Promise<boolean> {
  const port = createNetServer();
  const child = spawn(process.execPath, ['--input-type=module', '--eval', RECEIVER], {
    stdio: ['ignore', 'ignore', 'ignore', 'ipc'],
  });
  await once(child, 'spawn');
  const ended = once(child, 'close');
  const held: Handle[] = [];
  try {
    port.listen(0, '127.0.0.1');
    await once(port, 'listening');
    handOver(
      port,
      (connection) => held.push(connection) && sendTo(child, 'connection', connection),
      () => {},
    );
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
    for (const connection of held) connection.close(); // this process keeps a copy of each
    child.kill();
    await ended;
  }
}
