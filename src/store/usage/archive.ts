import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { createTarPacker } from 'modern-tar';
import { HIDDEN, isShown, shownActor, shownRow } from '../connection/actor.ts';
import { utcMicrosecond } from '../connection/expressions.ts';
import type { ConnectionSql, Sql } from '../connection/pool.ts';
import { outside } from '../connection/tenant-role.ts';
import {
  ACTORS,
  ARCHIVED,
  type ArchivedTable,
  isJsonRow,
  NOT_ARCHIVED,
} from './archived-tables.ts';
import { copyOut, type Write } from './export.ts';

/** One file of an archive. */
interface ArchivedFile {
  readonly name: string;
  readonly what: string;
  readonly rows: number;
  readonly bytes: number;
  /** The digest of the file, in hex. */
  readonly sha256: string;
}

/** The last file of an archive, `manifest.json`. It lists the others. */
export interface Manifest {
  readonly format: 'tollgate company archive';
  readonly version: 1;
  readonly company: { readonly id: string; readonly name: string };
  /** The instant of the snapshot, ISO 8601 in UTC. */
  readonly taken_at: string;
  readonly billing_timezone: string;
  /** Whether members for operators only are in it. */
  readonly internal: boolean;
  readonly files: readonly ArchivedFile[];
  /** Tables and columns that are not in it, and why. */
  readonly left_out: Readonly<Record<string, string>>;
}

/**
 * Writes all that is stored about a company as a .tar.gz of JSON Lines, in the memory of a few buffers. The database
 * makes the lines, and is asked for each table twice: tar wants the size of a file before the file.
 * @param sql a `snapshot` limited to the company, so that all files are of one instant
 * @param internal whether to include facts for operators only, such as which of them made a change
 * @param write takes a piece; resolves false when nobody reads any more
 * @throws DatabaseUnavailable when the reader left; the error of `write`
 */
export async function archiveCompany(
  sql: ConnectionSql,
  {
    company,
    internal,
  }: { readonly company: { id: string; name: string }; readonly internal: boolean },
  write: Write,
): Promise<Manifest> {
  return packed(`company-${company.id}`, write, async (add) => {
    const [now] = await sql<[{ taken_at: string; zone: string }]>`
      select set_config('timezone', 'UTC', true), value as zone,
        ${sql.unsafe(utcMicrosecond('now()'))} as taken_at
      from settings where name = 'billing_timezone'`;
    const files: ArchivedFile[] = [];
    const ofTable = async (table: ArchivedTable): Promise<void> => {
      const lines = await linesOf(sql, table, company.id, internal);
      const name = `${table.table}.jsonl`;
      const [size] = await sql.unsafe<[{ rows: number; bytes: number }]>(
        `select count(*)::float8 as rows, coalesce(sum(octet_length(convert_to(line, 'UTF8')) + 1), 0)::float8 as bytes
         from (${lines}) as lines (line)`,
      );
      // JSON holds no control characters: nothing is ever quoted
      const text = `copy (${lines}) to stdout with (format csv, delimiter e'\\x02', quote e'\\x01', encoding 'UTF8')`;
      const sha256 = await add(name, size.bytes, (body) => copyOut(sql, text, body));
      files.push({ name, what: table.what, ...size, sha256 });
    };
    for (const table of ARCHIVED) {
      const hasPrices = table.pricedAt !== undefined || table.table === 'audit_log';
      await (internal || hasPrices ? outside(sql, () => ofTable(table)) : ofTable(table));
    }
    const manifest: Manifest = {
      format: 'tollgate company archive',
      version: 1,
      company,
      taken_at: now.taken_at,
      billing_timezone: now.zone,
      internal,
      files,
      left_out: leftOut(internal),
    };
    await addText(add, 'manifest.json', `${JSON.stringify(manifest, null, 2)}\n`);
    return manifest;
  });
}

/** Adds one file to an archive. @param body writes exactly `bytes` bytes @returns its SHA-256 in hex */
type Add = (name: string, bytes: number, body: (write: Write) => Promise<void>) => Promise<string>;

/** @throws Error when the reader left */
export function addText(add: Add, name: string, text: string): Promise<string> {
  const bytes = Buffer.from(text);
  return add(name, bytes.length, async (write) => {
    if (!(await write(bytes))) throw new Error('the reader left');
  });
}

/**
 * Writes a .tar.gz with one folder, in the memory of a few buffers.
 * @param fill adds its files, one after the other
 * @throws the errors of `fill` and of `write`
 */
export async function packed<T>(
  folder: string,
  write: Write,
  fill: (add: Add) => Promise<T>,
): Promise<T> {
  const { readable, controller } = createTarPacker();
  let failure: unknown;
  const sent = pipeline(
    Readable.fromWeb(readable),
    createGzip(),
    async (pieces: AsyncIterable<Buffer>) => {
      for await (const piece of pieces)
        if (!(await write(piece))) throw new Error('the reader left');
    },
  ).catch((error) => {
    failure = error;
  });
  const mtime = new Date();

  const add: Add = async (name, bytes, body) => {
    const hash = createHash('sha256');
    const file = controller
      .add({ name: `${folder}/${name}`, size: bytes, mtime, mode: 0o600 })
      .getWriter();
    await body(async (piece) => {
      hash.update(piece);
      // refused once the reader is gone
      return file.write(new Uint8Array(piece)).then(
        () => true,
        () => false,
      );
    });
    await file.close();
    return hash.digest('hex');
  };

  try {
    const filled = await fill(add);
    controller.finalize();
    await sent;
    if (failure !== undefined) throw failure;
    return filled;
  } catch (error) {
    controller.error(error);
    await sent;
    throw error;
  }
}

/** A query for the rows of a table as JSON texts. Amounts are exact decimal texts, instants in UTC. */
async function linesOf(
  sql: Sql,
  spec: ArchivedTable,
  company: string,
  internal: boolean,
): Promise<string> {
  // COPY takes no parameters
  if (!/^[0-9a-f-]{36}$/.test(company)) throw new TypeError('not an id');
  const rows = await sql<{ name: string; type: string }[]>`
    select attname as name, coalesce(nullif(typbasetype, 0), typ.oid)::regtype::text as type
    from pg_attribute join pg_type typ on typ.oid = atttypid
    where attrelid = ${spec.table}::regclass and attnum > 0 and not attisdropped`;
  const types = new Map(rows.map(({ name, type }) => [name, type]));
  const members = [...spec.columns, ...(internal ? (spec.internal ?? []) : [])].map((name) => {
    const type = types.get(name);
    const paid = `paid_row(jsonb_build_object('${name}', t.${name}), t.company_id, ${spec.pricedAt})`;
    const isPriced = spec.pricedAt !== undefined && !internal;
    if (isPriced && name === 'rates') return `nullif(${paid} -> 'rates', 'null') as rates`;
    if (isPriced && type === 'numeric') return `${paid} ->> '${name}' as ${name}`;
    if (type === 'numeric') return `trim_scale(t.${name})::text as ${name}`;
    if (internal) return `t.${name}`;
    if (isJsonRow(name))
      return `(${shownRow('t', name)}) - '{${HIDDEN.join(',')}}'::text[] as ${name}`;
    if (ACTORS.includes(name)) return `${shownActor(`t.${name}`)} as ${name}`;
    return `t.${name}`;
  });
  for (const [name, expression] of Object.entries((internal && spec.computed) || {})) {
    members.push(`${expression} as ${name}`);
  }
  return `select row_to_json(r)::text from (select ${members.join(', ')} from ${spec.table} t
    where t.${spec.company ?? 'company_id'} = '${company}'${spec.table === 'audit_log' && !internal ? ` and ${isShown('t')}` : ''} order by ${spec.order}) as r`;
}

function leftOut(internal: boolean): Record<string, string> {
  const columns = ARCHIVED.flatMap(({ table, without = {}, internal: hidden = [] }) => [
    ...Object.entries(without).map(([name, why]) => [`${table}.${name}`, why] as const),
    ...(internal ? [] : hidden).map(
      (name) => [`${table}.${name}`, 'internal to the operator of this service'] as const,
    ),
  ]);
  return { ...NOT_ARCHIVED, ...Object.fromEntries(columns) };
}
