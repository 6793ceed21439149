import * as schema from '../../domain/settings/schema.ts';
import { erasePersonOf } from '../../operations/erasure.ts';
import { type ApiOperation, get, post } from './frame/operation.ts';
import * as resource from './frame/resources.ts';

/** The erasure of one of the people of a company. That of all of them, once it is closed, is in company-end.ts. */

export const erasureOperations: readonly ApiOperation[] = [
  get('countPersonErasure', '/companies/{company}/users/{user}/erasure', {
    summary: 'What an erasure of a user of a company would reach; nothing is changed',
    action: 'company-user.write',
    answer: resource.erased,
    isLong: true,
    run: (sql, call) => erasePersonOf(sql, call, call.company, call.params.user as string, null),
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
    run(sql, call) {
      const { company = '', user = '' } = call.params;
      return erasePersonOf(sql, call, company, user, call.body.email);
    },
  }),
];
