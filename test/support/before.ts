/** Loaded before a test file (run.ts), and before what it forks: the process of the pages. */
import hooks from 'node:async_hooks';
import crypto, { type ScryptOptions } from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import os from 'node:os';

/*
 * Tap follows every promise and timer of the process by async hooks, to say which subtest an uncaught error belongs to: a
 * tenth of the CPU of most files. Without them such an error ends the file.
 */
const none: hooks.AsyncHook = { enable: () => none, disable: () => none };
hooks.createHook = () => none;

/* On a machine that is busy with others, pages that yield to them would take minutes. */
os.setPriority = () => {};

/*
 * A password costs 0.35 s of CPU by design, which no test of what follows needs. With SLOW_HASHES it does: where it is
 * tried that guesses wait for one another, and that the hash is what it says.
 */
const { scrypt } = crypto;
const cheap = (options: ScryptOptions) =>
  process.env.SLOW_HASHES === undefined && options.N === 2 ** 17
    ? { ...options, N: 2 ** 7 }
    : options;
Object.assign(crypto, {
  scrypt: (
    ...[password, salt, length, options, done]: [string, Buffer, number, ScryptOptions, () => void]
  ) => scrypt(password, salt, length, cheap(options), done),
});
syncBuiltinESMExports();
