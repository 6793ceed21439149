import { get, type IncomingMessage } from 'node:http';
import { buffer } from 'node:stream/consumers';
import { gunzipSync } from 'node:zlib';
import t from 'tap';
import { STYLE } from '../../src/admin/page/assets.ts';
import { signedIn, startOffice } from './people.ts';

const office = await startOffice(t);
const { company } = office.customer;
const operator = await signedIn(office, 'operator');
const GZIP = { 'accept-encoding': 'gzip, deflate, br' };

/** An answer as it is sent, which fetch would unpack. */
async function sent(path: string, headers: Record<string, string> = GZIP) {
  const cookie = [...operator.cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  get(new URL(path, office.adminUrl), { headers: { cookie, ...headers } }, resolve).on(
    'error',
    reject,
  );
  const answer = await promise;
  return { answer, encoding: answer.headers['content-encoding'], body: await buffer(answer) };
}

t.test('pages, styles and scripts are compressed for browsers that take it', async (t) => {
  for (const path of ['/companies', `/companies/${company}/usage`, STYLE.path, '/nothing-here']) {
    const { answer, encoding, body } = await sent(path);
    t.equal(encoding, 'gzip', path);
    t.match(answer.headers.vary, /accept-encoding/i);
    const plain = await sent(path, {});
    t.equal(plain.encoding, undefined);
    t.ok(body.length < plain.body.length, `${path}: ${body.length} of ${plain.body.length} bytes`);
    if (path === STYLE.path) t.same(gunzipSync(body), plain.body);
  }
});

t.test('what another site asks for is not compressed', async (t) => {
  for (const site of ['cross-site', 'same-site']) {
    t.equal(
      (await sent('/companies?q=guess', { ...GZIP, 'sec-fetch-site': site })).encoding,
      undefined,
      site,
    );
  }
  t.equal(
    (await sent('/companies', { ...GZIP, 'sec-fetch-site': 'same-origin' })).encoding,
    'gzip',
  );
});

t.test('a page that shows a secret is not compressed', async (t) => {
  const { headers } = await operator.send('/tokens', { name: 'Secret', access: 'read' });
  const path = headers.get('location') ?? '';
  t.match(path, /\/shown$/);
  const { encoding, body } = await sent(path);
  t.equal(encoding, undefined);
  t.match(body.toString(), /tga-[a-z2-7]{32}/, 'which is on it');
});

t.test('files and the documents of programs are sent as they are', async (t) => {
  for (const path of [
    `/companies/${company}/usage.csv`,
    `/companies/${company}/ledger.csv`,
    '/api/v1/openapi.json',
  ])
    t.equal((await sent(path)).encoding, undefined, path);
});

t.test('the token of forms is another one in each answer, and each of them counts', async (t) => {
  const tokens = await Promise.all(
    [1, 2].map(
      async () =>
        /name="csrf" value="([^"]+)"/.exec(await (await operator.get('/users')).text)?.[1],
    ),
  );
  t.not(tokens[0], tokens[1]);
  for (const csrf of tokens) {
    const made = await operator.post('/users', { csrf: csrf ?? '', email: '', role: 'owner' });
    t.equal(made.status, 422, 'the form is read');
  }
  const [first = ''] = tokens;
  const wrong = `${first.slice(0, 60)}${first[60] === 'A' ? 'B' : 'A'}${first.slice(61)}`;
  for (const csrf of [wrong, first.slice(0, 43), '', first.slice(43)]) {
    t.equal(
      (await operator.post('/users', { csrf, email: 'x@y.example', role: 'operator' })).status,
      403,
      csrf,
    );
  }
});
