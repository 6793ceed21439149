import * as schema from '../../domain/settings/schema.ts';
import { emailSpelling } from '../../domain/visible-text.ts';
import { addReceiver, changeReceiver, removeReceiver } from '../../operations/alert.ts';
import { CHOICE, findReceiver, listReceivers, RECEIVER } from '../../store/users/alert-receiver.ts';
import { noun } from './frame/noun.ts';
import { pageOfAll } from './frame/operation.ts';

/** Who of a company is told of its budgets by e-mail, and at which percentages. */
const receivers = noun({
  name: 'AlertReceiver',
  path: '/companies/{company}/alert-receivers',
  param: 'receiver',
  table: 'alert_receivers',
  answer: RECEIVER,
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
    body: schema.object({ email: RECEIVER.properties.email, ...CHOICE.properties }),
    async run(sql, { body, actor }, company) {
      const asked = { ...body, email: body.email && emailSpelling(body.email), language: null };
      return (await addReceiver(sql, company, asked, actor, false)).receiver;
    },
  }),
  receivers.get('Read who is told'),
  receivers.change({
    summary: 'Change at which percentages a receiver is told',
    body: schema.changeOf(CHOICE.properties),
    async run(sql, { body }, company, id) {
      const { percents, forecast } = await findReceiver(sql, id, company);
      return changeReceiver(sql, company, id, { percents, forecast, ...body });
    },
  }),
  receivers.remove({
    summary:
      'Remove a line: an address outside the company is told no more, a user of it as all others of that role',
    run: (sql, _call, company, id) => removeReceiver(sql, id, company),
  }),
];
