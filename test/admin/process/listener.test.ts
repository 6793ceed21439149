import { execFileSync } from 'node:child_process';
import t from 'tap';

/** What the admin listener loads, and when. */

/** Built-in modules of a process that imported one file of src/admin. */
function builtinsAfter(file: string): string {
  const url = new URL(`../../../src/admin/${file}`, import.meta.url).href;
  const script = `await import('${url}'); console.log(process.moduleLoadList.join())`;
  const env = { ...process.env, NODE_OPTIONS: '' }; // not the loader of the test runner
  return execFileSync(process.execPath, ['--input-type=module', '-e', script], {
    env,
    encoding: 'utf8',
  });
}

t.test('fetch and HTTP/2 are loaded with the pages, not with the listener', async (t) => {
  t.notMatch(builtinsAfter('process/listener.ts'), /undici|http2/);
  t.match(builtinsAfter('pages.ts'), /http2/, 'or this test would see nothing');
});
