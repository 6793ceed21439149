import { isIP } from 'node:net';
import { readEncryption, requireOneOf, type Take } from './address-tls.ts';
import { passwordsOf } from './password-file.ts';

/** A server. */
export type Target = (
  | {
      readonly host: string;
      readonly port: number;
      /** Where the host is, so that its name is not looked up. */
      readonly address?: string;
    }
  | { readonly path: string }
) & {
  /** Of the password file, for this server. */
  readonly password?: string | undefined;
};

export type DatabaseAddress = Readonly<ReturnType<typeof parseDatabaseUrl>>;

const URL_FORM = /^postgres(?:ql)?:\/\/(?:([^/?#]*)@)?([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/;

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROL = /[\0-\x1f\x7f]/;

const KEEPALIVE_SECONDS = 30;

/** Which of several servers to use. */
const ROLES = ['any', 'primary', 'read-write', 'standby', 'read-only', 'prefer-standby'] as const;

/** Parameters that are ignored: they concern another driver, or GSSAPI where it is not used, or have a deadline of ours. */
const IGNORED = [
  'tcp_user_timeout',
  'keepalives_interval',
  'keepalives_count',
  'pgbouncer',
  'krbsrvname',
  'gsslib',
  'sslcompression',
];

/**
 * Parameters of which the driver can do one part: it speaks protocol 3.0 in UTF-8, without GSSAPI and without binding
 * passwords to the channel. The rest is refused, for it may be what protects the connection.
 */
const LIMITED: Readonly<Record<string, readonly string[]>> = {
  channel_binding: ['disable', 'prefer'],
  gssencmode: ['disable', 'prefer'],
  gssdelegation: ['0'],
  replication: ['false', 'off', 'no', '0'],
  min_protocol_version: ['3.0'],
  max_protocol_version: ['3.0', '3.2', 'latest'],
};

/**
 * Parameters of libpq that the driver does not have, and without which it would speak to another server or in another
 * way.
 */
// biome-ignore format: a table
const UNSUPPORTED = [
  'require_auth', 'requirepeer', 'service', 'servicefile', 'sslkeylogfile', 'scram_client_key', 'scram_server_key',
  'oauth_issuer', 'oauth_client_id', 'oauth_client_secret', 'oauth_scope', 'oauth_ca_file',
];

/**
 * Parses a libpq connection URI with all its parameters, as psql takes it, but for two defaults: of several hosts the
 * primary is used, and there is no TLS unless it is asked for. What libpq does not know becomes a setting of the session. The
 * driver's own parser supports neither socket folders nor IPv6 among several hosts.
 * @throws TypeError that does not repeat the URL, which may contain a password
 */
export function parseDatabaseUrl(url: string) {
  const match = URL_FORM.exec(url);
  if (match === null)
    throw new TypeError(
      'the database URL must look like postgres://user:password@host:port/database',
    );
  if (CONTROL.test(url))
    throw new TypeError('the database URL has a line break or another control character in it');
  if (url.includes('%00')) throw new TypeError('the database URL has a NUL character in it');
  const [, userinfo = '', authority = '', path = '', search = ''] = match;
  const query = new Map(new URLSearchParams(search.replaceAll('+', '%2B'))); // as in libpq, + is no blank
  const take: Take = (name) => {
    const value = query.get(name);
    query.delete(name);
    return value || undefined;
  };
  for (const name of IGNORED) query.delete(name);
  refuseUnsupported(take);

  const [name, ...secret] = userinfo.split(':');
  const user = take('user') ?? (decode(name ?? '') || undefined);
  const password = take('password') ?? (decode(secret.join(':')) || undefined);
  const database = take('dbname') ?? (decode(path) || undefined);
  const found = targetsOf(take, decode(authority));
  const passfile = take('passfile');
  const isNeeded = password === undefined && !process.env.PGPASSWORD;
  const lookUp = passfile === undefined || !isNeeded ? () => undefined : passwordsOf(passfile);
  const role = requireOneOf(
    'target_session_attrs',
    take('target_session_attrs') ?? (found.length > 1 ? 'primary' : 'any'),
    ROLES,
  );
  return {
    /** Tried in this order, beginning with the last one that worked. */
    targets: found.map(({ host, port, target }) => ({
      ...target,
      password: lookUp({ host, port, database, user }),
    })),
    role,
    /** Whether each connection begins with another one. */
    isBalanced:
      requireOneOf('load_balance_hosts', take('load_balance_hosts') ?? 'disable', [
        'disable',
        'random',
      ]) === 'random',
    user,
    password,
    database,
    encryption: readEncryption(take),
    ...timesOf(take),
    /** Settings of the session, `application_name` among them. */
    settings: settingsOf(take, query),
  };
}

function refuseUnsupported(take: Take): void {
  for (const name of UNSUPPORTED) {
    if (take(name) !== undefined)
      throw new TypeError(`the database URL's ${name} is not supported: leave it out`);
  }
  for (const [name, values] of Object.entries(LIMITED)) {
    const value = take(name);
    if (value !== undefined) requireOneOf(name, value, values);
  }
  const encoding = take('client_encoding');
  if (encoding !== undefined && !/^(?:auto|utf[-_]?8|unicode)$/i.test(encoding))
    throw new TypeError(
      "the database URL's client_encoding must be UTF8: no other value is supported",
    );
}

/** How long to wait for a server, and when to ask whether it lives. */
function timesOf(take: Take) {
  const seconds = (name: string): number | undefined => {
    const text = take(name);
    if (text !== undefined && !/^\s*[+-]?\d{1,9}\s*$/.test(text))
      throw new TypeError(`the database URL's ${name} must be a whole number`);
    return text === undefined ? undefined : Number(text);
  };
  const wait = seconds('connect_timeout') ?? 0;
  return {
    /** Milliseconds for each server; undefined: as it suits us. Less than two seconds are two, as in libpq. */
    connectMs: wait > 0 ? Math.max(wait, 2) * 1000 : undefined,
    keepsAlive: seconds('keepalives') !== 0,
    keepaliveMs: (seconds('keepalives_idle') || KEEPALIVE_SECONDS) * 1000,
  };
}

function settingsOf(take: Take, query: ReadonlyMap<string, string>): Record<string, string> {
  const [name, otherwise] = [take('application_name'), take('fallback_application_name')];
  return { application_name: name ?? otherwise ?? 'tollgate', ...Object.fromEntries(query) };
}

/** The servers of the address. @param authority those between @ and path */
function targetsOf(take: Take, authority: string) {
  const list = (text: string | undefined): string[] => text?.split(',') ?? [];
  const named = take('host');
  const names = list(named ?? authority);
  const addresses = list(take('hostaddr'));
  // a host of the query takes the place of that between @ and path, and leaves its port
  const given = take('port');
  const ports = list(given ?? (named === undefined ? undefined : portsOf(authority)));
  const hosts =
    names.length === 1 && names[0] === '' && addresses.length > 1 ? addresses.map(() => '') : names;
  if (addresses.length > 0 && addresses.length !== hosts.length)
    throw new TypeError(
      `the database URL has ${hosts.length} hosts, and hostaddr for ${addresses.length}`,
    );
  if (ports.length > 1 && ports.length !== hosts.length)
    throw new TypeError(`the database URL has ${hosts.length} hosts, and port for ${ports.length}`);
  return hosts.map((text, i) => {
    const other = ports[i] ?? ports[0] ?? '';
    const { host, port } = hostAndPort(text, given === undefined ? '' : other, other);
    const address = addresses[i] ?? '';
    if (address !== '' && isIP(address) === 0)
      throw new TypeError(
        "the database URL's hostaddr must be an IP address, without brackets and port",
      );
    if (address === '' && host.startsWith('/'))
      return { host, port, target: { path: `${host}/.s.PGSQL.${port}` } satisfies Target };
    const named = host || address || 'localhost';
    return {
      host: named,
      port,
      target: { host: named, port, ...(address !== '' && { address }) } satisfies Target,
    };
  });
}

/** The ports among the servers of the address, separated by commas; undefined: there are none. */
function portsOf(authority: string): string | undefined {
  const ports = authority
    .split(',')
    .map((text) => /:(\d+)$/.exec(text.replace(/^\[[^\]]*\]/, ''))?.[1] ?? '');
  return ports.every((port) => port === '') ? undefined : ports.join(',');
}

/** @param first the port that goes before that of the text @param last the one that it has otherwise */
function hostAndPort(text: string, first: string, last: string): { host: string; port: number } {
  const [, host = '', ownPort = ''] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(text) ?? [];
  const port = Number(first || ownPort || last || 5432);
  if ((host === '' && text !== '' && !/^:\d+$/.test(text)) || !(port >= 1 && port <= 65535))
    throw new TypeError(
      'the database URL must name host, host:port or [IPv6 address]:port, with a port from 1 to 65535',
    );
  return { host: host.replace(/^\[|\]$/g, ''), port };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new TypeError('the database URL has a % that begins no escape: write % as %25');
  }
}
