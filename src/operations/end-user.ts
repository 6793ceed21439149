import { refusal, throwConflict } from '../domain/refusal.ts';
import { SUMS } from '../domain/reports/usage-change.ts';
import { END_USER_BUDGET, type EndUserBudget } from '../domain/settings/end-user.ts';
import * as schema from '../domain/settings/schema.ts';
import { schemasOf } from '../domain/settings/setting.ts';
import { findCompany } from '../store/company/company.ts';
import {
  type EndUserRow,
  eraseEndUserName,
  findEndUser,
  PERSON,
  pageOfEndUsers,
  updateEndUser,
} from '../store/company/end-user.ts';
import { lockRow } from '../store/company/last-change.ts';
import type { Sql } from '../store/connection/pool.ts';
import { leaveCompany } from '../store/connection/tenant-role.ts';
import { readEndUserMonth, readUsageByEndUser } from '../store/usage/end-user.ts';
import { noun } from './frame/noun.ts';
import { type Call, get } from './frame/row.ts';

/**
 * Erases the name of a person behind a key: who comes with it again is somebody new. What the person cost stays, by an id
 * that nothing leads to. Somebody who was erased already stays so.
 * @param company if given, people of other companies count as not found
 * @throws Refused missing
 */
export async function eraseEndUser(
  sql: Sql,
  id: string,
  company: string | null,
): Promise<EndUserRow> {
  const { company_id } = await findEndUser(sql, id, company);
  if (company !== null) await leaveCompany(sql);
  await eraseEndUserName(sql, id);
  return findEndUser(sql, id, company_id);
}

/**
 * Gives a person a budget of a month, in place of what each key lets its end users cost, or takes it away: null. A key that
 * bounds nobody does not bound this person either.
 * @param company as of `eraseEndUser`
 * @throws Refused missing, or conflict: the name is erased
 */
export async function changeEndUser(
  sql: Sql,
  id: string,
  company: string | null,
  changes: EndUserBudget,
): Promise<EndUserRow> {
  await lockRow(sql, 'end_users', id);
  const { name } = await findEndUser(sql, id, company);
  if (name === null) throwConflict('end user', refusal('endUserErased'));
  return updateEndUser(sql, id, company, changes);
}

const { id, name, erased_at } = PERSON.properties;
const { properties: sums } = SUMS;
const MOST = 1000;
const month = { ...schema.month, description: 'a month such as 2026-11; default: the present one' };
const query = schema.object({ month }, []);
type Query = schema.Value<typeof query>;

/** The people behind the keys of a company that name them. Whoever holds such a key can name anybody. */
const endUsers = noun({
  name: 'EndUser',
  path: '/companies/{company}/end-users',
  param: 'end_user',
  table: 'end_users',
  answer: PERSON,
  reads: 'end-user.read',
  writes: 'end-user.erase',
  find: (sql, { company, id }) => findEndUser(sql, id, company),
  command: { noun: 'end-user', operand: 'END_USER_ID' },
});

export const endUserOperations = [
  endUsers.list({
    summary:
      'List the people behind keys that name them, those that were erased too, ordered by id',
    read: (sql, { company }, range) => pageOfEndUsers(sql, company, range),
    command: {
      notes:
        'Whoever holds such a key can name anybody. "tollgate usage summary --by end-user" has what each cost.',
      async all(sql, { company = '' }) {
        const range = { after: null, limit: Number.MAX_SAFE_INTEGER - 1 };
        return (await pageOfEndUsers(sql, company, range)).rows;
      },
      columns: [
        'id',
        'name',
        ...Object.keys(END_USER_BUDGET),
        'first_seen',
        'last_seen',
        'erased_at',
      ],
      empty:
        'No call has named anybody; "tollgate key set KEY_ID --end-users header" makes a key take names.',
    },
  }),
  endUsers.get('Read one person behind a key'),
  endUsers.change({
    summary:
      'Raise or lower the budget of one person behind a key: it takes the place of what a key lets each of its end users cost',
    action: 'end-user.write',
    body: schema.object(schemasOf(END_USER_BUDGET)),
    command: { settings: END_USER_BUDGET, done: 'Budget set.' },
    run: (sql, { company, id, body }) => changeEndUser(sql, id, company, body),
  }),
  endUsers.remove({
    id: 'eraseEndUser',
    summary:
      'Erase the name of a person behind a key. What the person cost stays; the same name again is somebody new',
    command: {
      verb: 'erase',
      notes: 'Gateways forget it within one second.',
      done: 'The name of the end user is erased.',
    },
    run: (sql, { company, id }) => eraseEndUser(sql, id, company),
  }),
  get('getUsageByEndUser', '/companies/{company}/usage-by-end-user', {
    summary: `What each person behind a key cost in a month: the ${MOST} with the highest cost`,
    action: 'end-user.read',
    query,
    answer: schema.object({
      month: schema.month,
      count: { ...schema.count, description: 'how many people cost anything' },
      end_users: schema.array(schema.object({ id, name, erased_at, ...sums })),
    }),
    async run(sql, call) {
      const first = monthOf(call);
      const { id } = await findCompany(sql, call.company);
      return { month: first.slice(0, 7), ...(await readUsageByEndUser(sql, id, first, MOST)) };
    },
  }),
  get('getUsageOfEndUser', `${endUsers.one}/usage`, {
    summary: 'What one person behind a key cost in a month, by day, model and key',
    action: 'end-user.read',
    query,
    answer: schema.object({
      month: schema.month,
      ...sums,
      by_day: schema.array(schema.object({ day: schema.day, ...sums })),
      by_model: schema.array(schema.object({ model_slug: schema.string, ...sums })),
      by_key: schema.array(
        schema.object({
          id: schema.id,
          name: schema.textOrNull,
          end_user_budget_eur: schema.textOrNull,
          ...sums,
        }),
      ),
    }),
    async run(sql, call) {
      const first = monthOf(call);
      const { company } = call;
      const { id } = await findEndUser(sql, call.id, company);
      return { month: first.slice(0, 7), ...(await readEndUserMonth(sql, company, id, first)) };
    },
  }),
];

/** The first day of the month that is asked for. */
function monthOf({ query, services }: Call<unknown, Query>): string {
  return `${query.month ?? services.calendar.date(services.clock()).slice(0, 7)}-01`;
}
