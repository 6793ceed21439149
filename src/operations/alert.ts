import { sortedPercents } from '../domain/field.ts';
import { refusal, throwConflict } from '../domain/refusal.ts';
import * as schema from '../domain/settings/schema.ts';
import { emailSpelling } from '../domain/visible-text.ts';
import type { Sql } from '../store/connection/pool.ts';
import {
  type AlertChoice,
  type AlertReceiverRow,
  askReceiver,
  CHOICE,
  updateConfirmed as confirmReceiver,
  findReceiver,
  insertReceiver,
  listReceivers,
  RECEIVER,
  deleteReceiver as removeReceiver,
  updateReceiver,
} from '../store/users/alert-receiver.ts';
import { noun } from './frame/noun.ts';
import { pageOfAll } from './frame/row.ts';

export const MOST_RECEIVERS = 20;

/**
 * Adds a receiver. An address that is none of the company's people is told nothing until its reader agrees.
 * @param by the actor, as the audit log names it
 * @param canAsk whether an e-mail with a link can be sent
 * @returns the line, and the random part of the link that has to be sent; null: the receiver confirms nothing
 * @throws Refused
 */
export async function addReceiver(
  sql: Sql,
  company: string,
  asked: AlertChoice & Pick<AlertReceiverRow, 'email' | 'language'>,
  by: string,
  canAsk: boolean,
): Promise<{ readonly receiver: AlertReceiverRow; readonly token: string | null }> {
  const present = await listReceivers(sql, company);
  if (present.length >= MOST_RECEIVERS) {
    throwConflict('receiver', refusal('mostReceivers', { most: MOST_RECEIVERS }));
  }
  const percents = sortedPercents(asked.percents);
  const receiver = await insertReceiver(sql, {
    ...asked,
    company_id: company,
    percents,
    created_by: by,
  });
  if (receiver.is_person) return { receiver, token: null };
  checkTold(receiver);
  if (!canAsk) {
    throwConflict('receiver', refusal('receiverOutside', { email: receiver.email as string }));
  }
  return { receiver, token: await askReceiver(sql, receiver.id) };
}

/** @throws Refused */
export async function changeReceiver(
  sql: Sql,
  company: string,
  id: string,
  choice: AlertChoice,
): Promise<AlertReceiverRow> {
  const row = await updateReceiver(sql, company, id, {
    ...choice,
    percents: sortedPercents(choice.percents),
  });
  if (!row.is_person) checkTold(row);
  return row;
}

/** Makes the link anew for an address that has not agreed. @throws Refused */
export async function askAgain(sql: Sql, company: string, id: string) {
  const receiver = await findReceiver(sql, id, company);
  if (receiver.is_person || receiver.confirmed_at !== null) {
    throwConflict('receiver', refusal('receiverConfirms'));
  }
  return { receiver, token: await askReceiver(sql, id) };
}

/** The reader of an address agrees, by the link that was sent there; a line is removed. */
export { confirmReceiver, removeReceiver };

/** People of the company may be told nothing; a line for anybody else would then be of no use. */
function checkTold({ percents, forecast }: AlertChoice): void {
  if (percents.length === 0 && !forecast) {
    throwConflict('receiver', refusal('receiverNothing'));
  }
}

/** Who of a company is told of its budgets by e-mail, and at which percentages. */
const receivers = noun({
  name: 'AlertReceiver',
  path: '/companies/{company}/alert-receivers',
  param: 'receiver',
  table: 'alert_receivers',
  answer: RECEIVER,
  reads: 'alert.read',
  writes: 'alert.write',
  find: (sql, { company, id }) => findReceiver(sql, id, company),
});

export const alertOperations = [
  receivers.list({
    summary:
      'List who of a company is told of its budgets by e-mail. Without a line, owners and administrators are told at 50, 80 and 100 percent and by forecast',
    read: async (sql, { company }, range) => pageOfAll(range, await listReceivers(sql, company)),
  }),
  receivers.create({
    summary:
      'Tell a user of a company of its budgets. An address outside the company is added on the pages, which send it a link to agree by',
    body: schema.object({ email: RECEIVER.properties.email, ...CHOICE.properties }),
    async run(sql, { body, actor, company }) {
      const receiver = { ...body, email: body.email && emailSpelling(body.email), language: null };
      return (await addReceiver(sql, company, receiver, actor, false)).receiver;
    },
  }),
  receivers.get('Read who is told'),
  receivers.change({
    summary: 'Change at which percentages a receiver is told',
    body: schema.changeOf(CHOICE.properties),
    async run(sql, { body, company, id }) {
      const { percents, forecast } = await findReceiver(sql, id, company);
      return changeReceiver(sql, company, id, { percents, forecast, ...body });
    },
  }),
  receivers.remove({
    summary:
      'Remove a line: an address outside the company is told no more, a user of it as all others of that role',
    run: (sql, { company, id }) => removeReceiver(sql, id, company),
  }),
];
