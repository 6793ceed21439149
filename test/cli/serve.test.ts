import { execFile, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import t, { type Test } from 'tap';
import { newFolder } from '../support/child.ts';
import { open } from '../support/client.ts';
import { emptyDatabase, holds, testDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';

const skip = spawnSync('curl', ['--version']).status === 0 ? false : 'curl is not installed';
const MAIN = new URL('../../src/main.ts', import.meta.url).pathname;

/** Starts the program. @returns what it printed up to `until`, and a function that stops it */
async function serve(t: Test, env: Record<string, string>, until: string) {
  const { url } = await testDatabase(t);
  const base = {
    DATABASE_URL: url,
    DATA_DIR: newFolder(t),
    PORT: '0',
    ADMIN_PORT: '0',
    LOG_LEVEL: 'silent',
  };
  const settings = { ...base, ...env };
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
  const stop = async (signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> => {
    child.kill(signal);
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

t.test('SIGHUP ends a gateway without workers as SIGTERM does: open requests finish', async (t) => {
  const { printed, stop } = await serve(t, { WORKERS: 'auto', MAX_MEMORY_MB: '512' }, 'Try it');
  const url = /Base URL +(\S+)/.exec(printed)?.[1] as string;
  const key = /API key +(\S+)/.exec(printed)?.[1] as string;
  const body = { model: 'demo-chat', messages: [{ role: 'user', content: 'Hello' }], stream: true };
  const answer = await open(`${url}/chat/completions`, { key, body });
  const [code, text] = await Promise.all([stop('SIGHUP'), answer.text()]);
  t.equal(code, 0);
  t.match(text, /data: \[DONE\]/);
});

t.test('the printed curl line works on a Unix socket', { skip }, async (t) => {
  const socket = join(mkdtempSync(join(tmpdir(), 'tollgate-socket-')), 'api.sock');
  const { printed, stop } = await serve(t, { LISTEN_SOCKET: socket }, 'curl ');
  t.match(printed, `Socket      ${socket}`);
  t.match(await paste(printed), { object: 'chat.completion', model: 'demo-chat' });
  t.equal(await stop(), 0);
});

t.test(
  'a second start shows nothing again; the commands that it prints let its operator in',
  async (t) => {
    const own = { DATABASE_URL: '', DATA_DIR: newFolder(t) }; // the embedded database
    const first = await serve(t, own, 'curl ');
    const [, key = '', password = ''] =
      /API key +(svc_\S+) .*Login +operator@localhost {3}(\S+)/s.exec(first.printed) ?? [];
    t.ok(key && password);
    t.equal(await first.stop(), 0);

    const { printed, stop } = await serve(t, own, 'key create');
    t.notMatch(printed, /svc_|API key|Login|curl/);
    t.match(printed, /Admin URL +http:\/\/127\.0\.0\.1:\d+\n/);
    t.match(printed, /A new key, also on http:\/\/127\.0\.0\.1:\d+\/companies\/[\w-]{36}\/keys:/);
    const lines = printed.match(/^ {2}DATA_DIR=\S+ npx tollgate .+$/gm) ?? [];
    t.equal(lines.length, 2);
    const run = (line: string) => {
      const command = line.replace('npx tollgate', `'${process.execPath}' '${MAIN}'`);
      const env: Record<string, string | undefined> = { ...process.env };
      delete env.DATABASE_URL;
      return spawnSync('sh', ['-c', command], {
        env,
        input: 'a wholly new password\n',
        encoding: 'utf8',
      });
    };
    const [set, create] = lines.map(run);
    t.match(set, { status: 0, stdout: /Password set/ });
    t.match(create, { status: 0, stdout: /svc_[a-z2-7]{32}/ });
    const admin = /Admin URL +(\S+)/.exec(printed)?.[1] as string;
    const signIn = (password: string) =>
      fetch(`${admin}/sign-in`, {
        method: 'POST',
        headers: { origin: admin },
        body: new URLSearchParams({ email: 'operator@localhost', password }),
        redirect: 'manual',
      });
    t.equal((await signIn('a wholly new password')).status, 303);
    t.equal((await signIn(password)).status, 401);
    const [company] = /(?<=--company )[\w-]{36}/.exec(lines[1] as string) ?? [];
    const rename = (lines[1] as string).replace(
      / key create .*/,
      ` company set ${company} --name Acme`,
    );
    t.match(run(rename), { status: 0 });
    t.equal(await stop(), 0);

    const third = await serve(t, own, 'set-password');
    t.notMatch(third.printed, /key create/, 'the company is the demo no more');
    t.match(
      third.printed,
      /Sign in as operator@localhost\. .*\n\n {2}DATA_DIR=\S+ npx tollgate user set-password .*\n$/s,
    );
    t.equal(await third.stop(), 0);
  },
);

const untold = !existsSync('/proc/self/limits') && 'the system does not tell its limits';

t.test(
  'the start warns where the system allows fewer open files than connections',
  { skip: untold },
  async (t) => {
    const { url } = await testDatabase(t);
    const env = {
      ...process.env,
      DATABASE_URL: url,
      DATA_DIR: newFolder(t),
      PORT: '0',
      ADMIN_PORT: '0',
    };
    const started = async (MAX_CONNECTIONS: string): Promise<string> => {
      const child = spawn(
        'sh',
        ['-c', `ulimit -n 500; exec '${process.execPath}' '${MAIN}' serve`],
        {
          env: { ...env, MAX_CONNECTIONS },
          stdio: ['ignore', 'pipe', 'pipe'],
        },
      );
      t.teardown(() => child.kill('SIGKILL'));
      const log = text(child.stderr);
      await once(child.stdout, 'data');
      child.kill('SIGTERM');
      return log;
    };
    t.match(
      await started('20000'),
      /"limit":500,"msg":"a process may open fewer files than MAX_CONNECTIONS/,
    );
    t.notMatch(await started('200'), /fewer files/);
  },
);

/** Another program that migrates: whoever starts waits for it. */
async function whileMigrating(
  t: Test,
  work: (url: string, isAwaited: () => Promise<boolean>) => Promise<void>,
) {
  const { db, url } = await emptyDatabase(t);
  const waiter = `exists (select from pg_locks where locktype = 'advisory' and not granted
    and database = (select oid from pg_database where datname = current_database()))`;
  await db.transaction(120_000, async (sql) => {
    await sql`select pg_advisory_xact_lock(hashtext('tollgate migrations'))`;
    await work(url, () => holds(db, waiter));
  });
}

t.test('a signal ends a gateway that has not started yet: it waits for no migration', async (t) => {
  for (const WORKERS of ['1', '2']) {
    await whileMigrating(t, async (url, isAwaited) => {
      const env = {
        ...process.env,
        DATABASE_URL: url,
        DATA_DIR: newFolder(t),
        PORT: '0',
        ADMIN_PORT: '0',
        WORKERS,
      };
      const child = spawn(process.execPath, [MAIN, 'serve'], {
        env,
        stdio: ['ignore', 'ignore', 'pipe'],
      });
      t.teardown(() => child.kill('SIGKILL'));
      const log = text(child.stderr);
      await until(isAwaited, 'the start waits');
      child.kill('SIGTERM');
      t.same(await once(child, 'exit'), [0, null], `${WORKERS} workers`);
      t.match(await log, /"signal":"SIGTERM","msg":"stopped before it served"/);
    });
  }
});

/** By which unshare starts a program as the first process of a container; undefined where it may not. */
const FIRST = [
  ['--pid', '--fork', '--kill-child'],
  ['--user', '--map-root-user', '--pid', '--fork', '--kill-child'],
].find((flags) => spawnSync('unshare', [...flags, 'true']).status === 0);

t.test(
  'a signal ends a command that is the first process of a container',
  { skip: FIRST === undefined && 'unshare is not allowed' },
  async (t) => {
    await whileMigrating(t, async (url, isAwaited) => {
      const args = [...(FIRST as string[]), process.execPath, MAIN, 'migrate'];
      const child = spawn('unshare', args, {
        env: { ...process.env, DATABASE_URL: url },
        stdio: 'ignore',
      });
      t.teardown(() => child.kill('SIGKILL'));
      await until(isAwaited, 'the command waits');
      process.kill(
        Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')),
        'SIGTERM',
      );
      t.same(await once(child, 'exit'), [143, null]);
    });
  },
);

t.test('a start says that there is no operator, and which command makes one', async (t) => {
  const { url, db } = await testDatabase(t);
  const logOf = async () => {
    const env = {
      ...process.env,
      DATABASE_URL: url,
      DATA_DIR: newFolder(t),
      PORT: '0',
      ADMIN_PORT: '0',
      LOG_LEVEL: 'info',
    };
    const child = spawn(process.execPath, [MAIN, 'serve'], {
      env,
      stdio: ['ignore', 'ignore', 'pipe'],
    });
    t.teardown(() => child.kill('SIGKILL'));
    let log = '';
    for await (const piece of child.stderr) {
      log += piece;
      if (log.includes('"msg":"serving"')) child.kill('SIGTERM');
    }
    return log;
  };
  t.match(
    await logOf(),
    /"command":"tollgate user create --role operator --email YOU@EXAMPLE.COM","msg":"There is no operator/,
  );
  await db.run(
    10_000,
    (sql) => sql`insert into users (email, role) values ('o@tollgate.example', 'operator')`,
  );
  t.notMatch(await logOf(), 'There is no operator');
});
