import type { ObjectSchema, Properties, Schema } from '../../domain/settings/schema.ts';
import type { Sql } from '../../store/connection/pool.ts';
import type { Action } from './permission.ts';
import type { Call, Listing, OnCommandLine, Operation, Resource } from './row.ts';
import { getList, getOne, paramsOf, patch, post, remove } from './row.ts';

/** A kind of things that are listed, created, read, changed and removed, each under an address of its own. */
interface Noun {
  /** "Assistant": the operations are listAssistants, createAssistant, getAssistant, changeAssistant and removeAssistant. */
  readonly name: string;
  /** The address of the list. It names the owner of the things, such as their company, or nothing. */
  readonly path: string;
  /** The parameter behind it, which is the id of one thing. */
  readonly param: string;
  readonly table: string;
  readonly answer: Schema;
  /** The permissions to read and to write. */
  readonly reads: Action;
  readonly writes: Action;
  /** What its commands have in common: a row that has `command` has one. */
  readonly command?: OnCommandLine;
  /** @param owner its id; '' where there is none @throws RefusedChange not_found */
  find(sql: Sql, owner: string, id: string): Promise<object>;
}

/** What one operation is; members that are left out are those of the noun. */
interface Parts<B>
  extends Partial<Pick<Operation, 'id' | 'action' | 'answer' | 'secret' | 'memberActions'>> {
  readonly command?: Partial<OnCommandLine>;
  readonly summary: string;
  /** @param id of the thing, where there is one already */
  run(sql: Sql, call: Call<B>, owner: string, id: string): Promise<unknown>;
}
interface PartsOfBody<B> extends Parts<B> {
  readonly body: ObjectSchema<B>;
  run(sql: Sql, call: Call<B>, owner: string, id: string): Promise<object>;
}

type ListOf<P extends Properties> = Omit<Listing<P>, 'command'> &
  Partial<Pick<Operation, 'id' | 'action'>> & {
    readonly row?: Schema;
    readonly command?: Partial<OnCommandLine>;
  };

/** The operations of a noun. */
export function noun({ name, path, param, table, answer, reads, writes, find, command }: Noun) {
  const one = `${path}/{${param}}`;
  const [owner = ''] = paramsOf(path);
  const on = <B, T>(run: (sql: Sql, call: Call<B>, owner: string, id: string) => T) => {
    return (sql: Sql, call: Call<B>) =>
      run(sql, call, call.params[owner] as string, call.params[param] as string);
  };
  const resource: Resource = {
    table,
    param,
    find: on((sql, _call, owner, id) => find(sql, owner, id)),
  };
  const shared = <P extends { readonly command?: Partial<OnCommandLine> }>(parts: P) => ({
    ...parts,
    command: parts.command && command && { ...command, ...parts.command },
  });
  return {
    /** The address of one thing. */
    one,
    list: <P extends Properties = Record<never, never>>({
      id = `list${name}s`,
      ...parts
    }: ListOf<P>) =>
      getList<P>(id, path, { action: reads, row: answer, ...shared(parts) } as never),
    create: <B>({ id = `create${name}`, run, ...parts }: PartsOfBody<B>) =>
      post<B>(id, path, {
        action: writes,
        answer,
        status: 201,
        ...shared(parts),
        run: on(run),
      }),
    get: (summary: string) =>
      getOne(`get${name}`, one, resource, { summary, action: reads, answer }),
    change: <B>({ id = `change${name}`, run, ...parts }: PartsOfBody<B>) =>
      patch<B>(id, one, { action: writes, answer, resource, ...shared(parts), run: on(run) }),
    remove: ({ id = `remove${name}`, run, ...parts }: Parts<unknown>) =>
      remove(id, one, { action: writes, resource, ...shared(parts), run: on(run) }),
  };
}
