import { setImmediate as nextTurn } from 'node:timers/promises';
import { addDays } from '../../domain/reports/day-range.ts';
import {
  type DayFigures,
  type FoundJump,
  jumpsOf,
  type KeyModelFigures,
  LEAST,
  type SubjectDay,
  WEEKS,
} from '../../domain/unusual.ts';
import type { UnusualEvent } from '../../domain/wording/unusual.ts';
import { matching } from '../connection/columns.ts';
import { BILLING_ZONE, KEY_DAYS, nilId, TODAY } from '../connection/expressions.ts';
import type { Sql } from '../connection/pool.ts';

/** What is unusual today (sql/schema/budgets.sql). A trigger makes each that is told an event. */

/** Companies that are looked at together: a few thousand rows. */
const TOGETHER = 4;
/** Keys, and models, of a company that are looked at by themselves: those with most today. */
const MOST_EACH = 100;
/** Models of a key that are told apart, of today. */
const MOST_MODELS = 20;
/** Days for which rows are kept. */
const KEPT_DAYS = 90;

type Fragment = ReturnType<typeof weight>;

interface Clock {
  /** "2026-11-28", in the billing time zone. */
  readonly today: string;
  /** Seconds of the day by the clock on the wall. */
  readonly seconds: number;
  /** The hours of today, and of the same weekday of the weeks before. */
  readonly hours: readonly string[];
}

/** DayFigures of a day up to the present time of day, and the requests of the whole day. */
type DayRow = Omit<DayFigures, 'spend'> & {
  readonly company: string;
  readonly key: string | null;
  readonly model: string | null;
  readonly day: string;
  readonly whole: number;
};

interface SpendRow {
  readonly company: string;
  readonly key: string | null;
  readonly model: string | null;
  /** EUR by day. */
  readonly days: Readonly<Record<string, number>>;
}

/**
 * Looks at the next companies with so much today that it may be unusual, writes what is, and brings up to date what was
 * found today. Does nothing where another gateway is looking. To be run in a transaction.
 * @param after the last company that was looked at; null: from the first
 * @returns the last company; null: there is no further one
 */
export async function lookAtUnusual(sql: Sql, after: string | null): Promise<string | null> {
  const [{ free }] = await sql<[{ free: boolean }]>`
    select pg_try_advisory_xact_lock(hashtext('tollgate unusual')) as free`;
  if (!free) return null;
  const clock = await readClock(sql);
  const companies = await busyCompanies(sql, clock, after);
  const last = companies.at(-1)?.id;
  if (last === undefined) return null;
  const ids = companies.map(({ id }) => id);
  const parts = await readParts(sql, clock, ids);
  const lines = await readLines(sql, ids, [...new Set(parts.map(({ key }) => key))]);
  const keys = [...lines.keys()];
  const models = (await readModels(sql, clock, ids)).map(({ model }) => model);
  const days = [
    ...(await readDays(sql, clock, ids, 'company')),
    ...(await readDays(sql, clock, ids, 'model', models)),
    ...(await readDays(sql, clock, ids, 'key', keys)),
  ];
  const spends = [
    ...(await readSpend(sql, clock, ids, null)),
    ...(await readSpend(sql, clock, ids, models)),
    ...(await readKeySpend(sql, clock, ids, keys)),
  ];
  const found = await readFound(sql, clock, ids);
  const rows: Row[] = [];
  for (const { id, times } of companies) {
    await nextTurn(); // requests go first: a company with many keys and models takes some milliseconds
    const own = <T extends { readonly company: string }>(all: readonly T[]) =>
      all.filter(({ company }) => company === id);
    const subjects = subjectsOf(clock.today, own(days), own(spends), lines);
    const ofLine = own(parts).map((part) => ({ ...part, key: lines.get(part.key) ?? part.key }));
    const before = own(found).map((each) => ({
      ...each,
      key: each.key && (lines.get(each.key) ?? each.key),
    }));
    for (const jump of jumpsOf(clock.today, subjects, ofLine, times, before)) {
      const about = (jump.subject === 'company' ? null : jump[jump.subject]) ?? '';
      // the key of the line with most today
      const most = own(parts).find(({ key }) => (lines.get(key) ?? key) === jump.key)?.key;
      rows.push({ ...jump, company: id, about, key: most ?? jump.key });
    }
  }
  if (rows.length > 0) await writeJumps(sql, clock, rows);
  return companies.length < TOGETHER ? null : last;
}

async function readClock(sql: Sql): Promise<Clock> {
  const [row] = await sql<[Clock]>`
    with clock as materialized (
      select zone, now() at time zone zone as local from (select value as zone from settings where name = 'billing_timezone') z
    )
    select to_char(local, 'YYYY-MM-DD') as today, extract(epoch from local::time)::float8 as seconds, (
      select array_agg(hour::text order by hour) from generate_series(
        date_trunc('hour', now(), 'UTC') - make_interval(days => ${7 * WEEKS + 1}), now(), interval '1 hour') hour
      where (local::date - (hour at time zone zone)::date) % 7 = 0) as hours
    from clock`;
  return row;
}

/** The first day of the weeks that are compared, and the months that have their days. */
function rangeOf({ today }: Clock) {
  const first = addDays(today, -7 * WEEKS);
  const months = [0, 1, 2].map((back) => {
    const [year, month] = first.split('-').map(Number) as [number, number];
    return new Date(Date.UTC(year, month - 1 + back, 1)).toISOString().slice(0, 10);
  });
  return { first, month: `${today.slice(0, 7)}-01`, months };
}

/** Rows of one day lie beside each other in both tables. */
function busyCompanies(sql: Sql, clock: Clock, after: string | null) {
  const { today } = clock;
  return sql<{ id: string; times: number }[]>`
    with busy as materialized (
      select company_id from usage_company_days
      where day = ${today}::date and billing_month = ${rangeOf(clock).month}::date
      group by 1 having sum(cost_eur) > ${LEAST.spend}
      union
      select company_id from request_days where day = ${today}::date
      group by 1 having sum(refused) > ${LEAST.refused} or sum(failed) > ${LEAST.failed} or sum(requests - refused) >= ${LEAST.served}
    )
    select id, unusual_times::integer as times from companies
    where id = any(array(select company_id from busy)) and unusual_times is not null and closed_at is null
      and (${after}::uuid is null or id > ${after})
    order by id limit ${TOGETHER}`;
}

const SUMS = `sum(requests)::float8 as requests, sum(refused)::float8 as refused, sum(failed)::float8 as failed,
  sum(requests - refused)::float8 as served, sum(duration_ms)::float8 as duration_ms`;

/** How much figures of a day are of those that may be unusual: from 1 on they may. @param of 'sum' of rows, or '' of one */
const mostOf = (of: 'sum' | ''): string =>
  `greatest(${of}(spend) / ${LEAST.spend}, ${of}(refused) / ${LEAST.refused}, ${of}(failed) / ${LEAST.failed}, ${of}(served) / ${LEAST.served})`;

/** Figures of today by key and model, of the keys that may be unusual: those with most. */
function readParts(sql: Sql, clock: Clock, ids: readonly string[]) {
  const names = sql.unsafe('company_id, api_key_id, model_slug');
  const hours = clock.hours.slice(-25); // those of today are among them
  return sql<(KeyModelFigures & { company: string })[]>`
    with spent as materialized (
      select ${names}, sum(cost_eur)::float8 as spend from usage_daily
      where company_id = any(${[...ids]}::uuid[]) and billing_month = ${rangeOf(clock).month}::date and day = ${clock.today}::date group by 1, 2, 3
    ),
    counted as materialized (
      select ${names}, ${sql.unsafe(SUMS)} from request_hours
      where company_id = any(${[...ids]}::uuid[]) and hour = any(${hours}::text[]::timestamptz[])
        and (hour at time zone ${sql.unsafe(BILLING_ZONE)})::date = ${clock.today}::date group by 1, 2, 3
    ),
    parts as (
      select ${names}, coalesce(spend, 0) as spend, coalesce(requests, 0) as requests, coalesce(refused, 0) as refused,
        coalesce(failed, 0) as failed, coalesce(served, 0) as served, coalesce(duration_ms, 0) as duration_ms
      from spent full join counted using (company_id, api_key_id, model_slug)
    ),
    keys as materialized (
      select *, row_number() over (partition by company_id order by most desc) as place from (
        select company_id, api_key_id, ${sql.unsafe(mostOf('sum'))} as most from parts where api_key_id <> ${nilId(sql)} group by 1, 2) k
      where most >= 1
    ),
    ranked as (
      select *, row_number() over (partition by company_id, api_key_id order by ${sql.unsafe(mostOf(''))} desc) as rank
      from parts join keys using (company_id, api_key_id) where place <= ${MOST_EACH}
    )
    select company_id as company, api_key_id as key, case when rank <= ${MOST_MODELS} then model_slug end as model, sum(spend) as spend,
      ${sql.unsafe(SUMS.replace('requests - refused', 'served'))}
    from ranked group by company_id, api_key_id, 3, place order by place`;
}

/** The models that may be unusual: those with most today. */
function readModels(sql: Sql, clock: Clock, ids: readonly string[]) {
  const { today } = clock;
  return sql<{ model: string }[]>`
    with parts as (
      select company_id, model_slug, cost_eur as spend, 0 as refused, 0 as failed, 0 as served from usage_company_days
      where company_id = any(${[...ids]}::uuid[]) and billing_month = ${rangeOf(clock).month}::date and day = ${today}::date
      union all
      select company_id, model_slug, 0, refused, failed, requests - refused from request_days
      where company_id = any(${[...ids]}::uuid[]) and day = ${today}::date
    )
    select model_slug as model from (
      select model_slug, most, row_number() over (partition by company_id order by most desc) as place from (
        select company_id, model_slug, ${sql.unsafe(mostOf('sum'))} as most from parts group by 1, 2) m) ranked
    where most >= 1 and place <= ${MOST_EACH} group by 1`;
}

/** The first key of the line of each, by the ids of all keys of these lines. A key whose row is gone stands for itself. */
async function readLines(sql: Sql, companies: readonly string[], keys: readonly string[]) {
  const rows = await sql<{ id: string; line: string }[]>`
    select id, line from api_keys where company_id = any(${[...companies]}::uuid[])
      and line = any(array(select line from api_keys where id = any(${[...keys]}::uuid[])))`;
  return new Map([
    ...keys.map((id) => [id, id] as const),
    ...rows.map(({ id, line }) => [id, line] as const),
  ]);
}

/** How much of the hour of a row counts: all of today, and of other days what was before the present time of day. */
function weight(sql: Sql, { today, seconds }: Clock) {
  const local = `hour at time zone ${BILLING_ZONE}`;
  return sql`case when (${sql.unsafe(local)})::date = ${today}::date then 1
    else least(1, greatest(0, (${seconds}::float8 - extract(epoch from (${sql.unsafe(local)})::time)) / 3600)) end`;
}

/** Rows of the hours of the compared days, as `h`. */
function hoursOf(sql: Sql, clock: Clock, ids: readonly string[], only: Fragment): Fragment {
  return sql`(
    select company_id, api_key_id, model_slug, to_char(hour at time zone ${sql.unsafe(BILLING_ZONE)}, 'YYYY-MM-DD') as day, ${weight(sql, clock)} as part,
      requests, refused, failed, duration_ms
    from request_hours where company_id = any(${[...ids]}::uuid[]) and hour = any(${[...clock.hours]}::text[]::timestamptz[]) and ${only}) as h`;
}

const WEIGHED = `sum(requests * part)::float8 as requests, sum(refused * part)::float8 as refused, sum(failed * part)::float8 as failed,
  sum((requests - refused) * part)::float8 as served, sum(duration_ms * part)::float8 as duration_ms,
  sum(requests)::float8 as whole`;

/** Of the companies themselves, or of the models or keys that are named. */
function readDays(
  sql: Sql,
  clock: Clock,
  ids: readonly string[],
  by: SubjectDay['subject'],
  names: readonly string[] = [],
) {
  const key = by === 'key' ? sql`api_key_id` : sql`null::uuid`;
  const model = by === 'model' ? sql`model_slug` : sql`null::text`;
  const only = {
    company: sql`true`,
    model: sql`model_slug = any(${[...names]}::text[])`,
    key: sql`api_key_id = any(${[...names]}::uuid[])`,
  };
  return sql<DayRow[]>`
    select company_id as company, ${key} as key, ${model} as model, day, ${sql.unsafe(WEIGHED)}
    from ${hoursOf(sql, clock, ids, only[by])} group by 1, 2, 3, 4`;
}

/** Whole days of the companies themselves, or of models. @param models null: the companies */
function readSpend(
  sql: Sql,
  clock: Clock,
  ids: readonly string[],
  models: readonly string[] | null,
) {
  const { first, months } = rangeOf(clock);
  const model = models === null ? sql`null::text` : sql`model_slug`;
  return sql<SpendRow[]>`
    select company_id as company, null as key, model, json_object_agg(day, spend) as days from (
      select company_id, ${model} as model, day, sum(cost_eur)::float8 as spend
      from usage_company_days
      where company_id = any(${[...ids]}::uuid[]) and billing_month = any(${months}::date[]) and day between ${first}::date and ${clock.today}::date
        ${models === null ? sql`` : sql`and model_slug = any(${[...models]}::text[])`}
      group by 1, 2, 3) d
    group by company_id, model`;
}

function readKeySpend(sql: Sql, clock: Clock, ids: readonly string[], keys: readonly string[]) {
  const { first, months } = rangeOf(clock);
  return sql<SpendRow[]>`
    select company_id as company, key, null as model, json_object_agg(day, spend) as days from (
      select company_id, api_key_id as key, billing_month + number::integer - 1 as day, sum(eur)::float8 as spend
      from usage_key_months cross join lateral unnest(array[${sql.unsafe(KEY_DAYS.join(', '))}]) with ordinality as d (eur, number)
      where company_id = any(${[...ids]}::uuid[]) and billing_month = any(${months}::date[]) and api_key_id = any(${[...keys]}::uuid[])
        and eur is not null group by 1, 2, 3) d
    where day between ${first}::date and ${clock.today}::date group by 1, 2`;
}

function readFound(sql: Sql, { today }: Clock, ids: readonly string[]) {
  return sql<(FoundJump & { company: string })[]>`
    select company_id as company, to_char(day, 'YYYY-MM-DD') as day, measure, subject, coalesce(api_key_id::text, case subject when 'key' then about end) as key,
      model_slug as model, value::float8 as value, usual::float8 as usual
    from unusual_days where company_id = any(${[...ids]}::uuid[]) and day >= ${addDays(today, -7 * WEEKS)}::date`;
}

const NOTHING: DayFigures = {
  spend: 0,
  requests: 0,
  refused: 0,
  failed: 0,
  served: 0,
  duration_ms: 0,
};

function sumOf(
  all: DayFigures,
  { requests, refused, failed, served, duration_ms }: DayRow,
): DayFigures {
  return {
    spend: all.spend,
    requests: all.requests + requests,
    refused: all.refused + refused,
    failed: all.failed + failed,
    served: all.served + served,
    duration_ms: all.duration_ms + duration_ms,
  };
}

const isWeekend = (day: string) => [0, 6].includes(new Date(day).getUTCDay());

/**
 * What is compared of a company: itself, and its keys and models, the keys of a line together. Spend is known by the day
 * alone: as much of it is of the same hours as of the requests.
 */
function subjectsOf(
  today: string,
  days: readonly DayRow[],
  spends: readonly SpendRow[],
  lines: ReadonlyMap<string, string>,
): SubjectDay[] {
  const nameOf = ({ key, model }: Pick<SpendRow, 'key' | 'model'>) =>
    JSON.stringify([key && (lines.get(key) ?? key), model]);
  const daysOf = Map.groupBy(days, nameOf);
  const spendsOf = Map.groupBy(spends, nameOf);
  return [...new Set([...daysOf.keys(), ...spendsOf.keys()])].map((name) => {
    const [key, model] = JSON.parse(name) as [string | null, string | null];
    const byDay = Map.groupBy(daysOf.get(name) ?? [], ({ day }) => day);
    const eur = new Map<string, number>();
    for (const { days: each } of spendsOf.get(name) ?? [])
      for (const [day, spend] of Object.entries(each)) eur.set(day, (eur.get(day) ?? 0) + spend);
    const partOf = (day: string): number => {
      const rows = byDay.get(day) ?? [];
      const sum = (of: 'requests' | 'whole') => rows.reduce((all, row) => all + row[of], 0);
      return sum('whole') === 0 ? 1 : sum('requests') / sum('whole');
    };
    const figuresOf = (day: string): DayFigures => ({
      ...(byDay.get(day) ?? []).reduce(sumOf, NOTHING),
      spend: (eur.get(day) ?? 0) * (day === today ? 1 : partOf(day)),
    });
    const known = [...eur.keys(), ...byDay.keys()].sort()[0] ?? today;
    const before = Array.from({ length: WEEKS }, (_, at) => addDays(today, -7 * (at + 1)));
    const weeks = before
      .filter((day) => day >= known)
      .map((day) => ({ day, figures: figuresOf(day) }));
    // of other days no hours are read: as much of them as of these
    const parts = weeks.map(({ day }) => partOf(day));
    const part = parts.length === 0 ? 1 : parts.reduce((a, b) => a + b, 0) / parts.length;
    const others = [...eur].filter(([day]) => day < today && isWeekend(day) === isWeekend(today));
    return {
      subject: key !== null ? 'key' : model !== null ? 'model' : 'company',
      key,
      model,
      today: figuresOf(today),
      weeks,
      days: others.map(([day, spend]) => ({ day, spend: spend * part })),
    };
  });
}

type Row = ReturnType<typeof jumpsOf>[number] & {
  readonly company: string;
  readonly about: string;
};

/** A row for each; those of today that are there already tell what holds now. */
async function writeJumps(sql: Sql, { today }: Clock, rows: readonly Row[]): Promise<void> {
  await sql`
    insert into unusual_days as u (company_id, day, measure, subject, about, api_key_id, model_slug, value, usual, superseded, occurred_at, seen_at)
    select company, ${today}::date, measure, subject, about, key, nullif(model, ''), round(value, 6), round(usual, 6), not "isTold", now(), now()
    from json_to_recordset(${JSON.stringify(rows)}::text::json) as r (company uuid, measure text, subject text, about text, key uuid, model text,
      value numeric, usual numeric, "isTold" boolean)
    on conflict (company_id, day, measure, subject, about) do update set value = excluded.value, usual = excluded.usual, seen_at = now(),
      api_key_id = excluded.api_key_id, model_slug = excluded.model_slug`;
}

export async function deleteOldUnusual(sql: Sql): Promise<void> {
  await sql`delete from unusual_days where day < ${sql.unsafe(TODAY)} - ${KEPT_DAYS}::integer`;
}

/** What was unusual on a day, with what it is in the list. */
export type UnusualRow = Omit<UnusualEvent, 'type' | 'occurred_at'> & {
  readonly measure: FoundJump['measure'];
  /** Whether it belongs to a jump that another row tells. */
  readonly superseded: boolean;
};

/**
 * What is unusual today, spend first. Of a jump that began on a day before it is the first row.
 * @param company null: of all
 * @param isWhole also the keys and models of a jump that another row tells
 */
export async function readUnusual(
  sql: Sql,
  company: string | null,
  isWhole: boolean,
  limit: number,
): Promise<UnusualRow[]> {
  return sql<UnusualRow[]>`
    with ranked as (
      select *, row_number() over (partition by company_id, measure order by superseded, array_position(array['company', 'key', 'model'], subject), value desc) as place
      from unusual_days where day = ${sql.unsafe(TODAY)} ${matching(sql, { company_id: company })}
    ),
    chosen as (select * from ranked where ${isWhole} or not superseded or place = 1)
    select u.id, u.measure, u.subject, json_build_object('id', c.id, 'name', c.name) as company,
      case when u.api_key_id is not null then json_build_object('id', u.api_key_id, 'name', coalesce(k.name, 'removed key'), 'prefix', coalesce(k.prefix, '')) end as key,
      u.model_slug as model, to_char(u.day, 'YYYY-MM-DD') as day, to_char(u.seen_at at time zone ${sql.unsafe(BILLING_ZONE)}, 'HH24:MI') as until,
      trim_scale(u.value)::text as value, trim_scale(u.usual)::text as usual, u.superseded
    from chosen u join companies c on c.id = u.company_id left join api_keys k on k.id = u.api_key_id and k.company_id = u.company_id
    order by u.superseded, u.measure = 'spend' desc, u.value / greatest(u.usual, 0.01) desc, u.id limit ${limit}`;
}
