import t from 'tap';
import { readGroups, tellsGroups } from '../../../src/admin/sign-in/group-claim.ts';

/** Groups as providers tell them. */

const MISSING = 'the provider tells no groups in the claim groups';

t.test('a list of texts and one text are groups', async (t) => {
  for (const [claims, names] of [
    [{ groups: ['a', 'b', 'a'] }, ['a', 'b']],
    [{ groups: 'staff' }, ['staff']],
    [{ groups: 'a,b c' }, ['a,b c']],
    [{ groups: ['/acme/admins', ' a', 'A', 'a'] }, ['/acme/admins', ' a', 'A', 'a']],
  ] as const)
    t.same(readGroups(claims, 'groups'), { names, lack: '' }, JSON.stringify(claims));
});

t.test(
  'a claim is found by its whole name first, then by a path, and never beyond the claims',
  async (t) => {
    const keycloak = { realm_access: { roles: ['operators'] } };
    t.same(readGroups(keycloak, 'realm_access.roles').names, ['operators']);
    const resource = { resource_access: { tollgate: { roles: ['x'] } } };
    t.same(readGroups(resource, 'resource_access.tollgate.roles').names, ['x']);
    const auth0 = { 'https://acme.example/groups': ['a'] };
    t.same(readGroups(auth0, 'https://acme.example/groups').names, ['a']);
    t.same(readGroups({ ...keycloak, 'realm_access.roles': ['b'] }, 'realm_access.roles').names, [
      'b',
    ]);
    for (const path of [
      'constructor.name',
      '__proto__',
      'toString',
      'groups.length',
      'groups.0',
      'groups.constructor.name',
      '.',
      '..',
      'groups.',
    ]) {
      const read = readGroups({ groups: 'staff' }, path);
      t.same(read.names, [], path);
      t.equal(tellsGroups({ groups: 'staff' }, path), false, path);
    }
  },
);

t.test(
  'a claim that is missing, empty or null means no groups: Keycloak and Entra leave out an empty one',
  async (t) => {
    for (const claims of [
      {},
      { groups: [] },
      { groups: '' },
      { groups: null },
      { realm_access: {} },
    ])
      t.same(readGroups(claims, 'groups'), { names: [], lack: MISSING }, JSON.stringify(claims));
    t.equal(tellsGroups({ groups: [] }, 'groups'), true);
    t.equal(tellsGroups({ groups: null }, 'groups'), false);
  },
);

t.test('a claim of another form says nothing that anybody can know', async (t) => {
  for (const groups of [{ a: true }, 7, true, { length: 1, 0: 'a' }]) {
    const lack = 'the claim groups is neither a list nor a text';
    t.same(readGroups({ groups }, 'groups'), { names: null, lack }, JSON.stringify(groups));
  }
});

t.test('what could be no name of a group here is none', async (t) => {
  const groups = [
    'a',
    '',
    7,
    null,
    { name: 'b' },
    ['c'],
    'd\0',
    '\ud800',
    'e'.repeat(401),
    '𝒜'.repeat(200),
  ];
  t.same(readGroups({ groups }, 'groups').names, ['a', '𝒜'.repeat(200)]);
  const many = Array.from({ length: 100_000 }, (_, n) => `group ${n}`);
  t.equal(readGroups({ groups: many }, 'groups').names?.length, 100_000);
  t.same(readGroups({ groups: 'x'.repeat(1_000_000) }, 'groups').names, []);
});

t.test('Entra leaves groups out where there are too many, and says so', async (t) => {
  const sources = {
    _claim_sources: {
      src1: { endpoint: 'https://graph.microsoft.com/v1.0/users/x/getMemberObjects' },
    },
  };
  const overage = { _claim_names: { groups: 'src1' }, ...sources };
  for (const claims of [overage, { hasgroups: true }]) {
    const { names, lack } = readGroups(claims, 'groups');
    t.equal(names, null);
    t.match(lack, 'too many');
    t.equal(tellsGroups(claims, 'groups'), true);
  }
  t.same(
    readGroups({ ...overage, roles: ['Admin'] }, 'roles').names,
    ['Admin'],
    'roles are told all the same',
  );
  t.same(readGroups({ ...overage, groups: ['a'] }, 'groups').names, ['a']);
  t.same(readGroups({ hasgroups: 'true' }, 'groups').names, []);
});
