import { EVENT_DAYS, EVENT_KINDS, EVENT_STATES, type EventState } from '../../domain/event.ts';
import { oneOf, readUuid } from '../../domain/field.ts';
import { type Alert, alertPage } from '../../domain/wording/alert.ts';
import { actorName } from '../../domain/wording/change-text.ts';
import {
  measureOf,
  type UnusualEvent,
  unusualPage,
  unusualText,
} from '../../domain/wording/unusual.ts';
import { replayEvents, replayFault } from '../../operations/event.ts';
import { readPage } from '../../store/connection/cursor.ts';
import {
  type DeliveryFault,
  type EventFilter,
  type EventRow,
  listEvents,
  readFaults,
} from '../../store/events/event.ts';
import { PAGE_ROWS } from '../../store/lists/page.ts';
import {
  backTo,
  change,
  formAt,
  type PageContext,
  pageAt,
  param,
  type Route,
  read,
} from '../page/context.ts';
import { buttonForm, formState, hiddenInputs, select } from '../page/field.ts';
import { Form } from '../page/form.ts';
import type { Format } from '../page/format.ts';
import { type Html, html } from '../page/html.ts';
import { about, badge, clipped, emptyText, muted, page, rowMenu, table } from '../page/layout.ts';
import { filterBar, filteredUrl, toNext } from '../page/list.ts';

/** Events of companies and their deliveries, for operators: why deliveries fail, a line for each reason, and all events. */
export const eventRoutes: readonly Route[] = [
  pageAt('/events', 'event.read', eventsPage),
  formAt('/events/replay', 'event.replay', replayOfFault),
  formAt('/events/:event/replay', 'event.replay', replay),
];

const KINDS: Readonly<Record<(typeof EVENT_KINDS)[number], string>> = {
  budget: 'Budget alerts',
  'budget.threshold': 'Budget: threshold reached',
  'budget.forecast': 'Budget: forecast passes it',
  cost_center: 'Budget alerts of cost centres',
  'cost_center.threshold': 'Cost centre: threshold reached',
  'cost_center.forecast': 'Cost centre: forecast passes its budget',
  end_user: 'Budget alerts of end users',
  'end_user.threshold': 'End users: threshold reached',
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
  undelivered: 'that failed or were given up',
  failing: 'that have failed for 7 minutes',
  dead: 'that were given up',
};
const FILTERS = ['kind', 'state', 'company'];
const DELIVERY = {
  dead: ['bad', 'given up'],
  failing: ['warn', 'failing'],
  pending: ['plain', 'on its way'],
  delivered: ['good', 'delivered'],
} as const;
const CHANNELS = { webhook: 'Webhook', email: 'E-mail' };
const MOST_FAULTS = 10;

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
  const faults = await read(c, (sql) => readFaults(sql, MOST_FAULTS + 1));
  const { rows, next } = isRight
    ? await read(c, (sql) =>
        readPage({ after, limit: PAGE_ROWS }, (range) => listEvents(sql, filter, range)),
      )
    : { rows: [], next: null };
  const isAll = Object.values(filter).every((each) => each === null);
  const { company, state } = filter;
  const body = html`<h1>Events</h1>
${faults.length === 0 ? '' : html`<section class="problem"><h2>Deliveries that fail</h2><ul>${faults.slice(0, MOST_FAULTS).map((fault) => faultLine(c, fault))}${faults.length > MOST_FAULTS ? html`<li><a href="/events?state=undelivered">For other reasons, too</a></li>` : ''}</ul></section>`}
${filters(c, form, filter, isAll)}
${['company', 'before'].map((name) => form.messages.has(name) && html`<p class="wrong">In the address, “${name}” ${form.messages.get(name)}</p>`)}
${company === null && state === null ? '' : html`<p>Only events${state === null ? '' : ` ${STATES[state]}`}${company === null ? '' : html` of <strong>${rows[0]?.event.company.name ?? company}</strong>`}.</p>`}
${rows.length === 0 ? emptyText(isAll ? html`There are no events yet. The first key of a <a href="/companies">company</a> makes one.` : 'There are no such events.') : table('Events', rows, { cells: cellsOf(c, form) }, true)}
${next === null ? '' : toNext(c, filteredUrl(form, FILTERS, { before: next }), 'Older events')}
${about(c.var, html`Events of the last ${EVENT_DAYS} days. The webhook (<code>ALERT_WEBHOOK_URL</code>) sends them to your programs. A delivery that fails is tried again for a day and then given up; <code>tollgate event replay --dead</code> sends all of those again.`)}`;
  return page(c, 'Events', body);
}

/** Why deliveries fail, in one line, with a button that sends them again. */
function faultLine(c: PageContext, fault: DeliveryFault): Html {
  const { format } = c.var;
  const { channel, error, state, deliveries, since, next_attempt_at } = fault;
  const isDead = state === 'dead';
  const href = `/events?state=${isDead ? 'dead' : 'undelivered'}`;
  const next = isDead ? '' : html`, next attempt ${format.instant(next_attempt_at)}`;
  return html`<li>${CHANNELS[channel]}: <code>${error || 'no reason'}</code> since ${format.instant(since)}, <a href="${href}">${format.count(deliveries)} ${isDead ? 'given up' : 'waiting'}</a>${next}
${buttonForm(c, '/events/replay', 'Send again', `by ${channel}: ${error}`, hiddenInputs(Object.entries({ channel, error, state })))}</li>`;
}

function filters(
  c: PageContext,
  form: Form,
  { company, kind, state: chosen }: EventFilter,
  isAll: boolean,
): Html {
  const state = formState(form, '/events');
  const others = Object.entries({ company, state: chosen }).filter(([, value]) => value !== null);
  return filterBar(
    c,
    '/events',
    !isAll,
    html`${hiddenInputs(others as [string, string][])}
${select(state, { name: 'kind', label: 'Kind', choices: [['', 'All'], ...Object.entries(KINDS)], value: kind ?? '' })}`,
  );
}

function cellsOf(c: PageContext, form: Form) {
  const { format } = c.var;
  return {
    When: ({ event }: EventRow) => format.second(new Date(event.occurred_at)),
    Event: ({ event }: EventRow) => kindOf(event),
    About: (row: EventRow) => subjectOf(row, format),
    Company: ({ event: { company } }: EventRow) =>
      clipped(
        company.name,
        html`<a href="${filteredUrl(form, FILTERS, { company: company.id })}">${company.name}</a>`,
      ),
    By: ({ event: { actor } }: EventRow) =>
      typeof actor !== 'string' ? muted('the gateway') : clipped(actorName(actor)),
    Delivery: deliveriesOf,
    Actions: ({ id, event }: EventRow) => {
      const name = `${kindOf(event)}, ${event.company.name}`;
      const again = buttonForm(c, `/events/${id}/replay`, 'Send again', name);
      return rowMenu(c.var, name, again);
    },
  };
}

function kindOf({ type }: EventRow['event']): string {
  return KINDS[type as keyof typeof KINDS] ?? type;
}

/** What an event is about, with links to it. The members of an event differ by its kind. */
function subjectOf({ subject, event }: EventRow, format: Format): Html | string {
  if (event.type.startsWith('unusual.')) {
    const unusual = event as unknown as UnusualEvent;
    const measure = measureOf(unusual);
    const text = unusualText(measure, unusual, format.words);
    return clipped(text, html`<a href="${unusualPage(measure, unusual)}">${text}</a>`);
  }
  const { company, key, cost_center, count, threshold, month, day, statement } =
    event as EventRow['event'] & {
      readonly count?: number;
      readonly key?: { readonly id: string; readonly name: string; readonly prefix: string } | null;
      readonly cost_center?: string;
      readonly threshold?: string;
      readonly month?: string;
      readonly day?: string;
      readonly statement?: { readonly number: number; readonly month: string };
    };
  const at = `/companies/${company.id}`;
  const parts: { readonly text: string; readonly href?: string }[] = [];
  if (threshold !== undefined && month !== undefined)
    parts.push({
      text: `${threshold === 'forecast' ? 'Forecast' : format.percent(Number(threshold))} · ${day === undefined ? format.month(`${month}-01`) : format.day(day)}`,
      href: alertPage(event as unknown as Alert),
    });
  if (count !== undefined) parts.push({ text: count === 1 ? '1 end user' : `${count} end users` });
  if (key) parts.push({ text: key.name, href: `${at}/keys/${key.id}` });
  if (cost_center !== undefined) parts.push({ text: cost_center });
  if (statement)
    parts.push({
      text: `${statement.number} · ${format.month(`${statement.month}-01`)}`,
      href: `${at}/statements/month?month=${statement.month}`,
    });
  else if (event.type.startsWith('statement.')) parts.push({ text: subject });
  if (parts.length === 0) return muted('–');
  const links = parts.map(
    ({ text, href }) => html`${href === undefined ? text : html`<a href="${href}">${text}</a>`} `,
  );
  return clipped(parts.map(({ text }) => text).join(', '), html`${links}`);
}

/** What became of an event by each channel: the worst of its deliveries; all of them, with their errors, are the tooltip. */
function deliveriesOf({ told, deliveries }: EventRow): Html {
  if (deliveries.length === 0) return badge('plain', told ? 'no webhook' : DELIVERY.pending[1]);
  const stateOf = ({ state, attempts }: EventRow['deliveries'][number]) =>
    state === 'pending' && attempts > 0 ? 'failing' : state;
  const order = Object.keys(DELIVERY);
  return html`${[...Map.groupBy(deliveries, ({ channel }) => channel)].map(([channel, its]) => {
    const states = its.map(stateOf).sort((a, b) => order.indexOf(a) - order.indexOf(b));
    const [tone, text] = DELIVERY[states[0] as keyof typeof DELIVERY];
    const all = its.map((each) =>
      [each.recipient, DELIVERY[stateOf(each)][1], each.last_error].filter(Boolean).join(' '),
    );
    return html`<span title="${all.join(', ')}">${CHANNELS[channel]} ${badge(tone, text)}</span> `;
  })}`;
}

async function replay(c: PageContext): Promise<Response> {
  await change(c, (sql) => replayEvents(sql, { id: param(c, 'event') }));
  return backTo(c, '/events', 'replayed');
}

/** Sends all deliveries of one line again. */
async function replayOfFault(c: PageContext, form: Form): Promise<Response> {
  const fault = {
    channel: form.required('channel', oneOf('webhook', 'email')),
    error: form.optional('error', (text) => text) ?? '',
    state: form.required('state', oneOf('pending', 'dead')),
  };
  form.check();
  await change(c, (sql) => replayFault(sql, fault));
  return backTo(c, '/events', 'replayed');
}
