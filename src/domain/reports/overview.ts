import type { Schema } from '../settings/schema.ts';
import * as schema from '../settings/schema.ts';
import { duration, NO_TENANT_ROLE } from '../wording/start-notice.ts';
import { isRefusal, reasonOfCode } from './request-explanation.ts';

/** The state of a whole installation, for operators, and the problems in it. */

const { count, day, id, instant, string, sum, textOrNull } = schema;
const number: Schema<number> = { type: 'number' };
const numberOrNull = schema.orNull(number);
/** With one decimal. It is never null, though programs are told that it may be. */
const percent: Schema<number> = { type: ['number', 'null'] };

/** Sums over API calls of all companies. */
const totals = { requests: count, tokens: count, cost_eur: sum };
const company = schema.object({ id, name: string });
/** The name is null for a company that was removed. */
const anyCompany = { id, name: textOrNull };

/** A day or a month that is not over. */
const period = {
  ...totals,
  /** Its first day. */
  begins: day,
  // between two marks it is interpolated
  before: schema.described(schema.object(totals), 'up to the same time of the day or month before'),
  // the companies that spend most; null: all together spent nothing
  spenders: schema.array(schema.object({ ...anyCompany, cost_eur: sum, share: numberOrNull })),
};

/** A budget that is used to 80 %, or will be passed at this pace. */
const nearBudget = schema.object({
  company,
  // null: the budget of the company itself
  key: schema.orNull(schema.object({ ...company.properties, prefix: string })),
  budget_eur: sum,
  spent_eur: sum,
  percent,
  // at the end of the month; null in its first two days
  forecast_percent: numberOrNull,
  reached_on: schema.described(
    schema.orNull(day),
    'at the present pace; null: reached, or not in this month',
  ),
  owners: schema.array(string, 'addresses of owners of the company, three at most'),
});

const requests = { requests: count, refused: count, failed: count };

/** The requests of a day of all companies, and of none. Its hours are those that begin on it. */
const requestDay = schema.object({
  day,
  // its first hour, and the first one after it
  begins: instant,
  ends: instant,
  ...requests,
  reasons: {
    type: 'object',
    additionalProperties: count,
    description: 'by error code',
  } as Schema<Counts>,
  // up to a quarter of an hour ago; null: none is known
  p50: schema.described(numberOrNull, 'milliseconds of requests that were not refused'),
  p95: numberOrNull,
});
type Counts = Readonly<Record<string, number>>;

/** Requests of one company that got the same error in the present hour or the one before. */
const refused = schema.object({
  code: string,
  requests: count,
  company: schema.orNull(schema.object(anyCompany)),
  of: schema.described(count, 'all requests of the company in that time'),
  owners: schema.array(string),
});

/** Requests of all companies, and of none, in the present hour and the 23 before. */
const lastDay = schema.object({
  ...requests,
  reasons: schema.array(
    schema.object({
      code: string,
      requests: count,
      // how many got it
      companies: count,
      most: schema.orNull(schema.object({ ...anyCompany, requests: count })),
    }),
    'by error code, and the company that got each most often; null: requests without a valid key',
  ),
});

/** Requests for a model in the present hour and the 23 before: refused with 4xx, failed with 5xx or with a stream that broke. */
const modelHealth = schema.object({
  // empty: no model was found
  slug: string,
  ...requests,
  upstream_failed: count,
  recent_requests: schema.described(count, 'in the present hour and the one before'),
  recent_upstream_failed: count,
  // of those that were served; null when none was
  mean_ms: numberOrNull,
});

/** A model whose upstream told no usage of some whole answers, or none that can be: their tokens are estimated. */
const untoldUsage = schema.object({ slug: string, requests: count, estimated: count });

/**
 * A model whose upstream told tokens in members of a usage that are not read: they may be missing in its rows. Or that was
 * served by a tier without a rate, "service_tier=NAME": it is booked at the base price.
 */
const unreadUsage = schema.object({ slug: string, members: schema.array(string) });

/** One gateway process. */
const gateway = schema.object({
  id: string,
  name: string,
  version: string,
  started_at: instant,
  last_seen_at: instant,
  // not seen for a minute
  gone: schema.boolean,
  // records that are not yet in the database, and for how many seconds the oldest has waited
  backlog: count,
  oldest_seconds: number,
  lost: count,
  spool_failing: schema.boolean,
  limits_alone: schema.boolean,
  requests_in_flight: count,
});

const daySpend = schema.object({ day, model: string, cost_eur: sum });

/** All of it, as administration over HTTP answers. Lists have those with most requests first, and changes the newest. */
export const OVERVIEW = schema.object({
  at: instant,
  today: schema.object(period),
  // in-app chat of the month counts toward budgets, and is not in the sums of calls
  month: schema.object({ ...period, chat_eur: sum }),
  budgets: schema.object({
    total: count,
    used_up: count,
    nearest: schema.array(nearBudget, 'those that end soon first, then those used up, then others'),
  }),
  spend: schema.array(daySpend, 'of all companies in the last thirty days, by day and model'),
  request_days: schema.array(requestDay, 'requests of the last thirty days; empty: none is known'),
  refused_now: schema.array(
    refused,
    'errors of companies in the present hour and the one before, those with most requests first; company null: without a valid key',
  ),
  last_day: schema.described(lastDay, 'requests of the last 24 hours'),
  // empty, too, where no gateway keeps the request trail
  models: schema.array(modelHealth, 'of the last 24 hours'),
  untold_usage: schema.array(
    untoldUsage,
    'models whose upstream told no usage of some whole answers of yesterday and today: how many of them are estimated',
  ),
  unread_usage: schema.array(
    unreadUsage,
    'models whose upstream told tokens by names that are not read, or service_tier=NAME, a tier without a rate, which is booked at the base price; since gateways started',
  ),
  // records that Postgres refused, kept in api_usage_set_aside
  set_aside: count,
  // events that a receiver did not take for a day
  dead_deliveries: count,
  failing_deliveries: schema.described(
    count,
    'those that have failed for some minutes, and are tried again',
  ),
  gateways: schema.array(gateway),
  tenant_role_advice: schema.described(
    textOrNull,
    'SQL by which row-level security between companies begins to hold; null: it holds',
  ),
  has_operator: schema.described(schema.boolean, 'whether anybody can sign in as an operator'),
  changes: schema.array(schema.object({ at: instant, who: string, what: string })),
});

export type Overview = schema.Value<typeof OVERVIEW>;
export type Period = Overview['today'];
export type NearBudget = schema.Value<typeof nearBudget>;
export type DaySpend = schema.Value<typeof daySpend>;
export type RequestDay = schema.Value<typeof requestDay>;
export type RefusedNow = schema.Value<typeof refused>;
export type LastDay = schema.Value<typeof lastDay>;
export type ModelHealth = schema.Value<typeof modelHealth>;
export type UnreadUsage = schema.Value<typeof unreadUsage>;
export type GatewayRow = schema.Value<typeof gateway>;

/** What became of a request, as a picture tells it; "answered" has those whose client left, too. */
export const FATES = ['answered', 402, 429, 'refused', 'failed'] as const;
export type Fate = (typeof FATES)[number];

/** How many requests of a day had each fate. */
export function fatesOf({
  requests,
  refused,
  failed,
  reasons,
}: RequestDay): Readonly<Record<Fate, number>> {
  const counts = { 402: 0, 429: 0 };
  for (const [code, count] of Object.entries(reasons)) {
    const status = reasonOfCode(code).status;
    if (status !== null && status in counts) counts[status as keyof typeof counts] += count;
  }
  const told = Object.values(counts).reduce((sum, count) => sum + count, 0);
  return {
    ...counts,
    answered: requests - refused - failed,
    refused: Math.max(0, refused - told),
    failed,
  };
}

/** One problem in a sentence, and its remedy. */
export interface OverviewProblem {
  readonly text: string;
  readonly remedy: string;
  /** The page where it is mended. */
  readonly path: string;
}

const MAX_LAG_SECONDS = 60;
const HOUR_MS = 3_600_000;
/** A model with fewer requests says nothing. */
const LEAST_REQUESTS = 20;
const MAX_FAILED_SHARE = 0.05;
const MOST_MODELS = 5;

/** The present problems, the worst first; empty when all is well. */
export function problemsOf(overview: Overview): OverviewProblem[] {
  const running = overview.gateways.filter(({ gone }) => !gone);
  return [
    ...ofRecords(running, overview.set_aside),
    ...ofGateways(running, overview.gateways),
    ...ofTenantRole(overview.tenant_role_advice),
    ...ofModels(overview.models, Date.parse(overview.at)),
    ...ofDeliveries(overview),
  ];
}

function ofRecords(running: readonly GatewayRow[], setAside: number): OverviewProblem[] {
  const problems: OverviewProblem[] = [];
  const add = (text: string, remedy: string) => problems.push({ text, remedy, path: '/#gateways' });
  for (const { name, lost } of running) {
    if (lost > 0)
      add(
        `${name} lost ${records(lost)}.`,
        'Neither disk nor database took them. Look at its log and its disk.',
      );
  }
  for (const { name, spool_failing } of running) {
    if (spool_failing)
      add(
        `The disk of ${name} refuses usage records, or does not give them back.`,
        'Its log says why. Free space in its SPOOL_DIR: records that the disk refused are lost if it dies.',
      );
  }
  for (const { name, backlog, oldest_seconds } of running) {
    if (oldest_seconds > MAX_LAG_SECONDS)
      add(
        `${name} has ${records(backlog)} not yet in the database, the oldest for ${duration(oldest_seconds)}.`,
        'Its log says if the database refuses them, and why. Otherwise look for a transaction that was left open, and at the load of Postgres.',
      );
  }
  if (setAside > 0) {
    const remedy =
      'The table api_usage_set_aside has each record with its reason. Book it by hand, then delete the row.';
    add(`The database refused ${records(setAside)}, kept aside.`, remedy);
  }
  return problems;
}

function ofGateways(
  running: readonly GatewayRow[],
  gateways: readonly GatewayRow[],
): OverviewProblem[] {
  const problems: OverviewProblem[] = [];
  const add = (text: string, remedy: string) => problems.push({ text, remedy, path: '/#gateways' });
  if (running.length === 0) add('No gateway runs.', 'Start one with "tollgate serve".');
  for (const { name, gone, backlog } of gateways) {
    if (!gone) continue;
    // a gateway that runs is gone too where the database takes nothing, as when it is read-only
    const first = 'If it runs, its log says why it cannot write to the database. Otherwise';
    if (backlog === 0) {
      const remedy = `${first} start it again, or wait a day until it is forgotten if that was meant.`;
      add(`${name} is gone without a stop.`, remedy);
    } else {
      const remedy = `${first} start a gateway with its SPOOL_DIR. If that is lost, run: tollgate gateway forget ${name}`;
      add(`${name} is gone, and its spool had ${records(backlog)}.`, remedy);
    }
  }
  for (const { name, limits_alone } of running) {
    if (limits_alone)
      add(
        `${name} counts limits alone.`,
        'It cannot reach the database for the limits of the others.',
      );
  }
  const versions = [...new Set(running.map(({ version }) => version))].sort();
  if (versions.length > 1) {
    add(
      `Gateways of different versions run: ${versions.join(', ')}.`,
      'Replace the older ones, unless an upgrade is on its way.',
    );
  }
  return problems;
}

function ofTenantRole(advice: string | null): OverviewProblem[] {
  if (advice === null) return [];
  return [{ text: NO_TENANT_ROLE.text, remedy: NO_TENANT_ROLE.remedy(advice), path: '/#gateways' }];
}

/**
 * The text when nothing is wrong. It says what was checked, and what was not. A company all of whose requests are
 * refused has a problem, which nobody but its people can judge.
 */
export function wellText(
  { requests, refused, reasons }: LastDay,
  counts = (count: number) => `${count}`,
): string {
  const well = 'All is well with gateways, usage records, upstreams and deliveries of events.';
  const others = `${well} Refused requests and budgets are not judged here:`;
  if (requests === 0) return `${others} no request of the last 24 hours is known.`;
  if (refused === 0)
    return `${others} none of ${counts(requests)} requests was refused in the last 24 hours.`;
  const most = reasons.find(({ code }) => isRefusal(code));
  const why =
    most === undefined
      ? ''
      : `, ${counts(most.requests)} of them for “${reasonOfCode(most.code).text}”`;
  return `${others} ${counts(refused)} of ${counts(requests)} requests were refused in the last 24 hours${why}.`;
}

/** The first whole hour of the last 24, or fewer, as sums by the hour have it. ISO 8601. @param now milliseconds since the epoch */
export function firstHour(now: number, hours = 24): string {
  return new Date(Math.floor(now / HOUR_MS - hours + 1) * HOUR_MS).toISOString();
}

function ofModels(models: readonly ModelHealth[], now: number): OverviewProblem[] {
  return models
    .map((model) => ({ slug: model.slug, ...judged(model) }))
    .filter(
      ({ requests, failed }) => requests >= LEAST_REQUESTS && failed > requests * MAX_FAILED_SHARE,
    )
    .slice(0, MOST_MODELS)
    .map(({ slug, requests, failed, when, hours }) => ({
      text: `The upstream failed ${failed} of ${requests} requests for ${slug} in ${when}.`,
      remedy:
        'Read what it said, ask the router for the reason, or give the model another upstream.',
      path: `/requests?${new URLSearchParams({ model: slug, status: 'upstream_failed', from: firstHour(now, hours) })}`,
    }));
}

/** The last hours where they tell enough: an outage is then told within minutes, and no longer once it is over. */
function judged({
  requests,
  upstream_failed,
  recent_requests,
  recent_upstream_failed,
}: ModelHealth) {
  return recent_requests >= LEAST_REQUESTS
    ? {
        requests: recent_requests,
        failed: recent_upstream_failed,
        when: 'this hour and the one before',
        hours: 2,
      }
    : { requests, failed: upstream_failed, when: 'the last 24 hours', hours: 24 };
}

function ofDeliveries({
  dead_deliveries: dead,
  failing_deliveries: failing,
}: Overview): OverviewProblem[] {
  const problems: OverviewProblem[] = [];
  if (failing > 0) {
    problems.push({
      text:
        failing === 1 ? 'A delivery of an event fails.' : `${failing} deliveries of events fail.`,
      remedy:
        'Mend the receiver; "tollgate event list" has the error. They are tried for a day, then given up.',
      path: '/events?state=failing',
    });
  }
  if (dead > 0) {
    problems.push({
      text:
        dead === 1
          ? 'A delivery of an event was given up.'
          : `${dead} deliveries of events were given up.`,
      remedy: 'Mend the receiver, then send them again.',
      path: '/events?state=dead',
    });
  }
  return problems;
}

function records(count: number): string {
  return count === 1 ? '1 usage record' : `${count} usage records`;
}
