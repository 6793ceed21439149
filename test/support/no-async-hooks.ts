/**
 * Loaded before a test file (run.ts). Tap follows every promise and timer of the process by async hooks, to say which
 * subtest an uncaught error belongs to: a tenth of the CPU of most files. Without them such an error ends the file.
 */
import hooks from 'node:async_hooks';
import { syncBuiltinESMExports } from 'node:module';

const none: hooks.AsyncHook = { enable: () => none, disable: () => none };
hooks.createHook = () => none;
syncBuiltinESMExports();
