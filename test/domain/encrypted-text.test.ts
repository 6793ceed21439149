import { randomBytes } from 'node:crypto';
import t from 'tap';
import { decryptText, encryptText } from '../../src/domain/encrypted-text.ts';

const secret = randomBytes(32).toString('base64url');

t.test('a text is read with the same secret and context, and with no others', async (t) => {
  for (const text of ['', 'svc_abc', 'Grüße '.repeat(1000)]) {
    const bytes = encryptText(text, secret, 'session a');
    t.equal(decryptText(bytes, secret, 'session a'), text);
    t.equal(decryptText(bytes, secret, 'session b'), null);
    t.equal(decryptText(bytes, `${secret}x`, 'session a'), null);
    t.equal(bytes.indexOf(text.slice(0, 7) || secret), -1);
  }
  t.notSame(
    encryptText('a', secret, ''),
    encryptText('a', secret, ''),
    'equal texts do not look equal',
  );
});

t.test('changed or shortened bytes are no text', async (t) => {
  const bytes = encryptText('svc_abcdef', secret, 'c');
  for (let at = 0; at < bytes.length; at++) {
    const changed = Buffer.from(bytes);
    changed[at] = (changed[at] as number) ^ 1;
    t.equal(decryptText(changed, secret, 'c'), null, `byte ${at} changed`);
    t.equal(decryptText(bytes.subarray(0, at), secret, 'c'), null, `${at} bytes`);
  }
});
