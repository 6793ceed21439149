import type { Settings } from '../../domain/settings/setting.ts';
import type { Caller } from '../../operations/frame/caller.ts';
import { rowsOf } from '../../store/company/company.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { type Command, command, type Options, type Values } from './command.ts';
import { callerOf, settingCells, withFiles } from './setting.ts';
import { type Cell, card, listing } from './text.ts';

/** What a command is besides its name and what it does. */
type About<O extends Options, T> = Omit<Command<O, T>, 'name' | 'run'>;

/** A command that asks for one operation on one thing, in one transaction, and prints the thing. */
interface Change<O extends Options, T, R> extends About<O, T> {
  change(sql: Sql, caller: Caller, values: Values<O>, operand: T): Promise<R>;
  /** What was done; default: "Model created." */
  readonly done?: string;
  show?(done: string, thing: R): string;
}

/** A command that lists things: in JSON all of each, as text some columns. */
interface List<O extends Options, R> extends About<O, undefined> {
  /** The option `company`, where there is one, need not be checked: one that is not there is refused. */
  read(sql: Sql, values: Values<O>): PromiseLike<readonly R[]>;
  /** Cells by heading. @param rows all: a column may be there only where a row needs it */
  columns(rows: readonly R[]): Readonly<Record<string, (row: R) => Cell>>;
  /** What is printed where there are none. */
  readonly empty: string;
  /** The headings of columns of numbers. */
  readonly right?: readonly string[];
}

/**
 * The commands of a noun.
 * @param name "model", of "model create"
 * @param settings the rows whose options its commands have
 * @param beside what the card of a thing has before its settings
 */
export function commandsOf<A extends object>(
  name: string,
  settings: Settings = {},
  beside: (thing: A) => Readonly<Record<string, Cell>> = () => ({}),
) {
  const show = (done: string, thing: A) =>
    card(done, { ...beside(thing), ...settingCells(settings, thing) });
  const verb = (word: string, past: string) => {
    return <O extends Options, R extends A, T = undefined>(parts: Change<O, T, R>) => {
      const {
        change,
        done = `${name[0]?.toUpperCase()}${name.slice(1)} ${past}.`,
        show: shown = show,
        ...about
      } = parts;
      return command<O, T>({
        ...about,
        name: `${name} ${word}`,
        async run(context, given, operand) {
          const values = await withFiles(context, given);
          const thing = await context.transact((sql) =>
            change(sql, callerOf(context, settings), values, operand),
          );
          return { json: thing, text: shown(done, thing) };
        },
      });
    };
  };
  return {
    show,
    verb,
    create: verb('create', 'created'),
    set: verb('set', 'changed'),
    remove: verb('remove', 'removed'),
    pause: verb('pause', 'paused'),
    resume: verb('resume', 'resumed'),
    list: <O extends Options, R>({ read, columns, empty, right, ...about }: List<O, R>) =>
      command<O, undefined>({
        ...about,
        name: `${name} list`,
        async run({ transact }, values) {
          const { company = null, company_id = company } = values as Record<string, string | null>;
          const rows = await transact(async (sql) =>
            rowsOf(sql, company_id, await read(sql, values)),
          );
          return { json: rows, text: listing(rows, columns(rows), empty, right) };
        },
      }),
  };
}
