import t from 'tap';
import { insertInvitation } from '../../../src/store/users/invitation.ts';
import { freePort } from '../../support/port.ts';
import { until } from '../../support/until.ts';
import { type Page, Person, signedIn, startOffice, textOf } from '../people.ts';
import { startOidcOffice } from './provider.ts';

/** Groups of the identity provider give roles at sign-in, and take them away. The provider is in this process. */

const { provider, issuer, office } = await startOidcOffice(t, {
  OIDC_SCOPE: 'openid email groups',
  OIDC_GROUPS_CLAIM: 'groups',
});
const { sql } = office;
const { company } = office.customer;
const { company: other } = await office.newCustomer();
let claims: Record<string, unknown> = {};
let userinfo: Record<string, unknown> = { sub: 'johndoe' };
let asked = 0;
provider.service.on('beforeTokenSigning', (token) => Object.assign(token.payload, claims));
provider.service.on('beforeUserinfo', (response) => {
  asked++;
  response.body = userinfo;
});

for (const [name, role, at] of [
  ['/staff', 'member', company],
  ['/admins', 'administrator', company],
  ['/owners', 'owner', company],
  ['/elsewhere', 'owner', other],
  ['/operators', 'operator', null],
] as const)
  await sql`insert into oidc_groups (name, role, company_id) values (${name}, ${role}, ${at})`;

/** Signs in by the provider with these groups, as whatever it tells besides. */
async function signIn(
  email: string,
  groups: unknown,
  person = new Person(office.adminUrl),
): Promise<[Person, Page]> {
  claims = { email, email_verified: true, ...(groups === undefined ? {} : { groups }) };
  const start = await person.get('/sign-in/oidc');
  const back = await fetch(start.headers.get('location') as string, { redirect: 'manual' });
  const { pathname, search } = new URL(back.headers.get('location') as string);
  return [person, await person.get(pathname + search)];
}

async function held(email: string) {
  const [row] = await sql`select role, company_id, oidc_group from users where email = ${email}`;
  return row ?? null;
}

/** What the audit log tells of somebody. */
async function audited(email: string) {
  const rows = await sql<
    { actor: string; action: string; company_id: string | null; role: string[]; group: string[] }[]
  >`
    select actor, action, company_id, json_build_array(before ->> 'role', after ->> 'role') as role,
      json_build_array(before ->> 'oidc_group', after ->> 'oidc_group') as group
    from audit_log where subject = 'users' and coalesce(after, before) ->> 'email' = ${email} order by id`;
  return [...rows];
}

async function refused([person, { status, text }]: [Person, Page], said: string): Promise<void> {
  t.equal(status, 403);
  t.match(textOf(text), said);
  t.equal((await person.get('/account')).status, 303, 'nobody is signed in');
}

async function logged(reason: string): Promise<void> {
  await until(
    async () => office.logged.join(),
    reason,
    (lines) => lines.includes(reason),
  );
}

const LOST = 'None of your groups at the identity provider gives you an account here any more.';

t.test(
  'the first sign-in of somebody in a group makes the account, and the scope is asked for',
  async (t) => {
    const start = await new Person(office.adminUrl).get('/sign-in/oidc');
    t.equal(
      new URL(start.headers.get('location') as string).searchParams.get('scope'),
      'openid email groups',
    );
    const [ann, { status, headers }] = await signIn('Ann@new.example', ['/unmapped', '/admins']);
    t.match([status, headers.get('location')], [303, '/']);
    t.same(await held('ann@new.example'), {
      role: 'administrator',
      company_id: company,
      oidc_group: '/admins',
    });
    t.match(
      textOf(await ann.get('/account')),
      'ann@new.example, administrator of Nordlicht Verlag',
    );
    t.equal((await ann.get(`/companies/${company}/keys`)).status, 200);
    t.equal((await ann.get(`/companies/${other}/keys`)).status, 404);
    t.same(await audited('ann@new.example'), [
      {
        actor: 'ann@new.example',
        action: 'insert',
        company_id: company,
        role: [null, 'administrator'],
        group: [null, '/admins'],
      },
    ]);
  },
);

t.test(
  'a role rises and falls with the groups, at each sign-in and for every session',
  async (t) => {
    const email = 'rob@new.example';
    const [first] = await signIn(email, '/staff');
    t.equal((await first.get(`/companies/${company}/keys`)).status, 403, 'a member');
    await signIn(email, ['/staff', '/owners', '/admins']);
    t.same(await held(email), { role: 'owner', company_id: company, oidc_group: '/owners' });
    t.equal(
      (await first.get(`/companies/${company}/users`)).status,
      200,
      'the session before has the new role',
    );
    await signIn(email, ['/admins', '/staff']);
    t.equal((await first.get(`/companies/${company}/users`)).status, 403);
    t.equal((await first.get(`/companies/${company}/keys`)).status, 200);
    await signIn(email, ['/staff', '/admins']);
    t.same(
      (await audited(email)).map(({ role }) => role),
      [
        [null, 'member'],
        ['member', 'owner'],
        ['owner', 'administrator'],
      ],
      'a sign-in that changes nothing leaves no entry',
    );
  },
);

t.test(
  'groups that are gone take the account away, and its sessions end at their next request',
  async (t) => {
    for (const [email, groups] of [
      ['gone1@new.example', ['/other']],
      ['gone2@new.example', []],
      ['gone3@new.example', undefined], // how Keycloak and Entra tell none
    ] as const) {
      const [open] = await signIn(email, ['/owners']);
      t.equal((await open.get(`/companies/${company}/users`)).status, 200);
      await refused(await signIn(email, groups), LOST);
      t.equal(await held(email), null);
      t.equal((await open.get(`/companies/${company}/users`)).status, 303, 'the session has ended');
      t.match((await audited(email)).at(-1), {
        actor: email,
        action: 'delete',
        role: ['owner', null],
        group: ['/owners', null],
      });
      await refused(
        await signIn(email, groups),
        'there is no account for your verified e-mail address here, and none of your groups',
      );
      await signIn(email, ['/staff']);
      t.equal((await held(email))?.role, 'member', 'and a group brings it back');
    }
    await logged(
      'the groups that gave the account are gone: the provider tells no groups in the claim groups',
    );
  },
);

t.test('even the last operator by a group', async (t) => {
  await sql`update users set role = 'member', company_id = ${company} where email = ${office.people.operator}`;
  t.teardown(
    () =>
      sql`update users set role = 'operator', company_id = null where email = ${office.people.operator}`,
  );
  const [olaf] = await signIn('olaf@new.example', ['/staff', '/elsewhere', '/operators']);
  t.equal((await olaf.get('/companies')).status, 200, 'an operator needs no company');
  await refused(await signIn('olaf@new.example', ['/nothing']), LOST);
  t.equal((await olaf.get('/companies')).status, 303);
});

t.test('two companies', async (t) => {
  const email = 'mara@new.example';
  const [open] = await signIn(email, ['/admins']);
  const message = 'Your groups “/elsewhere” and “/admins” lead to different companies here';
  await refused(await signIn(email, ['/admins', '/elsewhere']), message);
  t.equal((await held(email))?.role, 'administrator', 'nothing is taken away');
  t.equal((await open.get(`/companies/${company}/keys`)).status, 200);
  await refused(await signIn('both@new.example', ['/admins', '/elsewhere']), message);
  t.equal(await held('both@new.example'), null);

  const [moved] = await signIn(email, ['/elsewhere']);
  t.same(await held(email), { role: 'owner', company_id: other, oidc_group: '/elsewhere' });
  t.equal(
    (await open.get(`/companies/${company}/keys`)).status,
    303,
    'the session in the other company has ended',
  );
  t.equal((await moved.get(`/companies/${company}/keys`)).status, 404);
  t.same(
    (await audited(email)).map(({ action, company_id }) => [action, company_id]),
    [
      ['insert', company],
      ['delete', company],
      ['insert', other],
    ],
    'each company has its own entry',
  );
  const owner = await signedIn(office, 'owner');
  for (const page of ['users', 'audit', 'users?q=elsewhere', 'audit?q=elsewhere']) {
    const text = (await owner.get(`/companies/${company}/${page}`)).text.replaceAll(
      /value="[^"]*"/g,
      '',
    );
    t.notMatch(text, '/elsewhere', `${page} of one company names no group of another`);
  }
  t.equal((await owner.get('/groups')).status, 403);
  t.notMatch((await owner.get(`/companies/${company}/audit`)).text, '/operators');
});

t.test('an account that was made by hand stays as it is', async (t) => {
  for (const groups of [
    ['/owners'],
    ['/elsewhere'],
    ['/operators'],
    [],
    undefined,
    ['/admins', '/elsewhere'],
    { odd: true },
  ]) {
    const [mila, { status }] = await signIn(office.people.member, groups);
    t.equal(status, 303, JSON.stringify(groups));
    t.same(await held(office.people.member), {
      role: 'member',
      company_id: company,
      oidc_group: null,
    });
    t.equal((await mila.get(`/companies/${company}/keys`)).status, 403);
  }
  const invitation = {
    company_id: company,
    email: 'ina@new.example',
    role: 'owner',
    created_by: 'test',
  } as const;
  const { token } = await insertInvitation(sql, invitation);
  claims = { email: 'ina@new.example', email_verified: true, groups: ['/staff'] };
  const ina = new Person(office.adminUrl);
  const start = await ina.get(`/sign-in/oidc?invitation=${token}`);
  const back = new URL(
    (await fetch(start.headers.get('location') as string, { redirect: 'manual' })).headers.get(
      'location',
    ) as string,
  );
  t.equal((await ina.get(back.pathname + back.search)).status, 303);
  t.same(
    await held('ina@new.example'),
    { role: 'owner', company_id: company, oidc_group: null },
    'so does an invitation',
  );
});

t.test(
  'a mapping that is changed or removed holds at the next request of open sessions',
  async (t) => {
    await sql`insert into oidc_groups (name, role, company_id) values ('/passing', 'member', ${company})`;
    const operator = await signedIn(office, 'operator');
    const [{ id }] = await sql<
      [{ id: string }]
    >`select id from oidc_groups where name = '/passing'`;
    const [pia] = await signIn('pia@new.example', ['/passing']);
    const keys = async () => (await pia.get(`/companies/${company}/keys`)).status;
    t.equal(await keys(), 403);
    t.equal((await operator.post(`/groups/${id}`, { role: 'administrator' })).status, 303);
    t.equal(await keys(), 200, 'a higher role');
    t.match(
      textOf(await operator.get(`/groups/${id}/remove`)),
      '/passing gives the role administrator of Nordlicht Verlag to 1 user.',
    );
    t.equal((await operator.post(`/groups/${id}/remove`)).status, 303);
    t.equal(await keys(), 303, 'nobody');
    t.equal(await held('pia@new.example'), null);
    t.match(await audited('pia@new.example'), [
      { action: 'insert', actor: 'pia@new.example' },
      { action: 'update', actor: office.people.operator, role: ['member', 'administrator'] },
      { action: 'delete', actor: office.people.operator, group: ['/passing', null] },
    ]);
    const told =
      await sql`select actor, action, before ->> 'role' as before, after ->> 'role' as after from audit_log
    where subject = 'oidc_groups' and subject_id = ${id} order by id`;
    t.match(told.slice(1), [
      { actor: office.people.operator, action: 'update', before: 'member', after: 'administrator' },
      { actor: office.people.operator, action: 'delete', before: 'administrator' },
    ]);

    await sql`insert into oidc_groups (name, role, company_id) values ('/moving', 'owner', ${company})`;
    const [mo] = await signIn('mo@new.example', ['/moving']);
    await sql`update oidc_groups set name = '/moved' where name = '/moving'`;
    t.equal((await held('mo@new.example'))?.oidc_group, '/moved');
    await sql`update oidc_groups set company_id = ${other} where name = '/moved'`;
    t.equal((await mo.get('/account')).status, 303, 'plain SQL too');
  },
);

t.test(
  'groups of userinfo count where the identity token has none, and address and groups may be apart',
  async (t) => {
    t.teardown(() => {
      userinfo = { sub: 'johndoe' };
    });
    asked = 0;
    userinfo = {
      sub: 'johndoe',
      groups: ['/admins'],
      email: 'evil@new.example',
      email_verified: true,
    };
    await signIn('uta@new.example', undefined);
    t.equal((await held('uta@new.example'))?.role, 'administrator');
    t.equal(await held('evil@new.example'), null, 'the address is that of the identity token');
    t.equal(asked, 1);
    await signIn('uta@new.example', ['/staff']);
    t.equal(asked, 1, 'nobody asks userinfo when the token has all');
    t.equal((await held('uta@new.example'))?.role, 'member');
  },
);

t.test('groups that nobody can know give nothing and take nothing away', async (t) => {
  const email = 'eve@new.example';
  const [open] = await signIn(email, ['/owners']);
  const said = 'does not tell which groups you are in';
  for (const groups of [{ a: 1 }, 5, true]) await refused(await signIn(email, groups), said);
  await logged('the claim groups is neither a list nor a text');
  const overage = {
    _claim_names: { groups: 'src1' },
    _claim_sources: { src1: { endpoint: 'https://graph.example' } },
  };
  const tell = (token: { payload: Record<string, unknown> }) =>
    Object.assign(token.payload, overage);
  provider.service.on('beforeTokenSigning', tell);
  await refused(await signIn(email, undefined), said);
  await refused(await signIn('stranger@new.example', undefined), said);
  provider.service.off('beforeTokenSigning', tell);
  await logged('OIDC_GROUPS_CLAIM=roles');
  t.equal((await held(email))?.role, 'owner');
  t.equal((await open.get(`/companies/${company}/users`)).status, 200);
});

t.test('hostile groups give nothing', async (t) => {
  for (const groups of [
    [
      '/ADMINS',
      '/Admins',
      'admins',
      '/admins ',
      ' /admins',
      '/admins\0',
      '/admins/',
      '/ａdmins',
      '/admins\u200b',
    ],
    Array.from({ length: 10_000 }, (_, n) => `group ${n}`),
    ['x'.repeat(100_000), "' or true --", '{/admins}', '%', '\ud800/admins'],
    [{ name: '/admins' }, ['/admins'], null, 1, { toString: '/admins' }],
    '/admins,/owners',
  ]) {
    await refused(await signIn('mallory@new.example', groups), 'none of your groups gives you one');
    t.equal(await held('mallory@new.example'), null);
  }
  await signIn('many@new.example', [
    ...Array.from({ length: 10_000 }, (_, n) => `group ${n}`),
    '/staff',
  ]);
  t.equal((await held('many@new.example'))?.role, 'member', 'one of ten thousand');
  for (const email of [
    '',
    'no address',
    'a\0b@new.example',
    'a\u200bb@new.example',
    `${'x'.repeat(300)}@new.example`,
  ])
    await refused(await signIn(email, ['/owners']), 'there is no account');
});

t.test('an address that the provider does not confirm gets nothing by its groups', async (t) => {
  for (const [unsure, status] of [
    [{ email_verified: false }, 403],
    [{ email_verified: undefined }, 403],
    [{ email_verified: false, xms_edov: true }, 403],
    [{ email_verified: undefined, xms_edov: false }, 403],
    [{ email_verified: undefined, xms_edov: '0' }, 403],
    // as Entra tells it, in several forms
    [{ email_verified: undefined, xms_edov: true }, 303],
    [{ email_verified: undefined, xms_edov: '1' }, 303],
  ] as const) {
    const spoil = (token: { payload: Record<string, unknown> }) =>
      Object.assign(token.payload, unsure);
    provider.service.on('beforeTokenSigning', spoil);
    const [, page] = await signIn('una@new.example', ['/staff']);
    provider.service.off('beforeTokenSigning', spoil);
    t.equal(page.status, status, JSON.stringify(unsure));
    t.equal((await held('una@new.example')) === null, status === 403);
  }
});

t.test('of two first sign-ins at once the second waits, and both are signed in', async (t) => {
  const email = 'twin@new.example';
  const { promise: isOver, resolve: commit } = Promise.withResolvers<void>();
  const first = sql.begin(async (sql) => {
    await sql`select pg_advisory_xact_lock(hashtextextended(${`sign-in of ${email}`}, 0))`;
    await sql`insert into users (email, role, company_id, oidc_group) values (${email}, 'member', ${company}, '/staff')`;
    await isOver;
  });
  const second = signIn(email, ['/staff']);
  const waiting = () =>
    sql`select from pg_stat_activity where datname = current_database() and wait_event = 'advisory'`;
  await until(waiting, 'the second waits', ({ length }) => length > 0);
  commit();
  await first;
  const [twin, { status }] = await second;
  t.equal(status, 303);
  t.equal((await twin.get('/account')).status, 200);
});

t.test(
  'whoever has a role by a group has no password, and no role by hand; whoever is removed comes back',
  async (t) => {
    const email = 'petra@new.example';
    const [petra] = await signIn(email, ['/staff']);
    const [{ id }] = await sql<[{ id: string }]>`select id from users where email = ${email}`;
    const owner = await signedIn(office, 'owner');
    const operator = await signedIn(office, 'operator');
    const people = `/companies/${company}/users`;
    const list = await owner.get(`${people}?q=petra`);
    t.match(textOf(list), 'member by the group /staff');
    t.notMatch(list.text, `href="${people}/${id}"`, 'there is no role to change');
    t.match(
      textOf(await owner.get(`${people}/${id}`)),
      'is member by the group /staff of the identity provider',
    );
    const change = await owner.post(`${people}/${id}`, { role: 'owner' });
    t.match(
      [change.status, textOf(change)],
      [422, 'by a group of the identity provider, “/staff”: change it there.'],
    );
    const password = await operator.post(`/users/${id}/password`, {
      password: 'correct horse battery staple',
    });
    t.match([password.status, textOf(password)], [422, 'There is no password to set.']);
    t.notMatch((await operator.get(`/users/${id}`)).text, 'type="password"');
    t.match(textOf(await operator.get('/users?q=petra')), 'member by the group /staff');
    t.equal((await held(email))?.role, 'member');

    t.match(
      textOf(await owner.get(`${people}/${id}/remove`)),
      'comes back at the next sign-in, unless',
    );
    t.equal((await owner.post(`${people}/${id}/remove`)).status, 303);
    t.equal((await petra.get('/account')).status, 303, 'signed out at once');
    await signIn(email, ['/staff']);
    t.equal((await held(email))?.role, 'member');
  },
);

t.test(
  'in a closed company groups change nothing, and what they take away is not given',
  async (t) => {
    const { company: closed } = await office.newCustomer();
    await sql`insert into oidc_groups (name, role, company_id) values ('/closed', 'owner', ${closed}), ('/closed staff', 'member', ${closed})`;
    const [open] = await signIn('cleo@new.example', ['/closed']);
    await sql`update companies set closed_at = now() where id = ${closed}`;
    const [again] = await signIn('cleo@new.example', ['/closed']);
    t.equal((await again.get(`/companies/${closed}/users`)).status, 200, 'its people may read');
    await refused(await signIn('cleo@new.example', ['/closed staff']), 'The company was closed on');
    t.equal((await open.get(`/companies/${closed}/users`)).status, 303, 'the sessions have ended');
    await refused(await signIn('cleo@new.example', []), 'The company was closed on');
    await refused(await signIn('new-here@new.example', ['/closed']), 'The company was closed on');
  },
);

t.test('where groups are not read, accounts by group are not signed in', async (t) => {
  const adminPort = String(await freePort());
  const without = await startOffice(t, {
    ADMIN_PORT: adminPort,
    ADMIN_URL: `http://127.0.0.1:${adminPort}`,
    OIDC_ISSUER: issuer,
    OIDC_CLIENT_ID: 'tollgate',
  });
  const at = without.customer.company;
  await without.sql`insert into oidc_groups (name, role, company_id) values ('/owners', 'owner', ${at})`;
  await without.sql`insert into users (email, role, company_id, oidc_group) values ('wim@new.example', 'owner', ${at}, '/owners')`;
  const [, known] = await signIn('wim@new.example', ['/owners'], new Person(without.adminUrl));
  t.match([known.status, textOf(known)], [403, 'this service reads no groups now']);
  const [, stranger] = await signIn('new@new.example', ['/owners'], new Person(without.adminUrl));
  t.match(
    [stranger.status, textOf(stranger)],
    [403, 'there is no account for your verified e-mail address here.'],
  );
  const operator = await signedIn(without, 'operator');
  t.match(
    textOf(await operator.get('/groups')),
    'Groups give nothing now: OIDC_GROUPS_CLAIM is not set.',
  );
});
