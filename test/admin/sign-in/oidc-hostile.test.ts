import { OAuth2Server } from 'oauth2-mock-server';
import t from 'tap';
import { Person } from '../people.ts';
import { startOidcOffice } from './provider.ts';

/** OpenID Connect against an issuer, or somebody in between, that lies. Nobody is signed in. */

const { provider, issuer, office } = await startOidcOffice(t);
const HONEST = { email: office.people.owner, email_verified: true };
let claims: Record<string, unknown> = HONEST;
let tokenRequests = 0;
provider.service.on('beforeTokenSigning', ({ payload }) => Object.assign(payload, claims));
provider.service.on('beforeResponse', () => {
  tokenRequests++;
});

/** Begins an attempt and lets the provider answer it. @returns the path that the browser is sent to */
async function asked(person: Person): Promise<URL> {
  const { headers } = await person.get('/sign-in/oidc');
  const back = await fetch(headers.get('location') as string, { redirect: 'manual' });
  return new URL(back.headers.get('location') as string);
}
const follow = (person: Person, { pathname, search }: URL) => person.get(pathname + search);
const isSignedIn = async (person: Person): Promise<boolean> =>
  (await person.get('/account')).status === 200;

t.test('an honest answer signs in', async (t) => {
  const person = new Person(office.adminUrl);
  t.equal((await follow(person, await asked(person))).status, 303);
  t.ok(await isSignedIn(person));
});

const LIES: Record<string, Record<string, unknown>> = {
  'another issuer': { iss: 'https://evil.example' },
  'the issuer with a slash': { iss: `${issuer}/` },
  'no issuer': { iss: undefined },
  'another nonce': { nonce: 'x'.repeat(43) },
  'no nonce': { nonce: undefined },
  'another audience': { aud: 'another-client' },
  'two audiences, authorized for the other': { aud: ['tollgate', 'other'], azp: 'other' },
  'an ended token': { exp: 1000, iat: 900 },
  'a token of the future': { nbf: Math.floor(Date.now() / 1000) + 3600 },
  'no subject': { sub: undefined },
};

t.test('an identity token that is not for this attempt', async (t) => {
  for (const [name, lie] of Object.entries(LIES)) {
    claims = { ...HONEST, ...lie };
    const person = new Person(office.adminUrl);
    t.equal((await follow(person, await asked(person))).status, 401, name);
    t.notOk(await isSignedIn(person), name);
  }
  claims = HONEST;
});

t.test('mix-up: the answer names another issuer', async (t) => {
  const person = new Person(office.adminUrl);
  const back = await asked(person);
  back.searchParams.set('iss', 'https://evil.example');
  const before = tokenRequests;
  t.equal((await follow(person, back)).status, 401);
  t.equal(tokenRequests, before, 'the code was given to nobody');
  t.notOk(await isSignedIn(person));
});

t.test('a token that somebody else signed, or nobody', async (t) => {
  const forge = (change: (token: string) => string) =>
    provider.service.once('beforeResponse', (response) => {
      const body = response.body as Record<string, unknown>;
      body.id_token = change(String(body.id_token));
    });
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
  const other = new OAuth2Server();
  await other.issuer.keys.generate('RS256');
  other.issuer.url = issuer;
  const foreign = await other.issuer.buildToken({
    scopesOrTransform: (_header, payload) =>
      Object.assign(payload, { ...HONEST, aud: 'tollgate', sub: 'x' }),
  });
  const forgeries: Record<string, (token: string) => string> = {
    'a key of somebody else': () => foreign,
    'no signature': (token) => `${encoded({ alg: 'none' })}.${token.split('.')[1]}.`,
    'claims changed after signing': (token) => {
      const [header, payload = '', signature] = token.split('.');
      const read = JSON.parse(Buffer.from(payload, 'base64url').toString());
      return `${header}.${encoded({ ...read, email: office.people.operator })}.${signature}`;
    },
    'no token': () => '',
  };
  const signedInAs: Record<string, string> = {};
  for (const [name, change] of Object.entries(forgeries)) {
    forge(change);
    const person = new Person(office.adminUrl);
    await follow(person, await asked(person));
    if (await isSignedIn(person)) signedInAs[name] = (await person.get('/account')).text;
  }
  t.same(signedInAs, {});
});

t.test('a code is good once, for the browser that began, in its own attempt', async (t) => {
  const person = new Person(office.adminUrl);
  const back = await asked(person);
  const [name, attempt] = [...person.cookies].find(([name]) =>
    name.startsWith('tollgate-oidc'),
  ) as [string, string];
  t.equal((await follow(person, back)).status, 303);
  t.equal(
    (await follow(new Person(office.adminUrl), back)).status,
    401,
    'replayed without the attempt',
  );
  const thief = new Person(office.adminUrl);
  thief.cookies.set(name, attempt);
  t.equal(
    (await follow(thief, back)).status,
    401,
    'replayed with it: the provider takes a code once',
  );

  const victim = new Person(office.adminUrl);
  const own = await asked(victim);
  const attacker = new Person(office.adminUrl);
  const foreign = await asked(attacker);
  own.searchParams.set('code', foreign.searchParams.get('code') as string);
  t.equal(
    (await follow(victim, own)).status,
    401,
    'the code of another attempt: PKCE does not fit',
  );
  t.notOk(await isSignedIn(victim));

  const twice = new Person(office.adminUrl);
  const first = await asked(twice);
  const second = await asked(twice);
  const mixed = new URL(first);
  mixed.searchParams.set('code', second.searchParams.get('code') as string);
  t.equal(
    (await follow(twice, mixed)).status,
    401,
    'the code of another attempt of the same browser',
  );
  t.equal((await follow(twice, first)).status, 401, 'and that one has ended');
  t.notOk(await isSignedIn(twice));
});
