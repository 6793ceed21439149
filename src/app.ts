import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import type { Server } from 'node:http';
import { type AddressInfo, type ListenOptions, Server as NetServer } from 'node:net';
import { createAdminListener } from './admin/listener.ts';
import type { Config } from './config.ts';
import type { Clock } from './domain/ports.ts';
import { API_CONNECTIONS, openEngine } from './engine.ts';
import { createListener, type Listener } from './gateway/listener.ts';
import type { Logger } from './log.ts';
import { type Database, openDatabase } from './store/database.ts';

/** A gateway with servers of its own. */
export interface App {
  /** Base address of the API, such as http://127.0.0.1:8080/v1; known once listening. */
  readonly apiUrl: string;
  /** Path of the Unix socket that answers to it; null where it is host and port. */
  readonly apiSocket: string | null;
  /** null: there is no admin listener. */
  readonly adminUrl: string | null;
  readonly db: Database;
  /** The demo upstream answers, not a real one. */
  readonly demo: boolean;
  listen(): Promise<void>;
  /** Takes no new connection, lets open requests finish for up to `seconds`; returns how many were cut. */
  drain(seconds: number): Promise<number>;
  /** Writes what is metered and lets go of everything; returns how many records could not be written. */
  close(): Promise<number>;
}

/**
 * Puts an engine behind its API and admin listeners. @throws as `openEngine` does
 * @param now milliseconds since the epoch; it says what month it is
 * @param collectYoung has V8 collect its young generation
 */
export async function openApp(
  config: Config,
  log: Logger,
  now: Clock = Date.now,
  collectYoung: (() => void) | null = null,
): Promise<App> {
  const engine = await openEngine(config, log, now, collectYoung);
  const { calendar, clock, metrics } = engine.services;
  const listener = createListener(engine.services);
  const api = listener.server;
  const apiUrl = () => (config.listenSocket === null ? addressOf(api) : 'http://localhost') + config.basePath;

  // connections of their own: pages and exports never wait in front of the API's queries
  const forPages = config.databaseConnections - API_CONNECTIONS;
  const adminDb = openDatabase({ url: engine.databaseUrl, maxConnections: forPages });
  const pages = {
    db: adminDb,
    calendar,
    clock,
    log,
    keyPrefix: config.keyPrefix,
    ownedBy: config.ownedBy,
    api: {
      publicUrl: () => config.apiUrl?.href.replace(/\/$/, '') ?? apiUrl(),
      url: apiUrl,
      socket: config.listenSocket,
    },
    url: config.adminUrl,
    proxies: config.adminProxies,
    oidc: config.oidc,
  };
  let draining = false;
  metrics.gauge('tollgate_draining', '1 while open requests finish before a stop', () => (draining ? 1 : 0));
  const health = {
    log,
    metrics: () => metrics.text(),
    // not the database: without it known keys are served on, and a balancer would take all replicas away at once
    waitingFor: () => (draining ? ['its open requests: it is stopping'] : []),
  };
  const { adminHost, adminPort } = config;
  const admin = adminPort === null ? null : createAdminListener(health, forPages > 0 ? pages : null);

  return {
    db: engine.db,
    demo: engine.demo,
    apiSocket: config.listenSocket,
    get apiUrl() {
      return apiUrl();
    },
    get adminUrl() {
      return admin === null ? null : addressOf(admin);
    },
    async listen() {
      if (config.listenSocket === null)
        await listening(api, { host: config.host, port: config.port, reusePort: config.reusePort });
      else {
        await rm(config.listenSocket, { force: true }); // what a killed process left behind
        await listening(api, { path: config.listenSocket });
      }
      if (admin !== null) await listening(admin, { host: adminHost, port: adminPort as number });
    },
    async drain(seconds) {
      draining = true;
      return await stopServer(listener, seconds * 1000);
    },
    async close() {
      if (api.listening) api.close();
      api.closeAllConnections();
      admin?.close();
      admin?.closeAllConnections();
      await adminDb.close();
      return await engine.close();
    },
  };
}

/** How long a draining gateway keeps a connection nobody uses: balancers send on it what they began to. */
const MOST_IDLE_MS = 2000;

function addressOf(server: Server): string {
  const { address, family, port } = server.address() as AddressInfo;
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
}

/** Rejects when the address is taken or not ours. */
async function listening(server: Server, where: ListenOptions): Promise<void> {
  server.listen({ ...where, backlog: 4096 });
  await once(server, 'listening');
}

/**
 * Open requests may finish; whoever asks on an open connection is answered once more and
 * told to close it. Resolves with the number of connections cut at the end.
 */
async function stopServer({ server, letIdleGo }: Listener, patienceMs: number): Promise<number> {
  if (!server.listening) return 0;
  // not http.Server's own close, which would cut idle connections at once
  const closed = new Promise<void>((resolve) => NetServer.prototype.close.call(server, () => resolve()));
  letIdleGo(Math.min(MOST_IDLE_MS, patienceMs / 4));
  const deadline = Promise.withResolvers<void>();
  const timer = setTimeout(deadline.resolve, patienceMs);
  await Promise.race([closed, deadline.promise]);
  clearTimeout(timer);
  server.close(() => {}); // it has timers of its own to end
  const { promise, resolve } = Promise.withResolvers<number>();
  server.getConnections((_error, count) => resolve(count ?? 0));
  return await promise;
}
