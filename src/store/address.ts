import { readFileSync } from 'node:fs';
import type { ConnectionOptions } from 'node:tls';

export type Target = { readonly host: string; readonly port: number } | { readonly path: string };

/** false: plain; "prefer": TLS where the server has it; an object: TLS. */
export type Tls = false | 'prefer' | ConnectionOptions;

export type Address = Readonly<ReturnType<typeof parseAddress>>;

const URL_FORM = /^postgres(?:ql)?:\/\/(?:([^/?#]*)@)?([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/;

/** Which of several servers to use. */
const ROLES: Readonly<Record<string, 'any' | 'primary' | 'standby'>> = {
  any: 'any',
  primary: 'primary',
  'read-write': 'primary',
  standby: 'standby',
  'read-only': 'standby',
};

/** Parameters of libpq that are ignored: there are deadlines for everything, and the rest concerns the driver. */
const IGNORED = ['connect_timeout', 'channel_binding', 'gssencmode', 'keepalives', 'load_balance_hosts', 'pgbouncer'];

/**
 * Parses a libpq connection URI, with several hosts (target_session_attrs then defaults to primary), Unix-socket folders,
 * IPv6 in brackets, sslmode and sslrootcert. Other parameters become settings of the session. The driver's own parser
 * supports neither folders nor IPv6 among several hosts.
 * @throws TypeError that does not repeat the URL, which may contain a password
 */
export function parseAddress(url: string) {
  const match = URL_FORM.exec(url);
  if (match === null)
    throw new TypeError('the database URL must look like postgres://user:password@host:port/database');
  const [, userinfo = '', authority = '', path = '', search = ''] = match;
  const query = new Map(new URLSearchParams(search));
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
    tls: tlsOf(take('sslmode') ?? take('ssl') ?? 'disable', take('sslrootcert')),
    /** Settings of the session, `application_name` among them. */
    settings: { application_name: 'tollgate', ...Object.fromEntries(query) },
  };
}

function target(text: string, fallbackPort: string): Target {
  const [, host = '', ownPort = ''] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(text) ?? [];
  if (host === '' && text !== '') throw new TypeError('the database URL has a host that cannot be read');
  const port = Number(ownPort || fallbackPort || 5432);
  if (!(port >= 1 && port <= 65535)) throw new TypeError('the database URL has a port that is none');
  if (host.startsWith('/')) return { path: `${host}/.s.PGSQL.${port}` };
  return { host: host.replace(/^\[|\]$/g, '') || 'localhost', port };
}

function tlsOf(mode: string, rootcert: string | undefined): Tls {
  const ca = rootcert === undefined || rootcert === 'system' ? {} : { ca: readFileSync(rootcert, 'utf8') };
  switch (mode) {
    case 'disable':
    case 'false':
      return false;
    case 'allow':
    case 'prefer':
      return 'prefer';
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

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new TypeError('the database URL has a % that begins no escape');
  }
}
