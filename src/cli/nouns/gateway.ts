import { readPresentName } from '../../domain/field.ts';
import { forgetGateways } from '../../store/gateway/gateways.ts';
import { command } from '../frame/command.ts';

export const gatewayForgetCommand = command({
  name: 'gateway forget',
  summary: 'give up the records of a gateway that is gone, so that months can be closed',
  operand: { shown: 'NAME', meaning: 'as "tollgate status" shows it', read: readPresentName },
  options: {},
  notes:
    'For a gateway that is lost with its spool. While the spool is there, start a gateway with its SPOOL_DIR instead: that one books the records. Should they still be booked later, they become corrections on the next statement.',
  async run({ transact }, _values, name) {
    const gone = await transact((sql) => forgetGateways(sql, name));
    const lines = gone.map(
      ({ last_seen_at, backlog }) => `Forgot ${name}, last seen ${last_seen_at}, with ${backlog} usage records.`,
    );
    return { json: gone, text: lines.join('\n') };
  },
});
