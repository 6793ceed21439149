import { EVENT_KINDS } from '../../domain/event.ts';
import { type EventFilter, listEvents, replayEvents } from '../../store/event.ts';
import { type Operation, operation, type PageQuery, pageOf } from './operation.ts';
import * as schema from './schemas.ts';

interface Chosen {
  readonly company_id?: string;
  readonly kind?: string;
  readonly since?: string;
  readonly state?: 'undelivered' | 'dead';
}

const CHOSEN = {
  company_id: schema.id,
  kind: schema.oneOf(EVENT_KINDS, 'one kind, or all that begin with it'),
  since: { ...schema.instant, description: `what happened since ${schema.instant.description}` },
  state: schema.oneOf(['undelivered', 'dead'], 'undelivered: failed so far, or given up; dead: given up'),
};
const count = { type: 'integer', minimum: 0 };
const replayed = schema.object({ events: { ...count, description: 'how many are sent again' } });
const delivery = schema.object({
  channel: schema.oneOf(['webhook', 'email']),
  recipient: { type: 'string', description: 'an e-mail address; empty for the webhook' },
  state: schema.oneOf(['pending', 'delivered', 'dead']),
  attempts: count,
  last_error: { type: ['string', 'null'] },
  next_attempt_at: schema.instant,
  delivered_at: { ...schema.instant, type: ['string', 'null'] },
});
const event = schema.object({
  id: schema.id,
  subject: { type: 'string', description: 'id of the key or the company, or number of the statement' },
  event: {
    type: 'object',
    description: 'as the webhook gets it; further members depend on the type',
    required: ['id', 'type', 'company', 'occurred_at'],
    properties: {
      id: schema.id,
      type: { type: 'string' },
      company: schema.object({ id: schema.id, name: { type: 'string' } }),
      occurred_at: schema.instant,
    },
  },
  told: { type: 'boolean', description: 'whether deliveries has each receiver there was' },
  deliveries: { type: 'array', items: delivery },
});

/** What programs were told by webhook. */
export const eventOperations: readonly Operation[] = [
  operation<never, PageQuery & Chosen>({
    id: 'listEvents',
    method: 'get',
    path: '/events',
    summary: 'List events of companies and what became of them, newest first',
    action: 'event.read',
    query: schema.listQuery(CHOSEN),
    answer: schema.pageOf(event),
    status: 200,
    run: (sql, { query }) => pageOf(query, (after, limit) => listEvents(sql, filterOf(query), { after, limit })),
  }),
  operation({
    id: 'replayEvent',
    method: 'post',
    path: '/events/{event}/replay',
    summary: 'Send an event again by webhook, under its id',
    action: 'event.replay',
    answer: replayed,
    status: 200,
    run: async (sql, { params }) => ({ events: await replayEvents(sql, { id: params.event as string }) }),
  }),
  operation<Chosen>({
    id: 'replayEvents',
    method: 'post',
    path: '/events/replay',
    summary: 'Send all events since an instant again by webhook, under their ids',
    action: 'event.replay',
    body: schema.object(CHOSEN, ['since']),
    answer: replayed,
    status: 200,
    run: async (sql, { body }) => ({ events: await replayEvents(sql, filterOf(body)) }),
  }),
];

function filterOf({ company_id, kind, since, state }: Chosen): EventFilter {
  return {
    company: company_id ?? null,
    kind: kind ?? null,
    since: since === undefined ? null : new Date(since),
    state: state ?? null,
  };
}
