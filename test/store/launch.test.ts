import { lstatSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { linkLibraries } from '../../src/store/launch.ts';

t.test('library links that no install script made are made at the first start', async (t) => {
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
  t.equal(lstatSync(made).ctimeMs, ctimeMs, 'and then left alone');
});

t.test('a package without links is fine', async (t) => {
  linkLibraries(t.testdir({ native: {} }));
});
