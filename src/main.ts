#!/usr/bin/env node
import { unsupportedRuntime } from './runtime/supported.ts';

// The first process of a container ends by no signal that it does not handle: those that nothing else handles end it here.
if (process.pid === 1) {
  for (const [signal, code] of [
    ['SIGHUP', 129],
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const) {
    process.on(signal, () => process.listenerCount(signal) > 1 || process.exit(code));
  }
}

const reason = unsupportedRuntime(process.versions);
if (reason === null) run();
else {
  process.stderr.write(`tollgate: ${reason}\n`);
  process.exitCode = 64;
}

/** Imports the program only now: a runtime that is refused may be unable to load it. */
async function run(): Promise<void> {
  const { runCli } = await import('./cli/cli.ts');
  const { argv, env, stdin, stdout, stderr } = process;
  process.exitCode = await runCli({ argv: argv.slice(2), env, stdin, stdout, stderr });
  if (process.channel) process.channel.unref(); // a process manager's, which would keep the process in node:cluster
}
