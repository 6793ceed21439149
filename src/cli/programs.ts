import { oneOf } from '../domain/field.ts';
import { programVersion } from '../runtime/version.ts';
import { allCommands } from './commands.ts';
import { Failure, flag, optional, program } from './frame/command.ts';
import { COMPLETED_SHELLS, completion } from './frame/completion.ts';
import { serveNotes } from './frame/help.ts';

const serveProgram = program({
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
  async start({ stdout, serve }, { json, values }, config) {
    try {
      // loaded only here: the gateway would add half to the start of every other command
      const run = serve ?? (await import('./serve.ts')).serve;
      return await run(config(), values.demo, (started) =>
        stdout.write(`${json ? JSON.stringify(started.json) : started.text}\n`),
      );
    } catch (error) {
      // An address in use, a folder without permission, no embedded database: one line, no stack trace.
      if (error instanceof Error && (error.constructor === Error || 'syscall' in error))
        throw new Failure(error.message);
      throw error;
    }
  },
});

const completionProgram = program({
  name: 'completion',
  summary: 'print what completes commands, options and values in a shell',
  operand: {
    shown: COMPLETED_SHELLS.join('|'),
    meaning: 'the shell',
    read: oneOf(...COMPLETED_SHELLS),
  },
  options: {},
  notes:
    'For this session alone:\n  source <(tollgate completion bash)\n\nFor all: write the same line into ~/.bashrc, or for zsh, behind "autoload -U compinit; compinit", into ~/.zshrc.',
  async start(_invocation, { operand: shell }) {
    const text = completion(shell as (typeof COMPLETED_SHELLS)[number], [
      ...PROGRAMS,
      ...(await allCommands()),
    ]);
    return { json: { shell, script: text }, text };
  },
});

const versionProgram = program({
  name: 'version',
  summary: 'print the version of this program; --version does the same',
  options: {},
  async start() {
    const version = programVersion();
    return { json: { version }, text: `tollgate ${version}` };
  },
});

/** The commands that need no database, or open it themselves. */
export const PROGRAMS = [serveProgram, versionProgram, completionProgram];
