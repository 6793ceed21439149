import { companyMistake, type Role } from '../domain/user.ts';
import type { Sql } from '../store/connection/pool.ts';
import { usersAfter } from '../store/people/cursor-lists.ts';
import { createUser, findUserById, removeUser, type UserRow } from '../store/people/user.ts';
import type { Call, Operation, PageQuery, Resource } from './operation.ts';
import { get, getOne, pageOf, post, remove } from './operation.ts';
import { wrongAt } from './problem.ts';
import * as schema from './schemas.ts';

const USER: Resource = { table: 'users', param: 'user', find };
const PATH = '/users/{user}';
const company_id = { ...schema.orNull(schema.id), description: 'null: for an operator, and for nobody else' };

export const userOperations: readonly Operation[] = [
  get<PageQuery & { readonly company_id?: string }>('listUsers', '/users', {
    summary: 'List users, ordered by id',
    action: 'user.read',
    query: schema.listQuery({ company_id: schema.id }),
    answer: schema.pageOf(schema.user),
    run: (sql, { query }) => pageOf(query, (range) => usersAfter(sql, query.company_id ?? null, range)),
  }),
  post<{ readonly email: string; readonly role: Role; readonly company_id?: string | null }>('createUser', '/users', {
    summary: 'Create a user without a password, who signs in by OpenID Connect or gets a password later',
    action: 'user.write',
    body: schema.object({ email: schema.email, role: schema.role, company_id }, ['email', 'role']),
    answer: schema.user,
    status: 201,
    run(sql, { body: { email, role, company_id = null } }) {
      const mistake = companyMistake(role, company_id);
      if (mistake !== null) throw wrongAt('#/company_id', mistake);
      return createUser(sql, { email: email.toLowerCase(), role, company_id }, null);
    },
  }),
  getOne('getUser', PATH, USER, { summary: 'Read a user', action: 'user.read', answer: schema.user }),
  remove('removeUser', PATH, {
    summary: 'Remove a user, who is signed out at once. The last operator cannot be removed',
    action: 'user.write',
    resource: USER,
    run: (sql, { params }) => removeUser(sql, params.user as string),
  }),
];

async function find(sql: Sql, { params }: Call): Promise<UserRow> {
  const { company_name: _, ...user } = await findUserById(sql, params.user as string);
  return user;
}
