import type { RecentChange } from '../wording/change-text.ts';
import { duration, NO_TENANT_ROLE } from '../wording/start-notice.ts';
import { isRefusal, type ReasonCount, reasonOfCode } from './request-explanation.ts';

/** The state of a whole installation, for operators, and the problems in it. EUR amounts are exact decimal text. */

/** Sums over API calls of all companies. */
interface Totals {
  readonly requests: number;
  readonly tokens: number;
  readonly cost_eur: string;
}

/** A day or a month that is not over. */
export interface Period extends Totals {
  /** First day, "2026-11-21". */
  readonly begins: string;
  /** Up to the same time of the day or month before; between two marks it is interpolated. */
  readonly before: Totals;
  readonly spenders: readonly Spender[];
}

/** One of the companies that spend most. */
export interface Spender {
  readonly id: string;
  /** null: the company was removed. */
  readonly name: string | null;
  readonly cost_eur: string;
  /** Percent of what all companies spend, with one decimal; null when that is nothing. */
  readonly share: number | null;
}

/** A budget that is used to 80 %, or will be passed at this pace. */
export interface NearBudget {
  readonly company: { readonly id: string; readonly name: string };
  /** null: the budget of the company itself. */
  readonly key: { readonly id: string; readonly name: string; readonly prefix: string } | null;
  readonly budget_eur: string;
  readonly spent_eur: string;
  /** The spend in percent of the budget, with one decimal. */
  readonly percent: number;
  /** Percent of the budget at the end of the month; null in its first two days. */
  readonly forecast_percent: number | null;
  /** The day on which it is reached at this pace; null: reached already, or not in this month. */
  readonly reached_on: string | null;
  /** Addresses of owners of the company, the first ones. */
  readonly owners: readonly string[];
}

/** What all companies spent on a day with one model. */
export interface DaySpend {
  readonly day: string;
  readonly model: string;
  readonly cost_eur: string;
}

/** The requests of a day of all companies, and of none. Its hours are those that begin on it. */
export interface RequestDay {
  readonly day: string;
  /** Its first hour, and the first one after it; ISO 8601. */
  readonly begins: string;
  readonly ends: string;
  readonly requests: number;
  readonly refused: number;
  readonly failed: number;
  readonly reasons: Readonly<Record<string, number>>;
  /** Milliseconds of requests that were not refused, up to a quarter of an hour ago; null: none is known. */
  readonly p50: number | null;
  readonly p95: number | null;
}

/** Requests of one company that got the same error in the present hour or the one before. */
export interface RefusedNow extends ReasonCount {
  /** null: requests without a valid key. The name is null for a removed company. */
  readonly company: { readonly id: string; readonly name: string | null } | null;
  /** All requests of the company in that time. */
  readonly of: number;
  readonly owners: readonly string[];
}

/** What became of a request, as a picture tells it; "answered" has those whose client left, too. */
export const FATES = ['answered', 402, 429, 403, 401, 'refused', 'failed'] as const;
export type Fate = (typeof FATES)[number];

/** How many requests of a day had each fate. */
export function fatesOf({ requests, refused, failed, reasons }: RequestDay): Readonly<Record<Fate, number>> {
  const counts = { 401: 0, 402: 0, 403: 0, 429: 0 };
  for (const [code, count] of Object.entries(reasons)) {
    const status = reasonOfCode(code).status;
    if (status !== null && status in counts) counts[status as keyof typeof counts] += count;
  }
  const told = Object.values(counts).reduce((sum, count) => sum + count, 0);
  return { ...counts, answered: requests - refused - failed, refused: Math.max(0, refused - told), failed };
}

/** One gateway process. */
export interface GatewayRow {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  /** ISO 8601. */
  readonly started_at: string;
  readonly last_seen_at: string;
  /** Not seen for a minute. */
  readonly gone: boolean;
  /** Records that are not yet in the database, and for how many seconds the oldest has waited. */
  readonly backlog: number;
  readonly oldest_seconds: number;
  readonly lost: number;
  readonly spool_failing: boolean;
  readonly limits_alone: boolean;
  readonly requests_in_flight: number;
}

/** Requests for a model in the present hour and the 23 before. */
export interface ModelHealth {
  /** Empty: no model was found. */
  readonly slug: string;
  readonly requests: number;
  /** Answered with 4xx. */
  readonly refused: number;
  /** Answered with 5xx, or with a stream that broke. */
  readonly failed: number;
  readonly upstream_failed: number;
  /** Those of them in the present hour and the one before. */
  readonly recent_requests: number;
  readonly recent_upstream_failed: number;
  /** Mean of the requests that were served; null when none was. */
  readonly mean_ms: number | null;
}

/** A model whose upstream told no usage of some whole answers, or none that can be: their tokens are estimated. */
export interface UntoldUsage {
  readonly slug: string;
  /** Whole answers of yesterday and today. */
  readonly requests: number;
  /** Those of them that are estimated. */
  readonly estimated: number;
}

/** An error that requests got. */
export interface Reason extends ReasonCount {
  /** How many companies got it. */
  readonly companies: number;
  /** The one that got it most often; null: requests without a valid key. The name is null for a removed one. */
  readonly most: { readonly id: string; readonly name: string | null; readonly requests: number } | null;
}

/** Requests of all companies, and of none, in the present hour and the 23 before. */
export interface LastDay {
  readonly requests: number;
  readonly refused: number;
  readonly failed: number;
  /** Those with most requests first. */
  readonly reasons: readonly Reason[];
}

export interface Overview {
  /** ISO 8601. */
  readonly at: string;
  readonly today: Period;
  readonly month: Period & {
    /** In-app chat of the month, which counts toward budgets and is not in the sums of calls. */
    readonly chat_eur: string;
  };
  /** The nearest: those that end soon first, then those used up, then others. */
  readonly budgets: { readonly total: number; readonly used_up: number; readonly nearest: readonly NearBudget[] };
  /** The last thirty days, today included, those with calls. */
  readonly spend: readonly DaySpend[];
  readonly last_day: LastDay;
  /** Each of the last thirty days. Empty where no request is known. */
  readonly request_days: readonly RequestDay[];
  /** Those with most requests first. */
  readonly refused_now: readonly RefusedNow[];
  /** Those with most requests first. Empty where there were none, or no gateway keeps the request trail. */
  readonly models: readonly ModelHealth[];
  /** Those with most estimated answers first. */
  readonly untold_usage: readonly UntoldUsage[];
  /** Records that Postgres refused, kept in api_usage_set_aside. */
  readonly set_aside: number;
  readonly gateways: readonly GatewayRow[];
  /** Events that a receiver did not take for a day. */
  readonly dead_deliveries: number;
  /** Those that have failed for some minutes, and are tried again. */
  readonly failing_deliveries: number;
  /** The SQL by which row-level security between companies begins to hold; null: it holds. */
  readonly tenant_role_advice: string | null;
  /** Newest first. */
  readonly changes: readonly RecentChange[];
  /** Whether anybody can sign in to see all companies. */
  readonly has_operator: boolean;
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
      add(`${name} lost ${records(lost)}.`, 'Neither disk nor database took them. Look at its log and its disk.');
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

function ofGateways(running: readonly GatewayRow[], gateways: readonly GatewayRow[]): OverviewProblem[] {
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
    if (limits_alone) add(`${name} counts limits alone.`, 'It cannot reach the database for the limits of the others.');
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
export function wellText({ requests, refused, reasons }: LastDay, counts = (count: number) => `${count}`): string {
  const well = 'All is well with gateways, usage records, upstreams and deliveries of events.';
  const others = `${well} Refused requests and budgets are not judged here:`;
  if (requests === 0) return `${others} no request of the last 24 hours is known.`;
  if (refused === 0) return `${others} none of ${counts(requests)} requests was refused in the last 24 hours.`;
  const most = reasons.find(({ code }) => isRefusal(code));
  const why = most === undefined ? '' : `, ${counts(most.requests)} of them for “${reasonOfCode(most.code).text}”`;
  return `${others} ${counts(refused)} of ${counts(requests)} requests were refused in the last 24 hours${why}.`;
}

/** The first whole hour of the last 24, or fewer, as sums by the hour have it. ISO 8601. @param now milliseconds since the epoch */
export function firstHour(now: number, hours = 24): string {
  return new Date(Math.floor(now / HOUR_MS - hours + 1) * HOUR_MS).toISOString();
}

function ofModels(models: readonly ModelHealth[], now: number): OverviewProblem[] {
  return models
    .map((model) => ({ slug: model.slug, ...judged(model) }))
    .filter(({ requests, failed }) => requests >= LEAST_REQUESTS && failed > requests * MAX_FAILED_SHARE)
    .slice(0, MOST_MODELS)
    .map(({ slug, requests, failed, when, hours }) => ({
      text: `The upstream failed ${failed} of ${requests} requests for ${slug} in ${when}.`,
      remedy: 'Read what it said, ask the router for the reason, or give the model another upstream.',
      path: `/requests?${new URLSearchParams({ model: slug, from: firstHour(now, hours) })}`,
    }));
}

/** The last hours where they tell enough: an outage is then told within minutes, and no longer once it is over. */
function judged({ requests, upstream_failed, recent_requests, recent_upstream_failed }: ModelHealth) {
  return recent_requests >= LEAST_REQUESTS
    ? { requests: recent_requests, failed: recent_upstream_failed, when: 'this hour and the one before', hours: 2 }
    : { requests, failed: upstream_failed, when: 'the last 24 hours', hours: 24 };
}

function ofDeliveries({ dead_deliveries: dead, failing_deliveries: failing }: Overview): OverviewProblem[] {
  const problems: OverviewProblem[] = [];
  if (failing > 0) {
    problems.push({
      text: failing === 1 ? 'A delivery of an event fails.' : `${failing} deliveries of events fail.`,
      remedy: 'Mend the receiver; "tollgate event list" has the error. They are tried for a day, then given up.',
      path: '/events?state=undelivered',
    });
  }
  if (dead > 0) {
    problems.push({
      text: dead === 1 ? 'A delivery of an event was given up.' : `${dead} deliveries of events were given up.`,
      remedy: 'Mend the receiver, then send them again.',
      path: '/events?state=dead',
    });
  }
  return problems;
}

function records(count: number): string {
  return count === 1 ? '1 usage record' : `${count} usage records`;
}
