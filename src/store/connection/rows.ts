import { type Noun, throwNotFound, unknownCompany } from '../../domain/refusal.ts';
import { matching, type namedColumns, type unpackedBytes } from './columns.ts';
import { pageById, type Range } from './cursor.ts';
import { explaining } from './errors.ts';
import type { Sql } from './pool.ts';

type Fragment = ReturnType<typeof unpackedBytes>;

/** A table whose rows have an id, and belong to companies or some of them to none. */
interface Table {
  readonly table: string;
  /** What a row is called where there is none. */
  readonly noun: Noun;
  /** The columns of a row, for `select`. */
  readonly columns: (sql: Sql) => Fragment;
  /** Tells that there is no such row; undefined: in the words of all. */
  readonly missing?: (id: string, company: string | null) => string | undefined;
}

/**
 * What is read and written in the same way whatever the table. Where a company is given, rows of others count as not found.
 * @template R a row, as its columns are selected
 */
export function rowsIn<R extends { readonly id: string }>({
  table,
  noun,
  columns,
  missing,
}: Table) {
  type Refusals = Readonly<Record<string, () => never>>;
  type Values = ReturnType<typeof namedColumns> | Fragment;
  const isThat = (sql: Sql, id: string, company: string | null) =>
    sql`id = ${id} ${matching(sql, { company_id: company })}`;
  const orNotFound = (row: R | null | undefined, id: string, company: string | null): R =>
    row ?? throwNotFound(noun, missing?.(id, company));

  /** @param tail "where … order by …" */
  async function list(sql: Sql, tail: Fragment): Promise<R[]> {
    return sql<R[]>`select ${columns(sql)} from ${sql(table)} ${tail}`;
  }

  /** null: there is none. */
  async function read(sql: Sql, id: string, company: string | null = null): Promise<R | null> {
    const [row] = await list(sql, sql`where ${isThat(sql, id, company)}`);
    return row ?? null;
  }
  return {
    columns,
    list,
    read,
    /** @throws Refused missing */
    async find(sql: Sql, id: string, company: string | null = null): Promise<R> {
      return orNotFound(await read(sql, id, company), id, company);
    },
    /**
     * @param values of `given` @param company whose row it is; null: of none
     * @param refusals by the name of the constraint that is violated
     * @throws Refused missing where there is no such company
     */
    async insert(
      sql: Sql,
      values: Values,
      company: string | null,
      refusals: Refusals = {},
    ): Promise<R> {
      const insert = sql<R[]>`insert into ${sql(table)} ${values} returning ${columns(sql)}`;
      const noCompany = { [`${table}_company_id_fkey`]: () => unknownCompany(company as string) };
      const [row] = await explaining(insert, { ...noCompany, ...refusals });
      return row as R;
    },
    /** @param values of `given` @throws Refused missing */
    async update(sql: Sql, values: Values, id: string, company: string | null = null): Promise<R> {
      const [row] = await sql<R[]>`
        update ${sql(table)} set ${values} where ${isThat(sql, id, company)} returning ${columns(sql)}`;
      return orNotFound(row, id, company);
    },
    /** @returns what the row was @throws Refused missing */
    async remove(sql: Sql, id: string, company: string | null = null): Promise<R> {
      const [row] = await sql<R[]>`
        delete from ${sql(table)} where ${isThat(sql, id, company)} returning ${columns(sql)}`;
      return orNotFound(row, id, company);
    },
    /** Rows of a company, or of all, ordered by id. @param bytes of a row, where rows may be long @param only a condition */
    page(
      sql: Sql,
      company: string | null,
      range: Range,
      bytes: Fragment | null = null,
      only: Fragment = sql`true`,
    ) {
      const from = sql`from ${sql(table)} where ${only} ${matching(sql, { company_id: company })}`;
      return pageById<R>(sql, range, columns(sql), from, bytes);
    },
  };
}
