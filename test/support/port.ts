import { createSocket } from 'node:dgram';
import { type EventEmitter, once } from 'node:events';
import { createServer } from 'node:net';

/** Lower than any port that Linux, macOS or Windows chooses by itself, unless it was set otherwise. */
const FIRST = 10_000;
const COUNT = 22_000;

/**
 * A TCP port of 127.0.0.1 for a server that starts later, or that stops and listens at the same port again. Nobody else
 * gets it until this process ends: no system chooses it by itself, neither for a server that listens at port 0 nor for
 * a connection, and other processes that call this function find its UDP port taken.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * COUNT);
    const claim = createSocket('udp4').unref();
    if (await listens(claim.bind({ port, address: '127.0.0.1', exclusive: true }))) {
      const server = createServer();
      if (await listens(server.listen({ port, host: '127.0.0.1', exclusive: true }))) {
        server.close();
        await once(server, 'close');
        return port;
      }
    }
    claim.close();
  }
}

function listens(socket: EventEmitter): Promise<boolean> {
  return once(socket, 'listening').then(
    () => true,
    () => false,
  );
}
