import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Logger } from '../../log.ts';
import { Metrics } from '../../metrics.ts';
import { closeWithConnection, createServerOver } from '../../runtime/node-http.ts';
import { Places } from '../../runtime/places.ts';
import type { TlsFiles } from '../../runtime/tls-files.ts';
import type { Forwarder, PagesOrigin } from './forward.ts';

/** The bytes of a body that are read ahead, and those that wait for a slow client. */
const BUFFER_BYTES = 16_384;

/** Connections at once, and further ones for /livez and /readyz alone: each takes a descriptor, which the API needs too. */
const MAX_CONNECTIONS = 1000;
const MAX_PROBES = 50;

/** The state that /livez, /readyz and /metrics answer from. */
export interface Health {
  readonly log: Logger;
  /** In the Prometheus text format. */
  metrics(): string | Promise<string>;
  /** The things that the gateway still waits for, in words; empty when it is ready for traffic. */
  waitingFor(): string[];
  /** The parts that do not answer any more, in words. Absent: any answer shows that the process lives. */
  silent?(): Promise<string[]>;
}

/**
 * The admin listener: /livez, /readyz and /metrics are answered here, whatever the pages do. Pages
 * come from a process of their own, which starts at the first request for one: a gateway without
 * visitors does not pay for them.
 * @param origin called at that request; null: there are no pages
 * @param tls null: the listener speaks plain HTTP
 * @param proxies number of reverse proxies in front of it
 */
export function createAdminListener(
  health: Health,
  origin: (() => PagesOrigin) | null,
  tls: TlsFiles | null,
  proxies: number,
) {
  let pages: Promise<Forwarder> | null = null;

  async function answer(path: string, req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (path === '/livez' || path === '/readyz') return answerHealth(health, path, req, res);
    if (isProbe(req.socket)) {
      res.shouldKeepAlive = false;
      return send(res, 503, 'there are too many connections\n');
    }
    if (path === '/metrics') return answerHealth(health, path, req, res);
    if (origin === null)
      return send(
        res,
        404,
        'this gateway serves no administration pages: they need DATABASE_CONNECTIONS of 5 or more\n',
      );
    if (!path.startsWith('/')) return send(res, 404, 'not found\n'); // "*", or the address of another server
    pages ??= import('./forward.ts').then(({ openForwarder }) => openForwarder(origin(), send));
    await (await pages).answer(req, res);
  }

  const server = createServerOver(tls, {
    headersTimeout: 15_000,
    requestTimeout: 30_000,
    highWaterMark: BUFFER_BYTES,
  });
  const isProbe = boundConnections(server, tls !== null, proxies > 0);
  server.on('request', (req: IncomingMessage, res: ServerResponse) => {
    closeWithConnection(res);
    const path = (req.url as string).split('?', 1)[0] as string;
    answer(path, req, res).catch((error: Error) => {
      health.log.error({ reason: error.stack }, 'admin: a request failed');
      if (res.headersSent) res.destroy();
      else send(res, 500, 'internal error\n');
    });
  });
  return {
    /** Not yet listening. */
    server,
    /** Closes all connections, and ends the process of the pages within half a second. */
    async close(): Promise<void> {
      server.close();
      server.closeAllConnections();
      await (await pages)?.close();
    },
  };
}

/**
 * Gives places to connections. Where all have a request under way, the latest further ones may ask for /livez and
 * /readyz: an orchestrator would restart a gateway that does not answer it.
 * @returns whether a connection may ask for nothing else
 */
function boundConnections(
  server: Server,
  secure: boolean,
  areProxied: boolean,
): (socket: Socket) => boolean {
  const busy = new Set<Socket>();
  const probes = new Set<Socket>();
  const places = new Places({
    count: MAX_CONNECTIONS,
    areProxied,
    isBusy: (socket) => busy.has(socket),
  });
  server.on(secure ? 'secureConnection' : 'connection', (socket: Socket) => {
    if (places.take(socket)) return;
    probes.add(socket);
    socket.once('close', () => probes.delete(socket));
    const [oldest] = probes;
    if (probes.size > MAX_PROBES) oldest?.destroy();
  });
  server.on('request', ({ socket }: IncomingMessage, res: ServerResponse) => {
    busy.add(socket);
    res.once('close', () => busy.delete(socket));
  });
  return (socket) => probes.has(socket);
}

async function answerHealth(
  health: Health,
  path: string,
  req: IncomingMessage,
  res: ServerResponse,
): Promise<void> {
  if (req.method !== 'GET' && req.method !== 'HEAD')
    return send(res, 405, 'method not allowed\n', { allow: 'GET, HEAD' });
  if (path === '/livez') {
    const silent = (await health.silent?.()) ?? [];
    if (silent.length === 0) return send(res, 200, 'ok\n');
    return send(res, 503, silent.map((what) => `${what} does not answer\n`).join(''));
  }
  if (path === '/metrics')
    return send(res, 200, await health.metrics(), { 'content-type': Metrics.contentType });
  const waiting = health.waitingFor();
  if (waiting.length === 0) return send(res, 200, 'ready\n');
  return send(res, 503, waiting.map((what) => `waiting for ${what}\n`).join(''));
}

function send(
  res: ServerResponse,
  status: number,
  body: string,
  headers: Record<string, string> = {},
): void {
  const length = Buffer.byteLength(body);
  const common = {
    'cache-control': 'no-store',
    'content-type': 'text/plain',
    'content-length': length,
  };
  res.writeHead(status, { ...common, ...headers });
  res.end(body);
}
