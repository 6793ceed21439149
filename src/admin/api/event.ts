import { EVENT_KINDS } from '../../domain/event.ts';
import * as schema from '../../domain/settings/schema.ts';
import { replayEvents } from '../../operations/event.ts';
import { readPage } from '../../store/connection/cursor.ts';
import { type EventFilter, listEvents } from '../../store/events/event.ts';
import { type ApiOperation, getList, post } from './frame/operation.ts';

const CHOSEN = {
  company_id: schema.id,
  kind: schema.oneOf(EVENT_KINDS, 'one kind, or all that begin with it'),
  since: { ...schema.instant, description: `what happened since ${schema.instant.description}` },
  state: schema.oneOf(
    ['undelivered', 'dead'],
    'undelivered: failed so far, or given up; dead: given up',
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
export const eventOperations: readonly ApiOperation[] = [
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
    run: async (sql, { params }) => ({
      events: await replayEvents(sql, { id: params.event as string }),
    }),
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
