import type { Refused } from '../../domain/refusal.ts';
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
import { wrongAt } from './refused.ts';
import { type ListQuery, listQuery, pageOf } from './resources.ts';

/** A request to an operation: its caller, and its input, checked by the schemas. */
export interface Call<B = unknown, Q = unknown> extends Caller {
  /** Where people reach the pages. */
  readonly origin: string;
  /** The role that the token has. */
  readonly role: Extract<Role, 'operator' | 'owner'>;
  /** The company of the path; '' where it names none. */
  readonly company: string;
  /** The last identifier of the path: that of the thing, where it names one; '' where it names none. */
  readonly id: string;
  /** All of them, in lower case. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: Q;
  readonly body: B;
}

/** A thing with an address of its own: read with an ETag, changed under If-Match. */
export interface Resource {
  /** The table whose row is locked while If-Match is compared. */
  readonly table: string;
  /** @throws Refused missing */
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
  /** What is told when it is done; default: "Group created.", or "Done." where it has a verb of its own. */
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
  /** Runs in one transaction, under the tenant role where the path names a company. @throws Refused */
  run(sql: Sql, call: Call<B, Q>): Promise<unknown>;
}

/** What an operation is besides its id, method and path. */
export type Parts<B, Q = unknown> = Omit<
  Operation<B, Q>,
  'id' | 'method' | 'path' | 'answer' | 'status'
> &
  Partial<Pick<Operation, 'answer' | 'status'>>;

/** Makes the operations of a method; the list of all of them has no types of bodies and queries. */
function by(method: Operation['method'], status: Operation['status'] = 200) {
  return <B = unknown, Q = unknown>(id: string, path: string, parts: Parts<B, Q>): Operation => ({
    id,
    method,
    path,
    answer: null,
    status,
    ...parts,
  });
}

/** An operation that reads. */
export const get = by('get');
/** An operation that makes or does something. */
export const post = by('post');
/** An operation that changes the members in its body. */
export const patch = by('patch');
/** An operation that removes a thing, and answers with nothing over HTTP. */
export const remove = by('delete', 204);

/** Whether the answer has an ETag. */
export function hasTag({ resource, method, answer }: Operation): boolean {
  return resource !== undefined && method !== 'post' && answer !== null;
}

/** What an operation is that lists rows. */
export interface Listing<P extends Properties>
  extends Pick<Operation, 'summary' | 'action' | 'command'> {
  readonly row: Schema;
  /** Members of its query that choose rows. */
  readonly filters?: P;
  /** The schema of its cursor; default: an id. */
  readonly cursor?: Schema<string>;
  /** A company of the path that is not there may have an empty page: it is refused then. */
  read(
    sql: Sql,
    call: Call<unknown, ListQuery<P>>,
    range: Range,
  ): PromiseLike<CursorPage<object, string | number>>;
}

/** An operation that lists rows, a page at a time. */
export function getList<P extends Properties = Record<never, never>>(
  id: string,
  path: string,
  { row, filters, cursor, read, ...about }: Listing<P>,
): Operation {
  return get(id, path, {
    ...about,
    query: listQuery(filters, cursor),
    answer: pageOf(row),
    async run(sql, call) {
      const { company, query } = call;
      const { limit = PAGE_ROWS, cursor: after = null } = query;
      const { rows, next } = await read(sql, call, { after, limit });
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
