import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import t, { type Test } from 'tap';
import { systemProcesses } from '../../../src/runtime/processes.ts';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { type Embedded, findEmbedded, startEmbedded } from '../../../src/store/schema/embedded.ts';
import { CHILD_ENV, isAlive } from '../../support/child.ts';
import { until } from '../../support/until.ts';

const MS = 60_000;
const log = { info: () => {} };
const root = process.getuid?.() === 0;

/** Its cluster is created by the first test, and used by the others in turn: initdb is most of the time these tests take. */
const made = folder(t);

t.test('starts a server, finds it again, and stops it with the last who uses it', async (t) => {
  const dataDir = made;
  t.equal(findEmbedded(dataDir), null);
  const first = await startEmbedded({ dataDir, log });
  await ask(first.url, 'create table kept (n int); insert into kept values (1)');
  const second = await startEmbedded({ dataDir, log });
  t.equal(second.pid, first.pid);
  t.equal(findEmbedded(dataDir), first.url);
  const told: string[] = [];
  const command = await startEmbedded({
    dataDir,
    log: { info: (_fields, text) => told.push(text) },
  });
  await command.stop();
  t.match(told, [/is ready/, /goes on: another process uses it/]);
  await first.stop();
  t.same(
    await ask(second.url, 'select n from kept'),
    [{ n: 1 }],
    'it goes on without the one that started it',
  );
  await second.stop();
  t.equal(findEmbedded(dataDir), null);
  const third = await startEmbedded({ dataDir, log });
  t.same(await ask(third.url, 'select n from kept'), [{ n: 1 }], 'the rows are still there');
  t.same(
    await ask(
      third.url,
      "select name, setting from pg_settings where name in ('listen_addresses', 'fsync') order by 1",
    ),
    [
      { name: 'fsync', setting: 'on' },
      { name: 'listen_addresses', setting: '' },
    ],
  );
  t.equal(
    statSync(join(dataDir, 'postgres')).mode & 0o077,
    0,
    'only our user can enter the folder of the socket',
  );
  await third.stop();
});

t.test('many processes at once create one cluster and one server', async (t) => {
  const dataDir = folder(t);
  const starters = await Promise.all(Array.from({ length: 3 }, () => starter(t, dataDir)));
  t.equal(new Set(starters.map(({ pid }) => pid)).size, 1, 'one server');
  t.same(await ask(starters[0]?.url as string, 'select 1 as one'), [{ one: 1 }]);
  await Promise.all(starters.map((each) => each.end()));
  t.equal(findEmbedded(dataDir), null, 'the server ended with the last of them');
  t.same(
    readdirSync(dataDir).filter((name) => name.startsWith('postgres.') && name !== 'postgres.log'),
    [],
    'no temporary folder is left, and no file of theirs',
  );
});

t.test(
  'what a process left that was ended while it created the cluster is removed, once nobody else may be at it',
  async (t) => {
    const dataDir = made;
    const draft = join(dataDir, 'postgres.0a1b2c3d');
    mkdirSync(join(draft, 'base'), { recursive: true });
    const user = join(dataDir, 'postgres.user-of-another');
    writeFileSync(user, JSON.stringify(systemProcesses().self));
    const beside = await startEmbedded({ dataDir, log });
    t.ok(existsSync(draft));
    rmSync(user);
    await beside.stop();
    const alone = await startEmbedded({ dataDir, log });
    t.notOk(existsSync(draft));
    await alone.stop();
  },
);

t.test(
  'the next gateway stops the server of a killed one, whose id another program has',
  async (t) => {
    const dataDir = made;
    const killed = await starter(t, dataDir);
    await ask(killed.url, 'create table of_the_killed (n int)');
    killed.process.kill('SIGKILL');
    await once(killed.process, 'exit');
    t.ok(isAlive(killed.pid), 'the server is still running');
    const file = join(
      dataDir,
      readdirSync(dataDir).find((name) => name.startsWith('postgres.user-')) as string,
    );
    const user = JSON.parse(readFileSync(file, 'utf8'));
    writeFileSync(file, JSON.stringify({ ...user, pid: process.ppid })); // as after a restart of a container
    const next = await startEmbedded({ dataDir, log });
    t.equal(next.pid, killed.pid);
    t.same(await ask(next.url, 'select n from of_the_killed'), []);
    await next.stop();
    t.equal(findEmbedded(dataDir), null);
  },
);

t.test('a killed server is started again and has lost nothing', async (t) => {
  const dataDir = made;
  const first = await startEmbedded({ dataDir, log });
  await ask(first.url, 'insert into kept values (2)');
  // a busy session outlives the server for a moment
  const busy = ask(
    first.url,
    `do $$ begin perform count(*) from generate_series(1, 20000000); end $$`,
  ).catch(() => {});
  const runs = () =>
    ask(first.url, `select from pg_stat_activity where query like 'do $$%' and state = 'active'`);
  await until(async () => (await runs()).length > 0, 'the session is busy');
  process.kill(first.pid, 'SIGKILL');
  await until(() => !isAlive(first.pid), 'the server is gone');
  const second = await startEmbedded({ dataDir, log });
  await busy;
  t.not(second.pid, first.pid);
  t.same(await ask(second.url, 'select n from kept'), [{ n: 1 }, { n: 2 }]);
  await first.stop();
  await second.stop();
  t.equal(findEmbedded(dataDir), null);
});

t.test('a stale pid file that names another program is no obstacle', async (t) => {
  const dataDir = made;
  const cluster = join(dataDir, 'postgres');
  const { uid, gid } = statSync(cluster);
  const other = spawn('sleep', ['60'], root ? { uid, gid } : {});
  t.teardown(() => other.kill());
  writeFileSync(
    join(cluster, 'postmaster.pid'),
    `${other.pid}\n${cluster}\n1700000000\n5432\n${cluster}\n\n 1 1\nready\n`,
  );
  t.equal(findEmbedded(dataDir), null);
  const server = await startEmbedded({ dataDir, log });
  t.not(server.pid, other.pid);
  await server.stop();
  t.ok(isAlive(other.pid as number), 'the other program still runs');
});

t.test(
  'a server whose process is in another container is not joined by a second one',
  async (t) => {
    const dataDir = made;
    const cluster = join(dataDir, 'postgres');
    const server = await startEmbedded({ dataDir, log });
    const file = join(cluster, 'postmaster.pid');
    const text = readFileSync(file, 'utf8');
    const gone = spawn('true');
    await once(gone, 'exit');
    writeFileSync(file, text.replace(/^\d+/, `${gone.pid}`)); // its number means nothing here
    try {
      await t.rejects(startEmbedded({ dataDir, log }), {
        message: `${cluster} is in use by a server in another container: run the command there, or stop it first`,
      });
      t.equal(
        readFileSync(file, 'utf8'),
        text.replace(/^\d+/, `${gone.pid}`),
        'its pid file is left alone',
      );
    } finally {
      writeFileSync(file, text);
      await server.stop();
    }
  },
);

t.test('a path that is too long for a socket', async (t) => {
  const dataDir = join(folder(t), 'long'.repeat(30));
  mkdirSync(dataDir);
  renameSync(join(made, 'postgres'), join(dataDir, 'postgres'));
  t.teardown(() => renameSync(join(dataDir, 'postgres'), join(made, 'postgres')));
  const server = await startEmbedded({ dataDir, log });
  const socketDir = new URL(server.url.replace('@/', '@host/')).searchParams.get('host') as string;
  t.ok(socketDir.startsWith(tmpdir()), 'the socket lies in the temporary folder');
  t.equal(statSync(socketDir).mode & 0o777, 0o700);
  t.equal(findEmbedded(dataDir), server.url);
  t.same(await ask(server.url, 'select 1 as one'), [{ one: 1 }]);
  await server.stop();
  t.notOk(existsSync(socketDir), 'the folder is removed with the server');
});

t.test('a path with blanks and quotes below a folder that others cannot enter', async (t) => {
  const closed = folder(t);
  const dataDir = join(closed, 'my "data", of ours');
  mkdirSync(dataDir);
  chmodSync(closed, 0o700);
  const server = await startEmbedded({ dataDir, log });
  t.same(await ask(server.url, 'select 1 as one'), [{ one: 1 }]);
  await server.stop();
  const again = await startEmbedded({ dataDir, log });
  t.same(await ask(again.url, 'select 1 as one'), [{ one: 1 }]);
  await again.stop();
});

t.test('errors are one line', async (t) => {
  const dataDir = made;
  await t.rejects(startEmbedded({ dataDir, log, settings: { shared_buffers: 'much' } }), {
    message: /^the embedded database did not start: .*shared_buffers.* \(see .*postgres\.log\)$/,
  });
  const version = join(dataDir, 'postgres', 'PG_VERSION');
  writeFileSync(version, '17\n');
  await t.rejects(startEmbedded({ dataDir, log }), {
    message: /was made by Postgres 17, the embedded one is 18/,
  });
  writeFileSync(version, '18\n');
});

t.test(
  'its log is for its user alone, and has no values of rows that a constraint refuses',
  async (t) => {
    const dataDir = made;
    const logFile = join(dataDir, 'postgres.log');
    rmSync(logFile);
    const server = await startEmbedded({ dataDir, log });
    await ask(server.url, 'create table people (email text unique)');
    const insert = "insert into people values ('ann' || '@acme.example')";
    await ask(server.url, insert);
    await t.rejects(ask(server.url, insert), /duplicate key/);
    await server.stop();
    const text = readFileSync(logFile, 'utf8');
    t.match(text, /duplicate key value violates unique constraint "people_email_key"/);
    t.notMatch(text, 'ann@acme.example');
    t.equal(statSync(logFile).mode & 0o077, 0);
  },
);

t.test('a long log is truncated at the start', async (t) => {
  const dataDir = made;
  writeFileSync(join(dataDir, 'postgres.log'), 'x'.repeat((1 << 20) + 1));
  const server = await startEmbedded({ dataDir, log });
  t.ok(readFileSync(join(dataDir, 'postgres.log')).length < 1 << 20);
  await server.stop();
});

/** A new data folder. The teardown removes it, and kills the server that a failed test left. */
function folder(t: Test): string {
  const path = mkdtempSync(join(tmpdir(), 'tollgate-embedded-'));
  chmodSync(path, 0o755);
  t.teardown(() => {
    const file = join(path, 'postgres', 'postmaster.pid');
    if (existsSync(file)) process.kill(Number.parseInt(readFileSync(file, 'utf8'), 10), 'SIGQUIT');
    rmSync(path, { recursive: true, force: true });
  });
  return path;
}

async function ask(url: string, statement: string): Promise<unknown[]> {
  const db = openDatabase({ url, maxConnections: 1 });
  try {
    return [...(await db.run(MS, (sql) => sql.unsafe(statement)))];
  } finally {
    await db.close();
  }
}

interface Starter extends Pick<Embedded, 'url' | 'pid'> {
  readonly process: ChildProcess;
  /** Stops the server unless others use it, and ends the process. */
  end(): Promise<void>;
}

/** Starts the embedded database from another process. */
async function starter(t: Test, dataDir: string): Promise<Starter> {
  const module = new URL('../../../src/store/schema/embedded.ts', import.meta.url).href;
  const program = `import { startEmbedded } from ${JSON.stringify(module)};
    const server = await startEmbedded({ dataDir: ${JSON.stringify(dataDir)}, log: { info() {} } });
    console.log(JSON.stringify(server));
    process.stdin.on('end', () => server.stop()).resume();`;
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    env: CHILD_ENV,
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.teardown(() => child.kill('SIGKILL'));
  const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
  return {
    ...(JSON.parse(line) as Embedded),
    process: child,
    async end() {
      child.stdin.end();
      await once(child, 'exit');
    },
  };
}
