import { refusal, throwConflict } from '../domain/refusal.ts';
import * as schema from '../domain/settings/schema.ts';
import { emailSpelling } from '../domain/visible-text.ts';
import { type Erased, erasePerson } from '../store/company/erasure.ts';
import type { Sql } from '../store/connection/pool.ts';
import { leaveCompany } from '../store/connection/tenant-role.ts';
import { findCompanyUser, keepAnOwner, setErasureAsked } from '../store/users/user.ts';
import type { Caller } from './frame/caller.ts';
import * as resource from './frame/resources.ts';
import { get, type Operation, post } from './frame/row.ts';

/**
 * Erases one of the people of a company: by its owners within the company, by operators everywhere.
 * @param email the address of the person, as a confirmation; null: only counts, and changes nothing
 * @throws Refused missing; conflict for the last owner, and for another address
 */
export async function erasePersonOf(
  sql: Sql,
  { role }: Pick<Caller, 'role'>,
  company: string,
  id: string,
  email: string | null,
): Promise<Erased> {
  const person = await findCompanyUser(sql, id, company);
  if (email !== null && emailSpelling(email.trim()) !== person.email) {
    throwConflict('user', refusal('eraseOther', { email: person.email }));
  }
  const isOperator = role === 'operator';
  if (email !== null && !isOperator) await keepAnOwner(sql, company, person.id);
  await leaveCompany(sql); // the tenant role may erase nothing
  return erasePerson(sql, person.email, email === null, isOperator ? null : company);
}

/** Erases a person everywhere, for the operator of the database. */
export { erasePerson as eraseAnyPerson } from '../store/company/erasure.ts';

/**
 * A person asks to be erased, or takes that back. Nothing is erased by it: the company decides, whose log of changes
 * would otherwise lose who changed something by that person's own hand.
 * @param company of the person; null: an operator
 * @returns whether those who decide are to be told: once a day, however often the person asks and takes it back
 * @throws Refused conflict for the last owner, and the last operator
 */
export async function askErasure(
  sql: Sql,
  id: string,
  company: string | null,
  asks: boolean,
): Promise<boolean> {
  if (asks) await keepAnOwner(sql, company, id);
  return setErasureAsked(sql, id, asks);
}

/** The erasure of one of the people of a company. That of all of them, once it is closed, is in company-end.ts. */

export const erasureOperations: readonly Operation[] = [
  get('countPersonErasure', '/companies/{company}/users/{user}/erasure', {
    summary: 'What an erasure of a user of a company would reach; nothing is changed',
    action: 'company-user.write',
    answer: resource.erased,
    isLong: true,
    run: (sql, call) => erasePersonOf(sql, call, call.company, call.id, null),
  }),
  post('erasePerson', '/companies/{company}/users/{user}/erase', {
    summary:
      "Erase a user of a company: a pseudonym takes the place of the address, and the account goes. The ledger stays. A company's token erases within the company, and leaves it an owner; an operator's erases everywhere. This cannot be undone",
    action: 'company-user.write',
    body: schema.object({
      email: { ...schema.email, description: 'the address of the person, as a confirmation' },
    }),
    answer: resource.erased,
    isLong: true,
    run: (sql, call) => erasePersonOf(sql, call, call.company, call.id, call.body.email),
  }),
];
