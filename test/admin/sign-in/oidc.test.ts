import { OAuth2Server } from 'oauth2-mock-server';
import t from 'tap';
import { insertInvitation } from '../../../src/store/users/invitation.ts';
import { freePort } from '../../support/port.ts';
import { until } from '../../support/until.ts';
import { Person, startOffice } from '../people.ts';
import { startOidcOffice } from './provider.ts';

/** Signing in with OpenID Connect, against a provider in this process. */

const { provider, issuer, office } = await startOidcOffice(t);
let claims: Record<string, unknown> = {};
provider.service.on('beforeTokenSigning', (token) => Object.assign(token.payload, claims));

/** Follows the redirect to the provider. @returns the way back to the pages */
async function callback(person: Person, at = '/sign-in/oidc'): Promise<string> {
  const start = await person.get(at);
  const asked = new URL(start.headers.get('location') as string);
  const back = await fetch(asked, { redirect: 'manual' });
  const { pathname, search } = new URL(back.headers.get('location') as string);
  return pathname + search;
}

/** Follows the redirect to the provider, and the one back to the pages. */
async function through(
  person: Person,
  at = '/sign-in/oidc',
): Promise<Awaited<ReturnType<Person['get']>>> {
  return person.get(await callback(person, at));
}

t.test('the provider is asked with PKCE, state and nonce', async (t) => {
  const person = new Person(office.adminUrl);
  t.match((await person.get('/sign-in')).text, 'Sign in with your organisation');
  const { headers, setCookies } = await person.get('/sign-in/oidc');
  const { searchParams } = new URL(headers.get('location') as string);
  t.match(Object.fromEntries(searchParams), {
    response_type: 'code',
    client_id: 'tollgate',
    redirect_uri: `${office.adminUrl}/sign-in/oidc/callback`,
    code_challenge_method: 'S256',
    scope: 'openid email',
  });
  for (const name of ['code_challenge', 'state', 'nonce'])
    t.ok((searchParams.get(name) ?? '').length > 20, name);
  t.match(
    setCookies[0],
    /^tollgate-oidc-[\w-]+=[^;]+; Max-Age=600; Path=\/; HttpOnly; SameSite=Lax$/,
  );
});

t.test('a verified address that is known signs in', async (t) => {
  claims = { email: office.people.owner.toUpperCase(), email_verified: true };
  const person = new Person(office.adminUrl);
  const { status, headers } = await through(person);
  t.equal(status, 303);
  t.equal(headers.get('location'), '/');
  t.match((await person.get('/account')).text, office.people.owner);
  for (const [name, value] of person.cookies) {
    if (name.startsWith('tollgate-oidc'))
      t.match(value, /^\.\.\w+\.$/, 'no secret is left of the attempt');
  }
});

t.test(
  'each tab ends the sign-in that it began, in any order, and reloads where it ended',
  async (t) => {
    claims = { email: office.people.owner, email_verified: true };
    const [first, second] = ['/account/erasure', '/account'] as const;
    for (const order of [
      [0, 1],
      [1, 0],
    ]) {
      const person = new Person(office.adminUrl);
      const tabs = [
        { next: first, at: await callback(person, `/sign-in/oidc?next=${first}`) },
        { next: second, at: await callback(person, `/sign-in/oidc?next=${second}`) },
      ];
      for (const n of order) {
        const { next, at } = tabs[n] as (typeof tabs)[0];
        for (const which of ['at first', 'Reload', 'Back']) {
          const { status, headers } = await person.get(at);
          t.same([status, headers.get('location')], [303, next], `${next} ${which}`);
        }
      }
      t.match((await person.get('/account')).text, office.people.owner);
      const at = (tabs[0] as (typeof tabs)[0]).at;
      const stranger = new Person(office.adminUrl);
      t.equal((await stranger.get(at)).status, 401, 'the address of a callback signs nobody in');
      for (const name of person.cookies.keys())
        if (!name.startsWith('tollgate-oidc')) person.cookies.delete(name);
      t.equal((await person.get(at)).status, 401, 'nor does it who has signed out');
    }
  },
);

t.test('a callback whose attempt has ended leads a signed-in browser on', async (t) => {
  claims = { email: office.people.owner, email_verified: true };
  const person = new Person(office.adminUrl);
  const at = await callback(person, '/sign-in/oidc?next=/account');
  await person.get(at);
  for (const name of person.cookies.keys())
    if (name.startsWith('tollgate-oidc')) person.cookies.delete(name);
  const { status, headers } = await person.get(at);
  t.same([status, headers.get('location')], [303, '/']);
});

t.test('who begins to sign in again and again sends no more cookies than pages take', async (t) => {
  claims = { email: office.people.owner, email_verified: true };
  const person = new Person(office.adminUrl);
  const next = `/audit?q=${'x'.repeat(1900)}`;
  for (let n = 0; n < 12; n++) await person.get(`/sign-in/oidc?next=${next}`);
  t.ok([...person.cookies].join().length < 12_000);
  t.equal((await through(person, `/sign-in/oidc?next=${next}`)).headers.get('location'), next);
});

t.test('endpoints of the provider that moved are found', async (t) => {
  claims = { email: office.people.owner, email_verified: true };
  await through(new Person(office.adminUrl));
  const moved = await new OAuth2Server();
  const [key] = provider.issuer.keys.toJSON(true);
  await moved.issuer.keys.add(key as Parameters<typeof moved.issuer.keys.add>[0]);
  await moved.start(0, '127.0.0.1');
  moved.issuer.url = issuer;
  moved.service.on('beforeTokenSigning', (token) => Object.assign(token.payload, claims));
  t.teardown(() => moved.stop());
  const at = `http://127.0.0.1:${moved.address().port}`;
  const move = ({ body }: { body: unknown }) => {
    const document = body as Record<string, string>;
    for (const name of [
      'authorization_endpoint',
      'token_endpoint',
      'jwks_uri',
      'userinfo_endpoint',
    ]) {
      document[name] = (document[name] as string).replace(issuer, at);
    }
  };
  provider.service.on('beforeWellKnownOpenIdConfiguration', move);
  t.teardown(() => provider.service.off('beforeWellKnownOpenIdConfiguration', move));
  const person = new Person(office.adminUrl);
  const { headers } = await person.get('/sign-in/oidc');
  t.equal(new URL(headers.get('location') as string).origin, at);
  t.equal((await through(person)).status, 303);
});

t.test(
  'the provider is the second factor of who signs in by it; with the password there is another',
  async (t) => {
    claims = { email: office.people.owner, email_verified: true };
    const [{ id }] = await office.sql<[{ id: string }]>`
    update users set second_factor_since = now() where email = ${office.people.owner} returning id`;
    const person = new Person(office.adminUrl);
    await through(person);
    t.equal((await person.get('/account')).status, 200);
    t.match((await person.get('/account')).text, 'your organisation');
    const [session] =
      await office.sql`select second_factor from sessions where user_id = ${id} order by created_at desc limit 1`;
    t.equal(session?.second_factor, 'provider');
    const typed = new Person(office.adminUrl);
    await typed.signIn(office.people.owner);
    t.equal((await typed.get('/account')).headers.get('location'), '/sign-in/code?next=%2Faccount');
    await office.sql`update users set second_factor_since = null where id = ${id}`;
  },
);

t.test('it leads back to the address that was asked for, and to no other site', async (t) => {
  claims = { email: office.people.owner, email_verified: true };
  const page = `/companies/${office.customer.company}/keys?q=a&sort=name`;
  const query = (next: string) => `?${new URLSearchParams({ next })}`;
  t.match(
    (await new Person(office.adminUrl).get(`/sign-in${query(page)}`)).text,
    `href="/sign-in/oidc${query(page)}"`,
  );
  for (const [next, location] of [
    [page, page],
    ['//evil.example', '/'],
    ['https://evil.example/', '/'],
  ] as const) {
    const { headers } = await through(new Person(office.adminUrl), `/sign-in/oidc${query(next)}`);
    t.equal(headers.get('location'), location);
  }
});

t.test('a form whose session ended waits in its tab while another one signs in', async (t) => {
  claims = { email: office.people.owner, email_verified: true };
  const person = new Person(office.adminUrl);
  await through(person);
  const action = `/companies/${office.customer.company}/settings`;
  const { text } = await person.get(action);
  const user = /name="user" value="([^"]+)"/.exec(text)?.[1] as string;
  const csrf = await person.csrf();
  await office.sql`delete from sessions`;
  const ended = await person.post(action, { user, csrf, budget: '1234' });
  t.equal(ended.status, 401);
  t.match(ended.text, 'href="/sign-in/oidc?next=/sign-in/done" target="_blank"');
  const { headers } = await through(person, '/sign-in/oidc?next=/sign-in/done');
  t.match((await person.get(headers.get('location') as string)).text, 'go on with what you typed');
  const back = await person.post(action, {
    user,
    csrf: '',
    budget: '1234',
    'sign-in.email': '',
    'sign-in.password': '',
  });
  t.equal(back.status, 200);
  t.match(back.text, 'value="1234"');
  claims = { email: office.people.operator, email_verified: true };
  await through(person);
  t.equal(
    (await person.post(action, { user, csrf: '', budget: '1234' })).status,
    403,
    'another user does not get it',
  );
});

t.test('after a refusal the provider lets the person choose another account', async (t) => {
  const person = new Person(office.adminUrl);
  const asks = async (at: string) =>
    new URL((await person.get(at)).headers.get('location') as string).searchParams.get('prompt');
  t.equal(await asks('/sign-in/oidc?next=/account'), null, 'the first time nobody is asked');
  claims = { email: 'private@example.com', email_verified: true };
  const refused = await through(person, '/sign-in/oidc?next=/account');
  t.equal(refused.status, 403);
  const [, again = ''] = /href="(\/sign-in\/oidc\?[^"]+)"/.exec(refused.text) ?? [];
  const link = again.replaceAll('&amp;', '&');
  t.equal(await asks(link), 'select_account');
  claims = { email: office.people.owner, email_verified: true };
  const { headers } = await through(person, link);
  t.equal(headers.get('location'), '/account', 'and it leads to where it was to lead');
});

t.test('an unverified or unknown address does not', async (t) => {
  await office.sql`insert into users (email, role) values ('kim@tollgate.example', 'operator')`;
  const none = 'confirms no e-mail address';
  const unknown = 'there is no account for your verified e-mail address';
  for (const [wrong, said, logged] of [
    [
      { email: office.people.owner, email_verified: false },
      none,
      'not say email_verified: true in the identity token',
    ],
    [{ email: office.people.owner }, none, 'tells no e-mail address in userinfo'],
    [
      { email: office.people.owner, email_verified: 'true' },
      none,
      'not say email_verified: true in the identity token',
    ],
    [{ email: 'stranger@example.com', email_verified: true }, unknown, 'no user has the address'],
    // the sign of kelvin, whose small letter is k
    [
      { email: '\u212aim@tollgate.example', email_verified: true },
      unknown,
      'no user has the address',
    ],
    [{ email_verified: true }, none, 'tells no e-mail address in userinfo'],
  ] as const) {
    claims = wrong;
    const person = new Person(office.adminUrl);
    office.logged.length = 0;
    const { status, text } = await through(person);
    t.equal(status, 403, JSON.stringify(wrong));
    t.match(text, said);
    await until(
      async () => office.logged.join(),
      'a line of the log',
      (lines) => lines.includes(logged),
    );
    t.match(office.logged.join(), 'single sign-on found no account');
    t.notMatch(office.logged.join(), '@', 'without the address');
    t.equal((await person.get('/account')).status, 303);
  }
});

t.test(
  'an address that is at userinfo alone signs in, as the userinfo of the same person',
  async (t) => {
    let told: Record<string, unknown> = {};
    let status = 200;
    const answer = (response: { body: unknown; statusCode: number }) => {
      response.statusCode = status;
      response.body = told;
    };
    provider.service.on('beforeUserinfo', answer);
    t.teardown(() => provider.service.off('beforeUserinfo', answer));
    claims = {};
    const verified = {
      sub: 'johndoe',
      email: office.people.owner.toUpperCase(),
      email_verified: true,
    };
    told = verified;
    const person = new Person(office.adminUrl);
    t.equal((await through(person)).status, 303);
    t.match((await person.get('/account')).text, office.people.owner);

    for (const [token, userinfo, expected] of [
      [{ email: office.people.owner }, { ...verified, email: undefined }, 403],
      [{ email_verified: true }, { ...verified, email_verified: undefined }, 403],
      [{ email: office.people.owner, email_verified: false }, verified, 403],
      [{}, { ...verified, sub: 'somebody else' }, 401],
      [{}, { ...verified, sub: undefined }, 401],
    ] as const) {
      claims = token;
      told = userinfo;
      t.equal(
        (await through(new Person(office.adminUrl))).status,
        expected,
        JSON.stringify([token, userinfo]),
      );
    }
    claims = {};
    told = { error: 'insufficient_scope', error_description: 'no e-mail for you' };
    status = 403;
    office.logged.length = 0;
    t.equal((await through(new Person(office.adminUrl))).status, 401);
    const words = 'HTTP 403: insufficient_scope: no e-mail for you';
    await until(
      async () => office.logged.join(),
      'the words of the provider',
      (lines) => lines.includes(words),
    );
  },
);

t.test('the secret is given as the provider wants it', async (t) => {
  const seen: (string | undefined)[] = [];
  let methods: string[] | undefined;
  const own = new OAuth2Server();
  await own.issuer.keys.generate('RS256');
  await own.start(0, '127.0.0.1');
  t.teardown(() => own.stop());
  own.issuer.url = `http://127.0.0.1:${own.address().port}`;
  own.service.on('beforeWellKnownOpenIdConfiguration', (response) => {
    Object.assign(response.body, { token_endpoint_auth_methods_supported: methods });
  });
  own.service.on('beforeTokenSigning', ({ payload }) => Object.assign(payload, HONEST));
  own.service.on('beforeResponse', (response, { headers, body }) => {
    const { client_secret, client_assertion } = body as Record<string, string>;
    seen.push(headers.authorization ?? client_secret ?? (client_assertion && 'jwt'));
    if (client_secret !== 'wrong') return;
    response.statusCode = 401;
    response.body = { error: 'invalid_client', error_description: 'who are you?' } as never;
  });
  const HONEST = { email: office.people.owner, email_verified: true };
  const secret = 'a: b%ü';
  const basic = `Basic ${Buffer.from('tollgate:a%3A+b%25%C3%BC').toString('base64')}`;
  const signIn = async (of: string) => {
    const adminPort = String(await freePort());
    const other = await startOffice(t, {
      ADMIN_PORT: adminPort,
      ADMIN_URL: `http://127.0.0.1:${adminPort}`,
      OIDC_ISSUER: own.issuer.url as string,
      OIDC_CLIENT_ID: 'tollgate',
      OIDC_CLIENT_SECRET: of,
    });
    return { other, ...(await through(new Person(other.adminUrl))) };
  };
  for (const [supported, used] of [
    [['client_secret_basic'], basic],
    [undefined, basic],
    [['client_secret_basic', 'client_secret_post'], secret],
    [['private_key_jwt', 'client_secret_jwt'], 'jwt'],
  ] as const) {
    methods = supported as string[] | undefined;
    t.equal((await signIn(secret)).status, 303, JSON.stringify(supported));
    t.same(seen.splice(0), [used]);
  }
  methods = ['client_secret_post'];
  const { status, other } = await signIn('wrong');
  t.equal(status, 401);
  const words = 'invalid_client: who are you?';
  await until(
    async () => other.logged.join(),
    'the words of the provider',
    (lines) => lines.includes(words),
  );
});

t.test('a provider that says no is quoted in the log', async (t) => {
  const person = new Person(office.adminUrl);
  const { headers } = await person.get('/sign-in/oidc');
  const state = new URL(headers.get('location') as string).searchParams.get('state') as string;
  const answer = new URLSearchParams({
    state,
    error: 'access_denied',
    error_description: 'not in the group',
  });
  office.logged.length = 0;
  t.equal((await person.get(`/sign-in/oidc/callback?${answer}`)).status, 401);
  const words = 'access_denied: not in the group';
  await until(
    async () => office.logged.join(),
    'the words of the provider',
    (lines) => lines.includes(words),
  );
});

t.test(
  'an invitation is accepted by whoever the provider knows by its address, and by nobody else',
  async (t) => {
    const invitation = await insertInvitation(office.sql, {
      company_id: office.customer.company,
      email: 'new@customer.example',
      role: 'owner',
      created_by: 'test',
    });
    const person = new Person(office.adminUrl);
    const { text } = await person.get(`/invitation/${invitation.token}`);
    const at = /href="(\/sign-in\/oidc\?invitation=[\w-]{43})"/.exec(text)?.[1] as string;
    for (const wrong of [
      { email: 'other@customer.example', email_verified: true },
      { email: 'new@customer.example', email_verified: false },
    ]) {
      claims = wrong;
      t.equal((await through(new Person(office.adminUrl), at)).status, 403);
    }
    claims = { email: 'new@customer.example', email_verified: true };
    t.equal((await through(new Person(office.adminUrl))).status, 403, 'nor without the link');
    t.equal((await office.sql`select from users where email like '%@customer.example'`).length, 3);
    const { status, headers } = await through(person, at);
    t.equal(status, 303);
    t.equal(headers.get('location'), `/companies/${office.customer.company}/keys?done=joined`);
    const account = await person.get('/account');
    t.match(account.text, /new@customer\.example.*owner/s);
    t.match(account.text, 'there is no password to change here');
    t.equal((await person.get(`/invitation/${invitation.token}`)).status, 404);
  },
);

t.test('an answer to nobody’s attempt, or to another one, is refused', async (t) => {
  claims = { email: office.people.owner, email_verified: true };
  const victim = new Person(office.adminUrl);
  t.equal((await victim.get('/sign-in/oidc/callback?code=x&state=y')).status, 401);
  await victim.get('/sign-in/oidc');
  t.equal((await victim.get('/sign-in/oidc/callback?code=x&state=y')).status, 401);

  const attacker = new Person(office.adminUrl);
  const start = await attacker.get('/sign-in/oidc');
  const back = await fetch(start.headers.get('location') as string, { redirect: 'manual' });
  const { pathname, search } = new URL(back.headers.get('location') as string);
  const forced = new Person(office.adminUrl);
  await forced.get('/sign-in/oidc');
  t.equal(
    (await forced.get(pathname + search)).status,
    401,
    'nobody is signed in as somebody else by a link',
  );
});

t.test('an unreachable provider is reported', async (t) => {
  const away = await startOffice(t, {
    ADMIN_URL: 'http://127.0.0.1:1',
    OIDC_ISSUER: 'http://127.0.0.1:1',
    OIDC_CLIENT_ID: 'tollgate',
  });
  const person = new Person(away.adminUrl);
  const { status, text } = await person.get('/sign-in/oidc');
  t.equal(status, 503);
  t.match(text, 'identity provider cannot be reached');
});
