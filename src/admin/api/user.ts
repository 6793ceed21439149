import * as schema from '../../domain/settings/schema.ts';
import { COMPANY_ROLES } from '../../domain/user.ts';
import { changeRole, createUser, removeUser, removeUserOf } from '../../operations/user.ts';
import { findCompany } from '../../store/company/company.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { companyUsersAfter, usersAfter } from '../../store/lists/cursor.ts';
import { findCompanyUser, findUserById, type UserRow } from '../../store/users/user.ts';
import type { ApiCall, ApiOperation, Resource } from './frame/operation.ts';
import { get, getOne, pageOf, patch, post, remove } from './frame/operation.ts';
import * as resource from './frame/resources.ts';

/** Who may sign in: all users, for operators, and those of one company, for its owners too. */

const USER: Resource = { table: 'users', param: 'user', find };

const PATH = '/users/{user}';

const company_id = { ...schema.orNull(schema.id), description: 'null: for an operator, and for nobody else' };

const role = schema.oneOf(COMPANY_ROLES);

const companyUser = schema.object({
  ...resource.user.properties,
  role,
  last_sign_in_at: { ...schema.orNull(schema.instant), description: 'null: never, or not known' },
});

const COMPANYS = '/companies/{company}/users';

const OF_COMPANY = `${COMPANYS}/{user}`;

const COMPANY_USER: Resource = {
  table: 'users',
  param: 'user',
  find: (sql, { params }) => findCompanyUser(sql, params.company as string, params.user as string),
};

export const userOperations: readonly ApiOperation[] = [
  get('listUsers', '/users', {
    summary: 'List users, ordered by id',
    action: 'user.read',
    query: resource.listQuery({ company_id: schema.id }),
    answer: resource.pageOf(resource.user),
    run: (sql, { query }) => pageOf(query, (range) => usersAfter(sql, query.company_id ?? null, range)),
  }),
  post('createUser', '/users', {
    summary: 'Create a user without a password, who signs in by OpenID Connect or gets a password later',
    action: 'user.write',
    body: schema.object({ email: schema.email, role: resource.role, company_id }, ['email', 'role']),
    answer: resource.user,
    status: 201,
    run: (sql, { body: { company_id = null, ...user } }) => createUser(sql, { ...user, company_id }, null),
  }),
  getOne('getUser', PATH, USER, { summary: 'Read a user', action: 'user.read', answer: resource.user }),
  remove('removeUser', PATH, {
    summary: 'Remove a user, who is signed out at once. The last operator cannot be removed',
    action: 'user.write',
    resource: USER,
    run: (sql, { params }) => removeUser(sql, params.user as string),
  }),
  get('listCompanyUsers', COMPANYS, {
    summary: 'List the users of a company, ordered by id',
    action: 'company-user.read',
    query: resource.listQuery(),
    answer: resource.pageOf(companyUser),
    async run(sql, { params, query }) {
      const { id } = await findCompany(sql, params.company as string);
      return pageOf(query, (range) => companyUsersAfter(sql, id, range));
    },
  }),
  getOne('getCompanyUser', OF_COMPANY, COMPANY_USER, {
    summary: 'Read a user of a company',
    action: 'company-user.read',
    answer: companyUser,
  }),
  patch('changeCompanyUser', OF_COMPANY, {
    summary: "Change the role of a user of a company. A company's token leaves it an owner",
    action: 'company-user.write',
    body: schema.object({ role }),
    answer: companyUser,
    resource: COMPANY_USER,
    async run(sql, call) {
      const { company = '', user = '' } = call.params;
      await changeRole(sql, call, company, user, call.body.role);
      return COMPANY_USER.find(sql, call);
    },
  }),
  remove('removeCompanyUser', OF_COMPANY, {
    summary: "Remove a user of a company, who is signed out at once. A company's token leaves it an owner",
    action: 'company-user.write',
    resource: COMPANY_USER,
    run: (sql, call) => removeUserOf(sql, call, call.params.company as string, call.params.user as string),
  }),
];

async function find(sql: Sql, { params }: ApiCall): Promise<UserRow> {
  const { company_name: _, ...user } = await findUserById(sql, params.user as string);
  return user;
}
