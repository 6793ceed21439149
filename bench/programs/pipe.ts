import { connect, createServer, type Socket } from 'node:net';
import { parseArgs } from 'node:util';

/**
 * Reads and writes alone, the least that a Node program between client and router can do: what one connection sends is
 * written to another as it came, and nobody looks at it.
 *
 *   node bench/programs/pipe.ts --port 4002 --upstream http://127.0.0.1:4000
 */
function relay(from: Socket, to: Socket): void {
  from.setNoDelay(true);
  from.on('data', (bytes) => {
    if (!to.write(bytes)) from.pause();
  });
  to.on('drain', () => from.resume());
  from.on('end', () => to.end());
  from.on('error', () => to.destroy());
  from.on('close', () => to.destroy());
}

const { values } = parseArgs({
  options: { port: { type: 'string' }, upstream: { type: 'string' } },
});
const { hostname: host, port } = new URL(values.upstream as string);
const server = createServer((client) => {
  const router = connect({ host, port: Number(port) });
  relay(client, router);
  relay(router, client);
});
server.listen({ port: Number(values.port), host: '127.0.0.1', backlog: 4096 });
