import type { ObjectSchema, Properties, Schema } from '../../domain/settings/schema.ts';
import type { Settings } from '../../domain/settings/setting.ts';
import type { Role } from '../../domain/user.ts';
import { findCompany } from '../../store/company/company.ts';
import { type CursorPage, type Range, readPage } from '../../store/connection/cursor.ts';
import type { Database, Sql } from '../../store/connection/pool.ts';
import { PAGE_ROWS } from '../../store/lists/page.ts';
import type { Write } from '../../store/usage/export.ts';
import type { Caller } from './caller.ts';
import type { Action } from './permission.ts';
import { type Refused, wrongAt } from './refused.ts';
import { type ListQuery, listQuery, pageOf } from './resources.ts';

/** A request to an operation: its caller, and its input, checked by the schemas. */
export interface Call<B = unknown, Q = unknown> extends Caller {
  /** Where people reach the pages. */
  readonly origin: string;
  /** The role that the token has. */
  readonly role: Extract<Role, 'operator' | 'owner'>;
  /** The company of the path; '' where it names none. */
  readonly company: string;
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
  find(sql: Sql, call: Call): Promise<object>;
}

/** A file that is written while it is sent, which may take minutes. */
interface File<B, Q> {
  /** Its media type. */
  readonly type: string;
  name(call: Call<B, Q>): string;
  /** After `run`, which refuses what cannot be written. */
  write(db: Database, call: Call<B, Q>, write: Write): Promise<unknown>;
}

/** How the command line asks for an operation: what its row does not say. */
export interface OnCommandLine {
  /** "cost-center", of "cost-center set". */
  readonly noun: string;
  /** Its sentence, where that of the row speaks of HTTP. */
  readonly summary?: string;
  /** "set"; default: as the id begins. */
  readonly verb?: string;
  /** The settings among the members of the body: their rows have their options. */
  readonly settings?: Settings;
  /** "none" stands for no setting that may be left out of something new; default: true. */
  readonly takesNone?: false;
  /** How its id is shown; default: "ID". */
  readonly operand?: string;
  /** Members that tell which thing is meant, in place of its id, and what finds it. */
  readonly named?: {
    readonly members: Properties;
    find(sql: Sql, values: Readonly<Record<string, string>>): Promise<string>;
  };
  /** What a card and a list have beside the members of a thing. */
  more?(thing: Readonly<Record<string, unknown>>): object;
  /** Members of a thing that its card leaves out. */
  readonly hidden?: readonly string[];
  readonly notes?: string;
  /** What is told when it is done; default: "Group created." */
  readonly done?: string;
  /** Of a list: all rows, in the order of people. @param values of the filters, and of the company in the path */
  all?(
    sql: Sql,
    values: Readonly<Record<string, string | undefined>>,
  ): PromiseLike<readonly object[]>;
  /** Of a list: what is shown of a row, and what is printed where there is none. */
  readonly columns?: readonly string[];
  readonly empty?: string;
  /** Where a command differs from HTTP in what it takes or does, and why. */
  readonly differs?: {
    readonly because: string;
    readonly body?: ObjectSchema;
    readonly filters?: Properties;
    run?(sql: Sql, call: Call<never>): Promise<object>;
  };
}

/** One operation: what it is called, takes and answers. HTTP and openapi.json follow from it, and a command where it has one. */
export interface Operation<B = unknown, Q = unknown> {
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
  /** Absent: there is no such command, or one that is written by hand. */
  readonly command?: OnCommandLine | undefined;
  /** Runs in one transaction, under the tenant role where the path names a company. @throws RefusedChange */
  run(sql: Sql, call: Call<B, Q>): Promise<object | null>;
}

/** What an operation is besides its id, method and path. */
type Parts<B, Q> = Omit<Operation<B, Q>, 'id' | 'method' | 'path' | 'answer' | 'status'> &
  Partial<Pick<Operation, 'answer' | 'status'>>;

/** An operation that reads; `Q` is its query. */
export function get<Q = unknown>(id: string, path: string, parts: Parts<never, Q>): Operation {
  return define('get', id, path, parts);
}

/** An operation that reads one thing. */
export function getOne(
  id: string,
  path: string,
  resource: Resource,
  parts: Pick<Operation, 'summary' | 'action' | 'answer'>,
): Operation {
  return define('get', id, path, { ...parts, resource, run: resource.find });
}

/** An operation that makes or does something; `B` is its body. */
export function post<B = unknown>(id: string, path: string, parts: Parts<B, unknown>): Operation {
  return define('post', id, path, parts);
}

/** An operation that changes the members in its body. */
export function patch<B>(id: string, path: string, parts: Parts<B, unknown>): Operation {
  return define('patch', id, path, parts);
}

/** An operation that removes a thing, and answers with nothing over HTTP. */
export function remove(
  id: string,
  path: string,
  parts: Omit<Parts<unknown, unknown>, 'run'> & { run(sql: Sql, call: Call): Promise<unknown> },
): Operation {
  return define('delete', id, path, {
    ...parts,
    status: 204,
    run: (sql, call) => parts.run(sql, call) as Promise<object>,
  });
}

/** Drops the types of body and query for the list. */
function define<B, Q>(
  method: Operation['method'],
  id: string,
  path: string,
  parts: Parts<B, Q>,
): Operation {
  return { id, method, path, answer: null, status: 200, ...parts };
}

/** Whether the answer has an ETag. */
export function hasTag({ resource, method, answer }: Operation): boolean {
  return resource !== undefined && method !== 'post' && answer !== null;
}

/** What an operation is that lists rows. */
export interface Listing<P extends Properties> {
  readonly command?: OnCommandLine;
  readonly summary: string;
  /** Members of its query that choose rows. */
  readonly filters?: P;
  /** The schema of its cursor; default: an id. */
  readonly cursor?: Schema<string>;
  /** @param company of the path; '' where it names none. One that is not there may have an empty page: it is refused then. */
  read(
    sql: Sql,
    call: Call<never, ListQuery<P>>,
    range: Range,
    company: string,
  ): PromiseLike<CursorPage<object, string | number>>;
}

/** An operation that lists rows, a page at a time. */
export function getList<P extends Properties = Record<never, never>>(
  id: string,
  path: string,
  parts: Listing<P> & { readonly action: Action; readonly row: Schema },
): Operation {
  const { summary, action, row, filters, cursor, read, command } = parts;
  return get<ListQuery<P>>(id, path, {
    summary,
    action,
    query: listQuery(filters, cursor),
    answer: pageOf(row),
    ...(command && { command }),
    async run(sql, call) {
      const { limit = PAGE_ROWS, cursor: after = null } = call.query;
      const { company } = call;
      const { rows, next } = await read(sql, call, { after, limit }, company);
      if (rows.length === 0 && company !== '') await findCompany(sql, company);
      return { data: rows, next_cursor: next === null ? null : String(next) };
    },
  });
}

/** Refuses a cursor whose row is gone, in a list that has another order. */
export function goneCursor(): Refused {
  return wrongAt('?cursor', 'is not known, or its row is gone: begin at the first page');
}

/**
 * A page of rows that are few enough to be read whole, in their own order.
 * @throws Refused wrong when the row of the cursor is gone
 */
export function pageOfAll<T extends { readonly id: string }>(
  range: Range,
  all: readonly T[],
): Promise<CursorPage<T>> {
  return readPage(range, async ({ after, limit }) => {
    const at = after === null ? 0 : all.findIndex(({ id }) => id === after) + 1;
    if (after !== null && at === 0) throw goneCursor();
    return all.slice(at, at + limit);
  });
}

/** The names in the braces of a path. */
export function paramsOf(path: string): string[] {
  return [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name as string);
}
