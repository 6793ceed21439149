import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import type { Server } from 'node:http';
import { type AddressInfo, Server as NetServer } from 'node:net';
import { totalmem } from 'node:os';
import { createAdminListener } from './admin/listener.ts';
import { type Config, ConfigError } from './config.ts';
import { startDemo } from './demo.ts';
import { Estimator } from './domain/estimate.ts';
import { Calendar } from './domain/month.ts';
import { nameFilter, refusedNames } from './domain/steering.ts';
import { Deadlines } from './gateway/deadline.ts';
import { createListener, type Listener } from './gateway/listener.ts';
import { Slabs } from './gateway/outflow.ts';
import { Overload } from './gateway/overload.ts';
import { RequestLog } from './gateway/request-line.ts';
import { fileDisk, systemProcesses } from './ledger/disk.ts';
import { Spool } from './ledger/spool.ts';
import { BatchLedger } from './ledger/writer.ts';
import { type Logger, lineSink } from './log.ts';
import { Metrics } from './metrics.ts';
import { openChanges } from './store/changes.ts';
import { type Database, openDatabase } from './store/database.ts';
import { openDirectory } from './store/directory.ts';
import { startEmbedded } from './store/embedded.ts';
import { ledgerStore } from './store/ledger.ts';
import { migrate } from './store/migrate.ts';
import { Upstream } from './upstream/pool.ts';

export interface App {
  /** Base address of the API, such as http://127.0.0.1:8080/v1; known once listening. */
  readonly apiUrl: string;
  /** Path of the Unix socket that answers to it; null where it is host and port. */
  readonly apiSocket: string | null;
  readonly adminUrl: string;
  readonly db: Database;
  /** The demo upstream answers, not a real one. */
  readonly demo: boolean;
  listen(): Promise<void>;
  /** Takes no new connection, lets open requests finish for up to `seconds`; returns how many were cut. */
  drain(seconds: number): Promise<number>;
  /** Writes what is metered and lets go of everything; returns how many records could not be written. */
  close(): Promise<number>;
}

const CLOSE_MS = 10_000; // how long closing waits for the database to take the last records

/**
 * Puts one gateway together: database (embedded without DATABASE_URL), migrations, caches,
 * ledger, upstream (the demo without UPSTREAM_URL), API and admin listeners.
 */
export async function openApp(config: Config, log: Logger): Promise<App> {
  const embedded = config.databaseUrl === null ? await startEmbedded({ dataDir: config.dataDir, log }) : null;
  const databaseUrl = config.databaseUrl ?? (embedded as { url: string }).url;
  const db = openDatabase({ url: databaseUrl });
  const writer = randomUUID();
  const spool = openSpool(config, writer, log);
  await migrate(db, { billingTimezone: config.billingTimezone });

  const demo = config.upstreamUrl === null ? await startDemo({ port: 0, log }) : null;
  const upstream = new Upstream({
    url: config.upstreamUrl ?? new URL((demo as { url: string }).url),
    apiKey: config.upstreamApiKey,
    connectMs: config.connectSeconds * 1000 + 1000, // the gateway's own deadline comes first
  });

  const clock = Date.now;
  const calendar = new Calendar(config.billingTimezone);
  const metrics = new Metrics();
  const directory = openDirectory(db, log);
  const changes = openChanges(db, directory, log);
  const ledger = new BatchLedger({
    store: ledgerStore(db),
    clock,
    monthOf: (at) => calendar.month(at),
    log,
    writer,
    spool,
  });
  ledger.start();
  gaugeLedger(metrics, ledger);

  const deadlines = new Deadlines({
    connectMs: config.connectSeconds * 1000,
    firstByteMs: config.firstByteSeconds * 1000,
    idleMs: config.idleSeconds * 1000,
    totalMs: config.totalSeconds * 1000,
    stallMs: config.stallSeconds * 1000,
  });
  const { maxRequests, maxDelayMs, maxMemoryBytes } = config;
  const overload = new Overload({ maxRequests, maxDelayMs, maxMemoryBytes: maxMemoryBytes ?? mostMemory() });
  gaugeLoad(metrics, overload);

  let draining = false;
  const listener = createListener({
    directory,
    ledger,
    upstream,
    calendar,
    clock,
    estimator: new Estimator(),
    log,
    metrics,
    requestLog: new RequestLog(lineSink(log), metrics, clock),
    basePath: config.basePath,
    ownedBy: config.ownedBy,
    maxBodyBytes: config.maxBodyBytes,
    maxEventBytes: config.maxEventBytes,
    limits: {
      headerMs: config.headerSeconds * 1000,
      bodyMs: config.bodySeconds * 1000,
      maxHeaders: config.maxHeaders,
      maxHeaderBytes: config.maxHeaderBytes,
      maxConnections: config.maxConnections,
    },
    deadlines,
    overload,
    slabs: new Slabs(),
    isSteering: nameFilter(refusedNames(config.refusedParameters)),
  });
  const apiUrl = () => (config.listenSocket === null ? addressOf(api) : 'http://localhost') + config.basePath;
  // connections of their own: pages and exports never wait in front of the API's queries
  const adminDb = openDatabase({ url: databaseUrl, maxConnections: 6 });
  const api = listener.server;
  const admin = createAdminListener({
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
    registry: metrics.registry,
    // not the database: without it known keys are served on, and a balancer would take all replicas away at once
    waitingFor: () => (draining ? ['its open requests: it is stopping'] : []),
  });

  return {
    db,
    demo: demo !== null,
    apiSocket: config.listenSocket,
    get apiUrl() {
      return apiUrl();
    },
    get adminUrl() {
      return addressOf(admin);
    },
    async listen() {
      if (config.listenSocket === null) await listening(api, { host: config.host, port: config.port });
      else {
        await rm(config.listenSocket, { force: true }); // what a killed process left behind
        await listening(api, { path: config.listenSocket });
      }
      await listening(admin, { host: config.adminHost, port: config.adminPort });
    },
    async drain(seconds) {
      draining = true;
      return await stopServer(listener, seconds * 1000);
    },
    async close() {
      api.closeAllConnections();
      admin.close();
      admin.closeAllConnections();
      await upstream.destroy();
      deadlines.close();
      overload.close();
      await demo?.close();
      const lost = await ledger.close(CLOSE_MS);
      await changes.close();
      await adminDb.close();
      await db.close();
      await embedded?.stop();
      return lost;
    },
  };
}

/** @throws ConfigError when the folder cannot be written */
function openSpool(config: Config, id: string, log: Logger): Spool | null {
  const folder = config.spoolDir;
  if (folder === null) {
    log.warn(
      'SPOOL_DIR is empty: usage records wait in memory, and those not yet in the database die with the process',
    );
    return null;
  }
  try {
    const uptime = () => performance.now();
    return new Spool({ disk: fileDisk(config.spoolFsync), processes: systemProcesses(), folder, id, uptime, log });
  } catch (error) {
    const reason = (error as Error).message;
    throw new ConfigError([
      `SPOOL_DIR: ${folder} cannot be written (${reason}); make it writable, choose another folder, or set it empty to do without`,
    ]);
  }
}

/** How long a draining gateway keeps a connection nobody uses: balancers send on it what they began to. */
const MOST_IDLE_MS = 2000;

function gaugeLedger(metrics: Metrics, ledger: BatchLedger): void {
  metrics.gauge('tollgate_ledger_backlog', 'Usage records not yet in the database', () => ledger.backlog);
  metrics.gauge('tollgate_database_available', '1 while the database takes records and answers', () =>
    ledger.available ? 1 : 0,
  );
  metrics.gauge('tollgate_ledger_lag_seconds', 'How long the oldest of them has waited', () => ledger.lag / 1000);
  metrics.gauge('tollgate_ledger_set_aside', 'Usage records the database refused', () => ledger.setAside);
  metrics.gauge('tollgate_ledger_lost', 'Usage records lost: no disk, no database, no memory', () => ledger.lost);
  metrics.gauge('tollgate_spool_bytes', 'Size of the spool files not yet in the database', () => ledger.spoolBytes);
  metrics.gauge('tollgate_spool_failing', '1 while the disk refuses records', () => (ledger.spooling ? 0 : 1));
  metrics.gauge('tollgate_reservations', 'Requests of strict budgets in flight', () => ledger.reservations);
}

function gaugeLoad(metrics: Metrics, overload: Overload): void {
  metrics.gauge('tollgate_requests_in_flight', 'Requests being answered', () => overload.inFlight);
  metrics.gauge('tollgate_requests_shed', 'Requests refused with 503 since the start', () => overload.refused);
  metrics.gauge('tollgate_event_loop_delay_seconds', 'Event-loop delay, smoothed', () => overload.delayMs / 1000);
}

/** Four fifths of the container's memory, or the machine's. */
function mostMemory(): number {
  return 0.8 * Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem());
}

function addressOf(server: Server): string {
  const { address, family, port } = server.address() as AddressInfo;
  return `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`;
}

/** Rejects when the address is taken or not ours. */
async function listening(server: Server, where: { host: string; port: number } | { path: string }): Promise<void> {
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
