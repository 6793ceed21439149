import { randomBytes } from 'node:crypto';
import { createServer } from 'node:net';
import { availableParallelism } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type App,
  appOf,
  checkOpenFiles,
  listenTo,
  openAdmin,
  STOPPING,
  takeAccepted,
  tlsFiles,
  urlOf,
} from '../app.ts';
import { type Config, ConfigError } from '../config.ts';
import { type EngineOptions, mostMemory, OWN_CONNECTIONS, openBase } from '../engine.ts';
import type { Logger } from '../log.ts';
import { Metrics } from '../metrics.ts';
import type { Database } from '../store/connection/pool.ts';
import { migrate } from '../store/schema/migrate.ts';
import type { WorkerStart } from './messages.ts';
import { Supervisor } from './supervisor.ts';

const MEBIBYTE = 1_048_576;
/** Below this a worker would refuse requests: at rest it has some 110 MB. */
const LEAST_MEMORY = 160 * MEBIBYTE;
const TICKET_KEYS_BYTES = 48;
/**
 * Connections of the embedded database for commands, the pages, and a replacement beside the worker that it replaces.
 */
const SPARE_CONNECTIONS = 32;

/** How many workers WORKERS asks for: with "auto" one for each core of the machine or container, as far as memory allows. */
export function countWorkers({ workers, maxMemoryBytes }: Config): number {
  if (workers !== null) return workers;
  const fit = Math.floor((maxMemoryBytes ?? mostMemory()) / (2 * LEAST_MEMORY));
  return Math.max(1, Math.min(availableParallelism(), fit));
}

/**
 * Opens a supervisor: it listens, hands connections to workers, and answers /livez, /readyz, /metrics and pages for
 * all of them. The embedded database and the demo upstream, where they are used, are its own.
 * @throws as `openApp` does
 */
export async function openWorkers(
  config: Config,
  log: Logger,
  count: number,
  options: EngineOptions,
): Promise<App> {
  const maxMemory = config.maxMemoryBytes ?? mostMemory();
  checkMemory(maxMemory, count);
  const maxConnections = checkOpenFiles(config, log, count);
  const tls = tlsFiles(config, log);
  const foundation = await openFoundation(config, log, count, options);
  const { db, databaseUrl, embedded, demo } = foundation;
  const ticketKeys = randomBytes(TICKET_KEYS_BYTES).toString('base64');
  const startOf = (worker: number): WorkerStart => ({
    worker,
    databaseUrl: embedded?.url ?? null,
    upstreamUrl: demo?.url ?? null,
    maxConnections: Math.ceil(maxConnections / count),
    maxRequests: Math.ceil(config.maxRequests / count),
    maxMemoryBytes: Math.floor(maxMemory / count),
    ticketKeys,
  });
  const metrics = new Metrics();
  const { drainSeconds } = config;
  const hasSpool = config.spoolDir !== null;
  const supervisor = new Supervisor({
    count,
    startOf,
    drainSeconds,
    maxConnections,
    hasSpool,
    metrics,
    log,
  });
  let draining = false;
  metrics.gauge(
    'tollgate_draining',
    '1 while open requests finish before a stop',
    () => (draining ? 1 : 0),
    'max',
  );

  const api = createServer({ noDelay: true, pauseOnConnect: true });
  api.on('connection', (connection) => supervisor.take(connection));
  api.on('error', (error) => {
    if (api.listening) log.error({ err: error }, 'cannot accept connections'); // otherwise the start fails
  });
  const health = {
    log,
    metrics: () => supervisor.metrics(),
    waitingFor: () => (draining ? [STOPPING] : supervisor.isReady ? [] : ['a worker']),
    silent: () => supervisor.silent(),
  };
  const apiUrl = (): string => urlOf(config, api);
  const admin = openAdmin(config, health, tls, Date.now, () => ({
    databaseUrl,
    apiUrl: apiUrl(),
    demoUrl: demo?.url ?? null,
  }));

  return appOf(
    config,
    { db, demo: demo !== null, apiUrl, admin },
    {
      async listen() {
        await supervisor.start();
        await listenTo(config, api);
        await admin?.listen();
      },
      async drain(seconds, delaySeconds = 0) {
        draining = true;
        if (delaySeconds > 0) await sleep(delaySeconds * 1000);
        await takeAccepted();
        api.close();
        return await supervisor.drain(seconds);
      },
      async close() {
        tls?.close();
        if (api.listening) api.close();
        const adminClosed = admin?.close();
        const lost = await supervisor.close();
        await adminClosed;
        await foundation.close();
        return lost;
      },
      replace: () => supervisor.replace(),
      kill: () => supervisor.kill(),
    },
  );
}

/** @throws ConfigError when workers would refuse requests for want of memory */
function checkMemory(maxMemory: number, count: number): void {
  if (maxMemory >= count * LEAST_MEMORY) return;
  const [there, needed] = [maxMemory, count * LEAST_MEMORY].map((bytes) =>
    Math.floor(bytes / MEBIBYTE),
  );
  throw new ConfigError([
    `WORKERS: ${count} workers need MAX_MEMORY_MB=${needed} or more, and there are ${there}`,
  ]);
}

/** Opens the parts that all workers use: the migrated database and the demo upstream. @throws as `openEngine` does */
function openFoundation(config: Config, log: Logger, count: number, options: EngineOptions) {
  // a replacement has its connections beside the one that it replaces
  const settings = { max_connections: String(SPARE_CONNECTIONS + OWN_CONNECTIONS * (count + 1)) };
  const prepare = async (db: Database): Promise<void> => {
    const { billingTimezone } = config;
    await migrate(db, { billingTimezone, onProgress: (text) => log.warn({}, text) });
    await options.prepare?.(db);
  };
  return openBase(config, log, 1, { stop: options.stop, prepare, settings });
}
