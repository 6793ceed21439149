import * as schema from '../../domain/settings/schema.ts';
import { COMPANY_ROLES } from '../../domain/user.ts';
import { changeRole, createUser, removeUser, removeUserOf } from '../../operations/user.ts';
import {
  companyUsersAfter,
  findCompanyUser,
  findUserById,
  USER,
  usersAfter,
} from '../../store/users/user.ts';
import { noun } from './frame/noun.ts';

const company_id = {
  ...schema.orNull(schema.id),
  description: 'null: for an operator, and for nobody else',
};

const role = schema.oneOf(COMPANY_ROLES);

const companyUser = schema.object({
  ...USER.properties,
  role,
  last_sign_in_at: { ...schema.orNull(schema.instant), description: 'null: never, or not known' },
});

const users = noun({
  name: 'User',
  path: '/users',
  param: 'user',
  table: 'users',
  answer: USER,
  reads: 'user.read',
  writes: 'user.write',
  async find(sql, _owner, id) {
    const { company_name: _, ...user } = await findUserById(sql, id);
    return user;
  },
});

const companyUsers = noun({
  name: 'CompanyUser',
  path: '/companies/{company}/users',
  param: 'user',
  table: 'users',
  answer: companyUser,
  reads: 'company-user.read',
  writes: 'company-user.write',
  find: (sql, company, id) => findCompanyUser(sql, id, company),
});

/** Who may sign in: all users, for operators, and those of one company, for its owners too. */
export const userOperations = [
  users.list({
    summary: 'List users, ordered by id',
    filters: { company_id: schema.id },
    read: (sql, { query: { company_id = null } }, range) => usersAfter(sql, company_id, range),
  }),
  users.create({
    summary:
      'Create a user without a password, who signs in by OpenID Connect or gets a password later',
    body: schema.object({ email: schema.email, role: USER.properties.role, company_id }, [
      'email',
      'role',
    ]),
    run: (sql, { body: { company_id = null, ...user } }) =>
      createUser(sql, { ...user, company_id }, null),
  }),
  users.get('Read a user'),
  users.remove({
    summary: 'Remove a user, who is signed out at once. The last operator cannot be removed',
    run: (sql, _call, _owner, id) => removeUser(sql, id),
  }),
  companyUsers.list({
    summary: 'List the users of a company, ordered by id',
    read: (sql, _call, range, company) => companyUsersAfter(sql, company, range),
  }),
  companyUsers.get('Read a user of a company'),
  companyUsers.change({
    summary: "Change the role of a user of a company. A company's token leaves it an owner",
    body: schema.object({ role }),
    async run(sql, call, company, id) {
      await changeRole(sql, call, company, id, call.body.role);
      return findCompanyUser(sql, id, company);
    },
  }),
  companyUsers.remove({
    summary:
      "Remove a user of a company, who is signed out at once. A company's token leaves it an owner",
    run: (sql, call, company, id) => removeUserOf(sql, call, company, id),
  }),
];
