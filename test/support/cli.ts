import { PassThrough, Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { runCli } from '../../src/cli/cli.ts';
import type { Invocation } from '../../src/cli/frame/command.ts';

/** Exit code and output of one command line. */
export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers freely
  readonly json: any;
}

export interface CliOptions {
  readonly env?: Record<string, string>;
  readonly stdin?: string;
  /** Width of the terminal, from which `stdin` comes too; default: it is none. */
  readonly columns?: number;
  readonly serve?: Invocation['serve'];
}

export const ROOT = new URL('../../', import.meta.url);

/** Runs a command line within this process. `json` is what it printed, parsed; undefined: it is no JSON. */
export async function tollgate(
  argv: readonly string[],
  { env = {}, stdin = '', columns, serve }: CliOptions = {},
): Promise<Ran> {
  const stdout = Object.assign(new PassThrough(), { columns });
  const stderr = new PassThrough();
  const printed = [stdout, stderr].map(async (stream) => String(await buffer(stream))) as [
    Promise<string>,
    Promise<string>,
  ];
  const input = Object.assign(Readable.from([Buffer.from(stdin)]), {
    isTTY: columns !== undefined,
  });
  const streams = { stdin: input, stdout, stderr };
  const code = await runCli({ argv, env, ...streams, ...(serve && { serve }) });
  stdout.end();
  stderr.end();
  const [out, err] = await Promise.all(printed);
  return { code, out, err, json: parsed(out) };
}

function parsed(out: string): unknown {
  try {
    return JSON.parse(out);
  } catch {
    return undefined;
  }
}
