import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { type ConnectionOptions, createSecureContext, type SecureVersion } from 'node:tls';
import { readRegularFile } from '../../runtime/regular-file.ts';

/** The parameters of a database URL: the value of one, undefined for one that is absent or empty. */
export type Take = (name: string) => string | undefined;

/** How a connection to the database is encrypted. */
export interface Encryption {
  /** prefer: where the server has TLS. */
  readonly mode: 'never' | 'prefer' | 'always';
  /** Whether TLS begins with the first byte, and not after a question in plain. */
  readonly isDirect: boolean;
  /** Whether the server is told which host is meant. */
  readonly namesHost: boolean;
  /** Of `tls.connect`. */
  readonly options: ConnectionOptions;
}

const VERSIONS: readonly SecureVersion[] = ['TLSv1', 'TLSv1.1', 'TLSv1.2', 'TLSv1.3'];
/** How OpenSSL calls the files of a folder of revocation lists. */
const REVOCATION_LIST = /^[\da-f]{8}\.r\d+$/;
const OWN_DEFAULT = 'disable';

/** Reads the parameters about TLS as libpq does; without any there is none. @throws TypeError of one line */
export function readEncryption(take: Take): Encryption {
  const root = take('sslrootcert');
  const required = take('requiressl') === '1' ? 'require' : undefined;
  const asked = take('sslmode') ?? take('ssl') ?? required;
  if (root === 'system' && asked !== undefined && asked !== 'verify-full')
    throw new TypeError("the database URL's sslrootcert=system needs sslmode=verify-full");
  const { mode, verify } = verification(
    asked ?? (root === 'system' ? 'verify-full' : OWN_DEFAULT),
    root,
  );
  const isDirect =
    requireOneOf('sslnegotiation', take('sslnegotiation') ?? 'postgres', ['postgres', 'direct']) ===
    'direct';
  if (isDirect && mode !== 'always') throw needsTls('sslnegotiation=direct');
  return {
    mode,
    isDirect,
    namesHost: requireOneOf('sslsni', take('sslsni') ?? '1', ['0', '1']) === '1',
    options: {
      ...verify,
      ...versions(take),
      ...revocations(take, mode),
      ...clientCertificate(take, mode),
      ...(isDirect && { ALPNProtocols: ['postgresql'] }),
    },
  };
}

function verification(
  mode: string,
  root: string | undefined,
): Pick<Encryption, 'mode'> & { verify: ConnectionOptions } {
  const ca =
    root === undefined || root === 'system' ? {} : { ca: read('sslrootcert', root).toString() };
  const anyHost = { checkServerIdentity: () => undefined };
  switch (mode) {
    case 'disable':
    case 'false':
    case 'allow':
    case 'prefer': {
      if (root !== undefined) throw needsTls('sslrootcert');
      const isPreferred = mode === 'allow' || mode === 'prefer';
      return { mode: isPreferred ? 'prefer' : 'never', verify: { rejectUnauthorized: false } };
    }
    case 'require':
    case 'true':
      // as in libpq: encrypted, and verified only if there is a root certificate
      return {
        mode: 'always',
        verify: root === undefined ? { rejectUnauthorized: false } : { ...ca, ...anyHost },
      };
    case 'verify-ca':
      return { mode: 'always', verify: { ...ca, ...anyHost } };
    case 'verify-full':
      return { mode: 'always', verify: ca };
    default:
      throw new TypeError(
        "the database URL's sslmode must be disable, allow, prefer, require, verify-ca or verify-full",
      );
  }
}

function versions(take: Take): ConnectionOptions {
  const version = (name: string) => {
    const text = take(name);
    if (text === undefined) return undefined;
    const found = VERSIONS.find((each) => each.toLowerCase() === text.toLowerCase());
    return found ?? requireOneOf(name, text as SecureVersion, VERSIONS);
  };
  const least = version('ssl_min_protocol_version');
  const most = version('ssl_max_protocol_version');
  if (most !== undefined && VERSIONS.indexOf(most) < VERSIONS.indexOf(least ?? 'TLSv1.2'))
    throw new TypeError(
      `the database URL's ssl_max_protocol_version is below ${least ?? 'TLSv1.2, which is the lowest unless ssl_min_protocol_version is given'}`,
    );
  return { ...(least && { minVersion: least }), ...(most && { maxVersion: most }) };
}

/** Lists of certificates that are no longer good, of one file and of a folder as `openssl rehash` leaves it. */
function revocations(take: Take, mode: Encryption['mode']): ConnectionOptions {
  const [file, folder] = [take('sslcrl'), take('sslcrldir')];
  if (mode === 'never' || (file === undefined && folder === undefined)) return {};
  const files = folder === undefined ? [] : filesOf(folder).map((path) => read('sslcrldir', path));
  const crl = file === undefined ? files : [read('sslcrl', file), ...files];
  usable('sslcrl', { crl });
  return { crl };
}

function filesOf(folder: string): string[] {
  try {
    const names = readdirSync(folder).filter((name) => REVOCATION_LIST.test(name));
    return names.map((name) => join(folder, name));
  } catch (error) {
    throw unreadable('sslcrldir', folder, (error as NodeJS.ErrnoException).code ?? '');
  }
}

/** The certificate by which the server knows the user. */
function clientCertificate(take: Take, mode: Encryption['mode']): ConnectionOptions {
  const [cert, key, passphrase] = [take('sslcert'), take('sslkey'), take('sslpassword')];
  const use = requireOneOf('sslcertmode', take('sslcertmode') ?? 'allow', ['allow', 'disable']);
  if (use === 'disable' || (cert === undefined && key === undefined)) return {};
  if (cert === undefined || key === undefined)
    throw new TypeError("the database URL's sslcert and sslkey are set together");
  if (mode !== 'always') throw needsTls('sslcert');
  const pair = {
    cert: read('sslcert', cert),
    key: read('sslkey', key),
    ...(passphrase && { passphrase }),
  };
  usable('sslcert and sslkey', pair);
  return pair;
}

function usable(parameters: string, options: ConnectionOptions): void {
  try {
    createSecureContext(options);
  } catch (error) {
    throw new TypeError(
      `the database URL's ${parameters} cannot be used: ${(error as Error).message}`,
    );
  }
}

function needsTls(parameter: string): TypeError {
  return new TypeError(
    `the database URL's ${parameter} needs sslmode=require, verify-ca or verify-full`,
  );
}

/** The file that a parameter names. */
function read(parameter: string, path: string): Buffer {
  try {
    return readRegularFile(path);
  } catch (error) {
    throw unreadable(parameter, path, (error as Error).message);
  }
}

function unreadable(parameter: string, path: string, reason: string): TypeError {
  return new TypeError(
    `the database URL's ${parameter} ${JSON.stringify(path)} cannot be read: ${reason}`,
  );
}

/** A value that is one of some. @throws TypeError that names them */
export function requireOneOf<T extends string>(
  parameter: string,
  text: string,
  choices: readonly T[],
): T {
  const choice = choices.find((each) => each === text);
  if (choice !== undefined) return choice;
  const words = [choices.slice(0, -1).join(', '), ...choices.slice(-1)]
    .filter((each) => each !== '')
    .join(' or ');
  throw new TypeError(
    `the database URL's ${parameter} must be ${words}: no other value is supported`,
  );
}
