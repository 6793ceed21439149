import { once } from 'node:events';
import { lstat, rm } from 'node:fs/promises';
import { type AddressInfo, type ListenOptions, Server, type Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';
import { createSecureContext } from 'node:tls';
import { adjustedColor, brandSettings } from './admin/process/brand.ts';
import type { PagesOrigin } from './admin/process/forward.ts';
import { createAdminListener, type Health } from './admin/process/listener.ts';
import { secondFactorKeys } from './admin/process/second-factor-key.ts';
import { type Config, ConfigError } from './config.ts';
import type { Clock } from './domain/ports.ts';
import { type EngineOptions, OWN_CONNECTIONS, openEngine } from './engine.ts';
import { createListener, type Listener } from './gateway/listener.ts';
import { FAST_PARTS, type FastParts } from './http/attach.ts';
import { checkFastParts } from './http/check.ts';
import type { Log, Logger } from './log.ts';
import { openFilesLimit } from './metrics.ts';
import { fitOpenFiles } from './runtime/open-files.ts';
import { TlsFiles } from './runtime/tls-files.ts';
import { answers } from './runtime/unix-socket.ts';
import type { Database } from './store/connection/pool.ts';

/** How long a draining gateway keeps idle connections: a balancer may just be sending a request on one. */
const MAX_IDLE_MS = 2000;

/** How long clients may take to read why their requests were cut. */
const LAST_WORDS_MS = 1000;

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
  /**
   * Accepts no new connection and lets open requests finish for up to `seconds`; then their clients are told.
   * @param delaySeconds how long new connections are still accepted while /readyz says that the gateway stops
   * @returns how many connections were cut
   */
  drain(seconds: number, delaySeconds?: number): Promise<number>;
  /** Writes the usage records and closes everything; returns how many could not be written, or null: that is not known. */
  close(): Promise<number | null>;
  /** Where there are several workers: replaces them one after the other. */
  readonly replace?: () => Promise<void>;
  /** Where there are several workers: ends them at once. */
  readonly kill?: () => void;
}

/**
 * Puts an engine behind its API and admin listeners.
 * @throws as `openEngine` does
 */
export async function openApp(config: Config, log: Log, options: EngineOptions = {}): Promise<App> {
  const { clock = Date.now } = options;
  checkOpenFiles(config, log, 1);
  const tls = tlsFiles(config, log);
  const api = await openApi(config, log, tls, options);
  const { engine, server } = api;
  const apiUrl = () => urlOf(config, server);
  const { metrics } = engine.services;
  metrics.gauge('tollgate_draining', '1 while open requests finish before a stop', () =>
    api.draining ? 1 : 0,
  );
  const health = {
    log,
    metrics: () => metrics.text(),
    // not the database: without it known keys are served, and a balancer would take away all gateways at once
    waitingFor: () => (api.draining ? [STOPPING] : []),
  };
  const admin = openAdmin(config, health, tls, clock, () => ({
    databaseUrl: engine.databaseUrl,
    apiUrl: apiUrl(),
    demoUrl: engine.demoUrl,
  }));

  return appOf(
    config,
    { db: engine.db, demo: engine.demoUrl !== null, apiUrl, admin },
    {
      async listen() {
        await listenTo(config, server);
        await admin?.listen();
      },
      drain: (seconds, delaySeconds) => api.drain(seconds, delaySeconds),
      async close() {
        tls?.close();
        api.cut();
        const adminClosed = admin?.close();
        const lost = await engine.close();
        await adminClosed;
        return lost;
      },
    },
  );
}

/** What an App knows of itself. Addresses are known once it listens. */
interface AppFacts extends Pick<App, 'db' | 'demo'> {
  readonly apiUrl: () => string;
  readonly admin: ReturnType<typeof openAdmin>;
}

/** An App from what it knows and what it does. */
export function appOf(
  config: Config,
  { db, demo, apiUrl, admin }: AppFacts,
  actions: Omit<App, keyof AppFacts | 'apiSocket' | 'adminUrl'>,
): App {
  return {
    ...actions,
    db,
    demo,
    apiSocket: config.listenSocket,
    get apiUrl() {
      return apiUrl();
    },
    get adminUrl() {
      return admin === null ? null : originOf(config, admin.server);
    },
  };
}

/** Opens an engine behind the API's server, which does not listen yet. @throws as `openEngine` does */
export async function openApi(
  given: Config,
  log: Log,
  tls: TlsFiles | null,
  options: EngineOptions,
) {
  const config = { ...given, ...fitOpenFiles(given, openFilesLimit()) };
  const [engine, parts] = await Promise.all([
    openEngine(config, log, options),
    fastParts(config, log),
  ]);
  const listener = createListener(engine.services, parts, tls);
  const { server, connections } = listener;
  let draining = false;
  return {
    engine,
    server,
    connections,
    get draining(): boolean {
      return draining;
    },
    async drain(seconds: number, delaySeconds = 0): Promise<number> {
      draining = true;
      if (delaySeconds > 0) await sleep(delaySeconds * 1000);
      return await stopServer(listener, seconds * 1000, () => engine.services.deadlines.stop());
    },
    cut(): void {
      if (server.listening) server.close();
      for (const socket of connections) socket.destroy();
    },
  };
}

/** Where the pages find the database and the API. */
interface Addresses {
  readonly databaseUrl: string;
  readonly apiUrl: string;
  /** Base address of the demo upstream; null: there is a router. */
  readonly demoUrl: string | null;
}

/** What /readyz says of a gateway that drains. */
export const STOPPING = 'its open requests: it is stopping';

/**
 * The admin listener, not listening yet; null where there is none.
 * @param addresses called when the first page is asked for
 */
export function openAdmin(
  config: Config,
  health: Health,
  tls: TlsFiles | null,
  clock: Clock,
  addresses: () => Addresses,
) {
  const { adminHost, adminPort } = config;
  if (adminPort === null) return null;
  const { log } = health;
  const adjusted = adjustedColor(config);
  if (adjusted !== null) log.info({}, adjusted);
  const pages = (): PagesOrigin => {
    const keys = secondFactorKeys(config, log);
    const settings = {
      ...pagesSettings(config, addresses(), log.level),
      secondFactor: { keys, required: config.requireSecondFactor as 'operators' | 'all' | null },
    };
    return { log, clock, proxies: config.adminProxies, settings };
  };
  const withPages = config.databaseConnections > OWN_CONNECTIONS;
  const { server, close } = createAdminListener(
    health,
    withPages ? pages : null,
    tls,
    config.adminProxies,
  );
  return {
    server,
    close,
    listen: () => listening(server, { host: adminHost, port: adminPort }, 'ADMIN_'),
  };
}

/** Base address of the API, once its server listens. */
export function urlOf(config: Config, server: Server): string {
  const { listenSocket, basePath } = config;
  return (
    (listenSocket === null ? originOf(config, server) : `${schemeOf(config)}://localhost`) +
    basePath
  );
}

/** Scheme, host and port of a server that listens. */
function originOf(config: Config, server: Server): string {
  const { address, family, port } = server.address() as AddressInfo;
  if (address === '0.0.0.0' || address === '::') return `${schemeOf(config)}://localhost:${port}`; // which is no address to connect to
  return `${schemeOf(config)}://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
}

function schemeOf({ tlsCert }: Config): string {
  return tlsCert === null ? 'http' : 'https';
}

/** Makes the API's server listen. Rejects when the address is taken or not this machine's. @throws ConfigError */
export async function listenTo(
  { host, port, listenSocket }: Config,
  server: Server,
): Promise<void> {
  if (listenSocket === null) return await listening(server, { host, port }, '');
  await freeSocket(listenSocket);
  await listening(server, { path: listenSocket }, '');
}

/** Removes a socket that a killed process left behind. @throws ConfigError where something else is there */
async function freeSocket(path: string): Promise<void> {
  const there = await lstat(path).catch(() => null); // listening tells what is wrong with the folder
  if (there === null) return;
  const name = JSON.stringify(path);
  if (!there.isSocket())
    throw new ConfigError([`LISTEN_SOCKET: ${name} is there and no socket; name another path`]);
  const inUse = `LISTEN_SOCKET: another program listens on ${name}; stop it, or name another path`;
  if (await answers(path)) throw new ConfigError([inUse]);
  await rm(path, { force: true });
}

/**
 * @param ticketKeys 48 bytes that several processes share, so that each resumes the TLS sessions of the others
 * @throws ConfigError when the files cannot be used
 */
export function tlsFiles(
  { tlsCert, tlsKey }: Config,
  log: Logger,
  ticketKeys?: Buffer,
): TlsFiles | null {
  if (tlsCert === null || tlsKey === null) return null;
  try {
    const events = {
      failed: ({ message }: Error): void =>
        log.error(
          { reason: message },
          'the new certificate cannot be used; the one before stays in use',
        ),
      ends: (at: Date, isOver: boolean): void =>
        isOver
          ? log.error(
              { ended: at.toISOString() },
              'the certificate of TLS_CERT has ended: clients refuse it; renew it',
            )
          : log.warn({ ends: at.toISOString() }, 'the certificate of TLS_CERT ends soon: renew it'),
    };
    const files = new TlsFiles(tlsCert, tlsKey, events, ticketKeys);
    createSecureContext(files.options);
    return files;
  } catch (error) {
    const files =
      'TLS_CERT must be a PEM file with the certificate chain, TLS_KEY one with its private key';
    throw new ConfigError([`TLS_CERT, TLS_KEY: ${(error as Error).message}; ${files}`]);
  }
}

/** What the pages' process is told. */
function pagesSettings(
  config: Config,
  { databaseUrl, apiUrl, demoUrl }: Addresses,
  logLevel: string,
) {
  const { oidc, alertMail } = config;
  return {
    databaseUrl,
    databaseUrlFile: config.databaseUrlFile,
    databaseConnections: config.databaseConnections - OWN_CONNECTIONS,
    logLevel,
    apiUrl,
    apiSocket: config.listenSocket,
    router: {
      urls: config.upstreamUrls?.map(({ href }) => href) ?? [demoUrl as string],
      apiKey: config.upstreamApiKey,
      headers: config.upstreamHeaders,
      isDemo: demoUrl !== null,
    },
    publicUrl: config.apiUrl?.href.replace(/\/$/, '') ?? apiUrl,
    adminUrl: config.adminUrl?.href ?? null,
    isSecure:
      config.adminUrl === null ? config.tlsCert !== null : config.adminUrl.protocol === 'https:',
    billingTimezone: config.billingTimezone,
    keyPrefix: config.keyPrefix,
    ownedBy: config.ownedBy,
    upstreamCurrency: config.upstreamCurrency,
    upstreamRate: config.upstreamRate,
    requestTrailDays: config.requestTrailDays,
    mail: alertMail === null ? null : { url: alertMail.url, from: alertMail.from },
    oidc: oidc === null ? null : { ...oidc, issuer: oidc.issuer.href },
    brand: brandSettings(config),
  };
}

/**
 * Warns where the system allows fewer files than connections and calls need.
 * @returns the most client connections of all processes together
 */
export function checkOpenFiles(config: Config, log: Logger, processes: number): number {
  const limit = openFilesLimit();
  const part = (all: number): number => Math.ceil(all / processes);
  const { maxAbandoned } = config;
  const needed = {
    maxConnections: part(config.maxConnections),
    maxRequests: part(config.maxRequests),
    maxAbandoned,
  };
  const { maxConnections, maxRequests } = fitOpenFiles(needed, limit);
  if (maxConnections === undefined) return config.maxConnections;
  log.warn(
    { limit },
    `a process may open fewer files than MAX_CONNECTIONS needs: it takes ${maxConnections} client connections and ${maxRequests} calls at once, so that each call finds one to the upstream; raise the limit (ulimit -n, LimitNOFILE)`,
  );
  return maxConnections * processes;
}

/** The parts of the fast path to use: those that work on this Node, unless it is switched off. */
async function fastParts(config: Config, log: Logger): Promise<FastParts> {
  if (!config.fastHttp) return new Set();
  const { parts, failed, errors, isBusy } = await checkFastParts();
  if (isBusy)
    log.warn(
      {},
      'the machine was too busy to check the fast HTTP path: it is off until the next start',
    );
  for (const part of failed) {
    const internals = FAST_PARTS[part];
    log.warn(
      { part, internals, node: process.version, err: errors[0] },
      'a part of the fast HTTP path does not work on this Node and is off',
    );
  }
  return parts;
}

/** What the names of a listener's variables begin with. */
type Prefix = '' | 'ADMIN_';

/** Rejects when the address is taken or not this machine's; the message says which variable to change. */
async function listening(server: Server, where: ListenOptions, prefix: Prefix): Promise<void> {
  // without a host Node takes "::", or 0.0.0.0 where the kernel has no IPv6
  const host = where.host === '::' ? undefined : where.host;
  server.listen({ ...where, host, backlog: 4096 });
  await once(server, 'listening').catch((cause: NodeJS.ErrnoException) => {
    throw new Error(`${cause.message}; ${listenRemedy(cause, where, prefix)}`, { cause });
  });
}

function listenRemedy(
  { code, syscall }: NodeJS.ErrnoException,
  { path }: ListenOptions,
  prefix: Prefix,
): string {
  if (path !== undefined)
    return 'set LISTEN_SOCKET to a path in a folder that is there and can be written to';
  if (code === 'EADDRINUSE') return `stop the program there, or set ${prefix}PORT`;
  if (code === 'EADDRNOTAVAIL' || syscall === 'getaddrinfo')
    return `set ${prefix}HOST to an address of this machine`;
  return `set ${prefix}PORT to another port`;
}

/**
 * Lets open requests finish. A request on an open connection is still answered, and its connection
 * closed after it. Resolves with the number of connections left at the end.
 * @param cut called then: tells the clients of open calls that the gateway stops
 */
async function stopServer(
  { server, connections, drain }: Listener,
  patienceMs: number,
  cut: () => void,
): Promise<number> {
  await takeAccepted();
  // not http.Server's own close, which would cut idle connections at once
  Server.prototype.close.call(server);
  drain(Math.min(MAX_IDLE_MS, patienceMs / 4));
  const left = await leftAfter(connections, patienceMs);
  if (left > 0) {
    const ends = leftAfter(connections, LAST_WORDS_MS);
    cut();
    await ends;
  }
  server.close(() => {}); // ends its timers
  return left;
}

/** Lets a server take what the system accepted so far: closed with the listener, it would be reset. */
export async function takeAccepted(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await nextTurn();
}

/** Waits until connections are closed, for so many milliseconds at most. @returns how many are not */
async function leftAfter(connections: ReadonlySet<Socket>, ms: number): Promise<number> {
  const closed = [...connections].map(
    (socket) => new Promise((resolve) => socket.once('close', resolve)),
  );
  await Promise.race([Promise.all(closed), sleep(ms, undefined, { ref: false })]);
  return connections.size;
}
