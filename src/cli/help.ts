import { describeConfig } from '../config.ts';
import type { Command, Option } from './command.ts';

/** What `--help` prints, all of it made from the commands themselves. Lines fit 100 columns. */

const WIDTH = 98;

type Synopsis = Pick<Command, 'name' | 'operand' | 'summary'>;

/** One summary line per command, in the order given, a blank line between nouns. */
export function overview(version: string, commands: readonly Synopsis[]): string {
  const width = Math.max(...commands.map((each) => synopsis(each).length));
  const nouns = Map.groupBy(commands, ({ name }) => (name.includes(' ') ? name.split(' ')[0] : ''));
  const lines = [...nouns.values()].map((group) =>
    group.map((each) => `  ${synopsis(each).padEnd(width)}  ${each.summary}`).join('\n'),
  );
  return `Tollgate ${version}: a metered, governed model-access gateway

Usage: tollgate COMMAND [OPTIONS]

${lines.join('\n\n')}

"tollgate COMMAND --help" explains a command, "tollgate company --help" all about companies.
Every command takes --json: one JSON value on standard output, nothing else.
The database is the one of DATABASE_URL, or an embedded one in DATA_DIR (./data);
"tollgate serve --help" lists all environment variables.
Exit status: 0 done, 1 refused or failed, 64 wrong usage or configuration.`;
}

export function serveHelp(serve: Pick<Command, 'name' | 'summary' | 'options'>): string {
  return commandHelp({ ...serve, notes: `Environment (variable, default, meaning):\n\n${describeConfig()}` });
}

/** A command's usage line, what it does, and its options. */
export function commandHelp(command: Omit<Command, 'run'>): string {
  const { operand, options } = command;
  const entries: [string, string][] = Object.entries(options).map(([name, option]) => [
    written(name, option),
    `${option.meaning}${option.required ? ' (required)' : ''}`,
  ]);
  if (operand !== undefined) entries.unshift([operand.shown, operand.meaning]);
  entries.push(['--json', 'one JSON value on standard output']);
  const width = Math.max(...entries.map(([name]) => name.length));
  const lines = entries.map(([name, meaning]) => `  ${name.padEnd(width)}  ${meaning}`);
  const usage = [synopsis(command), ...Object.entries(options).map(([name, option]) => usagePart(name, option))];
  const notes = command.notes === undefined ? '' : `\n\n${command.notes}`;
  return `${wrap('tollgate', usage)}\n\n${sentence(command.summary)}\n\n${lines.join('\n')}${notes}`;
}

function synopsis({ name, operand }: Synopsis): string {
  return operand === undefined ? name : `${name} ${operand.shown}`;
}

function written(name: string, option: Option<unknown>): string {
  return option.shown === null ? `--${name}` : `--${name} ${option.shown}`;
}

function usagePart(name: string, option: Option<unknown>): string {
  const part = option.required ? written(name, option) : `[${written(name, option)}]`;
  return option.repeated ? `${part}…` : part;
}

function wrap(first: string, parts: readonly string[]): string {
  const lines = [first];
  for (const part of parts) {
    const line = `${lines.at(-1)} ${part}`;
    if (line.length <= WIDTH) lines[lines.length - 1] = line;
    else lines.push(`    ${part}`);
  }
  return lines.join('\n');
}

function sentence(text: string): string {
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
