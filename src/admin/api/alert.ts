import { MOST_PERCENTS } from '../../domain/field.ts';
import * as schema from '../../domain/settings/schema.ts';
import { addReceiver, changeReceiver, removeReceiver } from '../../operations/alert.ts';
import { findCompany } from '../../store/company/company.ts';
import { findReceiver, listReceivers } from '../../store/users/alert-receiver.ts';
import { type ApiOperation, get, getOne, pageOfAll, patch, post, type Resource, remove } from './frame/operation.ts';
import * as resource from './frame/resources.ts';

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
  created_by: resource.createdBy,
  expires_at: schema.orNull({ ...schema.instant, description: 'when the link to confirm ends; null: none was sent' }),
  confirmed_at: schema.orNull(schema.instant),
});

/** Who of a company is told of its budgets by e-mail, and at which percentages. */

const LIST = '/companies/{company}/alert-receivers';

const ONE = `${LIST}/{receiver}`;

const FOUND: Resource = {
  table: 'alert_receivers',
  param: 'receiver',
  find: (sql, { params }) => findReceiver(sql, params.company as string, params.receiver as string),
};

export const alertOperations: readonly ApiOperation[] = [
  get('listAlertReceivers', LIST, {
    summary:
      'List who of a company is told of its budgets by e-mail. Without a line, owners and administrators are told at 50, 80 and 100 percent and by forecast',
    action: 'alert.read',
    query: resource.listQuery(),
    answer: resource.pageOf(receiver),
    async run(sql, { params, query }) {
      const { id } = await findCompany(sql, params.company as string);
      return pageOfAll(query, await listReceivers(sql, id));
    },
  }),
  post('createAlertReceiver', LIST, {
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
  patch('changeAlertReceiver', ONE, {
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
