import { readFileSync } from 'node:fs';
import type { Readable, Writable } from 'node:stream';
import { type Command, type Context, Failure, flag, parseCommand, UsageError } from './cli/command.ts';
import { withDatabase } from './cli/database.ts';
import { commandHelp, overview, serveHelp } from './cli/help.ts';
import type { Announcement } from './cli/serve.ts';
import { type Config, ConfigError, readConfig } from './config.ts';
import { isTimeZone } from './domain/month.ts';
import { type Noun, RefusedChange } from './domain/refused-change.ts';
import { parseAddress } from './store/address.ts';
import { DatabaseRefused, DatabaseUnavailable } from './store/database.ts';
import { MigrationRefused } from './store/migrate.ts';

/** One run of the program, with all it may touch. */
export interface Invocation {
  /** What follows `tollgate`. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
  /** The package's folder, which holds package.json and sql/. Ends in a slash. */
  readonly root: URL;
  /**
   * Runs the gateway until it is told to stop; resolves with the exit code.
   * @param demo greet with a demo company and a key that works (`make run`)
   * @param announce takes what a gateway that has started tells
   */
  readonly serve?: (config: Config, demo: boolean, announce: (started: Announcement) => void) => Promise<number>;
}

const SERVE = {
  name: 'serve',
  summary: 'start the gateway (API and admin listener)',
  options: { demo: flag('begin with a demo company and print a key that works, as "make run" does') },
};

/** What to do about a thing that was not found, and about one that is in the way. */
const HINTS: Readonly<Record<RefusedChange['reason'], Readonly<Partial<Record<Noun, string>>>>> = {
  not_found: {
    company: '"tollgate company list" shows them.',
    model: '"tollgate model list" shows them.',
    key: '"tollgate key list --company ID" shows them.',
    assistant: '"tollgate assistant list --company ID" shows them.',
  },
  conflict: {
    model: '"tollgate model set" changes it.',
    key: 'Give a later --expires.',
    user: 'Choose another address.',
  },
};

/**
 * Runs a command line (contract section 1). Mistakes and refusals are one line each on
 * standard error; only bugs of ours reject.
 * @returns the exit code: 0 done, 1 refused or failed, 64 wrong usage or configuration
 */
export async function runCli(invocation: Invocation): Promise<number> {
  const { stdout, stderr } = invocation;
  const argv = invocation.argv[0] === 'help' ? [...invocation.argv.slice(1), '--help'] : invocation.argv;
  // a gateway starts 12 ms sooner without them
  const commands = argv[0] === 'serve' ? [] : (await import('./cli/commands.ts')).COMMANDS;
  const command = commands.find(({ name }) => name === argv.slice(0, name.split(' ').length).join(' '));
  // a reader that goes away, as head does, is noticed where it is written to
  const ignore = (): void => {};
  stdout.on('error', ignore);
  try {
    if (command !== undefined) return await runCommand(command, argv.slice(command.name.split(' ').length), invocation);
    if (argv[0] === 'serve') return await runServe(argv.slice(1), invocation);
    await write(stdout, `${aboutProgram(argv, commands, invocation.root)}\n`);
    return 0;
  } catch (error) {
    const { lines, exit } = explain(error, command?.name ?? (argv[0] === 'serve' ? 'serve' : undefined));
    for (const line of lines) await write(stderr, `tollgate: ${line.replaceAll(/\s*\n\s*/g, '; ')}\n`);
    return exit;
  } finally {
    stdout.off('error', ignore);
  }
}

async function runCommand(command: Command, args: readonly string[], invocation: Invocation): Promise<number> {
  const { stdin, stdout, stderr, root } = invocation;
  const { help, json, values, operand } = parseCommand(command, args);
  if (help) {
    await write(stdout, `${commandHelp(command)}\n`);
    return 0;
  }
  const config = configure(invocation.env);
  const warnings: string[] = [];
  const exit = await withDatabase(config, root, command, async (database) => {
    const context: Context = { ...database, config, stdin, json, warn: (line) => warnings.push(line) };
    const outcome = await command.run(context, values, operand);
    if ('pieces' in outcome) {
      await database.read(async (sql) => {
        for await (const piece of outcome.pieces(sql)) if (!(await write(stdout, piece))) break;
      }, outcome.company);
      return 0;
    }
    await write(stdout, `${json ? JSON.stringify(outcome.json) : outcome.text}\n`);
    return outcome.exit ?? 0;
  });
  for (const line of warnings) await write(stderr, `tollgate: warning: ${line}\n`);
  return exit;
}

async function runServe(args: readonly string[], { env, stdout, serve }: Invocation): Promise<number> {
  const { help, json, values } = parseCommand(SERVE, args);
  if (help) {
    await write(stdout, `${serveHelp(SERVE)}\n`);
    return 0;
  }
  const config = configure(env);
  if (serve === undefined) throw new Failure('this program cannot serve');
  try {
    return await serve(config, values.demo === true, (started) =>
      stdout.write(`${json ? JSON.stringify(started.json) : started.text}\n`),
    );
  } catch (error) {
    // what keeps a gateway from starting: an address in use, a folder that is not ours, no binaries
    if (error instanceof Error && (error.constructor === Error || 'syscall' in error)) throw new Failure(error.message);
    throw error;
  }
}

/** @throws ConfigError */
function configure(env: Invocation['env']): Config {
  const config = readConfig(env, isTimeZone);
  try {
    if (config.databaseUrl !== null) parseAddress(config.databaseUrl);
  } catch (error) {
    throw new ConfigError([`DATABASE_URL: ${(error as Error).message}`]);
  }
  return config;
}

/** Help or version. @throws UsageError when the words name no command */
function aboutProgram(argv: readonly string[], commands: readonly Command[], root: URL): string {
  const [noun, verb] = argv;
  const version = versionOf(root);
  if (noun === '--version') return `tollgate ${version}`;
  if (noun === undefined || noun === '--help' || noun === '-h') return overview(version, [SERVE, ...commands]);

  if (noun.startsWith('-')) throw new UsageError(`unknown option ${noun}; options come after the command`);
  const related = commands.filter(({ name }) => name.startsWith(`${noun} `));
  if (related.length === 0) {
    throw new UsageError(`${JSON.stringify(noun)} is no command; "tollgate --help" lists them`);
  }
  if (verb === '--help' || verb === '-h') return related.map(commandHelp).join('\n\n\n');
  const verbs = related.map(({ name }) => name.slice(noun.length + 1)).join(', ');
  const said = verb === undefined ? `${noun} needs a verb` : `${noun} has no verb ${JSON.stringify(verb)}`;
  throw new UsageError(`${said}; choose one of ${verbs}, or see "tollgate ${noun} --help"`);
}

/** One line per mistake, each saying what to do. @throws what is nobody's mistake but ours */
function explain(error: unknown, command: string | undefined): { lines: readonly string[]; exit: 1 | 64 } {
  if (error instanceof UsageError) {
    const line = command === undefined ? error.message : `${error.message}; see "tollgate ${command} --help"`;
    return { lines: [line], exit: 64 };
  }
  if (error instanceof ConfigError) return { lines: error.mistakes, exit: 64 };
  if (error instanceof RefusedChange) {
    const hint = HINTS[error.reason][error.noun];
    return { lines: [hint === undefined ? error.message : `${error.message} ${hint}`], exit: 1 };
  }
  if (error instanceof DatabaseUnavailable) {
    return { lines: [`${error.message}; check that it runs and that DATABASE_URL is right`], exit: 1 };
  }
  const plain = [Failure, MigrationRefused, DatabaseRefused].some((kind) => error instanceof kind);
  if (plain) return { lines: [(error as Error).message], exit: 1 };
  throw error;
}

/** Waits until the text is taken, so that nothing piles up. False when the reader has gone. */
function write(stream: Writable, text: string): Promise<boolean> {
  return new Promise((resolve, reject) => {
    stream.write(text, (error) => {
      const gone = (error as NodeJS.ErrnoException | null | undefined)?.code === 'EPIPE';
      if (error && !gone) reject(new Failure(`cannot write: ${error.message}`));
      else resolve(!gone);
    });
  });
}

function versionOf(root: URL): string {
  return JSON.parse(readFileSync(new URL('package.json', root), 'utf8')).version;
}
