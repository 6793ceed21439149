import type { Readable, Writable } from 'node:stream';
import { parseArgs } from 'node:util';
import type { Config } from '../../config.ts';
import { FieldError, MOST_VALUES, type Read, UUID } from '../../domain/field.ts';
import type { Database, Sql, Work } from '../../store/connection/pool.ts';
import { isNamed, type NamedNoun } from '../../store/lists/name.ts';
import { didYouMean } from './closest.ts';

/** One run of the program: its arguments, environment and streams. */
export interface Invocation {
  /** The arguments after `tollgate`. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
  /** Runs instead of the gateway. */
  serve?(config: Config, demo: boolean, announce: (started: Output) => void): Promise<number>;
}

/** One command of contract section 1. @template T value of the operand */
export interface Command<O extends Options = Options, T = unknown> {
  /** The words of the command as typed: "company create". */
  readonly name: string;
  readonly summary: string;
  /** The argument without a name, if the command has one. Help shows it as "ID"; as "[ID]" it may be absent. */
  readonly operand?:
    | { readonly shown: string; readonly meaning: string; readonly read: Read<T> }
    | undefined;
  readonly options: O;
  /** Further paragraphs for its help; indented lines stay as they are. */
  readonly notes?: string | undefined;
  /** Runs on a database that is not migrated. */
  readonly unmigrated?: boolean | undefined;
  /** Prepares a database that may be starting beside it: it waits while nobody answers. */
  readonly awaitsDatabase?: boolean | undefined;
  run(context: Context, values: Values<O>, operand: T): Promise<CommandResult>;
}

/** A command without a database, or that opens its own. */
export interface Program<O extends Options = Options> extends Omit<Command<O, unknown>, 'run'> {
  /** @returns what it prints, or the exit code of what has printed itself */
  start(
    invocation: Invocation,
    parsed: Pick<Parsed, 'json' | 'operand'> & { readonly values: Values<O> },
    config: (more?: Readonly<Record<string, string>>) => Config,
  ): Promise<Output | number>;
}

/** Infers the types of the options for `start`, and drops them. */
export function program<O extends Options>(definition: Program<O>): Program {
  return definition as unknown as Program;
}

/** The services that a command works with. */
export interface Context {
  readonly config: Config;
  readonly env: NodeJS.ProcessEnv;
  /** One transaction, with "cli" as its actor in the audit log. @param deadlineMs milliseconds; default: one minute */
  transact<T>(work: (sql: Sql) => Promise<T>, deadlineMs?: number): Promise<T>;
  /**
   * Reads without a deadline, for queries that grow with the ledger.
   * @param company limits the query to this company's rows by row-level security
   */
  read<T>(work: (sql: Sql) => Promise<T>, company?: string): Promise<T>;
  /** Reads one company's rows, or with null those of all, all of one instant, without a deadline. */
  snapshot<T>(company: string | null, work: Work<T>): Promise<T>;
  /** For work that lasts longer, or needs transactions of its own. */
  readonly db: Database;
  /** Applies pending migrations; resolves with the names of their files. */
  migrate(): Promise<string[]>;
  readonly stdin: Readable;
  readonly json: boolean;
  /** Prints a warning on standard error when the command is done. */
  warn(line: string): void;
  /** Prints how far the command is on standard error, at once. */
  progress(line: string): void;
}

/** The output: one value, as JSON and as text. */
export interface Output {
  readonly json: unknown;
  readonly text: string;
}

/**
 * The result of a command: its output, or what prints it piece by piece. `write` resolves false when nobody reads
 * any more.
 */
export type CommandResult =
  | (Output & { readonly exit?: 0 | 1 })
  | { readonly print: (write: (piece: string | Buffer) => Promise<boolean>) => Promise<unknown> };

export interface Option<T> {
  /** The option in the help: "--budget EUR"; a switch is its name alone. */
  readonly shown: string;
  readonly meaning: string;
  readonly required: boolean;
  readonly repeated: boolean;
  /** @param texts the values given, in order; never empty for a required option */
  read(texts: readonly string[]): T;
}

/** Options by the names under which `run` gets their values. */
export type Options = Readonly<Record<string, Option<unknown>>>;
export type Values<O extends Options> = {
  readonly [K in keyof O]: O[K] extends Option<infer T> ? T : never;
};

/** A wrong command line. The message says what to do; the process exits 64 (EX_USAGE). */
export class ArgumentError extends Error {
  override readonly name = 'UsageError';
}

/** A failure outside the program. The process exits 1. */
export class Failure extends Error {
  override readonly name = 'Failure';
  readonly lines: readonly string[];

  /** @param lines each says what to do */
  constructor(...lines: readonly string[]) {
    super(lines.join('; '));
    this.lines = lines;
  }
}

/** Infers the types of the options for `run`, and drops them for the list of commands. */
export function command<O extends Options, T = undefined>(definition: Command<O, T>): Command {
  return definition as unknown as Command;
}

/** @param shown name and value as help shows them: "--budget EUR" */
export function required<T>(shown: string, read: Read<T>, meaning: string): Option<T> {
  return {
    shown,
    meaning,
    required: true,
    repeated: false,
    read: ([text]) => read(text as string),
  };
}

export function optional<T>(shown: string, read: Read<T>, meaning: string): Option<T | undefined> {
  const readOptional = ([text]: readonly string[]) => (text === undefined ? undefined : read(text));
  return { shown, meaning, required: false, repeated: false, read: readOptional };
}

export function repeated<T>(
  shown: string,
  read: Read<T>,
  meaning: string,
  least: 0 | 1 = 0,
): Option<T[]> {
  return {
    shown,
    meaning,
    required: least === 1,
    repeated: true,
    read: (texts) => texts.map((text) => read(text)),
  };
}

/** A list of its own: null for "none", which clears it, and undefined without the option. */
export function listOrNone<T>(
  shown: string,
  read: Read<T>,
  meaning: string,
): Option<T[] | null | undefined> {
  const readList = (texts: readonly string[]): T[] | null | undefined => {
    if (texts.length === 0) return undefined;
    if (texts.length > MOST_VALUES)
      throw new FieldError(`must be given at most ${MOST_VALUES} times`);
    if (!texts.includes('none')) return texts.map((text) => read(text));
    if (texts.length > 1) throw new FieldError('none clears the list: give it alone');
    return null;
  };
  return {
    shown,
    meaning: `${meaning}; may be repeated`,
    required: false,
    repeated: true,
    read: readList,
  };
}

export function flag(shown: string, meaning: string, needed = false): Option<boolean> {
  return { shown, meaning, required: needed, repeated: false, read: (texts) => texts.length > 0 };
}

/** A thing that an argument names by its name, in place of its id. */
export interface Name {
  /** What the argument is called in messages: "--company". */
  readonly argument: string;
  /** "company", of the option --company ID and of the operand of "company set ID". */
  readonly noun: NamedNoun;
  readonly name: string;
}

/** The arguments of a command. */
export interface Parsed {
  readonly help: boolean;
  readonly json: boolean;
  readonly values: Values<Options>;
  readonly operand: unknown;
  /** Names in place of ids. Each is read as `NO_ID` until `idOf` knows its id. */
  readonly names: readonly Name[];
}

const NO_ID = '00000000-0000-0000-0000-000000000000';
const LINE = /^\P{Cc}*[^\s\p{Cc}]\P{Cc}*$/u;

/**
 * Parses the arguments after a command's name.
 * @param idOf the id of a thing that is named by its name
 * @throws ArgumentError at the first mistake
 */
export function parseCommand(
  { name: commandName, operand, options }: Pick<Command, 'name' | 'operand' | 'options'>,
  args: readonly string[],
  idOf: (name: Name) => string = () => NO_ID,
): Parsed {
  const byName = new Map(Object.values(options).map((option) => [shownName(option), option]));
  const { given, positionals } = argumentsIn(args, byName);
  const json = given.has('json');
  const names: Name[] = [];
  if (given.has('help')) return { help: true, json, values: {}, operand: undefined, names };

  const [first, ...rest] = positionals;
  const surplus = operand === undefined ? first : rest[0];
  if (surplus !== undefined) {
    throw new ArgumentError(
      `unexpected ${JSON.stringify(surplus)}; put text with spaces in quotes, and give switches no value`,
    );
  }
  const absent = [...byName].filter(([name, option]) => option.required && !given.has(name));
  const missing = absent.map(([name]) => `--${name}`);
  if (operand !== undefined && first === undefined && !operand.shown.startsWith('['))
    missing.unshift(operand.shown);
  if (missing.length > 0) throw new ArgumentError(`missing ${missing.join(', ')}`);

  const withId = (argument: string, noun: string, text: string): string => {
    if (!isNamed(noun) || UUID.test(text.toLowerCase()) || !LINE.test(text)) return text;
    const name = { argument, noun, name: text };
    names.push(name);
    return idOf(name);
  };
  const values: Record<string, unknown> = {};
  for (const [key, option] of Object.entries(options)) {
    const name = shownName(option);
    const argument = `--${name}`;
    const noun = placeholderOf(option) === 'ID' ? name : '';
    const texts = (given.get(name) ?? []).map((text) => withId(argument, noun, text));
    values[key] = named(argument, () => option.read(texts));
  }
  const shown = operand?.shown.replace(/[[\]]/g, '') ?? '';
  const noun = /^(\w+_)?ID$/.test(shown) ? (commandName.split(' ')[0] as string) : '';
  const read =
    operand && first !== undefined
      ? named(shown, () => operand.read(withId(shown, noun, first)))
      : undefined;
  return { help: false, json, operand: read, values, names };
}

/** The values of options by their names, and the arguments without a name. @throws ArgumentError */
function argumentsIn(args: readonly string[], byName: ReadonlyMap<string, Option<unknown>>) {
  const types = [...byName].map(
    ([name, option]) => [name, { type: placeholderOf(option) ? 'string' : 'boolean' }] as const,
  );
  // not strict: the errors of parseArgs do not say which option may be meant
  const { tokens } = parseArgs({
    args: [...args],
    options: {
      ...Object.fromEntries(types),
      json: { type: 'boolean' },
      help: { type: 'boolean', short: 'h' },
    },
    strict: false,
    tokens: true,
  });
  const given = new Map<string, string[]>();
  const positionals: string[] = [];
  for (const token of tokens) {
    if (token.kind === 'positional') positionals.push(token.value);
    if (token.kind !== 'option') continue;
    const { name, rawName, value, inlineValue } = token;
    const option = byName.get(name);
    if (option === undefined && name !== 'json' && name !== 'help') {
      const known = [...byName.keys(), 'json', 'help'].map((each) => `--${each}`);
      throw new ArgumentError(`unknown option ${rawName}${didYouMean(rawName, known)}`);
    }
    const needed = option && placeholderOf(option);
    if (needed === undefined && value !== undefined) {
      throw new ArgumentError(
        `${rawName} is a switch and takes no value; leave it out to switch it off`,
      );
    }
    // a negative number is a value, so that its own message is shown and not that a value is missing
    if (needed !== undefined && (value === undefined || (/^-\D/.test(value) && !inlineValue))) {
      throw new ArgumentError(`${rawName} needs a value: ${rawName}=${needed}`);
    }
    const texts = given.get(name) ?? [];
    if (texts.length > 0 && option?.repeated === false)
      throw new ArgumentError(`${rawName} is given twice; give it once`);
    given.set(name, [...texts, value ?? '']);
  }
  return { given, positionals };
}

/** The option of a member: "company" of `company_id`. */
export function nameOf(member: string): string {
  return member.replace(/_id$/, '').replaceAll('_', '-');
}

/** "budget" of "--budget EUR". */
export function shownName({ shown }: Option<unknown>): string {
  return shown.slice(2).split(' ', 1)[0] as string;
}

/** "EUR" of "--budget EUR"; undefined for a switch. */
export function placeholderOf({ shown }: Option<unknown>): string | undefined {
  return shown.split(' ')[1];
}

/** The changes of a `set` command. @throws ArgumentError when there are none */
export function someChange<T extends object>(changes: T): T {
  if (
    Object.values(changes).every(
      (value) => value === undefined || (Array.isArray(value) && value.length === 0),
    )
  ) {
    throw new ArgumentError('nothing to change; give at least one setting');
  }
  return changes;
}

/** Reads a value; an error of it names the argument. @throws ArgumentError */
export function named<T>(name: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof FieldError) throw new ArgumentError(`${name} ${error.message}`);
    throw error;
  }
}
