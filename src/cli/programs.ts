import { oneOf, readBoolean, readPrice, readText, readUsdRate } from '../domain/field.ts';
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
    return orFailure(async () => {
      // loaded only here: the gateway would add half to the start of every other command
      const run = serve ?? (await import('./serve.ts')).serve;
      return await run(config(), values.demo, (started) =>
        stdout.write(`${json ? JSON.stringify(started.json) : started.text}\n`),
      );
    });
  },
});

/** Serves. An address in use, a folder without permission, no embedded database: one line, no stack trace. @throws Failure */
async function orFailure(work: () => Promise<number>): Promise<number> {
  return work().catch((error: unknown) => {
    if (error instanceof Error && (error.constructor === Error || 'syscall' in error))
      throw new Failure(error.message);
    throw error;
  });
}

const tryProgram = program({
  name: 'try',
  summary: 'the first priced call: set up one model of your router or provider, serve, and call it',
  options: {
    upstream: optional(
      '--upstream URL',
      readText,
      'address of the router or provider, with its /v1; default: UPSTREAM_URL, or it is asked',
    ),
    model: optional('--model NAME', readText, 'its model; default: the first for chat'),
    input: optional('--input-price EUR', readPrice, 'EUR per 1000 prompt tokens'),
    output: optional('--output-price EUR', readPrice, 'EUR per 1000 completion tokens'),
    catalogue: optional(
      '--catalogue FILE',
      readText,
      "prices of a file in LiteLLM's public format; default: what a LiteLLM at that address tells",
    ),
    usdRate: optional('--usd-rate EUR_PER_USD', readUsdRate, 'EUR for one USD, such as 0.92'),
    euHosted: optional(
      '--eu-hosted true|false',
      readBoolean,
      'whether the model runs in the EU; default: what a LiteLLM tells of it, or it is asked',
    ),
  },
  notes:
    'Needs no Postgres: without DATABASE_URL the database is made in DATA_DIR (./data). UPSTREAM_API_KEY is the key of the upstream. In a terminal it asks what is not told. It makes a company "Trial" with 5 EUR a month, the model "chat" and a key, and calls the model once; Ctrl-C stops it. A second "try" finds what the first one made; options change it, and another DATA_DIR begins anew.',
  async start(invocation, { json, values }, config) {
    const { tryOut } = await import('./try.ts');
    return orFailure(() => tryOut(invocation, values, json, config));
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
export const PROGRAMS = [serveProgram, tryProgram, versionProgram, completionProgram];
