import type { Properties, Schema } from '../../domain/settings/schema.ts';
import type { Sql } from '../../store/connection/pool.ts';
import type { Action } from './permission.ts';
import type { Call, Listing, OnCommandLine, Operation, Parts } from './row.ts';
import { get, getList, patch, post, remove } from './row.ts';

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
  /** @throws Refused missing */
  find(sql: Sql, call: Call): Promise<object>;
}

/** An operation, or a list: what is left out is that of the noun. */
type Less<T extends { readonly action: Action }> = Omit<T, 'action' | 'row' | 'command'> &
  Partial<Pick<Operation, 'id' | 'action'>> & {
    readonly row?: Schema;
    readonly command?: Partial<OnCommandLine>;
  };

/** The operations of a noun. */
export function noun({ name, path, param, table, answer, reads, writes, find, command }: Noun) {
  const one = `${path}/{${param}}`;
  const resource = { table, find };
  const whole = (
    usual: Less<{ readonly action: Action }>,
    parts: { readonly command?: Partial<OnCommandLine> },
  ) =>
    ({
      ...usual,
      ...parts,
      command: parts.command && { ...command, ...usual.command, ...parts.command },
    }) as never;
  const writing = (
    define: typeof post,
    verb: string,
    at: string,
    usual: Less<Partial<Operation> & { readonly action: Action }>,
  ) => {
    return <B>({ id = `${verb}${name}`, ...parts }: Less<Parts<B>>): Operation =>
      define<B>(id, at, whole({ action: writes, ...usual }, parts));
  };
  return {
    /** The address of one thing. */
    one,
    list: <P extends Properties = Record<never, never>>({
      id = `list${name}s`,
      ...parts
    }: Less<Listing<P>>) => getList<P>(id, path, whole({ action: reads, row: answer }, parts)),
    create: writing(post, 'create', path, { answer, status: 201 }),
    get: (summary: string) =>
      get(`get${name}`, one, { summary, action: reads, answer, resource, run: find }),
    change: writing(patch, 'change', one, { answer, resource }),
    remove: writing(remove, 'remove', one, { resource }),
    /** What else is done with one thing: "pause". */
    act: (verb: string) => writing(post, verb, `${one}/${verb}`, { answer, command: { verb } }),
  };
}
