import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import t from 'tap';
import { runCli } from '../../src/cli/cli.ts';
import { allCommands } from '../../src/cli/commands.ts';
import type { Invocation } from '../../src/cli/frame/command.ts';
import { describeConfig } from '../../src/cli/frame/help.ts';
import { DatabaseUnavailable } from '../../src/store/connection/errors.ts';
import { openDatabase, type Sql } from '../../src/store/connection/pool.ts';
import { findEmbedded } from '../../src/store/schema/embedded.ts';
import { MigrationRefused } from '../../src/store/schema/migrate.ts';
import { CHILD_ENV } from '../support/child.ts';
import { ROOT, tollgate } from '../support/cli.ts';
import { freePort } from '../support/port.ts';
import { emptyDatabase, inDatabase, testDatabase } from '../support/postgres.ts';
import { until } from '../support/until.ts';

const COMMANDS = await allCommands();

const VERBS = {
  company: ['create', 'onboard', 'set ID', 'list', 'pause ID', 'resume ID'],
  model: ['create', 'set SLUG', 'list', 'remove SLUG'],
  key: [
    'create',
    'list',
    'rotate KEY_ID',
    'find',
    'revoke KEY_ID',
    'pause KEY_ID',
    'resume KEY_ID',
  ],
  assistant: ['create', 'set ID', 'list', 'remove ID'],
  user: ['create', 'invite', 'list', 'set-password', 'remove'],
  usage: ['summary'],
  ledger: ['verify', 'detach YYYY-MM', 'attach YYYY-MM', 'export', 'focus', 'feed'],
};

t.test('help names every command, fits 80 columns and needs no database', async (t) => {
  const help = await tollgate([]);
  t.match(help, { code: 0, err: '', out: /^Tollgate \d+\.\d+\.\d+: / });
  for (const argv of [['--help'], ['-h'], ['help']]) t.same(await tollgate(argv), help);
  const synopses = Object.entries(VERBS).flatMap(([noun, verbs]) =>
    verbs.map((verb) => `${noun} ${verb}`),
  );
  for (const synopsis of ['serve', 'migrate', 'request ID', ...synopses])
    t.match(help.out, new RegExp(`^ {2}${synopsis} {2,}\\S`, 'm'));
  t.ok(help.out.split('\n').every((line) => line.length <= 80));
});

t.test('--help of each noun and each command fits 80 columns', async (t) => {
  for (const [noun, verbs] of Object.entries(VERBS)) {
    const all = await tollgate([noun, '--help']);
    t.match(all, { code: 0, err: '' });
    t.same(await tollgate(['help', noun]), all);
    for (const verb of verbs) {
      const words = [noun, verb.split(' ')[0] as string];
      const one = await tollgate([...words, '--help']);
      t.match(one, { code: 0, err: '' });
      t.ok(one.out.startsWith(`tollgate ${noun} ${verb}`), one.out);
      t.ok(all.out.includes(one.out.trimEnd()));
      t.same(await tollgate(['help', ...words]), one);
    }
  }
  for (const noun of [
    'serve',
    ...new Set(COMMANDS.map(({ name }) => name.split(' ')[0] as string)),
  ]) {
    const { code, out } = await tollgate([noun, '--help']);
    t.equal(code, 0);
    t.same(
      out.split('\n').filter((line) => line.length > 80),
      [],
      noun,
    );
  }
});

t.test('a noun that is a command too has the help of all its verbs', async (t) => {
  const { out } = await tollgate(['statement', '--help']);
  t.match(
    out,
    /^tollgate statement --company ID .*\n\n\ntollgate statement list .*\n\n\ntollgate statement close /s,
  );
  t.match(
    (await tollgate([])).out,
    /\n\n {2}statement list .*\n {2}statement close .*\n {2}statement month .*\n {2}statement {2}/s,
  );
});

t.test('serve --help prints every environment variable from the code that reads it', async (t) => {
  const { code, err, out } = await tollgate(['serve', '--help']);
  t.match({ code, err }, { code: 0, err: '' });
  t.ok(out.includes(describeConfig()));
  t.match(out, /A secret can come from a file: DATABASE_URL_FILE, UPSTREAM_API_KEY_FILE,\n/);
  t.match(out, /\n\nNODE_EXTRA_CA_CERTS is read by Node: /);
});

t.test('--version prints the version of the package', async (t) => {
  const { version } = (await import('../../package.json', { with: { type: 'json' } })).default;
  const wrong = { PORT: 'eighty' }; // which the version does not ask about
  for (const argv of [['--version'], ['-v'], ['version']])
    t.match(await tollgate(argv, { env: wrong }), {
      code: 0,
      out: `tollgate ${version}\n`,
      err: '',
    });
  t.same((await tollgate(['version', '--json'])).json, { version });
});

t.test('an unknown command exits 64 with one line that says where to look', async (t) => {
  const cases: [string[], RegExp][] = [
    [['compny', 'list'], /unknown command "compny"; did you mean "company"\?$/m],
    [['list', 'company'], /unknown command "list"; did you mean "company list"\?$/m],
    [['frobnicate'], /unknown command "frobnicate"; "tollgate --help" lists all commands/],
    [['toString'], /unknown command "toString"; /],
    [['company'], /company needs a verb; choose one of create, onboard, set, list/],
    [['demo'], /demo needs a verb; the only one is remove, or see "tollgate demo --help"/],
    [['company', 'creat'], /company has no verb "creat"; did you mean "create"\?$/m],
    [['company', 'xyz'], /company has no verb "xyz"; choose one of create, onboard, set, list/],
    [['--loud', 'company', 'list'], /unknown option --loud; options come after the command/],
    [['serve', '--port', '1'], /unknown option --port.*"tollgate serve --help"/],
    [['two\nlines'], /"two\\nlines"/],
  ];
  for (const [argv, message] of cases) {
    const { code, out, err } = await tollgate(argv);
    t.match({ code, out, err }, { code: 64, out: '', err: /^tollgate: [^\n]+\n$/ });
    t.match(err, message);
  }
});

t.test('with --json a failure is one JSON value on standard error', async (t) => {
  const { url } = await testDatabase(t);
  const env = { DATABASE_URL: url };
  const id = '5f0c6a52-9d1e-4f6b-8a57-0d3c5f1b7e21';
  const cases: [string[], object, Record<string, string>?][] = [
    [['nosuch', '--json'], { kind: 'usage', exit: 64, message: /^unknown command "nosuch"/ }],
    [['--json', 'company'], { kind: 'usage', exit: 64, message: /^unknown option --json/ }],
    [['company', 'create', '--json'], { kind: 'usage', exit: 64, message: /^missing --name/ }],
    [
      ['company', 'list', '--json'],
      { kind: 'configuration', exit: 64, message: /^PORT: .*\nADMIN_PORT: / },
      { PORT: 'x', ADMIN_PORT: 'x' },
    ],
    [['company', 'factor', id, '--json'], { kind: 'missing', exit: 1, message: /company list/ }],
    [
      ['company', 'list', '--json'],
      { kind: 'database', exit: 1 },
      { DATABASE_URL: `postgres://u@127.0.0.1:${await freePort()}/d` },
    ],
    [['model', 'offered', '--json'], { kind: 'failed', exit: 1, message: /UPSTREAM_URL/ }],
  ];
  for (const [argv, error, more] of cases) {
    const { code, out, err } = await tollgate(argv, { env: { ...env, ...more } });
    t.equal(out, '');
    t.match(err, /^[^\n]+\n$/);
    t.match({ code, ...JSON.parse(err) }, { code: (error as { exit: number }).exit, error });
  }
  const { err } = await tollgate(['demo', 'remove', '--', '--json'], { env });
  t.match(err, /^tollgate: unexpected "--json"/, 'behind -- it is no option');
});

t.test('help is as wide as a terminal, within reason', async (t) => {
  const widest = async (columns: number) => {
    const { out } = await tollgate(['company', 'create', '--help'], { columns });
    return Math.max(...out.split('\n').map(({ length }) => length));
  };
  t.ok((await widest(60)) <= 60);
  const wide = await widest(300);
  t.ok(wide > 80 && wide <= 120, `${wide}`);
});

t.test('a wrong environment exits 64 with one line per mistake', async (t) => {
  const env = { PORT: 'eighty', DATABASE_URL: 'mysql://u:hunter2@h/d' };
  const { code, out, err } = await tollgate(['company', 'list'], { env });
  t.match({ code, out }, { code: 64, out: '' });
  t.same(
    err.split('\n').map((line) => line.split(':')[1]?.trim()),
    ['PORT', 'DATABASE_URL', undefined],
  );
  t.notMatch(err, /hunter2/);
  const address = { DATABASE_URL: 'postgres://u:hunter2@h:99999/d', LOG_LEVEL: 'loud' };
  const unreadable = await tollgate(['company', 'list'], { env: address });
  t.match(unreadable, {
    code: 64,
    out: '',
    err: /^tollgate: DATABASE_URL: [^\n]+\ntollgate: LOG_LEVEL: [^\n]+\n$/,
  });
  t.notMatch(unreadable.err, /hunter2/);
});

t.test('commands take a secret from a file, and say which file cannot be read', async (t) => {
  const { url } = await testDatabase(t);
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-secret-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  const env = { DATABASE_URL_FILE: join(folder, 'database') };
  t.match(await tollgate(['company', 'list'], { env }), {
    code: 64,
    out: '',
    err: `tollgate: DATABASE_URL_FILE: cannot read "${env.DATABASE_URL_FILE}": ENOENT\n`,
  });
  writeFileSync(env.DATABASE_URL_FILE, `${url}\n`);
  t.match(await tollgate(['company', 'list'], { env }), { code: 0, err: '' });
});

t.test('an unreachable database gives one line and exit code 1', async (t) => {
  const env = { DATABASE_URL: `postgres://u:hunter2@127.0.0.1:${await freePort()}/d` };
  for (const argv of [['company', 'list'], ['status']]) {
    const { code, out, err } = await tollgate(argv, { env });
    t.match(
      { code, out, err },
      { code: 1, out: '', err: /^tollgate: database unavailable: [^\n]*DATABASE_URL[^\n]*\n$/ },
    );
    t.notMatch(err, /hunter2/);
  }
});

t.test('commands ask for a migration until the database is migrated', async (t) => {
  const { db, url } = await testDatabase(t);
  const name = `bare_${process.pid}`;
  await db.run(60_000, (sql) => sql`create database ${sql(name)}`);
  t.teardown(() => db.run(60_000, (sql) => sql`drop database ${sql(name)} with (force)`));
  const env = { DATABASE_URL: inDatabase(url, name) };

  for (const argv of [
    ['company', 'list'],
    ['ledger', 'verify'],
  ]) {
    t.match(await tollgate(argv, { env }), {
      code: 1,
      out: '',
      err: /^tollgate: .*run "tollgate migrate"\n$/,
    });
  }
  const migrated = await tollgate(['migrate', '--json'], { env });
  t.match(migrated, { code: 0, err: '' });
  t.same(migrated.json.applied, ['0100_baseline.sql']);
  t.match(await tollgate(['migrate'], { env }), {
    code: 0,
    out: 'The database is at this version.\n',
  });
  t.match(await tollgate(['company', 'list'], { env }), { code: 0, err: '' });

  const bare = openDatabase({ url: env.DATABASE_URL });
  await bare.run(
    60_000,
    (sql) =>
      sql`insert into schema_migrations (name, sha256, needs) values ('9999_future.sql', 'x', '9999')`,
  );
  await bare.close();
  t.match(await tollgate(['company', 'list'], { env }), {
    code: 1,
    out: '',
    err: /^tollgate: .*newer.*\n$/,
  });
});

t.test('a database that the user may not change is told with what to do', async (t) => {
  const { db, url } = await emptyDatabase(t);
  const env = { DATABASE_URL: url };
  const [{ name }] = await db.run(
    10_000,
    (sql) => sql<[{ name: string }]>`select current_database() as name`,
  );
  await db.run(
    10_000,
    (sql) => sql`alter database ${sql(name)} set default_transaction_read_only = on`,
  );
  t.match(await tollgate(['migrate'], { env }), {
    code: 1,
    out: '',
    err: /^tollgate: .*name the server that takes/,
  });

  const user = `guest_${process.pid}`;
  await db.run(60_000, (sql) => sql.unsafe(`begin read write; create role ${user} login; commit`));
  t.teardown(() =>
    db.run(60_000, (sql) => sql.unsafe(`begin read write; drop role ${user}; commit`)),
  );
  await db.run(60_000, (sql) =>
    sql.unsafe(`begin read write; alter database ${name} reset all; commit`),
  );
  const guest = { DATABASE_URL: url.replace(/\/\/[^@/]*@/, `//${user}@`) };
  t.match(await tollgate(['migrate'], { env: guest }), {
    code: 1,
    out: '',
    err: /^tollgate: .*the owner of the database/,
  });
});

t.test('a migration that lasts says so on standard error', async (t) => {
  const { db, url } = await emptyDatabase(t);
  const stderr = new PassThrough();
  const streams = { stdin: Readable.from([]), stdout: new PassThrough(), stderr };
  let code: Promise<number> | undefined;
  await db.transaction(60_000, async (sql) => {
    await sql`select pg_advisory_xact_lock(hashtext('tollgate migrations'))`;
    code = runCli({ argv: ['migrate', '--json'], env: { DATABASE_URL: url }, ...streams });
    const [told] = await once(stderr, 'data');
    t.match(`${told}`, /^tollgate: waiting for another program .*so far\n$/);
  });
  t.equal(await code, 0);
});

t.test('serve gets the configuration, and its exit code is that of the program', async (t) => {
  const calls: unknown[] = [];
  const serve: Invocation['serve'] = async ({ port }, demo, announce) => {
    calls.push([port, demo]);
    announce({ json: { serving: true }, text: 'Serving.' });
    return 7;
  };
  t.match(await tollgate(['serve'], { env: { PORT: '8888' }, serve }), {
    code: 7,
    out: 'Serving.\n',
    err: '',
  });
  t.match(await tollgate(['serve', '--demo', '--json'], { serve }), {
    code: 7,
    out: '{"serving":true}\n',
  });
  t.same(calls, [
    [8888, false],
    [8080, true],
  ]);
  t.match(await tollgate(['serve'], { env: { PORT: 'x' }, serve }), { code: 64, err: /PORT/ });
  t.equal(calls.length, 2);
});

t.test('a gateway that cannot start gives one line and exit code 1', async (t) => {
  for (const error of [
    Object.assign(new TypeError('listen EADDRINUSE: address already in use'), {
      syscall: 'listen',
    }),
    new Error('no binaries: set DATABASE_URL'),
    new MigrationRefused('the database is newer than this program'),
    new DatabaseUnavailable('DEADLINE', 'no answer within 10 ms'),
  ]) {
    const serve = () => Promise.reject(error);
    const { code, out, err } = await tollgate(['serve'], { serve });
    t.match({ code, out, err }, { code: 1, out: '', err: /^tollgate: [^\n]+\n$/ });
    t.ok(err.includes(error.message));
  }
});

t.test('a database whose certificate cannot be verified is told with sslrootcert', async (t) => {
  for (const code of [
    'DEPTH_ZERO_SELF_SIGNED_CERT',
    'SELF_SIGNED_CERT_IN_CHAIN',
    'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
  ]) {
    const serve = () => Promise.reject(new DatabaseUnavailable(code, 'self-signed certificate'));
    t.match(await tollgate(['serve'], { serve }), {
      code: 1,
      err: /; name the file of its authority .*sslrootcert=FILE$/m,
    });
  }
});

t.test('a port in use is one line that names the variable to change', async (t) => {
  const { url } = await testDatabase(t);
  const taken = createServer().listen(0, '127.0.0.1');
  t.teardown(() => taken.close());
  await once(taken, 'listening');
  const { port } = taken.address() as AddressInfo;
  const env = {
    ...CHILD_ENV,
    DATABASE_URL: url,
    UPSTREAM_URL: 'http://127.0.0.1:9/v1',
    SPOOL_DIR: '',
  };
  for (const [variables, name] of [
    [{ PORT: `${port}`, ADMIN_PORT: 'off' }, 'PORT'],
    [{ PORT: '0', ADMIN_PORT: `${port}` }, 'ADMIN_PORT'],
    [{ PORT: `${port}`, ADMIN_PORT: '0', WORKERS: '2' }, 'PORT'],
    [{ PORT: `${port}`, ADMIN_PORT: `${port}`, ADMIN_HOST: '127.0.0.2' }, 'PORT'],
  ] as const) {
    const { code, err } = await program(['serve'], { ...env, ...variables });
    const lines = err.split('\n').filter((line) => line !== '' && !/"level":[34]0/.test(line));
    const told = `tollgate: listen EADDRINUSE: address already in use 127.0.0.1:${port}; stop the program there, or set ${name}`;
    t.same({ code, lines }, { code: 1, lines: [told] });
  }
});

t.test('a process ends when its command is done, in a worker of node:cluster too', async (t) => {
  // process managers start programs in one; its channel alone would keep the process
  const main = fileURLToPath(new URL('src/main.ts', ROOT));
  const primary = `
    const cluster = require('node:cluster');
    cluster.setupPrimary({ exec: ${JSON.stringify(main)}, execArgv: [], args: ['--version'] });
    cluster.fork().on('exit', (code) => process.exit(code));`;
  const child = spawn(process.execPath, ['--eval', primary], {
    timeout: 20_000,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [printed, [code]] = await Promise.all([text(child.stdout), once(child, 'close')]);
  t.match(printed, /^tollgate \d/);
  t.equal(code, 0);
});

t.test('only a bug rejects and has a stack trace', async (t) => {
  const serve = async (): Promise<number> => {
    throw new TypeError('a bug');
  };
  await t.rejects(tollgate(['serve'], { serve }), { name: 'TypeError', message: 'a bug' });
});

t.test('a reader that closes the pipe early, as head does, is not an error', async (t) => {
  const { url } = await testDatabase(t);
  const env = { DATABASE_URL: url };
  const { id } = (await tollgate(['company', 'create', '--name', 'A', '--json'], { env })).json;
  const stdout = new PassThrough();
  stdout._transform = (_chunk, _encoding, done) =>
    done(Object.assign(new Error('write EPIPE'), { code: 'EPIPE', syscall: 'write' }));
  const stderr = new PassThrough();
  const argv = ['ledger', 'export', '--company', id, '--month', '2026-11', '--csv'];
  t.equal(await runCli({ argv, env, stdin: Readable.from([]), stdout, stderr }), 0);
  t.equal(stderr.readableLength, 0);
});

t.test(
  'a command whose standard error nobody reads does what it does, and says so by its exit code',
  async (t) => {
    const { db, url } = await emptyDatabase(t);
    const unread = () => {
      const stderr = new PassThrough();
      stderr._transform = (_chunk, _encoding, done) =>
        done(Object.assign(new Error('write EPIPE'), { code: 'EPIPE', syscall: 'write' }));
      return {
        env: { DATABASE_URL: url },
        stdin: Readable.from([]),
        stdout: new PassThrough().resume(),
        stderr,
      };
    };
    t.equal(await runCli({ argv: ['nosuch'], ...unread() }), 64);
    t.equal(await runCli({ argv: ['company', 'list'], ...unread() }), 1, 'it is not migrated');
    let code: Promise<number> | undefined;
    await db.transaction(60_000, async (sql) => {
      await sql`select pg_advisory_xact_lock(hashtext('tollgate migrations'))`;
      const invocation = unread();
      code = runCli({ argv: ['migrate'], ...invocation });
      await once(invocation.stderr, 'error'); // it says that it waits
    });
    t.equal(await code, 0);
  },
);

t.test('the program itself: exit codes, output, the embedded database in DATA_DIR', async (t) => {
  const dataDir = mkdtempSync(join(tmpdir(), 'tollgate-cli-'));
  chmodSync(dataDir, 0o755); // root's server runs as another user
  t.teardown(() => rmSync(dataDir, { recursive: true, force: true }));
  const env = { ...process.env, DATABASE_URL: '', DATA_DIR: dataDir };

  const made = await program(['company', 'create', '--name', 'Acme', '--json'], env);
  const warning = `tollgate: warning: DATABASE_URL is not set, and ${dataDir} had no database: an empty one was made there\n`;
  t.match(made, { code: 0, err: warning }, 'it migrates by itself');
  const { id } = JSON.parse(made.out);
  const listed = await program(['company', 'list', '--json'], env);
  t.match({ ...listed, out: JSON.parse(listed.out) }, { code: 0, out: [{ id }], err: '' });
  t.match(await program(['company', 'create'], env), {
    code: 64,
    out: '',
    err: /^tollgate: missing --name; see [^\n]*\n$/,
  });
  t.match(
    await program(['company', 'set', '5f0c6a52-9d1e-4f6b-8a57-0d3c5f1b7e21', '--budget', '1'], env),
    {
      code: 1,
      out: '',
    },
  );
  const args = [
    'user',
    'create',
    '--email',
    'op@example.com',
    '--role',
    'operator',
    '--password-stdin',
  ];
  t.match(await program(args, env, 'correct horse battery\n'), {
    code: 0,
    err: '',
    out: /^User created\./,
  });
  const nowhere = { ...env, DATA_DIR: join(dataDir, 'postgres.log') };
  t.match(await program(['company', 'list'], nowhere), {
    code: 1,
    out: '',
    err: /; set DATABASE_URL, or DATA_DIR to /,
  });

  const waiting = spawnProgram(args, env); // for a password
  const ended = once(waiting, 'exit');
  const url = await until(() => findEmbedded(dataDir), 'its database runs');
  const db = openDatabase({ url: url as string, maxConnections: 1 });
  const others = (sql: Sql) =>
    sql`select from pg_stat_activity where datname is not null and pid <> pg_backend_pid()`;
  await until(
    () => db.run(60_000, others),
    'it uses the database',
    ({ length }) => length > 0,
  );
  await db.close();
  waiting.kill('SIGINT');
  t.same(await ended, [null, 'SIGINT']);
  await until(
    () => findEmbedded(dataDir) === null,
    'the database ends with a command that Ctrl-C ends',
  );
});

async function program(argv: string[], env: NodeJS.ProcessEnv, input = '') {
  const child = spawnProgram(argv, env);
  child.stdin?.end(input);
  const [out, err, [code]] = await Promise.all([
    text(child.stdout as Readable),
    text(child.stderr as Readable),
    once(child, 'close'),
  ]);
  return { code, out, err };
}

function spawnProgram(argv: string[], env: NodeJS.ProcessEnv): ChildProcess {
  return spawn(process.execPath, [fileURLToPath(new URL('src/main.ts', ROOT)), ...argv], { env });
}
