import { randomUUID } from 'node:crypto';
import { hostname, totalmem } from 'node:os';
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import { type Config, ConfigError } from './config.ts';
import type { Demo } from './demo/server.ts';
import type { Channel } from './domain/event.ts';
import { Calendar } from './domain/month.ts';
import type { Clock } from './domain/ports.ts';
import { CostCenters, OTHERS } from './domain/request/cost-center.ts';
import { refusedNames, SteeringFilter } from './domain/request/steering.ts';
import { Estimator } from './domain/tokens/estimate.ts';
import { NO_TENANT_ROLE } from './domain/wording/start-notice.ts';
import { EventSender } from './events/sender.ts';
import { Deadlines } from './gateway/request/deadlines.ts';
import { HeldMemory } from './gateway/request/held-memory.ts';
import { Keepalive } from './gateway/request/keepalive.ts';
import { RequestLog } from './gateway/request/log.ts';
import { Names } from './gateway/request/model-names.ts';
import { Overload } from './gateway/request/overload.ts';
import type { Services } from './gateway/request/services.ts';
import { UsageNotes } from './gateway/request/usage-notes.ts';
import { BatchLedger } from './ledger/batch-ledger.ts';
import { CallReader } from './ledger/call-reader.ts';
import { fileDisk } from './ledger/disk.ts';
import { Spool } from './ledger/spool.ts';
import { systemTiming } from './ledger/timing.ts';
import { LeasedLimiter } from './limits/limiter.ts';
import { type Log, type Logger, lineSink, reasonOf } from './log.ts';
import { Metrics } from './metrics.ts';
import { BodyMemory } from './runtime/body-memory.ts';
import { systemProcesses } from './runtime/processes.ts';
import { programVersion } from './runtime/version.ts';
import { type Database, openDatabase } from './store/connection/pool.ts';
import { awaitStart } from './store/connection/starting.ts';
import { ensureTenantRole } from './store/connection/tenant-role.ts';
import { eventStore } from './store/events/event.ts';
import { ChangeFeed } from './store/gateway/change-feed.ts';
import { CachedDirectory } from './store/gateway/directory.ts';
import { type GatewayStore, gatewayStore } from './store/gateway/gateways.ts';
import { Heartbeat, type HeartbeatOptions } from './store/gateway/heartbeat.ts';
import { ledgerStore } from './store/gateway/ledger.ts';
import { limitStore } from './store/gateway/limits.ts';
import { PriceDates } from './store/gateway/price-dates.ts';
import { trailStore } from './store/gateway/request-trail.ts';
import type { Embedded } from './store/schema/embedded.ts';
import { migrate } from './store/schema/migrate.ts';
import { TrailWriter } from './trail/writer.ts';
import { measureUpstream, openUpstream } from './upstream/open.ts';

/** A gateway without a server: everything that answers a request. */
export interface Engine {
  /** For `createListener` and `createHandler`. */
  readonly services: Services;
  readonly db: Database;
  readonly databaseUrl: string;
  /** Base address of the demo upstream, which answers instead of a real one; null: there is a real one. */
  readonly demoUrl: string | null;
  /** Takes over at once what dead gateways left in the spool folder; it happens every few seconds anyway. */
  adopt(): void;
  /**
   * Writes the usage records and closes everything; resolves with how many could not be written. It takes 12 s at most,
   * and a moment to end connections. Those to clients are cut just before, by the caller.
   */
  close(): Promise<number>;
}

const CLOSE_MS = 10_000; // how long closing waits for the database to take the last records
const LAST_MS = 1000; // how long after that for everything else
const HELD_MEMORY = 0.5; // part of all memory that large bodies and answers may take
const ONE_BODY = 1.15; // times the largest body: a company alone may take seven eighths of what bodies may take
const NOTICE_MS = 1000; // how long it waits for clients that were cut to be noticed

const MANY_COST_CENTERS = `this company names very many cost centres: this month further ones are booked as "${OTHERS}"`;

const MEBIBYTE = 1_048_576;
/** Below this a gateway refuses requests soon: under a light load it has some 100 MB. */
const LEAST_MEMORY = 120 * MEBIBYTE;

/** Database connections of the API: queries, and the change feed's LISTEN. */
const QUERY_CONNECTIONS = 2;
const API_CONNECTIONS = QUERY_CONNECTIONS + 1;
/** One more is for events and the request trail, unless the API's are all there are. */
export const OWN_CONNECTIONS = API_CONNECTIONS + 1;

/** What a gateway takes from its process. */
export interface EngineOptions {
  /** Decides the billing month. Default: the system's clock. */
  readonly clock?: Clock;
  /** Makes V8 collect its young generation. Missing in a process that is not the gateway's own. */
  readonly collectYoung?: () => void;
  /** The gateway's name for operators. Default: that of the machine. */
  readonly name?: string;
  readonly prepare?: Prepare | undefined;
  /** Aborts when the gateway is to stop before it has started: what waits for the database then rejects. */
  readonly stop?: AbortSignal | undefined;
}

/** Does what the migrated database needs before anything uses it. */
export type Prepare = (db: Database) => Promise<void>;

/**
 * Puts one gateway together: database (embedded without DATABASE_URL), migrations, caches,
 * ledger, upstream (the demo without UPSTREAM_URL).
 * @throws ConfigError, MigrationRefused, DatabaseUnavailable, DatabaseRefused; nothing is left open then
 */
export async function openEngine(
  config: Config,
  log: Log,
  options: EngineOptions = {},
): Promise<Engine> {
  const { clock = Date.now, collectYoung, name = hostname() || 'unnamed' } = options;
  const writer = randomUUID();
  const foundation = await openFoundation(config, writer, log, options);
  const { db, databaseUrl, spool, demo } = foundation;
  const upstream = await upstreamOf(config, demo, log);
  const calendar = new Calendar(config.billingTimezone);
  const metrics = new Metrics();
  const directory = new CachedDirectory(db, log);
  const monthOf = (at: number): string => calendar.month(at);
  const store = ledgerStore(db);
  const ledger = new BatchLedger({ store, clock, calendar, log, writer, spool });
  ledger.start();
  const prices = new PriceDates(db, log);
  const limiter = new LeasedLimiter(limitStore(db), writer, log);
  const tracing = await openTracing(config, writer, metrics, log);
  const own = openOwn(config, databaseUrl);
  const events = await openEvents(config, db, own ?? db, writer, metrics, log);
  const feed = new ChangeFeed(db, [directory, prices], log, {
    onSpend(changed) {
      ledger.heard(changed);
      if (changed) events.spent();
    },
  });
  const { trail, keeper } = openTrail(config, own ?? db, metrics, log);
  const { overload, heldMemory } = boundsOf(config, log);
  const deadlines = new Deadlines(config);
  const keepalive = config.streamKeepaliveMs === 0 ? null : new Keepalive(config.streamKeepaliveMs);
  const gateways = gatewayStore(db, writer, name, programVersion());
  const usageNotes = new UsageNotes(log);
  const sources = { spool, ledger, limiter, overload, usageNotes };
  const heartbeat = heartbeatOf(gateways, sources, { clock, log });
  measureUpstream(metrics, upstream);
  measure(metrics, { ledger, directory, feed, overload, heldMemory, limiter, heartbeat }, () =>
    monthOf(clock()),
  );

  return {
    db,
    databaseUrl,
    demoUrl: demo?.url ?? null,
    adopt: () => ledger.adopt(),
    services: {
      directory,
      ledger,
      limiter,
      calls: new CallReader({
        store,
        timing: systemTiming(clock),
        isAvailable: () => ledger.available,
      }),
      upstream,
      calendar,
      clock,
      log,
      metrics,
      overload,
      heldMemory,
      deadlines,
      keepalive,
      settings: config,
      estimator: new Estimator(),
      costCenters: new CostCenters((company) => log.warn({ company }, MANY_COST_CENTERS)),
      names: new Names(upstream.secrets),
      usageNotes,
      requestLog: new RequestLog(lineSink(log), metrics, clock, trail),
      tracer: tracing?.tracer ?? null,
      bodyMemory: new BodyMemory(collectYoung),
      steering: new SteeringFilter(refusedNames(config.refusedParameters)),
    },
    async close() {
      await untilNoticed(overload);
      await upstream.destroy(); // before the ledger is closed: calls that it ends are booked
      deadlines.close();
      keepalive?.close();
      overload.close();
      const closing = ledger.close(CLOSE_MS); // first: it ends answers, which trail and traces tell of
      const sources = [limiter, events, keeper, tracing?.exporter, feed, prices];
      const others = [heartbeat.close(closing), ...sources.map((each) => each?.close())];
      const late = sleep(CLOSE_MS + LAST_MS, undefined, { ref: false });
      await Promise.race([Promise.all([closing, ...others]), late]);
      await own?.close(); // what still waits for the database ends with it
      await foundation.close();
      return await closing;
    },
  };
}

/**
 * Waits until calls whose clients were cut are booked as aborted. After the upstream is closed they would count as
 * its failures, and be free.
 */
async function untilNoticed(overload: Overload): Promise<void> {
  for (
    const end = performance.now() + NOTICE_MS;
    overload.inFlight > 0 && performance.now() < end;
  ) {
    await setImmediate();
  }
}

/** What refuses requests that are too many, or too large together. Warns where memory hardly suffices for a gateway at rest. */
function boundsOf(config: Config, log: Logger) {
  const { maxRequests, maxDelayMs, maxBodyBytes } = config;
  const maxMemoryBytes = config.maxMemoryBytes ?? mostMemory();
  if (maxMemoryBytes < LEAST_MEMORY) {
    const megabytes = Math.floor(maxMemoryBytes / MEBIBYTE);
    log.warn(
      {},
      `requests get 503 beyond ${megabytes} MB of memory (MAX_MEMORY_MB), and a gateway has about that at rest: give the container or MAX_MEMORY_MB more`,
    );
  }
  // as far as there is memory, each company finds room for its largest body, even where another holds all it may
  const wanted = Math.max(HELD_MEMORY * maxMemoryBytes, 8 * maxBodyBytes);
  const free = Math.max(maxMemoryBytes - LEAST_MEMORY, ONE_BODY * maxBodyBytes);
  const heldMemory = new HeldMemory(Math.min(wanted, free));
  return { overload: new Overload({ maxRequests, maxDelayMs, maxMemoryBytes }), heldMemory };
}

/** The upstream of the configuration, or the demo. */
function upstreamOf(config: Config, demo: Demo | null, log: Logger) {
  return openUpstream(
    {
      urls: config.upstreamUrls ?? [new URL((demo as Demo).url)],
      apiKey: config.upstreamApiKey,
      headers: config.upstreamHeaders,
      idleMs: config.upstreamIdleMs,
      connectMs: config.connectMs + 1000, // the gateway's own deadline comes first
    },
    config.fastHttp,
    log,
  );
}

/** The parts whose state the heartbeat tells. */
interface HeartbeatSources {
  readonly spool: Spool | null;
  readonly ledger: BatchLedger;
  readonly limiter: LeasedLimiter;
  readonly overload: Overload;
  readonly usageNotes: UsageNotes;
}

function heartbeatOf(
  store: GatewayStore,
  { spool, ledger, limiter, overload, usageNotes }: HeartbeatSources,
  options: HeartbeatOptions,
): Heartbeat {
  const state = () => ({
    backlog: ledger.backlog,
    lag: ledger.lag,
    lost: ledger.lost,
    spoolFailing: !ledger.spooling,
    limitsAlone: limiter.isAlone,
    inFlight: overload.inFlight,
    unreadUsage: usageNotes.unread,
    adopted: spool?.adopted ?? new Set<string>(),
  });
  return new Heartbeat(store, state, options);
}

/**
 * Opens spool, database and demo upstream, and migrates the database. The spool is the ledger's to close.
 * @throws as `openEngine` does
 */
async function openFoundation(
  config: Config,
  writer: string,
  log: Logger,
  { prepare, stop }: EngineOptions,
) {
  const spool = openSpool(config, writer, log);
  try {
    const prepareBase = async (db: Database): Promise<void> => {
      await migrate(db, {
        billingTimezone: config.billingTimezone,
        onProgress: (text) => log.warn({}, text),
      });
      const advice = await ensureTenantRole(db);
      if (advice !== null) log.warn({}, `${NO_TENANT_ROLE.text} ${NO_TENANT_ROLE.remedy(advice)}`);
      await prepare?.(db);
    };
    const base = await openBase(config, log, QUERY_CONNECTIONS, { prepare: prepareBase, stop });
    return { ...base, spool };
  } catch (error) {
    spool?.close();
    throw error;
  }
}

/**
 * Opens the database, embedded without DATABASE_URL, and the demo upstream, which runs without UPSTREAM_URL.
 * @param options.settings of the embedded database
 * @throws as `openEngine` does
 */
export async function openBase(
  config: Config,
  log: Logger,
  maxConnections: number,
  {
    prepare,
    stop,
    settings = {},
  }: Pick<EngineOptions, 'prepare' | 'stop'> & { settings?: Record<string, string> },
) {
  let embedded: Embedded | null = null;
  if (config.databaseUrl === null) {
    const { startEmbedded } = await import('./store/schema/embedded.ts');
    embedded = await startEmbedded({ dataDir: config.dataDir, log, settings });
  }
  const databaseUrl = config.databaseUrl ?? (embedded as Embedded).url;
  const db = openDatabase({
    url: databaseUrl,
    urlFile: config.databaseUrlFile,
    maxConnections,
    isFast: config.fastHttp,
  });
  let demo: Demo | null = null;
  const close = async (): Promise<void> => {
    await demo?.close();
    await db.close();
    await embedded?.stop();
  };
  const giveUp = (): void => void db.close();
  stop?.addEventListener('abort', giveUp);
  if (stop?.aborted) giveUp();
  try {
    await awaitStart(db, (line) => log.warn({}, line));
    await prepare?.(db);
    if (config.upstreamUrls === null)
      demo = await (await import('./demo/server.ts')).startDemo({ port: 0, log });
    return { db, databaseUrl, embedded, demo, close };
  } catch (error) {
    await close();
    throw error;
  } finally {
    stop?.removeEventListener('abort', giveUp);
  }
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
    return new Spool({
      disk: fileDisk(config.spoolFsync),
      processes: systemProcesses(),
      folder,
      id,
      uptime,
      log,
    });
  } catch (error) {
    const reason = reasonOf(error);
    throw new ConfigError([
      `SPOOL_DIR: ${folder} cannot be written (${reason}); make it writable, choose another folder, or set it empty to do without`,
    ]);
  }
}

/** Loaded only where it is used. */
async function openTracing(config: Config, instance: string, metrics: Metrics, log: Logger) {
  const { tracing, basePath, ownedBy: provider } = config;
  if (tracing === null) return null;
  const { url: base, headers, service, sampler, ignored } = tracing;
  for (const each of ignored) log.warn(each, 'the value is not known here and is ignored');
  const { SpanExporter } = await import('./tracing/exporter.ts');
  const { Tracer } = await import('./gateway/request/trace.ts');
  const url = new URL(`${base.href.replace(/\/+$/, '')}/v1/traces`);
  const exporter = new SpanExporter({ url, headers, service, instance, log });
  metrics.counter(
    'tollgate_trace_spans_total',
    'Spans a collector took, and those dropped',
    (add) => {
      add({ result: 'exported' }, exporter.exported);
      add({ result: 'dropped' }, exporter.dropped);
    },
  );
  return { exporter, tracer: new Tracer({ exporter, basePath, provider, sampler }) };
}

/** A connection for what must not hold up the ledger; null where there is none to spare. */
function openOwn(
  { databaseConnections, databaseUrlFile: urlFile, fastHttp }: Config,
  url: string,
): Database | null {
  return databaseConnections > API_CONNECTIONS
    ? openDatabase({ url, urlFile, maxConnections: 1, isFast: fastHttp })
    : null;
}

/** `trail` is null where it is off; `keeper` then drops what was kept before. */
function openTrail(
  { requestTrailDays: days }: Config,
  db: Database,
  metrics: Metrics,
  log: Logger,
) {
  const trail = new TrailWriter({ store: trailStore(db), days, log });
  if (days === 0) return { trail: null, keeper: trail };
  metrics.counter(
    'tollgate_request_trail_total',
    'Requests the trail holds, and those dropped',
    (add) => {
      add({ result: 'written' }, trail.written);
      add({ result: 'dropped' }, trail.dropped);
    },
  );
  return { trail, keeper: trail };
}

/** What sends an event is loaded only where it is set up. */
async function openEvents(
  config: Config,
  db: Database,
  own: Database,
  holder: string,
  metrics: Metrics,
  log: Logger,
) {
  const { alertWebhook, alertMail, adminUrl: pages, brand } = config;
  const webhook =
    alertWebhook && (await import('./events/webhook.ts')).webhookSender(alertWebhook, pages);
  const email =
    alertMail && (await import('./events/email.ts')).emailSender({ ...alertMail, pages, brand });
  const channels = { ...(webhook && { webhook }), ...(email && { email }) };
  const operators = alertMail?.to ?? [];
  const sender = new EventSender({ store: eventStore(db, own), holder, channels, operators, log });
  const each = Object.entries(sender.counts);
  metrics.counter(
    'tollgate_alerts_total',
    'Attempts to send an event, budget alerts among them',
    (add) => {
      for (const [channel, { delivered, failed }] of each) {
        add({ channel, result: 'delivered' }, delivered);
        add({ channel, result: 'failed' }, failed);
      }
    },
  );
  const sends = '1 on the gateway that looks for budget alerts and sends events';
  metrics.gauge('tollgate_alerts_sender', sends, () => (sender.dead === null ? 0 : 1));
  const dead = 'Deliveries of events given up; 0 on gateways that do not send them';
  metrics.gauge('tollgate_alerts_dead', dead, (write) => {
    for (const [channel] of each) write({ channel }, sender.dead?.[channel as Channel] ?? 0);
  });
  return sender;
}

/** The parts of a gateway whose figures are metrics. */
interface Measured {
  readonly ledger: BatchLedger;
  readonly directory: CachedDirectory;
  readonly feed: ChangeFeed;
  readonly overload: Overload;
  readonly heldMemory: HeldMemory;
  readonly limiter: LeasedLimiter;
  readonly heartbeat: Heartbeat;
}

function measure(metrics: Metrics, parts: Measured, monthNow: () => string): void {
  const { ledger, directory, feed, overload, heldMemory, limiter, heartbeat } = parts;
  measureLedger(metrics, ledger);
  measureDirectory(metrics, directory, feed);
  measureLoad(metrics, overload, heldMemory);
  metrics.counter(
    'tollgate_requests_limited_total',
    'Requests refused with 429 for a limit of theirs',
    (add) => {
      for (const [limit, refused] of Object.entries(limiter.refused)) add({ limit }, refused);
    },
  );
  const skew = 'How far this clock and that of the database are apart';
  metrics.gauge(
    'tollgate_clock_skew_seconds',
    skew,
    () => Math.abs(heartbeat.aheadMs) / 1000,
    'max',
  );
  const most =
    'The most any company was found beyond its budget this month, in EUR; a budget lowered meanwhile shows too';
  metrics.gauge('tollgate_budget_overshoot_eur', most, () => metrics.overshoot(monthNow()), 'max');
}

function measureLedger(metrics: Metrics, ledger: BatchLedger): void {
  metrics.gauge(
    'tollgate_ledger_backlog',
    'Usage records not yet in the database',
    () => ledger.backlog,
  );
  const available = '1 while the database takes records and answers';
  metrics.gauge('tollgate_database_available', available, () => (ledger.available ? 1 : 0), 'min');
  const lag = 'How long the oldest usage record not yet in the database has waited';
  metrics.gauge('tollgate_ledger_lag_seconds', lag, () => ledger.lag / 1000, 'max');
  metrics.counter(
    'tollgate_ledger_set_aside_total',
    'Usage records the database refused',
    () => ledger.setAside,
  );
  const lost = 'Usage records lost: no disk, no database, no memory';
  metrics.counter('tollgate_ledger_lost_total', lost, () => ledger.lost);
  metrics.gauge(
    'tollgate_spool_bytes',
    'Size of the spool files not yet in the database',
    () => ledger.spoolBytes,
  );
  metrics.gauge(
    'tollgate_spool_failing',
    '1 while the disk refuses records, or does not give them back',
    () => (ledger.spooling ? 0 : 1),
    'max',
  );
  metrics.gauge(
    'tollgate_reservations',
    'Requests of strict budgets in flight',
    () => ledger.reservations,
  );
}

function measureDirectory(
  metrics: Metrics,
  { keys, companies, assistants }: CachedDirectory,
  feed: ChangeFeed,
): void {
  const caches = Object.entries({ keys, companies, assistants });
  const count = (
    name: string,
    help: string,
    read: (cache: (typeof caches)[number][1]) => number,
  ): void =>
    metrics.counter(name, help, (add) => {
      for (const [cache, counted] of caches) add({ cache }, read(counted));
    });
  count(
    'tollgate_cache_hits_total',
    'Keys, companies and assistants that were in memory',
    ({ hits }) => hits,
  );
  count(
    'tollgate_cache_misses_total',
    'Keys, companies and assistants that had to be read',
    ({ misses }) => misses,
  );
  count(
    'tollgate_cache_reads_total',
    'Queries for what was not in memory, many in one',
    ({ reads }) => reads,
  );
  metrics.gauge('tollgate_cached_keys', 'Keys in memory', () => keys.size);
  const listening = '1 while changes are notified; else they are asked for';
  metrics.gauge('tollgate_changes_listening', listening, () => (feed.listening ? 1 : 0), 'min');
}

function measureLoad(metrics: Metrics, overload: Overload, held: HeldMemory): void {
  metrics.gauge('tollgate_requests_in_flight', 'Requests being answered', () => overload.inFlight);
  const shed = 'Requests refused with 503, by what there was too little of';
  metrics.counter('tollgate_requests_shed_total', shed, (add) => {
    const { requests, memory, delay } = overload.refused;
    add({ reason: 'requests' }, requests);
    add({ reason: 'memory' }, memory + held.refused);
    add({ reason: 'delay' }, delay);
  });
  const delay = 'Event-loop delay, smoothed';
  metrics.gauge('tollgate_event_loop_delay_seconds', delay, () => overload.delayMs / 1000, 'max');
}

/** Four fifths of the container's memory, or the machine's. */
export function mostMemory(): number {
  return 0.8 * Math.min(process.constrainedMemory() || Number.POSITIVE_INFINITY, totalmem());
}
