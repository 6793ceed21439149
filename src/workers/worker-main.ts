import type { Socket } from 'node:net';
import { hostname } from 'node:os';
import { openApi, tlsFiles } from '../app.ts';
import { type Config, ConfigError, readConfig } from '../config.ts';
import { flushLog, openLog } from '../log.ts';
import { collectYoung, reclaimAtRest } from '../runtime/collection.ts';
import { tuneHeap } from '../runtime/heap.ts';
import { IdleInterval } from '../runtime/idle-interval.ts';
import { parseDatabaseUrl } from '../store/connection/address.ts';
import type { FromWorker, ToWorker, WorkerStart } from './messages.ts';

/** How often the number of open connections is told, while there are some. */
const TELL_MS = 500;

/**
 * One worker of `tollgate serve --workers N`: a gateway that gets its connections from the supervisor, which
 * started this process (worker-process.ts). It ends when it is told to, or when the supervisor has died.
 */
type Worker = Awaited<ReturnType<typeof openWorker>>;

// a terminal and a service manager signal all processes: the supervisor alone decides
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});

let worker: Promise<Worker> | null = null;
process.on(
  'message',
  (message: ToWorker, connection) => void onMessage(message, connection as Socket | undefined),
);
process.once('disconnect', () => void onDisconnect());

async function onDisconnect(): Promise<void> {
  const opened = await worker?.catch(() => null);
  if (opened == null) process.exit(1);
  await opened.end();
}

async function onMessage(message: ToWorker, connection?: Socket): Promise<void> {
  if (typeof message === 'object' && 'start' in message) {
    worker = openWorker(message.start);
    await worker.then(() => tell('ready'), fail);
    return;
  }
  const opened = await worker?.catch(() => null);
  if (opened == null) return; // `fail` ends the process
  const { take, adopt, families, end } = opened;
  if (message === 'connection') take(connection);
  else if (message === 'adopt') adopt();
  else if ('leave' in message) await end(message.leave);
  else tell({ answer: message.id, families: message.ask === 'metrics' ? families() : [] });
}

async function openWorker(start: WorkerStart) {
  tuneHeap();
  const config = configOf(start);
  const log = openLog(config.logLevel, start.worker);
  const tls = tlsFiles(config, log, Buffer.from(start.ticketKeys, 'base64'));
  const name = `${hostname() || 'unnamed'}/${start.worker}`;
  const api = await openApi(config, log, tls, { collectYoung, name });
  const { engine, server, connections } = api;
  server.emit('listening'); // from here on Node looks for requests that arrive too slowly
  reclaimAtRest();
  let taken = 0;
  let ending = false;
  const told = { taken: 0, open: 0 };
  const tellLoad = (): void => {
    const { size: open } = connections;
    if (taken === told.taken && open === told.open) return;
    Object.assign(told, { taken, open });
    tell({ ...told });
  };
  const telling = new IdleInterval(TELL_MS, () => {
    tellLoad();
    return told.open > 0;
  });
  return {
    adopt: () => engine.adopt(),
    families: () => engine.services.metrics.families(),
    /** @param connection undefined: it was closed on its way */
    take(connection: Socket | undefined): void {
      taken++;
      if (connection !== undefined) {
        connection.allowHalfOpen = true; // as http.Server has it
        server.emit('connection', connection);
      }
      setImmediate(tellLoad);
      telling.wake();
    },
    /** Finishes open requests and ends the process. */
    async end(seconds = config.drainSeconds): Promise<void> {
      if (ending) return;
      ending = true;
      const cut = await api.drain(seconds);
      tls?.close();
      api.cut();
      const lost = await engine.close();
      telling.rest();
      // before the log, which may be read slowly
      tell({ left: { cut, lost, families: engine.services.metrics.families() } }, async () => {
        await flushLog(log);
        process.exit(0);
      });
    },
  };
}

/** The configuration with this worker's parts of it. @throws ConfigError */
function configOf({
  databaseUrl,
  upstreamUrl,
  maxConnections,
  maxRequests,
  maxMemoryBytes,
}: WorkerStart): Config {
  const config = readConfig(process.env, parseDatabaseUrl);
  return {
    ...config,
    databaseUrl: databaseUrl ?? config.databaseUrl,
    upstreamUrls: upstreamUrl === null ? config.upstreamUrls : [new URL(upstreamUrl)],
    maxConnections,
    maxRequests,
    maxMemoryBytes,
  };
}

function fail(error: Error): void {
  const mistakes = error instanceof ConfigError ? error.mistakes : [];
  tell({ failed: { mistakes, message: error.message } }, () => process.exit(1));
}

/** @param then called when it is sent, or cannot be */
function tell(message: FromWorker, then = (): void => {}): void {
  if (!process.connected) return then();
  process.send?.(message, undefined, undefined, then);
}
