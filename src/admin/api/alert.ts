import { MOST_PERCENTS } from '../../domain/field.ts';
import { LANGUAGES } from '../../domain/languages.ts';
import * as schema from '../../domain/settings/schema.ts';
import { emailSpelling } from '../../domain/visible-text.ts';
import { addReceiver, changeReceiver, removeReceiver } from '../../operations/alert.ts';
import { findReceiver, listReceivers } from '../../store/users/alert-receiver.ts';
import { noun } from './frame/noun.ts';
import { pageOfAll } from './frame/operation.ts';
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
  language: schema.orNull(
    schema.oneOf(LANGUAGES, 'of e-mails to an address outside the company; null: that of the company'),
  ),
});

/** Who of a company is told of its budgets by e-mail, and at which percentages. */
const receivers = noun({
  name: 'AlertReceiver',
  path: '/companies/{company}/alert-receivers',
  param: 'receiver',
  table: 'alert_receivers',
  answer: receiver,
  reads: 'alert.read',
  writes: 'alert.write',
  find: (sql, company, id) => findReceiver(sql, id, company),
});

export const alertOperations = [
  receivers.list({
    summary:
      'List who of a company is told of its budgets by e-mail. Without a line, owners and administrators are told at 50, 80 and 100 percent and by forecast',
    read: async (sql, _call, range, company) => pageOfAll(range, await listReceivers(sql, company)),
  }),
  receivers.create({
    summary:
      'Tell a user of a company of its budgets. An address outside the company is added on the pages, which send it a link to agree by',
    body: schema.object({ email, ...choice }),
    async run(sql, { body, actor }, company) {
      const asked = { ...body, email: body.email && emailSpelling(body.email), language: null };
      return (await addReceiver(sql, company, asked, actor, false)).receiver;
    },
  }),
  receivers.get('Read who is told'),
  receivers.change({
    summary: 'Change at which percentages a receiver is told',
    body: schema.changeOf(choice),
    async run(sql, { body }, company, id) {
      const { percents, forecast } = await findReceiver(sql, id, company);
      return changeReceiver(sql, company, id, { percents, forecast, ...body });
    },
  }),
  receivers.remove({
    summary: 'Remove a line: an address outside the company is told no more, a user of it as all others of that role',
    run: (sql, _call, company, id) => removeReceiver(sql, company, id),
  }),
];
