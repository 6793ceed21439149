import { VARIABLES } from '../../config.ts';
import type { Command } from './command.ts';

/** The text of `--help`, made from the commands and the configuration table. Lines fit 80 columns, or as many as asked. */

const WIDTH = 80;

const SECRETS = VARIABLES.filter((each) => each.secret).map(({ name }) => `${name}_FILE`);
export const SECRETS_NOTE = `A secret can come from a file: ${SECRETS.slice(0, -1).join(', ')} and ${SECRETS.at(-1)} each name a file that holds the value.`;

const AUTHORITIES_NOTE =
  'NODE_EXTRA_CA_CERTS is read by Node: a PEM file with more authorities whose certificates are trusted, for the upstream, webhooks, mail, traces and OpenID Connect.';

const ABOUT =
  '"tollgate COMMAND --help" explains a command, "tollgate company --help" all commands for companies. The id of a company, key, assistant, end user or token can be its name, where one alone has it. With --json every command prints one JSON value on standard output and nothing else, and one that fails {"error": {"kind", "message", "exit"}} as the last line of standard error. Commands use the database of DATABASE_URL, or the embedded one in DATA_DIR (./data); "tollgate serve --help" lists all environment variables.';

type Synopsis = Pick<Command, 'name' | 'operand' | 'summary'>;

/** One summary per command, in the order given, a blank line between nouns. */
export function overview(
  version: string,
  commands: readonly Synopsis[],
  width: number = WIDTH,
): string {
  const lines = columns(
    commands.map((each) => [synopsis(each), each.summary]),
    width,
  );
  const nouns = commands.map(({ name }) => name.split(' ', 1)[0] as string);
  const hasVerbs = (noun: string) => commands.some(({ name }) => name.startsWith(`${noun} `));
  const groups = nouns.map((noun) => (hasVerbs(noun) ? noun : '')); // all commands without verbs are one group
  const grouped = lines.map((line, i) =>
    i > 0 && groups[i] !== groups[i - 1] ? `\n${line}` : line,
  );
  return `Tollgate ${version}: a metered, governed model-access gateway

Usage: tollgate COMMAND [OPTIONS]

${grouped.join('\n')}

${filled(ABOUT.split(' '), width).join('\n')}
Exit status: 0 done, 1 refused or failed, 64 wrong usage or configuration.`;
}

/** The notes of `serve`. */
export function serveNotes(): string {
  return `Environment variables, with defaults in brackets:\n\n${describeConfig()}\n\n${SECRETS_NOTE}\n\n${AUTHORITIES_NOTE}`;
}

/** The configuration table, one variable after the other. */
export function describeConfig(): string {
  return columns(
    VARIABLES.map((each) => [each.name, `${each.meaning} [${each.shown ?? each.fallback}]`]),
  ).join('\n');
}

/** A command's usage line, summary, options and notes. */
export function commandHelp(command: Omit<Command, 'run'>, width: number = WIDTH): string {
  const { operand, options, summary, notes } = command;
  const entries = Object.values(options).map(({ shown, meaning, required }): [string, string] => [
    shown,
    `${meaning}${required ? ' (required)' : ''}`,
  ]);
  if (operand !== undefined) entries.unshift([operand.shown, operand.meaning]);
  entries.push(['--json', 'print one JSON value on standard output']);
  const usage = Object.values(options).map(
    ({ shown, required, repeated }) => (required ? shown : `[${shown}]`) + (repeated ? '…' : ''),
  );
  const parts = [
    filled(['tollgate', synopsis(command), ...usage], width - 4).join('\n    '),
    filled(`${summary.charAt(0).toUpperCase()}${summary.slice(1)}.`.split(' '), width).join('\n'),
    columns(entries, width).join('\n'),
  ];
  const wrapped = (line: string) =>
    line.startsWith(' ') ? [line] : filled(line.split(' '), width);
  if (notes !== undefined) parts.push(notes.split('\n').flatMap(wrapped).join('\n'));
  return parts.join('\n\n');
}

function synopsis({ name, operand }: Synopsis): string {
  return operand === undefined ? name : `${name} ${operand.shown}`;
}

/** Two columns: the left one as wide as its longest entry, the right one wrapped. */
function columns(entries: readonly (readonly [string, string])[], width: number = WIDTH): string[] {
  const left = Math.max(...entries.map(([name]) => name.length)) + 4;
  return entries.map(([name, text]) => {
    const lines = filled(text.split(' '), width - left);
    return `  ${name}`.padEnd(left) + lines.join(`\n${' '.repeat(left)}`);
  });
}

/** Lines of at most `width` characters, each with as many of the words as fit. */
function filled(words: readonly string[], width: number): string[] {
  const lines: string[] = [];
  for (const word of words) {
    const line = `${lines.at(-1) ?? ''} ${word}`.trimStart();
    if (lines.length > 0 && line.length <= width) lines[lines.length - 1] = line;
    else lines.push(word);
  }
  return lines;
}
