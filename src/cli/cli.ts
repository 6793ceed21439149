import type { Readable, Writable } from 'node:stream';
import type { WriteStream } from 'node:tty';
import { type Config, ConfigError, readConfig } from '../config.ts';
import { type Noun, Refused } from '../domain/refusal.ts';
import { programVersion } from '../runtime/version.ts';
import { parseDatabaseUrl } from '../store/connection/address.ts';
import { DatabaseRefused, DatabaseUnavailable, SchemaRefused } from '../store/connection/errors.ts';
import {
  ArgumentError,
  type Command,
  type Context,
  Failure,
  flag,
  nameOf,
  optional,
  parseCommand,
} from './frame/command.ts';
import { commandHelp, overview, serveNotes } from './frame/help.ts';
import { fitted } from './frame/text.ts';
import type { serve as Serve } from './serve.ts';

/** One run of the program: its arguments, environment and streams. */
export interface Invocation {
  /** The arguments after `tollgate`. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
  /** Runs instead of the gateway. */
  readonly serve?: typeof Serve;
}

const SERVE = {
  name: 'serve',
  summary: 'start the gateway (API and admin listener)',
  options: {
    demo: flag('--demo', 'create a demo company and print a key, as "make run" does'),
    workers: optional(
      '--workers N|auto',
      (text) => text,
      'processes that share the port; takes the place of WORKERS',
    ),
  },
  get notes() {
    return serveNotes();
  },
};

/** A command of the list, or the one that serves. */
type AnyCommand = Command | typeof SERVE;

/** The advice for things that were not found, or that exist already. */
const HINTS: Readonly<Record<string, Readonly<Partial<Record<Noun, string>>>>> = {
  missing: {
    company: 'See "tollgate company list".',
    model: 'See "tollgate model list".',
    price: 'See "tollgate model price SLUG".',
    key: 'See "tollgate key list --company ID".',
    assistant: 'See "tollgate assistant list --company ID".',
    user: 'See "tollgate user list".',
    invitation: 'See "tollgate user list --company ID".',
    alert: 'See "tollgate alert list".',
    event: 'See "tollgate event list".',
    statement: 'See "tollgate statement list --company ID".',
    token: 'See "tollgate token list".',
    gateway: 'See "tollgate status".',
  },
  conflict: {
    model: 'Change it with "tollgate model set".',
    invitation: 'Add --renew to the command for a new link, or --withdraw.',
  },
};

/** The advice for a database that cannot be used, by the code of its error. */
const DATABASE_REMEDIES: readonly (readonly [codes: RegExp, remedy: string])[] = [
  [
    /ISSUER_CERT|SELF_SIGNED_CERT|LEAF_SIGNATURE/,
    'name the file of its authority in DATABASE_URL, as sslrootcert=FILE',
  ],
  [
    /^25006$/,
    'DATABASE_URL leads to a standby, or to a database or user that may only read: name the server that takes changes',
  ],
  [
    /^57014$/,
    'try again; where its reason is a timeout, raise statement_timeout of the user in DATABASE_URL',
  ],
  [
    /^(?:42704|55P02|22023)$/,
    'DATABASE_URL has a parameter that Postgres does not take as a setting of the session: check its name and value',
  ],
  [/^28/, 'check user and password in DATABASE_URL, and what pg_hba.conf of the server allows'],
  [
    /^53[1-4]00$/,
    'Postgres itself has too little of this: give it more, or use less (DATABASE_CONNECTIONS, PgBouncer)',
  ],
];
const NO_RIGHT = '42501';

/**
 * Runs a command line (contract section 1). Each mistake or refusal is one line on standard
 * error. Rejects only for a bug in this program.
 * @returns the exit code: 0 done, 1 refused or failed, 64 wrong usage or configuration
 */
export async function runCli(invocation: Invocation): Promise<number> {
  const { stdout, stderr } = invocation;
  const argv =
    invocation.argv[0] === 'help' ? [...invocation.argv.slice(1), '--help'] : invocation.argv;
  // loaded only where it is not the gateway that starts: the commands would add a tenth to what it takes at rest
  const commands: readonly AnyCommand[] =
    argv[0] === SERVE.name ? [SERVE] : [SERVE, ...(await import('./commands.ts')).COMMANDS];
  const command = commands.find(
    ({ name }) => name === argv.slice(0, name.split(' ').length).join(' '),
  );
  // A reader may close the pipe early, as head does: write() below sees that error.
  const ignore = (): void => {};
  for (const stream of [stdout, stderr]) stream.on('error', ignore);
  try {
    if (command === undefined) return await print(stdout, aboutProgram(argv, commands));
    const parsed = parseCommand(command, argv.slice(command.name.split(' ').length));
    if (parsed.help)
      return await print(stdout, helpOn(command, ...verbsOf(command.name, commands)));
    const { workers = invocation.env.WORKERS } = parsed.values as { workers?: string };
    const config = readConfig({ ...invocation.env, WORKERS: workers }, parseDatabaseUrl);
    if ('run' in command) return await runCommand(command, parsed, config, invocation);
    return await runServe(parsed, config, invocation);
  } catch (error) {
    const { lines, exit } = explain(error, command?.name);
    for (const line of lines) await tell(stderr, line.replaceAll(/\s*\n\s*/g, '; '));
    return exit;
  } finally {
    for (const stream of [stdout, stderr]) stream.off('error', ignore);
  }
}

type Parsed = ReturnType<typeof parseCommand>;

async function runCommand(
  command: Command,
  parsed: Parsed,
  config: Config,
  invocation: Invocation,
): Promise<number> {
  const { stdin, stdout, stderr } = invocation;
  const { json, values, operand } = parsed;
  const warnings: string[] = [];
  const progress = (line: string) => void tell(stderr, line);
  const { withDatabase } = await import('./frame/database.ts'); // a gateway starts without it
  const exit = await withDatabase(config, command, progress, async (database) => {
    const warn = (line: string) => void warnings.push(line);
    const context: Context = {
      ...database,
      config,
      env: invocation.env,
      stdin,
      json,
      warn,
      progress,
    };
    const outcome = await command.run(context, values, operand);
    if ('print' in outcome) {
      let isRead = true;
      const print = outcome.print(async (piece) => {
        isRead = await write(stdout, piece);
        return isRead;
      });
      await print.catch((error) => {
        if (isRead) throw error;
      });
      return 0;
    }
    const { columns } = stdout as Partial<WriteStream>; // of a terminal; some say 0
    await write(
      stdout,
      `${json ? JSON.stringify(outcome.json) : fitted(outcome.text, columns || undefined)}\n`,
    );
    return outcome.exit ?? 0;
  });
  for (const line of warnings) await tell(stderr, `warning: ${line}`);
  return exit;
}

async function runServe(
  { json, values }: Parsed,
  config: Config,
  { stdout, serve }: Invocation,
): Promise<number> {
  try {
    // loaded only here: the gateway would add half to the start of every other command
    const run = serve ?? (await import('./serve.ts')).serve;
    return await run(config, values.demo === true, (started) =>
      stdout.write(`${json ? JSON.stringify(started.json) : started.text}\n`),
    );
  } catch (error) {
    // An address in use, a folder without permission, no embedded database: one line, no stack trace.
    if (error instanceof Error && (error.constructor === Error || 'syscall' in error))
      throw new Failure(error.message);
    throw error;
  }
}

/** Help or version. @throws ArgumentError when the arguments name no command */
function aboutProgram(argv: readonly string[], commands: readonly AnyCommand[]): string {
  const [noun, verb] = argv;
  if (noun === '--version') return `tollgate ${programVersion()}`;
  if (noun === undefined || noun === '--help' || noun === '-h')
    return overview(programVersion(), commands);

  if (noun.startsWith('-'))
    throw new ArgumentError(`unknown option ${noun}; options come after the command`);
  const related = verbsOf(noun, commands);
  if (related.length === 0) {
    throw new ArgumentError(
      `unknown command ${JSON.stringify(noun)}; "tollgate --help" lists all commands`,
    );
  }
  if (verb === '--help' || verb === '-h') return helpOn(...related);
  const verbs = related.map(({ name }) => name.slice(noun.length + 1)).join(', ');
  const mistake =
    verb === undefined ? `${noun} needs a verb` : `${noun} has no verb ${JSON.stringify(verb)}`;
  const choice = related.length === 1 ? `the only one is ${verbs}` : `choose one of ${verbs}`;
  throw new ArgumentError(`${mistake}; ${choice}, or see "tollgate ${noun} --help"`);
}

/** The commands about a noun. */
function verbsOf(noun: string, commands: readonly AnyCommand[]): AnyCommand[] {
  return commands.filter(({ name }) => name.startsWith(`${noun} `));
}

function helpOn(...commands: readonly Omit<Command, 'run'>[]): string {
  return commands.map(commandHelp).join('\n\n\n');
}

/** One line per mistake, each with advice. @throws the error itself when it is a bug */
function explain(
  error: unknown,
  command: string | undefined,
): { lines: readonly string[]; exit: 1 | 64 } {
  if (error instanceof ConfigError) return { lines: error.mistakes, exit: 64 };
  if (error instanceof Refused && error.kind === 'wrong') {
    const told = error.mistakes.map(
      ({ pointer, detail }) => `--${nameOf(pointer.slice(2))} ${detail}`,
    );
    return explain(new ArgumentError(told.join('; ')), command);
  }
  if (!(error instanceof ArgumentError)) return { lines: refusedLines(error), exit: 1 };
  const { message } = error;
  return {
    lines: [command === undefined ? message : `${message}; see "tollgate ${command} --help"`],
    exit: 64,
  };
}

function refusedLines(error: unknown): readonly string[] {
  if (error instanceof Failure) return error.lines;
  const { message } = error as Error;
  if (error instanceof Refused) {
    const hint = error.noun && HINTS[error.kind]?.[error.noun];
    return [hint == null ? message : `${message} ${hint}`];
  }
  if (error instanceof DatabaseUnavailable) {
    const [, remedy] = DATABASE_REMEDIES.find(([codes]) => codes.test(error.code)) ?? [];
    return [`${message}; ${remedy ?? 'check that Postgres runs and that DATABASE_URL is right'}`];
  }
  if (error instanceof DatabaseRefused && error.code === NO_RIGHT)
    return [`${message}; make the user of DATABASE_URL the owner of the database and its tables`];
  if (error instanceof DatabaseRefused || error instanceof SchemaRefused) return [message];
  throw error;
}

async function print(stdout: Writable, text: string): Promise<0> {
  await write(stdout, `${text}\n`);
  return 0;
}

/** Writes and waits until the stream took it, so that memory stays bounded. False when the reader is gone. */
function write(stream: Writable, text: string | Buffer): Promise<boolean> {
  return new Promise((resolve, reject) => {
    stream.write(text, (error) => {
      const gone = (error as NodeJS.ErrnoException | null | undefined)?.code === 'EPIPE';
      if (error && !gone) reject(new Failure(`cannot write: ${error.message}`));
      else resolve(!gone);
    });
  });
}

/** Writes a line about the command. Where nobody can read it, the command goes on. */
function tell(stderr: Writable, line: string): Promise<void> {
  return new Promise((resolve) => stderr.write(`tollgate: ${line}\n`, () => resolve()));
}
