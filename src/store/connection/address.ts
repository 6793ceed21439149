import { readEncryption, requireOneOf, type Take } from './address-tls.ts';

/** A server. */
export type Target = { readonly host: string; readonly port: number } | { readonly path: string };

export type DatabaseAddress = Readonly<ReturnType<typeof parseDatabaseUrl>>;

const URL_FORM = /^postgres(?:ql)?:\/\/(?:([^/?#]*)@)?([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROL = /[\0-\x1f\x7f]|%00/;
const KEEPALIVE_MS = 30_000;
/** Which of several servers to use. */
const ROLES = ['any', 'primary', 'read-write', 'standby', 'read-only', 'prefer-standby'] as const;
/** Parameters of libpq that are not supported: some lead to another server, or protect the connection. */
const REFUSED =
  /^(ssl|gss|krb|require|channel_binding|scram|oauth|service|passfile|hostaddr|load_balance|client_encoding|replication|fallback_|(min|max)_protocol)/;
/** Parameters of other drivers and of the kernel. */
const IGNORED = [
  'pgbouncer',
  'keepalives',
  'keepalives_idle',
  'keepalives_interval',
  'keepalives_count',
  'tcp_user_timeout',
];

/**
 * Parses a connection URI as psql takes it, with the parameters of .deploy/configuration.md; one that libpq does not know
 * becomes a setting of the session. Of several hosts the primary is used, and there is no TLS unless it is asked for.
 * Reads the files that it names.
 * @throws TypeError that does not repeat the URL, which may contain a password
 */
export function parseDatabaseUrl(url: string) {
  const match = URL_FORM.exec(url);
  if (match === null || CONTROL.test(url))
    throw new TypeError(
      'the database URL must look like postgres://user:password@host:port/database, without line breaks and other control characters',
    );
  const [, userinfo = '', authority = '', path = '', search = ''] = match;
  const query = new Map(new URLSearchParams(search.replaceAll('+', '%2B'))); // as in libpq, + is no blank
  const take: Take = (name) => {
    const value = query.get(name);
    query.delete(name);
    return value || undefined;
  };
  for (const name of IGNORED) query.delete(name);
  const [name, ...secret] = userinfo.split(':');
  const user = take('user') ?? (decode(name ?? '') || undefined);
  const password = take('password') ?? (decode(secret.join(':')) || undefined);
  const database = take('dbname') ?? (decode(path) || undefined);
  const inside = decode(authority);
  const host = take('host');
  // as in libpq, a host of the query leaves the port of the other one
  const own = host === undefined ? undefined : /^[^,]*:(\d+)$/.exec(inside)?.[1];
  const targets = targetsOf(host ?? inside, take('port') ?? own);
  const role = requireOneOf(
    'target_session_attrs',
    take('target_session_attrs') ?? (targets.length > 1 ? 'primary' : 'any'),
    ROLES,
  );
  const wait = Number(take('connect_timeout') ?? 0);
  if (!Number.isInteger(wait))
    throw new TypeError("the database URL's connect_timeout must be a whole number of seconds");
  const encryption = readEncryption(take);
  const application_name = take('application_name') ?? 'tollgate';
  for (const name of query.keys())
    if (REFUSED.test(name))
      throw new TypeError(`the database URL's ${name} is not supported: leave it out`);
  return {
    /** Tried in this order, beginning with the last one that worked. */
    targets,
    role,
    user,
    password,
    database,
    encryption,
    /** Milliseconds for each server; undefined: as it suits us. Less than two seconds are two, as in libpq. */
    connectMs: wait > 0 ? Math.max(wait, 2) * 1000 : undefined,
    keepaliveMs: KEEPALIVE_MS,
    /** Settings of the session, `application_name` among them. */
    settings: { application_name, ...Object.fromEntries(query) } as Record<string, string>,
  };
}

/** The servers of "host:port,[::1]:port,/folder of a socket". @param port in place of theirs, one or as many */
function targetsOf(list: string, port: string | undefined): Target[] {
  const ports = port?.split(',') ?? [];
  const hosts = list.split(',');
  if (ports.length > 1 && ports.length !== hosts.length)
    throw new TypeError(`the database URL has ${hosts.length} hosts, and port for ${ports.length}`);
  return hosts.map((text, at): Target => {
    const [, host = '', own] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(text) ?? [];
    const number = Number(ports[at] ?? ports[0] ?? own ?? 5432);
    if ((host === '' && text !== '' && !text.startsWith(':')) || !(number >= 1 && number <= 65535))
      throw new TypeError(
        'the database URL must name host, host:port or [IPv6 address]:port, with a port from 1 to 65535',
      );
    if (host.startsWith('/')) return { path: `${host}/.s.PGSQL.${number}` };
    return { host: host.replace(/^\[|\]$/g, '') || 'localhost', port: number };
  });
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new TypeError('the database URL has a % that begins no escape: write % as %25');
  }
}
