import { COLUMN_PARTS } from '../../domain/pricing/parts.ts';
import type { ChargedPart } from '../../domain/pricing/prices.ts';
import type { RequestFacts, ResultFilter } from '../../domain/reports/request-explanation.ts';
import { type BookedDetails, TOKEN_DETAILS } from '../../domain/usage.ts';
import { firstRequestId, requestIdTime } from '../../runtime/request-id.ts';
import { matching } from '../connection/columns.ts';
import { type CursorPage, cut } from '../connection/cursor.ts';
import { NIL_ID } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';
import { FAILED, UPSTREAM_FAILED } from '../gateway/request-trail.ts';
import { PAGE_ROWS } from '../lists/page.ts';
import { IN_COLUMNS } from '../statement/cost.ts';
import { ofKeys } from './cube.ts';

/** Requests as pages and the command line show them (sql/schema/requests.sql). */

/** Rows of the trail, and of the sums by hour, that a filtered list looks at in one statement. */
const WINDOW = 10_000;
const WINDOW_OF_KEYS = 200; // it is read of each of them
const HOURS_WINDOW = 10_000;
const ENOUGH_MS = 50;
const HOUR_MS = 3_600_000;

/** One request. Times are those of `request_trail`; EUR is exact decimal text. */
export interface RequestRow extends RequestFacts {
  readonly request_id: string;
  readonly occurred_at: Date;
  readonly company_id: string | null;
  /** Names are null where the subject is unknown or was removed. */
  readonly company_name: string | null;
  readonly key_name: string | null;
  readonly key_prefix: string | null;
  readonly prompt_tokens: number | null;
  readonly completion_tokens: number | null;
  readonly duration_ms: number | null;
  readonly added_us: number | null;
  readonly first_event_ms: number | null;
}

/** One request with its row of the ledger, and with the upstream's error where the reader may know it. */
export interface RequestDetail extends RequestRow, BookedDetails {
  /** False: the trail does not have it; the status and times are not known. */
  readonly in_trail: boolean;
  readonly usage_source: 'upstream' | 'estimated' | null;
  /** Which rate of the price held; null: the base price. */
  readonly rate: string | null;
  /** What the cost consists of, where a rate held or more than the parts with prices of their own in the ledger was charged. */
  readonly charged: readonly ChargedPart[] | null;
  readonly upstream_status: number | null;
  readonly upstream_reason: string | null;
  /** The upstream's own cost of the call, as it told: exact decimal text, and its currency. */
  readonly upstream_cost: string | null;
  readonly upstream_currency: string | null;
}

/** A place in the list: behind the request that came at this time with this id. */
export interface RequestCursor {
  readonly at: Date;
  readonly id: string;
}

export interface RequestsQuery {
  /** null: all companies and requests without one; for operators. */
  readonly company: string | null;
  readonly key: string | null;
  /** Requests of these keys alone, such as those of a person; nothing: of all. */
  readonly keys?: readonly string[] | null;
  readonly model: string | null;
  readonly endpoint: string | null;
  /** A kind of result, or one status. What the upstream failed is found without a company and keys alone. */
  readonly status: ResultFilter | number | null;
  /** Code of an error, or its name where it has no code; nothing: any. */
  readonly code?: string | null;
  readonly from: Date | null;
  /** The first instant that is left out. */
  readonly to: Date | null;
  /** null: from the newest. */
  readonly before: RequestCursor | null;
  /** Rows of the page at most; PAGE_ROWS unless given. */
  readonly limit?: number;
}

/** Older requests may match although this page has few or none. */
export type RequestsPage = CursorPage<RequestRow, RequestCursor>;

/**
 * A page of requests, the newest first. What no index finds is looked for in windows, and hours without any are
 * skipped by their sums. After ENOUGH_MS the page is shown as it is, and the next page goes on from there.
 */
export async function pageOfRequests(sql: Sql, query: RequestsQuery): Promise<RequestsPage> {
  const { model, endpoint, status, code = null, limit = PAGE_ROWS } = query;
  if (model === null && endpoint === null && status === null && code === null) {
    return pageOf(await readRows(sql, query, limit + 1), limit, null);
  }
  const end = performance.now() + ENOUGH_MS;
  const rows: RequestRow[] = [];
  let next = query.before;
  do {
    const from = { ...query, before: next };
    rows.push(...(await readRows(sql, from, windowOf(query))));
    if (rows.length > limit) break;
    next = await endOfWindow(sql, from);
    if (next !== null) next = await skipHours(sql, query, next);
  } while (next !== null && performance.now() < end);
  return pageOf(rows, limit, next);
}

function windowOf({ keys = null }: RequestsQuery): number {
  return keys === null ? WINDOW : WINDOW_OF_KEYS;
}

/** @param next where to go on if all rows are shown */
function pageOf(
  rows: readonly RequestRow[],
  limit: number,
  next: RequestCursor | null,
): RequestsPage {
  const page = cut(rows, limit, ({ occurred_at: at, request_id: id }) => ({ at, id }));
  return { ...page, next: page.next ?? next };
}

/** The place, or the end of the newest hour before it that has any by the sums of hours; null when there is none. */
async function skipHours(
  sql: Sql,
  query: RequestsQuery,
  place: RequestCursor,
): Promise<RequestCursor | null> {
  const { company, key, keys = null, model, endpoint, status, from } = query;
  const sum = sumOf(status);
  const [found] = await sql<[{ hour: Date | null; oldest: Date | null; rows: number }]>`
    select max(hour) filter (where true ${ofKeys(sql, keys)} ${matching(sql, { api_key_id: key, model_slug: model, endpoint })}
        ${sum === null ? sql`` : sql`and ${sql(sum)} > 0`}) as hour,
      min(hour) as oldest, count(*)::integer as rows
    from (
      select * from request_hours
      where hour < ${place.at} ${matching(sql, { company_id: company })}
        ${from === null ? sql`` : sql`and hour > ${from}::timestamptz - interval '1 hour'`}
      order by hour desc limit ${HOURS_WINDOW}) h`;
  const hour = found.hour ?? (found.rows < HOURS_WINDOW ? null : found.oldest);
  if (hour === null) return null;
  const end = hour.getTime() + HOUR_MS;
  // no id of that instant sorts before it: the next hour's first instant is left out
  return end < place.at.getTime() ? { at: new Date(end), id: firstRequestId(end) } : place;
}

/** The sum of an hour that is 0 where no request of the hour has the status; null: there is none. */
function sumOf(status: RequestsQuery['status']): string | null {
  if (typeof status === 'number')
    return status >= 500 ? 'failed' : status >= 400 ? 'refused' : null;
  return status === 'success' || status === 'left' ? null : status;
}

/** The rows of the trail that an index finds, from a place on; no others are read. Failures of a key within a company have no index. */
function trailFrom(sql: Sql, query: RequestsQuery, window: number) {
  const { company, key, keys = null } = query;
  const order = sql`order by t.occurred_at desc, t.request_id desc`;
  if (keys !== null) {
    // the newest of each key by its index: no request of another key is read, and none is where the next page begins
    const ids = key === null ? keys : keys.filter((id) => id === key);
    const ofKey = sql`select ${sql.unsafe(TRAIL)} from request_trail t
      where t.api_key_id = k.id ${matching(sql, { company_id: company })} ${behind(sql, query)} ${order} limit ${window}`;
    return sql`from unnest(${[...ids]}::uuid[]) as k (id), lateral (${ofKey}) t ${order}`;
  }
  const api_key_id = company !== null && isFailure(query) ? null : key;
  return sql`
    from request_trail t
    where true ${matching(sql, { company_id: company, api_key_id })}
      ${isFailure(query) ? sql`and (t.status >= 400 or t.code is not null)` : sql``} ${behind(sql, query)} ${order}`;
}

/** " and …" for the rows behind the place of a query, within its times. */
function behind(sql: Sql, { from, to, before }: RequestsQuery) {
  return sql`
      ${from === null ? sql`` : sql`and t.occurred_at >= ${from}`}
      ${to === null ? sql`` : sql`and t.occurred_at < ${to}`}
      ${before === null ? sql`` : sql`and t.occurred_at <= ${before.at} and (t.occurred_at, t.request_id) < (${before.at}, ${before.id})`}`;
}

/** The first rows of `trailFrom` that match, one more than a page has. @param window how many are looked at */
function readRows(sql: Sql, query: RequestsQuery, window: number): PromiseLike<RequestRow[]> {
  const { key, model, endpoint, status, code = null, limit = PAGE_ROWS } = query;
  const judged =
    status === 'upstream_failed' ? sql`, ${sql.unsafe(UPSTREAM_FAILED)} as judged` : sql``;
  return sql<RequestRow[]>`
    select ${columns(sql)} from (
      select * from (select ${sql.unsafe(TRAIL)} ${judged} ${trailFrom(sql, query, window)} limit ${window}) t
      where true ${matching(sql, { api_key_id: key, model_slug: model, endpoint, code })} ${statusIs(sql, status)}
      order by t.occurred_at desc, t.request_id desc limit ${limit + 1}) t
    ${names(sql)} order by t.occurred_at desc, t.request_id desc`;
}

/** The last row of a window; null when the rows ended before it. */
async function endOfWindow(sql: Sql, query: RequestsQuery): Promise<RequestCursor | null> {
  const window = windowOf(query);
  const [last] = await sql<RequestCursor[]>`
    select t.occurred_at as at, t.request_id as id ${trailFrom(sql, query, window)} offset ${window - 1} limit 1`;
  return last ?? null;
}

/**
 * One request, from the trail and the ledger; null when neither has it.
 * @param company looks among its requests alone; null: among all, with the upstream's error, which the tenant role may
 * not read
 */
export async function findRequest(
  sql: Sql,
  id: string,
  company: string | null,
): Promise<RequestDetail | null> {
  const isInternal = company === null;
  const at = requestIdTime(id);
  if (at === null) return null;
  const time = new Date(at);
  const [row] = await sql<RequestDetail[]>`
    with trail as (
      select ${sql.unsafe(TRAIL)}, ${isInternal ? sql`upstream_status, upstream_reason` : sql`null::smallint as upstream_status, null::text as upstream_reason`}
      from request_trail t
      where occurred_at = ${time} and request_id = ${id} ${matching(sql, { company_id: company })}
    ),
    booked as (
      select ${sql.unsafe(BOOKED)}, ${sql.unsafe(CHARGED_PARTS)} as charged from api_usage
      where billing_month in (date_trunc('month', ${time}::timestamptz - interval '1 day')::date, date_trunc('month', ${time}::timestamptz + interval '1 day')::date)
        and request_id = ${id} ${matching(sql, { company_id: company })}
    ),
    told as (
      ${isInternal ? sql`select * from upstream_costs join booked using (company_id, billing_month, request_id)` : sql`select null::numeric as cost, null::text as currency`}
    ),
    t as (
      select ${sql.unsafe(BOTH)} from trail r full join booked b on true
    )
    select ${columns(sql)}, t.in_trail, t.usage_source, t.upstream_status, t.upstream_reason,
      ${sql.unsafe(TOKEN_DETAILS.map((name) => `t.${name}`).join(', '))}, t.rate, t.charged,
      (select trim_scale(cost)::text from told) as upstream_cost, (select currency from told) as upstream_currency
    from t ${names(sql)}`;
  return row ?? null;
}

/** The last attempt with a key that does not work. */
export type LastRefused = Pick<RequestRow, 'request_id' | 'occurred_at'>;

/** The last request of a key, if its key was refused; null when none is kept. The row that an index finds first is read alone. */
export async function lastRefused(sql: Sql, key: string): Promise<LastRefused | null> {
  const [row] = await sql<LastRefused[]>`
    select request_id, occurred_at from (
      select request_id, occurred_at, status from request_trail
      where api_key_id = ${key} order by occurred_at desc, request_id desc limit 1) as last
    where status = 401`;
  return row ?? null;
}

/** The columns that everybody may read. */
const TRAIL = `company_id, occurred_at, request_id, api_key_id, status, duration_ms, added_us, first_event_ms, endpoint,
  model_slug, asked, code, param, outcome, prompt_tokens, completion_tokens, cost_eur`;
/** The columns of a row of the ledger that are read, each of which the tenant role may read. */
const BOOKED = `billing_month, request_id, company_id, api_key_id, model_slug, endpoint, prompt_tokens, completion_tokens, cost_eur,
  usage_source, outcome, occurred_at, cost_center, end_user_id, rate, ${TOKEN_DETAILS.join(', ')}`;

/** The parts of the cost of a row; null where its price is one of four without a condition. */
const CHARGED_PARTS = `case when parts is not null then parts when rate is not null then (
  select jsonb_agg(jsonb_build_object('part', part, 'units', units, 'price', trim_scale(price)::text) order by place)
  from (values ${COLUMN_PARTS.map((part, place) => `(${place}, '${part}', ${IN_COLUMNS[part].join(', ')})`).join(', ')}) as p (place, part, units, price)
  where units > 0) end`;
/** The ledger knows tokens and cost of calls whose client had left; the trail knows the rest better. */
const BOTH = [
  'r.request_id is not null as in_trail, r.upstream_status, r.upstream_reason, r.status, r.duration_ms, r.added_us',
  'r.first_event_ms, r.asked, r.code, r.param, b.usage_source, b.rate, b.charged',
  ...TOKEN_DETAILS.map((name) => `b.${name}`),
  ...['company_id', 'request_id', 'api_key_id', 'endpoint', 'model_slug', 'occurred_at'].map(
    (name) => `coalesce(r.${name}, b.${name}) as ${name}`,
  ),
  ...['outcome', 'prompt_tokens', 'completion_tokens', 'cost_eur'].map(
    (name) => `coalesce(b.${name}, r.${name}) as ${name}`,
  ),
].join(', ');

/** The columns of a RequestRow, of `t` and its names. */
function columns(sql: Sql) {
  return sql`t.request_id, t.occurred_at, nullif(t.company_id, ${NIL_ID}) as company_id, c.name as company_name,
    nullif(t.api_key_id, ${NIL_ID}) as api_key_id, k.name as key_name, k.prefix as key_prefix, t.status, t.duration_ms,
    t.added_us, t.first_event_ms, t.endpoint, t.model_slug, t.asked, t.code, t.param, t.outcome, t.prompt_tokens,
    t.completion_tokens, trim_scale(t.cost_eur)::text as cost_eur`;
}

function names(sql: Sql) {
  return sql`left join companies c on c.id = t.company_id left join api_keys k on k.id = t.api_key_id`;
}

/** Whether all that is looked for is in the index of refused and failed requests. */
function isFailure({ status, code = null }: RequestsQuery): boolean {
  if (code !== null) return true;
  return typeof status === 'number' ? status >= 400 : status === 'refused' || status === 'failed';
}

function statusIs(sql: Sql, status: RequestsQuery['status']) {
  if (status === null) return sql``;
  if (typeof status === 'number') return sql`and t.status = ${status}`;
  return {
    success: sql`and t.status = 200 and t.code is null`,
    refused: sql`and t.status between 400 and 499`,
    failed: sql`and ${sql.unsafe(FAILED)}`,
    left: sql`and t.status = 0`,
    upstream_failed: sql`and t.judged`,
  }[status];
}
