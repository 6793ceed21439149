import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import t from 'tap';
import { secondFactorKeys } from '../../../src/admin/process/second-factor-key.ts';

/** The key that encrypts second factors. */

t.test(
  'it is that of the setting; only the embedded database gets one of its own, and keeps it',
  async (t) => {
    const warned: object[] = [];
    const log = { warn: (fields: object) => void warned.push(fields) };
    const dataDir = t.testdir({});
    const path = join(dataDir, 'second-factor.key');
    t.same(
      secondFactorKeys({ secondFactorKeys: ['a', 'b'], databaseUrl: null, dataDir }, log as never),
      ['a', 'b'],
    );
    t.same(
      secondFactorKeys(
        { secondFactorKeys: null, databaseUrl: 'postgres://h/d', dataDir },
        log as never,
      ),
      [],
    );
    t.throws(() => statSync(path), { code: 'ENOENT' });

    const embedded = { secondFactorKeys: null, databaseUrl: null, dataDir };
    const [key = ''] = secondFactorKeys(embedded, log as never);
    t.equal(Buffer.from(key, 'base64').length, 32);
    t.equal(readFileSync(path, 'utf8'), `${key}\n`);
    if (process.platform !== 'win32') t.equal(statSync(path).mode & 0o777, 0o600);
    t.same(secondFactorKeys(embedded, log as never), [key], 'the same at the next start');
    writeFileSync(path, 'of a backup\n');
    t.same(secondFactorKeys(embedded, log as never), ['of a backup']);
    t.same(warned, []);

    t.same(secondFactorKeys({ ...embedded, dataDir: join(dataDir, 'nowhere') }, log as never), []);
    t.match(warned, [{ reason: /ENOENT/ }]);
  },
);
