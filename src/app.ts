import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import type { Server } from 'node:http';
import { type AddressInfo, type ListenOptions, Server as NetServer } from 'node:net';
import { createSecureContext } from 'node:tls';
import type { PagesOrigin } from './admin/forward.ts';
import { createAdminListener } from './admin/listener.ts';
import { type Config, ConfigError } from './config.ts';
import type { Clock } from './domain/ports.ts';
import { OWN_CONNECTIONS, openEngine } from './engine.ts';
import { createListener, type Listener } from './gateway/listener.ts';
import { FAST_PARTS, type FastParts } from './http/attach.ts';
import { checkFastParts } from './http/check.ts';
import type { Logger } from './log.ts';
import { TlsFiles } from './runtime/tls-files.ts';
import type { Database } from './store/database.ts';

/** How long a draining gateway keeps idle connections: a balancer may just be sending a request on one. */
const MAX_IDLE_MS = 2000;

/** A gateway with servers of its own. */
export interface App {
  /** Base address of the API, such as http://127.0.0.1:8080/v1; known once listening. */
  readonly apiUrl: string;
  /** Path of the Unix socket that answers to it; null where it is host and port. */
  readonly apiSocket: string | null;
  /** null: there is no admin listener. */
  readonly adminUrl: string | null;
  readonly db: Database;
  /** The demo upstream answers instead of a real one. */
  readonly demo: boolean;
  listen(): Promise<void>;
  /** Accepts no new connection and lets open requests finish for up to `seconds`; returns how many connections were cut. */
  drain(seconds: number): Promise<number>;
  /** Writes the usage records and closes everything; returns how many records could not be written. */
  close(): Promise<number>;
}

/**
 * Puts an engine behind its API and admin listeners.
 * @param now milliseconds since the epoch; decides the billing month
 * @param collectYoung makes V8 collect its young generation
 * @throws as `openEngine` does
 */
export async function openApp(
  config: Config,
  log: Logger,
  now: Clock = Date.now,
  collectYoung: (() => void) | null = null,
): Promise<App> {
  const tls = tlsFiles(config, log);
  const [engine, parts] = await Promise.all([openEngine(config, log, now, collectYoung), fastParts(config, log)]);
  const { clock, metrics } = engine.services;
  const listener = createListener(engine.services, parts, tls);
  const api = listener.server;
  const scheme = tls === null ? 'http' : 'https';
  const addressOf = (server: Server): string => `${scheme}://${hostOf(server)}`;
  const apiUrl = () => (config.listenSocket === null ? addressOf(api) : `${scheme}://localhost`) + config.basePath;

  let draining = false;
  metrics.gauge('tollgate_draining', '1 while open requests finish before a stop', () => (draining ? 1 : 0));
  const health = {
    log,
    metrics: () => metrics.text(),
    // not the database: without it known keys are served, and a balancer would take away all replicas at once
    waitingFor: () => (draining ? ['its open requests: it is stopping'] : []),
  };
  const { adminHost, adminPort } = config;
  const withPages = config.databaseConnections > OWN_CONNECTIONS;
  const pages = (): PagesOrigin => ({
    log,
    clock,
    proxies: config.adminProxies,
    settings: pagesSettings(config, engine.databaseUrl, apiUrl(), log.level),
  });
  const admin = adminPort === null ? null : createAdminListener(health, withPages ? pages : null, tls);

  return {
    db: engine.db,
    demo: engine.demo,
    apiSocket: config.listenSocket,
    get apiUrl() {
      return apiUrl();
    },
    get adminUrl() {
      return admin === null ? null : addressOf(admin.server);
    },
    async listen() {
      if (config.listenSocket === null)
        await listening(api, { host: config.host, port: config.port, reusePort: config.reusePort });
      else {
        await rm(config.listenSocket, { force: true }); // left behind by a killed process
        await listening(api, { path: config.listenSocket });
      }
      if (admin !== null) await listening(admin.server, { host: adminHost, port: adminPort as number });
    },
    async drain(seconds) {
      draining = true;
      return await stopServer(listener, seconds * 1000);
    },
    async close() {
      tls?.close();
      if (api.listening) api.close();
      api.closeAllConnections();
      const adminClosed = admin?.close();
      const lost = await engine.close();
      await adminClosed;
      return lost;
    },
  };
}

/** @throws ConfigError when the files cannot be used */
function tlsFiles({ tlsCert, tlsKey }: Config, log: Logger): TlsFiles | null {
  if (tlsCert === null || tlsKey === null) return null;
  try {
    const files = new TlsFiles(tlsCert, tlsKey, ({ message }) => {
      log.error({ reason: message }, 'the new certificate cannot be used; the one before stays in use');
    });
    createSecureContext(files.options);
    return files;
  } catch (error) {
    throw new ConfigError([`TLS_CERT, TLS_KEY: ${(error as Error).message}`]);
  }
}

function pagesSettings(config: Config, databaseUrl: string, apiUrl: string, logLevel: string) {
  const {
    billingTimezone,
    keyPrefix,
    ownedBy,
    upstreamCurrency,
    upstreamRate,
    requestTrailDays,
    listenSocket: apiSocket,
    adminUrl,
    oidc,
    alertMail,
  } = config;
  return {
    ...{ databaseUrl, billingTimezone, logLevel, requestTrailDays, keyPrefix, ownedBy, apiUrl, apiSocket },
    ...{ upstreamCurrency, upstreamRate },
    databaseConnections: config.databaseConnections - OWN_CONNECTIONS,
    publicUrl: config.apiUrl?.href.replace(/\/$/, '') ?? apiUrl,
    adminUrl: adminUrl?.href ?? null,
    mail: alertMail === null ? null : { url: alertMail.url, from: alertMail.from },
    oidc: oidc === null ? null : { ...oidc, issuer: oidc.issuer.href },
  };
}

/** The parts of the fast path to use: those that work on this Node, unless it is switched off. */
async function fastParts(config: Config, log: Logger): Promise<FastParts> {
  if (!config.fastHttp) return new Set();
  const { parts, failed, errors } = await checkFastParts();
  for (const part of failed) {
    const internals = FAST_PARTS[part];
    log.warn(
      { part, internals, node: process.version, err: errors[0] },
      'a part of the fast HTTP path does not work on this Node and is off',
    );
  }
  return parts;
}

function hostOf(server: Server): string {
  const { address, family, port } = server.address() as AddressInfo;
  return `${family === 'IPv6' ? `[${address}]` : address}:${port}`;
}

/** Rejects when the address is taken or not this machine's. */
async function listening(server: Server, where: ListenOptions): Promise<void> {
  server.listen({ ...where, backlog: 4096 });
  await once(server, 'listening');
}

/**
 * Lets open requests finish. A request on an open connection is still answered, and its connection
 * closed after it. Resolves with the number of connections left at the end.
 */
async function stopServer({ server, closeIdle }: Listener, patienceMs: number): Promise<number> {
  if (!server.listening) return 0;
  // not http.Server's own close, which would cut idle connections at once
  NetServer.prototype.close.call(server);
  closeIdle(Math.min(MAX_IDLE_MS, patienceMs / 4));
  await once(server, 'close', { signal: AbortSignal.timeout(patienceMs) }).catch(() => {});
  server.close(() => {}); // ends its timers
  const { promise, resolve } = Promise.withResolvers<number>();
  server.getConnections((_error, count) => resolve(count ?? 0));
  return await promise;
}
