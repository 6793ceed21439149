import type * as http from 'node:http';
import type * as https from 'node:https';
import type { Socket } from 'node:net';
import type { TlsFiles } from './tls-files.ts';

/**
 * node:http without the modules that an import of it loads. An import reads every export of a built-in module, and
 * reading some of these loads fetch, WebSocket and HTTP/2: 16 MB and 30 ms of every start. Types are imported from
 * node:http as usual.
 */
export const {
  Agent,
  createServer,
  IncomingMessage,
  request,
  ServerResponse,
  STATUS_CODES,
  validateHeaderValue,
} = process.getBuiltinModule('node:http');

/** TLS handshakes under way at once: each takes some 75 KB, and any stranger begins them. */
const MAX_HANDSHAKES = 1000;

/**
 * A server, over TLS where there are files for it. A handshake may take as long as the head of a request.
 * @param options of `http.createServer`
 */
export function createServerOver(tls: TlsFiles | null, options: http.ServerOptions): http.Server {
  if (tls === null) return createServer(options);
  const server = process.getBuiltinModule('node:https').createServer({
    handshakeTimeout: options.headersTimeout,
    ...options,
    ...tls.options,
  });
  tls.keepFresh(server);
  boundHandshakes(server);
  return server;
}

/** With too many handshakes the network with the most gives up its oldest: one flood ends no handshake of others. */
function boundHandshakes(server: https.Server): void {
  const underWay = new Map<string, { id: string; network: string; socket: Socket }>(); // the oldest first
  const idOf = (socket: Socket): string =>
    `${socket.remoteAddress} ${socket.remotePort} ${socket.localAddress}`;
  server.on('connection', (socket: Socket) => {
    const begun = { id: idOf(socket), network: networkOf(socket.remoteAddress), socket };
    underWay.set(begun.id, begun);
    socket.once('close', () => underWay.delete(begun.id));
    if (underWay.size <= MAX_HANDSHAKES) return;
    const [oldest = begun] = largestGroup(underWay.values(), ({ network }) => network);
    underWay.delete(oldest.id);
    oldest.socket.destroy();
  });
  server.on('secureConnection', (socket) => underWay.delete(idOf(socket)));
}

/**
 * The network by which clients are counted: an IPv4 address, or the /64 of an IPv6 address, which one client has whole.
 */
export function networkOf(address = ''): string {
  if (address.includes('.')) return address;
  const groups = address.split(':').filter((group) => group !== '').length;
  const zeros = '0:'.repeat(Math.max(0, 8 - groups)); // the groups that "::" stands for
  return address.replace('::', `:${zeros}`).split(':', 4).join(':');
}

/** The group with the most members, in their order. */
export function largestGroup<T>(all: Iterable<T>, groupOf: (each: T) => string): readonly T[] {
  let largest: readonly T[] = [];
  for (const group of Map.groupBy(all, groupOf).values())
    if (group.length > largest.length) largest = group;
  return largest;
}

/** node:http, or node:https, for requests. @param url an address, or its protocol */
export function clientFor(url: string | URL): typeof http | typeof https {
  return process.getBuiltinModule(`${url}`.startsWith('https:') ? 'node:https' : 'node:http');
}

/** Resolves when more may be written, or when the response is closed. Leaves no listener behind. */
export function writable(res: http.ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = (): void => {
      res.off('drain', done).off('close', done);
      resolve();
    };
    if (res.destroyed) resolve();
    else res.on('drain', done).on('close', done);
  });
}

/** Responses that wait behind others, by their connection. */
const queues = new WeakMap<Socket, Set<http.ServerResponse>>();

/**
 * Lets a response that waits behind others on its connection emit 'close' when the connection closes, once. Node 24 and
 * newer do that; on Node 22 the request would count as open for ever.
 * @param res as the server emits it
 */
export function closeWithConnection(res: http.ServerResponse): void {
  if (res.socket !== null) return; // it waits for no other one: Node tells it
  const { socket } = res.req;
  let queue = queues.get(socket);
  if (queue === undefined) {
    queue = new Set();
    queues.set(socket, queue);
    socket.once('close', () => queue?.forEach(closeQueued));
  }
  queue.add(res);
  res.once('socket', () => queue.delete(res));
}

function closeQueued(res: http.ServerResponse): void {
  res.destroy();
  process.nextTick(() => res.closed || res.emit('close')); // newer Nodes have queued theirs before
}
