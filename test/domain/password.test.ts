import { scryptSync } from 'node:crypto';
import t from 'tap';
import { hashPassword, readPassword, verifyPassword } from '../../src/domain/password.ts';

process.env.SLOW_HASHES = '1';

t.test(
  'a hash describes itself and verifies its password, with letters composed or decomposed',
  async (t) => {
    const [composed, decomposed] = ['p\u00e4sswort-123', 'pa\u0308sswort-123'];
    const stored = await hashPassword(composed);
    t.match(stored, /^\$scrypt\$ln=17,r=8,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/);
    t.notMatch(stored, /sswort/);
    t.equal(await verifyPassword(decomposed, stored), true);
    const other = await hashPassword(decomposed);
    t.equal(await verifyPassword(composed, other), true);
    t.not(other, stored, 'every hash has its own salt');
    const [salt = '', key] = stored.split('$').slice(-2);
    const again = scryptSync(composed, Buffer.from(salt, 'base64'), 32, {
      N: 2 ** 17,
      r: 8,
      p: 1,
      maxmem: 2 ** 28,
    });
    t.equal(again.toString('base64').replace('=', ''), key, 'it costs what it says');
  },
);

t.test(
  'hashes of another cost verify their password and no other: the cost may rise later',
  async (t) => {
    const salt = Buffer.from('0123456789abcdef');
    const key = scryptSync('an older password', salt, 32, { N: 2 ** 10, r: 8, p: 2 });
    const stored =
      `$scrypt$ln=10,r=8,p=2$${salt.toString('base64')}$${key.toString('base64')}`.replaceAll(
        '=$',
        '$',
      );
    t.equal(await verifyPassword('an older password', stored.replaceAll(/=+(?=\$|$)/g, '')), true);
    for (const wrong of ['an older passwore', ''])
      t.equal(await verifyPassword(wrong, stored.replaceAll(/=+(?=\$|$)/g, '')), false);
  },
);

t.test('without a hash nothing verifies', async (t) => {
  t.equal(await verifyPassword('correct horse battery', null), false);
});

t.test(
  'a stored text that is no hash, or asks for too much memory, is an error and not a no',
  async (t) => {
    await t.rejects(verifyPassword('x', 'plaintext'));
    await t.rejects(verifyPassword('x', '$scrypt$ln=30,r=8,p=1$c2FsdHNhbHQ$c2FsdHNhbHQ'));
  },
);

t.test('a new password has 12 to 1024 characters, counted as people count', async (t) => {
  t.equal(readPassword('twelve chars'), 'twelve chars');
  t.throws(() => readPassword('eleven char'), { name: 'FieldError' });
  t.throws(
    () => readPassword('😀'.repeat(11)),
    { name: 'FieldError' },
    'eleven, though twenty-two code units',
  );
  t.throws(() => readPassword('x'.repeat(1025)), { name: 'FieldError' });
  t.equal(readPassword('Zwölf Zeichen 👩‍💻'), 'Zwölf Zeichen 👩‍💻');
  for (const untyped of [
    'twelve chars\n',
    'twelve\r\nchars',
    '\ufefftwelve chars',
    'tw\ufffdlve chars',
  ]) {
    t.throws(
      () => readPassword(untyped),
      { message: 'must be one line of text in UTF-8' },
      JSON.stringify(untyped),
    );
  }
});
