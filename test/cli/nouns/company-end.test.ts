import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import t from 'tap';
import { runCli } from '../../../src/cli/cli.ts';
import { tollgate as run } from '../../support/cli.ts';
import { testDatabase } from '../../support/postgres.ts';
import { addUsage } from '../../support/usage.ts';

const { db, url } = await testDatabase(t);
const env = { DATABASE_URL: url };
const tollgate = (...argv: string[]) => run(argv, { env });
const folder = mkdtempSync(join(tmpdir(), 'tollgate-end-'));
t.teardown(() => rmSync(folder, { recursive: true }));

const { id } = (await tollgate('company', 'create', '--name', 'Acme', '--json')).json;
await run(
  [
    'user',
    'create',
    '--email',
    'ann@acme.example',
    '--role',
    'owner',
    '--company',
    id,
    '--password-stdin',
  ],
  {
    env,
    stdin: 'a long enough password',
  },
);
await tollgate('key', 'create', '--company', id, '--name', 'Laptop of Ann', '--scope', 'chat');
await db.run(60_000, (sql) => addUsage(sql, [{ company: id, prompt: 1000, input: '0.5' }]));

t.test('close and reopen say what they did', async (t) => {
  t.match(await tollgate('company', 'close', id), {
    code: 0,
    out: /^Company closed\.\n.*\n {2}closed +20/s,
  });
  t.match((await tollgate('company', 'close', id)).out, /^The company was closed already\./);
  t.match((await tollgate('company', 'list')).out, /CLOSED \(UTC\)\n.*Acme .*20\d\d-/s);
  t.match(await tollgate('company', 'reopen', id), { code: 0, out: /^Company reopened\./ });
  t.match(await tollgate('company', 'reopen', id, '--json'), {
    code: 0,
    json: { id, closed_at: null },
  });
  t.match((await tollgate('company', 'list')).out, /NON-EU\n/, 'no column without any');
});

t.test('a closed company refuses every change of the command line, in words', async (t) => {
  await tollgate('company', 'close', id);
  const [{ id: key }] = (await tollgate('key', 'list', '--company', id, '--json')).json;
  for (const argv of [
    ['company', 'set', id, '--budget', '5'],
    ['key', 'create', '--company', id, '--name', 'late', '--scope', 'chat'],
    ['key', 'revoke', key],
    ['assistant', 'create', '--company', id, '--name', 'late', '--system-prompt', 'Hello'],
    [
      'model',
      'create',
      '--slug',
      'late',
      '--upstream',
      'x',
      '--kind',
      'chat',
      '--eu-hosted',
      'true',
      '--input-price',
      '1',
      '--output-price',
      '1',
      '--company',
      id,
    ],
  ]) {
    t.match(
      await tollgate(...argv),
      { code: 1, out: '', err: /^tollgate: The company was closed on .* UTC, and nothing/ },
      argv.slice(0, 2).join(' '),
    );
  }
  await tollgate('company', 'reopen', id);
  t.equal((await tollgate('company', 'set', id, '--budget', '5')).code, 0);
});

t.test('export writes an archive that tar reads, under its name when it is whole', async (t) => {
  const file = join(folder, 'acme.tar.gz');
  const { code, json } = await tollgate('company', 'export', id, '--to', file, '--json');
  t.match(
    { code, json },
    { code: 0, json: { file, format: 'tollgate company archive', company: { id, name: 'Acme' } } },
  );
  t.match(execFileSync('tar', ['tzf', file], { encoding: 'utf8' }), `company-${id}/manifest.json`);
  t.equal(statSync(file).mode & 0o777, 0o600);
  t.same(readdirSync(folder), ['acme.tar.gz'], 'no draft is left');
  const before = readFileSync(file);
  t.match(await tollgate('company', 'export', id, '--to', file), {
    code: 1,
    out: '',
    err: `tollgate: ${file} exists already; remove it or choose another name\n`,
  });
  t.same(readFileSync(file), before, 'a file that is there is not overwritten');
  t.match(
    (await tollgate('company', 'export', id, '--to', join(folder, 'again.tar.gz'))).out,
    /FILE +ROWS +WHAT\n(.*\n)*users\.jsonl +1 +users, who/,
  );
  t.match(await tollgate('company', 'export', id, '--to', join(folder, 'none', 'x')), {
    code: 1,
    err: /^tollgate: cannot write .*ENOENT/,
  });
  t.match(await tollgate('company', 'export', id, '--to', '-', '--json'), { code: 64 });
  const unknown = join(folder, 'unknown');
  t.match(
    await tollgate('company', 'export', '00000000-0000-4000-8000-000000000000', '--to', unknown),
    {
      code: 1,
      err: /There is no company/,
    },
  );
  t.notOk(existsSync(unknown));
});

t.test('export to a pipe prints the archive and nothing else', async (t) => {
  const program = new URL('../../../src/main.ts', import.meta.url).pathname;
  const list = execFileSync(
    'sh',
    ['-c', `"${process.execPath}" "${program}" company export ${id} --to - --internal | tar tz`],
    {
      encoding: 'utf8',
      env: { ...process.env, ...env },
    },
  );
  t.match(list, `company-${id}/api_usage.jsonl\n`);
  const stdout = new PassThrough();
  const said: string[] = [];
  const stderr = new PassThrough().on('data', (text) => said.push(String(text)));
  stdout._write = (_chunk, _encoding, done) =>
    done(Object.assign(new Error('gone'), { code: 'EPIPE' }));
  const argv = ['company', 'export', id, '--to', '-'];
  t.equal(
    await runCli({ argv, env, stdin: Readable.from([]), stdout, stderr }),
    0,
    'a reader that leaves, as head does',
  );
  t.same(said, []);
});

t.test('erase counts first, wants the name, and leaves a ledger that verifies', async (t) => {
  t.match(await tollgate('company', 'erase', id), {
    code: 1,
    err: /is open: run "tollgate company close/,
  });
  await tollgate('company', 'close', id);
  t.match(await tollgate('company', 'erase', id, '--json'), {
    code: 0,
    json: { dry_run: true, persons: 1, rows: { users: 1 } },
  });
  t.match(await tollgate('company', 'erase', id, '--yes', 'Acne'), {
    code: 1,
    err: /name is "Acme"/,
  });
  t.match(await tollgate('company', 'erase', id, '--yes', 'Acme'), {
    code: 0,
    out: /^Company erased\.\n\n {2}persons +1\n/,
  });
  t.match(await tollgate('company', 'reopen', id), {
    code: 1,
    err: /were erased: it stays closed/,
  });
  t.equal((await tollgate('ledger', 'verify')).code, 0);
  t.match(
    (await tollgate('usage', 'summary', '--company', id, '--month', '2026-11', '--json')).out,
    '0.5',
  );
  t.match((await tollgate('key', 'list', '--company', id)).out, /key-[0-9a-f]{8}/);
});

t.test('a company whose name other programs wrote in another form can be erased', async (t) => {
  const name = ` two\nlines of ${'x'.repeat(300)} `;
  const [row] = await db.run(
    5000,
    (sql) => sql`insert into companies (name) values (${name}) returning id`,
  );
  await tollgate('company', 'close', row?.id);
  t.match(await tollgate('company', 'erase', row?.id, '--yes', name), { code: 0, err: '' });
});

t.test('user erase counts, then erases one person', async (t) => {
  const { json } = await tollgate('company', 'create', '--name', 'Borg', '--json');
  const stdin = 'a long enough password';
  const argv = [
    'user',
    'create',
    '--email',
    'bob@borg.example',
    '--role',
    'owner',
    '--company',
    json.id,
    '--password-stdin',
  ];
  await run(argv, { env, stdin });
  const erase = (...more: string[]) =>
    tollgate('user', 'erase', '--email', 'bob@borg.example', ...more);
  t.match(await erase(), { code: 0, out: /add --yes to do it\.\n.*rows of users +1\n/s });
  t.match((await erase('--yes', '--json')).json, {
    dry_run: false,
    persons: 1,
    rows: { users: 1, audit_log: 1 },
  });
  t.match(await erase('--yes'), { code: 1, err: /is stored nowhere/ });
});
