/**
 * Runs the files of TEST_FILES one after the other in this process (run.ts). What a file imports as tap is a subtest,
 * so its tests, its timeout and what it gives `teardown` are its own, and so is its environment.
 */
import { flushCompileCache, registerHooks } from 'node:module';
import { pathToFileURL } from 'node:url';
import t, { type Test } from 'tap';

const { TEST_FILES = '', TAP_TIMEOUT } = process.env;
const TAP_OF = 'tap-of:';
const subtests = new Map<string, Test>();

export function subtestOf(url: string): Test {
  return subtests.get(url) as Test;
}

registerHooks({
  resolve(specifier, context, next) {
    const { parentURL = '' } = context;
    if (specifier !== 'tap' || !subtests.has(parentURL)) return next(specifier, context);
    return { url: TAP_OF + parentURL, shortCircuit: true };
  },
  load(url, context, next) {
    if (!url.startsWith(TAP_OF)) return next(url, context);
    const of = JSON.stringify(url.slice(TAP_OF.length));
    const source = `import { subtestOf } from ${JSON.stringify(import.meta.url)};\nexport default subtestOf(${of});`;
    return { format: 'module', source, shortCircuit: true };
  },
});

t.setTimeout(0);
for (const file of TEST_FILES.split(' ')) {
  const { href } = pathToFileURL(file);
  t.test(file, async (subtest) => {
    subtest.setTimeout(Number(TAP_TIMEOUT) * 1000);
    const env = { ...process.env };
    subtest.teardown(() => {
      for (const name of Object.keys(process.env)) if (!(name in env)) delete process.env[name];
      Object.assign(process.env, env);
    });
    subtests.set(href, subtest);
    await import(href);
    flushCompileCache(); // else only the end of this process leaves it to others
  });
}
