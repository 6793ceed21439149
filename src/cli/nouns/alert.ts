import { readUuid } from '../../domain/field.ts';
import { retryAlerts } from '../../operations/event.ts';
import { rowsOf } from '../../store/company/company.ts';
import { type AlertRow, listAlerts } from '../../store/events/alert.ts';
import { command, flag, optional } from '../frame/command.ts';
import { listing, MOST_LISTED, minute, newest, plainly } from '../frame/text.ts';

export const alertCommands = [
  command({
    name: 'alert list',
    summary: 'list budget alerts and what became of them, newest first',
    options: {
      company: optional('--company ID', readUuid, 'alerts of this company only'),
      undelivered: flag('--undelivered', 'only those that failed so far, or were given up'),
    },
    notes: `States:
  pending     on its way, or waiting for the next attempt
  delivered   taken by its receiver
  dead        given up after a day; "tollgate alert retry" sends it again
  superseded  reached together with a higher threshold, which was sent
  unsent      there was no webhook and nobody to write to
  forgotten   what became of it is no longer kept
Prints at most ${MOST_LISTED} lines.`,
    async run({ transact, warn }, { company = null, undelivered }) {
      const found = await transact(async (sql) =>
        rowsOf(
          sql,
          company,
          await listAlerts(sql, { company, undelivered, limit: MOST_LISTED + 1 }),
        ),
      );
      const rows = newest(found, warn, 'narrow the list by --company or --undelivered');
      const text = listing(
        rows,
        {
          ID: ({ alert }) => alert.id,
          'AT (UTC)': ({ alert }) => minute(new Date(alert.occurred_at)),
          COMPANY: ({ alert }) => alert.company.name,
          KEY: ({ alert }) => alert.key && `${alert.key.prefix}…`,
          ...(rows.some(({ alert }) => alert.cost_center != null) && {
            'COST CENTRE': ({ alert }: AlertRow) => alert.cost_center,
          }),
          MONTH: ({ alert }) => alert.day ?? alert.month,
          THRESHOLD: ({ alert }) =>
            alert.threshold === 'forecast' ? 'forecast' : `${alert.threshold} %`,
          TO: ({ channel, recipient }) => recipient || channel,
          ...plainly('state', 'attempts'),
          'NEXT (UTC)': ({ state, next_attempt_at }) =>
            minute(state === 'pending' ? next_attempt_at : null),
          ERROR: ({ last_error }) => last_error,
        },
        'There are no such alerts.',
      );
      return { json: rows.map(flat), text };
    },
  }),
  command({
    name: 'alert retry',
    summary: 'send alerts again that were not delivered',
    operand: {
      shown: 'ID|all',
      meaning: 'id of an alert, from "tollgate alert list", or all of them',
      read: (text): string | null => (text === 'all' ? null : readUuid(text)),
    },
    options: {},
    notes: 'Attempts are counted anew. The gateway that sends alerts begins within seconds.',
    async run({ transact }, _values, id) {
      const deliveries = await transact((sql) => retryAlerts(sql, id));
      const text =
        deliveries === 0
          ? 'Nothing is undelivered.'
          : `Deliveries that are tried again: ${deliveries}.`;
      return { json: { deliveries }, text };
    },
  }),
];

function flat({ alert, ...delivery }: AlertRow): object {
  return { ...alert, ...delivery };
}
