import { EVENT_DAYS, EVENT_KINDS } from '../../domain/event.ts';
import { oneOf, readUuid } from '../../domain/field.ts';
import { readMoment } from '../../domain/price.ts';
import { actorName } from '../../domain/wording/change-text.ts';
import { replayEvents } from '../../operations/event.ts';
import { rowsOf } from '../../store/company/company.ts';
import { startOf } from '../../store/connection/expressions.ts';
import type { Sql } from '../../store/connection/pool.ts';
import { type EventFilter, type EventRow, listEvents } from '../../store/events/event.ts';
import { ArgumentError, command, flag, optional, type Values } from '../frame/command.ts';
import { listing, MOST_LISTED, minute, newest } from '../frame/text.ts';

const FILTERS = {
  company: optional('--company ID', readUuid, 'events of this company only'),
  kind: optional(
    '--kind KIND',
    oneOf(...EVENT_KINDS),
    'only events of this kind, or of a group of kinds such as key',
  ),
  since: optional(
    '--since ISO_TIME',
    readMoment,
    'what happened since then; a date is its first day, in the billing time zone',
  ),
  dead: flag('--dead', 'only those that were given up'),
};

const KINDS = `Kinds:
  key.created, key.rotated, key.revoked        a key, by whatever program
  key.paused, key.resumed                      calls get 403, or work again
  company.closed, company.reopened             its keys stop, or work again
  company.paused, company.resumed              the same, with 403
  budget.threshold, budget.forecast            see "tollgate alert list"
  statement.closed                             the statement of a month`;

export const eventCommands = [
  command({
    name: 'event list',
    summary: 'list events of companies and what became of them, newest first',
    options: FILTERS,
    notes: `${KINDS}
States:
  pending     on its way, or waiting for the next attempt
  delivered   taken by its receiver
  dead        given up after a day; "tollgate event replay" sends it again
  unsent      there was no webhook
A receiver is a line of its own. Events are kept for ${EVENT_DAYS} days. Prints at most ${MOST_LISTED} events.`,
    async run({ transact, warn }, values) {
      const page = { after: null, limit: MOST_LISTED + 1 };
      const found = await transact(async (sql) =>
        rowsOf(
          sql,
          values.company ?? null,
          await listEvents(sql, await filterOf(sql, values), page),
        ),
      );
      const rows = newest(found, warn, 'narrow the list by --company, --kind, --since or --dead');
      const text = listing(
        rows.flatMap(linesOf),
        {
          ID: ({ id }) => id,
          'AT (UTC)': ({ event }) => minute(new Date(event.occurred_at)),
          COMPANY: ({ event }) => event.company.name,
          KIND: ({ event }) => event.type,
          KEY: ({ event }) => keyOf(event),
          BY: ({ event: { actor } }) =>
            typeof actor === 'string' ? actorName(actor) : 'the gateway',
          TO: ({ delivery }) => delivery && (delivery.recipient || delivery.channel),
          STATE: ({ told, delivery }) => delivery?.state ?? (told ? 'unsent' : 'pending'),
          ATTEMPTS: ({ delivery }) => delivery?.attempts,
          'NEXT (UTC)': ({ delivery }) =>
            minute(delivery?.state === 'pending' ? new Date(delivery.next_attempt_at) : null),
          ERROR: ({ delivery }) => delivery?.last_error,
        },
        'There are no such events.',
      );
      return { json: rows, text };
    },
  }),
  command({
    name: 'event replay',
    summary: 'send events again by webhook, also those that were delivered',
    operand: {
      shown: '[ID]',
      meaning: 'id of an event, from "tollgate event list"; without it, all that the options name',
      read: (text): string | undefined => readUuid(text),
    },
    options: FILTERS,
    notes: `An event keeps its id, the header webhook-id, so a receiver that remembers ids takes it once. Attempts are counted anew. Events from before the webhook was set are sent too. Without a webhook they wait until one is set. E-mails of budget alerts are sent again only where they were not delivered. Without an ID, --since or --dead is needed. The gateway that sends begins within seconds.`,
    async run({ transact }, values, id) {
      if (id === undefined && values.since === undefined && !values.dead)
        throw new ArgumentError('missing ID, --since or --dead');
      if (
        id !== undefined &&
        Object.values(values).some((value) => value !== undefined && value !== false)
      )
        throw new ArgumentError('an ID stands alone: the options are for many events');
      const events = await transact(async (sql) =>
        replayEvents(sql, id === undefined ? await filterOf(sql, values) : { id }),
      );
      const text =
        events === 0 ? 'There are no such events.' : `Events that are sent again: ${events}.`;
      return { json: { events }, text };
    },
  }),
];

async function filterOf(
  sql: Sql,
  { company, kind, since: from, dead }: Values<typeof FILTERS>,
): Promise<EventFilter> {
  const since = from === undefined ? null : await startOf(sql, from);
  return { company: company ?? null, kind: kind ?? null, since, state: dead ? 'dead' : null };
}

type Line = EventRow & { readonly delivery: EventRow['deliveries'][number] | null };

function linesOf(row: EventRow): Line[] {
  const deliveries = row.deliveries.length === 0 ? [null] : row.deliveries;
  return deliveries.map((delivery) => ({ ...row, delivery }));
}

/** "svc_abcd…" of an event that is about a key. */
function keyOf({ key }: EventRow['event']): string | null {
  const about = key as { prefix: string } | null | undefined;
  return about ? `${about.prefix}…` : null;
}
