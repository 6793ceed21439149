import { MOST_PERCENTS, sortedPercents } from '../../domain/field.ts';
import { refusal } from '../../domain/input/refusal.ts';
import { throwConflict } from '../../domain/text/refused-change.ts';
import { findCompany } from '../../store/company/company.ts';
import type { Sql } from '../../store/connection/pool.ts';
import {
  type AlertChoice,
  type AlertReceiverRow,
  askReceiver,
  createReceiver,
  findReceiver,
  listReceivers,
  removeReceiver,
  setReceiver,
} from '../../store/users/alert-receiver.ts';
import {
  get,
  getOne,
  type Operation,
  type PageQuery,
  pageOfAll,
  patch,
  post,
  type Resource,
  remove,
} from '../operation.ts';
import * as schema from '../schemas.ts';

/** Who of a company is told of its budgets by e-mail, and at which percentages. */

/** The most lines of one company. */
export const MOST_RECEIVERS = 20;

const choice = {
  percents: {
    type: 'array',
    items: { type: 'integer', minimum: 1, maximum: 100 },
    maxItems: MOST_PERCENTS,
    description: 'parts of a monthly budget at which the receiver is told, in percent',
  },
  forecast: { ...schema.boolean, description: 'told too when the month will pass the budget at its pace' },
};
const email = {
  ...schema.orNull(schema.email),
  description: 'null: owners and administrators without a line of their own',
};
const receiver = schema.object({
  id: schema.id,
  company_id: schema.id,
  email,
  ...choice,
  is_person: { ...schema.boolean, description: 'a user of the company, who confirms nothing; true with null' },
  created_at: schema.instant,
  created_by: schema.createdBy,
  expires_at: schema.orNull({ ...schema.instant, description: 'when the link to confirm ends; null: none was sent' }),
  confirmed_at: schema.orNull(schema.instant),
});

const LIST = '/companies/{company}/alert-receivers';
const ONE = `${LIST}/{receiver}`;
const FOUND: Resource = {
  table: 'alert_receivers',
  param: 'receiver',
  find: (sql, { params }) => findReceiver(sql, params.company as string, params.receiver as string),
};

export const alertOperations: readonly Operation[] = [
  get<PageQuery>('listAlertReceivers', LIST, {
    summary:
      'List who of a company is told of its budgets by e-mail. Without a line, owners and administrators are told at 50, 80 and 100 percent and by forecast',
    action: 'alert.read',
    query: schema.listQuery(),
    answer: schema.pageOf(receiver),
    async run(sql, { params, query }) {
      const { id } = await findCompany(sql, params.company as string);
      return pageOfAll(query, await listReceivers(sql, id));
    },
  }),
  post<AlertChoice & Pick<AlertReceiverRow, 'email'>>('createAlertReceiver', LIST, {
    summary:
      'Tell a user of a company of its budgets. An address outside the company is added on the pages, which send it a link to agree by',
    action: 'alert.write',
    body: schema.object({ email, ...choice }),
    answer: receiver,
    status: 201,
    async run(sql, { params, body, actor }) {
      const asked = { ...body, email: body.email?.toLowerCase() ?? null };
      return (await addReceiver(sql, params.company as string, asked, actor, false)).receiver;
    },
  }),
  getOne('getAlertReceiver', ONE, FOUND, { summary: 'Read who is told', action: 'alert.read', answer: receiver }),
  patch<Partial<AlertChoice>>('changeAlertReceiver', ONE, {
    summary: 'Change at which percentages a receiver is told',
    action: 'alert.write',
    body: schema.changeOf(choice),
    answer: receiver,
    resource: FOUND,
    async run(sql, { params, body }) {
      const [company, id] = [params.company as string, params.receiver as string];
      const { percents, forecast } = await findReceiver(sql, company, id);
      return changeReceiver(sql, company, id, { percents, forecast, ...body });
    },
  }),
  remove('removeAlertReceiver', ONE, {
    summary: 'Remove a line: an address outside the company is told no more, a user of it as all others of that role',
    action: 'alert.write',
    resource: FOUND,
    run: (sql, { params }) => removeReceiver(sql, params.company as string, params.receiver as string),
  }),
];

/**
 * Adds a receiver. An address that is none of the company's people is told nothing until its reader agrees.
 * @param by as the audit log names who adds
 * @param canAsk whether an e-mail with a link can be sent
 * @returns the line, and the random part of the link that has to be sent; null: the receiver confirms nothing
 * @throws RefusedChange
 */
export async function addReceiver(
  sql: Sql,
  company: string,
  asked: AlertChoice & Pick<AlertReceiverRow, 'email'>,
  by: string,
  canAsk: boolean,
): Promise<{ readonly receiver: AlertReceiverRow; readonly token: string | null }> {
  const present = await listReceivers(sql, company);
  if (present.length >= MOST_RECEIVERS) {
    throwConflict('receiver', refusal('mostReceivers', { most: MOST_RECEIVERS }));
  }
  const percents = sortedPercents(asked.percents);
  const receiver = await createReceiver(sql, { ...asked, company_id: company, percents, created_by: by });
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
  const row = await setReceiver(sql, company, id, { ...choice, percents: sortedPercents(choice.percents) });
  if (!row.is_person) checkTold(row);
  return row;
}

/** Makes the link anew for an address that has not agreed. @throws RefusedChange */
export async function askAgain(sql: Sql, company: string, id: string) {
  const receiver = await findReceiver(sql, company, id);
  if (receiver.is_person || receiver.confirmed_at !== null) {
    throwConflict('receiver', refusal('receiverConfirms'));
  }
  return { receiver, token: await askReceiver(sql, id) };
}

/** People of the company may be told nothing; a line for anybody else would then be of no use. */
function checkTold({ percents, forecast }: AlertChoice): void {
  if (percents.length === 0 && !forecast) {
    throwConflict('receiver', refusal('receiverNothing'));
  }
}
