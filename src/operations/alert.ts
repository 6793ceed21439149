import { sortedPercents } from '../domain/field.ts';
import { refusal, throwConflict } from '../domain/refusal.ts';
import type { Sql } from '../store/connection/pool.ts';
import {
  type AlertChoice,
  type AlertReceiverRow,
  askReceiver,
  findReceiver,
  insertReceiver,
  listReceivers,
  updateReceiver,
} from '../store/users/alert-receiver.ts';

export const MOST_RECEIVERS = 20;

/**
 * Adds a receiver. An address that is none of the company's people is told nothing until its reader agrees.
 * @param by the actor, as the audit log names it
 * @param canAsk whether an e-mail with a link can be sent
 * @returns the line, and the random part of the link that has to be sent; null: the receiver confirms nothing
 * @throws RefusedChange
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

/** @throws RefusedChange */
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

/** Makes the link anew for an address that has not agreed. @throws RefusedChange */
export async function askAgain(sql: Sql, company: string, id: string) {
  const receiver = await findReceiver(sql, id, company);
  if (receiver.is_person || receiver.confirmed_at !== null) {
    throwConflict('receiver', refusal('receiverConfirms'));
  }
  return { receiver, token: await askReceiver(sql, id) };
}

/** The reader of an address agrees, by the link that was sent there; a line is removed. */
export {
  deleteReceiver as removeReceiver,
  updateConfirmed as confirmReceiver,
} from '../store/users/alert-receiver.ts';

/** People of the company may be told nothing; a line for anybody else would then be of no use. */
function checkTold({ percents, forecast }: AlertChoice): void {
  if (percents.length === 0 && !forecast) {
    throwConflict('receiver', refusal('receiverNothing'));
  }
}
