import { ConfigError } from '../../config.ts';
import { type Noun, Refused } from '../../domain/refusal.ts';
import {
  DatabaseRefused,
  DatabaseUnavailable,
  SchemaRefused,
} from '../../store/connection/errors.ts';
import { ArgumentError, Failure, nameOf } from './command.ts';

/** The advice for things that were not found, or that exist already. */
const HINTS: Readonly<Record<string, Readonly<Partial<Record<Noun, string>>>>> = {
  missing: {
    company: 'See "tollgate company list".',
    model: 'See "tollgate model list".',
    price: 'See "tollgate model price SLUG".',
    key: 'See "tollgate key list --company ID".',
    assistant: 'See "tollgate assistant list --company ID".',
    user: 'See "tollgate user list".',
    invitation: 'See "tollgate user list --company ID".',
    alert: 'See "tollgate alert list".',
    event: 'See "tollgate event list".',
    statement: 'See "tollgate statement list --company ID".',
    token: 'See "tollgate token list".',
    gateway: 'See "tollgate status".',
  },
  conflict: {
    model: 'Change it with "tollgate model set".',
    invitation: 'Add --renew to the command for a new link, or --withdraw.',
  },
};

/** The advice for a database that cannot be used, by the code of its error. */
const DATABASE_REMEDIES: readonly (readonly [codes: RegExp, remedy: string])[] = [
  [
    /ISSUER_CERT|SELF_SIGNED_CERT|LEAF_SIGNATURE/,
    'name the file of its authority in DATABASE_URL, as sslrootcert=FILE',
  ],
  [
    /^25006$/,
    'DATABASE_URL leads to a standby, or to a database or user that may only read: name the server that takes changes',
  ],
  [
    /^57014$/,
    'try again; where its reason is a timeout, raise statement_timeout of the user in DATABASE_URL',
  ],
  [
    /^(?:42704|55P02|22023)$/,
    'DATABASE_URL has a parameter that Postgres does not take as a setting of the session: check its name and value',
  ],
  [/^28/, 'check user and password in DATABASE_URL, and what pg_hba.conf of the server allows'],
  [
    /^53[1-4]00$/,
    'Postgres itself has too little of this: give it more, or use less (DATABASE_CONNECTIONS, PgBouncer)',
  ],
];
const NO_RIGHT = '42501';

/** What a command that failed prints on standard error, and its exit code. */
export interface Explanation {
  /** For programs: what kind of failure it is. */
  readonly kind: 'usage' | 'configuration' | 'missing' | 'conflict' | 'database' | 'failed';
  /** One for each mistake, with advice. */
  readonly lines: readonly string[];
  readonly exit: 1 | 64;
}

/**
 * Explains why a command failed.
 * @param command its words, or undefined where none was found
 * @throws the error itself when it is a bug
 */
export function explain(error: unknown, command: string | undefined): Explanation {
  if (error instanceof ConfigError)
    return { kind: 'configuration', lines: error.mistakes, exit: 64 };
  if (error instanceof Refused && error.kind === 'wrong') {
    const told = error.mistakes.map(
      ({ pointer, detail }) => `--${nameOf(pointer.slice(2))} ${detail}`,
    );
    return explain(new ArgumentError(told.join('; ')), command);
  }
  if (error instanceof ArgumentError) {
    const { message } = error;
    const help = `see "tollgate ${command} --help"`;
    const line = message.endsWith('?')
      ? `${message} ${help.replace('s', 'S')}`
      : `${message}; ${help}`;
    return { kind: 'usage', lines: [command === undefined ? message : line], exit: 64 };
  }
  const lines = refusedLines(error).map((line) => line.replaceAll(/\s*\n\s*/g, '; '));
  if (error instanceof Refused && error.kind !== 'wrong')
    return { kind: error.kind, lines, exit: 1 };
  return { kind: error instanceof Failure ? 'failed' : 'database', lines, exit: 1 };
}

function refusedLines(error: unknown): readonly string[] {
  if (error instanceof Failure) return error.lines;
  const { message } = error as Error;
  if (error instanceof Refused) {
    const hint = error.noun && HINTS[error.kind]?.[error.noun];
    return [hint == null ? message : `${message} ${hint}`];
  }
  if (error instanceof DatabaseUnavailable) {
    const [, remedy] = DATABASE_REMEDIES.find(([codes]) => codes.test(error.code)) ?? [];
    return [`${message}; ${remedy ?? 'check that Postgres runs and that DATABASE_URL is right'}`];
  }
  if (error instanceof DatabaseRefused && error.code === NO_RIGHT)
    return [`${message}; make the user of DATABASE_URL the owner of the database and its tables`];
  if (error instanceof DatabaseRefused || error instanceof SchemaRefused) return [message];
  throw error;
}
