import type { Writable } from 'node:stream';
import { type Config, readConfig } from '../config.ts';
import { programVersion } from '../runtime/version.ts';
import { parseDatabaseUrl } from '../store/connection/address.ts';
import { allCommands, COMMAND_NOUNS, commandsOfNoun } from './commands.ts';
import { didYouMean } from './frame/closest.ts';
import {
  ArgumentError,
  type Command,
  type Context,
  Failure,
  type Invocation,
  type Parsed,
  type Program,
  parseCommand,
} from './frame/command.ts';
import type { Explanation } from './frame/failure.ts';
import { commandHelp, overview } from './frame/help.ts';
import { fitted, printable, terminalOf } from './frame/text.ts';
import { PROGRAMS } from './programs.ts';

/**
 * Runs a command line (contract section 1). Each mistake or refusal is one line on standard
 * error, and with --json all of them are one JSON value there. Rejects only for a bug in this program.
 * @returns the exit code: 0 done, 1 refused or failed, 64 wrong usage or configuration
 */
export async function runCli(invocation: Invocation): Promise<number> {
  const { stdout, stderr } = invocation;
  const argv = argvOf(invocation.argv);
  // A reader may close the pipe early, as head does: write() below sees that error.
  const ignore = (): void => {};
  for (const stream of [stdout, stderr]) stream.on('error', ignore);
  let command: Command | Program | undefined;
  try {
    const ofNoun = await commandsOf(argv[0] ?? '');
    const isCalled = ({ name }: Pick<Command, 'name'>) =>
      name === argv.slice(0, name.split(' ').length).join(' ');
    command = ofNoun.find(isCalled);
    const { columns } = terminalOf(stdout, invocation.env);
    const width = Math.max(40, Math.min(columns ?? 80, 120));
    if (command === undefined) return await print(stdout, await aboutProgram(argv, ofNoun, width));
    const args = argv.slice(command.name.split(' ').length);
    const parsed = parseCommand(command, args);
    if (parsed.help)
      return await print(stdout, helpOn([command, ...verbsOf(command.name, ofNoun)], width));
    const { workers = invocation.env.WORKERS } = parsed.values as { workers?: string };
    const config = (more = {}) =>
      readConfig({ ...invocation.env, WORKERS: workers, ...more }, parseDatabaseUrl);
    if ('run' in command) return await runCommand(command, args, parsed, config(), invocation);
    const outcome = await command.start(invocation, parsed, config);
    return typeof outcome === 'number'
      ? outcome
      : await print(stdout, parsed.json ? JSON.stringify(outcome.json) : outcome.text);
  } catch (error) {
    const { explain } = await import('./frame/failure.ts');
    const explanation = explain(error, command?.name);
    await tellFailure(invocation, argv, explanation);
    return explanation.exit;
  } finally {
    for (const stream of [stdout, stderr]) stream.off('error', ignore);
  }
}

/** The arguments, with other ways to ask for help and the version as the usual one. */
function argvOf(argv: readonly string[]): readonly string[] {
  const [first = '', ...rest] = argv;
  if (first === 'help') return [...rest, '--help'];
  return ['--version', '-v'].includes(first) ? ['version', ...rest] : argv;
}

async function commandsOf(noun: string): Promise<readonly (Command | Program)[]> {
  const found = PROGRAMS.filter(({ name }) => name === noun);
  return found.length > 0 ? found : await commandsOfNoun(noun);
}

async function runCommand(
  command: Command,
  args: readonly string[],
  parsed: Parsed,
  config: Config,
  invocation: Invocation,
): Promise<number> {
  const { stdin, stdout, stderr, env } = invocation;
  const { json } = parsed;
  const warnings: string[] = [];
  const errors = terminalOf(stderr, env);
  const progress = (line: string) => void tell(stderr, line);
  const { withDatabase } = await import('./frame/database.ts'); // a gateway starts without it
  const exit = await withDatabase(config, command, progress, async (database) => {
    const warn = (line: string) => void warnings.push(line);
    const context: Context = { ...database, config, env, stdin, json, warn, progress };
    const { values, operand } = await withIds(command, args, parsed, context);
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
    const { columns, paint } = terminalOf(stdout, env);
    await print(stdout, json ? JSON.stringify(outcome.json) : fitted(outcome.text, columns, paint));
    return outcome.exit ?? 0;
  });
  const name = `tollgate: ${errors.paint('warning:', 'warning')}`;
  for (const line of warnings) await tell(stderr, line, name);
  return exit;
}

/** The arguments, with ids in place of names. @throws Refused where a name is none, or that of several things */
async function withIds(
  command: Command,
  args: readonly string[],
  parsed: Parsed,
  { read }: Context,
): Promise<Pick<Parsed, 'values' | 'operand'>> {
  if (parsed.names.length === 0) return parsed;
  const { idsOf } = await import('./frame/name.ts');
  const isNamed = parsed.names.some(({ argument }) => argument === '--company');
  const { company, company_id = company } = parsed.values as Readonly<Record<string, string>>;
  const idOf = await read((sql) => idsOf(sql, parsed.names, isNamed ? null : (company_id ?? null)));
  return parseCommand(command, args, idOf);
}

/** Help. @param ofNoun the commands of the first word @throws ArgumentError when the arguments name no command */
async function aboutProgram(
  [noun, verb]: readonly string[],
  ofNoun: readonly (Command | Program)[],
  width: number,
): Promise<string> {
  if (noun === undefined || noun === '--help' || noun === '-h')
    return overview(programVersion(), [...PROGRAMS, ...(await allCommands())], width);
  if (noun.startsWith('-'))
    throw new ArgumentError(
      `unknown option ${noun}; options come after the command, as in "tollgate company list --json"`,
    );
  if (ofNoun.length === 0) {
    const swapped = (await commandsOf(verb ?? '')).find(({ name }) => name === `${verb} ${noun}`);
    const nouns = [...PROGRAMS.map(({ name }) => name), ...COMMAND_NOUNS];
    const near = swapped ? `; did you mean "${swapped.name}"?` : didYouMean(noun, nouns);
    throw new ArgumentError(
      `unknown command ${JSON.stringify(noun)}${near || '; "tollgate --help" lists all commands'}`,
    );
  }
  if (verb === '--help' || verb === '-h') return helpOn(ofNoun, width);
  const verbs = ofNoun.map(({ name }) => name.slice(noun.length + 1));
  const mistake =
    verb === undefined ? `${noun} needs a verb` : `${noun} has no verb ${JSON.stringify(verb)}`;
  const near = verb === undefined ? '' : didYouMean(verb, verbs);
  const choice =
    verbs.length === 1 ? `the only one is ${verbs}` : `choose one of ${verbs.join(', ')}`;
  throw new ArgumentError(`${mistake}${near || `; ${choice}, or see "tollgate ${noun} --help"`}`);
}

/** The commands about a noun that is a command itself. */
function verbsOf(noun: string, commands: readonly (Command | Program)[]) {
  return commands.filter(({ name }) => name.startsWith(`${noun} `));
}

function helpOn(commands: readonly (Command | Program)[], width: number): string {
  return commands.map((each) => commandHelp(each, width)).join('\n\n\n');
}

/** One line for each mistake; with --json one JSON value for all, which is the last line of standard error. */
async function tellFailure(
  { stderr, env }: Invocation,
  argv: readonly string[],
  { kind, lines, exit }: Explanation,
): Promise<void> {
  const end = argv.indexOf('--');
  if (argv.slice(0, end < 0 ? argv.length : end).includes('--json')) {
    const error = { kind, message: lines.join('\n'), exit };
    await new Promise<void>((resolve) =>
      stderr.write(`${JSON.stringify({ error })}\n`, () => resolve()),
    );
    return;
  }
  const { paint } = terminalOf(stderr, env);
  for (const line of lines) await tell(stderr, line, paint('tollgate:', 'wrong'));
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
function tell(stderr: Writable, line: string, name = 'tollgate:'): Promise<void> {
  return new Promise((resolve) => stderr.write(`${name} ${printable(line)}\n`, () => resolve()));
}
