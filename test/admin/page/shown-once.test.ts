import { Hono } from 'hono';
import t from 'tap';
import type { PageContext, PageEnv } from '../../../src/admin/page/context.ts';
import { redirectToSecret, secretOf } from '../../../src/admin/page/shown-once.ts';

/** The cookie of a page that shows a secret: for whom, where and for how long it can be read. */

const MADE = Date.parse('2026-11-22T10:00:00Z');

/** Pages of one session, at a time. */
function pages({ csrf = 'of the session', now = MADE, isSecure = false } = {}) {
  const app = new Hono<PageEnv>();
  app.use(async (c, next) => {
    c.set('services', { clock: () => now, isSecure } as unknown as PageContext['var']['services']);
    c.set('session', { csrf } as unknown as PageContext['var']['session']);
    await next();
  });
  app.post('/make', (c) =>
    redirectToSecret(c, '/a/shown', 'svc_secret text', new Date(MADE), '?old=1'),
  );
  app.post('/gone', (c) => redirectToSecret(c, '/a/shown', null, new Date(MADE)));
  app.get('/:of/shown', (c) => c.text(secretOf(c) ?? 'gone'));
  return app;
}

const made = await pages().request('/make', { method: 'POST' });
const [cookie = ''] = made.headers.getSetCookie();
const sent = cookie.split(';')[0] as string;
const read = async (app: ReturnType<typeof pages>, path = '/a/shown?old=1', header = sent) =>
  (await app.request(path, { headers: { cookie: header } })).text();

t.test('the page shows the secret, to its session, for a minute', async (t) => {
  t.equal(made.status, 303);
  t.equal(made.headers.get('location'), '/a/shown?old=1');
  t.equal(await read(pages()), 'svc_secret text');
  t.equal(await read(pages({ now: MADE + 60_000 })), 'svc_secret text');
  t.equal(await read(pages({ now: MADE + 60_001 })), 'gone', 'whatever the browser keeps');
  t.equal(await read(pages({ csrf: 'of another' })), 'gone');
  t.equal(await read(pages(), '/b/shown'), 'gone', 'a page of another thing');
  for (const header of ['', 'tollgate-shown=', 'tollgate-shown=AAAA', `${sent.slice(0, -2)}AA`]) {
    t.equal(await read(pages(), undefined, header), 'gone', header);
  }
});

t.test('the cookie is sent to that page alone, and scripts cannot read it', async (t) => {
  t.match(cookie, /; Max-Age=60; Path=\/a\/shown; HttpOnly; SameSite=Strict$/);
  const [secure = ''] = (
    await pages({ isSecure: true }).request('/make', { method: 'POST' })
  ).headers.getSetCookie();
  t.match(secure, /^__Secure-tollgate-shown=.*; Path=\/a\/shown; .*Secure/);
});

t.test('where nothing can be shown, nothing of before is', async (t) => {
  const gone = await pages().request('/gone', { method: 'POST' });
  t.match(gone.headers.getSetCookie(), [/^tollgate-shown=; Max-Age=0; Path=\/a\/shown/]);
});
