import { readFileSync } from 'node:fs';
import { type ConnectionOptions, createSecureContext } from 'node:tls';

export type Target = { readonly host: string; readonly port: number } | { readonly path: string };

/** false: plain; "prefer": TLS where the server has it; an object: TLS. */
export type Tls = false | 'prefer' | ConnectionOptions;

export type Address = Readonly<ReturnType<typeof parseAddress>>;

const URL_FORM = /^postgres(?:ql)?:\/\/(?:([^/?#]*)@)?([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/;

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROL = /[\0-\x1f\x7f]/;

/** Which of several servers to use. */
const ROLES: Readonly<Record<string, 'any' | 'primary' | 'standby'>> = {
  any: 'any',
  primary: 'primary',
  'read-write': 'primary',
  standby: 'standby',
  'read-only': 'standby',
};

/** Parameters of libpq that are ignored: there are deadlines for everything, and the rest concerns the driver. */
const IGNORED = [
  ...[
    'connect_timeout',
    'tcp_user_timeout',
    'keepalives',
    'keepalives_idle',
    'keepalives_interval',
    'keepalives_count',
  ],
  ...['channel_binding', 'gssencmode', 'load_balance_hosts', 'pgbouncer'],
];

/**
 * Parses a libpq connection URI, with several hosts (target_session_attrs then defaults to primary), Unix-socket folders,
 * IPv6 in brackets, sslmode, sslrootcert, sslcert and sslkey. Other parameters become settings of the session. The driver's own parser
 * supports neither folders nor IPv6 among several hosts.
 * @throws TypeError that does not repeat the URL, which may contain a password
 */
export function parseAddress(url: string) {
  const match = URL_FORM.exec(url);
  if (match === null)
    throw new TypeError('the database URL must look like postgres://user:password@host:port/database');
  if (CONTROL.test(url)) throw new TypeError('the database URL has a line break or another control character in it');
  const [, userinfo = '', authority = '', path = '', search = ''] = match;
  const query = new Map(new URLSearchParams(search.replaceAll('+', '%2B'))); // as in libpq, + is no blank
  const take = (name: string): string | undefined => {
    const value = query.get(name);
    query.delete(name);
    return value || undefined;
  };
  for (const name of IGNORED) query.delete(name);

  const [user, ...password] = userinfo.split(':');
  const hosts = (take('host') ?? decode(authority)).split(',');
  const ports = (take('port') ?? '').split(',');
  const targets = hosts.map((host, i) => target(host, ports[i] ?? ports[0] ?? ''));
  const attrs = take('target_session_attrs') ?? (targets.length > 1 ? 'primary' : 'any');
  const role = ROLES[attrs];
  if (role === undefined) {
    throw new TypeError(`the database URL's target_session_attrs must be one of ${Object.keys(ROLES).join(', ')}`);
  }
  return {
    /** Tried in this order, beginning with the last one that worked. */
    targets,
    role,
    user: take('user') ?? (decode(user ?? '') || undefined),
    password: take('password') ?? (decode(password.join(':')) || undefined),
    database: take('dbname') ?? (decode(path) || undefined),
    tls: withClientCertificate(
      tlsOf(take('sslmode') ?? take('ssl') ?? 'disable', take('sslrootcert')),
      take('sslcert'),
      take('sslkey'),
    ),
    /** Settings of the session, `application_name` among them. */
    settings: { application_name: 'tollgate', ...Object.fromEntries(query) },
  };
}

function target(text: string, fallbackPort: string): Target {
  const [, host = '', ownPort = ''] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(text) ?? [];
  const port = Number(ownPort || fallbackPort || 5432);
  if ((host === '' && text !== '') || !(port >= 1 && port <= 65535))
    throw new TypeError(
      'the database URL must name host, host:port or [IPv6 address]:port, with a port from 1 to 65535',
    );
  if (host.startsWith('/')) return { path: `${host}/.s.PGSQL.${port}` };
  return { host: host.replace(/^\[|\]$/g, '') || 'localhost', port };
}

function tlsOf(mode: string, rootcert: string | undefined): Tls {
  const ca = rootcert === undefined || rootcert === 'system' ? {} : { ca: read('sslrootcert', rootcert) };
  switch (mode) {
    case 'disable':
    case 'false':
    case 'allow':
    case 'prefer':
      if (rootcert !== undefined)
        throw new TypeError("the database URL's sslrootcert needs sslmode=require, verify-ca or verify-full");
      return mode === 'allow' || mode === 'prefer' ? 'prefer' : false;
    case 'require':
    case 'true':
      // as in libpq: encrypted, and verified only if there is a root certificate
      return rootcert === undefined ? { rejectUnauthorized: false } : { ...ca, checkServerIdentity: () => undefined };
    case 'verify-ca':
      return { ...ca, checkServerIdentity: () => undefined };
    case 'verify-full':
      return ca;
    default:
      throw new TypeError(
        "the database URL's sslmode must be disable, allow, prefer, require, verify-ca or verify-full",
      );
  }
}

/** Adds the certificate by which the server knows the user. */
function withClientCertificate(tls: Tls, cert: string | undefined, key: string | undefined): Tls {
  if (cert === undefined && key === undefined) return tls;
  if (cert === undefined || key === undefined)
    throw new TypeError("the database URL's sslcert and sslkey are set together");
  if (typeof tls !== 'object')
    throw new TypeError("the database URL's sslcert needs sslmode=require, verify-ca or verify-full");
  const pair = { cert: read('sslcert', cert), key: read('sslkey', key) };
  try {
    createSecureContext(pair);
  } catch (error) {
    throw new TypeError(`the database URL's sslcert and sslkey cannot be used: ${(error as Error).message}`);
  }
  return { ...tls, ...pair };
}

/** The file that a parameter names. */
function read(parameter: string, path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new TypeError(`the database URL's ${parameter} ${JSON.stringify(path)} cannot be read: ${code}`);
  }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new TypeError('the database URL has a % that begins no escape: write % as %25');
  }
}
