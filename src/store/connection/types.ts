import type postgres from 'postgres';

const MOST_MS = 8.64e15; // from the epoch

/**
 * Types that the driver would convert otherwise: `int8` to a number while that is exact, `date` to text ("2026-11-01"),
 * instants that no Date can hold, and arrays of common types. The driver could ask each new connection for the array
 * types, but a connection lost during that query ends the process (3.4.9).
 */
export const TYPES: Record<string, postgres.PostgresType> = {
  int8: { to: 20, from: [20], serialize: String, parse: readInt8 },
  date: { to: 1082, from: [1082], serialize: String, parse: (text: string) => text },
  timestamptz: { to: 1184, from: [1184], serialize: writeInstant, parse: readInstant },
  bytea: { to: 17, from: [17], serialize: writeBytes, parse: readBytes },
  boolArray: array(1000, (text) => text === 't'),
  byteaArray: array(1001, readBytes),
  int2Array: array(1005, Number),
  int4Array: array(1007, Number),
  int8Array: array(1016, readInt8),
  float8Array: array(1022, Number),
  textArray: array(1009),
  varcharArray: array(1015),
  dateArray: array(1182),
  timestamptzArray: array(1185, readInstant),
  numericArray: array(1231),
  uuidArray: array(2951),
};

function array(
  oid: number,
  parse: (text: string) => unknown = (text) => text,
): postgres.PostgresType {
  return {
    to: oid,
    from: [oid],
    serialize: writeArray,
    parse: (text: string) => readArray(text, parse),
  };
}

/** A one-dimensional array literal with every element quoted, as all types allow. */
function writeArray(values: readonly unknown[] | string): string {
  if (typeof values === 'string') return values;
  return `{${values.map(writeElement).join(',')}}`;
}

function writeElement(value: unknown): string {
  if (value === null) return 'NULL';
  const text =
    value instanceof Date
      ? value.toISOString()
      : value instanceof Uint8Array
        ? writeBytes(value)
        : String(value);
  return `"${text.replace(/[\\"]/g, '\\$&')}"`;
}

/** Reads a one-dimensional array as Postgres prints it. */
function readArray(literal: string, parse: (text: string) => unknown): unknown[] {
  const values: unknown[] = [];
  for (const [, quoted, bare] of literal.matchAll(/"((?:[^"\\]|\\.)*)"|([^{},"]+)/gs)) {
    if (bare !== undefined) values.push(bare === 'NULL' ? null : parse(bare));
    else values.push(parse((quoted as string).replace(/\\(.)/gs, '$1')));
  }
  return values;
}

/** As the driver does. */
function writeInstant(value: Date | string | number): string {
  return (value instanceof Date ? value : new Date(value)).toISOString();
}

/** An instant that no Date can hold, such as the "infinity" of plain SQL, becomes the first or the last that it can. */
function readInstant(text: string): Date {
  const date = new Date(text);
  return Number.isNaN(date.getTime()) ? new Date(/^-|BC$/.test(text) ? -MOST_MS : MOST_MS) : date;
}

function writeBytes(bytes: Uint8Array): string {
  return `\\x${Buffer.from(bytes).toString('hex')}`;
}

/** Reads bytes as Postgres prints them; some databases are set to the older of its two formats (`bytea_output`). */
function readBytes(text: string): Buffer {
  if (text.startsWith('\\x')) return Buffer.from(text.slice(2), 'hex');
  const bytes = text.replace(/\\(\\|[0-7]{3})/g, (_, code) =>
    code === '\\' ? code : String.fromCharCode(Number.parseInt(code, 8)),
  );
  return Buffer.from(bytes, 'latin1');
}

function readInt8(text: string): number | string {
  const value = Number(text);
  return Number.isSafeInteger(value) ? value : text;
}
