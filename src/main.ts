#!/usr/bin/env node
const [major] = process.versions.node.split('.');
if (Number(major) < 26) {
  // before anything is imported: an older Node may not even read the rest
  process.stderr.write(
    `tollgate: needs Node 26 or newer, this is ${process.version}; run it with "npx tollgate" or "make run"\n`,
  );
  process.exit(64);
}
const { runCli } = await import('./cli.ts');
process.exitCode = await runCli({
  argv: process.argv.slice(2),
  env: process.env,
  stdin: process.stdin,
  stdout: process.stdout,
  stderr: process.stderr,
  root: new URL('..', import.meta.url),
  // imported when it is asked for: no other command waits for the whole gateway to load
  serve: async (...args) => (await import('./cli/serve.ts')).serve(...args),
});

export {};
