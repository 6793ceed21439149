import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import promises from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { gunzipSync } from 'node:zlib';
import t from 'tap';
import { intoFile } from '../../../src/cli/frame/files.ts';
import { startDemo } from '../../../src/demo/server.ts';
import { openDatabase } from '../../../src/store/connection/pool.ts';
import { findEmbedded } from '../../../src/store/schema/embedded.ts';
import { startProcess } from '../../faults/gateway.ts';
import { CHILD_ENV } from '../../support/child.ts';
import { ROOT, tollgate } from '../../support/cli.ts';
import { ask } from '../../support/client.ts';
import { nextVersion } from '../../support/next-version.ts';
import { emptyDatabase, holds, testDatabase } from '../../support/postgres.ts';
import { until } from '../../support/until.ts';

const run = promisify(execFile);
const folder = t.testdir();

/** The commands under "From embedded to your own server", without the one that serves. */
function documented(target: string): string {
  const text = readFileSync(new URL('sql/backups.md', ROOT), 'utf8');
  const [, block = ''] =
    /## From embedded to your own server\n.*?```sh\n(.*?)```/s.exec(text) ?? [];
  const lines = block.trimEnd().split('\n');
  if (lines.pop()?.startsWith('npx tollgate serve') !== true)
    throw new Error('the last command does not serve');
  const main = new URL('src/main.ts', ROOT).pathname;
  return lines
    .join('\n')
    .replace(/^export DATABASE_URL=\S+/m, `export DATABASE_URL='${target}'`)
    .replaceAll('npx tollgate', `'${process.execPath}' '${main}'`);
}

t.test(
  'from embedded to an own server, by the commands of the documentation, while a gateway writes',
  async (t) => {
    const upstream = await startDemo({ port: 0 });
    t.teardown(() => upstream.close());
    const env = { DATA_DIR: join(folder, 'data'), UPSTREAM_URL: upstream.url };
    const gateway = await startProcess(t, env);
    const create = async (...argv: string[]) => (await tollgate([...argv, '--json'], { env })).json;
    const { id: company } = await create('company', 'create', '--name', 'Acme', '--budget', '100');
    const model = [
      '--slug',
      'chat',
      '--upstream',
      'internal-chat',
      '--kind',
      'chat',
      '--eu-hosted',
      'true',
    ];
    await create('model', 'create', ...model, '--input-price', '0.1', '--output-price', '0.2');
    const { key } = await create(
      'key',
      'create',
      '--company',
      company,
      '--name',
      'CI',
      '--scope',
      'chat',
    );
    const chat = (url: string) => {
      const body = { model: 'chat', messages: [{ role: 'user', content: 'Hello' }] };
      return ask(`${url}/chat/completions`, { key, body });
    };
    await until(
      async () => (await chat(gateway.url)).status === 200,
      'the gateway knows key and model',
    );

    const writing = new AbortController();
    const writer = (async () => {
      while (!writing.signal.aborted) await chat(gateway.url);
    })();
    const source = openDatabase({ url: findEmbedded(env.DATA_DIR) as string, maxConnections: 1 });
    t.teardown(() => source.close());
    await until(() => holds(source, 'exists (select from ledger_seals)'), 'rows are sealed');
    const target = await emptyDatabase(t);
    const { stdout } = await run('sh', ['-ec', documented(target.url)], {
      cwd: folder,
      env: { ...CHILD_ENV, ...env },
    });
    writing.abort();
    await writer;
    t.match(
      stdout,
      /^Wrote \d+ rows to tollgate\.backup \([1-9]\d* kB\)\.\nLoaded \d+ rows\. .*\nmonthly_spend is the sum of its rows/,
    );
    t.match(stdout, /Every sealed row is as it was written; rows: [1-9]\d*, seals: [1-9]\d*\.\n$/);
    t.same(readdirSync(folder).sort(), ['data', 'tollgate.backup'], 'nothing is left but the file');
    t.equal(statSync(join(folder, 'tollgate.backup')).mode & 0o777, 0o600);

    const successor = await startProcess(t, {
      DATABASE_URL: target.url,
      SPOOL_DIR: '',
      UPSTREAM_URL: upstream.url,
    });
    t.equal((await chat(successor.url)).status, 200, 'the key of before works on the new server');
    await until(
      async () => (await tollgate(['status'], { env: { DATABASE_URL: target.url } })).code === 0,
      'it beats',
    );
    successor.signal('SIGTERM');
    t.equal(await successor.exited, 0);
    const verified = await tollgate(['ledger', 'verify'], { env: { DATABASE_URL: target.url } });
    t.match(verified, { code: 0 }, 'what it wrote is counted and sealed too');
    gateway.signal('SIGTERM');
    t.equal(await gateway.exited, 0);
  },
);

t.test(
  'a backup goes through a pipe, as into gpg or out of a container that can write nothing',
  async (t) => {
    const { url } = await testDatabase(t);
    const target = await emptyDatabase(t);
    await tollgate(['company', 'create', '--name', 'Acme'], { env: { DATABASE_URL: url } });
    const program = `'${process.execPath}' '${new URL('src/main.ts', ROOT).pathname}' database`;
    const pipe = `${program} backup --to - | DATABASE_URL='${target.url}' ${program} restore --from -`;
    const { stdout } = await run('sh', ['-ec', pipe], {
      cwd: folder,
      env: { ...CHILD_ENV, DATABASE_URL: url },
    });
    t.match(stdout, /^Loaded \d+ rows\. .*\n$/);
    t.match(await tollgate(['company', 'list'], { env: { DATABASE_URL: target.url } }), {
      code: 0,
      out: /Acme/,
    });
    t.notOk(readdirSync(folder).includes('-'));
    t.match(
      await tollgate(['database', 'backup', '--to', '-', '--json'], { env: { DATABASE_URL: url } }),
      { code: 64 },
    );
    const damaged = await tollgate(['database', 'restore', '--from', '-'], {
      env: { DATABASE_URL: url },
      stdin: 'text',
    });
    t.match(damaged, {
      code: 1,
      err: /^tollgate: standard input: no backup of Tollgate, or damaged/,
    });
  },
);

t.test('files that cannot be written or read are named in one line', async (t) => {
  const { url } = await testDatabase(t);
  const env = { DATABASE_URL: url };
  const file = join(folder, 'again.backup');
  // what a process of the same number left, as all of a container have: it was killed
  writeFileSync(`${file}.${process.pid}.partial`, '');
  t.match(await tollgate(['database', 'backup', '--to', file, '--json'], { env }), {
    code: 0,
    json: { file },
  });
  t.match(
    gunzipSync(readFileSync(file)).toString(),
    /^\{"tollgate_backup":1,"migration":"01.*\{"end":true,"rows":\{.*\}\}\n$/s,
  );
  t.match(await tollgate(['database', 'backup', '--to', file], { env }), {
    code: 1,
    err: `tollgate: ${file} exists already; remove it or choose another name\n`,
  });
  const nowhere = join(folder, 'missing', 'x');
  t.match(await tollgate(['database', 'backup', '--to', nowhere], { env }), {
    code: 1,
    err: /^tollgate: .*ENOENT.*\n$/,
  });

  const empty = { DATABASE_URL: (await emptyDatabase(t)).url };
  const restore = (from: string, of = empty) =>
    tollgate(['database', 'restore', '--from', from], { env: of });
  t.match(await restore(nowhere), {
    code: 1,
    err: /^tollgate: cannot read .*missing\/x: ENOENT.*\n$/,
  });
  writeFileSync(join(folder, 'text'), 'no gzip');
  t.match(await restore(join(folder, 'text')), {
    code: 1,
    err: /^tollgate: .*text: no backup of Tollgate, or damaged \(incorrect header check\)\n$/,
  });
  writeFileSync(join(folder, 'half'), readFileSync(file).subarray(0, 500));
  t.match(await restore(join(folder, 'half')), {
    code: 1,
    err: /tollgate: .*half: no backup of Tollgate, or damaged \(unexpected end of file\)\n$/,
  });
  t.match(await restore(file), { code: 0, out: /^Loaded \d+ rows\./ });
  t.match(await tollgate(['database', 'backup'], { env }), { code: 64, err: /missing --to/ });
});

t.test('a database without tables is not copied', async (t) => {
  const { url } = await emptyDatabase(t);
  t.match(
    await tollgate(['database', 'backup', '--to', join(folder, 'none.backup')], {
      env: { DATABASE_URL: url },
    }),
    {
      code: 1,
      err: /^tollgate: the database has no tables of Tollgate/,
    },
  );
});

t.test(
  'the next version copies a database that waits for its upgrade as it is, and a restore migrates on',
  async (t) => {
    const main = nextVersion(t, {
      '0101_region.sql':
        'alter table companies add column region text; create table regions (n integer);',
    });
    const { url, db } = await testDatabase(t);
    await db.run(60_000, (sql) => sql`insert into companies (name) values ('Early')`);
    const file = join(folder, 'before.backup');
    const next = (command: string[], DATABASE_URL: string) =>
      run(process.execPath, [main, ...command], { env: { ...CHILD_ENV, DATABASE_URL } });
    t.match(await next(['database', 'backup', '--to', file], url), { stdout: /^Wrote/ });
    t.ok(
      await holds(db, `not exists (select from schema_migrations where name > '0101')`),
      'nothing was migrated',
    );

    const target = await emptyDatabase(t);
    await next(['database', 'restore', '--from', file], target.url);
    t.ok(
      await holds(target.db, `exists (select region from companies where name = 'Early')`),
      'it is at the next version',
    );

    const other = await emptyDatabase(t);
    await other.db.run(60_000, (sql) => sql`create table regions (n text)`);
    const failed = await next(['database', 'restore', '--from', file], other.url).catch(
      (error) => error,
    );
    t.match(
      failed.stderr,
      /all rows are loaded, but then: database refused: relation "regions" already exists; go on with "tollgate migrate"/,
    );
    await other.db.run(60_000, (sql) => sql`drop table regions`);
    await next(['migrate'], other.url);
    t.ok(await holds(other.db, `exists (select region from companies where name = 'Early')`));
  },
);

t.test(
  'of two who make one file, the second is refused and the file of the first stays',
  async (t) => {
    const { link } = promises;
    t.teardown(() => {
      promises.link = link;
      syncBuiltinESMExports();
    });
    for (const hasLinks of [true, false]) {
      if (!hasLinks)
        promises.link = () => Promise.reject(Object.assign(new Error('EPERM'), { code: 'EPERM' }));
      syncBuiltinESMExports();
      const into = t.testdir();
      const path = join(into, 'file');
      const first = Promise.withResolvers<void>();
      const second = intoFile(path, async (write) => {
        await write(Buffer.from('second'));
        await first.promise;
      });
      await intoFile(path, (write) => write(Buffer.from('first')));
      first.resolve();
      await t.rejects(second, {
        name: 'Failure',
        message: `${path} exists already; remove it or choose another name`,
      });
      t.equal(
        readFileSync(path, 'utf8'),
        'first',
        hasLinks ? 'by a hard link' : 'on a file system without hard links',
      );
      t.same(readdirSync(into), ['file']);
      t.equal(statSync(path).mode & 0o777, 0o600);
    }
  },
);

t.test('a backup that is ended by a signal leaves nothing behind', async (t) => {
  const { db, url } = await testDatabase(t);
  const into = t.testdir();
  const main = new URL('src/main.ts', ROOT).pathname;
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    await db.transaction(60_000, async (sql) => {
      await sql`lock table companies`; // the backup waits for it
      const child = spawn(
        process.execPath,
        [main, 'database', 'backup', '--to', join(into, 'a.backup')],
        {
          env: { ...CHILD_ENV, DATABASE_URL: url },
        },
      );
      const exited = once(child, 'exit');
      await until(() => readdirSync(into).some((name) => name.endsWith('.part')), 'it writes');
      child.kill(signal);
      t.same(await exited, [null, signal]);
      t.same(readdirSync(into), [], signal);
    });
  }
});
