import t from 'tap';
import { givenByGroups } from '../../src/operations/group.ts';

t.test(
  'of several groups of a company the highest role counts; operators need no other',
  async (t) => {
    const [a, b] = [{ company_id: 'a' }, { company_id: 'b' }];
    const member = { name: 'all', role: 'member', ...a } as const;
    const admin = { name: 'admins', role: 'administrator', ...a } as const;
    const also = { name: 'also admins', role: 'administrator', ...a } as const;
    const owner = { name: 'owners', role: 'owner', ...b } as const;
    const operator = { name: 'ops', role: 'operator', company_id: null } as const;
    t.equal(givenByGroups([]), null);
    t.equal(givenByGroups([member]), member);
    t.equal(givenByGroups([member, admin]), admin);
    for (const both of [
      [also, admin],
      [admin, also],
    ] as const)
      t.equal(givenByGroups(both), admin, 'whatever their order');
    t.same(givenByGroups([member, admin, owner]), [owner, admin], 'two companies');
    t.equal(givenByGroups([member, owner, operator]), operator);
  },
);
