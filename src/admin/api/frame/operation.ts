import type { ObjectSchema, Schema } from '../../../domain/settings/schema.ts';
import type { Role } from '../../../domain/user.ts';
import type { Caller } from '../../../operations/caller.ts';
import type { Action } from '../../../operations/permission.ts';
import { type Problem, wrongAt } from '../../../operations/problem.ts';
import type { Database, Sql } from '../../../store/connection/pool.ts';
import type { Write } from '../../../store/usage/export.ts';

/** A request to an operation: its caller, and its input, checked by the schemas. */
export interface ApiCall<B = unknown, Q = unknown> extends Caller {
  /** Where people reach the pages. */
  readonly origin: string;
  /** The role that the token has. */
  readonly role: Extract<Role, 'operator' | 'owner'>;
  /** Identifiers of the path, in lower case. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: Q;
  readonly body: B;
}

/** A thing with an address of its own: read with an ETag, changed under If-Match. */
export interface Resource {
  /** The table whose row is locked while If-Match is compared. */
  readonly table: string;
  /** The parameter of the path that is its id. */
  readonly param: string;
  /** @throws RefusedChange not_found */
  find(sql: Sql, call: ApiCall): Promise<object>;
}

/** A file that is written while it is sent, which may take minutes. */
interface File<B, Q> {
  /** Its media type. */
  readonly type: string;
  name(call: ApiCall<B, Q>): string;
  /** After `run`, which refuses what cannot be written. */
  write(db: Database, call: ApiCall<B, Q>, write: Write): Promise<unknown>;
}

/** One operation of administration over HTTP: what is served, checked and documented. */
export interface ApiOperation<B = unknown, Q = unknown> {
  /** The `operationId`. */
  readonly id: string;
  readonly method: 'get' | 'post' | 'patch' | 'delete';
  /** Below /api/v1, with parameters as OpenAPI writes them; `{company}` is the company that it is about. */
  readonly path: string;
  readonly summary: string;
  /** The permission that the token needs; see permission.ts. */
  readonly action: Action;
  /** Members of the body that need another permission. */
  readonly memberActions?: Readonly<Record<string, Action>>;
  readonly query?: ObjectSchema<Q>;
  readonly body?: ObjectSchema<B>;
  /** What it answers with; null: nothing (204), or a file. */
  readonly answer: Schema | null;
  readonly file?: File<B, Q>;
  /** A POST that changes nothing: its body is too long for an address, or must not be logged. A token that only reads may send it. */
  readonly isReading?: true;
  /** The operation may take minutes, and takes a permit of exports. */
  readonly isLong?: true;
  readonly status: 200 | 201 | 204;
  /** The thing that it is about, where there is one already. */
  readonly resource?: Resource;
  /** The member of the answer that is shown once, or several of them: of a member within another, "key.key". */
  readonly secret?: string | readonly string[];
  /** Runs in one transaction, under the tenant role where the path names a company. @throws RefusedChange */
  run(sql: Sql, call: ApiCall<B, Q>): Promise<object | null>;
}

/** What an operation is besides its id, method and path. */
type Parts<B, Q> = Omit<ApiOperation<B, Q>, 'id' | 'method' | 'path' | 'answer' | 'status'> &
  Partial<Pick<ApiOperation, 'answer' | 'status'>>;

/** An operation that reads; `Q` is its query. */
export function get<Q = unknown>(id: string, path: string, parts: Parts<never, Q>): ApiOperation {
  return define('get', id, path, parts);
}

/** An operation that reads one thing. */
export function getOne(
  id: string,
  path: string,
  resource: Resource,
  parts: Pick<ApiOperation, 'summary' | 'action' | 'answer'>,
): ApiOperation {
  return define('get', id, path, { ...parts, resource, run: resource.find });
}

/** An operation that makes or does something; `B` is its body. */
export function post<B = unknown>(id: string, path: string, parts: Parts<B, unknown>): ApiOperation {
  return define('post', id, path, parts);
}

/** An operation that changes the members in its body. */
export function patch<B>(id: string, path: string, parts: Parts<B, unknown>): ApiOperation {
  return define('patch', id, path, parts);
}

/** An operation that removes a thing, and answers with nothing. */
export function remove(
  id: string,
  path: string,
  parts: Omit<Parts<unknown, unknown>, 'run'> & { run(sql: Sql, call: ApiCall): Promise<unknown> },
): ApiOperation {
  return define('delete', id, path, {
    ...parts,
    status: 204,
    async run(sql, call) {
      await parts.run(sql, call);
      return null;
    },
  });
}

/** Drops the types of body and query for the list. */
function define<B, Q>(method: ApiOperation['method'], id: string, path: string, parts: Parts<B, Q>): ApiOperation {
  return { id, method, path, answer: null, status: 200, ...parts };
}

/** Whether the answer has an ETag. */
export function hasTag({ resource, method, answer }: ApiOperation): boolean {
  return resource !== undefined && method !== 'post' && answer !== null;
}

/** A page of a list, and where the next one begins; null at the end. */
export interface Page<T> {
  readonly data: readonly T[];
  readonly next_cursor: string | null;
}

/** The query of a list. `cursor` is the `next_cursor` of the page before. */
export interface PageQuery {
  readonly limit?: number;
  readonly cursor?: string;
}

export const DEFAULT_LIMIT = 50;

/** Rows behind the one with this id, or from the first, at most so many. */
interface RowRange {
  readonly after: string | null;
  readonly limit: number;
}

/**
 * Makes a page of rows ordered by id, which is the cursor.
 * @param read reads rows behind the cursor, at most so many
 * @param fitting how many of them fit on a page, where rows may be long
 */
export async function pageOf<T extends { readonly id: string | number }>(
  { limit = DEFAULT_LIMIT, cursor }: PageQuery,
  read: (rows: RowRange) => PromiseLike<readonly T[]>,
  fitting: (rows: RowRange) => PromiseLike<number> = async () => limit,
): Promise<Page<T>> {
  const after = cursor ?? null;
  const most = await fitting({ after, limit });
  const rows = await read({ after, limit: most + 1 });
  const data = rows.slice(0, most);
  return { data, next_cursor: rows.length > most ? String((data.at(-1) as T).id) : null };
}

/** Refuses a cursor whose row is gone, in a list that has another order. */
export function goneCursor(): Problem {
  return wrongAt('?cursor', 'is not known, or its row is gone: begin at the first page');
}

/**
 * A page of rows that are few enough to be read whole, in their own order.
 * @throws Problem 400 when the row of the cursor is gone
 */
export function pageOfAll<T extends { readonly id: string }>(query: PageQuery, all: readonly T[]): Promise<Page<T>> {
  return pageOf(query, async ({ after, limit }) => {
    const at = after === null ? 0 : all.findIndex(({ id }) => id === after) + 1;
    if (after !== null && at === 0) throw goneCursor();
    return all.slice(at, at + limit);
  });
}
