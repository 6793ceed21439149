import { type ConnectionOptions, createSecureContext } from 'node:tls';
import { readRegularFile } from '../../runtime/regular-file.ts';

/** The parameters of a database URL: the value of one, undefined for one that is absent or empty. */
export type Take = (name: string) => string | undefined;

/** How a connection to the database is encrypted. */
export interface Encryption {
  /** prefer: where the server has TLS. */
  readonly mode: 'never' | 'prefer' | 'always';
  /** Of `tls.connect`. */
  readonly options: ConnectionOptions;
}

const MODES = ['disable', 'prefer', 'require', 'verify-ca', 'verify-full'] as const;

/**
 * Reads sslmode, sslrootcert, sslcert and sslkey as libpq does; without any there is no TLS.
 * @throws TypeError of one line
 */
export function readEncryption(take: Take): Encryption {
  const [root, cert, key] = [take('sslrootcert'), take('sslcert'), take('sslkey')];
  const mode = requireOneOf('sslmode', take('sslmode') ?? 'disable', MODES);
  const isAlways = mode !== 'disable' && mode !== 'prefer';
  if (!isAlways && (root ?? cert) !== undefined)
    throw new TypeError(
      "the database URL's sslrootcert and sslcert need sslmode=require, verify-ca or verify-full",
    );
  if ((cert === undefined) !== (key === undefined))
    throw new TypeError("the database URL's sslcert and sslkey are set together");
  if (root === 'system' && mode !== 'verify-full')
    throw new TypeError("the database URL's sslrootcert=system needs sslmode=verify-full");
  const isVerified = mode === 'verify-full' || mode === 'verify-ca' || root !== undefined; // as in libpq
  const options: ConnectionOptions = {
    ...(root !== undefined && root !== 'system' && { ca: read('sslrootcert', root).toString() }),
    ...(cert !== undefined && { cert: read('sslcert', cert), key: read('sslkey', key as string) }),
    ...(!isVerified && { rejectUnauthorized: false }),
    ...(isVerified && mode !== 'verify-full' && { checkServerIdentity: () => undefined }),
  };
  try {
    createSecureContext(options);
  } catch (error) {
    throw new TypeError(
      `the database URL's sslrootcert, sslcert and sslkey cannot be used: ${(error as Error).message}`,
    );
  }
  return { mode: isAlways ? 'always' : mode === 'prefer' ? 'prefer' : 'never', options };
}

/** The file that a parameter names. */
function read(parameter: string, path: string): Buffer {
  try {
    return readRegularFile(path);
  } catch (error) {
    throw new TypeError(
      `the database URL's ${parameter} ${JSON.stringify(path)} cannot be read: ${(error as Error).message}`,
    );
  }
}

/** A value that is one of some. @throws TypeError that names them */
export function requireOneOf<T extends string>(
  parameter: string,
  text: string,
  choices: readonly T[],
): T {
  const choice = choices.find((each) => each === text);
  if (choice !== undefined) return choice;
  throw new TypeError(
    `the database URL's ${parameter} must be ${choices.slice(0, -1).join(', ')} or ${choices.at(-1)}: no other value is supported`,
  );
}
