import postgres from 'postgres';
import { Refused } from '../../domain/refusal.ts';
import { reasonOf } from '../../log.ts';

/** SQLSTATE classes and codes of conditions that pass: the same statement may succeed later. */
const TRANSIENT_CLASSES = ['08', '28', '3D', '40', '53', '57', '58', 'F0', 'XX'];
const TRANSIENT_CODES = ['25006', '25P03', '25P04', '55006', '55P03'];

/** The database is away, too slow, or takes no work now. The same statement may work later. */
export class DatabaseUnavailable extends Error {
  readonly unavailable = true;
  /** An SQLSTATE, a code of the system or the driver, or "DEADLINE". */
  readonly code: string;
  constructor(code: string, reason: string) {
    super(`database unavailable: ${reason}`);
    this.code = code;
  }
}

/** The database refuses this statement with these values, and always will. */
export class DatabaseRefused extends Error {
  readonly unavailable = false;
  /** The SQLSTATE. */
  readonly code: string;
  readonly constraint: string | null;
  constructor(error: postgres.PostgresError) {
    // the message alone: `detail` quotes the values of the row
    super(`database refused: ${error.message}`);
    this.code = error.code;
    this.constraint = error.constraint_name ?? null;
  }
}

/** Something that is done to the whole database was refused; the message is for the operator, and says all. */
export class SchemaRefused extends Error {}

/** Turns an error of the driver into one of the two above, or into a refusal in words; others are returned unchanged. */
export function databaseError(error: unknown): unknown {
  if (error instanceof postgres.PostgresError) {
    // any statement that changes a closed company (sql/schema/erasure.sql)
    if (error.constraint_name === 'company_is_open')
      return new Refused('conflict', error.message, [], 'company');
    // any that sets a price or a factor (sql/schema/models.sql)
    if (
      error.constraint_name === 'price_fits_factor' ||
      error.constraint_name === 'rates_are_whole'
    )
      return new Refused('conflict', error.message, [], 'price');
    const transient =
      TRANSIENT_CLASSES.includes(error.code.slice(0, 2)) || TRANSIENT_CODES.includes(error.code);
    return transient
      ? new DatabaseUnavailable(error.code, error.message)
      : new DatabaseRefused(error);
  }
  if (!(error instanceof Error) || error instanceof DatabaseUnavailable) return error;
  const code = String((error as { code?: unknown }).code ?? '');
  // the driver attaches the interrupted query to a socket error that it passes on
  const ofSocket = 'query' in error && ('syscall' in error || /^ERR_(SSL|TLS|STREAM)/.test(code));
  return ofSocket || code.startsWith('CONNECTION_')
    ? new DatabaseUnavailable(code, error.message)
    : error;
}

/** The error of a failed attempt to connect. Whatever its kind, it says nothing about the statement. */
export function connectError(error: unknown): DatabaseUnavailable {
  if (error instanceof DatabaseUnavailable) return error;
  const { code = 'CONNECTION_FAILED' } = error as { code?: string };
  return new DatabaseUnavailable(code, reasonOf(error));
}

export function connectionLost(): DatabaseUnavailable {
  return new DatabaseUnavailable('CONNECTION_CLOSED', 'the connection was lost');
}

export function stopping(): DatabaseUnavailable {
  return new DatabaseUnavailable('CLOSED', 'the gateway is stopping');
}

/** Throws the refusal of the constraint that a statement violated. */
export async function explaining<T>(
  statement: PromiseLike<T>,
  refusals: Readonly<Record<string, () => never>>,
): Promise<T> {
  try {
    return await statement;
  } catch (error) {
    if (error instanceof postgres.PostgresError) refusals[error.constraint_name ?? '']?.();
    throw error;
  }
}
