import { EVENT_KINDS, EVENT_STATES } from '../domain/event.ts';
import { throwNotFound } from '../domain/refusal.ts';
import * as schema from '../domain/settings/schema.ts';
import { findCompany } from '../store/company/company.ts';
import { readPage } from '../store/connection/cursor.ts';
import type { Sql } from '../store/connection/pool.ts';
import { hasAlert, updateUndelivered } from '../store/events/alert.ts';
import { type EventFilter, listEvents, updateDue, updateFault } from '../store/events/event.ts';
import { getList, type Operation, post } from './frame/row.ts';

/** Events and alerts that are sent again. */

/**
 * Has events sent again under their ids: by webhook also those that were delivered, or for which there was no
 * webhook, and the e-mails that were not delivered. Without a webhook they wait until there is one.
 * @returns how many events
 * @throws Refused missing, of an id, and of a company
 */
export async function replayEvents(
  sql: Sql,
  which: EventFilter | { readonly id: string },
): Promise<number> {
  const count = await updateDue(sql, which);
  if (count > 0) return count;
  if ('id' in which) throwNotFound('event', `There is no event ${which.id}.`);
  if (which.company !== null) await findCompany(sql, which.company);
  return count;
}

/** Has the deliveries that one reason holds up, or that were given up for it, sent again as if they were new. */
export const replayFault = updateFault;

/**
 * Has undelivered alerts sent again, as if they were new.
 * @param id of an alert; null: all
 * @returns how many deliveries
 * @throws Refused missing
 */
export async function retryAlerts(sql: Sql, id: string | null): Promise<number> {
  const count = await updateUndelivered(sql, id);
  if (count === 0 && id !== null && !(await hasAlert(sql, id)))
    throwNotFound('alert', `There is no alert ${id}.`);
  return count;
}

const CHOSEN = {
  company_id: schema.id,
  kind: schema.oneOf(EVENT_KINDS, 'one kind, or all that begin with it'),
  since: { ...schema.instant, description: `what happened since ${schema.instant.description}` },
  state: schema.oneOf(
    EVENT_STATES,
    'undelivered: failed so far, or given up; failing: failed for 7 minutes, and tried again; dead: given up',
  ),
};

type Chosen = schema.Members<typeof CHOSEN, never>;

const replayed = schema.object({
  events: { ...schema.count, description: 'how many are sent again' },
});

const delivery = schema.object({
  channel: schema.oneOf(['webhook', 'email']),
  recipient: { type: 'string', description: 'an e-mail address; empty for the webhook' },
  state: schema.oneOf(['pending', 'delivered', 'dead']),
  attempts: schema.count,
  last_error: schema.textOrNull,
  next_attempt_at: schema.instant,
  delivered_at: schema.orNull(schema.instant),
});

const event = schema.object({
  id: schema.id,
  subject: {
    type: 'string',
    description: 'id of the key or the company, or number of the statement',
  },
  event: {
    type: 'object',
    description: 'as the webhook gets it; further members depend on the type',
    required: ['id', 'type', 'company', 'occurred_at'],
    properties: {
      id: schema.id,
      type: schema.string,
      company: schema.object({ id: schema.id, name: schema.string }),
      occurred_at: schema.instant,
    },
  },
  told: { type: 'boolean', description: 'whether deliveries has each receiver there was' },
  deliveries: schema.array(delivery),
});

/** What programs were told by webhook. */
export const eventOperations: readonly Operation[] = [
  getList('listEvents', '/events', {
    summary: 'List events of companies and what became of them, newest first',
    action: 'event.read',
    filters: CHOSEN,
    row: event,
    read: (sql, { query }, range) =>
      readPage(range, (most) => listEvents(sql, filterOf(query), most)),
  }),
  post('replayEvent', '/events/{event}/replay', {
    summary: 'Send an event again by webhook, under its id',
    action: 'event.replay',
    answer: replayed,
    run: async (sql, { id }) => ({ events: await replayEvents(sql, { id }) }),
  }),
  post('replayEvents', '/events/replay', {
    summary: 'Send all events since an instant again by webhook, under their ids',
    action: 'event.replay',
    body: schema.object(CHOSEN, ['since']),
    answer: replayed,
    run: async (sql, { body }) => ({ events: await replayEvents(sql, filterOf(body)) }),
  }),
];

function filterOf({ company_id, kind, since, state }: Chosen): EventFilter {
  const at = since === undefined ? null : new Date(since);
  return { company: company_id ?? null, kind: kind ?? null, since: at, state: state ?? null };
}
