import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { CHILD_ENV } from '../support/child.ts';
import { ask } from '../support/client.ts';
import { MAIN } from './gateway.ts';
import { judge } from './judge.ts';
import { startLoad } from './load.ts';
import { note } from './results.ts';
import { countAll, faultWorld, LONG } from './world.ts';

const STOPS = LONG ? 20 : 2;
const LOGS = LONG ? 10 : 2;

t.test('SIGTERM under load loses nothing and cuts nothing', async (t) => {
  const world = await faultWorld(t);
  await countAll(world);
  const journal = [];
  for (let n = 0; n < STOPS; n++) {
    const gateway = await world.gateway();
    const load = startLoad({ urls: () => [gateway.url], key: world.key, workers: 16 });
    await load.more(20 + Math.floor(Math.random() * 60), 'before the stop');
    gateway.signal('SIGTERM');
    t.equal(await gateway.exited, 0, 'exit code');
    t.same(world.spoolFiles(), [], 'the spool is empty');
    journal.push(...(await load.stop()));
  }
  const cut = journal.filter(({ status, complete }) => status === 200 && !complete);
  const verdict = await judge(world.sql, journal, world.upstreamJournal());
  t.ok(verdict.complete > STOPS * 20, `${verdict.complete} answers were complete`);
  t.same(cut, [], 'every answer that began was finished');
  t.same(verdict.missing, []);
  t.equal(verdict.duplicates, 0);
  t.same(verdict.wrong, []);
  t.equal(verdict.unverified, 0);
  note(
    'Stop loses nothing',
    `SIGTERM under load, ${STOPS} times`,
    `${verdict.complete} complete answers, ${verdict.missing.length} missing, ${cut.length} cut, exit 0 and an empty spool each time`,
  );
});

t.test(
  'the log has every request, and why it stopped, however soon after the last answer',
  async (t) => {
    const world = await faultWorld(t);
    const body = { model: 'brand-chat', messages: [{ role: 'user', content: 'Hello there' }] };
    for (let n = 0; n < LOGS; n++) {
      const path = join(t.testdir(), 'log');
      const file = openSync(path, 'w');
      const env = {
        ...CHILD_ENV,
        PORT: '0',
        ADMIN_PORT: 'off',
        DATABASE_URL: world.databaseUrl,
        UPSTREAM_URL: world.demo.url,
      };
      const child = spawn(process.execPath, [MAIN, 'serve', '--json'], {
        env: { ...env, SPOOL_DIR: world.spoolDir },
        stdio: ['ignore', 'pipe', file],
      });
      t.teardown(() => child.kill('SIGKILL'));
      const exited = once(child, 'exit');
      const [printed] = await once(child.stdout as NonNullable<typeof child.stdout>, 'data');
      const answers = [];
      for (let call = 0; call < 5; call++) {
        // a connection that stays would have the stop wait for it
        const headers = { connection: 'close' };
        answers.push(
          await ask(`${JSON.parse(printed).base_url}/chat/completions`, {
            key: world.key,
            body,
            headers,
          }),
        );
      }
      child.kill('SIGTERM');
      t.equal((await exited)[0], 0);
      closeSync(file);
      const log = readFileSync(path, 'utf8');
      for (const { headers } of answers) t.match(log, headers.get('x-request-id') as string);
      t.match(log, /"signal":"SIGTERM".*"msg":"stopped"/);
    }
  },
);
