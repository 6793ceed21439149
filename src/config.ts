import {
  address,
  addressWithoutPath,
  encryptedAddress,
  must,
  routerAddresses,
  webhookAddress,
} from './config-addresses.ts';
import {
  brandColor,
  brandLogo,
  brandName,
  brandPage,
  brandSeller,
  brandSupport,
} from './config-brand.ts';
import { freeHeader, freeHeaders, headers, upstreamHeaders } from './config-headers.ts';
import { tracingOf } from './config-tracing.ts';
import { readRegularFile } from './runtime/regular-file.ts';

/** The environment of the program (contract section 2): one table, read once into one frozen value. */

type Environment = Readonly<Record<string, string | undefined>>;

/** A check of an upper floor. @throws Error with what is wrong, without the URL: it may hold a password */
type CheckUrl = (databaseUrl: string) => void;

/** Parses the text of a variable. @throws Error with what the text must be: "must be …" */
type Parse<T> = (text: string, checkDatabaseUrl: CheckUrl) => T;

interface Variable<T> {
  readonly name: string;
  /** The text that is parsed when the variable is unset; null: the property is null. */
  readonly fallback: string | null;
  /** The default in words, where `fallback` is null. */
  readonly shown?: string;
  readonly parse: Parse<T>;
  readonly meaning: string;
  /** The variables without which this one does nothing, or not what it should. */
  readonly needs: readonly string[];
  /** The value appears in no message, and NAME_FILE may name a file that holds it. */
  readonly secret?: boolean;
  /** An empty text is a value; elsewhere an empty variable counts as unset. */
  readonly emptyIsValue?: boolean;
}

const SECOND = 1000; // in milliseconds
const MEBIBYTE = 1_048_576;
const host = matching(
  /^(?:[^\s:/[\]]+|[\da-f]*:[\da-f]*:[\da-f:.]*(?:%\w+)?)$/i,
  'an address or a name, without brackets and port',
);
const pathPrefix = matching(/^(\/[A-Za-z0-9._~-]+)+$/, 'a path like /v1, without a trailing slash');
const shortName = matching(/^[A-Za-z0-9_-]{1,16}$/, '1 to 16 letters, digits, _ or -');
const bearerToken = matching(/^[\x21-\x7e]+$/, 'printable ASCII without spaces');
const logLevel = matching(
  /^(fatal|error|warn|info|debug|trace|silent)$/,
  'one of fatal, error, warn, info, debug, trace, silent',
);

/** The longest path of a Unix socket. */
const SOCKET_PATH_BYTES = process.platform === 'linux' ? 107 : 103;

// biome-ignore format: one row per variable
const TABLE = {
  host: variable('HOST', '127.0.0.1', host,
    'address of the API listener; ::, all addresses of IPv6 and IPv4'),
  port: variable('PORT', '8080', whole(0, 65_535), 'port of the API listener'),
  listenSocket: optional('LISTEN_SOCKET', 'none', socketPath,
    'path of a Unix socket for the API, instead of HOST and PORT'),
  fastHttp: variable('FAST_HTTP', 'on', onOff, 'off: plain node:http, undici and postgres, without the optional fast paths'),
  apiProxies: variable('API_PROXIES', '0', whole(0, 9),
    'reverse proxies in front of the API that set X-Forwarded-For; for keys that are bound to networks'),
  tlsCert: optional('TLS_CERT', 'none', asText,
    'PEM file with the certificate chain of both listeners', ['TLS_KEY']),
  tlsKey: optional('TLS_KEY', 'none', asText, 'PEM file with its private key', ['TLS_CERT']),
  workers: variable('WORKERS', '1', or('auto', whole(1, 256, 1, ' or auto')),
    'processes that share PORT; auto: one for each core, as far as memory allows'),
  adminHost: variable('ADMIN_HOST', '127.0.0.1', host,
    'address of the admin listener: pages, /metrics, /livez, /readyz'),
  adminPort: variable('ADMIN_PORT', '8081', or('off', whole(0, 65_535, 1, ' or off')),
    'port of the admin listener; off: no admin listener'),
  basePath: variable('BASE_PATH', '/v1', pathPrefix, 'path prefix of the API'),
  databaseUrl: secret('DATABASE_URL', 'embedded in DATA_DIR', databaseAddress,
    'Postgres 14 or newer, direct or through PgBouncer'),
  databaseConnections: variable('DATABASE_CONNECTIONS', '9', whole(3, 100),
    'most database connections; 3 or 4: no admin pages. Each further worker takes 3 or 4 more'),
  dataDir: variable('DATA_DIR', './data', asText, 'folder of the embedded database and the spool'),
  spoolDir: { ...optional('SPOOL_DIR', 'DATA_DIR/spool', asText,
    'folder on local disk for usage records that are not yet in the database; empty: no spool'), emptyIsValue: true },
  spoolFsync: variable('SPOOL_FSYNC', 'off', onOff,
    'on: an answer ends only when its usage record is on disk, so a power failure loses none'),
  upstreamUrls: optional('UPSTREAM_URL', 'demo upstream', routerAddresses,
    'base address of the model router, including its /v1; or several of one router, with commas between them'),
  upstreamApiKey: secret('UPSTREAM_API_KEY', 'none', bearerToken,
    'master key of the router, sent as a bearer token'),
  upstreamHeaders: secret('UPSTREAM_HEADERS', 'none', upstreamHeaders,
    'more headers sent with every upstream call: name=value,name=value, values percent-encoded'),
  upstreamIdleMs: variable('UPSTREAM_IDLE_SECONDS', '4', whole(1, 3600, SECOND),
    'how long an idle connection to the router is kept; below the time after which the router, or a balancer before it, closes it'),
  upstreamCurrency: variable('UPSTREAM_CURRENCY', 'USD', matching(/^[A-Z]{3}$/, 'three capital letters such as USD'),
    'currency in which the router reports the cost of a call'),
  upstreamRate: optional('UPSTREAM_RATE', 'none', decimal(1e6),
    'EUR for one unit of UPSTREAM_CURRENCY, for the margin report'),
  ownedBy: optional('OWNED_BY', 'BRAND_NAME in lower case', asText, 'owned_by of every model'),
  keyPrefix: variable('KEY_PREFIX', 'svc_', shortName, 'prefix of new keys'),
  billingTimezone: variable('BILLING_TIMEZONE', 'UTC', timeZone,
    'IANA time zone of the billing month and of the date an assistant is told'),
  drainSeconds: variable('DRAIN_SECONDS', '30', whole(0, 86_400), 'time that open requests get to finish after SIGTERM'),
  drainDelaySeconds: variable('DRAIN_DELAY_SECONDS', '0', whole(0, 3600),
    'time after SIGTERM in which the listener stays open while /readyz says 503'),
  logLevel: variable('LOG_LEVEL', 'info', logLevel, 'fatal, error, warn, info, debug, trace or silent'),
  refusedParameters: optional('REFUSED_PARAMETERS', 'standard list', memberNames,
    'request members to refuse: +name,-name changes the standard list; name,name replaces it'),
  costCenterMember: { ...variable('COST_CENTER_MEMBER', 'cost_center', memberName,
    'member of metadata that names the cost centre of a call; empty: none does'), emptyIsValue: true },
  costCenterHeader: optional('COST_CENTER_HEADER', 'none', freeHeader,
    'request header that names the cost centre of a call whose body names none'),
  endUserHeaders: { ...variable('END_USER_HEADERS', 'x-openwebui-user-id, x-openwebui-user-email, x-librechat-user-id, x-end-user-id',
    freeHeaders, 'headers that name the person behind a key with end users, in their order; empty: none does'), emptyIsValue: true },
  quotaHeaders: variable('QUOTA_HEADERS', 'off', onOff, 'on: headers of each answer tell what is left of the nearest budget of key and company'),
  maxBodyBytes: variable('MAX_BODY_BYTES', '33554432', whole(1024, 1_073_741_824), 'largest request body'),
  maxAnswerBytes: variable('MAX_ANSWER_BYTES', '167772160', whole(1024, 1_073_741_824),
    'largest answer that is held whole; a larger one is an error, and what ran is booked'),
  // the size field of a relayed chunk has room for 256 MiB
  maxEventBytes: variable('MAX_EVENT_BYTES', '16777216', whole(1024, 134_217_728),
    'largest event of an upstream stream'),
  maxHeaders: variable('MAX_HEADERS', '100', whole(10, 1999), 'most headers in a request'),
  maxHeaderBytes: variable('MAX_HEADER_BYTES', '16384', whole(1024, 1_048_576),
    'largest size of all headers of a request'),
  maxConnections: variable('MAX_CONNECTIONS', '20000', whole(1, 1_000_000),
    'client connections at once; a further one takes the place of another'),
  maxRequests: variable('MAX_REQUESTS', '15000', whole(1, 1_000_000), 'requests at once; more get 503'),
  maxDelayMs: variable('MAX_DELAY_MS', '250', whole(1, 60_000),
    'mean event-loop delay above which companies with more than their share of the work get 503'),
  maxMemoryBytes: optional('MAX_MEMORY_MB', '80 % of all memory', whole(64, 16_777_216, MEBIBYTE),
    'resident memory above which most new requests get 503'),
  headerMs: variable('HEADER_SECONDS', '15', whole(1, 3600, SECOND),
    'how long a client may take to send the head of a request'),
  bodyMs: variable('BODY_SECONDS', '120', whole(1, 86_400, SECOND),
    'how long a client may take to send a whole request'),
  clientIdleMs: variable('CLIENT_IDLE_SECONDS', '620', whole(1, 86_400, SECOND),
    'how long an idle connection of a client is kept; above the time of a balancer before the gateway'),
  connectMs: variable('CONNECT_SECONDS', '10', whole(1, 3600, SECOND), 'how long connecting to the upstream may take'),
  firstByteMs: variable('FIRST_BYTE_SECONDS', '300', whole(1, 86_400, SECOND),
    'how long the upstream may take to begin its answer'),
  idleMs: variable('IDLE_SECONDS', '120', whole(1, 86_400, SECOND), 'how long the upstream may pause within its answer'),
  streamKeepaliveMs: variable('STREAM_KEEPALIVE_SECONDS', '0', whole(0, 300, SECOND),
    'after how long without a byte a stream gets a comment or ping; below the time after which a balancer closes it; 0: never'),
  totalMs: variable('TOTAL_SECONDS', '3600', whole(1, 604_800, SECOND), 'how long a whole answer may take'),
  readOnMs: variable('READ_ON_SECONDS', '3,3600', twoTimes,
    'how long an answer is read on after its client left, streamed and whole: exact usage, or a free slot of the engine'),
  stallMs: variable('STALL_SECONDS', '60', whole(1, 86_400, SECOND),
    'how long a client may read nothing before its connection is closed'),
  requestTrailDays: variable('REQUEST_TRAIL_DAYS', '7', whole(0, 90),
    'days for which the fate of each request is kept; 0: nothing is kept'),
  apiUrl: optional('API_URL', 'where it listens', address,
    'base address of the API as clients reach it, shown on the admin pages'),
  adminUrl: optional('ADMIN_URL', 'as requested', addressWithoutPath,
    'address of the admin pages as people reach them; https makes cookies Secure, as TLS_CERT does without it'),
  adminProxies: variable('ADMIN_PROXIES', '0', whole(0, 9),
    'reverse proxies in front of the admin listener that set X-Forwarded-For'),
  brandName: variable('BRAND_NAME', 'Tollgate', brandName, 'name of the service on pages, in e-mails and on statements'),
  brandLogo: optional('BRAND_LOGO', 'the gate', brandLogo,
    'SVG or PNG file of at most 128 KiB: the logo before the name, and the icon'),
  brandColor: optional('BRAND_COLOR', 'green', brandColor,
    'colour of links and buttons such as #0a6b58; darker or lighter where texts would be hard to read'),
  brandSupport: optional('BRAND_SUPPORT', 'none', brandSupport,
    'e-mail address or page of the support, below each page and e-mail'),
  brandImprint: optional('BRAND_IMPRINT', 'none', brandPage, 'page with the imprint, below each page and e-mail'),
  brandPrivacy: optional('BRAND_PRIVACY', 'none', brandPage, 'page of the privacy notice, below each page and e-mail'),
  brandSeller: optional('BRAND_SELLER', 'none', brandSeller,
    'who sells, at the head of statements: name, address and VAT id, with ; between lines'),
  oidcIssuer: optional('OIDC_ISSUER', 'none', encryptedAddress,
    'OpenID Connect provider for signing in to the admin pages', ['OIDC_CLIENT_ID', 'ADMIN_URL']),
  oidcClientId: optional('OIDC_CLIENT_ID', 'none', asText, 'client id of the admin pages at this provider', ['OIDC_ISSUER']),
  oidcClientSecret: secret('OIDC_CLIENT_SECRET', 'none', asText, 'client secret, if the provider gave one', ['OIDC_ISSUER']),
  oidcScope: variable('OIDC_SCOPE', 'openid email', oidcScope,
    'scopes; some providers tell groups only for a scope of their own'),
  oidcGroupsClaim: optional('OIDC_GROUPS_CLAIM', 'none', asText,
    'claim with the groups of a user: its name, or a path such as realm_access.roles', ['OIDC_ISSUER']),
  requireSecondFactor: optional('REQUIRE_SECOND_FACTOR', 'nobody', matching(/^(operators|all)$/, 'operators or all'),
    'who must give a second factor after the password: operators or all', ['SECOND_FACTOR_KEY']),
  secondFactorKeys: secret('SECOND_FACTOR_KEY', 'made in DATA_DIR with the embedded database', encryptionKeys,
    'key that encrypts the secrets of second factors: 32 to 64 random bytes in base64. Without it there are none. After a comma, former keys that still decrypt'),
  webhookUrl: secret('ALERT_WEBHOOK_URL', 'no webhook', webhookAddress,
    'where events are posted to, budget alerts among them', ['ALERT_WEBHOOK_SECRET']),
  webhookSecret: secret('ALERT_WEBHOOK_SECRET', 'none', webhookSecret,
    'key that signs them: whsec_ and 24 to 64 random bytes in base64', ['ALERT_WEBHOOK_URL']),
  webhookFormat: optional('ALERT_WEBHOOK_FORMAT', 'event', matching(/^(event|text|teams)$/, 'event, text or teams'),
    'what is posted: event (with a text, which Slack shows), text (a text alone, for Mattermost and others) or teams (a card)', ['ALERT_WEBHOOK_URL']),
  smtpUrl: secret('SMTP_URL', 'no e-mails', smtpAddress,
    'mail server: smtp://user:password@host:587 or smtps://…:465. With a password, or on another machine, it must take TLS, unless the address ends in ?requireTLS=false', ['ALERT_FROM']),
  alertFrom: optional('ALERT_FROM', 'none', mailAddress, 'address that the e-mails come from', ['SMTP_URL']),
  alertTo: optional('ALERT_TO', 'none', mailAddresses,
    'addresses that get the budget alerts of every company: a@b.example,c@d.example', ['SMTP_URL']),
  otlpUrl: optional('OTEL_EXPORTER_OTLP_ENDPOINT', 'no traces', address,
    'base address of an OpenTelemetry collector (OTLP over HTTP, JSON); /v1/traces is appended'),
  otlpHeaders: secret('OTEL_EXPORTER_OTLP_HEADERS', 'none', headers,
    'headers sent to the collector: name=value,name=value, values percent-encoded'),
  serviceName: variable('OTEL_SERVICE_NAME', 'tollgate', asText, 'service.name of the traces'),
  tracesOff: variable('OTEL_SDK_DISABLED', 'false', asText, 'true: no traces'),
  tracesExporters: variable('OTEL_TRACES_EXPORTER', 'otlp', asText, 'otlp; none: no traces'),
  tracesSampler: variable('OTEL_TRACES_SAMPLER', 'parentbased_always_on', asText,
    'which traces are recorded: always_on, always_off or traceidratio; with parentbased_ before it, the trace of a caller decides'),
  tracesShare: optional('OTEL_TRACES_SAMPLER_ARG', '1', asText, 'share of traces that traceidratio records, 0 to 1'),
};

/** Every variable, in the order in which help and README list them. */
export const VARIABLES: readonly Variable<unknown>[] = Object.values(TABLE);

type Values = {
  readonly [P in keyof typeof TABLE]: (typeof TABLE)[P] extends Variable<infer T> ? T : never;
};

/** Property names are those of the table; `null` stands for what is unset or switched off. */
export type Config = Readonly<ReturnType<typeof combine>>;

/** Every mistake found, one line each; the process exits 64 (EX_USAGE). */
export class ConfigError extends Error {
  readonly mistakes: readonly string[];
  constructor(mistakes: readonly string[]) {
    super(mistakes.join('\n'));
    this.mistakes = mistakes;
  }
}

/**
 * Reads and checks the environment, and the files that hold secrets.
 * @param checkDatabaseUrl throws an Error that says what is wrong with DATABASE_URL, without its value
 * @throws ConfigError with all mistakes, in the order of the table
 */
export function readConfig(env: Environment, checkDatabaseUrl: CheckUrl = () => {}): Config {
  const mistakes: string[] = [];
  const read = ([property, variable]: [string, Variable<unknown>]): [string, unknown] => {
    try {
      return [property, readVariable(variable, env, checkDatabaseUrl)];
    } catch (error) {
      mistakes.push((error as Error).message);
      return [property, undefined];
    }
  };
  const values = Object.fromEntries(Object.entries(TABLE).map(read)) as Values;
  mistakes.push(...missing(values));
  const config = combine(values, env.DATABASE_URL_FILE || null);
  if (mistakes.length > 0) throw new ConfigError(mistakes);
  return Object.freeze(config);
}

/** What is unset though others need it, one line each. */
function missing(values: Values): string[] {
  const rows = Object.entries<Variable<unknown>>(TABLE);
  // the embedded database has a key in DATA_DIR
  const isUnset = ([property]: [string, unknown]): boolean =>
    values[property as keyof Values] === null &&
    !(property === 'secondFactorKeys' && values.databaseUrl === null);
  return rows.filter(isUnset).flatMap(([, { name }]) => {
    const users = rows
      .filter((row) => !isUnset(row) && row[1].needs.includes(name))
      .map(([, user]) => user.name);
    return users.length === 0 ? [] : [`${name}: is needed with ${users.join(' and ')}`];
  });
}

/** What depends on several variables. A value that was a mistake is undefined here, not null. */
function combine(values: Values, databaseUrlFile: string | null) {
  const {
    oidcIssuer: issuer,
    oidcClientId: clientId,
    oidcClientSecret: clientSecret,
    ...besides
  } = values;
  const { oidcScope: scope, oidcGroupsClaim: groupsClaim, ...others } = besides;
  const {
    webhookUrl,
    webhookSecret: signingKey,
    webhookFormat,
    smtpUrl,
    alertFrom,
    alertTo,
    ...further
  } = others;
  const { brandName: name, brandLogo: logo, brandColor: color, ...linked } = further;
  const {
    brandSupport: support,
    brandImprint: imprint,
    brandPrivacy: privacy,
    brandSeller: seller,
    ...traced
  } = linked;
  const { otlpUrl, otlpHeaders, serviceName: service, tracesOff, ...sampled } = traced;
  const {
    tracesExporters: exporters,
    tracesSampler: sampler,
    tracesShare: share,
    ...rest
  } = sampled;
  return {
    ...rest,
    /** The file that DATABASE_URL comes from; null: it comes from none. */
    databaseUrlFile,
    spoolDir: rest.spoolDir === null ? `${rest.dataDir}/spool` : rest.spoolDir || null,
    ownedBy: rest.ownedBy ?? `${name}`.toLowerCase(),
    refusedParameters: rest.refusedParameters ?? '',
    upstreamHeaders: rest.upstreamHeaders ?? {},
    /** null: no traces. */
    tracing: tracingOf(
      { disabled: tracesOff, exporters, sampler, share },
      { url: otlpUrl, headers: otlpHeaders ?? {}, service },
    ),
    /** Whose service it is. The links are null where there are none. */
    brand: { name, logo, color, support, imprint, privacy, seller },
    /** The most calls that are awaited though their clients left. */
    maxAbandoned: 1000,
    /** null: people sign in with passwords only. */
    oidc:
      issuer === null || clientId === null
        ? null
        : { issuer, clientId, clientSecret, scope, groupsClaim },
    /** Where events are posted to; null: nowhere. */
    alertWebhook:
      webhookUrl === null || signingKey === null
        ? null
        : {
            url: webhookUrl,
            secret: signingKey,
            format: (webhookFormat ?? 'event') as 'event' | 'text' | 'teams',
          },
    /** How budget alerts are sent by e-mail; null: not at all. */
    alertMail:
      smtpUrl === null || alertFrom === null
        ? null
        : { url: smtpUrl, from: alertFrom, to: alertTo ?? [] },
  };
}

/** Space at both ends is no part of a value: files of variables and secrets often end with a line end. @throws Error with one line that names the variable */
function readVariable<T>(
  variable: Variable<T>,
  env: Environment,
  checkDatabaseUrl: CheckUrl,
): T | null {
  const { name, fallback, parse, secret = false, emptyIsValue = false } = variable;
  const written = env[name]?.trim();
  const envText = written === '' && !emptyIsValue ? undefined : written;
  const path = (secret && env[`${name}_FILE`]?.trim()) || null;
  if (path !== null && envText !== undefined)
    throw new Error(`${name}: is set, and ${name}_FILE too; set only one`);
  const text = path === null ? (envText ?? fallback) : readSecret(`${name}_FILE`, path);
  if (text === null) return null;
  try {
    return parse(text, checkDatabaseUrl);
  } catch (error) {
    const { message } = error as Error;
    if (path !== null)
      throw new Error(
        `${name}_FILE: ${message} (the content of ${JSON.stringify(path)} is not shown)`,
      );
    const hidden = secret || text.includes('@'); // an address may hold a password
    throw new Error(
      `${name}: ${message}${hidden ? ' (the value is not shown)' : `, not ${JSON.stringify(text)}`}`,
    );
  }
}

/** The content of a file without space at both ends. */
function readSecret(name: string, path: string): string {
  let text: string;
  try {
    text = readRegularFile(path).toString().trim();
  } catch (error) {
    throw new Error(`${name}: cannot read ${JSON.stringify(path)}: ${(error as Error).message}`);
  }
  if (text === '') throw new Error(`${name}: ${JSON.stringify(path)} is empty`);
  return text;
}

function variable<T>(
  name: string,
  fallback: string,
  parse: Parse<T>,
  meaning: string,
): Variable<T> {
  return { name, fallback, parse, meaning, needs: [] };
}

function optional<T>(
  name: string,
  shown: string,
  parse: Parse<T>,
  meaning: string,
  needs: readonly string[] = [],
): Variable<T | null> {
  const what = needs.length === 0 ? meaning : `${meaning}; needs ${needs.join(' and ')}`;
  return { name, fallback: null, shown, parse, meaning: what, needs };
}

function secret<T>(...row: Parameters<typeof optional<T>>): Variable<T | null> {
  return { ...optional(...row), secret: true };
}

function asText(text: string): string {
  return text;
}

/** Node 22 cuts a longer one off, and listens on another path. */
function socketPath(text: string): string {
  must(
    Buffer.byteLength(text) <= SOCKET_PATH_BYTES,
    `a path of at most ${SOCKET_PATH_BYTES} bytes`,
  );
  return text;
}

/** Scopes as RFC 6749 writes them, with one space between. */
function oidcScope(text: string): string {
  must(
    /^[\x21\x23-\x5b\x5d-\x7e]+( [\x21\x23-\x5b\x5d-\x7e]+)*$/.test(text) &&
      text.split(' ').includes('openid'),
    'scopes with one space between them, openid among them',
  );
  return text;
}

function matching(pattern: RegExp, rule: string): Parse<string> {
  return (text) => {
    must(pattern.test(text), rule);
    return text;
  };
}

/** A whole number, times the unit it is written in. */
function whole(least: number, most: number, unit = 1, or = ''): Parse<number> {
  return (text) => {
    const number = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
    must(number >= least && number <= most, `a whole number from ${least} to ${most}${or}`);
    return number * unit;
  };
}

/** Seconds of a streamed and of a whole answer, as milliseconds. */
function twoTimes(text: string): { readonly streamed: number; readonly whole: number } {
  const [, streamed, answer] = /^(\d{1,6}),(\d{1,6})$/.exec(text) ?? [];
  const times = [Number(streamed), Number(answer)] as const;
  must(
    Math.max(...times) <= 86_400,
    'two whole numbers from 0 to 86400 with a comma between them, such as 3,3600',
  );
  return { streamed: times[0] * SECOND, whole: times[1] * SECOND };
}

function onOff(text: string): boolean {
  must(text === 'on' || text === 'off', 'on or off');
  return text === 'on';
}

/** null for the word. */
function or<T>(word: string, parse: Parse<T>): Parse<T | null> {
  return (text, checkDatabaseUrl) => (text === word ? null : parse(text, checkDatabaseUrl));
}

/** A positive decimal number below `most`, as text. */
function decimal(most: number): Parse<string> {
  return (text) => {
    const right = /^\d{1,12}(\.\d{1,12})?$/.test(text) && Number(text) > 0 && Number(text) < most;
    must(right, `a number above 0 and below ${most} with at most 12 decimals, such as 0.92`);
    return text;
  };
}

function timeZone(text: string): string {
  if (text === 'UTC') return text; // saves loading the tables of all zones: 12 ms and 5 MB
  try {
    new Intl.DateTimeFormat('en', { timeZone: text });
  } catch {
    must(false, 'an IANA time zone such as Europe/Berlin');
  }
  return text;
}

/** The text as written: `refusedNames` in domain/request/steering.ts reads it. */
function memberNames(text: string): string {
  const names = text.split(/[\s,]+/).filter((name) => name !== '');
  must(
    new Set(names.map((name) => /^[+-]/.test(name))).size <= 1,
    'names that all begin with + or -, or none of them',
  );
  return text;
}

/** One name; null for an empty text. */
function memberName(text: string): string | null {
  must(/^[A-Za-z0-9_.-]{0,64}$/.test(text), 'at most 64 letters, digits, _, . or -');
  return text === '' ? null : text;
}

function databaseAddress(text: string, checkDatabaseUrl: CheckUrl): string {
  if (!/^postgres(ql)?:\/\//.test(text)) throw new Error('must begin with postgres://');
  checkDatabaseUrl(text);
  return text;
}

/** The first one encrypts. */
function encryptionKeys(text: string): readonly string[] {
  const keys = text.split(',').map((each) => each.trim());
  const isKey = (key: string): boolean => {
    const { length } = Buffer.from(key, 'base64');
    return /^[A-Za-z0-9+/]+={0,2}$/.test(key) && length >= 32 && length <= 64;
  };
  must(keys.every(isKey), '32 to 64 random bytes in base64; several with commas between them');
  return keys;
}

/** The bytes of a secret as Standard Webhooks writes it. */
function webhookSecret(text: string): Buffer {
  const [, base64 = ''] = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(text) ?? [];
  const bytes = Buffer.from(base64, 'base64');
  must(bytes.length >= 24 && bytes.length <= 64, 'whsec_ followed by 24 to 64 bytes in base64');
  return bytes;
}

function smtpAddress(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : null;
  must(
    url !== null && /^smtps?:$/.test(url.protocol) && url.hostname !== '',
    'an smtp:// or smtps:// address',
  );
  return text;
}

function mailAddress(text: string): string {
  must(
    /^[\w.!#$%&'*+/=?^`{|}~-]+@[a-z\d.-]+$/i.test(text),
    'an address such as tollgate@example.com',
  );
  return text.toLowerCase();
}

function mailAddresses(text: string): readonly string[] {
  return text.split(',').map((each) => mailAddress(each.trim()));
}
