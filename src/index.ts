import type { IncomingMessage, ServerOptions, ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { stdTimeFunctions } from 'pino';
import { ConfigError, readConfig } from './config.ts';
import { GatewayError } from './domain/errors.ts';
import { openEngine } from './engine.ts';
import { createHandler, serverOptions } from './gateway/listener.ts';
import { Reply, UNHEARD } from './gateway/request/reply.ts';
import { PlainRequest, PlainResponse } from './http/plain.ts';
import { createLog } from './log.ts';
import { ActiveSet } from './runtime/active-set.ts';
import { closeWithConnection } from './runtime/node-http.ts';
import { newRequestId } from './runtime/request-id.ts';
import { unsupportedRuntime } from './runtime/supported.ts';
import { parseDatabaseUrl } from './store/connection/address.ts';

export { ConfigError } from './config.ts';
export { DatabaseRefused, DatabaseUnavailable } from './store/connection/errors.ts';
export { MigrationRefused } from './store/schema/migrate.ts';

/** What else `createGateway` takes, by the names and with the defaults of `tollgate serve --help`. */
// biome-ignore format: one row per subject
const SETTINGS = [
  'BASE_PATH', 'OWNED_BY', 'BILLING_TIMEZONE', 'LOG_LEVEL', 'SPOOL_FSYNC', 'REFUSED_PARAMETERS', 'FAST_HTTP',
  'UPSTREAM_HEADERS', 'UPSTREAM_IDLE_SECONDS', 'UPSTREAM_CURRENCY', 'API_PROXIES', 'COST_CENTER_MEMBER',
  'COST_CENTER_HEADER', 'END_USER_HEADERS', 'QUOTA_HEADERS',
  'MAX_BODY_BYTES', 'MAX_EVENT_BYTES', 'MAX_ANSWER_BYTES', 'MAX_HEADERS', 'MAX_HEADER_BYTES',
  'MAX_REQUESTS', 'MAX_DELAY_MS', 'MAX_MEMORY_MB',
  'HEADER_SECONDS', 'BODY_SECONDS', 'STALL_SECONDS', 'CLIENT_IDLE_SECONDS', 'READ_ON_SECONDS',
  'CONNECT_SECONDS', 'FIRST_BYTE_SECONDS', 'IDLE_SECONDS', 'STREAM_KEEPALIVE_SECONDS', 'TOTAL_SECONDS',
  'OTEL_EXPORTER_OTLP_ENDPOINT', 'OTEL_EXPORTER_OTLP_HEADERS', 'OTEL_SERVICE_NAME', 'OTEL_TRACES_SAMPLER_ARG',
  'REQUEST_TRAIL_DAYS',
  'ALERT_WEBHOOK_URL', 'ALERT_WEBHOOK_SECRET', 'SMTP_URL', 'ALERT_FROM', 'ALERT_TO', 'ADMIN_URL',
] as const;

/** Backpressure and the limits of time are those of node:http; on a response of node:http2 they would not hold. */
const HTTP_2 =
  'the request came by HTTP/2: serve the gateway by HTTP/1.1, on a server of node:http or node:https';

/** How long clients may take to read why their requests were cut. */
const LAST_WORDS_MS = 1000;

export type Setting = (typeof SETTINGS)[number];

export interface GatewayOptions {
  /** `postgres://user:password@host:port/database`, straight or behind PgBouncer. Takes three connections at most. */
  readonly database: string;
  /** Base address of the model-routing proxy, up to and including its `/v1`; or several of one proxy, with commas between them. */
  readonly upstream: string | URL;
  /** The proxy's master key, sent to it as a bearer token; none is sent without. */
  readonly upstreamApiKey?: string | undefined;
  /**
   * A folder on local disk for usage records on their way to the database; gateways may share
   * it. null: they wait in memory, and those not yet in the database die with the process.
   */
  readonly spool: string | null;
  /** Default: JSON lines on standard error. */
  readonly logger?: GatewayLogger | undefined;
  /** Limits and other settings. Nothing is read from the environment. undefined: the default. */
  readonly settings?: { readonly [name in Setting]?: string | number | undefined } | undefined;
}

/** A pino logger is one. Fields hold no keys, prompts or internal model names, save where the upstream's own words are told. */
export interface GatewayLogger {
  error(fields: object, text: string): void;
  warn(fields: object, text: string): void;
  info(fields: object, text: string): void;
  debug(fields: object, text: string): void;
}

export interface Gateway {
  /**
   * Answers a request of the API, for a path below BASE_PATH (`/v1`); other paths get its 404. Takes
   * the request as the server emitted it: HTTP/1.1, its body unread, `req.url` whole. Requests of HTTP/2 get 500.
   */
  readonly handler: (req: IncomingMessage, res: ServerResponse) => void;
  /**
   * Create the server with these for HEADER_SECONDS, BODY_SECONDS, MAX_HEADER_BYTES and the memory
   * bound of slow readers to hold. Up to the server itself are its number of connections
   * (`maxConnections`), its answer to bytes that are no HTTP (`clientError`), CONNECT and upgrades.
   */
  readonly serverOptions: ServerOptions;
  /** Everything measured, in the Prometheus text format. */
  metrics(): Promise<string>;
  /**
   * Resolves once no answer is open, or after so many seconds. From now on answers close their
   * connections. Close the server first, so that it accepts no new ones.
   * @returns how many answers are still open
   */
  drain(seconds: number): Promise<number>;
  /**
   * Cuts answers still open, and tells their clients; writes the usage records, for up to 10 s, and closes everything.
   * Later requests get 503.
   * @returns how many usage records could neither be written nor spooled; 0 is good
   */
  close(): Promise<number>;
}

/**
 * Makes a gateway for a server of your own. Migrates the database first; when it resolves, the
 * gateway is ready. It handles no signals, sets no flags of V8 and never exits the process.
 *
 *   const gateway = await createGateway({ database, upstream, spool: './spool' });
 *   createServer(gateway.serverOptions, (req, res) => {
 *     if (req.url?.startsWith('/v1/')) gateway.handler(req, res);
 *     else …
 *   });
 *
 * @throws ConfigError all that is wrong with the options, one line each in `mistakes`
 * @throws MigrationRefused the database belongs to another version or billing zone
 * @throws DatabaseUnavailable, DatabaseRefused
 */
export async function createGateway(options: GatewayOptions): Promise<Gateway> {
  const unsupported = unsupportedRuntime(process.versions);
  if (unsupported !== null) throw new ConfigError([`tollgate ${unsupported}`]);
  const config = readOptions(options);
  const log = loggerTo(options.logger, config.logLevel);
  const { services, close } = await openEngine(config, log);
  const open = new ActiveSet<{ readonly res: ServerResponse; index: number }>();
  let isDraining = false;
  let closed: Promise<number> | null = null;
  const handle = createHandler(services, () => isDraining);
  const answered = async (ms: number): Promise<void> => {
    for (const end = performance.now() + ms; open.size > 0 && performance.now() < end; )
      await sleep(20);
  };
  services.metrics.gauge('tollgate_draining', '1 while open requests finish before a stop', () =>
    isDraining ? 1 : 0,
  );

  return {
    serverOptions: serverOptions(services.settings),
    handler(req, res) {
      const response = new PlainResponse(res);
      if (req.httpVersionMajor !== 1 || closed !== null) {
        const reply = new Reply(response, newRequestId(), UNHEARD);
        if (closed !== null)
          return reply.error(new GatewayError('service_unavailable'), req.httpVersionMajor === 1);
        log.error({ request_id: reply.requestId }, HTTP_2);
        return reply.error(new GatewayError('internal_error', 'The gateway takes HTTP/1.1 only.'));
      }
      if (req.socket.destroyed) return; // the client left before the application called
      closeWithConnection(res);
      const answer = { res, index: -1 };
      open.join(answer);
      res.once('close', () => open.leave(answer));
      handle(new PlainRequest(req, targetOf(req, config.basePath)), response);
    },
    metrics: async () => services.metrics.text(),
    async drain(seconds) {
      isDraining = true;
      await answered(seconds * 1000);
      return open.size;
    },
    close() {
      const end = async (): Promise<number> => {
        services.deadlines.stop();
        await answered(LAST_WORDS_MS);
        open.each(({ res }) => res.destroy());
        return await close();
      };
      closed ??= end();
      return closed;
    },
  };
}

/** Frameworks that mount a handler at a path take it off `url`, and keep the whole in `originalUrl`. */
function targetOf(req: IncomingMessage, basePath: string): string {
  const { url, originalUrl } = req as { url: string; originalUrl?: string };
  return url.startsWith(basePath) ? url : (originalUrl ?? url);
}

/** Reads the options as if they came from the environment, so that one place checks both. @throws ConfigError */
function readOptions(options: GatewayOptions) {
  const {
    database,
    upstream,
    upstreamApiKey = '',
    spool,
    logger,
    settings = {},
    ...others
  } = options;
  const unknown = Object.keys(settings).filter((name) => !SETTINGS.includes(name as Setting));
  const mistakes = [
    ...Object.keys(others).map((name) => `${name}: is no option of createGateway`),
    ...unknown.map((name) => `${name}: is no setting of createGateway`),
  ];
  const levels = logger === undefined ? [] : (['error', 'warn', 'info', 'debug'] as const);
  if (levels.some((level) => typeof logger?.[level] !== 'function'))
    mistakes.push('logger: must have the functions error, warn, info and debug');
  if (mistakes.length > 0) throw new ConfigError(mistakes);
  const missing = Object.entries({ database, upstream }).filter(([, value]) => !value);
  if (missing.length > 0) throw new ConfigError(missing.map(([name]) => `${name}: is needed`));
  const given = Object.entries(settings).filter(([, value]) => value !== undefined);
  return readConfig(
    {
      ...Object.fromEntries(given.map(([name, value]) => [name, String(value)])),
      DATABASE_URL: database,
      UPSTREAM_URL: String(upstream),
      UPSTREAM_API_KEY: upstreamApiKey,
      SPOOL_DIR: spool ?? '',
      DATABASE_CONNECTIONS: '3',
    },
    parseDatabaseUrl,
  );
}

const METHODS = { 20: 'debug', 30: 'info', 40: 'warn', 50: 'error', 60: 'error' } as const;

/** A logger that hands each line, parsed again, to the caller's own. */
function loggerTo(logger: GatewayLogger | undefined, level: string) {
  const own = { level, base: null, timestamp: stdTimeFunctions.isoTime };
  if (logger === undefined) return createLog(own, process.stderr);
  return createLog(own, {
    write(line) {
      const { level, time: _ours, msg = 'request', ...fields } = JSON.parse(line);
      logger[METHODS[level as keyof typeof METHODS] ?? 'debug'](fields, msg);
    },
  });
}
