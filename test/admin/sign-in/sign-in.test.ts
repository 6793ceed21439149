import { request } from 'node:http';
import t from 'tap';
import { speak } from '../../edge/raw.ts';
import { until } from '../../support/until.ts';
import { cheapHash, PASSWORD, Person, signedIn, startOffice, startOwnOffice } from '../people.ts';

/** Signing in with a password, sessions, and checks of forms. */

const office = await startOwnOffice(t); // which counts guesses
const { owner, operator } = office.people;
const base = `/companies/${office.customer.company}`;

t.test(
  'the cookie is for this host, this site and no script; the table has its digest only',
  async (t) => {
    const person = new Person(office.adminUrl);
    const { status, headers, setCookies } = await person.signIn(` ${owner.toUpperCase()} `);
    t.equal(status, 303);
    t.equal(headers.get('location'), '/');
    const [cookie = ''] = setCookies;
    t.match(cookie, /^tollgate=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; SameSite=Lax$/);
    const token = person.cookies.get('tollgate') as string;
    const rows =
      await office.sql`select encode(digest, 'hex') as digest, encode(digest, 'escape') as raw from sessions`;
    t.notMatch(JSON.stringify(rows), token);
    t.equal(
      (await office.sql`select from sessions where digest = sha256(${token}::bytea)`).length,
      1,
    );
  },
);

t.test('the log tells who signed in and whose password was refused, by ids alone', async (t) => {
  const { administrator } = office.people; // whose guesses nothing else counts
  const lines = () =>
    office.logged
      .map((line) => JSON.parse(line))
      .filter(({ msg }) => /signed in|refused/.test(msg));
  const [{ id }] =
    (await office.sql`select id from users where email = ${administrator}`) as unknown as [
      { id: string },
    ];
  const before = lines().length;
  await new Person(office.adminUrl).signIn(administrator, 'wrong and long enough');
  await new Person(office.adminUrl).signIn(administrator);
  await until(() => lines().length >= before + 2, 'the lines are there');
  t.match(lines().slice(before), [
    { level: 40, msg: 'admin: a password was refused', user: id },
    { level: 30, msg: 'admin: signed in', user: id },
  ]);
  t.notMatch(office.logged.join(''), new RegExp(`${administrator}|wrong and long`));
});

const behind = await startOffice(t, { ADMIN_URL: 'https://admin.example.com', ADMIN_PROXIES: '1' });
process.env.SLOW_HASHES = '1'; // for the process of its pages, which the first request starts: guesses wait there
await new Person(behind.adminUrl).get('/sign-in');
delete process.env.SLOW_HASHES;

t.test('behind https the cookie never leaves it', async (t) => {
  const person = new Person(behind.adminUrl);
  const { setCookies, headers } = await person.signIn(behind.people.owner);
  t.match(
    setCookies[0],
    /^__Host-tollgate=[\w-]{43}; Max-Age=43200; Path=\/; HttpOnly; Secure; SameSite=Lax$/,
  );
  t.match(headers.get('strict-transport-security'), /max-age=31536000/);
});

t.test('a sign-in makes a new session and ends the former one', async (t) => {
  const person = await signedIn(office, 'owner');
  const former = person.cookies.get('tollgate') as string;
  await person.signIn(owner);
  t.not(person.cookies.get('tollgate'), former);
  const thief = new Person(office.adminUrl);
  thief.cookies.set('tollgate', former);
  t.equal((await thief.get('/account')).status, 303);
});

t.test('a session ends: idle, old, signed out, with a new password', async (t) => {
  const live = async (person: Person) => (await person.get('/account')).status === 200;
  const idle = await signedIn(office, 'owner');
  await office.sql`update sessions set last_seen_at = now() - interval '2 hours 1 second'`;
  t.notOk(await live(idle));
  const old = await signedIn(office, 'owner');
  t.ok(await live(old));
  await office.sql`update sessions set created_at = now() - interval '12 hours 1 second'`;
  t.notOk(await live(old));

  const left = await signedIn(office, 'owner');
  const copy = new Person(office.adminUrl);
  copy.cookies.set('tollgate', left.cookies.get('tollgate') as string);
  const bye = await left.post('/sign-out');
  t.match(bye.setCookies[0], /^tollgate=; Max-Age=0; Path=\/; HttpOnly; SameSite=Lax$/);
  t.notOk(await live(copy), 'on the server, not only in the browser');

  const here = await signedIn(office, 'administrator');
  const there = await signedIn(office, 'administrator');
  const wrong = await here.post('/account/password', {
    current: 'not it, surely',
    new: 'a new long password',
  });
  t.equal(wrong.status, 422);
  t.ok(await live(there));
  const { headers } = await here.post('/account/password', {
    current: PASSWORD,
    new: 'a new long password',
  });
  t.equal(headers.get('location'), '/account?done=password');
  t.ok(await live(here));
  t.notOk(await live(there));
  t.equal((await here.signIn(office.people.administrator, 'a new long password')).status, 303);
});

t.test('a sign-in with the former password, while it is replaced, makes no session', async (t) => {
  const attempt = () => new Person(office.adminUrl).signIn(office.people.member);
  const [{ id }] = await office.sql<
    [{ id: string }]
  >`select id from users where email = ${office.people.member}`;
  let late: ReturnType<typeof attempt> | undefined;
  await office.sql.begin(async (sql) => {
    await sql`update users set password_hash = ${cheapHash('a new long password')} where id = ${id}`;
    await sql`delete from sessions where user_id = ${id}`;
    late = attempt();
    await until(
      () =>
        office.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
      'the sign-in waits for the user',
      ({ length }) => length > 0,
    );
  });
  t.equal((await late)?.status, 401);
  t.same(await office.sql`select from sessions where user_id = ${id}`, []);
  await office.sql`update users set password_hash = ${cheapHash(PASSWORD)} where id = ${id}`;
  t.equal((await attempt()).status, 303);
});

t.test(
  'a change of the own password does not undo one that an operator makes meanwhile',
  async (t) => {
    const person = await signedIn(office, 'member');
    await person.csrf();
    const replaced = cheapHash('what the operator chose');
    let late: Promise<{ status: number }> | undefined;
    await office.sql.begin(async (sql) => {
      await sql`update users set password_hash = ${replaced} where email = ${office.people.member}`;
      late = person.post('/account/password', {
        current: PASSWORD,
        new: 'what a thief would like',
      });
      await until(
        () =>
          office.sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
        'the change waits for the user',
        ({ length }) => length > 0,
      );
    });
    t.equal((await late)?.status, 404);
    const [user] =
      await office.sql`select password_hash from users where email = ${office.people.member}`;
    t.equal(user?.password_hash, replaced);
    await office.sql`update users set password_hash = ${cheapHash(PASSWORD)} where email = ${office.people.member}`;
  },
);

t.test('unknown people and wrong passwords get one answer', async (t) => {
  const answers = await Promise.all(
    [owner, 'nobody@customer.example', 'no\0body@customer.example', 'x', ''].map(async (email) => {
      const { status, text, headers } = await new Person(office.adminUrl).signIn(email, 'wrong');
      return {
        status,
        text: text.replace(/ value="[^"]*"/g, ''),
        headers: [...headers.keys()].join(),
      };
    }),
  );
  t.equal(answers[0]?.status, 401);
  for (const answer of answers) t.same(answer, answers[0]);
});

t.test(
  "every attempt costs one hash, whoever it names; a stranger's wait for one another, not for others'",
  async (t) => {
    const nobody = 'nobody@else.example';
    const from = async (address: string, email: string, password: string) => {
      const headers = { 'x-forwarded-for': address };
      return (await new Person(behind.adminUrl).post('/sign-in', { email, password }, headers))
        .status;
    };
    const turnedAway = Promise.withResolvers<void>();
    const guess = async (email: string) => {
      const status = await from('198.51.100.3', email, 'wrong');
      if (status === 503) turnedAway.resolve();
      return status;
    };
    const guesses = Array.from({ length: 5 }, () => guess(nobody));
    const others = Array.from({ length: 35 }, (_, i) => guess(`nobody${i}@example.com`));
    await Promise.race([turnedAway.promise, Promise.all(others)]);
    t.equal(await from('198.51.100.4', behind.people.operator, PASSWORD), 303);
    const all = Map.groupBy(await Promise.all([...guesses, ...others]), (status) => status);
    t.same([...all.keys()].sort(), [401, 503]);
    t.ok((all.get(401)?.length ?? 0) >= 9, 'one hashed, eight waited');

    let failed = (await Promise.all(guesses)).filter((status) => status === 401).length;
    while ((await guess(nobody)) === 401) failed++;
    t.equal(
      failed,
      5,
      'an account that does not exist is throttled too, and those turned away are not counted',
    );
    t.equal(await guess(nobody), 429);
  },
);

t.test('attempts are throttled', async (t) => {
  const person = new Person(office.adminUrl);
  for (let i = 0; i < 5; i++) t.equal((await person.signIn(operator, 'wrong')).status, 401);
  const { status, headers, text } = await person.signIn(operator, PASSWORD);
  t.equal(status, 429, 'even with the right password');
  t.ok(Number(headers.get('retry-after')) > 800);
  t.match(text, /Too many attempts. Try again in 15 minutes/);
  t.equal((await new Person(office.adminUrl).signIn(owner)).status, 303, 'others still get in');
});

t.test('a trusted proxy says where an attempt came from', async (t) => {
  const from = (address: string) =>
    new Person(behind.adminUrl).post(
      '/sign-in',
      { email: behind.people.owner, password: 'wrong' },
      {
        'x-forwarded-for': `203.0.113.9, ${address}`,
      },
    );
  for (let i = 0; i < 5; i++) t.equal((await from('198.51.100.1')).status, 401);
  t.equal((await from('198.51.100.1')).status, 429);
  t.equal((await from('198.51.100.2')).status, 401);
});

t.test('a form must come from here, with the token of its session', async (t) => {
  const person = await signedIn(office, 'owner');
  const change = (fields: Record<string, string>, headers: Record<string, string>) =>
    person.post(`${base}/settings`, { budget: '7', ...fields }, headers);
  t.equal((await change({}, { origin: 'https://evil.example' })).status, 403);
  t.equal((await change({}, { 'sec-fetch-site': 'cross-site' })).status, 403);
  t.equal((await change({}, { 'sec-fetch-site': 'same-site' })).status, 403);
  t.equal((await change({}, { origin: 'null' })).status, 403);
  t.equal((await change({ csrf: '' }, {})).status, 403);
  const other = await signedIn(office, 'owner');
  t.equal(
    (await change({ csrf: await other.csrf() }, {})).status,
    403,
    'nor with that of another session',
  );
  t.equal((await change({}, { 'content-type': 'text/plain' })).status, 415);
  const [row] =
    await office.sql`select monthly_budget_eur from companies where id = ${office.customer.company}`;
  t.equal(row?.monthly_budget_eur, null);
  t.equal((await change({}, { 'sec-fetch-site': 'same-origin' })).status, 303);
  const cross = await new Person(office.adminUrl).post(
    '/sign-in',
    { email: owner, password: PASSWORD },
    { origin: 'https://evil.example' },
  );
  t.equal(cross.status, 403, 'nobody is signed in by another site');
});

t.test(
  'forms of another type, beyond the limit of size or with an odd token are refused',
  async (t) => {
    const person = await signedIn(office, 'owner');
    const settings = `${base}/settings`;
    t.equal((await person.post(settings, { budget: '8', csrf: 'é'.repeat(43) })).status, 403);
    t.equal((await person.post(settings, { budget: '8', csrf: 'x'.repeat(1 << 20) })).status, 413);
    t.equal(
      (await new Person(office.adminUrl).post('/sign-in', { email: 'x'.repeat(8192) })).status,
      413,
    );
    // chunked: without a content-length
    const body = new Blob(['email=', 'x'.repeat(8192)]).stream();
    const chunked = { method: 'POST', body, duplex: 'half' } as const;
    const headers = {
      origin: office.adminUrl,
      'content-type': 'application/x-www-form-urlencoded',
    };
    t.equal((await fetch(`${office.adminUrl}/sign-in`, { ...chunked, headers })).status, 413);
    // hono/csrf lets types pass that are no form
    for (const type of ['application/json', 'multipart/form-data; boundary=x']) {
      const status = (await person.post(settings, { budget: '8' }, { 'content-type': type }))
        .status;
      t.equal(status, 415, type);
    }
    const [row] =
      await office.sql`select monthly_budget_eur from companies where id = ${office.customer.company}`;
    t.not(row?.monthly_budget_eur, '8');
  },
);

t.test('every page is protected: no script but ours, no frame, no cache', async (t) => {
  const person = await signedIn(office, 'owner');
  for (const path of ['/sign-in', '/account', `${base}/usage`, '/nowhere', '/companies']) {
    const { headers, text } = await person.get(path);
    const policy = headers.get('content-security-policy') ?? '';
    t.match(policy, /default-src 'none'.*script-src 'self'.*frame-ancestors 'none'/);
    t.notMatch(policy, /unsafe/);
    t.equal(headers.get('cache-control'), 'no-store', path);
    t.equal(headers.get('x-content-type-options'), 'nosniff');
    t.notMatch(text, /<style|style="|<script(?! src="\/assets\/)|\son\w+="/);
  }
});

t.test('odd paths are not found, and nothing breaks', async (t) => {
  const person = await signedIn(office, 'owner');
  const cookie = `tollgate=${person.cookies.get('tollgate')}`;
  for (const path of [
    '//',
    '/%',
    '/..%2f',
    '/companies/x/usage',
    `${base}/usage/`,
    '/a?b?c&%',
    'http://[',
    '*',
  ]) {
    const status = await new Promise((resolve, reject) => {
      const { hostname, port } = new URL(office.adminUrl);
      request({ hostname, port, path, headers: { cookie } }, (response) => {
        response.resume();
        resolve(response.statusCode);
      })
        .on('error', reject)
        .end();
    });
    t.equal(status, 404, path);
  }
});

t.test('names are text, whatever is in them', async (t) => {
  const person = await signedIn(office, 'owner');
  const name = `"><script>alert(1)</script>&amp;`;
  await person.post(`${base}/keys/create`, {
    id: crypto.randomUUID(),
    claim: 's'.repeat(43),
    name,
    scope: ['chat'],
  });
  const { text } = await person.get(`${base}/keys`);
  t.match(text, '&quot;&gt;&lt;script&gt;alert(1)&lt;/script&gt;&amp;amp;');
  t.notMatch(text, '<script>alert');
});

t.test('nothing of a key or a password is ever logged', async (t) => {
  const logged = office.logged.join('');
  t.notMatch(logged, PASSWORD);
  t.notMatch(logged, /svc_[a-z2-7]{32}/);
});

t.test('requests beyond the rate limit get 503, health checks do not', async (t) => {
  // pipelined: 400 separate calls take so long on a busy machine that the limit allows them
  const burst = 'GET /sign-in HTTP/1.1\r\nhost: admin\r\n\r\n'.repeat(40);
  const answers = await Promise.all(
    Array.from({ length: 10 }, () => speak(office.adminUrl, [burst])),
  );
  const statuses = answers.flatMap(({ text }) =>
    [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => status),
  );
  t.ok(statuses.includes('503') && statuses.includes('200'));
  t.equal((await fetch(`${office.adminUrl}/livez`)).status, 200);
  t.equal((await fetch(`${office.adminUrl}/readyz`)).status, 200);
  t.match(await (await fetch(`${office.adminUrl}/metrics`)).text(), /tollgate_/);
  await until(
    () => fetch(`${office.adminUrl}/sign-in`).then(({ status }) => status),
    'pages are answered again',
    (status) => status === 200,
  );
});

t.test('who has a session guesses its password no more often than at sign-in', async (t) => {
  const person = await signedIn(await startOwnOffice(t), 'member'); // elsewhere guesses were counted already
  const change = (current: string) =>
    person.post('/account/password', { current, new: 'a password of a stranger' });
  for (let guess = 1; guess <= 5; guess++)
    t.match((await change(`guess ${guess}`)).text, 'Current password is wrong');
  const right = await change(PASSWORD);
  t.equal(right.status, 422);
  t.match(right.text, 'Current password was wrong too often. Try again in 15 minutes.');
});

t.test('the page tells how the first operator is made, until there is one', async (t) => {
  const { sql, adminUrl } = await startOffice(t);
  const page = async () => (await new Person(adminUrl).get('/sign-in')).text;
  t.notMatch(await page(), 'There is no operator');
  await sql`delete from users where role = 'operator'`;
  t.match(
    await page(),
    /There is no operator.*<code>tollgate user create --role operator --email YOU@EXAMPLE.COM<\/code>/s,
  );
  await sql`insert into users (email, role) values ('new@tollgate.example', 'operator')`;
  t.notMatch(await page(), 'There is no operator');
});
