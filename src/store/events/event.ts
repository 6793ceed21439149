import {
  type Channel,
  CLOSED_MONTH,
  type CompanyEvent,
  type Delivery,
  EVENT_DAYS,
  type EventState,
  FORECAST,
  messageOf,
  STANDARD_PERCENTS,
} from '../../domain/event.ts';
import type { EventLook, EventReceivers, EventStore } from '../../domain/ports.ts';
import type { ClosedMonth } from '../../domain/wording/statement-mail.ts';
import { matching } from '../connection/columns.ts';
import type { Range } from '../connection/cursor.ts';
import type { Database, Sql } from '../connection/pool.ts';
import { IN_STATE, lookAtBudgets, lookAtCostCenters } from './alert.ts';
import { deleteOldEndUserAlerts, lookAtEndUsers } from './end-user.ts';
import { deleteOldUnusual, lookAtUnusual } from './unusual.ts';

const LEASE_MS = 2000;
const LOOK_MS = 20_000; // at every budget, on a busy server
const DELIVERY_MS = 5000;
const MANY_MS = 20_000; // with all events that are new, or too old
/** How many of a company's deliveries by one channel, new or replayed, are due at once; then one after each pause. */
const BURST = 32;
const PAUSE_SECONDS = 0.1;
/** The models that a summary names. */
const SUMMARY_MODELS = 3;
/** Whether the user `u` gets the summaries of the company's months. */
const WANTS_SUMMARY = `u.role in ('owner', 'administrator') and coalesce(u.monthly_summary, u.role = 'owner')`;
/** Most e-mails that are read at once, so that those of one company and reader become one. */
const MOST_TOGETHER = 2000;

/**
 * Events in the database (sql/schema/events.sql).
 * @param db for the lease, which every gateway asks for
 * @param own for all the rest, so that it never takes a connection from the API
 */
export function eventStore(db: Database, own: Database): EventStore {
  return {
    async lease(holder, seconds) {
      // writes nothing while another gateway has the lease
      const { count } = await db.run(
        LEASE_MS,
        (sql) => sql`
          update alert_lease set holder = ${holder}, expires_at = clock_timestamp() + make_interval(secs => ${seconds})
          where holder = ${holder} or expires_at < clock_timestamp()`,
      );
      return count > 0;
    },
    async release(holder) {
      await db.run(
        LEASE_MS,
        (sql) =>
          sql`update alert_lease set holder = null, expires_at = '-infinity' where holder = ${holder}`,
      );
    },
    async look(cursor, receivers) {
      const found = await own.run(LOOK_MS, (sql) => lookAtBudgets(sql, cursor));
      return { ...found, ...(await own.run(MANY_MS, (sql) => tell(sql, receivers))) };
    },
    async lookAtCostCenters(cursor) {
      const next = await own.run(LOOK_MS, (sql) => lookAtCostCenters(sql, cursor));
      const later = await own.transaction(LOOK_MS, (sql) => lookAtEndUsers(sql, cursor));
      return next ?? later;
    },
    lookAtUnusual: (after) => own.transaction(LOOK_MS, (sql) => lookAtUnusual(sql, after)),
    due: (channel, limit, operators) =>
      own.run(DELIVERY_MS, (sql) => readDue(sql, channel, limit, operators)),
    async delivered(delivery) {
      await own.run(
        DELIVERY_MS,
        (sql) => sql`
          update event_deliveries
          set state = 'delivered', attempts = attempts + 1, delivered_at = now(), last_error = null
          where ${isThat(sql, delivery)}`,
      );
    },
    async failed(delivery, reason, pause) {
      await own.run(
        DELIVERY_MS,
        (sql) => sql`
          update event_deliveries
          set state = ${pause === null ? 'dead' : 'pending'}, attempts = attempts + 1, last_error = ${reason},
            next_attempt_at = now() + make_interval(secs => ${pause ?? 0})
          where ${isThat(sql, delivery)} and state <> 'delivered'`,
      );
    },
    async trim() {
      await own.run(MANY_MS, async (sql) => {
        await sql`delete from events where at < now() - make_interval(days => ${EVENT_DAYS})`;
        await deleteOldUnusual(sql);
        await deleteOldEndUserAlerts(sql);
      });
    },
  };
}

function isThat(sql: Sql, { event, channel, recipient }: Delivery) {
  return sql`event_id = ${event.id} and channel = ${channel} and recipient = ${recipient}`;
}

/**
 * One statement, so that every event has its deliveries, whatever ends the process. Deliveries are sent in the order in
 * which they are due, four at once: the events of others do not wait until thousands of one company are sent.
 */
async function tell(
  sql: Sql,
  { webhook, email, operators }: EventReceivers,
): Promise<Pick<EventLook, 'told' | 'dead'>> {
  const [found] = await sql<[Pick<EventLook, 'told' | 'dead'>]>`
    with untold as (
      update events set told = true where not told returning id, at, company_id, kind, body
    ),
    -- thresholds that were reached together are told by one event: that of the highest
    fresh as (
      select u.*, (
        select array_agg(a.threshold) from budget_alerts own join budget_alerts a
          on a.company_id = own.company_id and a.api_key_id is not distinct from own.api_key_id
            and a.cost_center is not distinct from own.cost_center and a.billing_month = own.billing_month
            and a.day is not distinct from own.day and a.occurred_at = own.occurred_at and (a.superseded or a.id = own.id)
        where own.company_id = u.company_id and own.id = u.id) || (u.body ->> 'threshold') as thresholds
      from untold u
    ),
    told as (
      insert into event_deliveries (event_id, channel, recipient, next_attempt_at)
      select f.id, r.channel, r.recipient, case when r.channel = 'email'
        then ${dueInTurn(sql, sql`dense_rank() over (partition by f.company_id, r.channel order by r.recipient)`)}
        else ${dueInTurn(sql, sql`row_number() over (partition by f.company_id, r.channel order by f.at, f.id)`)} end
      from fresh f cross join lateral (
        select 'webhook' as channel, '' as recipient where ${webhook}
        union select 'email', p.email from alert_readers(f.company_id) p
          where ${email} and ${isAlert(sql, 'f')}
            and (f.thresholds && p.percents::text[] or p.forecast and ${FORECAST} = any (f.thresholds))
        union select 'email', p.email from alert_readers(f.company_id) p join users u on u.email = p.email and u.company_id = f.company_id
          where ${email} and f.kind like 'unusual.%' and (p.percents <> '{}' or p.forecast)
        union select 'email', o.email from unnest(${email ? [...operators] : []}::text[]) as o (email)
          where f.kind = 'unusual.spend' or f.kind like 'budget.%' and f.thresholds && ${[...STANDARD_PERCENTS.map(String), FORECAST]}::text[]) as r
      on conflict do nothing -- a replay wrote it
      returning channel
    )
    select (select count(*)::integer from told) as told, (
      select json_build_object(
        'webhook', count(*) filter (where channel = 'webhook'), 'email', count(*) filter (where channel = 'email'))
      from event_deliveries where state = 'dead') as dead`;
  return found;
}

/** Whether an event is a budget alert. Those of cost centres and end users are for the people of the company: operators get none by e-mail. */
function isAlert(sql: Sql, event: 'e' | 'f') {
  return sql`split_part(${sql(event)}.kind, '.', 1) in ('budget', 'cost_center', 'end_user')`;
}

/** When a delivery is due. @param place among those of its company, from 1 on */
function dueInTurn(sql: Sql, place: ReturnType<Sql>) {
  return sql`now() + make_interval(secs => ${PAUSE_SECONDS}::float8 * greatest(0, ${place} - ${BURST}::integer))`;
}

/** An event's columns, of `eventColumns`. */
interface Columns {
  readonly id: string;
  readonly kind: string;
  readonly company: CompanyEvent['company'];
  readonly actor: string | null;
  readonly body: object;
  readonly occurred_at: string;
}

/** The Columns of the event `e`, its company `c` and the key `k` that its body names; see `joined`. */
function eventColumns(sql: Sql) {
  return sql`e.id, e.kind, json_build_object('id', c.id, 'name', c.name) as company, e.actor, utc_text(e.at) as occurred_at,
    e.body || case when e.body #>> '{key,id}' is null then '{}'
      else jsonb_build_object('key', e.body -> 'key' || jsonb_build_object('name', coalesce(k.name, 'removed key'))) end as body`;
}

/** Joins `c` and `k` to events `e`. */
function joined(sql: Sql) {
  // a program may have written anything as an id: one event must not keep the others from being sent
  return sql`join companies c on c.id = e.company_id
    left join api_keys k on k.id = case when e.body #>> '{key,id}' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then (e.body #>> '{key,id}')::uuid end`;
}

/** No member of a body takes the place of one that every event has. */
function eventOf({ id, kind, company, actor, body, occurred_at }: Columns): CompanyEvent {
  const head = { id, type: kind, company };
  return { ...head, ...body, ...(actor !== null && { actor }), occurred_at, ...head };
}

/**
 * A closed company gets no budget alerts, but the events of changes to it. An e-mail to somebody who is told no alerts
 * any more, such as a person who was removed, waits until the event goes.
 */
async function readDue(
  sql: Sql,
  channel: Channel,
  limit: number,
  operators: readonly string[],
): Promise<Delivery[]> {
  const rows = await sql<(Columns & Omit<Delivery, 'event'>)[]>`
    select ${eventColumns(sql)}, d.channel, d.recipient, d.attempts,
      case when u.id is not null then coalesce(u.language, c.language, u.page_language)
        when r.id is not null then coalesce(r.language, c.language) end as language,
      case when u.id is null then r.id end as outsider
    from event_deliveries d join events e on e.id = d.event_id ${joined(sql)}
    left join users u on d.channel = 'email' and u.email = d.recipient and u.company_id = e.company_id
    left join alert_receivers r on d.channel = 'email' and r.email = d.recipient and r.company_id = e.company_id
    where d.state = 'pending' and d.channel = ${channel} and d.next_attempt_at <= now()
      and (c.closed_at is null or not (${isAlert(sql, 'e')} or e.kind like 'unusual.%'))
      and (d.channel <> 'email' or d.recipient = any (${[...operators]}::text[])
        or exists (select 1 from alert_readers(e.company_id) p where p.email = d.recipient)
        or e.kind = ${CLOSED_MONTH} and ${sql.unsafe(WANTS_SUMMARY)})
    order by d.next_attempt_at, e.at, e.id limit ${channel === 'email' ? Math.max(limit, MOST_TOGETHER) : limit}`;
  const due = rows.map(({ channel, recipient, language, outsider, attempts, ...event }) => {
    return { event: eventOf(event), channel, recipient, language, outsider, attempts };
  });
  const messages = new Set(due.slice(0, limit).map(messageOf));
  return Promise.all(
    due
      .filter((delivery) => messages.has(messageOf(delivery)))
      .map((delivery) => withSummary(sql, delivery)),
  );
}

/** Adds what the e-mail of a closed month tells besides its event. */
async function withSummary(sql: Sql, delivery: Delivery): Promise<Delivery> {
  const { channel, event, recipient } = delivery;
  if (channel !== 'email' || event.type !== CLOSED_MONTH) return delivery;
  const { number } = event.statement as { readonly number: number };
  const [summary] = await sql<[Omit<ClosedMonth, 'company' | 'statement'>?]>`
    select exists (select from users where email = ${recipient} and role = 'owner') as is_owner, (
        select trim_scale(p.total_eur)::text from statements p
        where p.company_id = s.company_id and p.billing_month = s.billing_month - interval '1 month') as previous_eur, (
        select json_agg(m) from (
          select l ->> 'model' as model, trim_scale(sum((l ->> 'cost_eur')::numeric))::text as cost_eur
          from jsonb_array_elements(s.content::jsonb -> 'lines') l
          group by 1 order by sum((l ->> 'cost_eur')::numeric) desc, 1 limit ${SUMMARY_MODELS}) m) as models
    from statements s where company_id = ${event.company.id} and number = ${number}`;
  return { ...delivery, event: { ...event, ...summary } };
}

/**
 * Has the statements of a closed month sent by e-mail, to each person once: owners, but those who want no summaries, and
 * administrators who want them.
 * @param month its first day
 * @param company null: of all companies
 * @returns how many e-mails are new
 */
export async function insertSummaries(
  sql: Sql,
  month: string,
  company: string | null,
): Promise<number> {
  const { count } = await sql`
    insert into event_deliveries (event_id, channel, recipient)
    select e.id, 'email', u.email from events e join users u on u.company_id = e.company_id
    where e.kind = ${CLOSED_MONTH} and e.body #>> '{statement,month}' = ${month.slice(0, 7)}
      ${matching(sql, { 'e.company_id': company })} and ${sql.unsafe(WANTS_SUMMARY)}
    on conflict do nothing`;
  return count;
}

/** Which events; null: whatever it is. */
export interface EventFilter {
  readonly company: string | null;
  /** "key.revoked", or "key" for all that begin with it. */
  readonly kind: string | null;
  readonly since: Date | null;
  /** Of one of its deliveries. */
  readonly state: EventState | null;
}

/** The delivery of an event to one receiver. */
interface DeliveryState {
  readonly channel: Channel;
  readonly recipient: string;
  readonly state: 'pending' | 'delivered' | 'dead';
  readonly attempts: number;
  readonly last_error: string | null;
  /** ISO 8601. */
  readonly next_attempt_at: string;
  readonly delivered_at: string | null;
}

export interface EventRow {
  readonly id: string;
  /** Id of the key or the company, or number of the statement. */
  readonly subject: string;
  readonly event: CompanyEvent;
  /** Whether a gateway has seen it, and written its deliveries. */
  readonly told: boolean;
  /** Empty, and it is told: there was no receiver. */
  readonly deliveries: readonly DeliveryState[];
}

/** Events, newest first. @param after the id of the last one that was read; null: from the newest */
export async function listEvents(
  sql: Sql,
  filter: EventFilter,
  { after, limit }: Range,
): Promise<EventRow[]> {
  const rows = await sql<(Columns & Pick<EventRow, 'subject' | 'told' | 'deliveries'>)[]>`
    select ${eventColumns(sql)}, e.subject, e.told, coalesce((
        select json_agg(json_build_object('channel', d.channel, 'recipient', d.recipient, 'state', d.state,
          'attempts', d.attempts, 'last_error', d.last_error, 'next_attempt_at', utc_text(d.next_attempt_at),
          'delivered_at', utc_text(d.delivered_at)) order by d.channel desc, d.recipient)
        from event_deliveries d where d.event_id = e.id), '[]') as deliveries
    from events e ${joined(sql)}
    where ${matches(sql, filter)}
      and (${after}::uuid is null or (e.at, e.id) < (select at, id from events where id = ${after}))
    order by e.at desc, e.id desc limit ${limit}`;
  return rows.map(({ subject, told, deliveries, ...row }) => {
    return { id: row.id, subject, event: eventOf(row), told, deliveries };
  });
}

/** Deliveries by one channel that failed for one reason. */
export interface DeliveryFault {
  readonly channel: Channel;
  /** Its words; empty where a program wrote none. */
  readonly error: string;
  /** pending: they are tried again; dead: they were given up. */
  readonly state: 'pending' | 'dead';
  readonly deliveries: number;
  /** When the oldest of their events happened. */
  readonly since: Date;
  readonly next_attempt_at: Date;
}

/** Why deliveries fail or were given up, the reasons of most first. @param limit how many reasons */
export async function readFaults(sql: Sql, limit: number): Promise<DeliveryFault[]> {
  return sql<DeliveryFault[]>`
    select d.channel, coalesce(d.last_error, '') as error, d.state, count(*)::integer as deliveries,
      min(e.at) as since, min(d.next_attempt_at) as next_attempt_at
    from event_deliveries d join events e on e.id = d.event_id
    where ${sql.unsafe(IN_STATE.undelivered)}
    group by 1, 2, 3 order by 4 desc, 1, 2, 3 limit ${limit}`;
}

/** Makes the deliveries of one fault due again, in the order of their events. @returns how many */
export async function updateFault(
  sql: Sql,
  { channel, error, state }: Pick<DeliveryFault, 'channel' | 'error' | 'state'>,
): Promise<number> {
  const { count } = await sql`
    update event_deliveries d set state = 'pending', attempts = 0, next_attempt_at = due
    from (
      select d.event_id, d.recipient, ${dueInTurn(sql, sql`row_number() over (partition by e.company_id order by e.at, e.id)`)} as due
      from event_deliveries d join events e on e.id = d.event_id
      where d.channel = ${channel} and coalesce(d.last_error, '') = ${error} and d.state = ${state}
        and ${sql.unsafe(IN_STATE.undelivered)}) as chosen
    where d.channel = ${channel} and d.event_id = chosen.event_id and d.recipient = chosen.recipient`;
  return count;
}

/** Conditions on `e`. */
function matches(sql: Sql, { company, kind, since, state }: EventFilter) {
  return sql`true ${matching(sql, { 'e.company_id': company })}
    and (${kind}::text is null or e.kind = ${kind} or starts_with(e.kind, ${kind} || '.'))
    and (${since}::timestamptz is null or e.at >= ${since})
    and ${state === null ? sql`true` : sql`exists (select 1 from event_deliveries d where d.event_id = e.id and ${sql.unsafe(IN_STATE[state])})`}`;
}

/** Makes events due again, in their order. @returns how many */
export async function updateDue(
  sql: Sql,
  which: EventFilter | { readonly id: string },
): Promise<number> {
  const { count } = await sql`
    with chosen as (
      select e.id, ${dueInTurn(sql, sql`row_number() over (partition by e.company_id order by e.at, e.id)`)} as due
      from events e where ${'id' in which ? sql`e.id = ${which.id}` : matches(sql, which)}
    ),
    mails as (
      update event_deliveries set state = 'pending', attempts = 0, next_attempt_at = due
      from chosen where channel = 'email' and state <> 'delivered' and event_id = id
    )
    insert into event_deliveries as d (event_id, channel, recipient, next_attempt_at)
      select id, 'webhook', '', due from chosen
    on conflict (event_id, channel, recipient)
      do update set state = 'pending', attempts = 0, next_attempt_at = excluded.next_attempt_at, delivered_at = null`;
  return count;
}
