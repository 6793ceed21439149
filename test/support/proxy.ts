import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { parseDatabaseUrl, type Target } from '../../src/store/connection/address.ts';
import { freePort } from './port.ts';

/** A proxy in front of a database, to interrupt the connection. */
export interface Passage {
  /** The database's address through the proxy. */
  readonly url: string;
  /** As if the server were gone: connections break, new ones are refused. */
  cut(): Promise<void>;
  /** As if the server hung: connections stay and new ones are accepted, but no byte moves. */
  freeze(): void;
  /** As if the server hung for new connections only. */
  freezeNew(): void;
  /** Ends the interruption; frozen connections go on. */
  restore(): Promise<void>;
  /** Connections accepted so far. */
  readonly connections: number;
}

/** Starts a proxy to the database of a URL; it is closed at teardown. */
export async function startProxy(
  t: { teardown(after: () => unknown): unknown },
  url: string,
): Promise<Passage> {
  const { targets, user = '', password = '', database = '' } = parseDatabaseUrl(url);
  const sockets = new Set<Socket>();
  let frozen = false;
  let connections = 0;

  const server = createServer((client) => {
    connections += 1;
    const target = connect(targets[0] as Extract<Target, { path: string }>);
    for (const [from, to] of [
      [client, target],
      [target, client],
    ] as const) {
      sockets.add(from);
      from.on('data', (data) => to.write(data));
      from.on('error', () => {});
      from.on('close', () => {
        sockets.delete(from);
        to.destroy();
      });
      if (frozen) from.pause(); // listening for data sets it flowing
    }
  });
  const port = await freePort();
  server.listen(port, '127.0.0.1');
  await once(server, 'listening');

  async function cut(): Promise<void> {
    const closed = server.listening ? once(server, 'close') : undefined;
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  }
  t.teardown(cut);

  return {
    url: `postgres://${user}:${encodeURIComponent(password)}@127.0.0.1:${port}/${database}`,
    cut,
    freeze() {
      frozen = true;
      for (const socket of sockets) socket.pause();
    },
    freezeNew() {
      frozen = true;
    },
    async restore() {
      frozen = false;
      for (const socket of sockets) socket.resume();
      if (server.listening) return;
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
    },
    get connections() {
      return connections;
    },
  };
}
