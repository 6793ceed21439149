import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { testDatabase } from '../support/postgres.ts';

const skip = spawnSync('curl', ['--version']).status === 0 ? false : 'curl is not installed';
const MAIN = new URL('../../src/main.ts', import.meta.url).pathname;

/** Starts the program. @returns what it printed up to `until`, and a function that stops it */
async function serve(t: Test, env: Record<string, string>, until: string) {
  const { url } = await testDatabase(t);
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-serve-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const settings = { DATABASE_URL: url, DATA_DIR: folder, PORT: '0', ADMIN_PORT: '0', LOG_LEVEL: 'silent', ...env };
  const child = spawn(process.execPath, [MAIN, 'serve', '--demo'], {
    env: { ...process.env, ...settings },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  let printed = '';
  for await (const piece of child.stdout.iterator({ destroyOnReturn: false })) {
    printed += piece;
    if (printed.includes(until)) break;
  }
  const stop = async (): Promise<number | null> => {
    child.kill('SIGTERM');
    return (await once(child, 'exit'))[0] as number | null;
  };
  return { printed, stop };
}

async function paste(printed: string): Promise<unknown> {
  const line = /^ {2}(curl .*)$/m.exec(printed)?.[1] as string;
  return JSON.parse((await promisify(execFile)('sh', ['-c', line])).stdout);
}

t.test(
  'the printed curl line works when pasted, and SIGTERM ends the program with exit code 0',
  { skip },
  async (t) => {
    const { printed, stop } = await serve(t, {}, 'curl ');
    t.match(printed, /DEMO UPSTREAM/);
    t.match(await paste(printed), { object: 'chat.completion', model: 'demo-chat' });
    t.equal(await stop(), 0);
  },
);

t.test('the printed curl line works on a Unix socket', { skip }, async (t) => {
  const socket = join(mkdtempSync(join(tmpdir(), 'tollgate-socket-')), 'api.sock');
  const { printed, stop } = await serve(t, { LISTEN_SOCKET: socket }, 'curl ');
  t.match(printed, `Socket      ${socket}`);
  t.match(await paste(printed), { object: 'chat.completion', model: 'demo-chat' });
  t.equal(await stop(), 0);
});
