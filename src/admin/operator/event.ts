import { EVENT_DAYS, EVENT_KINDS, EVENT_STATES, type EventState } from '../../domain/event.ts';
import { oneOf, readUuid } from '../../domain/field.ts';
import { costCenterPage } from '../../domain/wording/alert.ts';
import { actorName } from '../../domain/wording/change-text.ts';
import {
  measureOf,
  type UnusualEvent,
  unusualPage,
  unusualText,
} from '../../domain/wording/unusual.ts';
import { replayEvents } from '../../operations/event.ts';
import { readPage } from '../../store/connection/cursor.ts';
import { type EventFilter, type EventRow, listEvents } from '../../store/events/event.ts';
import { PAGE_ROWS } from '../../store/lists/page.ts';
import { change, type PageContext, param, type Route, read } from '../page/context.ts';
import { csrfInput, formState, select } from '../page/field.ts';
import { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { badge, emptyText, muted, page, table } from '../page/layout.ts';
import { filteredUrl, toNext } from '../page/list.ts';

/** Events of companies and their deliveries, for operators. */
export const eventRoutes: readonly Route[] = [
  { method: 'GET', path: '/events', action: 'event.read', handle: eventsPage },
  { method: 'POST', path: '/events/:event/replay', action: 'event.replay', handle: replay },
];

const KINDS: Readonly<Record<(typeof EVENT_KINDS)[number], string>> = {
  budget: 'Budget alerts',
  'budget.threshold': 'Budget: threshold reached',
  'budget.forecast': 'Budget: forecast passes it',
  cost_center: 'Budget alerts of cost centres',
  'cost_center.threshold': 'Cost centre: threshold reached',
  'cost_center.forecast': 'Cost centre: forecast passes its budget',
  key: 'Keys',
  'key.created': 'Key created',
  'key.rotated': 'Key rotated',
  'key.revoked': 'Key revoked',
  'key.paused': 'Key paused',
  'key.resumed': 'Key resumed',
  company: 'Companies',
  'company.closed': 'Company closed',
  'company.reopened': 'Company reopened',
  'company.paused': 'Company paused',
  'company.resumed': 'Company resumed',
  statement: 'Statements',
  'statement.closed': 'Statement closed',
  unusual: 'Unusual today',
  'unusual.spend': 'Unusual spend',
  'unusual.refused': 'Unusually many refused requests',
  'unusual.failed': 'Unusually many failed requests',
  'unusual.latency': 'Unusually slow',
};
const STATES: Readonly<Record<EventState, string>> = {
  undelivered: 'Failing or given up',
  failing: 'Failing for 7 minutes',
  dead: 'Given up',
};
const FILTERS = ['kind', 'state', 'company'];
const DELIVERY = {
  pending: ['plain', 'on its way'],
  failing: ['warn', 'failing'],
  delivered: ['good', 'delivered'],
  dead: ['bad', 'given up'],
} as const;
const CHANNELS = { webhook: 'Webhook', email: 'E-mail' };

/**
 * The list of events. Its URL takes, each of them optional: `kind`, one of EVENT_KINDS; `state`, one of
 * EVENT_STATES; `company`, an id; `before`, the id of an event: those that happened before it.
 */
async function eventsPage(c: PageContext): Promise<Response> {
  const form = new Form(new URL(c.req.url).searchParams, '/events');
  const filter: EventFilter = {
    company: form.optional('company', readUuid),
    kind: form.optional('kind', oneOf(...EVENT_KINDS)),
    since: null,
    state: form.optional('state', oneOf(...EVENT_STATES)),
  };
  const after = form.optional('before', readUuid);
  const isRight = form.messages.size === 0;
  const { rows, next } = isRight
    ? await read(c, (sql) =>
        readPage({ after, limit: PAGE_ROWS }, (range) => listEvents(sql, filter, range)),
      )
    : { rows: [], next: null };
  const isAll = Object.values(filter).every((each) => each === null);
  const body = html`<h1>Events</h1>
<p class="lead">Keys created, rotated, revoked, paused and resumed, companies closed, reopened, paused and resumed, budget alerts, those of cost centres too, what was unusual, and closed statements of the last ${EVENT_DAYS} days, newest first. The webhook (<code>ALERT_WEBHOOK_URL</code>) tells them to your programs. A delivery that fails is tried again for a day and then given up; <code>tollgate event replay --dead</code> sends all of those again.</p>
${filters(form, filter)}
${['company', 'before'].map((name) => form.messages.has(name) && html`<p class="wrong">In the address, “${name}” ${form.messages.get(name)}</p>`)}
${filter.company === null ? '' : html`<p>Only events of <strong>${rows[0]?.event.company.name ?? filter.company}</strong>. <a href="${filteredUrl(form, FILTERS, { company: null })}">All companies</a></p>`}
${rows.length === 0 ? emptyText(isAll ? html`There are no events yet. The first key of a <a href="/companies">company</a> makes one.` : html`There are no such events. <a href="/events">All events</a>`) : table('Events', rows, { cells: cellsOf(c, form) }, true)}
${next === null ? '' : toNext(c, filteredUrl(form, FILTERS, { before: next }), 'Older events')}`;
  return page(c, 'Events', body);
}

function filters(form: Form, { company, kind, state: chosen }: EventFilter): Html {
  const state = formState(form, '/events');
  return html`<form method="get" action="/events" class="filters">
${company === null ? '' : html`<input type="hidden" name="company" value="${company}">`}
${select(state, { name: 'kind', label: 'Kind', choices: [['', 'All'], ...Object.entries(KINDS)], value: kind ?? '' })}
${select(state, { name: 'state', label: 'State', choices: [['', 'All'], ...Object.entries(STATES)], value: chosen ?? '' })}
<div class="actions"><button>Show</button> <a class="button quiet" href="/events">All events</a></div></form>`;
}

function cellsOf(c: PageContext, form: Form) {
  const { format } = c.var;
  return {
    When: ({ event }: EventRow) => format.second(new Date(event.occurred_at)),
    Event: (row: EventRow) => whatOf(row, format),
    Company: ({ event: { company } }: EventRow) =>
      html`<a href="${filteredUrl(form, FILTERS, { company: company.id })}">${company.name}</a>`,
    By: ({ event: { actor } }: EventRow) =>
      typeof actor !== 'string'
        ? muted('the gateway')
        : html`<span class="by">${actorName(actor)}</span>`,
    Delivery: (row: EventRow) => deliveriesOf(row, format),
    Actions: ({ id, event }: EventRow) =>
      html`<form method="post" action="/events/${id}/replay" class="inline">${csrfInput(c)}<button class="quiet">Send again<span class="sr"> ${KINDS[event.type as keyof typeof KINDS] ?? event.type}, ${event.company.name}</span></button></form>`,
  };
}

/** The kind of an event and its subject. The members of an event differ by its kind. */
function whatOf({ subject, event }: EventRow, format: Format): Html {
  if (event.type.startsWith('unusual.')) {
    const unusual = event as unknown as UnusualEvent;
    const measure = measureOf(unusual);
    return html`<strong>${KINDS[`unusual.${measure}`]}</strong><br><a href="${unusualPage(measure, unusual)}">${unusualText(measure, unusual, format.words)}</a>`;
  }
  const { type, company, key, cost_center, threshold, month, day, statement } =
    event as EventRow['event'] & {
      readonly key?: { readonly id: string; readonly name: string; readonly prefix: string } | null;
      readonly cost_center?: string;
      readonly threshold?: string;
      readonly month?: string;
      readonly day?: string;
      readonly statement?: { readonly number: number; readonly month: string };
    };
  const budget =
    threshold === undefined || month === undefined
      ? ''
      : html`<br><a href="${cost_center === undefined ? `/companies/${company.id}/usage?${new URLSearchParams({ month, ...(key && { key: key.id }) })}` : costCenterPage(company.id, cost_center, month)}">${threshold === 'forecast' ? 'Forecast' : format.percent(Number(threshold))} · ${day === undefined ? format.month(`${month}-01`) : format.day(day)}</a>`;
  return html`<strong>${KINDS[type as keyof typeof KINDS] ?? type}</strong>${budget}${key ? html`<br><a href="/companies/${company.id}/keys/${key.id}">${key.name}</a> <code>${key.prefix}…</code>` : ''}${cost_center === undefined ? '' : html`<br>${cost_center}`}${
    statement
      ? html`<br><a href="/companies/${company.id}/statements/month?month=${statement.month}">${statement.number} · ${format.month(`${statement.month}-01`)}</a>`
      : type.startsWith('statement.') && html`<br><code>${subject}</code>`
  }`;
}

function deliveriesOf({ told, deliveries }: EventRow, format: Format): Html {
  if (!told && deliveries.length === 0) return badge(...DELIVERY.pending);
  if (deliveries.length === 0)
    return html`${badge('plain', 'not sent')}<br>${muted('there was no webhook')}`;
  return html`${deliveries.map(
    ({ channel, recipient, state, attempts, last_error, next_attempt_at }, at) => {
      const isFailing = state === 'pending' && attempts > 0;
      const [tone, text] = DELIVERY[isFailing ? 'failing' : state];
      const error =
        state === 'delivered' || attempts === 0 ? '' : html` <code>${last_error}</code>`;
      const tries =
        isFailing &&
        html` ${muted(html`next attempt ${format.instant(new Date(next_attempt_at))}`)}`;
      return html`${at === 0 ? '' : html`<br>`}${recipient || CHANNELS[channel]} ${badge(tone, text)}${error}${tries}`;
    },
  )}`;
}

async function replay(c: PageContext): Promise<Response> {
  await change(c, (sql) => replayEvents(sql, { id: param(c, 'event') }));
  return c.redirect('/events?done=replayed', 303);
}
