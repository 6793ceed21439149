/**
 * The environment (contract section 2), read once into one frozen value. The table
 * below is also what `tollgate serve --help` prints.
 */
export interface Config {
  readonly host: string;
  readonly port: number;
  /** Path of a Unix socket; listens there instead of on host and port. */
  readonly listenSocket: string | null;
  /** The optional fast path of src/http and src/upstream is in use. */
  readonly fastHttp: boolean;
  /** Several processes may listen on the port. */
  readonly reusePort: boolean;
  readonly adminHost: string;
  /** null: no admin listener. */
  readonly adminPort: number | null;
  readonly basePath: string;
  /** null: the embedded database in dataDir. */
  readonly databaseUrl: string | null;
  /** Connections at most, the change feed's and those of the admin pages included; at least 3. */
  readonly databaseConnections: number;
  readonly dataDir: string;
  /** null: no spool. */
  readonly spoolDir: string | null;
  /** Each group of records waits for the disk. */
  readonly spoolFsync: boolean;
  /** null: the demo upstream. */
  readonly upstreamUrl: URL | null;
  readonly upstreamApiKey: string | null;
  readonly ownedBy: string;
  readonly keyPrefix: string;
  readonly billingTimezone: string;
  readonly drainSeconds: number;
  readonly logLevel: string;
  /** As written: `refusedNames` in domain/steering.ts reads it. */
  readonly refusedParameters: string;
  readonly maxBodyBytes: number;
  readonly maxEventBytes: number;
  readonly maxHeaders: number;
  readonly maxHeaderBytes: number;
  readonly maxConnections: number;
  readonly maxRequests: number;
  /** Mean event-loop delay in milliseconds. */
  readonly maxDelayMs: number;
  /** null: most of what the system or its container has. */
  readonly maxMemoryBytes: number | null;
  readonly headerSeconds: number;
  readonly bodySeconds: number;
  readonly connectSeconds: number;
  readonly firstByteSeconds: number;
  readonly idleSeconds: number;
  /** Base address of the API as clients reach it; null: where it listens. */
  readonly apiUrl: URL | null;
  /** Address of the administration area as people reach it, without a path; null: wherever they ask for it. */
  readonly adminUrl: URL | null;
  /** Reverse proxies in front of the admin listener whose X-Forwarded-For counts. */
  readonly adminProxies: number;
  /** null: people sign in with passwords only. */
  readonly oidc: { readonly issuer: URL; readonly clientId: string; readonly clientSecret: string | null } | null;
  /** Base address of a collector for OTLP over HTTP; null: no traces. */
  readonly otlpUrl: URL | null;
  readonly otlpHeaders: Readonly<Record<string, string>>;
  readonly serviceName: string;
  /** Share of the traces begun here that are recorded. */
  readonly traceShare: number;
  readonly totalSeconds: number;
  readonly stallSeconds: number;
}

interface Variable {
  readonly name: string;
  readonly fallback: string;
  /** How the default is shown where it is not a literal value. */
  readonly shown?: string;
  readonly meaning: string;
}

export const VARIABLES: readonly Variable[] = [
  { name: 'HOST', fallback: '127.0.0.1', meaning: 'address of the API listener' },
  { name: 'PORT', fallback: '8080', meaning: 'port of the API listener' },
  {
    name: 'LISTEN_SOCKET',
    fallback: '',
    shown: 'none',
    meaning: 'path of a Unix socket to listen on instead of HOST and PORT',
  },
  {
    name: 'FAST_HTTP',
    fallback: 'on',
    meaning: 'off: plain node:http and undici, without the optional fast path',
  },
  {
    name: 'REUSE_PORT',
    fallback: 'off',
    meaning: 'on: several processes listen on PORT, and Linux spreads connections over them',
  },
  {
    name: 'ADMIN_HOST',
    fallback: '127.0.0.1',
    meaning: 'address of the admin listener: pages, /metrics, /livez, /readyz',
  },
  { name: 'ADMIN_PORT', fallback: '8081', meaning: 'port of the admin listener; off: there is none' },
  { name: 'BASE_PATH', fallback: '/v1', meaning: 'path prefix of the API' },
  {
    name: 'DATABASE_URL',
    fallback: '',
    shown: 'embedded in DATA_DIR',
    meaning: 'Postgres 14 or newer, straight or behind PgBouncer',
  },
  {
    name: 'DATABASE_CONNECTIONS',
    fallback: '9',
    meaning: 'database connections at most: 3 for the API, the rest for the admin pages; 3: no pages',
  },
  { name: 'DATA_DIR', fallback: './data', meaning: 'embedded database and spool' },
  {
    name: 'SPOOL_DIR',
    fallback: '\0',
    shown: 'DATA_DIR/spool',
    meaning: 'local durable spool of usage records; empty turns it off',
  },
  {
    name: 'SPOOL_FSYNC',
    fallback: 'off',
    meaning: 'on: answers end once the disk has their record; power failures lose nothing',
  },
  {
    name: 'UPSTREAM_URL',
    fallback: '',
    shown: 'demo upstream',
    meaning: 'base address of the model-routing proxy, up to and including its /v1',
  },
  {
    name: 'UPSTREAM_API_KEY',
    fallback: '',
    shown: 'none',
    meaning: 'its master key, sent upstream as a bearer token, shown nowhere',
  },
  { name: 'OWNED_BY', fallback: 'tollgate', meaning: 'owned_by of every model entry' },
  { name: 'KEY_PREFIX', fallback: 'svc_', meaning: 'prefix of newly minted keys' },
  {
    name: 'BILLING_TIMEZONE',
    fallback: 'UTC',
    meaning: 'IANA zone of the billing month and of the date an assistant is told',
  },
  { name: 'DRAIN_SECONDS', fallback: '30', meaning: 'how long SIGTERM lets open requests finish' },
  { name: 'LOG_LEVEL', fallback: 'info', meaning: 'fatal, error, warn, info, debug, trace or silent' },
  {
    name: 'REFUSED_PARAMETERS',
    fallback: '',
    shown: 'standard list',
    meaning: 'request members to refuse: +name,-name adjusts the standard list, name,name replaces it',
  },
  { name: 'MAX_BODY_BYTES', fallback: '33554432', meaning: 'largest request body accepted' },
  { name: 'MAX_EVENT_BYTES', fallback: '16777216', meaning: 'largest event of an upstream stream' },
  { name: 'MAX_HEADERS', fallback: '100', meaning: 'headers a request may have' },
  { name: 'MAX_HEADER_BYTES', fallback: '16384', meaning: 'size of all of them' },
  { name: 'MAX_CONNECTIONS', fallback: '20000', meaning: 'client connections at once; more are closed' },
  { name: 'MAX_REQUESTS', fallback: '15000', meaning: 'requests at once; more get 503' },
  {
    name: 'MAX_DELAY_MS',
    fallback: '250',
    meaning: 'event-loop delay from which on new requests get 503, more and more of them',
  },
  {
    name: 'MAX_MEMORY_MB',
    fallback: '',
    shown: '80 % of all',
    meaning: 'resident memory from which on new requests get 503',
  },
  { name: 'HEADER_SECONDS', fallback: '15', meaning: 'how long a client may take over its request head' },
  { name: 'BODY_SECONDS', fallback: '120', meaning: 'and over its whole request' },
  { name: 'CONNECT_SECONDS', fallback: '10', meaning: 'how long connecting to the upstream may take' },
  { name: 'FIRST_BYTE_SECONDS', fallback: '300', meaning: 'how long the upstream may take to begin its answer' },
  { name: 'IDLE_SECONDS', fallback: '120', meaning: 'how long the upstream may pause within its answer' },
  { name: 'TOTAL_SECONDS', fallback: '3600', meaning: 'how long an answer may take in all' },
  {
    name: 'STALL_SECONDS',
    fallback: '60',
    meaning: 'how long a client may take nothing of an answer that waits for it',
  },
  {
    name: 'API_URL',
    fallback: '',
    shown: 'where it listens',
    meaning: 'base address of the API as clients reach it, shown on the admin pages',
  },
  {
    name: 'ADMIN_URL',
    fallback: '',
    shown: 'as it is asked for',
    meaning: 'address of the admin pages as people reach them; https makes cookies Secure',
  },
  {
    name: 'ADMIN_PROXIES',
    fallback: '0',
    meaning: 'reverse proxies in front of the admin listener (X-Forwarded-For)',
  },
  {
    name: 'OIDC_ISSUER',
    fallback: '',
    shown: 'none',
    meaning: 'identity provider people may sign in with; needs ADMIN_URL',
  },
  { name: 'OIDC_CLIENT_ID', fallback: '', shown: 'none', meaning: 'what the provider knows these pages as' },
  { name: 'OIDC_CLIENT_SECRET', fallback: '', shown: 'none', meaning: 'and their secret, for a confidential client' },
  {
    name: 'OTEL_EXPORTER_OTLP_ENDPOINT',
    fallback: '',
    shown: 'no traces',
    meaning: 'base address of an OpenTelemetry collector (OTLP over HTTP, JSON); /v1/traces is added',
  },
  {
    name: 'OTEL_EXPORTER_OTLP_HEADERS',
    fallback: '',
    shown: 'none',
    meaning: 'headers for it, name=value,name=value, values percent-encoded; shown nowhere',
  },
  { name: 'OTEL_SERVICE_NAME', fallback: 'tollgate', meaning: 'service.name of the traces' },
  {
    name: 'OTEL_TRACES_SAMPLER_ARG',
    fallback: '1',
    meaning: 'share of the traces begun here that are recorded, 0 to 1; a caller that has one decides itself',
  },
];

const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'];

/** Every mistake found, one line each; the process exits 64 on it (EX_USAGE). */
export class ConfigError extends Error {
  readonly mistakes: readonly string[];
  constructor(mistakes: readonly string[]) {
    super(mistakes.join('\n'));
    this.mistakes = mistakes;
  }
}

/**
 * Reads and checks the environment. An empty variable counts as unset, save SPOOL_DIR.
 * @param isTimeZone whether the runtime knows an IANA zone name
 * @throws ConfigError with all mistakes at once
 */
export function readConfig(
  env: Readonly<Record<string, string | undefined>>,
  isTimeZone: (name: string) => boolean,
): Config {
  const mistakes: string[] = [];
  const text = (name: string): string => {
    const value = env[name];
    if (value !== undefined && (value !== '' || name === 'SPOOL_DIR')) return value;
    return (VARIABLES.find((variable) => variable.name === name) as Variable).fallback;
  };
  const wrong = (name: string, want: string): void => {
    mistakes.push(`${name}: ${want}, not ${JSON.stringify(text(name))}`);
  };
  const whole = (name: string, least: number, most: number): number => {
    const value = text(name);
    const number = /^\d{1,15}$/.test(value) ? Number(value) : Number.NaN;
    if (!(number >= least && number <= most)) wrong(name, `must be a whole number from ${least} to ${most}`);
    return number;
  };
  const optional = (name: string): string | null => text(name) || null;

  const basePath = text('BASE_PATH');
  if (!/^(\/[A-Za-z0-9._~-]+)+$/.test(basePath))
    wrong('BASE_PATH', 'must be a path like /v1, without a trailing slash');

  const databaseUrl = optional('DATABASE_URL');
  if (databaseUrl !== null && !/^postgres(ql)?:\/\//.test(databaseUrl)) {
    mistakes.push('DATABASE_URL: must begin with postgres:// (the value is not shown: it may hold a password)');
  }
  const upstream = optional('UPSTREAM_URL');
  let upstreamUrl: URL | null = null;
  if (upstream !== null) {
    if (URL.canParse(upstream)) upstreamUrl = new URL(upstream);
    if (upstreamUrl === null || !/^https?:$/.test(upstreamUrl.protocol) || upstreamUrl.search || upstreamUrl.hash) {
      wrong('UPSTREAM_URL', 'must be an http:// or https:// address such as http://127.0.0.1:4000/v1');
    } else if (upstreamUrl.username || upstreamUrl.password) {
      mistakes.push('UPSTREAM_URL: must not carry a user or password; use UPSTREAM_API_KEY');
    }
  }
  const upstreamApiKey = optional('UPSTREAM_API_KEY');
  if (upstreamApiKey !== null && !/^[\x21-\x7e]+$/.test(upstreamApiKey)) {
    mistakes.push('UPSTREAM_API_KEY: must be printable ASCII without spaces (the value is not shown)');
  }
  const keyPrefix = text('KEY_PREFIX');
  if (!/^[A-Za-z0-9_-]{1,16}$/.test(keyPrefix)) wrong('KEY_PREFIX', 'must be 1 to 16 letters, digits, _ or -');
  const billingTimezone = text('BILLING_TIMEZONE');
  if (!isTimeZone(billingTimezone)) wrong('BILLING_TIMEZONE', 'must be an IANA time zone such as Europe/Berlin');
  const logLevel = text('LOG_LEVEL');
  if (!LOG_LEVELS.includes(logLevel)) wrong('LOG_LEVEL', `must be one of ${LOG_LEVELS.join(', ')}`);

  const refusedParameters = text('REFUSED_PARAMETERS');
  const refused = refusedParameters.split(/[\s,]+/).filter((name) => name !== '');
  if (new Set(refused.map((name) => /^[+-]/.test(name))).size > 1) {
    wrong('REFUSED_PARAMETERS', 'must be names that all begin with + or -, or none of them');
  }

  const address = (name: string): URL | null => {
    const value = optional(name);
    if (value === null) return null;
    const url = URL.canParse(value) ? new URL(value) : null;
    if (url !== null && /^https?:$/.test(url.protocol) && !url.search && !url.hash && !url.username) return url;
    wrong(name, 'must be an http:// or https:// address');
    return null;
  };
  const apiUrl = address('API_URL');
  const adminUrl = address('ADMIN_URL');
  if (adminUrl !== null && adminUrl.pathname !== '/') wrong('ADMIN_URL', 'must be an address without a path');
  const issuer = address('OIDC_ISSUER');
  const clientId = optional('OIDC_CLIENT_ID');
  if (issuer !== null) {
    // only this machine's own traffic may go unencrypted
    if (issuer.protocol === 'http:' && !/^(localhost|127\.0\.0\.1|\[::1\])$/.test(issuer.hostname)) {
      wrong('OIDC_ISSUER', 'must be an https:// address');
    }
    if (clientId === null) mistakes.push('OIDC_CLIENT_ID: is needed with OIDC_ISSUER');
    if (optional('ADMIN_URL') === null) mistakes.push('ADMIN_URL: is needed with OIDC_ISSUER, to come back to');
  }

  const onOff = (name: string): boolean => {
    if (text(name) !== 'on' && text(name) !== 'off') wrong(name, 'must be on or off');
    return text(name) === 'on';
  };

  const otlp = optional('OTEL_EXPORTER_OTLP_ENDPOINT');
  const otlpUrl = otlp !== null && URL.canParse(otlp) ? new URL(otlp) : null;
  if (otlp !== null && (otlpUrl === null || !/^https?:$/.test(otlpUrl.protocol) || /[@?#]/.test(otlp))) {
    mistakes.push(
      'OTEL_EXPORTER_OTLP_ENDPOINT: must be an http:// or https:// address without user, query or fragment',
    );
  }
  const otlpHeaders = readHeaders(text('OTEL_EXPORTER_OTLP_HEADERS'));
  if (otlpHeaders === null) {
    mistakes.push('OTEL_EXPORTER_OTLP_HEADERS: must be name=value,name=value (the value is not shown)');
  }
  const share = text('OTEL_TRACES_SAMPLER_ARG');
  if (!/^(?:0(?:\.\d*)?|1(?:\.0*)?|\.\d+)$/.test(share))
    wrong('OTEL_TRACES_SAMPLER_ARG', 'must be a number from 0 to 1');

  const dataDir = text('DATA_DIR');
  const spool = text('SPOOL_DIR');
  const config: Config = {
    host: text('HOST'),
    port: whole('PORT', 0, 65535),
    listenSocket: optional('LISTEN_SOCKET'),
    fastHttp: onOff('FAST_HTTP'),
    reusePort: onOff('REUSE_PORT'),
    adminHost: text('ADMIN_HOST'),
    adminPort: text('ADMIN_PORT') === 'off' ? null : whole('ADMIN_PORT', 0, 65535),
    basePath,
    databaseUrl,
    databaseConnections: whole('DATABASE_CONNECTIONS', 3, 100),
    dataDir,
    spoolDir: spool === '\0' ? `${dataDir}/spool` : spool || null,
    spoolFsync: onOff('SPOOL_FSYNC'),
    upstreamUrl,
    upstreamApiKey,
    ownedBy: text('OWNED_BY'),
    keyPrefix,
    billingTimezone,
    drainSeconds: whole('DRAIN_SECONDS', 0, 86_400),
    logLevel,
    refusedParameters,
    maxBodyBytes: whole('MAX_BODY_BYTES', 1024, 1_073_741_824),
    maxEventBytes: whole('MAX_EVENT_BYTES', 1024, 134_217_728), // a chunk's head has room for 256 MiB
    maxHeaders: whole('MAX_HEADERS', 10, 1999),
    maxHeaderBytes: whole('MAX_HEADER_BYTES', 1024, 1_048_576),
    maxConnections: whole('MAX_CONNECTIONS', 1, 1_000_000),
    maxRequests: whole('MAX_REQUESTS', 1, 1_000_000),
    maxDelayMs: whole('MAX_DELAY_MS', 1, 60_000),
    maxMemoryBytes: text('MAX_MEMORY_MB') === '' ? null : whole('MAX_MEMORY_MB', 64, 16_777_216) * 1_048_576,
    headerSeconds: whole('HEADER_SECONDS', 1, 3600),
    bodySeconds: whole('BODY_SECONDS', 1, 86_400),
    connectSeconds: whole('CONNECT_SECONDS', 1, 3600),
    firstByteSeconds: whole('FIRST_BYTE_SECONDS', 1, 86_400),
    idleSeconds: whole('IDLE_SECONDS', 1, 86_400),
    apiUrl,
    adminUrl,
    adminProxies: whole('ADMIN_PROXIES', 0, 9),
    oidc:
      issuer === null || clientId === null ? null : { issuer, clientId, clientSecret: optional('OIDC_CLIENT_SECRET') },
    otlpUrl,
    otlpHeaders: otlpHeaders ?? {},
    serviceName: text('OTEL_SERVICE_NAME'),
    traceShare: Number(share),
    totalSeconds: whole('TOTAL_SECONDS', 1, 604_800),
    stallSeconds: whole('STALL_SECONDS', 1, 86_400),
  };
  if (mistakes.length > 0) throw new ConfigError(mistakes);
  return Object.freeze(config);
}

/** Headers as OpenTelemetry writes them in a variable; null when they are not. */
function readHeaders(list: string): Record<string, string> | null {
  const headers: Record<string, string> = {};
  for (const pair of list.split(',').filter((text) => text.trim() !== '')) {
    const [, name, encoded] = /^\s*([\w!#$%&'*+.^`|~-]+)\s*=\s*(.*?)\s*$/.exec(pair) ?? [];
    if (name === undefined || encoded === undefined) return null;
    let value: string;
    try {
      value = decodeURIComponent(encoded);
    } catch {
      return null;
    }
    if (!/^[\x20-\x7e]*$/.test(value)) return null;
    headers[name.toLowerCase()] = value;
  }
  return headers;
}

const HELP_WIDTH = 100;

/** The table of variables for `tollgate serve --help`, wrapped where it would be too wide. */
export function describeConfig(): string {
  const column = (cells: readonly string[]): number => Math.max(...cells.map((cell) => cell.length)) + 2;
  const names = column(VARIABLES.map(({ name }) => name));
  const defaults = column(VARIABLES.map(({ fallback, shown }) => shown ?? fallback));
  const indent = 2 + names + defaults;
  return VARIABLES.map(({ name, fallback, shown, meaning }) => {
    const lines = wrapped(meaning, HELP_WIDTH - indent).join(`\n${' '.repeat(indent)}`);
    return `  ${name.padEnd(names)}${(shown ?? fallback).padEnd(defaults)}${lines}`;
  }).join('\n');
}

function wrapped(text: string, width: number): string[] {
  const lines = [''];
  for (const word of text.split(' ')) {
    const line = lines.at(-1) as string;
    if (line.length + word.length >= width) lines.push(word);
    else lines[lines.length - 1] = line === '' ? word : `${line} ${word}`;
  }
  return lines;
}
