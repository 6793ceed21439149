/** Events of companies, and how webhooks send them to programs. Budget alerts are events too. */

/**
 * One event of a company. It has the members of the webhook's body, and each type has some of its own. An event stores
 * no names: those of the present are sent.
 */
export interface CompanyEvent {
  /** The same however often the event is sent. */
  readonly id: string;
  /** Its kind: "key.revoked". */
  readonly type: string;
  readonly company: { readonly id: string; readonly name: string };
  /** ISO 8601. */
  readonly occurred_at: string;
  readonly [member: string]: unknown;
}

export type Channel = 'webhook' | 'email';

/** An event on its way to one receiver. */
export interface Delivery {
  readonly event: CompanyEvent;
  readonly channel: Channel;
  /** An e-mail address; empty for the webhook. */
  readonly recipient: string;
  /** Of the receiver: the person's, else the company's; null: neither is set, or the receiver is no person of it. */
  readonly language: string | null;
  /** Id of the line by which an address outside the company is told; null for people of the company and of the operator. */
  readonly outsider: string | null;
  /** Attempts that failed so far. */
  readonly attempts: number;
}

/** The kind that says that the month of a company was closed. */
export const CLOSED_MONTH = 'statement.closed';

/** What goes in one message: an event, or all alerts that one address is told by e-mail of one company. */
export function messageOf({ channel, recipient, event }: Delivery): string {
  const isAlert = channel === 'email' && event.type !== CLOSED_MONTH;
  return `${isAlert ? event.company.id : event.id} ${recipient}`;
}

/** Kinds, and the first part of each, which stands for all of that part. */
// biome-ignore format: a table
export const EVENT_KINDS = [
  'budget', 'budget.threshold', 'budget.forecast',
  'company', 'company.closed', 'company.reopened', 'company.paused', 'company.resumed',
  'cost_center', 'cost_center.threshold', 'cost_center.forecast',
  'end_user', 'end_user.threshold',
  'key', 'key.created', 'key.rotated', 'key.revoked', 'key.paused', 'key.resumed',
  'statement', 'statement.closed',
  'unusual', 'unusual.spend', 'unusual.refused', 'unusual.failed', 'unusual.latency',
] as const;

/** What lists of events filter by: failed so far, or given up; failed for 7 minutes, and tried again; given up. */
export const EVENT_STATES = ['undelivered', 'failing', 'dead'] as const;
export type EventState = (typeof EVENT_STATES)[number];

/** Percents of a budget that are told unless somebody chose others, and that operators are told always. */
export const STANDARD_PERCENTS: readonly number[] = [50, 80, 100];
/** The threshold that says that at its pace the month passes the budget. */
export const FORECAST = 'forecast';

/** Where a receiver outside a company says that it wants no more alerts, below the address of the administration pages. */
export const STOP_PATH = '/alert-receiver/stop/';
/** Where it agrees to get them. */
export const CONFIRM_PATH = '/alert-receiver/confirm/';

/** Days for which events and their deliveries are kept. */
export const EVENT_DAYS = 90;

const FIRST_PAUSE_SECONDS = 10;
const MAX_PAUSE_SECONDS = 6 * 3600;
const MAX_ATTEMPTS = 12;

/**
 * The pause after a failed attempt: 10 s, 30 s, 90 s and so on up to six hours, a day in all, each longer
 * or shorter by up to a quarter so that many do not return at once.
 * @param attempts those that failed, from 1
 * @param random from 0 to 1
 * @returns seconds; null: there is no further attempt
 */
export function pauseAfter(attempts: number, random: number): number | null {
  if (attempts >= MAX_ATTEMPTS) return null;
  return (
    Math.min(FIRST_PAUSE_SECONDS * 3 ** (attempts - 1), MAX_PAUSE_SECONDS) * (0.75 + random / 2)
  );
}
